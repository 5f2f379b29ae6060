/* recognize.h - quantized weights that nothing describes but their own tensors. */
#ifndef KERF_FILE_RECOGNIZE_H
#define KERF_FILE_RECOGNIZE_H

#include "file/layout.h"

/* Whether tensor t holds the codes of a weight, and all else that some row of the layout table
 * asks for is there too: 1, with everything but name and dtype of *w set, and the length of the
 * weight's name, which t's begins with, in *name_length. Rows of `first` are tried before others.
 */
int kf_recognize(const kerf_reader *r, const kerf_tensor *t, const kerf_layout *first,
                 kerf_weight *w, size_t *name_length);

#endif
