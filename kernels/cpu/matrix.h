/* matrix.h - where the numbers of a quantized matrix lie in its planes: row r, element k -> code,
 * scale, zero point, second-level scale. The kernels know planes through these functions alone. */
#ifndef KERF_MATRIX_H
#define KERF_MATRIX_H

#include "block/all.h"
#include "block/struct.h"
#include "scalar/pack.h"

typedef struct kf_matrix {
    const uint8_t *plane[KERF_PLANES];
    size_t rows, cols;
    size_t row_bytes;  /* of codes; FLAT formats: unused                              */
    size_t row_groups; /* scales from one row (TILE: row of tiles) to the next        */
    size_t zero_bytes; /* the same for zero points                                    */
} kf_matrix;

KF_HD kf_matrix kf_matrix_of(const kerf_geometry *g, const kerf_cspan planes[KERF_PLANES])
{
    kf_matrix m = {.rows = (size_t)g->rows, .cols = (size_t)g->cols};
    const kerf_plane *p = g->plane;
    for (int i = 0; i < KERF_PLANES; i++)
        if (p[i].dtype != KERF_DTYPE_NONE) m.plane[i] = (const uint8_t *)planes[i].p;
    m.row_bytes = (size_t)(p[KERF_PLANE_CODES].band_bytes / g->band_rows);
    m.row_groups = (size_t)g->band_groups;
    if (!p[KERF_PLANE_ZEROS].per_matrix) m.zero_bytes = (size_t)p[KERF_PLANE_ZEROS].band_bytes;
    return m;
}

/* The group of element k of row r, counted in its row; FLAT formats: in the matrix. */
KF_HD size_t kf_group_of(kf_spec s, const kf_matrix *m, size_t r, size_t k)
{
    if (s.geometry == KERF_GROUP_FLAT) return (r * m->cols + k) / s.group;
    return s.group ? k / s.group : 0;
}

/* Elements from k on that share its group and row. */
KF_HD size_t kf_group_rest(kf_spec s, const kf_matrix *m, size_t r, size_t k)
{
    size_t left = m->cols - k, at = s.geometry == KERF_GROUP_FLAT ? r * m->cols + k : k;
    size_t in_group = s.group ? s.group - at % s.group : left;
    return in_group < left ? in_group : left;
}

/* How the codes of group i (of kf_group_of) in row r become numbers. */
KF_HD kf_dequant kf_dequant_at(kf_spec s, const kf_matrix *m, size_t r, size_t i)
{
    kf_scale scale = {0, 0};
    float second = 1, offset = 0;
    unsigned bytes = kf_scale_bytes(s.scale);
    size_t at = s.geometry == KERF_GROUP_TILE ? r / s.group : r;
    if (s.geometry == KERF_GROUP_TENSOR || s.geometry == KERF_GROUP_FLAT) at = 0;
    const uint8_t *scales = m->plane[KERF_PLANE_SCALES];
    if (s.geometry == KERF_GROUP_SUPER)
        return kf_block_dequant(s, m->plane[KERF_PLANE_CODES] + r * m->row_bytes, i);
    if (s.geometry == KERF_GROUP_STRUCT)
        scales = m->plane[KERF_PLANE_CODES] + r * m->row_bytes + kf_struct_scale(s, i);
    else if (bytes)
        scales += (at * m->row_groups + i) * bytes;
    if (bytes) scale.bits = kf_get_code(scales, 8 * bytes, 0);
    if (s.zero == KERF_ZERO_CODE)
        scale.zero = kf_get_code(m->plane[KERF_PLANE_ZEROS] + at * m->zero_bytes, s.bits, i);
    if (s.second == KERF_SECOND_TENSOR)
        second = kf_float(kf_get_code(m->plane[KERF_PLANE_SECOND], 32, 0));
    if (s.second == KERF_SECOND_NESTED)
        second = kf_float(kf_get_code(m->plane[KERF_PLANE_SECOND], 32, i / KF_NEST_BLOCKS));
    if (s.zero == KERF_ZERO_F32) offset = kf_float(kf_get_code(m->plane[KERF_PLANE_ZEROS], 32, 0));
    return kf_dequant_init(s, scale, second, offset);
}

/* FLAT formats count codes from the start of the matrix, others from the start of a row. */
KF_HD uint32_t kf_code_at(kf_spec s, const kf_matrix *m, size_t r, size_t k)
{
    const uint8_t *codes = m->plane[KERF_PLANE_CODES];
    if (s.geometry == KERF_GROUP_FLAT)
        return kf_get_code(codes, s.bits, kf_code_place(s, r * m->cols + k));
    return kf_row_code(s, codes + r * m->row_bytes, k);
}

#endif
