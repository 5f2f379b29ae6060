/* gemv_experts.h - a mixture-of-experts layer for few tokens, straight from stacked planes.
 *
 *   kerf_gemv_experts_plan_create   format x shape x tokens x device -> plan: all checks
 *   kerf_gemv_experts_run           stacks, x, routes, y: two launches, nothing allocated
 *
 * For each token t, with slots s = 0 .. top_k - 1 that name an expert e and its weight w:
 *
 *   g = Gate_e x_t + gate_bias_e,  u = Up_e x_t + up_bias_e        inter numbers each
 *   h = silu(g) * u                                                of type `between`
 *   y_t = sum over its slots of w * (Down_e h + down_bias_e)       hidden numbers
 *
 * silu(z) is z / (1 + e^-z). With KERF_EXPERTS_CLAMPED, as gpt-oss has it: g no larger than
 * `limit`, u no larger in magnitude, h = g / (1 + e^(-1.702 g)) * (u + 1).
 *
 * Routes lie on the device and are read there: a run only enqueues, so a graph can hold it and be
 * replayed with other routes. A slot counts for nothing, and no weight is read for it, if its
 * expert is not in 0 .. experts - 1 (-1 is a good way to say "none") or its weight is zero. An
 * expert that several slots of a token name is computed once, with the sum of their weights in the
 * order of slots. A token without slots that count has y = 0.
 *
 * Weights are stacks: for each plane the planes of one matrix after another, as kerf_encode writes
 * them for a matrix and checkpoints hold them, `stride` bytes from an expert to the next.
 * Tokens that share an expert share its reading, two of them or four, as formats and routes have
 * it; where a block of the GPU has little shared memory, perhaps none do. Codes of mxfp4 and nvfp4
 * take less time to decode if they have been through kerf_gemv_shuffle (gemv.h), as whole stacks:
 * KERF_GEMV_SHUFFLED says so.
 *
 * Accuracy. Weights are what kerf_decode gives as F32. With b1 and b2 of kerf_gemv_experts_bound
 * and all else exact, S(W, v) = sum over k of |W[r][k] v[k]|:
 *
 *   |dg| <= b1 (S(Gate, x) + |bias|), |du| likewise,
 *   |dh| <= 1.1 |dg| (|u| + |du|) + |silu(g)| |du| + r |h|
 *   |dy| <= sum over slots of |w| (S(Down, dh) + b2 (S(Down, |h| + dh) + |bias|))
 *
 * before y is rounded to its type, with r 2^-8 for h of BF16, 2^-10 for F16, 2^-18 for F32; |u| + 1
 * and |silu| + |g| in place of |u| and |silu| where CLAMPED. Numbers of x and h below 2^-28 of the
 * largest of their 512 neighbours may be lost, and h below the least of `between`. Sums run in
 * fp32: a warp adds up its parts in ascending order, then the warps are added in ascending order,
 * and last the blocks, where several have parts of a row. Which parts a warp has follows from the
 * shape, the GPU and the routes of all tokens of a run: the same input gives the same bits in every
 * run, but a token beside others may differ inside the bound from the same token alone.
 *
 * NaN in weights, also through scales, makes NaN what they are multiplied into; NaN and infinities
 * in x, and infinities in weights, give what sums in IEEE arithmetic give, or NaN. A NaN among a
 * token's weights makes its y NaN. Other tokens of the run are not touched by any of these.
 *
 * It runs on a GPU. On the processor there is kerf_gemv, a plan for each expert. */
#ifndef KERF_GEMV_EXPERTS_H
#define KERF_GEMV_EXPERTS_H

#include <kerf/gemv.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KERF_EXPERTS_TOKENS 16 /* at most */
#define KERF_EXPERTS_TOP_K 16  /* at most */

/* Where rows of gate and up are. */
typedef enum kerf_experts_rows {
    KERF_EXPERTS_HALVES,      /* one matrix of 2 * inter rows: gate's, then up's */
    KERF_EXPERTS_ALTERNATING, /* one matrix: gate's row 0, up's row 0, gate's row 1, ... */
    KERF_EXPERTS_APART        /* two matrices of inter rows */
} kerf_experts_rows;

typedef enum kerf_experts_activation {
    KERF_EXPERTS_SWIGLU,
    KERF_EXPERTS_CLAMPED
} kerf_experts_activation;

typedef struct kerf_gemv_experts_shape {
    const kerf_format *format; /* of all weights                                          */
    uint64_t experts, hidden, inter;
    unsigned tokens, top_k;
    kerf_dtype x, y;    /* F32, F16 or BF16, each                                          */
    kerf_dtype between; /* h; the same types; KERF_DTYPE_NONE: F32                         */
    kerf_dtype bias;    /* of all three; the same types; KERF_DTYPE_NONE: there are none   */
    kerf_experts_rows rows;
    kerf_experts_activation activation;
    float limit;    /* CLAMPED: 7 in gpt-oss; 0 stands for 7 */
    unsigned flags; /* KERF_GEMV_SHUFFLED, of all stacks, or 0 */
} kerf_gemv_experts_shape;

typedef struct kerf_gemv_experts kerf_gemv_experts; /* a plan; never changes once made */

/* exec->device must be there. KERF_E_ARG, KERF_E_RANGE, KERF_E_NOMEM; KERF_E_NOSUP: no device, a
 * type, a number of tokens or slots, a shape that the format cannot hold, or shuffled codes of
 * another format or in a layer that goes an element at a time. The plan is freed by
 * kerf_gemv_experts_plan_free; NULL is fine there. The device may be closed before the plan is
 * freed, but not before it is run for the last time. */
KERF_API KERF_CHECK kerf_status kerf_gemv_experts_plan_create(kerf_gemv_experts **out,
                                                              const kerf_gemv_experts_shape *shape,
                                                              const kerf_exec *exec,
                                                              kerf_error *err);
KERF_API void kerf_gemv_experts_plan_free(kerf_gemv_experts *plan);

/* Bytes of device memory that a run needs as workspace, at a multiple of 16: at least the h of all
 * slots; more where the parts of y are kept too, as mostly with several tokens. */
KERF_API size_t kerf_gemv_experts_workspace(const kerf_gemv_experts *plan);

/* b1 and b2 of the bound above. */
KERF_API void kerf_gemv_experts_bound(const kerf_gemv_experts *plan, double *b1, double *b2);

/* "cuda", or "cuda-any" where the kernel that takes an element at a time does it, which is slow:
 * fp32; planes of codes whose rows are not whole 16 bytes; nf4, nf4-f16 and nf4-dq whose rows are
 * not whole groups; nf4-dq whose rows have a number of groups that is no multiple of 4, where a
 * block has no more than 99 KiB of shared memory (sm_86, sm_89, sm_120); scales of 128 x 128
 * elements where the rows are KERF_EXPERTS_HALVES and inter is no multiple of 16; and shapes whose
 * x or sums find no room in a block's shared memory. Static storage. */
KERF_API const char *kerf_gemv_experts_backend(const kerf_gemv_experts *plan);

/* The same matrix of every expert. Planes are as long as experts * stride, the last expert's only
 * as long as kerf_geometry says of one matrix. */
typedef struct kerf_experts_stack {
    kerf_cspan weights[KERF_PLANES];
    uint64_t stride[KERF_PLANES]; /* bytes from an expert to the next; 0: as long as the plane of
                                     one matrix; KERF_EXPERTS_SHARED: all have the first one's */
    kerf_cspan bias;              /* [experts][rows]; {NULL, 0}: none                       */
} kerf_experts_stack;

#define KERF_EXPERTS_SHARED UINT64_MAX

/* Start from all zeros. All is device memory, at multiples of its element's size; 16 bytes, of
 * strides too, is fastest. y may be x; otherwise nothing that is written may overlap what is read.
 */
typedef struct kerf_gemv_experts_args {
    kerf_experts_stack gate; /* HALVES, ALTERNATING: gate and up */
    kerf_experts_stack up;   /* APART */
    kerf_experts_stack down;
    kerf_cspan x;                /* [tokens][hidden]                                */
    kerf_cspan ids;              /* int32, [tokens][top_k]                          */
    kerf_cspan weights;          /* F32, [tokens][top_k]                            */
    kerf_span y;                 /* [tokens][hidden]                                */
    uint64_t x_stride, y_stride; /* elements from a token to the next; 0: hidden    */
    kerf_span workspace;         /* contents undefined before and after             */
} kerf_gemv_experts_args;

/* stream: a cudaStream_t, which may be capturing. KERF_E_BUFFER: a span is too short, nothing was
 * enqueued. */
KERF_API KERF_CHECK kerf_status kerf_gemv_experts_run(const kerf_gemv_experts *plan,
                                                      const kerf_gemv_experts_args *args,
                                                      void *stream, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
