/* made_scales.c - the list of what is made, and what both kinds of it have in common. */
#include "model/made_scales.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

kerf_status kf_made_scales_room(kf_made_scales *m, size_t more, kerf_error *err)
{
    kf_made_scale *item;
    KF_TRY(kf_allocate(&item, m->count + more, sizeof *item, err));
    if (m->count) memcpy(item, m->item, m->count * sizeof *item);
    free(m->item);
    m->item = item;
    return KERF_OK;
}

void kf_made_scales_add(kf_made_scales *m, kf_input_scale *scale, float value)
{
    m->item[m->count++] = (kf_made_scale){.weight = {.name = scale->name,
                                                     .shape = scale->tensor.shape,
                                                     .dtype = KERF_F32,
                                                     .plane = {&scale->tensor}},
                                          .scale = scale,
                                          .value = value};
}

int kf_is_brought(const kf_making *m, const char *name)
{
    const kerf_weight *there = kerf_weights_find(m->all, name);
    return there && !m->decided->item[there - m->decided->item[0].weight].dropped;
}

float kf_scale_of(float largest, double reach)
{
    const float scale = (float)((double)largest / reach);
    return scale > 0 && isfinite(scale) && isfinite(kerf_inverse_of(scale)) ? scale : 0;
}

void kf_made_scales_close(kf_made_scales *m)
{
    for (size_t i = 0; i < m->count; i++) kf_input_scale_close(m->item[i].scale);
    free(m->item);
    *m = (kf_made_scales){0};
}
