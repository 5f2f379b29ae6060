/* advice_verdict.c - the first screen of a report: the answer in a sentence, how far to trust it,
 * and what to run next. */
#include <math.h>
#include <string.h>

#include <kerf/choose.h>
#include <kerf/words.h>

#include "report/report.h"
#include "report/svg_chart.h"

/* The last part of a path, without slashes at its end. */
static void name_of(const char *path, char out[200])
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t from = n;
    while (from > 0 && path[from - 1] != '/') from--;
    snprintf(out, 200, "%.*s", (int)(n - from > 199 ? 199 : n - from), path + from);
}

static void put_speed(const kerf_advice *a, const kerf_advice_point *p, FILE *to)
{
    const double low = p->low_us + a->other_low_us, high = p->high_us + a->other_high_us;
    const double us = p->us + a->other_us, all = a->batch * 1e6;
    if (!a->hardware) return;
    if (!a->has_model)
        fprintf(to, ", %.1f to %.1f us for its products", low, high);
    else if (high > low * 1.01)
        fprintf(to, ", <b>%.0f to %.0f tokens/s</b> (%.0f in the middle)", all / high, all / low,
                all / us);
    else
        fprintf(to, ", <b>%.0f tokens/s</b>", all / us);
    fprintf(to, " on ");
    if (a->gpus > 1) fprintf(to, "%u ", a->gpus);
    kf_put_escaped(to, a->hardware->name);
    fprintf(to, " at batch %.0f and context %.0f (%s)", a->batch, a->context,
            a->tier == KERF_TIER_SPEC ? "spec-only: from its data sheet" : kerf_tier_name(a->tier));
}

/* 2: all of the band is under a limit; 1: a part. */
static int held(double low, double high, double most)
{
    return high <= most * (1 + 1e-9) ? 2 : low <= most;
}

static void put_limit(FILE *to, int *n, double value, const char *unit, int holds)
{
    static const char *const words[] = {"does not hold", "holds in part of the band", "holds"};
    if (value > 0)
        fprintf(to, "%s%g %s %s", (*n)++ ? "; " : " Limits: ", value, unit, words[holds]);
}

static void put_limits(const kerf_advice *a, const kerf_advice_point *p, FILE *to)
{
    const kerf_budget *b = &a->budget;
    const double low = p->low_us + a->other_low_us, high = p->high_us + a->other_high_us;
    const double bytes = p->bytes + a->kept_bytes;
    const double most = b->tokens_per_s > 0 ? a->batch * 1e6 / b->tokens_per_s : 0;
    int n = 0;
    put_limit(to, &n, b->bits, "bits per weight", held(p->bits, p->bits, kerf_bits_most(b->bits)));
    put_limit(to, &n, b->bytes * 1e-9, "GB", held(bytes, bytes, b->bytes));
    put_limit(to, &n, b->us, "us a step", held(low, high, b->us));
    put_limit(to, &n, b->tokens_per_s, "tokens/s", held(low, high, most));
    put_limit(to, &n, b->t2, "of error", held(p->t2, p->t2, b->t2));
    if (n) fprintf(to, ".");
}

/* What the figure of error is, and what it is not. */
static void put_error(const kerf_advice *a, double t2, FILE *to)
{
    const int flat = strncmp(a->alpha_source, "1 for", 5) == 0;
    fprintf(to, "<p>Expected loss: the sum of alpha t2 is <b>%.3g</b>; alpha: ", t2);
    kf_put_escaped(to, a->alpha_source);
    if (flat) fprintf(to, ", not calibrated: it ranks choices and promises no perplexity");
    if (a->weighted) fprintf(to, "; errors of %zu tensors weighted by an imatrix", a->weighted);
    fprintf(to, ". %.2g %% at most from the best choice.</p>\n", 100 * a->choice.gap);
}

void kf_put_verdict(const kerf_advice *a, FILE *to)
{
    char name[200], now[KERF_BYTES_TEXT], before[KERF_BYTES_TEXT];
    const kerf_advice_point p = kerf_advice_total(a);
    const double all = kerf_advice_uniform(a, a->codecs).bytes + a->kept_bytes;
    name_of(a->source, name);
    fprintf(to, "<h1>");
    kf_put_escaped(to, name);
    fprintf(to, ": precision advice</h1>\n<p class=\"verdict\">");
    kf_put_escaped(to, name);
    fprintf(to, " takes <b>%s</b> instead of %s (%.2f bits per weight)",
            kerf_bytes_text((uint64_t)(p.bytes + a->kept_bytes), now),
            kerf_bytes_text((uint64_t)all, before), p.bits);
    put_speed(a, &p, to);
    fprintf(to, ".");
    put_limits(a, &p, to);
    double on_one;
    if (kf_advice_fits(a, &on_one) == 0)
        fprintf(to, " <b>It does not fit</b>: with the cache %.2f GB%s, of %.0f GB of memory.",
                on_one * 1e-9, a->gpus > 1 ? " on each GPU" : "",
                a->hardware->fact[KERF_FACT_MEMORY].value);
    fprintf(to, "</p>\n");
    put_error(a, p.t2, to);
    fprintf(to, "<p>Next, with the recipe that -o wrote:</p>\n<pre>kerf quantize ");
    kf_put_escaped(to, a->source);
    fprintf(to, " --recipe RECIPE.json -o OUT/</pre>\n<p class=\"dim\">");
    if (a->layout)
        fprintf(to, "layout %s%s%s; ", a->layout->name, a->runtime ? " for " : "",
                a->runtime ? a->runtime->title : "");
    fprintf(to, "%zu tensors in %zu groups; kerf %s%s%s</p>\n", a->tensors, a->groups,
            KERF_VERSION_TEXT, a->made[0] ? ", " : "", a->made);
}
