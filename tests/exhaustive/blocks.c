/* blocks.c - every finite bfloat16 number, as an element of a block whose largest element has each
 * of the 128 mantissas, through every encoder, against oracle.h.
 *
 * bfloat16 because weights are; all mantissas because that is where encoders differ: the scaled
 * elements fall on exact ties, and one operation rounded otherwise flips them (random fp32 numbers
 * meet no tie in their life). A group holds neighbours in magnitude, with both signs; its largest
 * element lies 0 to D binades above them, D as wide as the element type, so that each number meets
 * the top, the middle and the subnormal end of the grid. Matrices with a second-level scale draw
 * its amax up to 20 binades above that: scales become subnormal and vanish.
 *
 * Encoders without a restated rule are held to "the nearest of all numbers that the stored scale
 * can express". Then every code under every scale is decoded. */
#include "exhaustive/coded.h"
#include "exhaustive/options.h"
#include "exhaustive/oracle.h"

#include <math.h>

enum { FINITE = 2 * 0x7f80, MANTISSAS = 128, MAX_CODECS = 512, MAX_REPORTS = 5 };

/* How the groups of a format are laid out in a test tensor [matrices, rows, cols]. */
typedef struct layout {
    unsigned rows, cols;    /* of a matrix                                       */
    unsigned groups, width; /* per matrix; elements of one                       */
    unsigned payload;       /* groups per matrix that hold numbers to be tested  */
    unsigned binades;       /* between those and the largest element of a group  */
} layout;

typedef struct tally {
    char name[64];
    kerf_codec codec;
    const oracle_rule *rule;
    uint64_t elements, failures;
} tally;

static tally tallies[MAX_CODECS];
static size_t tally_count;

static void report(tally *t, const char *what, double x, double got, double want)
{
#pragma omp critical(report)
    if (t->failures++ < MAX_REPORTS)
        printf("%s: %s: x = %a, stored %a, expected %a\n", t->name, what, x, got, want);
}

static unsigned binades_of(kerf_element e)
{
    return e == KERF_ELEM_E5M2 ? 34 : e == KERF_ELEM_E4M3 ? 20 : e >= KERF_ELEM_S4 ? 6 : 10;
}

static layout layout_of(const kerf_format *f)
{
    layout l = {1, 32, 1, 32, 1, binades_of(f->element)};
    if (f->geometry == KERF_GROUP_BLOCK || f->geometry == KERF_GROUP_FLAT)
        l.cols = l.width = f->group;
    unsigned multiple = row_multiple(f);
    if (multiple > 1) { /* byte structs of some groups */
        l.width = f->group;
        l.cols = multiple;
        l.groups = l.payload = multiple / f->group;
    }
    if (f->geometry == KERF_GROUP_TENSOR || f->geometry == KERF_GROUP_TILE) {
        l.rows = 4;
        l.cols = 8;
    }
    if (f->second == KERF_SECOND_TENSOR) { /* the last block holds the amax of the matrix */
        l.rows = l.groups = 8;
        l.payload = 7;
    }
    return l;
}

/* --- sources ---------------------------------------------------------------------------------- */

/* Number j of all finite bfloat16 numbers by magnitude, + before -. */
static uint16_t number(uint64_t j)
{
    j %= FINITE;
    return (uint16_t)(j >> 1 | (j & 1) << 15);
}

static unsigned exponent_above(unsigned magnitude, unsigned binades, unsigned mantissa)
{
    unsigned exponent = (magnitude >> 7) + binades;
    if (binades == 0 && mantissa < (magnitude & 0x7f)) exponent++;
    return exponent > 0xfe ? 0xfe : exponent;
}

/* Group k: its numbers, and one of the given mantissa above them. Returns that one's exponent. */
static unsigned fill_group(uint16_t *x, const layout *l, uint64_t k, unsigned mantissa, uint64_t h)
{
    unsigned top = 0, place = (unsigned)(h % l->width), n = 0;
    for (unsigned i = 0; i < l->width; i++) {
        if (i == place) continue;
        x[i] = number(k * (l->width - 1) + n++);
        if ((x[i] & 0x7fffu) > top) top = x[i] & 0x7fffu;
    }
    unsigned exponent = exponent_above(top, (unsigned)(h >> 8) % l->binades, mantissa);
    x[place] = (uint16_t)(exponent << 7 | mantissa | (h >> 16 & 1) << 15);
    return exponent;
}

/* Matrix k of mantissa m. */
static void fill_matrix(uint16_t *x, const layout *l, uint64_t k, unsigned m)
{
    unsigned top = 0;
    uint64_t h = mix_bits(k << 7 | m);
    for (unsigned i = 0; i < l->payload; i++) {
        unsigned e = fill_group(x + i * l->width, l, k * l->payload + i, m, mix_bits(h + i));
        if (e > top) top = e;
    }
    if (l->payload == l->groups) return;
    uint16_t *last = x + l->payload * l->width;
    unsigned above = top + (unsigned)(h >> 40) % 20;
    memset(last, 0, l->width * sizeof *last);
    last[0] = (uint16_t)((above > 0xfe ? 0xfe : above) << 7 | (h >> 50 & 0x7f));
    last[1] = number(h >> 20);
    if ((last[1] & 0x7fff) > last[0]) last[1] = 0;
}

static float widen(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* --- comparing -------------------------------------------------------------------------------- */

/* Bits [i * bits, (i + 1) * bits) of a little-endian stream. */
static uint32_t stream_at(const void *p, unsigned bits, uint64_t i)
{
    const uint8_t *bytes = p;
    uint32_t v = 0;
    for (unsigned b = 0; b < bits; b++)
        v |= (uint32_t)(bytes[(i * bits + b) / 8] >> (i * bits + b) % 8 & 1) << b;
    return v;
}

typedef struct test {
    tally *t;
    layout l;
    coded c;
    unsigned matrices;
    unsigned tail; /* elements of the short last group; 0: it is whole */
    uint16_t *source;
    float *x;
} test;

static uint32_t code_at(const test *t, uint64_t group, unsigned i)
{
    const kerf_format *f = t->c.codec.format;
    uint64_t row = group * t->l.width / t->l.cols, in_group = group * t->l.width % t->l.cols + i;
    row += in_group / t->l.cols;
    uint64_t col = in_group % t->l.cols;
    if (f->element == KERF_ELEM_NF4) col ^= 1; /* the even element is in the high nibble */
    size_t row_bytes = (t->l.cols * f->bits + 7) / 8;
    return stream_at((uint8_t *)t->c.plane[KERF_PLANE_CODES].p + row * row_bytes, f->bits, col);
}

static uint32_t scale_bits_at(const test *t, uint64_t group)
{
    unsigned bits = kerf_dtype_bits(t->c.g.plane[KERF_PLANE_SCALES].dtype);
    return bits ? stream_at(t->c.plane[KERF_PLANE_SCALES].p, bits, group) : 0;
}

/* The part of one group: codes and zero point; nf4-dq's scales are compared by the run. */
static void compare_group(test *t, uint64_t group, const oracle_answer *a, const oracle_group *g)
{
    const float *x = g->x;
    const kerf_format *f = t->c.codec.format;
    double stored = oracle_scale_value(f->scale, scale_bits_at(t, group));
    if (f->scale != KERF_SCALE_NONE && f->second != KERF_SECOND_NESTED &&
        !(stored == a->scale && !signbit(stored)))
        report(t->t, "scale", (double)x[0], stored, a->scale);
    if (f->zero == KERF_ZERO_CODE) {
        uint32_t zero = ((uint8_t *)t->c.plane[KERF_PLANE_ZEROS].p)[group];
        if (zero != a->zero) report(t->t, "zero point", (double)x[0], zero, a->zero);
    }
    for (unsigned i = 0; i < g->n; i++) {
        uint32_t code = code_at(t, group, i);
        if (code != a->code[i]) report(t->t, "code", (double)x[i], code, a->code[i]);
    }
}

static double stored_float(const kerf_span plane, uint64_t i)
{
    float x;
    memcpy(&x, (uint8_t *)plane.p + 4 * i, 4);
    return (double)x;
}

static void compare_nested(test *t, const double *absmax, size_t n)
{
    uint32_t codes[256];
    double offset = oracle_mean(absmax, n);
    double stored = stored_float(t->c.plane[KERF_PLANE_ZEROS], 0);
    if (stored != offset) report(t->t, "offset", 0, stored, offset);
    for (size_t at = 0; at < n; at += 256) {
        size_t run = n - at < 256 ? n - at : 256;
        double second = oracle_nest(absmax + at, run, offset, codes);
        stored = stored_float(t->c.plane[KERF_PLANE_SECOND], at / 256);
        if (stored != second) report(t->t, "second-level scale", 0, stored, second);
        for (size_t i = 0; i < run; i++) {
            uint32_t got = scale_bits_at(t, at + i);
            if (got != codes[i]) report(t->t, "nested scale", absmax[at + i], got, codes[i]);
        }
    }
}

static void compare_with_rule(test *t)
{
    const kerf_format *f = t->c.codec.format;
    const oracle_rule *rule = t->t->rule;
    size_t groups = (size_t)t->matrices * t->l.groups;
    double *absmax = must_alloc(groups * sizeof *absmax);
    for (unsigned m = 0; m < t->matrices; m++) {
        const kerf_stats *stats = &t->c.stats[t->c.g.matrices > 1 ? m : 0];
        for (unsigned i = 0; i < t->l.groups; i++) {
            uint64_t group = (uint64_t)m * t->l.groups + i;
            const float *x = t->x + group * t->l.width;
            int whole = !t->tail || group + 1 < groups;
            oracle_group g = {x, whole ? t->l.width : t->tail, whole, (double)stats->amax};
            oracle_answer a = {0};
            rule->answer(f, rule->variant, &g, &a);
            absmax[group] = a.scale;
            compare_group(t, group, &a, &g);
        }
        if (f->second != KERF_SECOND_TENSOR) continue;
        double want = oracle_second(rule->variant, (double)stats->amax);
        double got = stored_float(t->c.plane[KERF_PLANE_SECOND], m);
        if (got != want) report(t->t, "second-level scale", 0, got, want);
    }
    if (f->second == KERF_SECOND_NESTED) compare_nested(t, absmax, groups);
    free(absmax);
}

/* No rule: no other code would have come closer, but for rounding on the way. */
static void compare_with_nearest(test *t)
{
    const kerf_format *f = t->c.codec.format;
    size_t n = (size_t)t->c.g.elements;
    float *value = must_alloc(n * sizeof *value), *other = must_alloc(n * sizeof *other);
    double *least = must_alloc(n * sizeof *least);
    for (size_t i = 0; i < n; i++) least[i] = INFINITY;
    for (uint32_t code = 0; code < 1u << f->bits; code++) {
        coded_decode_all_as(&t->c, code, other);
        for (size_t i = 0; i < n; i++) {
            double d = fabs((double)other[i] - (double)t->x[i]);
            if (d < least[i]) least[i] = d;
        }
    }
    coded_decode(&t->c, value);
    /* Where the type of the scale ends, nothing is promised. */
    const double low = f->scale == KERF_SCALE_F16 ? 0x1p-8 : 0x1p-90;
    const double high = f->scale == KERF_SCALE_F16 ? 0x1p15 : 0x1p100;
    for (size_t i = 0; i < n; i++) {
        double x = (double)t->x[i], d = fabs((double)value[i] - x);
        if (fabs(x) < low || fabs(x) > high) continue;
        if (!(d <= least[i] + t->t->rule->slack * (fabs(x) + d)) && !isinf(least[i]))
            report(t->t, "not the nearest", x, (double)value[i], least[i]);
    }
    free(least);
    free(other);
    free(value);
}

/* --- running ---------------------------------------------------------------------------------- */

/* Matrices `first`, `first` + `step`, ... of one mantissa. one_sided: magnitudes only, so that
 * the range of a group ends at zero. */
static uint64_t run_mantissa(tally *tally_of, unsigned m, uint64_t first, uint64_t step,
                             int one_sided)
{
    const kerf_format *f = tally_of->codec.format;
    test t = {.t = tally_of, .l = layout_of(f)};
    uint64_t per_matrix = (uint64_t)t.l.payload * (t.l.width - 1);
    uint64_t all = (FINITE + per_matrix - 1) / per_matrix;
    if (first >= all) return 0;
    t.matrices = (unsigned)((all - first + step - 1) / step);
    size_t size = (size_t)t.l.rows * t.l.cols, n = t.matrices * size;
    kerf_shape shape = {3, {t.matrices, t.l.rows, t.l.cols}};
    if (f->geometry == KERF_GROUP_FLAT) {
        t.tail = 1 + m % (t.l.width - 1);
        shape = (kerf_shape){1, {n - t.l.width + t.tail}};
    }
    coded_init(&t.c, tally_of->codec, shape);
    t.source = must_alloc(n * sizeof *t.source);
    t.x = must_alloc(n * sizeof *t.x);
    for (unsigned i = 0; i < t.matrices; i++)
        fill_matrix(t.source + i * size, &t.l, first + i * step, m);
    for (size_t i = 0; one_sided && i < n; i++)
        t.source[i] = (uint16_t)((t.source[i] & 0x7fff) | (m & 1) << 15);
    for (size_t i = 0; i < n; i++) t.x[i] = widen(t.source[i]);
    coded_encode(&t.c, t.source, KERF_BF16);
    if (tally_of->rule->answer)
        compare_with_rule(&t);
    else if (tally_of->rule->traits & ORACLE_NEAREST)
        compare_with_nearest(&t);
    free(t.source);
    free(t.x);
    coded_free(&t.c);
    return n;
}

static void run_codec(tally *t, const test_options *o, uint64_t step)
{
    uint64_t n = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : n)
    for (int m = 0; m < MANTISSAS; m++) {
        uint64_t first = mix_bits(o->seed + (uint64_t)m) % step;
        n += run_mantissa(t, (unsigned)m, first, step, 0);
        if (t->codec.format->zero == KERF_ZERO_CODE)
            n += run_mantissa(t, (unsigned)m, first, step, 1);
    }
    t->elements = n;
}

/* --- decode ----------------------------------------------------------------------------------- */

/* Every code under 256 scales: all there are of a one-byte scale, else a mixture. One row each. */
static uint32_t scale_pattern(kerf_scale_kind k, unsigned row)
{
    uint32_t random = (uint32_t)mix_bits(row);
    return k == KERF_SCALE_F32    ? (random & 0x7fffffffu) % 0x7f800000u
           : k == KERF_SCALE_F16  ? (random & 0x7fffu) % 0x7c00u
           : k == KERF_SCALE_BF16 ? (random & 0x7fffu) % 0x7f80u
                                  : row;
}

static void put_bytes(void *plane, uint64_t i, unsigned bytes, uint32_t value)
{
    for (unsigned b = 0; b < bytes; b++)
        ((uint8_t *)plane)[i * bytes + b] = (uint8_t)(value >> 8 * b);
}

enum { ROWS = 256, COLS = 256 };
static const float seconds[] = {1, 0.0007441f, 1.5e-30f, 3e20f};

static void fill_planes(coded *c, unsigned round)
{
    const kerf_format *f = c->codec.format;
    kerf_span codes = c->plane[KERF_PLANE_CODES], scales = c->plane[KERF_PLANE_SCALES];
    unsigned scale_bytes = kerf_dtype_bits(c->g.plane[KERF_PLANE_SCALES].dtype) / 8;
    uint64_t entries = scale_bytes ? scales.n / scale_bytes : 0;
    for (size_t bit = 0; bit < codes.n * 8; bit++) {
        size_t element = bit / f->bits;
        if (element * f->bits / 8 >= codes.n) break;
        uint32_t code = (uint32_t)(element % COLS);
        ((uint8_t *)codes.p)[bit / 8] |= (uint8_t)((code >> bit % f->bits & 1) << bit % 8);
    }
    for (uint64_t i = 0; i < entries; i++)
        put_bytes(scales.p, i, scale_bytes,
                  scale_pattern(f->scale, (unsigned)(i * ROWS / entries)));
    for (size_t i = 0; i < c->plane[KERF_PLANE_SECOND].n / 4; i++)
        memcpy((uint8_t *)c->plane[KERF_PLANE_SECOND].p + 4 * i, &seconds[round], 4);
    if (f->zero == KERF_ZERO_F32) memcpy(c->plane[KERF_PLANE_ZEROS].p, &(float){0.01f}, 4);
    if (f->zero == KERF_ZERO_CODE)
        for (size_t i = 0; i < c->plane[KERF_PLANE_ZEROS].n; i++)
            ((uint8_t *)c->plane[KERF_PLANE_ZEROS].p)[i] = (uint8_t)mix_bits(i);
}

/* Zero point of element i: by group, or one per matrix. */
static uint32_t zero_at(const coded *c, uint64_t row, uint64_t col)
{
    const kerf_format *f = c->codec.format;
    const uint8_t *zeros = c->plane[KERF_PLANE_ZEROS].p;
    if (f->zero != KERF_ZERO_CODE) return 0;
    if (f->geometry != KERF_GROUP_BLOCK) return zeros[row] & ((1u << f->bits) - 1);
    uint64_t per_row = COLS / f->group, row_bytes = (per_row * f->bits + 7) / 8;
    return stream_at(zeros + row * row_bytes, f->bits, col / f->group);
}

static uint64_t check_decoder(tally *t)
{
    const kerf_format *f = t->codec.format;
    float *out = must_alloc(ROWS * COLS * sizeof *out);
    unsigned rounds = f->second == KERF_SECOND_NONE ? 1 : sizeof seconds / sizeof *seconds;
    for (unsigned round = 0; round < rounds; round++) {
        coded c;
        coded_init(&c, t->codec, (kerf_shape){3, {ROWS, 1, COLS}});
        fill_planes(&c, round);
        coded_decode(&c, out);
        for (unsigned i = 0; i < ROWS * COLS; i++) {
            uint32_t code = stream_at(c.plane[KERF_PLANE_CODES].p, f->bits,
                                      f->element == KERF_ELEM_NF4 ? i ^ 1 : i);
            double want = oracle_decode(f, code, scale_pattern(f->scale, i / COLS),
                                        zero_at(&c, i / COLS, i % COLS), (double)seconds[round],
                                        (double)0.01f);
            double got = (double)out[i];
            int same = isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want);
            if (!same) report(t, "decode", code, got, want);
        }
        coded_free(&c);
    }
    free(out);
    return (uint64_t)rounds * ROWS * COLS;
}

/* --- main ------------------------------------------------------------------------------------- */

static int list_codecs(void)
{
    int missing = 0;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        for (size_t e = 0; e < kerf_encoder_count(f) && tally_count < MAX_CODECS; e++) {
            tally *t = &tallies[tally_count++];
            t->codec = (kerf_codec){f, kerf_encoder_at(f, e)};
            t->rule = oracle_find(t->codec);
            kerf_codec_name(t->codec, t->name, sizeof t->name);
            if (t->rule) continue;
            printf("%s: no rule in tests/exhaustive/oracle.c\n", t->name);
            missing++;
        }
    }
    return missing;
}

int main(int argc, char **argv)
{
    test_options o = read_options(argc, argv);
    double start = seconds_now();
    uint64_t encoded = 0, decoded = 0, failures = 0;
    oracle_init();
    int missing = list_codecs();
    /* The stratified part: 2^24 elements over all codecs. */
    uint64_t step = o.full ? 1 : tally_count * FINITE * MANTISSAS / (1u << 24);
    for (size_t i = 0; i < tally_count; i++) {
        tally *t = &tallies[i];
        double begin = seconds_now();
        if (!t->rule) continue;
        if (!takes_source(t->codec, KERF_BF16)) {
            printf("%s does not take bfloat16\n", t->name);
            continue;
        }
        run_codec(t, &o, step);
        int first = t->codec.encoder == kerf_encoder_at(t->codec.format, 0);
        if (first && t->codec.format->bits <= 8 && row_multiple(t->codec.format) == 1)
            decoded += check_decoder(t);
        encoded += t->elements;
        failures += t->failures;
        if (o.full || t->failures)
            printf("%-28s %9llu elements  %6llu differences  %6.2f s\n", t->name,
                   (unsigned long long)t->elements, (unsigned long long)t->failures,
                   seconds_now() - begin);
    }
    printf("%zu codecs, %llu elements encoded, %llu codes decoded, %llu differences, "
           "%d without a rule, %.1f s\n",
           tally_count, (unsigned long long)encoded, (unsigned long long)decoded,
           (unsigned long long)failures, missing, seconds_now() - start);
    return failures || missing ? 1 : 0;
}
