/* stats.c - merging what was measured of parts of a matrix. */
#include "base/subnormals.h"
#include "block/stats.h"

void kerf_stats_merge(kerf_stats *into, const kerf_stats *from)
{
    const kf_subnormals mode = kf_subnormals_begin();
    into->amax = kf_max(into->amax, from->amax);
    into->min = kf_min(into->min, from->min);
    into->max = kf_max(into->max, from->max);
    into->blocks += from->blocks;
    for (unsigned i = 0; i < KF_LIMBS; i++) kf_sum_add(into->sum, i, from->sum[i]);
    kf_subnormals_end(mode);
}
