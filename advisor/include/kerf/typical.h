/* typical.h - which format for a model of which only config.json is at hand: sizes and times are
 * those of its matrices, errors are typical ones, measured on another model. With the weights,
 * kerf_advise measures instead, and chooses per layer. */
#ifndef KERF_TYPICAL_H
#define KERF_TYPICAL_H

#include <kerf/advise.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kerf_typical_request {
    const kerf_model *model;
    const kerf_hardware *hardware;
    const kerf_layout *layout;   /* NULL: that of the runtime, else any       */
    const kerf_runtime *runtime; /* NULL: any                                 */
    const kerf_codec *codec;     /* [codecs] candidates; one without a typical error is left out */
    size_t codecs;
    kerf_budget budget; /* bits, bytes (weights), us, tokens_per_s, likely; no t2               */
    double batch, context; /* 0: 1 and 4096                                   */
    unsigned gpus;         /* that share the model; 0, 1: one                 */
    int expert_parallel;   /* 1: as in kerf_model_shard                       */
    const char *config;    /* where the model was read, for documents; NULL: they have null */
} kerf_typical_request;

/* All linear layers and experts in one format; embedding, head, norms and routers in bfloat16. */
typedef struct kerf_typical_row {
    kerf_codec codec;
    double bits;                /* per weight of what is quantized         */
    double weight_bytes;        /* of the whole model                      */
    double cache_bytes;         /* of all sequences at the context, bfloat16 */
    double gpu_bytes;           /* of both together on one of the GPUs     */
    double t2;                  /* typical relative squared error, weighted by elements */
    double low_us, us, high_us; /* of a decoding step                      */
    kerf_tier tier;
    int fits;  /* weights and cache in the memory of each GPU; -1: not known */
    int holds; /* the budget: 2 in the whole band of time, 1 in part of it, 0 not */
} kerf_typical_row;

typedef struct kerf_typical {
    kerf_typical_row *row; /* [rows] in the order of their error, the least first        */
    size_t rows, left_out; /* candidates that layout, runtime or the table do not have   */
    size_t best; /* the first that fits and holds (in the middle where `likely`); rows: none */
    double batch, context;
    kerf_typical_request request; /* a copy; what its pointers lead to must outlive this */
} kerf_typical;

/* KERF_E_NOSUP: no candidate is left. KERF_E_ARG: a limit on t2. Close the result with
 * kerf_typical_close. */
KERF_API KERF_CHECK kerf_status kerf_advise_typical(const kerf_typical_request *r,
                                                    kerf_typical **out, kerf_error *err);
KERF_API void kerf_typical_close(kerf_typical *t); /* NULL is fine */

typedef enum kerf_typical_kind {
    KERF_TYPICAL_JSON,   /* schema kerf.advise-typical/1                        */
    KERF_TYPICAL_SUMMARY /* which is best, or why none is, and what that rests on */
} kerf_typical_kind;

/* malloc'd, ends in a 0 that n (may be NULL) does not count, to be freed. */
KERF_API KERF_CHECK kerf_status kerf_typical_write(const kerf_typical *t, kerf_typical_kind kind,
                                                   char **text, size_t *n, kerf_error *err);
/* For people, in the form that is asked for (kerf/words.h): a table of the formats, and the
 * summary. */
KERF_API KERF_CHECK kerf_status kerf_typical_text(const kerf_typical *t, const kerf_text_form *form,
                                                  char **text, size_t *n, kerf_error *err);

/* What the errors were measured on, for a line of text. */
KERF_API const char *kerf_typical_source(void);

#ifdef __cplusplus
}
#endif
#endif
