/* verify_ci.c - what was verified, for the programs that run kerf: JUnit's XML, Markdown for a
 * summary, lines that GitHub shows. Names come from files: each kind has its own escapes. */
#include <kerf/verify.h>
#include <kerf/words.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "report/svg_chart.h"

enum { WORST = 10, MOST_LINES = 50, NAME = 512 };

/* What is wrong with a tensor, in a line: its problem, or the limits that it exceeds. */
static const char *fault_of(const kerf_verify_row *r, char out[NAME])
{
    size_t n = 0;
    if (r->problem[0]) return kerf_text_printable(r->problem, out, NAME);
    out[0] = 0;
    for (unsigned f = 0; f < KERF_FIGURES && n < NAME; f++) {
        if (!(r->over >> f & 1u)) continue;
        const int k = snprintf(out + n, NAME - n, "%s%s %.4g is over its limit %.4g", n ? "; " : "",
                               kerf_figure_name((kerf_figure)f),
                               kerf_figure_of(&r->score, (kerf_figure)f), r->limit[f]);
        if (k > 0) n += (size_t)k;
    }
    return out;
}

/* Length of the UTF-8 character at p that XML and browsers take; 0: none. */
static size_t character_at(const char *p)
{
    const unsigned char *c = (const unsigned char *)p;
    const size_t n = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    if (c[0] > 0xf4) return 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80) return 0;
    if (c[0] == 0xe0 && c[1] < 0xa0) return 0;
    if (c[0] == 0xed && c[1] >= 0xa0) return 0;                 /* a surrogate */
    if (c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe) return 0; /* U+FFFE, U+FFFF */
    if (c[0] == 0xf0 && c[1] < 0x90) return 0;
    return c[0] == 0xf4 && c[1] >= 0x90 ? 0 : n;
}

/* The text with control characters and what is not UTF-8 as '?'. */
static const char *cleaned(const char *text, char out[NAME])
{
    size_t n = 0;
    while (*text && n + 4 < NAME) {
        const size_t k = character_at(text);
        const int is_control = (unsigned char)*text < 0x20 || *text == 0x7f;
        if (k == 0 || is_control) {
            out[n++] = '?';
            text++;
        } else {
            memcpy(out + n, text, k);
            n += k;
            text += k;
        }
    }
    out[n] = 0;
    return out;
}

/* --- JUnit --------------------------------------------------------------------------------- */

static void put_attribute(FILE *to, const char *name, const char *text)
{
    char clean[NAME];
    fprintf(to, " %s=\"", name);
    kf_put_escaped(to, cleaned(text, clean));
    fputc('"', to);
}

static void put_case(FILE *to, const kerf_verification *v, const char *tensor, const char *fault)
{
    fputs("    <testcase", to);
    put_attribute(to, "classname", v->other);
    put_attribute(to, "name", tensor);
    if (!fault[0]) {
        fputs("/>\n", to);
        return;
    }
    fputs(">\n      <failure", to);
    put_attribute(to, "message", fault);
    fputs("/>\n    </testcase>\n", to);
}

static size_t count_faults(const kerf_verification *v)
{
    size_t n = v->extras;
    for (size_t i = 0; i < v->rows; i++) n += v->row[i].problem[0] || v->row[i].over;
    return n;
}

static void put_junit(const kerf_verification *v, FILE *to)
{
    char fault[NAME];
    const size_t tests = v->rows + v->extras, failures = count_faults(v);
    fprintf(to,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuites name=\"kerf verify\" tests=\"%zu\" failures=\"%zu\">\n"
            "  <testsuite name=\"kerf verify\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
            "skipped=\"0\">\n",
            tests, failures, tests, failures);
    for (size_t i = 0; i < v->rows; i++)
        put_case(to, v, v->row[i].weight->name, fault_of(&v->row[i], fault));
    for (size_t i = 0; i < v->extras; i++) put_case(to, v, v->extra[i], "is not in the source");
    fputs("  </testsuite>\n</testsuites>\n", to);
}

/* --- Markdown ------------------------------------------------------------------------------ */

/* Code in a cell of a table: a bar ends a cell, a backquote the code. */
static void put_code(FILE *to, const char *text)
{
    char clean[NAME];
    fputc('`', to);
    for (const char *p = cleaned(text, clean); *p; p++)
        fputc(*p == '|' || *p == '`' ? '?' : *p, to);
    fputc('`', to);
}

static int by_t2(const void *a, const void *b)
{
    const kerf_verify_row *x = *(const kerf_verify_row *const *)a,
                          *y = *(const kerf_verify_row *const *)b;
    const double tx = kerf_score_t2(&x->score), ty = kerf_score_t2(&y->score);
    const double u = isnan(tx) ? INFINITY : tx, w = isnan(ty) ? INFINITY : ty;
    return u < w ? 1 : u > w ? -1 : strcmp(x->weight->name, y->weight->name);
}

static void put_fault(FILE *to, const char *tensor, const char *fault)
{
    fputs("| ", to);
    put_code(to, tensor);
    fprintf(to, " | %s |\n", fault);
}

static void put_faults(const kerf_verification *v, FILE *to)
{
    char fault[NAME];
    if (v->passed) return;
    fputs("\n| tensor | what is wrong |\n|---|---|\n", to);
    for (size_t i = 0; i < v->rows; i++)
        if (fault_of(&v->row[i], fault)[0]) put_fault(to, v->row[i].weight->name, fault);
    for (size_t i = 0; i < v->extras; i++) put_fault(to, v->extra[i], "is not in the source");
}

static void put_figures(FILE *to, const kerf_score *s)
{
    fprintf(to, " | %.3f | %.3e | %.2f | %.3e |\n", kerf_score_bpw(s), kerf_score_t2(s),
            kerf_score_sqnr_db(s), s->max_error);
}

static void put_worst(const kerf_verification *v, const kerf_verify_row **order, FILE *to)
{
    char name[64];
    size_t n = 0;
    for (size_t i = 0; i < v->rows; i++)
        if (v->row[i].measured) order[n++] = &v->row[i];
    if (n == 0) return;
    qsort(order, n, sizeof *order, by_t2);
    fputs("\n| tensor | format | bits per weight | t2 | SQNR dB | max error |\n"
          "|---|---|---:|---:|---:|---:|\n",
          to);
    for (size_t i = 0; i < n && i < WORST; i++) {
        fputs("| ", to);
        put_code(to, order[i]->weight->name);
        fprintf(to, " | %s", kerf_weight_format(order[i]->other, name, sizeof name));
        put_figures(to, &order[i]->score);
    }
    fprintf(to, "| all %zu%s | ", n, n > WORST ? ", of which the worst are above" : "");
    put_figures(to, &v->total);
}

static void put_markdown(const kerf_verification *v, const kerf_verify_row **order, FILE *to)
{
    fprintf(to, "# kerf verify\n\n%s ", v->passed ? "Passed:" : "**Failed**:");
    put_code(to, v->other);
    fputs(" against ", to);
    put_code(to, v->source);
    fprintf(to,
            ", %zu tensors measured, %zu equal to the source, %zu over a limit, %zu wrong. t2 is "
            "the squared error relative to the weights, with all scales as they are written.\n",
            v->measured, v->equal, v->over, v->problems);
    put_faults(v, to);
    put_worst(v, order, to);
}

/* --- annotations --------------------------------------------------------------------------- */

/* As GitHub's runner unescapes: '%' and line ends in messages, ':' and ',' in properties. */
static void put_line(FILE *to, const char *tensor, const char *fault)
{
    char clean[NAME];
    fputs("::error title=kerf verify::", to);
    for (const char *p = cleaned(tensor, clean); *p; p++) {
        if (*p == '%')
            fputs("%25", to);
        else
            fputc(*p, to);
    }
    fprintf(to, ": %s\n", fault);
}

static void put_annotations(const kerf_verification *v, FILE *to)
{
    char fault[NAME];
    size_t lines = 0;
    for (size_t i = 0; i < v->rows && lines < MOST_LINES; i++) {
        if (!fault_of(&v->row[i], fault)[0]) continue;
        put_line(to, v->row[i].weight->name, fault);
        lines++;
    }
    for (size_t i = 0; i < v->extras && lines < MOST_LINES; i++, lines++)
        put_line(to, v->extra[i], "is not in the source");
    const size_t all = count_faults(v);
    if (all > lines) fprintf(to, "::error title=kerf verify::and %zu tensors more\n", all - lines);
}

/* --- which ---------------------------------------------------------------------------------- */

kerf_status kerf_verification_report(const kerf_verification *v, kerf_verify_kind kind, char **text,
                                     size_t *n, kerf_error *err)
{
    const kerf_verify_row **order = NULL;
    *text = NULL;
    *n = 0;
    KF_TRY(kf_allocate(&order, v->rows, sizeof *order, err));
    FILE *to = open_memstream(text, n);
    switch (to ? (int)kind : -1) {
    case KERF_VERIFY_JUNIT: put_junit(v, to); break;
    case KERF_VERIFY_MARKDOWN: put_markdown(v, order, to); break;
    case KERF_VERIFY_ANNOTATIONS: put_annotations(v, to); break;
    default: break;
    }
    int failed = !to || ferror(to);
    if (to) failed |= fclose(to);
    free(order);
    if (!failed && *text) return KERF_OK; /* fclose may succeed without the memory for it */
    free(*text);
    *text = NULL;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a report");
}
