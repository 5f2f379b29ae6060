/* affine.h - asymmetric integers: (code - zero) * scale.
 *
 * With L = 255, 15 or 3, lo = min(0, min), hi = max(0, max) of the group and store() one rounding
 * to the stored scale type:
 *   minmax  scale = store(min(hi - lo, FLT_MAX) / L); zero = -lo / scale, to nearest even, clamped
 *           to [0, L]
 *   search  the same for lo_i = lo * c_i, hi_i = hi * c_i, c_i = fl((100 - i) / 100), i = 0 .. 79;
 *           the first with the least sum in order of d * d, d = (code - zero) * scale - x
 * code = x / scale (one IEEE division), to nearest even, plus zero, clamped to [0, L]. Codes of
 * 8 bits and their zero points are stored less 128, as I8. A group of zeros stores scale 1 and
 * zero 0.
 * A range wider than FLT_MAX is cut to it: the far end saturates.
 * The encoders of other projects: affine_peers.h.
 * decode: code - zero exactly, then one fp32 product. */
#ifndef KERF_AFFINE_H
#define KERF_AFFINE_H

#include "block/affine_peers.h"
#include "block/int.h"

KF_HD int kf_affine_levels(kf_spec s)
{
    return s.element == KERF_ELEM_S8 ? 255 : s.element == KERF_ELEM_U4 ? 15 : 3;
}

/* Codes of 8 bits are two's complement: 0 .. 255 less 128. */
KF_HD uint32_t kf_affine_flip(kf_spec s)
{
    return s.element == KERF_ELEM_S8 ? 0x80 : 0;
}

KF_HD kf_scale kf_affine_scale(kf_spec s, float lo, float hi)
{
    int levels = kf_affine_levels(s);
    float range = kf_min(hi - lo, KF_F32_MAX);
    kf_scale scale = {kf_scale_store(s.scale, 1), kf_affine_flip(s)};
    if (range > 0) {
        scale.bits = kf_scale_store(s.scale, kf_scale_quotient(range, (float)levels));
        float zero = -lo / kf_scale_value(s.scale, scale.bits);
        scale.zero = (uint32_t)kf_round_clamp(zero, 0, levels) ^ kf_affine_flip(s);
    }
    return scale;
}

/* The stored form of what a peer chose. */
KF_HD kf_scale kf_affine_stored(kf_spec s, kf_affine_grid grid)
{
    uint32_t zero = (uint32_t)kf_clamp(grid.zero, 0, (float)kf_affine_levels(s));
    kf_scale scale = {kf_scale_store(s.scale, grid.scale), zero ^ kf_affine_flip(s)};
    return scale;
}

KF_HD kf_tensor kf_affine_tensor(kf_spec s, int encoder, const kerf_stats *stats, int source)
{
    float lo = stats->min, hi = stats->max;
    kf_scale scale = kf_is_peer(KERF_FAMILY_AFFINE, encoder)
                         ? kf_affine_stored(s, kf_affine_peer_grid(s, encoder, source, lo, hi))
                         : kf_affine_scale(s, lo, hi);
    kf_tensor t = {0};
    t.amax = stats->amax;
    t.min = lo;
    t.max = hi;
    t.source = source;
    t.bits = scale.bits;
    t.zero = scale.zero;
    return t;
}

KF_HD kf_quant kf_affine_divisor(kf_spec s, kf_scale scale)
{
    kf_quant q = {0};
    q.factor = kf_scale_value(s.scale, scale.bits);
    q.zero = (int)(scale.zero ^ kf_affine_flip(s));
    return q;
}

KF_HD uint32_t kf_affine_code(kf_spec s, kf_quant q, float x)
{
    int levels = kf_affine_levels(s);
    if (q.encoder) return (uint32_t)kf_affine_peer_code(s, q, levels, x) ^ kf_affine_flip(s);
    int code = kf_round_clamp(x / q.factor, -levels, levels) + q.zero;
    return (uint32_t)kf_clamp_int(code, 0, levels) ^ kf_affine_flip(s);
}

KF_HD float kf_affine_value(kf_spec s, kf_dequant d, uint32_t code)
{
    return (float)((int)(code ^ kf_affine_flip(s)) - d.zero) * d.scale;
}

KF_HD float kf_affine_error(kf_spec s, kf_scale scale, kf_group g)
{
    kf_quant q = kf_affine_divisor(s, scale);
    kf_dequant dequant = {q.factor, q.zero, 0};
    float err = 0;
    for (size_t r = 0; r < g.rows; r++) {
        for (size_t c = 0; c < g.cols; c++) {
            float x = g.x[r * g.ld + c];
            float d = kf_affine_value(s, dequant, kf_affine_code(s, q, x)) - x;
            err = err + d * d;
        }
    }
    return err;
}

/* Candidate i of a search; 0 is what minmax chooses: its share is exactly 1. */
KF_HD kf_scale kf_affine_candidate(kf_spec s, float lo, float hi, int i)
{
    float share = kf_search_share(i);
    return kf_affine_scale(s, lo * share, hi * share);
}

KF_HD kf_scale kf_affine_search(kf_spec s, kf_group g, float lo, float hi)
{
    kf_scale best = kf_affine_candidate(s, lo, hi, 0);
    float least = kf_affine_error(s, best, g);
    for (int i = 1; i < KF_SEARCH_STEPS; i++) {
        kf_scale scale = kf_affine_candidate(s, lo, hi, i);
        float err = kf_affine_error(s, scale, g);
        if (err < least) {
            least = err;
            best = scale;
        }
    }
    return best;
}

/* Least and largest number of a group; zeros follow a short one. */
KF_HD void kf_group_range(kf_group g, float *least, float *largest)
{
    *least = *largest = g.whole && g.rows && g.cols ? g.x[0] : 0;
    for (size_t r = 0; r < g.rows; r++) {
        for (size_t c = 0; c < g.cols; c++) {
            *least = kf_min(*least, g.x[r * g.ld + c]);
            *largest = kf_max(*largest, g.x[r * g.ld + c]);
        }
    }
}

KF_HD kf_scale kf_affine_choose(kf_spec s, int encoder, const kf_tensor *t, kf_group g)
{
    float least, largest;
    kf_group_range(g, &least, &largest);
    if (kf_is_peer(KERF_FAMILY_AFFINE, encoder))
        return kf_affine_stored(s, kf_affine_peer_grid(s, encoder, t->source, least, largest));
    float lo = kf_min(least, 0), hi = kf_max(largest, 0);
    if (kf_is_search(KERF_FAMILY_AFFINE, encoder) && hi - lo > 0)
        return kf_affine_search(s, g, lo, hi);
    return kf_affine_scale(s, lo, hi);
}

KF_HD kf_quant kf_affine_quant(kf_spec s, int encoder, const kf_tensor *t, kf_scale scale,
                               kf_group g)
{
    if (!kf_is_peer(KERF_FAMILY_AFFINE, encoder)) return kf_affine_divisor(s, scale);
    float lo = t->min, hi = t->max;
    if (s.geometry != KERF_GROUP_TENSOR) kf_group_range(g, &lo, &hi);
    kf_affine_grid grid = kf_affine_peer_grid(s, encoder, t->source, lo, hi);
    kf_quant q = {0};
    int multiplies = encoder == KERF_ENC_AFFINE_TORCHAO || encoder == KERF_ENC_AFFINE_HQQ;
    q.factor = multiplies ? grid.r : grid.scale; /* 0 where the range overflows */
    q.zero = (int)kf_clamp(grid.zero, -4194304.0f, 4194304.0f);
    q.encoder = encoder;
    q.source = t->source;
    return q;
}

KF_HD kf_dequant kf_affine_dequant(kf_spec s, kf_scale scale, float second, float offset)
{
    (void)second, (void)offset;
    kf_quant q = kf_affine_divisor(s, scale);
    kf_dequant d = {q.factor, q.zero, 0};
    return d;
}

#endif
