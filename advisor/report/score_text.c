/* score_text.c - what was scored and what was verified, for people: the same columns in both. */
#include <kerf/verify.h>
#include <stdlib.h>

#include "base/text_page.h"
#include "report/report.h"

enum { FEW_ROWS = 8 }; /* scores: up to so many are always listed one by one */
enum { WORST = 10 };   /* tensors that were verified, where not all are listed */

/* --- figures ------------------------------------------------------------------------------- */

enum { WEIGHTED = 1, ZSTD = 2 };

/* A table whose first columns are `first`, and figures the others. */
static void begin_figures(kf_page *p, const char *first, unsigned show)
{
    static const char *const figures[] = {
        "|>bpw|>t2|+>SQNR dB|+>bias|+>clipped|>max error",
        "|>bpw|>t2|>weighted|+>SQNR dB|+>bias|+>clipped|>max error",
        "|>bpw|>t2|+>SQNR dB|+>bias|+>clipped|>max error|+>zstd",
        "|>bpw|>t2|>weighted|+>SQNR dB|+>bias|+>clipped|>max error|+>zstd",
    };
    char headings[160];
    snprintf(headings, sizeof headings, "%s%s", first, figures[show & 3u]);
    kf_table_begin(p, headings);
}

static void put_figures(kf_page *p, const kerf_score *s, unsigned show)
{
    const double codes = (double)s->code_bytes;
    kf_table_cell(p, "%.3f", kerf_score_bpw(s));
    kf_table_cell(p, "%.3e", kerf_score_t2(s));
    if (show & WEIGHTED) kf_table_figure(p, "%.3e", kerf_score_weighted_t2(s));
    kf_table_cell(p, "%.2f", kerf_score_sqnr_db(s));
    kf_table_cell(p, "%+.1e", kerf_score_bias(s));
    kf_table_cell(p, "%.4f %%", 100 * kerf_score_clip_share(s));
    kf_table_cell(p, "%.3e", s->max_error);
    if (show & ZSTD)
        kf_table_cell(p, "%.1f %%", codes > 0 ? 100 * (double)s->zstd_bytes / codes : 0);
}

/* Lines when one scale or an outlier hides that the others are lost. */
static void put_ruined(kf_page *p, const char *tensor, const kerf_score *s)
{
    char name[256];
    const double rest = kerf_score_rest_t2(s), lost = kerf_score_lost_share(s);
    if (s->nonfinite)
        fprintf(p->to,
                "%s: %llu of %llu weights become NaN or infinite, which the figures leave out\n",
                kerf_text_printable(tensor, name, sizeof name), (unsigned long long)s->nonfinite,
                (unsigned long long)s->elements);
    if (lost > 0)
        fprintf(p->to,
                "%s: %.3g %% of its blocks of 128 weights have lost more than half of themselves, "
                "which one scale far above the others does\n",
                kerf_text_printable(tensor, name, sizeof name), 100 * lost);
    if (!(rest > 0.1 && rest > 4 * kerf_score_t2(s))) {
        if (lost == 0 && kerf_score_zero_share(s) > 0.25)
            fprintf(p->to,
                    "%s: %llu of %llu weights become zero: a column, or what else is far above the "
                    "rest, has taken the range of its blocks\n",
                    kerf_text_printable(tensor, name, sizeof name), (unsigned long long)s->zeroed,
                    (unsigned long long)s->elements);
        return;
    }
    fprintf(
        p->to,
        "%s: %llu of %llu weights become zero; an outlier has taken all of the range, and without "
        "it t2 is %.2g\n",
        kerf_text_printable(tensor, name, sizeof name), (unsigned long long)s->zeroed,
        (unsigned long long)s->elements, rest);
}

/* --- scores -------------------------------------------------------------------------------- */

typedef struct scores_text {
    const kerf_scores *scores;
    int every;
} scores_text;

static void put_tensors(kf_page *p, const kerf_scores *s, unsigned show)
{
    char name[64];
    begin_figures(p, "~tensor|~format", show);
    for (size_t i = 0; i < s->tensors * s->codecs; i++) {
        kf_table_cell(p, "%s", s->weight[i / s->codecs]->name);
        kf_table_cell(p, "%s", kerf_codec_name(s->codec[i % s->codecs], name, sizeof name));
        put_figures(p, &s->score[i], show);
    }
    kf_table_end(p);
}

/* Of an imatrix that does not name all tensors the total is that of the others. */
static void put_unweighted(kf_page *p, const kerf_scores *s)
{
    size_t weighted = 0;
    for (size_t i = 0; i < s->tensors; i++) {
        const kerf_score *first = &s->score[i * s->codecs];
        weighted += kerf_score_weighted_t2(first) == kerf_score_weighted_t2(first);
    }
    if (s->imatrix && weighted < s->tensors)
        fprintf(p->to, "weighted: of %zu of them alone, for which %s has columns that count\n",
                weighted, kf_page_plain(p, s->imatrix));
}

static void put_scores(kf_page *p, const void *ctx)
{
    const scores_text *t = ctx;
    const kerf_scores *s = t->scores;
    const unsigned show = (s->imatrix ? WEIGHTED : 0u) | (s->zstd_level ? ZSTD : 0u);
    char name[64];
    if (t->every || s->tensors * s->codecs <= FEW_ROWS) {
        put_tensors(p, s, show);
        fprintf(p->to, "\n");
    }
    for (size_t i = 0; i < s->tensors * s->codecs; i++) {
        char label[400];
        snprintf(label, sizeof label, "%.300s in %s", s->weight[i / s->codecs]->name,
                 kerf_codec_name(s->codec[i % s->codecs], name, sizeof name));
        put_ruined(p, label, &s->score[i]);
    }
    fprintf(p->to, "%zu of %zu tensors of %s\n", s->tensors, s->considered,
            kf_page_plain(p, s->source));
    put_unweighted(p, s);
    begin_figures(p, "~format", show);
    for (size_t c = 0; c < s->codecs; c++) {
        kf_table_cell(p, "%s", kerf_codec_name(s->codec[c], name, sizeof name));
        put_figures(p, &s->total[c], show);
    }
    kf_table_end(p);
}

kerf_status kerf_scores_text(const kerf_scores *s, int every, const kerf_text_form *form,
                             char **text, size_t *n, kerf_error *err)
{
    const scores_text t = {s, every};
    return kf_page_print(put_scores, &t, form, text, n, err);
}

/* --- verification -------------------------------------------------------------------------- */

typedef struct verified_text {
    const kerf_verification *verification;
    int every;
    const kerf_verify_row **order; /* [rows] */
} verified_text;

static void put_worst(kf_page *p, const verified_text *t)
{
    const kerf_verification *v = t->verification;
    const size_t n = kerf_verification_worst(v, t->order);
    const size_t shown = t->every || n < WORST ? n : WORST;
    char name[64];
    begin_figures(p, "~tensor|~format", 0);
    for (size_t i = 0; i < shown; i++) {
        kf_table_cell(p, "%s", t->order[i]->weight->name);
        kf_table_cell(p, "%s", kerf_weight_format(t->order[i]->other, name, sizeof name));
        put_figures(p, &t->order[i]->score, 0);
    }
    kf_table_rule(p);
    const size_t all = kf_verification_totaled(v);
    kf_table_cell(p, shown < all ? "all %zu, of which the worst are above" : "all %zu", all);
    kf_table_cell(p, "%s", "");
    put_figures(p, &v->total, 0);
    kf_table_end(p);
}

static void put_limit(kf_page *p, const kerf_verify_row *r, kerf_figure f)
{
    double value = kerf_figure_of(&r->score, f), limit = r->limit[f];
    kf_table_cell(p, "%s", r->weight->name);
    kf_table_cell(p, "%s", kerf_figure_name(f));
    kf_table_cell(p, "%.4g", value);
    kf_table_cell(p, "%.4g", limit);
    if (limit > 0) {
        kf_table_cell(p, "%.2f %%", 100 * (value / limit - 1));
    } else {
        kf_table_cell(p, "%.3g", value - limit);
    }
}

static void put_over(kf_page *p, const kerf_verification *v)
{
    if (v->over == 0) return;
    fprintf(p->to, "\n");
    kf_table_begin(p, "~over its limit|figure|>measured|>limit|>over by");
    for (size_t i = 0; i < v->rows; i++) {
        for (unsigned f = 0; f < KERF_FIGURES; f++)
            if (v->row[i].over >> f & 1u) put_limit(p, &v->row[i], (kerf_figure)f);
    }
    kf_table_end(p);
}

static void put_problem(kf_page *p, const char *tensor, const char *text)
{
    char name[256];
    fprintf(p->to, "%s: %s\n", kerf_text_printable(tensor, name, sizeof name),
            kf_page_plain(p, text));
}

static void put_verification(kf_page *p, const void *ctx)
{
    const verified_text *t = ctx;
    const kerf_verification *v = t->verification;
    if (v->measured) put_worst(p, t);
    put_over(p, v);
    if (v->measured) fprintf(p->to, "\n");
    for (size_t i = 0; i < v->rows; i++)
        if (v->row[i].measured) put_ruined(p, v->row[i].weight->name, &v->row[i].score);
    for (size_t i = 0; i < v->rows; i++)
        if (v->row[i].problem[0]) put_problem(p, v->row[i].weight->name, v->row[i].problem);
    for (size_t i = 0; i < v->extras; i++) put_problem(p, v->extra[i], "is not in the source");
    if (v->nonfinite)
        fprintf(p->to, "note: %s%s NaN or Inf, in the source as well\n",
                kf_page_plain(p, v->first_nonfinite),
                v->nonfinite > 1 ? " and others have" : " has");
    kf_page_verdict(p, v->passed, "passed", "failed");
    fprintf(p->to, ": %zu tensors measured, %zu equal to the source, %zu over a limit, %zu wrong\n",
            v->measured, v->equal, v->over, v->problems);
}

kerf_status kerf_verification_text(const kerf_verification *v, int every,
                                   const kerf_text_form *form, char **text, size_t *n,
                                   kerf_error *err)
{
    verified_text t = {v, every, NULL};
    KF_TRY(kf_allocate(&t.order, v->rows, sizeof *t.order, err));
    kerf_status s = kf_page_print(put_verification, &t, form, text, n, err);
    free(t.order);
    return s;
}
