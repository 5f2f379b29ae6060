/* spans.h - what the runs of all products ask of the spans that they are given, in the same words.
 *
 * KERF_E_BUFFER: a span is too short. KERF_E_ARG: it is NULL where bytes are needed, or does not
 * begin at a multiple of `align` bytes; align is 1 where any place will do. */
#ifndef KERF_SPANS_H
#define KERF_SPANS_H

#include "base/base.h"

#include <kerf/codec.h>

/* What a text calls the planes of a matrix. */
extern const char *const kf_plane_names[KERF_PLANES];

/* F32, F16 or BF16. */
int kf_is_float(kerf_dtype t);

/* KERF_E_NOSUP: numbers of a type that is none of these. */
kerf_status kf_check_float(kerf_dtype t, const char *what, kerf_error *err);

/* Bytes of an element, at a multiple of which it lies in a device's memory; 1 for elements of less
 * than a byte. */
unsigned kf_element_bytes(kerf_dtype t);

static inline kerf_cspan kf_read_only(kerf_span s)
{
    return (kerf_cspan){s.p, s.n};
}

kerf_status kf_check_span(kerf_cspan have, uint64_t need, unsigned align, const char *what,
                          kerf_error *err);

/* `count` vectors, one at least, of n numbers; each begins `stride` numbers after the one before,
 * and 0 stands for n. */
typedef struct kf_vectors {
    uint64_t count, n, stride;
    kerf_dtype type;
} kf_vectors;

/* KERF_E_ARG also for vectors that overlap; KERF_E_RANGE: more bytes than 64 bits can count. */
kerf_status kf_check_vectors(kerf_cspan have, const kf_vectors *v, unsigned align, const char *what,
                             kerf_error *err);

#endif
