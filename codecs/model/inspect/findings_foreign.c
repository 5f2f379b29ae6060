/* findings_foreign.c - weights in forms that kerf has no format for: what can be said of them. */
#include "model/inspect/findings.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/base.h"
#include "layout/block_weights.h"
#include "layout/foreign.h"

/* Blocks of GGUF that kerf has no format for. */
static void find_undecoded(const kf_inspection *x)
{
    const kerf_weights *all = x->source->weights;
    const kerf_weight *first = NULL;
    char text[256];
    size_t found = 0;
    for (size_t i = 0; i < kerf_weights_count(all); i++) {
        const kerf_weight *w = kerf_weights_at(all, i);
        if (kf_undecoded_type(w) && !found++) first = w;
    }
    if (!found) return;
    snprintf(text, sizeof text,
             "%zu weight%s in blocks of a type that kerf does not decode, the first in %s: "
             "quantize keeps %s in *.gguf",
             found, found == 1 ? " is" : "s are", kf_undecoded_type(first),
             found == 1 ? "it" : "them");
    kf_found(x, KERF_NOTE, first->name, text);
}

kerf_status kf_find_foreign(const kf_inspection *x, kerf_error *err)
{
    const kerf_weights *all = x->source->weights;
    const kerf_weight *first = NULL;
    char text[256];
    size_t found = 0;
    find_undecoded(x);
    for (size_t i = 0; i < kerf_weights_count(all); i++) {
        const kerf_weight *w = kerf_weights_at(all, i);
        uint64_t count, ruined;
        if (!kf_foreign_form(w)) continue;
        if (!found++) first = w;
        KF_TRY(kf_foreign_scales(x->source->reader, w, &count, &ruined, err));
        if (!ruined) continue;
        snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64 " scales are NaN or infinite", ruined,
                 count);
        kf_found(x, KERF_ERROR, w->name, text);
    }
    if (!found) return KERF_OK;
    snprintf(text, sizeof text,
             "%zu weight%s in a form that kerf has no format for, the first as %s: %s read as the "
             "numbers that codes and scales stand for, and no layout has a place for %s",
             found, found == 1 ? " is" : "s are", kf_foreign_form(first),
             found == 1 ? "it is" : "they are", found == 1 ? "it" : "them");
    kf_found(x, KERF_NOTE, first->name, text);
    return KERF_OK;
}
