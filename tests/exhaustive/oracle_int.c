/* oracle_int.c - symmetric integers: codecs/block/int.h and int_peers.h, restated. */
#include "exhaustive/oracle_book.h"
#include "exhaustive/oracle_rules.h"

enum { STEPS = 80 };

static double largest_code(const kerf_format *f)
{
    return ldexp(1, (int)f->bits - 1) - 1;
}

/* --- the search ------------------------------------------------------------------------------- */

/* The squared error of a scale; some number not below `limit` once it is certain to reach that. */
static double squared_error(const kerf_format *f, const oracle_group *g, double scale, double limit)
{
    const double high = largest_code(f), low = -high - 1;
    double err = 0;
    for (unsigned i = 0; i < g->n && err < limit; i++) {
        double x = (double)g->x[i], v = rne(clamp(f32(x / scale), low, high));
        double d = f32(f32(v * scale) - x);
        err = f32(err + f32(d * d));
    }
    return err;
}

static double searched_scale(const kerf_format *f, const oracle_group *g, double full)
{
    double best = oracle_store(f->scale, full);
    double least = squared_error(f, g, best, (double)INFINITY);
    for (int i = 1; i < STEPS; i++) {
        double s = f32(full * f32((100.0 - i) / 100));
        s = oracle_store(f->scale, at_least(ORACLE_TINY, s));
        double err = squared_error(f, g, s, least);
        if (!(err < least)) continue;
        least = err;
        best = s;
    }
    return best;
}

/* --- other projects --------------------------------------------------------------------------- */

static int has_negative(const oracle_group *g)
{
    for (unsigned i = 0; i < g->n; i++)
        if (g->x[i] < 0) return 1;
    return 0;
}

/* The scale that elements are rounded with. */
static double peer_scale(const kerf_format *f, int variant, const oracle_group *g)
{
    const double a = oracle_amax(g), q = largest_code(f), levels = 2 * q + 1;
    const double floor_of = f->bits == 8 ? 0x1p-23 : oracle_tiny(g->source);
    double s;
    switch (variant) {
    case INT_CT: s = oracle_in(g->source, a / (q + 0.5)); return s == 0 ? oracle_eps(g->source) : s;
    case INT_TORCHAO: return at_least(floor_of, oracle_in(g->source, a / (q + 0.5)));
    case INT_GPTQ: /* the range of a group with a negative number is made symmetric */
        if (a == 0) return f32(2 / levels);
        return f32((has_negative(g) ? f32(a + a) : a) / levels);
    case INT_BNB: return f32(oracle_in(KERF_F16, a) / 127);
    default: return a == 0 ? 1 : f32(a / q); /* Model-Optimizer */
    }
}

/* The element as an integer, before it is rounded to one. */
static double peer_scaled(const kerf_format *f, int variant, const oracle_group *g, double scale,
                          double x)
{
    const kerf_dtype product = f->bits == 8 ? KERF_F32 : g->source; /* of torchao's intx */
    double absmax;
    switch (variant) {
    case INT_CT: return oracle_in(g->source, x / scale);
    case INT_TORCHAO: return oracle_in(product, x * oracle_in(product, 1 / scale));
    case INT_BNB: /* a row beyond fp16 has a factor of zero; Inf * 0, a NaN, becomes 0 */
        absmax = oracle_in(KERF_F16, oracle_amax(g));
        if (absmax == 0 || isinf(absmax)) return 0;
        return f32(oracle_in(KERF_F16, x) * f32(f32(1 / absmax) * 127));
    default: return f32(x / scale);
    }
}

void oracle_int(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    const double a = oracle_amax(g), q = largest_code(f);
    double scale;
    if (variant != INT_AMAX && variant != INT_SEARCH) {
        scale = peer_scale(f, variant, g);
        out->scale = oracle_store(f->scale, scale);
    } else if (a == 0) {
        scale = out->scale = oracle_store(f->scale, 1);
    } else {
        const double full = oracle_quotient(a, q);
        scale = variant == INT_SEARCH ? searched_scale(f, g, full) : oracle_store(f->scale, full);
        out->scale = scale;
        variant = INT_AMAX;
    }
    for (unsigned i = 0; i < g->n; i++) {
        double y = peer_scaled(f, variant, g, scale, (double)g->x[i]);
        out->code[i] = (uint32_t)(int)rne(clamp(y, -q - 1, q)) & ((1u << f->bits) - 1);
    }
}
