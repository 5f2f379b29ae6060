/* pack.cuh - a chunk of numbers to packed codes. Each way gives the codes of kf_code() in
 * block/, bit for bit, in fewer instructions; what has no faster way calls kf_code() itself.
 *
 * Memory bandwidth leaves an H200 about 20 instructions for an element of a 4-bit format, and half
 * as many on the integer pipe. Hence rounding happens in the FMA pipe: adding 1.5 * 2^23 leaves
 * the rounded integer in the low bits of a float, and floats are packed as they are, by
 * multiply-add, with all the exponent bits taken off at the end by one subtraction. */
#ifndef KERF_PACK_CUH
#define KERF_PACK_CUH

#include "cuda/load.cuh"

#include <cuda_fp8.h>

namespace
{

constexpr int CODE_WORDS = CHUNK * (int)KF_ROW.bits / 32; /* of a chunk */
constexpr float MAGIC = 12582912.0f;                      /* 1.5 * 2^23 */

/* --- division by the same number -----------------------------------------------------------------
 * x / d rounded to nearest even from r = 1 / d in five operations (Markstein 1990): two steps of
 * q += (x - q d) r, the first giving a faithful, the second the correctly rounded quotient. Valid
 * while x - q d is exact, for which d in [2^-80, 2^100] suffices: quotients below 2^-17 may be off
 * by an ulp, and every element type rounds those to zero.
 *
 * When x has at most 11 bits (fp16, bfloat16) and d has 8 (a bfloat16 scale), x / d is either a tie
 * between two integers exactly, which one step finds, or further than 2^-20 from it: one step is
 * enough to round to an integer. */
__device__ __noinline__ void divide_slowly(volatile float *x, float d)
{
    for (int i = 0; i < CHUNK; i++) x[i] = x[i] / d;
}

template <int STEPS> __device__ __forceinline__ void divide_all(const float *x, float d, float *y)
{
    float r = 1.0f / d;
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        y[i] = x[i] * r;
#pragma unroll
        for (int k = 0; k < STEPS; k++) y[i] = __fmaf_rn(__fmaf_rn(-y[i], d, x[i]), r, y[i]);
    }
    if (!(d >= 0x1p-80f && d <= 0x1p100f)) {
        volatile float z[CHUNK]; /* volatile, as in load.cuh */
#pragma unroll
        for (int i = 0; i < CHUNK; i++) z[i] = x[i];
        divide_slowly(z, d);
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = z[i];
    }
}

/* --- integers in the low bits of floats ------------------------------------------------------ */

/* bits at i, 2 i, ...: what one unit in every code of a word is worth. */
__host__ __device__ constexpr uint32_t every_code(int bits)
{
    uint32_t sum = 0;
    for (int i = 0; i < 32 / bits; i++) sum |= 1u << (bits * i);
    return sum;
}

/* Packs floats MAGIC + n: the sum of n_i 2^(BITS i) modulo 2^32. */
template <int BITS> __device__ __forceinline__ uint32_t pack_magic(const float *s)
{
    uint32_t sum = 0;
#pragma unroll
    for (int i = 32 / BITS - 1; i >= 0; i--) sum = (sum << BITS) + __float_as_uint(s[i]);
    return sum - 0x4b400000u * every_code(BITS);
}

/* Rounds y to nearest even, clamps to [lo, hi] unless it is known to lie there, adds `zero`, packs;
 * `flip` is xored into codes. */
template <int BITS, bool CLAMPS>
__device__ __forceinline__ void pack_integers(float *y, float lo, float hi, int zero, uint32_t flip,
                                              uint32_t *w)
{
#pragma unroll
    for (int i = 0; i < CHUNK; i++) y[i] = (CLAMPS ? fminf(fmaxf(y[i], lo), hi) : y[i]) + MAGIC;
#pragma unroll
    for (int k = 0; k < BITS / 2; k++)
        w[k] = (pack_magic<BITS>(y + 32 / BITS * k) + (uint32_t)zero * every_code(BITS)) ^
               flip * every_code(BITS);
}

/* --- E2M1 ----------------------------------------------------------------------------------------
 * The code of |y| counts steps of 1/2 up to 2, of 1 up to 4, of 2 up to 6. Each stretch is cut out
 * by a saturating FMA, exactly, and rounded as it is added; where a later stretch begins the sum
 * is even, so ties fall as they should. */
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

/* --- 16 bits ------------------------------------------------------------------------------------
 */

/* Two numbers in a 16-bit type, rounded to nearest even, but NaN becomes what the hardware likes.
 */
template <int D> __device__ __forceinline__ uint32_t narrow_pair(float a, float b)
{
    typename pair_of<D>::type pair;
    if constexpr (D == KERF_F16)
        pair = __floats2half2_rn(a, b);
    else
        pair = __floats2bfloat162_rn(a, b);
    uint32_t w;
    memcpy(&w, &pair, 4);
    return w;
}

/* --- FP8 and FP6 by the conversions of sm_89 -----------------------------------------------------
 * E2M3 times 2^-6 has the bits of an E4M3, E3M2 times 2^-12 those of an E5M2: same mantissa, same
 * least normal number. Only the largest number differs, so y is clamped first. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
#define KF_HARDWARE_FP8 1
#else
#define KF_HARDWARE_FP8 0
#endif

__device__ __forceinline__ void pack_fp8(const float *y, __nv_fp8_interpretation_t type,
                                         uint32_t *w)
{
#pragma unroll
    for (int k = 0; k < 4; k++) {
        float2 low = {y[4 * k], y[4 * k + 1]}, high = {y[4 * k + 2], y[4 * k + 3]};
        w[k] = __nv_cvt_float2_to_fp8x2(low, __NV_SATFINITE, type) |
               (uint32_t)__nv_cvt_float2_to_fp8x2(high, __NV_SATFINITE, type) << 16;
    }
}

/* Four codes of 6 bits at the bottom of four bytes to 24 bits. */
__device__ __forceinline__ uint32_t squeeze6(uint32_t v)
{
    return (v & 0x3f) | (v >> 2 & 0xfc0) | (v >> 4 & 0x3f000) | (v >> 6 & 0xfc0000);
}

__device__ __forceinline__ void join6(const uint32_t *c, uint32_t *w)
{
    w[0] = c[0] | c[1] << 24;
    w[1] = c[1] >> 8 | c[2] << 16;
    w[2] = c[2] >> 16 | c[3] << 8;
}

/* Four numbers as FP6 in four bytes, saturating, to nearest even. */
template <bool E2M3> __device__ __forceinline__ uint32_t convert_fp6(const float *y)
{
    uint16_t low = 0, high = 0;
#if KF_HARDWARE_FP4
    if constexpr (E2M3) {
        asm("cvt.rn.satfinite.e2m3x2.f32 %0, %2, %1;" : "=h"(low) : "f"(y[0]), "f"(y[1]));
        asm("cvt.rn.satfinite.e2m3x2.f32 %0, %2, %1;" : "=h"(high) : "f"(y[2]), "f"(y[3]));
    } else {
        asm("cvt.rn.satfinite.e3m2x2.f32 %0, %2, %1;" : "=h"(low) : "f"(y[0]), "f"(y[1]));
        asm("cvt.rn.satfinite.e3m2x2.f32 %0, %2, %1;" : "=h"(high) : "f"(y[2]), "f"(y[3]));
    }
#endif
    return low | (uint32_t)high << 16;
}

/* x times factor as FP6. */
__device__ __forceinline__ void pack_fp6(const float *x, float factor, uint32_t *w)
{
    constexpr bool E2M3 = KF_ROW.element == KERF_ELEM_E2M3;
    constexpr float UNIT = E2M3 ? 0x1p-6f : 0x1p-12f, MOST = (E2M3 ? 7.5f : 28.0f) * UNIT;
    float y[CHUNK];
    uint32_t bytes[4];
    if constexpr (KF_HARDWARE_FP4) {
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = x[i] * factor;
#pragma unroll
        for (int k = 0; k < 4; k++) bytes[k] = squeeze6(convert_fp6<E2M3>(y + 4 * k));
    } else {
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = fminf(fmaxf(x[i] * (factor * UNIT), -MOST), MOST);
        pack_fp8(y, E2M3 ? __NV_E4M3 : __NV_E5M2, bytes);
#pragma unroll
        for (int k = 0; k < 4; k++)
            bytes[k] = squeeze6((bytes[k] & 0x1f1f1f1fu) | (bytes[k] >> 2 & 0x20202020u));
    }
    join6(bytes, w);
}

/* --- NF4 -----------------------------------------------------------------------------------------
 * Of the 33 buckets around -1, -15/16, ..., 1 none holds two of the 15 thresholds: a table in
 * shared memory gives the count of those below a bucket and the one inside. */
struct nf4_bucket {
    float threshold;
    uint32_t below;
};

__device__ __forceinline__ void fill_nf4_buckets(nf4_bucket *table)
{
    int i = (int)threadIdx.x;
    if (i > 32) return;
    nf4_bucket b = {2.0f, 0};
    float from = ((float)i - 0.5f) / 16 - 1, to = from + 0.0625f;
    for (uint32_t k = 0; k < 15; k++) {
        float t = (kf_nf4_entry(k) + kf_nf4_entry(k + 1)) * 0.5f;
        b.below += t < from;
        if (t >= from && t < to) b.threshold = t;
    }
    table[i] = b;
}

__device__ __forceinline__ void pack_nf4(const float *x, kf_quant q, const nf4_bucket *table,
                                         uint32_t *w)
{
    float y[CHUNK];
    if (q.zero) {
        divide_all<2>(x, q.factor, y);
    } else {
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = x[i] * q.factor;
    }
#pragma unroll
    for (int k = 0; k < 2; k++) {
        uint32_t sum = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float c = fminf(fmaxf(y[8 * k + i], -1.0f), 1.0f);
            uint32_t bucket = __float_as_uint(__fmaf_rn(c, 16.0f, MAGIC + 16.0f)) & 63;
            nf4_bucket b = table[bucket];
            sum |= (b.below + (c > b.threshold)) << 4 * (i ^ 1);
        }
        w[k] = sum;
    }
}

/* --- any format ------------------------------------------------------------------------------ */

/* Any encoder's rounding; not inlined, for it is long. */
__device__ __noinline__ uint32_t code_of(kf_quant q, float x)
{
    return kf_code(KF_ROW, q, x);
}

__device__ __forceinline__ void pack_slowly(const float *x, kf_quant q, uint32_t *w)
{
    constexpr int BITS = (int)KF_ROW.bits;
    uint32_t code[CHUNK];
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        if constexpr (KF_ROW.family == KERF_FAMILY_CAST)
            code[i] = kf_code(KF_ROW, q, x[i]);
        else
            code[i] = code_of(q, x[i]);
    }
    if constexpr (BITS == 6) {
        uint32_t c[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            c[k] =
                code[4 * k] | code[4 * k + 1] << 6 | code[4 * k + 2] << 12 | code[4 * k + 3] << 18;
        join6(c, w);
    } else {
        constexpr int PER = 32 / BITS;
#pragma unroll
        for (int k = 0; k < CODE_WORDS; k++) {
            w[k] = 0;
#pragma unroll
            for (int i = 0; i < PER; i++) w[k] |= code[PER * k + i] << BITS * i;
        }
    }
}

template <int D>
__device__ __forceinline__ void pack_mx(const float *x, const uint32_t *source, kf_quant q,
                                        uint32_t *w)
{
    float y[CHUNK];
    if constexpr (KF_ROW.element == KERF_ELEM_E2M1) {
        pack_e2m1<D>(x, source, q.factor, w);
    } else if constexpr (KF_ROW.element == KERF_ELEM_MXI8) {
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = x[i] * q.factor * 64.0f;
        pack_integers<8, true>(y, -127, 127, 128, 128, w);
    } else if constexpr (KF_ROW.bits == 6 && KF_HARDWARE_FP8) {
        pack_fp6(x, q.factor, w);
    } else if constexpr (KF_ROW.bits == 8 && KF_HARDWARE_FP8) {
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = x[i] * q.factor;
        pack_fp8(y, KF_ROW.element == KERF_ELEM_E4M3 ? __NV_E4M3 : __NV_E5M2, w);
    } else {
        pack_slowly(x, q, w);
    }
}

/* Codes of a chunk of one group by an encoder of kerf; `source`: the words of the elements, of type
 * D; `largest`: no element is of larger magnitude; `table`: NF4 alone. */
template <int D>
__device__ __forceinline__ void pack_chunk(const float *x, const uint32_t *source, kf_quant q,
                                           float largest, const nf4_bucket *table, uint32_t *w)
{
    constexpr int BITS = (int)KF_ROW.bits;
    constexpr int STEPS = D != KERF_F32 && KF_ROW.scale == KERF_SCALE_BF16 ? 1 : 2;
    float y[CHUNK];
    if constexpr (KF_ROW.family == KERF_FAMILY_MX) {
        pack_mx<D>(x, source, q, w);
    } else if constexpr (KF_ROW.family == KERF_FAMILY_CAST && KF_ROW.bits == 16) {
#pragma unroll
        for (int k = 0; k < CODE_WORDS; k++)
            w[k] = narrow_pair < KF_ROW.element == KERF_ELEM_F16
                       ? KERF_F16
                       : KERF_BF16 > (x[2 * k], x[2 * k + 1]);
    } else if constexpr (KF_ROW.family == KERF_FAMILY_NVFP4) {
        pack_e2m1<D>(x, source, q.factor, w);
        if (q.dead) w[0] = w[1] = 0;
    } else if constexpr (KF_ROW.family == KERF_FAMILY_FP8 && KF_HARDWARE_FP8) {
        divide_all<STEPS>(x, q.factor, y);
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = copysignf(y[i], x[i]); /* -0 was lost */
        pack_fp8(y, KF_ROW.element == KERF_ELEM_E4M3 ? __NV_E4M3 : __NV_E5M2, w);
    } else if constexpr (KF_ROW.family == KERF_FAMILY_INT) {
        constexpr int HALF = BITS <= 8 ? 1 << (BITS - 1) : 1;
        divide_all<STEPS>(x, q.factor, y);
        if (largest < (HALF - 0.6f) * q.factor) /* nothing is rounded to HALF */
            pack_integers<BITS, false>(y, 0, 0, HALF, HALF, w);
        else
            pack_integers<BITS, true>(y, -HALF, HALF - 1, HALF, HALF, w);
    } else if constexpr (KF_ROW.family == KERF_FAMILY_AFFINE) {
        int levels = kf_affine_levels(KF_ROW);
        divide_all<STEPS>(x, q.factor, y);
        pack_integers<BITS, true>(y, (float)-q.zero, (float)(levels - q.zero), q.zero,
                                  kf_affine_flip(KF_ROW), w);
    } else if constexpr (KF_ROW.family == KERF_FAMILY_NF4) {
        pack_nf4(x, q, table, w);
    } else {
        pack_slowly(x, q, w);
    }
}

/* --- to memory ------------------------------------------------------------------------------- */

/* Byte by byte: the first n codes; bits behind them up to the next byte are zero. */
__device__ __noinline__ void store_slowly(uint8_t *p, const uint32_t *w, int n)
{
    int bits = n * (int)KF_ROW.bits;
    for (int k = 0; 8 * k < bits; k++) {
        uint32_t byte = w[k / 4] >> 8 * (k % 4) & 0xff;
        int keep = bits - 8 * k;
        if (KF_ROW.element == KERF_ELEM_NF4) { /* the padding of an odd tail is a zero */
            if (keep < 8) byte = (byte & 0xf0) | KF_NF4_ZERO;
        } else if (keep < 8) {
            byte &= (1u << keep) - 1;
        }
        p[k] = (uint8_t)byte;
    }
}

constexpr int CODE_WIDE = CODE_WORDS % 4 == 0 ? 16 : CODE_WORDS == 2 ? 8 : 4; /* of a store */

/* All codes of a chunk, at a multiple of CODE_WIDE. */
__device__ __forceinline__ void store_whole(uint8_t *p, const uint32_t *w)
{
    constexpr int N = CODE_WORDS;
    if constexpr (CODE_WIDE == 16) {
#pragma unroll
        for (int k = 0; k < N / 4; k++)
            __stcs((uint4 *)p + k, make_uint4(w[4 * k], w[4 * k + 1], w[4 * k + 2], w[4 * k + 3]));
    } else if constexpr (CODE_WIDE == 8) {
        __stcs((uint2 *)p, make_uint2(w[0], w[1]));
    } else {
#pragma unroll
        for (int k = 0; k < N; k++) __stcs((unsigned *)p + k, w[k]);
    }
}

/* The same where all threads of a warp take part and have neighbouring chunks: the 12 bytes of each
 * of four threads are three stores of 16. Four threads begin at a multiple of 16 when p of the
 * first does. */
__device__ __forceinline__ void store_whole_warp(uint8_t *p, const uint32_t *w)
{
    if constexpr (CODE_WORDS == 3) {
        unsigned at = threadIdx.x % 4;
        uint32_t n0 = __shfl_down_sync(~0u, w[0], 1), n1 = __shfl_down_sync(~0u, w[1], 1),
                 n2 = __shfl_down_sync(~0u, w[2], 1);
        uint4 v = at == 0   ? make_uint4(w[0], w[1], w[2], n0)
                  : at == 1 ? make_uint4(w[1], w[2], n0, n1)
                            : make_uint4(w[2], n0, n1, n2);
        if (at < 3) __stcs((uint4 *)(p - 12 * at) + at, v);
    } else {
        store_whole(p, w);
    }
}

/* Stores the first n codes of a chunk. */
__device__ __forceinline__ void store_chunk(uint8_t *p, const uint32_t *w, int n)
{
    if (n == CHUNK && (uintptr_t)p % CODE_WIDE == 0) {
        store_whole(p, w);
        return;
    }
    uint32_t v[CODE_WORDS]; /* a copy, so that w stays in registers */
#pragma unroll
    for (int k = 0; k < CODE_WORDS; k++) v[k] = w[k];
    store_slowly(p, v, n);
}

} // namespace
#endif
