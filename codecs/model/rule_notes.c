/* rule_notes.c - what a plan says of the patterns that it was given. */
#include "base/base.h"
#include "model/plan_notes.h"

kerf_status kf_notes_rules(kf_notes *n, const kf_decisions *d, kerf_error *err)
{
    kf_text idle = {0}, t = {0};
    if (d->idle) {
        kf_text_add(
            &idle,
            "%.120s%s decide%s nothing, for later ones match the same tensors: the last wins",
            d->first_idle, d->idle > 1 ? " and others" : "", d->idle > 1 ? "" : "s");
        KF_TRY(kf_notes_add(n, &idle, err));
    }
    if (!d->spared) return KERF_OK;
    kf_text_add(&t, "%.200s", d->first_spared);
    if (d->spared > 1) kf_text_add(&t, " and %zu more", d->spared - 1);
    kf_text_add(&t,
                "%s kept, as by default: %.120s is for the others that it matches, and a pattern "
                "of %s own takes %s",
                d->spared > 1 ? " are" : " is", d->spared_by, d->spared > 1 ? "their" : "its",
                d->spared > 1 ? "them" : "it");
    return kf_notes_add(n, &t, err);
}
