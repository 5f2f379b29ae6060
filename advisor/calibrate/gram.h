/* gram.h - sums of x x^T over tokens. */
#ifndef KERF_GRAM_H
#define KERF_GRAM_H

#include <kerf/job.h>

#include "base/base.h"

/* Adds to gram[columns][columns] the products of all pairs of columns of x[tokens][columns]; the
 * part above the diagonal is mirrored by kf_gram_mirror at the end. An element is a float32 chain
 * over 256 tokens at a time, and these sums are added to it in order: the same bits for any number
 * of threads. */
kerf_status kf_gram_add(float *gram, const float *x, uint64_t tokens, uint64_t columns, int threads,
                        kerf_error *err);

/* Divides by the number of tokens, and makes the matrix symmetric. Only a job that is canceled ends
 * it before. */
kerf_status kf_gram_finish(float *gram, uint64_t columns, double tokens, int threads,
                           const kerf_job *job, kerf_error *err);

#endif
