/* recognize.h - quantized weights that nothing describes but their own tensors. */
#ifndef KERF_LAYOUT_RECOGNIZE_H
#define KERF_LAYOUT_RECOGNIZE_H

#include "layout/layout.h"

/* Puts a tensor that stores no plane behind those that w has. */
void kf_add_extra(kerf_weight *w, const kerf_tensor *t);

/* Whether the content of these tensors is what the format and shape of w demand; tables of numbers
 * must be kerf's own. Sets w->dtype when they name one and it is not known. */
kerf_status kf_extras_check(const kerf_reader *r, kerf_weight *w, int *agree, kerf_error *err);

/* A tensor that has the scales that kerf calls `name` under a name that another project uses; NULL:
 * there is none. */
const kerf_tensor *kf_find_alias(const kerf_reader *r, const char *name);

#define KF_NAME_ROOM (KERF_MAX_NAME_BYTES + 32)

/* Whether tensor t holds the codes of a weight, and all else that some row of the layout table
 * asks for is there too: *found is 1, with everything but dtype of *w set; w->name is `name`. Rows
 * of `first` are tried before others. Fails when what a row asks for cannot be read. */
kerf_status kf_recognize(const kerf_reader *r, const kerf_tensor *t, const kerf_layout *first,
                         kerf_weight *w, char name[KF_NAME_ROOM], int *found, kerf_error *err);

/* The same by the one row of a layout and a format. */
kerf_status kf_recognize_as(const kerf_reader *r, const kerf_tensor *t, const kerf_layout *l,
                            const kerf_format *f, kerf_weight *w, char name[KF_NAME_ROOM],
                            int *found, kerf_error *err);

#endif
