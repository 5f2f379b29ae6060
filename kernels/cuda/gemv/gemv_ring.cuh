/* gemv_ring.cuh - what all kernels for tiles are built of: which block has which tiles of 16 rows,
 * and asynchronous copies into the ring that each warp has in shared memory. */
#ifndef KERF_GEMV_RING_CUH
#define KERF_GEMV_RING_CUH

#include "cuda/gemv/gemv_decode.cuh"

namespace
{

constexpr int TILE = KF_GEMV_TILE, WARPS = KF_GEMV_WARPS, THREADS = 32 * WARPS;

/* --- places ----------------------------------------------------------------------------------- */

/* A tile of some part. */
struct place {
    uint32_t part, row; /* the first of its 16 */
};

/* What a team has to do, and its matrices. They are copied to shared memory, since the first read
 * of a line of constant memory takes as long as one of the second level of the cache. */
struct team_span {
    uint32_t tile, tiles;       /* counted over all parts */
    const kf_gemv_matrix *part; /* in shared memory */
    uint32_t parts;
    int swiglu;

    __device__ __forceinline__ place at(uint32_t i) const
    {
        i += tile;
        if (swiglu) return {i % 2, i / 2 * TILE};
        uint32_t p = 0, before = 0;
        while (p + 1 < parts && i >= part[p].tiles) before = part[p++].tiles;
        return {p, (i - before) * TILE};
    }
};

__device__ __forceinline__ team_span span_of(const kf_gemv_job &j, uint32_t team,
                                             const kf_gemv_matrix *parts)
{
    uint32_t unit = j.swiglu ? 2 : 1,
             tile = team * j.share.team_tiles + min(team, j.share.team_rest);
    return {tile * unit, (j.share.team_tiles + (team < j.share.team_rest)) * unit, parts, j.parts,
            j.swiglu};
}

/* Stages of a row that a block has: all, or of a pair of blocks one half and the rest. */
struct stage_span {
    uint32_t first, end;

    __device__ __forceinline__ uint32_t count() const { return end - first; }
};

template <bool PAIR>
__device__ __forceinline__ stage_span stages_of(const kf_gemv_job &j, uint32_t rank)
{
    uint32_t half = j.division.stages / 2;
    if (!PAIR) return {0, j.division.stages};
    return {rank ? half : 0, rank ? j.division.stages : half};
}

/* Part i of so many stages in `parts`, which differ by one at most. */
__device__ __forceinline__ stage_span part_of_row(uint32_t stages, uint32_t parts, uint32_t i)
{
    const uint32_t each = stages / parts, rest = stages % parts; /* so many have one more */
    const uint32_t first = i * each + min(i, rest);
    return {first, first + each + (i < rest)};
}

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

/* Few columns of x: units of a warp that are in flight, and until the first of them is there. */
constexpr int ON_THE_WAY = KF_GEMV_AHEAD;
__device__ __forceinline__ void wait_unit()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(ON_THE_WAY - 1) : "memory");
    __syncwarp();
}

/* Until all of this thread's are there. */
__device__ __forceinline__ void wait_copies()
{
    asm volatile("cp.async.wait_group 0;" ::: "memory");
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

/* N bytes, or as many zeros. */
template <int N>
__device__ __forceinline__ void copy_scales(uint32_t to, const void *from, bool valid)
{
    if constexpr (N == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(valid ? 16 : 0)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(from),
                     "r"(valid ? N : 0), "n"(N)
                     : "memory");
}

/* Up to four bytes that lie anyhow. */
__device__ __forceinline__ uint32_t bytes_at(const uint8_t *p, int have)
{
    uint32_t w = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < have) w |= (uint32_t)__ldg(p + i) << 8 * i;
    return w;
}

/* Four bytes that are not at a multiple of four; those past `have` are zero. */
__device__ __forceinline__ void copy_word(uint32_t to, const uint8_t *from, int have)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(bytes_at(from, have)) : "memory");
}

/* Codes of a unit that the matrix ends in, PIECES of 16 bytes of each of its rows, to where PLACE
 * says; unit: which one of a row; rows: of the matrix, from the first of the tile on; `codes`: the
 * lane's first piece. */
template <uint32_t PIECES, uint32_t (*PLACE)(uint32_t row, uint32_t piece), typename JOB>
__device__ __forceinline__ void copy_codes_at_edge(const JOB &j, uint32_t to, uint32_t lane,
                                                   uint32_t unit, uint32_t rows,
                                                   const uint8_t *codes)
{
    constexpr uint32_t AT_ONCE = 32 / PIECES; /* rows, by 32 lanes */
    uint32_t row = lane / PIECES, piece = lane % PIECES;
    bool inside = (uint64_t)unit * (PIECES * 16) + piece * 16 < j.strides.row_bytes;
    for (uint32_t i = 0; i < TILE / AT_ONCE && lane < PIECES * AT_ONCE; i++, row += AT_ONCE) {
        uint32_t there = to + PLACE(row, piece);
        bool valid = row < rows && inside;
        if (j.aligned)
            copy_async(there, codes, valid);
        else
            copy_bytes(there, codes, valid);
        codes += AT_ONCE * j.strides.row_bytes;
    }
}

} // namespace

#endif
