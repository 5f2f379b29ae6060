/* select.c - which weights are worth quantizing. What runtimes refuse to load quantized, or what
 * costs far more quality than it saves bytes, is left in its source type: its role says so
 * (kerf/roles.h). */
#include "model/select.h"

#include <stdio.h>
#include <stdlib.h>

#include <kerf/words.h>

#include "base/base.h"
#include "model/not_a_model.h"

int kf_glob_takes(const char *glob, const kerf_weight *w)
{
    return kerf_glob_matches(glob, w->name) || (w->whole && kerf_glob_matches(glob, w->whole));
}

const char *kf_select_obstacle(const kerf_weight *w, char *text, size_t size)
{
    char format[64];
    if (w->decoded || (!w->codec.format && kerf_dtype_is_float(w->dtype))) return NULL;
    snprintf(text, size, "%s %s", w->codec.format ? "already" : "type",
             kerf_weight_format(w, format, sizeof format));
    return text;
}

/* Rows that are shorter than the blocks of most formats: convolutions, mostly. */
enum { SHORT_ROW = 16 };

static const char *default_reason(const kerf_weight *w)
{
    const int is_known = w->place.role != KERF_ROLE_OTHER;
    const char *why = kerf_place_keeps(&w->place);
    if (w->shape.rank < 2) return why && is_known ? why : "1-D";
    if (why) return why;
    return w->shape.dim[w->shape.rank - 1] < SHORT_ROW ? "short rows" : NULL;
}

kf_rank kf_select_rank(const kerf_weight *w)
{
    char text[96];
    if (kf_select_obstacle(w, text, sizeof text))
        return w->codec.format ? KF_RANK_USUAL : KF_RANK_SMALL;
    if (!default_reason(w)) return KF_RANK_USUAL;
    return w->shape.rank < 2 ? KF_RANK_SMALL : KF_RANK_KEPT;
}

static const char *first_match(const char *const *glob, size_t count, const kerf_weight *w)
{
    for (size_t i = 0; i < count; i++) {
        if (kf_glob_takes(glob[i], w)) return glob[i];
    }
    return NULL;
}

/* A header may claim any number of rows and matrices without elements, each with a scale. */
enum { EMPTY_MOST = 1 << 16 };

const char *kf_select_empty(const kerf_weight *w)
{
    uint64_t claimed = 1;
    if (kerf_weight_elements(w) > 0) return NULL;
    for (unsigned i = 0; i < w->shape.rank && claimed <= EMPTY_MOST; i++)
        if (w->shape.dim[i] > 1) claimed *= kf_min_u64(w->shape.dim[i], UINT32_MAX);
    return claimed > EMPTY_MOST ? "no elements" : NULL;
}

const char *kf_select_option(const kerf_select *s, const kerf_weight *w, char *text, size_t size)
{
    const char *glob = first_match(s->keep, s->keeps, w);
    if (glob) {
        snprintf(text, size, "--keep %s", glob);
        return text;
    }
    return s->onlys && !first_match(s->only, s->onlys, w) ? "not in --only" : NULL;
}

const char *kf_select_reason(const kerf_select *s, const kerf_weight *w, char *text, size_t size)
{
    const char *why = kf_select_obstacle(w, text, size);
    if (!why) why = kf_select_empty(w);
    if (!why) why = kf_select_option(s, w, text, size);
    return why || s->all ? why : default_reason(w);
}

kerf_status kf_glob_check(const kerf_checkpoint *c, const char *what, const char *glob,
                          kerf_error *err)
{
    for (size_t i = 0; i < kerf_weights_count(c->weights); i++) {
        if (kf_glob_takes(glob, kerf_weights_at(c->weights, i))) return KERF_OK;
    }
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                   "%.200s matches no tensor; kerf inspect %.200s lists them", what, c->path);
}

static kerf_status check_all(const kerf_checkpoint *c, const char *option, const char *const *glob,
                             size_t count, kerf_error *err)
{
    for (size_t i = 0; i < count; i++) {
        char what[256];
        snprintf(what, sizeof what, "%s %.200s", option, glob[i]);
        KF_TRY(kf_glob_check(c, what, glob[i], err));
    }
    return KERF_OK;
}

kerf_status kf_select_check(const kerf_checkpoint *c, const kerf_select *s, kerf_error *err)
{
    KF_TRY(check_all(c, "--keep", s->keep, s->keeps, err));
    return check_all(c, "--only", s->only, s->onlys, err);
}

kerf_status kerf_select_weights(const kerf_checkpoint *c, const kerf_select *s, kerf_selected *out,
                                kerf_error *err)
{
    static const kerf_select usual = {0};
    const size_t count = kerf_weights_count(c->weights);
    char text[96];
    *out = (kerf_selected){0};
    KF_TRY(kf_refuse_source(c, err));
    KF_TRY(kf_select_check(c, s ? s : &usual, err));
    KF_TRY(kf_allocate(&out->weight, count, sizeof *out->weight, err));
    for (size_t i = 0; i < count; i++) {
        const kerf_weight *w = kerf_weights_at(c->weights, i);
        if (kf_select_reason(s ? s : &usual, w, text, sizeof text))
            out->kept_bytes += kerf_weight_bytes(w);
        else
            out->weight[out->count++] = w;
    }
    return KERF_OK;
}

void kerf_selected_free(kerf_selected *s)
{
    free(s->weight);
    *s = (kerf_selected){0};
}
