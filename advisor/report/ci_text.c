/* ci_text.c - JUnit's XML, Markdown for a summary, lines that GitHub shows. */
#include "report/ci_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/growing_text.h"
#include "report/svg_chart.h"

enum { MOST_LINES = 50 };

/* --- texts --------------------------------------------------------------------------------- */

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
static const char *cleaned(const char *text, char out[KF_CI_TEXT])
{
    size_t n = 0;
    while (*text && n + 4 < KF_CI_TEXT) {
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

size_t kf_ci_faults(const kf_ci_tests *t)
{
    kf_ci_test test;
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++) {
        t->at(t->ctx, i, &test);
        n += test.fault[0] != 0;
    }
    return n;
}

/* --- JUnit --------------------------------------------------------------------------------- */

static void put_attribute(FILE *to, const char *name, const char *text)
{
    char clean[KF_CI_TEXT];
    fprintf(to, " %s=\"", name);
    kf_put_escaped(to, cleaned(text, clean));
    fputc('"', to);
}

static void put_case(FILE *to, const kf_ci_test *test)
{
    fputs("    <testcase", to);
    put_attribute(to, "classname", test->group);
    put_attribute(to, "name", test->name);
    if (!test->fault[0]) {
        fputs("/>\n", to);
        return;
    }
    fputs(">\n      <failure", to);
    put_attribute(to, "message", test->fault);
    fputs("/>\n    </testcase>\n", to);
}

void kf_ci_put_junit(FILE *to, const kf_ci_tests *t)
{
    kf_ci_test test;
    const size_t failures = kf_ci_faults(t);
    fprintf(to,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuites name=\"%s\" tests=\"%zu\" failures=\"%zu\">\n"
            "  <testsuite name=\"%s\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
            "skipped=\"0\">\n",
            t->verb, t->count, failures, t->verb, t->count, failures);
    for (size_t i = 0; i < t->count; i++) {
        t->at(t->ctx, i, &test);
        put_case(to, &test);
    }
    fputs("  </testsuite>\n</testsuites>\n", to);
}

/* --- Markdown ------------------------------------------------------------------------------ */

/* A bar ends a cell, a backquote the code. */
void kf_ci_put_code(FILE *to, const char *text)
{
    char clean[KF_CI_TEXT];
    fputc('`', to);
    for (const char *p = cleaned(text, clean); *p; p++)
        fputc(*p == '|' || *p == '`' ? '?' : *p, to);
    fputc('`', to);
}

void kf_ci_put_faults(FILE *to, const kf_ci_tests *t)
{
    kf_ci_test test;
    if (kf_ci_faults(t) == 0) return;
    fprintf(to, "\n| %s | what is wrong |\n|---|---|\n", t->noun);
    for (size_t i = 0; i < t->count; i++) {
        t->at(t->ctx, i, &test);
        if (!test.fault[0]) continue;
        fputs("| ", to);
        kf_ci_put_code(to, test.name);
        fprintf(to, " | %s |\n", test.fault);
    }
}

/* --- annotations --------------------------------------------------------------------------- */

/* As GitHub's runner unescapes: '%' and line ends in messages, ':' and ',' in properties. */
static void put_line(FILE *to, const char *verb, const kf_ci_test *test)
{
    char clean[KF_CI_TEXT];
    fprintf(to, "::error title=%s::", verb);
    for (const char *p = cleaned(test->name, clean); *p; p++) {
        if (*p == '%')
            fputs("%25", to);
        else
            fputc(*p, to);
    }
    fprintf(to, ": %s\n", test->fault);
}

void kf_ci_put_annotations(FILE *to, const kf_ci_tests *t)
{
    kf_ci_test test;
    size_t lines = 0;
    const size_t all = kf_ci_faults(t);
    for (size_t i = 0; i < t->count && lines < MOST_LINES; i++) {
        t->at(t->ctx, i, &test);
        if (!test.fault[0]) continue;
        put_line(to, t->verb, &test);
        lines++;
    }
    if (all > lines)
        fprintf(to, "::error title=%s::and %zu %ss more\n", t->verb, all - lines, t->noun);
}

/* --- as a text ------------------------------------------------------------------------------ */

kerf_status kf_ci_print(void (*put)(FILE *to, const void *ctx), const void *ctx, char **text,
                        size_t *n, kerf_error *err)
{
    kf_text all = {0};
    FILE *to = kf_text_stream(&all);
    if (to) put(to, ctx);
    if (kf_text_close(&all, to, text, n)) return KERF_OK;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a report");
}
