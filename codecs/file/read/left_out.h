/* left_out.h - files of weights beside those of a model. */
#ifndef KERF_FILE_LEFT_OUT_H
#define KERF_FILE_LEFT_OUT_H

#include "file/read/reader.h"

/* Once all tensors of a folder are known. index: its path; NULL: there is none. KERF_E_DATA: a file
 * that is not read is a part of the model; the text says what to do. Another one with tensors that
 * the model does not have is left in r->left_out. */
kerf_status kf_reader_look_beside(kerf_reader *r, const char *index, kerf_error *err);

#endif
