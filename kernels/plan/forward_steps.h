/* forward_steps.h - the steps that a forward pass consists of, as functions that whoever computes
 * fills in: the processor (kernels/forward), or a GPU (kernels/cuda/forward). The order of the
 * steps, and what a family needs of them, is the same for both and stands in kernels/forward.
 *
 * "There" is the memory that steps work on: that of the processor, or of the GPU. Every kf_rows is
 * there. Weights, norms, biases, sinks and lists are in host memory; a GPU finds its copy of them
 * by their address (hold). Steps run in the order of the calls; only those that give something
 * to the host wait. */
#ifndef KERF_FORWARD_STEPS_H
#define KERF_FORWARD_STEPS_H

#include <kerf/job.h>

#include "base/base.h"
#include "cpu/row_product.h"

typedef struct kf_stepper kf_stepper;
typedef struct kerf_gpu_sums kerf_gpu_sums; /* kerf/forward.h */

/* Numbers in host memory that steps will be given addresses in. */
typedef struct kf_held {
    const float *p;
    uint64_t n;
    int factor; /* 1: a factor of products; 0: a vector */
} kf_held;

/* Some numbers of each head turn with the position of the token. */
typedef struct kf_rotation {
    kf_rows x;
    uint64_t head, from, dims;  /* numbers [from, from + dims) of each head of `head` */
    uint64_t length;            /* of a row of tokens                                 */
    const float *cosine, *sine; /* there: [length][dims / 2]                         */
    int pairs;                  /* neighbours, not the two halves                    */
} kf_rotation;

typedef struct kf_attention {
    kf_rows q, k, v, mixed;
    uint64_t rows, length, heads, kv_heads, dim, value; /* dim: of a query, value: of a value */
    uint64_t window;                                    /* 0: none                            */
    float scale, cap;                                   /* cap 0: none                        */
    const float *sinks;                                 /* [heads]; NULL: none                */
} kf_attention;

typedef enum kf_gate_kind {
    KF_GATE_SILU,
    KF_GATE_GELU_TANH,
    KF_GATE_GELU,
    KF_GATE_CLAMPED
} kf_gate_kind;

typedef struct kf_gating {
    kf_rows gate, up; /* gate = act(gate) * up */
    kf_gate_kind kind;
    float limit, alpha;
} kf_gating;

/* A head of keys is its own part of `unpacked` and the end of `packed`, which all heads share. */
typedef struct kf_unpacking {
    kf_rows packed, unpacked, k, v;
    uint64_t heads, nope, rope, value, shared; /* shared: where the end of `packed` begins */
} kf_unpacking;

/* to[i] = from[token[i]], or, back, to[token[i]] += share[i] * from[i]. */
typedef struct kf_gathering {
    kf_rows from, to;
    const uint32_t *token; /* [rows of the smaller one] */
    const float *share;
    int back;
} kf_gathering;

/* Where sums over inputs are added, in host memory; NULL: not wanted. */
typedef struct kf_sums {
    double *square;
    float *largest, *gram;
} kf_sums;

/* What one or two models say of the next token. */
typedef struct kf_likely {
    float loss, other, kl; /* as kerf_next_said has them */
    int agrees;
} kf_likely;

/* Sums that stay where steps work. */
struct kerf_gpu_sums {
    kerf_status (*settle)(kerf_gpu_sums *s, int threads, kerf_error *err);
    void (*free)(kerf_gpu_sums *s);
};

typedef struct kf_sent kf_sent; /* weights that were sent ahead */

#define KF_NOTHING_FOLLOWS UINT32_MAX

typedef struct kf_steps {
    const char *name;
    int apart; /* the memory of steps is not that of the host */
    void (*close)(kf_stepper *s);

    kerf_status (*allocate)(kf_stepper *s, uint64_t bytes, void *out, kerf_error *err);
    void (*release)(kf_stepper *s, void *p); /* NULL is fine */
    /* Of steps that are apart alone. is_there: p is already where steps work. */
    int (*is_there)(kf_stepper *s, const void *p);
    kerf_status (*upload)(kf_stepper *s, void *to, const void *from, uint64_t bytes,
                          kerf_error *err);
    kerf_status (*download)(kf_stepper *s, void *to, const void *from, uint64_t bytes,
                            kerf_error *err);
    /* keep: until close; else until the next `drop`, which also forgets sums that were neither
     * settled nor kept. */
    kerf_status (*hold)(kf_stepper *s, const kf_held *array, size_t n, int keep, kerf_error *err);
    void (*drop)(kf_stepper *s);
    /* Sums over x; what they come to is added to `to` (the largest: is there) by the next `settle`.
     */
    kerf_status (*sum)(kf_stepper *s, kf_rows x, const kf_sums *to, kerf_error *err);
    kerf_status (*settle)(kf_stepper *s, kerf_error *err);

    /* y = norm(x) w over runs of `width` numbers, one or more to a row. y may be x. */
    kerf_status (*norm)(kf_stepper *s, kf_rows y, const float *x, const float *w, size_t width,
                        double eps, kerf_error *err);
    /* y = x w^T + bias, every bias_step-th of it; NULL: none. */
    kerf_status (*product)(kf_stepper *s, kf_rows y, kf_rows x, kf_factor w, const float *bias,
                           uint64_t bias_step, kerf_error *err);
    kerf_status (*add)(kf_stepper *s, kf_rows y, kf_rows x, kerf_error *err); /* y += x */
    kerf_status (*zero)(kf_stepper *s, kf_rows y, kerf_error *err);
    kerf_status (*rotate)(kf_stepper *s, const kf_rotation *r, kerf_error *err);
    kerf_status (*attend)(kf_stepper *s, const kf_attention *a, kerf_error *err);
    kerf_status (*gate)(kf_stepper *s, const kf_gating *g, kerf_error *err);
    /* to = the first columns of from */
    kerf_status (*take)(kf_stepper *s, kf_rows to, kf_rows from, kerf_error *err);
    kerf_status (*unpack)(kf_stepper *s, const kf_unpacking *u, kerf_error *err);
    kerf_status (*gather)(kf_stepper *s, const kf_gathering *g, kerf_error *err);
    kerf_status (*cap)(kf_stepper *s, kf_rows y, float cap,
                       kerf_error *err); /* cap tanh(y / cap) */
    /* Logits of one model, and of another (p NULL: none); next and out in host memory, one for each
     * row. Where nothing follows out stays. */
    kerf_status (*judge)(kf_stepper *s, kf_rows a, kf_rows b, const uint32_t *next, kf_likely *out,
                         kerf_error *err);

    /* Of steps that are apart alone; a table without them does as if nobody had asked.
     * send: in another thread than the steps' own, beside them. hold_sent: until the next drop. */
    kerf_status (*send)(kf_stepper *s, const kf_held *array, size_t n, kf_sent **out,
                        kerf_error *err);
    kerf_status (*hold_sent)(kf_stepper *s, const kf_sent *sent, kerf_error *err);
    void (*unsend)(kf_stepper *s, kf_sent *sent);
    /* The sums so far leave the steps; those of other steps come, whose they are then. */
    kerf_status (*keep)(kf_stepper *s, kerf_gpu_sums **out, kerf_error *err);
    kerf_status (*go_on)(kf_stepper *s, kerf_gpu_sums *before, kerf_error *err);
    /* Waits until no more than two calls of it ago all is done, so that who cancels is heard. */
    kerf_status (*pace)(kf_stepper *s, kerf_error *err);
} kf_steps;

struct kf_gpu_pass; /* of kernels/cuda/forward */

struct kf_stepper {
    const kf_steps *steps;
    int threads;
    const kerf_job *job;       /* asked by what is long; NULL: never canceled */
    const kerf_device *device; /* that steps run on; NULL: the processor      */
    kf_product *product;       /* of the processor                            */
    struct kf_gpu_pass *gpu;   /* of the GPU                                  */
};

/* Steps on a GPU. KERF_E_NOSUP: there is no cuBLASLt, or this build has no CUDA. */
kerf_status kf_steps_on_gpu(kf_stepper *s, kerf_device *device, kerf_error *err);

/* How many bfloat16 numbers, 1 to 3, stand for an input of a product there; 2 until it is called.
 */
void kf_steps_set_terms(kf_stepper *s, int terms);

#endif
