/* score_gram.h - errors weighed by all second moments of what a weight is multiplied by: with G the
 * mean of x x^T and d a row of v - w, the error of that output is d G d^T.
 *
 * That takes columns^2 operations for each row, so of large matrices only some rows are measured,
 * in blocks of 16 at about equal distances. What they say is how d G d^T compares
 * with the sum of h d^2, h the importance of a column; the weighted sums of all rows are multiplied
 * by that. Sums of a run are taken row by row, and runs in their order: the same for any number of
 * threads. Memory: G itself (4 columns^2 bytes) once, and 64 columns bytes for each thread. */
#ifndef KERF_SCORE_GRAM_H
#define KERF_SCORE_GRAM_H

#include "score/score_rest.h"

/* Multiplications that measure the rows of one tensor in one format, about; but 64 rows at least.
 */
#define KF_GRAM_WORK ((uint64_t)1 << 31)

/* Sums over the rows that were measured. */
typedef struct kf_gram_sums {
    double noise, signal;             /* of d G d^T and w G w^T */
    double plain_noise, plain_signal; /* of h d^2 and h w^2     */
} kf_gram_sums;

typedef struct kf_gram_weights {
    const float *gram;       /* [columns][columns], symmetric; NULL: nothing is done */
    const float *importance; /* [columns] h                                          */
    uint64_t columns;
    int signal;    /* 1: also w G w^T */
    uint64_t work; /* in place of KF_GRAM_WORK; 0: that */
} kf_gram_weights;

/* Adds rows that lie whole in the bands of the job. NaN and Inf count as no error and no signal. */
kerf_status kf_gram_score(const kf_rest_job *job, const kf_gram_weights *g, kf_gram_sums *into,
                          kerf_error *err);

void kf_gram_merge(kf_gram_sums *into, const kf_gram_sums *from);

/* Weighs the weighted sums of a whole tensor anew. */
void kf_gram_apply(const kf_gram_sums *sums, kerf_score *s);

#endif
