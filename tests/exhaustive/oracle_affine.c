/* oracle_affine.c - integers with a zero point: codecs/block/affine.h and affine_peers.h, restated.
 * Levels are counted from 0, as they are stored but for 8 bits, which are stored less 128. */
#include "exhaustive/oracle_book.h"
#include "exhaustive/oracle_rules.h"

enum { STEPS = 80 };

typedef struct grid {
    double scale;  /* that elements are rounded with, before it is stored */
    double factor; /* 0: they are divided by the scale                    */
    double zero;   /* may lie outside the levels                          */
    double levels; /* the largest                                         */
} grid;

/* --- kerf's own encoders ---------------------------------------------------------------------- */

static grid own_grid(const kerf_format *f, double low, double high)
{
    const double levels = ldexp(1, (int)f->bits) - 1;
    const double range = at_most(ORACLE_MAX, f32(high - low));
    grid q = {oracle_store(f->scale, 1), 0, 0, levels};
    if (range <= 0) return q;
    q.scale = oracle_store(f->scale, oracle_quotient(range, levels));
    q.zero = clamp(rne(f32(-low / q.scale)), 0, levels);
    return q;
}

static double own_level(const grid *q, double x)
{
    double steps = clamp(f32(x / q->scale), -q->levels, q->levels);
    return clamp(rne(steps) + q->zero, 0, q->levels);
}

/* The squared error of a grid; some number not below `limit` once it is certain to reach that. */
static double squared_error(const grid *q, const oracle_group *g, double limit)
{
    double err = 0;
    for (unsigned i = 0; i < g->n && err < limit; i++) {
        double x = (double)g->x[i];
        double d = f32(f32((own_level(q, x) - q->zero) * q->scale) - x);
        err = f32(err + f32(d * d));
    }
    return err;
}

static grid searched_grid(const kerf_format *f, const oracle_group *g, double low, double high)
{
    grid best = own_grid(f, low, high);
    if (f32(high - low) <= 0) return best;
    double least = squared_error(&best, g, (double)INFINITY);
    for (int i = 1; i < STEPS; i++) {
        const double share = f32((100.0 - i) / 100);
        grid q = own_grid(f, f32(low * share), f32(high * share));
        double err = squared_error(&q, g, least);
        if (!(err < least)) continue;
        least = err;
        best = q;
    }
    return best;
}

/* --- other projects --------------------------------------------------------------------------- */

/* Zero points are signed there. The zero point is made before the epsilon stands in for a scale of
 * zero, so it is an Inf or a NaN then, which becomes the signed 0. */
static grid ct_grid(const oracle_group *g, grid q, double low, double high)
{
    const double least = -(q.levels + 1) / 2;
    q.scale = oracle_in(g->source, oracle_in(g->source, high - low) / q.levels);
    double zero = oracle_in(g->source, least - oracle_in(g->source, low / q.scale));
    q.zero = isnan(zero) ? -least : rne(clamp(zero, least, least + q.levels)) - least;
    if (q.scale == 0) q.scale = oracle_eps(g->source);
    return q;
}

/* Rounded to a zero point as torchao and AutoAWQ do. */
static double negated_quotient(const oracle_group *g, const grid *q, double low)
{
    return clamp(-rne(oracle_in(g->source, low / q->scale)), 0, q->levels);
}

static grid torchao_grid(const kerf_format *f, const oracle_group *g, grid q, double low,
                         double high)
{
    const int wide = f->bits == 8;
    q.scale = oracle_in(g->source, oracle_in(g->source, high - low) / q.levels);
    q.scale = at_least(wide ? 0x1p-23 : oracle_tiny(g->source), q.scale);
    q.factor = oracle_in(wide ? KERF_F32 : g->source, 1 / q.scale);
    q.zero = negated_quotient(g, &q, low);
    return q;
}

static grid awq_grid(const oracle_group *g, grid q, double low, double high)
{
    double range = oracle_in(g->source, high - low);
    range = at_least(oracle_in(g->source, 1e-5), range);
    q.scale = oracle_in(g->source, range / q.levels);
    q.zero = negated_quotient(g, &q, low);
    return q;
}

static grid hqq_grid(grid q, double low, double high)
{
    const double range = f32(high - low);
    q.factor = range <= f32(1e-4) ? 1 : f32(f32(1 / range) * q.levels);
    q.factor = at_most(2e4, q.factor);
    q.scale = f32(1 / q.factor);
    q.zero = rne(f32(-low * q.factor));
    return q;
}

static grid gptq_grid(grid q, double low, double high)
{
    const int empty = low == 0 && high == 0;
    q.scale = f32(f32((empty ? 1 : high) - (empty ? -1 : low)) / q.levels);
    q.zero = rne(f32(-(empty ? -1 : low) / q.scale));
    return q;
}

static grid peer_grid(const kerf_format *f, int variant, const oracle_group *g, double low,
                      double high)
{
    const grid q = {0, 0, 0, ldexp(1, (int)f->bits) - 1};
    switch (variant) {
    case INT_CT: return ct_grid(g, q, low, high);
    case INT_TORCHAO: return torchao_grid(f, g, q, low, high);
    case INT_AWQ: return awq_grid(g, q, low, high);
    case INT_HQQ: return hqq_grid(q, low, high);
    default: return gptq_grid(q, low, high);
    }
}

static double peer_level(const kerf_format *f, int variant, const oracle_group *g, const grid *q,
                         double x)
{
    const double middle = (q->levels + 1) / 2;
    double y;
    switch (variant) {
    case INT_CT: /* the signed zero point is added before anything is an integer */
        y = oracle_in(g->source, x / q->scale);
        y = oracle_in(g->source, y + (q->zero - middle));
        return rne(clamp(y, -middle, middle - 1)) + middle;
    case INT_HQQ: return clamp(rne(f32(f32(x * q->factor) + q->zero)), 0, q->levels);
    case INT_TORCHAO: y = oracle_in(f->bits == 8 ? KERF_F32 : g->source, x * q->factor); break;
    case INT_AWQ: y = oracle_in(g->source, x / q->scale); break;
    default: y = f32(x / q->scale); break;
    }
    return clamp(rne(y) + q->zero, 0, q->levels);
}

void oracle_affine(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    const int own = variant == INT_AMAX || variant == INT_SEARCH;
    const int holds_zero = variant != INT_AWQ && variant != INT_HQQ;
    double low = (double)g->x[0], high = low;
    for (unsigned i = 1; i < g->n; i++) {
        low = at_most(low, (double)g->x[i]);
        high = at_least(high, (double)g->x[i]);
    }
    if (holds_zero || !g->whole) { /* a tail ends in zeros */
        low = at_most(0, low);
        high = at_least(0, high);
    }
    const grid q = !own                    ? peer_grid(f, variant, g, low, high)
                   : variant == INT_SEARCH ? searched_grid(f, g, low, high)
                                           : own_grid(f, low, high);
    const uint32_t flip = f->bits == 8 ? 0x80 : 0; /* I8 holds the level less 128 */
    out->scale = oracle_store(f->scale, q.scale);
    out->zero = (uint32_t)clamp(q.zero, 0, q.levels) ^ flip;
    for (unsigned i = 0; i < g->n; i++) {
        double x = (double)g->x[i];
        double level = own ? own_level(&q, x) : peer_level(f, variant, g, &q, x);
        out->code[i] = (uint32_t)level ^ flip;
    }
}
