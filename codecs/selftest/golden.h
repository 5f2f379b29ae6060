/* golden.h - the golden vectors that the library carries: the text files of tests/golden one after
 * the other, each begun by a line "file NAME", in the short form of vector_text.h, compressed.
 * tests/golden/pack_vectors.c makes them when kerf is built. */
#ifndef KERF_GOLDEN_H
#define KERF_GOLDEN_H

#include "base/base.h"

typedef struct kf_golden {
    char *text;
    size_t n;
} kf_golden;

/* One file of the pack; its lines are text[0..n) of the pack itself. */
typedef struct kf_golden_file {
    char name[64];
    const char *text;
    size_t n;
} kf_golden_file;

/* KERF_E_DATA: the library is damaged. */
kerf_status kf_golden_open(kf_golden *out, kerf_error *err);
void kf_golden_close(kf_golden *g);

/* The next file after *at (begin with 0) that holds vectors of this format; 0: no more. */
int kf_golden_next(const kf_golden *g, const kerf_format *f, size_t *at, kf_golden_file *out);

/* Whether a file of this name ("peers/vectors/nvfp4.txt") holds vectors of this format. */
int kf_golden_is_of(const char *name, const kerf_format *f);

/* One zstd frame, in words of 8 bytes; generated. */
extern const uint64_t kf_golden_pack[];
extern const size_t kf_golden_pack_bytes;

#endif
