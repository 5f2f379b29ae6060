/* experts_weights.cuh - a unit of an expert's weights on its way into a ring: 16 rows of a slice.
 *
 * Rows of scales often begin anywhere: 2880 inputs in mxfp4 have 90 bytes of them. Then the words
 * that cover them are copied as they lie, beside the unit, and shifted into their places once they
 * are there, so that nothing waits for memory. */
#ifndef KERF_EXPERTS_WEIGHTS_CUH
#define KERF_EXPERTS_WEIGHTS_CUH

#include "cuda/experts/experts_matrix.cuh"
#include "cuda/many/gemv_slices.cuh"

namespace
{

constexpr bool HAS_RAW = HAS_GROUPS && !SHARED_ROW;
constexpr uint32_t RAW_WORDS = SCALE_BYTES / 4 + 1; /* of a row */
constexpr uint32_t RAW_BYTES = HAS_RAW ? TILE * RAW_WORDS * 4 : 0;

/* Whether 16 rows of a slice from `first` on are all there; and whether their scales are copied in
 * the shortest way as well. */
__device__ __forceinline__ bool is_inside(const kf_experts_job &j, uint32_t first, uint32_t slice)
{
    return j.aligned && j.rows - first >= TILE && (slice + 1) * SLICE_CODES <= j.cols;
}
__device__ __forceinline__ bool has_plain_scales(const kf_experts_job &j, uint32_t first,
                                                 uint32_t slice)
{
    return !HAS_GROUPS || (j.plain_scales && is_inside(j, first, slice));
}

/* Where the scales of a slice begin in row r of a tile. */
__device__ __forceinline__ const uint8_t *
scales_at(const kf_experts_job &j, const kf_gemv_matrix &m, uint32_t row, uint32_t slice)
{
    return m.plane[KERF_PLANE_SCALES] + row * (j.strides.row_groups * SCALE_SIZE) +
           (uint64_t)slice * SCALE_BYTES;
}

/* The words that cover the scales of 16 rows; what is behind the end of a row is zero. */
__device__ __forceinline__ void copy_raw_scales(const kf_experts_job &j, const kf_gemv_matrix &m,
                                                uint32_t first, uint32_t slice, uint32_t to,
                                                uint32_t lane)
{
    const uint32_t all = (uint32_t)j.strides.row_groups * SCALE_SIZE;
#pragma unroll 1
    for (uint32_t i = lane; i < TILE * RAW_WORDS; i += 32) {
        uint32_t r = i / RAW_WORDS, w = i % RAW_WORDS;
        const uint8_t *begin = scales_at(j, m, min(first + r, j.rows - 1), slice);
        uint32_t skew = (uint32_t)(uint64_t)begin % 4;
        int left = (int)(all - slice * SCALE_BYTES) - (int)(w * 4) + (int)skew;
        int n = first + r < j.rows && left > 0 ? min(left, 4) : 0;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to + i * 4),
                     "l"(n ? begin - skew + w * 4 : j.stack[0].plane[KERF_PLANE_CODES]), "r"(n)
                     : "memory");
    }
}

/* Brings them to where scales of a unit are; mat, expert: which matrix. */
__device__ __forceinline__ void shift_scales(const kf_experts_job &j, uint32_t mat, uint32_t expert,
                                             uint32_t first, uint32_t slice, uint32_t raw,
                                             uint32_t unit, uint32_t lane)
{
    constexpr uint32_t WORDS = SCALE_BYTES / 4 ? SCALE_BYTES / 4 : 1;
    const kf_gemv_matrix m = matrix_of(j, j.stack[mat], expert);
#pragma unroll 1
    for (uint32_t i = lane; i < TILE * WORDS; i += 32) {
        uint32_t r = i / WORDS, at = raw + (r * RAW_WORDS + i % WORDS) * 4;
        const uint8_t *begin = scales_at(j, m, min(first + r, j.rows - 1), slice);
        uint32_t skew = (uint32_t)(uint64_t)begin % 4;
        put_word(unit + SLICE_SCALES + i * 4,
                 __funnelshift_r(shared_word(at), shared_word(at + 4), 8 * skew));
    }
    __syncwarp();
}

/* Scales that are not copied in the shortest way, and codes that are not. Functions of their own,
 * so that the loops that are always taken stay together in the cache of instructions. */
__device__ __forceinline__ void copy_edge_scales(const kf_experts_job &j, uint32_t mat,
                                                 uint32_t expert, uint32_t first, uint32_t slice,
                                                 uint32_t unit, uint32_t raw, uint32_t lane)
{
    const kf_gemv_matrix m = matrix_of(j, j.stack[mat], expert);
    if (HAS_RAW && j.raw_at)
        copy_raw_scales(j, m, first, slice, raw, lane);
    else if constexpr (HAS_GROUPS)
        copy_scales_at_edge<SCALE_BYTES>(
            j, unit + SLICE_SCALES, lane, slice, j.rows - first,
            scales_at(j, m, SHARED_ROW ? first / TILE_ROWS : first, slice));
}
__device__ __noinline__ void copy_edge_codes(const kf_experts_job &j, uint32_t first,
                                             uint32_t slice, uint32_t unit, uint32_t lane,
                                             const uint8_t *codes)
{
    copy_codes_at_edge<SLICE_PIECES, slice_place>(j, unit, lane, slice, j.rows - first, codes);
}

/* Starts the copies of 16 rows from `first` on. */
__device__ __forceinline__ void copy_rows(const kf_experts_job &j, uint32_t mat, uint32_t expert,
                                          uint32_t first, uint32_t slice, uint32_t unit,
                                          uint32_t raw, uint32_t lane)
{
    slice_source from;
    from.aim(j, matrix_of(j, j.stack[mat], expert), first, slice, lane);
    const bool inside = is_inside(j, first, slice);
    if (inside)
        from.copy_whole_codes(j, unit, lane);
    else
        copy_edge_codes(j, first, slice, unit, lane, from.codes);
    if (HAS_GROUPS) {
        if (inside && j.plain_scales)
            from.copy_whole_scales(unit, lane);
        else
            copy_edge_scales(j, mat, expert, first, slice, unit, raw, lane);
    }
    from.copy_zeros(j, slice, unit, lane);
}

} // namespace

#endif
