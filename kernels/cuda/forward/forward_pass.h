/* forward_pass.h - what the steps of a forward pass on a GPU share. Only for files that have
 * checked that <cublasLt.h> is there. */
#ifndef KERF_FORWARD_PASS_H
#define KERF_FORWARD_PASS_H

#include "cuda/forward/forward_kernels.h"
#include "cuda/gemm/cublaslt_library.h"
#include "cuda/handle.h"

#define KF_PASS_WORKSPACE (UINT64_C(32) << 20) /* bytes that an algorithm may use     */

/* A matrix product as cuBLASLt counts, by columns: c[m][n] = (c +) op(a) op(b), of `batch`
 * matrices. */
typedef struct kf_lt_shape {
    uint64_t m, n, k, lda, ldb, ldc;
    int64_t step_a, step_b, step_c; /* from one matrix of the batch to the next */
    int32_t batch, turn_a, turn_b;  /* turn: op is the transpose                */
    uint32_t align;                 /* of all pointers, bytes                   */
} kf_lt_shape;

typedef struct kf_lt_plan {
    kf_lt_shape shape;
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, c;
    cublasLtMatmulAlgo_t algo;
} kf_lt_plan;

/* A copy of an array of the host. */
typedef struct kf_copy {
    const float *host;
    uint64_t n;
    float *vector;   /* or */
    kf_bf16 *factor; /* [terms][n] */
    unsigned terms;  /* that are not all 0, at least 1 */
    int keep;
} kf_copy;

/* Sums that go to host memory. */
typedef struct kf_tally {
    void *host, *there;
    uint64_t columns;
    int kind;         /* KF_TALLY_*                                     */
    cudaEvent_t come; /* there from then on; NULL: it is there          */
} kf_tally;
enum { KF_TALLY_SQUARE, KF_TALLY_LARGEST, KF_TALLY_GRAM };

/* From or to page-locked memory, two chunks in turn. */
typedef struct kf_way {
    cudaStream_t stream;
    void *pinned[2];
    cudaEvent_t passed[2];
} kf_way;

enum { KF_LT_PLANS = 256 };

typedef struct kf_gpu_pass {
    const kf_stepper *of;
    kf_gpu *gpu;
    int ordinal, threads, terms;
    cudaStream_t stream;
    cudaMemPool_t pool;
    cublasLtHandle_t lt;
    void *workspace;
    kf_lt_plan plan[KF_LT_PLANS];
    size_t plans, next_plan;
    kf_way way;         /* of the steps: on `stream`                              */
    kf_way ahead, home; /* beside them: weights to the GPU, sums from it; opened when needed */
    kf_copy *copy;
    size_t copies, copy_room;
    void *block[2]; /* memory of the copies: until drop, and that of `keep` */
    kf_tally *tally;
    size_t tallies, tally_room;
    kerf_gpu_sums *before; /* whose numbers the tallies go on with; NULL: none */
    cudaStream_t coming;   /* of these numbers                                 */
    cudaEvent_t paced[2];
    unsigned paces;
    double unpaced;   /* multiplications since */
    kf_rows split_of; /* whose terms are in `split`; p NULL: of none */
    kf_bf16 *split;   /* [terms][rows][split_stride]                 */
    uint64_t split_bytes, split_stride;
} kf_gpu_pass;

/* Memory in the order of a stream, that of the steps or another. */
kerf_status kf_pass_allocate(kf_gpu_pass *p, uint64_t bytes, void *out, kerf_error *err);
kerf_status kf_pass_allocate_on(const kf_gpu_pass *p, cudaStream_t stream, uint64_t bytes,
                                void *out, kerf_error *err);
void kf_pass_release(kf_gpu_pass *p, void *memory);

/* Opens it if that has not been done; closes what there is of it. */
kerf_status kf_way_open(const kf_gpu_pass *p, kf_way *w, kerf_error *err);
void kf_way_close(const kf_gpu_pass *p, kf_way *w);

/* The copy that holds address p of the host; *offset: of p in it. */
kerf_status kf_pass_find(const kf_gpu_pass *p, const float *host, const kf_copy **copy,
                         uint64_t *offset, kerf_error *err);
/* Where a vector of the host is there; NULL stays NULL. */
kerf_status kf_pass_vector(const kf_gpu_pass *p, const float *host, const float **there,
                           kerf_error *err);

/* The terms of x, [terms][rows][split_stride], which stay until x is written. */
kerf_status kf_pass_split(kf_gpu_pass *p, kf_rows x, kerf_error *err);
/* To be told of whatever a step writes. */
void kf_pass_wrote(kf_gpu_pass *p, kf_rows y);

/* Waits until no more than the work since the last call and what comes now is on its way. */
kerf_status kf_pass_pace(kf_gpu_pass *p, kerf_error *err);

/* c = op(a) op(b), or c += . */
kerf_status kf_pass_multiply(kf_gpu_pass *p, kf_lt_shape shape, const void *a, const void *b,
                             float *c, int add, kerf_error *err);

/* Steps of other files. */
kerf_status kf_gpu_product(kf_stepper *s, kf_rows y, kf_rows x, kf_factor w, const float *bias,
                           uint64_t bias_step, kerf_error *err);
kerf_status kf_gpu_attend(kf_stepper *s, const kf_attention *a, kerf_error *err);
kerf_status kf_gpu_sum(kf_stepper *s, kf_rows x, const kf_sums *to, kerf_error *err);
kerf_status kf_gpu_settle(kf_stepper *s, kerf_error *err);
kerf_status kf_gpu_hold(kf_stepper *s, const kf_held *array, size_t n, int keep, kerf_error *err);
void kf_gpu_drop(kf_stepper *s);
kerf_status kf_gpu_send(kf_stepper *s, const kf_held *array, size_t n, kf_sent **out,
                        kerf_error *err);
kerf_status kf_gpu_hold_sent(kf_stepper *s, const kf_sent *sent, kerf_error *err);
void kf_gpu_unsend(kf_stepper *s, kf_sent *sent);
kerf_status kf_gpu_keep(kf_stepper *s, kerf_gpu_sums **out, kerf_error *err);
kerf_status kf_gpu_go_on(kf_stepper *s, kerf_gpu_sums *before, kerf_error *err);

/* Sums that nobody has taken, after a run that failed: where they were to go may be gone. */
void kf_pass_forget(kf_gpu_pass *p);
/* Bytes of sums; adds them to the host's by way of `w`. */
uint64_t kf_tally_bytes(const kf_tally *t);
kerf_status kf_tally_settle(const kf_tally *t, const kf_way *w, int threads, const kerf_job *job,
                            kerf_error *err);

#endif
