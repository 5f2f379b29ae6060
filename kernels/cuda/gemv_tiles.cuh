/* gemv_tiles.cuh - y = W x with W decoded on its way into tensor cores.
 *
 * The unit of work is a tile of 16 rows times a stage of 256 bytes of codes (192 for 6 bits). A
 * block of 8 warps owns a run of whole tiles; its warps divide tiles x
 * stages evenly among them, each a run of its own, so that no warp waits for another until all
 * weights are read. Each warp keeps DEPTH stages on their way into shared memory, scales one step
 * ahead in registers, and sums over its run in registers. At the end of a tile or of its run a warp
 * leaves its sums in a slot; slots are added in the order of warps, by fixed rules: the same bits
 * in every run.
 *
 *   weights of the first stages are asked for    nothing here depends on x: a kernel may do all
 *   row factors, tables                          this while the one before it still works
 *   -- griddepcontrol.wait --
 *   x into shared memory, as halves, in the order that codes are decoded in
 *   stages: shared memory -> codes -> halves -> mma.m16n8k16 with sums in fp32
 *   slots -> [sums of the cluster's blocks] -> y
 *
 * Columns of x are the n of the tensor core: 8 cost what 1 costs, 16 a second product. With many
 * columns x is too large to be read by every block: blocks form clusters that share rows, each has
 * a part of the columns of W and so of x, and their sums meet through distributed shared memory.
 *
 * Scales. E4M3 scales of blocks of 16 are multiplied into the codes: both have so few bits that
 * the half is exact. All others multiply the fp32 sum of their group. Those of rows and matrices
 * are left to the end.
 *
 * x. fp16 is taken as it is. bf16 and fp32 are multiplied by a power of two that brings the largest
 * of a column to 2^14 .. 2^15, and rounded to fp16: exact for bf16, save for what is 2^-28 of the
 * largest and less. */
#ifndef KERF_GEMV_TILES_CUH
#define KERF_GEMV_TILES_CUH

#include "cuda/gemv_multiply.cuh"
#include "cuda/gemv_sums.cuh"
#include "cuda/gemv_x.cuh"

namespace
{

/* For each tile of the block the first of its warps that has a part of it, and the one after the
 * last. */
__device__ __forceinline__ void prepare_ranges(const span &s, uint32_t *ranges)
{
    uint32_t units = s.tiles * s.stages;
    for (uint32_t tile = threadIdx.x; tile < s.tiles; tile += THREADS) {
        uint32_t from = tile * s.stages, to = from + s.stages, first = 0, end = 0;
        for (uint32_t w = 0; w < WARPS; w++) {
            if (cut(units, w + 1) <= from) first = w + 1;
            if (cut(units, w) < to) end = w + 1;
        }
        ranges[tile] = first | end << 16;
    }
}

/* The sum of a tile's row over the warps that had a part of it, in their order. Where there are
 * fewer units than warps, some between them had none and left nothing. */
__device__ __forceinline__ float sum_slots(const float *slots, uint32_t slot, uint32_t at,
                                           uint32_t tile, uint32_t range, uint32_t units)
{
    float sum = 0;
    for (uint32_t w = range & 0xffff; w < range >> 16; w++)
        if (cut(units, w) < cut(units, w + 1)) sum += slots[(tile + w) * slot + at];
    return sum;
}

template <int NB>
__global__ void __launch_bounds__(THREADS, 2) gemv_tiles(const __grid_constant__ kf_gemv_job j)
{
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ uint32_t largest[KERF_GEMV_COLUMNS];
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    span s = span_of(j);
    float *slots = (float *)(shared + j.slots_at);
    float *factors = (float *)(shared + j.rows_at);
    uint32_t *zeros = (uint32_t *)(factors + j.most * TILE), *ranges = zeros + j.most * TILE;
    uint32_t ring = (uint32_t)__cvta_generic_to_shared(shared) + warp * (DEPTH * STAGE_BYTES);

    begin_next();
    if (!j.constant_weights) wait_previous();
    uint32_t units = s.tiles * s.stages, first = cut(units, warp);
    cursor at = {s.stages ? first / s.stages : 0, s.stages ? first % s.stages : 0,
                 cut(units, warp + 1) - first};
    codes feed;
    feed.begin(j, s, at, ring, lane);
#pragma unroll 1
    for (uint32_t i = 0; i < DEPTH; i++) {
        if (feed.at.left) feed.fetch(j, s, i * STAGE_BYTES, lane);
        commit_copies();
    }
    scales now = {}, then = {};
    scale_feed scaled = {};
    if (at.left) {
        scaled.aim(j, s, at, lane);
        scaled.fetch(now, j.wide);
    }
    if (threadIdx.x < KERF_GEMV_COLUMNS) largest[threadIdx.x] = 0;
    uint8_t *nothing = shared + j.x_at + j.columns * j.x_pitch;
    if (threadIdx.x < STAGE_CODES / 2) ((uint32_t *)nothing)[threadIdx.x] = 0;
    prepare_rows(j, s, factors, zeros);
    prepare_ranges(s, ranges);
    prepare_table((uint32_t *)(shared + j.table_at));
    if (j.constant_weights) wait_previous();

    if (j.x_type != KERF_F16) {
        uint32_t k0 = s.stage * STAGE_CODES;
        __syncthreads();
        measure_x(j, k0, s.stages ? min(s.stages * STAGE_CODES, j.cols - k0) : 0, largest);
        __syncthreads();
    }
    stage_x(j, s, shared + j.x_at, largest);
    __syncthreads();

    worker<NB> me;
    uint32_t row = lane % 8 + lane / 8 % 2 * 8;
    me.lane = lane;
    me.place = row * PITCH + ((lane / 16 ^ row) & 7) * 16;
    for (uint32_t n = 0; n < NB; n++) {
        uint32_t column = lane / 4 + 8 * n;
        bool live = column < j.columns;
        me.x[n] = live ? shared + j.x_at + column * j.x_pitch + lane % 4 * 16 : nothing;
        me.x_step[n] = live ? STAGE_CODES * 2 : 0;
    }
    me.nothing = nothing;
    me.table = (const uint32_t *)(shared + j.table_at) + lane;
    me.offset = 0;
    float sum[NB][4] = {};
    uint32_t slot = 0;
    bool fresh = true;
#pragma unroll 1
    while (at.left) {
        if (fresh) {
            if (WAY == WAY_NIBBLE || WAY == WAY_BYTE) {
                me.zero[0] = zeros[at.tile * TILE + lane / 4];
                me.zero[1] = zeros[at.tile * TILE + lane / 4 + 8];
            }
            if constexpr (KF_ROW.zero == KERF_ZERO_F32) {
                const kf_gemv_matrix &m = j.part[place_of(j, s.tile + at.tile).part];
                me.offset = __ldg((const float *)m.plane[KERF_PLANE_ZEROS]);
            }
        }
        cursor here = at;
        fresh = at.next(s.stages);
        wait_copies();
        __syncwarp();
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            if (step + 1 < STEPS || (at.left && !fresh))
                scaled.advance(j.wide);
            else if (at.left)
                scaled.aim(j, s, at, lane);
            scaled.fetch(then, j.wide); /* once too often at the end, which is no harm */
            consume(me, ring + slot, here.stage, step, now, sum);
            now = then;
        }
        if (fresh || !at.left) leave<NB>(slots + (here.tile + warp) * SLOT<NB>, lane, sum);
        __syncwarp();
        if (feed.at.left) feed.fetch(j, s, slot, lane);
        commit_copies();
        slot = slot == (DEPTH - 1) * STAGE_BYTES ? 0 : slot + STAGE_BYTES;
    }
    __syncthreads();

    /* A thread has a row of its tiles and a column of x. */
    constexpr uint32_t ACROSS = 8 * NB, S = SLOT<NB>;
    uint32_t r = threadIdx.x % TILE, column = threadIdx.x / TILE % ACROSS;
    uint32_t begin = threadIdx.x / TILE / ACROSS, every = THREADS / TILE / ACROSS;
    if (j.swiglu) begin *= 2, every *= 2;
    uint32_t in = column * TILE + r;
    bool live = column < j.columns;
    float back = live && j.x_type != KERF_F16 ? kf_exp2(-x_shift(largest[column])) : 1.0f;

    if (j.cluster == 1) {
        for (uint32_t tile = begin; live && tile < s.tiles; tile += every) {
            place p = place_of(j, s.tile + tile);
            const kf_gemv_matrix &m = j.part[p.part];
            float v = sum_slots(slots, S, in, tile, ranges[tile], units) * back *
                      factors[tile * TILE + r];
            float up = 0;
            if (j.swiglu)
                up = sum_slots(slots, S, in, tile + 1, ranges[tile + 1], units) * back *
                     factors[(tile + 1) * TILE + r];
            if (p.row + r < m.rows) finish(j, m, p.row + r, column, v, up);
        }
        return;
    }

    /* Blocks of a cluster add up their parts of each row, and each finishes some of the rows. A
     * block's sums go where its ring was: [tile][column][row]. */
    float *parts = (float *)shared;
    uint32_t step = j.swiglu ? 2 : 1;
    for (uint32_t tile = begin / step; live && tile < s.tiles; tile += every / step)
        parts[(tile * j.columns + column) * TILE + r] =
            sum_slots(slots, S, in, tile, ranges[tile], units) * back;
    sync_cluster();
    uint32_t rank = blockIdx.x % j.cluster;
    for (uint32_t tile = begin + rank * every; live && tile < s.tiles; tile += every * j.cluster) {
        place p = place_of(j, s.tile + tile);
        const kf_gemv_matrix &m = j.part[p.part];
        const float *part = parts + (tile * j.columns + column) * TILE + r;
        float v = 0, up = 0;
        for (uint32_t k = 0; k < j.cluster; k++) v += load_remote(part, k);
        v *= factors[tile * TILE + r];
        if (j.swiglu) {
            for (uint32_t k = 0; k < j.cluster; k++) up += load_remote(part + j.columns * TILE, k);
            up *= factors[(tile + 1) * TILE + r];
        }
        if (p.row + r < m.rows) finish(j, m, p.row + r, column, v, up);
    }
    sync_cluster(); /* nobody leaves while others read */
}

} // namespace

#endif
