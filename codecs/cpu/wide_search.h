/* wide_search.h - NVFP4's encoders that search.
 *
 * A scale knows eight magnitudes, so what each makes of its codes is looked up instead of divided,
 * in a ladder of scales. The elements of a group lie beside each other, a vector for each scale
 * that is tried on them; the errors of sixteen such vectors are turned, so that each sum is in
 * order.
 *
 * 4/6 has two candidates alone, and wide_fp4.h knows the better one of almost all groups of
 * bfloat16. The sweep has 126, in order of their numbers: it tries the sixteen next to 4/6's, and
 * then sixteen more above and below for as long as a bound leaves hope. Errors only grow while they
 * are summed, for fp32 addition is monotonic and no term is negative, so a part of the sum is a
 * bound: above, the elements whose codes are 0 under all larger scales; below, the largest element,
 * which ends at 6 under all smaller ones. */
#ifndef KERF_WIDE_SEARCH_H
#define KERF_WIDE_SEARCH_H

#include "cpu/wide_fp4.h"

enum { LANES = 16 };

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

/* --- 4/6 ---------------------------------------------------------------------------------------
 */

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
KF_HD void take_better(kf_metric metric, const kf_tensor *tensor, size_t n, const uint32_t *group,
                       const rivals *r, ladder *l, pair *p, kf_tile *t)
{
    const int absmax = metric == KF_METRIC_LARGEST;
    const int squares = metric == KF_METRIC_SQUARES;
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
KF_HD size_t list_doubtful(kf_metric metric, const kf_tensor *tensor, size_t groups, rivals *r,
                           uint32_t *list, kf_tile *t)
{
    if (t->pairs)
        return judge_groups(metric, tensor->inv_encode, t->pairs, groups, r, t->bits, list);
    for (size_t i = 0; i < groups; i++) list[i] = (uint32_t)i;
    return groups;
}

/* Chooses the scales of `groups` whole groups of the tile. */
KF_HD void search_pairs(kf_metric metric, const kf_tensor *tensor, size_t groups, kf_tile *t)
{
    const kf_tensor own = *tensor;
    uint32_t list[KF_TILE_GROUPS];
    rivals r;
    ladder l;
    pair p;
    r.amax = t->high;
    for (size_t i = 0; i < groups; i++)
        kf_nvfp4_six_and_four(&own, float_of(t->high[i]), &r.six[i], &r.four[i]);
    const size_t n = list_doubtful(metric, &own, groups, &r, list, t);
    memset(l.known, 0, sizeof l.known);
    for (size_t at = 0; at < n; at += LANES)
        take_better(metric, &own, n - at < LANES ? n - at : LANES, list + at, &r, &l, &p, t);
    keep_multipliers(&own, groups, t);
}

/* --- the sweep ---------------------------------------------------------------------------------
 */

enum { LAST_SCALE = 0x7e, BELOW_SIX = 4 /* scales of the first sixteen */ };

typedef struct sweep {
    float error[E4M3_SCALES]; /* Inf, where a scale was not tried */
    float least;
} sweep;

/* Tries the sixteen scales from `first` on. */
KF_HD void try_sixteen(const kf_tensor *t, uint32_t first, const float *x, ladder *l, sweep *w)
{
    float error[16 * LANES];
    int32_t least = (int32_t)kf_bits(w->least);
    for (uint32_t k = 0; k < LANES; k++) {
        const uint32_t bits = learn_scale(t, first + k, l);
        vec_try_e2m1(x, l->factor[bits], l->value[bits], 1, error + 16 * k);
    }
    sum_rows(0, LANES, error, w->error + first);
    for (uint32_t k = 0; k < LANES; k++) {
        const int32_t sum = (int32_t)kf_bits(w->error[first + k]);
        least = sum < least ? sum : least;
    }
    w->least = kf_float((uint32_t)least);
}

/* 0: no scale from this one on can be the best. Elements below a quarter of it have code 0, under
 * larger ones too; the sum of their squares is not in order, and so rounded down. */
KF_HD int is_hope_above(const kf_tensor *t, uint32_t bits, const float *x, ladder *l,
                        const sweep *w)
{
    const float factor = l->factor[learn_scale(t, bits, l)];
    float part[16];
    for (size_t i = 0; i < 16; i++) part[i] = kf_abs(x[i]) * factor < 0.25f ? x[i] * x[i] : 0;
    for (size_t half = 8; half; half /= 2)
        for (size_t i = 0; i < half; i++) part[i] = part[i] + part[i + half];
    return !(part[0] > w->least * 1.00001f);
}

/* 0: no scale up to this one can be the best. The largest element has the code of 6, under smaller
 * ones too, and is ever farther from it. */
KF_HD int is_hope_below(const kf_tensor *t, uint32_t bits, float amax, ladder *l, const sweep *w)
{
    learn_scale(t, bits, l);
    const float d = l->value[bits][7] - amax;
    return !(amax * l->factor[bits] > 5 && d < 0 && d * d > w->least);
}

/* The best scale of a group; of equals the first, 4/6's two before all others. */
KF_HD uint32_t sweep_group(const kf_tensor *t, float amax, const float *x, ladder *l)
{
    uint32_t six, four;
    sweep w;
    kf_nvfp4_six_and_four(t, amax, &six, &four);
    if (six == 0 || four == 0) {
        const kf_group g = {x, 1, 16, 16, 1};
        return amax == 0 ? 0 : kf_nvfp4_sweep((kf_spec){0}, KERF_ENC_NVFP4_SWEEP, t, g, amax);
    }
    w.least = kf_float(0x7f800000u);
    for (size_t i = 0; i < E4M3_SCALES; i++) w.error[i] = w.least;
    const uint32_t last = LAST_SCALE - LANES + 1; /* that sixteen begin with */
    uint32_t down = six > BELOW_SIX ? six - BELOW_SIX : 1;
    down = down < last ? down : last;
    try_sixteen(t, down, x, l, &w);
    for (uint32_t up = down, n = 0; up < last; n++) {
        if (n > 0 && !is_hope_above(t, up + LANES, x, l, &w)) break; /* there is for the first */
        up = up + LANES < last ? up + LANES : last;
        try_sixteen(t, up, x, l, &w);
    }
    while (down > 1 && is_hope_below(t, down - 1, amax, l, &w)) {
        down = down > LANES ? down - LANES : 1;
        try_sixteen(t, down, x, l, &w);
    }
    if (w.error[six] == w.least) return six;
    if (w.error[four] == w.least) return four;
    uint32_t best = down;
    while (best < LAST_SCALE && w.error[best] != w.least) best++;
    return best;
}

/* Chooses the scales of `groups` whole groups of the tile. */
KF_HD void search_all(const kf_tensor *tensor, size_t groups, kf_tile *t)
{
    const kf_tensor own = *tensor;
    ladder l;
    memset(l.known, 0, sizeof l.known);
    for (size_t i = 0; i < groups; i++)
        t->bits[i] = sweep_group(&own, float_of(t->high[i]), t->x + 16 * i, &l);
    keep_multipliers(&own, groups, t);
}

/* Encoders of one metric differ in the scale of the matrix alone. */
KF_HD void search_run(int encoder, const kf_tensor *tensor, size_t groups, kf_tile *t)
{
    const kerf_family f = KERF_FAMILY_NVFP4;
    if (kf_is_search(f, encoder))
        search_all(tensor, groups, t);
    else if (kf_has_metric(f, encoder, KF_METRIC_MAGNITUDES))
        search_pairs(KF_METRIC_MAGNITUDES, tensor, groups, t);
    else if (kf_has_metric(f, encoder, KF_METRIC_LARGEST))
        search_pairs(KF_METRIC_LARGEST, tensor, groups, t);
    else
        search_pairs(KF_METRIC_SQUARES, tensor, groups, t);
}

#endif
