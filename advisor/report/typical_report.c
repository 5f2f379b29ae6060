/* typical_report.c - which format for a model without its weights: the verdict in words, and a
 * document for programs. */
#include <math.h>

#include <kerf/choose.h>
#include <kerf/typical.h>
#include <kerf/words.h>

#include "base/text_page.h"
#include "file/json/json_text.h"
#include "report/ci_text.h"

enum { NAME = 4096 }; /* longer names of machines are cut */

static const kerf_typical_row *best_of(const kerf_typical *t)
{
    return t->best < t->rows ? &t->row[t->best] : NULL;
}

static double speed(const kerf_typical *t, double us)
{
    return t->batch * 1e6 / us;
}

/* --- words --------------------------------------------------------------------------------- */

/* The least and fastest of what fits. */
typedef struct extremes {
    double bits, bytes, us;
    int fits, in_part; /* something fits; something that fits holds in part */
} extremes;

static extremes extremes_of(const kerf_typical *t)
{
    extremes e = {INFINITY, INFINITY, INFINITY, 0, 0};
    for (size_t i = 0; i < t->rows; i++) {
        const kerf_typical_row *x = &t->row[i];
        if (!x->fits) continue;
        e.fits = 1;
        e.in_part |= x->holds != 0;
        e.bits = fmin(e.bits, x->bits);
        e.bytes = fmin(e.bytes, x->weight_bytes);
        e.us = fmin(e.us, x->low_us);
    }
    return e;
}

/* Why none is best: none fits, none is small enough, none reaches a limit of time at all, or not
 * for sure. */
static void put_none(FILE *to, const kerf_typical *t)
{
    const kerf_budget *b = &t->request.budget;
    const extremes e = extremes_of(t);
    char machine[NAME];
    if (!e.fits)
        fprintf(to, "\nNo format fits in the memory of %s.\n",
                kerf_text_printable(t->request.hardware->name, machine, sizeof machine));
    else if ((b->bits > 0 && e.bits > kerf_bits_most(b->bits)) ||
             (b->bytes > 0 && e.bytes > b->bytes))
        fprintf(to,
                "\nNo format that fits is within the budget: the least is %.4f bits, %.2f GB of "
                "weights.\n",
                ceil(e.bits * 1e4) * 1e-4, ceil(e.bytes * 1e-7) * 1e-2);
    else if (!e.in_part)
        fprintf(
            to,
            "\nNo format that fits is within the budget, not even at the fast end of its band:\n"
            "the most is %.0f tokens/s.\n",
            speed(t, e.us));
    else
        fprintf(to, "\nNo format holds at the slow end of its band. :likely holds limits of time "
                    "against\n"
                    "the middle; kerf hardware --measure makes the band narrow.\n");
}

static void put_best(FILE *to, const kerf_typical *t, const kerf_typical_row *x)
{
    const kerf_runtime *runtime = t->request.runtime;
    char name[64], machine[NAME];
    fprintf(to,
            "\n%s: the least error of what fits and holds on %s%s%s:\n"
            "%.2f GB of weights, %.2f GB of cache at %.0f x %.0f tokens, %.0f to %.0f tokens/s\n"
            "(%s, %.0f in the middle).\n",
            kerf_codec_name(x->codec, name, sizeof name),
            kerf_text_printable(t->request.hardware->name, machine, sizeof machine),
            runtime && runtime->title[0] ? " in " : "", runtime ? runtime->title : "",
            x->weight_bytes * 1e-9, x->cache_bytes * 1e-9, t->batch, t->context,
            speed(t, x->high_us), speed(t, x->low_us), kerf_tier_name(x->tier), speed(t, x->us));
}

static void put_summary(FILE *to, const void *ctx)
{
    const kerf_typical *t = ctx;
    const kerf_typical_row *x = best_of(t);
    const kerf_model *m = t->request.model;
    char type[sizeof m->type];
    if (x)
        put_best(to, t, x);
    else
        put_none(to, t);
    if (t->request.gpus > 1)
        fprintf(to, "On %u GPUs: %.2f GB on each with %s; what they exchange is in the times.\n",
                t->request.gpus, (x ? x : &t->row[0])->gpu_bytes * 1e-9, x ? "that" : "the first");
    if (m->estimated)
        fprintf(to, "The family %s is not known: sizes are as in most models.\n",
                kerf_text_printable(m->type, type, sizeof type));
    fprintf(to,
            "\nErrors are typical ones,\n%s.\n"
            "With the weights, kerf advise FOLDER measures them and mixes formats by layer:\n"
            "less error at the same size, and a recipe for kerf quantize.\n",
            kerf_typical_source());
}

static void put_text(kf_page *p, const void *ctx)
{
    static const char *const fits[] = {"?", "no", "yes"}, *const holds[] = {"no", "in part", "yes"};
    const kerf_typical *t = ctx;
    char name[64];
    kf_table_begin(p, "format|>bits|>GB|+>cache GB|fits|>typical t2|>tokens/s|budget");
    for (size_t i = 0; i < t->rows; i++) {
        const kerf_typical_row *x = &t->row[i];
        kf_table_cell(p, "%s", kerf_codec_name(x->codec, name, sizeof name));
        kf_table_cell(p, "%.3f", x->bits);
        kf_table_cell(p, "%.2f", x->weight_bytes * 1e-9);
        kf_table_cell(p, "%.2f", x->cache_bytes * 1e-9);
        kf_table_cell(p, "%s", fits[x->fits + 1]);
        kf_table_cell(p, "%.1e", x->t2);
        kf_table_cell(p, "%.0f..%.0f", speed(t, x->high_us), speed(t, x->low_us));
        kf_table_cell(p, "%s", holds[x->holds]);
    }
    kf_table_end(p);
    put_summary(p->to, t);
}

kerf_status kerf_typical_text(const kerf_typical *t, const kerf_text_form *form, char **text,
                              size_t *n, kerf_error *err)
{
    return kf_page_print(put_text, t, form, text, n, err);
}

/* --- document ------------------------------------------------------------------------------ */

static json_t *row_json(const kerf_typical_row *x)
{
    char name[64];
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:o, s:i}", "codec",
                     kerf_codec_name(x->codec, name, sizeof name), "bits", x->bits, "weight_bytes",
                     x->weight_bytes, "cache_bytes", x->cache_bytes, "gpu_bytes", x->gpu_bytes,
                     "typical_t2", x->t2, "low_us", x->low_us, "us", x->us, "high_us", x->high_us,
                     "tier", kerf_tier_name(x->tier), "fits",
                     x->fits < 0 ? json_null() : json_boolean(x->fits), "holds", x->holds);
}

kerf_status kerf_typical_write(const kerf_typical *t, kerf_typical_kind kind, char **text,
                               size_t *n, kerf_error *err)
{
    const kerf_typical_request *r = &t->request;
    const kerf_typical_row *best = best_of(t);
    char name[64];
    if (kind == KERF_TYPICAL_SUMMARY) return kf_ci_print(put_summary, t, text, n, err);
    json_t *rows = json_array();
    for (size_t i = 0; i < t->rows; i++) kf_json_add(&rows, row_json(&t->row[i]));
    json_t *doc =
        json_pack("{s:s, s:o, s:s, s:s, s:i, s:f, s:f, s:b, s:s*, s:o, s:s}", "schema",
                  "kerf.advise-typical/1", "config", kf_json_path(r->config), "type",
                  r->model->type, "hardware", r->hardware->name, "gpus", (int)r->gpus, "batch",
                  t->batch, "context", t->context, "estimated", r->model->estimated, "best",
                  best ? kerf_codec_name(best->codec, name, sizeof name) : NULL, "formats", rows,
                  "error_source", kerf_typical_source());
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}
