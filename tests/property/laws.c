/* properties.c - laws that hold for every input, on random tensors: 10^7 elements each in full,
 * 10^5 otherwise. Which encoder obeys which law, and why some do not, stands in the table of
 * exhaustive/oracle.c; an encoder without a line there fails.
 *
 * Every case is made from the seed, the law, the codec and a counter, so that a failure can be
 * repeated with --seed alone. */
#include "exhaustive/coded.h"
#include "exhaustive/options.h"
#include "exhaustive/oracle.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_REPORTS = 20, MAX_VALUES = 1 << 13 };

typedef struct subject {
    kerf_codec codec;
    kerf_dtype dtype; /* of the source */
    const oracle_rule *rule;
    const char *law;
    uint64_t random; /* state */
} subject;

static uint64_t failures;

static void report(const subject *s, const char *what, double x, double got, double want)
{
    char name[64];
#pragma omp critical(report)
    if (failures++ < MAX_REPORTS)
        printf("%s: %s: %s: x = %a: %a, expected %a\n",
               kerf_codec_name(s->codec, name, sizeof name), s->law, what, x, got, want);
}

/* --- sources ---------------------------------------------------------------------------------- */

static uint64_t draw(subject *s, uint64_t below)
{
    return mix_bits(s->random++) % below;
}

typedef enum source_kind { BELL, COARSE, WIDE, GRID, KINDS } source_kind;

/* bell-shaped; the same as bfloat16; 24 binades; halves and eighths, which meet ties. */
static float draw_value(subject *s, source_kind kind)
{
    uint64_t r = mix_bits(s->random++);
    int sum = (int)(r & 0xffff) + (int)(r >> 16 & 0xffff) + (int)(r >> 32 & 0xffff) - 98302;
    float bell = (float)sum * 0x1p-20f;
    uint32_t bits;
    if (kind == WIDE) return ldexpf(bell, (int)(r >> 48) % 25 - 8);
    if (kind == GRID) return (float)((int)(r % 129) - 64) / 8;
    if (kind == BELL) return bell;
    memcpy(&bits, &bell, sizeof bits);
    bits &= 0xffff0000u;
    memcpy(&bell, &bits, sizeof bell);
    return bell;
}

static source_kind draw_kind(subject *s)
{
    return (source_kind)draw(s, KINDS);
}

/* Whole groups and tails; one or a few matrices. At most MAX_VALUES elements. */
static kerf_shape draw_shape(subject *s)
{
    uint64_t cols = 1 + draw(s, draw(s, 2) ? 40 : 300), rows = 1 + draw(s, 8);
    uint64_t multiple = row_multiple(s->codec.format);
    cols = (cols + multiple - 1) / multiple * multiple;
    if (draw(s, 4) == 0) return (kerf_shape){3, {1 + draw(s, 3), rows, cols}};
    return (kerf_shape){2, {rows, cols}};
}

typedef struct sample {
    coded c;
    kerf_dtype dtype;
    float *x, *y; /* source, and what it decodes to */
    uint16_t *half;
    size_t n;
} sample;

static void sample_init(sample *p, const subject *s, kerf_shape shape)
{
    coded_init(&p->c, s->codec, shape);
    p->n = (size_t)p->c.g.elements;
    p->dtype = s->dtype;
    p->half = must_alloc(p->n * sizeof *p->half);
    p->x = must_alloc(p->n * sizeof *p->x);
    p->y = must_alloc(p->n * sizeof *p->y);
}

static void sample_draw(sample *p, subject *s, kerf_shape shape, source_kind kind)
{
    sample_init(p, s, shape);
    for (size_t i = 0; i < p->n; i++) p->x[i] = draw_value(s, kind);
}

/* The source as it is handed over: fp32, or cut to bfloat16. */
static const void *sample_source(sample *p)
{
    if (p->dtype == KERF_F32) return p->x;
    for (size_t i = 0; i < p->n; i++) {
        uint32_t bits;
        memcpy(&bits, &p->x[i], sizeof bits);
        p->half[i] = (uint16_t)(bits >> 16);
        bits &= 0xffff0000u;
        memcpy(&p->x[i], &bits, sizeof bits);
    }
    return p->half;
}

static void sample_code(sample *p)
{
    coded_encode(&p->c, sample_source(p), p->dtype);
    coded_decode(&p->c, p->y);
}

static void sample_free(sample *p)
{
    free(p->x);
    free(p->y);
    free(p->half);
    coded_free(&p->c);
}

static int same_codes(const sample *a, const sample *b)
{
    const kerf_span *p = &a->c.plane[KERF_PLANE_CODES], *q = &b->c.plane[KERF_PLANE_CODES];
    return p->n == q->n && memcmp(p->p, q->p, p->n) == 0;
}

/* Length of the runs of the row-major tensor that share a scale: a group, or a whole matrix that
 * is one tile. */
static size_t run_length(const kerf_format *f, const kerf_geometry *g)
{
    if (f->geometry == KERF_GROUP_TENSOR || f->geometry == KERF_GROUP_TILE)
        return (size_t)(g->rows * g->cols);
    if (f->geometry == KERF_GROUP_ROW || f->geometry == KERF_GROUP_NONE) return (size_t)g->cols;
    return f->group;
}

/* A shape that is a row of runs: no tails, no tile edges. */
static kerf_shape draw_run_shape(subject *s)
{
    const kerf_format *f = s->codec.format;
    uint64_t few = 1 + draw(s, 6);
    if (f->geometry == KERF_GROUP_TILE) return (kerf_shape){3, {few, 4, 1 + draw(s, 64)}};
    if (row_multiple(f) > 1) return (kerf_shape){2, {few, row_multiple(f)}};
    if (f->group) return (kerf_shape){2, {few, f->group}};
    return (kerf_shape){3, {few, 1, 1 + draw(s, 200)}};
}

/* --- laws ------------------------------------------------------------------------------------- */

static uint64_t decoding_again(subject *s)
{
    const kerf_format *f = s->codec.format;
    sample a, b;
    kerf_shape shape = draw_shape(s);
    source_kind kind = draw_kind(s);
    int exact = f->scale != KERF_SCALE_F32 || f->family == KERF_FAMILY_NF4;
    if (f->second == KERF_SECOND_NESTED) return 0; /* the mean of its scales moves */
    if (f->second == KERF_SECOND_TENSOR) {         /* no scale may become subnormal */
        shape.dim[shape.rank - 1] = f->group * (1 + draw(s, 8));
        kind = BELL;
        exact = 0;
    }
    sample_draw(&a, s, shape, kind);
    sample_code(&a);
    sample_init(&b, s, shape);
    memcpy(b.x, a.y, a.n * sizeof *b.x);
    sample_code(&b);
    if (!same_codes(&a, &b) && !exact) report(s, "codes differ", 0, 0, 0);
    for (size_t i = 0; i < a.n; i++) {
        double moved = fabs((double)b.y[i] - (double)a.y[i]);
        if (moved > (exact ? 0 : 0x1p-21 * fabs((double)a.y[i])))
            report(s, "moves", (double)a.x[i], (double)b.y[i], (double)a.y[i]);
    }
    uint64_t n = a.n;
    sample_free(&a);
    sample_free(&b);
    return n;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static uint64_t monotone(subject *s)
{
    sample a;
    sample_draw(&a, s, draw_run_shape(s), draw_kind(s));
    size_t run = run_length(s->codec.format, &a.c.g);
    for (size_t at = 0; at < a.n; at += run)
        qsort(a.x + at, a.n - at < run ? a.n - at : run, sizeof *a.x, by_value);
    sample_code(&a);
    for (size_t i = 1; i < a.n; i++)
        if (i % run != 0 && !(a.y[i - 1] <= a.y[i]))
            report(s, "falls", (double)a.x[i], (double)a.y[i], (double)a.y[i - 1]);
    uint64_t n = a.n;
    sample_free(&a);
    return n;
}

static uint64_t symmetric(subject *s)
{
    sample a, b;
    kerf_shape shape = draw_shape(s);
    sample_draw(&a, s, shape, draw_kind(s));
    sample_init(&b, s, shape);
    for (size_t i = 0; i < a.n; i++) b.x[i] = -a.x[i];
    sample_code(&a);
    sample_code(&b);
    for (size_t i = 0; i < a.n; i++)
        if (b.y[i] != -a.y[i])
            report(s, "is not mirrored", (double)b.x[i], (double)b.y[i], -(double)a.y[i]);
    uint64_t n = a.n;
    sample_free(&a);
    sample_free(&b);
    return n;
}

/* MX: only the exponents move, by k. Others: the same for their scales, seen in what is decoded. */
static uint64_t scaling(subject *s)
{
    sample a, b;
    kerf_shape shape = draw_shape(s);
    int k = (int)draw(s, 13) - 6;
    sample_draw(&a, s, shape, BELL);
    sample_init(&b, s, shape);
    for (size_t i = 0; i < a.n; i++) {
        a.x[i] += a.x[i] < 0 ? -0.5f : 0.5f; /* no subnormal scale anywhere */
        b.x[i] = ldexpf(a.x[i], k);
    }
    sample_code(&a);
    sample_code(&b);
    const kerf_format *f = s->codec.format;
    int apart = f->scale != KERF_SCALE_NONE && row_multiple(f) == 1; /* codes in their own plane */
    if (apart && !same_codes(&a, &b)) report(s, "codes differ", k, 0, 0);
    for (size_t i = 0; i < a.n; i++)
        if (b.y[i] != ldexpf(a.y[i], k))
            report(s, "is not scaled", (double)b.x[i], (double)b.y[i], ldexp((double)a.y[i], k));
    if (s->codec.format->scale == KERF_SCALE_E8M0) {
        const kerf_span *p = &a.c.plane[KERF_PLANE_SCALES], *q = &b.c.plane[KERF_PLANE_SCALES];
        for (size_t i = 0; i < p->n; i++) {
            int before = ((uint8_t *)p->p)[i], after = ((uint8_t *)q->p)[i];
            if (after != before + k) report(s, "exponent", k, after, before + k);
        }
    }
    uint64_t n = a.n;
    sample_free(&a);
    sample_free(&b);
    return n;
}

/* The error of an element inside the range of its group is at most half a step: no code of the
 * format, under the scale that was stored, would have been nearer. */
static uint64_t half_a_step(subject *s)
{
    const kerf_format *f = s->codec.format;
    sample a;
    if (f->bits > 8 || f->second == KERF_SECOND_NESTED) return 0; /* codes precede nested scales */
    sample_draw(&a, s, draw_shape(s), draw_kind(s));
    sample_code(&a);
    float *other = must_alloc(a.n * sizeof *other);
    for (uint32_t code = 0; code < 1u << f->bits; code++) {
        if (f->element == KERF_ELEM_MXI8 && code == 0x80) continue; /* never written */
        coded_decode_all_as(&a.c, code, other);
        for (size_t i = 0; i < a.n; i++) {
            double x = (double)a.x[i], d = fabs((double)a.y[i] - x);
            if (d > fabs((double)other[i] - x) + s->rule->slack * (fabs(x) + d))
                report(s, "is not the nearest", x, (double)a.y[i], (double)other[i]);
        }
    }
    uint64_t n = a.n;
    free(other);
    sample_free(&a);
    return n;
}

/* A short block is encoded as if padded with zeros, and nothing of a neighbouring row shows. */
static uint64_t tails(subject *s)
{
    const kerf_format *f = s->codec.format;
    sample a, b, c;
    if (f->geometry != KERF_GROUP_BLOCK) return 0;
    uint64_t tail = 1 + draw(s, f->group), cols = draw(s, 3) * f->group + tail;
    uint64_t padded = (cols + f->group - 1) / f->group * f->group;
    sample_draw(&a, s, (kerf_shape){2, {1, cols}}, draw_kind(s));
    sample_init(&b, s, (kerf_shape){2, {1, padded}});
    memcpy(b.x, a.x, a.n * sizeof *b.x);
    sample_code(&a);
    sample_code(&b);
    if (memcmp(a.y, b.y, a.n * sizeof *a.y) != 0) report(s, "padding shows", (double)cols, 0, 0);
    uint64_t n = a.n;
    if (f->second == KERF_SECOND_NONE) {
        sample_draw(&c, s, (kerf_shape){2, {3, cols}}, WIDE);
        memcpy(c.x + a.n, a.x, a.n * sizeof *c.x);
        sample_code(&c);
        if (memcmp(a.y, c.y + a.n, a.n * sizeof *a.y) != 0)
            report(s, "a neighbouring row shows", (double)cols, 0, 0);
        sample_free(&c);
    }
    sample_free(&a);
    sample_free(&b);
    return n;
}

/* --- better than the simple rule -------------------------------------------------------------- */

static const kerf_encoder *find_encoder(const kerf_format *f, const char *name)
{
    for (size_t i = 0; i < kerf_encoder_count(f); i++)
        if (strcmp(kerf_encoder_at(f, i)->name, name) == 0) return kerf_encoder_at(f, i);
    return NULL;
}

static double squared_error(const sample *a, size_t at, size_t n)
{
    double err = 0;
    for (size_t i = at; i < at + n; i++) {
        double d = (double)a->y[i] - (double)a->x[i];
        err += d * d;
    }
    return err;
}

/* search against the rule that its candidates begin with, group by group. Their errors are summed
 * in fp32 there, exactly here. */
static uint64_t search_wins(subject *s)
{
    const kerf_format *f = s->codec.format;
    static const char *const simple[] = {"floor", "amax", "minmax"};
    subject other = *s;
    sample a, b;
    if (strcmp(s->codec.encoder->name, "search") != 0) return 0;
    other.codec.encoder = NULL;
    for (int i = 0; i < 3 && !other.codec.encoder; i++)
        other.codec.encoder = find_encoder(f, simple[i]);
    if (!other.codec.encoder) return 0;
    kerf_shape shape = draw_run_shape(s);
    sample_draw(&a, s, shape, draw_kind(s));
    sample_init(&b, &other, shape);
    memcpy(b.x, a.x, a.n * sizeof *b.x);
    sample_code(&a);
    sample_code(&b);
    size_t run = run_length(f, &a.c.g);
    for (size_t at = 0; at < a.n; at += run) {
        double mine = squared_error(&a, at, run), theirs = squared_error(&b, at, run);
        if (mine > theirs * (1 + 1e-5))
            report(s, "is worse than without a search", (double)a.x[at], mine, theirs);
    }
    uint64_t n = a.n;
    sample_free(&a);
    sample_free(&b);
    return n;
}

/* 4/6: not worse than its own candidate that maps amax to 6; sweep: not worse than 4/6. In the
 * metric of the encoder, as it rounds it. */
static uint64_t four_over_six_wins(subject *s)
{
    const kerf_format *f = s->codec.format;
    int sweep = strcmp(s->codec.encoder->name, "sweep") == 0;
    subject other = *s;
    sample a, b;
    if (f->family != KERF_FAMILY_NVFP4 || !s->rule->answer) return 0;
    if (!sweep && strncmp(s->codec.encoder->name, "4/6", 3) != 0) return 0;
    other.codec.encoder = find_encoder(f, "4/6");
    kerf_shape shape = {2, {1 + draw(s, 40), f->group}};
    sample_draw(&a, s, shape, draw_kind(s));
    sample_init(&b, &other, shape);
    memcpy(b.x, a.x, a.n * sizeof *b.x);
    sample_code(&a);
    sample_code(&b);
    for (size_t i = 0; i < a.n / f->group; i++) {
        oracle_group g = {a.x + i * f->group, f->group, 1, (double)a.c.stats->amax};
        uint8_t mine = ((uint8_t *)a.c.plane[KERF_PLANE_SCALES].p)[i];
        uint8_t theirs = ((uint8_t *)b.c.plane[KERF_PLANE_SCALES].p)[i];
        double rival = sweep ? oracle_scale_value(KERF_SCALE_E4M3, theirs)
                             : oracle_nvfp4_scale_six(s->rule->variant, &g);
        double scale = oracle_scale_value(KERF_SCALE_E4M3, mine);
        double err = oracle_nvfp4_error(s->rule->variant, &g, scale);
        double bound = oracle_nvfp4_error(s->rule->variant, &g, rival);
        if (err > bound) report(s, "is worse", (double)g.x[0], err, bound);
    }
    uint64_t n = a.n;
    sample_free(&a);
    sample_free(&b);
    return n;
}

/* --- guard pages ------------------------------------------------------------------------------ */

/* Memory that ends (or begins) at a page that cannot be touched. */
typedef struct fenced {
    uint8_t *map, *p;
    size_t size;
} fenced;

static fenced fence(size_t n, int at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (n + page - 1) / page * page;
    fenced m = {0};
    m.size = inside + 2 * page;
    m.map = mmap(NULL, m.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m.map == MAP_FAILED ||
        (inside && mprotect(m.map + page, inside, PROT_READ | PROT_WRITE) != 0)) {
        perror("mmap");
        exit(1);
    }
    m.p = m.map + page + (at_end ? inside - n : 0);
    return m;
}

/* Encodes and decodes with every array between guard pages, into memory full of `fill`; a byte
 * outside faults, a byte that is not written keeps `fill`. */
static void code_fenced(const subject *s, sample *a, int at_end, int fill, sample *out)
{
    const kerf_geometry *g = &a->c.g;
    kerf_error err = {0};
    kerf_span plane[KERF_PLANES];
    kerf_cspan from[KERF_PLANES];
    fenced m[KERF_PLANES + 2];
    for (int p = 0; p < KERF_PLANES; p++) {
        size_t n = a->c.plane[p].n;
        m[p] = fence(n, at_end);
        memset(m[p].p, fill, n);
        plane[p] = (kerf_span){m[p].p, n};
        from[p] = (kerf_cspan){m[p].p, n};
    }
    size_t bytes = a->n * sizeof(float), source_bytes = a->n * kerf_dtype_bits(a->dtype) / 8;
    fenced *source = &m[KERF_PLANES], *target = &m[KERF_PLANES + 1];
    *source = fence(source_bytes, at_end);
    *target = fence(bytes, at_end);
    memcpy(source->p, sample_source(a), source_bytes);
    memset(target->p, fill, bytes);
    kerf_cspan x = {source->p, source_bytes};
    kerf_span y = {target->p, bytes};
    must(&a->c,
         kerf_encode(g, s->codec.encoder, a->c.stats, 0, g->bands, x, a->dtype, plane, &coded_exec,
                     &err),
         &err);
    must(&a->c, kerf_decode(g, 0, g->bands, from, y, KERF_F32, &coded_exec, &err), &err);
    for (int p = 0; p < KERF_PLANES; p++) memcpy(out->c.plane[p].p, plane[p].p, plane[p].n);
    memcpy(out->y, target->p, bytes);
    for (int i = 0; i < KERF_PLANES + 2; i++) munmap(m[i].map, m[i].size);
}

static uint64_t inside_the_planes(subject *s)
{
    sample a, b;
    kerf_shape shape = draw_shape(s);
    sample_draw(&a, s, shape, draw_kind(s));
    sample_code(&a);
    sample_init(&b, s, shape);
    for (int i = 0; i < 4; i++) {
        code_fenced(s, &a, i & 1, i & 2 ? 0xff : 0x00, &b);
        for (int p = 0; p < KERF_PLANES; p++)
            if (memcmp(a.c.plane[p].p, b.c.plane[p].p, a.c.plane[p].n) != 0)
                report(s, "bytes not written, plane", p, 0, 0);
        if (memcmp(a.y, b.y, a.n * sizeof *a.y) != 0) report(s, "values not written", 0, 0, 0);
    }
    uint64_t n = a.n;
    sample_free(&a);
    sample_free(&b);
    return n;
}

/* --- running ---------------------------------------------------------------------------------- */

typedef struct law {
    const char *name;
    unsigned trait; /* that an encoder must have; 0: all do */
    uint64_t (*check)(subject *s);
} law;

static const law laws[] = {
    {"decoding, encoding and decoding again changes nothing", ORACLE_IDEMPOTENT, decoding_again},
    {"monotone within a group", 0, monotone},
    {"sign-symmetric", ORACLE_SYMMETRIC, symmetric},
    {"a factor of 2^k moves the scales only", ORACLE_SCALES, scaling},
    {"error at most half a step", ORACLE_NEAREST, half_a_step},
    {"a tail is padded with zeros; neighbours do not show", ORACLE_PADS, tails},
    {"search is never worse than the simple rule", 0, search_wins},
    {"4/6 is never worse than 6, sweep never worse than 4/6", 0, four_over_six_wins},
    {"every byte of the planes, and no other, is written", 0, inside_the_planes},
};
enum { LAWS = sizeof laws / sizeof *laws, MAX_SUBJECTS = 512 };

static subject subjects[MAX_SUBJECTS];
static size_t subject_count;

static int list_subjects(void)
{
    int missing = 0;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        for (size_t e = 0; e < kerf_encoder_count(f) && subject_count < MAX_SUBJECTS; e++) {
            subject s = {.codec = {f, kerf_encoder_at(f, e)}};
            s.rule = oracle_find(s.codec);
            s.dtype = takes_source(s.codec, KERF_F32) ? KERF_F32 : KERF_BF16;
            if (!takes_source(s.codec, s.dtype)) {
                printf("%s:%s takes fp16 alone\n", f->name, s.codec.encoder->name);
                continue;
            }
            if (s.rule) {
                subjects[subject_count++] = s;
                continue;
            }
            printf("%s:%s: no line in tests/exhaustive/oracle.c\n", f->name, s.codec.encoder->name);
            missing++;
        }
    }
    return missing;
}

/* Every codec once. */
static uint64_t run_round(const law *l, uint64_t seed)
{
    uint64_t n = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : n)
    for (size_t i = 0; i < subject_count; i++) {
        subject s = subjects[i];
        s.law = l->name;
        s.random = mix_bits(seed * 1024 + i);
        if ((s.rule->traits & l->trait) == l->trait) n += l->check(&s);
    }
    return n;
}

int main(int argc, char **argv)
{
    test_options o = read_options(argc, argv);
    const uint64_t wanted = o.full ? 10000000 : 100000;
    oracle_init();
    int missing = list_subjects();
    double start = seconds_now();
    for (int i = 0; i < LAWS; i++) {
        double begin = seconds_now();
        uint64_t n = 0, added = 1, before = failures;
        for (uint64_t round = 0; n < wanted && added; round++, n += added)
            added = run_round(&laws[i], mix_bits(o.seed * LAWS + (uint64_t)i) + round);
        if (n < wanted)
            report(&(subject){.codec = subjects[0].codec, .law = laws[i].name}, "no cases", 0, 0,
                   0);
        printf("%-56s %9llu cases  %s  %6.2f s\n", laws[i].name, (unsigned long long)n,
               failures == before ? "pass" : "FAIL", seconds_now() - begin);
    }
    printf("%d laws, %zu codecs, %llu failures, %d codecs without a line, %.1f s\n", LAWS,
           subject_count, (unsigned long long)failures, missing, seconds_now() - start);
    return failures || missing ? 1 : 0;
}
