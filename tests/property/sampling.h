/* sampling.h - random tensors for laws: what is drawn, from which seed, and how it is coded.
 *
 * Every case is made from the seed, the law, the codec and a counter, so that a failure can be
 * repeated with --seed alone. */
#ifndef KERF_TEST_SAMPLING_H
#define KERF_TEST_SAMPLING_H

#include "exhaustive/coded.h"
#include "exhaustive/run_options.h"
#include "exhaustive/oracle.h"

enum { MAX_VALUES = 1 << 13 };

/* A codec and a source type under a law. */
typedef struct subject {
    kerf_codec codec;
    kerf_dtype dtype;
    const oracle_rule *rule;
    const char *law;
    uint64_t random; /* state */
} subject;

/* Prints the first failures and counts all. */
void report(const subject *s, const char *what, double x, double got, double want);
uint64_t failure_count(void);

uint64_t draw(subject *s, uint64_t below);

/* Bell-shaped; the same as bfloat16; 24 binades; halves and eighths, which meet ties. */
typedef enum source_kind { BELL, COARSE, WIDE, GRID, KINDS } source_kind;
source_kind draw_kind(subject *s);

/* Whole groups and tails; one or a few matrices. At most MAX_VALUES elements. */
kerf_shape draw_shape(subject *s);

/* A shape that is a row of runs that share a scale: no tails, no tile edges. A run is a group, or a
 * whole matrix that is one tile. */
kerf_shape draw_run_shape(subject *s);
size_t run_length(const kerf_format *f, const kerf_geometry *g);

typedef struct sample {
    coded c;
    kerf_dtype dtype;
    float *x, *y; /* source, and what it decodes to */
    uint16_t *half;
    size_t n;
} sample;

void sample_init(sample *p, const subject *s, kerf_shape shape);
void sample_draw(sample *p, subject *s, kerf_shape shape, source_kind kind);

/* The source as it is handed over: fp32, or rounded to its type, as x then is. */
const void *sample_source(sample *p);

void sample_code(sample *p); /* encodes x, decodes to y */
void sample_free(sample *p);
int same_codes(const sample *a, const sample *b);

#endif
