/* int.h - symmetric integers: code * scale, no zero point.
 *
 * With Q = 127, 7 or 1 and store() one rounding to the stored scale type (fp32 or bfloat16):
 *   amax    scale = store(amax / Q)
 *   search  of scale_i = store((amax / Q) * fl((100 - i) / 100)), i = 0 .. 79, the first with the
 *           least sum in order of d * d, d = code * scale_i - x
 * code = x / scale (one IEEE division by the stored scale), to nearest even, clamped to
 * [-Q - 1, Q]. A group of zeros stores scale 1, so that readers may divide by it.
 * The encoders of other projects: int_peers.h.
 * decode: code * scale, one fp32 product. */
#ifndef KERF_INT_H
#define KERF_INT_H

#include "block/int_peers.h"

#define KF_SEARCH_STEPS 80

/* Share of the full range that candidate i of a search keeps. */
KF_HD float kf_search_share(int i)
{
    return (float)(100 - i) / 100.0f;
}

KF_HD uint32_t kf_int_scale(kf_spec s, float amax)
{
    float full = kf_scale_quotient(amax, kf_element_max(s.element));
    return kf_scale_store(s.scale, amax == 0 ? 1 : full);
}

/* The stored scale of encoders that need no search. */
KF_HD uint32_t kf_int_stored(kf_spec s, int encoder, int source, float amax, float min)
{
    if (!kf_is_peer(KERF_FAMILY_INT, encoder)) return kf_int_scale(s, amax);
    return kf_scale_store(s.scale, kf_int_peer_scale(s, encoder, source, amax, min));
}

KF_HD kf_tensor kf_int_tensor(kf_spec s, int encoder, const kerf_stats *stats, int source)
{
    kf_tensor t = {0};
    t.amax = stats->amax;
    t.min = stats->min;
    t.source = source;
    t.bits = kf_int_stored(s, encoder, source, stats->amax, stats->min);
    return t;
}

KF_HD kf_quant kf_int_divisor(kf_spec s, uint32_t scale)
{
    kf_quant q = {0};
    q.factor = kf_scale_value(s.scale, scale);
    return q;
}

KF_HD uint32_t kf_int_code(kf_spec s, kf_quant q, float x)
{
    if (q.encoder) return kf_int_peer_code(s, q, x);
    return kf_element_encode(s.element, x / q.factor);
}

KF_HD float kf_int_value(kf_spec s, kf_dequant d, uint32_t code)
{
    return kf_element_decode(s.element, code) * d.scale;
}

KF_HD float kf_int_error(kf_spec s, uint32_t scale, kf_group g)
{
    kf_quant q = kf_int_divisor(s, scale);
    kf_dequant dequant = {q.factor, 0, 0};
    float err = 0;
    for (size_t r = 0; r < g.rows; r++) {
        for (size_t c = 0; c < g.cols; c++) {
            float x = g.x[r * g.ld + c];
            float d = kf_int_value(s, dequant, kf_int_code(s, q, x)) - x;
            err = err + d * d;
        }
    }
    return err;
}

/* Candidate i of a search; 0 is what amax chooses. */
KF_HD uint32_t kf_int_candidate(kf_spec s, float amax, int i)
{
    if (i == 0) return kf_int_scale(s, amax);
    float full = kf_scale_quotient(amax, kf_element_max(s.element));
    return kf_scale_store(s.scale, kf_max(full * kf_search_share(i), KF_F32_TINY));
}

KF_HD uint32_t kf_int_search(kf_spec s, kf_group g, float amax)
{
    uint32_t best = kf_int_candidate(s, amax, 0);
    float least = kf_int_error(s, best, g);
    for (int i = 1; i < KF_SEARCH_STEPS; i++) {
        uint32_t scale = kf_int_candidate(s, amax, i);
        float err = kf_int_error(s, scale, g);
        if (err < least) {
            least = err;
            best = scale;
        }
    }
    return best;
}

KF_HD kf_scale kf_int_choose(kf_spec s, int encoder, const kf_tensor *t, kf_group g)
{
    float amax = kf_group_amax(g);
    kf_scale scale = {kf_int_stored(s, encoder, t->source, amax, kf_group_min(g)), 0};
    if (kf_is_search(KERF_FAMILY_INT, encoder) && amax > 0) scale.bits = kf_int_search(s, g, amax);
    return scale;
}

KF_HD kf_quant kf_int_quant(kf_spec s, int encoder, const kf_tensor *t, kf_scale scale, kf_group g)
{
    if (!kf_is_peer(KERF_FAMILY_INT, encoder)) return kf_int_divisor(s, scale.bits);
    int whole = s.geometry == KERF_GROUP_TENSOR; /* the group at hand is not all of its elements */
    float amax = whole ? t->amax : kf_group_amax(g), min = whole ? t->min : kf_group_min(g);
    kf_quant q = {0};
    q.factor = kf_int_peer_factor(s, encoder, t->source, amax, min);
    q.encoder = encoder;
    q.source = t->source;
    return q;
}

KF_HD kf_dequant kf_int_dequant(kf_spec s, kf_scale scale, float second, float offset)
{
    (void)second, (void)offset;
    kf_dequant d = {kf_scale_value(s.scale, scale.bits), 0, 0};
    return d;
}

#endif
