/* eval_report.c - what kerf_eval has measured, as JSON, for people, and for the programs that run
 * kerf: a test per candidate. */
#include <kerf/eval.h>
#include <math.h>

#include "base/text_page.h"
#include "base/plain_numbers.h"
#include "file/json/json_text.h"
#include "report/ci_text.h"

/* --- words --------------------------------------------------------------------------------- */

enum { WORDS = 96 };

/* What is wrong with a figure that is over its limit. */
static void say_fault(char out[WORDS], const kerf_evaluation *e, const kerf_eval_model *m,
                      kerf_eval_figure f)
{
    const char *name = kerf_eval_figure_name(f);
    if (isnan(m->figure[f]))
        snprintf(out, WORDS, "%s is no number: what it predicts is NaN or infinite", name);
    else
        snprintf(out, WORDS, "%s %.4g is over its limit %.4g", name, m->figure[f],
                 e->limits.most[f]);
}

/* "-" where there is none: one row, or predictions that are no numbers. */
static void say_interval(char out[WORDS], const kerf_eval_model *m)
{
    if (isnan(m->kl_low) || isnan(m->kl_high))
        snprintf(out, WORDS, "-");
    else
        snprintf(out, WORDS, "%.5f to %.5f", m->kl_low, m->kl_high);
}

/* "inputs of 28 weights in nvfp4, KV cache in fp8-e4m3"; empty: nothing is rounded. */
static void say_rounds(char *out, size_t size, const kerf_rounds *r)
{
    int n = 0;
    out[0] = 0;
    if (r->weights)
        n = kf_print(out, size, "inputs of %zu weight%s in", r->weights,
                     r->weights == 1 ? "" : "s");
    for (size_t i = 0; r->weights && r->inputs[i]; i++)
        n += kf_print(out + n, size - (size_t)n, "%s %s", i ? "," : "", r->inputs[i]->name);
    if (r->cache)
        kf_print(out + n, size - (size_t)n, "%sKV cache in %s", n ? "; " : "", r->cache->name);
}

/* --- JSON ---------------------------------------------------------------------------------- */

static json_t *pack_model(const kerf_evaluation *e, size_t i)
{
    const kerf_eval_model *m = &e->model[i];
    json_t *o = json_pack("{s:o, s:I, s:o, s:o, s:o}", "path", kf_json_path(m->path), "quantized",
                          (json_int_t)m->quantized, "bits", kf_json_number(m->bits), "loss",
                          kf_json_number(m->loss), "perplexity", kf_json_number(m->perplexity));
    json_t *inputs = json_array();
    for (size_t k = 0; m->rounds.inputs[k]; k++)
        kf_json_add(&inputs, json_string(m->rounds.inputs[k]->name));
    kf_json_set(&o, "inputs", inputs);
    kf_json_set(&o, "cache", m->rounds.cache ? json_string(m->rounds.cache->name) : json_null());
    if (i == 0) return o;
    for (unsigned f = 0; f < KERF_EVAL_FIGURES; f++)
        kf_json_set(&o, kerf_eval_figure_name((kerf_eval_figure)f), kf_json_number(m->figure[f]));
    json_t *interval = json_array(), *drift = json_array(), *over = json_array();
    kf_json_add(&interval, kf_json_number(m->kl_low));
    kf_json_add(&interval, kf_json_number(m->kl_high));
    for (uint64_t k = 0; k < e->layers; k++) kf_json_add(&drift, kf_json_number(m->drift[k]));
    for (unsigned f = 0; f < KERF_EVAL_FIGURES; f++)
        if (m->over >> f & 1u)
            kf_json_add(&over, json_string(kerf_eval_figure_name((kerf_eval_figure)f)));
    kf_json_set(&o, "kl_interval", interval);
    kf_json_set(&o, "kl_most", kf_json_number(m->kl_most));
    kf_json_set(&o, "drift", drift);
    kf_json_set(&o, "over", over);
    return o;
}

kerf_status kerf_evaluation_write(const kerf_evaluation *e, char **text, size_t *n, kerf_error *err)
{
    json_t *candidates = json_array(), *limits = json_object();
    for (size_t i = 1; i < e->models; i++) kf_json_add(&candidates, pack_model(e, i));
    for (unsigned f = 0; f < KERF_EVAL_FIGURES; f++)
        if (e->limits.most[f] < INFINITY)
            kf_json_set(&limits, kerf_eval_figure_name((kerf_eval_figure)f),
                        kf_json_number(e->limits.most[f]));
    json_t *doc =
        json_pack("{s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:b, s:f}", "schema", "kerf.eval/1", "rows",
                  (json_int_t)e->rows, "length", (json_int_t)e->length, "predictions",
                  (json_int_t)e->predictions, "source", pack_model(e, 0), "candidates", candidates,
                  "limits", limits, "passed", e->passed, "seconds", e->seconds);
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}

/* --- text ---------------------------------------------------------------------------------- */

static void put_text(kf_page *p, const void *ctx)
{
    const kerf_evaluation *e = ctx;
    char words[WORDS];
    kf_table_begin(p, "~model|>bits|>perplexity|>KL|+>95 %|>99th|>same top");
    for (size_t i = 0; i < e->models; i++) {
        const kerf_eval_model *m = &e->model[i];
        kf_table_cell(p, "%s", kf_page_plain(p, m->path));
        kf_table_cell(p, "%.3f", m->bits);
        say_interval(words, m);
        kf_table_figure(p, "%.4f", m->perplexity);
        kf_table_figure(p, "%.5f", m->figure[KERF_EVAL_KL]);
        kf_table_cell(p, "%s", words);
        kf_table_figure(p, "%.4f", m->figure[KERF_EVAL_KL_P99]);
        kf_table_cell(p, "%.2f %%", 100 * (1 - m->figure[KERF_EVAL_FLIPS]));
    }
    kf_table_end(p);
    for (size_t i = 0; i < e->models; i++) {
        char rounds[256];
        say_rounds(rounds, sizeof rounds, &e->model[i].rounds);
        if (rounds[0])
            fprintf(p->to, "%s: %s, as it is run\n", kf_page_plain(p, e->model[i].path), rounds);
    }
    for (size_t i = 1; i < e->models; i++)
        for (unsigned f = 0; f < KERF_EVAL_FIGURES; f++) {
            if (!(e->model[i].over >> f & 1u)) continue;
            say_fault(words, e, &e->model[i], (kerf_eval_figure)f);
            fprintf(p->to, "%s: %s\n", kf_page_plain(p, e->model[i].path), words);
        }
    fprintf(p->to, "%llu predictions in %llu rows, %.1f s\n", (unsigned long long)e->predictions,
            (unsigned long long)e->rows, e->seconds);
}

kerf_status kerf_evaluation_text(const kerf_evaluation *e, const kerf_text_form *form, char **text,
                                 size_t *n, kerf_error *err)
{
    return kf_page_print(put_text, e, form, text, n, err);
}

/* --- reports ------------------------------------------------------------------------------- */

static void test_at(const void *ctx, size_t i, kf_ci_test *out)
{
    const kerf_evaluation *e = ctx;
    const kerf_eval_model *m = &e->model[i + 1];
    size_t n = 0;
    out->group = e->model[0].path;
    out->name = m->path;
    out->fault[0] = 0;
    for (unsigned f = 0; f < KERF_EVAL_FIGURES && n < sizeof out->fault; f++) {
        if (!(m->over >> f & 1u)) continue;
        char words[WORDS];
        say_fault(words, e, m, (kerf_eval_figure)f);
        const int k = kf_print(out->fault + n, sizeof out->fault - n, "%s%s", n ? "; " : "", words);
        if (k > 0) n += (size_t)k;
    }
}

static void put_markdown(const kerf_evaluation *e, const kf_ci_tests *tests, FILE *to)
{
    fprintf(to, "# kerf eval\n\n%s ", e->passed ? "Passed:" : "**Failed**:");
    kf_ci_put_code(to, e->model[0].path);
    fprintf(to,
            ", %llu predictions in %llu rows; KL is that of the next token's distribution against "
            "the source, in nats.\n",
            (unsigned long long)e->predictions, (unsigned long long)e->rows);
    kf_ci_put_faults(to, tests);
    fputs("\n| model | bits | perplexity | KL | 95 % | 99th percentile | same top token |\n"
          "|---|---:|---:|---:|---:|---:|---:|\n",
          to);
    for (size_t i = 0; i < e->models; i++) {
        const kerf_eval_model *m = &e->model[i];
        fputs("| ", to);
        kf_ci_put_code(to, m->path);
        char words[WORDS];
        say_interval(words, m);
        fprintf(to, " | %.3f | %.4f | %.5f | %s | %.4f | %.2f %% |\n", m->bits, m->perplexity,
                m->figure[KERF_EVAL_KL], words, m->figure[KERF_EVAL_KL_P99],
                100 * (1 - m->figure[KERF_EVAL_FLIPS]));
    }
}

typedef struct eval_text {
    const kerf_evaluation *evaluation;
    kerf_eval_kind kind;
} eval_text;

static void put_kind(FILE *to, const void *ctx)
{
    const eval_text *t = ctx;
    const kerf_evaluation *e = t->evaluation;
    const kf_ci_tests tests = {"kerf eval", "candidate", e->models - 1, test_at, e};
    switch (t->kind) {
    case KERF_EVAL_JUNIT: kf_ci_put_junit(to, &tests); break;
    case KERF_EVAL_MARKDOWN: put_markdown(e, &tests, to); break;
    case KERF_EVAL_ANNOTATIONS: kf_ci_put_annotations(to, &tests); break;
    }
}

kerf_status kerf_evaluation_report(const kerf_evaluation *e, kerf_eval_kind kind, char **text,
                                   size_t *n, kerf_error *err)
{
    const eval_text t = {e, kind};
    return kf_ci_print(put_kind, &t, text, n, err);
}
