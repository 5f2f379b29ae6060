/* made_inputs.c - from the largest input of a layer to the number that its layout stores. */
#include "model/made_scales.h"

#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "layout/layout_table.h"

typedef struct making {
    const kf_making *to;
    const kf_decisions *decided;
    const kerf_inputs *from;
    float *largest; /* of each decision whose layer gets a scale */
} making;

/* What the layout stores beside the weight of a decision; NULL: nothing. An embedding has indices
 * for inputs. */
static const kf_input *input_of(const making *m, size_t i)
{
    const kerf_decision *d = &m->decided->item[i];
    if (!d->codec.format || d->weight->place.role == KERF_ROLE_EMBEDDING) return NULL;
    return kf_input_find(m->decided->layout, d->codec.format);
}

/* *layers: how many get a scale. */
static kerf_status read_largest(const making *m, size_t *layers, kerf_error *err)
{
    *layers = 0;
    for (size_t i = 0; i < m->decided->count; i++) {
        const kerf_weight *w = m->decided->item[i].weight;
        if (!input_of(m, i)) continue;
        ++*layers;
        KF_TRY(m->from->largest(m->from->ctx, w, &m->largest[i], err));
        if (!isnan(m->largest[i])) continue;
        return kf_fail(
            err, KERF_E_ARG, KF_NOWHERE,
            "%.150s does not know the inputs of %.150s: --keep '%.150s' leaves it without",
            m->from->path, w->name, w->name);
    }
    return KERF_OK;
}

/* Of all layers that are merged with that of decision i: they have one input. */
static float largest_of_group(const making *m, size_t i)
{
    const kerf_weight *member[KERF_FUSED_MOST], *first = m->decided->item[0].weight;
    const size_t n = kerf_fused_group(m->to->all, m->decided->item[i].weight, member);
    float largest = m->largest[i];
    for (size_t k = 0; k < n; k++) {
        const size_t other = (size_t)(member[k] - first);
        if (input_of(m, other)) largest = fmaxf(largest, m->largest[other]);
    }
    return largest;
}

/* Of all experts of a layer: which of them a token meets is not known before. */
static float largest_of_experts(const making *m, size_t i)
{
    const kerf_place *own = &m->decided->item[i].weight->place;
    float largest = 0;
    if (own->role != KERF_ROLE_EXPERT) return 0;
    for (size_t k = 0; k < m->decided->count; k++) {
        const kerf_place *p = &m->decided->item[k].weight->place;
        if (p->role == own->role && p->layer == own->layer && p->piece == own->piece)
            largest = fmaxf(largest, m->largest[k]);
    }
    return largest;
}

static kerf_status add(const making *m, size_t i, const kf_input *in, float value, kerf_error *err)
{
    kf_made_scales *out = m->to->out;
    kf_input_scale *scale;
    KF_TRY(kf_input_scale_make(m->decided->item[i].weight, ".weight", in->name, in->is_vector,
                               &scale, err));
    if (kf_is_brought(m->to, scale->name))
        kf_input_scale_close(scale);
    else
        kf_made_scales_add(out, scale, value);
    return KERF_OK;
}

static kerf_status make_one(const making *m, size_t i, const kf_input *in, kerf_error *err)
{
    const char *name = m->decided->item[i].weight->name;
    kf_made_scales *out = m->to->out;
    const size_t before = out->count;
    float largest = largest_of_group(m, i);
    const int is_borrowed = largest == 0;
    if (is_borrowed) largest = largest_of_experts(m, i);
    const float scale = kf_scale_of(largest, in->largest);
    if (scale == 0)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%.150s: the largest input of %.150s is %g, which makes no scale: calibrate "
                       "with another text, or --keep '%.150s'",
                       m->from->path, name, (double)largest, name);
    KF_TRY(add(m, i, in, in->is_inverse ? kerf_inverse_of(scale) : scale, err));
    if (is_borrowed) out->borrowed += out->count - before;
    return KERF_OK;
}

static kerf_status make(const making *m, kerf_error *err)
{
    size_t layers;
    KF_TRY(read_largest(m, &layers, err));
    if (layers == 0)
        return kf_fail(
            err, KERF_E_ARG, KF_NOWHERE,
            "layout %s stores no scales of inputs beside these weights: layouts modelopt and "
            "compressed-tensors do beside nvfp4 and fp8-e4m3",
            m->decided->layout->name);
    KF_TRY(kf_made_scales_room(m->to->out, layers, err));
    for (size_t i = 0; i < m->decided->count; i++) {
        const kf_input *in = input_of(m, i);
        if (in) KF_TRY(make_one(m, i, in, err));
    }
    m->to->out->inputs = m->to->out->count;
    return KERF_OK;
}

kerf_status kf_make_input_scales(const kf_making *to, const kerf_inputs *from, kerf_error *err)
{
    making m = {.to = to, .decided = to->decided, .from = from};
    if (!from->largest || to->decided->quantized == 0) return KERF_OK;
    KF_TRY(kf_allocate(&m.largest, to->decided->count, sizeof *m.largest, err));
    const kerf_status s = make(&m, err);
    free(m.largest);
    return s;
}
