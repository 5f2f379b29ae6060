/* gguf_cursor.h - reads the header of a GGUF file from front to back.
 *
 * The length of such a header stands nowhere: more of the file is read as the cursor gets to it,
 * and every length in it is held against the bytes that are left before memory is taken. */
#ifndef KERF_FILE_GGUF_CURSOR_H
#define KERF_FILE_GGUF_CURSOR_H

#include "file/gguf/gguf.h"

typedef struct kf_gguf_cursor {
    kf_gguf *out; /* out->bytes holds what has been read */
    const char *path;
    const kf_blob *blob; /* NULL: the bytes that were given are all there is */
    uint64_t file_bytes;
    size_t have, at; /* bytes read; the next one to look at */
    uint32_t quantization_version;
    char where[64 + KF_GGUF_MAX_NAME_BYTES]; /* what is being read, for errors */
    kerf_error *err;
} kf_gguf_cursor;

/* Fails with the place in the file and p->where in front of the text. */
kerf_status kf_gguf_fail(kf_gguf_cursor *p, kerf_status s, const char *fmt, ...) KERF_PRINTF(3, 4);
kerf_status kf_gguf_no_memory(kf_gguf_cursor *p);

/* Makes sure that the next n bytes are in memory. */
kerf_status kf_gguf_need(kf_gguf_cursor *p, uint64_t n);

/* Each of these passes over what it reads. */
kerf_status kf_gguf_number(kf_gguf_cursor *p, unsigned bytes, uint64_t *out);
/* A length and so many bytes, which begin at *start. */
kerf_status kf_gguf_string(kf_gguf_cursor *p, size_t *start, uint64_t *length);
/* A name of at most `most` bytes, with a 0 behind it in out. */
kerf_status kf_gguf_name(kf_gguf_cursor *p, char *out, size_t most);

#endif
