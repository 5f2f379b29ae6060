/* sampling.c - see sampling.h. */
#include "property/sampling.h"

#include <math.h>

enum { MAX_REPORTS = 20 };

static uint64_t failures;

uint64_t failure_count(void)
{
    return failures;
}

void report(const subject *s, const char *what, double x, double got, double want)
{
    char name[64];
#pragma omp critical(report)
    if (failures++ < MAX_REPORTS)
        printf("%s from %s: %s: %s: x = %a: %a, expected %a\n",
               kerf_codec_name(s->codec, name, sizeof name), kerf_dtype_name(s->dtype), s->law,
               what, x, got, want);
}

/* --- what is drawn ---------------------------------------------------------------------------- */

uint64_t draw(subject *s, uint64_t below)
{
    return mix_bits(s->random++) % below;
}

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

source_kind draw_kind(subject *s)
{
    return (source_kind)draw(s, KINDS);
}

kerf_shape draw_shape(subject *s)
{
    uint64_t cols = 1 + draw(s, draw(s, 2) ? 40 : 300), rows = 1 + draw(s, 8);
    uint64_t multiple = row_multiple(s->codec.format);
    cols = (cols + multiple - 1) / multiple * multiple;
    if (draw(s, 4) == 0) return (kerf_shape){3, {1 + draw(s, 3), rows, cols}};
    return (kerf_shape){2, {rows, cols}};
}

void sample_init(sample *p, const subject *s, kerf_shape shape)
{
    coded_init(&p->c, s->codec, shape);
    p->n = (size_t)p->c.g.elements;
    p->dtype = s->dtype;
    p->half = must_alloc(p->n * sizeof *p->half);
    p->x = must_alloc(p->n * sizeof *p->x);
    p->y = must_alloc(p->n * sizeof *p->y);
}

void sample_draw(sample *p, subject *s, kerf_shape shape, source_kind kind)
{
    sample_init(p, s, shape);
    for (size_t i = 0; i < p->n; i++) {
        p->x[i] = draw_value(s, kind);
        /* fp16 has few numbers below 2^-14: laws about rounding need not hold for rows of them */
        if (s->rule->traits & ORACLE_HALF && fabsf(p->x[i]) < 0x1p-8f) p->x[i] = 0;
    }
}

const void *sample_source(sample *p)
{
    if (p->dtype == KERF_F32) return p->x;
    for (size_t i = 0; i < p->n; i++) {
        p->half[i] = oracle_bits(p->dtype, (double)p->x[i]);
        p->x[i] = (float)oracle_number(p->dtype, p->half[i]);
    }
    return p->half;
}

void sample_code(sample *p)
{
    coded_encode(&p->c, sample_source(p), p->dtype);
    coded_decode(&p->c, p->y);
}

void sample_free(sample *p)
{
    free(p->x);
    free(p->y);
    free(p->half);
    coded_free(&p->c);
}

int same_codes(const sample *a, const sample *b)
{
    const kerf_span *p = &a->c.plane[KERF_PLANE_CODES], *q = &b->c.plane[KERF_PLANE_CODES];
    return p->n == q->n && memcmp(p->p, q->p, p->n) == 0;
}

size_t run_length(const kerf_format *f, const kerf_geometry *g)
{
    if (f->geometry == KERF_GROUP_TENSOR || f->geometry == KERF_GROUP_TILE)
        return (size_t)(g->rows * g->cols);
    if (f->geometry == KERF_GROUP_ROW || f->geometry == KERF_GROUP_NONE) return (size_t)g->cols;
    return f->group;
}

kerf_shape draw_run_shape(subject *s)
{
    const kerf_format *f = s->codec.format;
    uint64_t few = 1 + draw(s, 6);
    if (f->geometry == KERF_GROUP_TILE) return (kerf_shape){3, {few, 4, 1 + draw(s, 64)}};
    if (row_multiple(f) > 1) return (kerf_shape){2, {few, row_multiple(f)}};
    if (f->group) return (kerf_shape){2, {few, f->group}};
    return (kerf_shape){3, {few, 1, 1 + draw(s, 200)}};
}
