/* predictions.h - many predictions in one call: matrix products of some shapes, batches and
 * formats, or steps of a model in some formats and batches; as structs, and as documents for
 * programs.
 *
 *   kerf_predict_products, kerf_predict_steps   a row for each combination
 *   kerf_product_outlooks_write, kerf_step_outlooks_write
 *                                               what `kerf predict --json` and --csv print
 *
 * Lists and what pointers of a request lead to are the caller's and must outlive the result, which
 * holds a copy of the request.
 */
#ifndef KERF_PREDICTIONS_H
#define KERF_PREDICTIONS_H

#include <kerf/measure.h>
#include <kerf/model.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kerf_outlook_kind { KERF_OUTLOOK_JSON, KERF_OUTLOOK_CSV } kerf_outlook_kind;

/* --- matrix products ----------------------------------------------------------------------- */

typedef struct kerf_products_request {
    const kerf_hardware *hardware;
    const kerf_format *const *format; /* [formats] of the weights */
    size_t formats;
    const kerf_weight_shape *shape; /* [shapes] */
    size_t shapes;
    const unsigned *batch; /* [batches] rows of activations, of each matrix  */
    size_t batches;
    const kerf_format *activations; /* NULL: bf16                                     */
    double matrices;                /* at once, each with its own rows; 0: one        */
} kerf_products_request;

typedef struct kerf_product_outlook {
    const kerf_format *format;
    kerf_weight_shape shape;
    unsigned batch;
    kerf_work work;
    kerf_prediction time;
    double speedup; /* over bf16 weights and activations, same shape and batch */
} kerf_product_outlook;

typedef struct kerf_product_outlooks {
    kerf_product_outlook *row; /* [rows] by shape, in that by batch, in that by format */
    size_t rows;
    kerf_products_request request;
} kerf_product_outlooks;

/* Errors are those of kerf_predict; the text names the shape. *out is NULL after a failure. */
KERF_API KERF_CHECK kerf_status kerf_predict_products(const kerf_products_request *r,
                                                      kerf_product_outlooks **out, kerf_error *err);
KERF_API void kerf_product_outlooks_free(kerf_product_outlooks *o); /* NULL is fine */

/* JSON, schema kerf.predict/1, or a line of names and one for each row: malloc'd, ends in a 0 that
 * n (may be NULL) does not count, to be freed. */
KERF_API KERF_CHECK kerf_status kerf_product_outlooks_write(const kerf_product_outlooks *o,
                                                            kerf_outlook_kind kind, char **text,
                                                            size_t *n, kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h). */
KERF_API KERF_CHECK kerf_status kerf_product_outlooks_text(const kerf_product_outlooks *o,
                                                           const kerf_text_form *form, char **text,
                                                           size_t *n, kerf_error *err);

/* --- steps of a model ---------------------------------------------------------------------- */

typedef struct kerf_steps_request {
    const kerf_hardware *hardware;    /* one GPU of it, where there are several */
    const kerf_model *model;          /* the whole of it                        */
    const char *config;               /* where it was read, for documents; NULL: they have null */
    const kerf_format *const *format; /* [formats] of the linear layers */
    size_t formats;
    const unsigned *batch; /* [batches] sequences */
    size_t batches;
    kerf_formats others; /* but for `linear` */
    double context;      /* tokens of each sequence; 0: 4096                       */
    int prefill;         /* all of them at once, instead of the next one           */
    unsigned gpus;       /* that share the model; 0, 1: one                        */
    int expert_parallel; /* 1: as in kerf_model_shard                              */
} kerf_steps_request;

typedef struct kerf_step_outlook {
    const kerf_format *format;
    unsigned batch;
    double weight_bytes, cache_bytes; /* of the whole model, and of all sequences           */
    double gpu_bytes;                 /* of both together on one of the GPUs                */
    int fits;                         /* in the memory of each GPU; -1: that is not known   */
    double crossover;                 /* kerf_model_crossover: tokens                       */
    kerf_step step;                   /* of one GPU                                         */
} kerf_step_outlook;

typedef struct kerf_step_outlooks {
    kerf_step_outlook *row; /* [rows] by batch, in that by format */
    size_t rows;
    kerf_steps_request request; /* with what its zeros stand for */
} kerf_step_outlooks;

/* Errors are those of kerf_model_shard and kerf_model_plan. *out is NULL after a failure. */
KERF_API KERF_CHECK kerf_status kerf_predict_steps(const kerf_steps_request *r,
                                                   kerf_step_outlooks **out, kerf_error *err);
KERF_API void kerf_step_outlooks_free(kerf_step_outlooks *o); /* NULL is fine */

/* JSON, schema kerf.predict-model/1, with the operators of each step, or lines without them:
 * malloc'd, ends in a 0 that n (may be NULL) does not count, to be freed. */
KERF_API KERF_CHECK kerf_status kerf_step_outlooks_write(const kerf_step_outlooks *o,
                                                         kerf_outlook_kind kind, char **text,
                                                         size_t *n, kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h); with the operators where there
 * is one step. */
KERF_API KERF_CHECK kerf_status kerf_step_outlooks_text(const kerf_step_outlooks *o,
                                                        const kerf_text_form *form, char **text,
                                                        size_t *n, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
