/* four_over_six.cuh - the scale of an NVFP4 block, which of two has the smaller error, and the
 * codes of that one, for they are known by then.
 *
 * What a stored scale means for the elements depends on the matrix alone, so a block of threads
 * keeps it in a table of 127 rows: the factor before rounding, and k = S A / 6M, which is what an
 * element of 1 becomes.
 *
 * The exact rule of 4/6 (block/nvfp4.h) takes two products, a division and more for each element
 * and scale. A sum of errors almost always can do with less: d = v k - |x| is off by no more than
 * D = 2^-20 of amax, so two sums E are too close to call only when they differ by less than that
 * can do in both:
 *
 *   absolute   32 D, and 2^-18 of the sums for their rounding
 *   squares    8 D (sqrt(E4) + sqrt(E6)), for which 2^-15 (E4 + E6) + 2^-19 amax^2 is enough by
 *              the inequality of the means; that has room for the rounding
 *
 * Then the exact rule settles it. The largest error is another matter: elements of few bits have
 * few distances, and two of them are the same in many a block. There it is exact from the start:
 *
 *   16 bits    S, A and v have 4, 11 and 2 bits, so their product is exact, and divided by 6M it
 *              is no tie of fp32, nor near one, for 6M is 3 or 21 times a power of two: v k, with k
 *              to 48 bits, is rounded like the quotient
 *   fp32       two products and a division by a constant, a step of Markstein's behind a product
 */
#ifndef KERF_FOUR_OVER_SIX_CUH
#define KERF_FOUR_OVER_SIX_CUH

#include "cuda/pack.cuh"

namespace
{

struct alignas(16) scale_row {
    float factor; /* kf_nvfp4_multiplier()                           */
    float step;   /* S A / 6M; 0: the exact rule must settle it       */
    float rest;   /* what the quotient has more than step             */
    float value;  /* S                                                */
};
constexpr unsigned SCALE_ROWS = KF_ROW.family == KERF_FAMILY_NVFP4 ? 128 : 1;

/* Where the errors below hold. Below 8 E4M3 is subnormal, and an element may be far above 6;
 * squares must stay in the range of fp32; and the largest error wants an amax of the matrix that
 * has no more bits than its elements, which statistics of something else may give. */
template <int D, int ENC> __device__ __forceinline__ bool step_holds(uint32_t scale, float amax)
{
    bool is_short = D == KERF_F32 || !kf_has_metric(KF_ROW.family, ENC, KF_METRIC_LARGEST) ||
                    (kf_bits(amax) & 0x1fff) == 0;
    return scale >= 8 && amax >= 0x1p-30f && amax <= 0x1p40f && is_short;
}

template <int D, int ENC>
__device__ __forceinline__ void fill_scales(scale_row *table, const kf_tensor *t)
{
    if (KF_ROW.family != KERF_FAMILY_NVFP4 || threadIdx.x >= SCALE_ROWS) return;
    float value = kf_e4m3_decode(threadIdx.x), product = value * t->amax;
    scale_row r = {kf_nvfp4_multiplier(t, threadIdx.x).factor, 0, 0, value};
    if (step_holds<D, ENC>(threadIdx.x, t->amax)) {
        r.step = product / t->range;
        r.rest = __fmaf_rn(-r.step, t->range, product) / t->range;
    }
    table[threadIdx.x] = r;
}

/* The E4M3 code of x in [0, 448]. */
__device__ __forceinline__ uint32_t e4m3_of(float x)
{
    return KF_HARDWARE_FP8 ? __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)
                           : kf_e4m3_encode(x);
}

__device__ __forceinline__ kf_scale choose_amax(const kf_tensor *t, float amax)
{
    kf_scale scale = {e4m3_of(fminf(amax * (t->encode * (1.0f / 6.0f)), 448.0f)), 0};
    return scale;
}

/* What kf_nvfp4_restored() gives for v. */
template <int D, int ENC>
__device__ __forceinline__ float restore_exactly(const kf_tensor *t, scale_row r, float v)
{
    if constexpr (D != KERF_F32) return __fmaf_rn(v, r.step, v * r.rest);
    const float range = kf_range_of(KF_ROW.family, ENC), inverse = 1 / range;
    float product = v * r.value * t->amax, q = product * inverse;
    return __fmaf_rn(__fmaf_rn(-q, range, product), inverse, q);
}

/* A block under one of its scales. */
struct trial {
    float error;
    uint32_t codes[2]; /* without signs */
};

/* x as E2M1, as in e2m1.cuh: the sum ends in the code, and the sum less `power` is the number. */
template <int D, int ENC>
__device__ __forceinline__ trial try_scale(const kf_tensor *t, scale_row r, const float *x)
{
    trial to = {0, {0, 0}};
#pragma unroll
    for (int k = 0; k < 2; k++) {
        uint32_t half[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            half[h] = 0;
#pragma unroll
            for (int i = 8 * k + 4 * h + 3; i >= 8 * k + 4 * h; i--) {
                near_e2m1 y = round_near(x[i] * r.factor);
                half[h] = (half[h] << 4) + code_near(y);
                float v = number_near(y), a = fabsf(x[i]);
                if constexpr (kf_has_metric(KF_ROW.family, ENC, KF_METRIC_LARGEST))
                    to.error = fmaxf(to.error, fabsf(restore_exactly<D, ENC>(t, r, v) - a));
                else if constexpr (kf_has_metric(KF_ROW.family, ENC, KF_METRIC_SQUARES)) {
                    float d = __fmaf_rn(v, r.step, -a);
                    to.error = __fmaf_rn(d, d, to.error);
                } else {
                    to.error += fabsf(__fmaf_rn(v, r.step, -a));
                }
            }
        }
        to.codes[k] = join_near(half[0], half[1]);
    }
    return to;
}

template <int ENC>
__device__ __noinline__ uint32_t settle_exactly(const kf_tensor t, const float *x, float amax)
{
    kf_group g = {x, 1, CHUNK, CHUNK, 1};
    return kf_nvfp4_four_over_six(KF_ROW, ENC, &t, g, amax);
}

/* Codes under any scale. */
template <int D>
__device__ __forceinline__ void pack_anyhow(const uint32_t *source, uint32_t scale, float factor,
                                            uint32_t *codes)
{
    pack_e2m1_aside<D>(source, factor, codes);
    if (scale == 0) codes[0] = codes[1] = 0;
}

/* Scale and codes of a block x, whose words are `source`. */
template <int D, int ENC>
__device__ __forceinline__ kf_scale encode_four_over_six(const kf_tensor *t, const scale_row *table,
                                                         const float *x, const uint32_t *source,
                                                         float amax, uint32_t *codes)
{
    kf_scale scale = {0, 0};
    codes[0] = codes[1] = 0;
    if (amax == 0) return scale;
    float q = amax * (1.0f / 6.0f); /* amax / 6 rounded once: as divide_all() in round.cuh */
    float base = __fmaf_rn(__fmaf_rn(-q, 6.0f, amax), 1.0f / 6.0f, q) * t->encode;
    uint32_t six = e4m3_of(fminf(base, 448.0f)), four = e4m3_of(fminf(base * 1.5f, 448.0f));
    scale_row row = table[six];
    bool plain = row.step > 0 && amax * row.factor < 6.9f;
    trial by6 = try_scale<D, ENC>(t, row, x), by4 = try_scale<D, ENC>(t, table[four], x);
    float noise = kf_has_metric(KF_ROW.family, ENC, KF_METRIC_LARGEST) ? -1.0f
                  : kf_has_metric(KF_ROW.family, ENC, KF_METRIC_SQUARES)
                      ? amax * amax * 0x1p-19f + (by4.error + by6.error) * 0x1p-15f
                      : amax * 0x1p-15f + (by4.error + by6.error) * 0x1p-18f;
    scale.bits = by4.error < by6.error ? four : six;
    if (!plain || !(fabsf(by4.error - by6.error) > noise)) {
        volatile float y[CHUNK]; /* volatile, as in load.cuh */
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = x[i];
        scale.bits = settle_exactly<ENC>(*t, (const float *)y, amax);
    }
#pragma unroll
    for (int k = 0; k < 2; k++)
        codes[k] = (scale.bits == six ? by6.codes[k] : by4.codes[k]) |
                   signs_of<D>(source + k * raw_chunk<D>::WORDS / 2);
    if (!plain) pack_anyhow<D>(source, scale.bits, table[scale.bits].factor, codes);
    return scale;
}

} // namespace
#endif
