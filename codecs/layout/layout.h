/* layout.h - look-ups in the layout table (layout_table.h): the row for a layout and a format, and
 * whether a tensor can be stored as the row says. */
#ifndef KERF_LAYOUT_LAYOUT_H
#define KERF_LAYOUT_LAYOUT_H

#include "layout/layout_table.h"

/* NULL: the layout has no such format, or it is `kerf`, which has no rows. */
const kf_stored *kf_stored_find(const kerf_layout *l, const kerf_format *f);

/* The format that stands in for f where the blocks of f do not fit the rows of a matrix; NULL: none
 * does. */
const kerf_format *kf_layout_fallback(const kerf_layout *l, const kerf_format *f);

/* 0: w is what loaders of the layout take as it is alone: an embedding, for one. */
int kf_layout_holds(const kerf_layout *l, const kerf_weight *w);
/* What it is, in words; NULL: it may be quantized. */
const char *kf_layout_lacks(const kerf_layout *l, const kerf_weight *w);

/* 1: a layout of stacked experts alone, which stand in checkpoints of other layouts. */
int kf_is_stacks(const kerf_layout *l);

const kerf_format *kf_format_of(kerf_format_id id);

/* What layout `kerf` appends to the name of a weight for each plane. */
extern const char *const kf_plane_suffix[KERF_PLANES];

/* "4096,11008", cut to size; returns out. */
#define KF_SHAPE_TEXT 192
char *kf_shape_text(const kerf_shape *s, char out[KF_SHAPE_TEXT]);

/* Whether a tensor of this geometry can be stored so: a matrix of the right multiples. */
kerf_status kf_stored_fits(const kf_stored *s, const kerf_geometry *g, kerf_error *err);

/* The word of KF_EXTRA_MIDDLE. */
uint32_t kf_middle_word(const kf_stored *s, const kerf_format *f);

#endif
