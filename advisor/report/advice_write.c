/* advice_write.c - kerf_advice_write: one text per kind of report. */
#include "base/growing_text.h"
#include "report/report.h"

static kerf_status put_text(const kerf_advice *a, void (*put)(const kerf_advice *, FILE *),
                            char **text, size_t *n, kerf_error *err)
{
    kf_text all = {0};
    FILE *to = kf_text_stream(&all);
    if (to) put(a, to);
    if (kf_text_close(&all, to, text, n)) return KERF_OK;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a report");
}

kerf_status kerf_advice_write(const kerf_advice *a, kerf_advice_kind kind, char **text, size_t *n,
                              kerf_error *err)
{
    enum { RECIPE_FLAGS = JSON_INDENT(1) | JSON_REAL_PRECISION(17) };
    *text = NULL;
    if (n) *n = 0;
    switch (kind) {
    case KERF_ADVICE_JSON: return kf_json_write(kf_advice_json(a), JSON_INDENT(2), text, n, err);
    case KERF_ADVICE_RECIPE: return kf_json_write(kf_recipe_json(a), RECIPE_FLAGS, text, n, err);
    case KERF_ADVICE_MARKDOWN: return put_text(a, kf_put_markdown, text, n, err);
    case KERF_ADVICE_HTML: return put_text(a, kf_put_html, text, n, err);
    case KERF_ADVICE_SUMMARY: return put_text(a, kf_put_summary, text, n, err);
    }
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "there is no report of kind %d", (int)kind);
}

int kerf_advice_kind_of(const char *path, kerf_advice_kind *out)
{
    static const struct {
        const char *end;
        kerf_advice_kind kind;
    } kinds[] = {
        {".html", KERF_ADVICE_HTML}, {".md", KERF_ADVICE_MARKDOWN}, {".json", KERF_ADVICE_JSON}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kf_has_suffix(path, kinds[i].end)) continue;
        *out = kinds[i].kind;
        return 1;
    }
    return 0;
}
