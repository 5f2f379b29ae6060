/* forward_product.c - products by cuBLASLt: factors as sums of bfloat16 numbers, every product of
 * two terms that counts, the smallest first, sums in float32. A plan is found once for each shape.
 */
#if __has_include(<cublasLt.h>)
#include "base/work.h"
#include "cuda/forward/forward_pass.h"

#include <string.h>

/* --- plans --------------------------------------------------------------------------------- */

static kerf_status describe_matrices(cublasLtMatrixLayoutOpaque_t *m, cudaDataType_t type,
                                     uint64_t rows, uint64_t columns, uint64_t stride,
                                     int32_t batch, int64_t step, kerf_error *err)
{
    KF_TRY(kf_lt_describe_matrix(m, type, rows, columns, stride, err));
    if (batch == 1) return KERF_OK;
    KF_LT(
        kf_lt.MatrixLayoutSetAttribute(m, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
        "describing a matrix");
    KF_LT(kf_lt.MatrixLayoutSetAttribute(m, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                         sizeof step),
          "describing a matrix");
    return KERF_OK;
}

static kerf_status describe(kf_lt_plan *t, kerf_error *err)
{
    const kf_lt_shape *s = &t->shape;
    const int32_t turn[2] = {s->turn_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                             s->turn_b ? CUBLAS_OP_T : CUBLAS_OP_N};
    KF_LT(kf_lt.MatmulDescInit_internal(&t->product, sizeof t->product, CUBLAS_COMPUTE_32F,
                                        CUDA_R_32F),
          "describing a product");
    KF_LT(kf_lt.MatmulDescSetAttribute(&t->product, CUBLASLT_MATMUL_DESC_TRANSA, &turn[0],
                                       sizeof turn[0]),
          "describing a product");
    KF_LT(kf_lt.MatmulDescSetAttribute(&t->product, CUBLASLT_MATMUL_DESC_TRANSB, &turn[1],
                                       sizeof turn[1]),
          "describing a product");
    KF_TRY(describe_matrices(&t->a, CUDA_R_16BF, s->turn_a ? s->k : s->m, s->turn_a ? s->m : s->k,
                             s->lda, s->batch, s->step_a, err));
    KF_TRY(describe_matrices(&t->b, CUDA_R_16BF, s->turn_b ? s->n : s->k, s->turn_b ? s->k : s->n,
                             s->ldb, s->batch, s->step_b, err));
    return describe_matrices(&t->c, CUDA_R_32F, s->m, s->n, s->ldc, s->batch, s->step_c, err);
}

static kerf_status find_algorithm(const kf_gpu_pass *p, kf_lt_plan *t, kerf_error *err)
{
    const kf_lt_shape *s = &t->shape;
    const kf_lt_question q = {.handle = p->lt,
                              .product = &t->product,
                              .a = &t->a,
                              .b = &t->b,
                              .d = &t->c,
                              .scratch = KF_PASS_WORKSPACE,
                              .align = s->align};
    cublasLtMatmulHeuristicResult_t best;
    const cublasStatus_t e = kf_lt_find_algorithm(&q, &best);
    if (e != CUBLAS_STATUS_SUCCESS)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "cuBLASLt has no product %llu x %llu x %llu of bfloat16 on this GPU (%s)",
                       (unsigned long long)s->m, (unsigned long long)s->n, (unsigned long long)s->k,
                       kf_lt.GetStatusString(e));
    t->algo = best.algo;
    return KERF_OK;
}

/* Shapes have no padding: all members are compared at once. */
_Static_assert(sizeof(kf_lt_shape) == 9 * 8 + 4 * 4, "no padding");

static kerf_status find_plan(kf_gpu_pass *p, const kf_lt_shape *shape, kf_lt_plan **out,
                             kerf_error *err)
{
    for (size_t i = 0; i < p->plans; i++)
        if (memcmp(&p->plan[i].shape, shape, sizeof *shape) == 0) {
            *out = &p->plan[i];
            return KERF_OK;
        }
    kf_lt_plan made = {.shape = *shape};
    KF_TRY(describe(&made, err));
    KF_TRY(find_algorithm(p, &made, err));
    *out = &p->plan[p->next_plan];
    **out = made;
    p->next_plan = (p->next_plan + 1) % KF_LT_PLANS;
    if (p->plans < KF_LT_PLANS) p->plans++;
    return KERF_OK;
}

/* Of every matrix of the batch. */
static uint32_t alignment_of(const kf_lt_shape *s, const void *a, const void *b, const void *c)
{
    const uint64_t steps =
        (uint64_t)(s->step_a | s->step_b) * sizeof(kf_bf16) | (uint64_t)s->step_c * sizeof(float);
    const uint64_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | steps | 256u;
    return (uint32_t)(all & (~all + 1));
}

#define PACE 2.5e11 /* multiplications: more than half a millisecond of an H100 */

/* Not too much is on its way, so that who cancels is heard: a panel can be 30 ms. */
static kerf_status pace_products(kf_gpu_pass *p, const kf_lt_shape *s, kerf_error *err)
{
    p->unpaced += (double)s->m * (double)s->n * (double)s->k * s->batch;
    if (p->unpaced < PACE) return KERF_OK;
    KF_TRY(kf_pass_pace(p, err));
    return kf_job_check(p->of->job, err);
}

kerf_status kf_pass_multiply(kf_gpu_pass *p, kf_lt_shape shape, const void *a, const void *b,
                             float *c, int add, kerf_error *err)
{
    const float one = 1, beta = add ? 1 : 0;
    kf_lt_plan *t = NULL;
    shape.align = alignment_of(&shape, a, b, c);
    KF_TRY(find_plan(p, &shape, &t, err));
    KF_LT(kf_lt.Matmul(p->lt, &t->product, &one, a, &t->a, b, &t->b, &beta, c, &t->c, c, &t->c,
                       &t->algo, p->workspace, KF_PASS_WORKSPACE, p->stream),
          "multiplying");
    return pace_products(p, &shape, err);
}

/* --- y = x w^T ------------------------------------------------------------------------------ */

kerf_status kf_pass_split(kf_gpu_pass *p, kf_rows x, kerf_error *err)
{
    const kf_rows *of = &p->split_of;
    const uint64_t stride = kf_div_up(x.columns, 8) * 8;
    const uint64_t bytes = x.rows * stride * (uint64_t)p->terms * sizeof(kf_bf16);
    if (of->p == x.p && of->rows == x.rows && of->columns == x.columns && of->stride == x.stride)
        return KERF_OK;
    p->split_of.p = NULL;
    if (bytes > p->split_bytes) {
        if (p->split) (void)cudaFreeAsync(p->split, p->stream);
        p->split = NULL;
        p->split_bytes = 0;
        KF_TRY(kf_pass_allocate(p, bytes, &p->split, err));
        p->split_bytes = bytes;
    }
    const kf_split s = {.x = x.p,
                        .out = p->split,
                        .rows = x.rows,
                        .columns = x.columns,
                        .x_stride = x.stride,
                        .out_stride = stride,
                        .term_stride = x.rows * stride,
                        .terms = p->terms};
    KF_CUDA(kf_split_run(&s, p->stream), "splitting the inputs of a product");
    p->split_of = x;
    p->split_stride = stride;
    return KERF_OK;
}

kerf_status kf_gpu_product(kf_stepper *s, kf_rows y, kf_rows x, kf_factor w, const float *bias,
                           uint64_t bias_step, kerf_error *err)
{
    kf_gpu_pass *p = s->gpu;
    const kf_copy *copy = NULL;
    uint64_t offset = 0;
    const float *bias_there;
    int add = 0;
    if (y.rows == 0 || y.columns == 0) return KERF_OK;
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    KF_TRY(kf_pass_find(p, w.p, &copy, &offset, err));
    KF_TRY(kf_pass_vector(p, bias, &bias_there, err));
    KF_TRY(kf_pass_split(p, x, err));
    const uint64_t w_term = kf_div_up(copy->n, 256) * 256;
    const kf_lt_shape shape = {.m = w.outputs,
                               .n = x.rows,
                               .k = w.inputs,
                               .lda = w.step_output,
                               .ldb = p->split_stride,
                               .ldc = y.stride,
                               .batch = 1,
                               .turn_a = 1};
    for (int both = p->terms - 1; both >= 0; both--)
        for (int i = both < (int)copy->terms ? both : (int)copy->terms - 1; i >= 0; i--) {
            const kf_bf16 *a = copy->factor + (uint64_t)i * w_term + offset;
            const kf_bf16 *b = p->split + (uint64_t)(both - i) * x.rows * p->split_stride;
            KF_TRY(kf_pass_multiply(p, shape, a, b, y.p, add, err));
            add = 1;
        }
    kf_pass_wrote(p, y);
    if (bias) KF_CUDA(kf_bias_run(y, bias_there, bias_step, p->stream), "adding a bias");
    return KERF_OK;
}
#endif
