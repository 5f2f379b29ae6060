/* experts_feed.cuh - how units of experts' weights come into the ring of a warp, in the kernels
 * that take them as cuda/few does. A unit is 16 rows of a stage of one matrix of an expert. */
#ifndef KERF_EXPERTS_FEED_CUH
#define KERF_EXPERTS_FEED_CUH

#if KF_BLOCKS
#include "cuda/experts/experts_blocks.cuh"
#else
#include "cuda/experts/experts_units.cuh"
#endif

namespace
{

constexpr uint32_t STAGE_OCTETS = STAGE_CODES / 8;
constexpr uint32_t UNIT_ROOM = kf_experts_unit(TILING); /* of a unit in the ring */

/* Until all but the last N groups of copies have arrived. */
template <int N> __device__ __forceinline__ void wait_groups()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Where a unit is. */
struct unit_at {
    uint32_t group, mat, tile, stage;
};

/* Copies a warp's units into its ring, one after another. PLACE is the next one's: where();
 * ahead(), how many lie one behind another from there on, in rows of one tile; and leave_rows(), on
 * to what comes then. */
template <typename PLACE> struct expert_feed {
    PLACE at;      /* where `run` began */
    uint32_t left; /* units from there on */
    uint32_t run;  /* units that lie one behind another and are not copied yet; 0: none is left */
    unit_copies copies;

    /* What does not depend on which expert it is. */
    template <typename BLOCK>
    __device__ __forceinline__ void aim_rows(const kf_experts_job &j, const BLOCK &b, uint32_t lane)
    {
        const unit_at u = at.where(j, b);
        run = min(left, at.ahead(j, b));
        copies.aim_rows(j, first_row(j, (int)u.mat, u.tile), u.stage, lane);
    }
    template <typename BLOCK, typename EXPERTS>
    __device__ __forceinline__ void aim_expert(const kf_experts_job &j, const BLOCK &b,
                                               const EXPERTS &e)
    {
        const unit_at u = at.where(j, b);
        const uint32_t expert = e.expert_at(u.group);
        copies.aim_expert(j.stack[u.mat], expert);
    }
    /* The next unit into the ring at `to`; whether what comes then is of other rows. */
    template <typename BLOCK>
    __device__ __forceinline__ bool fetch(const kf_experts_job &j, const BLOCK &b, uint32_t to,
                                          uint32_t lane)
    {
        copies.fetch(j, to, lane, [&] {
            const unit_at u = at.where(j, b);
            return j.rows - first_row(j, (int)u.mat, u.tile);
        });
        return --run == 0;
    }
    /* On to those rows; whether there are any. */
    template <typename BLOCK, typename EXPERTS>
    __device__ __forceinline__ bool go_on(const kf_experts_job &j, const BLOCK &b, const EXPERTS &e,
                                          uint32_t lane)
    {
        const uint32_t gone = min(left, at.ahead(j, b));
        left -= gone;
        if (!left) return false;
        at.leave_rows(j, b, gone);
        aim_rows(j, b, lane);
        aim_expert(j, b, e);
        return true;
    }
    /* The next unit of a run that is all that the warp has. */
    template <typename BLOCK, typename EXPERTS>
    __device__ __forceinline__ void next(const kf_experts_job &j, const BLOCK &b, const EXPERTS &e,
                                         uint32_t to, uint32_t lane)
    {
        if (run && fetch(j, b, to, lane)) go_on(j, b, e, lane);
    }
};

} // namespace

#endif
