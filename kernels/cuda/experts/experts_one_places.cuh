/* experts_one_places.cuh - one token of a mixture-of-experts layer: its experts, and which units a
 * warp has of them.
 *
 * A result is 16 sums: a tile of gate or of up, or of y. It takes `steps` units, each a stage of
 * one expert's matrix: all stages of a row for gate and up; for y those of all experts one after
 * another, or a part of them where a team of blocks shares rows. */
#ifndef KERF_EXPERTS_ONE_PLACES_CUH
#define KERF_EXPERTS_ONE_PLACES_CUH

#include "cuda/experts/experts_feed.cuh"

namespace
{

/* --- the token's experts ------------------------------------------------------------------------
 */

/* Lane i of every warp has the i-th expert and its weight, in the order in which slots first name
 * them: no shared memory, and nobody waits for another. */
struct token_experts {
    uint32_t expert, count;
    float weight;

    /* Of the lane's slot; nothing that counts where it has none. */
    __device__ __forceinline__ void load(const kf_experts_job &j, uint32_t lane)
    {
        expert = ~0u;
        weight = 0;
        if (lane >= j.top_k) return;
        expert = __ldcg((const uint32_t *)j.ids + lane);
        weight = __ldcg(j.weights + lane);
    }
    __device__ __forceinline__ void resolve(const kf_experts_job &j, uint32_t lane)
    {
        const bool counts = expert < j.experts && weight != 0;
        const uint32_t same = __match_any_sync(0xffffffffu, counts ? expert : ~lane);
        const bool is_first = counts && lane + 1 == (uint32_t)__ffs((int)same);
        const uint32_t firsts = __ballot_sync(0xffffffffu, is_first);
        count = __popc(firsts);
        if (count < j.top_k) gather(j, lane, same, firsts);
    }
    /* Some slots count for nothing, or for the same expert as another. */
    __device__ __forceinline__ void gather(const kf_experts_job &j, uint32_t lane, uint32_t same,
                                           uint32_t firsts)
    {
        float sum = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < j.top_k; i++) {
            const float other = __shfl_sync(0xffffffffu, weight, i);
            if (same >> i & 1) sum += other;
        }
        const uint32_t from = lane < count ? __fns(firsts, 0, lane + 1) : 0;
        expert = __shfl_sync(0xffffffffu, expert, from);
        weight = __shfl_sync(0xffffffffu, sum, from);
    }
    /* All lanes of a warp ask, each for any. */
    __device__ __forceinline__ uint32_t expert_at(uint32_t i) const
    {
        return __shfl_sync(0xffffffffu, expert, i);
    }
    __device__ __forceinline__ float weight_at(uint32_t i) const
    {
        return __shfl_sync(0xffffffffu, weight, i);
    }
};

/* --- places -------------------------------------------------------------------------------------
 */

/* What a block has to do, if the token has so many experts. Which numbers of h it writes does not
 * depend on that: fewer experts leave some blocks without work. */
struct one_block {
    uint32_t item, items;  /* 16 numbers of h, counted over experts; of y */
    uint32_t results;      /* an item has two where it is gate and up     */
    uint32_t steps;        /* of each result ...                          */
    uint32_t group, stage; /* ... of which the first is of                */

    __device__ __forceinline__ void find(const kf_experts_job &j, uint32_t count)
    {
        const uint32_t teams = gridDim.x / j.team, team = blockIdx.x / j.team;
        const uint32_t all = j.is_down ? j.tiles : j.top_k * j.tiles;
        const uint32_t each = all / teams, rest = all % teams;
        const uint32_t rank = blockIdx.x % j.team;
        item = team * each + min(team, rest);
        items = each + (team < rest);
        if (!j.is_down) items = min(items, max(count * j.tiles, item) - item);
        results = j.is_down ? items : 2 * items;
        const uint32_t stages = j.is_down ? count * j.slices : j.slices;
        const uint32_t first = stages * rank / j.team;
        steps = stages * (rank + 1) / j.team - first;
        group = first / j.slices;
        stage = first - group * j.slices;
    }
};

/* A unit: which result of the block, which of its steps, and what that is of. */
struct one_place {
    uint32_t result, step;
    unit_at of; /* group: of the token's experts */

    __device__ __forceinline__ void begin(const kf_experts_job &j, const one_block &b,
                                          uint32_t unit)
    {
        result = b.steps ? unit / b.steps : 0;
        step = unit - result * b.steps;
        const uint32_t at = b.item + result / (j.is_down ? 1 : 2), stages = b.stage + step;
        const uint32_t before = (j.is_down ? stages : at) / (j.is_down ? j.slices : j.tiles);
        of.mat = j.is_down ? 0 : result % 2;
        of.group = j.is_down ? b.group + before : before;
        of.stage = j.is_down ? stages - before * j.slices : stages;
        of.tile = j.is_down ? at : at - before * j.tiles;
    }
    __device__ __forceinline__ unit_at where(const kf_experts_job &, const one_block &) const
    {
        return of;
    }
    /* Units from here to the end of the rows, or of those of this expert. */
    __device__ __forceinline__ uint32_t ahead(const kf_experts_job &j, const one_block &b) const
    {
        return min(b.steps - step, j.slices - of.stage);
    }
    /* Over n units, the last of these rows, on to others. */
    __device__ __forceinline__ void leave_rows(const kf_experts_job &j, const one_block &b,
                                               uint32_t n)
    {
        step += n;
        if (step < b.steps) { /* of y: the next expert */
            of.stage = 0;
            of.group++;
            return;
        }
        step = 0;
        of.stage = b.stage;
        result++;
        if (j.is_down) {
            of.group = b.group;
            of.tile++;
        } else if (of.mat ^= 1, of.mat == 0 && ++of.tile == j.tiles) {
            of.tile = 0;
            of.group++;
        }
    }
};

} // namespace

#endif
