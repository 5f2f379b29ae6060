/* gemv_slices.cuh - which warp has what of W in the kernel for many columns of x, and how W comes
 * into the ring of each warp: a warp has a slice of the columns of W, SLICE_CODES of them, and goes
 * down the rows, 16 at a time. A unit is 16 rows of a slice and, behind them, their scales, and the
 * word of zero points that they are in.
 *
 * Codes lie in pieces of 16 bytes; those of a row are twisted by its number, so that reading a
 * matrix of 8 rows meets every bank once; with 2 bits two rows are a line of banks, and by half of
 * it. Rows of 6-bit codes have a gap between them instead. */
#ifndef KERF_GEMV_SLICES_CUH
#define KERF_GEMV_SLICES_CUH

#include "cuda/gemv/gemv_scales.cuh"

namespace
{

constexpr int SLICE_PIECES = TILED ? SLICE_BYTES / 16 : 1;
constexpr int SLICE_LANE_ROWS = 32 / SLICE_PIECES; /* rows that 32 lanes copy at once */
constexpr int SLICE_COPIES = TILE / SLICE_LANE_ROWS;
constexpr int SLICE_PITCH = TILING.slice_pitch;
constexpr int SLICE_SCALES = TILE * SLICE_PITCH; /* where they begin in a unit */
constexpr int SLICE_SCALE_PIECE = TILING.slice_copy;
constexpr int SLICE_SCALE_PIECES =
    HAS_GROUPS && SCALE_BYTES ? SCALE_BYTES / SLICE_SCALE_PIECE : 1; /* of a row */
constexpr int SLICE_ZEROS = SLICE_SCALES + TILE * SCALE_BYTES, SLICE_ZERO_BITS = GROUPS * BITS;
constexpr int SLICE_UNIT = TILING.slice_unit;
static_assert(SLICE_UNIT % 128 == 0 || !TILED, "twisting takes addresses at multiples of 128");
static_assert(SLICE_ZERO_BITS <= 32 || !HAS_ZEROS, "zero points of a slice are in a word");
constexpr int SLICE_DEPTH = TILING.slice_depth; /* units of a warp that are in flight */
static_assert(!TILED || !HAS_GROUPS || SCALE_BYTES % 4 == 0, "less than a copy takes");

/* What the pieces of a row are twisted by. */
__device__ __forceinline__ constexpr uint32_t slice_twist(uint32_t row)
{
    return BITS == 6 ? 0 : BITS == 2 ? row / 2 % 4 : row % 8;
}

/* Where a piece of a row of a unit lies. */
__device__ __forceinline__ uint32_t slice_place(uint32_t row, uint32_t piece)
{
    return row * SLICE_PITCH + (piece ^ slice_twist(row)) * 16;
}

/* The edges of a matrix: rows past the last, slices that a row ends in, planes that are not
 * aligned.
 * `codes`: the lane's first piece; `scales`: of the slice, in the first row of the tile. */
template <typename JOB>
__device__ __noinline__ void fetch_slice_edge(const JOB &j, uint32_t to, uint32_t lane,
                                              uint32_t slice, uint32_t rows, const uint8_t *codes,
                                              const uint8_t *scales)
{
    copy_codes_at_edge<SLICE_PIECES, slice_place>(j, to, lane, slice, rows, codes);
    if constexpr (HAS_GROUPS)
        copy_scales_at_edge<SCALE_BYTES>(j, to + SLICE_SCALES, lane, slice, rows, scales);
}

/* Words of zero points of the lanes' rows of a tile that do not begin at multiples of four. */
template <typename JOB>
__device__ __noinline__ void fetch_zeros_askew(const JOB &j, uint32_t to, uint32_t lane,
                                               uint32_t first, uint32_t rows, const uint8_t *zeros)
{
    int have =
        first < j.strides.zero_bytes ? (int)min(j.strides.zero_bytes - first, (uint64_t)4) : 0;
    if (lane < TILE) copy_word(to + lane * 4, zeros, lane < rows ? have : 0);
}

/* Whether the number of a tile is counted, or found by how many are left: beside x of 16 columns
 * the first leaves 8 bits, the second 4 bits without words in local memory, which cost up to 13 %.
 */
constexpr bool COUNTS_TILES = BITS == 8;

/* A unit in memory: where the lane's first pieces of it are. */
struct slice_source {
    const uint8_t *codes, *scales; /* the lane's first piece of each */
    const uint8_t *zeros;          /* the word of the lane's row, of 16 */
    uint32_t rows;                 /* of the matrix, from the tile on */

    __device__ __forceinline__ void aim(const kf_gemv_job &j, const team_span &s, uint32_t tile,
                                        uint32_t slice, uint32_t lane)
    {
        struct place p = s.at(tile);
        aim(j, s.part[p.part], p.row, slice, lane);
    }

    /* The tile that begins with a row of a matrix. */
    template <typename JOB>
    __device__ __forceinline__ void aim(const JOB &j, const kf_gemv_matrix &m, uint32_t first,
                                        uint32_t slice, uint32_t lane)
    {
        rows = m.rows - first;
        codes = m.plane[KERF_PLANE_CODES] + (first + lane / SLICE_PIECES) * j.strides.row_bytes +
                ((uint64_t)slice * SLICE_BYTES + lane % SLICE_PIECES * 16);
        if constexpr (HAS_GROUPS) {
            uint32_t row = SHARED_ROW ? first / TILE_ROWS : first + lane / SLICE_SCALE_PIECES;
            scales =
                m.plane[KERF_PLANE_SCALES] + row * (j.strides.row_groups * SCALE_SIZE) +
                ((uint64_t)slice * SCALE_BYTES + lane % SLICE_SCALE_PIECES * SLICE_SCALE_PIECE);
        }
        if constexpr (HAS_ZEROS && HAS_GROUPS)
            zeros = m.plane[KERF_PLANE_ZEROS] + (first + lane % TILE) * j.strides.zero_bytes +
                    zeros_of(slice);
    }

    /* Where the word of a slice's zero points begins in a row. */
    static __device__ __forceinline__ uint32_t zeros_of(uint32_t slice)
    {
        return slice * SLICE_ZERO_BITS / 32 * 4;
    }

    /* Codes, and scales, where all 16 rows have them and every copy is aligned. */
    template <typename JOB>
    __device__ __forceinline__ void copy_whole_codes(const JOB &j, uint32_t to, uint32_t lane,
                                                     bool inside = true) const
    {
        uint32_t row = lane / SLICE_PIECES, piece = lane % SLICE_PIECES;
        uint32_t step = SLICE_LANE_ROWS * (uint32_t)j.strides.row_bytes,
                 there = to + slice_place(row, piece);
        if (SLICE_PIECES * SLICE_LANE_ROWS == 32 || lane < SLICE_PIECES * SLICE_LANE_ROWS)
#pragma unroll
            for (uint32_t i = 0; i < SLICE_COPIES; i++) {
                uint32_t twist = slice_twist(i * SLICE_LANE_ROWS) * 16;
                copy_async((there ^ twist) + i * (SLICE_LANE_ROWS * SLICE_PITCH),
                           codes + (uint64_t)step * i, inside);
            }
    }
    __device__ __forceinline__ void copy_whole_scales(uint32_t to, uint32_t lane,
                                                      bool inside = true) const
    {
        if constexpr (HAS_GROUPS) {
            constexpr int lanes = SHARED_ROW ? SLICE_SCALE_PIECES : TILE * SLICE_SCALE_PIECES;
            if (lanes == 32 || (int)lane < lanes)
                copy_scales<SLICE_SCALE_PIECE>(to + SLICE_SCALES + lane * SLICE_SCALE_PIECE, scales,
                                               inside);
        }
    }

    /* The slice's scales in the first row of the tile. */
    template <typename JOB>
    __device__ __forceinline__ const uint8_t *first_scales(const JOB &j, uint32_t lane) const
    {
        if (!HAS_GROUPS) return nullptr;
        uint64_t before = SHARED_ROW ? 0 : lane / SLICE_SCALE_PIECES;
        return scales - before * (j.strides.row_groups * SCALE_SIZE) -
               lane % SLICE_SCALE_PIECES * SLICE_SCALE_PIECE;
    }

    /* Of whole tiles. Where a slice has one piece of them, whole pieces are whole slices. */
    template <typename JOB>
    __device__ __forceinline__ void copy_scales_inside(const JOB &j, uint32_t slice, uint32_t to,
                                                       uint32_t lane) const
    {
        const uint32_t all = (uint32_t)j.strides.row_groups * SCALE_SIZE;
        const uint32_t piece = slice * SCALE_BYTES + lane % SLICE_SCALE_PIECES * SLICE_SCALE_PIECE;
        if (j.pieces)
            copy_whole_scales(to, lane, SLICE_SCALE_PIECES == 1 || piece < all);
        else
            copy_scales_in_words<SCALE_BYTES>(to + SLICE_SCALES, lane, all, slice,
                                              first_scales(j, lane));
    }

    /* The unit into the ring at `to`. A row that ends within it has zeros behind its end. */
    template <typename JOB>
    __device__ __forceinline__ void copy(const JOB &j, uint32_t slice, uint32_t to,
                                         uint32_t lane) const
    {
        if (rows >= TILE && j.aligned && (!HAS_GROUPS || j.words)) {
            const uint32_t piece = slice * SLICE_BYTES + lane % SLICE_PIECES * 16;
            copy_whole_codes(j, to, lane, piece < (uint32_t)j.strides.row_bytes);
            if constexpr (HAS_GROUPS) copy_scales_inside(j, slice, to, lane);
        } else {
            fetch_slice_edge(j, to, lane, slice, rows, codes, first_scales(j, lane));
        }
        copy_zeros(j, slice, to, lane);
    }

    template <typename JOB>
    __device__ __forceinline__ void copy_zeros(const JOB &j, uint32_t slice, uint32_t to,
                                               uint32_t lane) const
    {
        if constexpr (HAS_ZEROS && HAS_GROUPS) {
            if (!j.zero_words)
                fetch_zeros_askew(j, to + SLICE_ZEROS, lane, zeros_of(slice), rows, zeros);
            else if (lane < TILE)
                copy_scales<4>(to + SLICE_ZEROS + lane * 4, zeros,
                               lane < rows && zeros_of(slice) < j.strides.zero_bytes);
        }
    }
};

/* What a warp still has to copy: tile after tile of its slice. */
struct slice_feed {
    uint32_t tile, left;    /* units of the pass */
    uint32_t slice, passes; /* of the pass; still to begin */
    slice_source unit;

    __device__ __forceinline__ void aim(const kf_gemv_job &j, const team_span &s, uint32_t lane)
    {
        unit.aim(j, s, COUNTS_TILES ? tile : s.tiles - left, slice, lane);
    }

    /* Whether there is a unit to copy, in this pass or the next. */
    __device__ __forceinline__ bool more(const kf_gemv_job &j, const team_span &s, uint32_t lane)
    {
        if (left) return true;
        if (!passes) return false;
        passes--;
        tile = 0;
        slice += j.division.cluster * j.division.warps;
        left = slice < j.division.slices ? s.tiles : 0;
        if (left) aim(j, s, lane);
        return left;
    }

    /* The unit into the ring at `to`, and on to the next. */
    __device__ __forceinline__ void fetch(const kf_gemv_job &j, const team_span &s, uint32_t to,
                                          uint32_t lane)
    {
        unit.copy(j, slice, to, lane);
        left--;
        tile++;
        if (SHARED_ROW || s.swiglu || unit.rows <= TILE) {
            if (left) aim(j, s, lane);
        } else {
            unit.rows -= TILE;
            unit.codes += TILE * j.strides.row_bytes;
            if constexpr (HAS_GROUPS) unit.scales += TILE * SCALE_SIZE * j.strides.row_groups;
            if constexpr (HAS_ZEROS && HAS_GROUPS) unit.zeros += TILE * j.strides.zero_bytes;
        }
    }
};

__device__ __forceinline__ void wait_slice()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(SLICE_DEPTH - 1) : "memory");
    __syncwarp();
}

/* --- what goes with scales, straight from memory, a unit ahead -------------------------------- */

struct aside {
    float second[2], offset;
};

/* Of the rows of the tile that begins with a row of a matrix. */
template <typename JOB>
__device__ __forceinline__ void fetch_aside(aside &out, const JOB &j, const kf_gemv_matrix &m,
                                            uint32_t tile_row, uint32_t slice, uint32_t lane)
{
    if constexpr (NESTED) {
        uint64_t first = (uint64_t)slice * GROUPS;
        if constexpr (KF_ROW.zero == KERF_ZERO_F32)
            out.offset = __ldg((const float *)m.plane[KERF_PLANE_ZEROS]);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint64_t row = min(tile_row + lane / 4 + 8 * half, m.rows - 1);
            uint64_t group = row * j.strides.row_groups + min(first, j.strides.row_groups - 1);
            out.second[half] =
                __ldg((const float *)m.plane[KERF_PLANE_SECOND] + group / KF_NEST_BLOCKS);
        }
    }
}

__device__ __forceinline__ void fetch_aside(aside &out, const kf_gemv_job &j, const team_span &s,
                                            uint32_t tile, uint32_t slice, uint32_t lane)
{
    if constexpr (NESTED) {
        if (tile >= s.tiles || slice >= j.division.slices) return;
        place p = s.at(tile);
        fetch_aside(out, j, s.part[p.part], p.row, slice, lane);
    }
}

} // namespace

#endif
