/* gemv_device.h - the matrix-vector product on a GPU, as the plan sees it. A build without CUDA has
 * these functions too; there they refuse. */
#ifndef KERF_GEMV_DEVICE_H
#define KERF_GEMV_DEVICE_H

#include "cpu/gemv_ops.h"
#include "plan/gemv_options.h"

/* Fills plan->state, bound and workspace; everything about the shape is checked. */
kerf_status kf_gemv_device_plan(kerf_gemv *plan, kerf_device *device,
                                const kf_gemv_options *options, kerf_error *err);

/* Whether the kernels for tiles take the product; else one that takes an element at a time does. */
int kf_gemv_device_is_tiled(const kerf_gemv *plan);

/* Whether two plans of one shape launch the same. */
int kf_gemv_device_alike(const kerf_gemv *a, const kerf_gemv *b);

/* Enqueues; every span is checked. */
kerf_status kf_gemv_device_run(const kerf_gemv *plan, const kerf_gemv_args *args, void *stream,
                               kerf_error *err);

/* Shuffles n words in device memory, or brings them back; they lie at multiples of four bytes. */
kerf_status kf_gemv_device_shuffle(kerf_device *device, void *words, size_t n, int back,
                                   void *stream, kerf_error *err);

/* KERF_E_NOSUP: codes of this format are never shuffled. */
kerf_status kf_check_shuffle(const kerf_format *f, kerf_error *err);

#endif
