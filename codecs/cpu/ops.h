/* ops.h - what a CPU backend is: one struct of function pointers per format. The reference fills
 * them all; a faster backend overrides those it has. Every function does one band. */
#ifndef KERF_OPS_H
#define KERF_OPS_H

#include "block/spec.h"
#include "cpu/loss_order.h"

/* A band of a tensor, with the part of every plane that belongs to it. Planes with one value per
 * matrix are given at the value of the band's matrix. */
typedef struct kf_band {
    const kerf_geometry *g;
    size_t rows, cols;     /* of this band; rows are contiguous in the source           */
    const uint8_t *source; /* encode, count_clipped, lose                               */
    uint8_t *target;       /* decode; lose: F32 as decoded elsewhere, or NULL           */
    kerf_dtype dtype;      /* of source or target: F32, F16, BF16                       */
    kerf_nan nan;
    const uint8_t *plane[KERF_PLANES]; /* decode, count_clipped, lose                        */
    uint8_t *out[KERF_PLANES];         /* encode                                             */
    const kf_tensor *tensor;           /* encode                                             */
    int encoder;                       /* kerf_encoder_id                                    */
    float *scratch;                    /* kf_scratch_floats(g), undefined between calls      */
    const float *importance;           /* encode, lose: of each column of the matrix, or NULL */
    size_t column;                     /* lose: the column of the first element               */
} kf_band;

#define KF_NO_ELEMENT SIZE_MAX

typedef struct kf_codec_ops {
    /* Returns the first element that is NaN or Inf under KERF_NAN_ERROR, or KF_NO_ELEMENT. */
    size_t (*encode)(const kf_band *b);
    /* Adds the elements of the band to the statistics of its matrix; returns as encode does. */
    size_t (*measure)(const kf_band *b, kerf_stats *s);
    void (*decode)(const kf_band *b);
    size_t (*count_clipped)(const kf_band *b);
    /* Adds the loss of the band; where target is given, all but what is clipped. */
    void (*lose)(const kf_band *b, kerf_loss *loss);
} kf_codec_ops;

/* Elements of a band as fp32, and one absmax per group. */
static inline size_t kf_scratch_floats(const kerf_geometry *g)
{
    return (size_t)(g->band_rows * g->band_cols + g->band_groups);
}

/* The sets of functions. All but the first exist only where their instruction set does: the table
 * of backends.c says on which processors they may run. */
const kf_codec_ops *kf_ref_ops(const kerf_format *f);
const kf_codec_ops *kf_avx2_ops(const kerf_format *f);
const kf_codec_ops *kf_avx512_ops(const kerf_format *f);
const kf_codec_ops *kf_neon_ops(const kerf_format *f);

#endif
