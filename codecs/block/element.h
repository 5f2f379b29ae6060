/* element.h - the number that a code stands for, and the nearest code of a number, for every
 * element type whose meaning does not depend on a code book. */
#ifndef KERF_ELEMENT_H
#define KERF_ELEMENT_H

#include "block/spec.h"

/* Two's complement of `bits` bits. */
KF_HD int kf_sign_extend(uint32_t code, unsigned bits)
{
    return (int)(code ^ 1u << (bits - 1)) - (int)(1u << (bits - 1));
}

/* Exact, without any scale. NaN and Inf where E4M3, E5M2 and the IEEE types have them. */
KF_HD float kf_element_decode(kerf_element e, uint32_t code)
{
    switch (e) {
    case KERF_ELEM_F32: return kf_float(code);
    case KERF_ELEM_F16: return kf_f16_decode((uint16_t)code);
    case KERF_ELEM_BF16: return kf_bf16_decode((uint16_t)code);
    case KERF_ELEM_E4M3: return kf_e4m3_decode(code);
    case KERF_ELEM_E5M2: return kf_e5m2_decode(code);
    case KERF_ELEM_E2M3: return kf_e2m3_decode(code);
    case KERF_ELEM_E3M2: return kf_e3m2_decode(code);
    case KERF_ELEM_E2M1: return kf_e2m1_decode(code);
    case KERF_ELEM_MXI8: return (float)kf_sign_extend(code, 8) * 0.015625f;
    case KERF_ELEM_S8: return (float)kf_sign_extend(code, 8);
    case KERF_ELEM_S4: return (float)kf_sign_extend(code, 4);
    case KERF_ELEM_S2: return (float)kf_sign_extend(code, 2);
    case KERF_ELEM_U4:
    case KERF_ELEM_U2:
    case KERF_ELEM_U3:
    case KERF_ELEM_U5:
    case KERF_ELEM_U6:
    case KERF_ELEM_NF4: return (float)code;
    }
    return 0;
}

/* Nearest, ties to even, saturating. MXI8 leaves its code -128 unused, as OCP MX permits. */
KF_HD uint32_t kf_element_encode(kerf_element e, float x)
{
    switch (e) {
    case KERF_ELEM_F32: return kf_bits(x);
    case KERF_ELEM_F16: return kf_f16_encode(x);
    case KERF_ELEM_BF16: return kf_bf16_encode(x);
    case KERF_ELEM_E4M3: return kf_e4m3_encode(x);
    case KERF_ELEM_E5M2: return kf_e5m2_encode(x);
    case KERF_ELEM_E2M3: return kf_e2m3_encode(x);
    case KERF_ELEM_E3M2: return kf_e3m2_encode(x);
    case KERF_ELEM_E2M1: return kf_e2m1_encode(x);
    case KERF_ELEM_MXI8: return (uint32_t)kf_round_clamp(x * 64.0f, -127, 127) & 0xff;
    case KERF_ELEM_S8: return (uint32_t)kf_round_clamp(x, -128, 127) & 0xff;
    case KERF_ELEM_S4: return (uint32_t)kf_round_clamp(x, -8, 7) & 0xf;
    case KERF_ELEM_S2: return (uint32_t)kf_round_clamp(x, -2, 1) & 0x3;
    case KERF_ELEM_U4:
    case KERF_ELEM_NF4: return (uint32_t)kf_round_clamp(x, 0, 15);
    case KERF_ELEM_U2: return (uint32_t)kf_round_clamp(x, 0, 3);
    case KERF_ELEM_U3: return (uint32_t)kf_round_clamp(x, 0, 7);
    case KERF_ELEM_U5: return (uint32_t)kf_round_clamp(x, 0, 31);
    case KERF_ELEM_U6: return (uint32_t)kf_round_clamp(x, 0, 63);
    }
    return 0;
}

/* Largest positive number of an element type that a scale maps amax to. */
KF_HD float kf_element_max(kerf_element e)
{
    switch (e) {
    case KERF_ELEM_E4M3: return 448;
    case KERF_ELEM_E5M2: return 57344;
    case KERF_ELEM_E2M3: return 7.5f;
    case KERF_ELEM_E3M2: return 28;
    case KERF_ELEM_E2M1: return 6;
    case KERF_ELEM_MXI8: return 1.984375f;
    case KERF_ELEM_S8: return 127;
    case KERF_ELEM_S4: return 7;
    case KERF_ELEM_S2: return 1;
    case KERF_ELEM_U4: return 15;
    case KERF_ELEM_U2: return 3;
    case KERF_ELEM_U3: return 7;
    case KERF_ELEM_U5: return 31;
    case KERF_ELEM_U6: return 63;
    default: return 1;
    }
}

#endif
