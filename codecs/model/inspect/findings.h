/* findings.h - the parts of an inspection. */
#ifndef KERF_MODEL_FINDINGS_H
#define KERF_MODEL_FINDINGS_H

#include <kerf/inspect.h>

#include "base/work.h"
#include "model/checkpoint_view.h"

typedef struct kf_inspection {
    const kerf_checkpoint *source;
    kerf_found found;
    void *ctx;
    kf_work work;
} kf_inspection;

void kf_found(const kf_inspection *x, kerf_severity severity, const char *tensor, const char *text);

/* A weight whose bytes are well formed but were meant another way: zero points of another version,
 * scales in the order of a kernel, nibbles the wrong way round. */
kerf_status kf_find_misread(const kf_inspection *x, const kerf_weight *w, kerf_error *err);

/* What is zero, or no number, in the two levels of scales of nf4-dq. */
kerf_status kf_find_nested(const kf_inspection *x, const kerf_weight *w, kerf_error *err);

/* Scales in byte structs, which kf_find_in_structs reads with their codes; how many bytes these
 * are, 0 of other formats. */
kerf_status kf_find_in_structs(kf_inspection *x, const kerf_weight *w, kerf_error *err);
uint64_t kf_struct_bytes_of(const kerf_weight *w);

/* Shapes that config.json contradicts. */
kerf_status kf_find_shapes(const kf_inspection *x, kerf_error *err);

/* Of weights in forms that kerf has no format for: that there are some, and scales that are not
 * numbers. */
kerf_status kf_find_foreign(const kf_inspection *x, kerf_error *err);

#endif
