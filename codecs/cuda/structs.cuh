/* structs.cuh - GGUF's blocks, scale and codes in one struct of 17 to 36 bytes: a thread takes a
 * group and asks block/ for its scale and every code. Structs are put together in shared memory and
 * leave it in whole lines, for their own addresses are odd. */
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

/* A job is one line, since rows end with a whole struct. */
template <int D>
__global__ void __launch_bounds__(THREADS) encode_structs(const __grid_constant__ kf_job j)
{
    __shared__ uint4 structs[STRUCT_TILE_BYTES / 16];
    uint8_t *row = (uint8_t *)structs;
    uint64_t first = (uint64_t)blockIdx.x * STRUCT_TILE, left = j.width - first;
    unsigned groups = left < STRUCT_TILE ? (unsigned)left / GROUP : THREADS;
    for (unsigned i = threadIdx.x; i < STRUCT_TILE_BYTES / 16; i += THREADS)
        structs[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    if (threadIdx.x < groups) {
        float x[GROUP];
        extremes unused = {0, 0};
#pragma unroll
        for (int k = 0; k < GROUP; k += CHUNK) {
            uint64_t i = first + threadIdx.x * GROUP + k;
            raw_chunk<D> r = load_raw<D, true>(j, 0, i);
            settle_chunk<D>(j, 0, i, &r, &unused);
            widen_chunk<D>(r, x + k);
        }
        kf_tensor t = no_tensor(j);
        kf_group g = {x, 1, GROUP, GROUP, 1};
        kf_scale scale = kf_choose(KF_ROW, j.encoder, &t, g);
        kf_quant q = kf_quant_init(KF_ROW, j.encoder, &t, scale, g);
        kf_put_code(row + kf_struct_scale(KF_ROW, threadIdx.x), 8 * SCALE_BYTES, 0, scale.bits);
#pragma unroll 4
        for (unsigned k = 0; k < GROUP; k++)
            kf_put_code(row, KF_ROW.bits, kf_struct_code(KF_ROW, threadIdx.x * GROUP + k),
                        kf_code(KF_ROW, q, x[k]));
    }
    __syncthreads();
    copy_bytes(j.plane[KERF_PLANE_CODES] + blockIdx.x * (uint64_t)STRUCT_TILE_BYTES, row,
               groups * STRUCT_GROUP_BYTES);
}

} // namespace
#endif
