/* load.cuh - sixteen elements of any source type as fp32 in registers, and what to do with NaN.
 *
 * Sixteen bf16 are two 16-byte loads: a thread then owns a whole NVFP4 block and half an MX block,
 * so amax needs no shuffle or one. NaN and Inf cost one FMA per element: 0 * x is not zero then. */
#ifndef KERF_LOAD_CUH
#define KERF_LOAD_CUH

#include "cuda/job.h"

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

template <int D> __device__ __forceinline__ float load_one(const uint8_t *p, uint64_t i)
{
    if constexpr (D == KERF_F32) return ((const float *)p)[i];
    uint16_t half = ((const uint16_t *)p)[i];
    return D == KERF_F16 ? kf_f16_decode(half) : kf_bf16_decode(half);
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

/* A vector of BYTES bytes from memory that is read once, or soon again (KEEP). */
template <int BYTES, bool KEEP>
__device__ __forceinline__ void load_vector(const uint8_t *p, uint32_t *w)
{
    if constexpr (BYTES == 16) {
        uint4 v = KEEP ? __ldg((const uint4 *)p) : __ldcs((const uint4 *)p);
        w[0] = v.x;
        w[1] = v.y;
        w[2] = v.z;
        w[3] = v.w;
    } else {
        uint2 v = KEEP ? __ldg((const uint2 *)p) : __ldcs((const uint2 *)p);
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

/* Largest finite number of a source type. */
template <int D> __device__ float largest_of()
{
    return D == KERF_F16 ? 65504.0f : D == KERF_BF16 ? kf_float(0x7f7f0000) : KF_F32_MAX;
}

/* Applies the NaN policy to one element whose place in the range is `at`. */
template <int D> __device__ float repair_one(const kf_job &j, float x, uint64_t at)
{
    if (kf_is_finite(x)) return x;
    if (j.nan == KERF_NAN_ERROR) atomicMin(j.word, (unsigned long long)at);
    bool keep = j.nan == KERF_NAN_SATURATE && x == x;
    return !keep ? 0 : x > 0 ? largest_of<D>() : -largest_of<D>();
}

/* Elements [i, i + CHUNK) of a line, one by one: for the end of a line, for rows that lie askew and
 * for NaN. Zeros behind the end. Not inlined, so that what is rare costs the rest no registers. */
template <int D>
__device__ __noinline__ void load_slowly(const kf_job &j, uint64_t line, uint64_t i,
                                         volatile float *x)
{
    uint64_t at = line * j.width + i;
    for (int k = 0; k < CHUNK; k++)
        x[k] =
            i + k < j.width ? repair_one<D>(j, load_one<D>(j.dense, at + k), j.offset + at + k) : 0;
}

/* A chunk as it lies in memory. Kernels load all theirs before they look at the first: nothing may
 * stand between loads that waits for one of them. */
template <int D> struct raw_chunk {
    uint32_t w[CHUNK * source_bytes(D) / 4];
    bool slow; /* not loaded: it is not whole, or lies askew */
};

template <int D, bool KEEP>
__device__ __forceinline__ raw_chunk<D> load_raw(const kf_job &j, uint64_t line, uint64_t i)
{
    constexpr int BYTES = CHUNK * source_bytes(D), WIDE = BYTES < 16 ? BYTES : 16;
    const uint8_t *p = j.dense + (line * j.width + i) * source_bytes(D);
    raw_chunk<D> r;
    r.slow = i + CHUNK > j.width || (uintptr_t)p % WIDE != 0;
#pragma unroll
    for (int k = 0; k < BYTES / 4; k++) r.w[k] = 0;
    if (!r.slow) {
#pragma unroll
        for (int k = 0; k < BYTES / WIDE; k++)
            load_vector<WIDE, KEEP>(p + k * WIDE, r.w + k * WIDE / 4);
    }
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

__device__ __forceinline__ void add_chunk(extremes *e, const float *x)
{
#pragma unroll
    for (int i = 0; i < CHUNK; i++) widen_range(e, x[i], IS_AFFINE ? x[i] : fabsf(x[i]));
}

/* Widens a chunk and adds it to the extremes; returns whether there is a NaN or Inf in it. Without
 * their signs 16-bit floats order like integers, two at a time, and NaN and Inf come last. */
template <int D>
__device__ __forceinline__ bool widen_chunk(const raw_chunk<D> &r, float *x, extremes *e)
{
    constexpr int WORDS = CHUNK * source_bytes(D) / 4;
    uint32_t most = 0;
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        if constexpr (D == KERF_F32) {
            x[k] = __uint_as_float(r.w[k]);
        } else {
            widen_pair<D>(r.w[k], x + 2 * k);
            most = __vmaxu2(most, r.w[k] & 0x7fff7fffu);
        }
    }
    if (D == KERF_F32 || IS_AFFINE) add_chunk(e, x);
    if constexpr (D == KERF_F32) return has_special(x, CHUNK);
    most = max(most & 0xffff, most >> 16);
    float amax[2];
    widen_pair<D>(most, amax);
    if (!IS_AFFINE) e->hi = fmaxf(e->hi, amax[0]);
    return most >= (D == KERF_F16 ? 0x7c00 : 0x7f80);
}

/* The elements of a chunk, after the NaN policy, added to the extremes. `line` counts from the
 * first of the job. */
template <int D>
__device__ __forceinline__ void widen_finite(const kf_job &j, uint64_t line, uint64_t i,
                                             const raw_chunk<D> &r, float *x, extremes *e)
{
    extremes before = *e;
    bool special = widen_chunk<D>(r, x, e);
    if (r.slow || special) {
        volatile float y[CHUNK]; /* volatile, or the compiler would let x live in memory, too */
        load_slowly<D>(j, line, i, y);
#pragma unroll
        for (int k = 0; k < CHUNK; k++) x[k] = y[k];
        *e = before;
        add_chunk(e, x);
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
