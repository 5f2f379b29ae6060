/* experts_y.cuh - from the sums of warps to what a launch writes: h or y. */
#ifndef KERF_EXPERTS_Y_CUH
#define KERF_EXPERTS_Y_CUH

#include "cuda/experts/experts_groups.cuh"

#include "cuda/gemv/gemv_multiply.cuh"
#include "cuda/gemv/gemv_sums.cuh"

namespace
{

__device__ __forceinline__ float number_at(kerf_dtype t, const uint8_t *p, uint64_t i)
{
    if (t == KERF_F32) return ((const float *)p)[i];
    uint32_t u = ((const uint16_t *)p)[i];
    return t == KERF_BF16 ? __uint_as_float(u << 16)
                          : __half2float(__ushort_as_half((unsigned short)u));
}

__device__ __forceinline__ void put_number(kerf_dtype t, uint8_t *p, uint64_t i, float v)
{
    if (t == KERF_F32)
        ((float *)p)[i] = v;
    else if (t == KERF_F16)
        ((__half *)p)[i] = __float2half_rn(v);
    else
        ((uint16_t *)p)[i] = kf_bf16_encode(v);
}

/* Biases of gate and of up, of number k of h. */
__device__ __forceinline__ void gate_biases(const kf_experts_job &j, uint32_t expert, uint32_t k,
                                            float bias[2])
{
    const uint32_t gate_row = j.alternating ? 2 * k : j.first[0] + k;
    const uint32_t up_row = j.alternating ? 2 * k + 1 : j.first[1] + k;
    const uint64_t before = (uint64_t)expert * j.rows;
    bias[0] = number_at(j.bias_type, j.stack[0].bias, before + gate_row);
    bias[1] = number_at(j.bias_type, j.stack[1].bias, before + up_row);
}

/* h from gate and up. */
__device__ __forceinline__ float activated(const kf_experts_job &j, float gate, float up)
{
    if (!j.clamped) return silu(gate) * up;
    /* NaN stays what it is, as in min and max of IEEE's newer kind. */
    if (gate > j.limit) gate = j.limit;
    if (up > j.limit) up = j.limit;
    if (up < -j.limit) up = -j.limit;
    return gate / (1.0f + expf(-1.702f * gate)) * (up + 1.0f);
}

/* The same from the products of a row of each. */
__device__ __forceinline__ float gated(const kf_experts_job &j, uint32_t expert, uint32_t k,
                                       float gate, float up)
{
    if (j.stack[0].bias) {
        float bias[2];
        gate_biases(j, expert, k, bias);
        gate += bias[0];
        up += bias[1];
    }
    return activated(j, gate, up);
}

/* What biases add to y of a token and row: in the order of groups. */
__device__ __forceinline__ float down_biases(const kf_experts_job &j, const expert_groups &g,
                                             uint32_t token, uint32_t row)
{
    float sum = 0;
    uint32_t bit = OF_BOTH ? 1u << token : 1u << token % 8;
    for (uint32_t i = 0; i < g.count; i++) {
        if ((!OF_BOTH && g.half[i] != token / 8) || !(g.bits(i) & bit)) continue;
        float w = g.weight[g.column[i] + __popc(g.bits(i) & (bit - 1))];
        sum += w * number_at(j.bias_type, j.stack[0].bias, (uint64_t)g.expert[i] * j.rows + row);
    }
    return sum;
}

/* Sums of so many items are there at once: what one warp leaves of an item, another may still add
 * up of the second one before. */
constexpr uint32_t SUM_TURNS = KF_EXPERTS_TURNS;

/* Where the sums of a column of a warp are, of an item: 16 of them. */
__device__ __forceinline__ uint32_t sums_of(const kf_experts_job &j, uint32_t mats, uint32_t turn,
                                            uint32_t warp, uint32_t m, uint32_t column)
{
    return j.sums_at + (((turn * j.warps + warp) * mats + m) * j.sum_cols + column) * (TILE * 4);
}

/* A warp's sums of an item: gate and up by rank in the group; down by token. */
template <int MATS>
__device__ __forceinline__ void leave_sums(const kf_experts_job &j, const expert_groups &g,
                                           uint32_t item, uint32_t turn, uint32_t warp,
                                           uint32_t lane, uint32_t base, const float total[2][4])
{
    uint32_t mask = MATS == 2 ? g.mask[item / j.tiles] : 0;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t token = lane % 4 * 2 + i, column = MATS == 2 ? token : m * 8 + token;
            if (MATS == 2) {
                if (!(mask >> token & 1)) continue;
                column = __popc(mask & ((1u << token) - 1));
            } else if (column >= j.tokens) {
                continue;
            }
            uint32_t to =
                base + sums_of(j, MATS, turn, warp, MATS == 2 ? m : 0, column) + lane / 4 * 4;
            put_word(to, __float_as_uint(total[m][i]));
            put_word(to + 32, __float_as_uint(total[m][2 + i]));
        }
}

template <int MATS>
__device__ __forceinline__ float whole_sum(const kf_experts_job &j, const uint8_t *shared,
                                           uint32_t turn, uint32_t m, uint32_t column, uint32_t row)
{
    float sum = 0, v[KF_EXPERTS_WARPS];
#pragma unroll
    for (uint32_t w = 0; w < KF_EXPERTS_WARPS; w++)
        v[w] = w < j.warps
                   ? *(const float *)(shared + sums_of(j, MATS, turn, w, m, column) + row * 4)
                   : 0;
#pragma unroll
    for (uint32_t w = 0; w < KF_EXPERTS_WARPS; w++) sum += v[w];
    return sum;
}

/* A column of y of a tile, lanes for its rows; v: its sum. */
__device__ __forceinline__ void put_down(const kf_experts_job &j, const expert_groups &g,
                                         uint32_t column, uint32_t k, float v)
{
    if (column >= j.tokens || k >= j.out) return;
    if (j.stack[0].bias) v += down_biases(j, g, column, k);
    put_number(j.y_type, j.y, column * j.y_stride + k, v);
}

/* A column of h, which takes 32 lanes: 16 rows of gate and 16 of up. */
__device__ __forceinline__ void finish_column(const kf_experts_job &j, const expert_groups &g,
                                              uint32_t group, uint32_t tile, uint32_t column,
                                              uint32_t turn, uint32_t lane, const uint8_t *shared)
{
    const uint32_t r = lane % TILE, k = tile * TILE + r;
    float v = whole_sum<2>(j, shared, turn, lane / TILE, column, r);
    float gate = __shfl_sync(0xffffffffu, v, j.alternating ? 2 * r : r);
    float up = __shfl_sync(0xffffffffu, v, j.alternating ? 2 * r + 1 : r + TILE);
    if (lane < TILE && k < j.out)
        put_number(j.y_type, j.y, (g.column[group] + column) * j.y_stride + k,
                   gated(j, g.expert[group], k, gate, up));
}

/* Adds up the warps of an item whose sums are in a turn, and writes: f(i) for the warp's share of
 * `need` tasks. Some warps have the work, others the next time. */
template <typename F>
__device__ __forceinline__ void share_tasks(const kf_experts_job &j, uint32_t need, uint32_t done,
                                            uint32_t warp, F f)
{
    const uint32_t begin = done * need % j.warps;
    uint32_t i = warp >= begin ? warp - begin : warp + j.warps - begin;
    for (; i < need; i += j.warps) f(i);
}

/* Item number `done` of the block; group: of gate and up. */
template <int MATS>
__device__ __forceinline__ void finish_item(const kf_experts_job &j, const expert_groups &g,
                                            uint32_t group, uint32_t tile, uint32_t done,
                                            uint32_t warp, uint32_t lane, const uint8_t *shared)
{
    const uint32_t turn = done % SUM_TURNS;
    if constexpr (MATS == 2)
        share_tasks(j, __popc(g.mask[group]), done, warp,
                    [&](uint32_t i) { finish_column(j, g, group, tile, i, turn, lane, shared); });
    else
        share_tasks(j, (j.tokens + 1) / 2, done, warp, [&](uint32_t i) {
            const uint32_t column = 2 * i + lane / TILE, r = lane % TILE;
            if (column >= j.tokens) return;
            put_down(j, g, column, tile * TILE + r, whole_sum<1>(j, shared, turn, 0, column, r));
        });
}

} // namespace

#endif
