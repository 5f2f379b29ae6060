/* feedback_job.h - what launches of error feedback work on: blocks of columns of some rows, and the
 * factors of a matrix of second moments. */
#ifndef KERF_CUDA_FEEDBACK_JOB_H
#define KERF_CUDA_FEEDBACK_JOB_H

#include "cuda/kernel_job.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KF_FEEDBACK_BLOCK = 128, /* columns that are rounded before the sums of those behind grow  */
    KF_FACTOR_BLOCK = 64,    /* rows of the factors that are made before the others are reduced */
    KF_FACTOR_LOST = 2       /* no matrix of second moments                                     */
};

/* Rows of a launch are the lines of `job`; its floats are their elements, [lines][width]. */
typedef struct kf_feedback_job {
    kf_job job;
    const float *above; /* [width][width] row k, j < k: U_jk  */
    const float *d;     /* [width]                            */
    float *sum;         /* [lines][width] over columns before */
    float *fault;       /* [lines][KF_FEEDBACK_BLOCK]         */
    uint8_t *code;      /* [lines][width]                     */
    void *rounders;     /* [lines][KF_ROUNDER_BYTES], where scales are known before a block */
    uint64_t from;      /* first column of the block          */
    int plain;          /* the format's default encoder       */
    int tries;          /* more than one scale is looked at   */
} kf_feedback_job;

enum { KF_ROUNDER_BYTES = 32 };

/* Of all formats alike. */
cudaError_t kf_feedback_widen(const kf_feedback_job *f, cudaStream_t s);
cudaError_t kf_feedback_add(const kf_feedback_job *f,
                            cudaStream_t s); /* columns behind the block */
cudaError_t kf_feedback_pack(const kf_feedback_job *f, kf_spec spec, cudaStream_t s);

/* The factors, dealt out to `ranks` devices by blocks of rows: this one has those whose number
 * leaves `rank` when it is divided by `ranks`. */
typedef struct kf_factoring {
    uint64_t n;
    unsigned rank, ranks;
    double least, lost; /* of pivots (format/device.h) */
    double *a;          /* the device's rows, [..][n] */
    double *panel;      /* [KF_FACTOR_BLOCK][n] the rows [from, to) of U, as they are being made */
    double *pivot;      /* [KF_FACTOR_BLOCK] D of the same */
    float *above;       /* [n][n] before the first block: the second moments, the device's rows */
    float *d;           /* [n] */
    unsigned *bad;      /* 1: a number is not finite; KF_FACTOR_LOST: a pivot below `lost` */
    uint64_t from, to;
} kf_factoring;

cudaError_t kf_factor_fill(const kf_factoring *f, cudaStream_t s);
cudaError_t kf_factor_make(const kf_factoring *f, cudaStream_t s);   /* the panel: by its owner */
cudaError_t kf_factor_keep(const kf_factoring *f, cudaStream_t s);   /* it as fp32              */
cudaError_t kf_factor_reduce(const kf_factoring *f, cudaStream_t s); /* the rows before it      */

#ifdef __cplusplus
}
#endif
#endif
