/* cublaslt_library.h - NVIDIA's cuBLASLt, opened when it is first needed; kerf is not linked with
 * it. Only for files that have checked that <cublasLt.h> is there. */
#ifndef KERF_CUBLASLT_LIBRARY_H
#define KERF_CUBLASLT_LIBRARY_H

#include "base/base.h"

#include <cublasLt.h>

#define KF_LT_FUNCTIONS(X)           \
    X(Create)                        \
    X(Destroy)                       \
    X(GetStatusString)               \
    X(MatmulDescInit_internal)       \
    X(MatmulDescSetAttribute)        \
    X(MatrixLayoutInit_internal)     \
    X(MatrixLayoutSetAttribute)      \
    X(MatmulPreferenceInit_internal) \
    X(MatmulPreferenceSetAttribute)  \
    X(MatmulAlgoGetHeuristic)        \
    X(Matmul)

typedef struct kf_lt_library {
#define X(name) __typeof__(&cublasLt##name) name;
    KF_LT_FUNCTIONS(X)
#undef X
    char missing[200]; /* why it cannot be used; empty: it can */
} kf_lt_library;

/* Filled by the first call of kf_need_lt, and never closed. */
extern kf_lt_library kf_lt;

/* KERF_E_NOSUP: it is not installed, or lacks a function. Any thread. */
kerf_status kf_need_lt(kerf_error *err);

/* Turns a failed call into a status; `what` was being done. */
kerf_status kf_lt_fail(kerf_error *err, cublasStatus_t e, const char *what);

/* A matrix by columns: `stride` elements from one to the next. */
kerf_status kf_lt_describe_matrix(cublasLtMatrixLayoutOpaque_t *m, cudaDataType_t type,
                                  uint64_t rows, uint64_t columns, uint64_t stride,
                                  kerf_error *err);

/* A product that has been described, and what an algorithm for it may count on. */
typedef struct kf_lt_question {
    cublasLtHandle_t handle;
    cublasLtMatmulDescOpaque_t *product;
    cublasLtMatrixLayoutOpaque_t *a, *b, *d; /* D is also what is added to     */
    uint64_t scratch;                        /* bytes that it may use          */
    uint32_t align;                          /* of all matrices, bytes         */
} kf_lt_question;

/* What the library's heuristic proposes. As the library's own calls it says how that went:
 * CUBLAS_STATUS_NOT_SUPPORTED where it proposes nothing, or nothing that runs. */
cublasStatus_t kf_lt_find_algorithm(const kf_lt_question *q, cublasLtMatmulHeuristicResult_t *best);

#define KF_LT(expr, what)                                                                      \
    do {                                                                                       \
        cublasStatus_t kf_lt_status = (expr);                                                  \
        if (kf_lt_status != CUBLAS_STATUS_SUCCESS) return kf_lt_fail(err, kf_lt_status, what); \
    } while (0)

#endif
