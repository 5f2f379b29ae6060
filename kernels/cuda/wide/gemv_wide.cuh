/* gemv_wide.cuh - Y = W X for nine columns of x and more, W in 2 or 4 bits, where the tensor core
 * works beside the warps (wgmma, sm_90a): W in registers, x in shared memory.
 *
 * Four warps, each with a tile of 16 rows, go along K together: their codes come to each one's own
 * ring, become halves in registers, and are multiplied by x, which the tensor core reads from
 * shared memory by itself. So a warp loads no x, keeps none, and has its sums in eight registers
 * until K is through. Sixteen warps of a block, a multiprocessor's, take turns at the scheduler:
 * four for each hide what one waits for.
 *
 * The blocks of a cluster have a part of K each, all columns of which stay in shared memory, and
 * within a block the groups of four warps may divide that further (`side`), so that tiles come out
 * even. A cluster has a run of tiles and takes as many at once as it has groups for: a step.
 *
 *   the copy of a warp's first unit is started   nothing here depends on x
 *   row factors, tables
 *   -- griddepcontrol.wait --
 *   x into shared memory
 *   the second unit, which would have delayed x; both, where x is there from the start
 *   units: shared memory -> codes -> halves -> wgmma m64n16k16 with sums in fp32
 *   sums of a step -> the block that finishes the tile; half a step later -> y (gemv_wide_y.cuh)
 *
 * Scales are taken in as by gemv_columns.cuh. */
#ifndef KERF_GEMV_WIDE_CUH
#define KERF_GEMV_WIDE_CUH

#include "cuda/many/gemv_columns.cuh"
#include "cuda/wide/gemv_wide_x.cuh"
#include "cuda/wide/gemv_wide_y.cuh"

namespace
{

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define KF_WGMMA(...) asm volatile(__VA_ARGS__)
constexpr int WIDE_THREADS = 32 * KF_GEMV_WIDE_WARPS;
#else
/* Not there: a kernel of so few threads that preparing its launch fails (gemv_row.cuh). */
#define KF_WGMMA(...)
constexpr int WIDE_THREADS = 32;
#endif
constexpr int GROUP_WARPS = 4, WIDE_GROUPS = KF_GEMV_WIDE_WARPS / GROUP_WARPS;
constexpr int WIDE_DEPTH = KF_GEMV_WIDE_DEPTH; /* units of a warp that are in flight */

/* --- the product --------------------------------------------------------------------------------
 */

/* Registers are written before it and not touched until their group of products has ended. */
__device__ __forceinline__ void begin_products()
{
    KF_WGMMA("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void end_products()
{
    KF_WGMMA("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Until at most N groups are still running. */
template <int N> __device__ __forceinline__ void wait_products()
{
    KF_WGMMA("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* 64 rows of 16 halves, a quarter in each warp as for mma.m16n8k16, times 16 columns; with MORE to
 * what c is. `x`: the lower word of the descriptor. */
template <bool MORE>
__device__ __forceinline__ void multiply_wide(float c[2][4], uint32_t a0, uint32_t a1, uint32_t a2,
                                              uint32_t a3, uint32_t x)
{
    uint64_t b = (uint64_t)(WIDE_COLUMNS / 16) << 32 | x;
    (void)b;
    KF_WGMMA("{.reg .pred p; setp.ne.b32 p, %13, 0;\n"
             "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
             "{%8, %9, %10, %11}, %12, p, 1, 1, 0;}"
             : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]),
               "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3])
             : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "n"(MORE));
}

/* The lower word of the descriptor of what is at `at`: the address within the block, and how far
 * apart the pieces are that follow each other along K. */
__device__ __forceinline__ uint32_t describe_x(uint32_t at)
{
    return (at & 0x3ffff) / 16 | WIDE_PIECES / 16 << 16;
}

/* Two blocks of 32 codes as halves: rows g in p, g + 8 in q. */
struct wide_halves {
    uint32_t p[2][4], q[2][4];
};

/* A unit times x. Its codes are all read before the first is looked at. `then` is done when
 * the unit's place may be filled again, while products are still running. */
template <typename Then>
__device__ __forceinline__ void consume_wide(const slice_worker &me, uint32_t unit, uint32_t x,
                                             const aside &more, float sum[2][4], Then then)
{
    constexpr int PAIRS = BLOCKS / 2;
    constexpr bool BY_GROUP = SCALING == KF_SCALES_IN_GROUPS;
    uint32_t a[PAIRS][2][4], b[PAIRS][2][4];
    auto load_pair = [&](int pair) {
        uint32_t kept[4];
#pragma unroll
        for (int o = 0; o < 2; o++)
            load_codes(unit, me.lane, me.place, 2 * pair + o, a[pair][o], b[pair][o], kept);
    };
    slice_scales scales;
    load_pair(0);
    scales.load(me, unit);
#pragma unroll
    for (int pair = 1; pair < PAIRS; pair++) load_pair(pair);
    scales.convert(me);
    x = found_once(x); /* else 32 descriptors go from vector to uniform registers one by one */
    float group[2][4];
#pragma unroll
    for (int pair = 0; pair < PAIRS; pair++) {
        wide_halves h;
#pragma unroll
        for (int o = 0; o < 2; o++) {
            int block = 2 * pair + o;
            uint32_t zero[2];
            scales.find_zeros(me, block, zero);
            decode(a[pair][o], zero[0], me.table, h.p[o]);
            decode(b[pair][o], zero[1], me.table, h.q[o]);
            scales.into_codes(block, h.p[o], h.q[o]);
        }
#pragma unroll
        for (int o = 0; o < 2; o++) {
            int block = 2 * pair + o;
            const uint32_t *p = h.p[o], *q = h.q[o];
            uint32_t at = x + block * (WIDE_BLOCK / 16);
            bool begins = BY_GROUP && block % GROUP_BLOCKS == 0;
            bool ends = BY_GROUP && (block + 1) % GROUP_BLOCKS == 0;
            if (o == 0 || begins) begin_products();
            if constexpr (BY_GROUP) {
                if (begins)
                    multiply_wide<false>(group, p[0], q[0], p[1], q[1], at);
                else
                    multiply_wide<true>(group, p[0], q[0], p[1], q[1], at);
                multiply_wide<true>(group, p[2], q[2], p[3], q[3], at + WIDE_HALF / 16);
            } else {
                multiply_wide<true>(sum, p[0], q[0], p[1], q[1], at);
                multiply_wide<true>(sum, p[2], q[2], p[3], q[3], at + WIDE_HALF / 16);
            }
            if (o == 1 || ends) end_products();
            if (ends) {
                if (block + 1 == BLOCKS) then();
                wait_products<0>();
                scales.into_sums<2>(block / GROUP_BLOCKS, more, group, sum);
            }
        }
        if (!BY_GROUP && pair > 0 && pair + 1 < PAIRS) wait_products<1>();
    }
    if constexpr (!BY_GROUP) {
        then();
        wait_products<0>();
    }
}

/* --- what a warp copies: its tiles, one after another, along its part of K -------------------
 */

struct wide_feed {
    slice_source unit;
    uint32_t tile, slice; /* the next */
    uint32_t first, end;  /* slices of a tile */

    __device__ __forceinline__ void fetch(const kf_gemv_job &j, const team_span &s, uint32_t to,
                                          uint32_t lane)
    {
        if (tile < s.tiles && slice < end) {
            if (slice == first) unit.aim(j, s, tile, slice, lane);
            unit.copy(j, slice, to, lane);
            unit.codes += SLICE_BYTES;
            if constexpr (HAS_GROUPS) unit.scales += SCALE_BYTES;
            if constexpr (HAS_ZEROS && HAS_GROUPS)
                unit.zeros += unit.zeros_of(slice + 1) - unit.zeros_of(slice);
            if (++slice == end) slice = first, tile += KF_GEMV_WIDE_WARPS / j.division.k_groups;
        }
        commit_copies();
    }
};

/* --- the kernel ---------------------------------------------------------------------------------
 */

/* A template, so that rows without the kernels for tiles do not make it. */
template <int NB>
__global__ void __launch_bounds__(WIDE_THREADS, 1) gemv_wide(const __grid_constant__ kf_gemv_job j)
{
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ kf_gemv_matrix parts[KERF_GEMV_PARTS];
    __shared__ float back[16];
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    begin_next();
    for (uint32_t i = threadIdx.x; i < sizeof parts / 4; i += WIDE_THREADS)
        ((uint32_t *)parts)[i] = ((const uint32_t *)j.part)[i];
    uint32_t team = blockIdx.x >> __popc(j.division.cluster - 1),
             rank = blockIdx.x & (j.division.cluster - 1);
    team_span s = span_of(j, team, parts);
    uint32_t base = (uint32_t)__cvta_generic_to_shared(shared);
    uint32_t group = found_once(warp / GROUP_WARPS),
             sources = j.division.k_groups * j.division.cluster;
    uint32_t at_once = KF_GEMV_WIDE_WARPS / j.division.k_groups; /* tiles of a step */
    wide_slots slots = {base + j.division.slots_at, rank, sources};
    auto step_from = [&](uint32_t tile) -> wide_step {
        return {tile, tile < s.tiles ? min(s.tiles - tile, at_once) : 0};
    };
    if (!j.constant_weights) wait_previous();
    __syncthreads();
    arrive_at_cluster<false>();

    uint32_t source = rank * j.division.k_groups + (group & (j.division.k_groups - 1));
    uint32_t first = found_once(source * j.division.slices / sources),
             end = found_once((source + 1) * j.division.slices / sources);
    uint32_t own =
        group / j.division.k_groups * GROUP_WARPS + warp % GROUP_WARPS; /* tile of a step */
    uint32_t ring = found_once(base + warp * (WIDE_DEPTH * SLICE_UNIT));
    wide_feed feed;
    feed.tile = own, feed.slice = feed.first = first, feed.end = end;
    const uint32_t early = j.constant_weights ? 1 : 0; /* units before x */
#pragma unroll 1
    for (uint32_t i = 0; i < early; i++) feed.fetch(j, s, ring + i * SLICE_UNIT, lane);
    aside now = {}, then = {};
    fetch_aside(now, j, s, own, first, lane);
    float *factors = (float *)(shared + j.division.rows_at);
    prepare_rows(j, s, factors, (uint32_t *)(factors + j.share.most * TILE));
    prepare_table((uint32_t *)(shared + j.division.table_at));
    if (j.constant_weights) wait_previous();

    uint32_t block_first = rank * j.division.slices / j.division.cluster;
    uint32_t block_end = (rank + 1) * j.division.slices / j.division.cluster;
    load_wide_x(j, block_first * SLICE_CODES, (block_end - block_first) * BLOCKS,
                base + j.division.x_at, back);
#pragma unroll 1
    for (uint32_t i = early; i < WIDE_DEPTH; i++) feed.fetch(j, s, ring + i * SLICE_UNIT, lane);
    slice_worker me;
    me.lane = lane;
    me.place = code_place(lane);
    me.table = base + j.division.table_at + lane * 4;
    __syncthreads();

    constexpr uint32_t X_UNIT = BLOCKS * WIDE_BLOCK;
    uint32_t x_first =
        found_once(describe_x(base + j.division.x_at + (first - block_first) * X_UNIT));
    uint32_t middle = first + (end - first) / 2, slot = ring;
    uint32_t zeros = base + (j.division.rows_at + j.share.most * (TILE * 4)) + lane / 4 * 4;
#pragma unroll 1
    for (uint32_t from = 0; from < s.tiles; from += at_once) {
        float sum[2][4] = {};
        uint32_t tile = from + own, x = x_first;
        bool busy = tile - warp % GROUP_WARPS < s.tiles; /* the same for all four */
        if (IS_INTEGER) {
            uint32_t at = zeros + min(tile, s.tiles - 1) * (TILE * 4);
            me.zero[0] = shared_word(at);
            me.zero[1] = shared_word(at + 32);
        }
        auto finish_last = [&] {
            if (from == 0) return;
            wait_for_cluster(); /* all have left theirs */
            slots.finish_step(j, s, step_from(from - at_once), factors);
            __syncwarp();
            arrive_at_cluster<true>();
        };
        if (!busy || first == end) finish_last();
#pragma unroll 1
        for (uint32_t slice = first; busy && slice < end; slice++, x += X_UNIT / 16) {
            if (slice == middle) finish_last();
            me.zero_at = slice * SLICE_ZERO_BITS % 32;
            if constexpr (NESTED) {
                bool last = slice + 1 == end;
                fetch_aside(then, j, s, last ? tile + at_once : tile, last ? first : slice + 1,
                            lane);
            }
            asm volatile("cp.async.wait_group %0;" ::"n"(WIDE_DEPTH - 1) : "memory");
            __syncwarp();
            consume_wide(me, slot, x, now, sum, [&] {
                __syncwarp();
                feed.fetch(j, s, slot, lane);
            });
            now = then;
            slot = slot == ring + (WIDE_DEPTH - 1) * SLICE_UNIT ? ring : slot + SLICE_UNIT;
        }
        __syncwarp();
        wait_for_cluster(); /* all have begun, or finished the last step */
        if (tile < s.tiles) slots.leave(j, own, source, sum, back, lane);
        __syncwarp();
        arrive_at_cluster<true>();
    }
    wait_for_cluster();
    if (s.tiles) slots.finish_step(j, s, step_from((s.tiles - 1) / at_once * at_once), factors);
}

#undef KF_WGMMA

} // namespace

#endif
