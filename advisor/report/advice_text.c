/* advice_text.c - advice for people, as text: a summary of some lines, a table before it, and a
 * page in Markdown. */
#include <math.h>
#include <string.h>

#include <kerf/words.h>

#include "base/text_page.h"
#include "report/report.h"

/* A path, or a name from a file: no control characters on a terminal. */
static const char *plain(const char *text, char out[1024])
{
    return kerf_text_printable(text, out, 1024);
}

/* Tokens per second: a band where the prediction is one. */
static void put_speed(const kerf_advice *a, const kerf_advice_point *p, FILE *to)
{
    const double low = p->low_us + a->other_low_us, high = p->high_us + a->other_high_us;
    const double us = p->us + a->other_us;
    if (high > low * 1.01)
        fprintf(to, ",\n%.1f to %.1f tokens/s, %.1f in the middle (%s)\n", a->batch * 1e6 / high,
                a->batch * 1e6 / low, a->batch * 1e6 / us, kerf_tier_name(a->tier));
    else
        fprintf(to, ",\n%.1f tokens/s (%s)\n", a->batch * 1e6 / us, kerf_tier_name(a->tier));
}

/* Whether a limit on time holds in all of the band, or in which part. */
static void put_limit(const kerf_advice *a, const kerf_advice_point *p, FILE *to)
{
    const kerf_budget *b = &a->budget;
    const double low = p->low_us + a->other_low_us, high = p->high_us + a->other_high_us;
    double most = b->us > 0 ? b->us : INFINITY;
    if (b->tokens_per_s > 0) most = fmin(most, a->batch * 1e6 / b->tokens_per_s);
    if (most == INFINITY) return;
    if (high <= most * (1 + 1e-9))
        fprintf(to, "the limit of %.1f us a step holds in the whole band, %.1f to %.1f us\n", most,
                low, high);
    else
        fprintf(
            to,
            "the limit of %.1f us a step holds in part of the band only, %.1f to %.1f us: it was "
            "held\nagainst the middle; measure (kerf hardware --measure) or ask for the slow "
            "end\n",
            most, low, high);
}

/* A choice that cannot be loaded has no speed. */
static void put_memory(const kerf_advice *a, FILE *to)
{
    double bytes;
    if (kf_advice_fits(a, &bytes) != 0) return;
    fprintf(to, "it does not fit: weights%s take %.2f GB%s, of %.0f GB of memory\n",
            a->has_model ? " and cache" : "", bytes * 1e-9, a->gpus > 1 ? " on each GPU" : "",
            a->hardware->fact[KERF_FACT_MEMORY].value);
}

/* What the end of some choices was measured to be, and which of them it is. */
static void put_measured(const kerf_advice *a, FILE *to)
{
    char name[64];
    for (size_t i = 0; i < a->measureds; i++) {
        const kerf_advice_measured *m = &a->measured[i];
        const char *what = m->uniform < a->codecs ? kerf_advice_codec_name(a, m->uniform, name)
                           : i == 0               ? "the choice"
                                                  : "another budget";
        char interval[64] = "no interval";
        if (m->kl_low <= m->kl_high)
            snprintf(interval, sizeof interval, "%.5f to %.5f", m->kl_low, m->kl_high);
        fprintf(to,
                "%s %-20s %6.3f bits: predicted %.4e, measured KL %.5f (%s), perplexity "
                "%.4f of %.4f\n",
                i == a->measured_pick ? "*" : " ", what, m->bits, m->predicted, m->kl, interval,
                m->perplexity, a->source_perplexity);
    }
    if (a->measured_pick)
        fprintf(to,
                "one format measures better than the choice by prediction: it is recommended\n");
}

/* What the layout stores beside planes, where it is not next to nothing (a shape per tensor): bits
 * of advice are those of the file, those of a score are the format's. */
static void put_beside(const kerf_advice *a, double bytes, FILE *to)
{
    for (size_t i = 0; i < a->groups; i++) {
        const kerf_advice_group *g = &a->group[i];
        if (g->pick == a->codecs) bytes -= g->cost[g->pick].bytes;
        for (size_t m = 0; g->pick < a->codecs && m < g->members; m++)
            bytes -= (double)a->tensor[g->member[m]].score[g->pick].bytes;
    }
    const double bits = a->elements > 0 ? 8 * bytes / a->elements : 0;
    if (bits >= 0.005)
        fprintf(to,
                "%.3f of these bits are for what layout %s stores beside codes and scales, which "
                "bpw of\nscore and verify leaves out\n",
                bits, a->layout->name);
}

void kf_put_summary(const kerf_advice *a, FILE *to)
{
    kerf_advice_point p = kerf_advice_total(a);
    char bytes[KERF_BYTES_TEXT], source[1024], alpha[1024], hardware[1024], gpus[24] = "";
    if (a->gpus > 1) snprintf(gpus, sizeof gpus, "%u x ", a->gpus);
    fprintf(to,
            "%zu tensors in %zu groups of %s: %.3f bits per weight, %s with what is kept,\n"
            "sum of alpha t2 %.4e (alpha: %s",
            a->tensors, a->groups, plain(a->source, source), p.bits,
            kerf_bytes_text((uint64_t)(p.bytes + a->kept_bytes), bytes), p.t2,
            plain(a->alpha_source, alpha));
    if (a->weighted) fprintf(to, "; t2 of %zu weighted by the imatrix", a->weighted);
    fprintf(to, ")\n");
    if (a->hardware) {
        fprintf(to,
                "%s%s, batch %.0f, context %.0f: %.1f us for these products, %.1f us for the rest",
                gpus, plain(a->hardware->name, hardware), a->batch, a->context, p.us, a->other_us);
        if (a->has_model)
            put_speed(a, &p, to);
        else
            fprintf(to, " (%s; no model is known: products alone)\n", kerf_tier_name(a->tier));
        put_limit(a, &p, to);
        put_memory(a, to);
        if (a->gpus > 1)
            fprintf(
                to,
                "about %s of weights on each of the %u GPUs; what they exchange is in the rest\n",
                kerf_bytes_text((uint64_t)((p.bytes + a->kept_bytes) / a->gpus), bytes), a->gpus);
    }
    if (a->layout) put_beside(a, p.bytes, to);
    if (a->layout)
        fprintf(to, "for layout %s%s%s%s\n", a->layout->name, a->runtime ? ", as " : "",
                a->runtime ? a->runtime->title : "",
                a->runtime ? " loads it (not tried on a GPU)" : "");
    fprintf(to,
            "gap to the bound %.2g %%; %zu dominated options dropped; chosen in %.3f s; %zu scores "
            "measured, %zu from the cache\n",
            100 * a->choice.gap, a->choice.dominated, a->choose_s, a->scored, a->cached);
    put_measured(a, to);
}

/* --- a table and the summary --------------------------------------------------------------- */

static void put_text(kf_page *p, const void *ctx)
{
    const kerf_advice *a = ctx;
    char name[64];
    kf_table_begin(p, a->hardware ? "~group|format|>bits|>alpha t2|>us|+why"
                                  : "~group|format|>bits|>alpha t2|+why");
    for (size_t i = 0; i < a->groups; i++) {
        const kerf_advice_group *g = &a->group[i];
        kf_table_cell(p, "%s", g->name);
        kf_table_cell(p, "%s", kerf_advice_codec_name(a, g->pick, name));
        kf_table_cell(p, "%.3f", kerf_advice_bits(g, g->pick));
        kf_table_cell(p, "%.3e", g->cost[g->pick].t2);
        if (a->hardware) kf_table_cell(p, "%.2f", g->cost[g->pick].us);
        kf_table_cell(p, "%s", g->reason);
    }
    kf_table_end(p);
    fprintf(p->to, "\n");
    kf_put_summary(a, p->to);
}

kerf_status kerf_advice_text(const kerf_advice *a, const kerf_text_form *form, char **text,
                             size_t *n, kerf_error *err)
{
    return kf_page_print(put_text, a, form, text, n, err);
}

/* --- Markdown ------------------------------------------------------------------------------ */

/* A cell must not end its table: bars and control characters become spaces. */
static void put_cell(FILE *to, const char *text)
{
    fputs("| ", to);
    for (; *text; text++) fputc((unsigned char)*text < 32 || *text == '|' ? ' ' : *text, to);
    fputc(' ', to);
}

void kf_put_markdown(const kerf_advice *a, FILE *to)
{
    char name[64];
    const kerf_budget *b = &a->budget;
    fprintf(to, "# Precision advice\n\n");
    kf_put_summary(a, to);
    if (b->bits > 0) fprintf(to, "\nLimit: %g bits per weight.\n", b->bits);
    if (b->bytes > 0) fprintf(to, "\nLimit: %.0f bytes.\n", b->bytes);
    if (b->us > 0) fprintf(to, "\nLimit: %g us.\n", b->us);
    if (b->tokens_per_s > 0) fprintf(to, "\nLimit: %g tokens/s.\n", b->tokens_per_s);
    fprintf(to,
            "\n| group | format | bits | alpha t2 | us | why |\n|---|---|---:|---:|---:|---|\n");
    for (size_t i = 0; i < a->groups; i++) {
        const kerf_advice_group *g = &a->group[i];
        put_cell(to, g->name);
        put_cell(to, kerf_advice_codec_name(a, g->pick, name));
        fprintf(to, "| %.3f | %.3e | %.2f ", kerf_advice_bits(g, g->pick), g->cost[g->pick].t2,
                g->cost[g->pick].us);
        put_cell(to, g->reason);
        fprintf(to, "|\n");
    }
    fprintf(to,
            "\nThe best choices by size:\n\n| bits | sum of alpha t2 | us |\n|---:|---:|---:|\n");
    for (size_t i = 0; i < a->by_size.count; i++) {
        const kerf_advice_point *p = &a->by_size.point[i];
        fprintf(to, "| %.3f | %.4e | %.2f |\n", p->bits, p->t2, p->us);
    }
}
