/* eval.h - what a model loses in the end by being quantized: it and its source see the same tokens,
 * and the distributions that they give the next one are compared.
 *
 *   kerf_eval(&request, NULL, NULL, &e, &err)      both models, layer by layer
 *   kerf_evaluation_write(e, &text, &n, &err)      as JSON, schema kerf.eval/1
 *
 * A limits file says what a candidate may lose. It is JSON; a figure that is not named has no
 * limit:
 *
 *   {"schema": "kerf.eval-limits/1",
 *    "kl": 0.05, "kl_p99": 0.6, "flips": 0.1, "perplexity_rise": 0.04}
 */
#ifndef KERF_EVAL_H
#define KERF_EVAL_H

#include <kerf/forward.h>
#include <kerf/rounding.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- limits -------------------------------------------------------------------------------- */

typedef enum kerf_eval_figure {
    KERF_EVAL_KL,              /* mean KL(source || candidate) of the next token, in nats */
    KERF_EVAL_KL_P99,          /* its 99th percentile over predictions                    */
    KERF_EVAL_FLIPS,           /* share of predictions with another most likely token     */
    KERF_EVAL_PERPLEXITY_RISE, /* perplexity over that of the source, less 1              */
    KERF_EVAL_FIGURES
} kerf_eval_figure;

KERF_API const char *kerf_eval_figure_name(kerf_eval_figure f); /* "kl_p99", as in a limits file */

/* INFINITY: none. */
typedef struct kerf_eval_limits {
    double most[KERF_EVAL_FIGURES];
} kerf_eval_limits;

/* KERF_E_IO: it cannot be read; KERF_E_LIMIT: it is above 16 MiB; KERF_E_DATA: it is no such JSON,
 * names an unknown figure or none, or has a limit that is not a number of 0 or more. */
KERF_API KERF_CHECK kerf_status kerf_eval_limits_read(const char *path, kerf_eval_limits *out,
                                                      kerf_error *err);

/* --- eval ---------------------------------------------------------------------------------- */

typedef struct kerf_eval_request {
    const kerf_checkpoint *source;
    const kerf_checkpoint *const *candidate; /* [candidates], maybe none: perplexity alone */
    size_t candidates;
    kerf_tokens tokens; /* each position but the last of a row predicts the next token */
    const kerf_eval_limits *limits; /* NULL: none */
    int weights_only; /* 1: only weights are as they are stored; 0: inputs and the cache are
                         rounded, too, as the runtimes of a model do it (kerf/rounding.h), the
                         source's as well */
    /* Called for each weight of a layer of each candidate, counted from 0, before it runs; it may
     * change the numbers. NULL: they stay. A status other than KERF_OK ends the run with it. */
    kerf_status (*change)(void *ctx, size_t candidate, uint64_t layer, const kerf_layer_weight *w,
                          kerf_error *err);
    void *change_ctx;
    uint64_t state_bytes; /* of memory for states: rows go through in parts; 0: 1 GiB, GPU 4 GiB */
} kerf_eval_request;

typedef struct kerf_eval_model {
    const char *path;
    size_t quantized;   /* weights */
    double bits;        /* per weight of all tensors of the checkpoint */
    kerf_rounds rounds; /* what is rounded while it runs             */
    double loss;        /* mean of -ln p(next), in nats                 */
    double perplexity;
    /* the rest is against the source, and 0 for it */
    double figure[KERF_EVAL_FIGURES];
    double kl_low, kl_high; /* 95 % of 1000 resamples of the rows; NaN for one row       */
    double kl_most;
    double *drift; /* [layers] ||h' - h|| / ||h|| of the states behind each layer, all tokens */
    unsigned over; /* bit f: figure f is over its limit, or NaN */
} kerf_eval_model;

typedef struct kerf_evaluation {
    kerf_eval_model *model; /* [models]: the source, then the candidates */
    size_t models;
    uint64_t rows, length, predictions, layers;
    kerf_eval_limits limits;
    int passed; /* nothing is over its limit */
    double seconds;
} kerf_evaluation;

/* Runs all models over the tokens. Their logits are made side by side, a panel of positions at a
 * time, so that memory is that of states, two layers and two heads. The numbers do not depend on
 * threads and parts, `seconds` aside. exec: its threads and its device count; NULL: all cores.
 * KERF_E_ARG: a candidate with other sizes than the source, rows of one token, limits and no
 * candidate; KERF_E_DATA: a
 * source that predicts NaN (a candidate that does is over its limits); KERF_E_NOSUP and others as
 * kerf_decoder_open. Close the result with kerf_evaluation_close; the checkpoints must outlive it.
 */
KERF_API KERF_CHECK kerf_status kerf_eval(const kerf_eval_request *request, const kerf_exec *exec,
                                          const kerf_job *job, kerf_evaluation **out,
                                          kerf_error *err);
KERF_API void kerf_evaluation_close(kerf_evaluation *e); /* NULL is fine */

/* The result as a JSON document with the schema kerf.eval/1, as `kerf eval --json` prints it, and
 * for the programs that run kerf, as kerf_verification_report has it: a test per candidate.
 * malloc'd, ends in a 0 that n (may be NULL) does not count, to be freed. */
KERF_API KERF_CHECK kerf_status kerf_evaluation_write(const kerf_evaluation *e, char **text,
                                                      size_t *n, kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h). */
KERF_API KERF_CHECK kerf_status kerf_evaluation_text(const kerf_evaluation *e,
                                                     const kerf_text_form *form, char **text,
                                                     size_t *n, kerf_error *err);
typedef enum kerf_eval_kind {
    KERF_EVAL_JUNIT,
    KERF_EVAL_MARKDOWN,
    KERF_EVAL_ANNOTATIONS
} kerf_eval_kind;
KERF_API KERF_CHECK kerf_status kerf_evaluation_report(const kerf_evaluation *e,
                                                       kerf_eval_kind kind, char **text, size_t *n,
                                                       kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
