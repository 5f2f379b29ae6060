/* model.h - a transformer from its config.json: parameters, operators, bytes, time.
 *
 * A model is a list of parts, each a matrix shape and how often it occurs; everything else follows
 * from the parts. Llama, Mistral, Mixtral, Qwen2, Qwen3, Qwen3-MoE, DeepSeek-V3/R1, gpt-oss,
 * Gemma 1 to 3 (text). The head dimension is read, never derived, where the file has it.
 */
#ifndef KERF_MODEL_H
#define KERF_MODEL_H

#include <kerf/checkpoint.h>
#include <kerf/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kerf_part_kind {
    KERF_PART_LINEAR,    /* a matrix that every token passes            */
    KERF_PART_EXPERT,    /* a matrix of each expert                     */
    KERF_PART_ROUTER,    /* chooses experts; stays in its source type   */
    KERF_PART_EMBEDDING, /* a gather: one row per token is read         */
    KERF_PART_HEAD,      /* of the logits                               */
    KERF_PART_VECTOR     /* norms, biases, sinks                        */
} kerf_part_kind;

typedef struct kerf_part {
    const char *name; /* "q_proj"                                           */
    kerf_part_kind kind;
    uint64_t n, k;    /* outputs and inputs; VECTOR: n elements, k = 1      */
    uint64_t copies;  /* layers that have it                                */
    uint64_t experts; /* per layer; 1 for what is no expert's               */
    int fused;        /* products with the same number run as one; 0: alone */
} kerf_part;

enum { KERF_MAX_PARTS = 40, KERF_MAX_OPERATORS = 40 };

typedef struct kerf_model {
    char type[32]; /* model_type of the file */
    uint64_t hidden, layers, vocab, heads, kv_heads, head_dim;
    uint64_t experts, experts_active; /* routed, per token; 0: dense                        */
    uint64_t moe_layers;
    uint64_t attention_layers;      /* that cache keys and values; others have a state      */
    int estimated;                  /* 1: the family is known by its sizes alone, or not at all:
                                       the rest is as in most models                        */
    uint64_t window, window_layers; /* layers that see `window` tokens only                 */
    uint64_t borrowing_layers;      /* of those with attention: they cache nothing of the text, and
                                       read what another layer has cached, or an image      */
    uint64_t borrowing_windows;     /* those of them with a window                          */
    uint64_t latent, rope_dim;      /* MLA: what is cached per token, with the rotary part  */
    uint64_t qk_dim, v_dim;         /* of a head: what scores and values multiply           */
    int tied;                       /* the head is the embedding                            */
    unsigned gpus;                  /* that share every matrix; 0, 1: this is the whole     */
    unsigned expert_gpus;           /* that share the experts, each whole; 0, 1: none do    */
    kerf_part part[KERF_MAX_PARTS];
    size_t parts;
} kerf_model;

/* path: a config.json, or a folder that holds one. A family that is not known is estimated from its
 * sizes, whatever they are called (kerf_model.estimated). KERF_E_NOSUP: a mixture of layers that is
 * not known. KERF_E_DATA: what is missing or impossible. */
KERF_API KERF_CHECK kerf_status kerf_model_open(const char *path, kerf_model *out, kerf_error *err);

/* The model that a checkpoint is of: of `config` (as for kerf_model_open), or where that is NULL of
 * the config.json beside the weights. *found 0, and KERF_OK: there is no such file (why is empty),
 * or it is one beside the weights that says too little, and `why`, of `size` bytes, says what. A
 * file that cannot be read is a failure. */
KERF_API KERF_CHECK kerf_status kerf_model_find(const kerf_checkpoint *c, const char *config,
                                                kerf_model *out, int *found, char *why, size_t size,
                                                kerf_error *err);

/* --- several GPUs -------------------------------------------------------------------------- */

/* What one of `gpus` GPUs holds of a model: of q, k, v, gate, up, embedding and head a share of the
 * outputs, of what leads back to the hidden state (o, down, out) a share of the inputs; a key and
 * value head that several GPUs need stands on each of them; routers, norms and what compresses to
 * latents stand on all. Experts are shared likewise, or, with expert_parallel, each is whole on one
 * GPU. kerf_model_plan then adds what the GPUs exchange. KERF_E_ARG: heads or experts that cannot
 * be divided by so many. */
KERF_API KERF_CHECK kerf_status kerf_model_shard(const kerf_model *m, unsigned gpus,
                                                 int expert_parallel, kerf_model *out,
                                                 kerf_error *err);

/* --- counts -------------------------------------------------------------------------------- */

KERF_API double kerf_model_parameters(const kerf_model *m);  /* all, a tied head once          */
KERF_API double kerf_model_active(const kerf_model *m);      /* that one token passes, without
                                                                embedding; with the head       */
KERF_API double kerf_model_kv_elements(const kerf_model *m); /* cached per token of context   */
/* Cached bytes per token of context in this format (NULL: bf16); scales per block counted. */
KERF_API KERF_CHECK kerf_status kerf_model_kv_bytes(const kerf_model *m, const kerf_format *f,
                                                    double *out, kerf_error *err);
/* Cached bytes of a sequence of this length: layers with a window cache no more than that. */
KERF_API KERF_CHECK kerf_status kerf_model_cache_bytes(const kerf_model *m, const kerf_format *f,
                                                       double context, double *out,
                                                       kerf_error *err);
/* Operations of attention per token and token of its context, all layers as if none had a window;
 * absorbed: MLA on its latent cache, as in decode. */
KERF_API double kerf_model_attention_flops(const kerf_model *m, int absorbed);
/* Experts that some token of a batch chose, on average, when all are as likely. */
KERF_API double kerf_expected_experts(double experts, double chosen, double batch);

/* Formats of a run; NULL: bf16. */
typedef struct kerf_formats {
    const kerf_format *linear;      /* matrices of every layer       */
    const kerf_format *experts;     /* NULL: as linear               */
    const kerf_format *head;        /* logits                        */
    const kerf_format *kv;          /* cache                         */
    const kerf_format *activations; /* inputs of products            */
} kerf_formats;

/* Stored bytes of all parameters; embedding, router and vectors in bf16, a tied head once. */
KERF_API KERF_CHECK kerf_status kerf_model_bytes(const kerf_model *m, const kerf_formats *f,
                                                 double *out, kerf_error *err);
/* Bytes of matrices that a decoding step of `batch` tokens reads. */
KERF_API KERF_CHECK kerf_status kerf_model_read_bytes(const kerf_model *m, const kerf_formats *f,
                                                      double batch, double *out, kerf_error *err);
/* The context at which a decoding step reads as many bytes of cache as of matrices; infinite where
 * windows keep it from growing so far. */
KERF_API KERF_CHECK kerf_status kerf_model_crossover(const kerf_model *m, const kerf_formats *f,
                                                     double batch, double *out, kerf_error *err);

/* --- time ---------------------------------------------------------------------------------- */

typedef struct kerf_operator {
    char name[48];
    double count;         /* per step: layers                                        */
    kerf_work work;       /* of one                                                  */
    kerf_prediction time; /* of one                                            */
} kerf_operator;

typedef struct kerf_phase {
    double batch;   /* sequences                                               */
    double context; /* tokens of each: seen by a decoding step, or prefilled   */
    int prefill;    /* all tokens at once, logits of the last alone            */
} kerf_phase;

typedef struct kerf_step {
    kerf_operator op[KERF_MAX_OPERATORS];
    size_t ops;
    double flops, bytes;
    kerf_prediction time;   /* of the step */
    double tokens_per_s[2]; /* at high_us and at low_us: all sequences together */
} kerf_step;

/* Operators of one step, their work and time. Kernels between products (norm with residual,
 * rotary with cache, activation) count as one launch each. */
KERF_API KERF_CHECK kerf_status kerf_model_plan(const kerf_model *m, const kerf_hardware *h,
                                                const kerf_formats *f, const kerf_phase *phase,
                                                kerf_step *out, kerf_error *err);

/* Operations per byte of what runs between products, in 16-bit elements: "rmsnorm", "softmax",
 * "residual", "rope", "silu_mul"; 0 if unknown. */
KERF_API double kerf_elementwise_intensity(const char *name);

#ifdef __cplusplus
}
#endif
#endif
