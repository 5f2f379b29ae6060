/* vector_text.h - golden vectors as text, line by line: tests/golden/README.md says what the lines
 * mean. Bytes are written in hex or, in the short form that the library carries, as a digest. */
#ifndef KERF_VECTOR_TEXT_H
#define KERF_VECTOR_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include <kerf/codec.h>

typedef enum kf_vector_key {
    KF_VECTOR_FILE,   /* name: of the file whose lines follow                       */
    KF_VECTOR_CASE,   /* name, dtype, shape: a tensor                               */
    KF_VECTOR_DECODE, /* name, shape: planes that are only decoded                  */
    KF_VECTOR_SRC,    /* bytes: the elements of the tensor                          */
    KF_VECTOR_ENC,    /* name: of the encoder whose planes follow                   */
    KF_VECTOR_PLANE,  /* plane, bytes or digest                                     */
    KF_VECTOR_VALUES  /* dtype, bytes or digest: what the planes decode to          */
} kf_vector_key;

typedef struct kf_vector_line {
    kf_vector_key key;
    const char *text; /* the line as it stands, `length` long without its end */
    size_t length;
    char name[64];
    kerf_dtype dtype;
    kerf_shape shape;
    kerf_plane_id plane;
    int digested; /* `digest` instead of bytes */
    uint64_t digest;
    unsigned char *p; /* n bytes, the reader's own until the next line */
    size_t n;
} kf_vector_line;

/* Begin with {.at = text, .end = text + length}; `text` stays the caller's. */
typedef struct kf_vector_reader {
    const char *at, *end;
    unsigned line; /* number of the last line read, from 1 */
    unsigned char *buffer;
    size_t capacity;
} kf_vector_reader;

/* Reads the next line that says something. 1: it is in *out; 0: there is none;
 * -1: it is malformed, and *problem says how; NULL: there is no memory. */
int kf_vector_next(kf_vector_reader *r, kf_vector_line *out, const char **problem);
void kf_vector_reader_close(kf_vector_reader *r);

/* As the lines have them: "codes", "scales", "second", "zeros". */
const char *kf_vector_plane_name(kerf_plane_id p);

/* Makes every NaN among values of this type the same one: any NaN equals any NaN. */
void kf_vector_unify_nans(kerf_dtype dtype, unsigned char *p, size_t n);

#endif
