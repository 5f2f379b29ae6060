/* experts_tiles.cuh - both launches of a mixture-of-experts layer, with weights decoded on their
 * way into tensor cores.
 *
 * GATE_UP: an item is a tile of 16 rows of h for a group of tokens: 16 rows of gate and 16 of up,
 * all of K. DOWN: an item is a tile of 16 rows of y for all tokens: the same 16 rows of every
 * expert that any token has, all of K. Blocks take items in turns. Within an item, warps take units
 * in turns: a slice of K of 256 elements (128 of 16 bits) of one group's expert. So every sum over
 * experts is within a block, in an order that routes and shape fix, and no atomics are needed.
 *
 *   routes -> groups                          each block for itself: there are 256 slots at most
 *   copies of the first units are started     DOWN: weights only, before h is known
 *   -- griddepcontrol.wait --                 (GATE_UP waited before it read routes)
 *   units: ring -> halves of x; codes -> halves -> mma.m16n8k16, sums in fp32
 *   a unit's sums x the power of two of x x the row's factor (x the token's weight) -> the item's
 *   sums of warps -> shared memory -> added in the order of warps -> h or y
 *
 * The ring goes on across items: while one item's sums are added, the next one's weights arrive. */
#ifndef KERF_EXPERTS_TILES_CUH
#define KERF_EXPERTS_TILES_CUH

#include "cuda/experts/experts_weights.cuh"
#include "cuda/experts/experts_x.cuh"
#include "cuda/experts/experts_y.cuh"

namespace
{

/* Which unit a warp is at: of an item, by group and slice. */
template <bool DOWN> struct unit_cursor {
    uint32_t item, turn; /* the warp that has the item's first unit */
    uint32_t group, slice, tile;
    bool more; /* the item has this unit */

    /* The warp's first unit of the item. */
    __device__ __forceinline__ void begin(const kf_experts_job &j, const expert_groups &g,
                                          uint32_t warp)
    {
        slice = warp >= turn ? warp - turn : warp + j.warps - turn;
        group = DOWN ? 0 : item / j.tiles;
        tile = DOWN ? item : item - group * j.tiles;
        wrap(j, g);
    }
    __device__ __forceinline__ void wrap(const kf_experts_job &j, const expert_groups &g)
    {
        if constexpr (DOWN) {
            while (slice >= j.slices && group < g.count) slice -= j.slices, group++;
            more = group < g.count;
        } else {
            more = slice < j.slices;
        }
    }
    /* On to the next item; `shift`: units of an item beyond whole rounds of warps. */
    __device__ __forceinline__ void go_on(const kf_experts_job &j, const expert_groups &g,
                                          uint32_t warp, uint32_t shift)
    {
        item += gridDim.x;
        turn += shift;
        if (turn >= j.warps) turn -= j.warps;
        begin(j, g, warp);
    }
    __device__ __forceinline__ void step(const kf_experts_job &j, const expert_groups &g)
    {
        slice += j.warps;
        wrap(j, g);
    }
    /* Past items in which the warp has nothing left; whether there is a unit. */
    __device__ __forceinline__ bool settle(const kf_experts_job &j, const expert_groups &g,
                                           uint32_t warp, uint32_t shift, uint32_t items)
    {
        while (!more && item < items) go_on(j, g, warp, shift);
        return item < items;
    }
};

/* What a unit needs besides its slot, straight from memory, a unit ahead. */
template <int MATS> struct unit_beside {
    aside more[MATS];
    row_scale scale[MATS][2];
    uint32_t zero[MATS][2];
};

template <int MATS>
__device__ __forceinline__ void fetch_unit_beside(unit_beside<MATS> &b, const kf_experts_job &j,
                                                  const expert_groups &g,
                                                  const unit_cursor<MATS == 1> &p, uint32_t lane)
{
#pragma unroll
    for (int m = 0; m < MATS; m++) {
        kf_gemv_matrix w = matrix_of(j, j.stack[m], g.expert[p.group]);
        uint32_t first = first_row(j, m, p.tile);
        fetch_aside(b.more[m], j, w, first, p.slice, lane);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t row = min(first + lane / 4 + 8 * half, w.rows - 1);
            b.scale[m][half] = load_row_scale(j, w, row);
            if constexpr (IS_INTEGER) b.zero[m][half] = minus_1024(row_zero(j, w, row));
        }
    }
}

/* Starts copies of a unit: its weights, or its x, or both. */
template <int MATS>
__device__ __forceinline__ void copy_unit_weights(const kf_experts_job &j, const expert_groups &g,
                                                  const unit_cursor<MATS == 1> &p, uint32_t to,
                                                  uint32_t lane)
{
#pragma unroll 1
    for (int m = 0; m < MATS; m++)
        copy_rows(j, m, g.expert[p.group], first_row(j, m, p.tile), p.slice, to + m * SLICE_UNIT,
                  to + j.raw_at + m * RAW_BYTES, lane);
}

template <int MATS>
__device__ __forceinline__ void copy_unit_x(const kf_experts_job &j, const expert_groups &g,
                                            const unit_cursor<MATS == 1> &p, uint32_t to,
                                            uint32_t lane)
{
    each_token(g.mask[p.group], [&](uint32_t rank, uint32_t token) {
        uint32_t row = MATS == 1 ? g.column[p.group] + rank : g.half[p.group] * 8 + token;
        copy_x(j, to + j.x_at + rank * j.x_pitch, row, p.slice, lane);
    });
}

/* Waits until the oldest of `depth` slots has arrived. */
__device__ __forceinline__ void wait_slot(uint32_t depth)
{
    if (depth == 2)
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    else if (depth == 3)
        asm volatile("cp.async.wait_group 2;" ::: "memory");
    else
        asm volatile("cp.async.wait_group 3;" ::: "memory");
    __syncwarp();
}

/* The lane's part of x of a unit as registers, and what its sums' columns are multiplied by to make
 * up for powers of two. */
template <int MATS>
__device__ __forceinline__ void take_x(const kf_experts_job &j, uint32_t mask, uint32_t at,
                                       uint32_t zeros, uint32_t lane,
                                       uint32_t x[X_PARTS][BLOCKS][4], float back[2])
{
    int shift = 0;
    each_token(mask, [&](uint32_t rank, uint32_t token) {
        int s = convert_column(j, at + rank * j.x_pitch, lane);
        if (lane / 4 == token) shift = s;
    });
    __syncwarp();
    uint32_t own = lane / 4, rank = __popc(mask & ((1u << own) - 1));
    uint32_t from = mask >> own & 1 ? at + rank * j.x_pitch + lane % 4 * 16 : zeros;
#pragma unroll
    for (int part = 0; part < X_PARTS; part++)
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            uint4 v = shared_piece(from + part * HALVES_BYTES + b * 64);
            uint32_t *w = x[part][b];
            w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
        }
#pragma unroll
    for (int i = 0; i < 2; i++)
        back[i] = kf_exp2(-__shfl_sync(0xffffffffu, shift, (lane % 4 * 2 + i) * 4));
}

/* Adds a unit's sums to the item's: of live columns alone, since what others hold is zero times
 * weights that may be no numbers. */
__device__ __forceinline__ void add_unit(float total[4], const float c[4], const float back[2],
                                         const float factor[2], const float weight[2],
                                         const bool live[2])
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float v = c[i] * back[i % 2] * factor[i / 2] * weight[i % 2];
        if (live[i % 2]) total[i] += v;
    }
}

template <int MATS>
__global__ void __launch_bounds__(32 * KF_EXPERTS_WARPS, 2)
    experts_tiles(const __grid_constant__ kf_experts_job j)
{
    constexpr bool DOWN = MATS == 1;
    extern __shared__ __align__(128) uint8_t shared[];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(shared);
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

    const uint32_t units = DOWN ? g.count * j.slices : j.slices, shift = units % j.warps;
    const uint32_t items = DOWN ? j.tiles : g.count * j.tiles;
    const uint32_t ring = base + warp * j.depth * j.slot, zeros = base + j.zeros_at;
    typedef unit_cursor<DOWN> cursor;
    cursor feed = {blockIdx.x, 0};
    feed.begin(j, g, warp);
    const cursor at_first = feed;
    cursor first = feed;
    bool more = feed.settle(j, g, warp, shift, items);
    auto step = [&](cursor &c) {
        c.step(j, g);
        return c.settle(j, g, warp, shift, items);
    };
    unit_beside<MATS> now = {}, then = {};
    if (more) fetch_unit_beside<MATS>(now, j, g, feed, lane);
#pragma unroll 1
    for (uint32_t i = 0; i < j.depth; i++) {
        if (more) {
            copy_unit_weights<MATS>(j, g, feed, ring + i * j.slot, lane);
            if (!DOWN) copy_unit_x<MATS>(j, g, feed, ring + i * j.slot, lane);
            more = step(feed);
        }
        if (!DOWN) commit_copies();
    }
    for (uint32_t i = threadIdx.x; i < X_PARTS * HALVES_BYTES / 4; i += blockDim.x)
        ((uint32_t *)(shared + j.zeros_at))[i] = 0;
    prepare_table((uint32_t *)(shared + j.table_at));
    if (DOWN) {
        wait_previous();
        bool is_one = first.settle(j, g, warp, shift, items);
#pragma unroll 1
        for (uint32_t i = 0; i < j.depth; i++) {
            if (is_one) {
                copy_unit_x<MATS>(j, g, first, ring + i * j.slot, lane);
                is_one = step(first);
            }
            commit_copies();
        }
    }
    slice_worker me;
    me.lane = lane;
    me.place = code_place(lane);
    me.table = base + j.table_at + lane * 4;
    me.zero[0] = me.zero[1] = 0;
    __syncthreads();

    cursor at = at_first;
    uint32_t slot = ring, end = ring + j.depth * j.slot, done = 0, last = at.item;
#pragma unroll 1
    for (; at.item < items; done++) {
        float total[2][4] = {}; /* of gate and up; of tokens 0 .. 7 and 8 .. 15 */
#pragma unroll 1
        while (at.more) {
            const uint32_t mask = g.mask[at.group];
            wait_slot(j.depth);
            cursor next = at;
            next.step(j, g);
            cursor ahead = next;
            if (ahead.settle(j, g, warp, shift, items))
                fetch_unit_beside<MATS>(then, j, g, ahead, lane);
            uint32_t x[X_PARTS][BLOCKS][4];
            float back[2], weight[2] = {1, 1};
            bool live[2];
            take_x<MATS>(j, mask, slot + j.x_at, zeros, lane, x, back);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t token = lane % 4 * 2 + i;
                live[i] = mask >> token & 1;
                if (DOWN && live[i])
                    weight[i] = g.weight[g.column[at.group] + __popc(mask & ((1u << token) - 1))];
            }
            me.zero_at = at.slice * SLICE_ZERO_BITS % 32;
#pragma unroll 1 /* so that the product is in the cache of instructions once */
            for (int m = 0; m < MATS; m++) {
                const bool is_up = MATS == 2 && m;
                const uint32_t unit = slot + m * SLICE_UNIT, from = first_row(j, m, at.tile);
                if (HAS_RAW && j.raw_at && !has_plain_scales(j, from, at.slice))
                    shift_scales(j, m, g.expert[at.group], from, at.slice,
                                 slot + j.raw_at + m * RAW_BYTES, unit, lane);
                float c[1][4] = {}, factor[2];
                const aside beside_it = is_up ? now.more[MATS - 1] : now.more[0];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    me.zero[i] = is_up ? now.zero[MATS - 1][i] : now.zero[0][i];
                    factor[i] = factor_of(is_up ? now.scale[MATS - 1][i] : now.scale[0][i]);
                }
                consume_slice<1, SCALING != KF_SCALES_IN_GROUPS>(me, unit, x, beside_it, c);
                if (is_up || (DOWN && g.half[at.group]))
                    add_unit(total[1], c[0], back, factor, weight, live);
                else
                    add_unit(total[0], c[0], back, factor, weight, live);
            }
            now = then;
            __syncwarp();
            if (more) {
                copy_unit_weights<MATS>(j, g, feed, slot, lane);
                copy_unit_x<MATS>(j, g, feed, slot, lane);
                more = step(feed);
            }
            commit_copies();
            slot = slot + j.slot == end ? ring : slot + j.slot;
            at = next;
        }
        leave_sums<MATS>(j, g, at.item, done % SUM_TURNS, warp, lane, base, total);
        if (done) {
            gate.wait(done - 1 & 1);
            finish_item<MATS>(j, g, DOWN ? 0 : last / j.tiles, DOWN ? last : last % j.tiles,
                              done - 1, warp, lane, shared);
        }
        gate.arrive();
        last = at.item;
        at.go_on(j, g, warp, shift);
    }
    if (done) {
        gate.wait(done - 1 & 1);
        finish_item<MATS>(j, g, DOWN ? 0 : last / j.tiles, DOWN ? last : last % j.tiles, done - 1,
                          warp, lane, shared);
    }
}

} // namespace

#endif
