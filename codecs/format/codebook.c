/* codebook.c - the numbers that codes stand for where a format has a table of them. */
#include "block/nf4.h"

size_t kerf_codebook(const kerf_format *f, kerf_plane_id p, float out[256])
{
    size_t n = 0;
    if (p == KERF_PLANE_CODES && f->element == KERF_ELEM_NF4)
        for (; n < 16; n++) out[n] = kf_nf4_entry((uint32_t)n);
    if (p == KERF_PLANE_SCALES && f->scale == KERF_SCALE_MAP8)
        for (; n < 256; n++) out[n] = kf_map_entry((uint32_t)n);
    return n;
}
