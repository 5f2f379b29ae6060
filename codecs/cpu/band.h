/* band.h - where the groups of a band lie, in its elements and in its planes. */
#ifndef KERF_BAND_H
#define KERF_BAND_H

#include "block/all.h"
#include "cpu/ops.h"

/* Groups along a row, and elements of one. Formats without groups have one as wide as the row. */
KF_HD size_t kf_group_count(kf_spec s, const kf_band *b)
{
    return s.group ? (b->cols + s.group - 1) / s.group : 1;
}

KF_HD size_t kf_group_width(kf_spec s, const kf_band *b)
{
    return s.group ? s.group : b->cols;
}

/* Columns of group i; the last group of a row may be short. */
KF_HD size_t kf_group_cols(kf_spec s, const kf_band *b, size_t i)
{
    size_t width = kf_group_width(s, b), left = b->cols - i * width;
    return left < width ? left : width;
}

KF_HD size_t kf_row_bytes(kf_spec s, const kf_band *b)
{
    if (kf_is_inline(s)) return b->cols / kf_inline_elements(s) * kf_inline_bytes(s);
    return kf_packed_bytes(s.bits, b->cols);
}

/* Where the scale of group i is read, and where it is written. */
KF_HD const uint8_t *kf_scale_at(kf_spec s, const kf_band *b, size_t i)
{
    if (s.geometry == KERF_GROUP_STRUCT) return b->plane[KERF_PLANE_CODES] + kf_struct_scale(s, i);
    return b->plane[KERF_PLANE_SCALES] + i * kf_scale_bytes(s.scale);
}
KF_HD uint8_t *kf_scale_out(kf_spec s, const kf_band *b, size_t i)
{
    if (s.geometry == KERF_GROUP_STRUCT) return b->out[KERF_PLANE_CODES] + kf_struct_scale(s, i);
    return b->out[KERF_PLANE_SCALES] + i * kf_scale_bytes(s.scale);
}

/* Whether each group of a band has a scale of its own, instead of one of the matrix or none. */
KF_HD int kf_scale_per_group(kf_spec s)
{
    return s.geometry != KERF_GROUP_NONE && s.geometry != KERF_GROUP_TENSOR;
}

/* Stores what was chosen for group i. The absmax of nested scales goes behind the elements in the
 * scratch memory. Zero points are added to bytes of zeros. */
KF_HD void kf_put_scale(kf_spec s, const kf_band *b, size_t i, kf_scale scale)
{
    if (s.second == KERF_SECOND_NESTED)
        b->scratch[b->rows * b->cols + i] = kf_float(scale.bits);
    else
        kf_put_code(kf_scale_out(s, b, i), 8 * kf_scale_bytes(s.scale), 0, scale.bits);
    if (s.zero == KERF_ZERO_CODE) kf_put_code(b->out[KERF_PLANE_ZEROS], s.bits, i, scale.zero);
}

/* The second level of nested scales, once all groups are stored. */
KF_HD void kf_put_second(const kf_band *b, size_t groups)
{
    const float *absmax = b->scratch + b->rows * b->cols;
    float second = kf_nf4_nest(absmax, groups, b->tensor->offset, b->out[KERF_PLANE_SCALES]);
    kf_put_code(b->out[KERF_PLANE_SECOND], 32, 0, kf_bits(second));
}

/* How the codes of group i become numbers. */
KF_HD kf_dequant kf_dequant_at(kf_spec s, const kf_band *b, size_t i)
{
    int per_matrix = s.geometry == KERF_GROUP_TENSOR;
    if (s.geometry == KERF_GROUP_SUPER) return kf_block_dequant(s, b->plane[KERF_PLANE_CODES], i);
    kf_scale scale = {0, 0};
    float second = 1, offset = 0;
    if (s.scale != KERF_SCALE_NONE)
        scale.bits =
            kf_get_code(kf_scale_at(s, b, per_matrix ? 0 : i), 8 * kf_scale_bytes(s.scale), 0);
    if (s.zero == KERF_ZERO_CODE)
        scale.zero = kf_get_code(b->plane[KERF_PLANE_ZEROS], s.bits, per_matrix ? 0 : i);
    if (s.second != KERF_SECOND_NONE)
        second = kf_float(kf_get_code(b->plane[KERF_PLANE_SECOND], 32, 0));
    if (s.zero == KERF_ZERO_F32) offset = kf_float(kf_get_code(b->plane[KERF_PLANE_ZEROS], 32, 0));
    return kf_dequant_init(s, scale, second, offset);
}

#endif
