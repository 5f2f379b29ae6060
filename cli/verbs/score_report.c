/* score_report.c - scores as a person or a program reads them: of a run, and of what was kept. */
#include "verbs/score_report.h"

#include "output.h"
#include "terminal.h"

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
    return put_text(
        kerf_scores_text(s, args_has(a, "per-tensor"), text_form(1), &document, NULL, err),
        &document, err);
}
