/* experts_groups.cuh - routes -> which expert has which tokens, found by every block for itself.
 *
 * A group is an expert and up to j.share tokens of either half (0 .. 7, 8 .. 15) of all tokens:
 * what one reading of weights serves. Its tokens are columns of h, counted over all groups. Groups
 * are in the order in which slots first name their experts, so both launches find the same. */
#ifndef KERF_EXPERTS_GROUPS_CUH
#define KERF_EXPERTS_GROUPS_CUH

#include "cuda/experts/experts_job.h"

namespace
{

struct expert_groups {
    float weight[KF_EXPERTS_SLOTS];    /* of a column: the token's for the expert */
    uint32_t expert[KF_EXPERTS_SLOTS]; /* of a group */
    uint16_t column[KF_EXPERTS_SLOTS]; /* of h: a group's first */
    uint8_t mask[KF_EXPERTS_SLOTS];    /* of a group: its tokens of eight */
    uint8_t half[KF_EXPERTS_SLOTS];
    uint8_t token[KF_EXPERTS_SLOTS]; /* of a column */
    uint32_t count;
};
static_assert(sizeof(expert_groups) <= KF_EXPERTS_LISTS, "lists take more");

/* What slots say while groups are being found. */
struct expert_slots {
    int32_t id[KF_EXPERTS_SLOTS]; /* -1: counts for nothing */
    float weight[KF_EXPERTS_SLOTS];
    uint32_t before[KF_EXPERTS_SLOTS]; /* of a leader: groups before its own, and columns << 16 */
    uint32_t warp[KF_EXPERTS_SLOTS / 32];
    uint32_t view[KF_EXPERTS_SLOTS]; /* what it knows of the others, once they are looked at */
    float sum[KF_EXPERTS_SLOTS];
};
static_assert(sizeof(expert_slots) <= KF_EXPERTS_SCRATCH + 128, "scratch takes more");

__device__ __forceinline__ uint32_t groups_of(uint32_t mask, uint32_t share)
{
    return (__popc(mask & 0xff) + share - 1) / share + (__popc(mask >> 8) + share - 1) / share;
}

/* The lowest n bits that are set. */
__device__ __forceinline__ uint32_t lowest(uint32_t mask, uint32_t n)
{
    uint32_t out = 0;
    for (; n && mask; n--) {
        out |= mask & (0u - mask);
        mask &= mask - 1;
    }
    return out;
}

/* Everything that slot i knows of the others. */
struct slot_view {
    uint32_t mask;   /* tokens that name its expert */
    uint32_t leader; /* the first slot that does    */
    bool is_first;   /* of its token                */
    float weight;    /* of all of its token's       */

    __device__ __forceinline__ void look(const kf_experts_job &j, const expert_slots &s, uint32_t i)
    {
        int32_t id = s.id[i];
        uint32_t token = i / j.top_k, at = 0;
        mask = 0, leader = i, is_first = true, weight = 0;
        for (uint32_t t = 0; t < j.tokens; t++)
            for (uint32_t k = 0; k < j.top_k; k++, at++) {
                if (s.id[at] != id) continue;
                mask |= 1u << t;
                leader = min(leader, at);
                if (t == token) {
                    is_first = is_first && at >= i;
                    weight = weight + s.weight[at];
                }
            }
    }
};

/* Sums over all slots before each; all threads of the block, which are no fewer than a warp for
 * each 32 slots that there are, or take turns. */
__device__ __forceinline__ uint32_t scan_warp(uint32_t v, uint32_t lane)
{
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        uint32_t other = __shfl_up_sync(0xffffffffu, v, step);
        if (lane >= (uint32_t)step) v += other;
    }
    return v;
}

__device__ void find_groups(const kf_experts_job &j, expert_groups &g, expert_slots &s)
{
    const uint32_t slots = j.tokens * j.top_k, lane = threadIdx.x % 32;
    const uint32_t rounds = (slots + 31) / 32 * 32;
    for (uint32_t i = threadIdx.x; i < slots; i += blockDim.x) {
        int32_t id = __ldcg(j.ids + i);
        float w = __ldcg(j.weights + i);
        s.id[i] = id < 0 || (uint32_t)id >= j.experts || w == 0 ? -1 : id;
        s.weight[i] = w;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < rounds; i += blockDim.x) {
        uint32_t mine = 0;
        if (i < slots && s.id[i] >= 0) {
            slot_view v;
            v.look(j, s, i);
            s.view[i] = v.mask | v.leader << 16 | (uint32_t)v.is_first << 24;
            s.sum[i] = v.weight;
            if (v.leader == i) mine = groups_of(v.mask, j.share) | __popc(v.mask) << 16;
        }
        uint32_t upto = scan_warp(mine, lane);
        if (i < slots) s.before[i] = upto - mine;
        if (lane == 31) s.warp[i / 32] = upto;
    }
    __syncthreads();
    auto before = [&](uint32_t i) {
        uint32_t sum = s.before[i];
        for (uint32_t w = 0; w < i / 32; w++) sum += s.warp[w];
        return sum;
    };
    for (uint32_t i = threadIdx.x; i < slots; i += blockDim.x) {
        if (s.id[i] < 0) continue;
        const uint32_t view = s.view[i];
        slot_view v = {view & 0xffff, view >> 16 & 0xff, (view >> 24) != 0, s.sum[i]};
        uint32_t from = before(v.leader), token = i / j.top_k;
        if (v.is_first) {
            const uint32_t own = (from >> 16) + __popc(v.mask & ((1u << token) - 1));
            g.weight[own] = v.weight;
            g.token[own] = (uint8_t)token;
        }
        if (v.leader != i) continue;
        uint32_t n = from & 0xffff, column = from >> 16;
        for (uint32_t half = 0; half < 2; half++)
            for (uint32_t left = v.mask >> 8 * half & 0xff; left; n++) {
                uint32_t some = lowest(left, j.share);
                g.expert[n] = (uint32_t)s.id[i];
                g.column[n] = (uint16_t)column;
                g.mask[n] = (uint8_t)some;
                g.half[n] = (uint8_t)half;
                column += __popc(some);
                left &= ~some;
            }
    }
    if (threadIdx.x == 0) {
        uint32_t all = 0;
        for (uint32_t w = 0; w < rounds / 32; w++) all += s.warp[w];
        g.count = all & 0xffff;
    }
    __syncthreads();
}

} // namespace

#endif
