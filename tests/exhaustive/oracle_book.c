/* oracle_book.c - see oracle_book.h. */
#include "exhaustive/oracle_book.h"

#include "exhaustive/coded.h"

#include <float.h>
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

double oracle_element(kerf_element e, uint32_t code)
{
    switch (e) {
    case KERF_ELEM_F32: return oracle_scale_value(KERF_SCALE_F32, code);
    case KERF_ELEM_F16: return oracle_scale_value(KERF_SCALE_F16, code);
    case KERF_ELEM_BF16: return oracle_scale_value(KERF_SCALE_BF16, code);
    case KERF_ELEM_E4M3: return (code & 0x7f) == 0x7f ? (double)NAN : minifloat(4, 3, 7, code);
    case KERF_ELEM_E5M2:
        if ((code & 0x7f) > 0x7c) return (double)NAN;
        if ((code & 0x7f) == 0x7c) return code & 0x80 ? -(double)INFINITY : (double)INFINITY;
        return minifloat(5, 2, 15, code);
    case KERF_ELEM_E2M3: return minifloat(2, 3, 1, code);
    case KERF_ELEM_E3M2: return minifloat(3, 2, 3, code);
    case KERF_ELEM_E2M1: return minifloat(2, 1, 1, code);
    case KERF_ELEM_MXI8: return twos_complement(8, code) / 64;
    case KERF_ELEM_NF4: return f32(nf4_values[code]);
    case KERF_ELEM_S8: return twos_complement(8, code);
    case KERF_ELEM_S4: return twos_complement(4, code);
    case KERF_ELEM_S2: return twos_complement(2, code);
    default: return code;
    }
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

/* --- scales as stored ------------------------------------------------------------------------- */

double oracle_round(double x, int p, int emin)
{
    if (x == 0) return x;
    int e = ilogb(x);
    double step = ldexp(1, (e < emin ? emin : e) - p + 1);
    return nearbyint(x / step) * step;
}

static double round_as(kerf_scale_kind k, double x)
{
    return k == KERF_SCALE_F16    ? oracle_round(x, 11, -14)
           : k == KERF_SCALE_BF16 ? oracle_round(x, 8, -126)
                                  : f32(x);
}

double oracle_store(kerf_scale_kind k, double x)
{
    double largest = k == KERF_SCALE_F16    ? 65504
                     : k == KERF_SCALE_BF16 ? 0x1.fep127
                                            : (double)FLT_MAX;
    double least = k == KERF_SCALE_F16 ? 0x1p-24 : k == KERF_SCALE_BF16 ? 0x1p-133 : ORACLE_TINY;
    double r = round_as(k, x);
    if (r > largest) return largest;
    return r == 0 && x > 0 ? least : r;
}

double oracle_scale_value(kerf_scale_kind k, uint32_t bits)
{
    float x;
    switch (k) {
    case KERF_SCALE_F16:
        if ((bits & 0x7c00) != 0x7c00) return minifloat(5, 10, 15, bits);
        if (bits & 0x3ff) return (double)NAN;
        return bits & 0x8000 ? -(double)INFINITY : (double)INFINITY;
    case KERF_SCALE_BF16: bits <<= 16; break;
    case KERF_SCALE_E8M0: return bits == 0xff ? (double)NAN : ldexp(1, (int)bits - 127);
    case KERF_SCALE_E4M3: return oracle_element(KERF_ELEM_E4M3, bits);
    case KERF_SCALE_MAP8: return oracle_map(bits);
    default: break;
    }
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

double oracle_quotient(double x, double y)
{
    double q = f32(x / y);
    return q == 0 && x > 0 ? ORACLE_TINY : q;
}
