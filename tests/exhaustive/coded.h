/* coded.h - a tensor of a given format with its planes, for tests that go through the public API
 * alone. Failures of calls that must succeed end the program. */
#ifndef KERF_TEST_CODED_H
#define KERF_TEST_CODED_H

#include <kerf/codec.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct coded {
    kerf_codec codec;
    kerf_geometry g;
    kerf_stats *stats;
    kerf_span plane[KERF_PLANES];
} coded;

static const kerf_exec coded_exec = {.threads = 1};

static inline void *must_alloc(size_t n)
{
    void *p = calloc(n + 1, 1);
    if (p) return p;
    fprintf(stderr, "out of memory\n");
    exit(1);
}

static inline void must(const coded *c, kerf_status s, const kerf_error *err)
{
    char name[64];
    if (s == KERF_OK) return;
    fprintf(stderr, "%s: %s\n", kerf_codec_name(c->codec, name, sizeof name), err->text);
    exit(1);
}

static inline void coded_init(coded *c, kerf_codec codec, kerf_shape shape)
{
    kerf_error err = {0};
    memset(c, 0, sizeof *c);
    c->codec = codec;
    must(c, kerf_geometry_init(&c->g, codec.format, &shape, &err), &err);
    c->stats = must_alloc((size_t)c->g.matrices * sizeof *c->stats);
    for (int p = 0; p < KERF_PLANES; p++) {
        c->plane[p].n = (size_t)c->g.plane[p].bytes;
        c->plane[p].p = must_alloc(c->plane[p].n);
    }
}

static inline void coded_free(coded *c)
{
    for (int p = 0; p < KERF_PLANES; p++) free(c->plane[p].p);
    free(c->stats);
}

static inline void coded_encode(coded *c, const void *src, kerf_dtype dtype)
{
    const kerf_geometry *g = &c->g;
    kerf_error err = {0};
    kerf_cspan from = {src, (size_t)g->elements * (kerf_dtype_bits(dtype) / 8)};
    memset(c->stats, 0, (size_t)g->matrices * sizeof *c->stats);
    if (kerf_needs_stats(g))
        must(c, kerf_measure(g, 0, g->bands, from, dtype, c->stats, &coded_exec, &err), &err);
    must(c,
         kerf_encode(g, c->codec.encoder, c->stats, 0, g->bands, from, dtype, c->plane, &coded_exec,
                     &err),
         &err);
}

static inline void coded_decode(const coded *c, float *out)
{
    kerf_error err = {0};
    kerf_cspan from[KERF_PLANES];
    for (int p = 0; p < KERF_PLANES; p++) from[p] = (kerf_cspan){c->plane[p].p, c->plane[p].n};
    kerf_span to = {out, (size_t)c->g.elements * sizeof *out};
    must(c, kerf_decode(&c->g, 0, c->g.bands, from, to, KERF_F32, &coded_exec, &err), &err);
}

/* Rows must be a multiple of this many elements: 1, but for formats of byte structs. */
static inline unsigned row_multiple(const kerf_format *f)
{
    kerf_geometry g;
    unsigned n = 1;
    while (kerf_geometry_init(&g, f, &(kerf_shape){1, {n}}, NULL) != KERF_OK)
        n = n == 1 ? f->group : 2 * n;
    return n;
}

/* Bytes of scales before the codes of a struct; 0: codes have a plane of their own. */
static inline unsigned struct_header(const kerf_format *f, unsigned elements)
{
    kerf_geometry g;
    if (elements == 1 || kerf_geometry_init(&g, f, &(kerf_shape){1, {elements}}, NULL) != KERF_OK)
        return 0;
    return (unsigned)g.plane[KERF_PLANE_CODES].bytes - elements * f->bits / 8;
}

/* 0: an encoder that works in a type of its own and says that it cannot start from this one. */
static inline int takes_source(kerf_codec codec, kerf_dtype dtype)
{
    coded c;
    coded_init(&c, codec, (kerf_shape){1, {row_multiple(codec.format)}});
    uint32_t zeros[256] = {0};
    kerf_cspan src = {zeros, (size_t)c.g.elements * (kerf_dtype_bits(dtype) / 8)};
    kerf_status s = kerf_encode(&c.g, codec.encoder, c.stats, 0, c.g.bands, src, dtype, c.plane,
                                &coded_exec, NULL);
    coded_free(&c);
    return s != KERF_E_NOSUP;
}

/* Decodes as if every element had this code: what each element could have become. */
static inline void coded_decode_all_as(const coded *c, uint32_t code, float *out)
{
    const kerf_format *f = c->codec.format;
    const kerf_span codes = c->plane[KERF_PLANE_CODES];
    const unsigned multiple = row_multiple(f), header = struct_header(f, multiple);
    uint64_t rows = c->g.matrices * c->g.rows, run = rows ? codes.n / rows : 0;
    if (header) run = header + multiple * f->bits / 8;
    coded same = *c;
    uint8_t *p = same.plane[KERF_PLANE_CODES].p = must_alloc(codes.n);
    memcpy(p, codes.p, codes.n);
    for (size_t i = 0; i < codes.n; i++) { /* a bit stream of one repeated code */
        if (i % run < header) continue;
        p[i] = 0;
        for (unsigned b = 0; b < 8; b++)
            p[i] |= (uint8_t)((code >> ((i % run - header) * 8 + b) % f->bits & 1) << b);
    }
    coded_decode(&same, out);
    free(p);
}

#endif
