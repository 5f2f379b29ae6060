/* fused.c - layers that runtimes merge into one matrix, by the part of the name that differs. */
#include "model/fused.h"
#include <stdio.h>

#include <string.h>

static const char *const groups[][FUSED_MOST + 1] = {
    {".q_proj.", ".k_proj.", ".v_proj.", NULL},
    {".gate_proj.", ".up_proj.", NULL},
    {".w1.", ".w3.", NULL},
    {".q_a_proj.", ".kv_a_proj_with_mqa.", NULL},
};

/* The members of one group that are there, when name has `part` of it at `at`. */
static size_t find_members(const checkpoint *c, const char *name, const char *at, const char *part,
                           const char *const *group, const kerf_weight *out[FUSED_MOST])
{
    size_t n = 0;
    for (size_t i = 0; group[i]; i++) {
        char other[KERF_MAX_NAME_BYTES + 32];
        snprintf(other, sizeof other, "%.*s%s%s", (int)(at - name), name, group[i],
                 at + strlen(part));
        const kerf_weight *w = kerf_weights_find(c->weights, other);
        if (w) out[n++] = w;
    }
    return n > 1 ? n : 0;
}

size_t fused_group(const checkpoint *c, const kerf_weight *w, const kerf_weight *out[FUSED_MOST])
{
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (size_t i = 0; groups[g][i]; i++) {
            const char *at = strstr(w->name, groups[g][i]);
            if (at) return find_members(c, w->name, at, groups[g][i], groups[g], out);
        }
    }
    return 0;
}
