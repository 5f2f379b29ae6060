/* companions.h - the small files that make a folder of weights a model. */
#ifndef KERF_FILE_COMPANIONS_H
#define KERF_FILE_COMPANIONS_H

#include <kerf/file.h>

#include "file/disk/temp.h"

/* Copies config, tokenizer, code and licence files of a folder into a temporary one, but for those
 * that are given. */
kerf_status kf_copy_companions(const char *from, const kf_temp *to, const kerf_companion *given,
                               size_t count, kerf_error *err);
/* The first of these files that is a pointer to another that was not fetched, and what it is; *is
 * NULL: none is. */
kerf_status kf_find_pointer(const char *from, char *name, size_t size, const char **is,
                            kerf_error *err);
/* Writes those that are given. */
kerf_status kf_write_companions(const kf_temp *to, const kerf_companion *given, size_t count,
                                kerf_error *err);

#endif
