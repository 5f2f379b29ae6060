/* supers.cuh - GGUF's blocks of two levels to numbers: eight codes of a group per thread and turn,
 * as decode.cuh, with the blocks of a tile in shared memory, since they lie at odd addresses. Bits
 * of eight elements that lie together are eight bytes, or one (block/super_layout.h). */
#ifndef KERF_SUPERS_CUH
#define KERF_SUPERS_CUH

#include "cuda/eight.cuh"
#include "cuda/grid.cuh"
#include "cuda/structs.cuh"

namespace
{

constexpr kf_super BLOCK = kf_super_of(KF_ROW);
constexpr bool HAS_HIGH = BLOCK.high.bits != 0, HIGH_BYTES = HAS_HIGH && BLOCK.high.run > 1;
static_assert(BLOCK.low.run % EIGHT == 0, "eight elements have their low bits at one place");

constexpr unsigned SUPER_TURNS = 2;                            /* of a thread */
constexpr unsigned SUPER_TILE = SUPER_TURNS * THREADS * EIGHT; /* elements of a block of threads */
constexpr unsigned SUPER_TILE_BYTES = SUPER_TILE / BLOCK.elements * BLOCK.bytes;
static_assert(SUPER_TILE % BLOCK.elements == 0 && SUPER_TILE_BYTES % 16 == 0, "whole blocks");

/* The bits of eight elements at a place, element 4 k + n in byte n of word k; i: the first. */
__device__ __forceinline__ void load_place(kf_place p, const uint8_t *block, unsigned i,
                                           uint32_t w[2])
{
    const uint32_t mask = ((1u << p.bits) - 1) * 0x01010101u;
    load_bytes(block + kf_place_byte(p, i), w);
    w[0] = w[0] >> kf_place_shift(p, i) & mask;
    w[1] = w[1] >> kf_place_shift(p, i) & mask;
}

/* Codes of eight elements of a block, in bytes. */
__device__ __forceinline__ void load_codes(const uint8_t *block, unsigned i, uint32_t w[2])
{
    load_place(BLOCK.low, block, i, w);
    if constexpr (HIGH_BYTES) {
        uint32_t high[2];
        load_place(BLOCK.high, block, i, high);
        w[0] |= high[0] << BLOCK.low.bits;
        w[1] |= high[1] << BLOCK.low.bits;
    } else if constexpr (HAS_HIGH) { /* one bit after another: bit k to byte k */
        const uint32_t bits = block[kf_place_byte(BLOCK.high, i)];
        w[0] |= ((bits & 15) * 0x00204081u & 0x01010101u) << BLOCK.low.bits;
        w[1] |= ((bits >> 4) * 0x00204081u & 0x01010101u) << BLOCK.low.bits;
    }
}

__device__ __forceinline__ kf_dequant group_of(const uint8_t *block, unsigned i)
{
    return kf_super_group(BLOCK, block, i / KF_ROW.group);
}

/* kf_super_number() of eight codes. */
template <int D>
__device__ __forceinline__ void decode_codes(const uint32_t w[2], kf_dequant q, const float *book,
                                             uint32_t *out)
{
    float x[EIGHT];
#pragma unroll
    for (int k = 0; k < EIGHT; k++) {
        const uint32_t code = w[k / 4] >> 8 * (k % 4) & 0xff;
        /* An integer by the last place of a float. */
        const float whole =
            BLOCK.book ? book[code]
                       : __uint_as_float(0x4b000000u | code) - (0x1p23f + (float)BLOCK.middle);
        x[k] = q.scale * whole;
        if (BLOCK.m) x[k] += q.offset;
    }
    put_values<D>(x, out);
}

/* The same by the functions of block/, for a scale or minimum that is not finite. */
template <int D>
__device__ __noinline__ void decode_codes_slowly(const uint8_t *block, unsigned i,
                                                 volatile uint32_t *out)
{
    const kf_dequant q = group_of(block, i);
    for (int k = 0; k < VALUE_WORDS<D>; k++) out[k] = 0;
    for (unsigned k = 0; k < EIGHT; k++)
        out[k * source_bytes(D) / 4] |=
            narrow<D>(kf_decoded(KF_ROW, q, kf_super_get(BLOCK, block, i + k)))
            << 8 * (k * source_bytes(D) % 4);
}

template <int D>
__global__ void __launch_bounds__(THREADS) decode_supers(const __grid_constant__ kf_job j)
{
    __shared__ uint4 blocks[SUPER_TILE_BYTES / 16 + 1]; /* load_bytes() reads beyond */
    __shared__ float book[16];
    const uint64_t first = (uint64_t)blockIdx.x * SUPER_TILE, left = j.width - first;
    const unsigned elements = left < SUPER_TILE ? (unsigned)left : SUPER_TILE;
    uint8_t *to = j.dense + first * source_bytes(D);
    const bool whole = elements == SUPER_TILE && (uintptr_t)to % 16 == 0;
    if (BLOCK.book && threadIdx.x < 16) book[threadIdx.x] = (float)kf_super_book(threadIdx.x);
    if (threadIdx.x == 0) blocks[SUPER_TILE_BYTES / 16] = make_uint4(0, 0, 0, 0);
    copy_bytes((uint8_t *)blocks,
               j.plane[KERF_PLANE_CODES] + blockIdx.x * (uint64_t)SUPER_TILE_BYTES,
               elements / BLOCK.elements * BLOCK.bytes);
    __syncthreads();
#pragma unroll 1
    for (unsigned i = threadIdx.x * EIGHT; i < elements; i += THREADS * EIGHT) {
        const unsigned in = i % BLOCK.elements;
        const uint8_t *block = (const uint8_t *)blocks + i / BLOCK.elements * BLOCK.bytes;
        const kf_dequant q = group_of(block, in);
        const float factors[2] = {q.scale, q.offset};
        uint32_t w[2], values[VALUE_WORDS<D>];
        load_codes(block, in, w);
        decode_codes<D>(w, q, book, values);
        if (has_special(factors, 2)) {
            volatile uint32_t v[VALUE_WORDS<D>]; /* as in load.cuh */
            decode_codes_slowly<D>(block, in, v);
#pragma unroll
            for (int k = 0; k < VALUE_WORDS<D>; k++) values[k] = v[k];
        }
        if (whole)
            store_whole_eight<D>(to + i * source_bytes(D), values);
        else
            store_eight<D>(to + i * source_bytes(D), values, EIGHT);
    }
}

} // namespace
#endif
