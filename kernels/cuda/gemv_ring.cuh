/* gemv_ring.cuh - which tiles and stages a block and its warps have, and how codes come into the
 * ring of each warp in shared memory: 16 bytes a lane, by copies that nobody waits for until a
 * stage is needed. Pieces of a row are twisted by its number, so that reading a matrix of 8 rows
 * meets every bank once. */
#ifndef KERF_GEMV_RING_CUH
#define KERF_GEMV_RING_CUH

#include "cuda/gemv_decode.cuh"

namespace
{

constexpr int TILE = KF_GEMV_TILE, WARPS = KF_GEMV_WARPS, THREADS = 32 * WARPS;
constexpr int ROW_STAGE = BITS == 6 ? 192 : 256; /* bytes */
constexpr int STAGE_CODES = BITS ? ROW_STAGE * 8 / BITS : 1;
constexpr int PITCH = BITS == 6 ? 208 : ROW_STAGE; /* 6 bits: rows apart so that banks differ */
constexpr int STAGE_BYTES = TILE * PITCH;
constexpr int DEPTH = BITS == 6 ? 3 : 2; /* stages on their way, 8 KiB of each warp */
constexpr int STEPS = BITS == 4 ? 2 : 1; /* of a stage, each with its scales */
constexpr int STEP_CODES = STAGE_CODES / STEPS;
constexpr int BLOCKS = STEP_CODES / 32; /* of 32 elements, of a step */
constexpr int PIECES = ROW_STAGE / 16;

/* --- places ----------------------------------------------------------------------------------- */

/* A tile of some part. */
struct place {
    uint32_t part, row; /* the first of its 16 */
};

__device__ __forceinline__ place place_of(const kf_gemv_job &j, uint32_t tile)
{
    if (j.swiglu) return {tile % 2, tile / 2 * TILE};
    uint32_t part = 0, before = 0;
    while (part + 1 < j.parts && tile >= j.part[part].tiles) before = j.part[part++].tiles;
    return {part, (tile - before) * TILE};
}

/* Where warp w of the block begins in n units. */
__device__ __forceinline__ uint32_t cut(uint32_t n, uint32_t w)
{
    return n * w / WARPS;
}

struct span {
    uint32_t tile, tiles;   /* the block's, counted over all parts */
    uint32_t stage, stages; /* its part of a row                   */
};

__device__ __forceinline__ span span_of(const kf_gemv_job &j)
{
    uint32_t team = blockIdx.x, rank = 0, unit = j.swiglu ? 2 : 1;
    if (j.cluster > 1) team = blockIdx.x / j.cluster, rank = blockIdx.x % j.cluster;
    uint32_t tile = team * j.team_tiles + min(team, j.team_rest);
    uint32_t stage = rank * j.rank_stages + min(rank, j.rank_rest);
    return {tile * unit, (j.team_tiles + (team < j.team_rest)) * unit, stage,
            j.rank_stages + (rank < j.rank_rest)};
}

/* Where a warp is in its run. */
struct cursor {
    uint32_t tile, stage, left; /* within the span; units left */

    __device__ __forceinline__ bool next(uint32_t stages) /* true: a new tile */
    {
        left--;
        if (++stage < stages) return false;
        stage = 0;
        tile++;
        return true;
    }
};

/* --- weights into shared memory -----------------------------------------------------------------
 */

/* 16 bytes, or as many zeros. */
__device__ __forceinline__ void copy_async(uint32_t to, const void *from, bool valid)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(valid ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void commit_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until the oldest of DEPTH groups is there. */
__device__ __forceinline__ void wait_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(DEPTH - 1) : "memory");
}

/* A piece that is not at a multiple of 16 bytes. */
__device__ __noinline__ void copy_bytes(uint32_t to, const uint8_t *from, bool valid)
{
    uint32_t w[4] = {0, 0, 0, 0};
    if (valid)
        for (int i = 0; i < 16; i++) w[i / 4] |= (uint32_t)__ldg(from + i) << i % 4 * 8;
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(w[0]), "r"(w[1]),
                 "r"(w[2]), "r"(w[3])
                 : "memory");
}

constexpr int ROWS_AT_ONCE = 2, COPIES = TILE / ROWS_AT_ONCE; /* by 32 lanes; 6 bits: 24 */

/* The codes of a warp's run on their way into its ring: a lane copies one piece of each
 * ROWS_AT_ONCE-th row. */
struct codes {
    cursor at;
    const uint8_t *from; /* the lane's piece of its first row */
    uint32_t rows, have; /* of the tile from the lane's first row on; bytes from its piece on */
    uint32_t to;         /* its place in a stage */

    __device__ __forceinline__ void aim(const kf_gemv_job &j, const span &s, uint32_t lane)
    {
        uint32_t row = lane / PIECES, piece = lane % PIECES;
        struct place p = place_of(j, s.tile + at.tile);
        const kf_gemv_matrix &m = j.part[p.part];
        uint64_t byte = (uint64_t)(s.stage + at.stage) * ROW_STAGE + piece * 16;
        from = m.plane[KERF_PLANE_CODES] + (uint64_t)(p.row + row) * j.row_bytes + byte;
        rows = p.row + row < m.rows && row < ROWS_AT_ONCE ? min(m.rows - p.row - row, TILE) : 0;
        have = byte < j.row_bytes ? (uint32_t)min(j.row_bytes - byte, (uint64_t)0xffffffffu) : 0;
    }

    __device__ __forceinline__ void begin(const kf_gemv_job &j, const span &s, cursor c,
                                          uint32_t ring, uint32_t lane)
    {
        uint32_t row = lane / PIECES, piece = lane % PIECES;
        at = c;
        to = ring + row * PITCH + (BITS == 6 ? piece : piece ^ row) * 16;
        if (at.left) aim(j, s, lane);
    }

    /* Where the lane's i-th copy goes: pieces of a row are twisted by its number. */
    __device__ __forceinline__ uint32_t place(uint32_t slot, int i) const
    {
        uint32_t twist = BITS == 6 ? 0 : i * ROWS_AT_ONCE % 8 * 16;
        return ((to + slot) ^ twist) + i * (ROWS_AT_ONCE * PITCH);
    }

    /* Into the ring's stage at `slot` bytes. */
    __device__ __forceinline__ void fetch(const kf_gemv_job &j, const span &s, uint32_t slot,
                                          uint32_t lane)
    {
        const uint8_t *p = from;
        uint64_t step = ROWS_AT_ONCE * j.row_bytes;
        bool plain = j.aligned && __all_sync(0xffffffffu, rows >= TILE - 1 && have != 0);
        if (PIECES * ROWS_AT_ONCE == 32 && plain) {
#pragma unroll
            for (int i = 0; i < COPIES; i++, p += step) copy_async(place(slot, i), p, true);
        } else if (lane < PIECES * ROWS_AT_ONCE) {
#pragma unroll 1
            for (int i = 0; i < COPIES; i++, p += step) {
                bool valid = i * ROWS_AT_ONCE < rows && have != 0;
                if (j.aligned)
                    copy_async(place(slot, i), p, valid);
                else
                    copy_bytes(place(slot, i), p, valid);
            }
        }
        if (at.next(s.stages)) {
            if (at.left) aim(j, s, lane);
        } else {
            from += ROW_STAGE;
            have = have > ROW_STAGE ? have - ROW_STAGE : 0;
        }
    }
};

} // namespace

#endif
