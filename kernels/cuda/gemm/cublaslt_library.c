/* cublaslt_library.c - finds cuBLASLt on this machine. */
#if __has_include(<cublasLt.h>)
#include "cuda/gemm/cublaslt_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

kf_lt_library kf_lt;

static void note_missing(const char *what)
{
    size_t n = strlen(what);
    if (n >= sizeof kf_lt.missing) n = sizeof kf_lt.missing - 1;
    memcpy(kf_lt.missing, what, n);
    kf_lt.missing[n] = 0;
}

static void open_library(void)
{
    void *so = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!so) so = dlopen("libcublasLt.so.12", RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        const char *why = dlerror();
        note_missing(why ? why : "it cannot be opened");
        return;
    }
#define X(name)                                          \
    *(void **)&kf_lt.name = dlsym(so, "cublasLt" #name); \
    if (!kf_lt.name) note_missing("it has no function cublasLt" #name);
    KF_LT_FUNCTIONS(X)
#undef X
}

kerf_status kf_need_lt(kerf_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, open_library);
    if (!kf_lt.missing[0]) return KERF_OK;
    return kf_fail(
        err, KERF_E_NOSUP, KF_NOWHERE,
        "products with many columns need cuBLASLt (libcublasLt.so.13 or .12): %s; install "
        "NVIDIA's libcublas-13-0, or nvidia-cublas by pip and put its lib folder on "
        "LD_LIBRARY_PATH",
        kf_lt.missing);
}

kerf_status kf_lt_fail(kerf_error *err, cublasStatus_t e, const char *what)
{
    if (e == CUBLAS_STATUS_ALLOC_FAILED)
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: cuBLASLt is out of memory", what);
    return kf_fail(err, KERF_E_CUDA, KF_NOWHERE, "%s: cuBLASLt says %s", what,
                   kf_lt.GetStatusString(e));
}

kerf_status kf_lt_describe_matrix(cublasLtMatrixLayoutOpaque_t *m, cudaDataType_t type,
                                  uint64_t rows, uint64_t columns, uint64_t stride, kerf_error *err)
{
    KF_LT(kf_lt.MatrixLayoutInit_internal(m, sizeof *m, type, rows, columns, (int64_t)stride),
          "describing a matrix");
    return KERF_OK;
}

cublasStatus_t kf_lt_find_algorithm(const kf_lt_question *q, cublasLtMatmulHeuristicResult_t *best)
{
    static const cublasLtMatmulPreferenceAttributes_t sides[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasLtMatmulPreferenceOpaque_t pref;
    int found = 0;
    cublasStatus_t s = kf_lt.MatmulPreferenceInit_internal(&pref, sizeof pref);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = kf_lt.MatmulPreferenceSetAttribute(&pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &q->scratch, sizeof q->scratch);
    for (size_t i = 0; i < 4 && s == CUBLAS_STATUS_SUCCESS; i++)
        s = kf_lt.MatmulPreferenceSetAttribute(&pref, sides[i], &q->align, sizeof q->align);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = kf_lt.MatmulAlgoGetHeuristic(q->handle, q->product, q->a, q->b, q->d, q->d, &pref, 1,
                                         best, &found);
    const int is_usable = found > 0 && best->state == CUBLAS_STATUS_SUCCESS;
    return s == CUBLAS_STATUS_SUCCESS && !is_usable ? CUBLAS_STATUS_NOT_SUPPORTED : s;
}
#endif
