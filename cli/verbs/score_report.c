/* score_report.c - scores as a person or a program reads them: of a run, and of what was kept. */
#include "verbs/score_report.h"

#include "output.h"
#include "terminal.h"
#include "verbs/figures.h"

enum { FEW_ROWS = 8 }; /* up to so many are listed one by one without --per-tensor */

static unsigned columns_shown(const kerf_scores *s)
{
    return (s->imatrix ? SHOW_WEIGHTED : 0u) | (s->zstd_level ? SHOW_ZSTD : 0u);
}

static kerf_status print_tensors(const kerf_scores *s, kerf_error *err)
{
    table *t = NULL;
    char headings[160], name[64];
    snprintf(headings, sizeof headings, "~tensor|~format%s", figures_headings(columns_shown(s)));
    TRY(table_open(&t, headings, err));
    for (size_t i = 0; i < s->tensors * s->codecs; i++) {
        table_cell(t, "%s", s->weight[i / s->codecs]->name);
        table_cell(t, "%s", kerf_codec_name(s->codec[i % s->codecs], name, sizeof name));
        figures_cells(t, &s->score[i], columns_shown(s));
    }
    return table_end(t, KERF_OK, err);
}

static kerf_status print_totals(const kerf_scores *s, kerf_error *err)
{
    table *t = NULL;
    char headings[160], name[64];
    snprintf(headings, sizeof headings, "~format%s", figures_headings(columns_shown(s)));
    TRY(table_open(&t, headings, err));
    for (size_t c = 0; c < s->codecs; c++) {
        table_cell(t, "%s", kerf_codec_name(s->codec[c], name, sizeof name));
        figures_cells(t, &s->total[c], columns_shown(s));
    }
    return table_end(t, KERF_OK, err);
}

kerf_status print_scores(const kerf_scores *s, const args *a, kerf_error *err)
{
    char name[64], text[sizeof s->left_out->reason], *document = NULL;
    for (size_t i = s->left_outs; i-- > 0;) {
        const kerf_left_out *out = &s->left_out[i];
        print_note("left out: %s: %s", kerf_codec_name(out->codec, name, sizeof name),
                   kerf_text_printable(out->reason, text, sizeof text));
    }
    if (args_has(a, "json"))
        return put_document(kerf_scores_write(s, &document, NULL, err), &document, err);
    if (args_has(a, "per-tensor") || s->tensors * s->codecs <= FEW_ROWS) {
        TRY(print_tensors(s, err));
        printf("\n");
    }
    for (size_t i = 0; i < s->tensors * s->codecs; i++) {
        char label[400];
        snprintf(label, sizeof label, "%.300s in %s", s->weight[i / s->codecs]->name,
                 kerf_codec_name(s->codec[i % s->codecs], name, sizeof name));
        print_ruined(label, &s->score[i]);
    }
    printf("%zu of %zu tensors of %s\n", s->tensors, s->considered, shown(s->source));
    return print_totals(s, err);
}
