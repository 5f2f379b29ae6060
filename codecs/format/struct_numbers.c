/* struct_numbers.c - where the scales of a block stand when they share a byte struct with its
 * codes, as in GGUF files. The small integers under one fp16 number are not among them: none is
 * wrong. */
#include "block/struct.h"
#include "block/super_layout.h"
#include "format/format.h"

static kerf_dtype dtype_of(kerf_scale_kind scale)
{
    return scale == KERF_SCALE_E4M3   ? KERF_F8_E4M3
           : scale == KERF_SCALE_E8M0 ? KERF_F8_E8M0
                                      : KERF_F16;
}

size_t kerf_struct_numbers(const kerf_format *f, unsigned *bytes, kerf_struct_number out[4])
{
    const kf_spec s = kf_spec_of(f);
    size_t n = 0;
    *bytes = 0;
    if (f->geometry == KERF_GROUP_STRUCT) {
        *bytes = kf_struct_bytes(s);
        for (; n < kf_struct_groups(s); n++)
            out[n] = (kerf_struct_number){(unsigned)kf_struct_scale(s, n), 0, dtype_of(f->scale)};
    } else if (f->geometry == KERF_GROUP_SUPER) {
        const kf_super super = kf_super_of(s);
        *bytes = super.bytes;
        out[n++] = (kerf_struct_number){super.d, 0, KERF_F16};
        if (super.m) out[n++] = (kerf_struct_number){super.m, 1, KERF_F16};
    }
    return n;
}
