/* decode_tensor.h - one quantized weight back into a dense tensor, panel by panel. */
#ifndef KERF_STREAM_DECODE_TENSOR_H
#define KERF_STREAM_DECODE_TENSOR_H

#include <kerf/layouts.h>

#include "base/work.h"
#include "stream/values_seen.h"

typedef struct kf_decode_job {
    const kerf_reader *reader;
    const kerf_weight *weight;
    kerf_dtype dtype; /* of the result */
    kerf_writer *writer;
    size_t entry;
    const kerf_exec *exec;
    kf_work *work;        /* counts bytes of the result  */
    kf_values_seen *seen; /* of the result; NULL: nobody asks */
} kf_decode_job;

kerf_status kf_decode_tensor(const kf_decode_job *job, kerf_error *err);

#endif
