/* weights.c - the table behind kerf_weights: weights by place and by name, and the memory that they
 * need. */
#include "layout/weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* The name of a weight, kept for as long as the weights. */
kerf_status kf_weights_keep_name(kerf_weights *w, const char *name, const kerf_tensor *codes,
                                 const char **out, kerf_error *err)
{
    if (strcmp(codes->name, name) == 0) {
        *out = codes->name;
        return KERF_OK;
    }
    if ((w->names & (w->names + 1)) == 0) { /* room for 1, 2, 4, ... */
        char **more = realloc(w->name, (2 * w->names + 1) * sizeof *more);
        if (more) w->name = more;
        if (!more) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for names");
    }
    char *copy = strdup(name);
    if (!copy) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for names");
    w->name[w->names++] = copy;
    *out = copy;
    return KERF_OK;
}

void *kf_weights_own(kerf_weights *w, uint64_t count, size_t size)
{
    if ((w->owned_count & (w->owned_count + 1)) == 0) { /* room for 1, 3, 7, ... */
        void **more = realloc(w->owned, (2 * w->owned_count + 1) * sizeof *more);
        if (!more) return NULL;
        w->owned = more;
    }
    void *p = kf_alloc_zero(count, size);
    if (p) w->owned[w->owned_count++] = p;
    return p;
}

kerf_status kf_weights_index(kerf_weights *w, kerf_error *err)
{
    for (size_t i = 0; i < w->count; i++) w->by_name[i] = (kf_named){w->weight[i].name, i};
    size_t twice = kf_sort_names(w->by_name, w->count);
    if (twice == w->count) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "two weights are named \"%.*s\"",
                   KF_NAME(w->by_name[twice].name));
}

void kerf_weights_close(kerf_weights *w)
{
    if (!w) return;
    for (size_t i = 0; i < w->names; i++) free(w->name[i]);
    for (size_t i = 0; i < w->owned_count; i++) free(w->owned[i]);
    free(w->owned);
    kf_other_numbers_close(&w->other);
    free(w->name);
    free(w->weight);
    free(w->by_name);
    free(w);
}

size_t kerf_weights_count(const kerf_weights *w)
{
    return w->count;
}

const kerf_weight *kerf_weights_at(const kerf_weights *w, size_t i)
{
    return i < w->count ? &w->weight[i] : NULL;
}

const kerf_weight *kerf_weights_find(const kerf_weights *w, const char *name)
{
    const kf_named *found = kf_find_name(w->by_name, w->count, name);
    return found ? &w->weight[found->index] : NULL;
}

kerf_weight *kf_weights_found(const kf_weights_builder *b, const kerf_tensor *codes)
{
    const uint32_t number = b->number[codes - b->first];
    return number ? &b->found[number - 1] : NULL;
}

kerf_status kf_weights_add(kf_weights_builder *b, const kerf_tensor *codes, const kerf_weight *w)
{
    if (b->founds == b->room) {
        const size_t room = b->room ? 2 * b->room : 64;
        kerf_weight *more = realloc(b->found, room * sizeof *more);
        if (!more) return kf_fail(b->err, KERF_E_NOMEM, KF_NOWHERE, "no memory for weights");
        b->found = more;
        b->room = room;
    }
    b->found[b->founds++] = *w;
    b->number[codes - b->first] = (uint32_t)b->founds;
    return KERF_OK;
}

int kf_weights_claim(kf_weights_builder *b, const kerf_weight *w)
{
    const kerf_tensor *part[KERF_PLANES + KERF_EXTRAS];
    memcpy(part, w->plane, sizeof w->plane);
    memcpy(part + KERF_PLANES, w->extra, sizeof w->extra);
    for (int i = 0; i < KERF_PLANES + KERF_EXTRAS; i++)
        if (part[i] && b->role[part[i] - b->first] != KF_ROLE_DENSE) return 0;
    for (int i = 0; i < KERF_PLANES + KERF_EXTRAS; i++)
        if (part[i]) b->role[part[i] - b->first] = KF_ROLE_OTHER;
    b->role[w->plane[KERF_PLANE_CODES] - b->first] = KF_ROLE_CODES;
    return 1;
}
