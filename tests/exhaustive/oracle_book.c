/* oracle_book.c - see oracle_book.h. */
#include "exhaustive/oracle_book.h"

#include "exhaustive/coded.h"

#include <math.h>

/* --- books: the values of all codes of an element, sorted ------------------------------------- */

typedef struct book {
    unsigned n;
    double value[256], edge[256]; /* edge[i] lies between values i and i + 1 */
    uint32_t code[256];
    uint32_t minus; /* sign bit that a negative zero keeps; 0: none */
    int edge_to_even;
} book;

static book books[KERF_ELEM_U2 + 1], map_book;

static double minifloat(int exp_bits, int man_bits, int bias, uint32_t code)
{
    uint32_t man = code & ((1u << man_bits) - 1);
    int exp = (int)(code >> man_bits & ((1u << exp_bits) - 1));
    double magnitude = exp ? ldexp((double)(man + (1u << man_bits)), exp - bias - man_bits)
                           : ldexp((double)man, 1 - bias - man_bits);
    return code >> (exp_bits + man_bits) & 1 ? -magnitude : magnitude;
}

/* The same, but the largest exponent means Inf and NaN. */
static double ieee(int exp_bits, int man_bits, int bias, uint32_t code)
{
    uint32_t magnitude = code & ((1u << (exp_bits + man_bits)) - 1);
    uint32_t infinity = ((1u << exp_bits) - 1) << man_bits;
    if (magnitude > infinity) return (double)NAN;
    if (magnitude < infinity) return minifloat(exp_bits, man_bits, bias, code);
    return code >> (exp_bits + man_bits) & 1 ? -(double)INFINITY : (double)INFINITY;
}

static double twos_complement(unsigned bits, uint32_t code)
{
    double range = ldexp(1, (int)bits);
    return (double)code < range / 2 ? (double)code : (double)code - range;
}

/* clang-format off */
static const double nf4_values[16] = {
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0};
/* clang-format on */

static double element_value(kerf_element e, uint32_t code)
{
    switch (e) {
    case KERF_ELEM_F32: return ieee(8, 23, 127, code);
    case KERF_ELEM_F16: return ieee(5, 10, 15, code);
    case KERF_ELEM_BF16: return ieee(8, 7, 127, code);
    case KERF_ELEM_E4M3: return (code & 0x7f) == 0x7f ? (double)NAN : minifloat(4, 3, 7, code);
    case KERF_ELEM_E5M2: return ieee(5, 2, 15, code);
    case KERF_ELEM_E2M3: return minifloat(2, 3, 1, code);
    case KERF_ELEM_E3M2: return minifloat(3, 2, 3, code);
    case KERF_ELEM_E2M1: return minifloat(2, 1, 1, code);
    case KERF_ELEM_MXI8: return twos_complement(8, code) / 64;
    case KERF_ELEM_NF4: return f32(nf4_values[code & 15]);
    case KERF_ELEM_S8: return twos_complement(8, code);
    case KERF_ELEM_S4: return twos_complement(4, code);
    case KERF_ELEM_S2: return twos_complement(2, code);
    default: return code;
    }
}

static double values[KERF_ELEM_U2 + 1][256]; /* of the elements of at most 8 bits */

double oracle_element(kerf_element e, uint32_t code)
{
    return e < KERF_ELEM_E4M3 ? element_value(e, code) : values[e][code & 0xff];
}

static void add_value(book *b, double value, uint32_t code)
{
    unsigned i = b->n++;
    for (; i > 0 && b->value[i - 1] > value; i--) {
        b->value[i] = b->value[i - 1];
        b->code[i] = b->code[i - 1];
    }
    b->value[i] = value;
    b->code[i] = code;
}

static void fill_book(kerf_element e, unsigned bits, int is_float)
{
    book *b = &books[e];
    b->edge_to_even = e != KERF_ELEM_NF4;
    b->minus = is_float ? 1u << (bits - 1) : 0;
    for (uint32_t code = 0; code < 1u << bits; code++) {
        double value = oracle_element(e, code);
        if (!isfinite(value)) continue;
        if (is_float && code == b->minus) continue;        /* -0: see nearest() */
        if (e == KERF_ELEM_MXI8 && code == 0x80) continue; /* left unused */
        add_value(b, value, code);
    }
    for (unsigned i = 0; i + 1 < b->n; i++) {
        double edge = (b->value[i] + b->value[i + 1]) / 2;
        b->edge[i] = e == KERF_ELEM_NF4 ? f32(edge) : edge;
    }
}

static uint32_t nearest(const book *b, double y)
{
    unsigned low = 0, high = b->n - 1;
    while (low < high) { /* the first i with y not beyond edge i */
        unsigned i = (low + high) / 2;
        int stays =
            y < b->edge[i] || (y == b->edge[i] && (!b->edge_to_even || b->code[i] % 2 == 0));
        if (stays)
            high = i;
        else
            low = i + 1;
    }
    return b->value[low] == 0 && signbit(y) ? b->code[low] | b->minus : b->code[low];
}

/* The same without the edges' help: looks at every code. */
static uint32_t nearest_of_all(const book *b, double y)
{
    unsigned best = 0;
    for (unsigned i = 1; i < b->n; i++) {
        double d = fabs(b->value[i] - y), least = fabs(b->value[best] - y);
        if (d < least || (d == least && b->edge_to_even && b->code[i] % 2 == 0)) best = i;
    }
    return b->value[best] == 0 && signbit(y) ? b->code[best] | b->minus : b->code[best];
}

static void check_book(const book *b)
{
    for (unsigned i = 0; i + 1 < b->n; i++)
        for (int k = -2; k <= 2; k++) {
            double y = b->edge[i] + k * 0x1p-30 * (fabs(b->edge[i]) + 0x1p-20);
            if (nearest(b, y) == nearest_of_all(b, y)) continue;
            fprintf(stderr, "oracle: bisection and search disagree at %a\n", y);
            exit(1);
        }
}

/* The signed dynamic map is data of bitsandbytes: taken as it decodes, and held against its
 * definition (fractions 0.1 .. 1 in 2^i steps times 10^(i - 6)). */
static void fill_map(void)
{
    float out[256 * 64];
    kerf_codec c;
    coded t;
    if (kerf_codec_find("nf4-dq", &c, NULL) != KERF_OK) return;
    coded_init(&t, c, (kerf_shape){1, {256 * 64}});
    memset(t.plane[KERF_PLANE_CODES].p, 0xff, t.plane[KERF_PLANE_CODES].n);
    for (unsigned i = 0; i < 256; i++) ((uint8_t *)t.plane[KERF_PLANE_SCALES].p)[i] = (uint8_t)i;
    memcpy(t.plane[KERF_PLANE_SECOND].p, &(float){1}, sizeof(float));
    coded_decode(&t, out);
    coded_free(&t);
    for (unsigned i = 0; i < 256; i++) add_value(&map_book, (double)out[64 * (size_t)i], i);
    for (unsigned i = 0; i < 255; i++)
        map_book.edge[i] = f32(f32(map_book.value[i] + map_book.value[i + 1]) * 0.5);
    book want = {0};
    add_value(&want, 0, 0);
    add_value(&want, 1, 0);
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 1 << i; k++) {
            double mean = 0.1 + 0.9 * (k + 0.5) / (1 << i);
            add_value(&want, mean * pow(10, i - 6), 0);
            add_value(&want, -mean * pow(10, i - 6), 0);
        }
    for (unsigned i = 0; i < 256; i++)
        if (fabs(want.value[i] - map_book.value[i]) > 4e-7 * fabs(want.value[i])) {
            fprintf(stderr, "oracle: entry %u of the dynamic map is %a\n", i, map_book.value[i]);
            exit(1);
        }
}

void oracle_init(void)
{
    for (int e = KERF_ELEM_E4M3; e <= KERF_ELEM_U2; e++)
        for (uint32_t code = 0; code < 256; code++)
            values[e][code] = element_value((kerf_element)e, code);
    fill_book(KERF_ELEM_E4M3, 8, 1);
    fill_book(KERF_ELEM_E5M2, 8, 1);
    fill_book(KERF_ELEM_E2M3, 6, 1);
    fill_book(KERF_ELEM_E3M2, 6, 1);
    fill_book(KERF_ELEM_E2M1, 4, 1);
    fill_book(KERF_ELEM_MXI8, 8, 0);
    fill_book(KERF_ELEM_S8, 8, 0);
    fill_book(KERF_ELEM_S4, 4, 0);
    fill_book(KERF_ELEM_S2, 2, 0);
    fill_book(KERF_ELEM_NF4, 4, 0);
    for (int e = KERF_ELEM_E4M3; e < KERF_ELEM_NF4; e++) check_book(&books[e]);
    fill_map();
}

double oracle_map(uint32_t code)
{
    return map_book.value[code];
}

uint32_t oracle_nearest(kerf_element e, double y)
{
    return nearest(&books[e], y);
}

uint32_t oracle_nearest_map(double y)
{
    return nearest(&map_book, y);
}

/* --- rounding --------------------------------------------------------------------------------- */

double oracle_round(double x, int p, int emin)
{
    if (x == 0 || !isfinite(x)) return x;
    int e = ilogb(x);
    double step = ldexp(1, (e < emin ? emin : e) - p + 1);
    return rne(x / step) * step;
}

/* What the oracle must know of a type; p: significant bits. */
typedef struct type_facts {
    int p, emin;
    double largest;
} type_facts;

static type_facts facts_of(kerf_dtype type)
{
    return type == KERF_F16    ? (type_facts){11, -14, 65504}
           : type == KERF_BF16 ? (type_facts){8, -126, 0x1.fep127}
                               : (type_facts){24, -126, ORACLE_MAX};
}

double oracle_in(kerf_dtype type, double x)
{
    double y = f32(x);
    if (type == KERF_F32) return y;
    type_facts t = facts_of(type);
    y = oracle_round(y, t.p, t.emin);
    return fabs(y) > t.largest ? copysign((double)INFINITY, y) : y;
}

double oracle_eps(kerf_dtype type)
{
    return ldexp(1, 1 - facts_of(type).p);
}

double oracle_tiny(kerf_dtype type)
{
    return ldexp(1, facts_of(type).emin);
}

uint16_t oracle_bits(kerf_dtype type, double x)
{
    type_facts t = facts_of(type);
    double y = fabs(oracle_in(type, x));
    uint32_t sign = signbit(x) ? 0x8000u : 0;
    if (isinf(y)) return (uint16_t)(sign | (type == KERF_F16 ? 0x7c00u : 0x7f80u));
    int e = y < ldexp(1, t.emin) ? t.emin : ilogb(y);
    uint32_t steps = (uint32_t)ldexp(y, t.p - 1 - e); /* with the leading one, if it has one */
    return (uint16_t)(sign | (steps + ((uint32_t)(e - t.emin) << (t.p - 1))));
}

double oracle_number(kerf_dtype type, uint16_t bits)
{
    return oracle_element(type == KERF_F16 ? KERF_ELEM_F16 : KERF_ELEM_BF16, bits);
}

double oracle_amax(const oracle_group *g)
{
    double amax = 0;
    for (unsigned i = 0; i < g->n; i++) amax = at_least(amax, fabs((double)g->x[i]));
    return amax;
}

/* --- scales as stored ------------------------------------------------------------------------- */

static kerf_dtype scale_type(kerf_scale_kind k)
{
    return k == KERF_SCALE_F16 ? KERF_F16 : k == KERF_SCALE_BF16 ? KERF_BF16 : KERF_F32;
}

double oracle_store(kerf_scale_kind k, double x)
{
    type_facts t = facts_of(scale_type(k));
    double r = at_most(t.largest, oracle_in(scale_type(k), x));
    return r == 0 && x > 0 ? ldexp(1, t.emin - t.p + 1) : r;
}

double oracle_quotient(double x, double y)
{
    double q = f32(x / y);
    return q == 0 && x > 0 ? ORACLE_TINY : q;
}
