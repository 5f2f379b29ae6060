/* gemv_columns.cuh - Y = W X for many columns of x: x stays in registers, W passes by.
 *
 * A warp has a slice of the columns of W and keeps the same slice of all columns of x in registers,
 * in the order that a tensor core takes as its second matrix. It goes down the rows: 16 rows of its
 * slice at a time are decoded, multiplied, and left to be added to what the other warps made of the
 * same rows. So x is read once by each warp and costs nothing per row, and all warps of a block
 * have the same to do.
 *
 * A block of up to 8 warps has up to 8 slices. What is wider is divided among the blocks of a
 * cluster, up to 8 of them, or, beyond that, taken in several passes over the rows. A cluster has a
 * run of whole tiles of 16 rows.
 *
 *   copies of the first units are started        nothing here depends on x: a kernel may do all
 *   row factors, tables                          this while the one before it still works
 *   -- griddepcontrol.wait --
 *   x into registers
 *   units: shared memory -> codes -> halves -> mma.m16n8k16 with sums in fp32
 *   sums of a tile -> shared memory
 *   a tile later: warps added up -> the block that finishes the tile
 *   -- the cluster's blocks are through --
 *   blocks added up -> y
 *
 * All is added in the order of warps, passes and blocks: the same bits in every run.
 *
 * Scales. E4M3 scales of blocks of 16 are multiplied into the codes: both have so few bits that
 * the half is exact. All others multiply the fp32 sum of their group. Those of rows and matrices
 * are left to the end. */
#ifndef KERF_GEMV_COLUMNS_CUH
#define KERF_GEMV_COLUMNS_CUH

#include "cuda/many/gemv_columns_x.cuh"
#include "cuda/many/gemv_columns_y.cuh"
#include "cuda/many/gemv_slices.cuh"

namespace
{

/* --- the product --------------------------------------------------------------------------------
 */

struct slice_worker {
    uint32_t lane;
    uint32_t place;   /* code_place() */
    uint32_t table;   /* the lane's copy */
    uint32_t zero[2]; /* minus_1024() of rows g, g + 8, where zeros are per row */
    uint32_t zero_at; /* the first bit of the slice's zero points in their word */
};

/* Where in a unit a lane begins to read codes: its row of the matrices of load_matrices(), or of 2
 * bits the word that has the lane's octet, pieces twisted by the row. */
__device__ __forceinline__ uint32_t code_place(uint32_t lane)
{
    if constexpr (BITS == 2) return slice_place(lane / 4, 0) + lane % 4 / 2 * 4;
    uint32_t row = lane % 8 + lane / 8 % 2 * 8;
    return row * SLICE_PITCH + ((lane / 16 ^ row) & 7) * 16;
}

/* The codes of block b of a unit: rows g in a, g + 8 in b. */
__device__ __forceinline__ void load_codes(uint32_t unit, uint32_t lane, uint32_t place, int block,
                                           uint32_t a[4], uint32_t b[4], uint32_t kept[4])
{
    if constexpr (BITS == 6) {
        /* Eight codes are six bytes: in two words, from the lower or the upper half of the first.
         */
        uint32_t t = lane % 4, at = unit + lane / 4 * SLICE_PITCH + block * 24 + (6 * t & ~3u);
        uint32_t shift = t % 2 * 16;
        uint32_t low = shared_word(at), high = shared_word(at + 4);
        a[0] = __funnelshift_r(low, high, shift), a[1] = high >> shift;
        low = shared_word(at + 8 * SLICE_PITCH), high = shared_word(at + 8 * SLICE_PITCH + 4);
        b[0] = __funnelshift_r(low, high, shift), b[1] = high >> shift;
    } else if constexpr (BITS == 2) {
        const uint32_t at = unit + (place ^ block / 2 * 16) + block % 2 * 8;
        a[0] = halves_of_octet(shared_word(at), lane % 2);
        b[0] = halves_of_octet(shared_word(at + 8 * SLICE_PITCH), lane % 2);
    } else {
        constexpr int per_load = BITS == 4 ? 2 : 1, loads = BITS == 16 ? 2 : 1;
        if (BITS != 4 || block % 2 == 0) {
#pragma unroll
            for (int l = 0; l < loads; l++) {
                uint32_t w[4], pair = block * loads / per_load + l;
                load_matrices(w, unit + (place ^ pair * 32));
                if constexpr (BITS == 4) {
                    a[0] = w[0], b[0] = w[1], kept[0] = w[2], kept[1] = w[3];
                } else {
                    a[2 * l] = w[0], b[2 * l] = w[1], a[2 * l + 1] = w[2], b[2 * l + 1] = w[3];
                }
            }
        } else {
            a[0] = kept[0], b[0] = kept[1];
        }
    }
}

/* minus_1024() of the group that a block of a slice is in. */
__device__ __forceinline__ uint32_t group_zero(uint32_t zeros, int block)
{
    constexpr uint32_t flip = KF_ROW.element == KERF_ELEM_S8 ? 0x80 : 0;
    return minus_1024((zeros >> block / GROUP_BLOCKS * BITS & ((1u << BITS) - 1)) ^ flip);
}

/* Scales of the lane's two rows in a unit, and zero points. */
struct slice_scales {
    uint32_t w[2][SCALE_WORDS];
    __half2 pairs[2][4];
    uint32_t zeros[2];

    __device__ __forceinline__ void load(const slice_worker &me, uint32_t unit)
    {
        if constexpr (HAS_GROUPS) {
            uint32_t own = unit + SLICE_SCALES + (SHARED_ROW ? 0 : me.lane / 4 * SCALE_BYTES);
            shared_bytes<SCALE_BYTES>(w[0], own);
            shared_bytes<SCALE_BYTES>(w[1], own + (SHARED_ROW ? 0 : 8 * SCALE_BYTES));
        }
        if constexpr (HAS_ZEROS && HAS_GROUPS)
            for (int row = 0; row < 2; row++)
                zeros[row] =
                    shared_word(unit + SLICE_ZEROS + (me.lane / 4 + 8 * row) * 4) >> me.zero_at;
    }

    /* A lane's eight codes of a block are half of a pair of 16s. */
    __device__ __forceinline__ void convert(const slice_worker &me)
    {
        if constexpr (SCALING == KF_SCALES_IN_CODES) {
            uint32_t pick = me.lane % 4 / 2 ? 0x7531 : 0x6420;
#pragma unroll
            for (int row = 0; row < 2; row++)
                for (int i = 0; i < 2; i++) {
                    uint32_t four = __byte_perm(w[row][2 * i], w[row][2 * i + 1], pick);
                    pairs[row][2 * i] = as_half2(halves_of_e4m3(four));
                    pairs[row][2 * i + 1] = as_half2(upper_halves_of_e4m3(four));
                }
        }
    }

    /* minus_1024() of the zero points of a block's rows. */
    __device__ __forceinline__ void find_zeros(const slice_worker &me, int block,
                                               uint32_t zero[2]) const
    {
#pragma unroll
        for (int row = 0; row < 2; row++)
            zero[row] = HAS_ZEROS && HAS_GROUPS ? group_zero(zeros[row], block) : me.zero[row];
    }

    __device__ __forceinline__ void into_codes(int block, uint32_t p[4], uint32_t q[4]) const
    {
        if constexpr (SCALING == KF_SCALES_IN_CODES) {
            __half2 f = pairs[0][block / 2], g = pairs[1][block / 2];
            f = block % 2 ? __high2half2(f) : __low2half2(f);
            g = block % 2 ? __high2half2(g) : __low2half2(g);
#pragma unroll
            for (int i = 0; i < 4; i++) p[i] = mul_halves(p[i], f), q[i] = mul_halves(q[i], g);
        }
    }

    /* The sums of group i into those of the row. */
    template <int NB>
    __device__ __forceinline__ void into_sums(int i, const aside &more, const float group[NB][4],
                                              float sum[NB][4]) const
    {
        float f = scale_in(w[0], i, more.second[0], more.offset);
        float g = scale_in(w[1], i, more.second[1], more.offset);
#pragma unroll
        for (int n = 0; n < NB; n++) {
            sum[n][0] = __fmaf_rn(group[n][0], f, sum[n][0]);
            sum[n][2] = __fmaf_rn(group[n][2], g, sum[n][2]);
            sum[n][1] = __fmaf_rn(group[n][1], f, sum[n][1]);
            sum[n][3] = __fmaf_rn(group[n][3], g, sum[n][3]);
        }
    }
};

/* The sums of a unit. APART: the two products of a block have sums of their own, which are added in
 * the end, so that fewer wait for one another; it takes four registers for each eight columns. */
template <int NB, bool APART = false>
__device__ __forceinline__ void consume_slice(const slice_worker &me, uint32_t unit,
                                              const uint32_t x[X_PARTS * NB][BLOCKS][4],
                                              const aside &more, float sum[NB][4])
{
    uint32_t kept[4];
    slice_scales scales;
    scales.load(me, unit);
    scales.convert(me);
    float group[NB][4], second[NB][4] = {};
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
        uint32_t a[4], b[4], p[4], q[4], zero[2];
        load_codes(unit, me.lane, me.place, block, a, b, kept);
        scales.find_zeros(me, block, zero);
        decode(a, zero[0], me.table, p);
        decode(b, zero[1], me.table, q);
        scales.into_codes(block, p, q);
        if (SCALING == KF_SCALES_IN_GROUPS && block % GROUP_BLOCKS == 0)
            for (int n = 0; n < NB; n++)
                for (int i = 0; i < 4; i++) group[n][i] = 0;
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int n = 0; n < X_PARTS * NB; n++)
                multiply(SCALING == KF_SCALES_IN_GROUPS ? group[n % NB]
                         : APART && half                ? second[n % NB]
                                                        : sum[n % NB],
                         p[2 * half], q[2 * half], p[2 * half + 1], q[2 * half + 1],
                         x[n][block][2 * half], x[n][block][2 * half + 1]);
        if (SCALING == KF_SCALES_IN_GROUPS && (block + 1) % GROUP_BLOCKS == 0)
            scales.into_sums<NB>(block / GROUP_BLOCKS, more, group, sum);
    }
    if constexpr (APART)
        for (int n = 0; n < NB; n++)
            for (int i = 0; i < 4; i++) sum[n][i] += second[n][i];
}

/* --- the kernel ---------------------------------------------------------------------------------
 */

/* Units of a warp that are copied before x is read; the rest comes right after x, and all of them
 * do where x is there from the start. All are copied before x where other work hides what that
 * costs, or where there are no registers to remember the rest beside x. */
template <int NB> constexpr bool HAS_LATE = (NB == 1 && BITS == 4) || (NB == 2 && BITS == 8);
template <int NB> constexpr int SLICE_EARLY = HAS_LATE<NB> ? 1 : SLICE_DEPTH;

template <int NB>
__global__ void __launch_bounds__(THREADS, 2) gemv_columns(const __grid_constant__ kf_gemv_job j)
{
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ kf_gemv_matrix parts[KERF_GEMV_PARTS];
    __shared__ uint64_t gate_word;
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    begin_next();
    for (uint32_t i = threadIdx.x; i < sizeof parts / 4; i += THREADS)
        ((uint32_t *)parts)[i] = ((const uint32_t *)j.part)[i];
    tile_gate gate = {found_once((uint32_t)__cvta_generic_to_shared(&gate_word))};
    if (threadIdx.x == 0) gate.init(THREADS);
    uint32_t team = blockIdx.x / j.division.cluster, rank = blockIdx.x % j.division.cluster;
    team_span s = span_of(j, team, parts);
    uint32_t base = (uint32_t)__cvta_generic_to_shared(shared);
    sum_places sums = {base + j.division.sums_at, base + j.division.own_at,
                       base + j.division.slots_at};
    float *factors = (float *)(shared + j.division.rows_at);
    uint32_t zeros = base + j.division.rows_at + j.share.most * (TILE * 4);
    uint32_t ring = base + warp * (SLICE_DEPTH * SLICE_UNIT);
    if (!j.constant_weights) wait_previous();
    __syncthreads();
    if (j.division.cluster > 1) arrive_at_cluster<false>();

    slice_feed feed;
    uint32_t slice = warp < j.division.warps ? rank * j.division.warps + warp : j.division.slices;
    feed.passes = j.division.passes;
    feed.slice = slice - j.division.cluster * j.division.warps;
    feed.left = 0;
    auto fill_ring = [&](uint32_t i, uint32_t end) {
#pragma unroll 1
        for (; i < end; i++) {
            if (feed.more(j, s, lane)) feed.fetch(j, s, ring + i * SLICE_UNIT, lane);
            commit_copies();
        }
    };
    const uint32_t early = HAS_LATE<NB> && !j.constant_weights ? 0 : SLICE_EARLY<NB>;
    fill_ring(0, early);
    aside now = {}, then = {};
    fetch_aside(now, j, s, 0, slice, lane);
    prepare_rows(j, s, factors, (uint32_t *)(factors + j.share.most * TILE));
    prepare_table((uint32_t *)(shared + j.division.table_at));
    if (j.constant_weights) wait_previous();

    slice_worker me;
    me.lane = lane;
    me.place = code_place(lane);
    me.table = base + j.division.table_at + lane * 4;
    static_assert(WARPS * STAGE_X<NB> <= 2 * WARPS * SUMS<NB>, "x goes where sums will be");
    uint8_t *stage = shared + j.division.sums_at + warp * STAGE_X<NB>;
    uint32_t x[X_PARTS * NB][BLOCKS][4];
    uint32_t back = load_slice_of_x<NB>(j, slice * SLICE_CODES, lane, stage, x, [&] {
        if constexpr (HAS_LATE<NB>) fill_ring(early, SLICE_DEPTH);
    });
    __syncthreads();
    if (j.division.cluster > 1)
        wait_for_cluster(); /* all have begun: their memory may be written */

    /* When all warps have left their sums, those whose turn it is add up those of step `at`. */
    auto gather = [&](uint32_t at, uint32_t tile, uint32_t pass) {
        gate.wait(at & 1);
        uint32_t n = warp - at % (WARPS / NB) * NB;
        if (n < NB)
            collect<NB>(j, sums, sums.warps + (at & 1) * (WARPS * SUMS<NB>), rank, tile, pass, n,
                        lane);
    };
    uint32_t slot = 0, done = 0; /* steps: tiles of all passes */
#pragma unroll 1
    for (uint32_t pass = 0; pass < j.division.passes; pass++) {
        if (pass) {
            __syncthreads();
            slice += j.division.cluster * j.division.warps;
            back = load_slice_of_x<NB>(j, slice * SLICE_CODES, lane, stage, x, [] {});
            fetch_aside(now, j, s, 0, slice, lane);
            __syncthreads();
        }
        bool mine = slice < j.division.slices;
        me.zero_at = slice * SLICE_ZERO_BITS % 32;
#pragma unroll 1
        for (uint32_t tile = 0; tile < s.tiles; tile++, done++) {
            float sum[NB][4] = {};
            if (mine) {
                if (IS_INTEGER) {
                    me.zero[0] = shared_word(zeros + tile * (TILE * 4) + lane / 4 * 4);
                    me.zero[1] = shared_word(zeros + tile * (TILE * 4) + lane / 4 * 4 + 32);
                }
                fetch_aside(then, j, s, tile + 1, slice, lane);
                wait_slice();
                consume_slice<NB>(me, ring + slot, x, now, sum);
                now = then;
                __syncwarp();
                if (feed.more(j, s, lane)) feed.fetch(j, s, ring + slot, lane);
                commit_copies();
                slot = slot == (SLICE_DEPTH - 1) * SLICE_UNIT ? 0 : slot + SLICE_UNIT;
            }
            if (tile) gather(done - 1, tile - 1, pass);
            uint32_t left = sums.warps + ((done & 1) * WARPS + warp) * SUMS<NB> + lane * 16;
#pragma unroll
            for (int n = 0; n < NB; n++) {
                if (j.x_type != KERF_F16)
#pragma unroll
                    for (int i = 0; i < 4; i++) sum[n][i] *= factor_in(back, 2 * n + i % 2);
                put_sums(left + n * 512, {sum[n][0], sum[n][1], sum[n][2], sum[n][3]});
            }
            gate.arrive();
        }
        if (s.tiles) gather(done - 1, s.tiles - 1, pass);
    }
    if (j.division.cluster > 1) {
        arrive_at_cluster<true>();
        wait_for_cluster();
    } else {
        __syncthreads();
    }
    write_tiles<NB>(j, s, sums.slots, factors, rank);
}

} // namespace

#endif
