/* oracle.c - see oracle.h. One function per family, restating its docstring. */
#include "exhaustive/oracle_book.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static double group_amax(const oracle_group *g)
{
    double amax = 0;
    for (unsigned i = 0; i < g->n; i++) amax = fmax(amax, fabs((double)g->x[i]));
    return amax;
}

/* --- casts and FP8 ---------------------------------------------------------------------------- */

/* Bits of a number that the type holds exactly (or of an infinity). */
static uint32_t exact_bits(double x, int exp_bits, int man_bits, int bias)
{
    uint32_t sign = signbit(x) ? 1u << (exp_bits + man_bits) : 0;
    double a = fabs(x);
    if (isinf(x) || a >= ldexp(1, bias + 1)) return sign | ((1u << exp_bits) - 1) << man_bits;
    int e = a == 0 || ilogb(a) < 1 - bias ? 1 - bias : ilogb(a);
    uint32_t man = (uint32_t)ldexp(a, man_bits - e); /* with the leading one, if it has one */
    return sign | (man + ((uint32_t)(e + bias - 1) << man_bits));
}

static void answer_cast(const kerf_format *f, int variant, const oracle_group *g,
                        oracle_answer *out)
{
    (void)variant;
    for (unsigned i = 0; i < g->n; i++) {
        double x = (double)g->x[i];
        if (f->element == KERF_ELEM_F16)
            out->code[i] = exact_bits(copysign(oracle_round(x, 11, -14), x), 5, 10, 15);
        else if (f->element == KERF_ELEM_BF16)
            out->code[i] = exact_bits(copysign(oracle_round(x, 8, -126), x), 8, 7, 127);
        else
            out->code[i] = exact_bits(x, 8, 23, 127);
    }
}

static void answer_fp8(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    (void)variant;
    double amax = group_amax(g), largest = f->element == KERF_ELEM_E4M3 ? 448 : 57344;
    out->scale = amax == 0 ? 1 : oracle_quotient(amax, largest);
    for (unsigned i = 0; i < g->n; i++)
        out->code[i] = oracle_nearest(f->element, f32((double)g->x[i] / out->scale));
}

/* --- integers --------------------------------------------------------------------------------- */

enum { AMAX, SEARCH, STEPS = 80 };

static double share(int i)
{
    return f32((100.0 - i) / 100);
}

static double int_error(const kerf_format *f, const oracle_group *g, double scale)
{
    double err = 0;
    for (unsigned i = 0; i < g->n; i++) {
        double x = (double)g->x[i];
        double v = oracle_element(f->element, oracle_nearest(f->element, f32(x / scale)));
        double d = f32(f32(v * scale) - x);
        err = f32(err + f32(d * d));
    }
    return err;
}

static void answer_int(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    double amax = group_amax(g), full = oracle_quotient(amax, ldexp(1, (int)f->bits - 1) - 1);
    out->scale = amax == 0 ? oracle_store(f->scale, 1) : oracle_store(f->scale, full);
    if (variant == SEARCH && amax > 0) {
        double least = int_error(f, g, out->scale);
        for (int i = 1; i < STEPS; i++) {
            double s = oracle_store(f->scale, fmax(f32(full * share(i)), ORACLE_TINY));
            double err = int_error(f, g, s);
            if (err < least) {
                least = err;
                out->scale = s;
            }
        }
    }
    for (unsigned i = 0; i < g->n; i++)
        out->code[i] = oracle_nearest(f->element, f32((double)g->x[i] / out->scale));
}

typedef struct grid {
    double scale, zero, levels;
} grid;

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

static grid affine_grid(const kerf_format *f, double low, double high)
{
    double levels = ldexp(1, (int)f->bits) - 1, range = fmin(f32(high - low), (double)FLT_MAX);
    grid q = {oracle_store(f->scale, 1), 0, levels};
    if (range <= 0) return q;
    q.scale = oracle_store(f->scale, oracle_quotient(range, levels));
    q.zero = clamp(nearbyint(f32(-low / q.scale)), 0, levels);
    return q;
}

static double affine_level(const grid *q, double x)
{
    double steps = clamp(f32(x / q->scale), -q->levels, q->levels);
    return clamp(nearbyint(steps) + q->zero, 0, q->levels);
}

static double affine_error(const grid *q, const oracle_group *g)
{
    double err = 0;
    for (unsigned i = 0; i < g->n; i++) {
        double x = (double)g->x[i];
        double d = f32(f32((affine_level(q, x) - q->zero) * q->scale) - x);
        err = f32(err + f32(d * d));
    }
    return err;
}

static void answer_affine(const kerf_format *f, int variant, const oracle_group *g,
                          oracle_answer *out)
{
    double low = 0, high = 0;
    for (unsigned i = 0; i < g->n; i++) {
        low = fmin(low, (double)g->x[i]);
        high = fmax(high, (double)g->x[i]);
    }
    grid best = affine_grid(f, low, high);
    if (variant == SEARCH && f32(high - low) > 0) {
        double least = affine_error(&best, g);
        for (int i = 1; i < STEPS; i++) {
            grid q = affine_grid(f, f32(low * share(i)), f32(high * share(i)));
            double err = affine_error(&q, g);
            if (err < least) {
                least = err;
                best = q;
            }
        }
    }
    uint32_t flip = f->bits == 8 ? 0x80 : 0; /* I8 holds the level less 128 */
    out->scale = best.scale;
    out->zero = (uint32_t)best.zero ^ flip;
    for (unsigned i = 0; i < g->n; i++)
        out->code[i] = (uint32_t)affine_level(&best, (double)g->x[i]) ^ flip;
}

/* --- MX --------------------------------------------------------------------------------------- */

enum { MX_FLOOR, MX_RCEIL, MX_EVEN, MX_CEIL, MX_SEARCH };

/* The exponent field of an fp32, less 127: -127 for everything below the normal numbers. */
static int field_exponent(double a)
{
    return a < 0x1p-126 ? -127 : ilogb(a);
}

static double mx_largest(const kerf_format *f, int *emax, int *man_bits)
{
    switch (f->element) {
    case KERF_ELEM_E4M3: return *emax = 8, *man_bits = 3, 448;
    case KERF_ELEM_E5M2: return *emax = 15, *man_bits = 2, 57344;
    case KERF_ELEM_E2M3: return *emax = 2, *man_bits = 3, 7.5;
    case KERF_ELEM_E3M2: return *emax = 4, *man_bits = 2, 28;
    case KERF_ELEM_E2M1: return *emax = 2, *man_bits = 1, 6;
    default: return *emax = 0, *man_bits = 6, 127.0 / 64;
    }
}

static int clamp_exponent(int e)
{
    return e < -127 ? -127 : e > 127 ? 127 : e;
}

static double mx_error(const kerf_format *f, const oracle_group *g, int base, int e)
{
    double err = 0;
    for (unsigned i = 0; i < g->n; i++) {
        double y = f32(ldexp((double)g->x[i], -base));
        double v = oracle_element(f->element, oracle_nearest(f->element, f32(ldexp(y, base - e))));
        double d = f32(f32(ldexp(v, e - base)) - y);
        err = f32(err + f32(d * d));
    }
    return err;
}

static int mx_search(const kerf_format *f, const oracle_group *g, int base)
{
    int best = clamp_exponent(base + 1);
    double least = mx_error(f, g, base, best);
    for (int e = best - 1; e >= base - 1 && e >= -127; e--) {
        double err = mx_error(f, g, base, e);
        if (err < least) {
            least = err;
            best = e;
        }
    }
    return best;
}

static int mx_exponent(const kerf_format *f, int variant, const oracle_group *g, double a)
{
    int emax, man_bits, e = -127;
    double largest = mx_largest(f, &emax, &man_bits);
    switch (variant) {
    case MX_RCEIL:
        while (e < 127 && ldexp(1, e) < f32(a * f32(1 / largest))) e++;
        return e;
    case MX_EVEN: return clamp_exponent(field_exponent(oracle_round(a, man_bits + 1, -126)) - emax);
    case MX_CEIL: e = field_exponent(a); return clamp_exponent(e + (a != ldexp(1, e)) - emax);
    case MX_SEARCH: return mx_search(f, g, clamp_exponent(field_exponent(a) - emax));
    default: return clamp_exponent(field_exponent(a) - emax);
    }
}

static void answer_mx(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    double amax = group_amax(g);
    int e = amax == 0 ? -127 : mx_exponent(f, variant, g, amax);
    out->scale = ldexp(1, e);
    for (unsigned i = 0; i < g->n; i++)
        out->code[i] = oracle_nearest(f->element, f32(ldexp((double)g->x[i], -e)));
}

/* --- NVFP4 ------------------------------------------------------------------------------------ */

enum { NV_AMAX = 0, NV_MSE = 1, NV_MAE = 2, NV_ABSMAX = 3, NV_SWEEP = 4, NV_448 = 8 };

typedef struct levels {
    double range, encode, inverse;
} levels;

static levels nvfp4_levels(int variant, double amax)
{
    levels l = {variant & NV_448 ? 6 * 448 : 6 * 256, 1, 1};
    if (amax == 0) return l;
    l.encode = fmin(f32(l.range / amax), (double)FLT_MAX);
    l.inverse = f32(1 / l.encode);
    return l;
}

double oracle_second(int variant, double amax)
{
    return amax == 0 ? 1 : oracle_quotient(amax, nvfp4_levels(variant, amax).range);
}

static uint32_t nvfp4_code(const levels *l, double scale, double x)
{
    if (scale == 0) return 0;
    double r = fmin(f32(1 / f32(scale * l->inverse)), (double)FLT_MAX);
    return oracle_nearest(KERF_ELEM_E2M1, f32(x * r));
}

double oracle_nvfp4_error(int variant, const oracle_group *g, double scale)
{
    levels l = nvfp4_levels(variant, g->amax);
    double err = 0;
    for (unsigned i = 0; i < g->n; i++) {
        double x = (double)g->x[i];
        double e = oracle_element(KERF_ELEM_E2M1, nvfp4_code(&l, scale, x));
        double d = fabs(f32(f32(f32(f32(e * scale) * g->amax) / l.range) - x));
        if ((variant & 7) == NV_ABSMAX)
            err = fmax(err, d);
        else
            err = f32(err + ((variant & 7) == NV_MAE ? d : f32(d * d)));
    }
    return err;
}

static double e4m3(double x)
{
    return oracle_element(KERF_ELEM_E4M3, oracle_nearest(KERF_ELEM_E4M3, fmin(x, 448)));
}

double oracle_nvfp4_scale_six(int variant, const oracle_group *g)
{
    levels l = nvfp4_levels(variant, g->amax);
    return e4m3(f32(f32(group_amax(g) / 6) * l.encode));
}

static double nvfp4_scale(int variant, const oracle_group *g, double amax)
{
    levels l = nvfp4_levels(variant, g->amax);
    if ((variant & 7) == NV_AMAX) return e4m3(f32(amax * f32(l.encode * f32(1.0 / 6))));
    double base = f32(f32(amax / 6) * l.encode);
    double six = e4m3(base), best = e4m3(f32(base * 1.5));
    if (!(oracle_nvfp4_error(variant, g, best) < oracle_nvfp4_error(variant, g, six))) best = six;
    double least = oracle_nvfp4_error(variant, g, best);
    for (uint32_t bits = 1; (variant & 7) == NV_SWEEP && bits <= 0x7e; bits++) {
        double s = oracle_element(KERF_ELEM_E4M3, bits), err = oracle_nvfp4_error(variant, g, s);
        if (!(err < least)) continue;
        least = err;
        best = s;
    }
    return best;
}

static void answer_nvfp4(const kerf_format *f, int variant, const oracle_group *g,
                         oracle_answer *out)
{
    (void)f;
    levels l = nvfp4_levels(variant, g->amax);
    double amax = group_amax(g);
    out->scale = amax == 0 ? 0 : nvfp4_scale(variant, g, amax);
    for (unsigned i = 0; i < g->n; i++) out->code[i] = nvfp4_code(&l, out->scale, (double)g->x[i]);
}

/* --- NF4 -------------------------------------------------------------------------------------- */

static void answer_nf4(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    (void)variant;
    const double least = f32(1e-38);
    double absmax = group_amax(g);
    if (!g->whole) absmax = fmax(absmax, least);
    out->scale = f->scale == KERF_SCALE_MAP8 ? absmax : oracle_store(f->scale, absmax);
    double inverse = f32(1 / fmax(out->scale, least));
    for (unsigned i = 0; i < g->n; i++) {
        double x = (double)g->x[i], c = f32(g->whole ? x * inverse : x / out->scale);
        out->code[i] = oracle_nearest(KERF_ELEM_NF4, clamp(c, -1, 1));
    }
}

/* Exact sum of doubles, rounded once: Shewchuk's partial sums, as Python's fsum. */
static double exact_sum(const double *x, size_t n)
{
    double part[320]; /* without overlap between 2^-149 and 2^170 */
    size_t used = 0;
    for (size_t k = 0; k < n; k++) {
        double a = x[k];
        size_t kept = 0;
        for (size_t i = 0; i < used; i++) {
            double b = part[i], high, low;
            if (fabs(a) < fabs(b)) {
                double t = a;
                a = b;
                b = t;
            }
            high = a + b;
            low = b - (high - a);
            if (low != 0) part[kept++] = low;
            a = high;
        }
        part[kept++] = a;
        used = kept;
    }
    double high = 0, low = 0;
    while (used > 0 && low == 0) {
        double a = high, b = part[--used];
        high = a + b;
        low = b - (high - a);
    }
    if (used > 0 && ((low < 0 && part[used - 1] < 0) || (low > 0 && part[used - 1] > 0))) {
        double b = low * 2, sum = high + b; /* a tie that the rest decides */
        if (b == sum - high) high = sum;
    }
    return high;
}

double oracle_mean(const double *absmax, size_t n)
{
    return n ? f32(exact_sum(absmax, n) / (double)n) : 0;
}

double oracle_nest(const double *absmax, size_t n, double offset, uint32_t *codes)
{
    double second = 0;
    for (size_t i = 0; i < n; i++) second = fmax(second, fabs(f32(absmax[i] - offset)));
    double divisor = fmax(second, f32(1e-38)), inverse = f32(1 / divisor);
    for (size_t i = 0; i < n; i++) {
        double a = f32(absmax[i] - offset);
        double c = f32(n == 256 ? a * inverse : a / divisor);
        codes[i] = oracle_nearest_map(clamp(c, -1, 1));
    }
    return second;
}

/* --- decode ----------------------------------------------------------------------------------- */

double oracle_decode(const kerf_format *f, uint32_t code, uint32_t scale_bits, uint32_t zero,
                     double second, double offset)
{
    double v = oracle_element(f->element, code), scale = oracle_scale_value(f->scale, scale_bits);
    if (f->scale == KERF_SCALE_NONE) return v;
    if (f->zero == KERF_ZERO_CODE && f->bits == 8)
        v = (double)(code ^ 0x80) - (double)(zero ^ 0x80);
    else if (f->zero == KERF_ZERO_CODE)
        v = (double)code - (double)zero;
    if (f->second == KERF_SECOND_TENSOR) scale = f32(scale * second);
    if (f->second == KERF_SECOND_NESTED) scale = f32(f32(scale * second) + offset);
    return f32(v * scale);
}

/* --- the table -------------------------------------------------------------------------------- */

/* Which rule each encoder follows. Whoever adds an encoder adds a line: its traits, and its rule
 * restated above, or none (NULL): then it must at least be NEAREST within its slack.
 *
 * Why some traits are missing: a search may clip the largest element, so its own output has another
 * amax; a range of unsigned integers is not always used to its ends, and its grid is not the
 * mirror image of itself; -Q - 1 has no positive partner; the NF4 book is lopsided; 4/6, -448 and
 * sweep compare errors of the input, which a second pass no longer has. hqq and ct choose a grid
 * with a zero point that need not suit the range; bnb passes through fp16; ggml's E4M3 has fewer
 * codes than its range; the range of awq and hqq need not hold zero, so padding would widen it;
 * nor can a group of one value have a range below awq's least, 1e-5, which does not scale.
 * KERF_FAMILY_NONE stands for any other family. */
#define SLACK 0x1p-20
#define ROUGH \
    0x1p-6 /* rounds to the source's type on its way, or for another scale than it stores */
enum {
    LINEAR = ORACLE_SCALES | ORACLE_NEAREST | ORACLE_PADS,
    PADDED = ORACLE_SCALES | ORACLE_PADS,
    MIRRORED = LINEAR | ORACLE_SYMMETRIC,
    ALL = MIRRORED | ORACLE_IDEMPOTENT
};

/* clang-format off */
static const oracle_rule rules[] = {
    {KERF_FAMILY_CAST,   "rne",            ALL,      0,     answer_cast,   0},
    {KERF_FAMILY_FP8,    "amax",           ALL,      SLACK, answer_fp8,    0},
    {KERF_FAMILY_MX,     "floor",          ALL,      0,     answer_mx,     MX_FLOOR},
    {KERF_FAMILY_MX,     "rceil",          ALL,      0,     answer_mx,     MX_RCEIL},
    {KERF_FAMILY_MX,     "even",           ALL,      0,     answer_mx,     MX_EVEN},
    {KERF_FAMILY_MX,     "ceil",           ALL,      0,     answer_mx,     MX_CEIL},
    {KERF_FAMILY_MX,     "search",         ALL,      0,     answer_mx,     MX_SEARCH},
    {KERF_FAMILY_NVFP4,  "amax",           ALL,      SLACK, answer_nvfp4,  NV_AMAX | NV_448},
    {KERF_FAMILY_NVFP4,  "4/6",            MIRRORED, SLACK, answer_nvfp4,  NV_MSE},
    {KERF_FAMILY_NVFP4,  "4/6-mae",        MIRRORED, SLACK, answer_nvfp4,  NV_MAE},
    {KERF_FAMILY_NVFP4,  "4/6-absmax",     MIRRORED, SLACK, answer_nvfp4,  NV_ABSMAX},
    {KERF_FAMILY_NVFP4,  "4/6-448",        MIRRORED, SLACK, answer_nvfp4,  NV_MSE | NV_448},
    {KERF_FAMILY_NVFP4,  "4/6-mae-448",    MIRRORED, SLACK, answer_nvfp4,  NV_MAE | NV_448},
    {KERF_FAMILY_NVFP4,  "4/6-absmax-448", MIRRORED, SLACK, answer_nvfp4,  NV_ABSMAX | NV_448},
    {KERF_FAMILY_NVFP4,  "sweep",          MIRRORED, SLACK, answer_nvfp4,  NV_SWEEP},
    {KERF_FAMILY_NF4,    "bnb-cpu",        LINEAR | ORACLE_IDEMPOTENT, SLACK, answer_nf4, 0},
    {KERF_FAMILY_INT,    "amax",           ALL,      SLACK, answer_int,    AMAX},
    {KERF_FAMILY_INT,    "search",         LINEAR,   SLACK, answer_int,    SEARCH},
    {KERF_FAMILY_AFFINE, "minmax",         LINEAR,   SLACK, answer_affine, AMAX},
    {KERF_FAMILY_AFFINE, "search",         LINEAR,   SLACK, answer_affine, SEARCH},

    {KERF_FAMILY_FP8,    "modelopt",       LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_FP8,    "ct",             LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_FP8,    "torchao",        LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_FP8,    "deepseek",       LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_MX,     "torchao",        LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_MX,     "ct",             LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_MX,     "modelopt",       LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_MX,     "microxcaling",   LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_MX,     "ggml",           LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_NVFP4,  "te",             LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_NVFP4,  "modelopt",       LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_NVFP4,  "modelopt-static", LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_NVFP4,  "ct",             LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_NVFP4,  "ct-fp32",        LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_NVFP4,  "torchao",        LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_NVFP4,  "static_6",       LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_NVFP4,  "static_4",       LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_NVFP4,  "autoround",      LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_INT,    "ct",             LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_INT,    "torchao",        LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_INT,    "modelopt",       LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_INT,    "gptq",           LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_INT,    "bnb",            PADDED, ROUGH, NULL, 0},
    {KERF_FAMILY_AFFINE, "ct",             PADDED, ROUGH, NULL, 0},
    {KERF_FAMILY_AFFINE, "torchao",        LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_AFFINE, "gptq",           LINEAR, ROUGH, NULL, 0},
    {KERF_FAMILY_AFFINE, "awq",            ORACLE_NEAREST, ROUGH, NULL, 0},
    {KERF_FAMILY_AFFINE, "hqq",            0,      ROUGH, NULL, 0},
    {KERF_FAMILY_NONE,   "ggml",           ORACLE_NEAREST, ROUGH, NULL, 0},
};
/* clang-format on */

const oracle_rule *oracle_find(kerf_codec c)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if ((rules[i].family == c.encoder->family || rules[i].family == KERF_FAMILY_NONE) &&
            strcmp(rules[i].encoder, c.encoder->name) == 0)
            return &rules[i];
    return NULL;
}
