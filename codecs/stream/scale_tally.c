/* scale_tally.c - the scales of one plane, read in pieces. What is said of them is up to the
 * caller: an inspection names each finding, a verification fails. */
#include "stream/scale_tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* F32 scales above 16, with codes up to 6, 127 or 448 and block scales up to 448, are for weights
 * that no model has; one over such a scale is for weights that it has, down to 2^-40. */
#define LARGE_SCALE 0x41800000u
#define LARGEST_DIVISOR 0x53800000u

kf_scale_tally kf_tally_for(const kerf_weight *w, kerf_plane_id p)
{
    kerf_scale_kind kind = w->codec.format->scale;
    kf_scale_tally t = {0};
    if (p == KERF_PLANE_SECOND || (p == KERF_PLANE_SCALES && kind == KERF_SCALE_F32)) {
        t.type = KF_SCALE_F32;
        t.exponent = 0x7f800000u;
    } else if (p != KERF_PLANE_SCALES) {
        t.type = KF_SCALE_OTHER;
    } else if (kind == KERF_SCALE_E4M3) {
        t.type = KF_SCALE_E4M3;
    } else if (kind == KERF_SCALE_E8M0) {
        t.type = KF_SCALE_E8M0;
    } else if (kind == KERF_SCALE_F16 || kind == KERF_SCALE_BF16) {
        t.type = KF_SCALE_16;
        t.exponent = kind == KERF_SCALE_F16 ? 0x7c00u : 0x7f80u;
    }
    return t;
}

void kf_tally_add(kf_scale_tally *t, uint32_t bits)
{
    int bad = 0, negative = 0, zero = 0;
    switch (t->type) {
    case KF_SCALE_OTHER: return;
    case KF_SCALE_E4M3:
        bad = (bits & 0x7fu) == 0x7fu;
        negative = (bits & 0x80u) != 0;
        zero = bits == 0;
        break;
    case KF_SCALE_E8M0:
        bad = bits == 0xffu;
        zero = bits == 0; /* 2^-127: of weights that are nothing */
        break;
    case KF_SCALE_16:
    case KF_SCALE_F32:
        bad = (bits & t->exponent) == t->exponent;
        negative = (bits & (t->type == KF_SCALE_F32 ? 0x80000000u : 0x8000u)) != 0;
        zero = bits == 0;
        break;
    }
    if (bad && t->bad++ == 0) t->first_bad = t->seen;
    if (!bad && negative && t->negative++ == 0) t->first_negative = t->seen;
    t->zero += (uint64_t)zero;
    t->large += t->type == KF_SCALE_F32 && !bad && !negative && bits > LARGE_SCALE &&
                bits < LARGEST_DIVISOR;
    t->seen++;
}

kerf_status kf_tally_scales(const kerf_reader *r, const kerf_weight *w, kerf_plane_id p,
                            kf_work *work, kf_scale_tally *out, kerf_error *err)
{
    enum { ROOM = 1 << 18 };
    kf_scale_tally t = *out = kf_tally_for(w, p);
    const size_t size = t.type == KF_SCALE_F32 ? 4 : t.type == KF_SCALE_16 ? 2 : 1;
    const uint64_t all = t.type == KF_SCALE_OTHER ? 0 : w->geometry.plane[p].bytes;
    unsigned char *bytes = NULL;
    if (all == 0) return KERF_OK;
    KF_TRY(kf_allocate(&bytes, ROOM, 1, err));
    kerf_status s = KERF_OK;
    for (uint64_t at = 0; at < all && s == KERF_OK; at += ROOM) {
        size_t n = all - at < ROOM ? (size_t)(all - at) : ROOM;
        s = kerf_weight_read(r, w, p, at, bytes, n, err);
        for (size_t i = 0; i + size <= n && s == KERF_OK; i += size) {
            uint32_t bits = 0;
            memcpy(&bits, bytes + i, size);
            kf_tally_add(&t, bits);
        }
        if (s == KERF_OK && work) s = kf_work_add(work, n, err);
    }
    free(bytes);
    *out = t;
    return s;
}
