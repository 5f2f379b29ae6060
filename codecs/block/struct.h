/* struct.h - where scales and codes lie in formats whose blocks are byte structs, as in GGUF files:
 * the scales of the struct's groups, then their codes, group by group. Of 4-bit codes the first
 * half of a group lies in low nibbles and the second half in the high nibbles of the same bytes. */
#ifndef KERF_STRUCT_H
#define KERF_STRUCT_H

#include "block/scale.h"

/* Groups in one struct: NVFP4 alone gathers four. */
KF_HD_CONST unsigned kf_struct_groups(kf_spec s)
{
    return s.scale == KERF_SCALE_E4M3 ? 4 : 1;
}

KF_HD_CONST unsigned kf_struct_elements(kf_spec s)
{
    return kf_struct_groups(s) * s.group;
}

KF_HD_CONST unsigned kf_struct_bytes(kf_spec s)
{
    return kf_struct_groups(s) * (kf_scale_bytes(s.scale) + s.group * s.bits / 8);
}

/* Byte of group i's scale in its row. */
KF_HD size_t kf_struct_scale(kf_spec s, size_t i)
{
    unsigned groups = kf_struct_groups(s);
    return i / groups * kf_struct_bytes(s) + i % groups * kf_scale_bytes(s.scale);
}

/* Where the code of element i stands in its row, in codes. */
KF_HD size_t kf_struct_code(kf_spec s, size_t i)
{
    unsigned groups = kf_struct_groups(s), half = s.group / 2;
    size_t group = i / s.group, at = i % s.group;
    size_t byte = group / groups * kf_struct_bytes(s) + groups * kf_scale_bytes(s.scale) +
                  group % groups * (s.group * s.bits / 8);
    if (s.bits == 8) return byte + at;
    return 2 * (byte + at % half) + at / half;
}

#endif
