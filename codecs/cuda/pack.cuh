/* pack.cuh - a chunk of numbers to packed codes. Each way gives the codes of kf_code() in
 * block/, bit for bit, in fewer instructions; what has no faster way calls kf_code() itself.
 *
 * Memory bandwidth leaves an H200 about 20 instructions for an element of a 4-bit format, half as
 * many on the integer pipe, and the loads and stores want their part. Hence
 *
 *   rounding  happens in the FMA pipe: adding 1.5 * 2^23 leaves the rounded integer in the low bits
 *             of a float, and floats are packed as they are, by multiply-add, with all the exponent
 *             bits taken off at the end by one subtraction
 *   clamps    are left out where the extremes of the group show that nothing can be clamped
 *   pairs     of 16-bit elements stay pairs where the factor is a power of two */
#ifndef KERF_PACK_CUH
#define KERF_PACK_CUH

#include "cuda/e2m1.cuh"

#include <cuda_fp8.h>

namespace
{

/* --- 16 bits ------------------------------------------------------------------------------------
 */

/* Two numbers in a 16-bit type, rounded to nearest even, but NaN becomes what the hardware likes.
 */
template <int D> __device__ __forceinline__ uint32_t narrow_pair(float a, float b)
{
    if constexpr (D == KERF_F16)
        return bits_of(__floats2half2_rn(a, b));
    else
        return bits_of(__floats2bfloat162_rn(a, b));
}

/* --- FP8 and FP6 by the conversions of sm_89 -----------------------------------------------------
 * E2M3 times 2^-6 has the bits of an E4M3, E3M2 times 2^-12 those of an E5M2: same mantissa, same
 * least normal number. Only the largest number differs, so y is clamped before if it has to be. */
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

/* Four codes of 6 bits at the bottom of four bytes to 24 bits: of two bytes, then of two pairs, the
 * upper one moves down. */
__device__ __forceinline__ uint32_t squeeze6(uint32_t v)
{
    v -= permute(v, 0, 0x4341) * ((1 << 8) - (1 << 6));
    return v - (v >> 16) * ((1 << 16) - (1 << 12));
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

/* x times factor as FP6; no element is of larger magnitude than `largest`. */
__device__ __forceinline__ void pack_fp6(const float *x, float factor, float largest, uint32_t *w)
{
    constexpr bool E2M3 = KF_ROW.element == KERF_ELEM_E2M3;
    constexpr float UNIT = E2M3 ? 0x1p-6f : 0x1p-12f, MOST = (E2M3 ? 7.5f : 28.0f) * UNIT;
    constexpr float TOO_MUCH = E2M3 ? 7.75f : 30.0f; /* rounded up to what E2M3 and E3M2 have not */
    float y[CHUNK];
    uint32_t bytes[4];
    if constexpr (KF_HARDWARE_FP4) {
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = x[i] * factor;
#pragma unroll
        for (int k = 0; k < 4; k++) bytes[k] = squeeze6(convert_fp6<E2M3>(y + 4 * k));
    } else {
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = x[i] * (factor * UNIT);
        if (!(largest * factor < TOO_MUCH)) {
#pragma unroll
            for (int i = 0; i < CHUNK; i++) y[i] = fminf(fmaxf(y[i], -MOST), MOST);
        }
        pack_fp8(y, E2M3 ? __NV_E4M3 : __NV_E5M2, bytes);
#pragma unroll
        for (int k = 0; k < 4; k++)
            bytes[k] = squeeze6((bytes[k] & 0x1f1f1f1fu) | (bytes[k] >> 2 & 0x20202020u));
    }
    join6(bytes, w);
}

/* --- NF4 -----------------------------------------------------------------------------------------
 * Of the 33 buckets around -1, -15/16, ..., 1 none holds two of the 15 thresholds: a table in
 * shared memory gives the count of those below a bucket and the one inside, or the end of the
 * bucket. c less that lies in (-1/16, 1/16]: added to the count and rounded up, it counts the
 * threshold. The table is there 16 times, so that the lanes of half a warp read from banks of their
 * own. */
struct alignas(8) nf4_bucket {
    float threshold, below; /* 2^23 + the count */
};
constexpr unsigned NF4_BUCKETS = 33, NF4_COPIES = 16;

__device__ __forceinline__ void fill_nf4_buckets(nf4_bucket *table)
{
    for (unsigned i = threadIdx.x; i < NF4_BUCKETS * NF4_COPIES; i += THREADS) {
        float from = ((float)(i / NF4_COPIES) - 0.5f) / 16 - 1, to = from + 0.0625f;
        nf4_bucket b = {to, 0x1p23f};
        for (uint32_t k = 0; k < 15; k++) {
            float t = (kf_nf4_entry(k) + kf_nf4_entry(k + 1)) * 0.5f;
            if (t < from) b.below += 1;
            if (t >= from && t < to) b.threshold = t;
        }
        table[i] = b;
    }
}

/* 2^23 + the code of c, which is not far beyond 1. The low bits of a float are the bucket's index,
 * plus 1 because c may be below -1; its high bits go when it is multiplied by the stride. */
__device__ __forceinline__ float nf4_code(float c, unsigned table)
{
    constexpr unsigned STRIDE = NF4_COPIES * sizeof(nf4_bucket);
    static_assert(0x4c000000u * STRIDE == 0, "those of 2^25");
    uint32_t i = __float_as_uint(__fmaf_rn(c, 4 * 16.0f, 0x1p25f + 4 * 17));
    nf4_bucket b;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2 + %3];"
                 : "=f"(b.threshold), "=f"(b.below)
                 : "r"(i * STRIDE + table), "n"(-(int)STRIDE)
                 : "memory"); /* the table was written */
    return __fadd_ru(c - b.threshold, b.below);
}

__device__ __forceinline__ void pack_nf4(const float *x, kf_quant q, float largest,
                                         const nf4_bucket *table, uint32_t *w)
{
    float y[CHUNK];
    unsigned mine = (unsigned)__cvta_generic_to_shared(table + threadIdx.x % NF4_COPIES);
    if (q.zero) {
        divide_all<KERF_F32>(x, q.factor, y);
    } else {
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = x[i] * q.factor;
    }
    if (q.zero || !(largest * q.factor < 1.03f)) {
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = fminf(fmaxf(y[i], -1.0f), 1.0f);
    }
#pragma unroll
    for (int k = 0; k < 2; k++) {
        float s[8];
#pragma unroll
        for (int i = 0; i < 8; i++) s[i] = nf4_code(y[8 * k + (i ^ 1)], mine);
        w[k] = pack_whole<4>(s);
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

/* No element is of larger magnitude than `largest`. */
template <int D>
__device__ __forceinline__ void pack_mx(const float *x, const uint32_t *source, kf_quant q,
                                        float largest, uint32_t *w)
{
    float y[CHUNK];
    if constexpr (KF_ROW.element == KERF_ELEM_E2M1 && D != KERF_F32 && !KF_HARDWARE_FP4) {
        pack_e2m1_halves<D>(source, q.factor, w);
    } else if constexpr (KF_ROW.element == KERF_ELEM_E2M1) {
        pack_e2m1<D>(x, source, q.factor, w);
    } else if constexpr (KF_ROW.element == KERF_ELEM_MXI8) {
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = __fmaf_rn(x[i] * q.factor, 64.0f, MAGIC);
        if (!(largest * q.factor < 127.5f / 64)) clamp_magic(y, -127, 127);
        pack_integers<8>(y, 128, 128, w);
    } else if constexpr (KF_ROW.bits == 6 && KF_HARDWARE_FP8) {
        pack_fp6(x, q.factor, largest, w);
    } else if constexpr (KF_ROW.bits == 8 && KF_HARDWARE_FP8) {
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i] = x[i] * q.factor;
        pack_fp8(y, KF_ROW.element == KERF_ELEM_E4M3 ? __NV_E4M3 : __NV_E5M2, w);
    } else {
        pack_slowly(x, q, w);
    }
}

/* Codes of a chunk of one group by an encoder of kerf; `source`: the words of the elements, of type
 * D; e: no element lies outside; `table`: NF4 alone. */
template <int D>
__device__ __forceinline__ void pack_chunk(const float *x, const uint32_t *source, kf_quant q,
                                           extremes e, const nf4_bucket *table, uint32_t *w)
{
    constexpr int BITS = (int)KF_ROW.bits;
    float y[CHUNK];
    if constexpr (KF_ROW.family == KERF_FAMILY_MX) {
        pack_mx<D>(x, source, q, e.hi, w);
    } else if constexpr (KF_ROW.family == KERF_FAMILY_CAST && KF_ROW.bits == 16) {
#pragma unroll
        for (int k = 0; k < CODE_WORDS; k++)
            w[k] = narrow_pair < KF_ROW.element == KERF_ELEM_F16
                       ? KERF_F16
                       : KERF_BF16 > (x[2 * k], x[2 * k + 1]);
    } else if constexpr (KF_ROW.family == KERF_FAMILY_NVFP4) {
        if constexpr (D != KERF_F32 && !KF_HARDWARE_FP4)
            pack_e2m1_near<D>(x, source, q.factor, e.hi, w);
        else
            pack_e2m1<D>(x, source, q.factor, w);
        if (q.dead) w[0] = w[1] = 0;
    } else if constexpr (KF_ROW.family == KERF_FAMILY_FP8 && KF_HARDWARE_FP8) {
        divide_all<D>(x, q.factor, y);
        if constexpr (D == KERF_F32) {
#pragma unroll
            for (int i = 0; i < CHUNK; i++) y[i] = copysignf(y[i], x[i]); /* -0 was lost */
        }
        pack_fp8(y, KF_ROW.element == KERF_ELEM_E4M3 ? __NV_E4M3 : __NV_E5M2, w);
    } else if constexpr (KF_ROW.family == KERF_FAMILY_INT) {
        constexpr int HALF = BITS <= 8 ? 1 << (BITS - 1) : 1;
        divide_to_magic<D>(x, q.factor, y);
        if (!(e.hi < (HALF - 0.6f) * q.factor)) clamp_magic(y, -HALF, HALF - 1);
        pack_integers<BITS>(y, HALF, HALF, w);
    } else if constexpr (KF_ROW.family == KERF_FAMILY_AFFINE) {
        float below = (float)q.zero, above = (float)(kf_affine_levels(KF_ROW) - q.zero);
        divide_to_magic<D>(x, q.factor, y);
        if (!(-e.lo < (below + 0.4999f) * q.factor && e.hi < (above + 0.4999f) * q.factor))
            clamp_magic(y, -below, above);
        pack_integers<BITS>(y, q.zero, kf_affine_flip(KF_ROW), w);
    } else if constexpr (KF_ROW.family == KERF_FAMILY_NF4) {
        pack_nf4(x, q, e.hi, table, w);
    } else {
        pack_slowly(x, q, w);
    }
}

/* --- to memory ------------------------------------------------------------------------------- */

/* Byte by byte: the first n codes; bits behind them up to the next byte are zero. The words come by
 * value: an array would be kept in memory by all who ever call this. */
__device__ __noinline__ void store_slowly(uint8_t *p, uint4 words, int n)
{
    const uint32_t w[4] = {words.x, words.y, words.z, words.w};
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
    uint32_t v[4] = {};
#pragma unroll
    for (int k = 0; k < CODE_WORDS; k++) v[k] = w[k];
    store_slowly(p, make_uint4(v[0], v[1], v[2], v[3]), n);
}

} // namespace
#endif
