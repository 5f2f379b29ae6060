/* gemv_row_spec.cuh - the row of formats.def that a translation unit of products is made for, and
 * whether it needs kernels of its own. */
#ifndef KERF_GEMV_ROW_SPEC_CUH
#define KERF_GEMV_ROW_SPEC_CUH

/* Whether rows are GGUF's blocks, which are read in place of planes: cuda/few/blocks_unit.cuh. */
#ifndef KF_BLOCKS
#define KF_BLOCKS 0
#endif

#include "scalar/pack.h"
#include "cuda/gemv/gemv_job.h"
#include "cuda/row_spec.cuh"

namespace
{

/* Whether another row's kernels for tiles serve this one. */
constexpr bool borrows()
{
    bool found = false;
#define KERF_FORMAT(ID, ...) found = found || kf_gemv_lends(spec_##ID, KF_ROW);
#include <kerf/formats.def>
#undef KERF_FORMAT
    return found;
}

} // namespace

#endif
