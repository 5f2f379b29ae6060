/* gemv_column.cuh - Y = W X for one column of x, two or four, with W decoded on its way into tensor
 * cores.
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
 * A PAIR of blocks, a cluster, shares rows where whole tiles would leave some multiprocessors with
 * much less to do than others: each has half of the stages, and of x. In the end they send each
 * other the sums of the rows that the other one writes.
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
 * More columns (gemv_columns.cuh) take codes, x and scales in other orders. */
#ifndef KERF_GEMV_COLUMN_CUH
#define KERF_GEMV_COLUMN_CUH

#include "cuda/few/gemv_column_x.cuh"
#include "cuda/few/gemv_column_y.cuh"

namespace
{

constexpr int X_STAGE = STAGE_CODES * 2; /* bytes of x */

/* --- the product --------------------------------------------------------------------------------
 */

struct column_worker {
    uint32_t place;  /* own_place() */
    uint32_t live;   /* whether the lane has a part of x */
    uint32_t x;      /* where it is */
    uint32_t x_pair; /* from a pair of columns to the next */
    uint32_t lane;
    uint32_t table; /* the lane's copy */
    uint32_t zero[2];
    float offset;
};

/* Pieces that are exchanged bring their groups along. */
__device__ __forceinline__ void exchange_own(uint32_t w[OWN_WORDS], uint32_t lane)
{
    constexpr int of_piece = PIECE_OCTETS >= OWN_OCTETS ? OWN_BYTES / QUARTER_PIECES : 0;
    if constexpr (TWISTED && of_piece > 0 && OWN_GROUPS >= QUARTER_PIECES) {
        uint32_t swap = exchanged(lane % 4) ? of_piece == 2 ? 0x1032 : 0x2301 : 0x3210;
#pragma unroll
        for (int i = 0; i < OWN_WORDS; i++) w[i] = __byte_perm(w[i], 0, swap);
    }
}

/* The lane's scales of a row, in the order of its octets. */
__device__ __forceinline__ void load_own(uint32_t w[OWN_WORDS], uint32_t at, uint32_t lane)
{
    shared_bytes<OWN_BYTES>(w, at);
    exchange_own(w, lane);
}

/* How a unit's scales are read: rows of them lie together. Others say how (load). */
struct plain_scales {
    static constexpr bool IS_PLAIN = true;
};

/* minus_1024() of the lane's group i. */
__device__ __forceinline__ uint32_t own_zero(const column_worker &me, const beside &b, int row,
                                             int i)
{
    constexpr uint32_t flip = KF_ROW.element == KERF_ELEM_S8 ? 0x80 : 0;
    if constexpr (HAS_ZEROS && HAS_GROUPS)
        return minus_1024((b.zero[row] >> i * BITS & ((1u << BITS) - 1)) ^ flip);
    else
        return me.zero[row];
}

/* The words of octet o of a lane's piece(s). */
__device__ __forceinline__ void octet_codes(const uint32_t *w, int o, uint32_t out[4])
{
    if constexpr (BITS == 4) {
        out[0] = w[o];
    } else if constexpr (BITS == 8) {
        out[0] = w[2 * o], out[1] = w[2 * o + 1];
    } else if constexpr (BITS == 6) {
        int first = o * 6 / 4; /* six bytes */
        if (o % 2)
            out[0] = __funnelshift_r(w[first], w[first + 1], 16), out[1] = w[first + 1] >> 16;
        else
            out[0] = w[first], out[1] = w[first + 1];
    } else {
        for (int i = 0; i < 4; i++) out[i] = w[4 * o + i];
    }
}

/* N columns of x are that many pairs, the last of which may be half of one. */
template <int N> constexpr int PAIRS = (N + 1) / 2;

/* Octets of x that a lane reads ahead: as many as there are registers for. */
template <int N> constexpr int X_AHEAD = N < 3 ? 4 : SCALING == KF_SCALES_IN_CODES ? 1 : 2;

/* Adds a unit to the lane's sums of rows g and g + 8: [column][row], or where groups have no scales
 * those of each pair, twice. v: what x comes into. */
template <int N, typename SCALES = plain_scales>
__device__ __forceinline__ void
consume_unit(const column_worker &me, uint32_t slot, uint32_t x, const beside &b, float sum[N][2],
             float whole[PAIRS<N>][2][4], uint32_t v[X_AHEAD<N>][PAIRS<N>][4],
             const SCALES &scales = SCALES())
{
    uint32_t at = slot + me.place, t = me.lane % 4, g = me.lane / 4;
    constexpr bool LOOKED_UP = KF_ROW.scale == KERF_SCALE_MAP8; /* in memory: all at once */
    uint32_t w[2][OWN_WORDS];
    float found[2][OWN_GROUPS];
    if constexpr (HAS_GROUPS) {
        if constexpr (SCALES::IS_PLAIN) {
            uint32_t own =
                slot + CODE_BYTES + t / GROUP_LANES * OWN_BYTES + (SHARED_ROW ? 0 : g * ROW_SCALES);
            load_own(w[0], own, me.lane);
            load_own(w[1], own + (SHARED_ROW ? 0 : 8 * ROW_SCALES), me.lane);
        } else {
            scales.load(w, slot, me.lane);
        }
        if constexpr (LOOKED_UP)
#pragma unroll
            for (int i = 0; i < 2 * OWN_GROUPS; i++)
                found[i % 2][i / 2] = scale_in(w[i % 2], i / 2, b.second[i % 2], me.offset);
    }
    constexpr int AT_ONCE = BITS == 6 ? QUARTER_PIECES : 1; /* pieces */
    constexpr int TURNS = QUARTER_PIECES / AT_ONCE, TURN_OCTETS = OCTETS / TURNS;
    float c[PAIRS<N>][4];
#pragma unroll
    for (int s = 0; s < TURNS; s++) {
        uint32_t codes[2][4 * AT_ONCE];
#pragma unroll
        for (int k = 0; k < 2 * AT_ONCE; k++) {
            uint32_t from = TWISTED ? at ^ s * 16 : at + k / 2 * 16;
            uint4 piece = shared_piece(from + k % 2 * (8 * ROW_STAGE));
            uint32_t *into = codes[k % 2] + k / 2 * 4;
            into[0] = piece.x, into[1] = piece.y, into[2] = piece.z, into[3] = piece.w;
        }
#pragma unroll
        for (int k = 0; k < TURN_OCTETS; k++) {
            int o = s * TURN_OCTETS + k, group = o / OWN_OCTETS;
            uint32_t a[4], p[4], q[4];
            octet_codes(codes[0], k, a);
            decode(a, own_zero(me, b, 0, group), me.table, p);
            octet_codes(codes[1], k, a);
            decode(a, own_zero(me, b, 1, group), me.table, q);
#pragma unroll
            for (int i = 0; i < PAIRS<N>; i++) {
                uint32_t *w = v[o % X_AHEAD<N>][i];
                live_piece(w, x + i * me.x_pair + o * 64, me.live);
                if (HAS_GROUPS && o % OWN_OCTETS == 0) c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
                multiply(HAS_GROUPS ? c[i] : whole[i][0], p[0], q[0], p[1], q[1], w[0], w[1]);
                multiply(HAS_GROUPS ? c[i] : whole[i][1], p[2], q[2], p[3], q[3], w[2], w[3]);
            }
            if (HAS_GROUPS && (o + 1) % OWN_OCTETS == 0) {
                float f[2];
#pragma unroll
                for (int row = 0; row < 2; row++)
                    f[row] = LOOKED_UP ? found[row][group]
                                       : scale_in(w[row], group, b.second[row], me.offset);
#pragma unroll
                for (int i = 0; i < N; i++)
#pragma unroll
                    for (int row = 0; row < 2; row++)
                        sum[i][row] = __fmaf_rn(c[i / 2][row * 2 + i % 2], f[row], sum[i][row]);
            }
        }
    }
}

/* The sums of a warp's run in a tile: rows g and g + 8 of every quad. */
template <int N>
__device__ __forceinline__ void leave_run(uint32_t slot, uint32_t lane, float sum[N][2],
                                          float whole[PAIRS<N>][2][4])
{
#pragma unroll
    for (int c = 0; c < N; c++)
#pragma unroll
        for (int row = 0; row < 2; row++) {
            int i = row * 2 + c % 2;
            float v = HAS_GROUPS ? sum[c][row] : whole[c / 2][0][i] + whole[c / 2][1][i];
            v += __shfl_xor_sync(0xffffffffu, v, 1);
            v += __shfl_xor_sync(0xffffffffu, v, 2);
            if (lane % 4 == 0)
                put_word(slot + c * (TILE * 4) + lane + 32 * row, __float_as_uint(v));
            sum[c][row] = 0;
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

/* --- the kernel ---------------------------------------------------------------------------------
 */

/* Makes the compiler keep an address or index in a register. Otherwise it computes it again
 * wherever it is used, from special registers that take longer to read than shared memory. */
__device__ __forceinline__ uint32_t keep(uint32_t v)
{
    asm volatile("" : "+r"(v));
    return v;
}

template <int N, bool PAIR>
__global__ void __launch_bounds__(THREADS, 2) gemv_column(const __grid_constant__ kf_gemv_job j)
{
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ uint32_t largest[N]; /* of each column of x */
    __shared__ kf_gemv_matrix parts[KERF_GEMV_PARTS];
    __shared__ uint64_t arrivals; /* of what the other block of a pair sends */
    constexpr uint32_t PART_WORDS = sizeof parts / 4;
    begin_next();
    uint32_t base = keep((uint32_t)__cvta_generic_to_shared(shared)), thread = keep(threadIdx.x);
    uint32_t lane = thread % 32, warp = thread / 32;
    if (thread < PART_WORDS) ((uint32_t *)parts)[thread] = ((const uint32_t *)j.part)[thread];
    if (thread < N) largest[thread] = 0;
    column_block b;
    const uint32_t rank = PAIR ? blockIdx.x % 2 : 0;
    const stage_span stages = stages_of<PAIR>(j, rank);
    b.span = span_of(j, PAIR ? blockIdx.x / 2 : blockIdx.x, parts);
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
    uint32_t ring = base + warp * (ON_THE_WAY * UNIT_BYTES);
    if (!j.constant_weights) wait_previous();
    if (PAIR && thread == 0) mail.expect();
    __syncthreads();
    if (PAIR) arrive_at_cluster<false>();

    uint32_t units = s.tiles * stages.count(), first = cut(units, warp);
    unit_feed feed;
    feed.left = cut(units, warp + 1) - first;
    feed.tile = cut(s.tiles, warp); /* which is first / stages */
    feed.stage = first - feed.tile * stages.count() + stages.first;
    feed.stages = stages;
    uint32_t left = feed.left, tile = feed.tile, stage = feed.stage;
    if (left) feed.aim(j, s, lane);
    auto fill_ring = [&](uint32_t i, uint32_t end) {
#pragma unroll 1
        for (; i < end; i++) {
            if (feed.left) feed.fetch(j, s, ring + i * UNIT_BYTES, lane);
            commit_copies();
        }
    };
    beside now = {}, then = {};
    if (left) fetch_beside(now, j, s, tile, stage, lane);
    uint32_t x_at = base + j.division.x_at;
    prepare_runs(s, stages.count(), thread, b.runs);
    prepare_table((uint32_t *)(shared + j.division.table_at));
    prepare_more<N>(j, b);
    row_end<N> end = {};
    if (thread < b.items) {
        end.aim(j, b, thread);
        if (KEEPS_END<N>) end.load_scales(j, b);
    }
    column_worker me;
    uint32_t second = N > 1 ? lane / 4 % 2 : 0, step = column_bytes(j);
    me.lane = lane;
    me.place = keep(own_place(lane));
    me.live = lane / 4 == lane % 4 * 2 + second;
    me.x = keep(x_at + lane % 4 * 16 + second * step);
    me.x_pair = 2 * step;
    me.table = keep(base + j.division.table_at + lane * 4);
    me.zero[0] = me.zero[1] = minus_1024(ZERO_OF_ALL);
    me.offset = 0;
    uint32_t x = keep(me.x + (stage - stages.first) * X_STAGE);
    uint32_t octets[X_AHEAD<N>][PAIRS<N>][4] = {};
    x_part<N> part;
    part.template aim<PAIR>(j, stages, keep(x_at), thread);
    touch_constants(j);
    /* Last, since these copies delay x, which the block beside this one waits for now. */
    constexpr uint32_t HALF = ON_THE_WAY / 2;
    const uint32_t early = blockIdx.x < j.division.full_blocks ? ON_THE_WAY : j.division.before_x;
    fill_ring(0, min(early, HALF));
    if (early > HALF) {
        wait_copies();
        fill_ring(HALF, early);
    }
    if (j.constant_weights) wait_previous();
    end.load(j);
    stage_column(j, part, largest, [&] { fill_ring(early, ON_THE_WAY); });
    end.settle(j);
    if (KEEPS_END<N>) end.find_factors();
    __syncthreads();
    if (PAIR) wait_for_cluster(); /* both have begun: their memory may be written */
    float back = KEEPS_END<N> ? back_of(largest[end.column]) : 1;

    float sum[N][2] = {}, whole[PAIRS<N>][2][4] = {};
    uint32_t slot = 0;
    bool fresh = true;
#pragma unroll 1
    for (; left; left--) {
        if (fresh) {
            if constexpr (ROW_ZEROS) {
                me.zero[0] = shared_word(b.zeros + tile * (TILE * 4) + lane / 4 * 4);
                me.zero[1] = shared_word(b.zeros + tile * (TILE * 4) + lane / 4 * 4 + 32);
            }
            if constexpr (KF_ROW.zero == KERF_ZERO_F32)
                me.offset = __ldg((const float *)s.part[s.at(tile).part].plane[KERF_PLANE_ZEROS]);
        }
        fresh = stage + 1 == stages.end;
        if (left > 1)
            fetch_beside(then, j, s, tile + fresh, fresh ? stages.first : stage + 1, lane);
        wait_unit();
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
        slot = slot == (ON_THE_WAY - 1) * UNIT_BYTES ? 0 : slot + UNIT_BYTES;
    }
    write_rows<N, PAIR>(j, b, mail, end, back, largest);
}

} // namespace

#endif
