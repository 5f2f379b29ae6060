/* verify_ci.c - what was verified, for the programs that run kerf: a test per tensor, and the ten
 * worst tensors. */
#include <kerf/verify.h>
#include <kerf/words.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/ci_text.h"
#include "report/report.h"
#include "base/plain_numbers.h"

enum { WORST = 10 };

/* --- tests --------------------------------------------------------------------------------- */

/* What is wrong with a tensor, in a line: its problem, or the limits that it exceeds. */
static void find_fault(const kerf_verify_row *r, char out[KF_CI_TEXT])
{
    size_t n = 0;
    out[0] = 0;
    if (r->problem[0]) kerf_text_printable(r->problem, out, KF_CI_TEXT);
    for (unsigned f = 0; !r->problem[0] && f < KERF_FIGURES && n < KF_CI_TEXT; f++) {
        if (!(r->over >> f & 1u)) continue;
        const int k = kf_print(out + n, KF_CI_TEXT - n, "%s%s %.4g is over its limit %.4g",
                               n ? "; " : "", kerf_figure_name((kerf_figure)f),
                               kerf_figure_of(&r->score, (kerf_figure)f), r->limit[f]);
        if (k > 0) n += (size_t)k;
    }
}

static void test_at(const void *ctx, size_t i, kf_ci_test *out)
{
    const kerf_verification *v = ctx;
    out->group = v->other;
    if (i < v->rows) {
        out->name = v->row[i].weight->name;
        find_fault(&v->row[i], out->fault);
    } else {
        out->name = v->extra[i - v->rows];
        snprintf(out->fault, sizeof out->fault, "is not in the source");
    }
}

/* --- Markdown ------------------------------------------------------------------------------ */

/* What became NaN or Inf, which figures leave out, is worse than any error. */
static int by_t2(const void *a, const void *b)
{
    const kerf_verify_row *x = *(const kerf_verify_row *const *)a,
                          *y = *(const kerf_verify_row *const *)b;
    const uint64_t lost = x->score.nonfinite, gone = y->score.nonfinite;
    if (lost != gone) return lost < gone ? 1 : -1;
    const double tx = kerf_score_t2(&x->score), ty = kerf_score_t2(&y->score);
    const double u = isnan(tx) ? INFINITY : tx, w = isnan(ty) ? INFINITY : ty;
    return u < w ? 1 : u > w ? -1 : strcmp(x->weight->name, y->weight->name);
}

size_t kerf_verification_worst(const kerf_verification *v, const kerf_verify_row **order)
{
    size_t n = 0;
    for (size_t i = 0; i < v->rows; i++)
        if (v->row[i].measured) order[n++] = &v->row[i];
    if (n) qsort(order, n, sizeof *order, by_t2);
    return n;
}

size_t kf_verification_totaled(const kerf_verification *v)
{
    size_t n = 0;
    for (size_t i = 0; i < v->rows; i++) n += v->row[i].measured || v->row[i].score.elements;
    return n;
}

static void put_figures(const kerf_score *s, FILE *to)
{
    fprintf(to, " | %.3f | %.3e | %.2f | %.3e |\n", kerf_score_bpw(s), kerf_score_t2(s),
            kerf_score_sqnr_db(s), s->max_error);
}

static void put_worst(const kerf_verification *v, const kerf_verify_row **order, FILE *to)
{
    char name[64];
    const size_t n = kerf_verification_worst(v, order);
    if (n == 0) return;
    fputs("\n| tensor | format | bits per weight | t2 | SQNR dB | max error |\n"
          "|---|---|---:|---:|---:|---:|\n",
          to);
    for (size_t i = 0; i < n && i < WORST; i++) {
        fputs("| ", to);
        kf_ci_put_code(to, order[i]->weight->name);
        fprintf(to, " | %s", kerf_weight_format(order[i]->other, name, sizeof name));
        put_figures(&order[i]->score, to);
    }
    const size_t all = kf_verification_totaled(v), shown = n < WORST ? n : WORST;
    fprintf(to, "| all %zu%s | ", all, all > shown ? ", of which the worst are above" : "");
    put_figures(&v->total, to);
}

static void put_markdown(const kerf_verification *v, const kf_ci_tests *tests,
                         const kerf_verify_row **order, FILE *to)
{
    fprintf(to, "# kerf verify\n\n%s ", v->passed ? "Passed:" : "**Failed**:");
    kf_ci_put_code(to, v->other);
    fputs(" against ", to);
    kf_ci_put_code(to, v->source);
    fprintf(to,
            ", %zu tensors measured, %zu equal to the source, %zu over a limit, %zu wrong. t2 is "
            "the squared error relative to the weights, with all scales as they are written.\n",
            v->measured, v->equal, v->over, v->problems);
    kf_ci_put_faults(to, tests);
    put_worst(v, order, to);
}

/* --- which ---------------------------------------------------------------------------------- */

typedef struct verify_text {
    const kerf_verification *verification;
    kerf_verify_kind kind;
    const kerf_verify_row **order;
} verify_text;

static void put_kind(FILE *to, const void *ctx)
{
    const verify_text *t = ctx;
    const kerf_verification *v = t->verification;
    const kf_ci_tests tests = {"kerf verify", "tensor", v->rows + v->extras, test_at, v};
    switch (t->kind) {
    case KERF_VERIFY_JUNIT: kf_ci_put_junit(to, &tests); break;
    case KERF_VERIFY_MARKDOWN: put_markdown(v, &tests, t->order, to); break;
    case KERF_VERIFY_ANNOTATIONS: kf_ci_put_annotations(to, &tests); break;
    }
}

kerf_status kerf_verification_report(const kerf_verification *v, kerf_verify_kind kind, char **text,
                                     size_t *n, kerf_error *err)
{
    verify_text t = {v, kind, NULL};
    KF_TRY(kf_allocate(&t.order, v->rows, sizeof *t.order, err));
    kerf_status s = kf_ci_print(put_kind, &t, text, n, err);
    free(t.order);
    return s;
}
