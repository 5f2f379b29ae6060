/* nvfp4.h - NVIDIA's NVFP4: E2M1 elements, an E4M3 scale per 16, an fp32 scale per matrix.
 *
 * With A = amax of the matrix, a = amax of the block, M = 448 or 256, e4() E4M3 and e2() E2M1 to
 * nearest even, saturating; every line is fp32, each operation rounded once, no FMA:
 *
 *   all        enc = min(6M / A, FLT_MAX), 1 when A = 0
 *              second-level scale = A / 6M as stored (1 when A = 0, never zero otherwise)
 *              r(S) = min(1 / (S * (1 / enc)), FLT_MAX); code = e2(x * r(S)); S = 0: all codes 0
 *   amax       M = 448; S = e4(min(a * (enc * fl(1/6)), 448))
 *              TransformerEngine's order (quantize_nvfp4), FlashInfer's exact mode
 *   4/6        base = (a / 6) * enc; S6 = e4(min(base, 448)); S4 = e4(min(base * 1.5, 448));
 *              the one with the smaller error, ties: S6. The error of a block is the sum in order
 *              of d * d (mae: |d|, absmax: the largest |d|), d = ((e * S) * A) / 6M - x. M = 256;
 *              M = 448 in the -448 encoders. fouroversix and TransformerEngine's
 *              quantize_4over6_nvfp4
 *   sweep      M = 256; starts from the choice of 4/6 and takes, of the 126 positive scales in
 *              rising order, each that has a strictly smaller squared error, the error as in 4/6:
 *              never worse than 4/6, also where squares leave the range of fp32
 *
 * A block of zeros stores scale 0x00. Elements that round to zero keep their sign (code 8).
 * A block whose scale underflows to 0x00 (a below 2.2e-6 A) becomes zero. Matrices whose A lies
 * below 7.9e-36 or above 1e35 are outside the range of the second-level scale and lose accuracy.
 * The encoders of other projects: nvfp4_peers.h.
 * decode: e * (S * second), Model-Optimizer's order. Bit 7 of a scale is its sign; 0x7F is NaN. */
#ifndef KERF_NVFP4_H
#define KERF_NVFP4_H

#include "block/nvfp4_peers.h"

/* amax, 4/6 and the sweep. */
KF_HD int kf_nvfp4_is_plain(int encoder)
{
    return kf_has_rule(KERF_FAMILY_NVFP4, encoder, KF_RULE_PLAIN);
}

KF_HD kf_tensor kf_nvfp4_tensor(kf_spec s, int encoder, const kerf_stats *stats, int source)
{
    (void)s;
    float range = kf_range_of(KERF_FAMILY_NVFP4, encoder), amax = stats->amax;
    kf_tensor t = {0};
    t.amax = amax;
    t.range = range;
    t.source = source;
    t.second = t.encode = t.inv_encode = 1;
    if (amax > 0) {
        t.second = kf_scale_quotient(amax, range);
        t.encode = kf_min(range / amax, KF_F32_MAX); /* no less than 1536 / FLT_MAX: never 0 */
        t.inv_encode = 1.0f / t.encode;
    }
    kf_nvfp4_peer_tensor(encoder, &t);
    return t;
}

KF_HD kf_quant kf_nvfp4_multiplier(const kf_tensor *t, uint32_t scale)
{
    kf_quant q = {0};
    q.dead = scale == 0;
    q.encoder = KERF_ENC_NVFP4_AMAX;
    if (!q.dead) q.factor = kf_min(1.0f / (kf_e4m3_decode(scale) * t->inv_encode), KF_F32_MAX);
    return q;
}

KF_HD uint32_t kf_nvfp4_code(kf_spec s, kf_quant q, float x)
{
    (void)s;
    if (q.dead) return 0;
    return kf_nvfp4_is_plain(q.encoder) ? kf_e2m1_encode(x * q.factor) : kf_nvfp4_peer_code(q, x);
}

/* What the searches take for the number of an element e of E2M1 under a stored scale. */
KF_HD float kf_nvfp4_restored(const kf_tensor *t, float value, float e)
{
    return e * value * t->amax / t->range;
}

/* Adds the error of one element to that of the elements before it, in the metric of the encoder.
 * value: of the stored scale; q: its multiplier. */
KF_HD float kf_nvfp4_add_error(kf_spec s, int encoder, const kf_tensor *t, kf_quant q, float value,
                               float err, float x)
{
    int absmax = kf_has_metric(KERF_FAMILY_NVFP4, encoder, KF_METRIC_LARGEST);
    int mae = kf_has_metric(KERF_FAMILY_NVFP4, encoder, KF_METRIC_MAGNITUDES);
    float e = kf_e2m1_decode(kf_nvfp4_code(s, q, x));
    float d = kf_abs(kf_nvfp4_restored(t, value, e) - x);
    return absmax ? kf_max(err, d) : mae ? err + d : err + d * d;
}

/* Error of a block with this stored scale. */
KF_HD float kf_nvfp4_error(kf_spec s, int encoder, const kf_tensor *t, uint32_t scale, kf_group g)
{
    kf_quant q = kf_nvfp4_multiplier(t, scale);
    float value = kf_e4m3_decode(scale), err = 0;
    for (size_t i = 0; i < g.cols; i++)
        err = kf_nvfp4_add_error(s, encoder, t, q, value, err, g.x[i]);
    return err;
}

/* The two scales of 4/6: amax of the block becomes 6, or 4. */
KF_HD void kf_nvfp4_six_and_four(const kf_tensor *t, float amax, uint32_t *six, uint32_t *four)
{
    float base = amax / 6.0f * t->encode;
    *six = kf_e4m3_encode(kf_min(base, 448.0f));
    *four = kf_e4m3_encode(kf_min(base * 1.5f, 448.0f));
}

KF_HD uint32_t kf_nvfp4_four_over_six(kf_spec s, int encoder, const kf_tensor *t, kf_group g,
                                      float amax)
{
    uint32_t six, four;
    kf_nvfp4_six_and_four(t, amax, &six, &four);
    float err6 = kf_nvfp4_error(s, encoder, t, six, g);
    float err4 = kf_nvfp4_error(s, encoder, t, four, g);
    return err4 < err6 ? four : six;
}

KF_HD uint32_t kf_nvfp4_sweep(kf_spec s, int encoder, const kf_tensor *t, kf_group g, float amax)
{
    uint32_t best = kf_nvfp4_four_over_six(s, encoder, t, g, amax);
    float least = kf_nvfp4_error(s, encoder, t, best, g);
    for (uint32_t scale = 1; scale <= 0x7e; scale++) {
        float err = kf_nvfp4_error(s, encoder, t, scale, g);
        if (err < least) {
            least = err;
            best = scale;
        }
    }
    return best;
}

KF_HD kf_scale kf_nvfp4_choose(kf_spec s, int encoder, const kf_tensor *t, kf_group g)
{
    float amax = kf_group_amax(g);
    kf_scale scale = {0, 0};
    if (!kf_nvfp4_is_plain(encoder) && encoder != KERF_ENC_NVFP4_TE) {
        scale.bits = kf_nvfp4_peer_scale(encoder, t, amax);
        return scale;
    }
    if (amax == 0) return scale;
    if (!kf_is_search(KERF_FAMILY_NVFP4, encoder) && !kf_is_pair(KERF_FAMILY_NVFP4, encoder))
        scale.bits = kf_e4m3_encode(kf_min(amax * (t->encode * (1.0f / 6.0f)), 448.0f));
    else if (kf_is_search(KERF_FAMILY_NVFP4, encoder))
        scale.bits = kf_nvfp4_sweep(s, encoder, t, g, amax);
    else
        scale.bits = kf_nvfp4_four_over_six(s, encoder, t, g, amax);
    return scale;
}

KF_HD kf_quant kf_nvfp4_quant(kf_spec s, int encoder, const kf_tensor *t, kf_scale scale,
                              kf_group g)
{
    (void)s, (void)g;
    if (kf_nvfp4_is_plain(encoder)) return kf_nvfp4_multiplier(t, scale.bits);
    kf_quant q = {0};
    q.factor = kf_nvfp4_peer_factor(encoder, t, scale.bits);
    q.dead = scale.bits == 0 && encoder != KERF_ENC_NVFP4_TE;
    q.encoder = encoder;
    return q;
}

KF_HD kf_dequant kf_nvfp4_dequant(kf_spec s, kf_scale scale, float second, float offset)
{
    (void)s, (void)offset;
    kf_dequant d = {kf_e4m3_decode(scale.bits) * second, 0, 0};
    return d;
}

KF_HD float kf_nvfp4_value(kf_spec s, kf_dequant d, uint32_t code)
{
    (void)s;
    return kf_e2m1_decode(code) * d.scale;
}

#endif
