/* safetensors.h - the header of one safetensors file, as a validated table. */
#ifndef KERF_FILE_SAFETENSORS_H
#define KERF_FILE_SAFETENSORS_H

#include "file/table/header.h"

/* The length of the JSON text, from the first 8 bytes of a file of file_bytes. */
kerf_status kf_header_length(const char *path, const uint8_t first[8], uint64_t file_bytes,
                             size_t *n, kerf_error *err);

/* Parses and validates the n bytes of JSON that follow. A pure function of its arguments. */
kerf_status kf_header_parse(const char *path, const char *text, size_t n, uint64_t file_bytes,
                            kf_header *out, kerf_error *err);

#endif
