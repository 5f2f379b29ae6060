/* gemv_cuda.h - what the parts of bench/gemv_cuda.c share: options and results. */
#ifndef KERF_BENCH_GEMV_CUDA_H
#define KERF_BENCH_GEMV_CUDA_H

#include "gemv_weights.h"
#include "gpu_race.h"

#define MANY_FORMATS 64

typedef struct bench_options {
    variant formats[MANY_FORMATS], decoder_formats[MANY_FORMATS];
    int n_formats, n_decoder_formats;
    unsigned columns[KERF_GEMV_COLUMNS];
    int n_columns;
    int replays, baselines, parts;
    double started, budget_s, rotated_bytes;
} bench_options;

/* Results that are not what they must be, and runs that fail. */
extern uint64_t bench_wrong;

/* Time left of the budget when a share `done` of the work is finished. */
double bench_deadline(const bench_options *o, double done);

/* plain, and in a chain with programmatic dependent launch */
enum { PLAIN, CHAIN, WAYS_TO_LAUNCH };

typedef struct timing {
    double us, low, high;
    int replays;
} timing;
timing timing_of(const racer *r, double calls); /* us of so many calls; zeros: it did not run */

/* One decoder of one format. */
typedef struct decoder_result {
    char by[24], format[32], part[16];
    unsigned columns;
    double bytes;
    timing t[WAYS_TO_LAUNCH], read[WAYS_TO_LAUNCH];
} decoder_result;

/* All linear layers of Llama-3.1-8B for one token. Returns how many results there are. */
int bench_decoder(const bench_options *o, decoder_result *out, int room);

/* The best way to read n bytes of each copy. */
int best_read(void *const *copies, int n_copies, size_t n, int chained);
typedef struct read_context {
    void *const *copies;
    int n_copies, way, chained;
    size_t n;
} read_context;
const char *call_read(void *ctx, int i, cudaStream_t s);

#endif
