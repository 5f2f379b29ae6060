/* call.h - one public call over a range of bands: what its functions share. The arguments have been
 * checked, the bands are cut into slices for threads. */
#ifndef KERF_CALL_H
#define KERF_CALL_H

#include "cpu/ops.h"
#include "format/device.h"

typedef struct kf_call {
    const kerf_geometry *g;
    uint64_t b0, b1, slices;
    uint64_t first_matrix, matrices; /* that the bands touch */
    kerf_dtype dtype;                /* of source or target  */
    kerf_nan nan;
    const kf_codec_ops *ops; /* NULL: a device does it                                       */
    const uint8_t *source;   /* encode, measure, count_clipped, loss                         */
    uint8_t *target;         /* decode                                                       */
    const uint8_t *plane[KERF_PLANES]; /* decode, count_clipped, loss                        */
    uint8_t *out[KERF_PLANES];         /* encode                                             */
    const kf_tensor *tensors;          /* encode: of the matrices touched                    */
    int encoder;
    const float *importance;  /* encode: of the first matrix of the tensor; NULL: not asked for */
    uint64_t importance_step; /* from one matrix to the next                                  */
    const struct kerf_feedback *feedback; /* encode; NULL: without */
    kerf_stats *stats; /* measure: per slice and matrix touched                              */
    uint64_t *found;   /* per slice: first bad element of the tensor, or clipped elements    */
} kf_call;

extern const kerf_exec kf_default_exec;

/* Who computes: all zeros for NULL, and no device for what devices have no kernels for, of blocks
 * of two levels (geometry SUPER) all but decoding, nor with feedback that was made for the
 * processor: both the processor takes. room: where the answer may stand. */
const kerf_exec *kf_exec_for(const kerf_geometry *g, const kerf_exec *exec, kerf_exec *room);

/* Fills what all calls share and checks the range, the type, and whether the backend exists. */
kerf_status kf_call_init(kf_call *c, const kerf_geometry *g, uint64_t b0, uint64_t b1,
                         kerf_dtype dtype, const kerf_exec *exec, kerf_error *err);

/* KERF_E_BUFFER when the elements of the bands need more bytes, KERF_E_ARG when they are NULL. */
kerf_status kf_check_elements(const kf_call *c, kerf_cspan have, const char *what, kerf_error *err);

/* The planes that are read, or written; KERF_E_BUFFER when one is too short, KERF_E_ARG: NULL. */
kerf_status kf_call_planes(kf_call *c, const kerf_cspan planes[KERF_PLANES], kerf_error *err);
kerf_status kf_call_out(kf_call *c, const kerf_span planes[KERF_PLANES], kerf_error *err);

/* KERF_E_ARG for one of `count` from `first` on that is below 0, above 1e30 or no number: what is
 * weighed by that becomes infinite or nothing. */
kerf_status kf_check_importance(const float *importance, uint64_t first, uint64_t count,
                                kerf_error *err);

/* The whole call for a device. */
kf_host_range kf_call_range(const kf_call *c);

kerf_status kf_out_of_memory(kerf_error *err);

/* Where band b's part of plane p begins, in bytes from the plane's part of the call; planes with
 * one value per matrix are given whole. */
static inline uint64_t kf_plane_offset(const kf_call *c, int p, uint64_t b)
{
    const kerf_plane *plane = &c->g->plane[p];
    if (!plane->per_matrix) return kerf_band_bytes(c->g, (kerf_plane_id)p, c->b0, b).count;
    return c->g->matrices ? b / c->g->bands_per_matrix * (plane->bytes / c->g->matrices) : 0;
}

/* Field by field, where it is wanted: to zero and copy a struct takes longer than all the rest. */
static inline void kf_band_at(const kf_call *c, uint64_t b, float *scratch, kf_band *band)
{
    const kerf_geometry *g = c->g;
    const kerf_extent e = kerf_band_elements(g, b, b + 1);
    const uint64_t start =
        (e.offset - kerf_band_elements(g, c->b0, b).offset) * (kerf_dtype_bits(c->dtype) / 8);
    const int flat = g->format->geometry == KERF_GROUP_FLAT;
    band->g = g;
    band->cols = (size_t)(flat ? e.count : g->cols);
    band->rows = (size_t)(e.count / band->cols);
    band->source = c->source ? c->source + start : NULL;
    band->target = c->target ? c->target + start : NULL;
    band->dtype = c->dtype;
    band->nan = c->nan;
    for (int p = 0; p < KERF_PLANES; p++) {
        band->plane[p] = c->plane[p] ? c->plane[p] + kf_plane_offset(c, p, b) : NULL;
        band->out[p] = c->out[p] ? c->out[p] + kf_plane_offset(c, p, b) : NULL;
    }
    band->tensor = c->tensors ? c->tensors + (b / g->bands_per_matrix - c->first_matrix) : NULL;
    band->encoder = c->encoder;
    band->scratch = scratch;
    band->importance = NULL;
    band->column = 0;
}

static inline void kf_slice_range(const kf_call *c, uint64_t slice, uint64_t *from, uint64_t *to)
{
    uint64_t n = c->b1 - c->b0, whole = n / c->slices, rest = n % c->slices;
    *from = c->b0 + slice * whole + (slice < rest ? slice : rest);
    *to = *from + whole + (slice < rest);
}

#endif
