/* gemv_cuda.h - what the parts of bench/gemv_cuda.c share: options and results. */
#ifndef KERF_BENCH_GEMV_CUDA_H
#define KERF_BENCH_GEMV_CUDA_H

#include "gemv_weights.h"
#include "gpu_race.h"

#include "plan/gemv_options.h"

#define MANY_FORMATS 64

typedef struct bench_options {
    variant formats[MANY_FORMATS], decoder_formats[MANY_FORMATS];
    int n_formats, n_decoder_formats;
    unsigned columns[KERF_GEMV_COLUMNS];
    int n_columns;
    int replays, baselines, parts, ceilings;
    double started, budget_s, rotated_bytes;
    double energy_s; /* that each decoder is metered; 0: it is not */
    kerf_dtype x;    /* of x and y: F16 or BF16 */
    kf_gemv_options plan;
} bench_options;

/* plain, and in a chain with programmatic dependent launch */
enum { PLAIN, CHAIN, WAYS_TO_LAUNCH };

typedef struct timing {
    double us, low, high;
    int replays;
} timing;
timing timing_of(const racer *r, double calls); /* us of so many calls; zeros: it did not run */

/* --- results: gemv_results.c ------------------------------------------------------------------ */

/* Who ran. */
enum { BY_KERF, BY_READ, BY_CUBLAS, BY_CUBLAS_FP8, CONTESTANTS };
extern const char *const bench_by[CONTESTANTS];

typedef struct extent {
    uint64_t rows, cols;
} extent;

/* One product of one shape. */
typedef struct result_row {
    const char *by, *format;
    uint64_t rows, cols;
    unsigned columns;
    double bytes, rms;
    timing t[WAYS_TO_LAUNCH], read[WAYS_TO_LAUNCH];
    const char *read_way[WAYS_TO_LAUNCH];
    gpu_state state;
} result_row;

/* One decoder of one format. */
typedef struct decoder_result {
    char model[64], by[24], format[32], part[16];
    unsigned columns;
    double bytes;
    timing t[WAYS_TO_LAUNCH], read[WAYS_TO_LAUNCH];
    race_energy energy; /* of a token in a chain; of cuBLAS plain */
} decoder_result;

enum { MANY_ROWS = 4096, MANY_PARTS = 512 };
typedef struct bench_results {
    result_row row[MANY_ROWS];
    int n_rows;
    decoder_result decoder[MANY_PARTS];
    int n_decoders;
    double idle_w;
} bench_results;

void write_json(const char *path, const bench_options *o, const char *device, const char *commit,
                const bench_results *all);
void print_tables(const bench_options *o, const extent *shapes, int n, const bench_results *all);

/* --- one shape: gemv_shape.c ------------------------------------------------------------------ */

/* Results that are not what they must be, and runs that fail. */
extern uint64_t bench_wrong;

/* All contestants of a shape take turns until the deadline. */
void bench_shape(extent size, const bench_options *o, double deadline, bench_results *out);

/* The best way to read n bytes of each copy. */
int best_read(void *const *copies, int n_copies, size_t n, int chained);
typedef struct read_context {
    void *const *copies;
    int n_copies, way, chained;
    size_t n;
} read_context;
const char *call_read(void *ctx, int i, cudaStream_t s);

/* --- a decoder: gemv_decoder.c ---------------------------------------------------------------- */

/* The sizes of a decoder with SwiGLU; q and kv: outputs of the q and of the k projection. */
enum { DECODER_LAYERS = 128 };
typedef struct decoder_model {
    char name[64];
    int layers; /* DECODER_LAYERS at most */
    uint64_t hidden, q, kv, ff, vocab;
} decoder_model;

/* All linear layers of the model for one token. No format begins after `last_start`, nothing is
 * replayed long after `deadline` (race_now). Returns how many results there are. */
int bench_decoder(const bench_options *o, const decoder_model *model, double last_start,
                  double deadline, decoder_result *out, int room);

#endif
