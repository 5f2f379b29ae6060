/* all.h - every family of formats.def behind six functions that switch on spec.family. With a
 * literal spec the switch folds away. */
#ifndef KERF_BLOCK_ALL_H
#define KERF_BLOCK_ALL_H

#include "block/spec.h"

#define KERF_BLOCK_HEADERS
#include <kerf/formats.def>
#undef KERF_BLOCK_HEADERS

KF_HD kf_tensor kf_tensor_init(kf_spec s, int encoder, const kerf_stats *stats, int source)
{
    kf_tensor none = {0};
    switch (s.family) {
#define KERF_FAMILY(ID, prefix) \
    case KERF_FAMILY_##ID:      \
        return kf_##prefix##_tensor(s, encoder, stats, source);
#include <kerf/formats.def>
#undef KERF_FAMILY
    case KERF_FAMILY_NONE: break;
    }
    return none;
}

KF_HD kf_scale kf_choose(kf_spec s, int encoder, const kf_tensor *t, kf_group g)
{
    kf_scale none = {0, 0};
    switch (s.family) {
#define KERF_FAMILY(ID, prefix) \
    case KERF_FAMILY_##ID:      \
        return kf_##prefix##_choose(s, encoder, t, g);
#include <kerf/formats.def>
#undef KERF_FAMILY
    case KERF_FAMILY_NONE: break;
    }
    return none;
}

KF_HD kf_quant kf_quant_init(kf_spec s, int encoder, const kf_tensor *t, kf_scale scale, kf_group g)
{
    kf_quant none = {0};
    switch (s.family) {
#define KERF_FAMILY(ID, prefix) \
    case KERF_FAMILY_##ID:      \
        return kf_##prefix##_quant(s, encoder, t, scale, g);
#include <kerf/formats.def>
#undef KERF_FAMILY
    case KERF_FAMILY_NONE: break;
    }
    return none;
}

KF_HD uint32_t kf_code(kf_spec s, kf_quant q, float x)
{
    switch (s.family) {
#define KERF_FAMILY(ID, prefix) \
    case KERF_FAMILY_##ID:      \
        return kf_##prefix##_code(s, q, x);
#include <kerf/formats.def>
#undef KERF_FAMILY
    case KERF_FAMILY_NONE: break;
    }
    return 0;
}

KF_HD kf_dequant kf_dequant_init(kf_spec s, kf_scale scale, float second, float offset)
{
    kf_dequant none = {0, 0};
    switch (s.family) {
#define KERF_FAMILY(ID, prefix) \
    case KERF_FAMILY_##ID:      \
        return kf_##prefix##_dequant(s, scale, second, offset);
#include <kerf/formats.def>
#undef KERF_FAMILY
    case KERF_FAMILY_NONE: break;
    }
    return none;
}

KF_HD float kf_value(kf_spec s, kf_dequant d, uint32_t code)
{
    switch (s.family) {
#define KERF_FAMILY(ID, prefix) \
    case KERF_FAMILY_##ID:      \
        return kf_##prefix##_value(s, d, code);
#include <kerf/formats.def>
#undef KERF_FAMILY
    case KERF_FAMILY_NONE: break;
    }
    return 0;
}

#endif
