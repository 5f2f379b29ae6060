/* all.h - every family of formats.def behind six functions that switch on spec.family. With a
 * literal spec the switch folds away. */
#ifndef KERF_BLOCK_ALL_H
#define KERF_BLOCK_ALL_H

#include "block/encoder.h"
#include "block/spec.h"
#include "block/struct.h"
#include "scalar/pack.h"

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
    kf_dequant none = {0, 0, 0};
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

/* What decode writes: the number of a code, where every NaN that arithmetic made is the same quiet
 * one. Which payload a product keeps differs between processors. Casts keep theirs. */
KF_HD float kf_decoded(kf_spec s, kf_dequant d, uint32_t code)
{
    float x = kf_value(s, d, code);
    return x == x || s.family == KERF_FAMILY_CAST ? x : kf_float(0x7fc00000u);
}

/* The codes of the least and the largest finite number: with any positive scale and any zero
 * point they stay the extremes of a group. For codes of up to 8 bits. */
KF_HD void kf_extreme_codes(kf_spec s, uint32_t *lo, uint32_t *hi)
{
    kf_dequant unit = {1, 0, 0};
    *lo = *hi = 0;
    for (uint32_t code = 0; code < 1u << s.bits; code++) {
        float v = kf_value(s, unit, code);
        if (!kf_is_finite(v)) continue;
        if (v < kf_value(s, unit, *lo)) *lo = code;
        if (v > kf_value(s, unit, *hi)) *hi = code;
    }
}

/* Formats whose scales and codes share one plane: the struct that rows consist of. */
KF_HD int kf_is_inline(kf_spec s)
{
    return s.geometry == KERF_GROUP_STRUCT || s.geometry == KERF_GROUP_SUPER;
}

KF_HD unsigned kf_inline_elements(kf_spec s)
{
    return s.geometry == KERF_GROUP_SUPER ? kf_super_of(s).elements : kf_struct_elements(s);
}

KF_HD unsigned kf_inline_bytes(kf_spec s)
{
    return s.geometry == KERF_GROUP_SUPER ? kf_super_of(s).bytes : kf_struct_bytes(s);
}

/* Where code i of a row stands: NF4 has the even element in the high nibble. */
KF_HD size_t kf_code_place(kf_spec s, size_t i)
{
    if (s.geometry == KERF_GROUP_STRUCT) return kf_struct_code(s, i);
    return s.element == KERF_ELEM_NF4 ? i ^ 1 : i;
}

/* The struct of geometry SUPER that holds element i of a row. */
KF_HD const uint8_t *kf_block_at(kf_spec s, const uint8_t *row, size_t i)
{
    const kf_super k = kf_super_of(s);
    return row + i / k.elements * k.bytes;
}

/* Code i of a row. */
KF_HD uint32_t kf_row_code(kf_spec s, const uint8_t *row, size_t i)
{
    if (s.geometry != KERF_GROUP_SUPER) return kf_get_code(row, s.bits, kf_code_place(s, i));
    const kf_super k = kf_super_of(s);
    return kf_super_get(k, kf_block_at(s, row, i), (unsigned)(i % k.elements));
}

/* Geometry SUPER: how the codes of group i of a row become numbers. */
KF_HD kf_dequant kf_block_dequant(kf_spec s, const uint8_t *row, size_t i)
{
    const kf_super k = kf_super_of(s);
    const size_t first = i * s.group;
    return kf_super_group(k, kf_block_at(s, row, first), (unsigned)(first % k.elements / s.group));
}

#endif
