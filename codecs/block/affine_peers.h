/* affine_peers.h - asymmetric integers as other projects write them. lo and hi are the range of the
 * group, L = 255, 15 or 3, codes 0 .. L, q = -128, -8 or -2, src() a rounding to the type of the
 * source, rne() to the nearest integer, ties to even; every line fp32 and every operation rounded
 * once:
 *
 *   ct       compressed-tensors 0.20, calculate_qparams and quantize: the range holds zero;
 *            scale = src(src(hi - lo) / L); zero = rne(clamp(src(q - src(lo / scale)))) - q;
 *            code = rne(clamp(src(src(x / scale) + zero + q))) - q. A scale of zero becomes the
 *            epsilon of the source's type, with zero = L if lo < 0, else -q
 *   torchao  torchao 0.18, Int8Tensor and IntxUnpackedToInt8Tensor: the same scale, no less than
 *            2^-23 (int8) or the least normal number of the source's type;
 *            zero = clamp(-rne(src(lo / scale))); code = clamp(rne(x * r) + zero), r as in
 *            int_peers.h
 *   gptq     AutoGPTQ 0.7.1 and GPTQModel 7.7, Quantizer.find_params: the range holds zero, and is
 *            [-1, 1] in a group of zeros; s = (hi - lo) / L; zero = rne(-lo / s);
 *            code = clamp(rne(x / s) + zero)
 *   awq      AutoAWQ 0.2.9, pseudo_quantize_tensor: the range need not hold zero;
 *            scale = src(max(src(hi - lo), src(1e-5)) / L); zero = clamp(-rne(src(lo / scale)));
 *            code = clamp(rne(src(x / scale)) + zero)
 *   hqq      HQQ 0.2.8, Quantizer.quantize(axis=1, round_zero=True, optimize=False): the range need
 *            not hold zero; r = min((1 / (hi - lo)) * L, 2e4), 1 for ranges up to 1e-4;
 *            zero = rne(-lo * r); code = clamp(rne(x * r + zero)); scale = 1 / r. Its proximal
 *            search for a real zero point is not reproduced: pow() and sums in no stated order
 *
 * gptq and hqq hold the scale in fp32 while they round; it is stored rounded once to the format's
 * type. Zero points are stored clamped to [0, L]. A short group ends in zeros, so its range holds
 * zero in awq and hqq, too. */
#ifndef KERF_AFFINE_PEERS_H
#define KERF_AFFINE_PEERS_H

#include "block/int_peers.h"

/* What a peer knows of a group while it rounds. */
typedef struct kf_affine_grid {
    float scale; /* as used, before it is stored                     */
    float r;     /* torchao and hqq multiply by this                 */
    float zero;  /* an integer, of the codes 0 .. L; may lie outside */
} kf_affine_grid;

/* The nearest integer, ties to even, as a float. */
KF_HD float kf_rne(float x)
{
    if (kf_abs(x) >= 4194304.0f) return x;
    return (float)kf_round_clamp(x, -4194304, 4194304);
}

/* NaN gives lo. */
KF_HD float kf_clamp(float x, float lo, float hi)
{
    return kf_min(kf_max(lo, x), hi);
}

KF_HD kf_affine_grid kf_affine_ct(int source, float levels, float lo, float hi)
{
    kf_affine_grid grid = {kf_source_round(source, kf_source_round(source, hi - lo) / levels), 0,
                           0};
    float q = -(levels + 1) / 2;
    if (grid.scale == 0) {
        grid.scale = kf_source_eps(source);
        grid.zero = lo < 0 ? levels : -q; /* what an Inf and a NaN become */
        return grid;
    }
    float zero = kf_source_round(source, q - kf_source_round(source, lo / grid.scale));
    grid.zero = kf_rne(kf_clamp(zero, q, q + levels)) - q;
    return grid;
}

KF_HD kf_affine_grid kf_affine_torchao(kf_spec s, int source, float levels, float lo, float hi)
{
    float scale = kf_source_round(source, kf_source_round(source, hi - lo) / levels);
    kf_affine_grid grid = {kf_max(scale, kf_int_torchao_least(s, source)), 0, 0};
    float zero = -kf_rne(kf_source_round(source, lo / grid.scale));
    grid.zero = kf_clamp(zero, 0, levels);
    grid.r = kf_source_round(s.element == KERF_ELEM_S8 ? KERF_F32 : source, 1.0f / grid.scale);
    return grid;
}

KF_HD kf_affine_grid kf_affine_gptq(float levels, float lo, float hi)
{
    if (lo == 0 && hi == 0) {
        lo = -1;
        hi = 1;
    }
    kf_affine_grid grid = {(hi - lo) / levels, 0, 0};
    grid.zero = kf_rne(-lo / grid.scale);
    return grid;
}

KF_HD kf_affine_grid kf_affine_awq(int source, float levels, float lo, float hi)
{
    float range = kf_max(kf_source_round(source, hi - lo), kf_source_round(source, 1e-5f));
    kf_affine_grid grid = {kf_source_round(source, range / levels), 0, 0};
    float zero = -kf_rne(kf_source_round(source, lo / grid.scale));
    grid.zero = kf_clamp(zero, 0, levels);
    return grid;
}

KF_HD kf_affine_grid kf_affine_hqq(float levels, float lo, float hi)
{
    float range = hi - lo;
    kf_affine_grid grid = {0, range <= 1e-4f ? 1 : 1.0f / range * levels, 0};
    grid.r = kf_min(grid.r, 2e4f);
    grid.scale = 1.0f / grid.r;
    grid.zero = kf_rne(-lo * grid.r);
    return grid;
}

/* lo and hi: least and largest number of the group. */
KF_HD kf_affine_grid kf_affine_peer_grid(kf_spec s, int encoder, int source, float lo, float hi)
{
    float levels = s.element == KERF_ELEM_S8 ? 255.0f : s.element == KERF_ELEM_U4 ? 15.0f : 3.0f;
    if (encoder == KERF_ENC_AFFINE_AWQ) return kf_affine_awq(source, levels, lo, hi);
    if (encoder == KERF_ENC_AFFINE_HQQ) return kf_affine_hqq(levels, lo, hi);
    lo = kf_min(lo, 0);
    hi = kf_max(hi, 0);
    if (encoder == KERF_ENC_AFFINE_CT) return kf_affine_ct(source, levels, lo, hi);
    if (encoder == KERF_ENC_AFFINE_TORCHAO) return kf_affine_torchao(s, source, levels, lo, hi);
    return kf_affine_gptq(levels, lo, hi);
}

/* A code 0 .. levels. */
KF_HD int kf_affine_peer_code(kf_spec s, kf_quant q, int levels, float x)
{
    float zero = (float)q.zero, half = (float)(levels + 1) / 2;
    int type = q.source;
    switch (q.encoder) {
    case KERF_ENC_AFFINE_CT:
        x = kf_source_round(type, kf_source_round(type, x / q.factor) + (zero - half));
        return kf_round_clamp(x, -(levels + 1) / 2, levels / 2) + (levels + 1) / 2;
    case KERF_ENC_AFFINE_HQQ: return kf_round_clamp(x * q.factor + zero, 0, levels);
    case KERF_ENC_AFFINE_TORCHAO:
        x = kf_source_round(s.element == KERF_ELEM_S8 ? KERF_F32 : type, x * q.factor);
        break;
    case KERF_ENC_AFFINE_AWQ: x = kf_source_round(type, x / q.factor); break;
    default: x = x / q.factor; break;
    }
    return (int)kf_clamp(kf_rne(x) + zero, 0, (float)levels);
}

#endif
