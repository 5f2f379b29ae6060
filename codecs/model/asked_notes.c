/* asked_notes.c - what a plan says of what it was given: patterns, an imatrix. */
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

/* The encoder of a format that weighs errors by an imatrix, or NULL. */
static const char *weighing(const kerf_format *f)
{
    for (size_t i = 0; i < kerf_encoder_count(f); i++)
        if (kerf_takes_importance(kerf_encoder_at(f, i))) return kerf_encoder_at(f, i)->name;
    return NULL;
}

kerf_status kf_notes_unused(kf_notes *n, const kf_decisions *d, kerf_error *err)
{
    kf_text t = {0};
    const kerf_codec *codec = NULL; /* the first, or one that has another encoder */
    for (size_t i = 0; i < d->count; i++) {
        const kerf_codec *one = &d->item[i].codec;
        if (!one->format || (codec && weighing(codec->format))) continue;
        if (!codec || weighing(one->format)) codec = one;
    }
    const char *other = codec ? weighing(codec->format) : NULL;
    kf_text_add(&t, "the importance of columns changes nothing: ");
    if (other)
        kf_text_add(&t, "%s:%s does not weigh errors by it, %s:%s does", codec->format->name,
                    codec->encoder->name, codec->format->name, other);
    else
        kf_text_add(&t, "no encoder of %s weighs errors by it",
                    codec ? codec->format->name : "these");
    return kf_notes_add(n, &t, err);
}

static kerf_status note_inputs(kf_notes *n, const kf_made_scales *m, const char *path,
                               kerf_error *err)
{
    kf_text t = {0};
    kf_text_add(&t, "%zu layer%s a scale of inputs by %.200s", m->inputs,
                m->inputs == 1 ? " has" : "s have", path);
    if (m->borrowed)
        kf_text_add(&t,
                    "; %zu of experts that no token came to: the largest input of their layer's "
                    "counts",
                    m->borrowed);
    return kf_notes_add(n, &t, err);
}

kerf_status kf_notes_made(kf_notes *n, const kf_made_scales *m, const kerf_output *to,
                          kerf_error *err)
{
    const size_t layers = (m->count - m->inputs) / 2;
    kf_text t = {0};
    if (m->inputs) KF_TRY(note_inputs(n, m, to->inputs.path, err));
    if (layers == 0) return KERF_OK;
    kf_text_add(&t, "the KV cache is fp8-e4m3: %zu layer%s scales of keys and values by %.200s",
                layers, layers == 1 ? " has" : "s have", to->cached.path);
    return kf_notes_add(n, &t, err);
}
