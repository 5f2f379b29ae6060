/* laws.c - laws about every encoder. Which one obeys which law, and why some do not, stands in the
 * table of exhaustive/oracle.c. */
#include "property/laws.h"

#include <math.h>

uint64_t decoding_again(subject *s)
{
    const kerf_format *f = s->codec.format;
    sample a, b;
    kerf_shape shape = draw_shape(s);
    source_kind kind = draw_kind(s);
    int exact = f->scale != KERF_SCALE_F32 || f->family == KERF_FAMILY_NF4;
    if (s->dtype != KERF_F32) return 0;            /* it cannot hold what was decoded */
    if (f->second == KERF_SECOND_NESTED) return 0; /* the mean of its scales moves */
    if (f->second == KERF_SECOND_TENSOR) {         /* no scale may become subnormal */
        shape.dim[shape.rank - 1] = f->group * (1 + draw(s, 8));
        kind = BELL;
        exact = 0;
    } else if (f->scale == KERF_SCALE_E4M3) {
        kind = GRID; /* likewise: 0, or 1/8 at least */
    }
    sample_draw(&a, s, shape, kind);
    sample_code(&a);
    sample_init(&b, s, shape);
    memcpy(b.x, a.y, a.n * sizeof *b.x);
    sample_code(&b);
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

uint64_t monotone(subject *s)
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

uint64_t symmetric(subject *s)
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

/* Powers of two that keep numbers of 1/2 .. 0.8 where the law speaks: within the normal numbers of
 * E4M3 scales that no other scale helps, and, from fp16, where ct's 2688 / amax is finite. */
static int draw_power(subject *s)
{
    const kerf_format *f = s->codec.format;
    int alone = f->scale == KERF_SCALE_E4M3 && f->second == KERF_SECOND_NONE;
    int least = alone ? -2 : s->dtype == KERF_F16 ? -3 : -6;
    if (f->geometry == KERF_GROUP_SUPER) least = 0; /* the scale of scales is fp16, and small */
    return least + (int)draw(s, (uint64_t)(7 - least));
}

/* Encoders with a least range get whole groups that are wider: -1/2 .. 1/2 at least. */
static void draw_for_scaling(sample *a, subject *s)
{
    int spread = (s->rule->traits & ORACLE_SPREAD) != 0;
    sample_draw(a, s, spread ? draw_run_shape(s) : draw_shape(s), BELL);
    for (size_t i = 0; i < a->n; i++) a->x[i] += a->x[i] < 0 ? -0.5f : 0.5f;
    if (!spread) return;
    size_t run = run_length(s->codec.format, &a->c.g);
    for (size_t at = 0; at + 1 < a->n; at += run) {
        a->x[at] = fabsf(a->x[at]);
        a->x[at + 1] = -fabsf(a->x[at + 1]);
    }
}

/* MX: only the exponents move, by k. Others: the same for their scales, seen in what is decoded. */
uint64_t scaling(subject *s)
{
    sample a, b;
    if (s->codec.format->element == KERF_ELEM_E5M2 && s->dtype == KERF_F16)
        return 0; /* amax / 57344 is subnormal in fp16 */
    int k = draw_power(s);
    draw_for_scaling(&a, s);
    sample_init(&b, s, a.c.g.shape);
    for (size_t i = 0; i < a.n; i++) b.x[i] = ldexpf(a.x[i], k);
    sample_code(&a);
    sample_code(&b);
    const kerf_format *f = s->codec.format;
    int apart = f->scale != KERF_SCALE_NONE && row_multiple(f) == 1; /* codes in their own plane */
    if (apart && !same_codes(&a, &b)) report(s, "codes differ", k, 0, 0);
    for (size_t i = 0; i < a.n; i++)
        if (b.y[i] != ldexpf(a.y[i], k))
            report(s, "is not scaled", (double)b.x[i], (double)b.y[i], ldexp((double)a.y[i], k));
    if (f->scale == KERF_SCALE_E8M0 && apart) {
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

/* Marks the elements of groups without zero in their range. Rows of blocks. */
static void mark_one_sided(const sample *a, uint8_t *skip)
{
    const kerf_geometry *g = &a->c.g;
    for (size_t row = 0; row < a->n; row += (size_t)g->cols)
        for (size_t at = 0; at < g->cols; at += g->format->group) {
            size_t n = g->cols - at < g->format->group ? g->cols - at : g->format->group;
            const float *x = a->x + row + at;
            float low = n < g->format->group ? 0 : x[0], high = low; /* a tail ends in zeros */
            for (size_t i = 0; i < n; i++) {
                low = fminf(low, x[i]);
                high = fmaxf(high, x[i]);
            }
            memset(skip + row + at, low > 0 || high < 0, n);
        }
}

/* What the middle code, a signed 0, decodes to: a sum that is rounded with the zero point in it is
 * off by a share of that. */
static float *shifts(const sample *a, const subject *s)
{
    const kerf_format *f = s->codec.format;
    float *shift = must_alloc(a->n * sizeof *shift);
    if (s->rule->traits & ORACLE_SHIFTED)
        coded_decode_all_as(&a->c, f->bits == 8 ? 0 : 1u << (f->bits - 1), shift);
    return shift;
}

/* The error of an element inside the range of its group is at most half a step: no code of the
 * format, under the scale that was stored, would have been nearer. */
uint64_t half_a_step(subject *s)
{
    const kerf_format *f = s->codec.format;
    sample a;
    if (f->bits > 8 || f->second == KERF_SECOND_NESTED) return 0; /* codes precede nested scales */
    sample_draw(&a, s, draw_shape(s), draw_kind(s));
    sample_code(&a);
    const oracle_bound slack = oracle_slack(s->rule, f, s->dtype);
    float *other = must_alloc(a.n * sizeof *other), *shift = shifts(&a, s);
    uint8_t *skip = must_alloc(a.n);
    if (s->rule->traits & ORACLE_OUTSIDE) mark_one_sided(&a, skip);
    for (uint32_t code = 0; code < 1u << f->bits; code++) {
        if (f->element == KERF_ELEM_MXI8 && code == 0x80) continue; /* never written */
        coded_decode_all_as(&a.c, code, other);
        for (size_t i = 0; i < a.n; i++) {
            double x = (double)a.x[i], d = fabs((double)a.y[i] - x);
            double bound = slack.relative * (fabs(x) + d + fabs((double)shift[i]));
            if (d > fabs((double)other[i] - x) + bound + slack.absolute && !skip[i])
                report(s, "is not the nearest", x, (double)a.y[i], (double)other[i]);
        }
    }
    uint64_t n = a.n;
    free(skip);
    free(shift);
    free(other);
    sample_free(&a);
    return n;
}

/* A short block is encoded as if padded with zeros, and nothing of a neighbouring row shows. */
uint64_t tails(subject *s)
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
