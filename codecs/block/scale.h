/* scale.h - scales as they are stored. */
#ifndef KERF_SCALE_H
#define KERF_SCALE_H

#include "block/spec.h"

KF_HD_CONST unsigned kf_scale_bytes(kerf_scale_kind k)
{
    switch (k) {
    case KERF_SCALE_NONE: return 0;
    case KERF_SCALE_F32: return 4;
    case KERF_SCALE_F16:
    case KERF_SCALE_BF16: return 2;
    case KERF_SCALE_E8M0:
    case KERF_SCALE_E4M3:
    case KERF_SCALE_MAP8: return 1;
    }
    return 0;
}

/* Stores a scale >= 0: nearest, ties to even, never Inf (saturates), and never zero unless it is
 * zero (the least positive number of the type instead): a group with a zero scale would vanish. */
KF_HD uint32_t kf_scale_store(kerf_scale_kind k, float x)
{
    uint32_t bits, largest;
    if (k == KERF_SCALE_F16) {
        bits = kf_f16_encode(x);
        largest = 0x7bff;
    } else if (k == KERF_SCALE_BF16) {
        bits = kf_bf16_encode(x);
        largest = 0x7f7f;
    } else {
        bits = kf_bits(x);
        largest = 0x7f7fffffu;
    }
    if (bits > largest) return largest;
    return bits == 0 && x > 0 ? 1 : bits;
}

/* Of a floating-point scale type. */
KF_HD float kf_scale_value(kerf_scale_kind k, uint32_t bits)
{
    switch (k) {
    case KERF_SCALE_F16: return kf_f16_decode((uint16_t)bits);
    case KERF_SCALE_BF16: return kf_bf16_decode((uint16_t)bits);
    case KERF_SCALE_E8M0: return kf_e8m0_decode(bits);
    case KERF_SCALE_E4M3: return kf_e4m3_decode(bits);
    default: return kf_float(bits);
    }
}

/* x / y for x >= 0, y > 0: one IEEE division, at least the least positive fp32 when x > 0. */
KF_HD float kf_scale_quotient(float x, float y)
{
    float q = x / y;
    return q == 0 && x > 0 ? KF_F32_TINY : q;
}

#endif
