/* experts_groups.cuh - routes -> which expert has which tokens, found by every block for itself.
 *
 * A group is an expert and up to j.share of its tokens, what one reading of weights serves: of
 * either half (0 .. 7, 8 .. 15) of all tokens; of both where there are groups of four. Its tokens
 * are columns of h, counted over all groups. Groups are in the order in which slots first name
 * their experts, so both launches find the same. */
#ifndef KERF_EXPERTS_GROUPS_CUH
#define KERF_EXPERTS_GROUPS_CUH

#include "cuda/experts/experts_job.h"

/* Whether a translation unit has groups of up to four tokens: rows that have them, GGUF's blocks,
 * have a second unit for them. A macro, since kernels keep their registers only
 * where the compiler does not see a second product at all. */
#ifndef KF_FOURS
#define KF_FOURS 0
#endif

namespace
{

constexpr bool HAS_FOURS = KF_FOURS;

/* Whether the tokens of a group are of both halves. */
constexpr bool OF_BOTH = HAS_FOURS;

struct expert_groups {
    float weight[KF_EXPERTS_SLOTS];     /* of a column: the token's for the expert */
    uint32_t expert[KF_EXPERTS_SLOTS];  /* of a group */
    uint16_t column[KF_EXPERTS_SLOTS];  /* of h: a group's first */
    uint8_t mask[KF_EXPERTS_SLOTS];     /* of a group: its tokens of eight */
    uint8_t half[KF_EXPERTS_SLOTS];     /* which eight; OF_BOTH: its tokens of the other eight */
    uint8_t token[KF_EXPERTS_SLOTS];    /* of a column */
    uint16_t of_slot[KF_EXPERTS_SLOTS]; /* a slot's column, or NO_COLUMN: it counts for nothing, or
                                         * with another one of its token */
    uint32_t count;
    static constexpr uint32_t NO_COLUMN = 0xffff;

    /* A group's tokens as bits; and how many they are. */
    __device__ __forceinline__ uint32_t bits(uint32_t i) const
    {
        return OF_BOTH ? mask[i] | half[i] << 8 : mask[i];
    }
    __device__ __forceinline__ uint32_t tokens(uint32_t i) const { return __popc(bits(i)); }
};
static_assert(sizeof(expert_groups) <= KF_EXPERTS_LISTS, "lists take more");

/* What slots say while groups are being found. */
struct alignas(16) expert_slots {
    int32_t id[KF_EXPERTS_SLOTS]; /* -1: counts for nothing */
    float weight[KF_EXPERTS_SLOTS];
    uint32_t before[KF_EXPERTS_SLOTS]; /* first the bit of its token; then groups of all leaders
                                        * before, and columns << 16 */
    uint32_t view[KF_EXPERTS_SLOTS];   /* what it knows of the others ...          */
    float sum[KF_EXPERTS_SLOTS];       /* ... and the weight of all of its token's */
};
static_assert(sizeof(expert_slots) <= KF_EXPERTS_SCRATCH + 128, "scratch takes more");

__device__ __forceinline__ uint32_t groups_of(uint32_t mask, uint32_t share)
{
    if (OF_BOTH) return (__popc(mask) + share - 1) / share;
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

/* What a slot knows of the others: */
struct slot_view {
    uint32_t mask;   /* tokens that name its expert */
    uint32_t leader; /* the first slot that does    */
    bool is_first;   /* of its token                */
    float weight;    /* of all of its token's       */

    /* Of slot i; `lanes` lanes side by side look at a part of the others each. All lanes of a warp;
     * i may be no slot. */
    __device__ __forceinline__ void look(const kf_experts_job &j, const expert_slots &s, uint32_t i,
                                         uint32_t part, uint32_t lanes)
    {
        const uint32_t slots = j.tokens * j.top_k;
        const int32_t id = i < slots ? s.id[i] : -1;
        uint32_t count = 0;
        mask = 0, leader = slots, is_first = true, weight = i < slots ? s.weight[i] : 0;
#pragma unroll 2
        for (uint32_t at = part * 4; at < slots; at += lanes * 4) {
            const int4 ids = *(const int4 *)(s.id + at);
            const uint4 bits = *(const uint4 *)(s.before + at);
            const int32_t other[4] = {ids.x, ids.y, ids.z, ids.w};
            const uint32_t bit[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
            for (int e = 0; e < 4; e++) {
                if (other[e] != id) continue;
                mask |= bit[e];
                leader = min(leader, at + e);
                count++;
            }
        }
        for (uint32_t d = 1; d < lanes; d *= 2) {
            mask |= __shfl_xor_sync(0xffffffffu, mask, d);
            leader = min(leader, __shfl_xor_sync(0xffffffffu, leader, d));
            count += __shfl_xor_sync(0xffffffffu, count, d);
        }
        if (id < 0)
            mask = 0, leader = slots, is_first = false, weight = 0;
        else if (count != (uint32_t)__popc(mask))
            add_others(j, s, i);
    }
    /* Some token names the expert more than once. */
    __device__ __forceinline__ void add_others(const kf_experts_job &j, const expert_slots &s,
                                               uint32_t i)
    {
        const uint32_t from = i / j.top_k * j.top_k;
        weight = 0;
        for (uint32_t at = from; at < from + j.top_k; at++) {
            if (s.id[at] != s.id[i]) continue;
            is_first = is_first && at >= i;
            weight = weight + s.weight[at];
        }
    }
};

/* Groups that a slot leads, and columns << 16. */
__device__ __forceinline__ uint32_t share_of_slot(const expert_slots &s, uint32_t i, uint32_t share)
{
    const uint32_t mask = s.view[i] & 0xffff;
    const bool leads = (s.view[i] >> 16 & 0x1ff) == i;
    return leads ? groups_of(mask, share) | (uint32_t)__popc(mask) << 16 : 0;
}

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
    const uint32_t warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (uint32_t i = threadIdx.x; i < (slots + 3) / 4 * 4; i += blockDim.x) {
        const int32_t id = i < slots ? __ldcg(j.ids + i) : -1;
        const float w = i < slots ? __ldcg(j.weights + i) : 0;
        s.id[i] = id < 0 || (uint32_t)id >= j.experts || w == 0 ? -1 : id;
        s.weight[i] = w;
        s.before[i] = 1u << i / j.top_k;
    }
    __syncthreads();
    const uint32_t lanes = slots * 4 <= blockDim.x ? 4 : slots * 2 <= blockDim.x ? 2 : 1;
    for (uint32_t first = warp * 32; first < slots * lanes; first += blockDim.x) {
        const uint32_t i = (first + lane) / lanes, part = lane % lanes;
        slot_view v;
        v.look(j, s, i, part, lanes);
        if (part || i >= slots) continue;
        s.view[i] = v.mask | v.leader << 16 | (uint32_t)v.is_first << 31;
        s.sum[i] = v.weight;
    }
    __syncthreads();
    for (uint32_t first = warp * 32; first < slots; first += warps * 32) {
        uint32_t before = 0;
        for (uint32_t at = lane; at < first; at += 32) before += share_of_slot(s, at, j.share);
        before = __reduce_add_sync(0xffffffffu, before);
        const uint32_t mine = first + lane < slots ? share_of_slot(s, first + lane, j.share) : 0;
        const uint32_t upto = before + scan_warp(mine, lane);
        if (first + lane < slots) s.before[first + lane] = upto - mine;
        if (first + 32 >= slots && lane == 31) g.count = upto & 0xffff;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < slots; i += blockDim.x) {
        g.of_slot[i] = expert_groups::NO_COLUMN;
        if (s.id[i] < 0) continue;
        const uint32_t view = s.view[i];
        slot_view v = {view & 0xffff, view >> 16 & 0x1ff, (view >> 31) != 0, s.sum[i]};
        uint32_t from = s.before[v.leader], token = i / j.top_k;
        if (v.is_first) {
            const uint32_t own = (from >> 16) + __popc(v.mask & ((1u << token) - 1));
            g.weight[own] = v.weight;
            g.token[own] = (uint8_t)token;
            g.of_slot[i] = (uint16_t)own;
        }
        if (v.leader != i) continue;
        uint32_t n = from & 0xffff, column = from >> 16;
        for (uint32_t half = 0; half < (OF_BOTH ? 1 : 2); half++)
            for (uint32_t left = OF_BOTH ? v.mask : v.mask >> 8 * half & 0xff; left; n++) {
                uint32_t some = lowest(left, j.share);
                g.expert[n] = (uint32_t)s.id[i];
                g.column[n] = (uint16_t)column;
                g.mask[n] = (uint8_t)some;
                g.half[n] = (uint8_t)(OF_BOTH ? some >> 8 : half);
                column += __popc(some);
                left &= ~some;
            }
    }
    __syncthreads();
}

} // namespace

#endif
