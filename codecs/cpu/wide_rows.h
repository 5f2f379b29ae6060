/* wide_rows.h - the stages of every format of this unit.
 *
 * Formats that differ only in what a stage does not look at share it: each stage has a key, and the
 * first row of formats.def with the same key has its code. A key contains the family, so rows that
 * share a stage are in one unit. */
#ifndef KERF_WIDE_ROWS_H
#define KERF_WIDE_ROWS_H

#include "cpu/wide_family.h"
#include "cpu/wide_stages.h"

/* --- one set of stages per format --------------------------------------------------------------
 */

/* What stages look at. Of the geometry: whether scales are apart, and where codes lie; group sizes
 * are literals where scales are searched for or lie among the codes. */
#define GEOMETRY_KEY(geometry)                       \
    (KERF_GROUP_##geometry == KERF_GROUP_STRUCT ? 1u \
     : KERF_GROUP_##geometry == KERF_GROUP_FLAT ? 2u \
                                                : 0u)
#define SCALE_IS_APART(geometry) \
    (KERF_GROUP_##geometry != KERF_GROUP_NONE && KERF_GROUP_##geometry != KERF_GROUP_TENSOR)
#define STRUCT_KEY(geometry, group, scale) \
    (KERF_GROUP_##geometry == KERF_GROUP_STRUCT ? group * 16ull + KERF_SCALE_##scale : 0ull)
#define ELEMENT_KEY(family, elem, geometry, group, scale, second, zero)                       \
    (((((KERF_FAMILY_##family * 32ull + KERF_ELEM_##elem) * 4 + GEOMETRY_KEY(geometry)) * 2 + \
       (KERF_ZERO_##zero == KERF_ZERO_CODE)) *                                                \
          2 +                                                                                 \
      (KERF_SECOND_##second == KERF_SECOND_TENSOR)) *                                         \
         65536 +                                                                              \
     STRUCT_KEY(geometry, group, scale))
#define SCALE_KEY(family, elem, geometry, group, scale, second, zero)           \
    (((((ELEMENT_KEY(family, elem, geometry, group, scale, second, zero) * 16 + \
         KERF_SCALE_##scale) *                                                  \
            4 +                                                                 \
        KERF_SECOND_##second) *                                                 \
           4 +                                                                  \
       KERF_ZERO_##zero) *                                                      \
          2 +                                                                   \
      SCALE_IS_APART(geometry)) *                                               \
         4096 +                                                                 \
     (KERF_SECOND_##second == KERF_SECOND_TENSOR ? group : 0))

enum {
#define KF_ROW(ID, ...) AT_##ID,
#include "cpu/unit_rows.def"
};

/* The first row with this key. */
KF_HD int first_element(uint64_t key)
{
#define KF_ROW(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note) \
    if (key == ELEMENT_KEY(family, elem, geometry, group, scale, second, zero)) return AT_##ID;
#include "cpu/unit_rows.def"
    return -1;
}

KF_HD int first_scale(uint64_t key)
{
#define KF_ROW(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note) \
    if (key == SCALE_KEY(family, elem, geometry, group, scale, second, zero)) return AT_##ID;
#include "cpu/unit_rows.def"
    return -1;
}

#define KF_ROW(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note)      \
    _Static_assert(group == 0 || group * KF_TILE_GROUPS >= KF_TILE,                                \
                   #ID ": its groups are too small");                                              \
    _Static_assert(KERF_GROUP_##geometry != KERF_GROUP_TILE ||                                     \
                       group * KF_TILE_GROUPS >= KF_PIECE_COLUMNS,                                 \
                   #ID ": too many groups beside each other");                                     \
    static const kf_spec spec_##ID =                                                               \
        KF_SPEC(ID, family, elem, geometry, group, scale, second, zero);                           \
    KF_HD int has_scale_##ID(void)                                                                 \
    {                                                                                              \
        return first_scale(SCALE_KEY(family, elem, geometry, group, scale, second, zero)) ==       \
               AT_##ID;                                                                            \
    }                                                                                              \
    KF_HD int has_element_##ID(void)                                                               \
    {                                                                                              \
        return first_element(ELEMENT_KEY(family, elem, geometry, group, scale, second, zero)) ==   \
               AT_##ID;                                                                            \
    }                                                                                              \
    static void choose_##ID(const kf_band *b, size_t first, size_t n, size_t cols, int whole,      \
                            kf_tile *t)                                                            \
    {                                                                                              \
        if (has_scale_##ID()) choose_any_##family(spec_##ID, b, first, n, cols, whole, t);         \
    }                                                                                              \
    static void dequant_##ID(const kf_band *b, size_t first, size_t n, kf_tile *t)                 \
    {                                                                                              \
        if (has_scale_##ID()) dequant_any_##family(spec_##ID, b, first, n, t);                     \
    }                                                                                              \
    static void encode_##ID(size_t width, size_t n, size_t g, kf_tile *t)                          \
    {                                                                                              \
        if (has_element_##ID()) encode_any_##family(spec_##ID, width, n, g, t);                    \
    }                                                                                              \
    static void narrow_##ID(kerf_dtype type, const uint8_t *src, size_t width, size_t n, size_t g, \
                            kf_tile *t, uint8_t *out)                                              \
    {                                                                                              \
        if (has_element_##ID() && can_narrow(spec_##ID))                                           \
            narrow_any_##family(spec_##ID, type, src, width, n, g, t, out);                        \
    }                                                                                              \
    static void table_##ID(float table[16])                                                        \
    {                                                                                              \
        if (has_element_##ID()) table_any_##family(spec_##ID, table);                              \
    }                                                                                              \
    static void values_##ID(const uint8_t *codes, size_t first, size_t n, kf_tile *t)              \
    {                                                                                              \
        if (has_element_##ID()) values_any_##family(spec_##ID, codes, first, n, t);                \
    }                                                                                              \
    static void decode_##ID(size_t width, size_t n, size_t g, kf_tile *t)                          \
    {                                                                                              \
        if (has_element_##ID()) decode_any_##family(spec_##ID, width, n, g, t);                    \
    }                                                                                              \
    static void extremes_##ID(kf_tile *t, uint32_t *lo, uint32_t *hi)                              \
    {                                                                                              \
        if (has_element_##ID()) extremes_any_##family(spec_##ID, t, lo, hi);                       \
    }                                                                                              \
    static void bound_##ID(uint32_t lo, uint32_t hi, size_t n, kf_tile *t)                         \
    {                                                                                              \
        if (has_element_##ID()) bound_any_##family(spec_##ID, lo, hi, n, t);                       \
    }
#include "cpu/unit_rows.def"

static const scale_stages all_scale_stages[] = {
#define KF_ROW(ID, ...) {choose_##ID, dequant_##ID},
#include "cpu/unit_rows.def"
};

static const element_stages all_element_stages[] = {
#define KF_ROW(ID, ...) \
    {encode_##ID, narrow_##ID, table_##ID, values_##ID, decode_##ID, extremes_##ID, bound_##ID},
#include "cpu/unit_rows.def"
};

#define KF_ROW(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note)   \
    stages KF_ISA(stages_##ID)(void)                                                            \
    {                                                                                           \
        return (stages){spec_##ID,                                                              \
                        &all_scale_stages[first_scale(                                          \
                            SCALE_KEY(family, elem, geometry, group, scale, second, zero))],    \
                        &all_element_stages[first_element(                                      \
                            ELEMENT_KEY(family, elem, geometry, group, scale, second, zero))]}; \
    }
#include "cpu/unit_rows.def"

#endif
