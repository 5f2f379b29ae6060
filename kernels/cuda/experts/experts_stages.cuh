/* experts_stages.cuh - both launches of a mixture-of-experts layer by the units of cuda/few: 16
 * rows times 256 bytes of codes, in which a lane has a quarter of two rows, reads, converts and
 * applies each of its scales once, and finds the sums of its own groups in its own registers. Two
 * tokens of a group cost what one does, a third and a fourth a second product with the same codes.
 *
 * GATE_UP: an item is a tile of 16 rows of h for a group of tokens: a unit of gate, then one of up
 * with the same x. DOWN: an item is a tile of 16 rows of y for all tokens: the same 16 rows of
 * every expert that any token has. Warps of a block take its units in turns, over items. Where
 * blocks of DOWN have equal parts of all steps, an item may be that of two blocks and more: each
 * leaves its sums of it in the workspace, and the last to come adds all, in the order of blocks
 * (experts_y.cuh). So the order of every sum follows from routes, shape and GPU.
 *
 *   routes -> groups                          each block for itself: there are 256 slots at most
 *   copies of the first units are started     DOWN: weights only, before h is known
 *   -- griddepcontrol.wait --                 (GATE_UP waited before it read routes)
 *   x of a unit -> halves; codes -> halves -> mma.m16n8k16, sums in fp32
 *   a unit's sums x the power of two of x x the row's factor (x the token's weight) -> the warp's
 *   sums of the item, in shared memory -> added in the order of warps -> h or y */
#ifndef KERF_EXPERTS_STAGES_CUH
#define KERF_EXPERTS_STAGES_CUH

#include "cuda/experts/experts_stage_x.cuh"
#include "cuda/experts/experts_y.cuh"
#include "cuda/many/gemv_columns_y.cuh"

namespace
{

/* --- what is known of a unit before its weights are ---------------------------------------------
 */

/* Straight from memory, a unit ahead. */
struct unit_ahead {
    beside with;
    uint32_t zero[2];
    float offset;
};

__device__ __forceinline__ void fetch_ahead(unit_ahead &a, const kf_experts_job &j, int mat,
                                            const unit_note &n, uint32_t lane)
{
    if constexpr (HAS_ZEROS || NESTED) {
        const kf_gemv_matrix m = matrix_of(j, j.stack[mat], n.expert);
        const uint32_t first = first_row(j, mat, n.tile);
        fetch_beside(a.with, j, m, first, n.stage, lane);
        if constexpr (ROW_ZEROS)
#pragma unroll
            for (int half = 0; half < 2; half++)
                a.zero[half] =
                    minus_1024(row_zero(j, m, min(first + lane / 4 + 8 * half, j.rows - 1)));
        if constexpr (KF_ROW.zero == KERF_ZERO_F32)
            a.offset = __ldg((const float *)m.plane[KERF_PLANE_ZEROS]);
    }
}

/* Of the row whose sums the lane ends up with. */
__device__ __forceinline__ row_scale own_scale(const kf_experts_job &j, int mat, const unit_note &n,
                                               uint32_t lane)
{
    const uint32_t row = first_row(j, mat, n.tile) + lane / 4 + lane % 2 * 8;
    return load_row_scale(j, matrix_of(j, j.stack[mat], n.expert), min(row, j.rows - 1));
}

/* --- a unit -------------------------------------------------------------------------------------
 */

/* Powers of two of up to four tokens, as exponents. */
__device__ __forceinline__ int shift_of(uint32_t shifts, uint32_t c)
{
    return (int)(int8_t)(shifts >> 8 * c);
}

/* The sums of all four quarters: of row lane / 4 + 8 (lane % 2), and of columns lane % 4 / 2 of
 * two, or lane % 4 / 2 * 2 and the next of four. */
template <int N>
__device__ __forceinline__ void meet_quarters(const float sum[N][2], uint32_t lane,
                                              float out[N / 2])
{
    const bool upper = lane & 2, odd = lane & 1;
#pragma unroll
    for (int c = 0; c < N / 2; c++) {
        float kept[2];
#pragma unroll
        for (int row = 0; row < 2; row++) {
            const float mine = upper ? sum[N / 2 + c][row] : sum[c][row];
            const float other = upper ? sum[c][row] : sum[N / 2 + c][row];
            kept[row] = mine + __shfl_xor_sync(0xffffffffu, other, 2);
        }
        out[c] =
            (odd ? kept[1] : kept[0]) + __shfl_xor_sync(0xffffffffu, odd ? kept[0] : kept[1], 1);
    }
}

/* The product of a unit and up to N tokens, into the warp's sums of its item: `sums` is where those
 * of the matrix begin. */
template <int N, bool DOWN>
__device__ __forceinline__ void
add_unit_of(const kf_experts_job &j, const expert_groups &g, const column_worker &me, uint32_t unit,
            uint32_t x, const unit_note &n, const unit_ahead &a, const skewed_scales &scales,
            uint32_t shifts_at, const row_scale &scale, uint32_t sums)
{
    float sum[N][2] = {}, whole[PAIRS<N>][2][4] = {}, out[N / 2];
    uint32_t v[X_AHEAD<N>][PAIRS<N>][4] = {};
    consume_unit<N>(me, unit, x, a.with, sum, whole, v, scales);
    if constexpr (!HAS_GROUPS)
#pragma unroll
        for (int i = 0; i < 2 * N; i++) {
            const int c = i / 2, row = i % 2, k = row * 2 + c % 2;
            sum[c][row] = whole[c / 2][0][k] + whole[c / 2][1][k];
        }
    meet_quarters<N>(sum, me.lane, out);
    const float factor = factor_of(scale);
    const uint32_t shifts = shared_word(shifts_at);
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        const uint32_t c = me.lane % 4 / 2 * (N / 2) + i;
        if (c >= n.tokens) continue;
        float s = out[i] * kf_exp2(-shift_of(shifts, c)) * factor;
        if (DOWN) s *= g.weight[n.column + c];
        const uint32_t at = sums + (DOWN ? g.token[n.column + c] : c) * (TILE * 4) +
                            (me.lane / 4 + me.lane % 2 * 8) * 4;
        put_word(at, __float_as_uint(__uint_as_float(shared_word(at)) + s));
    }
}

/* --- the kernel ---------------------------------------------------------------------------------
 */

/* Runs of items. One after another in a block, they mostly belong to one group. */
__device__ __forceinline__ block_span run_of_items(uint32_t all, uint32_t steps)
{
    const uint32_t n = all / gridDim.x, rest = all % gridDim.x, i = blockIdx.x;
    const uint32_t items = n + (i < rest);
    return {i * n + min(i, rest), 0, 0, items * steps, items};
}

__device__ __forceinline__ block_span span_of_gate_up(const kf_experts_job &j,
                                                      const expert_groups &g)
{
    block_span s = run_of_items(g.count * j.tiles, j.slices);
    s.group = s.tile / j.tiles;
    s.tile -= s.group * j.tiles;
    return s;
}

/* Runs of whole items, or of steps: as many for each block. */
__device__ __forceinline__ block_span span_of_down(const kf_experts_job &j, const expert_groups &g,
                                                   item_parts &p)
{
    const uint32_t items = (j.tiles + j.together - 1) / j.together;
    p.each = g.count * j.slices;
    p.steps = (uint64_t)p.each * items;
    p.begins = p.ends = false;
    if (!j.is_even || !p.each) return run_of_items(items, p.each);
    p.blocks = (uint32_t)min((uint64_t)gridDim.x, max(p.steps / j.warps, (uint64_t)1));
    if (blockIdx.x >= p.blocks) return {0, 0, 0, 0, 0};
    const uint64_t first = p.start_of(blockIdx.x), end = p.start_of(blockIdx.x + 1);
    const uint32_t item = (uint32_t)(first / p.each), at = (uint32_t)(first % p.each);
    const uint32_t last = (uint32_t)((end - 1) / p.each);
    p.begins = at != 0;
    p.ends = end % p.each != 0;
    return {item, at / j.slices, at % j.slices, (uint32_t)(end - first), last - item + 1};
}

/* Which stages of x a warp has, of which tokens: of those that were there last, so that a step with
 * the same finds it ready. */
struct x_places {
    uint32_t key[KF_EXPERTS_PLACES], last;

    /* Where x of a key is, or shall be: beside the one that is in use, the last. */
    __device__ __forceinline__ bool find(uint32_t wanted, uint32_t places)
    {
#pragma unroll
        for (uint32_t i = 0; i < KF_EXPERTS_PLACES; i++)
            if (key[i] == wanted) {
                last = i;
                return true;
            }
        last = last + 1 >= places ? 0 : last + 1;
#pragma unroll
        for (uint32_t i = 0; i < KF_EXPERTS_PLACES; i++)
            if (last == i) key[i] = wanted;
        return false;
    }
};

/* The warp's sums of an item, zero. */
__device__ __forceinline__ void clear_sums(const kf_experts_job &j, uint32_t at, uint32_t lane)
{
    for (uint32_t i = lane; i < 2 * j.sum_cols * 4; i += 32) put_piece(at + i * 16, {0, 0, 0, 0});
    __syncwarp();
}

__device__ __forceinline__ void wait_for_unit()
{
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncwarp();
}

template <bool DOWN>
__global__ void __launch_bounds__(32 * KF_EXPERTS_WARPS, 2)
    experts_stages(const __grid_constant__ kf_experts_job j)
{
    /* Items whose sums are there at once: items of down are few and long. */
    constexpr uint32_t TURNS = DOWN ? 2 : KF_EXPERTS_TURNS;
    extern __shared__ __align__(128) uint8_t shared[];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t base = keep((uint32_t)__cvta_generic_to_shared(shared));
    expert_groups &g = *(expert_groups *)(shared + j.lists_at);
    __shared__ uint64_t gate_word;
    touch_job(j, warp);
    tile_gate gate = {(uint32_t)__cvta_generic_to_shared(&gate_word)};
    if (threadIdx.x == 0) gate.init(blockDim.x);
    /* The launch of DOWN begins when all blocks of GATE_UP have come here: routes are known then,
     * since these have waited for what wrote them. */
    if (!DOWN) wait_previous();
    begin_next();
    find_groups(j, g, *(expert_slots *)(shared + j.sums_at));

    item_parts parts = {};
    const block_span span = DOWN ? span_of_down(j, g, parts) : span_of_gate_up(j, g);
    if (!DOWN)
        for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < j.arrivals;
             i += gridDim.x * blockDim.x)
            j.arrived[i] = 0;
    const uint32_t ring = keep(base + warp * j.slot), notes = ring + j.notes_at;
    const uint32_t together = DOWN ? j.together : 2;
    stage_cursor<DOWN> feed;
    feed.begin(j, g, span, warp);
    uint32_t left = feed.left * together, feed_second = 0; /* units */
    x_places places = {{~0u, ~0u, ~0u}, j.x_places};
    unit_note fed = {};
    /* Unit i of the warp into the ring; and x for a unit, where it is not there. */
    auto fetch = [&](uint32_t i) {
        const uint32_t column = g.column[feed.group], mask = g.mask[feed.group];
        if (!feed_second) {
            /* Tokens of x, or a column of h. */
            const uint32_t whose = DOWN ? column : mask | g.half[feed.group] << 8;
            fed.fresh = !places.find(feed.stage | whose << 20, j.x_places);
        }
        fed.item = feed.item;
        fed.tile = DOWN ? feed.tile * together + feed_second : feed.tile;
        fed.expert = g.expert[feed.group];
        fed.stage = feed.stage;
        fed.column = column;
        fed.tokens = __popc(mask);
        fed.second = feed_second;
        fed.place = places.last;
        fed.raw = copy_unit(j, DOWN ? 0 : feed_second, fed.expert, fed.tile, fed.stage,
                            ring + i % 2 * UNIT_ROOM, lane);
        if (lane == 0) fed.leave(notes + i % 2 * NOTE);
        if (together == 1 || feed_second) feed.step(j, g);
        if (together == 2) feed_second ^= 1;
    };
    auto place_of_x = [&](const unit_note &n) {
        return ring + j.x_at + n.place * (j.share * j.x_pitch);
    };
    auto fetch_x = [&](const unit_note &n) {
        if (!n.fresh || n.second) return;
#pragma unroll 1
        for (uint32_t c = 0; c < n.tokens; c++)
            copy_stage_of_x(j, place_of_x(n) + c * j.x_pitch,
                            DOWN ? n.column + c : g.token[n.column + c], n.stage, lane);
    };
    if (left) fetch(0);
    const unit_note first = fed;
    if (!DOWN && left) fetch_x(first);
    commit_copies();
    if (left > 1) fetch(1);
    commit_copies();
    prepare_table((uint32_t *)(shared + j.table_at));
    if (DOWN) {
        wait_previous();
        if (left) fetch_x(first);
        if (left > 1 && j.x_places > 1) fetch_x(fed);
        commit_copies();
        commit_copies();
    }
    column_worker me;
    const uint32_t odd = lane / 4 % 2;
    const bool own = lane / 4 == lane % 4 * 2 + odd;
    me.lane = lane;
    me.place = keep(own_place(lane));
    me.x_pair = 2 * j.x_pitch;
    me.table = keep(base + j.table_at + lane * 4);
    me.zero[0] = me.zero[1] = minus_1024(ZERO_OF_ALL);
    me.offset = 0;
    const uint32_t own_x = keep(lane % 4 * 16 + odd * j.x_pitch);
    unit_ahead now = {}, then = {};
    __syncthreads();
    if (left) fetch_ahead(now, j, DOWN ? 0 : (int)first.second, first, lane);

    auto finish = [&](uint32_t item) {
        gate.wait(item & 1);
        if constexpr (DOWN) {
            const bool whole = parts.is_whole(item, span.items);
            finish_down(j, g, span.tile + item, whole ? nullptr : &parts, item % TURNS, item, warp,
                        lane, shared);
        } else {
            const uint32_t at = span.tile + item, groups = at / j.tiles;
            finish_item<2>(j, g, span.group + groups, at - groups * j.tiles, item, warp, lane,
                           shared);
        }
    };
    uint32_t n = 0;
#pragma unroll 1
    for (uint32_t item = 0; item < span.items; item++) {
        const uint32_t sums = base + sums_of(j, 2, item % TURNS, warp, 0, 0);
        if (DOWN && item >= TURNS) gate.wait(item - 1 & 1);
        clear_sums(j, sums, lane);
#pragma unroll 1
        while (left) {
            const unit_note unit = unit_note::find(notes + n % 2 * NOTE);
            if (unit.item != item) break;
            const int mat = DOWN ? 0 : (int)unit.second;
            const row_scale scale = own_scale(j, mat, unit, lane);
            if ((HAS_ZEROS || NESTED) && left > 1) {
                const unit_note next = unit_note::find(notes + (n + 1) % 2 * NOTE);
                fetch_ahead(then, j, DOWN ? 0 : (int)next.second, next, lane);
            }
            wait_for_unit();
            const uint32_t x = place_of_x(unit), shifts_at = notes + SHIFTS_AT + unit.place * 4;
            if (unit.fresh && !unit.second) {
                uint32_t shifts = 0;
#pragma unroll 1
                for (uint32_t c = 0; c < unit.tokens; c++)
                    shifts |= (convert_stage(j, x + c * j.x_pitch, lane) & 0xff) << 8 * c;
                if (lane == 0) put_word(shifts_at, shifts);
                __syncwarp();
            }
            if constexpr (ROW_ZEROS) me.zero[0] = now.zero[0], me.zero[1] = now.zero[1];
            if constexpr (KF_ROW.zero == KERF_ZERO_F32) me.offset = now.offset;
            me.live = own && odd < unit.tokens;
            const skewed_scales scales = scales_of(j, mat, unit, lane);
            const uint32_t to = sums + unit.second * j.sum_cols * (TILE * 4);
            if (unit.tokens <= 2)
                add_unit_of<2, DOWN>(j, g, me, ring + n % 2 * UNIT_ROOM, x + own_x, unit, now,
                                     scales, shifts_at, scale, to);
            else
                add_unit_of<4, DOWN>(j, g, me, ring + n % 2 * UNIT_ROOM, x + own_x, unit, now,
                                     scales, shifts_at, scale, to);
            now = then;
            __syncwarp();
            left--;
            /* With one place, x of the next step comes only now. */
            if (j.x_places == 1) {
                if (left) fetch_x(unit_note::find(notes + (n + 1) % 2 * NOTE));
                commit_copies();
            }
            if (left > 1) {
                fetch(n);
                if (j.x_places > 1) fetch_x(fed);
            }
            commit_copies();
            n++;
            __syncwarp();
        }
        if (item) finish(item - 1);
        gate.arrive();
    }
    if (span.items) finish(span.items - 1);
}

} // namespace

#endif
