/* encode_tensor.h - one tensor from its source through an encoder, panel by panel: what quantize
 * and score have in common. */
#ifndef KERF_STREAM_ENCODE_TENSOR_H
#define KERF_STREAM_ENCODE_TENSOR_H

#include "base/work.h"
#include "stream/panels.h"
#include "stream/values_seen.h"

typedef struct kf_encode_job {
    const kerf_reader *reader;
    const kerf_tensor *tensor;
    const kerf_geometry *geometry;
    const kerf_encoder *encoder;
    const kerf_exec *exec;
    kf_work *work;
    const kerf_stats *stats;    /* of each matrix, measured before; NULL: measured here           */
    kerf_weight_writer *writer; /* NULL: the bytes are not written                                */
    kf_room *room;              /* NULL: a tensor that must be measured first is read twice       */
    kf_step look;               /* called for each panel, in order, when it is encoded; NULL: not */
    void *look_ctx;
    kf_values_seen *seen; /* told of numbers until one is not zero; NULL: not */
    int *infinite;        /* becomes 1 where a number or a scale is written as Inf; NULL: not */
} kf_encode_job;

/* NaN and Inf of the source, unless --nan allows them, are a KERF_E_DATA that names the tensor,
 * the element and its place. */
kerf_status kf_encode_tensor(const kf_encode_job *job, kerf_error *err);

/* Adds the tensor, and for NaN and Inf the place and the way out, to a failure of the codec. */
kerf_status kf_explain_encode(const kerf_tensor *tensor, kerf_status s, kerf_error *err);

/* Only measures: adds the tensor to stats[geometry.matrices]. */
kerf_status kf_measure_tensor(const kf_encode_job *job, kerf_stats *stats, kerf_error *err);

#endif
