/* gemv_columns_y.cuh - from what the warps of a block, and the blocks of a cluster, made of a tile
 * to y, where x has many columns.
 *
 * Every warp leaves its sums of a tile and goes on; a tile later, when all have counted themselves
 * in, one or two of them, in turns, add up what all left. Where several blocks share rows, the
 * result goes to the one that finishes the tile; where rows are passed over more than once, it is
 * kept until the last time. In the end the blocks of the cluster are added up, and y is written.
 * All in one order: the same bits in every run. */
#ifndef KERF_GEMV_COLUMNS_Y_CUH
#define KERF_GEMV_COLUMNS_Y_CUH

#include "cuda/gemv/gemv_multiply.cuh"
#include "cuda/gemv/gemv_sums.cuh"

namespace
{

/* Bytes of a warp's sums of a tile, lane by lane; and of what they become: [column][row], with a
 * gap against bank conflicts. All are found by 32-bit addresses, since registers are scarce. */
constexpr uint32_t COLUMN_BYTES = (TILE + 1) * 4;
template <int NB> constexpr uint32_t SUMS = TILE * 8 * 4 * NB;
template <int NB> constexpr uint32_t SLOT = COLUMN_BYTES * 8 * NB;

/* A lane's sums: rows g and g + 8, two columns of each. As floats from the start: by way of
 * integers, with put_piece(), the compiler lays out the loop otherwise. */
__device__ __forceinline__ void put_sums(uint32_t at, float4 v)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(v.x), "f"(v.y), "f"(v.z),
                 "f"(v.w)
                 : "memory");
}
__device__ __forceinline__ float4 load_sums(uint32_t at)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}
__device__ __forceinline__ void add(float4 &to, float4 v)
{
    to.x += v.x, to.y += v.y, to.z += v.z, to.w += v.w;
}

/* Makes the compiler keep an address in a register: it cannot compute again what comes out of a
 * shuffle. Otherwise it does, wherever the address is used, from special registers that take longer
 * to read than shared memory. keep() of the kernel for few columns costs nothing, but here the
 * assembler sees through it. */
__device__ __forceinline__ uint32_t found_once(uint32_t v)
{
    return __shfl_sync(0xffffffffu, v, 0);
}

#if __CUDA_ARCH__ >= 900
#define KF_WAIT "try_wait" /* sleeps for a while */
#else
#define KF_WAIT "test_wait"
#endif

/* Threads count themselves in when they have left their sums of a tile. */
struct tile_gate {
    uint32_t at;

    __device__ __forceinline__ void init(uint32_t threads)
    {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(threads) : "memory");
    }
    __device__ __forceinline__ void arrive()
    {
        asm volatile("{.reg .b64 s; mbarrier.arrive.shared.b64 s, [%0];}" ::"r"(at) : "memory");
    }
    __device__ __forceinline__ void wait(uint32_t phase)
    {
        uint32_t done;
        do {
            asm volatile("{.reg .pred p; mbarrier." KF_WAIT ".parity.shared.b64 p, [%1], %2; "
                         "selp.u32 %0, 1, 0, p;}"
                         : "=r"(done)
                         : "r"(at), "r"(phase)
                         : "memory");
        } while (!done);
    }
};

#undef KF_WAIT

/* Which block finishes a tile, and in which slot: gate and up stay together. */
struct tile_home {
    uint32_t rank, slot;
};

/* n / cluster. */
__device__ __forceinline__ uint32_t rounds_of(const kf_gemv_job &j, uint32_t n)
{
    return n * j.division.cluster_part >> 16;
}

__device__ __forceinline__ tile_home home_of(const kf_gemv_job &j, uint32_t tile)
{
    uint32_t pair = j.swiglu ? 1 : 0, unit = tile >> pair, round = rounds_of(j, unit);
    return {unit - round * j.division.cluster, (round << pair) + (tile & pair)};
}

/* Where sums are in shared memory. */
struct sum_places {
    uint32_t warps; /* what warps left of the last two steps */
    uint32_t own;   /* of tiles, over the passes so far          */
    uint32_t slots; /* of the tiles that end in this block, from each block of the cluster */
};

/* Sums of all warps for a tile and a pass, to where they are finished: by NB of the warps, `n` of
 * them, in turns from tile to tile. `left`: where the first of them has its own. */
template <int NB>
__device__ __forceinline__ void collect(const kf_gemv_job &j, const sum_places &at, uint32_t left,
                                        uint32_t rank, uint32_t tile, uint32_t pass, uint32_t n,
                                        uint32_t lane)
{
    uint32_t mine = (n * 32 + lane) * 16;
    constexpr uint32_t AT_ONCE = WARPS / 2; /* all would leave x too few registers */
    float4 part[AT_ONCE], v = {0, 0, 0, 0};
#pragma unroll
    for (uint32_t first = 0; first < WARPS; first += AT_ONCE) {
#pragma unroll
        for (uint32_t w = 0; w < AT_ONCE; w++)
            part[w] = load_sums(left + mine + (first + w) * SUMS<NB>);
#pragma unroll
        for (uint32_t w = 0; w < AT_ONCE; w++) add(v, part[w]);
    }
    if (j.division.passes > 1) {
        uint32_t kept = at.own + tile * SUMS<NB> + mine;
        if (pass) add(v, load_sums(kept));
        if (pass + 1 < j.division.passes) {
            put_sums(kept, v);
            return;
        }
    }
    tile_home home = home_of(j, tile);
    uint32_t to = at.slots + (home.slot * j.division.cluster + rank) * SLOT<NB> +
                  (n * 8 + lane % 4 * 2) * COLUMN_BYTES + lane / 4 * 4;
    if (j.division.cluster > 1) to = in_block(to, home.rank);
    put_there(to, v.x), put_there(to + COLUMN_BYTES, v.y);
    put_there(to + 32, v.z), put_there(to + COLUMN_BYTES + 32, v.w);
}

/* The sums of all blocks of the cluster. */
template <int NB> __device__ __forceinline__ float sum_blocks(const kf_gemv_job &j, uint32_t slot)
{
    float part[8], sum = 0;
#pragma unroll
    for (uint32_t k = 0; k < 8; k++)
        part[k] = k < j.division.cluster ? __uint_as_float(shared_word(slot + k * SLOT<NB>)) : 0.0f;
#pragma unroll
    for (uint32_t k = 0; k < 8; k++) sum += part[k];
    return sum;
}

/* y of the tiles that end in this block: a warp has a tile and, of its columns, every fourth pair.
 */
template <int NB>
__device__ __forceinline__ void write_tiles(const kf_gemv_job &j, const team_span &s,
                                            uint32_t slots, const float *factors, uint32_t rank)
{
    constexpr uint32_t GROUPS_OF_COLUMNS = 4;
    uint32_t pair = j.swiglu ? 2 : 1, units = s.tiles / pair, r = threadIdx.x % TILE;
    uint32_t here = rounds_of(j, units + j.division.cluster - 1 - rank);
#pragma unroll 1
    for (uint32_t i = threadIdx.x / 32; i < here * GROUPS_OF_COLUMNS; i += WARPS) {
        uint32_t at = i / GROUPS_OF_COLUMNS, tile = (at * j.division.cluster + rank) * pair;
        uint32_t first = i % GROUPS_OF_COLUMNS * 2 + threadIdx.x / TILE % 2;
        place p = s.at(tile);
        const kf_gemv_matrix &m = s.part[p.part];
        if (p.row + r >= m.rows) continue;
        float factor = factors[tile * TILE + r], upper = 0;
        if (j.swiglu) upper = factors[(tile + 1) * TILE + r];
        uint32_t slot = slots + at * pair * j.division.cluster * SLOT<NB> + r * 4;
#pragma unroll
        for (uint32_t n = 0; n < NB; n++) {
            uint32_t c = first + n * 2 * GROUPS_OF_COLUMNS;
            if (c >= j.columns) break;
            float v = sum_blocks<NB>(j, slot + c * COLUMN_BYTES) * factor, up = 0;
            if (j.swiglu)
                up = sum_blocks<NB>(j, slot + j.division.cluster * SLOT<NB> + c * COLUMN_BYTES) *
                     upper;
            finish(j, m, p.row + r, c, v, up);
        }
    }
}

} // namespace

#endif
