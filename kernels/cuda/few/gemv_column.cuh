/* gemv_column.cuh - Y = W X for one column of x, two or four, and of GGUF's blocks eight or 16,
 * with W decoded on its way into tensor cores.
 *
 * The unit of work is a tile of 16 rows times a stage of 256 bytes of codes (192 for 6 bits). A
 * block of 8 warps has a run of whole tiles. Its warps divide tiles x stages evenly: each has a run
 * of units and its own ring in shared memory, into which two units are copied at a time, codes and
 * scales. So no warp waits for another until all weights are read. Of a 4096 x 4096 matrix of 4
 * bits, all weights of a multiprocessor are in flight before x is known.
 *
 *   row factors, tables, masks                   nothing here depends on x: a kernel may do all
 *   copies of the first units are started        this while the one before it still works
 *   -- griddepcontrol.wait --
 *   x into shared memory, as halves, in the order that codes are decoded in
 *   copies of the rest of the first units, while x is being read
 *   units: shared memory -> codes -> halves -> mma.m16n8k16 with sums in fp32
 *   slots -> y
 *
 * A TEAM of blocks, a cluster, shares rows where whole tiles would leave some multiprocessors with
 * much less to do than others, or where x is long: each has a part of the stages, and of x. In the
 * end they send each other the sums of the rows that the other one writes. Up to four columns have
 * teams of two, a PAIR; more columns (gemv_team.cuh) of two, four or eight.
 *
 * Where x of GGUF's blocks leaves no room for two units, one is copied at a time: while a warp
 * multiplies, memory works for its seven neighbours. Where all of x leaves none for one, the block
 * goes over its rows in several STEPS, each with a part of K: gemv_steps.cuh.
 *
 * How many of the first units are copied before x is read:
 *
 *   half of them, where more units follow: the other half gives memory something to do while x
 *       comes, and x does not queue behind all of them;
 *   all of them, where these are all units that a warp has, or where the block is the first on its
 *       multiprocessor and so has the time. Then the second half is started once the first has
 *       arrived: more than keeps memory busy would only queue before the x of the launch ahead;
 *   none, where x is there from the start.
 *
 * The tensor core multiplies by 8 columns, and x has one. So the part of x that belongs to quarter
 * t of a stage is put into column 2 t, alone: then the sums of a lane's own groups come out in its
 * own registers, and every scale is read, converted and applied once, by that lane. A second column
 * of x has column 2 t + 1, and costs next to nothing. A third and a fourth take a second product
 * with the same codes. Lanes whose columns are empty read no x: their registers are zero from the
 * start. That saves reads of shared memory, which is the limit where codes are looked up there as
 * well.
 *
 * What limits the speed is integer instructions. An E2M1 code costs 1.1 of them, of 4 that a lane
 * may issue while its bits arrive, and half as many pipes; hence large units, whose bookkeeping is
 * a tenth. With four columns it is registers: a thread has 128, since two blocks share a
 * multiprocessor, and a word that goes to local memory in the loop costs more than a read of shared
 * memory.
 *
 * How a unit lies in the ring, and how it becomes halves, is in two files that take each other's
 * place: for planes of codes and scales gemv_quarters.cuh and gemv_consume.cuh, for GGUF's blocks
 * blocks_unit.cuh and blocks_consume.cuh.
 *
 * More columns (gemv_columns.cuh) take codes, x and scales in other orders. */
#ifndef KERF_GEMV_COLUMN_CUH
#define KERF_GEMV_COLUMN_CUH

#if KF_BLOCKS
#include "cuda/few/blocks_consume.cuh"
#else
#include "cuda/few/gemv_consume.cuh"
#endif
#include "cuda/few/gemv_column_y.cuh"
#include "cuda/few/gemv_steps.cuh"
#include "cuda/few/gemv_team.cuh"

namespace
{

/* --- the product --------------------------------------------------------------------------------
 */

/* Sums that a lane has of each of its two rows. Of up to four columns it has all, each over the
 * lane's quarter of K. Of eight columns, or of each eight of 16, it has two, over all of K. */
template <int N> constexpr int LANE_SUMS = IS_FULL<N> ? N / 4 : N;

/* The sums of a warp's run in a tile: rows g and g + 8 of every quad. */
template <int N>
__device__ __forceinline__ void leave_run(uint32_t slot, uint32_t lane, float sum[LANE_SUMS<N>][2],
                                          float whole[PAIRS<N>][2][4])
{
#pragma unroll
    for (int c = 0; c < LANE_SUMS<N>; c++)
#pragma unroll
        for (int row = 0; row < 2; row++) {
            int i = row * 2 + c % 2;
            float v = HAS_GROUPS ? sum[c][row] : whole[c / 2][0][i] + whole[c / 2][1][i];
            sum[c][row] = 0;
            if constexpr (IS_FULL<N>) {
                uint32_t column = c / 2 * 8 + lane % 4 * 2 + c % 2;
                put_word(slot + column * (TILE * 4) + lane / 4 * 4 + 32 * row, __float_as_uint(v));
                continue;
            }
            v += __shfl_xor_sync(0xffffffffu, v, 1);
            v += __shfl_xor_sync(0xffffffffu, v, 2);
            if (lane % 4 == 0)
                put_word(slot + c * (TILE * 4) + lane + 32 * row, __float_as_uint(v));
        }
    if constexpr (!HAS_GROUPS) {
#pragma unroll
        for (int i = 0; i < PAIRS<N> * 8; i++) whole[i / 8][i / 4 % 2][i % 4] = 0;
    }
}

/* Brings into the constant cache what is needed at the end: a miss there costs as much as one of x.
 */
__device__ __forceinline__ void touch_constants(const kf_gemv_job &j)
{
    asm volatile("" ::"f"(j.alpha), "l"(j.x), "r"(j.y_type), "r"(j.x_type), "r"(j.x_wide));
}

/* Units of a warp that are in flight. */
__device__ __forceinline__ uint32_t units_ahead(const kf_gemv_job &j)
{
    return KF_BLOCKS ? j.division.ahead : ON_THE_WAY;
}

/* Until the first of them is there. */
__device__ __forceinline__ void wait_first(uint32_t ahead)
{
    if (ahead == ON_THE_WAY) {
        wait_unit();
        return;
    }
    wait_copies();
    __syncwarp();
}

/* --- the kernel ---------------------------------------------------------------------------------
 */

/* Makes the compiler keep an address or index in a register. Otherwise it computes it again
 * wherever it is used, from special registers that take longer to read than shared memory. */
__device__ __forceinline__ uint32_t keep(uint32_t v)
{
    asm volatile("" : "+r"(v));
    return v;
}

/* Blocks that share rows, and what this one has of a row. */
template <int N, bool TEAM> __device__ __forceinline__ uint32_t team_size(const kf_gemv_job &j)
{
    return !TEAM ? 1 : IS_FULL<N> ? j.division.cluster : 2;
}
template <int N, bool TEAM>
__device__ __forceinline__ stage_span own_stages(const kf_gemv_job &j, uint32_t rank)
{
    if (TEAM && IS_FULL<N>) return part_of_row(j.division.stages, j.division.cluster, rank);
    return stages_of<TEAM>(j, rank);
}

/* Aims at a warp's run of a block's units. */
__device__ __forceinline__ void begin_run(unit_feed &feed, uint32_t tiles, stage_span stages,
                                          uint32_t warp)
{
    const uint32_t units = tiles * stages.count(), first = cut(units, warp);
    feed.left = cut(units, warp + 1) - first;
    feed.tile = cut(tiles, warp); /* which is first / stages */
    feed.stage = first - feed.tile * stages.count() + stages.first;
    feed.stages = stages;
}

template <int N, bool TEAM, bool STEPS>
__global__ void __launch_bounds__(THREADS, IS_FULL<N> || STEPS ? 1 : 2)
    gemv_column(const __grid_constant__ kf_gemv_job j)
{
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ uint32_t largest[N]; /* of each column of x */
    __shared__ kf_gemv_matrix parts[KERF_GEMV_PARTS];
    __shared__ uint64_t arrivals; /* of what other blocks of the team send */
    constexpr bool PAIR = TEAM && !IS_FULL<N>;
    constexpr uint32_t PART_WORDS = sizeof parts / 4;
    begin_next();
    uint32_t base = keep((uint32_t)__cvta_generic_to_shared(shared)), thread = keep(threadIdx.x);
    uint32_t lane = thread % 32, warp = thread / 32;
    if (thread < PART_WORDS) ((uint32_t *)parts)[thread] = ((const uint32_t *)j.part)[thread];
    if (thread < N) largest[thread] = 0;
    column_block b;
    const uint32_t blocks = team_size<N, TEAM>(j), rank = blockIdx.x % blocks;
    stage_span stages = STEPS ? stages_of_step(j, 0) : own_stages<N, TEAM>(j, rank);
    b.span = span_of(j, blockIdx.x / blocks, parts);
    b.thread = thread;
    b.unit = j.swiglu ? 2 : 1;
    const team_span &s = b.span;
    b.rows = s.tiles / b.unit * TILE;
    b.items = b.rows * (N < 3 ? N : j.columns);
    b.slots = base + j.division.slots_at;
    b.factors = base + j.division.rows_at;
    b.zeros = b.factors + j.share.most * (TILE * 4);
    b.runs = b.zeros + j.share.most * (TILE * 4);
    const pair_mail mail = {b.items, b.unit, rank, b.runs + j.share.most * 4,
                            (uint32_t)__cvta_generic_to_shared(&arrivals)};
    const team_mail team = {
        (mail.box + 15) / 16 * 16, mail.arrivals, blocks, rank, s.tiles / b.unit, b.unit,
        j.columns * (TILE * 4)};
    const uint32_t ahead = units_ahead(j);
    uint32_t ring = base + warp * (ahead * UNIT_BYTES);
    if (!j.constant_weights) wait_previous();
    if (PAIR && thread == 0) mail.expect();
    if (TEAM && !PAIR && thread == 0) team.expect();
    __syncthreads();
    if (TEAM) arrive_at_cluster<false>();

    unit_feed feed;
    begin_run(feed, s.tiles, stages, warp);
    uint32_t left = feed.left, tile = feed.tile, stage = feed.stage;
    if (left) feed.aim(j, s, lane);
    auto fill_ring = [&](uint32_t i, uint32_t end) {
#pragma unroll 1
        for (; i < end; i++) {
            if (feed.left) feed.fetch(j, s, ring + i * UNIT_BYTES, lane);
            commit_copies();
        }
    };
    column_beside now = {}, then = {};
    if (left) fetch_beside(now, j, s, tile, stage, lane);
    uint32_t x_at = base + j.division.x_at;
    prepare_runs(s, stages.count(), thread, b.runs);
    prepare_table((uint32_t *)(shared + j.division.table_at));
    prepare_more<N>(j, b);
    row_end<N> end = {};
    if (!STEPS && (!TEAM || PAIR) && thread < b.items) {
        end.aim(j, b, thread);
        if (KEEPS_END<N>) end.load_scales(j, b);
    }
    column_worker me;
    uint32_t second = N > 1 ? lane / 4 % 2 : 0, step = column_bytes<N>(j);
    me.lane = lane;
    me.place = keep(own_place(lane));
    me.live = lane / 4 == lane % 4 * 2 + second;
    me.x = keep(IS_FULL<N> ? x_at + lane / 4 * step + lane % 4 * FULL_PIECE
                           : x_at + lane % 4 * 16 + second * step);
    me.x_pair = 2 * step;
    me.table = keep(base + j.division.table_at + lane * 4);
    if constexpr (NESTED) me.apart = j.strides.row_groups % OWN_GROUPS != 0;
    settle_worker<N>(me, j, x_at + N * step);
    uint32_t x = keep(me.x + (stage - stages.first) * X_STAGE);
    uint32_t octets[X_AHEAD<N>][PAIRS<N>][4] = {};
    x_part<N> part;
    part.template aim<TEAM || STEPS>(j, stages, keep(x_at), thread);
    touch_constants(j);
    /* Last, since these copies delay x, which the block beside this one waits for now. */
    const uint32_t half = ahead / 2;
    const uint32_t early = blockIdx.x < j.division.full_blocks ? ahead : j.division.before_x;
    fill_ring(0, min(early, half));
    if (early > half) {
        wait_copies();
        fill_ring(half, early);
    }
    if (j.constant_weights) wait_previous();
    end.load(j);
    if (stage_column(j, part, largest, [&] { fill_ring(early, ahead); }))
        stage_anew<N, TEAM || STEPS>(j, stages, x_at, largest);
    end.settle(j);
    if (KEEPS_END<N>) end.find_factors();
    __syncthreads();
    settle_x<N>(me, j, stages.count(), x_at, thread);
    if (TEAM) wait_for_cluster(); /* both have begun: their memory may be written */
    float back = KEEPS_END<N> ? back_of(largest[end.column]) : 1;

    float sum[LANE_SUMS<N>][2] = {}, whole[PAIRS<N>][2][4] = {};
    uint32_t slot = 0;
    bool fresh = true;
    for (uint32_t step = 1;; step++) {
#pragma unroll 1
        for (; left; left--) {
            if (fresh) {
                if constexpr (ROW_ZEROS) {
                    me.zero[0] = shared_word(b.zeros + tile * (TILE * 4) + lane / 4 * 4);
                    me.zero[1] = shared_word(b.zeros + tile * (TILE * 4) + lane / 4 * 4 + 32);
                }
                if constexpr (KF_ROW.zero == KERF_ZERO_F32)
                    me.offset =
                        __ldg((const float *)s.part[s.at(tile).part].plane[KERF_PLANE_ZEROS]);
            }
            fresh = stage + 1 == stages.end;
            if (left > 1)
                fetch_beside(then, j, s, tile + fresh, fresh ? stages.first : stage + 1, lane);
            wait_first(ahead);
            consume_unit<N>(me, ring + slot, x, now, sum, whole, octets);
            now = then;
            stage++;
            x += X_STAGE;
            if (fresh || left == 1) {
                leave_run<N>(b.slots + (tile + warp) * SLOT_BYTES<N>, lane, sum, whole);
                tile++;
                stage = stages.first;
                x = me.x;
            }
            __syncwarp();
            if (feed.left) feed.fetch(j, s, ring + slot, lane);
            commit_copies();
            slot = slot == (ahead - 1) * UNIT_BYTES ? 0 : slot + UNIT_BYTES;
        }
        if constexpr (!STEPS) {
            if constexpr (TEAM && IS_FULL<N>)
                write_team<N>(j, b, team, largest);
            else
                write_rows<N, PAIR>(j, b, mail, end, back, largest);
            return;
        }
        const bool is_last = step == j.division.steps;
        if (!is_last) {
            stages = stages_of_step(j, step);
            begin_run(feed, s.tiles, stages, warp);
            left = feed.left, tile = feed.tile, stage = feed.stage;
            if (left) feed.aim(j, s, lane);
            if (left) fetch_beside(now, j, s, tile, stage, lane);
            fill_ring(0, ahead);
        }
        const kept_sums<N> kept = {mail.box};
        __syncthreads();
        kept.add(j, b, largest, step == 1);
        if (is_last) {
            kept.write(j, b);
            return;
        }
        __syncthreads();
        if (thread < N) largest[thread] = 0;
        prepare_runs(s, stages.count(), thread, b.runs);
        part.template aim<true>(j, stages, x_at, thread);
        __syncthreads();
        if (stage_step(j, part, largest)) stage_anew<N, true>(j, stages, x_at, largest);
        __syncthreads();
        settle_x<N>(me, j, stages.count(), x_at, thread);
        slot = 0;
        fresh = true;
        x = me.x + (stage - stages.first) * X_STAGE;
    }
}

} // namespace

#endif
