/* arrange.c - the experts of a layer in the arrangement that loaders want.
 *
 * Models hold them one by one (X.experts.3.gate_proj.weight), or stacked as X.experts.gate_up_proj
 * and X.experts.down_proj. Loaders of quantized matrices want the former, those of gpt-oss the
 * latter with input features last, as all weights are (place_weights.c). Either is made of the
 * other here without moving a byte: the new weights are views of the stored tensors (view.h).
 *
 * Sources: llama4 and qwen3_vl_moe of transformers and of vLLM (gate, then up), gpt_oss of both
 * (alternating), llm-compressor's linearized experts (names of single ones). */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/decoded.h"
#include "layout/place_weights.h"
#include "layout/stack.h"
#include "layout/unstack.h"

enum { UNKNOWN, AS_IT_IS, GONE }; /* what becomes of a weight of the old list */

static void mark_layer(unsigned char *fate, const kerf_weights *w, const kf_expert_layer *l,
                       unsigned char mark)
{
    for (int i = 0; i < KF_STACKS; i++)
        if (l->stack[i]) fate[l->stack[i] - w->weight] = mark;
}

typedef struct request {
    kerf_experts how;
    int (*wanted)(void *ctx, const kerf_weight *w);
    void *ctx;
} request;

static int is_wanted(const request *q, const kerf_weight *w)
{
    return !q->wanted || q->wanted(q->ctx, w);
}

static kerf_status arrange_stack(kf_arranging *a, const kerf_weight *w, const request *q,
                                 unsigned char *fate)
{
    kf_expert_layer l;
    if (!kf_stacks_find(a->out, w, &l)) return KERF_OK;
    const int is_single = q->how == KERF_EXPERTS_SINGLE;
    const int goes = is_single && is_wanted(q, l.stack[KF_GATE_UP]);
    mark_layer(fate, a->out, &l, goes ? GONE : AS_IT_IS);
    return fate[w - a->out->weight] == GONE ? kf_stacks_split(a, &l) : KERF_OK;
}

static kerf_status arrange_single(kf_arranging *a, const kerf_weight *w, const request *q,
                                  unsigned char *fate)
{
    const kerf_weights *all = a->out;
    const size_t prefix = kf_single_prefix(w);
    int done = 0;
    if (!prefix) return KERF_OK;
    if (is_wanted(q, w)) KF_TRY(kf_singles_stack(a, w, prefix, &done));
    for (size_t i = 0; i < all->count; i++) {
        const kerf_weight *other = &all->weight[i];
        if (strncmp(other->name, w->name, prefix) == 0 && kf_single_prefix(other) == prefix)
            fate[i] = done ? GONE : AS_IT_IS;
    }
    return KERF_OK;
}

/* Goes through the old list; what is made new stands where its first part stood. */
static kerf_status arrange_all(kf_arranging *a, const request *q, unsigned char *fate)
{
    const kerf_weights *w = a->out;
    for (size_t i = 0; i < w->count; i++) {
        if (fate[i] == UNKNOWN) KF_TRY(arrange_stack(a, &w->weight[i], q, fate));
        if (fate[i] == UNKNOWN && q->how == KERF_EXPERTS_STACKED)
            KF_TRY(arrange_single(a, &w->weight[i], q, fate));
        if (fate[i] == GONE) continue;
        if (!a->at)
            a->count++;
        else
            KF_TRY(kf_arrange_append(a, &w->weight[i]));
    }
    return KERF_OK;
}

kerf_status kerf_weights_arrange(kerf_weights *w, kerf_experts how,
                                 int (*wanted)(void *ctx, const kerf_weight *w), void *ctx,
                                 kerf_error *err)
{
    kf_arranging a = {.out = w, .err = err};
    if (how == KERF_EXPERTS_AS_THEY_ARE || w->count == 0) return KERF_OK;
    unsigned char *fate = kf_alloc_zero(w->count, 1);
    if (!fate) return kf_arrange_no_memory(err);
    const request q = {how, wanted, ctx};
    kerf_status s = arrange_all(&a, &q, fate);
    free(fate);
    if (s == KERF_OK && !a.at) return s; /* there is nothing to arrange */
    kf_named *names =
        s == KERF_OK ? realloc(w->by_name, (a.count ? a.count : 1) * sizeof *names) : NULL;
    if (s == KERF_OK && !names) s = kf_arrange_no_memory(err);
    if (s != KERF_OK) {
        free(a.at);
        return s;
    }
    free(w->weight);
    w->weight = a.at;
    w->count = a.count;
    w->by_name = names;
    KF_TRY(kf_weights_place(w, err));
    KF_TRY(kf_weights_decode(w, err));
    return kf_weights_index(w, err);
}
