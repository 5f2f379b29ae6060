/* mx.h - OCP microscaling formats: 32 elements share a power of two, 2^e, stored as E8M0.
 *
 * With a = amax of the block, E(v) the unbiased exponent field of an fp32 and emax that of the
 * largest element, the encoders choose
 *   floor   e = E(a) - emax                              OCP MX v1.0; the top of a block may clip
 *   rceil   2^e = least power of two >= a * fl(1/largest) CUDA cvt.rp, TransformerEngine
 *   even    e = E(a rounded to the element's mantissa) - emax            AMD Quark, torchao EVEN
 *   ceil    e = E(a) + (mantissa of a is not zero) - emax                torchao CEIL
 *   search  of floor's e + 1, e, e - 1 the one with the least squared error; ties: the larger e
 * and clamp e to [-127, 127]. A block of zeros stores byte 0. The search sums in order in fp32, in
 * units of floor's scale, so it cannot overflow.
 *
 * Elements: x * 2^-e (exact), to nearest even, saturating; -0 keeps its sign except in MXINT8,
 * whose code -128 is left unused.
 * The encoders of other projects: mx_peers.h.
 * decode: element * 2^e; byte 0xFF makes all 32 elements NaN. Within half a step of 2^128, where
 * fp32 ends, an element may round up and decode to Inf. */
#ifndef KERF_MX_H
#define KERF_MX_H

#include "block/mx_peers.h"

/* Exponent of the largest element, and bits of its mantissa. */
KF_HD int kf_mx_emax(kerf_element e)
{
    switch (e) {
    case KERF_ELEM_E4M3: return 8;
    case KERF_ELEM_E5M2: return 15;
    case KERF_ELEM_E3M2: return 4;
    case KERF_ELEM_MXI8: return 0;
    default: return 2; /* E2M1, E2M3 */
    }
}

KF_HD int kf_mx_mantissa_bits(kerf_element e)
{
    switch (e) {
    case KERF_ELEM_MXI8: return 6;
    case KERF_ELEM_E4M3:
    case KERF_ELEM_E2M3: return 3;
    case KERF_ELEM_E2M1: return 1;
    default: return 2; /* E5M2, E3M2 */
    }
}

/* Exponent of the least normal element. */
KF_HD int kf_mx_least(kerf_element e)
{
    switch (e) {
    case KERF_ELEM_E4M3: return -6;
    case KERF_ELEM_E5M2: return -14;
    case KERF_ELEM_E3M2: return -2;
    default: return 0; /* E2M1, E2M3 */
    }
}

KF_HD int kf_mx_clamp(int e)
{
    return kf_clamp_int(e, -127, 127);
}

/* Squared error of a block for exponent base + step, in units of 2^base. */
KF_HD float kf_mx_error(kf_spec s, kf_group g, int base, int step)
{
    float err = 0;
    for (size_t i = 0; i < g.cols; i++) {
        float y = g.x[i] * kf_exp2(-base);
        uint32_t code = kf_element_encode(s.element, y * kf_exp2(-step));
        float d = kf_element_decode(s.element, code) * kf_exp2(step) - y;
        err = err + d * d;
    }
    return err;
}

KF_HD int kf_mx_search(kf_spec s, kf_group g, int base)
{
    int best = kf_mx_clamp(base + 1);
    float least = kf_mx_error(s, g, base, best - base);
    for (int e = base; e >= base - 1 && e >= -127; e--) {
        float err = kf_mx_error(s, g, base, e - base);
        if (err < least) {
            least = err;
            best = e;
        }
    }
    return best;
}

KF_HD int kf_mx_exponent(kf_spec s, int encoder, kf_group g, float amax)
{
    uint32_t a = kf_bits(amax);
    int emax = kf_mx_emax(s.element);
    int floor_e = kf_mx_clamp((int)(a >> 23) - 127 - emax);
    switch (encoder) {
    case KERF_ENC_MX_RCEIL:
        return (int)kf_e8m0_encode_up(amax * (1.0f / kf_element_max(s.element))) - 127;
    case KERF_ENC_MX_EVEN:
        a += 1u << (22 - kf_mx_mantissa_bits(s.element));
        return kf_mx_clamp((int)(a >> 23) - 127 - emax);
    case KERF_ENC_MX_CEIL: a += 0x7fffff; return kf_mx_clamp((int)(a >> 23) - 127 - emax);
    case KERF_ENC_MX_SEARCH: return kf_mx_search(s, g, floor_e);
    default: return floor_e;
    }
}

KF_HD kf_tensor kf_mx_tensor(kf_spec s, int encoder, const kerf_stats *stats, int source)
{
    (void)s, (void)encoder, (void)stats;
    kf_tensor t = {0};
    t.source = source;
    return t;
}

KF_HD kf_scale kf_mx_choose(kf_spec s, int encoder, const kf_tensor *t, kf_group g)
{
    float amax = kf_group_amax(g);
    kf_scale scale = {0, 0};
    if (kf_is_peer(KERF_FAMILY_MX, encoder))
        scale.bits = kf_mx_peer_byte(s, encoder, t->source, kf_mx_emax(s.element), amax);
    else if (amax > 0)
        scale.bits = (uint32_t)(kf_mx_exponent(s, encoder, g, amax) + 127);
    return scale;
}

KF_HD kf_quant kf_mx_quant(kf_spec s, int encoder, const kf_tensor *t, kf_scale scale, kf_group g)
{
    (void)s, (void)g;
    kf_quant q = {0};
    q.factor = kf_mx_peer_factor(encoder, scale.bits);
    q.encoder = encoder;
    q.source = t->source;
    return q;
}

KF_HD uint32_t kf_mx_code(kf_spec s, kf_quant q, float x)
{
    float y = x * q.factor;
    switch (q.encoder) {
    case KERF_ENC_MX_GGML: return kf_ggml_nearest(x, 1.0f / q.factor);
    case KERF_ENC_MX_MICROXCALING:
        return kf_mx_half_away(s, y, kf_mx_least(s.element), kf_mx_mantissa_bits(s.element));
    case KERF_ENC_MX_MODELOPT:
        if (s.element == KERF_ELEM_E2M1) return kf_mx_modelopt_fp4(y);
        break;
    case KERF_ENC_MX_CT:
        y = kf_source_round(q.source, y);
        if (s.element == KERF_ELEM_E2M1 && y == 0) return 0;
        break;
    default: break;
    }
    return kf_element_encode(s.element, y);
}

KF_HD kf_dequant kf_mx_dequant(kf_spec s, kf_scale scale, float second, float offset)
{
    (void)s, (void)second, (void)offset;
    kf_dequant d = {kf_e8m0_decode(scale.bits), 0, 0};
    return d;
}

KF_HD float kf_mx_value(kf_spec s, kf_dequant d, uint32_t code)
{
    return kf_element_decode(s.element, code) * d.scale;
}

#endif
