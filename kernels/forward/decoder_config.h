/* decoder_config.h - what config.json says of a decoder, in one form for all families, and the
 * table of what families differ in. */
#ifndef KERF_FORWARD_DECODER_CONFIG_H
#define KERF_FORWARD_DECODER_CONFIG_H

#include <jansson.h>

#include <kerf/forward.h>

#include "base/base.h"

/* In what a layer can differ, as bits: which weights it must have (decoder_slots.def), and what is
 * computed. A family's row has those that all of its models share. */
enum {
    KF_HAS_HEADS = 1 << 0,       /* q, k and v of whole heads                                     */
    KF_HAS_LATENT = 1 << 1,      /* keys and values through a compressed vector (MLA)             */
    KF_HAS_QUERY_RANK = 1 << 2,  /* queries too                                                   */
    KF_HAS_WHOLE_QUERY = 1 << 3, /* or not                                                        */
    KF_HAS_QKV_BIAS = 1 << 4,    /* biases on q, k and v                                          */
    KF_HAS_O_BIAS = 1 << 5,      /* and on the output of the attention                            */
    KF_HAS_HEAD_NORM = 1 << 6,   /* a norm of each head of q and k, before positions              */
    KF_HAS_OUTPUT_NORMS = 1 << 7, /* norms also behind attention and MLP */
    KF_HAS_SINKS = 1 << 8,       /* one more score per head, which takes part in the softmax      */
    KF_HAS_DENSE = 1 << 9,       /* an MLP                                                        */
    KF_HAS_EXPERTS = 1 << 10,    /* experts in its place                                          */
    KF_HAS_SHARED = 1 << 11,     /* and one that every token goes through                         */
    KF_HAS_CORRECTION = 1 << 12, /* a bias with which experts are chosen, and not weighted        */
    KF_HAS_ROUTER_BIAS = 1 << 13, /* biases on router and experts */
    KF_HAS_MLP_BIAS = 1 << 14,
    KF_HAS_HEAD = 1 << 15,  /* of layer 0: the model has a head apart from the embedding     */
    KF_HAS_LAYER = 1 << 22, /* what every layer has                                          */
    /* Of families alone: */
    KF_HAS_UNIT_NORMS = 1 << 16, /* norms multiply by 1 + w                                       */
    KF_HAS_SCALED_INPUT = 1 << 17, /* embeddings are multiplied by the root of the hidden size */
    KF_HAS_PAIRS = 1 << 18,       /* positions rotate neighbours, not the two halves of a head    */
    KF_HAS_TIED = 1 << 19,        /* embedding and head are one where the file does not say       */
    KF_HAS_CLAMPED = 1 << 20,     /* the gate of gpt-oss: clamped, (up + 1) gate sigmoid(a gate)  */
    KF_HAS_GROUPED_MAX = 1 << 21, /* groups of experts count by their best, not their best two */
};

/* How weights of the chosen experts come from the router's scores. */
typedef enum kf_router {
    KF_ROUTER_NONE,
    KF_ROUTER_SOFTMAX, /* of all; divided by their sum where the file says norm_topk_prob */
    KF_ROUTER_SHARES,  /* of all; always divided by their sum                             */
    KF_ROUTER_WHOLE,   /* of all; never divided                                           */
    KF_ROUTER_SIGMOID  /* each alone; divided where the file says so                      */
} kf_router;

typedef struct kf_decoder_family {
    const char *names; /* model_type, a blank between two         */
    const char *gguf;  /* the architecture of GGUF files; NULL: not read from them */
    unsigned has;
    unsigned windowed;      /* of this many layers all but the last have the window, where the file
                               lists no layer_types; 0: none, 1: all                            */
    const char *needs_true; /* key that must be true for a window to count; NULL: none needed  */
    kf_router router;
    unsigned nope_every; /* where the file does not say: every so many layers without positions */
    double theta, local_theta; /* defaults of rope_theta; local 0: the same               */
} kf_decoder_family;

const kf_decoder_family *kf_decoder_family_find(const char *type, const char *architecture);

typedef enum kf_rope_kind {
    KF_ROPE_DEFAULT,
    KF_ROPE_LINEAR,
    KF_ROPE_DYNAMIC,
    KF_ROPE_YARN,
    KF_ROPE_LONGROPE,
    KF_ROPE_LLAMA3
} kf_rope_kind;

typedef struct kf_rope {
    kf_rope_kind kind;
    uint64_t dims; /* of a head that are rotated */
    double theta, factor, original, context;
    double low_freq, high_freq, beta_fast, beta_slow, attention_factor, mscale, mscale_all;
    int truncate;
    float *short_factor, *long_factor; /* [dims / 2]                                        */
    float *parts; /* the same of a GGUF file, whatever the length; NULL: none   */
} kf_rope;

typedef enum kf_activation { KF_ACT_SILU, KF_ACT_GELU_TANH, KF_ACT_GELU } kf_activation;

typedef struct kf_layer_kind {
    unsigned has;
    uint64_t window; /* 0: none */
    int rope;        /* index, or -1: no positions */
} kf_layer_kind;

typedef struct kf_config {
    const kf_decoder_family *family;
    int is_gguf;
    uint64_t layers, hidden, vocab, heads, kv_heads, head_dim, value_dim, inner, context;
    uint64_t nope_dim, rope_dim, q_rank, kv_rank; /* MLA */
    uint64_t experts, used, expert_inner, shared_inner, groups, groups_used;
    uint64_t dense_first; /* layers before the first with experts */
    double eps, score_scale, score_cap, logit_cap, input_scale, route_scale, limit, alpha;
    int normalize; /* norm_topk_prob */
    kf_activation activation;
    kf_rope rope[2];     /* 1: of layers with a window, where they differ */
    kf_layer_kind *kind; /* [layers] */
} kf_config;

/* Reads and checks all of it; weights: how many the checkpoint has, which bounds the layers.
 * architecture: of a GGUF file, or NULL. Free with kf_config_free, also after a failure. */
kerf_status kf_config_read(const json_t *root, const char *architecture, uint64_t weights,
                           kf_config *c, kerf_error *err);
void kf_config_free(kf_config *c);

/* The keys of a GGUF file as config.json would have them. The caller decrefs. */
kerf_status kf_gguf_config(const kerf_reader *r, json_t **out, const char **architecture,
                           kerf_error *err);

/* rope_parameters, rope_scaling and what stands beside them. */
kerf_status kf_rope_read(const json_t *text, kf_config *c, kerf_error *err);

/* The angle per position of each pair, and the factor of cosine and sine, for rows of `length`. */
void kf_rope_frequencies(const kf_rope *r, uint64_t length, float *frequency, double *factor);

/* Whole numbers of 1 to 2^22 (`absent` where there is none; 0: it must be there), and others. */
kerf_status kf_config_size(const json_t *o, const char *key, uint64_t absent, uint64_t *out,
                           kerf_error *err);
/* NaN for a text or a boolean, which is no number and must not be taken for absent. */
double kf_config_real(const json_t *o, const char *key, double absent);

#endif
