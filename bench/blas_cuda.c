/* blas_cuda.c - see blas_cuda.h. A row-major matrix of rows x cols is a column-major one of cols x
 * rows: W is taken transposed, x and y as they are. */
#include "blas_cuda.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define WORKSPACE ((size_t)64 << 20)

#define LT(X)                               \
    X(cublasLtCreate)                       \
    X(cublasLtGetVersion)                   \
    X(cublasLtMatmul)                       \
    X(cublasLtMatmulDescCreate)             \
    X(cublasLtMatmulDescSetAttribute)       \
    X(cublasLtMatmulDescDestroy)            \
    X(cublasLtMatrixLayoutCreate)           \
    X(cublasLtMatrixLayoutDestroy)          \
    X(cublasLtMatmulPreferenceCreate)       \
    X(cublasLtMatmulPreferenceSetAttribute) \
    X(cublasLtMatmulPreferenceDestroy)      \
    X(cublasLtMatmulAlgoGetHeuristic)

static struct {
#define X(name) __typeof__(&name) name;
    LT(X)
#undef X
    __typeof__(&cublasCreate) create;
    __typeof__(&cublasSetStream) set_stream;
    __typeof__(&cublasSetWorkspace) set_workspace;
    __typeof__(&cublasGemmEx) gemm;
    cublasLtHandle_t lt;
    cublasHandle_t handle;
    void *workspace;
} lib;

_Static_assert(sizeof(cublasLtMatmulAlgo_t) <= 128, "an algorithm fits");

/* A function of a library, with the type of its pointer. */
static int find(void *library, const char *name, void *pointer)
{
    void *p = library ? dlsym(library, name) : NULL;
    memcpy(pointer, &p, sizeof p);
    return p != NULL;
}

static void *open_library(const char *name, const char *folder)
{
    static const char *const ends[] = {".so.13", ".so.12", ".so"};
    char path[256];
    void *p = NULL;
    for (size_t i = 0; !p && i < sizeof ends / sizeof ends[0]; i++) {
        snprintf(path, sizeof path, "%s%s%s", folder, name, ends[i]);
        p = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    return p || !folder[0] ? p : open_library(name, "");
}

const char *blas_open(void)
{
    void *lt = open_library("libcublasLt", "/usr/local/cuda/lib64/");
    void *blas = open_library("libcublas", "/usr/local/cuda/lib64/");
    int good = lt && blas;
#define X(name) good = good && find(lt, #name, &lib.name);
    LT(X)
#undef X
    good = good && find(blas, "cublasCreate_v2", &lib.create);
    good = good && find(blas, "cublasSetStream_v2", &lib.set_stream);
    good = good && find(blas, "cublasSetWorkspace_v2", &lib.set_workspace);
    good = good && find(blas, "cublasGemmEx", &lib.gemm);
    if (!good) return "no cuBLAS on this machine";
    if (lib.cublasLtCreate(&lib.lt) || lib.create(&lib.handle)) return "cuBLAS does not start";
    if (cudaMalloc(&lib.workspace, WORKSPACE) != cudaSuccess) return "no memory";
    return lib.set_workspace(lib.handle, lib.workspace, WORKSPACE) ? "no workspace" : NULL;
}

int blas_version(void)
{
    return lib.lt ? (int)lib.cublasLtGetVersion() : 0;
}

static int set(const blas_product *p, cublasLtMatmulDescAttributes_t what, const void *value,
               size_t n)
{
    return lib.cublasLtMatmulDescSetAttribute(p->description, what, value, n) !=
           CUBLAS_STATUS_SUCCESS;
}

static int describe(blas_product *p)
{
    cudaDataType in = p->kind == BLAS_F16 ? CUDA_R_16F : CUDA_R_8F_E4M3;
    cublasOperation_t transposed = CUBLAS_OP_T;
    int8_t fast = 1; /* sums of E4M3 products in fewer bits: the faster way */
    uint64_t rows = (uint64_t)p->rows, cols = (uint64_t)p->cols, columns = (uint64_t)p->columns;
    int bad = lib.cublasLtMatmulDescCreate((cublasLtMatmulDesc_t *)&p->description,
                                           CUBLAS_COMPUTE_32F, CUDA_R_32F) != CUBLAS_STATUS_SUCCESS;
    bad = bad || set(p, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    if (p->kind == BLAS_E4M3)
        bad = bad || set(p, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
    bad = bad ||
          lib.cublasLtMatrixLayoutCreate((cublasLtMatrixLayout_t *)&p->a, in, cols, rows, p->cols);
    bad = bad || lib.cublasLtMatrixLayoutCreate((cublasLtMatrixLayout_t *)&p->b, in, cols, columns,
                                                p->cols);
    return bad || lib.cublasLtMatrixLayoutCreate((cublasLtMatrixLayout_t *)&p->c, CUDA_R_16F, rows,
                                                 columns, p->rows);
}

const char *blas_plan(blas_product *out, blas_kind kind, int rows, int cols, int columns, int add)
{
    blas_product p = {.kind = kind, .rows = rows, .cols = cols, .columns = columns, .add = add};
    cublasLtMatmulHeuristicResult_t found[BLAS_WAYS];
    cublasLtMatmulPreference_t preference;
    size_t room = WORKSPACE;
    int n = 0;
    if (kind == BLAS_E4M3) p.columns = (columns + 15) / 16 * 16;
    if (describe(&p) || lib.cublasLtMatmulPreferenceCreate(&preference)) return "cublasLt: no plan";
    int bad = lib.cublasLtMatmulPreferenceSetAttribute(preference,
                                                       CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                       &room, sizeof room) != CUBLAS_STATUS_SUCCESS;
    p.ways = kind == BLAS_F16;
    bad = bad || lib.cublasLtMatmulAlgoGetHeuristic(lib.lt, p.description, p.a, p.b, p.c, p.c,
                                                    preference, BLAS_WAYS - p.ways, found, &n);
    for (int i = 0; !bad && i < n; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS)
            memcpy(&p.algorithm[p.ways++], &found[i].algo, sizeof found[i].algo);
    lib.cublasLtMatmulPreferenceDestroy(preference);
    *out = p;
    return p.ways ? NULL : "cublasLt has no algorithm";
}

const char *blas_run(const blas_product *p, int way, const void *w, const void *x, void *y,
                     const void *w_scale, const void *x_scale, cudaStream_t s)
{
    float one = 1, beta = p->add ? 1 : 0;
    if (p->kind == BLAS_F16 && way == 0) {
        int bad = lib.set_stream(lib.handle, s) ||
                  lib.set_workspace(lib.handle, lib.workspace, WORKSPACE) ||
                  lib.gemm(lib.handle, CUBLAS_OP_T, CUBLAS_OP_N, p->rows, p->columns, p->cols, &one,
                           w, CUDA_R_16F, p->cols, x, CUDA_R_16F, p->cols, &beta, y, CUDA_R_16F,
                           p->rows, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
        return bad ? "cublasGemmEx fails" : NULL;
    }
    if (p->kind == BLAS_E4M3) {
        if (set(p, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &w_scale, sizeof w_scale) ||
            set(p, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &x_scale, sizeof x_scale))
            return "cublasLt takes no scales";
    }
    cublasLtMatmulAlgo_t algorithm;
    memcpy(&algorithm, &p->algorithm[way], sizeof algorithm);
    int bad =
        lib.cublasLtMatmul(lib.lt, p->description, &one, w, p->a, x, p->b, &beta, y, p->c, y, p->c,
                           &algorithm, lib.workspace, WORKSPACE, s) != CUBLAS_STATUS_SUCCESS;
    return bad ? "cublasLtMatmul fails" : NULL;
}

void blas_free(blas_product *p)
{
    if (p->c) lib.cublasLtMatrixLayoutDestroy(p->c);
    if (p->b) lib.cublasLtMatrixLayoutDestroy(p->b);
    if (p->a) lib.cublasLtMatrixLayoutDestroy(p->a);
    if (p->description) lib.cublasLtMatmulDescDestroy(p->description);
    memset(p, 0, sizeof *p);
}
