/* stack.c - experts that stand one by one become stacks. */
#include "layout/stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/layout.h"

/* A stack whose row r of expert e is row r / parts of single[e * parts + r % parts]. */
static kerf_status stack_singles(kf_arranging *a, const kerf_weight *const *single,
                                 uint64_t experts, unsigned parts, const char *name)
{
    const kerf_weight *one = single[0];
    const int is_bias = one->shape.rank == 1;
    uint64_t rows, all_parts;
    if (!kf_mul_ok(one->shape.dim[0], parts, &rows) || !kf_mul_ok(experts, parts, &all_parts))
        return kf_fail(a->err, KERF_E_RANGE, KF_NOWHERE, "%s: too large", name);
    kerf_weight w = *one;
    w.name = name;
    w.shape = (kerf_shape){3, {experts, rows, is_bias ? 1 : one->shape.dim[1]}};
    if (is_bias) w.shape.rank = 2;
    kerf_geometry g;
    if (w.codec.format) KF_TRY(kerf_geometry_init(&g, w.codec.format, &w.shape, a->err));
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        if (!one->plane[p]) continue;
        const kerf_tensor **from = kf_arrange_keep(a, all_parts, sizeof *from);
        if (!from) return kf_arrange_no_memory(a->err);
        for (uint64_t i = 0; i < all_parts; i++) from[i] = single[i]->plane[p];
        const uint64_t bytes = from[0]->bytes, all = one->shape.dim[0];
        const uint64_t cols = bytes / (kerf_dtype_bits(from[0]->dtype) / 8) / (all ? all : 1);
        kerf_view v = {.rows = rows, .cols = cols, .parts = parts, .from = from};
        kerf_shape shape = {3, {experts, rows, cols}};
        KF_TRY(
            kf_arrange_tensor(a, from[0], name, w.codec.format ? shape : w.shape, v, &w.plane[p]));
    }
    return kf_arrange_append(a, &w);
}

static int are_alike(const kerf_weight *a, const kerf_weight *b)
{
    if (a->dtype != b->dtype || a->codec.format != b->codec.format || a->layout != b->layout ||
        !kerf_shape_equal(&a->shape, &b->shape))
        return 0;
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++)
        if (!a->plane[p] != !b->plane[p] ||
            (a->plane[p] && a->plane[p]->bytes != b->plane[p]->bytes))
            return 0;
    return 1;
}

/* Matrices or biases whose planes are arrays of rows, stored as they are. */
static int can_be_stacked(const kerf_weight *w, const char *kind)
{
    const kf_stored *s = w->codec.format ? kf_stored_find(w->layout, w->codec.format) : NULL;
    if (w->shape.rank != (strcmp(kind, "bias") == 0 ? 1u : 2u)) return 0;
    if (!w->codec.format) return kf_is_plain(w);
    const kerf_geometry g = kerf_weight_geometry(w);
    if (g.band_rows != 1 || g.format->geometry == KERF_GROUP_FLAT) return 0;
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++)
        if (w->plane[p] && (g.plane[p].per_matrix || (s && s->part[p].coding != KF_COPY))) return 0;
    return 1;
}

/* All experts of one part ("weight" or "bias"), in the order of rows; NULL: not all of them. */
static const kerf_weight **find_singles(kf_arranging *a, const kerf_weight *like, size_t prefix,
                                        int is_down, const char *kind, uint64_t *experts)
{
    const unsigned parts = is_down ? 1 : 2;
    const kerf_weight **list = NULL;
    size_t n = 0;
    for (;;) {
        char rest[64];
        snprintf(rest, sizeof rest, "%zu.%s.%s", n / parts,
                 kf_single_end(is_down ? KF_SINGLE_DOWN : (int)(n % parts)), kind);
        const kerf_weight *w = kf_expert_find(a->out, like->name, prefix, rest);
        if (!w || (n > 0 && !are_alike(w, list[0]))) break;
        if ((n & (n + 1)) == 0) {
            const kerf_weight **more = realloc(list, (2 * n + 1) * sizeof *more);
            if (!more) break;
            list = more;
        }
        list[n++] = w;
    }
    *experts = n / parts;
    if (n > 0 && n % parts == 0 && can_be_stacked(list[0], kind)) return list;
    free(list);
    return NULL;
}

size_t kf_single_prefix(const kerf_weight *w)
{
    const char *at = strstr(w->name, kf_experts_mark);
    if (!at || (at > w->name && at[-1] != '.')) return 0;
    const char *digits = at + strlen(kf_experts_mark),
               *part = digits + strspn(digits, "0123456789") + 1;
    if (part == digits + 1 || part[-1] != '.') return 0;
    for (int i = 0; i < KF_SINGLES; i++) {
        const char *end = part + strlen(kf_single_end(i));
        if (strncmp(part, kf_single_end(i), (size_t)(end - part)) == 0 &&
            (strcmp(end, ".weight") == 0 || strcmp(end, ".bias") == 0))
            return (size_t)(digits - w->name);
    }
    return 0;
}

kerf_status kf_singles_stack(kf_arranging *a, const kerf_weight *first, size_t prefix, int *done)
{
    const kerf_weight **found[KF_STACKS] = {NULL};
    uint64_t experts[KF_STACKS];
    for (int i = 0; i < KF_STACKS; i++)
        found[i] = find_singles(a, first, prefix, i == KF_DOWN || i == KF_DOWN_BIAS,
                                i < KF_GATE_UP_BIAS ? "weight" : "bias", &experts[i]);
    *done = found[KF_GATE_UP] && found[KF_DOWN] && experts[KF_GATE_UP] == experts[KF_DOWN];
    for (int i = KF_GATE_UP_BIAS; i < KF_STACKS; i++)
        *done = *done && (!found[i] || experts[i] == experts[KF_GATE_UP]);
    kerf_status s = KERF_OK;
    for (int i = 0; i < KF_STACKS && *done && s == KERF_OK; i++) {
        char end[KF_STACK_END];
        if (!found[i]) continue;
        const char *name = kf_arrange_name(a, first->name, prefix, kf_stack_end(i, end));
        s = name ? stack_singles(a, found[i], experts[i], i == KF_DOWN || i == KF_DOWN_BIAS ? 1 : 2,
                                 name)
                 : kf_arrange_no_memory(a->err);
    }
    for (int i = 0; i < KF_STACKS; i++) free(found[i]);
    return s;
}
