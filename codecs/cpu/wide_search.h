/* wide_search.h - NVFP4's encoders that search: sixteen groups at a time, one in each lane.
 *
 * A sum in order cannot be split over lanes, but the sums of different groups can lie side by side.
 * The elements of sixteen groups are turned so that those of one place are neighbours, and each
 * candidate is tried on all of them at once.
 *
 * Errors only grow while they are summed, for fp32 addition is monotonic and no term is negative.
 * So a candidate whose error of one element, or of the first few, has reached the least known error
 * in every lane is dropped: it could not have won. The reference would have found the same.
 *
 * 4/6 has two candidates alone. wide_fp4.h knows the better one of almost all groups of bfloat16;
 * for the others the elements of a group stay beside each other: a scale knows eight magnitudes, so
 * what each makes of its codes is looked up instead of divided, in a ladder of scales. Only the
 * errors are turned, to be summed. */
#ifndef KERF_WIDE_SEARCH_H
#define KERF_WIDE_SEARCH_H

#include "cpu/wide_fp4.h"

enum { LANES = 16, CHECK_EVERY = 8 };

/* A candidate. */
typedef struct trial {
    uint32_t bits;
    kf_quant q;
    float value; /* of the bits */
} trial;

typedef struct lanes {
    float x[16 * LANES]; /* element i of the group in lane k at i * LANES + k */
    float amax[LANES];
    uint32_t own_bits[LANES]; /* candidates that differ between lanes */
    float own_factor[LANES], own_value[LANES];
    int32_t own_dead[LANES];
    float error[LANES];
    uint32_t best_bits[LANES]; /* the best one so far */
    float least[LANES];
} lanes;

KF_HD trial trial_of(const kf_tensor *t, uint32_t bits)
{
    trial c = {bits, kf_nvfp4_multiplier(t, bits), kf_e4m3_decode(bits)};
    return c;
}

/* The candidates of 4/6 in every lane: step 0 or 1. */
KF_HD void prepare_own(const kf_tensor *t, int step, lanes *v)
{
    for (size_t k = 0; k < LANES; k++) {
        uint32_t six, four;
        kf_nvfp4_six_and_four(t, v->amax[k], &six, &four);
        trial c = trial_of(t, step == 0 ? six : four);
        v->own_bits[k] = c.bits;
        v->own_factor[k] = c.q.factor;
        v->own_dead[k] = c.q.dead;
        v->own_value[k] = c.value;
    }
}

/* The candidate of a lane: its own, or the one that all lanes share. */
KF_HD trial trial_at(const lanes *v, size_t k, int own, trial shared)
{
    if (!own) return shared;
    trial c = shared;
    c.bits = v->own_bits[k];
    c.value = v->own_value[k];
    c.q.factor = v->own_factor[k];
    c.q.dead = v->own_dead[k];
    c.q.encoder = KERF_ENC_NVFP4_AMAX;
    return c;
}

KF_HD float add_error(kf_spec s, int encoder, const kf_tensor *t, trial c, float err, float x)
{
    return kf_nvfp4_add_error(s, encoder, t, c.q, c.value, err, x);
}

/* 0 when the largest element alone shows that a scale is too bad; its sign does not matter. */
KF_HD int has_chance(kf_spec s, int encoder, const kf_tensor *t, trial c, const lanes *v)
{
    uint32_t open = 0;
    for (size_t k = 0; k < LANES; k++)
        open |= add_error(s, encoder, t, c, 0, v->amax[k]) < v->least[k];
    return open != 0;
}

/* Sums the errors of a candidate over all elements; 0 when it is too bad in every lane. */
KF_HD int sum_errors(kf_spec s, int encoder, const kf_tensor *t, int own, trial shared, lanes *v)
{
    float error[LANES] = {0};
    for (size_t at = 0; at < s.group; at += CHECK_EVERY) {
        for (size_t i = at; i < at + CHECK_EVERY; i++)
            for (size_t k = 0; k < LANES; k++)
                error[k] = add_error(s, encoder, t, trial_at(v, k, own, shared), error[k],
                                     v->x[i * LANES + k]);
        uint32_t open = (uint32_t)own; /* too few of those to give up early */
        for (size_t k = 0; k < LANES; k++) open |= error[k] <= v->least[k];
        if (!open) return 0;
    }
    memcpy(v->error, error, sizeof error);
    return 1;
}

/* Without branches: which lanes improve is as good as random. */
KF_HD void keep_better(int own, trial shared, lanes *v)
{
    for (size_t k = 0; k < LANES; k++) {
        uint32_t better = v->error[k] < v->least[k] ? UINT32_MAX : 0;
        uint32_t bits = own ? v->own_bits[k] : shared.bits;
        v->best_bits[k] = (bits & better) | (v->best_bits[k] & ~better);
    }
    for (size_t k = 0; k < LANES; k++) v->least[k] = kf_min(v->least[k], v->error[k]);
}

/* The first of equals wins in this order: the two of 4/6, then every scale. */
KF_HD void search_lanes(kf_spec s, int encoder, const kf_tensor *t, lanes *v)
{
    trial shared = {0};
    prepare_own(t, 0, v);
    sum_errors(s, encoder, t, 1, shared, v);
    memcpy(v->least, v->error, sizeof v->least);
    memcpy(v->best_bits, v->own_bits, sizeof v->best_bits);
    prepare_own(t, 1, v);
    sum_errors(s, encoder, t, 1, shared, v);
    keep_better(1, shared, v);
    for (uint32_t bits = 1; bits <= (encoder == KERF_ENC_NVFP4_SWEEP ? 0x7e : 0); bits++) {
        shared = trial_of(t, bits);
        if (!has_chance(s, encoder, t, shared, v)) continue;
        if (sum_errors(s, encoder, t, 0, shared, v)) keep_better(0, shared, v);
    }
}

/* Turns up to sixteen groups of the tile into lanes; groups that are not there
 * are zeros. */
KF_HD void turn_groups(kf_spec s, const kf_tile *t, size_t first, size_t n, lanes *v)
{
    for (size_t k = 0; k < LANES; k++) v->amax[k] = k < n ? float_of(t->high[first + k]) : 0;
#if KF_VEC_TURN
    if (n == LANES && s.group == 16) {
        vec_turn(t->x + first * s.group, v->x);
        return;
    }
#endif
    for (size_t k = 0; k < LANES; k++) {
        const float *x = t->x + (first + k) * s.group;
        for (size_t i = 0; i < s.group; i++) v->x[i * LANES + k] = k < n ? x[i] : 0;
    }
}

/* The n elements of a group, which the tile may not have as fp32 yet. */
KF_HD const float *group_numbers(size_t group, size_t n, kf_tile *t)
{
    float *restrict x = t->x + 16 * group;
    if (!t->pairs) return x;
    const uint8_t *restrict src = t->pairs + 32 * group;
    for (size_t i = 0; i < n; i++) x[i] = kf_load(KERF_BF16, src, i);
    return x;
}

/* What the codes of the groups need to know of their scales. */
KF_HD void keep_multipliers(const kf_tensor *t, size_t groups, kf_tile *tile)
{
    for (size_t i = 0; i < groups; i++) {
        kf_quant q = kf_nvfp4_multiplier(t, tile->bits[i]);
        tile->factor[i] = q.factor;
        tile->dead[i] = q.dead;
    }
}

/* Chooses the scales of `groups` whole groups of the tile. */
KF_HD void search_metric(kf_spec s, int encoder, const kf_tensor *tensor, size_t groups, kf_tile *t)
{
    const kf_tensor own = *tensor;
    lanes v;
    for (size_t first = 0; first < groups; first += LANES) {
        size_t n = groups - first < LANES ? groups - first : LANES;
        turn_groups(s, t, first, n, &v);
        search_lanes(s, encoder, &own, &v);
        memcpy(t->bits + first, v.best_bits, sizeof v.best_bits);
    }
    keep_multipliers(&own, groups, t);
}

#if KF_VEC_PAIRS

enum { E4M3_SCALES = 128, E2M1_NUMBERS = 8, FEW_ROWS = 4 };

typedef struct ladder { /* of stored scales, as far as they are known */
    float factor[E4M3_SCALES], value[E4M3_SCALES][E2M1_NUMBERS];
    uint8_t known[E4M3_SCALES];
} ladder;

typedef struct pair { /* of candidates for sixteen groups */
    float error[2][16 * LANES], sum[2][LANES];
} pair;

KF_HD uint32_t learn_scale(const kf_tensor *t, uint32_t bits, ladder *l)
{
    static const float magnitude[E2M1_NUMBERS] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    if (l->known[bits]) return bits;
    const float value = kf_e4m3_decode(bits);
    for (size_t i = 0; i < E2M1_NUMBERS; i++)
        l->value[bits][i] = kf_nvfp4_restored(t, value, magnitude[i]);
    l->factor[bits] = kf_nvfp4_multiplier(t, bits).factor;
    l->known[bits] = 1;
    return bits;
}

/* Adds up each of n rows of sixteen from its first, or finds its largest. */
KF_HD void sum_rows(int largest, size_t n, float *error, float *sum)
{
    float turned[16 * LANES];
    if (n < FEW_ROWS) {
        for (size_t k = 0; k < n; k++, error += 16) {
            sum[k] = error[0];
            for (size_t i = 1; i < 16; i++)
                sum[k] = largest ? kf_max(sum[k], error[i]) : sum[k] + error[i];
        }
        return;
    }
    if (n < LANES) memset(error + 16 * n, 0, (LANES - n) * 16 * sizeof *error);
    vec_turn(error, turned);
    vec_sum_columns(largest, turned, sum);
}

/* Of up to sixteen groups, listed by their numbers, the better one of two scales: as the reference
 * finds it. Without branches: which is better is as good as random. */
KF_HD void take_better(int encoder, const kf_tensor *tensor, size_t n, const uint32_t *group,
                       const rivals *r, ladder *l, pair *p, kf_tile *t)
{
    const int absmax = encoder == KERF_ENC_NVFP4_FOS_ABSMAX;
    const int squares = encoder == KERF_ENC_NVFP4_FOS_MSE;
    for (size_t k = 0; k < n; k++) {
        const uint32_t a = learn_scale(tensor, r->six[group[k]], l);
        const uint32_t b = learn_scale(tensor, r->four[group[k]], l);
        const float *x = group_numbers(group[k], 16, t);
        vec_try_e2m1(x, l->factor[a], l->value[a], squares, p->error[0] + 16 * k);
        vec_try_e2m1(x, l->factor[b], l->value[b], squares, p->error[1] + 16 * k);
    }
    for (size_t c = 0; c < 2; c++) sum_rows(absmax, n, p->error[c], p->sum[c]);
    for (size_t k = 0; k < n; k++) {
        const uint32_t i = group[k], takes_four = p->sum[1][k] < p->sum[0][k];
        t->bits[i] = r->six[i] ^ ((r->six[i] ^ r->four[i]) & (0u - takes_four));
    }
}

/* Which groups need a look at every fp32 error: those of which fixed point does not know. */
KF_HD size_t list_doubtful(int encoder, const kf_tensor *tensor, size_t groups, rivals *r,
                           uint32_t *list, kf_tile *t)
{
    const error_metric metric = encoder == KERF_ENC_NVFP4_FOS_MSE   ? SQUARES
                                : encoder == KERF_ENC_NVFP4_FOS_MAE ? MAGNITUDES
                                                                    : LARGEST;
    if (t->pairs)
        return judge_groups(metric, tensor->inv_encode, t->pairs, groups, r, t->bits, list);
    for (size_t i = 0; i < groups; i++) list[i] = (uint32_t)i;
    return groups;
}

/* Chooses the scales of `groups` whole groups of the tile. */
KF_HD void search_pairs(int encoder, const kf_tensor *tensor, size_t groups, kf_tile *t)
{
    const kf_tensor own = *tensor;
    uint32_t list[KF_TILE_GROUPS];
    rivals r;
    ladder l;
    pair p;
    r.amax = t->high;
    for (size_t i = 0; i < groups; i++)
        kf_nvfp4_six_and_four(&own, float_of(t->high[i]), &r.six[i], &r.four[i]);
    const size_t n = list_doubtful(encoder, &own, groups, &r, list, t);
    memset(l.known, 0, sizeof l.known);
    for (size_t at = 0; at < n; at += LANES)
        take_better(encoder, &own, n - at < LANES ? n - at : LANES, list + at, &r, &l, &p, t);
    keep_multipliers(&own, groups, t);
}

#endif

KF_HD void search_two(kf_spec s, int encoder, const kf_tensor *tensor, size_t groups, kf_tile *t)
{
#if KF_VEC_PAIRS
    if (s.group == 16) {
        search_pairs(encoder, tensor, groups, t);
        return;
    }
#endif
    search_metric(s, encoder, tensor, groups, t);
}

/* Encoders of one metric differ in the scale of the matrix alone. */
KF_HD void search_run(kf_spec s, int encoder, const kf_tensor *tensor, size_t groups, kf_tile *t)
{
    switch (encoder) {
    case KERF_ENC_NVFP4_SWEEP: search_metric(s, KERF_ENC_NVFP4_SWEEP, tensor, groups, t); return;
    case KERF_ENC_NVFP4_FOS_MAE:
    case KERF_ENC_NVFP4_FOS_MAE_448:
        search_two(s, KERF_ENC_NVFP4_FOS_MAE, tensor, groups, t);
        return;
    case KERF_ENC_NVFP4_FOS_ABSMAX:
    case KERF_ENC_NVFP4_FOS_ABSMAX_448:
        search_two(s, KERF_ENC_NVFP4_FOS_ABSMAX, tensor, groups, t);
        return;
    default: search_two(s, KERF_ENC_NVFP4_FOS_MSE, tensor, groups, t); return;
    }
}

#endif
