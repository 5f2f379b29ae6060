/* gemv_steps.cuh - Y = W X of GGUF's blocks where x is longer than a block has room for: the block
 * goes over its rows in steps, each with a part of K, and keeps the sums of those before.
 *
 *   first units of the next step are asked for   each warp, as soon as it has done its own
 *   sums of all warps -> kept                    once all have
 *   x of the next step into shared memory        weights arrive meanwhile
 *
 * Each step's x has a power of two of its own, so sums are kept as they are without it. */
#ifndef KERF_GEMV_STEPS_CUH
#define KERF_GEMV_STEPS_CUH

#include "cuda/few/gemv_column_x.cuh"
#include "cuda/few/gemv_column_y.cuh"

namespace
{

__device__ __forceinline__ stage_span stages_of_step(const kf_gemv_job &j, uint32_t step)
{
    return part_of_row(j.division.stages, j.division.steps, step);
}

/* x of a step after the first; `largest` is zero. All threads take part. */
template <int N>
__device__ __forceinline__ bool stage_step(const kf_gemv_job &j, const x_part<N> &p,
                                           uint32_t *largest)
{
    if (j.x_wide && j.x_type != KERF_F32 && j.cols % 8 == 0) return stage_batches(j, p, largest);
    stage_slowly(j, p, largest);
    return false;
}

/* What a block's rows have of all steps so far: [part][item], each of them a thread's own, which
 * adds to it and in the end writes y. */
template <int N> struct kept_sums {
    uint32_t box; /* address */

    __device__ __forceinline__ uint32_t place(const column_block &b, uint32_t i,
                                              uint32_t part) const
    {
        return box + (part * b.items + i) * 4;
    }
    /* Once all warps have left a step's sums in their slots. */
    __device__ __forceinline__ void add(const kf_gemv_job &j, const column_block &b,
                                        const uint32_t *largest, bool is_first) const
    {
#pragma unroll 1
        for (uint32_t i = b.thread; i < b.items; i += THREADS) {
            row_end<N> e;
            e.aim(j, b, i);
            const float back = back_of(largest[e.column]);
#pragma unroll 1
            for (uint32_t part = 0; part < b.unit; part++) {
                const uint32_t at = place(b, i, part);
                float v =
                    sum_runs<N>(e.slot + part * SLOT_BYTES<N>, shared_word(e.runs + part * 4));
                v *= back;
                if (!is_first) v += __uint_as_float(shared_word(at));
                put_word(at, __float_as_uint(v));
            }
        }
    }
    __device__ __forceinline__ void write(const kf_gemv_job &j, const column_block &b) const
    {
#pragma unroll 1
        for (uint32_t i = b.thread; i < b.items; i += THREADS) {
            row_end<N> e = {};
            e.aim(j, b, i);
            if (!e.y) continue;
            e.load_scales(j, b);
            e.find_factors();
            e.load(j);
            e.settle(j);
            const float v = __uint_as_float(shared_word(place(b, i, 0)));
            const float up = b.unit > 1 ? __uint_as_float(shared_word(place(b, i, 1))) : 0;
            e.write(j, v * e.factor, up * e.up);
        }
    }
};

} // namespace

#endif
