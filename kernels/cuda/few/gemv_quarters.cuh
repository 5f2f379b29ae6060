/* gemv_quarters.cuh - which lane has what of a unit in the kernel for few columns of x, and how
 * units come into the ring of each warp: 16 rows times a stage of codes and, behind them, their
 * scales.
 *
 * Lane (g, t) of a warp has the quarter t of rows g and g + 8: 64 bytes of codes that lie together
 * (48 with 6 bits, 32 with 2), which are one to eight groups, or a part of one. It reads them in
 * pieces of 16 bytes, of 8 elements ("octets") each or several. */
#ifndef KERF_GEMV_QUARTERS_CUH
#define KERF_GEMV_QUARTERS_CUH

#include "cuda/gemv/gemv_scales.cuh"

namespace
{

constexpr int ROW_STAGE = TILING.stage; /* bytes of a row of a unit */
constexpr int STAGE_CODES = TILING.stage_codes;
constexpr int PIECES = ROW_STAGE / 16;
constexpr int ROWS_AT_ONCE = TILING.stage_rows; /* by 32 lanes; 6 bits: 24 */
constexpr int COPIES = TILE / ROWS_AT_ONCE;

constexpr int QUARTER = ROW_STAGE / 4;         /* bytes */
constexpr int QUARTER_PIECES = QUARTER / 16;   /* 4, or 3 with 6 bits, 2 with 2 */
constexpr int QUARTER_CODES = STAGE_CODES / 4; /* 128, 64 or 32 */
constexpr int OCTETS = QUARTER_CODES / 8;      /* of a quarter */
constexpr int PIECE_OCTETS = OCTETS > QUARTER_PIECES ? OCTETS / QUARTER_PIECES : 1; /* but 6 bits */

constexpr int STAGE_GROUPS = HAS_GROUPS ? STAGE_CODES / (int)KF_ROW.group : 0;
constexpr int ROW_SCALES = TILING.stage_row;   /* bytes of a row of a stage */
constexpr int SCALE_PIECE = TILING.stage_copy; /* of a copy */
constexpr int ROW_PIECES = HAS_GROUPS ? ROW_SCALES / SCALE_PIECE : 1;
constexpr int SCALE_ROWS = SHARED_ROW ? 1 : TILE;
constexpr int SCALE_LANES =
    HAS_GROUPS ? SCALE_ROWS * ROW_PIECES : 0; /* or copies, if more than 32 */
constexpr uint32_t ROW_WORDS = ROW_SCALES >= 4 ? ROW_SCALES / 4 : 1; /* of scales */
static_assert(!TILED || ROW_SCALES % 4 == 0, "less than a copy takes");
static_assert(!TILED || 32 % ROW_WORDS == 0, "lanes divide rows of words");

constexpr int CODE_BYTES = TILE * ROW_STAGE;
constexpr int UNIT_BYTES = TILING.stage_unit; /* codes, and behind them their scales */

constexpr int OWN_GROUPS =
    HAS_GROUPS && (int)KF_ROW.group < QUARTER_CODES ? QUARTER_CODES / (int)KF_ROW.group : 1;
constexpr int OWN_OCTETS = OCTETS / OWN_GROUPS; /* of a group */
constexpr int OWN_BYTES = OWN_GROUPS * SCALE_SIZE;
constexpr int OWN_WORDS = OWN_BYTES > 4 ? OWN_BYTES / 4 : 1;
constexpr int GROUP_LANES = HAS_GROUPS && (int)KF_ROW.group > QUARTER_CODES
                                ? (int)KF_ROW.group / QUARTER_CODES
                                : 1;

/* Eight lanes read at once, a quad of row g and one of row g + 1, and should meet every bank. With
 * four pieces a quarter, lanes 2 and 3 of a quad take neighbours in the other order, and odd rows
 * are twisted by two pieces; with two, odd rows by one; with three, no two meet anyhow. */
constexpr bool TWISTED = QUARTER_PIECES % 2 == 0, EXCHANGES = QUARTER_PIECES == 4;

__device__ __forceinline__ uint32_t exchanged(uint32_t t) /* 1: in the other order */
{
    return EXCHANGES ? t / 2 : 0;
}
__device__ __forceinline__ uint32_t twisted(uint32_t row, uint32_t piece)
{
    return TWISTED ? piece ^ row % 2 * (QUARTER_PIECES / 2) : piece;
}

/* Where a piece of a row of a unit lies. */
__device__ __forceinline__ uint32_t unit_place(uint32_t row, uint32_t piece)
{
    return row * ROW_STAGE + twisted(row, piece) * 16;
}

/* Of the piece that a lane reads in its first turn; the s-th is at that xor 16 s. */
__device__ __forceinline__ uint32_t own_place(uint32_t lane)
{
    uint32_t g = lane / 4, t = lane % 4;
    return g * ROW_STAGE + t * QUARTER + twisted(g, exchanged(t)) * 16;
}

/* Place i of x in shared memory has the octet that begins with this element:
 * [stage][octet][quarter].
 */
__device__ __forceinline__ uint32_t octet_at(uint32_t i)
{
    uint32_t t = i % 4, o = i / 4 % OCTETS, stage = i / (4 * OCTETS);
    if (EXCHANGES) o = (o / PIECE_OCTETS ^ exchanged(t)) * PIECE_OCTETS + o % PIECE_OCTETS;
    return stage * STAGE_CODES + t * QUARTER_CODES + o * 8;
}

/* --- units into shared memory ---------------------------------------------------------------- */

/* What is not plain: rows past the last of a matrix, codes or scales that lie anyhow.
 * `codes`: the lane's first piece; `scales`: of the stage, in the first row of the tile. */
__device__ __noinline__ void fetch_edge(const kf_gemv_job &j, uint32_t to, uint32_t lane,
                                        uint32_t stage, uint32_t rows, const uint8_t *codes,
                                        const uint8_t *scales)
{
    copy_codes_at_edge<PIECES, unit_place>(j, to, lane, stage, rows, codes);
    if constexpr (HAS_GROUPS)
        copy_scales_at_edge<ROW_SCALES>(j, to + CODE_BYTES, lane, stage, rows, scales);
}

/* Scales of a unit in whole pieces, of which a lane has one, or the same of several rows; `scales`:
 * its first; all: bytes of a row. */
__device__ __forceinline__ void copy_scale_pieces(uint32_t to, uint32_t lane, uint32_t all,
                                                  bool inside, const uint8_t *scales)
{
    constexpr int TIMES = SCALE_LANES > 32 ? SCALE_LANES / 32 : 1;
    if (SCALE_LANES % 32 == 0 || (int)lane < SCALE_LANES)
#pragma unroll
        for (uint32_t i = 0; i < TIMES; i++)
            copy_scales<SCALE_PIECE>(to + (lane + i * 32) * SCALE_PIECE,
                                     scales + (uint64_t)(i * (32 / ROW_PIECES)) * all, inside);
}

/* Copies a warp's run of units into its ring, one after another. */
struct unit_feed {
    uint32_t tile, stage, left; /* units of the run */
    stage_span stages;          /* of the block     */
    const uint8_t *codes;       /* the lane's first piece */
    const uint8_t *scales;      /* the same, where they come in pieces; else of the first row */
    uint32_t rows;              /* of the matrix, from the tile on */

    __device__ __forceinline__ void aim(const kf_gemv_job &j, const team_span &s, uint32_t lane)
    {
        struct place p = s.at(tile);
        const kf_gemv_matrix &m = s.part[p.part];
        uint32_t row = p.row + lane / PIECES;
        codes = m.plane[KERF_PLANE_CODES] + row * j.strides.row_bytes +
                (stage * ROW_STAGE + lane % PIECES * 16);
        rows = m.rows - p.row;
        if constexpr (HAS_GROUPS) {
            row = SHARED_ROW ? p.row / TILE_ROWS : p.row + (j.pieces ? lane / ROW_PIECES : 0);
            scales = m.plane[KERF_PLANE_SCALES] + row * (j.strides.row_groups * SCALE_SIZE) +
                     (stage * ROW_SCALES + (j.pieces ? lane % ROW_PIECES * SCALE_PIECE : 0));
        }
    }

    __device__ __forceinline__ const uint8_t *first_scales(const kf_gemv_job &j,
                                                           uint32_t lane) const
    {
        if (!HAS_GROUPS) return nullptr;
        if (!j.pieces) return scales;
        uint64_t rows_before = SHARED_ROW ? 0 : lane / ROW_PIECES;
        return scales - rows_before * (j.strides.row_groups * SCALE_SIZE) -
               lane % ROW_PIECES * SCALE_PIECE;
    }

    /* A row that ends within the unit has zeros behind its end. */
    __device__ __forceinline__ void fetch_codes(const kf_gemv_job &j, uint32_t to,
                                                uint32_t lane) const
    {
        uint32_t row = lane / PIECES, piece = lane % PIECES;
        uint32_t step = ROWS_AT_ONCE * (uint32_t)j.strides.row_bytes;
        uint32_t there = to + unit_place(row, piece);
        bool inside = stage * ROW_STAGE + piece * 16 < (uint32_t)j.strides.row_bytes;
        if (PIECES * ROWS_AT_ONCE == 32 || lane < PIECES * ROWS_AT_ONCE)
#pragma unroll
            for (uint32_t i = 0; i < COPIES; i++) /* an address is one multiplication */
                copy_async(there + i * (ROWS_AT_ONCE * ROW_STAGE), codes + (uint64_t)step * i,
                           inside);
    }
    __device__ __forceinline__ void fetch_scales(const kf_gemv_job &j, uint32_t to,
                                                 uint32_t lane) const
    {
        const uint32_t all = (uint32_t)j.strides.row_groups * SCALE_SIZE;
        if (j.pieces) {
            uint32_t at = stage * ROW_SCALES + lane % ROW_PIECES * SCALE_PIECE;
            copy_scale_pieces(to, lane, all, ROW_PIECES == 1 || at < all, scales);
            return;
        }
        copy_scales_in_words<ROW_SCALES>(to, lane, all, stage, scales);
    }

    /* The unit into the ring at `to`, and on to the next. */
    __device__ __forceinline__ void fetch(const kf_gemv_job &j, const team_span &s, uint32_t to,
                                          uint32_t lane)
    {
        if (rows >= TILE && j.aligned && (!HAS_GROUPS || j.words)) {
            fetch_codes(j, to, lane);
            if constexpr (HAS_GROUPS) fetch_scales(j, to + CODE_BYTES, lane);
        } else {
            fetch_edge(j, to, lane, stage, rows, codes, first_scales(j, lane));
        }
        left--;
        codes += ROW_STAGE;
        if constexpr (HAS_GROUPS) scales += ROW_SCALES;
        if (++stage == stages.end) {
            stage = stages.first;
            tile++;
            if (left) aim(j, s, lane);
        }
    }
};

/* --- what goes with scales, straight from memory, a unit ahead -------------------------------- */

struct beside {
    uint32_t zero[2];
    float second[2];
};
struct column_beside : beside {
    float next[2]; /* of a lane's last group, where that may be of another block of scales */
};
static_assert(!NESTED || OWN_GROUPS <= 2, "two of a lane's groups have second-level scales");

/* Of the rows of the tile that begins with a row of a matrix. */
template <typename JOB>
__device__ __forceinline__ void fetch_beside(beside &out, const JOB &j, const kf_gemv_matrix &m,
                                             uint32_t tile_row, uint32_t stage, uint32_t lane)
{
    if constexpr ((HAS_ZEROS && HAS_GROUPS) || NESTED) {
        uint32_t first = stage * STAGE_GROUPS + lane % 4 / GROUP_LANES * OWN_GROUPS;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint64_t row = min(tile_row + lane / 4 + 8 * half, m.rows - 1);
            if constexpr (HAS_ZEROS) {
                uint64_t byte = (uint64_t)first * BITS / 8;
                int have = byte < j.strides.zero_bytes
                               ? (int)min(j.strides.zero_bytes - byte, (uint64_t)4)
                               : 0;
                constexpr int need = (OWN_GROUPS * BITS + 7) / 8;
                out.zero[half] =
                    bytes_at(m.plane[KERF_PLANE_ZEROS] + row * j.strides.zero_bytes + byte,
                             min(have, need)) >>
                    first * BITS % 8;
                if (OWN_GROUPS == QUARTER_PIECES && exchanged(lane % 4)) {
                    uint32_t z = out.zero[half];
                    out.zero[half] = (z >> 4 & 0x0f0f) | (z & 0x0f0f) << 4;
                }
            }
            if constexpr (NESTED) {
                uint64_t group =
                    row * j.strides.row_groups + min((uint64_t)first, j.strides.row_groups - 1);
                out.second[half] =
                    __ldg((const float *)m.plane[KERF_PLANE_SECOND] + group / KF_NEST_BLOCKS);
            }
        }
    }
}

/* Rows of an odd number of groups: a lane's second group may begin a block of 256. */
template <typename JOB>
__device__ __forceinline__ void fetch_next(column_beside &out, const JOB &j,
                                           const kf_gemv_matrix &m, uint32_t tile_row,
                                           uint32_t stage, uint32_t lane)
{
    const uint64_t all = j.strides.row_groups;
    const uint32_t group = (stage * 4 + lane % 4) * OWN_GROUPS + OWN_GROUPS - 1;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        out.next[half] = 0; /* not `second`, which is on its way */
        if (all % OWN_GROUPS == 0) continue;
        uint64_t row = min(tile_row + lane / 4 + 8 * half, m.rows - 1);
        uint64_t at = row * all + min((uint64_t)group, all - 1);
        out.next[half] = __ldg((const float *)m.plane[KERF_PLANE_SECOND] + at / KF_NEST_BLOCKS);
    }
}

__device__ __forceinline__ void fetch_beside(column_beside &out, const kf_gemv_job &j,
                                             const team_span &s, uint32_t tile, uint32_t stage,
                                             uint32_t lane)
{
    if constexpr ((HAS_ZEROS && HAS_GROUPS) || NESTED) {
        if (tile >= s.tiles) return;
        place p = s.at(tile);
        fetch_beside(out, j, s.part[p.part], p.row, stage, lane);
        if constexpr (NESTED) fetch_next(out, j, s.part[p.part], p.row, stage, lane);
    }
}

} // namespace

#endif
