/* equal_large.h - tensors of many elements, in device memory, and of more than 2^31 in one piece.
 */
#ifndef KERF_TESTS_EQUAL_LARGE_H
#define KERF_TESTS_EQUAL_LARGE_H

#include "equal_tensor.h"

/* --- many elements ---------------------------------------------------------------------------- */

/* A source that stays in host and device memory, so that every codec costs a kernel, the planes
 * that come back, and what the processor needs for the same. */
typedef struct source {
    uint8_t *p;
    kerf_dbuf resident;
    kerf_dtype dtype;
    uint64_t elements;
    uint64_t rows; /* of a matrix; 0: one matrix */
} source;

/* Of N elements per codec: three parts of a twelfth, a quarter of bf16 patterns as many matrices
 * and a half as one. */
enum { BELL_F32, PATTERNS_F16, PATTERNS_F32, STACKED_BF16, BELOW_AMAX, SOURCES };
#define COLS 4096
#define STACKED_ROWS 16
#define HUGE_TOO 50000000 /* from so many elements on, tensors of more than 2^31 as well */

typedef struct large {
    source source[SOURCES];
    kerf_dbuf planes, stats;
    double seconds; /* for one codec: a slow one is cut short, and counted as it was cut */
} large;

static void make_source(source *s, kerf_dtype dtype, uint64_t elements, uint64_t rows)
{
    uint64_t unit = COLS * STACKED_ROWS;
    *s = (source){.dtype = dtype, .rows = rows};
    s->elements = (elements + unit - 1) / unit * unit;
    s->p = allocate(s->elements * size_of(dtype));
}

static void make_large(large *l, uint64_t n)
{
    make_source(&l->source[BELL_F32], KERF_F32, n / 12, 0);
    make_source(&l->source[PATTERNS_F16], KERF_F16, n / 12, 0);
    make_source(&l->source[PATTERNS_F32], KERF_F32, n / 12, 0);
    make_source(&l->source[STACKED_BF16], KERF_BF16, n / 4, STACKED_ROWS);
    make_source(&l->source[BELOW_AMAX], KERF_BF16, n / 2, 0);
    fill_bell(l->source[BELL_F32].p, KERF_F32, l->source[BELL_F32].elements, 5);
    fill_patterns(l->source[PATTERNS_F16].p, KERF_F16, l->source[PATTERNS_F16].elements, 6);
    fill_patterns(l->source[PATTERNS_F32].p, KERF_F32, l->source[PATTERNS_F32].elements, 7);
    fill_below_amax(l->source[STACKED_BF16].p, l->source[STACKED_BF16].elements);
    fill_below_amax(l->source[BELOW_AMAX].p, l->source[BELOW_AMAX].elements);
    uint64_t most = l->source[BELOW_AMAX].elements, matrices = most / COLS / STACKED_ROWS;
    for (int i = 0; i < SOURCES; i++) {
        source *s = &l->source[i];
        size_t bytes = s->elements * size_of(s->dtype);
        ok(kerf_dbuf_alloc(gpu, bytes, &s->resident, &error), "allocation", "sources");
        ok(kerf_dbuf_write(&s->resident, 0, s->p, bytes, &error), "copy in", "sources");
    }
    ok(kerf_dbuf_alloc(gpu, 5 * most + (1 << 20), &l->planes, &error), "allocation", "planes");
    ok(kerf_dbuf_alloc(gpu, (matrices + 1) * sizeof(kerf_stats), &l->stats, &error), "allocation",
       "stats");
}

static void free_large(large *l)
{
    for (int i = 0; i < SOURCES; i++) {
        kerf_dbuf_free(&l->source[i].resident);
        free(l->source[i].p);
    }
    kerf_dbuf_free(&l->planes);
    kerf_dbuf_free(&l->stats);
}

/* Encodes what lies in device memory; mine: poisoned, then as it comes back. */
static int encode_resident(const tensor *t, const kerf_device_bands *b, const kerf_dbuf *all,
                           const kerf_dbuf *stats, planes *mine)
{
    size_t n = t->g.matrices * sizeof(kerf_stats);
    memset(t->stats, 0, n);
    return ok(kerf_dbuf_write(all, 0, mine->all, mine->n, &error), "poison", t->name) &&
           ok(kerf_dbuf_write(stats, 0, t->stats, n, &error), "zero", t->name) &&
           ok(kerf_device_measure(gpu, b, stats->p, &error), "measures", t->name) &&
           ok(kerf_device_encode(gpu, b, t->codec.encoder, stats->p, &error), "encodes", t->name) &&
           ok(kerf_device_wait(gpu, NULL, &error), "waits", t->name) &&
           ok(kerf_dbuf_read(all, 0, mine->all, mine->n, &error), "copy out", t->name);
}

static kerf_device_bands bands_of(const tensor *t, const kerf_dbuf *dense, const kerf_dbuf *all,
                                  const planes *mine)
{
    kerf_device_bands b = {.geometry = &t->g, .b1 = t->g.bands, .dtype = t->dtype, .nan = t->nan};
    b.dense = (kerf_span){dense->p, t->g.elements * size_of(t->dtype)};
    for (int k = 0; k < KERF_PLANES; k++)
        b.plane[k] = (kerf_span){(uint8_t *)all->p + ((uint8_t *)mine->plane[k].p - mine->all),
                                 mine->plane[k].n};
    return b;
}

/* The reference, and what of it differs from `mine`. */
static void compare_resident(tensor *t, const planes *mine)
{
    kerf_exec cpu = {.nan = t->nan};
    memset(t->stats, 0, t->g.matrices * sizeof *t->stats);
    ok(kerf_measure(&t->g, 0, t->g.bands, source_of(t, 0, t->g.bands), t->dtype, t->stats, &cpu,
                    &error),
       "reference measures", t->name);
    encode_into(t, &t->reference, t->g.bands, &cpu, "reference encodes");
    compare(t, mine, "encodes differently");
}

/* Decodes the planes in device memory into the place of the source, on both sides. */
static void decode_resident(const tensor *t, const kerf_device_bands *b, const kerf_dbuf *dense)
{
    kerf_cspan src[KERF_PLANES];
    size_t n = b->dense.n;
    uint8_t *mine = allocate(n), *want = allocate(n);
    for (int k = 0; k < KERF_PLANES; k++)
        src[k] = (kerf_cspan){t->reference.plane[k].p, t->reference.plane[k].n};
    ok(kerf_device_decode(gpu, b, &error), "decodes", t->name);
    ok(kerf_device_wait(gpu, NULL, &error), "waits", t->name);
    ok(kerf_dbuf_read(dense, 0, mine, n, &error), "copy out", t->name);
    ok(kerf_decode(&t->g, 0, t->g.bands, src, (kerf_span){want, n}, t->dtype, NULL, &error),
       "reference decodes", t->name);
    check(memcmp(mine, want, n) == 0, "decodes differently", t->name, "");
    free(mine);
    free(want);
}

static void check_resident(const large *l, tensor *t, const source *from, const kerf_shape *shape)
{
    int decodes = t->codec.encoder == kerf_encoder_at(t->codec.format, 0);
    if (!ok(kerf_geometry_init(&t->g, t->codec.format, shape, &error), "geometry", t->name)) return;
    t->stats = allocate(t->g.matrices * sizeof *t->stats);
    t->reference = make_planes(&t->g, 0x88);
    planes mine = make_planes(&t->g, 0x88);
    kerf_device_bands b = bands_of(t, &from->resident, &l->planes, &mine);
    if (encode_resident(t, &b, &l->planes, &l->stats, &mine)) {
        compare_resident(t, &mine);
        if (decodes) {
            decode_resident(t, &b, &from->resident);
            ok(kerf_dbuf_write(&from->resident, 0, from->p, b.dense.n, &error), "copy in", t->name);
        }
    }
    free(mine.all);
    free(t->reference.all);
    free(t->stats);
}

/* The type that a codec takes the bytes of a source as: some have scales in the type of the source,
 * and refuse all others. */
static kerf_dtype type_for(kerf_codec codec, kerf_dtype own)
{
    const kerf_dtype types[] = {own, KERF_BF16, KERF_F16};
    kerf_shape row = {2, {1, COLS}};
    for (int i = 0; i < 3; i++)
        if (kerf_codec_check(codec, &row, types[i], &error) == KERF_OK) return types[i];
    check(0, "no type is taken", codec.format->name, error.text);
    return own;
}

/* The twelfths through host memory, in pieces that two lanes take in turns; the rest in device
 * memory in one piece. */
static void check_many(kerf_codec codec, const large *l, uint64_t *elements)
{
    double started = now_s();
    for (int i = 0; i < SOURCES && now_s() - started < l->seconds; i++) {
        const source *from = &l->source[i];
        kerf_dtype dtype = type_for(codec, from->dtype);
        uint64_t n = from->elements * size_of(from->dtype) / size_of(dtype);
        kerf_shape flat = {2, {n / COLS, COLS}};
        kerf_shape stacked = {3, {n / COLS / STACKED_ROWS, STACKED_ROWS, COLS}};
        const kerf_shape *shape = from->rows ? &stacked : &flat;
        tensor t = {.codec = codec, .source = from->p, .dtype = dtype, .nan = KERF_NAN_SATURATE};
        kerf_codec_name(codec, t.name, sizeof t.name);
        if (i < STACKED_BF16)
            check_tensor(&t, shape,
                         codec.encoder == kerf_encoder_at(codec.format, 0) ? WHOLE : ENCODE);
        else
            check_resident(l, &t, from, shape);
        *elements += n;
    }
}

/* --- more than 2^31 elements, in device memory in one piece ----------------------------------- */

#define HUGE_ROWS 524800 /* x 4096: 2^31 + 2^21 elements */

typedef struct huge {
    uint8_t *p;
    size_t n;
    kerf_dbuf dense, all, stats;
} huge;

/* A part, and then the same again, but each of its own size. */
static void fill_huge(huge *h)
{
    size_t part = (size_t)64 << 20, parts = (h->n + part - 1) / part;
    const uint16_t *first = (const uint16_t *)h->p;
    fill_bell(h->p, KERF_BF16, part / 2, 9);
    KERF_IN_PARALLEL_ALWAYS
    for (size_t k = 1; k < parts; k++) {
        uint16_t *to = (uint16_t *)(h->p + k * part);
        size_t n = (h->n - k * part < part ? h->n - k * part : part) / 2;
        for (size_t i = 0; i < n; i++)
            to[i] = (uint16_t)(first[i] + (first[i] & 0x7fff ? k % 4 * 128 : 0));
    }
}

static int make_huge(huge *h)
{
    h->n = (size_t)HUGE_ROWS * COLS * 2;
    h->p = allocate(h->n);
    fill_huge(h);
    return ok(kerf_dbuf_alloc(gpu, h->n, &h->dense, &error), "allocation", "2^31") &&
           ok(kerf_dbuf_alloc(gpu, h->n / 2 + h->n / 8, &h->all, &error), "allocation", "2^31") &&
           ok(kerf_dbuf_alloc(gpu, sizeof(kerf_stats), &h->stats, &error), "allocation", "2^31");
}

static void check_huge(huge *h, const char *name, FILE *out)
{
    kerf_shape shape = {2, {HUGE_ROWS, COLS}};
    tensor t = {.dtype = KERF_BF16, .nan = KERF_NAN_SATURATE, .source = h->p};
    double started = now_s();
    uint64_t before = failures;
    if (!ok(kerf_codec_find(name, &t.codec, &error), "codec", name)) return;
    kerf_codec_name(t.codec, t.name, sizeof t.name);
    if (!ok(kerf_geometry_init(&t.g, t.codec.format, &shape, &error), "geometry", name)) return;
    t.stats = allocate(t.g.matrices * sizeof *t.stats);
    t.reference = make_planes(&t.g, 0x88);
    planes mine = make_planes(&t.g, 0x88);
    kerf_device_bands b = bands_of(&t, &h->dense, &h->all, &mine);
    if (ok(kerf_dbuf_write(&h->dense, 0, h->p, h->n, &error), "copy in", name) &&
        encode_resident(&t, &b, &h->all, &h->stats, &mine)) {
        compare_resident(&t, &mine);
        decode_resident(&t, &b, &h->dense);
    }
    printf("%-28s %12llu elements in one piece %s, %.1f s\n", t.name,
           (unsigned long long)t.g.elements, failures == before ? "same" : "DIFFERENT",
           now_s() - started);
    fflush(stdout);
    if (out) {
        fprintf(out, ",\n    {\"codec\": \"%s\", \"elements\": %llu, \"same\": %s}", t.name,
                (unsigned long long)t.g.elements, failures == before ? "true" : "false");
        fflush(out);
    }
    free(mine.all);
    free(t.reference.all);
    free(t.stats);
}

/* One with values per block, per matrix, per row; a nested sum; one that decodes 16 bits. */
static void check_huge_tensors(FILE *out)
{
    static const char *const names[] = {"nvfp4:4/6", "int8:amax", "nf4-dq:bnb-cpu", "mxfp6-e2m3",
                                        "int4-g32-asym"};
    huge h = {0};
    if (make_huge(&h))
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) check_huge(&h, names[i], out);
    kerf_dbuf_free(&h.dense);
    kerf_dbuf_free(&h.all);
    kerf_dbuf_free(&h.stats);
    free(h.p);
}

#endif
