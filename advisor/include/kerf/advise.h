/* advise.h - the best format for every group of layers under a budget, and why.
 *
 * kerf_advise encodes every tensor in every candidate format, measures the error of the bytes,
 * predicts times where it is given a machine, and chooses one format for each group: the least sum
 * of alpha t2 under the budget, t2 = ||W' - W||^2 / ||W||^2. Alpha says how much the error of a
 * tensor matters. To keep a group as it is always is a candidate.
 *
 * A group is tensors that must share a format: what runtimes fuse into one matrix (q, k and v), all
 * experts of a layer, or one tensor alone.
 */
#ifndef KERF_ADVISE_H
#define KERF_ADVISE_H

#include <kerf/calibrate.h>
#include <kerf/choose.h>
#include <kerf/model.h>
#include <kerf/runtimes.h>
#include <kerf/score.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- request ------------------------------------------------------------------------------- */

/* How much errors matter: alpha of the tensors that match a shell pattern; of several, the last. A
 * pattern that matches no tensor is KERF_E_ARG. */
typedef struct kerf_alpha_rule {
    const char *glob;
    double alpha; /* above 0, below 1e12 */
} kerf_alpha_rule;

/* A file of such rules: {"schema": "kerf.alpha/1", "alpha": {GLOB: NUMBER}}. */
typedef struct kerf_alphas {
    const kerf_alpha_rule *rule; /* [rules], in the order of the file; texts belong to it */
    size_t rules;
} kerf_alphas;

/* KERF_E_IO: it cannot be read; KERF_E_DATA: it is no such JSON, has no rule, or a number that is
 * no alpha. Close the result with kerf_alphas_close. */
KERF_API KERF_CHECK kerf_status kerf_alphas_open(const char *path, kerf_alphas **out,
                                                 kerf_error *err);
KERF_API void kerf_alphas_close(kerf_alphas *a); /* NULL is fine */

typedef enum kerf_alpha {
    KERF_ALPHA_FLAT,      /* 1 for every tensor                                                   */
    KERF_ALPHA_DEPTH,     /* by curves over the depth of a layer, fitted to other models          */
    KERF_ALPHA_RULES,     /* by rules, the last that matches; 1 for a tensor that none matches    */
    KERF_ALPHA_CALIBRATED /* as the calibration measured it; the largest for a tensor of which it
                             says nothing, 1 for all where it has none                        */
} kerf_alpha;

/* The most that the choice may cost. 0: no limit; all that are given hold together. */
typedef struct kerf_budget {
    double bits;         /* per weight of all groups; kerf_bits_most       */
    double bytes;        /* of all tensors, those that are kept among them */
    double us;           /* of a decoding step, predicted                  */
    double tokens_per_s; /* at least, of all sequences together, predicted */
    int likely; /* 1: predicted times are the middle of their band; 0: its slow end, so that
                   a limit holds wherever in the band the truth is */
    double t2;  /* sum of alpha t2 over all tensors               */
} kerf_budget;

/* Sets the limit that a text says, "4.5bits" (or bpw, or without a unit), "3GiB" (B, KB, MB, GB,
 * KiB, MiB), "250us" (ms), "90tok/s", "0.1t2", and leaves the others. A time may end in ":likely".
 * KERF_E_ARG: the text is none of these. */
KERF_API KERF_CHECK kerf_status kerf_budget_read(const char *text, kerf_budget *b, kerf_error *err);

/* All zeros but for the candidates and a budget is a request. Nothing that it points to must
 * outlive the call but the hardware. */
typedef struct kerf_advise_request {
    const kerf_layout
        *layout; /* what the result must fit: a candidate is one that it takes,
                    experts stand as it wants them; where it names one format for a
                    checkpoint, one is chosen. NULL: that of `runtime`, else anything */
    const kerf_runtime
        *runtime; /* what shall load it, on `hardware` where that is given; NULL: any */
    const kerf_select *select; /* which tensors; NULL: those that are quantized by default     */
    const kerf_codec *codec;   /* [codecs] candidates, each with its encoder                   */
    size_t codecs;
    const unsigned char *optional; /* [codecs] 1: left out where layout or runtime do not take it,
                                      or no group can be encoded in it, no failure. Where layout and
                                      runtime leave none, all formats that they take are candidates.
                                      NULL: all 0 */
    kerf_budget budget;
    kerf_price minimise; /* one measure, while the others stay under the budget                */
    int nested;          /* choices that only grow with the budget, not always the best        */

    const kerf_hardware *hardware; /* the machine to predict times for; NULL: no times. It must
                                      outlive the advice                                       */
    const kerf_model *model; /* what a decoding step does besides, as kerf_model_open has it; NULL:
                                the products of the groups alone                               */
    double batch;            /* sequences of a decoding step; 0: 1                             */
    double context;          /* tokens of each; 0: 4096                                        */
    unsigned gpus;           /* that share every layer; 0, 1: one. More than one needs a model */
    int expert_parallel;     /* 1: each expert is whole on one of them                         */

    kerf_alpha alpha;
    const kerf_alpha_rule *alpha_rule; /* [alpha_rules], for KERF_ALPHA_RULES                  */
    size_t alpha_rules;
    const char *alpha_name;         /* where these rules come from, for reports                */
    const kerf_checkpoint *imatrix; /* weighs t2, as in kerf_score_request; NULL: none         */
    /* Of the source; NULL: none. Its mean squares are the imatrix where there is no other, and t2
     * of a tensor is then the error of its output over that of an equal error in all columns, which
     * is what alpha was measured with: sum of h (w' - w)^2 over mean of h times sum of w^2.
     * KERF_E_DATA: it is of another model. */
    const kerf_calibration *calibration;
    int feedback; /* 1 or 2: candidates are encoded with error feedback, as in kerf_score_request;
                     the recipe says so                                                          */
    kerf_tokens tokens; /* on which the end of some choices is measured: not those of the
                           calibration. rows 0: it is not measured                               */
    const char *made;  /* when, "2026-11-26", for reports, of which 23 bytes are kept; NULL: they do
                          not say */
    const char *cache; /* path of a file that keeps scores, so that another budget takes seconds;
                          NULL: none. What was measured is saved also when a later tensor fails or
                          the job is canceled                                                  */
} kerf_advise_request;

/* The candidates to offer where a person names none, the best encoder of each format that earns its
 * bits: "nvfp4:4/6,mxfp4:even,...", words for kerf_codec_find. Static storage. */
KERF_API const char *kerf_advise_candidates(void);
/* The same for a result that a layout must hold (NULL: that of the runtime) and a runtime load
 * (NULL: any): GGUF has formats of its own. */
KERF_API const char *kerf_advise_candidates_for(const kerf_layout *l, const kerf_runtime *r);

/* --- advice -------------------------------------------------------------------------------- */

enum {
    KERF_ADVICE_SHAPES = 4,
    KERF_ADVICE_CURVE = 33,
    KERF_ADVICE_NAME = 320,
    KERF_ADVICE_MEASURED = 5
};

/* Products of a group that share their input run as one: y[n] = W[n x k] x[k]. */
typedef struct kerf_advice_shape {
    uint64_t n, k;
    double matrices; /* experts, or 1 */
} kerf_advice_shape;

/* What a candidate would cost a group. */
typedef struct kerf_advice_cost {
    int possible; /* it can encode every member of the group                            */
    double t2;    /* sum of the members' alpha t2, weighted where there is an imatrix   */
    double bytes;
    double us; /* the middle of the band; 0 without hardware                            */
    double low_us, high_us; /* its ends */
} kerf_advice_cost;

typedef struct kerf_advice_group {
    char name[KERF_ADVICE_NAME]; /* "model.layers.0.self_attn.qkv_proj"                          */
    char glob[KERF_ADVICE_NAME]; /* a pattern that matches the members and nothing else; empty:
                                    there is none                                                */
    int experts;                 /* 1: all experts of a layer                                    */
    int layer;                   /* -1: none                                                     */
    size_t *member;              /* [members] indices into kerf_advice.tensor                    */
    size_t members;
    double elements;
    kerf_advice_shape shape[KERF_ADVICE_SHAPES];
    size_t shapes;
    kerf_advice_cost *cost; /* [codecs + 1]; the last one is to keep it as it is                 */
    size_t pick;            /* the choice: an index into cost                                    */
    char reason[240];       /* in words: what the next best candidate would change               */
} kerf_advice_group;

typedef struct kerf_advice_tensor {
    const kerf_weight *weight;
    size_t group;
    double alpha;
    double input;      /* mean square of its inputs, with a calibration; else 0 */
    kerf_score *score; /* [codecs]; all zeros where the candidate is not possible */
} kerf_advice_tensor;

/* Sums over groups. */
typedef struct kerf_advice_point {
    double bits, bytes, t2, us, low_us, high_us;
} kerf_advice_point;

typedef struct kerf_advice_curve {
    kerf_advice_point point[KERF_ADVICE_CURVE];
    size_t count;
} kerf_advice_curve;

/* A choice that was carried out in memory and run over the tokens of the request. */
typedef struct kerf_advice_measured {
    double bits, predicted;     /* per weight of all groups; the sum of alpha t2                 */
    double kl, kl_low, kl_high; /* of the next token, in nats, and its 95 % interval (kerf_eval) */
    double perplexity;
    size_t uniform; /* this candidate for all groups; SIZE_MAX: a mixture                       */
} kerf_advice_measured;

/* To be read only. Figures of time are 0 without hardware. */
typedef struct kerf_advice {
    const char *source; /* path of the checkpoint                                               */
    const kerf_layout *layout;   /* NULL: any                                                   */
    const kerf_runtime *runtime; /* NULL: any                                                   */
    size_t only; /* the one candidate that is chosen, where there may be one only; `codecs`: those
                    that the layout can mix; SIZE_MAX: any of them                              */
    kerf_checkpoint *arranged; /* owned: the source as that wants it, or NULL                   */
    kerf_codec *codec; /* [codecs] candidates                                                  */
    size_t codecs;
    kerf_advice_tensor *tensor; /* [tensors] those that a format is chosen for                  */
    size_t tensors;
    kerf_advice_group *group; /* [groups] in the order of the checkpoint                        */
    size_t groups;
    double elements;   /* of all groups                                                         */
    double kept_bytes; /* of tensors that no format is chosen for                               */
    double other_us;   /* of a step besides the groups: attention, norms, router, and layers that
                          are kept                                                             */
    double other_low_us, other_high_us;
    size_t weighted; /* tensors that the imatrix names                                        */

    kerf_budget budget;
    kerf_price minimise;
    int nested;
    const kerf_hardware *hardware;
    kerf_model model;
    int has_model;
    double batch, context;
    unsigned gpus;       /* that share every layer: times are those of all together           */
    int expert_parallel; /* experts are whole                                                 */
    char made[24];       /* when, or "" */
    uint64_t feedback;   /* kerf_moments.contents, where candidates have error feedback; else 0 */
    char *alpha_source;  /* what alpha is, in words                                              */
    kerf_tier tier;      /* of the least sure time                                         */

    /* The choice by prediction, the best single formats that are no larger, and choices of a
     * quarter of a bit less and more. measured_pick: the one that is recommended: not the first
     * where a single format has measured better. */
    kerf_advice_measured measured[KERF_ADVICE_MEASURED];
    size_t measureds, measured_pick;
    double source_perplexity; /* on the same tokens */

    kerf_choice choice; /* but for `pick`, which is NULL: see the groups                        */
    double choose_s;    /* seconds that the choice took                                         */
    size_t scored, cached;              /* scores that were measured, and that were in the cache  */
    kerf_advice_curve by_size, by_time; /* the best choices as each of them grows; by_time: only
                                           with hardware                                        */
} kerf_advice;

/* Advice for the weights of `source`, which must outlive it. The same request leads to the same
 * choice for every exec. exec NULL: the processor, all cores.
 *
 * KERF_E_LIMIT: no choice stays under the budget; the text says what would. KERF_E_ARG: a request
 * that contradicts itself, has no budget, or selects no tensor. KERF_E_NOSUP: a candidate that can
 * encode no group. KERF_E_DATA: as for kerf_score_checkpoint, or a cache that is no file of scores.
 * Close the result with kerf_advice_close. */
KERF_API KERF_CHECK kerf_status kerf_advise(const kerf_checkpoint *source,
                                            const kerf_advise_request *request,
                                            const kerf_exec *exec, const kerf_job *job,
                                            kerf_advice **out, kerf_error *err);
KERF_API void kerf_advice_close(kerf_advice *a); /* NULL is fine */

/* Name of candidate c, "nvfp4:4/6"; "keep" for the one past the last. out holds 64 bytes; returns
 * out. */
KERF_API char *kerf_advice_codec_name(const kerf_advice *a, size_t c, char *out);
/* What a group is within its layer: its name without the layer, "self_attn.qkv_proj". A part of its
 * name, or all of it. */
KERF_API const char *kerf_advice_part(const kerf_advice_group *g);
/* Sums of the choice, or of candidate c for all groups (kept where it is not possible). */
KERF_API kerf_advice_point kerf_advice_total(const kerf_advice *a);
KERF_API kerf_advice_point kerf_advice_uniform(const kerf_advice *a, size_t c);
/* Bits per weight of a group in candidate c. */
KERF_API double kerf_advice_bits(const kerf_advice_group *g, size_t c);

/* --- as a text ----------------------------------------------------------------------------- */

typedef enum kerf_advice_kind {
    KERF_ADVICE_JSON,     /* schema kerf.advise/1, as `kerf advise --json` prints it    */
    KERF_ADVICE_MARKDOWN, /* a page                                                     */
    KERF_ADVICE_HTML,     /* a page with charts: one file, no script, nothing fetched   */
    KERF_ADVICE_RECIPE,   /* schema kerf.recipe/1, to be executed: see recipe.h         */
    KERF_ADVICE_SUMMARY   /* some lines of text: the totals, and how they were found    */
} kerf_advice_kind;

/* *text is malloc'd, ends in a 0 that n (may be NULL) does not count, and is to be freed. */
KERF_API KERF_CHECK kerf_status kerf_advice_write(const kerf_advice *a, kerf_advice_kind kind,
                                                  char **text, size_t *n, kerf_error *err);
/* For people, in the form that is asked for (kerf/words.h): a table of the groups, and the summary.
 */
KERF_API KERF_CHECK kerf_status kerf_advice_text(const kerf_advice *a, const kerf_text_form *form,
                                                 char **text, size_t *n, kerf_error *err);

/* 1: a name ends in .html, .md or .json, and *out is what a file of that name holds. */
KERF_API int kerf_advice_kind_of(const char *path, kerf_advice_kind *out);

#ifdef __cplusplus
}
#endif
#endif
