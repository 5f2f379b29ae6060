/* loss.h - what a tensor loses by being quantized, counted on its stored bytes.
 *
 * Sums are in doubles and in an order that depends on the shape alone, so that every backend,
 * number of threads and device finds the same bits: of a band, columns are taken 32,768 at a time,
 * in each of these the rows one after the other, and of a row pieces of 2,048 elements. Element i
 * of a piece goes to lane i % 8, the lanes of a piece are added up in order, and pieces are added
 * to those before them. Some bands make a run; runs begin with the first band of a call and are
 * added up in order. Elements that are not finite count as zeros on both sides.
 */
#ifndef KERF_LOSS_H
#define KERF_LOSS_H

#include <kerf/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* x: an element of the source, d: decoded minus x, h: the importance of its column. */
typedef struct kerf_loss {
    double signal, noise, cross;            /* sums of x x, d d, d x                           */
    double weighted_signal, weighted_noise; /* of h x x and h d d; 0 without importance        */
    double worst;                           /* the largest |d|                                 */
    uint64_t nonfinite;                     /* finite elements that are decoded as NaN or Inf  */
    uint64_t clipped;                       /* elements outside of what their scale can express */
} kerf_loss;

/* Of bands [b0, b1); planes and src as for kerf_decode and kerf_encode, and errors as theirs.
 * importance: one number per column of the tensor's last dimension, or NULL. */
KERF_API KERF_CHECK kerf_status kerf_find_loss(const kerf_geometry *g, uint64_t b0, uint64_t b1,
                                               const kerf_cspan planes[KERF_PLANES], kerf_cspan src,
                                               kerf_dtype dtype, const float *importance,
                                               const kerf_exec *exec, kerf_loss *loss,
                                               kerf_error *err);

/* Bands of a run of a call for bands [b0, b1), of which there is at least one. The last run may be
 * shorter. */
KERF_API uint64_t kerf_loss_run(const kerf_geometry *g, uint64_t b0, uint64_t b1);

#ifdef __cplusplus
}
#endif
#endif
