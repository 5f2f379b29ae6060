/* oracle_nvfp4.c - NVFP4: codecs/block/nvfp4.h and nvfp4_peers.h, restated. A matrix has a divisor
 * (what block scales are multiplied by before they are stored) and a second-level scale; who
 * stores which of them, and in what order they are made, is most of what tells encoders apart. */
#include "exhaustive/oracle_book.h"
#include "exhaustive/oracle_rules.h"

/* Of a matrix. */
typedef struct levels {
    double range;   /* largest element x largest block scale           */
    double divisor; /* block scales are multiplied by it               */
    double inverse; /* 1 / divisor                                     */
    double second;  /* as stored                                       */
} levels;

static double range_of(int variant)
{
    if (variant == NV_STATIC_4) return 4 * 448;
    return variant >= NV_TE || variant & NV_448 ? 6 * 448 : 6 * 256;
}

/* The type that compressed-tensors computes in. */
static kerf_dtype ct_type(int variant, kerf_dtype source)
{
    return variant == NV_CT ? source : KERF_F32;
}

/* A Python number divided by a tensor is a reciprocal and a product in PyTorch. */
static double ct_divisor(kerf_dtype type, double amax)
{
    double inverse = oracle_in(type, 1 / at_least(oracle_tiny(type), amax));
    double g = oracle_in(type, 2688 * inverse);
    return isinf(g) ? 1 : g;
}

static levels levels_of(int variant, double amax, kerf_dtype source)
{
    levels l = {range_of(variant), 1, 1, 1};
    if (amax == 0) return l;
    switch (variant) {
    case NV_CT:
    case NV_CT_FP32: l.divisor = ct_divisor(ct_type(variant, source), amax); break;
    case NV_AUTOROUND: l.divisor = f32(2688 * f32(1 / amax)); break;
    default: l.divisor = at_most(ORACLE_MAX, f32(l.range / amax)); break;
    }
    l.inverse = f32(1 / l.divisor);
    const int stores_inverse = variant == NV_CT || variant == NV_CT_FP32 || variant == NV_AUTOROUND;
    l.second = stores_inverse ? l.inverse : oracle_quotient(amax, l.range);
    return l;
}

double oracle_second(int variant, double amax, kerf_dtype source)
{
    return levels_of(variant, amax, source).second;
}

static double e4m3(double x)
{
    return oracle_element(KERF_ELEM_E4M3, oracle_nearest(KERF_ELEM_E4M3, clamp(x, 0, 448)));
}

/* --- kerf's own encoders ---------------------------------------------------------------------- */

static uint32_t own_code(const levels *l, double scale, double x)
{
    if (scale == 0) return 0;
    double r = at_most(ORACLE_MAX, f32(1 / f32(scale * l->inverse)));
    return oracle_nearest(KERF_ELEM_E2M1, f32(x * r));
}

double oracle_nvfp4_error(int variant, const oracle_group *g, double scale)
{
    const levels l = levels_of(variant, g->amax, g->source);
    const int metric = variant & NV_METRIC;
    double err = 0;
    for (unsigned i = 0; i < g->n; i++) {
        double x = (double)g->x[i];
        double e = oracle_element(KERF_ELEM_E2M1, own_code(&l, scale, x));
        double d = fabs(f32(f32(f32(f32(e * scale) * g->amax) / l.range) - x));
        if (metric == NV_ABSMAX)
            err = at_least(err, d);
        else
            err = f32(err + (metric == NV_MAE ? d : f32(d * d)));
    }
    return err;
}

double oracle_nvfp4_scale_six(int variant, const oracle_group *g)
{
    const levels l = levels_of(variant, g->amax, g->source);
    return e4m3(f32(f32(oracle_amax(g) / 6) * l.divisor));
}

static double own_scale(int variant, const oracle_group *g, const levels *l, double a)
{
    if ((variant & NV_METRIC) == NV_AMAX) return e4m3(f32(a * f32(l->divisor * f32(1.0 / 6))));
    double base = f32(f32(a / 6) * l->divisor), six = e4m3(base), best = e4m3(f32(base * 1.5));
    double err6 = oracle_nvfp4_error(variant, g, six);
    double least = oracle_nvfp4_error(variant, g, best);
    if (!(least < err6)) {
        best = six;
        least = err6;
    }
    for (uint32_t bits = 1; (variant & NV_METRIC) == NV_SWEEP && bits <= 0x7e; bits++) {
        double s = oracle_element(KERF_ELEM_E4M3, bits), err = oracle_nvfp4_error(variant, g, s);
        if (!(err < least)) continue;
        least = err;
        best = s;
    }
    return best;
}

/* --- other projects --------------------------------------------------------------------------- */

static double peer_scale(int variant, const oracle_group *g, const levels *l, double a)
{
    double s;
    switch (variant) {
    case NV_TE: return own_scale(NV_AMAX | NV_448, g, l, a);
    case NV_MODELOPT:
        s = f32(a / f32(6 * l->second));
        return e4m3(clamp(s == 0 ? 1 : s, 0x1p-9, 448));
    case NV_MODELOPT_STATIC:
        s = f32(a / 6);
        s = f32(f32((s == 0 ? 1 : s) * 448) / f32(g->amax / 6));
        return e4m3(clamp(s, 0x1p-9, 448));
    case NV_TORCHAO: return e4m3(clamp(f32(f32(a / 6) / l->second), 0x1p-6, 448));
    case NV_STATIC_6: return e4m3(f32(f32(a / 6) * l->divisor));
    case NV_STATIC_4: return e4m3(f32(f32(a / 4) * l->divisor));
    case NV_AUTOROUND: return e4m3(f32(l->divisor * f32(a * f32(1.0 / 6))));
    default: /* compressed-tensors */
        s = e4m3(f32(l->divisor * oracle_in(ct_type(variant, g->source), a / 6)));
        return s == 0 ? 0.125 : s;
    }
}

/* The scaled element: some divide, some multiply by a reciprocal of one or two roundings. */
static double peer_scaled(int variant, const levels *l, double scale, double x)
{
    double r;
    switch (variant) {
    case NV_MODELOPT:
    case NV_MODELOPT_STATIC: return f32(x / f32(scale * l->second));
    case NV_CT:
    case NV_CT_FP32: return f32(x / f32(scale / l->divisor));
    case NV_TORCHAO: return f32(x * f32(f32(1 / l->second) / scale));
    case NV_AUTOROUND: r = f32(scale * l->inverse); return r == 0 ? 0 : f32(x * f32(1 / r));
    default: /* te, static */ return f32(x * at_most(ORACLE_MAX, f32(1 / f32(scale * l->inverse))));
    }
}

static uint32_t peer_code(int variant, const levels *l, double scale, double x)
{
    const int keeps_minus = variant == NV_TE || variant == NV_TORCHAO;
    if (scale == 0 && variant != NV_TE) return 0;
    double y = x == 0 ? x : peer_scaled(variant, l, scale, x); /* 0 / 0 and 0 * Inf are 0 */
    return y == 0 && !keeps_minus ? 0 : oracle_nearest(KERF_ELEM_E2M1, y);
}

void oracle_nvfp4(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    (void)f;
    const levels l = levels_of(variant, g->amax, g->source);
    const double a = oracle_amax(g);
    const int own = variant < NV_TE;
    if (own || variant == NV_TE)
        out->scale = a == 0 ? 0
                     : own  ? own_scale(variant, g, &l, a)
                            : peer_scale(variant, g, &l, a);
    else
        out->scale = peer_scale(variant, g, &l, a);
    for (unsigned i = 0; i < g->n; i++) {
        double x = (double)g->x[i];
        out->code[i] = own ? own_code(&l, out->scale, x) : peer_code(variant, &l, out->scale, x);
    }
}
