/* companions.h - the small files that make a folder of weights a model. */
#ifndef KERF_FILE_COMPANIONS_H
#define KERF_FILE_COMPANIONS_H

#include "file/txn.h"

/* Copies config, tokenizer, code and licence files of a folder into a temporary one. */
kerf_status kf_copy_companions(const char *from, const kf_temp *to, kerf_error *err);

#endif
