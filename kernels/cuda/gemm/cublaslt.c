/* cublaslt.c - products with many columns by NVIDIA's cuBLASLt.
 *
 * cuBLASLt counts matrices by columns: what lies row by row here is its transpose there, so that D
 * = A^T B with A = W, B = X, D = Y, and no data is moved. W is multiplied whole, or, where it is
 * decoded first or sums of int8 must be kept, a panel of rows at a time; the last panel may be
 * short and has an algorithm of its own. A run copies the description of the product and sets the
 * pointers in its copy: a plan may be run by many threads at once. */
#include "plan/gemm_plan.h"

#include <stdlib.h>

#if __has_include(<cublasLt.h>)
#include "cuda/gemm/cublaslt_library.h"
#include "cuda/gemm/gemm_finish.h"
#include "cuda/handle.h"

#define DECODED_BYTES (UINT64_C(32) << 20) /* of a panel: less than a Hopper's L2 */
#define SUMS_BYTES (UINT64_C(64) << 20)
#define SCRATCH_BYTES (UINT64_C(32) << 20) /* that an algorithm may use */
#define ALIGNMENT 256u

/* --- plan ------------------------------------------------------------------------------------- */

/* A panel, whole or short. */
typedef struct part {
    uint64_t rows;
    cublasLtMatrixLayoutOpaque_t a, d;
    cublasLtMatmulAlgo_t algo;
    size_t scratch;
} part;

struct kf_gemm_library {
    cublasLtHandle_t handle;
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t b;
    part part[2]; /* the second is the last panel, where that is short */
};

static cudaDataType_t type_of(kerf_dtype t)
{
    switch (t) {
    case KERF_F32: return CUDA_R_32F;
    case KERF_F16: return CUDA_R_16F;
    case KERF_BF16: return CUDA_R_16BF;
    case KERF_F8_E4M3: return CUDA_R_8F_E4M3;
    case KERF_F8_E5M2: return CUDA_R_8F_E5M2;
    case KERF_F4: return CUDA_R_4F_E2M1;
    default: return CUDA_R_8I;
    }
}

/* What the codes of W are to the product. */
static cudaDataType_t type_of_weights(const kerf_gemm *p)
{
    if (p->way == KF_GEMM_FP8 || p->way == KF_GEMM_BLOCKS) {
        kerf_element e = p->shape.format->element;
        return e == KERF_ELEM_E4M3   ? CUDA_R_8F_E4M3
               : e == KERF_ELEM_E5M2 ? CUDA_R_8F_E5M2
                                     : CUDA_R_4F_E2M1;
    }
    return type_of(p->shape.x);
}

static kerf_status set(cublasLtMatmulDescOpaque_t *d, cublasLtMatmulDescAttributes_t what,
                       const void *value, size_t size, kerf_error *err)
{
    KF_LT(kf_lt.MatmulDescSetAttribute(d, what, value, size), "describing a product");
    return KERF_OK;
}

static kerf_status set_int(cublasLtMatmulDescOpaque_t *d, cublasLtMatmulDescAttributes_t what,
                           int32_t value, kerf_error *err)
{
    return set(d, what, &value, sizeof value, err);
}

static kerf_status set_pointer(cublasLtMatmulDescOpaque_t *d, cublasLtMatmulDescAttributes_t what,
                               const void *p, kerf_error *err)
{
    return set(d, what, &p, sizeof(void *), err);
}

static int scale_mode(const kerf_gemm *p)
{
    if (p->way == KF_GEMM_BLOCKS)
        return p->shape.format->group == 16 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3
                                            : CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
    if (p->way == KF_GEMM_FP8 && p->shape.format->geometry == KERF_GROUP_ROW)
        return CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

static kerf_status describe_product(const kerf_gemm *p, cublasLtMatmulDescOpaque_t *d,
                                    kerf_error *err)
{
    int int8 = p->way == KF_GEMM_INT8, bias = p->shape.flags & KERF_GEMM_BIAS && !int8;
    int mode = scale_mode(p);
    KF_LT(kf_lt.MatmulDescInit_internal(d, sizeof *d,
                                        int8 ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
                                        int8 ? CUDA_R_32I : CUDA_R_32F),
          "describing a product");
    KF_TRY(set_int(d, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T, err));
    if (mode != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) {
        KF_TRY(set_int(d, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode, err));
        KF_TRY(set_int(d, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode, err));
    }
    if (p->way == KF_GEMM_BLOCKS)
        KF_TRY(set_int(d, CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE, err));
    /* Until a run sets its own pointers any will do that are aligned as those are. */
    const void *some = (const void *)(uintptr_t)ALIGNMENT;
    if (p->needs_x_scale) { /* block-scaled ones among them */
        KF_TRY(set_pointer(d, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, some, err));
        KF_TRY(set_pointer(d, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, some, err));
    }
    if (!bias) return KERF_OK;
    KF_TRY(set_int(d, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, err));
    KF_TRY(set_int(d, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, (int32_t)type_of(p->shape.y), err));
    return set_pointer(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, some, err);
}

static kerf_status no_algorithm(const kerf_gemm *p, kerf_error *err)
{
    const kerf_gemm_shape *s = &p->shape;
    return kf_fail(
        err, KERF_E_NOSUP, KF_NOWHERE,
        "cuBLASLt has no product of %s %llu x %llu with %llu columns of %s into %s on this "
        "GPU%s",
        s->format->name, (unsigned long long)s->rows, (unsigned long long)s->cols,
        (unsigned long long)s->columns, kerf_dtype_name(s->x), kerf_dtype_name(s->y),
        p->way == KF_GEMM_DENSE || p->way == KF_GEMM_DEQUANTIZE ? ""
                                                                : "; x of type F16 or BF16 works");
}

static kerf_status ask_for_algorithm(const kerf_gemm *p, kf_gemm_library *l, part *t,
                                     kerf_error *err)
{
    const kf_lt_question q = {.handle = l->handle,
                              .product = &l->product,
                              .a = &t->a,
                              .b = &l->b,
                              .d = &t->d,
                              .scratch = SCRATCH_BYTES,
                              .align = 16};
    cublasLtMatmulHeuristicResult_t best;
    const cublasStatus_t s = kf_lt_find_algorithm(&q, &best);
    if (s == CUBLAS_STATUS_NOT_SUPPORTED || s == CUBLAS_STATUS_INVALID_VALUE ||
        s == CUBLAS_STATUS_ARCH_MISMATCH)
        return no_algorithm(p, err);
    KF_LT(s, "asking for an algorithm");
    t->algo = best.algo;
    t->scratch = best.workspaceSize;
    return KERF_OK;
}

static kerf_status plan_part(kerf_gemm *p, kf_gemm_library *l, part *t, uint64_t rows,
                             kerf_error *err)
{
    const kerf_gemm_shape *s = &p->shape;
    int int8 = p->way == KF_GEMM_INT8;
    t->rows = rows;
    KF_TRY(kf_lt_describe_matrix(&t->a, type_of_weights(p), s->cols, rows, s->cols, err));
    KF_TRY(kf_lt_describe_matrix(&t->d, int8 ? CUDA_R_32I : type_of(s->y), rows, s->columns,
                                 int8 ? rows : s->y_stride, err));
    KF_TRY(ask_for_algorithm(p, l, t, err));
    if (t->scratch > p->scratch) p->scratch = t->scratch;
    return KERF_OK;
}

/* Rows whose bytes fill `most`, whole tiles of a product; at least one tile. */
static uint64_t rows_of(uint64_t most, uint64_t row_bytes, uint64_t rows)
{
    uint64_t n = most / row_bytes / 128 * 128;
    return kf_min_u64(rows, n ? n : 128);
}

static void choose_panel(kerf_gemm *p)
{
    const kerf_gemm_shape *s = &p->shape;
    const kerf_geometry *g = &p->geometry;
    uint64_t bytes = 0;
    p->panel = s->rows;
    if (p->way == KF_GEMM_BLOCKS) bytes = 2 * sizeof(float);
    if (p->way == KF_GEMM_INT8) {
        p->panel = rows_of(SUMS_BYTES, 4 * s->columns, s->rows);
        bytes = 4 * s->columns * p->panel;
    }
    if (p->way == KF_GEMM_DEQUANTIZE) {
        uint64_t size = kerf_dtype_bits(s->x) / 8;
        p->panel = rows_of(DECODED_BYTES, size * s->cols, s->rows);
        /* A panel may begin and end within a band. */
        bytes = size * (s->cols * p->panel + 2 * g->band_rows * g->band_cols);
    }
    p->panel_bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

kerf_status kf_cublaslt_plan(kerf_gemm *p, kerf_device *device, kerf_error *err)
{
    const kerf_gemm_shape *s = &p->shape;
    KF_TRY(kf_need_lt(err));
    p->ordinal = kf_gpu_of(device)->ordinal;
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    kf_gemm_library *l = kf_alloc_zero(1, sizeof *l);
    if (!l) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    p->library = l; /* freed with the plan, also after a failure */
    choose_panel(p);
    KF_LT(kf_lt.Create(&l->handle), "opening cuBLASLt");
    KF_TRY(describe_product(p, &l->product, err));
    KF_TRY(kf_lt_describe_matrix(&l->b, type_of(s->x), s->cols, s->columns, s->x_stride, err));
    KF_TRY(plan_part(p, l, &l->part[0], p->panel, err));
    uint64_t rest = s->rows % p->panel;
    return rest ? plan_part(p, l, &l->part[1], rest, err) : KERF_OK;
}

void kf_cublaslt_free(kf_gemm_library *l)
{
    if (l && l->handle) (void)kf_lt.Destroy(l->handle);
    free(l);
}

/* --- run -------------------------------------------------------------------------------------- */

/* What the panel that begins at `row` is multiplied from and into. */
typedef struct panel {
    uint64_t row;
    const part *part;
    const void *a, *c;
    void *d;
} panel;

static const void *offset_of(const void *p, uint64_t n, kerf_dtype t)
{
    return (const uint8_t *)p + n * (kerf_dtype_bits(t) / 8);
}

/* Decodes the bands that the panel touches; *a is where its first row then lies. */
static kerf_status decode_panel(const kerf_gemm *p, const kerf_gemm_args *x, const panel *t,
                                cudaStream_t stream, const void **a, kerf_error *err)
{
    const kerf_geometry *g = &p->geometry;
    kf_lane lane = {.stream = stream};
    uint64_t from = t->row * p->shape.cols, to = from + t->part->rows * p->shape.cols;
    uint64_t band = g->band_rows * g->band_cols;
    kf_range r = {.g = g, .dtype = p->shape.x, .dense = x->workspace.p, .matrices = 1};
    r.b0 = from / band;
    r.b1 = kf_min_u64(kf_div_up(to, band), g->bands);
    for (int i = 0; i < KERF_PLANES; i++) {
        if (g->plane[i].dtype == KERF_DTYPE_NONE) continue;
        uint64_t skip = kerf_band_bytes(g, (kerf_plane_id)i, 0, r.b0).count;
        r.plane[i] = (uint8_t *)(uintptr_t)x->weights[i].p + (g->plane[i].per_matrix ? 0 : skip);
    }
    KF_TRY(kf_enqueue_decode(&lane, &r, err));
    *a = offset_of(x->workspace.p, from - kerf_band_elements(g, 0, r.b0).count, p->shape.x);
    return KERF_OK;
}

static kerf_status finish_panel(const kerf_gemm *p, const kerf_gemm_args *x, const panel *t,
                                cudaStream_t stream, kerf_error *err)
{
    const kerf_gemm_shape *s = &p->shape;
    int per_row = s->format->geometry == KERF_GROUP_ROW;
    const float *scale = x->weights[KERF_PLANE_SCALES].p;
    kf_int8_sums sums = {.sums = x->workspace.p,
                         .w_scale = scale + (per_row ? t->row : 0),
                         .x_scale = x->x_scale.p,
                         .rows = t->part->rows,
                         .columns = s->columns,
                         .y_stride = s->y_stride,
                         .alpha = x->alpha == 0 ? 1 : x->alpha,
                         .scale_per_row = per_row,
                         .type = s->y};
    sums.y = (void *)(uintptr_t)offset_of(x->y.p, t->row, s->y);
    if (s->flags & KERF_GEMM_BIAS) sums.bias = offset_of(x->bias.p, t->row, s->y);
    if (x->residual.p) sums.residual = offset_of(x->residual.p, t->row, s->y);
    KF_CUDA(kf_finish_int8(&sums, stream), "starting a kernel");
    return KERF_OK;
}

/* The plan's product with the pointers of this run. */
static kerf_status aim_product(const kerf_gemm *p, const kerf_gemm_args *x, const panel *t,
                               cublasLtMatmulDescOpaque_t *d, kerf_error *err)
{
    *d = p->library->product;
    if (p->way == KF_GEMM_FP8 || p->way == KF_GEMM_BLOCKS) {
        KF_TRY(set_pointer(d, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, x->weights[KERF_PLANE_SCALES].p,
                           err));
        if (x->x_scale.p)
            KF_TRY(set_pointer(d, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, x->x_scale.p, err));
    }
    if (p->shape.flags & KERF_GEMM_BIAS && p->way != KF_GEMM_INT8)
        KF_TRY(set_pointer(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                           offset_of(x->bias.p, t->row, p->shape.y), err));
    return KERF_OK;
}

static kerf_status multiply_panel(const kerf_gemm *p, const kerf_gemm_args *x, const panel *t,
                                  cudaStream_t stream, kerf_error *err)
{
    const kf_gemm_library *l = p->library;
    cublasLtMatmulDescOpaque_t product;
    float factors[2] = {x->alpha == 0 ? 1 : x->alpha, x->residual.p ? 1 : 0};
    int32_t whole[2] = {1, 0};
    uint8_t *scratch = (uint8_t *)x->workspace.p + p->panel_bytes;
    const void *alpha = factors, *beta = factors + 1;
    if (p->way == KF_GEMM_INT8) alpha = whole, beta = whole + 1;
    if (p->way == KF_GEMM_BLOCKS) {
        float *out = x->workspace.p;
        KF_CUDA(kf_multiply_factors(out, factors[0], x->weights[KERF_PLANE_SECOND].p, x->x_second.p,
                                    factors[1], stream),
                "starting a kernel");
        alpha = out, beta = out + 1;
    }
    KF_TRY(aim_product(p, x, t, &product, err));
    KF_LT(kf_lt.Matmul(l->handle, &product, alpha, t->a,
                       (cublasLtMatrixLayoutOpaque_t *)&t->part->a, x->x.p,
                       (cublasLtMatrixLayoutOpaque_t *)&l->b, beta, t->c,
                       (cublasLtMatrixLayoutOpaque_t *)&t->part->d, t->d,
                       (cublasLtMatrixLayoutOpaque_t *)&t->part->d, &t->part->algo, scratch,
                       t->part->scratch, stream),
          "multiplying");
    return KERF_OK;
}

kerf_status kf_cublaslt_run(const kerf_gemm *p, const kerf_gemm_args *x, void *stream,
                            kerf_error *err)
{
    const kerf_gemm_shape *s = &p->shape;
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    for (uint64_t row = 0; row < s->rows; row += p->panel) {
        panel t = {.row = row, .part = &p->library->part[s->rows - row < p->panel]};
        t.a = x->weights[KERF_PLANE_CODES].p;
        t.d = (void *)(uintptr_t)offset_of(x->y.p, row, s->y);
        t.c = x->residual.p ? offset_of(x->residual.p, row, s->y) : t.d;
        if (p->way == KF_GEMM_INT8) {
            t.a = (const uint8_t *)t.a + row * s->cols;
            t.c = t.d = x->workspace.p;
        }
        if (p->way == KF_GEMM_DEQUANTIZE) KF_TRY(decode_panel(p, x, &t, stream, &t.a, err));
        KF_TRY(multiply_panel(p, x, &t, stream, err));
        if (p->way == KF_GEMM_INT8) KF_TRY(finish_panel(p, x, &t, stream, err));
    }
    return KERF_OK;
}

#else

kerf_status kf_cublaslt_plan(kerf_gemm *p, kerf_device *device, kerf_error *err)
{
    (void)p, (void)device;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "this kerf was built without cublasLt.h, which products with many columns need; "
                   "install NVIDIA's libcublas-dev-13-0 and build again");
}

void kf_cublaslt_free(kf_gemm_library *l)
{
    (void)l;
}

kerf_status kf_cublaslt_run(const kerf_gemm *p, const kerf_gemm_args *x, void *stream,
                            kerf_error *err)
{
    (void)p, (void)x, (void)stream;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "this kerf was built without cublasLt.h");
}
#endif
