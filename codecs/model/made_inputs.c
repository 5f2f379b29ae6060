/* made_inputs.c - from the largest input of a layer to the number that its layout stores. */
#include "model/made_inputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/layout_table.h"

typedef struct making {
    const kerf_inputs *from;
    const kerf_weights *all;
    const kf_decisions *decided;
    float *largest; /* of each decision whose layer gets a scale */
    kf_made_inputs *out;
} making;

/* What the layout stores beside the weight of a decision; NULL: nothing. An embedding has indices
 * for inputs. */
static const kf_input *input_of(const making *m, size_t i)
{
    const kerf_decision *d = &m->decided->item[i];
    if (!d->codec.format || d->weight->place.role == KERF_ROLE_EMBEDDING) return NULL;
    return kf_input_find(m->decided->layout, d->codec.format);
}

static kerf_status read_largest(const making *m, kerf_error *err)
{
    for (size_t i = 0; i < m->decided->count; i++) {
        const kerf_weight *w = m->decided->item[i].weight;
        if (!input_of(m, i)) continue;
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
    const size_t n = kerf_fused_group(m->all, m->decided->item[i].weight, member);
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

/* "X.weight" has "X.input_scale". */
static char *name_of(const kerf_weight *w, const char *end)
{
    const size_t cut = kf_has_suffix(w->name, ".weight") ? strlen(".weight") : 0;
    const size_t stem = strlen(w->name) - cut, room = stem + strlen(end) + 2;
    char *name = malloc(room);
    if (name) snprintf(name, room, "%.*s.%s", (int)stem, w->name, end);
    return name;
}

static kerf_status add(const making *m, size_t i, const kf_input *in, float largest,
                       kerf_error *err)
{
    const kerf_weight *w = m->decided->item[i].weight;
    kf_made_input *made = &m->out->item[m->out->count];
    made->name = name_of(w, in->name);
    if (!made->name)
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a scale of inputs");
    if (kerf_weights_find(m->all, made->name)) { /* the source brings it along */
        free(made->name);
        made->name = NULL;
        return KERF_OK;
    }
    const float scale = (float)((double)largest / in->largest);
    made->value = in->is_inverse ? kerf_inverse_of(scale) : scale;
    made->tensor = *w->plane[0]; /* in the file of its weight */
    made->tensor.name = made->name;
    made->tensor.dtype = KERF_F32;
    made->tensor.shape = (kerf_shape){in->is_vector != 0, {1}};
    made->tensor.bytes = sizeof made->value;
    made->tensor.block_type = NULL;
    made->weight = (kerf_weight){.name = made->name,
                                 .shape = made->tensor.shape,
                                 .dtype = KERF_F32,
                                 .plane = {&made->tensor}};
    m->out->count++;
    return KERF_OK;
}

static kerf_status make(const making *m, kerf_error *err)
{
    size_t layers = 0;
    KF_TRY(read_largest(m, err));
    for (size_t i = 0; i < m->decided->count; i++) {
        const kf_input *in = input_of(m, i);
        if (!in) continue;
        float largest = largest_of_group(m, i);
        const int is_borrowed = largest == 0;
        if (is_borrowed) largest = largest_of_experts(m, i);
        if (!(largest > 0))
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                           "%.150s: all inputs of %.150s were 0: calibrate with another text, or "
                           "--keep '%.150s'",
                           m->from->path, m->decided->item[i].weight->name,
                           m->decided->item[i].weight->name);
        KF_TRY(add(m, i, in, largest, err));
        m->out->borrowed += (size_t)is_borrowed;
        layers++;
    }
    if (layers) return KERF_OK;
    return kf_fail(
        err, KERF_E_ARG, KF_NOWHERE,
        "layout %s stores no scales of inputs beside these weights: layouts modelopt and "
        "compressed-tensors do beside nvfp4 and fp8-e4m3",
        m->decided->layout->name);
}

kerf_status kf_made_inputs_open(kf_made_inputs *out, const kerf_inputs *from,
                                const kerf_weights *all, const kf_decisions *d, kerf_error *err)
{
    making m = {.from = from, .all = all, .decided = d, .out = out};
    *out = (kf_made_inputs){NULL, 0, 0};
    if (!from->largest || d->quantized == 0) return KERF_OK;
    KF_TRY(kf_allocate(&out->item, d->count, sizeof *out->item, err));
    kerf_status s = kf_allocate(&m.largest, d->count, sizeof *m.largest, err);
    if (s == KERF_OK) s = make(&m, err);
    free(m.largest);
    if (s != KERF_OK) kf_made_inputs_close(out);
    return s;
}

void kf_made_inputs_close(kf_made_inputs *m)
{
    for (size_t i = 0; i < m->count; i++) free(m->item[i].name);
    free(m->item);
    *m = (kf_made_inputs){NULL, 0, 0};
}
