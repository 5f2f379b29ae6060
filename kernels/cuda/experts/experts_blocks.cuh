/* experts_blocks.cuh - units of experts' weights that are GGUF's blocks, laid out as
 * blocks_unit.cuh has it: rows as they lie in memory, each so many bytes behind a multiple of 16,
 * its skew, counted from the first byte of an expert's matrix. */
#ifndef KERF_EXPERTS_BLOCKS_CUH
#define KERF_EXPERTS_BLOCKS_CUH

#include "cuda/experts/experts_matrix.cuh"
#include "cuda/few/gemv_column.cuh"

namespace
{

/* --- skews --------------------------------------------------------------------------------------
 */

constexpr bool MAY_SKEW = HAS_SKEW;
constexpr uint32_t SKEWS = 16;             /* a skew is less */
constexpr uint32_t SKEW_STAGE = ROW_STAGE; /* bytes from a stage of a row to the next */

__device__ __forceinline__ bool has_skews(const kf_experts_job &, uint32_t)
{
    return MAY_SKEW;
}
/* Of a row's first byte. */
__device__ __forceinline__ uint32_t skew_of_row(const kf_experts_job &j, const kf_gemv_matrix &,
                                                uint32_t row)
{
    return row * (uint32_t)j.strides.row_bytes % 16;
}

/* --- units into the ring ------------------------------------------------------------------------
 */

/* Up to 16 bytes from a multiple of 16 on, and zeros. */
__device__ __forceinline__ void copy_part(uint32_t to, const void *from, int n)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(n)
                 : "memory");
}

/* What the lanes of a warp copy of each unit of a run, the units of 16 rows: four lanes take row g,
 * and then g + 8. */
struct unit_copies {
    uint64_t at;        /* where row g of the first unit begins in an expert's plane */
    const uint8_t *row; /* row g of the next unit, in memory */
    uint32_t begins;    /* where it begins in the plane; 32 bits tell its skew */
    uint32_t rows;      /* of the matrix, from row g on */
    int room;           /* bytes from there to the end of the row */
    int least;          /* room from which a unit is copied in whole pieces; 15 bytes more than a
                           stage where these would reach behind the last row of a matrix */

    /* What does not depend on which expert it is. first: the tile's first row. */
    __device__ __forceinline__ void aim_rows(const kf_experts_job &j, uint32_t first,
                                             uint32_t stage, uint32_t lane)
    {
        const uint32_t all = (uint32_t)j.strides.row_bytes, in = stage * ROW_STAGE;
        at = (uint64_t)(first + lane / 4) * all + in;
        room = (int)(all - in);
        rows = max(j.rows - first, lane / 4) - lane / 4;
        const bool more = j.rows - first > TILE || all % 16 == 0;
        least = !j.aligned || j.rows - first < TILE ? INT_MAX : (int)ROW_STAGE + (more ? 0 : 15);
    }
    __device__ __forceinline__ void aim_expert(const kf_experts_planes &s, uint32_t expert)
    {
        row = s.plane[KERF_PLANE_CODES] + expert * s.stride[KERF_PLANE_CODES] + at;
        begins = (uint32_t)at;
    }

    /* A row of an aligned plane which ends in the stage: what is behind it is zero. */
    __device__ __forceinline__ void copy_end(uint32_t to, const uint8_t *from, uint32_t skew,
                                             uint32_t t) const
    {
        const int end = room > 0 ? room + (int)skew : 0;
#pragma unroll
        for (uint32_t i = 0; i < MOST_PIECES; i += 4) {
            const int n = min(max(end - (int)(i + t) * 16, 0), 16);
            if (i + 4 <= FEWEST_PIECES || i + t < pieces_of(skew))
                copy_part(to + i * 16, from + (n ? i * 16 : 0), n);
        }
    }

    /* The next unit into the ring at `to`. */
    template <typename ROWS>
    __device__ __forceinline__ void fetch(const kf_experts_job &j, uint32_t to, uint32_t lane, ROWS)
    {
        const uint32_t t = lane % 4;
        const bool whole = room >= least, inner = least == (int)ROW_STAGE;
        to += lane / 4 * PITCH;
#pragma unroll
        for (uint32_t half = 0; half < 2; half++, to += 8 * PITCH) {
            const uint32_t later = half * 8 * (uint32_t)j.strides.row_bytes;
            const uint32_t skew = HAS_SKEW ? (begins + later) % 16 : 0;
            const uint8_t *first = row + later, *from = first - skew + t * 16;
            const bool is_there = rows > 8 * half;
            if (whole)
                copy_row(to + t * 16, from, skew, t);
            else if (inner)
                copy_end(to + t * 16, from, skew, t);
            else
                fetch_row_edge(to, is_there ? first : row, t, skew,
                               is_there && room > 0 ? (uint64_t)room : 0, j.aligned);
        }
        row += ROW_STAGE;
        begins += ROW_STAGE;
        room -= ROW_STAGE;
    }
};

/* --- their product ------------------------------------------------------------------------------
 */

/* Where rows g and g + 8 of a unit begin. */
struct skewed_scales {
    uint32_t skew[2];
    bool raw; /* as they lie: always */
};

__device__ __forceinline__ beside skews_of(const skewed_scales &s)
{
    return {{s.skew[0], s.skew[1]}};
}

template <int N>
__device__ __forceinline__ void
consume_unit(const column_worker &me, uint32_t slot, uint32_t x, const beside &, float sum[N][2],
             float (*)[2][4], uint32_t v[X_AHEAD<N>][PAIRS<N>][4], const skewed_scales &s)
{
    own_sums<N> sums;
    consume_quarters<N, X_AHEAD<N>, raw_codes>(me, slot, x, skews_of(s), sum, v, sums);
}

/* --- sums of x, where groups have minima --------------------------------------------------------
 */

/* Those of a stage, which the same warp has made halves: [quarter][group], or as add_rests() has
 * them, of COLUMNS columns. Returns whether one that this lane made is not finite. */
template <int COLUMNS = 1>
__device__ __forceinline__ bool sum_stage(uint32_t x, uint32_t to, uint32_t lane)
{
    if (!HAS_MINIMA) return false;
    static_assert(STAGE_GROUPS <= 32, "a lane has one");
    __syncwarp();
    if (lane >= STAGE_GROUPS) return false;
    const float sum =
        sum_of_group<64>(x + lane % OWN_GROUPS * (GROUP_OCTETS * 64) + lane / OWN_GROUPS * 16);
    put_word(to + (COLUMNS == 1 ? lane * 4 : sums_at<COLUMNS>(lane)), __float_as_uint(sum));
    return !(fabsf(sum) < INFINITY);
}

/* A barrier of the block; of `odd`, bits of N columns, those that any thread has. */
template <int N> __device__ __forceinline__ uint32_t meet_odd(uint32_t odd)
{
    uint32_t all = 0;
#pragma unroll
    for (int c = 0; c < (HAS_MINIMA ? N : 1); c++)
        all |= (__syncthreads_or(odd >> c & 1) ? 1u : 0u) << c;
    return HAS_MINIMA ? all : 0;
}

/* sums_at: those of x; column: from those of a column to the next's. */
__device__ __forceinline__ void settle_sums(column_worker &me, uint32_t sums_at, uint32_t column)
{
    me.sums = sums_at + me.lane % 4 * (OWN_GROUPS * 4);
    me.sums_column = column;
    me.is_odd = false;
}

/* A unit's sums of odd columns, an element at a time, in place of what consume_unit() has made: an
 * x that is not finite must leave the other columns' bits alone. */
template <int N>
__device__ __forceinline__ void replace_odd(const column_worker &me, uint32_t slot, uint32_t x,
                                            const skewed_scales &s, uint32_t odd, float sum[N][2])
{
    if (!HAS_MINIMA || !odd) return;
    const lane_sums<N> a = slow_sums<N>(me, slot, x, skews_of(s));
#pragma unroll
    for (int i = 0; i < 2 * N; i++)
        if (odd >> i / 2 & 1) sum[i / 2][i % 2] = a.of[i / 2][i % 2];
}

} // namespace

#endif
