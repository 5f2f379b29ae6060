/* advice_text.c - advice for a terminal, for programs and for a page in Markdown. */
#include <math.h>
#include "base/base.h"
#include <stdio.h>
#include <string.h>

#include "advice/advice.h"

static double limit_or_zero(double x)
{
    return x < INFINITY ? x : 0;
}

/* --- text ---------------------------------------------------------------------------------- */

static void print_headline(const advice *a, FILE *to)
{
    advice_point p = advice_total(a);
    char bytes[TEXT_SIZE];
    fprintf(to,
            "%zu tensors in %zu groups of %s: %.3f bits per weight, %s with what is kept,\n"
            "sum of alpha t2 %.4e (alpha: %s",
            a->tensors, a->groups, kerf_checkpoint_path(a->source), p.bits,
            bytes_text((uint64_t)(p.bytes + a->kept_bytes), bytes), p.t2, a->alpha_source);
    if (a->weighted) fprintf(to, "; t2 of %zu weighted by the imatrix", a->weighted);
    fprintf(to, ")\n");
    if (a->machine.hardware) {
        fprintf(to,
                "%s, batch %.0f, context %.0f: %.1f us for these products, %.1f us for the rest",
                a->machine.hardware->name, a->batch, a->context, p.us, a->other_us);
        if (a->has_model) {
            fprintf(to, ",\n%.1f tokens/s (%s)\n", a->batch * 1e6 / (p.us + a->other_us),
                    kerf_tier_name(a->tier));
        } else {
            fprintf(to, " (%s; no config.json: products alone)\n", kerf_tier_name(a->tier));
        }
    }
    fprintf(to,
            "gap to the bound %.2g %%; %zu dominated options dropped; chosen in %.3f s; %zu scores "
            "measured, %zu from the cache\n",
            100 * a->choice.gap, a->choice.dominated, a->choose_s, a->scored, a->cached);
}

kerf_status advice_print_text(const advice *a, kerf_error *err)
{
    table *t = NULL;
    char name[64];
    int timed = a->machine.hardware != NULL;
    KF_TRY(table_open(
        &t, timed ? "group|format|>bits|>alpha t2|>us|why" : "group|format|>bits|>alpha t2|why",
        err));
    for (size_t i = 0; i < a->groups; i++) {
        const advice_group *g = &a->group[i];
        table_cell(t, "%s", g->name);
        table_cell(t, "%s", advice_codec_name(a, g->pick, name));
        table_cell(t, "%.3f", advice_bits(g, g->pick));
        table_cell(t, "%.3e", g->cost[g->pick].t2);
        if (timed) table_cell(t, "%.2f", g->cost[g->pick].us);
        table_cell(t, "%s", g->reason);
    }
    kerf_status s = table_print(t, stdout, err);
    table_close(t);
    printf("\n");
    print_headline(a, stdout);
    return s;
}

/* --- JSON ---------------------------------------------------------------------------------- */

static json_t *costs_json(const advice *a, const advice_group *g)
{
    json_t *all = json_array();
    char name[64];
    for (size_t c = 0; c <= a->codecs.count; c++) {
        const advice_cost *x = &g->cost[c];
        if (!x->possible) continue;
        json_array_append_new(
            all, json_pack("{s:s, s:f, s:f, s:f, s:f}", "codec", advice_codec_name(a, c, name),
                           "bits", advice_bits(g, c), "bytes", x->bytes, "t2", x->t2, "us", x->us));
    }
    return all;
}

static json_t *groups_json(const advice *a)
{
    json_t *all = json_array();
    char name[64];
    for (size_t i = 0; i < a->groups; i++) {
        const advice_group *g = &a->group[i];
        json_t *members = json_array();
        for (size_t m = 0; m < g->members; m++) {
            json_array_append_new(members, json_string(a->tensor[g->member[m]].weight->name));
        }
        const advice_cost *x = &g->cost[g->pick];
        json_array_append_new(all,
                              json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:s, s:o, s:o}", "name",
                                        g->name, "codec", advice_codec_name(a, g->pick, name),
                                        "bits", advice_bits(g, g->pick), "bytes", x->bytes, "t2",
                                        x->t2, "us", x->us, "reason", g->reason, "tensors", members,
                                        "candidates", costs_json(a, g)));
    }
    return all;
}

static json_t *point_json(const advice_point *p)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "bits", p->bits, "bytes", p->bytes, "t2", p->t2, "us",
                     p->us);
}

static json_t *curve_json(const advice_curve *c)
{
    json_t *all = json_array();
    for (size_t i = 0; i < c->count; i++) json_array_append_new(all, point_json(&c->point[i]));
    return all;
}

json_t *advice_json(const advice *a)
{
    json_t *uniform = json_array();
    char name[64];
    advice_point total = advice_total(a);
    for (size_t c = 0; c < a->codecs.count; c++) {
        advice_point p = advice_uniform(a, c);
        json_t *row = point_json(&p);
        json_object_set_new(row, "codec", json_string(advice_codec_name(a, c, name)));
        json_array_append_new(uniform, row);
    }
    json_t *hardware = a->machine.hardware ? json_string(a->machine.hardware->name) : json_null();
    json_t *tier = a->machine.hardware ? json_string(kerf_tier_name(a->tier)) : json_null();
    return json_pack("{s:o, s:o, s:o, s:f, s:f, s:s, s:o, s:f, s:f, s:f, s:I, s:f, s:I, s:I, s:o, "
                     "s:o, s:o, s:o}",
                     "source", json_path(kerf_checkpoint_path(a->source)), "hardware", hardware,
                     "tier", tier, "batch", a->batch, "context", a->context, "alpha",
                     a->alpha_source, "total", point_json(&total), "kept_bytes", a->kept_bytes,
                     "other_us", a->other_us, "gap", a->choice.gap, "dominated",
                     (json_int_t)a->choice.dominated, "choose_s", a->choose_s, "scored",
                     (json_int_t)a->scored, "cached", (json_int_t)a->cached, "groups",
                     groups_json(a), "curve", curve_json(&a->by_size), "time_curve",
                     curve_json(&a->by_time), "uniform", uniform);
}

/* --- Markdown ------------------------------------------------------------------------------ */

/* A cell must not end its table: bars and control characters become spaces. */
static void put_cell(FILE *to, const char *text)
{
    fputs("| ", to);
    for (; *text; text++) fputc((unsigned char)*text < 32 || *text == '|' ? ' ' : *text, to);
    fputc(' ', to);
}

kerf_status advice_write_markdown(const advice *a, FILE *to, kerf_error *err)
{
    char name[64];
    const advice_limits *l = &a->limits;
    fprintf(to, "# Precision advice\n\n");
    print_headline(a, to);
    if (limit_or_zero(l->bits) > 0) fprintf(to, "\nLimit: %g bits per weight.\n", l->bits);
    if (limit_or_zero(l->bytes) > 0) fprintf(to, "\nLimit: %.0f bytes.\n", l->bytes);
    if (limit_or_zero(l->us) > 0) fprintf(to, "\nLimit: %g us.\n", l->us);
    if (limit_or_zero(l->tokens_per_s) > 0) fprintf(to, "\nLimit: %g tokens/s.\n", l->tokens_per_s);
    fprintf(to,
            "\n| group | format | bits | alpha t2 | us | why |\n|---|---|---:|---:|---:|---|\n");
    for (size_t i = 0; i < a->groups; i++) {
        const advice_group *g = &a->group[i];
        put_cell(to, g->name);
        put_cell(to, advice_codec_name(a, g->pick, name));
        fprintf(to, "| %.3f | %.3e | %.2f ", advice_bits(g, g->pick), g->cost[g->pick].t2,
                g->cost[g->pick].us);
        put_cell(to, g->reason);
        fprintf(to, "|\n");
    }
    fprintf(to,
            "\nThe best choices by size:\n\n| bits | sum of alpha t2 | us |\n|---:|---:|---:|\n");
    for (size_t i = 0; i < a->by_size.count; i++) {
        const advice_point *p = &a->by_size.point[i];
        fprintf(to, "| %.3f | %.4e | %.2f |\n", p->bits, p->t2, p->us);
    }
    return ferror(to) ? kf_fail(err, KERF_E_IO, KF_NOWHERE, "the report cannot be written")
                      : KERF_OK;
}
