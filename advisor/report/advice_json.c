/* advice_json.c - advice for programs: all of it, candidates that were not chosen among them. */
#include "report/report.h"

static json_t *costs_json(const kerf_advice *a, const kerf_advice_group *g)
{
    json_t *all = json_array();
    char name[64];
    for (size_t c = 0; c <= a->codecs; c++) {
        const kerf_advice_cost *x = &g->cost[c];
        if (!x->possible) continue;
        kf_json_add(&all,
                    json_pack("{s:s, s:f, s:f, s:f, s:f}", "codec",
                              kerf_advice_codec_name(a, c, name), "bits", kerf_advice_bits(g, c),
                              "bytes", x->bytes, "t2", x->t2, "us", x->us));
    }
    return all;
}

static json_t *groups_json(const kerf_advice *a)
{
    json_t *all = json_array();
    char name[64];
    for (size_t i = 0; i < a->groups; i++) {
        const kerf_advice_group *g = &a->group[i];
        json_t *members = json_array();
        for (size_t m = 0; m < g->members; m++) {
            kf_json_add(&members, json_string(a->tensor[g->member[m]].weight->name));
        }
        const kerf_advice_cost *x = &g->cost[g->pick];
        kf_json_add(&all, json_pack("{s:o, s:s, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "name",
                                    kf_json_path(g->name), "codec",
                                    kerf_advice_codec_name(a, g->pick, name), "bits",
                                    kerf_advice_bits(g, g->pick), "bytes", x->bytes, "t2", x->t2,
                                    "us", x->us, "reason", kf_json_path(g->reason), "tensors",
                                    members, "candidates", costs_json(a, g)));
    }
    return all;
}

static json_t *point_json(const kerf_advice_point *p)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "bits", p->bits, "bytes", p->bytes, "t2",
                     p->t2, "us", p->us, "low_us", p->low_us, "high_us", p->high_us);
}

static json_t *curve_json(const kerf_advice_curve *c)
{
    json_t *all = json_array();
    for (size_t i = 0; i < c->count; i++) kf_json_add(&all, point_json(&c->point[i]));
    return all;
}

static json_t *measured_json(const kerf_advice *a)
{
    json_t *all = json_array();
    char name[64];
    for (size_t i = 0; i < a->measureds; i++) {
        const kerf_advice_measured *m = &a->measured[i];
        const char *codec =
            m->uniform == SIZE_MAX ? NULL : kerf_advice_codec_name(a, m->uniform, name);
        kf_json_add(&all,
                    json_pack("{s:s*, s:f, s:f, s:o, s:[o,o], s:o, s:b}", "codec", codec, "bits",
                              m->bits, "predicted", m->predicted, "kl", kf_json_number(m->kl),
                              "kl_interval", kf_json_number(m->kl_low), kf_json_number(m->kl_high),
                              "perplexity", kf_json_number(m->perplexity), "recommended",
                              i == a->measured_pick));
    }
    return all;
}

json_t *kf_advice_json(const kerf_advice *a)
{
    json_t *uniform = json_array();
    char name[64];
    kerf_advice_point total = kerf_advice_total(a);
    for (size_t c = 0; c < a->codecs; c++) {
        kerf_advice_point p = kerf_advice_uniform(a, c);
        json_t *row = point_json(&p);
        kf_json_set(&row, "codec", json_string(kerf_advice_codec_name(a, c, name)));
        kf_json_add(&uniform, row);
    }
    json_t *hardware = a->hardware ? json_string(a->hardware->name) : json_null();
    double bytes;
    const int fits = a->hardware ? kf_advice_fits(a, &bytes) : -1;
    json_t *tier = a->hardware ? json_string(kerf_tier_name(a->tier)) : json_null();
    return json_pack(
        "{s:s, s:o, s:s*, s:s*, s:o, s:o, s:o, s:I, s:f, s:f, s:o, s:o, s:f, s:f, s:f, s:f, s:f, "
        "s:I, "
        "s:f, "
        "s:I, s:I, "
        "s:o, s:o, s:o, s:o, s:o}",
        "schema", "kerf.advise/1", "source", kf_json_path(a->source), "layout",
        a->layout ? a->layout->name : NULL, "runtime", a->runtime ? a->runtime->name : NULL,
        "hardware", hardware, "tier", tier, "fits", fits < 0 ? json_null() : json_boolean(fits),
        "gpus", (json_int_t)a->gpus, "batch", a->batch, "context", a->context, "alpha",
        kf_json_path(a->alpha_source), "total", point_json(&total), "kept_bytes", a->kept_bytes,
        "other_us", a->other_us, "other_low_us", a->other_low_us, "other_high_us", a->other_high_us,
        "gap", a->choice.gap, "dominated", (json_int_t)a->choice.dominated, "choose_s", a->choose_s,
        "scored", (json_int_t)a->scored, "cached", (json_int_t)a->cached, "groups", groups_json(a),
        "curve", curve_json(&a->by_size), "time_curve", curve_json(&a->by_time), "uniform", uniform,
        "measured", measured_json(a));
}
