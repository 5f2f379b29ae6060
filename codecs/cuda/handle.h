/* handle.h - an open GPU: two lanes, each a stream with the memory that work on it needs. Device
 * calls use lane 0; host calls take turns, so that one lane copies while the other computes. */
#ifndef KERF_HANDLE_H
#define KERF_HANDLE_H

#include "base/base.h"
#include "cuda/kernel_job.h"
#include "format/device.h"

#include <kerf/cuda.h>

/* Memory that grows and is kept until the device is closed. */
typedef struct kf_buffer {
    void *p;
    size_t n;
} kf_buffer;

typedef struct kf_lane {
    cudaStream_t stream;
    kf_buffer tensors, chosen, floats;          /* of jobs                                 */
    kf_buffer sum, fault, code, rounders;       /* of jobs with error feedback             */
    kf_buffer dense, plane[KERF_PLANES], stats; /* host calls: a piece on the device ...   */
    kf_buffer pinned, pinned_plane[KERF_PLANES], pinned_stats; /* ... and in page-locked memory */
    unsigned long long *words;  /* device: of device calls, of host calls  */
    unsigned long long *word;   /* that in use: first bad element, or a count */
    unsigned long long *answer; /* its page-locked copy                    */
} kf_lane;

enum { KF_LANES = 2, KF_IDLE_CHUNKS = 6 };

#define KF_CHUNK_BYTES (UINT64_C(32) << 20) /* of page-locked memory that passes by in pieces */

typedef struct kf_gpu {
    kerf_device base;
    int ordinal;
    kf_lane lane[KF_LANES];
    int was_solo; /* how the last product was launched (gemv_device.c); by __atomic alone */
    void *idle[KF_IDLE_CHUNKS]; /* chunks that nobody uses, or NULL; by __atomic alone */
} kf_gpu;

static inline kf_gpu *kf_gpu_of(kerf_device *d)
{
    return (kf_gpu *)d;
}

/* Turns a failed CUDA call into a status; `what` was being done. */
kerf_status kf_cuda_fail(kerf_error *err, cudaError_t e, const char *what);

#define KF_CUDA(expr, what)                                                              \
    do {                                                                                 \
        cudaError_t kf_cuda_error = (expr);                                              \
        if (kf_cuda_error != cudaSuccess) return kf_cuda_fail(err, kf_cuda_error, what); \
    } while (0)

/* At least n bytes; what was there is lost. The lane must be idle or the buffer unused by it. */
kerf_status kf_grow_device(kf_lane *l, kf_buffer *b, uint64_t n, kerf_error *err);
kerf_status kf_grow_pinned(kf_lane *l, kf_buffer *b, uint64_t n, kerf_error *err);

/* A chunk of page-locked memory, KF_CHUNK_BYTES. When it is left, no copy from or to it may be
 * under way; the device keeps as many as one user of it has, since giving them back to the system
 * takes milliseconds each, for which all GPUs of the process wait. Any thread. */
kerf_status kf_chunk_take(kf_gpu *d, void **out, kerf_error *err);
void kf_chunk_leave(kf_gpu *d, void *chunk);

/* As kf_host_range, in device memory. */
typedef struct kf_range {
    const kerf_geometry *g;
    uint64_t b0, b1;
    uint8_t *dense; /* elements: only read by measure, encode and count_clipped */
    kerf_dtype dtype;
    kerf_nan nan;
    uint8_t *plane[KERF_PLANES]; /* written by encode, only read by the others */
    uint64_t matrices;           /* that the range touches                     */
} kf_range;

/* Enqueue on a lane; r is in device memory, the words of the lane are the caller's. Encode writes
 * the planes with one value per matrix unless they are NULL. */
kerf_status kf_enqueue_measure(kf_lane *l, const kf_range *r, kerf_stats *stats, kerf_error *err);
kerf_status kf_enqueue_encode(kf_lane *l, const kf_range *r, int encoder, const kerf_stats *stats,
                              kerf_error *err);
kerf_status kf_enqueue_decode(kf_lane *l, const kf_range *r, kerf_error *err);
kerf_status kf_enqueue_clip(kf_lane *l, const kf_range *r, kerf_error *err);

/* The factors of kerf/feedback.h on one GPU. */
typedef struct kf_factors {
    kf_gpu *gpu;
    float *above, *d; /* as in feedback_job.h */
} kf_factors;

/* On every GPU that shares the rows of a matrix. */
struct kf_there {
    size_t count;
    kf_factors at[];
};

/* Encodes with error feedback; as kf_enqueue_encode. */
kerf_status kf_enqueue_feedback(kf_lane *l, const kf_range *r, int encoder, const kerf_stats *stats,
                                const kf_factors *f, kerf_error *err);

/* Parts of kf_enqueue_encode: what the lane knows of each matrix, and a job of the range's rows. */
kerf_status kf_enqueue_prepare(kf_lane *l, const kf_range *r, int encoder, const kerf_stats *stats,
                               kerf_error *err);
kf_job kf_rows_job(kf_lane *l, const kf_range *r);
const kf_launches *kf_launches_of(const kerf_format *f);

/* kerf_device.factor */
kerf_status kf_make_factors(kerf_device *const *devices, size_t count, const float *gram,
                            uint64_t columns, kf_pivots pivots, const kerf_job *job,
                            struct kf_there **out, kerf_error *err);
void kf_free_factors(struct kf_there *there);

/* The functions behind kerf_exec.device. */
extern const struct kerf_device kf_host_calls;

#endif
