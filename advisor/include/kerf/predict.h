/* predict.h - how long a matrix product takes, from what it must move, decode and multiply.
 *
 *   t = fixed + max(bytes / bandwidth, weights / decode rate, operations / peak)
 *
 * For kerf's own products on a GPU `fixed` is more than a constant, for their plan is known
 * (gemv_outline.h): the rounds in which a block makes its activations ready, and the stages of the
 * warp that has most, each at a price of its own, which also depends on how rows end. GGUF's blocks
 * by nine columns and more may take several launches: each costs the constant once and reads all
 * weights, and rounds and stages are their sum.
 *
 * Bytes are those of the stored planes - codes, scales, second scales, zero points, padding - and
 * of activations and results. Weights are read cold: in a model every layer passes through the
 * cache between two uses of the same weight.
 *
 * The parameters come from one of three places, and every answer says from which:
 *   spec-only   the data sheet alone: a band [low, high] that kernels of some care fall into; its
 *               middle ranks formats, it does not promise a time
 *   fitted      parameters fitted to one kernel on one machine (kerf_fit)
 *   table       measured shapes around this one (kerf_anchors)
 *
 * A table says how far each of these is off its fit; each counts with a weight that falls with its
 * distance and with every difference of plan.
 */
#ifndef KERF_PREDICT_H
#define KERF_PREDICT_H

#include <kerf/hardware.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Y[rows x n] = X[rows x k] W[n x k]^T, for one matrix or several at once. */
typedef struct kerf_matmul {
    const kerf_format *format;      /* of W                                                   */
    const kerf_format *activations; /* of X; NULL: bf16                                        */
    uint64_t n, k;
    double rows;          /* of X, over all matrices: the batch                          */
    double matrices;      /* that are read; 0: one. Experts: how many some token chose,
                             on average, so a fraction is fine                           */
    unsigned output_bits; /* of one element of Y; 0: 16                                  */
} kerf_matmul;

/* What a kernel does, whatever it is. */
typedef struct kerf_work {
    const kerf_format *format; /* of the weights; NULL: there are none            */
    double flops;              /* a multiplication and an addition are two        */
    double weights;            /* elements decoded                                */
    double weight_bytes, input_bytes, output_bytes;
    double rows;        /* of activations                                    */
    double tiles;       /* of 128 x 128 results; 0: not a matrix product     */
    double outputs;     /* rows of the weights; 0: not a matrix product      */
    double inputs;      /* columns of a weight                               */
    double matrices;    /* that are read                                     */
    double peak_tflops; /* of the unit that does it; 0: none is known        */
} kerf_work;

/* Sizes by kerf_geometry_init. KERF_E_ARG: an empty product. */
KERF_API KERF_CHECK kerf_status kerf_matmul_work(const kerf_hardware *h, const kerf_matmul *m,
                                                 kerf_work *out, kerf_error *err);

KERF_API double kerf_work_bytes(const kerf_work *w);
KERF_API double kerf_work_intensity(const kerf_work *w); /* operations per byte */

/* The peak of the unit that multiplies these two types, in 10^12/s: the narrowest that both fit
 * into. Weights of few bits with bf16 activations are widened first and run at the bf16 rate. */
KERF_API double kerf_peak_tflops(const kerf_hardware *h, const kerf_format *weights,
                                 const kerf_format *activations);

typedef enum kerf_tier { KERF_TIER_SPEC, KERF_TIER_FITTED, KERF_TIER_TABLE } kerf_tier;
typedef enum kerf_bound {
    KERF_BOUND_FIXED,
    KERF_BOUND_MEMORY,
    KERF_BOUND_DECODE,
    KERF_BOUND_MATH
} kerf_bound;

KERF_API const char *kerf_tier_name(kerf_tier t);   /* "spec-only", "fitted", "table"        */
KERF_API const char *kerf_bound_name(kerf_bound b); /* "fixed", "memory", "decode", "math"   */

typedef struct kerf_prediction {
    kerf_tier tier;
    kerf_bound bound; /* the largest part                                                 */
    double us;        /* spec-only: sqrt(low * high), to rank with                        */
    double low_us, high_us;
    double fixed_us, memory_us, decode_us, math_us; /* parts; spec-only: of low_us        */
    double intensity, ridge;                        /* operations per byte                */
    int extrapolated; /* the table does not reach this shape: what is nearest stands in for it */
} kerf_prediction;

/* The best tier that h has for this product. */
KERF_API KERF_CHECK kerf_status kerf_predict(const kerf_hardware *h, const kerf_matmul *m,
                                             kerf_prediction *out, kerf_error *err);

/* The same for work that is not a matrix product (fitted or spec-only). */
KERF_API void kerf_predict_work(const kerf_hardware *h, const kerf_work *w, kerf_prediction *out);

/* Adds p, `times` over, to a sum that starts from all zeros; the sum is as sure as its least sure
 * part. */
KERF_API void kerf_prediction_add(kerf_prediction *sum, const kerf_prediction *p, double times);

/* Summing `bytes` over `gpus` GPUs so that each has the sum (a ring: each sends and receives
 * 2 (gpus - 1) / gpus times as much): by a fit called "all-reduce" of h, else spec-only, from the
 * published rate of its links. */
KERF_API void kerf_predict_all_reduce(const kerf_hardware *h, unsigned gpus, double bytes,
                                      kerf_prediction *out);

/* --- fit ----------------------------------------------------------------------------------- */

typedef struct kerf_timing {
    kerf_matmul product;
    double us; /* measured */
} kerf_timing;

/* Fits fixed_us and bandwidth_gbps to times of one format on machine h, least squares of relative
 * errors, four at least. Bytes and weights of one format grow together, so bandwidth stands for
 * whichever of the two is the slower; decode_gweights and tflops stay 0. From 24 times on, and
 * where h is a GPU whose plans are known, input_us, round_us and stage_us are fitted too; nothing
 * is ever negative. error_*: each time predicted by a fit to all the others. source and date are
 * left empty. KERF_E_ARG: fewer times, or one that is no number above 0. */
KERF_API KERF_CHECK kerf_status kerf_fit_times(const kerf_hardware *h, const kerf_timing *times,
                                               size_t count, kerf_fit *out, kerf_error *err);

/* A measured time and the prediction of the same product. */
typedef struct kerf_compared_time {
    kerf_timing measured;
    kerf_prediction predicted;
    double ratio; /* predicted over measured                             */
    int banded;   /* the prediction is a band (low_us < high_us) ...     */
    int inside;   /* ... and the measured time lies in it                */
} kerf_compared_time;

KERF_API KERF_CHECK kerf_status kerf_compare_time(const kerf_hardware *h, const kerf_timing *t,
                                                  kerf_compared_time *out, kerf_error *err);

/* Errors, |ratio - 1|, of several predictions. */
typedef struct kerf_time_errors {
    size_t count, banded;
    double median, p90, worst;
    double within_10; /* share that is 10 % off at most                   */
    double inside;    /* share of the banded ones that is inside its band */
    double width;     /* of a band: median of its end over its beginning  */
} kerf_time_errors;

/* Over the times of one format; NULL: over all. */
KERF_API KERF_CHECK kerf_status kerf_sum_up_times(const kerf_compared_time *t, size_t count,
                                                  const kerf_format *f, kerf_time_errors *out,
                                                  kerf_error *err);

/* Many times beside their predictions. */
typedef struct kerf_format_errors {
    const kerf_format *format;
    kerf_time_errors errors;
} kerf_format_errors;

typedef struct kerf_comparison {
    const kerf_hardware *hardware; /* the caller's                                      */
    kerf_compared_time *item;      /* [count] in the order of the times                 */
    size_t count;
    kerf_format_errors *format; /* [formats] that occur, in the order of their table */
    size_t formats;
    kerf_time_errors all;
} kerf_comparison;

/* kerf_compare_time of each and kerf_sum_up_times of each format and of all; h must outlive the
 * result. *out is NULL after a failure. */
KERF_API KERF_CHECK kerf_status kerf_compare_times(const kerf_hardware *h, const kerf_timing *times,
                                                   size_t count, kerf_comparison **out,
                                                   kerf_error *err);
KERF_API void kerf_comparison_free(kerf_comparison *c); /* NULL is fine */

/* JSON, schema kerf.compare/1: malloc'd, ends in a 0 that n (may be NULL) does not count, to be
 * freed. bench: the file that the times come from, as the document names it; NULL: null. */
KERF_API KERF_CHECK kerf_status kerf_comparison_write(const kerf_comparison *c, const char *bench,
                                                      char **text, size_t *n, kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h). */
KERF_API KERF_CHECK kerf_status kerf_comparison_text(const kerf_comparison *c,
                                                     const kerf_text_form *form, char **text,
                                                     size_t *n, kerf_error *err);

/* Sets t's error_*: each of its times predicted from the others on machine h, read against h's
 * fits, which may have seen it. */
KERF_API KERF_CHECK kerf_status kerf_check_anchors(const kerf_hardware *h, kerf_anchors *t,
                                                   kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
