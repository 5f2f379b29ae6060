/* experts_few.cuh - both launches of a mixture-of-experts layer of several tokens, by one kernel:
 * the units, the ring and the product of cuda/few.
 *
 * A group, an expert and up to two tokens, is a product of cuda/few with two columns, which costs
 * little more than one; where HAS_FOURS, of three or four tokens with four columns. A block has a
 * run of items, 16 numbers of h or what a group adds to 16 rows of y, group after group; so x
 * changes once or twice in a launch. Its warps divide the units of a part, the items of one x,
 * evenly, and copy ahead from part to part.
 *
 *   gate and up:  -- griddepcontrol.wait --
 *   routes -> groups                           each block for itself: there are 256 slots at most
 *   copies of x of the first part, not of h; of the first units      down: before gate and up end
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
#include "cuda/experts/experts_rests.cuh"
#include "cuda/experts/experts_rows.cuh"
#include "cuda/experts/experts_stage_x.cuh"

namespace
{

/* Stages of x of a part, [token][step]: a warp has every eighth. f(token, step). */
template <typename F>
__device__ __forceinline__ void each_stage(const expert_groups &g, const few_part &p, uint32_t warp,
                                           F f)
{
    static_assert(FEW_TOKENS == 2 || FEW_TOKENS == 4, "a token is a comparison, or three");
    const uint32_t all = g.tokens(p.group) * p.steps;
#pragma unroll 1
    for (uint32_t i = warp; i < all; i += WARPS) {
        uint32_t c = i >= p.steps;
#pragma unroll
        for (uint32_t k = 2; k < FEW_TOKENS; k++) c += i >= k * p.steps;
        f(c, i - c * p.steps);
    }
}

/* Starts copies of x of the block's first part, which is plain, for load_x_of_part. */
__device__ __forceinline__ void copy_x_of_part(const kf_experts_job &j, const expert_groups &g,
                                               const few_part &p, uint32_t base, uint32_t warp,
                                               uint32_t lane)
{
    const uint32_t column = g.column[p.group];
    each_stage(g, p, warp, [&](uint32_t c, uint32_t step) {
        copy_stage_of_x(j, base + j.x_at + c * j.x_pitch + step * X_STAGE, g.token[column + c],
                        p.first + step, lane);
    });
}

/* x of a part's tokens, in halves: [token][step][octet][quarter]; what makes up for the power of
 * two of each stage; and sums over groups. is_there: copy_x_of_part has brought it. Returns the
 * tokens, as bits, of whose sums one that this thread made is not finite. */
__device__ __forceinline__ uint32_t load_x_of_part(const kf_experts_job &j, const expert_groups &g,
                                                   const few_part &p, bool is_there, uint32_t base,
                                                   uint32_t warp, uint32_t lane)
{
    const bool is_plain = x_is_plain(j);
    const uint32_t column = g.column[p.group];
    uint32_t odd = 0;
    each_stage(g, p, warp, [&](uint32_t c, uint32_t step) {
        const uint32_t row = j.is_down ? column + c : g.token[column + c];
        const uint32_t to = base + j.x_at + c * j.x_pitch + step * X_STAGE;
        const uint32_t stage = p.first + step;
        if (j.is_down) wait_for_number(j, row, stage * STAGE_CODES, lane);
        if (is_plain && !is_there) take_stage(j, to, row, stage, j.is_down, lane);
        const int shift =
            is_plain ? convert_16_bits(j, to, lane) : load_stage_slowly(j, to, row, stage, lane);
        if (lane == 0)
            put_word(base + j.backs_at + (step * FEW_TOKENS + c) * 4,
                     __float_as_uint(kf_exp2(-shift)));
        odd |= sum_stage_of_token(j, to, base, c, step, lane) ? 1u << c : 0;
    });
    return odd;
}

/* One warp of gate and up: no number of the block's h is there yet, no group has left anything for
 * y, and down may begin. It cannot keep a block of this launch from its place: it begins once all
 * of them have come here. */
__device__ __forceinline__ void begin_down(const kf_experts_job &j, const expert_groups &g,
                                           uint32_t lane)
{
    few_part p;
#pragma unroll 1
    for (p.begin(j, g); p.items; p.go_on(j, g)) {
#if KF_FOURS
        if (!p.is_first(j)) continue;
#endif
        const uint32_t rows = p.items * TILE, tokens = g.tokens(p.group);
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

/* A number of columns as a type. */
template <int N> struct few_columns {
    static constexpr int COUNT = N;
};

__global__ void __launch_bounds__(THREADS, 2) experts_few(const __grid_constant__ kf_experts_job j)
{
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
    find_groups(j, g, *(expert_slots *)shared);
    const group_experts experts = {g};
    const uint32_t ring = keep(base + warp * (ON_THE_WAY * UNIT_ROOM));
    few_part part;
    part.begin(j, g);
    /* x of the first part is asked for before weights are, behind which it would wait. */
    bool has_x = !j.is_down && part.items && x_is_plain(j);
    if (has_x) copy_x_of_part(j, g, part, base, warp, lane);
    commit_copies();
    few_feed feed;
    feed.begin(j, experts, part, warp, lane);
#pragma unroll 1
    for (uint32_t i = 0; i < ON_THE_WAY; i++) {
        feed.fetch(j, experts, ring + i * UNIT_ROOM, warp, lane);
        commit_copies();
    }
    prepare_table((uint32_t *)(shared + j.table_at));
    if (!j.is_down && warp == WARPS - 1) begin_down(j, g, lane);

    const uint32_t slots = base + j.sums_at, second = lane / 4 % 2;
    column_worker me;
    me.lane = lane;
    me.place = keep(own_place(lane));
    me.x = keep(base + j.x_at + lane % 4 * 16 + second * j.x_pitch);
    me.x_pair = 2 * j.x_pitch;
    me.table = keep(base + j.table_at + lane * 4);
    me.zero[0] = me.zero[1] = minus_1024(ZERO_OF_ALL);
    me.offset = 0;
    if constexpr (NESTED) me.apart = j.strides.row_groups % OWN_GROUPS != 0;
    settle_few_sums(me, j, base);
    uint32_t slot = 0, x_of = ~0u, odd = 0;
#pragma unroll 1
    for (; part.items; part.go_on(j, g)) {
        few_place at;
        column_beside now = {}, then = {};
        tile_rows next_rows = {};
        tile_factors factors = {};
        const uint32_t units = part.units(), first = cut(units, warp);
        uint32_t left = cut(units, warp + 1) - first, run = 0;
        if (left) {
            at.begin(j, part, first);
            run = min(left, at.ahead(j, part));
            fetch_beside(now, j, experts, at.where(j, part), lane);
            next_rows.load(j, experts, at.where(j, part), lane);
        }
        const uint32_t whose = part.own_x(j);
        if (has_x) wait_groups<ON_THE_WAY>();
        if (whose != x_of) odd = load_x_of_part(j, g, part, has_x, base, warp, lane);
        x_of = whose;
        has_x = false;
        me.live = lane / 4 == lane % 4 * 2 + second && second < g.tokens(part.group);
        factors.settle(next_rows, me);
        const uint32_t is_odd = meet_odd<FEW_TOKENS>(odd);

        /* The warp's units of the part. */
#if KF_FOURS
        auto multiply =
            [&](auto columns)
#else
        constexpr few_columns<FEW_TOKENS> columns;
#endif
        {
            constexpr int N = decltype(columns)::COUNT;
            uint32_t octets[few_way<N>::AHEAD][PAIRS<N>][4] = {};
            float total[N][2] = {};
            result_rests<N> rests = {};
#pragma unroll 1
            while (left) {
                const uint32_t step = at.step++, result = at.result;
                const skewed_scales scales = factors.scales_of(part.first + step);
                const bool ends = --run == 0;
                left--;
                if (ends && left) {
                    at.leave_rows(j, part, 1);
                    run = min(left, part.steps);
                    next_rows.load(j, experts, at.where(j, part), lane);
                }
                if (left) fetch_beside(then, j, experts, at.where(j, part), lane);
                wait_unit();
                float sum[N][2] = {}, whole[PAIRS<N>][2][4] = {};
                typename few_way<N>::rests of_unit;
                consume_few<N>(me, ring + slot, me.x + step * X_STAGE, now, sum, whole, octets,
                               scales, of_unit);
                replace_odd<N>(me, ring + slot, me.x + step * X_STAGE, scales, is_odd, sum);
                now = then;
                rests.add(of_unit, base + j.backs_at + step * (FEW_TOKENS * 4), lane, is_odd);
#pragma unroll
                for (int c = 0; c < N; c++) {
                    const float back = __uint_as_float(
                        shared_word(base + j.backs_at + (step * FEW_TOKENS + c) * 4));
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        total[c][half] =
                            __fmaf_rn(unit_sum<N>(sum, whole, c, half), back, total[c][half]);
                }
                if (ends) {
                    const uint32_t to = slots + (result + warp) * SLOT_BYTES<FEW_TOKENS>;
                    rests.leave(total, lane);
                    apply_factors<N>(total, factors);
#if KF_FOURS
                    if (!part.is_first(j)) take_up_result<N>(to, lane, total);
#endif
                    leave_result<N>(to, lane, total);
                    factors.settle(next_rows, me);
                }
                __syncwarp();
                feed.fetch(j, experts, ring + slot, warp, lane);
                commit_copies();
                slot = slot == (ON_THE_WAY - 1) * UNIT_ROOM ? 0 : slot + UNIT_ROOM;
            }
        }
#if KF_FOURS
        ;
        /* Groups of one or two as in other rows. */
        if (g.tokens(part.group) <= 2)
            multiply(few_columns<2>());
        else
            multiply(few_columns<FEW_TOKENS>());
#endif
        __syncthreads();
        if (j.is_down)
            leave_part_of_y(j, g, part, slots, thread);
        else if (!TAKES_TURNS || part.is_last(j))
            finish_h(j, g, part, slots, thread);
    }
    if (!j.is_down) return;
    /* Others may still read x, which y may lie on; and who waits for this launch waits for both. */
    wait_previous();
    add_up_y(j, g, thread, lane);
}

} // namespace

#endif
