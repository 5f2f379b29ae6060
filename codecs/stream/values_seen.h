/* values_seen.h - what is odd in the numbers of a tensor that is only passed on. */
#ifndef KERF_STREAM_VALUES_SEEN_H
#define KERF_STREAM_VALUES_SEEN_H

#include <kerf/layouts.h>

/* The largest magnitude among numbers, as its bits: with the sign away they compare as integers,
 * and Inf and NaN are the largest. */
typedef struct kf_values_seen {
    kerf_dtype dtype; /* others than F64, F32, F16, BF16 are not looked at */
    uint64_t numbers, largest;
} kf_values_seen;

/* Adds n bytes; not from several threads at once. */
void kf_values_see(kf_values_seen *v, const void *p, size_t n);
/* What was seen of other numbers of the same type. */
void kf_values_add(kf_values_seen *v, const kf_values_seen *other);
/* Adds bytes until something is found that is not zero. */
void kf_values_see_one(kf_values_seen *v, const void *p, size_t n);

int kf_values_have_nan(const kf_values_seen *v);
int kf_values_have_inf(const kf_values_seen *v); /* 0 where there are NaN besides */
/* NaN, or Inf where w is no mask of an attention, which is made of them. */
int kf_values_are_odd(const kf_values_seen *v, const kerf_weight *w);
int kf_values_are_zero(const kf_values_seen *v); /* numbers were seen, and all are 0 or -0 */

#endif
