/* forward.h - a decoder-only language model, layer by layer, in float32 on the processor or on a
 * GPU.
 *
 *   kerf_decoder_open(checkpoint, NULL, &d, &err)       config.json, and where every weight stands
 *   kerf_decoder_embed(d, &tokens, hidden, &err)        the state before the first layer
 *   for each layer i:
 *     kerf_decoder_layer_load(d, i, &layer, &err)       that layer's weights as float32
 *     kerf_layer_run(layer, &tokens, hidden, ...)       the state behind it, in place
 *     kerf_layer_free(layer)
 *   kerf_decoder_logits(d, &tokens, hidden, ...)        final norm and output head, panel by panel
 *
 * All rows of tokens go through one layer before the next is read, so that a model needs the memory
 * of its largest layer. The state between layers belongs to the caller, who may keep copies of it.
 * Weights come from any checkpoint that kerf reads, dense or quantized, and are decoded once.
 *
 * Numbers are float32. Every sum of a product is one chain of fused multiply-adds over its inputs
 * in rising order, norms are summed in double: results are the same bits for every number of
 * threads. tanh, erf and the angles of positions come from the C library of the machine.
 *
 * On the GPU of kerf_exec.device products are cuBLASLt's: factors are split into two bfloat16
 * numbers each, sums are float32 (kernels/forward.md says what that differs by). The same numbers
 * from run to run, not those of the processor. There the state may also lie in the memory of the
 * GPU (kerf_dbuf.p): it then stays there from layer to layer.
 *
 * Threads: a decoder and its layers are used by one thread at a time; several decoders, of one
 * checkpoint too, by as many.
 *
 * Families, and what of their configurations is known: kerf_decoder_family_at, kernels/forward.md.
 */
#ifndef KERF_FORWARD_H
#define KERF_FORWARD_H

#include <kerf/checkpoint.h>
#include <kerf/job.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kerf_decoder kerf_decoder;
typedef struct kerf_layer kerf_layer;

/* rows sequences of equal length, each a text of its own that begins at position 0; row-major,
 * owned by the caller. rows x length is the number of tokens. */
typedef struct kerf_tokens {
    const uint32_t *token;
    uint64_t rows, length;
} kerf_tokens;

typedef struct kerf_decoder_info {
    const char *family; /* model_type of its row in the table, "llama"; static            */
    uint64_t layers, hidden, vocab;
    uint64_t heads, kv_heads;
    uint64_t head_dim;              /* of queries and keys                                 */
    uint64_t key_columns;           /* of what a cache keeps of one token: all key heads   */
    uint64_t value_columns;         /* the same for values                                 */
    uint64_t experts, experts_used; /* 0: none of the layers has any                       */
    uint64_t context;               /* positions that the model was made for; 0: not said  */
    uint64_t layer_bytes;           /* of the largest layer as float32                     */
    uint64_t head_bytes;            /* of the output head, kept from the first logits on   */
} kerf_decoder_info;

/* The i-th family: the values of model_type that it answers to, a blank between two; NULL past the
 * end. */
KERF_API const char *kerf_decoder_family_at(size_t i);

/* Reads config.json (a text_config in it counts) or the keys of a GGUF file, and finds each weight.
 * No element is read. The checkpoint must outlive the decoder. exec: its threads and its device
 * count, and the device must outlive the decoder; NULL: all cores. KERF_E_NOSUP: a GPU without
 * cuBLASLt; a family, or something in its configuration, that is not known; the text
 * names it and what is known. KERF_E_DATA: sizes that contradict each other, a weight that is
 * missing or has another shape. KERF_E_LIMIT: sizes beyond 2^20 per axis. KERF_E_NOMEM. */
KERF_API KERF_CHECK kerf_status kerf_decoder_open(const kerf_checkpoint *c, const kerf_exec *exec,
                                                  kerf_decoder **out, kerf_error *err);
KERF_API void kerf_decoder_close(kerf_decoder *d); /* NULL is fine */
KERF_API const kerf_decoder_info *kerf_decoder_about(const kerf_decoder *d);

/* Whether to go on is asked of `job` from now on, every few MiB, by kerf_decoder_embed,
 * kerf_decoder_layer_load, kerf_layer_send and kerf_gpu_sums_settle: KERF_E_CANCELED. It must live
 * until another is set. NULL: they are never canceled. */
KERF_API void kerf_decoder_heed(kerf_decoder *d, const kerf_job *job);

/* The state before layer 0: hidden [rows x length][hidden], written. KERF_E_DATA: a token that the
 * vocabulary does not have; offset is its index. KERF_E_RANGE: the state would not fit 64 bits. */
KERF_API KERF_CHECK kerf_status kerf_decoder_embed(kerf_decoder *d, const kerf_tokens *tokens,
                                                   float *hidden, kerf_error *err);

/* --- one layer ----------------------------------------------------------------------------- */

/* Reads and decodes the weights of layer i. A layer holds no more than it needs; several may be
 * loaded at once. */
KERF_API KERF_CHECK kerf_status kerf_decoder_layer_load(kerf_decoder *d, uint64_t i,
                                                        kerf_layer **out, kerf_error *err);
KERF_API void kerf_layer_free(kerf_layer *l); /* NULL is fine */

/* The weights of a loaded layer as a layer of d, which must be a decoder of the same checkpoint, on
 * another GPU say: nothing is read again or copied. `of` must outlive it. KERF_E_ARG: of another
 * checkpoint. */
KERF_API KERF_CHECK kerf_status kerf_decoder_layer_share(kerf_decoder *d, const kerf_layer *of,
                                                         kerf_layer **out, kerf_error *err);

/* Brings the weights to the GPU of the layer's decoder, while a run of another of its layers may be
 * under way in another thread; its own run then finds them there. What is changed in them
 * afterwards is not seen. On the processor nothing happens. KERF_E_NOMEM: there is no room beside
 * the other layer; it can still be run. Sends of one decoder are by one thread at a time. */
KERF_API KERF_CHECK kerf_status kerf_layer_send(kerf_layer *l, kerf_error *err);

/* A matrix that tokens are multiplied with: data[rows][cols], rows are outputs. A caller may change
 * the numbers between two runs, in the same thread. */
typedef struct kerf_layer_weight {
    const char *name; /* of the kerf_weight, owned by the checkpoint                  */
    int64_t expert;   /* its index in the stack of this name; -1: a matrix of its own */
    uint64_t rows, cols;
    float *data;
} kerf_layer_weight;

/* The i-th weight of a layer; NULL past the end. Norms, biases and sinks are not listed. */
KERF_API const kerf_layer_weight *kerf_layer_weight_at(const kerf_layer *l, size_t i);

/* Tokens of a panel on the processor and on a GPU: as many whole rows as fit, at least one. */
#define KERF_PANEL_TOKENS 2048
#define KERF_GPU_PANEL_TOKENS 8192

/* Where a run adds what the inputs of a weight come to, in the caller's memory; NULL: not wanted.
 * gram[cols][cols]: sums of x x^T, on and above the diagonal. */
typedef struct kerf_sums {
    double *square; /* [cols] */
    float *largest; /* |x|    */
    float *gram;
} kerf_sums;

/* Sums of a layer that are still on a GPU. */
typedef struct kerf_gpu_sums kerf_gpu_sums;
/* Adds them to where kerf_watch.sums said, by so many threads (0: all cores), and frees them, also
 * when it fails. In any thread, one at a time for each decoder, before that is closed. */
KERF_API KERF_CHECK kerf_status kerf_gpu_sums_settle(kerf_gpu_sums *s, int threads,
                                                     kerf_error *err);
KERF_API void kerf_gpu_sums_free(kerf_gpu_sums *s); /* without adding; NULL is fine */

/* What a caller wants to see of a run; each member may be NULL. Called by the thread of the caller,
 * between the steps of the run, with panels of tokens in their order; what pointers show is valid
 * during the call. A status other than KERF_OK ends the run with it. */
typedef struct kerf_watch {
    /* x[tokens][w->cols], the inputs of a weight. Weights that share them (q, k and v; gate and up)
     * are told one after the other with the same x. An expert is told of the tokens that were
     * routed to it, if any. */
    kerf_status (*input)(void *ctx, const kerf_layer_weight *w, const float *x, uint64_t tokens,
                         kerf_error *err);
    /* k[tokens][key_columns] after norms and rotary positions, v[tokens][value_columns]: what a
     * runtime would keep in its cache for layer `layer`, and may be changed. Of latent attention:
     * the decompressed heads. */
    kerf_status (*cache)(void *ctx, uint64_t layer, float *k, float *v, uint64_t tokens,
                         kerf_error *err);
    /* What a weight of a layer is multiplied by in the place of x: *y[tokens][w->cols], which need
     * live until the next call, or NULL: x. Others with the same input keep theirs. Asked once for
     * each part of a fused weight. */
    kerf_status (*replace)(void *ctx, const kerf_layer_weight *w, const float *x, uint64_t tokens,
                           const float **y, kerf_error *err);
    void *ctx;
    /* On a GPU, where they are set, in the place of input and cache, so that no input leaves it:
     * `sums` says for each panel where its sums go, and counts its tokens. cache_largest[2]: the
     * largest |k| and |v|. All are there when the run ends, unless `there`. */
    kerf_status (*sums)(void *ctx, const kerf_layer_weight *w, uint64_t tokens, kerf_sums *to,
                        kerf_error *err);
    float *cache_largest;
    /* On a GPU, where it is set, sums stay there: *there is what comes of the run. Before it, NULL
     * or what came of a run of the same layer over the tokens before these, on any GPU of this
     * process, whose decoder is still open: the run goes on with these sums, number by number as if
     * it had been one run, and they are freed. `sums` must then give the same addresses. */
    kerf_gpu_sums **there;
} kerf_watch;

/* Replaces hidden [rows x length][hidden] by the state behind the layer. watch and job: NULL: none.
 * The job is told nothing and asked whether to cancel. KERF_E_NOMEM, KERF_E_CANCELED: hidden is
 * then of no use. */
KERF_API KERF_CHECK kerf_status kerf_layer_run(const kerf_layer *l, const kerf_tokens *tokens,
                                               float *hidden, const kerf_watch *watch,
                                               const kerf_job *job, kerf_error *err);

/* --- the end ------------------------------------------------------------------------------- */

/* Called for panels of positions in rising order: logits[n][vocab] of positions [position,
 * position + n) of a row, the scores of the token behind each. The buffer may be changed. */
typedef kerf_status (*kerf_logits_of)(void *ctx, uint64_t row, uint64_t position, uint64_t n,
                                      float *logits, kerf_error *err);

/* hidden: the state behind the last layer, not changed. watch->input is told of the head's input.
 * The head is read and decoded at the first call. */
KERF_API KERF_CHECK kerf_status kerf_decoder_logits(kerf_decoder *d, const kerf_tokens *tokens,
                                                    const float *hidden, const kerf_watch *watch,
                                                    kerf_logits_of each, void *ctx,
                                                    const kerf_job *job, kerf_error *err);

/* The last states of a model for some rows of tokens: [rows x length][hidden]. */
typedef struct kerf_said {
    kerf_decoder *model;
    const float *hidden;
} kerf_said;

/* One prediction: a position and the token that follows it. */
typedef struct kerf_next_said {
    float loss;  /* -ln p(next)                                              */
    float other; /* the same of the second model                             */
    float kl;    /* sum of p ln(p / q), p of the first model, q of the other */
    int agrees;  /* both find the same token most likely                     */
} kerf_next_said;

/* Fills [rows * (length - 1)] predictions, row after row. q NULL: only `loss` is set. Each is found
 * alone, so that threads and panels change nothing. The logits of a panel are in memory, on the GPU
 * of models that run there. KERF_E_ARG: two models of which one runs on a GPU, on two devices, or
 * of two vocabularies. KERF_E_DATA: a token that the vocabulary does not have; offset is its index.
 */
KERF_API KERF_CHECK kerf_status kerf_next_tokens(const kerf_said *p, const kerf_said *q,
                                                 const kerf_tokens *tokens, kerf_next_said *out,
                                                 const kerf_job *job, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
