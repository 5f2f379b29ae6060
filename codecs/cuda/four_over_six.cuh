/* four_over_six.cuh - the scale of an NVFP4 block, and which of two has the smaller error.
 *
 * What a stored scale means for the elements depends on the matrix alone, so a block of threads
 * keeps it in a table of 127 rows: the factor before rounding, the value of one after it, and S.
 *
 * The exact rule of 4/6 (block/nvfp4.h) takes two products, a division and more for each element
 * and scale. Almost always a cruder sum decides: d = v k - |x| with k = S A / 6M. Its d are off by
 * no more than D = 2^-20 of amax, so two sums E are too close to call only when they differ by less
 * than that can do in both:
 *
 *   largest    2 D, and nothing is summed
 *   absolute   32 D, and 2^-18 of the sums for their rounding
 *   squares    8 D (sqrt(E4) + sqrt(E6)), for which 2^-15 (E4 + E6) + 2^-19 amax^2 is enough by
 *              the inequality of the means; that has room for the rounding
 *
 * Then, and where squares might leave the range of fp32, the exact rule settles it. */
#ifndef KERF_FOUR_OVER_SIX_CUH
#define KERF_FOUR_OVER_SIX_CUH

#include "cuda/pack.cuh"

namespace
{

__host__ __device__ constexpr bool sums_squares(int encoder)
{
    return encoder == KERF_ENC_NVFP4_FOS_MSE || encoder == KERF_ENC_NVFP4_FOS_MSE_448;
}
__host__ __device__ constexpr bool takes_largest(int encoder)
{
    return encoder == KERF_ENC_NVFP4_FOS_ABSMAX || encoder == KERF_ENC_NVFP4_FOS_ABSMAX_448;
}

struct scale_row {
    float factor; /* kf_nvfp4_multiplier() */
    float step;   /* S A / 6M              */
    float value;  /* S                     */
};
constexpr unsigned SCALE_ROWS = KF_ROW.family == KERF_FAMILY_NVFP4 ? 128 : 1;

__device__ __forceinline__ void fill_scales(scale_row *table, const kf_tensor *t)
{
    if (KF_ROW.family != KERF_FAMILY_NVFP4 || threadIdx.x >= SCALE_ROWS) return;
    scale_row r = {kf_nvfp4_multiplier(t, threadIdx.x).factor,
                   kf_e4m3_decode(threadIdx.x) * t->amax / t->range, kf_e4m3_decode(threadIdx.x)};
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

/* The E2M1 number nearest to a in [0, 7): multiples of 1/2 of the power of two below it, or of 1/2.
 * 2^22 times that power has the same as its last place. */
__device__ __forceinline__ float nearest_e2m1(float a)
{
    float power = __uint_as_float(__float_as_uint(fmaxf(a, 1.0f)) & 0x7f800000u);
    return __fmaf_rn(power, -4194304.0f, __fmaf_rn(power, 4194304.0f, a));
}

template <int ENC> __device__ __forceinline__ float crude_error(scale_row r, const float *x)
{
    float error = 0;
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        float d = __fmaf_rn(nearest_e2m1(fabsf(x[i] * r.factor)), r.step, -fabsf(x[i]));
        error = sums_squares(ENC) ? __fmaf_rn(d, d, error) : error + fabsf(d);
    }
    return error;
}

/* Where the two scales stand at 2 : 3, many an element becomes the same number by both. Its error
 * is the same, too, to the last bit, and the largest error often is one of those: a tie. */
struct largest_errors {
    float six, four, same; /* of elements that become different numbers, and the same */
};

__device__ __forceinline__ largest_errors find_largest(scale_row six, scale_row four,
                                                       const float *x)
{
    largest_errors e = {0, 0, 0};
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        float a = fabsf(x[i]);
        float v6 = nearest_e2m1(fabsf(x[i] * six.factor));
        float v4 = nearest_e2m1(fabsf(x[i] * four.factor));
        float d6 = fabsf(__fmaf_rn(v6, six.step, -a)), d4 = fabsf(__fmaf_rn(v4, four.step, -a));
        bool same = v6 * six.value == v4 * four.value; /* exact products */
        e.same = fmaxf(e.same, same ? d6 : 0.0f);
        e.six = fmaxf(e.six, same ? 0.0f : d6);
        e.four = fmaxf(e.four, same ? 0.0f : d4);
    }
    return e;
}

template <int ENC>
__device__ __noinline__ uint32_t settle_exactly(const kf_tensor t, const float *x, float amax)
{
    kf_group g = {x, 1, CHUNK, CHUNK, 1};
    return kf_nvfp4_four_over_six(KF_ROW, ENC, &t, g, amax);
}

template <int ENC>
__device__ __forceinline__ kf_scale choose_four_over_six(const kf_tensor *t, const scale_row *table,
                                                         const float *x, float amax)
{
    kf_scale scale = {0, 0};
    if (amax == 0) return scale;
    float q = amax * (1.0f / 6.0f); /* amax / 6 rounded once: as divide_all() in pack.cuh */
    float base = __fmaf_rn(__fmaf_rn(-q, 6.0f, amax), 1.0f / 6.0f, q) * t->encode;
    uint32_t six = e4m3_of(fminf(base, 448.0f)), four = e4m3_of(fminf(base * 1.5f, 448.0f));
    float err6, err4, noise, tie = 0;
    if constexpr (takes_largest(ENC)) {
        largest_errors e = find_largest(table[six], table[four], x);
        noise = amax * 0x1p-18f;
        err6 = fmaxf(e.six, e.same);
        err4 = fmaxf(e.four, e.same);
        tie = e.same - fmaxf(e.six, e.four);
    } else {
        err6 = crude_error<ENC>(table[six], x);
        err4 = crude_error<ENC>(table[four], x);
        noise = sums_squares(ENC) ? amax * amax * 0x1p-19f + (err4 + err6) * 0x1p-15f
                                  : amax * 0x1p-15f + (err4 + err6) * 0x1p-18f;
    }
    bool clear = fmaxf(fabsf(err4 - err6), tie) > noise;
    scale.bits = err4 < err6 && tie <= noise ? four : six;
    /* Below 8 E4M3 is subnormal: an element may be far above 6. */
    if (!clear || six < 8 || amax < 0x1p-40f || amax > 0x1p40f) {
        volatile float y[CHUNK]; /* volatile, as in load.cuh */
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = x[i];
        scale.bits = settle_exactly<ENC>(*t, (const float *)y, amax);
    }
    return scale;
}

} // namespace
#endif
