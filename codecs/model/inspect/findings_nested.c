/* findings_nested.c - what only nf4-dq has: block scales that are codes themselves, each
 * map[code] * second + offset, with a second-level scale for 256 blocks and one offset for all. */
#include "model/inspect/findings.h"

#include <math.h>
#include <stdio.h>

#include "base/base.h"

enum { RUN = 256, ROOM = 1 << 12 }; /* RUN: blocks below a second-level scale */

/* Which codes of block scales stand for 0: what those said is not lost with their factor. */
static void find_zero_codes(const kerf_weight *w, unsigned char is_zero[256])
{
    float map[256] = {0};
    const size_t n = kerf_codebook(w->codec.format, KERF_PLANE_SCALES, map);
    for (size_t i = 0; i < 256; i++) is_zero[i] = i < n && map[i] == 0;
}

/* Whether a run has a code that stands for more than 0. */
static kerf_status is_run_lost(const kf_inspection *x, const kerf_weight *w, uint64_t run,
                               const unsigned char is_zero[256], int *lost, kerf_error *err)
{
    unsigned char code[RUN];
    const uint64_t left = kerf_weight_geometry(w).plane[KERF_PLANE_SCALES].bytes - run * RUN;
    const size_t n = left < RUN ? (size_t)left : RUN;
    *lost = 0;
    KF_TRY(kerf_weight_read(x->source->reader, w, KERF_PLANE_SCALES, run * RUN, code, n, err));
    for (size_t i = 0; i < n; i++) *lost |= !is_zero[code[i]];
    return KERF_OK;
}

/* Second-level scales: how many are zero, over how many of those codes are lost, and the first. */
typedef struct nested_tally {
    uint64_t seen, zero, lost, first_lost;
} nested_tally;

static kerf_status tally(const kf_inspection *x, const kerf_weight *w, nested_tally *t,
                         kerf_error *err)
{
    float second[ROOM];
    unsigned char is_zero[256];
    const kerf_geometry g = kerf_weight_geometry(w);
    const uint64_t all = g.plane[KERF_PLANE_SECOND].bytes / sizeof *second;
    find_zero_codes(w, is_zero);
    for (uint64_t at = 0; at < all; at += ROOM) {
        const size_t n = (size_t)kf_min_u64(all - at, ROOM);
        KF_TRY(kerf_weight_read(x->source->reader, w, KERF_PLANE_SECOND, at * sizeof *second,
                                second, n * sizeof *second, err));
        for (size_t i = 0; i < n; i++, t->seen++) {
            int lost;
            if (second[i] != 0) continue;
            t->zero++;
            KF_TRY(is_run_lost(x, w, at + i, is_zero, &lost, err));
            if (lost && t->lost++ == 0) t->first_lost = at + i;
        }
    }
    return KERF_OK;
}

static void tell_zeros(const kf_inspection *x, const kerf_weight *w, const nested_tally *t)
{
    char text[240];
    if (t->lost)
        snprintf(text, sizeof text,
                 "%llu of %llu second-level scales are zero, the first at %llu, though the codes "
                 "of their blocks' scales are not: these blocks have one scale, the offset",
                 (unsigned long long)t->lost, (unsigned long long)t->seen,
                 (unsigned long long)t->first_lost);
    else
        snprintf(text, sizeof text,
                 "%llu of %llu second-level scales are zero: all blocks below each have one scale",
                 (unsigned long long)t->zero, (unsigned long long)t->seen);
    kf_found(x, t->lost ? KERF_ERROR : KERF_NOTE, w->name, text);
}

/* The offset is the mean of all block scales: none is below zero, so that it is zero only where
 * they all are, and then nothing is left for the second level. */
static void find_in_offset(const kf_inspection *x, const kerf_weight *w, float offset,
                           const nested_tally *t)
{
    if (isfinite(offset) && (offset > 0 || (offset == 0 && t->zero == t->seen))) return;
    char text[160];
    snprintf(text, sizeof text,
             "the offset of its block scales is %s%s: it is their mean, and scales are positive",
             isfinite(offset) ? (offset < 0 ? "negative" : "zero") : "NaN or infinite",
             offset == 0 ? ", though second-level scales are not" : "");
    kf_found(x, KERF_ERROR, w->name, text);
}

kerf_status kf_find_nested(const kf_inspection *x, const kerf_weight *w, kerf_error *err)
{
    nested_tally t = {0};
    float offset;
    if (!w->codec.format || w->codec.format->second != KERF_SECOND_NESTED) return KERF_OK;
    if (kerf_weight_elements(w) == 0) return KERF_OK;
    KF_TRY(tally(x, w, &t, err));
    KF_TRY(
        kerf_weight_read(x->source->reader, w, KERF_PLANE_ZEROS, 0, &offset, sizeof offset, err));
    if (t.zero) tell_zeros(x, w, &t);
    find_in_offset(x, w, offset, &t);
    return KERF_OK;
}
