/* oracle_mx.c - the MX formats: codecs/block/mx.h and mx_peers.h, restated. Where the library
 * counts the floats around a power of two, this takes logarithms. */
#include "exhaustive/oracle_book.h"
#include "exhaustive/oracle_rules.h"

/* The exponent field of an fp32, less 127: -127 for everything below the normal numbers. */
static int field_exponent(double a)
{
    return a < 0x1p-126 ? -127 : ilogb(a);
}

/* What a rule must know of an element. */
typedef struct element {
    double largest;
    int emax, man_bits;
    int least; /* exponent of the least normal number */
} element;

static element element_of(const kerf_format *f)
{
    switch (f->element) {
    case KERF_ELEM_E4M3: return (element){448, 8, 3, -6};
    case KERF_ELEM_E5M2: return (element){57344, 15, 2, -14};
    case KERF_ELEM_E2M3: return (element){7.5, 2, 3, 0};
    case KERF_ELEM_E3M2: return (element){28, 4, 2, -2};
    case KERF_ELEM_E2M1: return (element){6, 2, 1, 0};
    default: return (element){127.0 / 64, 0, 6, 0};
    }
}

static int clamp_exponent(double e)
{
    return e < -127 ? -127 : e > 127 ? 127 : (int)e;
}

/* --- the search ------------------------------------------------------------------------------- */

static double squared_error(const kerf_format *f, const oracle_group *g, int base, int e)
{
    const double up = ldexp(1, -base), down = ldexp(1, base - e), back = ldexp(1, e - base);
    double err = 0;
    for (unsigned i = 0; i < g->n; i++) {
        double y = f32((double)g->x[i] * up);
        double v = oracle_element(f->element, oracle_nearest(f->element, f32(y * down)));
        double d = f32(f32(v * back) - y);
        err = f32(err + f32(d * d));
    }
    return err;
}

static int search(const kerf_format *f, const oracle_group *g, int base)
{
    int best = clamp_exponent(base + 1);
    double least = squared_error(f, g, base, best);
    for (int e = best - 1; e >= base - 1 && e >= -127; e--) {
        double err = squared_error(f, g, base, e);
        if (err < least) {
            least = err;
            best = e;
        }
    }
    return best;
}

/* --- exponents -------------------------------------------------------------------------------- */

/* compressed-tensors adds a quarter of the leading bit (mxfp6: a sixteenth) and looks at the
 * exponent field of the source's type. In fp16 a number without one has the scale 0, as has a
 * scale below 2^-24; both become 1. */
static int ct_exponent(const kerf_format *f, const oracle_group *g, double a)
{
    const double least = oracle_tiny(g->source);
    const double leading = a < least ? least : ldexp(1, ilogb(a));
    const double up = a + leading / (f->element == KERF_ELEM_E2M3 ? 16 : 4);
    if (g->source != KERF_F16) return clamp_exponent(field_exponent(up) - element_of(f).emax);
    const int e = up < least ? -100 : ilogb(up) - element_of(f).emax;
    return e < -24 ? 0 : e;
}

static int exponent(const kerf_format *f, int variant, const oracle_group *g, double a)
{
    const element m = element_of(f);
    int e = -127;
    switch (variant) {
    case MX_RCEIL:
        while (e < 127 && ldexp(1, e) < f32(a * f32(1 / m.largest))) e++;
        return e;
    case MX_EVEN:
        return clamp_exponent(field_exponent(oracle_round(a, m.man_bits + 1, -126)) - m.emax);
    case MX_CEIL: e = field_exponent(a); return clamp_exponent(e + (a != ldexp(1, e)) - m.emax);
    case MX_SEARCH: return search(f, g, clamp_exponent(field_exponent(a) - m.emax));
    case MX_CT: return ct_exponent(f, g, a);
    case MX_TORCHAO:
    case MX_MODELOPT: return clamp_exponent(ceil(f32(log2(f32(a / m.largest)))));
    case MX_MICROXCALING:
    case MX_GGML: return clamp_exponent(floor(f32(log2(a))) - m.emax);
    default: return clamp_exponent(field_exponent(a) - m.emax);
    }
}

static int zero_exponent(const kerf_format *f, int variant, const oracle_group *g)
{
    if (variant == MX_MICROXCALING) return clamp_exponent(-126 - element_of(f).emax);
    return variant == MX_CT && g->source == KERF_F16 ? 0 : -127;
}

/* --- elements --------------------------------------------------------------------------------- */

/* Half away from zero on the grid of y's own binade, as floor(|m| + 1/2). */
static uint32_t half_away(const kerf_format *f, double y)
{
    const element m = element_of(f);
    if (y == 0) return 0;
    double e = m.emax == 0 ? 0 : at_least(m.least, floor(f32(log2(fabs(y)))));
    double steps = floor(f32(ldexp(fabs(y), m.man_bits - (int)e) + 0.5));
    return oracle_nearest(f->element, copysign(ldexp(steps, (int)e - m.man_bits), y));
}

/* Of two codes as near the lower magnitude; every zero is -0. */
static uint32_t toward_zero(double y)
{
    uint32_t best = 0;
    for (uint32_t code = 1; code < 8; code++)
        if (fabs(oracle_element(KERF_ELEM_E2M1, code) - fabs(y)) <
            fabs(oracle_element(KERF_ELEM_E2M1, best) - fabs(y)))
            best = code;
    return y > 0 ? best : best + 8;
}

/* The first of the 16 codes with the least rounded distance. */
static uint32_t first_nearest(double x, double scale)
{
    uint32_t best = 0;
    double least = fabs(x);
    for (uint32_t code = 1; code < 16; code++) {
        double err = fabs(f32(f32(oracle_element(KERF_ELEM_E2M1, code) * scale) - x));
        if (err >= least) continue;
        least = err;
        best = code;
    }
    return best;
}

static uint32_t code_of(const kerf_format *f, int variant, const oracle_group *g, double x, int e)
{
    double y = f32(ldexp(x, -e));
    switch (variant) {
    case MX_TORCHAO: return oracle_nearest(f->element, e == -127 ? x : y);
    case MX_CT:
        y = oracle_in(g->source, y);
        return y == 0 && f->element == KERF_ELEM_E2M1 ? 0 : oracle_nearest(f->element, y);
    case MX_MODELOPT:
        return f->element == KERF_ELEM_E2M1 ? toward_zero(y) : oracle_nearest(f->element, y);
    case MX_MICROXCALING: return half_away(f, y);
    case MX_GGML: return first_nearest(x, ldexp(1, e));
    default: return oracle_nearest(f->element, y);
    }
}

void oracle_mx(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    const double amax = oracle_amax(g);
    const int e = amax == 0 ? zero_exponent(f, variant, g) : exponent(f, variant, g, amax);
    out->scale = ldexp(1, e);
    for (unsigned i = 0; i < g->n; i++) out->code[i] = code_of(f, variant, g, (double)g->x[i], e);
}

/* --- GGUF: the same element search under other scales ----------------------------------------- */

void oracle_ggml_mxfp4(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    (void)variant;
    oracle_mx(f, MX_GGML, g, out);
}

/* ggml's own E4M3: one more bit of the mantissa decides (half up), numbers that would reach 256
 * are 448, and below 2^-6 there are seven steps. */
static double ue4m3(double x)
{
    if (!(x > 0)) return 0;
    if (x < 0x1p-6) return at_most(7, floor(f32(x * 512 + 0.5))) / 512;
    const int e = ilogb(x);
    const double half_steps = floor(ldexp(x, 4 - e)); /* 16 .. 31 */
    const double v = ldexp(floor((half_steps + 1) / 2), e - 3);
    return v >= 256 ? 448 : v;
}

void oracle_ggml_nvfp4(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    (void)f, (void)variant;
    out->scale = ue4m3(f32(oracle_amax(g) / 6));
    for (unsigned i = 0; i < g->n; i++) out->code[i] = first_nearest((double)g->x[i], out->scale);
}
