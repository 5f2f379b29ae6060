/* gemv_row_spec.cuh - the row of formats.def that a translation unit of products is made for:
 * KF_ROW_ID names it, KF_ROW is what it says. */
#ifndef KERF_GEMV_ROW_SPEC_CUH
#define KERF_GEMV_ROW_SPEC_CUH

#include "block/all.h"
#include "scalar/pack.h"
#include "cuda/gemv/gemv_job.h"

#define KF_PASTE(a, b) a##b
#define KF_NAME(prefix, id) KF_PASTE(prefix, id)

namespace
{

#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note) \
    constexpr kf_spec spec_##ID = KF_SPEC(ID, family, elem, geometry, group, scale, second, zero);
#include <kerf/formats.def>
#undef KERF_FORMAT

constexpr kf_spec KF_ROW = KF_NAME(spec_, KF_ROW_ID);

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
