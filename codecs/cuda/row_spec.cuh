/* row_spec.cuh - the row of formats.def that a translation unit is made for: KF_ROW_ID names it,
 * KF_ROW is what it says. spec_ID is that of every row. */
#ifndef KERF_CUDA_ROW_SPEC_CUH
#define KERF_CUDA_ROW_SPEC_CUH

#include "block/all.h"

#define KF_PASTE(a, b) a##b
#define KF_NAME(prefix, id) KF_PASTE(prefix, id)

namespace
{

#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note) \
    constexpr kf_spec spec_##ID = KF_SPEC(ID, family, elem, geometry, group, scale, second, zero);
#include <kerf/formats.def>
#undef KERF_FORMAT

constexpr kf_spec KF_ROW = KF_NAME(spec_, KF_ROW_ID);

} // namespace

#endif
