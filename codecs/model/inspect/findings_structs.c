/* findings_structs.c - scales that share byte structs with their codes, as in GGUF files: the whole
 * tensor is read for them. A scale may be negative there; what is no number, or zero everywhere,
 * is as wrong as in a plane. */
#include "model/inspect/findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "stream/scale_tally.h"

enum { ROOM = 1 << 18 }; /* bytes in memory at a time */

typedef struct structs {
    unsigned bytes;
    size_t count;
    kerf_struct_number number[4];
    kf_scale_tally scales, minima;
    unsigned char *first; /* the codes of the first struct, without its numbers */
    int differ;           /* another struct has other codes                     */
} structs;

static kf_scale_type type_of(kerf_dtype t)
{
    return t == KERF_F8_E4M3 ? KF_SCALE_E4M3 : t == KERF_F8_E8M0 ? KF_SCALE_E8M0 : KF_SCALE_F16;
}

static size_t bytes_of(kerf_dtype t)
{
    return t == KERF_F16 ? 2 : 1;
}

/* Counts the numbers of a struct, and makes zeros of them, so that codes alone can be compared. */
static void take(structs *s, unsigned char *at, int is_first)
{
    for (size_t i = 0; i < s->count; i++) {
        const kerf_struct_number *n = &s->number[i];
        kf_tally_add(n->is_minimum ? &s->minima : &s->scales, at + n->at, bytes_of(n->dtype));
        memset(at + n->at, 0, bytes_of(n->dtype));
    }
    if (is_first) memcpy(s->first, at, s->bytes);
    if (!s->differ) s->differ = memcmp(s->first, at, s->bytes) != 0;
}

static kerf_status read_all(kf_inspection *x, const kerf_weight *w, structs *s, unsigned char *room,
                            kerf_error *err)
{
    const uint64_t all = kerf_weight_geometry(w).plane[KERF_PLANE_CODES].bytes;
    const uint64_t most = ROOM / s->bytes * s->bytes;
    for (uint64_t at = 0, n; at < all; at += n) {
        n = kf_min_u64(all - at, most);
        KF_TRY(kerf_weight_read(x->source->reader, w, KERF_PLANE_CODES, at, room, (size_t)n, err));
        for (uint64_t i = 0; i + s->bytes <= n; i += s->bytes) take(s, room + i, at + i == 0);
        KF_TRY(kf_work_add(&x->work, n, err));
    }
    return KERF_OK;
}

static void tell_bad(const kf_inspection *x, const kerf_weight *w, const kf_scale_tally *t,
                     const char *what)
{
    char text[160];
    if (!t->bad) return;
    snprintf(text, sizeof text, "%llu of %llu %s are NaN or infinite, the first at %llu",
             (unsigned long long)t->bad, (unsigned long long)t->seen, what,
             (unsigned long long)t->first_bad);
    kf_found(x, KERF_ERROR, w->name, text);
}

/* All blocks of a matrix of zeros are alike; where they are not, codes have lost their factor. */
static void tell_zeros(const kf_inspection *x, const kerf_weight *w, const structs *s)
{
    char text[160];
    const int has_minima = s->minima.zero != s->minima.seen;
    if (s->scales.zero != s->scales.seen) return;
    snprintf(text, sizeof text, "all %llu scales are zero: %s%s",
             (unsigned long long)s->scales.seen,
             has_minima ? "each block is its minimum" : "so are all of its weights",
             s->differ ? ", though its codes differ" : "");
    kf_found(x, s->differ ? KERF_ERROR : KERF_NOTE, w->name, text);
}

kerf_status kf_find_in_structs(kf_inspection *x, const kerf_weight *w, kerf_error *err)
{
    structs s = {.scales = {.type = KF_SCALE_F16}, .minima = {.type = KF_SCALE_F16}};
    unsigned char *room = NULL;
    if (!w->codec.format || kerf_weight_elements(w) == 0) return KERF_OK;
    s.count = kerf_struct_numbers(w->codec.format, &s.bytes, s.number);
    if (s.count == 0) return KERF_OK;
    s.scales.type = type_of(s.number[0].dtype);
    KF_TRY(kf_allocate(&room, ROOM + s.bytes, 1, err));
    s.first = room + ROOM;
    kerf_status status = read_all(x, w, &s, room, err);
    free(room);
    if (status != KERF_OK) return status;
    tell_bad(x, w, &s.scales, "scales");
    tell_bad(x, w, &s.minima, "minima");
    tell_zeros(x, w, &s);
    return KERF_OK;
}

uint64_t kf_struct_bytes_of(const kerf_weight *w)
{
    kerf_struct_number number[4];
    unsigned bytes;
    if (!w->codec.format || kerf_struct_numbers(w->codec.format, &bytes, number) == 0) return 0;
    return kerf_weight_geometry(w).plane[KERF_PLANE_CODES].bytes;
}
