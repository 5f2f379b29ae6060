/* gemv_wide_y.cuh - from the sums of a step to y.
 *
 * A step is as many tiles of 16 rows as a cluster has at once. Each warp leaves its sums of a tile
 * where the tile is finished; half a step later, when all have, that block adds them up in the
 * order of K, the same in every run, and writes y. Then it says so, and when all blocks have, the
 * next step's may be left. So the cluster's barrier is passed twice a step, and there is something
 * to do before each wait. */
#ifndef KERF_GEMV_WIDE_Y_CUH
#define KERF_GEMV_WIDE_Y_CUH

#include "cuda/many/gemv_columns_y.cuh"

namespace
{

struct wide_step {
    uint32_t tile, tiles; /* of the team's */
};

struct wide_slots {
    uint32_t at;            /* address: slots of [tile][source] */
    uint32_t rank, sources; /* warps that share a tile's rows, a part of K each */

    /* Tiles of a step that are finished here: with SwiGLU, pairs of gate and up. */
    __device__ __forceinline__ uint32_t units(const kf_gemv_job &j, wide_step s) const
    {
        uint32_t all = j.swiglu ? s.tiles / 2 : s.tiles;
        return (all + j.division.cluster - 1 - rank) >> __popc(j.division.cluster - 1);
    }

    /* A warp's sums of tile i of a step: rows g and g + 8, of each eight columns two. */
    __device__ __forceinline__ void leave(const kf_gemv_job &j, uint32_t i, uint32_t source,
                                          const float sum[2][4], const float *back,
                                          uint32_t lane) const
    {
        uint32_t pair = j.swiglu ? 1 : 0, unit = i >> pair, bits = __popc(j.division.cluster - 1);
        uint32_t home = unit & (j.division.cluster - 1), slot = (unit >> bits << pair) + (i & pair);
        uint32_t column = lane % 4 * 2;
        uint32_t to = in_block(
            at + (slot * sources + source) * SLOT<2> + column * COLUMN_BYTES + lane / 4 * 4, home);
#pragma unroll
        for (uint32_t n = 0; n < 2; n++, to += 8 * COLUMN_BYTES) {
            float f = back[n * 8 + column], g = back[n * 8 + column + 1];
            put_there(to, sum[n][0] * f), put_there(to + COLUMN_BYTES, sum[n][1] * g);
            put_there(to + 32, sum[n][2] * f), put_there(to + COLUMN_BYTES + 32, sum[n][3] * g);
        }
    }

    __device__ __forceinline__ float add_up(uint32_t slot) const
    {
        float sum = 0;
#pragma unroll 4
        for (uint32_t i = 0; i < sources; i++)
            sum += __uint_as_float(shared_word(slot + i * SLOT<2>));
        return sum;
    }

    /* y of a step's tiles that are finished here: a thread has a row of a tile and a column. */
    __device__ __forceinline__ void finish_step(const kf_gemv_job &j, const team_span &s,
                                                wide_step step, const float *factors) const
    {
        uint32_t pair = j.swiglu ? 2 : 1, bits = __popc(j.division.cluster - 1);
        uint32_t r = threadIdx.x % TILE, c = threadIdx.x / TILE % 16;
        if (c >= j.columns) return;
#pragma unroll 1
        for (uint32_t i = threadIdx.x / 256; i < units(j, step); i += KF_GEMV_WIDE_WARPS / 8) {
            uint32_t t = step.tile + ((i << bits) + rank) * pair;
            place p = s.at(t);
            const kf_gemv_matrix &m = s.part[p.part];
            if (p.row + r >= m.rows) continue;
            uint32_t slot = at + i * pair * sources * SLOT<2> + c * COLUMN_BYTES + r * 4;
            float v = add_up(slot) * factors[t * TILE + r], up = 0;
            if (j.swiglu) up = add_up(slot + sources * SLOT<2>) * factors[(t + 1) * TILE + r];
            finish(j, m, p.row + r, c, v, up);
        }
    }
};

} // namespace

#endif
