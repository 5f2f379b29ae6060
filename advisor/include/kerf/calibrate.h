/* calibrate.h - what a forward pass over text says of a model, kept in a folder that advice, scores
 * and encoders read.
 *
 * A calibration is a folder of safetensors. N is a weight by its name in the model, E the experts
 * of a stack, K the columns of a weight:
 *
 *   N           F32 [K] or [E, K]   mean square of each input column over all tokens that the
 *                                   weight saw; ones for an expert that saw none. By these the
 *                                   folder is an imatrix, too (kerf/importance.h)
 *   N.count     F32 [1] or [E]      experts: tokens that were routed to each
 *   N.amax      F32 [1]             the largest |x| of its input
 *   N.gram      F32 [K, K]          mean of x x^T; of a layer's experts over all their tokens.
 *                                   Optional. Weights of one input have one, under the first name
 *   N.alpha     F32 [2]             rise of the loss (or KL) per t2 of this weight, and its
 *                                   standard error. Optional
 *   L.k_amax    F32 [1]             the largest |k| that layer L ("model.layers.3") caches
 *   L.v_amax    F32 [1]             and the largest |v|
 *
 * Metadata of each file: kerf.schema = "kerf.calibration/1"; kerf.source, a number for the contents
 * of the model; kerf.tokens, how many; kerf.text, a hash of them; kerf.alpha = "loss" or "kl";
 * kerf.gram_of, a JSON object from a weight to the one whose Gram matrix is also its own. */
#ifndef KERF_CALIBRATE_H
#define KERF_CALIBRATE_H

#include <kerf/forward.h>
#include <kerf/importance.h>
#include <kerf/ranks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- reading ------------------------------------------------------------------------------- */

typedef struct kerf_calibration kerf_calibration;

typedef struct kerf_calibration_about {
    uint64_t source; /* kerf_reader_contents of the model                                   */
    uint64_t tokens; /* that it was made from                                               */
    uint64_t text;   /* their hash                                                          */
    int by_kl;       /* 1: alpha is the rise of KL, 0: of the loss                          */
    size_t alphas;   /* weights that have one                                               */
    size_t grams;    /* Gram matrices                                                       */
} kerf_calibration_about;

/* KERF_E_IO: it cannot be read; KERF_E_DATA: it is no calibration, or damaged, or one whose files
 * are of several runs. Any number of threads may use it. */
KERF_API KERF_CHECK kerf_status kerf_calibration_open(const char *path, kerf_calibration **out,
                                                      kerf_error *err);
KERF_API void kerf_calibration_close(kerf_calibration *c); /* NULL is fine */

KERF_API kerf_calibration_about kerf_calibration_describe(const kerf_calibration *c);
/* The folder, for calls that take an imatrix; it belongs to c. */
KERF_API const kerf_checkpoint *kerf_calibration_imatrix(const kerf_calibration *c);

/* KERF_E_DATA: it was made from another model than this one. */
KERF_API KERF_CHECK kerf_status kerf_calibration_check(const kerf_calibration *c,
                                                       const kerf_checkpoint *source,
                                                       kerf_error *err);

/* What the error of a weight costs: value per t2 = ||W' - W||^2 / ||W||^2, and its standard error.
 * A stack that was calibrated expert by expert has their sum, an expert of a calibrated stack its
 * equal part. NaN: there is none. Values may be zero or negative where noise hides them. */
typedef struct kerf_alpha_value {
    double value, error;
} kerf_alpha_value;
KERF_API KERF_CHECK kerf_status kerf_calibration_alpha(const kerf_calibration *c,
                                                       const kerf_weight *w, kerf_alpha_value *out,
                                                       kerf_error *err);

/* The Gram matrix of the input of a weight: row after row, symmetric. All zeros: there is none.
 * KERF_E_DATA: it has another shape, or a number that is not finite. */
typedef struct kerf_gram {
    float *value;     /* [columns][columns], malloc'd */
    uint64_t columns; /* of the weight                */
} kerf_gram;
KERF_API KERF_CHECK kerf_status kerf_calibration_gram(const kerf_calibration *c,
                                                      const kerf_weight *w, kerf_gram *out,
                                                      kerf_error *err);
KERF_API void kerf_gram_free(kerf_gram *g); /* all zeros are fine */

/* The mean of its diagonal, which is read alone: the mean square of the inputs that it was made of.
 * Of an expert these are those of all experts, so that it is not the mean of the expert's own. NaN:
 * there is none. KERF_E_DATA: as above. */
KERF_API KERF_CHECK kerf_status kerf_calibration_gram_mean(const kerf_calibration *c,
                                                           const kerf_weight *w, double *out,
                                                           kerf_error *err);

/* Gram matrices for encoders: kerf_output.moments. c must outlive it. */
KERF_API KERF_CHECK kerf_status kerf_calibration_moments(const kerf_calibration *c,
                                                         kerf_moments *out, kerf_error *err);

/* 1: there is one for w. */
KERF_API int kerf_calibration_has_gram(const kerf_calibration *c, const kerf_weight *w);

/* The largest |x| of its input; NaN: not known. */
KERF_API KERF_CHECK kerf_status kerf_calibration_amax(const kerf_calibration *c,
                                                      const kerf_weight *w, float *out,
                                                      kerf_error *err);

/* The same for a plan: kerf_output.inputs. c must outlive it. */
KERF_API kerf_inputs kerf_calibration_inputs(const kerf_calibration *c);
/* And of its keys and values: kerf_output.cached. */
KERF_API kerf_cached kerf_calibration_cached(const kerf_calibration *c);

/* What the calibration says of each weight of `source`: malloc'd, ends in a 0 that n (may be
 * NULL) does not count, to be freed. */
typedef enum kerf_calibration_kind {
    KERF_CALIBRATION_JSON, /* schema kerf.calibrate/1, as `kerf calibrate --json` prints it   */
    KERF_CALIBRATION_TEXT  /* lines: a weight, its alpha and its error, its largest input     */
} kerf_calibration_kind;
KERF_API KERF_CHECK kerf_status kerf_calibration_write(const kerf_calibration *c,
                                                       const kerf_checkpoint *source,
                                                       kerf_calibration_kind kind, char **text,
                                                       size_t *n, kerf_error *err);

/* --- writing ------------------------------------------------------------------------------- */

typedef enum kerf_alpha_by {
    KERF_ALPHA_BY_KL,   /* mean KL of the next token against the model without noise */
    KERF_ALPHA_BY_LOSS, /* rise of the loss: what is judged in the end, with more noise of its own
                         */
    KERF_ALPHA_BY_NONE  /* no alpha, one pass over the text                          */
} kerf_alpha_by;

/* Told once, when the first layer has been timed. */
typedef struct kerf_calibrate_plan {
    uint64_t tokens, layers, weights, groups;
    uint64_t memory_bytes; /* states, the largest layer, statistics, embedding and head */
    uint64_t file_bytes;
    double seconds; /* that the rest will take, from the time of that layer */
} kerf_calibrate_plan;

typedef struct kerf_calibrate_request {
    kerf_tokens tokens;
    int gram;            /* 1: Gram matrices, too                                           */
    kerf_alpha_by alpha; /* of groups of weights that runtimes fuse, and of a layer's experts */
    unsigned draws;      /* of noise per group, at least 2 and at most 64; 0: 4. By KL the rows are
                            divided among them, by loss each sees all rows                  */
    double noise;        /* its t2, above 0 and below 1; 0: 0.02                            */
    const char *path;    /* the folder to write                                             */
    int overwrite;       /* 1: replace it; else KERF_E_EXISTS                               */
    int resume;          /* 1: go on with what a killed run of the same request has left    */
    void (*planned)(void *ctx, const kerf_calibrate_plan *p); /* NULL: not wanted           */
    void *ctx;
    /* Processes that share the rows, in pieces of KERF_PANEL_TOKENS; rank 0 writes. The sums of a
     * layer walk from rank to rank, so that each number is added where one process adds it;
     * a GPU adds up its own first: there the bytes are those of so many ranks. NULL: this process
     * is alone */
    const kerf_ranks *ranks;
    /* Part `part` (from 1) of `parts`: the files of some layers, sums and alpha, which wait beside
     * the path until all parts are there and kerf_merge (kerf/parts.h) makes the folder of them.
     * Every part runs all rows through the layers up to its own. Which are its own follows from the
     * model, the request and the two numbers; a part that is there and whole is left as it is. Not
     * with ranks. 0: all of them */
    unsigned part, parts;
    /* GPUs of this machine that share the rows, in pieces of KERF_GPU_PANEL_TOKENS: each member is
     * a rank, a thread with its device; exec is then not used. A layer is read and decoded once for
     * all of them. What is on one GPU is taken over by the next, number by number: the bytes are
     * those of one GPU of the same kind. NULL, or one member: no others. Not with `ranks`. */
    const kerf_team *team;
} kerf_calibrate_request;

/* Runs the tokens through the model, layer by layer, and writes a calibration. Then alpha: noise of
 * relative size `noise` is added to the weights of one group at a time, the states ahead of its
 * layer are used again, and what the layers behind it make of them is compared with the undisturbed
 * model: rise / t2, divided evenly among the weights of the group. The same folder for every number
 * of threads. exec: its threads and its device count; NULL: all cores. On a GPU the next
 * layer is read and the last one written while one runs, where there is memory for it. On a GPU the
 * folder is the same from run to run, and differs from the processor's (kerf/forward.h).
 * KERF_E_ARG: numbers out of range, fewer rows than draws, rows of one token; KERF_E_NOSUP: as
 * kerf_decoder_open, or a matrix that the forward pass does not use. Nothing is left behind by a
 * call that fails, unless `resume`. */
KERF_API KERF_CHECK kerf_status kerf_calibrate(const kerf_checkpoint *source,
                                               const kerf_calibrate_request *request,
                                               const kerf_exec *exec, const kerf_job *job,
                                               kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
