/* blocks_unit.cuh - which lane has what of a unit of GGUF's blocks in the kernel for few columns of
 * x, and how units come into the ring of each warp: 16 rows times a stage of 512 elements (256 with
 * 5 bits and more), bytes as they lie in memory.
 *
 * Lane (g, t) has the quarter t of rows g and g + 8: 128 or 64 elements that lie together, which
 * are whole blocks, or a half or a quarter of one of 256. Where 128 elements of a block share their
 * bytes (q6_k), a quarter is 32 elements and the 32 that come 64 later, which share theirs.
 *
 *   memory   ...|-- row r, stage s: whole blocks --|...       begins at any byte
 *   copies    |16|16|16| ... |16|16|                          the pieces of 16 bytes that cover it
 *   ring      skew, then the blocks                           rows stage_pitch bytes apart
 *
 * The skew of a row, the bytes from the first piece to the row, follows from its number and the
 * stage's. Behind the end of a row come zeros, so that scales there are zero. */
#ifndef KERF_BLOCKS_UNIT_CUH
#define KERF_BLOCKS_UNIT_CUH

#include "cuda/gemv/gemv_scales.cuh"

namespace
{

constexpr kf_super BLOCK = kf_gemv_block_of(KF_ROW);

constexpr int STAGE_CODES = TILING.stage_codes, QUARTER_CODES = STAGE_CODES / 4;
constexpr int OCTETS = QUARTER_CODES / 8;
constexpr uint32_t ROW_STAGE = TILING.stage, PITCH = TILING.stage_pitch;
constexpr int UNIT_BYTES = TILING.stage_unit;

/* Blocks begin at multiples of so many bytes; 1: anywhere. */
constexpr uint32_t ALIGNED = BLOCK.bytes % 16 == 0 ? 16 : BLOCK.bytes % 4 == 0 ? 4 : 1;
constexpr bool HAS_SKEW = ALIGNED < 16;
/* Lanes that share a block; and whether its quarters are split as above. */
constexpr uint32_t PARTS = BLOCK.elements > QUARTER_CODES ? BLOCK.elements / QUARTER_CODES : 1;
constexpr bool IS_SPLIT = BLOCK.low.run * (8 / BLOCK.low.bits) > QUARTER_CODES;
static_assert(!IS_SPLIT || (PARTS == 4 && BLOCK.low.run == 64), "only q6_k");

/* Which part of a block a lane has. */
__device__ __forceinline__ uint32_t own_part(uint32_t lane)
{
    return lane % 4 % PARTS;
}

/* Place i of x in shared memory has the octet that begins with this element:
 * [stage][octet][quarter].
 */
__device__ __forceinline__ uint32_t octet_at(uint32_t i)
{
    const uint32_t t = i % 4, o = i / 4 % OCTETS, first = i / (4 * OCTETS) * STAGE_CODES;
    if (IS_SPLIT) return first + t / 2 * 128 + t % 2 * 32 + o / 4 * 64 + o % 4 * 8;
    return first + t * QUARTER_CODES + o * 8;
}

/* From a row's first byte of a unit to the block where the lane's quarter begins. */
__device__ __forceinline__ uint32_t own_block(uint32_t lane)
{
    return lane % 4 * QUARTER_CODES / BLOCK.elements * BLOCK.bytes;
}
__device__ __forceinline__ uint32_t own_place(uint32_t lane)
{
    return lane / 4 * PITCH + own_block(lane);
}

/* --- units into shared memory ---------------------------------------------------------------- */

/* Pieces that cover a row of a unit. */
constexpr uint32_t FEWEST_PIECES = (ROW_STAGE + 15) / 16;
constexpr uint32_t MOST_PIECES = HAS_SKEW ? (ROW_STAGE + 15 + 15) / 16 : FEWEST_PIECES;

__device__ __forceinline__ uint32_t pieces_of(uint32_t skew)
{
    return HAS_SKEW ? (ROW_STAGE + 15 + skew) / 16 : FEWEST_PIECES;
}

/* How far behind a multiple of 16 bytes a row of a unit begins, counted from the plane's first
 * byte; half 1: of row g + 8. A tile begins at such a multiple. */
__device__ __forceinline__ uint32_t skew_of(const kf_gemv_job &j, uint32_t stage, uint32_t lane,
                                            uint32_t half)
{
    if (!HAS_SKEW) return 0;
    return ((lane / 4 + 8 * half) * (uint32_t)j.strides.row_bytes + stage * ROW_STAGE) % 16;
}

/* A lane's pieces of a row of a unit, all of which is there: from its first on, every fourth. */
__device__ __forceinline__ void copy_row(uint32_t to, const uint8_t *from, uint32_t skew,
                                         uint32_t t)
{
#pragma unroll
    for (uint32_t i = 0; i < MOST_PIECES; i += 4)
        if (i + 4 <= FEWEST_PIECES || i + t < pieces_of(skew))
            copy_async(to + i * 16, from + i * 16, true);
}

/* A row at the edge of a matrix, or of a plane that is not aligned: its lane's pieces, of `left`
 * bytes from `row`, its first of this unit, to its end; none of a row past the last. */
__device__ __noinline__ void fetch_row_edge(uint32_t to, const uint8_t *row, uint32_t t,
                                            uint32_t skew, uint64_t left, bool is_aligned)
{
    const uint8_t *from = row - skew;
    const uint64_t end = left ? left + skew : 0; /* from there on */
    for (uint32_t i = t; i < pieces_of(skew); i += 4) {
        const uint64_t at = i * 16;
        const int n = at < end ? (int)min(end - at, (uint64_t)16) : 0;
        if (is_aligned && n % 16 == 0) {
            copy_async(to + i * 16, from + (n ? at : 0), n != 0);
            continue;
        }
        for (int k = 0; k < 16; k += 4) copy_word(to + i * 16 + k, from + at + k, n - k);
    }
}

/* Copies a warp's run of units into its ring, one after another: four lanes take a row. */
struct unit_feed {
    uint32_t tile, stage, left; /* units of the run */
    stage_span stages;          /* of the block     */
    const uint8_t *row;         /* the unit's first byte of row g */
    uint32_t rows;              /* of the matrix, from the tile on */

    __device__ __forceinline__ void aim(const kf_gemv_job &j, const team_span &s, uint32_t lane)
    {
        const struct place p = s.at(tile);
        const kf_gemv_matrix &m = s.part[p.part];
        rows = m.rows - p.row;
        row = m.plane[KERF_PLANE_CODES] + (uint64_t)(p.row + lane / 4) * j.strides.row_bytes +
              stage * ROW_STAGE;
    }

    /* The unit into the ring at `to`, and on to the next. */
    __device__ __forceinline__ void fetch(const kf_gemv_job &j, const team_span &s, uint32_t to,
                                          uint32_t lane)
    {
        const bool inner = stage + 1 < j.division.stages; /* more of the row follows */
        const bool plain = rows >= TILE && (j.whole || (j.aligned && inner));
        const uint32_t t = lane % 4;
        to += lane / 4 * PITCH;
#pragma unroll
        for (uint32_t half = 0; half < 2; half++, to += 8 * PITCH) {
            const uint8_t *first = row + half * 8 * j.strides.row_bytes;
            const uint32_t skew = skew_of(j, stage, lane, half);
            if (plain) {
                copy_row(to + t * 16, first - skew + t * 16, skew, t);
            } else {
                const bool inside = lane / 4 + half * 8 < rows;
                const uint64_t left_of_row = j.strides.row_bytes - (uint64_t)stage * ROW_STAGE;
                fetch_row_edge(to, inside ? first : row, t, skew, inside ? left_of_row : 0,
                               j.aligned);
            }
        }
        left--;
        row += ROW_STAGE;
        if (++stage == stages.end) {
            stage = stages.first;
            tile++;
            if (left) aim(j, s, lane);
        }
    }
};

/* --- what a unit's place tells ----------------------------------------------------------------
 */

struct beside {
    uint32_t skew[2]; /* of rows g and g + 8 */
};
using column_beside = beside;

__device__ __forceinline__ void fetch_beside(beside &out, const kf_gemv_job &j, const team_span &,
                                             uint32_t, uint32_t stage, uint32_t lane)
{
    for (uint32_t half = 0; half < 2; half++) out.skew[half] = skew_of(j, stage, lane, half);
}

} // namespace

#endif
