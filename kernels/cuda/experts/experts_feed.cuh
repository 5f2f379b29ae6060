/* experts_feed.cuh - a warp's run of units of the launches of experts_stages.cuh, and how they come
 * into its ring. A unit is 16 rows of a stage of one matrix of an expert, laid out as cuda/few has
 * it (gemv_quarters.cuh), with room for scales that begin anywhere: then the words that cover them
 * are copied as they lie, and a lane shifts its own when it reads them.
 *
 * A warp has a ring of two units, x of the tokens that they meet, and a note of each unit, so that
 * nothing is found out twice. */
#ifndef KERF_EXPERTS_FEED_CUH
#define KERF_EXPERTS_FEED_CUH

#include "cuda/experts/experts_matrix.cuh"
#include "cuda/few/gemv_column.cuh"

namespace
{

constexpr bool MAY_SKEW = HAS_GROUPS && !SHARED_ROW;
constexpr uint32_t RAW_ROW = ROW_SCALES + 4; /* bytes of a row's words, if one more may be needed */
constexpr uint32_t STAGE_OCTETS = STAGE_CODES / 8;
constexpr uint32_t UNIT_ROOM = kf_experts_unit(TILING); /* of a unit in the ring */
static_assert(!HAS_COLUMN || UNIT_ROOM >= CODE_BYTES + (MAY_SKEW ? TILE * RAW_ROW : 0), "room");

/* --- which units a warp has ---------------------------------------------------------------------
 */

/* What a block has to do: steps, of one unit or two with the same x, counted over its items, of
 * which the first may have begun. */
struct block_span {
    uint32_t tile, group, stage; /* of the first step */
    uint32_t steps, items;
};

template <bool DOWN> struct stage_cursor {
    uint32_t left;        /* steps of the warp, with this one    */
    uint32_t item;        /* of the block, counted from zero     */
    uint32_t group, tile; /* of h; of y: or of pairs of tiles    */
    uint32_t stage;

    __device__ __forceinline__ void begin(const kf_experts_job &j, const expert_groups &g,
                                          const block_span &s, uint32_t warp)
    {
        left = s.steps > warp ? (s.steps - warp + j.warps - 1) / j.warps : 0;
        item = 0;
        group = s.group;
        tile = s.tile;
        stage = s.stage + warp;
        settle(j, g);
    }
    __device__ __forceinline__ void settle(const kf_experts_job &j, const expert_groups &g)
    {
        while (left && stage >= j.slices) {
            stage -= j.slices;
            if constexpr (DOWN) {
                if (++group == g.count) group = 0, tile++, item++;
            } else {
                item++;
                if (++tile == j.tiles) tile = 0, group++;
            }
        }
    }
    __device__ __forceinline__ void step(const kf_experts_job &j, const expert_groups &g)
    {
        left--;
        stage += j.warps;
        settle(j, g);
    }
};

/* A unit as the one who multiplies must know it. */
struct unit_note {
    uint32_t item, tile, expert;
    uint32_t stage;          /* 20 bits */
    uint32_t column, tokens; /* the first of h, and how many: 8 and 3 bits */
    uint32_t second;         /* of a step: up, or the next tile */
    uint32_t place;          /* where its x is */
    bool fresh;              /* which is not halves yet; both units of a step say so */
    bool raw;                /* scales as they lie in memory */

    __device__ __forceinline__ void leave(uint32_t at) const
    {
        put_piece(at, {item, tile, expert | place << 17 | (uint32_t)fresh << 19 | second << 20,
                       stage | tokens << 20 | column << 23 | (uint32_t)raw << 31});
    }
    static __device__ __forceinline__ unit_note find(uint32_t at)
    {
        const uint4 v = shared_piece(at);
        return {
            v.x,           v.y,           v.z & 0x1ffff, v.w & 0xfffff,        v.w >> 23 & 0xff,
            v.w >> 20 & 7, v.z >> 20 & 1, v.z >> 17 & 3, (v.z >> 19 & 1) != 0, (v.w >> 31) != 0};
    }
};

/* Behind the notes of two units: the powers of two of each place of x, a byte for each token. */
constexpr uint32_t NOTE = 16, SHIFTS_AT = 2 * NOTE;

/* --- weights ------------------------------------------------------------------------------------
 */

/* Where the scales of a stage begin in a row. */
__device__ __forceinline__ const uint8_t *
stage_scales(const kf_experts_job &j, const kf_gemv_matrix &m, uint32_t row, uint32_t stage)
{
    return m.plane[KERF_PLANE_SCALES] + row * (j.strides.row_groups * SCALE_SIZE) +
           (uint64_t)stage * ROW_SCALES;
}

/* The words that cover the scales of 16 rows, two lanes for a row; what is behind the end of a row
 * is zero. */
__device__ __forceinline__ void copy_raw(const kf_experts_job &j, const kf_gemv_matrix &m,
                                         uint32_t first, uint32_t stage, uint32_t to, uint32_t lane)
{
    const uint32_t all = (uint32_t)j.strides.row_groups * SCALE_SIZE, r = lane / 2;
    const uint8_t *from = stage_scales(j, m, min(first + r, j.rows - 1), stage);
    const uint32_t skew = (uint32_t)(uint64_t)from % 4;
    int left = first + r < j.rows ? (int)(all - stage * ROW_SCALES + skew) : 0;
    from -= skew;
    to += r * RAW_ROW;
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

/* Codes where rows are missing, or planes are not aligned. */
__device__ __noinline__ void copy_codes_slowly(const kf_experts_job &j, uint32_t to, uint32_t lane,
                                               uint32_t stage, uint32_t rows, const uint8_t *codes)
{
    copy_codes_at_edge<PIECES, unit_place>(j, to, lane, stage, rows, codes);
}

/* Starts the copies of a unit of a matrix; says whether its scales are raw. */
__device__ __forceinline__ bool copy_unit(const kf_experts_job &j, int mat, uint32_t expert,
                                          uint32_t tile, uint32_t stage, uint32_t to, uint32_t lane)
{
    const kf_gemv_matrix m = matrix_of(j, j.stack[mat], expert);
    const uint32_t first = first_row(j, mat, tile), rows = j.rows - first;
    const uint32_t row = lane / PIECES, piece = lane % PIECES;
    const uint32_t at = stage * ROW_STAGE + piece * 16, pitch = (uint32_t)j.strides.row_bytes;
    const uint8_t *codes = m.plane[KERF_PLANE_CODES] + (uint64_t)(first + row) * pitch + at;
    if (j.aligned && rows >= TILE) {
        const uint32_t there = to + unit_place(row, piece), step = ROWS_AT_ONCE * pitch;
        const bool inside = at < pitch;
        if (PIECES * ROWS_AT_ONCE == 32 || lane < PIECES * ROWS_AT_ONCE)
#pragma unroll
            for (uint32_t i = 0; i < COPIES; i++)
                copy_async(there + i * (ROWS_AT_ONCE * ROW_STAGE), codes + (uint64_t)step * i,
                           inside);
    } else {
        copy_codes_slowly(j, to, lane, stage, rows, codes);
    }
    if constexpr (HAS_GROUPS) {
        const bool plain = j.plain_scales && rows >= TILE && (stage + 1) * STAGE_CODES <= j.cols;
        if (plain) {
            if (SCALE_LANES == 32 || (int)lane < SCALE_LANES) {
                const uint32_t r = SHARED_ROW ? first / TILE_ROWS : first + lane / ROW_PIECES;
                copy_scales<SCALE_PIECE>(
                    to + CODE_BYTES + lane * SCALE_PIECE,
                    stage_scales(j, m, r, stage) + lane % ROW_PIECES * SCALE_PIECE, true);
            }
        } else if constexpr (SHARED_ROW) {
            copy_scales_at_edge<ROW_SCALES>(j, to + CODE_BYTES, lane, stage, rows,
                                            stage_scales(j, m, first / TILE_ROWS, stage));
        } else if constexpr (MAY_SKEW) {
            copy_raw(j, m, first, stage, to + CODE_BYTES, lane);
        }
        return MAY_SKEW && !plain;
    } else {
        return false;
    }
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

__device__ __forceinline__ skewed_scales scales_of(const kf_experts_job &j, int mat,
                                                   const unit_note &n, uint32_t lane)
{
    skewed_scales s = {{0, 0}, n.raw};
    if (!MAY_SKEW || !n.raw) return s;
    const kf_gemv_matrix m = matrix_of(j, j.stack[mat], n.expert);
    const uint32_t first = first_row(j, mat, n.tile) + lane / 4;
#pragma unroll
    for (int row = 0; row < 2; row++)
        s.skew[row] =
            (uint32_t)(uint64_t)stage_scales(j, m, min(first + 8 * row, j.rows - 1), n.stage) % 4;
    return s;
}

} // namespace

#endif
