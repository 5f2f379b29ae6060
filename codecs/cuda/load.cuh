/* load.cuh - sixteen elements of any source type as fp32 in registers, and what to do with NaN.
 *
 * Sixteen bf16 are two 16-byte loads: a thread then owns a whole NVFP4 block and half an MX block,
 * so amax needs no shuffle or one. NaN and Inf cost one FMA per element: 0 * x is not zero then. */
#ifndef KERF_LOAD_CUH
#define KERF_LOAD_CUH

#include "cuda/kernel_job.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace
{

/* Elements of a thread: as many as fill a 16-byte store of what casts write, else 16. */
constexpr int CHUNK = KF_ROW.bits == 32 ? 4 : KF_ROW.bits == 16 ? 8 : 16;
constexpr int THREADS = 256; /* of a block */
constexpr bool IS_AFFINE = KF_ROW.family == KERF_FAMILY_AFFINE;

__host__ __device__ constexpr int source_bytes(int dtype)
{
    return dtype == KERF_F32 ? 4 : 2;
}

/* The two 16-bit numbers of a word. */
template <int D> __device__ __forceinline__ void widen_pair(uint32_t w, float *x)
{
    if constexpr (D == KERF_F16) {
        __half2 h;
        memcpy(&h, &w, 4);
        float2 f = __half22float2(h);
        x[0] = f.x;
        x[1] = f.y;
    } else {
        x[0] = __uint_as_float(w << 16);
        x[1] = __uint_as_float(w & 0xffff0000u);
    }
}

template <int D> struct pair_of {
    using type = __half2;
};
template <> struct pair_of<KERF_BF16> {
    using type = __nv_bfloat162;
};

/* A vector of BYTES bytes from memory that nobody writes meanwhile. Asked for as what is read once
 * (evict-first), the same bytes take an encoder up to a tenth longer on an H200. */
template <int BYTES> __device__ __forceinline__ void load_vector(const uint8_t *p, uint32_t *w)
{
    if constexpr (BYTES == 16) {
        uint4 v = __ldg((const uint4 *)p);
        w[0] = v.x;
        w[1] = v.y;
        w[2] = v.z;
        w[3] = v.w;
    } else {
        uint2 v = __ldg((const uint2 *)p);
        w[0] = v.x;
        w[1] = v.y;
    }
}

__device__ __forceinline__ bool has_special(const float *x, int n)
{
    float poison = 0;
#pragma unroll
    for (int k = 0; k < n; k++) poison = __fmaf_rn(x[k], 0.0f, poison);
    return poison != 0; /* NaN compares unequal */
}

/* The bits of an element under the NaN policy; `at` is its place in the range. */
template <int D> __device__ uint32_t repair_bits(const kf_job &j, uint32_t bits, uint64_t at)
{
    constexpr uint32_t SIGN = D == KERF_F32 ? 0x80000000u : 0x8000;
    constexpr uint32_t INF = D == KERF_F32 ? 0x7f800000u : D == KERF_F16 ? 0x7c00 : 0x7f80;
    uint32_t magnitude = bits & (SIGN - 1);
    if (magnitude < INF) return bits;
    if (j.nan == KERF_NAN_ERROR) atomicMin(j.word, (unsigned long long)at);
    bool keep = j.nan == KERF_NAN_SATURATE && magnitude == INF;
    return keep ? (bits & SIGN) | (INF - 1) : 0; /* the largest finite number */
}

template <int D> __device__ __forceinline__ uint32_t load_bits(const uint8_t *p, uint64_t i)
{
    return D == KERF_F32 ? ((const uint32_t *)p)[i] : ((const uint16_t *)p)[i];
}

template <int D> __device__ __forceinline__ float widen_bits(uint32_t bits)
{
    return D == KERF_F32   ? kf_float(bits)
           : D == KERF_F16 ? kf_f16_decode((uint16_t)bits)
                           : kf_bf16_decode((uint16_t)bits);
}

/* Words of elements [i, i + CHUNK) of a line, one by one: for the end of a line, for rows that lie
 * askew and for NaN. Zeros behind the end. Not inlined, so that what is rare costs the rest no
 * registers. */
template <int D>
__device__ __noinline__ void load_slowly(const kf_job &j, uint64_t line, uint64_t i,
                                         volatile uint32_t *w)
{
    constexpr int PER = 4 / source_bytes(D);
    uint64_t at = line * j.width + i;
#pragma unroll 1
    for (int k = 0; k < CHUNK; k += PER) {
        uint32_t word = 0;
        for (int n = 0; n < PER; n++)
            if (i + k + n < j.width)
                word |= repair_bits<D>(j, load_bits<D>(j.dense, at + k + n), j.offset + at + k + n)
                        << 16 * n;
        w[k / PER] = word;
    }
}

/* A chunk as it lies in memory. Kernels load all theirs before they look at the first: nothing may
 * stand between loads that waits for one of them. */
template <int D> struct raw_chunk {
    static constexpr int WORDS = CHUNK * source_bytes(D) / 4;
    static constexpr int WIDE = WORDS < 4 ? 4 * WORDS : 16; /* bytes of a load */
    uint32_t w[WORDS];
    bool slow; /* not loaded: it is not whole, or lies askew */
};

/* A whole chunk at an address that is a multiple of WIDE. */
template <int D> __device__ __forceinline__ raw_chunk<D> load_whole(const uint8_t *p)
{
    constexpr int WIDE = raw_chunk<D>::WIDE;
    raw_chunk<D> r;
    r.slow = false;
#pragma unroll
    for (int k = 0; k < 4 * raw_chunk<D>::WORDS / WIDE; k++)
        load_vector<WIDE>(p + k * WIDE, r.w + k * WIDE / 4);
    return r;
}

template <int D>
__device__ __forceinline__ raw_chunk<D> load_raw(const kf_job &j, uint64_t line, uint64_t i)
{
    const uint8_t *p = j.dense + (line * j.width + i) * source_bytes(D);
    if (i + CHUNK <= j.width && (uintptr_t)p % raw_chunk<D>::WIDE == 0) return load_whole<D>(p);
    raw_chunk<D> r = {};
    r.slow = true;
    return r;
}

/* What a group must know of its elements and zero; hi is amax unless the format is affine. For the
 * encoders of other projects (ENC_PEER) it is the range of the elements alone. */
struct extremes {
    float lo, hi;
};

template <bool BOTH = IS_AFFINE>
__device__ __forceinline__ void widen_range(extremes *e, float lo, float hi)
{
    if (BOTH) e->lo = fminf(e->lo, lo);
    e->hi = fmaxf(e->hi, hi);
}

/* Extremes of whole words; returns whether there is a NaN or Inf among them. Without their signs
 * 16-bit floats order like integers, two at a time, and NaN and Inf come last; with both ends
 * wanted, the hardware's minimum and maximum of pairs let a NaN through. */
template <int D> __device__ __forceinline__ bool find_extremes(const raw_chunk<D> &r, extremes *e)
{
    constexpr int WORDS = raw_chunk<D>::WORDS;
    if constexpr (D == KERF_F32) {
        float x[WORDS];
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            x[i] = __uint_as_float(r.w[i]);
            widen_range(e, x[i], IS_AFFINE ? x[i] : fabsf(x[i]));
        }
        return has_special(x, WORDS);
    } else if constexpr (IS_AFFINE) {
        using pair = typename pair_of<D>::type;
        pair lo, hi;
        memcpy(&lo, &r.w[0], 4);
        hi = lo;
#pragma unroll
        for (int k = 1; k < WORDS; k++) {
            pair x;
            memcpy(&x, &r.w[k], 4);
            lo = __hmin2_nan(lo, x);
            hi = __hmax2_nan(hi, x);
        }
        uint32_t bits[2];
        float ends[4];
        memcpy(&bits[0], &lo, 4);
        memcpy(&bits[1], &hi, 4);
        widen_pair<D>(bits[0], ends);
        widen_pair<D>(bits[1], ends + 2);
        widen_range(e, fminf(ends[0], ends[1]), fmaxf(ends[2], ends[3]));
        return has_special(ends, 4);
    } else {
        uint32_t most = 0;
        float amax[2];
#pragma unroll
        for (int k = 0; k < WORDS; k++) most = __vmaxu2(most, r.w[k] & 0x7fff7fffu);
        most = max(most & 0xffff, most >> 16);
        widen_pair<D>(most, amax);
        e->hi = fmaxf(e->hi, amax[0]);
        return most >= (D == KERF_F16 ? 0x7c00 : 0x7f80);
    }
}

/* Applies the NaN policy to a chunk and adds it to the extremes. `line` counts from the first of
 * the job. */
template <int D>
__device__ __forceinline__ void settle_chunk(const kf_job &j, uint64_t line, uint64_t i,
                                             raw_chunk<D> *r, extremes *e)
{
    extremes with = *e;
    bool special = find_extremes<D>(*r, &with);
    if (r->slow || special) {
        volatile uint32_t w[raw_chunk<D>::WORDS]; /* volatile, or r would live in memory, too */
        load_slowly<D>(j, line, i, w);
#pragma unroll
        for (int k = 0; k < raw_chunk<D>::WORDS; k++) r->w[k] = w[k];
        with = *e;
        find_extremes<D>(*r, &with);
    }
    *e = with;
}

template <int D> __device__ __forceinline__ void widen_chunk(const raw_chunk<D> &r, float *x)
{
#pragma unroll
    for (int k = 0; k < raw_chunk<D>::WORDS; k++) {
        if constexpr (D == KERF_F32)
            x[k] = __uint_as_float(r.w[k]);
        else
            widen_pair<D>(r.w[k], x + 2 * k);
    }
}

/* n / d, mostly of numbers that fit into 32 bits, which is a quarter of the work. */
__device__ __forceinline__ uint64_t quotient(uint64_t n, uint64_t d)
{
    return (n | d) >> 32 == 0 ? (uint32_t)n / (uint32_t)d : n / d;
}

__device__ __forceinline__ uint64_t matrix_of(const kf_job &j, uint64_t line)
{
    return j.lines_per_matrix == 1 ? line : quotient(j.first_line + line, j.lines_per_matrix);
}

} // namespace
#endif
