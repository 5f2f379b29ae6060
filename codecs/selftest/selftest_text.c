/* selftest_text.c - what a self-test found, for people. */
#include <kerf/selftest.h>

#include "base/text_page.h"

static void put_row(kf_page *p, const kerf_selftest_row *r)
{
    char name[64];
    const char *first = r->texts ? r->problem[0] : "failed";
    kf_table_cell(p, "%s", kerf_codec_name(r->codec, name, sizeof name));
    if (r->tried) {
        kf_table_cell(p, "%016llx", (unsigned long long)r->digest);
    } else {
        kf_table_cell(p, "-");
    }
    kf_table_cell(p, "%llu", (unsigned long long)r->vectors);
    if (r->problems == 0) {
        kf_table_cell(p, "%s", r->recorded || !r->tried ? "pass" : "pass; no digest recorded");
    } else if (r->problems == 1) {
        kf_table_cell(p, "%s", first);
    } else {
        kf_table_cell(p, "%s; and %zu more", first, r->problems - 1);
    }
}

static void put(kf_page *p, const void *ctx)
{
    const kerf_selftest_result *r = ctx;
    kf_table_begin(p, "format|digest|>vectors|result");
    for (size_t i = 0; i < r->rows; i++) put_row(p, &r->row[i]);
    kf_table_end(p);
    fprintf(p->to, "\n%s: %zu codecs pass, %zu fail; %llu golden vectors",
            r->failed ? "failed" : "passed", r->passed, r->failed, (unsigned long long)r->vectors);
    if (r->tensors) fprintf(p->to, ", up to %zu tensors each", r->tensors);
    fprintf(p->to, "; backends");
    for (size_t i = 0; i < r->backends; i++) fprintf(p->to, " %s", r->backend[i]);
    fprintf(p->to, "; %.1f s\n", r->seconds);
}

kerf_status kerf_selftest_text(const kerf_selftest_result *r, const kerf_text_form *form,
                               char **text, size_t *n, kerf_error *err)
{
    return kf_page_print(put, r, form, text, n, err);
}
