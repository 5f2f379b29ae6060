/* made_infinite.c - looks for Inf among what an encoder wrote: numbers of a type that ends below
 * the source's, and fp16 scales of peers, which do not saturate theirs. */
#include "stream/made_infinite.h"

#include <string.h>

#include "stream/values_seen.h"

static int has_infinite(kerf_dtype t, kerf_span bytes)
{
    kf_values_seen seen = {.dtype = t};
    kf_values_see(&seen, bytes.p, bytes.n);
    return kf_values_have_inf(&seen) || kf_values_have_nan(&seen);
}

/* The fp16 scales and minima of blocks that are byte structs. */
static int have_infinite(const kerf_format *f, kerf_span structs)
{
    const unsigned inf = 0x7c00;
    kerf_struct_number number[4];
    unsigned bytes, found = 0;
    const size_t count = kerf_struct_numbers(f, &bytes, number);
    if (count == 0) return 0;
    for (size_t at = 0; at + bytes <= structs.n; at += bytes) {
        for (size_t i = 0; i < count; i++) {
            uint16_t bits;
            if (number[i].dtype != KERF_F16) continue;
            memcpy(&bits, (const char *)structs.p + at + number[i].at, sizeof bits);
            found |= (bits & inf) == inf;
        }
    }
    return found != 0;
}

int kf_made_infinite(const kerf_geometry *g, const kf_panel *p)
{
    const kerf_plane_id codes = KERF_PLANE_CODES, scales = KERF_PLANE_SCALES;
    return has_infinite(g->plane[codes].dtype, p->plane[codes]) ||
           has_infinite(g->plane[scales].dtype, p->plane[scales]) ||
           have_infinite(g->format, p->plane[codes]);
}
