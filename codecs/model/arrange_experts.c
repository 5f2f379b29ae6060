/* arrange_experts.c - which experts are arranged anew: those that the layout takes another way, or
 * that a checkpoint to compare with has another way. */
#include "model/arrange_experts.h"
#include "base/base.h"

#include <kerf/words.h>
#include <string.h>

static int is_named(const args *a, const char *which, const char *name)
{
    const char *glob;
    for (size_t i = 0; (glob = args_value_at(a, which, i)) != NULL; i++) {
        if (kerf_glob_matches(glob, name)) return 1;
    }
    return 0;
}

static int will_change(void *ctx, const kerf_weight *w)
{
    const args *a = ctx;
    if (is_named(a, "keep", w->name)) return 0;
    return !args_has(a, "only") || is_named(a, "only", w->name);
}

kerf_status arrange_experts(checkpoint *c, const kerf_layout *l, const args *a, kerf_error *err)
{
    union {
        const args *given;
        void *ctx;
    } both = {a};
    return kerf_weights_arrange(c->weights, kerf_layout_experts(l), a ? will_change : NULL,
                                both.ctx, err);
}

static int is_absent(void *ctx, const kerf_weight *w)
{
    return !kerf_weights_find(ctx, w->name);
}

static int is_stacked_there(void *ctx, const kerf_weight *w)
{
    const kerf_weight *other = kerf_weights_find(ctx, w->name);
    if (!other || !kerf_shape_equal(&other->shape, &w->shape)) return 1;
    return other->layout && kerf_layout_experts(other->layout) == KERF_EXPERTS_STACKED;
}

kerf_status arrange_experts_like(checkpoint *c, const checkpoint *like, kerf_error *err)
{
    KF_TRY(kerf_weights_arrange(c->weights, KERF_EXPERTS_SINGLE, is_absent, like->weights, err));
    return kerf_weights_arrange(c->weights, KERF_EXPERTS_STACKED, is_stacked_there, like->weights,
                                err);
}
