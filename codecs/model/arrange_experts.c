/* arrange_experts.c - which experts are arranged anew: those that the layout takes another way, or
 * that a checkpoint to compare with has another way. */
#include "model/arrange_experts.h"

#include <kerf/words.h>

#include "base/base.h"

typedef struct context {
    const kerf_select *select;
    const kerf_weights *like;
} context;

static int is_named(const char *const *glob, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (kerf_glob_matches(glob[i], name)) return 1;
    }
    return 0;
}

static int will_change(void *ctx, const kerf_weight *w)
{
    const kerf_select *s = ((const context *)ctx)->select;
    if (is_named(s->keep, s->keeps, w->name)) return 0;
    return !s->onlys || is_named(s->only, s->onlys, w->name);
}

kerf_status kf_arrange_experts(kerf_checkpoint *c, const kerf_layout *l, const kerf_select *select,
                               kerf_error *err)
{
    context x = {.select = select};
    if (l == kerf_layout_find("gguf")) return kerf_weights_name_as_gguf(c->weights, c->reader, err);
    return kerf_weights_arrange(c->weights, kerf_layout_experts(l), select ? will_change : NULL, &x,
                                err);
}

kerf_status kerf_checkpoint_arrange(const kerf_checkpoint *c, const kerf_layout *l,
                                    kerf_checkpoint **out, kerf_error *err)
{
    KF_TRY(kf_checkpoint_view(c, out, err));
    kerf_status s = kf_arrange_experts(*out, l, NULL, err);
    if (s == KERF_OK) return s;
    kerf_checkpoint_close(*out);
    *out = NULL;
    return s;
}

static int is_absent(void *ctx, const kerf_weight *w)
{
    return !kerf_weights_find(((const context *)ctx)->like, w->name);
}

static int is_stacked_there(void *ctx, const kerf_weight *w)
{
    const kerf_weight *other = kerf_weights_find(((const context *)ctx)->like, w->name);
    if (!other || !kerf_shape_equal(&other->shape, &w->shape)) return 1;
    return other->layout && kerf_layout_experts(other->layout) == KERF_EXPERTS_STACKED;
}

kerf_status kf_arrange_experts_like(kerf_checkpoint *c, const kerf_checkpoint *like,
                                    kerf_error *err)
{
    context x = {.like = like->weights};
    if (kerf_reader_is_gguf(like->reader))
        KF_TRY(kerf_weights_name_as_gguf(c->weights, c->reader, err));
    KF_TRY(kerf_weights_arrange(c->weights, KERF_EXPERTS_SINGLE, is_absent, &x, err));
    return kerf_weights_arrange(c->weights, KERF_EXPERTS_STACKED, is_stacked_there, &x, err);
}
