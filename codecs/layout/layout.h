/* layout.h - the row of the layout table for a layout and a format. */
#ifndef KERF_FILE_LAYOUT_H
#define KERF_FILE_LAYOUT_H

#include "layout/layout_table.h"

/* NULL: the layout has no such format, or it is `kerf`, which has no rows. */
const kf_stored *kf_stored_find(const kerf_layout *l, const kerf_format *f);

/* Whether a tensor of this geometry can be stored so: a matrix of the right multiples. */
kerf_status kf_stored_fits(const kf_stored *s, const kerf_geometry *g, kerf_error *err);

/* The word of KF_EXTRA_MIDDLE. */
uint32_t kf_middle_word(const kf_stored *s, const kerf_format *f);

#endif
