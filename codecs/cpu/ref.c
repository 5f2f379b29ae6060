/* ref.c - the reference backend: one band at a time, one element at a time, straight from the
 * block headers. It defines what every other backend must produce.
 *
 * Each row of formats.def becomes three functions whose spec is a literal, so the compiler drops
 * everything that the format does not use. */
#include "block/all.h"
#include "block/struct.h"
#include "cpu/ops.h"
#include "cpu/widen.h"
#include "format.h"
#include "scalar/pack.h"

/* Groups along a row, and elements of one. Formats without groups have one as wide as the row. */
KF_HD size_t group_count(kf_spec s, const kf_band *b)
{
    int grouped = s.geometry == KERF_GROUP_BLOCK || s.geometry == KERF_GROUP_FLAT ||
                  s.geometry == KERF_GROUP_TILE || s.geometry == KERF_GROUP_STRUCT;
    return grouped ? (b->cols + s.group - 1) / s.group : 1;
}

KF_HD size_t group_width(kf_spec s, const kf_band *b)
{
    return s.group ? s.group : b->cols;
}

/* Columns of group i; the last group of a row may be short. */
KF_HD size_t group_cols(kf_spec s, const kf_band *b, size_t i)
{
    size_t width = group_width(s, b), left = b->cols - i * width;
    return left < width ? left : width;
}

KF_HD kf_group group_at(kf_spec s, const kf_band *b, const float *x, size_t i)
{
    size_t width = group_width(s, b), cols = group_cols(s, b, i);
    kf_group g = {x + i * width, b->rows, cols, b->cols, cols == width};
    return g;
}

KF_HD size_t row_bytes(kf_spec s, const kf_band *b)
{
    if (s.geometry == KERF_GROUP_STRUCT)
        return b->cols / kf_struct_elements(s) * kf_struct_bytes(s);
    return kf_packed_bytes(s.bits, b->cols);
}

/* Where the scale of group i lies. */
KF_HD uint8_t *scale_at(kf_spec s, const kf_band *b, size_t i)
{
    if (s.geometry == KERF_GROUP_STRUCT) return b->plane[KERF_PLANE_CODES] + kf_struct_scale(s, i);
    return b->plane[KERF_PLANE_SCALES] + i * kf_scale_bytes(s.scale);
}

/* --- encode ----------------------------------------------------------------------------------- */

KF_HD void encode_codes(kf_spec s, const kf_band *b, kf_group g, size_t first, kf_quant q)
{
    for (size_t r = 0; r < g.rows; r++) {
        uint8_t *row = b->plane[KERF_PLANE_CODES] + r * row_bytes(s, b);
        for (size_t c = 0; c < g.cols; c++)
            kf_put_code(row, s.bits, kf_code_place(s, first + c), kf_code(s, q, g.x[r * g.ld + c]));
    }
}

KF_HD size_t encode_band(kf_spec s, const kf_band *b)
{
    float *x = b->scratch, *absmax = b->scratch + b->rows * b->cols;
    size_t bad = kf_widen(b->dtype, b->source, b->rows * b->cols, b->nan, x);
    if (bad != KF_NO_ELEMENT) return bad;

    size_t groups = group_count(s, b);
    int per_group = s.geometry != KERF_GROUP_NONE && s.geometry != KERF_GROUP_TENSOR;
    memset(b->plane[KERF_PLANE_CODES], 0, b->rows * row_bytes(s, b));
    if (per_group && s.zero == KERF_ZERO_CODE)
        memset(b->plane[KERF_PLANE_ZEROS], 0, kf_packed_bytes(s.bits, groups));
    if (s.geometry == KERF_GROUP_FLAT && b->cols % 2) /* the padding of the last byte is a zero */
        kf_put_code(b->plane[KERF_PLANE_CODES], s.bits, kf_code_place(s, b->cols), KF_NF4_ZERO);

    for (size_t i = 0; i < groups; i++) {
        kf_group g = group_at(s, b, x, i);
        kf_scale scale = {b->tensor->bits, b->tensor->zero};
        if (per_group) scale = kf_choose(s, b->encoder, b->tensor, g);
        if (s.second == KERF_SECOND_NESTED)
            absmax[i] = kf_float(scale.bits);
        else if (per_group)
            kf_put_code(scale_at(s, b, i), 8 * kf_scale_bytes(s.scale), 0, scale.bits);
        if (per_group && s.zero == KERF_ZERO_CODE)
            kf_put_code(b->plane[KERF_PLANE_ZEROS], s.bits, i, scale.zero);
        kf_quant q = kf_quant_init(s, b->encoder, b->tensor, scale, g);
        encode_codes(s, b, g, (size_t)(g.x - x), q);
    }
    if (s.second == KERF_SECOND_NESTED) {
        float second = kf_nf4_nest(absmax, groups, b->tensor->offset, b->plane[KERF_PLANE_SCALES]);
        kf_put_code(b->plane[KERF_PLANE_SECOND], 32, 0, kf_bits(second));
    }
    return KF_NO_ELEMENT;
}

/* --- decode ----------------------------------------------------------------------------------- */

KF_HD kf_dequant group_dequant(kf_spec s, const kf_band *b, size_t i)
{
    int per_matrix = s.geometry == KERF_GROUP_TENSOR;
    kf_scale scale = {0, 0};
    float second = 1, offset = 0;
    if (s.scale != KERF_SCALE_NONE)
        scale.bits =
            kf_get_code(scale_at(s, b, per_matrix ? 0 : i), 8 * kf_scale_bytes(s.scale), 0);
    if (s.zero == KERF_ZERO_CODE)
        scale.zero = kf_get_code(b->plane[KERF_PLANE_ZEROS], s.bits, per_matrix ? 0 : i);
    if (s.second != KERF_SECOND_NONE)
        second = kf_float(kf_get_code(b->plane[KERF_PLANE_SECOND], 32, 0));
    if (s.zero == KERF_ZERO_F32) offset = kf_float(kf_get_code(b->plane[KERF_PLANE_ZEROS], 32, 0));
    return kf_dequant_init(s, scale, second, offset);
}

KF_HD void decode_band(kf_spec s, const kf_band *b)
{
    for (size_t i = 0; i < group_count(s, b); i++) {
        kf_dequant d = group_dequant(s, b, i);
        size_t first = i * group_width(s, b), end = first + group_cols(s, b, i);
        for (size_t r = 0; r < b->rows; r++) {
            const uint8_t *row = b->plane[KERF_PLANE_CODES] + r * row_bytes(s, b);
            for (size_t c = first; c < end; c++) {
                float x = kf_decoded(s, d, kf_get_code(row, s.bits, kf_code_place(s, c)));
                kf_store(b->dtype, b->target, r * b->cols + c, x);
            }
        }
    }
}

/* --- clip share ------------------------------------------------------------------------------- */

KF_HD size_t count_clipped_band(kf_spec s, const kf_band *b)
{
    size_t clipped = 0;
    uint32_t lo = 0, hi = 0;
    if (s.bits > 8) return 0; /* casts: what overflows shows as an infinite error */
    kf_extreme_codes(s, &lo, &hi);
    for (size_t i = 0; i < group_count(s, b); i++) {
        kf_dequant d = group_dequant(s, b, i);
        size_t first = i * group_width(s, b), end = first + group_cols(s, b, i);
        float a = kf_value(s, d, lo), z = kf_value(s, d, hi); /* a scale may be negative */
        float least = kf_min(a, z), largest = kf_max(a, z);
        for (size_t r = 0; r < b->rows; r++) {
            for (size_t c = first; c < end; c++) {
                float x = kf_load(b->dtype, b->source, r * b->cols + c);
                clipped += x < least || x > largest;
            }
        }
    }
    return clipped;
}

/* --- one set of functions per format ---------------------------------------------------------- */

#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note) \
    static const kf_spec spec_##ID =                                                               \
        KF_SPEC(ID, family, elem, geometry, group, scale, second, zero);                           \
    static size_t encode_##ID(const kf_band *b)                                                    \
    {                                                                                              \
        return encode_band(spec_##ID, b);                                                          \
    }                                                                                              \
    static void decode_##ID(const kf_band *b)                                                      \
    {                                                                                              \
        decode_band(spec_##ID, b);                                                                 \
    }                                                                                              \
    static size_t count_clipped_##ID(const kf_band *b)                                             \
    {                                                                                              \
        return count_clipped_band(spec_##ID, b);                                                   \
    }
#include <kerf/formats.def>
#undef KERF_FORMAT

static const kf_codec_ops ops[] = {
#define KERF_FORMAT(ID, ...) {encode_##ID, decode_##ID, count_clipped_##ID},
#include <kerf/formats.def>
#undef KERF_FORMAT
};

const kf_codec_ops *kf_ref_ops(const kerf_format *f)
{
    return &ops[kf_format_index(f)];
}
