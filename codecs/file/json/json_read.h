/* json_read.h - a JSON file, or a text, as a tree. Every JSON file that kerf reads comes through
 * here: the configuration of a model, recipes, limits, hardware files, measurements, caches. Only
 * headers and indexes of weight files, which may have a million members, are walked instead
 * (json_walk.h).
 *
 * jansson may read a text with a letter less, or stop at an assertion, when memory runs out in the
 * middle. A program that must go on then gives it an allocator that does not return without memory
 * (json_set_alloc_funcs), as the command does.
 *
 * A text is a JSON object (RFC 8259), without duplicate keys, NUL in strings or bytes behind it. */
#ifndef KERF_FILE_JSON_READ_H
#define KERF_FILE_JSON_READ_H

#include <jansson.h>

#include "base/base.h"

#define KF_JSON_MAX_CONFIG_BYTES (1u << 24)   /* of a file that people or exporters write      */
#define KF_JSON_MAX_TABLE_BYTES (1u << 26)    /* of one with a line per tensor: limits, times  */
#define KF_JSON_MAX_DOCUMENT_BYTES (1u << 28) /* of one with several of them: recipe, cache    */

/* The tree of a text takes at most so many times the bytes that are allowed for the text: three
 * bytes can make one of 136, so a text may be refused that is short enough. */
#define KF_JSON_MEMORY 4u

typedef enum kf_json_dialect {
    KF_JSON_STRICT,
    /* What Python's json module also writes for numbers, and model configurations hold: NaN,
     * Infinity, -Infinity and integers beyond 64 bits. They are read as 0: nothing in kerf needs
     * their value. */
    KF_JSON_PYTHON
} kf_json_dialect;

/* Reads a regular file of at most `limit` bytes. The caller decrefs *out, which is NULL after a
 * failure. The text of a failure begins with the path; with "PATH:LINE: " where it is not JSON.
 * KERF_E_IO: the file cannot be opened or read; err->native is the errno (ENOENT: it is not there).
 * KERF_E_DATA: it is not a regular file (a pipe or a device is not waited for), not JSON, or not an
 * object. KERF_E_LIMIT: it, or its tree, is larger. KERF_E_NOMEM. */
kerf_status kf_json_read(const char *path, uint64_t limit, kf_json_dialect dialect, json_t **out,
                         kerf_error *err);

/* The same for n bytes of text, as large as a document; `what` stands for the path in errors. */
kerf_status kf_json_parse(const char *what, const char *text, size_t n, kf_json_dialect dialect,
                          json_t **out, kerf_error *err);

/* KERF_E_LIMIT: the tree of this text would take more memory than KF_JSON_MEMORY x limit. */
kerf_status kf_json_check_memory(const char *what, const char *text, size_t n, uint64_t limit,
                                 kerf_error *err);

/* 1 when this failure to read a path says that nothing is there. What is there and cannot be read,
 * also a link that leads nowhere, is not absent. */
int kf_json_is_absent(const char *path, kerf_status s, const kerf_error *err);

#endif
