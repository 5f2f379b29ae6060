/* made_cache.c - from the largest keys and values of a layer to the scales of an FP8 cache. */
#include "model/made_scales.h"

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "layout/config_cache.h"

/* The end of the name of a weight that makes keys; NULL: it makes none, or is called otherwise. */
static const char *tail_of(const kerf_weight *w)
{
    const kerf_place *p = &w->place;
    if (p->role != KERF_ROLE_ATTENTION) return NULL;
    if (p->piece != KERF_PIECE_K && p->piece != KERF_PIECE_QKV) return NULL;
    return kf_cache_tail(w->name);
}

/* A scale that is there would be another's: under one name or two, loaders take what comes last. */
static kerf_status check_source(const kf_making *m, kerf_error *err)
{
    for (size_t i = 0; i < m->decided->count; i++) {
        const kerf_decision *d = &m->decided->item[i];
        if (d->dropped || !kf_is_cache_scale(d->weight->name)) continue;
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%.150s is a scale of the KV cache already, and stays: leave --kv away",
                       d->weight->name);
    }
    return KERF_OK;
}

/* One of keys (which 0) and one of values. */
static kerf_status add(const kf_making *m, const kerf_weight *w, const char *tail, int which,
                       float largest, const char *path, kerf_error *err)
{
    static const char *const called[] = {"key", "value"};
    int is_vector;
    const char *end = kf_cache_scale_end(m->decided->layout, which, &is_vector);
    const float value = kf_scale_of(largest, 448);
    kf_input_scale *scale;
    if (value == 0)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%.150s: the largest %s of the layer of %.150s is %g, which makes no scale: "
                       "calibrate with another text, or leave --kv away",
                       path, called[which], w->name, (double)largest);
    KF_TRY(kf_input_scale_make(w, tail, end, is_vector, &scale, err));
    kf_made_scales_add(m->out, scale, value);
    return KERF_OK;
}

/* The two of the layer of one weight, if it has any. */
static kerf_status make_two(const kf_making *m, const kerf_weight *w, const kerf_cached *from,
                            kerf_error *err)
{
    const char *tail = tail_of(w);
    float largest[2];
    if (!tail) return KERF_OK;
    KF_TRY(from->largest(from->ctx, w, largest, err));
    if (isnan(largest[0])) return KERF_OK; /* a tower's, for one */
    for (int which = 0; which < 2; which++)
        KF_TRY(add(m, w, tail, which, largest[which], from->path, err));
    return KERF_OK;
}

kerf_status kf_make_cache_scales(const kf_making *m, const kerf_cached *from, kerf_error *err)
{
    const size_t before = m->out->count;
    size_t keys = 0;
    int is_vector;
    if (!from->largest || m->decided->quantized == 0) return KERF_OK;
    if (!kf_cache_scale_end(m->decided->layout, 0, &is_vector))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "layout %s has no words for a KV cache: layouts modelopt and "
                       "compressed-tensors have",
                       m->decided->layout->name);
    KF_TRY(check_source(m, err));
    for (size_t i = 0; i < m->decided->count; i++)
        keys += tail_of(m->decided->item[i].weight) != NULL;
    KF_TRY(kf_made_scales_room(m->out, 2 * keys, err));
    for (size_t i = 0; i < m->decided->count; i++)
        KF_TRY(make_two(m, m->decided->item[i].weight, from, err));
    if (m->out->count > before) return KERF_OK;
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                   "%.150s knows the keys and values of no layer with a k_proj or qkv_proj, beside "
                   "which loaders look for the scales of a cache: leave --kv away",
                   from->path);
}
