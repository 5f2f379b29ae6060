/* rounding.h - what a runtime rounds besides weights when it runs a quantized checkpoint: the
 * inputs of its layers, by the scale beside a weight (W4A4 NVFP4, static FP8) or as they come (FP8,
 * INT8 and MX for each token), and the keys and values in an FP8 cache. config.json says which.
 *
 *   kerf_rounding_open(checkpoint, &r, &err)
 *   kerf_round_inputs(r, weight, x, tokens, y, ...)       y: x as the runtime multiplies it
 *   kerf_round_cache(r, weight, k, ..., v, ...)           in place
 *
 * Numbers are float32 before and after; codes between them are those of kerf's formats, encoder
 * amax (of MX: the default one). What a scale does not reach saturates. A runtime has bfloat16
 * before, and may divide by multiplying with a reciprocal.
 *
 * Sources: vLLM's loaders and compressed-tensors (codecs/layout/activations.c). */
#ifndef KERF_ROUNDING_H
#define KERF_ROUNDING_H

#include <kerf/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kerf_rounding kerf_rounding;

/* What is rounded; all zeros: nothing. */
typedef struct kerf_rounds {
    size_t weights;               /* whose inputs are                                           */
    const kerf_format *inputs[8]; /* to what, each once, in the order of the weights; then NULL */
    const kerf_format *cache;     /* keys and values; NULL: they are not                        */
} kerf_rounds;

/* Reads config.json and the scales; c must outlive the result. Of output heads nothing is rounded.
 * KERF_E_DATA: a scale of the cache is not above 0 and finite; and as reading fails. */
KERF_API KERF_CHECK kerf_status kerf_rounding_open(const kerf_checkpoint *c, kerf_rounding **out,
                                                   kerf_error *err);
KERF_API void kerf_rounding_close(kerf_rounding *r); /* NULL is fine */
KERF_API void kerf_rounding_describe(const kerf_rounding *r, kerf_rounds *out);

/* 1: the inputs of the weight of this name are rounded. */
KERF_API int kerf_rounds_inputs(const kerf_rounding *r, const char *weight);

/* y[tokens][columns] = x as it is multiplied by that weight; for a weight whose inputs stay, a
 * copy. Rows with NaN or Inf anywhere in x: all stay as they are. exec: its threads count; NULL:
 * all cores. One thread at a time. */
KERF_API KERF_CHECK kerf_status kerf_round_inputs(kerf_rounding *r, const char *weight,
                                                  const float *x, uint64_t tokens, uint64_t columns,
                                                  float *y, const kerf_exec *exec, kerf_error *err);

/* k[tokens][key_columns] and v[tokens][value_columns] of the attention whose keys are made by this
 * weight become what its cache gives back. Other weights: nothing happens. */
KERF_API KERF_CHECK kerf_status kerf_round_cache(kerf_rounding *r, const char *weight, float *k,
                                                 uint64_t key_columns, float *v,
                                                 uint64_t value_columns, uint64_t tokens,
                                                 const kerf_exec *exec, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
