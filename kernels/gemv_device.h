/* gemv_device.h - the matrix-vector product on a GPU, as the plan sees it: two functions, which a
 * build without CUDA has as stubs. */
#ifndef KERF_GEMV_DEVICE_H
#define KERF_GEMV_DEVICE_H

#include "cpu/gemv_ops.h"

/* Fills plan->state, bound and workspace; everything about the shape is checked. */
kerf_status kf_gemv_device_plan(kerf_gemv *plan, kerf_device *device, kerf_error *err);

/* Enqueues; every span is checked. */
kerf_status kf_gemv_device_run(const kerf_gemv *plan, const kerf_gemv_args *args, void *stream,
                               kerf_error *err);

#endif
