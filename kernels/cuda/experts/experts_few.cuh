/* experts_few.cuh - both launches of a mixture-of-experts layer of several tokens, by one kernel:
 * the units, the ring and the product of cuda/few.
 *
 * A group, an expert and up to two tokens, is a product of cuda/few with two columns, which costs
 * little more than one. A block has a run of items, 16 numbers of h or what a group adds to 16 rows
 * of y, group after group; so x changes once or twice in a launch. Its warps divide the units of a
 * part, the items of one x, evenly, and copy ahead from part to part.
 *
 *   gate and up:  -- griddepcontrol.wait --
 *   routes -> groups                           each block for itself: there are 256 slots at most
 *   copies of the first units are started      down: while gate and up still run
 *   gate and up:  no number of h is there yet, and down may begin
 *   for each part:
 *     x of the group's tokens, or h once its numbers are there
 *     -> halves, each stage with a power of two of its own
 *     units: ring -> codes -> halves -> mma.m16n8k16, sums in fp32
 *     a unit's sums x its stage's power of two x the row's factor
 *     -> the warp's sums of a result -> slots -> added in the order of warps
 *     -> h; or to memory
 *   down:         y, when all is there (experts_few_y.cuh) */
#ifndef KERF_EXPERTS_FEW_CUH
#define KERF_EXPERTS_FEW_CUH

#include "cuda/experts/experts_few_y.cuh"
#include "cuda/experts/experts_rows.cuh"
#include "cuda/experts/experts_stage_x.cuh"

namespace
{

/* x of a part's tokens, in halves: [token][step][octet][quarter]; and what makes up for the power
 * of two of each stage. A warp has every eighth stage. */
__device__ __forceinline__ void load_x_of_part(const kf_experts_job &j, const expert_groups &g,
                                               const few_part &p, uint32_t base, uint32_t warp,
                                               uint32_t lane)
{
    const bool is_plain = x_is_plain(j);
    const uint32_t tokens = __popc(g.mask[p.group]), column = g.column[p.group];
#pragma unroll 1
    for (uint32_t c = 0; c < tokens; c++) {
        const uint32_t row = j.is_down ? column + c : g.token[column + c];
#pragma unroll 1
        for (uint32_t step = warp; step < p.steps; step += WARPS) {
            const uint32_t to = base + j.x_at + c * j.x_pitch + step * X_STAGE;
            const uint32_t stage = p.first + step;
            if (j.is_down) wait_for_number(j, row, stage * STAGE_CODES, lane);
            if (is_plain) take_stage(j, to, row, stage, j.is_down, lane);
            const int shift = is_plain ? convert_16_bits(j, to, lane)
                                       : load_stage_slowly(j, to, row, stage, lane);
            if (lane == 0)
                put_word(base + j.backs_at + (step * FEW_TOKENS + c) * 4,
                         __float_as_uint(kf_exp2(-shift)));
        }
    }
}

/* One warp of gate and up: no number of the block's h is there yet, no group has left anything for
 * y, and down may begin. It cannot keep a block of this launch from its place: it begins once all
 * of them have come here. */
__device__ __forceinline__ void begin_down(const kf_experts_job &j, const expert_groups &g,
                                           const few_runs &runs, uint32_t lane)
{
    few_part p;
#pragma unroll 1
    for (p.begin(j, g, runs); p.items; p.go_on(j, g, runs)) {
        const uint32_t rows = p.items * TILE, tokens = __popc(g.mask[p.group]);
        for (uint32_t i = lane; i < rows * tokens; i += 32) {
            const uint32_t column = i / rows, k = p.tile * TILE + i - column * rows;
            if (k < j.out) put_bits(j, (g.column[p.group] + column) * j.y_stride + k, NOT_YET);
        }
    }
    if (blockIdx.x == 0 && lane < KF_EXPERTS_COUNTS) j.counts[lane] = 0;
    __threadfence();
    __syncwarp();
    if (lane == 0) begin_next();
}

__global__ void __launch_bounds__(THREADS, 2) experts_few(const __grid_constant__ kf_experts_job j)
{
    constexpr int N = FEW_TOKENS;
    extern __shared__ __align__(128) uint8_t shared[];
    const uint32_t base = keep((uint32_t)__cvta_generic_to_shared(shared));
    const uint32_t thread = keep(threadIdx.x), lane = thread % 32, warp = thread / 32;
    expert_groups &g = *(expert_groups *)(shared + j.lists_at);
    touch_job(j, warp);
    /* Routes are known when down begins: all blocks of gate and up have waited for them by then. */
    if (j.is_down)
        begin_next();
    else
        wait_previous();
    __shared__ few_runs runs;
    find_groups(j, g, *(expert_slots *)shared);
    if (thread == 0) runs.find(j, g);
    __syncthreads();
    const group_experts experts = {g};
    const uint32_t ring = keep(base + warp * (ON_THE_WAY * UNIT_ROOM));
    few_part part;
    part.begin(j, g, runs);
    uint32_t x_of = ~0u;
    /* x comes at once before there are copies, and behind all of them after. */
    if (!j.is_down && part.items) {
        load_x_of_part(j, g, part, base, warp, lane);
        x_of = part.group;
    }
    few_feed feed;
    feed.begin(j, experts, runs, part, warp, lane);
#pragma unroll 1
    for (uint32_t i = 0; i < ON_THE_WAY; i++) {
        feed.fetch(j, experts, runs, ring + i * UNIT_ROOM, warp, lane);
        commit_copies();
    }
    prepare_table((uint32_t *)(shared + j.table_at));
    if (!j.is_down && warp == WARPS - 1) begin_down(j, g, runs, lane);

    const uint32_t slots = base + j.sums_at, second = lane / 4 % 2;
    column_worker me;
    me.lane = lane;
    me.place = keep(own_place(lane));
    me.x = keep(base + j.x_at + lane % 4 * 16 + second * j.x_pitch);
    me.x_pair = 0;
    me.table = keep(base + j.table_at + lane * 4);
    me.zero[0] = me.zero[1] = minus_1024(ZERO_OF_ALL);
    me.offset = 0;
    uint32_t slot = 0;
#pragma unroll 1
    for (; part.items; part.go_on(j, g, runs)) {
        few_place at;
        beside now = {}, then = {};
        tile_rows next_rows = {};
        tile_factors factors = {};
        const uint32_t units = part.units(), first = cut(units, warp);
        uint32_t left = cut(units, warp + 1) - first;
        if (left) {
            at.begin(j, part, first);
            fetch_beside(now, j, experts, at, lane);
            next_rows.load(j, experts, at, lane);
        }
        const uint32_t whose = part.group * j.chunks + part.chunk;
        if (whose != x_of) load_x_of_part(j, g, part, base, warp, lane);
        x_of = whose;
        me.live =
            lane / 4 == lane % 4 * 2 + second && second < (uint32_t)__popc(g.mask[part.group]);
        __syncthreads();

        uint32_t octets[X_AHEAD<N>][PAIRS<N>][4] = {};
        float total[N][2] = {};
        bool fresh = true;
#pragma unroll 1
        for (; left; left--) {
            if (fresh) factors.settle(next_rows, me);
            const skewed_scales scales = factors.scales_of(at.stage);
            const uint32_t step = at.step, result = at.result;
            const bool ends = step + 1 == part.steps || left == 1;
            fresh = at.go_on(j, part);
            if (left > 1) fetch_beside(then, j, experts, at, lane);
            if (left > 1 && fresh) next_rows.load(j, experts, at, lane);
            wait_unit();
            float sum[N][2] = {}, whole[PAIRS<N>][2][4] = {};
            consume_unit<N>(me, ring + slot, me.x + step * X_STAGE, now, sum, whole, octets,
                            scales);
            now = then;
#pragma unroll
            for (int c = 0; c < N; c++) {
                const float back =
                    __uint_as_float(shared_word(base + j.backs_at + (step * N + c) * 4));
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int k = half * 2 + c % 2;
                    const float v =
                        HAS_GROUPS ? sum[c][half] : whole[c / 2][0][k] + whole[c / 2][1][k];
                    total[c][half] += v * back * factors.of_half(half);
                }
            }
            if (ends) leave_result<N>(slots + (result + warp) * SLOT_BYTES<N>, lane, total);
            __syncwarp();
            feed.fetch(j, experts, runs, ring + slot, warp, lane);
            commit_copies();
            slot = slot == (ON_THE_WAY - 1) * UNIT_ROOM ? 0 : slot + UNIT_ROOM;
        }
        __syncthreads();
        if (j.is_down)
            leave_part_of_y(j, g, part, slots, thread);
        else
            finish_h(j, g, part, slots, thread);
    }
    if (!j.is_down) return;
    /* Others may still read x, which y may lie on; and who waits for this launch waits for both. */
    wait_previous();
    add_up_y(j, g, thread, lane);
}

} // namespace

#endif
