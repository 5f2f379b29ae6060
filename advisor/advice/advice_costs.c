/* advice_costs.c - error and bytes of every candidate for every group. */
#include <math.h>
#include <stdio.h>

#include "advice/advice.h"

static double figure_of(const kerf_advice_tensor *t, const kerf_score *s)
{
    double weighted = kerf_score_weighted_t2(s);
    /* alpha was measured with errors that are alike in all columns: what an error costs is that of
     * the output against theirs, not against the output's own size */
    if (t->input > 0 && s->weighted_signal > 0 && s->signal > 0)
        return s->weighted_noise / (t->input * s->signal);
    /* an outlier must not hide what it costs the others */
    const double t2 = fmax(kerf_score_t2(s), kerf_score_rest_t2(s));
    return isnan(weighted) ? t2 : weighted;
}

/* What a tensor takes in candidate c. A layout may have tensors beside its planes: sorted columns,
 * tables of codes, shapes. */
static kerf_status stored_bytes(const kerf_advice *a, const kerf_advice_tensor *t, size_t c,
                                double *out, kerf_error *err)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    kerf_weight w = *t->weight;
    kerf_entry e;
    kerf_plane_id plane;
    uint64_t n;
    *out = (double)t->score[c].bytes;
    if (!a->layout) return KERF_OK;
    w.codec = a->codec[c];
    kerf_geometry g;
    KF_TRY(kerf_geometry_init(&g, w.codec.format, &w.shape, err));
    *out = 0;
    for (size_t i = 0; kerf_layout_entry(a->layout, &w, i, name, sizeof name, &e, &plane); i++) {
        KF_TRY(kerf_shape_count(&e.shape, &n, err));
        *out += (double)n * kerf_dtype_bits(e.dtype) / 8;
    }
    return KERF_OK;
}

/* A format whose range ends below a weight makes Inf of it: errors leave such elements out, and the
 * format would seem to lose nothing. */
static void drop_overflowing(const kerf_advice *a, kerf_advice_group *g)
{
    for (size_t m = 0; m < g->members; m++)
        for (size_t c = 0; c < a->codecs; c++)
            if (a->tensor[g->member[m]].score[c].nonfinite) g->cost[c].possible = 0;
}

static kerf_status cost_group(kerf_advice *a, kerf_advice_group *g, kerf_error *err)
{
    kerf_advice_cost *keep = &g->cost[a->codecs];
    keep->possible = 1;
    drop_overflowing(a, g);
    for (size_t m = 0; m < g->members; m++) {
        const kerf_advice_tensor *t = &a->tensor[g->member[m]];
        keep->bytes += (double)kerf_weight_kept_bytes(t->weight, a->layout);
        for (size_t c = 0; c < a->codecs; c++) {
            if (!g->cost[c].possible) continue;
            double bytes;
            KF_TRY(stored_bytes(a, t, c, &bytes, err));
            g->cost[c].bytes += bytes;
            g->cost[c].t2 += t->alpha * figure_of(t, &t->score[c]);
        }
    }
    return KERF_OK;
}

kerf_status kf_advice_find_costs(const kf_advising *w, kerf_error *err)
{
    kerf_advice *a = w->advice;
    a->tier = KERF_TIER_TABLE;
    for (size_t i = 0; i < a->groups; i++) KF_TRY(cost_group(a, &a->group[i], err));
    return a->hardware ? kf_advice_find_times(w, err) : KERF_OK;
}

/* --- what others ask of them ---------------------------------------------------------------- */

char *kerf_advice_codec_name(const kerf_advice *a, size_t c, char *out)
{
    if (c < a->codecs) return kerf_codec_name(a->codec[c], out, 64);
    snprintf(out, 64, "keep");
    return out;
}

double kerf_advice_bits(const kerf_advice_group *g, size_t candidate)
{
    return g->elements > 0 ? 8 * g->cost[candidate].bytes / g->elements : 0;
}

static void add_point(kerf_advice_point *p, const kerf_advice_cost *c)
{
    p->bytes += c->bytes;
    p->t2 += c->t2;
    p->us += c->us;
    p->low_us += c->low_us;
    p->high_us += c->high_us;
}

kerf_advice_point kf_advice_point_of(const kerf_advice *a, const size_t *candidate,
                                     const size_t *pick)
{
    kerf_advice_point p = {0};
    for (size_t i = 0; i < a->groups; i++) add_point(&p, &a->group[i].cost[candidate[pick[i]]]);
    p.bits = a->elements > 0 ? 8 * p.bytes / a->elements : 0;
    return p;
}

kerf_advice_point kerf_advice_total(const kerf_advice *a)
{
    kerf_advice_point p = {0};
    for (size_t i = 0; i < a->groups; i++) add_point(&p, &a->group[i].cost[a->group[i].pick]);
    p.bits = a->elements > 0 ? 8 * p.bytes / a->elements : 0;
    return p;
}

kerf_advice_point kerf_advice_uniform(const kerf_advice *a, size_t candidate)
{
    kerf_advice_point p = {0};
    for (size_t i = 0; i < a->groups; i++) {
        size_t c = a->group[i].cost[candidate].possible ? candidate : a->codecs;
        add_point(&p, &a->group[i].cost[c]);
    }
    p.bits = a->elements > 0 ? 8 * p.bytes / a->elements : 0;
    return p;
}
