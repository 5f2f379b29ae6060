/* golden.h - the golden vectors that the command carries: the text files of tests/golden one after
 * the other, each begun by a line "file NAME", in the short form of vector_text.h, compressed.
 * tests/golden/pack_vectors.c makes them when kerf is built. */
#ifndef KERF_GOLDEN_H
#define KERF_GOLDEN_H

#include "base/base.h"

typedef struct golden {
    char *text;
    size_t n;
} golden;

/* One file of the pack; its lines are text[0..n) of the pack itself. */
typedef struct golden_file {
    char name[64];
    const char *text;
    size_t n;
} golden_file;

/* KERF_E_DATA: the command is damaged. */
kerf_status golden_open(golden *out, kerf_error *err);
void golden_close(golden *g);

/* The next file after *at (begin with 0) that holds vectors of this format; 0: no more. */
int golden_next(const golden *g, const kerf_format *f, size_t *at, golden_file *out);

/* Whether a file of this name ("peers/vectors/nvfp4.txt") holds vectors of this format. */
int golden_is_of(const char *name, const kerf_format *f);

/* One zstd frame, in words of 8 bytes; generated. */
extern const uint64_t golden_pack[];
extern const size_t golden_pack_bytes;

#endif
