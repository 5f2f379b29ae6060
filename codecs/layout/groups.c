/* groups.c - finds the layers that runtimes merge with another one, by the part of its name in
 * which they differ. */
#include "layout/groups.h"

#include <stdio.h>
#include <string.h>

const kf_group kf_groups[KF_GROUPS] = {
#define KF_GROUP(ID, name, module, norm, ...) {name, module, norm, {__VA_ARGS__}},
#include "layout/groups.def"
#undef KF_GROUP
};

const kf_group *kf_group_find(const char *layer, size_t n)
{
    for (size_t g = 0; g < KF_GROUPS; g++) {
        for (size_t i = 0; i < KERF_FUSED_MOST && kf_groups[g].member[i]; i++) {
            const char *member = kf_groups[g].member[i];
            if (strlen(member) == n && memcmp(member, layer, n) == 0) return &kf_groups[g];
        }
    }
    return NULL;
}

const char *kerf_fused_name(const char *layer)
{
    const kf_group *g = kf_group_find(layer, strlen(layer));
    return g ? g->name : NULL;
}

/* The members of a group that are there; a name of theirs is `before`, a member, `after`. */
static size_t find_members(const kerf_weights *all, const kf_group *g, const char *before, size_t n,
                           const char *after, const kerf_weight **out)
{
    size_t count = 0;
    for (size_t i = 0; i < KERF_FUSED_MOST && g->member[i]; i++) {
        char name[KERF_MAX_NAME_BYTES + 32];
        snprintf(name, sizeof name, "%.*s%s%s", (int)n, before, g->member[i], after);
        const kerf_weight *w = kerf_weights_find(all, name);
        if (w) out[count++] = w;
    }
    return count > 1 ? count : 0;
}

size_t kerf_fused_group(const kerf_weights *all, const kerf_weight *w,
                        const kerf_weight *out[KERF_FUSED_MOST])
{
    /* Each part of the name that stands between two dots. */
    const char *dot = strchr(w->name, '.');
    for (const char *end; dot && (end = strchr(dot + 1, '.')) != NULL; dot = end) {
        const kf_group *g = kf_group_find(dot + 1, (size_t)(end - dot - 1));
        if (g) return find_members(all, g, w->name, (size_t)(dot + 1 - w->name), end, out);
    }
    return 0;
}
