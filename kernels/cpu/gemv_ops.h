/* gemv_ops.h - what a CPU backend of the matrix-vector product is. The reference takes every
 * format; a faster backend may decline a format and shape, and the reference does it. */
#ifndef KERF_GEMV_OPS_H
#define KERF_GEMV_OPS_H

#include "cpu/matrix.h"
#include "cpu/widen.h"

#include <kerf/gemv.h>

/* One run, with everything checked. */
typedef struct kf_gemv_call {
    const kerf_gemv *plan;
    kf_matrix w;
    unsigned columns;
    kerf_dtype x_type, y_type;
    const uint8_t *x, *bias, *residual;
    uint8_t *y;
    size_t x_stride, y_stride;
    float alpha;
    void *workspace; /* 64-byte aligned */
} kf_gemv_call;

typedef struct kf_gemv_ops {
    const char *name;
    /* Prepares plan->state; KERF_E_NOSUP without a text: not for this format and shape. NULL:
     * there is nothing to prepare. */
    kerf_status (*plan)(kerf_gemv *plan);
    /* Once per run, before rows: fills the workspace. 0: these inputs are for the reference. */
    int (*start)(const kf_gemv_call *c);
    /* Rows [r0, r1) of all columns. */
    void (*rows)(const kf_gemv_call *c, size_t r0, size_t r1);
} kf_gemv_ops;

struct kerf_gemv {
    kerf_gemv_shape shape;
    kerf_geometry geometry; /* of the first part */
    unsigned parts;
    uint64_t part_rows[KERF_GEMV_PARTS];
    kerf_geometry part[KERF_GEMV_PARTS];
    int on_device; /* then ops and panel are not used */
    const kf_gemv_ops *ops;
    int threads;
    size_t panel;     /* rows that a thread takes at a time          */
    size_t workspace; /* bytes, without what aligning it costs       */
    double bound, x_bound;
    void *state; /* of the backend, allocated by ops->plan           */
};

extern const kf_gemv_ops kf_gemv_ref;
extern const kf_gemv_ops kf_gemv_neon, kf_gemv_neonint;
extern const kf_gemv_ops kf_gemv_avx2, kf_gemv_avx2bf16, kf_gemv_avx2int;
extern const kf_gemv_ops kf_gemv_avx512, kf_gemv_avx512bf16, kf_gemv_avx512int, kf_gemv_amx;

/* Backends of this machine, slowest first; their number is returned. */
#define KF_GEMV_BACKENDS 8
size_t kf_gemv_backends(const kf_gemv_ops *out[KF_GEMV_BACKENDS]);

/* y[c][r] from a finished sum. */
static inline void kf_gemv_finish(const kf_gemv_call *c, size_t r, size_t column, float sum)
{
    size_t at = column * c->y_stride + r;
    if (c->alpha != 1) sum *= c->alpha;
    if (c->bias) sum += kf_load(c->y_type, c->bias, r);
    if (c->residual) sum += kf_load(c->y_type, c->residual, at);
    kf_store(c->y_type, c->y, at, sum);
}

#endif
