/* made_infinite.c - looks for Inf among what an encoder wrote: numbers of a type that ends below
 * the source's, fp16 scales of peers, which do not saturate theirs, and weights within a step of
 * 2^128, which codes and scales have as more than float32 does. */
#include "stream/made_infinite.h"

#include <stdlib.h>
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

/* Whether a product of its scales and codes may be 2^128 or more: some scale is 2^100 or more, for
 * no code is above 2^16, nor a scale of blocks beside one of the tensor above 2^9. */
static int may_overflow(const kerf_geometry *g, const kf_panel *p)
{
    const unsigned least = 100 + 127; /* as an exponent of float32, of bfloat16 and of E8M0 */
    for (kerf_plane_id k = KERF_PLANE_SCALES; k < KERF_PLANES; k++) {
        const unsigned char *byte = p->plane[k].p;
        kf_values_seen seen = {.dtype = g->plane[k].dtype};
        if (k == KERF_PLANE_SCALES && g->format->scale == KERF_SCALE_E8M0)
            for (size_t i = 0; i < p->plane[k].n; i++)
                if (byte[i] >= least) return 1;
        if (seen.dtype != KERF_F32 && seen.dtype != KERF_BF16) continue;
        kf_values_see(&seen, byte, p->plane[k].n);
        if (seen.largest >> (seen.dtype == KERF_F32 ? 23 : 7) >= least) return 1;
    }
    return 0;
}

enum { DECODED_BYTES = 1 << 20 }; /* at once, but for larger bands */

static kerf_status decode_part(const kerf_geometry *g, const kf_panel *p, uint64_t u0, uint64_t u1,
                               kerf_span to, const kerf_exec *exec, int *out, kerf_error *err)
{
    kerf_cspan from[KERF_PLANES];
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        from[k] = (kerf_cspan){p->plane[k].p, p->plane[k].n};
        if (g->plane[k].band_bytes == 0) continue;
        from[k].p = (const char *)from[k].p + kerf_band_bytes(g, k, p->u0, u0).count;
        from[k].n = (size_t)kerf_band_bytes(g, k, u0, u1).count;
    }
    to.n = (size_t)kerf_band_elements(g, u0, u1).count * sizeof(float);
    KF_TRY(kerf_decode(g, u0, u1, from, to, KERF_F32, exec, err));
    *out = has_infinite(KERF_F32, to);
    return KERF_OK;
}

/* Such weights are so rare that what is near them is decoded for certainty. */
static kerf_status look_decoded(const kerf_geometry *g, const kf_panel *p, const kerf_exec *exec,
                                int *out, kerf_error *err)
{
    kerf_exec own = {.threads = exec->threads};
    const uint64_t band = kerf_band_elements(g, p->u0, p->u0 + 1).count * sizeof(float);
    const uint64_t step = band && band < DECODED_BYTES ? DECODED_BYTES / band : 1;
    kerf_span to = {NULL, 0};
    KF_TRY(kf_allocate(&to.p, (size_t)(step * band), 1, err));
    kerf_status s = KERF_OK;
    for (uint64_t u = p->u0; u < p->u1 && s == KERF_OK && !*out; u += step)
        s = decode_part(g, p, u, kf_min_u64(u + step, p->u1), to, &own, out, err);
    free(to.p);
    return s;
}

kerf_status kf_made_infinite(const kerf_geometry *g, const kf_panel *p, const kerf_exec *exec,
                             int *out, kerf_error *err)
{
    const kerf_plane_id codes = KERF_PLANE_CODES, scales = KERF_PLANE_SCALES;
    *out = has_infinite(g->plane[codes].dtype, p->plane[codes]) ||
           has_infinite(g->plane[scales].dtype, p->plane[scales]) ||
           have_infinite(g->format, p->plane[codes]);
    if (*out || !may_overflow(g, p)) return KERF_OK;
    return look_decoded(g, p, exec, out, err);
}
