/* compare.h - one weight of a source against the weight of the same name in another checkpoint. */
#ifndef KERF_COMPARE_H
#define KERF_COMPARE_H

#include <kerf/verify.h>

#include "base/work.h"

typedef struct kf_compare_job {
    const kerf_reader *source, *other;
    int exact;                   /* also encode again, and compare bytes */
    const kerf_weights *all;     /* of the source; for `exact` */
    const kerf_moments *moments; /* for `exact`; NULL: none */
    int by_value;                /* dense tensors may differ: measure them */
    const kerf_exec *exec;
    kf_work *progress;
    int *nonfinite; /* set to 1 when numbers compared bit for bit are NaN or Inf; or NULL */
} kf_compare_job;

/* Fills score and measured, or problem, of a row that has weight and other, as kerf_verify says. */
kerf_status kf_compare_weights(const kf_compare_job *job, kerf_verify_row *row, kerf_error *err);

/* Whether a row that was compared is a quantized weight whose codes equal those of its source,
 * which can be decoded. */
int kf_is_equal_quantized(const kerf_verify_row *row);
/* Fills the score of such a row: its error is 0, and its elements count in that of several. */
kerf_status kf_score_equal(const kf_compare_job *job, kerf_verify_row *row, kerf_error *err);

/* The weights of a source, opened anew, with experts arranged as those of `other`. Close the result
 * with kerf_weights_close. */
kerf_status kf_weights_like(const kerf_reader *source, const kerf_weights *other,
                            kerf_weights **out, kerf_error *err);

/* Encodes row->weight as row->other says that it was, and notes the first byte that differs. */
kerf_status kf_compare_exactly(const kf_compare_job *job, kerf_verify_row *row, kerf_error *err);

/* Fills row->limit as kerf_limits_of does; a pattern for a stack of experts is one for each. */
unsigned kf_limits_of_row(const kerf_limits *l, kerf_verify_row *row);

/* Every pattern of a limits file must match a tensor of the source, which `path` names: one that is
 * misspelt would limit nothing. l NULL: there is none. */
kerf_status kf_limits_check(const kerf_limits *l, const kerf_weights *source, const char *path,
                            kerf_error *err);

#endif
