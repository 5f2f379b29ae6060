/* super_fit.h - the searches of ggml's quantizers: integer codes, and the scale (and minimum) under
 * which they come closest to n numbers. Sums run in order, every operation is rounded once to fp32,
 * and expressions are grouped as they stand in ggml.
 *
 * Codes are kept in int, which holds whatever ggml keeps in int8_t and uint8_t here. `weight`: what
 * the square of each error counts; NULL: x * x.
 * Source: ggml 0.13, ggml-quants.c: nearest_int, make_qx_quants, make_q3_quants, make_qkx2_quants,
 * make_qkx3_quants, make_qp_quants. */
#ifndef KERF_SUPER_FIT_H
#define KERF_SUPER_FIT_H

#include "block/super_layout.h"

#define KF_FIT_NOTHING 1e-15f /* groups below this are taken for zeros */

/* Nearest, ties to even, of |x| < 2^22; what else gives is what the bits of the sum say. */
KF_HD int kf_fit_int(float x)
{
    return (int)(kf_bits(x + 12582912.0f) & 0x7fffffu) - 0x400000;
}

KF_HD float kf_fit_sqrt(float x)
{
#if defined(__CUDA_ARCH__)
    return __fsqrt_rn(x);
#else
    return __builtin_sqrtf(x);
#endif
}

KF_HD float kf_fit_weight(const float *weight, const float *x, int i)
{
    return weight ? weight[i] : x[i] * x[i];
}

/* The first number of the largest magnitude. */
KF_HD float kf_fit_peak(int n, const float *x)
{
    float peak = 0;
    for (int i = 0; i < n; i++)
        if (kf_abs(x[i]) > kf_abs(peak)) peak = x[i];
    return peak;
}

/* --- codes about zero ----------------------------------------------------------------------------
 */

/* Sums of w x l and w l l for the codes l that a factor gives; adds them to zeros. */
KF_HD void kf_fit_sums(int n, int most, float factor, const float *x, const float *weight,
                       float *sum_xl, float *sum_ll)
{
    float xl = 0, ll = 0;
    for (int i = 0; i < n; i++) {
        const float l = (float)kf_clamp_int(kf_fit_int(factor * x[i]), -most, most - 1);
        const float w = kf_fit_weight(weight, x, i);
        xl += w * x[i] * l;
        ll += w * l * l;
    }
    *sum_xl = xl;
    *sum_ll = ll;
}

/* make_qx_quants, rmse_type 1: codes are [0, 2 most), less most. */
KF_HD float kf_fit_signed(int n, int most, const float *x, const float *weight, int *code)
{
    const float peak = kf_fit_peak(n, x);
    for (int i = 0; i < n; i++) code[i] = 0;
    if (kf_abs(peak) < KF_FIT_NOTHING) return 0;
    float factor = -(float)most / peak, best_factor = factor, xl, ll;
    kf_fit_sums(n, most, factor, x, weight, &xl, &ll);
    float scale = ll != 0 ? xl / ll : 0;
    float best = scale * xl;
    for (int step = -9; step <= 9; step++) {
        if (step == 0) continue;
        factor = -((float)most + 0.1f * (float)step) / peak;
        kf_fit_sums(n, most, factor, x, weight, &xl, &ll);
        if (ll > 0 && xl * xl > best * ll) {
            best_factor = factor;
            scale = xl / ll;
            best = scale * xl;
        }
    }
    for (int i = 0; i < n; i++)
        code[i] = most + kf_clamp_int(kf_fit_int(best_factor * x[i]), -most, most - 1);
    return scale;
}

/* make_q3_quants with do_rmse: the same grid, codes changed one by one. */
KF_HD float kf_fit_one_by_one(int n, int most, const float *x, int *code)
{
    const float peak = kf_fit_peak(n, x);
    float xl = 0, ll = 0;
    for (int i = 0; i < n; i++) code[i] = 0;
    if (kf_abs(peak) < KF_FIT_NOTHING) return 0;
    const float factor = -(float)most / peak;
    for (int i = 0; i < n; i++) {
        const float w = x[i] * x[i];
        code[i] = kf_clamp_int(kf_fit_int(factor * x[i]), -most, most - 1);
        xl += w * x[i] * (float)code[i];
        ll += w * (float)code[i] * (float)code[i];
    }
    for (int changed = 1, round = 0; changed && round < 5; round++) {
        changed = 0;
        for (int i = 0; i < n; i++) {
            const float w = x[i] * x[i], old = (float)code[i];
            float other_xl = xl - w * x[i] * old, other_ll = ll - w * old * old;
            if (!(other_xl > 0)) continue;
            const int l = kf_clamp_int(kf_fit_int(x[i] * other_ll / other_xl), -most, most - 1);
            if (l == code[i]) continue;
            other_xl += w * x[i] * (float)l;
            other_ll += w * (float)l * (float)l;
            if (!(other_ll > 0 && other_xl * other_xl * ll > xl * xl * other_ll)) continue;
            code[i] = l;
            xl = other_xl;
            ll = other_ll;
            changed = 1;
        }
    }
    for (int i = 0; i < n; i++) code[i] += most;
    return ll > 0 ? xl / ll : 0;
}

/* make_qp_quants: numbers that are not negative, codes [0, most]. */
KF_HD float kf_fit_positive(int n, int most, const float *x, const float *weight, int *code)
{
    float max = 0, xl = 0, ll = 0;
    for (int i = 0; i < n; i++) {
        max = kf_max(max, x[i]);
        code[i] = 0;
    }
    if (max < KF_FIT_NOTHING) return 0;
    float factor = (float)most / max, least = 0;
    for (int i = 0; i < n; i++) {
        const float e = x[i] - 1 / factor * (float)(kf_fit_int(factor * x[i]) & 0xff);
        least += weight[i] * e * e;
    }
    for (int step = -4; step <= 4; step++) {
        if (step == 0) continue;
        const float f = (0.1f * (float)step + (float)most) / max, scale = 1 / f;
        float sum = 0;
        for (int i = 0; i < n; i++) {
            const int l = kf_fit_int(f * x[i]);
            const float e = x[i] - scale * (float)(l < most ? l : most);
            sum += weight[i] * e * e;
        }
        if (sum < least) {
            least = sum;
            factor = f;
        }
    }
    for (int i = 0; i < n; i++) {
        const int l = kf_fit_int(factor * x[i]), cut = l < most ? l : most;
        code[i] = cut & 0xff;
        xl += weight[i] * x[i] * (float)cut;
        ll += weight[i] * (float)cut * (float)cut;
    }
    for (int changed = 1, round = 0; changed && round < 5; round++) {
        changed = 0;
        for (int i = 0; i < n; i++) {
            const float w = weight[i], old = (float)code[i];
            float other_xl = xl - w * x[i] * old, other_ll = ll - w * old * old;
            if (!(other_xl > 0 && other_ll > 0)) continue;
            const int near = kf_fit_int(x[i] * other_ll / other_xl), l = near < most ? near : most;
            if (l == code[i]) continue;
            other_xl += w * x[i] * (float)l;
            other_ll += w * (float)l * (float)l;
            if (!(other_xl * other_xl * ll > xl * xl * other_ll)) continue;
            code[i] = l & 0xff;
            xl = other_xl;
            ll = other_ll;
            changed = 1;
        }
    }
    return ll > 0 ? xl / ll : 0;
}

/* --- codes above a minimum -----------------------------------------------------------------------
 */

typedef struct kf_fit_grid {
    float from, by; /* the first width tried is most + from levels, the next `by` more */
    int steps;      /* after the first                                                 */
    int absolute;   /* the error is |e| and not e * e                                  */
    int cut;        /* 1: make_qkx3_quants, which clamps before it rounds              */
} kf_fit_grid;

/* The code of a number above the minimum, times the factor. */
KF_HD int kf_fit_above(float y, int most, int cut)
{
    if (cut) return y > 0 ? kf_fit_int(kf_min((float)most, y)) : 0;
    return kf_clamp_int(kf_fit_int(y), 0, most);
}

KF_HD float kf_fit_error(float e, int absolute)
{
    return absolute ? kf_abs(e) : e * e;
}

/* make_qkx2_quants, make_qkx3_quants: x = scale * code - *min, *min >= 0. */
KF_HD float kf_fit_minmax(int n, int most, const float *x, const float *weight, kf_fit_grid g,
                          int *code, float *out_min)
{
    float min = x[0], max = x[0], sum_w = weight[0], sum_x = sum_w * x[0], least = 0;
    int tried[32];
    for (int i = 1; i < n; i++) {
        if (x[i] < min) min = x[i];
        if (x[i] > max) max = x[i];
        sum_w += weight[i];
        sum_x += weight[i] * x[i];
    }
    if (min > 0) min = 0;
    *out_min = -min;
    for (int i = 0; i < n; i++) code[i] = 0;
    if (g.cut ? max <= min : max == min) return 0;
    float factor = (float)most / (max - min), scale = 1 / factor;
    for (int i = 0; i < n; i++) {
        code[i] = kf_clamp_int(kf_fit_int(factor * (x[i] - min)), 0, most);
        least += weight[i] * kf_fit_error(scale * (float)code[i] + min - x[i], g.absolute);
    }
    for (int step = 0; step <= g.steps; step++) {
        float l1 = 0, l2 = 0, xl = 0, error = 0;
        factor = (g.from + g.by * (float)step + (float)most) / (max - min);
        for (int i = 0; i < n; i++) {
            tried[i] = kf_fit_above(factor * (x[i] - min), most, g.cut);
            const float l = (float)tried[i], w = weight[i];
            l1 += w * l;
            l2 += w * l * l;
            xl += w * l * x[i];
        }
        const float det = sum_w * l2 - l1 * l1;
        if (!(det > 0)) continue;
        float new_scale = (sum_w * xl - sum_x * l1) / det, new_min = (l2 * sum_x - l1 * xl) / det;
        if (new_min > 0) {
            new_min = 0;
            new_scale = xl / l2;
        }
        for (int i = 0; i < n; i++)
            error +=
                weight[i] * kf_fit_error(new_scale * (float)tried[i] + new_min - x[i], g.absolute);
        if (!(error < least)) continue;
        for (int i = 0; i < n; i++) code[i] = tried[i];
        least = error;
        scale = new_scale;
        min = new_min;
    }
    *out_min = -min;
    return scale;
}

/* --- codes of a book -----------------------------------------------------------------------------
 */

/* The nearest number of the book, of two the larger. */
KF_HD int kf_fit_book(float x)
{
    int at = 0;
    for (int step = 8; step > 0; step >>= 1) {
        const int next = at + step;
        const float middle =
            (float)(kf_super_book((unsigned)next - 1) + kf_super_book((unsigned)next));
        if (x + x >= middle) at = next;
    }
    return at;
}

/* The scale of 32 numbers in quantize_row_iq4_nl_impl, with or without its 15 tries. */
KF_HD float kf_fit_book_scale(const float *x, const float *weight, int tries)
{
    const float peak = kf_fit_peak(32, x), first = (float)kf_super_book(0);
    if (kf_abs(peak) < KF_FIT_NOTHING) return 0;
    float d = 0, best = 0;
    for (int step = -tries - 1; step <= tries; step++) {
        /* Before the tries comes the scale that maps the peak to an end of the book. */
        const int is_first = step < -tries;
        const float id = is_first ? 1 / (tries > 0 ? -peak / first : peak / first)
                                  : ((float)step + first) / peak;
        float qx = 0, q2 = 0;
        for (int i = 0; i < 32; i++) {
            const float q = (float)kf_super_book((unsigned)kf_fit_book(id * x[i]));
            const float w = kf_fit_weight(weight, x, i);
            qx += w * q * x[i];
            q2 += w * q * q;
        }
        if (is_first ? 1 : q2 > 0 && qx * qx > best * q2) {
            d = q2 > 0 ? qx / q2 : 0;
            best = d * qx;
        }
        if (is_first && tries == 0) break;
    }
    return d;
}

#endif
