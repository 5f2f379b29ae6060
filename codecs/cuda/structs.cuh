/* structs.cuh - GGUF's blocks, scale and codes in one struct of 17 to 36 bytes: a thread takes a
 * group. Structs are put together in shared memory and leave it in whole lines, for their own
 * addresses are odd.
 *
 * Codes are those of kf_code() in block/, in fewer instructions:
 *
 *   integers  where block/ cuts a positive number off, adding 2^23 rounded down does the same
 *   E2M1      the nearest code, ties to the lower one. A number of 16 bits is a tie or further than
 *             2^-11 of itself from one, a scale has 4 bits: multiplied by 1 - 2^-14 as well, ties
 *             have moved below themselves and nothing else has crossed one. fp32 is compared with
 *             the seven ties, which are exact. Both hold while elements are not far above the
 *             largest code (FAR), where distances would lose their last bits
 *
 * Groups beyond that, and those whose largest codes overflow, are encoded by block/ itself. */
#ifndef KERF_STRUCTS_CUH
#define KERF_STRUCTS_CUH

#include "cuda/encode.cuh"
#include "scalar/pack.h"

namespace
{

/* A block of threads works on THREADS groups: whole structs, and a multiple of 16 bytes. */
constexpr unsigned STRUCT_GROUP_BYTES = SCALE_BYTES + GROUP * KF_ROW.bits / 8;
constexpr unsigned STRUCT_TILE = THREADS * GROUP;
constexpr unsigned STRUCT_TILE_BYTES = THREADS * STRUCT_GROUP_BYTES;
constexpr int GROUP_CHUNKS = GROUP / CHUNK, GROUP_WORDS = GROUP * (int)KF_ROW.bits / 32;
/* Codes of a group in shared memory begin at a multiple of this. */
constexpr int STRUCT_ALIGN = KF_ROW.scale == KERF_SCALE_E4M3 ? 4 : SCALE_BYTES;
constexpr float FAR = 1024;

/* n bytes by all threads of a block; one side is shared memory. */
__device__ __forceinline__ void copy_bytes(uint8_t *to, const uint8_t *from, unsigned n)
{
    if (((uintptr_t)to | (uintptr_t)from | n) % 16 == 0) {
        for (unsigned i = threadIdx.x; i < n / 16; i += THREADS)
            ((uint4 *)to)[i] = ((const uint4 *)from)[i];
    } else {
        for (unsigned i = threadIdx.x; i < n; i += THREADS) to[i] = from[i];
    }
}

/* --- codes of a group ------------------------------------------------------------------------ */

/* Floats 2^23 + n, n_i 2^(BITS i) summed. */
template <int BITS> __device__ __forceinline__ uint32_t pack_whole(const float *s)
{
    uint32_t sum = 0;
#pragma unroll
    for (int i = 32 / BITS - 1; i >= 0; i--) sum = (sum << BITS) + __float_as_uint(s[i]);
    return sum - 0x4b000000u * every_code(BITS);
}

__device__ __forceinline__ void pack_q4(const float *x, float factor, uint32_t *w)
{
    float s[CHUNK];
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        s[i] = __fadd_rd(fminf(fmaxf(x[i] * factor + 8.5f, 0.0f), 15.0f), 0x1p23f);
    w[0] = pack_whole<4>(s);
    w[1] = pack_whole<4>(s + 8);
}

__device__ __forceinline__ void pack_q8(const float *x, float factor, uint32_t *w)
{
    float s[CHUNK];
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        float y = x[i] * factor, a = __fadd_rd(fminf(fabsf(y), 127.0f), 0.5f);
        s[i] = copysignf(__fadd_rd(a, 0x1p23f) - 0x1p23f, y) + MAGIC;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        w[k] = (pack_magic<8>(s + 4 * k) + 128 * every_code(8)) ^ 128 * every_code(8);
}

/* d: what the code of 1 stands for. */
template <int D>
__device__ __forceinline__ void pack_low_e2m1(const float *x, const uint32_t *source, float d,
                                              uint32_t *w)
{
    uint32_t codes[2];
    if constexpr (D == KERF_F32) {
        const float ties[] = {0.25f * d, 0.75f * d, 1.25f * d, 1.75f * d,
                              2.5f * d,  3.5f * d,  5 * d};
#pragma unroll
        for (int k = 0; k < 2; k++) {
            codes[k] = 0;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                uint32_t code = 0;
#pragma unroll
                for (int n = 0; n < 7; n++) code += fabsf(x[8 * k + i]) > ties[n];
                codes[k] |= code << 4 * i;
            }
            codes[k] |= signs_of<D>(source + 8 * k);
        }
    } else {
        pack_e2m1<D>(x, source, d > 0 ? 1.0f / d * (1 - 0x1p-14f) : 0.0f, codes);
    }
#pragma unroll
    for (int k = 0; k < 2; k++) { /* there is no negative zero */
        uint32_t any = (codes[k] | codes[k] >> 1 | codes[k] >> 2) & every_code(4);
        w[k] = codes[k] & (any * 8 | 0x77777777u);
    }
}

template <int D>
__device__ __forceinline__ void pack_struct(const float *x, const uint32_t *source, kf_quant q,
                                            uint32_t *w)
{
    if constexpr (KF_ROW.element == KERF_ELEM_U4)
        pack_q4(x, q.factor, w);
    else if constexpr (KF_ROW.element == KERF_ELEM_S8)
        pack_q8(x, q.factor, w);
    else
        pack_low_e2m1<D>(x, source, 2 * q.factor, w);
}

/* Where the fast ways hold. */
__device__ __forceinline__ bool is_plain(kf_quant q, float amax)
{
    if constexpr (KF_ROW.bits == 8 || KF_ROW.element == KERF_ELEM_U4)
        return fabsf(q.factor) < __builtin_huge_valf();
    return amax <= FAR * q.factor && q.factor <= 0x1p124f; /* no code stands for Inf */
}

__device__ __noinline__ void pack_struct_slowly(const volatile float *x, kf_quant q,
                                                volatile uint32_t *w)
{
    constexpr int BITS = (int)KF_ROW.bits;
    for (int k = 0; k < CODE_WORDS; k++) w[k] = 0;
    for (int i = 0; i < CHUNK; i++) w[i * BITS / 32] |= kf_code(KF_ROW, q, x[i]) << i * BITS % 32;
}

/* The first element of the largest magnitude: what q4_0 scales by. */
__device__ __forceinline__ float peak_of(const float *x, float amax)
{
    float peak = 0;
#pragma unroll
    for (int k = GROUP - 1; k >= 0; k--)
        if (fabsf(x[k]) == amax) peak = x[k];
    return amax > 0 ? peak : 0;
}

/* --- a group in shared memory ---------------------------------------------------------------- */

/* Four codes of 4 bits to the low halves of four bytes. */
__device__ __forceinline__ uint32_t spread4(uint32_t v)
{
    v = (v & 0xff) | (v & 0xff00) << 8;
    return (v & 0x000f000f) | (v & 0x00f000f0) << 4;
}

/* The first half of a group in low halves of bytes, the second in the high ones. */
__device__ __forceinline__ void interleave(const uint32_t *w, uint32_t *out)
{
    if constexpr (KF_ROW.bits == 8) {
#pragma unroll
        for (int k = 0; k < GROUP_WORDS; k++) out[k] = w[k];
    } else {
#pragma unroll
        for (int k = 0; k < GROUP_WORDS; k++) {
            int from = k / 2, shift = k % 2 * 16;
            out[k] = spread4(w[from] >> shift) | spread4(w[from + GROUP_WORDS / 2] >> shift) << 4;
        }
    }
}

__device__ __forceinline__ void put_group(uint8_t *row, unsigned group, uint32_t scale,
                                          const uint32_t *w)
{
    uint8_t *s = row + kf_struct_scale(KF_ROW, group);
    uint8_t *c = row + kf_struct_code(KF_ROW, (size_t)group * GROUP) * KF_ROW.bits / 8;
    if constexpr (SCALE_BYTES == 2)
        *(uint16_t *)s = (uint16_t)scale;
    else
        *s = (uint8_t)scale;
#pragma unroll
    for (int k = 0; k < GROUP_WORDS; k++) {
#pragma unroll
        for (int n = 0; n < 4; n += STRUCT_ALIGN) {
            uint32_t part = w[k] >> 8 * n;
            uint8_t *p = c + 4 * k + n;
            if constexpr (STRUCT_ALIGN == 4)
                *(uint32_t *)p = part;
            else if constexpr (STRUCT_ALIGN == 2)
                *(uint16_t *)p = (uint16_t)part;
            else
                *p = (uint8_t)part;
        }
    }
}

/* Group threadIdx.x of a tile that begins at element `first`. A job is one line, since rows end
 * with a whole struct. */
template <int D>
__device__ __forceinline__ void encode_group(const kf_job &j, uint64_t first, uint8_t *row)
{
    float x[GROUP];
    raw_chunk<D> raw[GROUP_CHUNKS];
    extremes e = {0, 0};
    uint64_t i = first + threadIdx.x * GROUP;
#pragma unroll
    for (int k = 0; k < GROUP_CHUNKS; k++) raw[k] = load_raw<D>(j, 0, i + k * CHUNK);
#pragma unroll
    for (int k = 0; k < GROUP_CHUNKS; k++) {
        settle_chunk<D>(j, 0, i + k * CHUNK, &raw[k], &e);
        widen_chunk<D>(raw[k], x + k * CHUNK);
    }
    kf_tensor t = no_tensor(j);
    float largest = KF_ROW.element == KERF_ELEM_U4 ? peak_of(x, e.hi) : e.hi;
    float ends[2] = {largest, largest};
    kf_group g = {ends, 1, 2, 2, 1};
    kf_scale scale = kf_choose(KF_ROW, j.encoder, &t, g);
    kf_quant q = kf_quant_init(KF_ROW, j.encoder, &t, scale, g);
    uint32_t w[GROUP_WORDS], out[GROUP_WORDS];
    bool plain = is_plain(q, e.hi);
#pragma unroll
    for (int k = 0; k < GROUP_CHUNKS; k++) {
        uint32_t *to = w + k * CODE_WORDS;
        pack_struct<D>(x + k * CHUNK, raw[k].w, q, to);
        if (!plain) {
            volatile float y[CHUNK]; /* volatile, as in load.cuh */
            volatile uint32_t v[CODE_WORDS];
#pragma unroll
            for (int n = 0; n < CHUNK; n++) y[n] = x[k * CHUNK + n];
            pack_struct_slowly(y, q, v);
#pragma unroll
            for (int n = 0; n < CODE_WORDS; n++) to[n] = v[n];
        }
    }
    interleave(w, out);
    put_group(row, threadIdx.x, scale.bits, out);
}

template <int D>
__global__ void __launch_bounds__(THREADS) encode_structs(const __grid_constant__ kf_job j)
{
    __shared__ uint4 structs[STRUCT_TILE_BYTES / 16];
    uint8_t *row = (uint8_t *)structs;
    uint64_t first = (uint64_t)blockIdx.x * STRUCT_TILE, left = j.width - first;
    unsigned groups = left < STRUCT_TILE ? (unsigned)left / GROUP : THREADS;
    if (threadIdx.x < groups) encode_group<D>(j, first, row);
    __syncthreads();
    copy_bytes(j.plane[KERF_PLANE_CODES] + blockIdx.x * (uint64_t)STRUCT_TILE_BYTES, row,
               groups * STRUCT_GROUP_BYTES);
}

} // namespace
#endif
