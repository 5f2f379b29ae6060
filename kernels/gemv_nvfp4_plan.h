/* gemv_nvfp4_plan.h - what the plan of an NVFP4 x NVFP4 product is, and what a GPU adds to it. */
#ifndef KERF_GEMV_NVFP4_PLAN_H
#define KERF_GEMV_NVFP4_PLAN_H

#include "base/base.h"

#include <kerf/gemv_nvfp4.h>

/* How a GPU kernel is cut; chosen by shape. */
typedef struct kf_nvfp4_tuning {
    unsigned variant;  /* of the kernels that gemv_nvfp4.cu instantiates */
    unsigned threads;  /* of a block, at most                            */
    unsigned resident; /* blocks per multiprocessor; 0: as many as fit   */
    unsigned ahead;    /* steps of a block that are asked into L2        */
} kf_nvfp4_tuning;

/* A launch that depends on shape and tuning alone. */
typedef struct kf_nvfp4_launch {
    unsigned variant, slices, groups; /* slices: of 32 elements, those of a warp padded      */
    unsigned blocks_per_matrix, flush;
    unsigned stage, ring; /* bytes; 0: not of that kind */
    unsigned ahead;       /* places                     */
} kf_nvfp4_launch;

struct kerf_gemv_nvfp4 {
    kerf_gemv_nvfp4_shape shape;
    int threads;
    int on_gpu, ordinal, fast;
    kf_nvfp4_launch launch;
    /* Bytes of each plane, and of the scales of one matrix or vector. */
    uint64_t a_codes, a_scales, b_codes, b_scales, a_scales_each, b_scales_each;
    double bound;
};

/* Chooses the kernel. tuning: NULL, or instead of what the shape would choose. */
kerf_status kf_nvfp4_cuda_plan(kerf_gemv_nvfp4 *plan, kerf_device *device,
                               const kf_nvfp4_tuning *tuning, kerf_error *err);
/* Everything is checked. */
kerf_status kf_nvfp4_cuda_run(const kerf_gemv_nvfp4 *plan, const kerf_gemv_nvfp4_args *args,
                              void *stream, kerf_error *err);
/* "4 rows x 2, 64 registers"; NULL past the last variant. */
const char *kf_nvfp4_cuda_variant(unsigned i);

#endif
