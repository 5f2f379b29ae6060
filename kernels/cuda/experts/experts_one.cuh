/* experts_one.cuh - both launches of a mixture-of-experts layer of one token, by one kernel: the
 * units, the ring and the product of cuda/few.
 *
 * With one token experts share nothing but x, so a launch is what a product of cuda/few is: a block
 * has all of its x in shared memory (for y: h of all experts), a run of whole tiles, and its warps
 * divide tiles x steps evenly. A small layer takes little longer than a launch takes to begin, so
 * little is done between the kernel before and the first weights: each warp finds the experts in
 * its own registers, and what follows from shapes is known by then.
 *
 *   what follows from shapes: which tiles, which units, where sums are
 *   gate and up:  -- griddepcontrol.wait --, experts, no number of h is there yet
 *   down:         experts, while gate and up still run
 *   copies of the first units are started; of x too, for gate and up
 *   down:         waits for numbers of h, and not for the end of the launch that writes them
 *   x -> halves, each stage with a power of two of its own
 *   units: ring -> codes -> halves -> mma.m16n8k16, sums in fp32
 *   a unit's sums x its stage's power of two x the row's factor (x the expert's weight)
 *   -> the warp's sums of a result -> slots -> added in the order of warps -> h or y
 *
 * A TEAM of blocks, a cluster, shares rows of y: each has a part of the steps, and of h. In the end
 * they send each other the sums of rows that another one writes, which adds them in the order of
 * blocks. */
#ifndef KERF_EXPERTS_ONE_CUH
#define KERF_EXPERTS_ONE_CUH

#include "cuda/experts/experts_one_x.cuh"
#include "cuda/experts/experts_rows.cuh"
#include "cuda/experts/experts_y.cuh"

namespace
{

/* --- h and y ------------------------------------------------------------------------------------
 */

/* One warp: nothing of the block's h is there yet, and the launch of down may begin. That waits for
 * the numbers themselves, not for the end of this launch, of which it would hear microseconds
 * later. It cannot keep a block of this launch from its place: it begins once all of them have come
 * here. */
__device__ __forceinline__ void begin_down(const kf_experts_job &j, const one_block &b,
                                           uint32_t lane)
{
    for (uint32_t i = lane; i < b.items * TILE; i += 32) {
        const uint32_t at = b.item + i / TILE, group = at / j.tiles;
        const uint32_t k = (at - group * j.tiles) * TILE + i % TILE;
        if (k < j.out) put_bits(j, (uint64_t)group * j.y_stride + k, NOT_YET);
    }
    __threadfence();
    __syncwarp();
    if (lane == 0) begin_next();
}

/* What the biases of all experts add to number k of y; all lanes of a warp. Apart, since few layers
 * have any. */
__device__ __noinline__ float biases_of_y(const kf_experts_job &j, token_experts e, uint32_t k)
{
    float sum = 0;
    for (uint32_t g = 0; g < e.count; g++) {
        const uint64_t at = (uint64_t)e.expert_at(g) * j.rows + k;
        sum += e.weight_at(g) * number_at(j.bias_type, j.stack[0].bias, at);
    }
    return sum;
}

/* Number i of the block's part of h or y. */
struct one_end {
    uint32_t to;   /* where it goes, in elements; NOWHERE: there is none such */
    uint32_t from; /* result x 16 + row: of y, or of gate */
    float bias[2]; /* of y alone, or of gate and of up */
    static constexpr uint32_t NOWHERE = ~0u;

    /* All lanes of a warp, also such as have no number. */
    __device__ __forceinline__ void aim(const kf_experts_job &j, const one_block &b, uint32_t i)
    {
        const uint32_t item = i / TILE, row = i % TILE, at = b.item + item;
        const uint32_t group = j.is_down ? 0 : at / j.tiles;
        const uint32_t k = (at - group * j.tiles) * TILE + row;
        to = item < b.items && k < j.out ? (uint32_t)(group * j.y_stride) + k : NOWHERE;
        /* Rows of gate and of up that alternate: one tile has both of eight numbers. */
        from = j.is_down ? i : item * (2 * TILE) + (j.alternating ? 2 * row : row);
    }
    __device__ __forceinline__ void load(const kf_experts_job &j, const token_experts &e)
    {
        bias[0] = bias[1] = 0;
        if (!j.stack[0].bias) return;
        const uint32_t at = to == NOWHERE ? 0 : to;
        const uint32_t group = j.is_down ? 0 : at / (uint32_t)j.y_stride;
        const uint32_t expert = e.expert_at(group); /* none, if there is no such number */
        if (j.is_down) {
            bias[0] = biases_of_y(j, e, at);
        } else if (to != NOWHERE) {
            const float2 both = biases_of_h(j, expert, at - group * (uint32_t)j.y_stride);
            bias[0] = both.x;
            bias[1] = both.y;
        }
    }
};

/* A sum over the block's warps: result x 16 + row. */
__device__ __forceinline__ float sum_of_warps(uint32_t slots, uint32_t runs, uint32_t from)
{
    return sum_runs<1>(slots + from * 4, shared_word(runs + from / TILE * 4));
}

/* What the blocks of a team have of row i of theirs, in their order, where the one that writes it
 * finds it. */
__device__ __forceinline__ float sum_of_team(const kf_experts_job &j, uint32_t mail, uint32_t rows,
                                             uint32_t i)
{
    float v = 0;
    for (uint32_t rank = 0; rank < j.team; rank++)
        v += __uint_as_float(shared_word(mail + (rank * rows + i) * 4));
    return v;
}

/* --- the kernel ---------------------------------------------------------------------------------
 */

__global__ void __launch_bounds__(THREADS, 2) experts_one(const __grid_constant__ kf_experts_job j)
{
    extern __shared__ __align__(128) uint8_t shared[];
    const uint32_t base = keep((uint32_t)__cvta_generic_to_shared(shared));
    const uint32_t thread = keep(threadIdx.x), lane = thread % 32, warp = thread / 32;
    touch_job(j, warp);
    /* All that follows from the number of experts, which is mostly that of slots. */
    const uint32_t ring = keep(base + warp * (ON_THE_WAY * UNIT_ROOM)), x_at = base + j.x_at;
    const uint32_t slots = base + j.sums_at, runs = base + j.runs_at;
    one_block b;
    expert_feed<one_place> feed;
    one_end end;
    auto prepare = [&](uint32_t experts) {
        b.find(j, experts);
        const uint32_t units = b.results * b.steps, first = cut(units, warp);
        feed.left = cut(units, warp + 1) - first;
        feed.at.begin(j, b, first);
        feed.aim_rows(j, b, lane);
        prepare_runs({0, b.results, nullptr, 0, 0}, b.steps, thread, runs);
        end.aim(j, b, thread);
    };
    token_experts experts;
    if (j.is_down) {
        begin_next();
        experts.load(j, lane);
    }
    prepare(j.top_k);
    prepare_table((uint32_t *)(shared + j.table_at));
    if (j.team > 1) arrive_at_cluster<false>();
    if (!j.is_down) {
        wait_previous();
        experts.load(j, lane);
        if (warp == WARPS - 1) begin_down(j, b, lane);
        copy_x_of_token(j, x_at, warp, lane);
        commit_copies();
    }
    experts.resolve(j, lane);
    if (experts.count != j.top_k) prepare(experts.count);
    one_place at = feed.at;
    uint32_t left = feed.left, run = feed.run;
    column_beside now = {}, then = {};
    tile_rows next_rows = {};
    if (left) {
        feed.aim_expert(j, b, experts);
        fetch_beside(now, j, experts, at.of, lane);
    }
#pragma unroll 1
    for (uint32_t i = 0; i < ON_THE_WAY; i++) {
        feed.next(j, b, experts, ring + i * UNIT_ROOM, lane);
        commit_copies();
    }
    if (left) next_rows.load(j, experts, at.of, lane);
    end.load(j, experts);
    const uint32_t rows = b.items * TILE;
    if (!j.is_down) wait_groups<ON_THE_WAY>(); /* for x, which came first */
    const uint32_t odd = finish_x(j, b, base, warp, lane);
    column_worker me;
    me.lane = lane;
    me.place = keep(own_place(lane));
    me.live = lane / 4 == lane % 4 * 2;
    me.x = keep(x_at + lane % 4 * 16);
    me.x_pair = 0;
    me.table = keep(base + j.table_at + lane * 4);
    me.zero[0] = me.zero[1] = minus_1024(ZERO_OF_ALL);
    me.offset = 0;
    if constexpr (NESTED) me.apart = j.strides.row_groups % OWN_GROUPS != 0;
    settle_sums(me, base + j.x_sums_at, 0);
    uint32_t octets[X_AHEAD<1>][1][4] = {};
    tile_factors factors = {};
    const uint32_t is_odd = meet_odd<1>(odd);

    float total[1][2] = {}, of_rows[1][2] = {};
    uint32_t slot = 0;
    factors.settle(next_rows, me);
#pragma unroll 1
    while (left) {
        const skewed_scales scales = factors.scales_of(at.of.stage++);
        const uint32_t step = at.step++, result = at.result;
        const bool ends = --run == 0;
        left--;
        if (ends && left) {
            at.leave_rows(j, b, 0);
            run = min(left, at.ahead(j, b));
            next_rows.load(j, experts, at.of, lane);
        }
        if (left) fetch_beside(then, j, experts, at.of, lane);
        wait_unit();
        float sum[1][2] = {}, whole[1][2][4] = {};
        consume_unit<1>(me, ring + slot, me.x + step * X_STAGE, now, sum, whole, octets, scales);
        replace_odd<1>(me, ring + slot, me.x + step * X_STAGE, scales, is_odd, sum);
        now = then;
        const float back = __uint_as_float(shared_word(base + j.backs_at + step * 4));
#pragma unroll
        for (int half = 0; half < 2; half++)
            of_rows[0][half] = __fmaf_rn(unit_sum<1>(sum, whole, 0, half), back, of_rows[0][half]);
        if (ends) {
            apply_factors<1>(of_rows, factors);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                total[0][half] += of_rows[0][half];
                of_rows[0][half] = 0;
            }
            if (step + 1 == b.steps || !left)
                leave_result<1>(slots + (result + warp) * SLOT_BYTES<1>, lane, total);
            factors.settle(next_rows, me);
        }
        __syncwarp();
        feed.next(j, b, experts, ring + slot, lane);
        commit_copies();
        slot = slot == (ON_THE_WAY - 1) * UNIT_ROOM ? 0 : slot + UNIT_ROOM;
    }
    __syncthreads();
    const uint32_t mail = base + j.mail_at, rank = blockIdx.x % j.team;
    if (j.team > 1) {
        wait_for_cluster(); /* all have begun: their memory may be written */
#pragma unroll 1
        for (uint32_t i = thread; i < rows; i += THREADS)
            put_there(in_block(mail + (rank * rows + i) * 4, i % j.team),
                      sum_of_warps(slots, runs, i));
        arrive_at_cluster<true>();
        wait_for_cluster();
    }
    /* Others may still read x, which y may lie on; and who waits for this launch waits for both. */
    if (j.is_down) wait_previous();
#pragma unroll 1
    for (uint32_t i = thread; i - lane < rows; i += THREADS) {
        if (i != thread) {
            end.aim(j, b, i);
            end.load(j, experts);
        }
        if (end.to == end.NOWHERE || i % j.team != rank) continue;
        float v =
            (j.team > 1 ? sum_of_team(j, mail, rows, i) : sum_of_warps(slots, runs, end.from)) +
            end.bias[0];
        if (j.is_down) {
            put_number(j.y_type, j.y, end.to, v);
        } else {
            const uint32_t up = end.from + (j.alternating ? 1 : TILE);
            put_h(j, end.to, activated(j, v, sum_of_warps(slots, runs, up) + end.bias[1]));
        }
    }
}

} // namespace

#endif
