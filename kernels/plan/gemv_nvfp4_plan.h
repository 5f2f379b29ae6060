/* gemv_nvfp4_plan.h - what the plan of an NVFP4 x NVFP4 product is, and what a GPU adds to it. */
#ifndef KERF_GEMV_NVFP4_PLAN_H
#define KERF_GEMV_NVFP4_PLAN_H

#include "base/base.h"

#include <kerf/gemv_nvfp4.h>

/* How a GPU kernel is cut; 0: chosen by shape. */
typedef struct kf_nvfp4_tuning {
    unsigned parts;    /* warps that share a row: 1, 2, 4, 8             */
    unsigned resident; /* blocks per multiprocessor that work is cut for */
    int even;          /* all blocks alike, in a chain too               */
} kf_nvfp4_tuning;

/* Blocks of a matrix that follow each other: quads of rows of each, one more of the first so many.
 */
typedef struct kf_nvfp4_run {
    unsigned blocks, each, rest;
} kf_nvfp4_run;

/* A launch that depends on shape and tuning alone. */
typedef struct kf_nvfp4_launch {
    unsigned part_bits, pieces; /* 2^part_bits warps to a row, so many pieces each */
    unsigned blocks;            /* of a matrix                                     */
    kf_nvfp4_run run[2];        /* the second may have none                        */
    unsigned elements;          /* of a row, with what pads it                     */
    unsigned shared;            /* bytes                                           */
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

#endif
