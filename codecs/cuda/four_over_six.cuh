/* four_over_six.cuh - which of two scales of an NVFP4 block has the smaller error.
 *
 * The exact rule (block/nvfp4.h) takes two products, a division and more for each element and
 * scale. Almost always a cruder sum decides: d = v k - |x| with k = S A / 6M once per block. Its d
 * are off by no more than 2^-20 of amax, so the two sums are too close to call only when they
 * differ by less than CLOSE of themselves plus what that error adds up to over 16 elements; then,
 * and where squares might leave the range of fp32, the exact rule settles it. */
#ifndef KERF_FOUR_OVER_SIX_CUH
#define KERF_FOUR_OVER_SIX_CUH

#include "cuda/pack.cuh"

namespace
{

constexpr float CLOSE = 0x1p-14f;

__host__ __device__ constexpr bool sums_squares(int encoder)
{
    return encoder == KERF_ENC_NVFP4_FOS_MSE || encoder == KERF_ENC_NVFP4_FOS_MSE_448;
}
__host__ __device__ constexpr bool takes_largest(int encoder)
{
    return encoder == KERF_ENC_NVFP4_FOS_ABSMAX || encoder == KERF_ENC_NVFP4_FOS_ABSMAX_448;
}

/* The E2M1 number nearest to a >= 0: as e2m1_magic() in pack.cuh, but in steps of 2, then 1, then
 * 1/2, and as a number. */
__device__ __forceinline__ float nearest_e2m1(float a)
{
    constexpr float TWOS = 2 * MAGIC, HALVES = MAGIC / 2;
    float s = __fmaf_rn(saturating_fma(a, 0.5f, -2.0f), 2.0f, TWOS);
    s = __fmaf_rn(saturating_fma(a, 0.5f, -1.0f), 2.0f, s + (MAGIC - TWOS));
    s = __fmaf_rn(saturating_fma(a, 0.5f, 0.0f), 2.0f, s + (HALVES - MAGIC));
    return s - HALVES;
}

template <int ENC>
__device__ __forceinline__ float crude_error(const kf_tensor *t, uint32_t scale, const float *x)
{
    float factor = kf_nvfp4_multiplier(t, scale).factor, error = 0;
    float k = kf_e4m3_decode(scale) * t->amax / t->range;
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        float d = __fmaf_rn(nearest_e2m1(fabsf(x[i] * factor)), k, -fabsf(x[i]));
        error = sums_squares(ENC)    ? __fmaf_rn(d, d, error)
                : takes_largest(ENC) ? fmaxf(error, fabsf(d))
                                     : error + fabsf(d);
    }
    return error;
}

template <int ENC>
__device__ __noinline__ uint32_t settle_exactly(const kf_tensor t, const float *x, float amax)
{
    kf_group g = {x, 1, CHUNK, CHUNK, 1};
    return kf_nvfp4_four_over_six(KF_ROW, ENC, &t, g, amax);
}

template <int ENC>
__device__ __forceinline__ kf_scale choose_four_over_six(const kf_tensor *t, const float *x,
                                                         float amax)
{
    kf_scale scale = {0, 0};
    uint32_t six, four;
    if (amax == 0) return scale;
    kf_nvfp4_six_and_four(t, amax, &six, &four);
    float err6 = crude_error<ENC>(t, six, x), err4 = crude_error<ENC>(t, four, x);
    float noise = sums_squares(ENC) ? amax * amax * 0x1p-19f : amax * 0x1p-14f;
    scale.bits = err4 < err6 ? four : six;
    bool clear = fabsf(err4 - err6) > CLOSE * (err4 + err6) + noise;
    if (!clear || amax < 0x1p-40f || amax > 0x1p40f) {
        volatile float y[CHUNK]; /* volatile, as in load.cuh */
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = x[i];
        scale.bits = settle_exactly<ENC>(*t, (const float *)y, amax);
    }
    return scale;
}

} // namespace
#endif
