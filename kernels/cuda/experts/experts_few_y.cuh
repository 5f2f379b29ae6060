/* experts_few_y.cuh - several tokens of a mixture-of-experts layer: from the slots of a part to h,
 * or to what an expert adds to y, and from that to y.
 *
 * What a group adds to rows of y goes to memory. When all is there it is added up by all blocks,
 * each token's in the order of its slots: so the order of every sum follows from routes, shape and
 * GPU. */
#ifndef KERF_EXPERTS_FEW_Y_CUH
#define KERF_EXPERTS_FEW_Y_CUH

#include "cuda/experts/experts_few_places.cuh"
#include "cuda/experts/experts_h.cuh"

namespace
{

/* Columns of a product: tokens of a group. */
constexpr int FEW_TOKENS = HAS_FOURS ? KF_EXPERTS_FOURS : KF_EXPERTS_FEW;

/* Sums that leave_result() left in an earlier turn, into those of now. */
template <int N>
__device__ __forceinline__ void take_up_result(uint32_t slot, uint32_t lane, float total[N][2])
{
#pragma unroll
    for (int i = 0; i < 2 * N; i++)
        if (lane % 4 == 0)
            total[i / 2][i % 2] +=
                __uint_as_float(shared_word(slot + i / 2 * (TILE * 4) + lane + 32 * (i % 2)));
}

/* A sum over the block's warps, in their order; from: result x 16 + row. */
__device__ __forceinline__ float sum_of_part(const few_part &p, uint32_t slots, uint32_t from,
                                             uint32_t column)
{
    const uint32_t result = from / TILE;
    const uint32_t at =
        slots + result * SLOT_BYTES<FEW_TOKENS> + column * (TILE * 4) + from % TILE * 4;
    float v[WARPS], sum = 0;
#pragma unroll
    for (uint32_t w = 0; w < WARPS; w++)
        v[w] = __uint_as_float(shared_word(at + w * SLOT_BYTES<FEW_TOKENS>));
#pragma unroll
    for (uint32_t w = 0; w < WARPS; w++) sum += p.has(w, result) ? v[w] : 0.0f;
    return sum;
}

/* All of a part of gate and up. */
__device__ __forceinline__ void finish_h(const kf_experts_job &j, const expert_groups &g,
                                         const few_part &p, uint32_t slots, uint32_t thread)
{
    const uint32_t rows = p.items * TILE, tokens = g.tokens(p.group);
#pragma unroll 1
    for (uint32_t i = thread; i < rows * tokens; i += THREADS) {
        const uint32_t column = i / rows, local = i - column * rows;
        const uint32_t item = local / TILE, row = local % TILE;
        const uint32_t k = (p.tile + item) * TILE + row;
        if (k >= j.out) continue;
        /* Rows of gate and of up that alternate: one tile has both of eight numbers. */
        const uint32_t from = item * (2 * TILE) + (j.alternating ? 2 * row : row);
        float gate = sum_of_part(p, slots, from, column);
        float up = sum_of_part(p, slots, from + (j.alternating ? 1 : TILE), column);
        if (j.stack[0].bias) {
            const float2 both = biases_of_h(j, g.expert[p.group], k);
            gate += both.x;
            up += both.y;
        }
        put_h(j, (g.column[p.group] + column) * j.y_stride + k, activated(j, gate, up));
    }
}

/* Where what a column adds to y begins, of a chunk of h. */
__device__ __forceinline__ uint64_t part_at(const kf_experts_job &j, uint32_t column,
                                            uint32_t chunk)
{
    return (uint64_t)(column * j.chunks + chunk) * (j.tiles * TILE);
}

/* 16 rows of y of all tokens, eight at a time: a lane has four rows of one. */
__device__ __forceinline__ void add_up_tile(const kf_experts_job &j, const expert_groups &g,
                                            uint32_t tile, uint32_t lane)
{
    constexpr int AT_ONCE = 10;
    const uint32_t k = tile * TILE + lane % 4 * 4;
#pragma unroll 1
    for (uint32_t token = lane / 4; token < j.tokens; token += 8) {
        float sum[4] = {};
#pragma unroll 1
        for (uint32_t chunk = 0; chunk < j.chunks; chunk++)
#pragma unroll 1
            for (uint32_t slot = 0; slot < j.top_k; slot += AT_ONCE) {
                float4 v[AT_ONCE];
                float weight[AT_ONCE];
#pragma unroll
                for (uint32_t i = 0; i < AT_ONCE; i++) {
                    const uint32_t at = token * j.top_k + slot + i;
                    const uint32_t column = slot + i < j.top_k ? g.of_slot[at] : g.NO_COLUMN;
                    v[i] = {0, 0, 0, 0};
                    weight[i] = 0;
                    if (column == g.NO_COLUMN) continue;
                    v[i] = __ldcg((const float4 *)(j.parts + part_at(j, column, chunk) + k));
                    weight[i] = g.weight[column];
                }
#pragma unroll
                for (uint32_t i = 0; i < AT_ONCE; i++) {
                    sum[0] += v[i].x * weight[i];
                    sum[1] += v[i].y * weight[i];
                    sum[2] += v[i].z * weight[i];
                    sum[3] += v[i].w * weight[i];
                }
            }
#pragma unroll
        for (uint32_t r = 0; r < 4; r++) put_down(j, g, token, k + r, sum[r]);
    }
}

/* All of a part of down: what the group adds. */
__device__ __forceinline__ void leave_part_of_y(const kf_experts_job &j, const expert_groups &g,
                                                const few_part &p, uint32_t slots, uint32_t thread)
{
    const uint32_t column = thread / TILE % FEW_TOKENS, row = thread % TILE;
    float *to = j.parts + part_at(j, g.column[p.group] + column, p.chunk) + row;
    if (column >= g.tokens(p.group)) return;
#pragma unroll 1
    for (uint32_t item = thread / (FEW_TOKENS * TILE); item < p.items;
         item += THREADS / (FEW_TOKENS * TILE))
        __stcg(to + (p.tile + item) * TILE, sum_of_part(p, slots, item * TILE + row, column));
}

/* The end of down, all threads: y. Blocks that have left all of theirs wait for the others, but not
 * for long: whether all blocks run at once is not known here. Whoever sees that all have left
 * theirs takes part; the last one does, and would do it alone. */
__device__ __forceinline__ void add_up_y(const kf_experts_job &j, const expert_groups &g,
                                         uint32_t thread, uint32_t lane)
{
    __shared__ uint32_t is_there;
    constexpr long long LONG = 100000; /* clocks */
    constexpr uint32_t ADDERS = 64;    /* threads of a block: all would queue for one counter */
    __syncthreads();
    if (thread == 0) {
        __threadfence(); /* for what all threads have left */
        const long long begin = clock64();
        uint32_t have = atomicAdd(j.counts + KF_EXPERTS_LEFT, 1) + 1;
        while (have < gridDim.x && clock64() - begin < LONG) {
            __nanosleep(100);
            asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                         : "=r"(have)
                         : "l"(j.counts + KF_EXPERTS_LEFT)
                         : "memory");
        }
        is_there = have >= gridDim.x;
        __threadfence();
    }
    __syncthreads();
    if (!is_there || thread >= ADDERS) return;
    for (;;) {
        uint32_t tile = lane == 0 ? atomicAdd(j.counts + KF_EXPERTS_ADDED, 1) : 0;
        tile = __shfl_sync(0xffffffffu, tile, 0);
        if (tile >= j.tiles) return;
        add_up_tile(j, g, tile, lane);
    }
}

} // namespace

#endif
