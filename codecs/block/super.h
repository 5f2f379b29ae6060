/* super.h - ggml's blocks of two levels, Q4_1 to IQ4_XS: how a whole block is encoded. Where its
 * numbers lie and what they mean is in super_layout.h, the searches are in super_fit.h.
 *
 *   ggml     quantize_row_*_ref of ggml 0.13's ggml-quants.c, which look at the weights alone
 *   imatrix  quantize_row_*_impl: the error of each element counts as much as the importance of its
 *            column, the mean square of what the layer is multiplied by there
 *
 * Of a block x, in this order (a group has 16 or 32 elements, a = amax, sums in order):
 *
 *   q4_1 q5_1  d = (max - min) / 15 or 31, m = min, code = (x - m) * (1 / d) + 1/2, cut to integers
 *   q5_0       d = peak / -16, code = x * (1 / d) + 16 1/2, cut to integers
 *   iq4_nl     weights x * x; d as the code book's best fit for peak / -127, one try. A block of
 *              zeros has codes 0, where ggml 0.13 leaves those of the block before it
 *   iq4_xs     the same with 15 tries per group, d = -(largest scale) / 32
 *   q2_k       weights |x|, fit_minmax by |e|; scales and minima in 15ths of the largest
 *   q4_k q5_k  weights sqrt(mean of x * x) + |x|, fit_minmax by squares; in 63rds of the largest
 *   q3_k       fit_one_by_one; scales in -32nds of the largest
 *   q6_k       fit_signed with weights x * x; scales in -128ths of the largest
 *
 * With importance the weights are importance * sqrt(sigma2 + x * x), sigma2 the mean square of the
 * row for the types of one level, of the block for q2_k, twice that for the others; q6_k takes the
 * importance alone. Then q4_1 and q5_1 are fit_minmax, q5_0 and q3_k fit_signed, iq4_nl has 15
 * tries, and levels are what fit_positive and fit_signed make of scales and minima.
 *
 * And then, but for the types of one level, each code anew: the integer nearest to (x + m) / d with
 * d and m as they are stored; where d is 0 it stays what the fit gave.
 *
 * fp16 scales above 65504 are Inf, as ggml has them. Where 1 / d is Inf ggml converts numbers that
 * do not fit their type, which C leaves undefined; here codes saturate. */
#ifndef KERF_SUPER_H
#define KERF_SUPER_H

#include "block/super_fit.h"

/* What a fit gives for the groups of a block. */
typedef struct kf_super_draft {
    int code[256];
    float scale[16], min[16], weight[16]; /* of groups; weight: sum of their elements' weights */
    int level[16], level_min[16];
} kf_super_draft;

/* --- the weights of elements ---------------------------------------------------------------------
 */

KF_HD float kf_sum_squares(int n, const float *x)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

/* Of a row. */
KF_HD float kf_mean_square(size_t n, const float *x)
{
    return kf_sum_squares((int)n, x) / (float)n;
}

/* importance * sqrt(sigma2 + x * x); sigma2 is a share of the mean square of the block. */
KF_HD void kf_weigh(int n, const float *x, const float *importance, float sigma2, float *out)
{
    for (int i = 0; i < n; i++) out[i] = importance[i] * kf_fit_sqrt(sigma2 + x[i] * x[i]);
}

KF_HD float kf_sum_of(int n, const float *x)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return sum;
}

/* --- types of one level --------------------------------------------------------------------------
 */

/* NaN, where sums overflow, is the one that x86 makes: machines differ in its sign. */
KF_HD void kf_super_put_half(uint8_t *p, float x)
{
    const uint16_t bits = x == x ? kf_f16_encode(x) : 0xfe00;
    p[0] = (uint8_t)bits;
    p[1] = (uint8_t)(bits >> 8);
}

/* x * id + half, cut to an integer of [0, most]; NaN, which Inf times 0 gives, is 0. */
KF_HD uint32_t kf_super_cut(float x, float id, float half, int most)
{
    return (uint32_t)kf_min(kf_max(0.0f, x * id + half), (float)most);
}

/* The grid of quantize_row_*_impl. */
KF_HD kf_fit_grid kf_fit_weighted(void)
{
    kf_fit_grid g = {-0.9f, 0.05f, 36, 0, 1};
    return g;
}

KF_HD void kf_encode_range(kf_super k, const float *x, uint8_t *out)
{
    const int most = k.high.bits ? 31 : 15;
    float min = KF_F32_MAX, max = -KF_F32_MAX;
    for (unsigned i = 0; i < 32; i++) {
        if (x[i] < min) min = x[i];
        if (x[i] > max) max = x[i];
    }
    const float d = (max - min) / (float)most, id = d != 0 ? 1.0f / d : 0.0f;
    kf_super_put_half(out + k.d, d);
    kf_super_put_half(out + k.m, min);
    for (unsigned i = 0; i < 32; i++)
        kf_super_put(k, out, i, kf_super_cut(x[i] - min, id, 0.5f, most));
}

KF_HD void kf_encode_peak(kf_super k, const float *x, uint8_t *out)
{
    const float d = kf_fit_peak(32, x) / -16.0f, id = d != 0 ? 1.0f / d : 0.0f;
    kf_super_put_half(out + k.d, d);
    for (unsigned i = 0; i < 32; i++) kf_super_put(k, out, i, kf_super_cut(x[i], id, 16.5f, 31));
}

/* With importance: square is the mean square of the row. */
KF_HD void kf_encode_weighted(kf_super k, const float *x, const float *importance, float square,
                              uint8_t *out)
{
    float weight[32], d, min;
    int code[32];
    kf_weigh(32, x, importance, square, weight);
    if (k.m) {
        d = kf_fit_minmax(32, k.high.bits ? 31 : 15, x, weight, kf_fit_weighted(), code, &min);
        kf_super_put_half(out + k.m, -min);
    } else
        d = kf_fit_signed(32, 16, x, weight, code);
    kf_super_put_half(out + k.d, d);
    for (unsigned i = 0; i < 32; i++) kf_super_put(k, out, i, (uint32_t)code[i]);
}

/* --- code book -----------------------------------------------------------------------------------
 */

KF_HD void kf_encode_book(kf_super k, const float *x, const float *importance, uint8_t *out)
{
    const int groups = (int)k.elements / 32, tries = groups > 1 || importance ? 7 : 0;
    const float sigma2 = kf_sum_squares((int)k.elements, x) * (2.0f / (float)k.elements);
    float scale[8], weight[32], largest = 0;
    for (int j = 0; j < groups; j++) {
        if (importance) kf_weigh(32, x + 32 * j, importance + 32 * j, sigma2, weight);
        scale[j] = kf_fit_book_scale(x + 32 * j, importance ? weight : NULL, tries);
        if (kf_abs(scale[j]) > kf_abs(largest)) largest = scale[j];
    }
    const float d = groups > 1 ? -largest / 32.0f : scale[0], id = d != 0 ? 1 / d : 0.0f;
    kf_super_put_half(out + k.d, d);
    for (int j = 0; j < groups; j++) {
        const int level = kf_clamp_int(kf_fit_int(id * scale[j]), -32, 31);
        const float dl = groups > 1 ? d * (float)level : d, idl = dl != 0 ? 1 / dl : 0.0f;
        const int is_nothing = groups == 1 && kf_abs(kf_fit_peak(32, x)) < KF_FIT_NOTHING;
        const int is_first = groups == 1 && tries == 0; /* codes of the first try are kept */
        const float first = kf_fit_peak(32, x) / (float)kf_super_book(0);
        if (groups > 1) kf_level_put(k.levels, out + k.at, (unsigned)j, (uint32_t)level + 32, 0);
        for (int i = 0; i < 32; i++) {
            const float y = (is_first ? 1 / first : idl) * x[32 * j + i];
            kf_super_put(k, out, (unsigned)(32 * j + i),
                         is_first && is_nothing ? 0 : (uint32_t)kf_fit_book(y));
        }
    }
}

/* --- two levels, about zero ----------------------------------------------------------------------
 */

KF_HD void kf_fit_six(const float *x, const float *importance, kf_super_draft *t)
{
    const float sigma2 = importance ? 2 * kf_sum_squares(256, x) / 256.0f : 0;
    float weight[16];
    for (int j = 0; j < 16; j++) {
        const float *own = x + 16 * j;
        if (importance) {
            kf_weigh(16, own, importance + 16 * j, sigma2, weight);
            t->weight[j] = kf_sum_of(16, weight);
            t->scale[j] = kf_fit_signed(16, 4, own, weight, t->code + 16 * j);
        } else
            t->scale[j] = kf_fit_one_by_one(16, 4, own, t->code + 16 * j);
    }
}

/* Levels in parts of the scale that is largest, and d. */
KF_HD float kf_level_largest(int n, int most, kf_super_draft *t)
{
    float largest = 0;
    for (int j = 0; j < n; j++)
        if (kf_abs(t->scale[j]) > kf_abs(largest)) largest = t->scale[j];
    const float inverse = largest != 0 ? -(float)most / largest : 0;
    for (int j = 0; j < n; j++) t->level[j] = kf_fit_int(inverse * t->scale[j]);
    return largest != 0 ? 1 / inverse : 0;
}

KF_HD float kf_levels_of_q3(const float *x, const float *importance, kf_super_draft *t)
{
    kf_fit_six(x, importance, t);
    if (importance) return kf_fit_signed(16, 32, t->scale, t->weight, t->level);
    const float d = kf_level_largest(16, 32, t);
    for (int j = 0; j < 16; j++) /* ggml leaves zeros where there is no scale at all */
        t->level[j] = d != 0 ? kf_clamp_int((int)(signed char)t->level[j], -32, 31) + 32 : 0;
    return d;
}

KF_HD float kf_levels_of_q6(const float *x, const float *importance, kf_super_draft *t)
{
    float largest = 0;
    for (int j = 0; j < 16; j++) {
        t->scale[j] = kf_fit_signed(16, 32, x + 16 * j, importance ? importance + 16 * j : NULL,
                                    t->code + 16 * j);
        largest = kf_max(largest, kf_abs(t->scale[j]));
    }
    if (largest < KF_FIT_NOTHING) { /* a block of zero bytes */
        for (int i = 0; i < 256; i++) t->code[i] = 0;
        for (int j = 0; j < 16; j++) t->level[j] = 0;
        return 0;
    }
    const float d = kf_level_largest(16, 128, t);
    for (int j = 0; j < 16; j++) t->level[j] = (t->level[j] < 127 ? t->level[j] : 127) & 0xff;
    return d;
}

/* --- two levels, above a minimum -----------------------------------------------------------------
 */

KF_HD void kf_fit_above_minima(int n, int most, const float *x, const float *importance,
                               kf_super_draft *t)
{
    const int groups = 256 / n;
    const kf_fit_grid plain = {most == 15 ? -1.0f : -0.5f, 0.1f, most == 15 ? 20 : 15, most == 3,
                               0};
    const float square = importance ? kf_sum_squares(256, x) : 0;
    const float sigma2 = (most == 3 ? square : 2 * square) / 256.0f;
    for (int j = 0; j < groups; j++) {
        const float *own = x + n * j;
        float weight[32];
        if (importance) {
            kf_weigh(n, own, importance + n * j, sigma2, weight);
        } else {
            const float mean = most == 3 ? 0 : kf_fit_sqrt(kf_sum_squares(n, own) / (float)n);
            for (int i = 0; i < n; i++)
                weight[i] = most == 3 ? kf_abs(own[i]) : mean + kf_abs(own[i]);
        }
        t->weight[j] = kf_sum_of(n, weight);
        t->scale[j] = kf_fit_minmax(n, most, own, weight, importance ? kf_fit_weighted() : plain,
                                    t->code + n * j, &t->min[j]);
    }
}

/* Levels [0, most] of numbers that are not negative, and what one of them is worth. */
KF_HD float kf_level_positive(int n, int most, const float *x, const float *weight, int *level)
{
    if (weight) return kf_fit_positive(n, most, x, weight, level);
    float max = 0;
    for (int j = 0; j < n; j++) max = kf_max(max, x[j]);
    const float inverse = max > 0 ? (float)most / max : 0;
    for (int j = 0; j < n; j++) level[j] = kf_fit_int(inverse * x[j]);
    return max > 0 ? max / (float)most : 0;
}

/* --- a whole block -------------------------------------------------------------------------------
 */

/* The codes under the scales as they are stored, into bytes that hold these already. */
KF_HD void kf_encode_codes(kf_super k, int groups, const float *x, kf_super_draft *t, uint8_t *out)
{
    const int n = 256 / groups, last = (1 << (k.low.bits + k.high.bits)) - 1 - k.middle;
    for (int j = 0; j < groups; j++) {
        const kf_dequant q = kf_super_group(k, out, (unsigned)j);
        for (int i = n * j; i < n * (j + 1); i++) {
            if (q.scale != 0) {
                const float y = k.m ? x[i] - q.offset : x[i];
                t->code[i] = k.middle + kf_clamp_int(kf_fit_int(y / q.scale), -k.middle, last);
            }
            kf_super_put(k, out, (unsigned)i, (uint32_t)t->code[i]);
        }
    }
}

KF_HD void kf_encode_two_levels(kf_super k, const float *x, const float *importance, uint8_t *out)
{
    kf_super_draft t;
    const int groups = k.levels == KF_LEVELS_PAIRS ? 8 : 16;
    float d, m = 0;
    for (int j = 0; j < 16; j++) t.level_min[j] = 0;
    if (k.m == 0) {
        d = k.middle == 4 ? kf_levels_of_q3(x, importance, &t) : kf_levels_of_q6(x, importance, &t);
    } else {
        const int most = (1 << (k.low.bits + k.high.bits)) - 1, levels = most == 3 ? 15 : 63;
        kf_fit_above_minima(256 / groups, most, x, importance, &t);
        const float *weight = importance ? t.weight : NULL;
        d = kf_level_positive(groups, levels, t.scale, weight, t.level);
        m = kf_level_positive(groups, levels, t.min, weight, t.level_min);
        for (int j = 0; j < groups; j++) {
            t.level[j] = kf_clamp_int(t.level[j] & 0xff, 0, levels == 15 ? 255 : 63);
            t.level_min[j] = kf_clamp_int(t.level_min[j] & 0xff, 0, levels == 15 ? 255 : 63);
        }
        kf_super_put_half(out + k.m, m);
    }
    kf_super_put_half(out + k.d, d);
    for (int j = 0; j < groups; j++)
        kf_level_put(k.levels, out + k.at, (unsigned)j, (uint32_t)t.level[j],
                     (uint32_t)t.level_min[j]);
    kf_encode_codes(k, groups, x, &t, out);
}

/* Encodes one block. importance: of its columns; NULL: encoder ggml. square: with importance, the
 * mean square of the whole row. */
KF_HD void kf_super_encode(kf_spec s, const float *x, const float *importance, float square,
                           uint8_t *out)
{
    const kf_super k = kf_super_of(s);
    for (unsigned i = 0; i < k.bytes; i++) out[i] = 0;
    if (k.book)
        kf_encode_book(k, x, importance, out);
    else if (k.levels != KF_LEVELS_NONE)
        kf_encode_two_levels(k, x, importance, out);
    else if (importance)
        kf_encode_weighted(k, x, importance, square, out);
    else if (k.m)
        kf_encode_range(k, x, out);
    else
        kf_encode_peak(k, x, out);
}

/* --- what every family has -----------------------------------------------------------------------
 */

/* Nothing here belongs to a matrix, and groups have no scale that could be chosen alone. */
KF_HD kf_tensor kf_super_tensor(kf_spec s, int encoder, const kerf_stats *stats, int source)
{
    (void)s, (void)encoder, (void)stats, (void)source;
    kf_tensor t = {0};
    return t;
}

KF_HD kf_scale kf_super_choose(kf_spec s, int encoder, const kf_tensor *t, kf_group g)
{
    (void)s, (void)encoder, (void)t, (void)g;
    kf_scale scale = {0, 0};
    return scale;
}

KF_HD kf_quant kf_super_quant(kf_spec s, int encoder, const kf_tensor *t, kf_scale scale,
                              kf_group g)
{
    (void)s, (void)encoder, (void)t, (void)scale, (void)g;
    kf_quant q = {0};
    return q;
}

KF_HD uint32_t kf_super_code(kf_spec s, kf_quant q, float x)
{
    (void)s, (void)q, (void)x;
    return 0;
}

KF_HD kf_dequant kf_super_dequant(kf_spec s, kf_scale scale, float second, float offset)
{
    (void)s, (void)second, (void)offset;
    kf_dequant d = {kf_scale_value(KERF_SCALE_F16, scale.bits), 0, 0};
    return d;
}

KF_HD float kf_super_value(kf_spec s, kf_dequant d, uint32_t code)
{
    return kf_super_number(kf_super_of(s), d, code);
}

#endif
