/* laws_search.c - encoders that search are never worse than the simple rule that they begin with.
 */
#include "property/laws.h"

#include <math.h>

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
uint64_t search_wins(subject *s)
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
uint64_t four_over_six_wins(subject *s)
{
    const kerf_format *f = s->codec.format;
    int sweep = strcmp(s->codec.encoder->name, "sweep") == 0;
    subject other = *s;
    sample a, b;
    if (f->family != KERF_FAMILY_NVFP4) return 0;
    if (!sweep && strncmp(s->codec.encoder->name, "4/6", 3) != 0) return 0;
    other.codec.encoder = find_encoder(f, "4/6");
    kerf_shape shape = {2, {1 + draw(s, 40), f->group}};
    sample_draw(&a, s, shape, draw_kind(s));
    sample_init(&b, &other, shape);
    memcpy(b.x, a.x, a.n * sizeof *b.x);
    sample_code(&a);
    sample_code(&b);
    for (size_t i = 0; i < a.n / f->group; i++) {
        oracle_group g = {a.x + i * f->group, f->group, 1, (double)a.c.stats->amax, s->dtype};
        uint8_t mine = ((uint8_t *)a.c.plane[KERF_PLANE_SCALES].p)[i];
        uint8_t theirs = ((uint8_t *)b.c.plane[KERF_PLANE_SCALES].p)[i];
        double rival =
            sweep ? oracle_scale_value(f, theirs) : oracle_nvfp4_scale_six(s->rule->variant, &g);
        double scale = oracle_scale_value(f, mine);
        double err = oracle_nvfp4_error(s->rule->variant, &g, scale);
        double bound = oracle_nvfp4_error(s->rule->variant, &g, rival);
        if (err > bound) report(s, "is worse", (double)g.x[0], err, bound);
    }
    uint64_t n = a.n;
    sample_free(&a);
    sample_free(&b);
    return n;
}
