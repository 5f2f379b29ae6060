/* experts_units.cuh - units of experts' weights in planes: laid out as gemv_quarters.cuh has it,
 * with room for scales that begin anywhere: then the words that cover them are copied as they lie,
 * and a lane shifts its own when it reads them. experts_blocks.cuh takes its place for GGUF's
 * blocks. */
#ifndef KERF_EXPERTS_UNITS_CUH
#define KERF_EXPERTS_UNITS_CUH

#include "cuda/experts/experts_matrix.cuh"
#include "cuda/few/gemv_column.cuh"

namespace
{

constexpr bool MAY_SKEW = HAS_GROUPS && !SHARED_ROW;
constexpr uint32_t SKEWS = 4;                /* a skew is less */
constexpr uint32_t SKEW_STAGE = ROW_SCALES;  /* bytes from a stage's scales to the next one's */
constexpr uint32_t RAW_ROW = ROW_SCALES + 4; /* bytes of a row's words, if one more may be needed */
static_assert(!HAS_COLUMN ||
                  kf_experts_unit(TILING) >= CODE_BYTES + (MAY_SKEW ? TILE * RAW_ROW : 0),
              "room");

/* --- scales that begin anywhere ------------------------------------------------------------------
 */

/* Where the scales of a stage begin in a row. */
__device__ __forceinline__ const uint8_t *
stage_scales(const kf_experts_job &j, const kf_gemv_matrix &m, uint32_t row, uint32_t stage)
{
    return m.plane[KERF_PLANE_SCALES] + row * (j.strides.row_groups * SCALE_SIZE) +
           (uint64_t)stage * ROW_SCALES;
}

/* Codes where rows are missing, or planes are not aligned. */
__device__ __noinline__ void copy_codes_slowly(const kf_experts_job &j, uint32_t to, uint32_t lane,
                                               uint32_t stage, uint32_t rows, const uint8_t *codes)
{
    copy_codes_at_edge<PIECES, unit_place>(j, to, lane, stage, rows, codes);
}

/* The lane's scales of a unit whose rows of them begin anywhere. */
struct skewed_scales {
    uint32_t skew[2]; /* of rows g and g + 8, bytes */
    bool raw;
    static constexpr bool IS_PLAIN = false;

    __device__ __forceinline__ void load(uint32_t w[2][OWN_WORDS], uint32_t unit,
                                         uint32_t lane) const
    {
        if (MAY_SKEW && raw)
            load_raw(w, unit, lane);
        else
            load_plain(w, unit, lane);
    }
    __device__ __forceinline__ void load_plain(uint32_t w[2][OWN_WORDS], uint32_t unit,
                                               uint32_t lane) const
    {
        uint32_t own = unit + CODE_BYTES + lane % 4 / GROUP_LANES * OWN_BYTES +
                       (SHARED_ROW ? 0 : lane / 4 * ROW_SCALES);
#pragma unroll
        for (int row = 0; row < 2; row++)
            load_own(w[row], own + (SHARED_ROW ? 0 : 8 * row * ROW_SCALES), lane);
    }
    __device__ __forceinline__ void load_raw(uint32_t w[2][OWN_WORDS], uint32_t unit,
                                             uint32_t lane) const
    {
#pragma unroll
        for (int row = 0; row < 2; row++) {
            const uint32_t off = lane % 4 / GROUP_LANES * OWN_BYTES + skew[row];
            const uint32_t at = unit + CODE_BYTES + (lane / 4 + 8 * row) * RAW_ROW + (off & ~3u);
            uint32_t low = shared_word(at);
#pragma unroll
            for (int i = 0; i < OWN_WORDS; i++) {
                const uint32_t high = shared_word(at + 4 * i + 4);
                w[row][i] = __funnelshift_r(low, high, 8 * (off & 3));
                low = high;
            }
            exchange_own(w[row], lane);
        }
    }
};

/* --- weights into the ring ----------------------------------------------------------------------
 */

/* Rows of scales that begin at multiples of 4 bytes are copied in words, which lie in the ring as
 * pieces would. */
constexpr bool HAS_WORDS = MAY_SKEW && ROW_SCALES >= 8 && 32 % ROW_WORDS == 0;

/* How the scales of a tile are copied: as cuda/few does; in words; as they lie. */
enum { SCALES_PLAIN, SCALES_WORDS, SCALES_RAW };

__device__ __forceinline__ uint32_t way_of_scales(const kf_experts_job &j, uint32_t rows)
{
    if (rows < TILE) return SCALES_RAW;
    return j.plain_scales ? SCALES_PLAIN : HAS_WORDS && j.words ? SCALES_WORDS : SCALES_RAW;
}

/* How lanes divide the scales of a tile: which row a lane copies of, and from which byte on. */
__device__ __forceinline__ uint2 scales_of_lane(uint32_t way, uint32_t lane)
{
    if (way == SCALES_PLAIN) return {lane / ROW_PIECES, lane % ROW_PIECES * SCALE_PIECE};
    if (HAS_WORDS && way == SCALES_WORDS) return {lane / ROW_WORDS, lane % ROW_WORDS * 4};
    return {lane / 2, 0};
}

/* Whether scales of a tile lie in the ring as they do in memory; and where those of a row begin in
 * their word then. */
__device__ __forceinline__ bool has_skews(const kf_experts_job &j, uint32_t rows)
{
    return MAY_SKEW && way_of_scales(j, rows) == SCALES_RAW;
}
__device__ __forceinline__ uint32_t skew_of_row(const kf_experts_job &j, const kf_gemv_matrix &m,
                                                uint32_t row)
{
    return (uint32_t)(uint64_t)stage_scales(j, m, row, 0) & 3;
}

/* What the lanes of a warp copy of each unit of a run, the units of 16 rows. */
struct unit_copies {
    uint32_t way;                 /* of scales */
    bool whole;                   /* codes are copied as cuda/few does */
    uint64_t codes_at, scales_at; /* of the lane's first copies in an expert's planes */
    const uint8_t *codes, *scales;
    int codes_room, scales_room; /* from there to the end of the row, bytes */

    /* What does not depend on which expert it is. first: the tile's first row. */
    __device__ __forceinline__ void aim_rows(const kf_experts_job &j, uint32_t first,
                                             uint32_t stage, uint32_t lane)
    {
        const uint32_t rows = j.rows - first;
        const uint32_t codes_in = stage * ROW_STAGE + lane % PIECES * 16;
        codes_at = (uint64_t)(first + lane / PIECES) * j.strides.row_bytes + codes_in;
        codes_room = (int)((uint32_t)j.strides.row_bytes - codes_in);
        whole = j.aligned && rows >= TILE;
        if constexpr (HAS_GROUPS) {
            const uint32_t all = (uint32_t)j.strides.row_groups * SCALE_SIZE;
            way = way_of_scales(j, rows);
            const uint2 own = scales_of_lane(way, lane);
            const uint32_t row = SHARED_ROW ? first / TILE_ROWS : first + own.x;
            const uint32_t scales_in = stage * ROW_SCALES;
            scales_at = (uint64_t)min(row, j.rows - 1) * all + scales_in + own.y;
            scales_room = row < j.rows ? (int)(all - scales_in - (SHARED_ROW ? 0 : own.y)) : 0;
        }
    }
    __device__ __forceinline__ void aim_expert(const kf_experts_planes &s, uint32_t expert)
    {
        codes = s.plane[KERF_PLANE_CODES] + expert * s.stride[KERF_PLANE_CODES] + codes_at;
        if constexpr (HAS_GROUPS)
            scales = s.plane[KERF_PLANE_SCALES] + expert * s.stride[KERF_PLANE_SCALES] + scales_at;
    }

    __device__ __forceinline__ void copy_codes(const kf_experts_job &j, uint32_t to, uint32_t lane)
    {
        const uint32_t there = to + unit_place(lane / PIECES, lane % PIECES);
        if (PIECES * ROWS_AT_ONCE == 32 || lane < PIECES * ROWS_AT_ONCE)
#pragma unroll
            for (uint32_t i = 0; i < COPIES; i++)
                copy_async(there + i * (ROWS_AT_ONCE * ROW_STAGE),
                           codes + (uint64_t)j.copy_rows * i, codes_room > 0);
    }
    __device__ __forceinline__ void copy_plain_scales(const kf_experts_job &j, uint32_t to,
                                                      uint32_t lane)
    {
        const uint32_t all = (uint32_t)j.strides.row_groups * SCALE_SIZE;
        copy_scale_pieces(to, lane, all, scales_room > 0, scales);
    }
    __device__ __forceinline__ void copy_words(const kf_experts_job &j, uint32_t to, uint32_t lane)
    {
        constexpr uint32_t AT_ONCE = HAS_WORDS ? 32 / ROW_WORDS : 1; /* rows */
        const uint32_t all = (uint32_t)j.strides.row_groups * SCALE_SIZE;
#pragma unroll
        for (uint32_t i = 0; i < TILE / AT_ONCE; i++)
            copy_scales<4>(to + lane * 4 + i * 128, scales + (uint64_t)(AT_ONCE * all) * i,
                           scales_room > 0);
    }
    /* The words that cover the scales of 16 rows, two lanes for a row; what is behind the end of a
     * row is zero. */
    __device__ __forceinline__ void copy_raw(const kf_experts_job &j, uint32_t to, uint32_t lane)
    {
        const uint32_t skew = (uint32_t)(uint64_t)scales % 4;
        const int left = scales_room > 0 ? scales_room + (int)skew : 0;
        const uint8_t *from = scales - skew;
        to += lane / 2 * RAW_ROW;
#pragma unroll
        for (uint32_t i = 0; i < (RAW_ROW / 4 + 1) / 2; i++) {
            const uint32_t at = i * 8 + lane % 2 * 4;
            const int n = min(max(left - (int)at, 0), 4);
            if (RAW_ROW % 8 == 0 || at < RAW_ROW)
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to + at),
                             "l"(n ? from + at : j.stack[0].plane[KERF_PLANE_CODES]), "r"(n)
                             : "memory");
        }
    }
    /* Which stage the next unit is. */
    __device__ __forceinline__ uint32_t stage(const kf_experts_job &j) const
    {
        return ((uint32_t)j.strides.row_bytes - (uint32_t)codes_room) / ROW_STAGE;
    }

    /* The next unit into the ring at `to`. rows(): of the matrix, from the tile's first on. */
    template <typename ROWS>
    __device__ __forceinline__ void fetch(const kf_experts_job &j, uint32_t to, uint32_t lane,
                                          ROWS rows)
    {
        if (whole)
            copy_codes(j, to, lane);
        else
            copy_codes_slowly(j, to, lane, stage(j), rows(), codes);
        if constexpr (HAS_GROUPS) {
            if (way == SCALES_PLAIN)
                copy_plain_scales(j, to + CODE_BYTES, lane);
            else if (HAS_WORDS && way == SCALES_WORDS)
                copy_words(j, to + CODE_BYTES, lane);
            else if constexpr (MAY_SKEW)
                copy_raw(j, to + CODE_BYTES, lane);
            else if constexpr (SHARED_ROW)
                copy_scales_at_edge<ROW_SCALES>(j, to + CODE_BYTES, lane, stage(j), rows(), scales);
        }
        codes += ROW_STAGE;
        codes_room -= ROW_STAGE;
        if constexpr (HAS_GROUPS) {
            scales += ROW_SCALES;
            scales_room -= ROW_SCALES;
        }
    }
};

/* --- of x nothing is needed but x ---------------------------------------------------------------
 */

__device__ __forceinline__ bool sum_stage(uint32_t, uint32_t, uint32_t)
{
    return false;
}
template <int N> __device__ __forceinline__ uint32_t meet_odd(uint32_t)
{
    __syncthreads();
    return 0;
}
__device__ __forceinline__ void settle_sums(column_worker &, uint32_t, uint32_t) {}
template <int N>
__device__ __forceinline__ void replace_odd(const column_worker &, uint32_t, uint32_t,
                                            const skewed_scales &, uint32_t, float[N][2])
{
}

} // namespace

#endif
