/* gemm_plan.h - what the plan of a product with many columns is, and what cuBLASLt adds to it. */
#ifndef KERF_GEMM_PLAN_H
#define KERF_GEMM_PLAN_H

#include "base/base.h"

#include <kerf/gemm.h>

typedef enum kf_gemm_way {
    KF_GEMM_DENSE,
    KF_GEMM_FP8,
    KF_GEMM_INT8,
    KF_GEMM_BLOCKS,
    KF_GEMM_DEQUANTIZE
} kf_gemm_way;

typedef struct kf_gemm_library kf_gemm_library; /* of cublaslt.c */

struct kerf_gemm {
    kerf_gemm_shape shape; /* strides filled in */
    kerf_geometry geometry;
    kf_gemm_way way;
    int ordinal;
    uint64_t panel;       /* rows that are multiplied at a time                        */
    uint64_t panel_bytes; /* workspace: decoded rows, sums of int8, or factors; then   */
    uint64_t scratch;     /* ... what the algorithm wants                              */
    uint64_t scale_bytes; /* of W: as the geometry has them, or in tiles               */
    uint64_t x_scale_bytes;
    int needs_x_scale;
    double bound;
    kf_gemm_library *library;
};

/* Everything but panel, scratch and library is filled in. */
kerf_status kf_cublaslt_plan(kerf_gemm *plan, kerf_device *device, kerf_error *err);
void kf_cublaslt_free(kf_gemm_library *l); /* NULL is fine */
/* Everything is checked. */
kerf_status kf_cublaslt_run(const kerf_gemm *plan, const kerf_gemm_args *args, void *stream,
                            kerf_error *err);

#endif
