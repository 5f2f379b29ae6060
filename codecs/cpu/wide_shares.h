/* wide_shares.h - the searches of integers: eighty scales for each group, sixteen at a time.
 *
 * Candidates keep 1, 0.99, ... 0.21 of the full range (block/int.h, block/affine.h); the least sum
 * of squared errors wins, of equals the first. Candidates lie side by side in lanes and elements
 * pass by, so each lane adds up its errors in the order that is asked for. What costs most then is
 * the division of every element by every scale. Hence two rounds:
 *
 *   sift     errors by products with 1 / scale, which are about right: who is above the least of
 *            them by more than both can be off has lost
 *   decide   where more than one is left, which is seldom: errors by division, as the reference
 *
 * How far an error can be off, u = 2^-24: a product with a reciprocal is 2 u of a quotient away
 * from the quotient, the division u. So both make the same code of an element unless the quotient
 * lies within 2.01 u B of the middle between two, B being the largest magnitude next to the codes.
 * Then either code is half a scale away, more or less by 3.01 u B of the scale, and the squares
 * differ by 32 u B of themselves at most. n - 1 additions are n u off on either way; sums so small
 * that squares may have vanished from them, below 2^-120, all count as equal. This needs
 * scales at which neither reciprocals nor squares of half a scale leave the range of normal
 * numbers; at others, and for rows of more than 2^17, all candidates go straight to `decide`.
 *
 * Errors only grow while they are added up. So sixteen candidates are dropped together when the
 * extremes of the group, or its first elements, are already too much for all of them. */
#ifndef KERF_WIDE_SHARES_H
#define KERF_WIDE_SHARES_H

#include "cpu/wide_tile.h"
#include "cpu/wide_value.h"

enum {
    SHARES = KF_SEARCH_STEPS,
    ABREAST = 16, /* candidates that pass an element together */
    ABREAST_VECS = ABREAST / VEC_LANES,
    LOOK_EVERY = 32, /* elements between two looks at who is still in */
    MOST_SIFTED = 1 << 17
};

_Static_assert(SHARES % ABREAST == 0, "candidates fill their vectors");

typedef struct shares {
    uint32_t bits[SHARES + 1], zero[SHARES]; /* as stored; one more fills its vector */
    float scale[SHARES], inverse[SHARES];
    float low[SHARES], high[SHARES]; /* of codes less their zero point */
    int32_t error[SHARES];           /* bits of a float, or OUT        */
} shares;

enum { OUT = INT32_MAX };

/* --- candidates --------------------------------------------------------------------------------
 */

KF_HD void list_symmetric(kf_spec s, float amax, shares *c)
{
    const float largest = kf_element_max(s.element);
    for (int i = 1; i <= SHARES; i++) c->bits[i] = kf_int_candidate(s, amax, i);
    c->bits[0] = kf_int_candidate(s, amax, 0);
    for (size_t i = 0; i < SHARES; i++) {
        c->zero[i] = 0;
        c->low[i] = -largest - 1;
        c->high[i] = largest;
    }
}

/* kf_affine_scale() for lo <= 0 <= hi in two steps, neither of which branches: so that a compiler
 * takes several candidates at once. */
KF_HD uint32_t affine_bits(kf_spec s, float lo, float hi)
{
    const float range = kf_min(hi - lo, KF_F32_MAX), least = range > 0 ? KF_F32_TINY : 1;
    return kf_scale_store(s.scale, kf_max(least, range / (float)kf_affine_levels(s)));
}
KF_HD uint32_t affine_zero(kf_spec s, float lo, float scale)
{
    return (uint32_t)kf_round_clamp(-lo / scale, 0, kf_affine_levels(s)) ^ kf_affine_flip(s);
}

KF_HD void list_affine(kf_spec s, float lo, float hi, shares *c)
{
    const float levels = (float)kf_affine_levels(s);
    for (int i = 0; i < SHARES; i++) {
        const float share = kf_search_share(i);
        c->bits[i] = affine_bits(s, lo * share, hi * share);
    }
    for (int i = 0; i < SHARES; i++) {
        const float scale = kf_scale_value(s.scale, c->bits[i]);
        c->zero[i] = affine_zero(s, lo * kf_search_share(i), scale);
    }
    for (size_t i = 0; i < SHARES; i++) {
        const kf_scale scale = {c->bits[i], c->zero[i]};
        c->low[i] = (float)-kf_affine_divisor(s, scale).zero;
        c->high[i] = levels + c->low[i];
    }
}

KF_HD void list_as(kf_spec s, extremes e, shares *c)
{
    if (s.family == KERF_FAMILY_AFFINE)
        list_affine(s, kf_min(e.x[0], 0), kf_max(e.x[1], 0), c);
    else
        list_symmetric(s, e.x[1], c);
    for (size_t i = 0; i < SHARES; i++) {
        c->scale[i] = kf_scale_value(s.scale, c->bits[i]);
        c->inverse[i] = 1.0f / c->scale[i];
    }
}

/* The type of scales as a literal. */
KF_STAGE void list_shares(kf_spec s, extremes e, shares *c)
{
    switch (s.scale) {
    case KERF_SCALE_F16:
        s.scale = KERF_SCALE_F16;
        list_as(s, e, c);
        return;
    case KERF_SCALE_BF16:
        s.scale = KERF_SCALE_BF16;
        list_as(s, e, c);
        return;
    default:
        s.scale = KERF_SCALE_F32;
        list_as(s, e, c);
        return;
    }
}

/* --- errors of sixteen -------------------------------------------------------------------------
 */

KF_HD vec_f share_vec(const float *p)
{
    return (vec_f)vec_load(p);
}

/* Adds the squared errors of n elements to those of the candidates from `first` on, in order:
 * divides: exactly, or else about. */
KF_HD void add_errors(int divides, const shares *c, size_t first, const float *x, size_t n,
                      vec_f error[ABREAST_VECS])
{
    vec_f scale[ABREAST_VECS], inverse[ABREAST_VECS], low[ABREAST_VECS], high[ABREAST_VECS];
    for (size_t v = 0; v < ABREAST_VECS; v++) {
        const size_t at = first + v * VEC_LANES;
        scale[v] = share_vec(c->scale + at);
        inverse[v] = share_vec(c->inverse + at);
        low[v] = share_vec(c->low + at);
        high[v] = share_vec(c->high + at);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t v = 0; v < ABREAST_VECS; v++) {
            const vec_f q = divides ? vec_all(x[i]) / scale[v] : x[i] * inverse[v];
            const vec_f d = vec_nearest(vec_within(low[v], q, high[v])) * scale[v] - x[i];
            error[v] = divides ? error[v] + d * d : vec_about(d, d, error[v]);
        }
    }
}

/* Bit k: error k is not above the limit. */
KF_HD uint32_t lanes_in(const vec_f error[ABREAST_VECS], float limit)
{
    uint32_t in = 0;
    for (size_t v = 0; v < ABREAST_VECS; v++)
        in |= vec_bits((vec_u)(error[v] <= limit)) << v * VEC_LANES;
    return in;
}

/* Whether the extremes alone leave one of the candidates in. Without signs the largest magnitude
 * may be of either. */
KF_HD int have_chance(int signs, const shares *c, size_t first, extremes e, float limit)
{
    vec_f low[ABREAST_VECS] = {0}, high[ABREAST_VECS] = {0};
    const float least = signs ? e.x[0] : -e.x[1];
    add_errors(0, c, first, &least, 1, low);
    add_errors(0, c, first, &e.x[1], 1, high);
    const uint32_t a = lanes_in(low, limit), b = lanes_in(high, limit);
    return (signs ? a & b : a | b) != 0;
}

/* The errors of sixteen candidates, about; OUT for all when none of them is in to the end. */
KF_HD void sift_lanes(shares *c, size_t first, const float *x, size_t n, float limit)
{
    vec_f error[ABREAST_VECS] = {0};
    for (size_t at = 0; at < n; at += LOOK_EVERY) {
        add_errors(0, c, first, x + at, n - at < LOOK_EVERY ? n - at : LOOK_EVERY, error);
        if (lanes_in(error, limit)) continue;
        for (size_t k = 0; k < ABREAST; k++) c->error[first + k] = OUT;
        return;
    }
    memcpy(c->error + first, error, sizeof error);
}

/* --- the choice --------------------------------------------------------------------------------
 */

/* How far above the least error a candidate may seem to be that is the best one. */
KF_HD float share_slack(kf_spec s, size_t n)
{
    const float next = s.family == KERF_FAMILY_AFFINE ? (float)kf_affine_levels(s) + 1
                                                      : kf_element_max(s.element) + 2;
    return 3 * (32 * next + 2.2f * (float)n) * 0x1p-24f;
}

/* Candidates that may be the best one, in their order; their number. */
KF_HD size_t sift(kf_spec s, extremes e, const float *x, size_t n, shares *c, uint8_t *list)
{
    const int signs = s.family == KERF_FAMILY_AFFINE;
    const int sifted = c->scale[0] >= 0x1p-40f && c->scale[0] <= 0x1p40f && n <= MOST_SIFTED;
    const float slack = share_slack(s, n);
    float limit = kf_float(0x7f800000u);
    int32_t least = 0x7f800000;
    size_t count = 0;
    for (size_t first = 0; first < SHARES; first += ABREAST) {
        for (size_t k = 0; k < ABREAST; k++) c->error[first + k] = sifted ? OUT : 0;
        if (!sifted || (first && !have_chance(signs, c, first, e, limit))) continue;
        sift_lanes(c, first, x, n, limit);
        for (size_t k = 0; k < ABREAST; k++)
            least = c->error[first + k] < least ? c->error[first + k] : least;
        limit = kf_float((uint32_t)least);
        limit = limit + limit * slack + 0x1p-120f;
    }
    for (size_t i = 0; i < SHARES; i++) {
        list[count] = (uint8_t)i;
        count += c->error[i] <= (int32_t)kf_bits(limit);
    }
    return count;
}

/* The first of the listed candidates with the least error. */
KF_STAGE size_t decide(const shares *c, const uint8_t *list, size_t count, const float *x, size_t n)
{
    size_t best = list[0];
    float least = 0;
    for (size_t at = 0; at < count; at += ABREAST) {
        shares own = *c;
        float error[ABREAST];
        vec_f sum[ABREAST_VECS] = {0};
        const size_t some = count - at < ABREAST ? count - at : ABREAST;
        for (size_t k = 0; k < some; k++) {
            own.scale[k] = c->scale[list[at + k]];
            own.low[k] = c->low[list[at + k]];
            own.high[k] = c->high[list[at + k]];
        }
        add_errors(1, &own, 0, x, n, sum);
        memcpy(error, sum, sizeof error);
        for (size_t k = 0; k < some; k++) {
            if ((at || k) && !(error[k] < least)) continue;
            least = error[k];
            best = list[at + k];
        }
    }
    return best;
}

KF_HD kf_scale best_share(kf_spec s, extremes e, const float *x, size_t n)
{
    shares c;
    uint8_t list[SHARES + 1];
    list_shares(s, e, &c);
    const size_t count = sift(s, e, x, n, &c, list);
    const size_t best = count > 1 ? decide(&c, list, count, x, n) : list[0];
    kf_scale scale = {c.bits[best], c.zero[best]};
    return scale;
}

KF_HD int is_share_search(int encoder)
{
    return kf_is_search(KERF_FAMILY_INT, encoder) || kf_is_search(KERF_FAMILY_AFFINE, encoder);
}

/* Chooses the scales of groups of `width` elements, the last one of `cols`, which lie at x and
 * whose extremes the tile knows. */
KF_STAGE void search_shares(kf_spec s, const float *x, size_t groups, size_t width, size_t cols,
                            kf_tile *t)
{
    const int affine = s.family == KERF_FAMILY_AFFINE;
    for (size_t i = 0; i < groups; i++, x += width) {
        const extremes e = extremes_at(t, i);
        const size_t n = i + 1 < groups ? width : cols;
        kf_scale scale;
        if (e.x[0] == 0 && e.x[1] == 0) {
            const kf_scale none = {kf_int_scale(s, 0), 0};
            scale = affine ? kf_affine_scale(s, 0, 0) : none;
        } else
            scale = best_share(s, e, x, n);
        keep_choice(s, scale, affine ? kf_affine_divisor(s, scale) : kf_int_divisor(s, scale.bits),
                    i, t);
    }
}

#endif
