/* copy_tensor.h - tensors that go to the output as they are. */
#ifndef KERF_STREAM_COPY_TENSOR_H
#define KERF_STREAM_COPY_TENSOR_H

#include <kerf/layouts.h>

#include "base/work.h"
#include "stream/values_seen.h"

/* Copies a tensor into entry i, a panel at a time. */
kerf_status kf_copy_tensor(const kerf_reader *from, const kerf_tensor *t, kerf_writer *to, size_t i,
                           kf_work *work, kerf_error *err);

/* The same of a dense weight, whose numbers `seen` is told of. */
kerf_status kf_copy_dense(const kerf_reader *from, const kerf_weight *w, kerf_writer *to, size_t i,
                          kf_values_seen *seen, kf_work *work, kerf_error *err);

/* Copies all tensors that store a weight into the entries from i on. */
kerf_status kf_copy_weight(const kerf_reader *from, const kerf_weight *w, kerf_writer *to, size_t i,
                           kf_work *work, kerf_error *err);

#endif
