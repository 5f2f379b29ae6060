/* e2m1.cuh - a chunk of numbers to E2M1 codes, each way for what is known of the numbers.
 *
 * The code of |y| counts steps of 1/2 up to 2, of 1 up to 4, of 2 up to 6.
 *
 *   fp32     each stretch is cut out by a saturating FMA, exactly, and rounded as it is added;
 *            where a later stretch begins the sum is even, so ties fall as they should
 *   halves   the same of two 16-bit elements at once, where their factor is a power of two: the
 *            products are exact. What is rounded to is the last place of subnormal halves, whose
 *            bits are integers
 *   below 7  where nothing saturates: |y| plus 2^22 times the power of two p below it (or 1) is
 *            rounded to p / 2, the step, and ends in |y| / (p / 2); with the exponent of p that
 *            is the code
 *
 * Signs are gathered from the source. Blackwell has an instruction. */
#ifndef KERF_E2M1_CUH
#define KERF_E2M1_CUH

#include "cuda/round.cuh"

namespace
{

constexpr int CODE_WORDS = CHUNK * (int)KF_ROW.bits / 32; /* of a chunk */

/* Blackwell converts to and from FP4 and FP6 itself, where the target is its own architecture.
 * Untested on hardware: tests/build/blackwell.sh shows that the instructions are there. */
#if (defined(__CUDA_ARCH_SPECIFIC__) && __CUDA_ARCH_SPECIFIC__ >= 1000) || \
    (defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1000)
#define KF_HARDWARE_FP4 1
#else
#define KF_HARDWARE_FP4 0
#endif

/* Eight numbers as E2M1, saturating, to nearest even. */
__device__ __forceinline__ uint32_t convert_e2m1(const float *y)
{
    uint32_t codes = 0;
#if KF_HARDWARE_FP4
    asm("{ .reg .b8 a, b, c, d;\n"
        " cvt.rn.satfinite.e2m1x2.f32 a, %2, %1;\n"
        " cvt.rn.satfinite.e2m1x2.f32 b, %4, %3;\n"
        " cvt.rn.satfinite.e2m1x2.f32 c, %6, %5;\n"
        " cvt.rn.satfinite.e2m1x2.f32 d, %8, %7;\n"
        " mov.b32 %0, {a, b, c, d}; }"
        : "=r"(codes)
        : "f"(y[0]), "f"(y[1]), "f"(y[2]), "f"(y[3]), "f"(y[4]), "f"(y[5]), "f"(y[6]), "f"(y[7]));
#endif
    return codes;
}

/* PRMT: four bytes of two words. A selector from 8 on spreads the sign of its byte over it, which
 * __byte_perm() does not do. */
__device__ __forceinline__ uint32_t permute(uint32_t a, uint32_t b, uint32_t selectors)
{
    uint32_t r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selectors));
    return r;
}

/* The signs of eight elements, each at bit 3 of its code: gathered by bytes, then spread. */
template <int D> __device__ __forceinline__ uint32_t signs_of(const uint32_t *w)
{
    uint32_t even, odd;
    if constexpr (D == KERF_F32) {
        even = permute(permute(w[0], w[2], 0x0073), permute(w[4], w[6], 0x0073), 0xdc98);
        odd = permute(permute(w[1], w[3], 0x0073), permute(w[5], w[7], 0x0073), 0xdc98);
    } else {
        uint32_t low = permute(w[0], w[1], 0x7531), high = permute(w[2], w[3], 0x7531);
        even = permute(low, high, 0xeca8);
        odd = permute(low, high, 0xfdb9);
    }
    return (even & 0x08080808u) | (odd & 0x80808080u);
}

/* --- fp32 ------------------------------------------------------------------------------------ */

__device__ __forceinline__ float saturating_fma(float a, float b, float c)
{
    float r;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c));
    return r;
}

__device__ __forceinline__ float e2m1_magic(float y)
{
    float a = fabsf(y);
    float s = __fmaf_rn(saturating_fma(a, 0.5f, 0.0f), 4.0f, MAGIC);
    s = __fmaf_rn(saturating_fma(a, 0.5f, -1.0f), 2.0f, s);
    return s + saturating_fma(a, 0.5f, -2.0f);
}

/* Elements x, whose words are w, times factor as E2M1. */
template <int D>
__device__ __forceinline__ void pack_e2m1(const float *x, const uint32_t *w, float factor,
                                          uint32_t *codes)
{
#pragma unroll
    for (int k = 0; k < CODE_WORDS; k++) {
        float s[8];
#pragma unroll
        for (int i = 0; i < 8; i++) s[i] = x[8 * k + i] * factor;
        if constexpr (KF_HARDWARE_FP4) {
            codes[k] = convert_e2m1(s);
        } else {
            constexpr int WORDS = 8 * source_bytes(D) / 4;
#pragma unroll
            for (int i = 0; i < 8; i++) s[i] = e2m1_magic(s[i]);
            codes[k] =
                pack_magic<4>(s) | signs_of<D>(w + k * WORDS); /* bit 3 of the sum is clear */
        }
    }
}

/* The same, out of the way of those below. */
template <int D>
__device__ __noinline__ void pack_e2m1_slowly(const volatile uint32_t *w, float factor,
                                              volatile uint32_t *codes)
{
    raw_chunk<D> r;
    float x[CHUNK];
    uint32_t c[CODE_WORDS];
#pragma unroll
    for (int k = 0; k < raw_chunk<D>::WORDS; k++) r.w[k] = w[k];
    widen_chunk<D>(r, x);
    pack_e2m1<D>(x, r.w, factor, c);
#pragma unroll
    for (int k = 0; k < CODE_WORDS; k++) codes[k] = c[k];
}

template <int D>
__device__ __forceinline__ void pack_e2m1_aside(const uint32_t *w, float factor, uint32_t *codes)
{
    volatile uint32_t v[raw_chunk<D>::WORDS], c[CODE_WORDS]; /* volatile, as in load.cuh */
#pragma unroll
    for (int k = 0; k < raw_chunk<D>::WORDS; k++) v[k] = w[k];
    pack_e2m1_slowly<D>(v, factor, c);
#pragma unroll
    for (int k = 0; k < CODE_WORDS; k++) codes[k] = c[k];
}

/* --- halves ---------------------------------------------------------------------------------- */

/* What the bits of two 16-bit numbers mean, and back. */
template <typename P> __device__ __forceinline__ P pair_from(uint32_t bits)
{
    P p;
    memcpy(&p, &bits, 4);
    return p;
}
template <typename P> __device__ __forceinline__ uint32_t bits_of(P p)
{
    uint32_t bits;
    memcpy(&bits, &p, 4);
    return bits;
}

/* Codes of two halves that have no sign. */
__device__ __forceinline__ uint32_t e2m1_halves(__half2 a)
{
    __half2 half = __float2half2_rn(0.5f);
    __half2 low = __hfma2_sat(a, half, __float2half2_rn(0.0f));
    __half2 middle = __hfma2_sat(a, half, __float2half2_rn(-1.0f));
    __half2 high = __hfma2_sat(a, half, __float2half2_rn(-2.0f));
    __half2 s = __hmul2_rn(low, __float2half2_rn(0x4p-24f));
    s = __hfma2(middle, __float2half2_rn(0x2p-24f), s);
    return bits_of(__hfma2(high, __float2half2_rn(0x1p-24f), s));
}

/* Two elements without signs times a power of two as halves. A half is a bfloat16 times 2^-112,
 * moved up by the difference of their mantissas, while it has an exponent of 5 bits. fp16 has not
 * the range for one factor. */
template <int D> __device__ __forceinline__ __half2 scale_pair(uint32_t w, const uint32_t *factors)
{
    using pair = typename pair_of<D>::type;
    pair y = __hmul2_rn(pair_from<pair>(w & 0x7fff7fffu), pair_from<pair>(factors[0]));
    if constexpr (D == KERF_BF16)
        return pair_from<__half2>(bits_of(y) << 3);
    else
        return __hmul2_rn(y, pair_from<__half2>(factors[1]));
}

/* A chunk with words w times factor, a power of two, for products below 16. */
template <int D>
__device__ __forceinline__ void pack_e2m1_halves(const uint32_t *w, float factor, uint32_t *codes)
{
    uint32_t factors[2];
    if constexpr (D == KERF_BF16) {
        factors[0] = permute(__float_as_uint(factor * 0x1p-112f), 0, 0x3232);
    } else {
        float most = fminf(factor, 0x1p15f);
        factors[0] = bits_of(__float2half2_rn(most));
        factors[1] = bits_of(__float2half2_rn(fminf(factor, 0x1p30f) / most)); /* else x is 0 */
    }
#pragma unroll
    for (int k = 0; k < CODE_WORDS; k++) {
        uint32_t c[4];
#pragma unroll
        for (int i = 0; i < 4; i++) c[i] = e2m1_halves(scale_pair<D>(w[4 * k + i], factors));
        uint32_t front = c[0] + (c[1] << 8), back = c[2] + (c[3] << 8);
        uint32_t even = permute(front, back, 0x5410), odd = permute(front, back, 0x7632);
        codes[k] = (even + (odd << 4)) | signs_of<D>(w + 4 * k);
    }
    if (D == KERF_BF16 && factor < 0x1p-14f) pack_e2m1_aside<D>(w, factor, codes);
}

/* --- below 7 --------------------------------------------------------------------------------- */

/* |y| rounded: `sum` less 2^22 times `power`. */
struct near_e2m1 {
    float power, sum;
};
__device__ __forceinline__ near_e2m1 round_near(float y)
{
    float power = __uint_as_float(__float_as_uint(fmaxf(fabsf(y), 1.0f)) & 0x7f800000u);
    near_e2m1 n = {power, __fmaf_rn(power, 0x1p22f, fabsf(y))};
    return n;
}
/* The same of y > 0, ties to the lower number: rounded up, where a tie has become one below. */
__device__ __forceinline__ near_e2m1 round_half_down(float y)
{
    float power = __uint_as_float(__float_as_uint(fmaxf(y, 1.0f)) & 0x7f800000u);
    near_e2m1 n = {power, __fmaf_ru(power, 0x1p22f - 0.25f, y)};
    return n;
}
__device__ __forceinline__ float number_near(near_e2m1 n)
{
    return __fmaf_rn(n.power, -0x1p22f, n.sum);
}

/* The code is in the low 16 bits, plus NEAR_OFFSET. */
constexpr uint32_t NEAR_OFFSET = 2 * (127 + 22);
__device__ __forceinline__ uint32_t code_near(near_e2m1 n)
{
    uint32_t sum = __float_as_uint(n.sum);
    return sum + (sum >> 22); /* twice the exponent */
}

/* Codes of eight numbers from two sums of four. */
__device__ __forceinline__ uint32_t join_near(uint32_t low, uint32_t high)
{
    return permute(low - NEAR_OFFSET * 0x1111, high - NEAR_OFFSET * 0x1111, 0x5410);
}

/* Codes of eight numbers, without signs. */
__device__ __forceinline__ uint32_t pack_near(const float *y)
{
    uint32_t half[2] = {0, 0};
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 3; i >= 0; i--) half[h] = (half[h] << 4) + code_near(round_near(y[4 * h + i]));
    return join_near(half[0], half[1]);
}

/* As pack_e2m1(); no element is of larger magnitude than `largest`. */
template <int D>
__device__ __forceinline__ void pack_e2m1_near(const float *x, const uint32_t *w, float factor,
                                               float largest, uint32_t *codes)
{
#pragma unroll
    for (int k = 0; k < CODE_WORDS; k++) {
        float y[8];
#pragma unroll
        for (int i = 0; i < 8; i++) y[i] = x[8 * k + i] * factor;
        codes[k] = pack_near(y) | signs_of<D>(w + k * raw_chunk<D>::WORDS / CODE_WORDS);
    }
    if (!(largest * factor < 6.9f)) pack_e2m1_aside<D>(w, factor, codes);
}

} // namespace
#endif
