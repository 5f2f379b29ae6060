/* blocks.c - every finite bfloat16 number, as an element of a block whose largest element has each
 * of the 128 mantissas, through every encoder, against oracle.h. Then every code is decoded.
 *
 * bfloat16 because weights are; all mantissas because that is where encoders differ: the scaled
 * elements fall on exact ties, and one operation rounded otherwise flips them (random fp32 numbers
 * meet no tie in their life). How the numbers are laid out: patterns.h. Encoders that round to the
 * type of their source also run from every fp16 number, and from fp32; those that refuse bfloat16
 * run from what they take. */
#include "exhaustive/run_options.h"
#include "exhaustive/oracle.h"
#include "exhaustive/patterns.h"
#include "exhaustive/oracle_stored.h"

#include <math.h>

enum { MAX_CODECS = 512, MAX_REPORTS = 5 };

/* A codec and a source type. */
typedef struct tally {
    char name[64];
    kerf_codec codec;
    kerf_dtype type;
    const oracle_rule *rule;
    uint64_t elements, failures;
} tally;

static tally tallies[MAX_CODECS];
static size_t tally_count;

static void report(tally *t, const char *what, double x, double got, double want)
{
#pragma omp critical(report)
    if (t->failures++ < MAX_REPORTS)
        printf("%s from %s: %s: x = %a, stored %a, expected %a\n", t->name,
               kerf_dtype_name(t->type), what, x, got, want);
}

/* --- comparing -------------------------------------------------------------------------------- */

typedef struct test {
    tally *t;
    layout l;
    coded c;
    unsigned matrices;
    unsigned tail; /* elements of the short last group; 0: it is whole */
    uint16_t *bits;
    float *x;
} test;

/* The same number, and the same zero. */
static int same(double got, double want)
{
    return isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want);
}

/* The part of one group: codes and zero point; nf4-dq's scales are compared by the run. */
static void compare_group(test *t, uint64_t group, const oracle_answer *a, const oracle_group *g)
{
    const kerf_format *f = t->c.codec.format;
    const int flat = f->geometry == KERF_GROUP_FLAT;
    const uint64_t first = group * t->l.width;
    for (unsigned i = 0; i < g->n; i++) {
        uint64_t row = flat ? 0 : (first + i) / t->l.cols;
        uint64_t col = flat ? first + i : (first + i) % t->l.cols;
        uint32_t code = stored_code(&t->c, row, col);
        if (code != a->code[i]) report(t->t, "code", (double)g->x[i], code, a->code[i]);
        if (i > 0) continue;
        double scale = oracle_scale_value(f, stored_scale(&t->c, row, col));
        if (f->scale != KERF_SCALE_NONE && f->second != KERF_SECOND_NESTED &&
            !same(scale, a->scale))
            report(t->t, "scale", (double)g->x[0], scale, a->scale);
        uint32_t zero = stored_zero(&t->c, row, col);
        if (zero != a->zero) report(t->t, "zero point", (double)g->x[0], zero, a->zero);
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
            uint32_t got = stored_scale(&t->c, 0, (at + i) * t->l.width);
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
            oracle_group g = {x, whole ? t->l.width : t->tail, whole, (double)stats->amax,
                              t->l.type};
            oracle_answer a = {0};
            rule->answer(f, rule->variant, &g, &a);
            absmax[group] = a.scale;
            compare_group(t, group, &a, &g);
        }
        if (f->second != KERF_SECOND_TENSOR) continue;
        double want = oracle_second(rule->variant, (double)stats->amax, t->l.type);
        double got = stored_float(t->c.plane[KERF_PLANE_SECOND], m);
        if (got != want) report(t->t, "second-level scale", 0, got, want);
    }
    if (f->second == KERF_SECOND_NESTED) compare_nested(t, absmax, groups);
    free(absmax);
}

/* --- running ---------------------------------------------------------------------------------- */

/* Matrices `first`, `first` + `step`, ... of one mantissa. */
static uint64_t run_mantissa(tally *tally_of, unsigned m, uint64_t first, uint64_t step,
                             int one_sided)
{
    const kerf_format *f = tally_of->codec.format;
    test t = {.t = tally_of, .l = layout_of(f, tally_of->type)};
    uint64_t all = layout_matrices(&t.l);
    if (first >= all) return 0;
    t.matrices = (unsigned)((all - first + step - 1) / step);
    size_t size = (size_t)t.l.rows * t.l.cols, n = t.matrices * size;
    kerf_shape shape = {3, {t.matrices, t.l.rows, t.l.cols}};
    if (f->geometry == KERF_GROUP_FLAT) {
        t.tail = 1 + m % (t.l.width - 1);
        shape = (kerf_shape){1, {n - t.l.width + t.tail}};
    }
    coded_init(&t.c, tally_of->codec, shape);
    t.bits = must_alloc(n * sizeof *t.bits);
    t.x = must_alloc(n * sizeof *t.x);
    for (unsigned i = 0; i < t.matrices; i++)
        fill_matrix(t.bits + i * size, t.x + i * size, &t.l, first + i * step, m, one_sided);
    coded_encode(&t.c, t.l.type == KERF_F32 ? (const void *)t.x : t.bits, t.l.type);
    compare_with_rule(&t);
    free(t.bits);
    free(t.x);
    coded_free(&t.c);
    return n;
}

static void run_codec(tally *t, const test_options *o, uint64_t step)
{
    /* Ranges that end at zero matter to integers, also to gptq's symmetric ones. */
    const int integers = t->codec.format->element >= KERF_ELEM_S8;
    uint64_t n = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : n)
    for (int m = 0; m < MANTISSAS; m++) {
        uint64_t first = mix_bits(o->seed + (uint64_t)m) % step;
        n += run_mantissa(t, (unsigned)m, first, step, 0);
        if (integers) n += run_mantissa(t, (unsigned)m, first, step, 1);
    }
    t->elements = n;
}

/* --- decode ----------------------------------------------------------------------------------- */

/* Every code under 256 scales: all there are of a one-byte scale, else random bits, whether or not
 * an encoder would write them. One row each. */
static uint32_t scale_pattern(const kerf_format *f, unsigned row)
{
    unsigned bits = stored_scale_bits(f);
    return bits == 8 ? row : (uint32_t)(mix_bits(row) & ((1ull << bits) - 1));
}

enum { ROWS = 256, COLS = 256 };
static const float seconds[] = {1, 0.0007441f, 1.5e-30f, 3e20f};

static void fill_planes(coded *c, unsigned round)
{
    const kerf_format *f = c->codec.format;
    const int flat = f->geometry == KERF_GROUP_FLAT;
    for (unsigned i = 0; i < ROWS * COLS; i++) {
        uint64_t row = flat ? 0 : i / COLS, col = flat ? i : i % COLS;
        store_code(c, row, col, i % COLS);
        store_scale(c, row, col, scale_pattern(f, i / COLS));
    }
    for (size_t i = 0; i < c->plane[KERF_PLANE_SECOND].n / 4; i++)
        memcpy((uint8_t *)c->plane[KERF_PLANE_SECOND].p + 4 * i, &seconds[round], 4);
    if (f->zero == KERF_ZERO_F32) memcpy(c->plane[KERF_PLANE_ZEROS].p, &(float){0.01f}, 4);
    if (f->zero == KERF_ZERO_CODE)
        for (size_t i = 0; i < c->plane[KERF_PLANE_ZEROS].n; i++)
            ((uint8_t *)c->plane[KERF_PLANE_ZEROS].p)[i] = (uint8_t)mix_bits(i);
}

static uint64_t check_decoder(tally *t)
{
    const kerf_format *f = t->codec.format;
    const int flat = f->geometry == KERF_GROUP_FLAT;
    float *out = must_alloc(ROWS * COLS * sizeof *out);
    unsigned rounds = f->second == KERF_SECOND_NONE ? 1 : sizeof seconds / sizeof *seconds;
    for (unsigned round = 0; round < rounds; round++) {
        coded c;
        coded_init(&c, t->codec, (kerf_shape){3, {ROWS, 1, COLS}});
        fill_planes(&c, round);
        coded_decode(&c, out);
        for (unsigned i = 0; i < ROWS * COLS; i++) {
            uint64_t row = flat ? 0 : i / COLS, col = flat ? i : i % COLS;
            uint32_t code = stored_code(&c, row, col);
            double want =
                oracle_decode(f, code, stored_scale(&c, row, col), stored_zero(&c, row, col),
                              (double)seconds[round], (double)0.01f);
            if (!same((double)out[i], want)) report(t, "decode", code, (double)out[i], want);
        }
        coded_free(&c);
    }
    free(out);
    return (uint64_t)rounds * ROWS * COLS;
}

/* --- main ------------------------------------------------------------------------------------- */

static void add_tally(kerf_codec codec, const oracle_rule *rule, kerf_dtype type)
{
    tally *t = &tallies[tally_count++];
    *t = (tally){.codec = codec, .type = type, .rule = rule};
    kerf_codec_name(codec, t->name, sizeof t->name);
}

/* bfloat16 alone, but for encoders to which the type matters. */
static size_t add_codec(kerf_codec codec, const oracle_rule *rule)
{
    static const kerf_dtype types[] = {KERF_BF16, KERF_F16, KERF_F32};
    size_t added = 0;
    for (int i = 0; i < 3 && tally_count < MAX_CODECS; i++) {
        if (!takes_source(codec, types[i])) continue;
        if (added > 0 && !(rule->traits & ORACLE_TYPED)) continue;
        add_tally(codec, rule, types[i]);
        added++;
    }
    return added;
}

static int list_codecs(size_t *count)
{
    int missing = 0;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        if (f->geometry == KERF_GROUP_SUPER) continue; /* whole blocks: against ggml, peers/ */
        for (size_t e = 0; e < kerf_encoder_count(f); e++, ++*count) {
            kerf_codec codec = {f, kerf_encoder_at(f, e)};
            const oracle_rule *rule = oracle_find(codec);
            if (rule && add_codec(codec, rule) > 0) continue;
            printf("%s:%s: no rule in tests/exhaustive/oracle.c, or no source\n", f->name,
                   codec.encoder->name);
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
    size_t codecs = 0;
    oracle_init();
    int missing = list_codecs(&codecs);
    /* The stratified part: 2^24 elements over all codecs. */
    uint64_t step = o.full ? 1 : (tally_count * MANTISSAS << 16) / (1u << 24);
    for (size_t i = 0; i < tally_count; i++) {
        tally *t = &tallies[i];
        double begin = seconds_now();
        int first = i == 0 || t->codec.format != tallies[i - 1].codec.format;
        run_codec(t, &o, step);
        if (first && t->codec.format->bits <= 8) decoded += check_decoder(t);
        encoded += t->elements;
        failures += t->failures;
        if (o.full || t->failures)
            printf("%-28s %-4s %9llu elements  %6llu differences  %6.2f s\n", t->name,
                   kerf_dtype_name(t->type), (unsigned long long)t->elements,
                   (unsigned long long)t->failures, seconds_now() - begin);
    }
    printf("%zu codecs, %zu with their sources, %llu elements encoded, %llu codes decoded, "
           "%llu differences, %d without a rule, %.1f s\n",
           codecs, tally_count, (unsigned long long)encoded, (unsigned long long)decoded,
           (unsigned long long)failures, missing, seconds_now() - start);
    return failures || missing ? 1 : 0;
}
