/* unstack.c - stacked experts become one matrix for each.
 *
 * Stacks are [experts, out, in]; those that the files have as [experts, in, out] are views already
 * (place_weights.c), of whose tensors the parts are views again. Gate and up follow each other as
 * halves, or they alternate, as the place of the stack says.
 *
 * Places inside of a stack are products of its dimensions, none of which is zero (kf_stacks_find)
 * and whose bytes are in the file: they cannot wrap. */
#include "layout/unstack.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "layout/layout.h"
#include "layout/place_weights.h"

/* --- finding stacks --- */

/* Bytes of the name up to one of the tensors of stacks; 0: it is none. */
static size_t prefix_of(const kerf_weight *w)
{
    const char *at = w->name;
    for (const char *next = at; (next = strstr(next, kf_experts_mark)) != NULL; next++) at = next;
    if (strncmp(at, kf_experts_mark, strlen(kf_experts_mark)) != 0 ||
        (at > w->name && at[-1] != '.'))
        return 0;
    const char *end = at + strlen(kf_experts_mark);
    for (int i = 0; i < KF_STACKS; i++) {
        char text[KF_STACK_END];
        const size_t n = strlen(kf_stack_end(i, text));
        if (strncmp(end, text, n) != 0) continue;
        if (end[n] == 0 || (i < KF_GATE_UP_BIAS && strcmp(end + n, ".weight") == 0))
            return (size_t)(end - w->name);
    }
    return 0;
}

/* Whether the rows of a quantized stack can be separated: its planes are arrays of rows, or of
 * bands of them that end where the parts do. */
static int can_be_sliced(const kerf_weight *w, uint64_t rows, int step)
{
    const kerf_geometry all = kerf_weight_geometry(w), *g = &all;
    const kf_stored *s = w->codec.format ? kf_stored_find(w->layout, w->codec.format) : NULL;
    if (!w->codec.format) return kf_is_plain(w);
    if (s && s->rank != 3) return 0; /* layout kerf has no rows in the table */
    if (g->format->geometry == KERF_GROUP_FLAT) return 0;
    return rows % g->band_rows == 0 && (step == 1 || g->band_rows == 1);
}

static int shapes_agree(kf_expert_layer *l)
{
    const uint64_t *up = l->stack[KF_GATE_UP]->shape.dim, *down = l->stack[KF_DOWN]->shape.dim;
    l->experts = up[0];
    l->inner = down[2];
    l->hidden = down[1];
    return up[0] == down[0] && up[2] == down[1] && up[1] / 2 == down[2] && up[1] % 2 == 0 &&
           l->experts > 0 && l->inner > 0 && l->hidden > 0;
}

static int bias_agrees(const kf_expert_layer *l, int which, uint64_t n)
{
    const kerf_weight *b = l->stack[which];
    return !b || (b->shape.rank == 2 && kf_is_plain(b) && b->shape.dim[0] == l->experts &&
                  b->shape.dim[1] == n);
}

int kf_stacks_find(const kerf_weights *all, const kerf_weight *w, kf_expert_layer *l)
{
    *l = (kf_expert_layer){.prefix = prefix_of(w)};
    for (int i = 0; i < KF_STACKS && l->prefix; i++) {
        char rest[64], end[KF_STACK_END];
        l->stack[i] = kf_expert_find(all, w->name, l->prefix, kf_stack_end(i, end));
        snprintf(rest, sizeof rest, "%s.weight", end);
        if (!l->stack[i]) l->stack[i] = kf_expert_find(all, w->name, l->prefix, rest);
    }
    const kerf_weight *up = l->stack[KF_GATE_UP], *down = l->stack[KF_DOWN];
    if (!up || !down || up->shape.rank != 3 || down->shape.rank != 3 || !shapes_agree(l)) return 0;
    const kerf_layout *oss = &kf_layouts[KF_LAYOUT_GPT_OSS];
    l->alternates = up->place.alternates || up->layout == oss || down->layout == oss;
    if (up->place.orientation == KERF_AXES_UNKNOWN) return 0;
    return bias_agrees(l, KF_GATE_UP_BIAS, 2 * l->inner) &&
           bias_agrees(l, KF_DOWN_BIAS, l->hidden) &&
           can_be_sliced(up, l->inner, l->alternates ? 2 : 1) && can_be_sliced(down, l->hidden, 1);
}

/* --- separating them ------------------------------------------------------------------------ */

/* Rows first, first + step, ... of each of the matrices of a stack. */
typedef struct slice {
    uint64_t expert, first, step, rows;
} slice;

/* Dense matrices and biases; whole: [experts, rows, cols] or [experts, rows]. */
static kerf_status slice_dense(kf_arranging *a, const kerf_weight *whole, slice s, const char *name,
                               kerf_weight *out)
{
    const uint64_t *dim = whole->shape.dim;
    const int is_bias = whole->shape.rank == 2, turned = is_bias || whole->stored.rank;
    const uint64_t cols = is_bias ? 1 : dim[2];
    const uint64_t all = is_bias ? dim[1] : dim[1] * dim[2];
    const uint64_t row = turned ? 1 : cols, col = turned ? all / cols : 1;
    kerf_view v = {.rows = s.rows, .cols = cols, .row = row * s.step, .col = col};
    v.first = s.expert * all + s.first * row;
    kerf_shape shape = {2, {s.rows, cols}};
    if (is_bias) shape = (kerf_shape){1, {s.rows}};
    *out = (kerf_weight){.name = name, .shape = shape, .dtype = whole->dtype};
    out->whole = whole->name;
    return kf_arrange_tensor(a, kf_weight_tensor(whole), name, shape, v, &out->plane[0]);
}

/* The part of a plane that belongs to some rows: one value of each matrix, or bands of rows. */
static kerf_status slice_plane(kf_arranging *a, const kerf_weight *whole, slice s, kerf_plane_id p,
                               kerf_weight *out)
{
    const kerf_geometry all = kerf_weight_geometry(whole), *g = &all;
    const kerf_tensor *t = whole->plane[p];
    const unsigned size = kerf_dtype_bits(t->dtype) / 8;
    const uint64_t pieces = g->plane[p].per_matrix ? g->matrices : g->bands;
    const uint64_t cols =
        t->bytes / size / pieces; /* elements of a piece; 0: one for all of them */
    if (cols == 0) {
        out->plane[p] = t;
        return KERF_OK;
    }
    kerf_view v = {.rows = 1, .cols = cols, .row = cols, .col = 1, .first = s.expert * cols};
    if (!g->plane[p].per_matrix) {
        v.rows = s.rows / g->band_rows;
        v.row = cols * s.step;
        v.first = (s.expert * g->bands_per_matrix + s.first / g->band_rows) * cols;
    }
    return kf_arrange_tensor(a, t, out->name, (kerf_shape){2, {v.rows, cols}}, v, &out->plane[p]);
}

static kerf_status slice_quantized(kf_arranging *a, const kerf_weight *whole, slice s,
                                   const char *name, kerf_weight *out)
{
    *out = (kerf_weight){.name = name, .shape = {2, {s.rows, whole->shape.dim[2]}}};
    out->dtype = whole->dtype;
    out->codec = whole->codec;
    out->layout = whole->layout;
    out->whole = whole->name;
    kerf_geometry g;
    KF_TRY(kerf_geometry_init(&g, whole->codec.format, &out->shape, a->err));
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++)
        if (whole->plane[p]) KF_TRY(slice_plane(a, whole, s, p, out));
    return KERF_OK;
}

static kerf_status add_single(kf_arranging *a, const kf_expert_layer *l, int which, slice s,
                              int is_bias)
{
    char rest[64];
    kerf_weight w;
    const int stack =
        (which == KF_SINGLE_DOWN ? KF_DOWN : KF_GATE_UP) + (is_bias ? KF_GATE_UP_BIAS : KF_GATE_UP);
    const kerf_weight *whole = l->stack[stack];
    if (!whole) return KERF_OK;
    snprintf(rest, sizeof rest, "%llu.%s.%s", (unsigned long long)s.expert, kf_single_end(which),
             is_bias ? "bias" : "weight");
    const char *name = kf_arrange_name(a, whole->name, l->prefix, rest);
    if (!name) return kf_arrange_no_memory(a->err);
    if (strlen(name) > KERF_MAX_NAME_BYTES)
        return kf_fail(a->err, KERF_E_LIMIT, KF_NOWHERE, "%.*s: its experts have no room for names",
                       KF_NAME(whole->name));
    if (whole->codec.format)
        KF_TRY(slice_quantized(a, whole, s, name, &w));
    else
        KF_TRY(slice_dense(a, whole, s, name, &w));
    return kf_arrange_append(a, &w);
}

kerf_status kf_stacks_split(kf_arranging *a, const kf_expert_layer *l)
{
    if (a->count > KERF_MAX_TENSORS ||
        l->experts > (KERF_MAX_TENSORS - a->count) / (2 * KF_SINGLES))
        return kf_fail(a->err, KERF_E_LIMIT, KF_NOWHERE,
                       "%.*s: its experts are more than %u tensors",
                       KF_NAME(l->stack[KF_GATE_UP]->name), KERF_MAX_TENSORS);
    for (uint64_t e = 0; e < l->experts; e++)
        for (int which = 0; which < KF_SINGLES; which++) {
            slice s = {e, 0, 1, which == KF_SINGLE_DOWN ? l->hidden : l->inner};
            if (which != KF_SINGLE_DOWN && l->alternates) s.step = 2;
            if (which == KF_UP) s.first = l->alternates ? 1 : l->inner;
            KF_TRY(add_single(a, l, which, s, 0));
            KF_TRY(add_single(a, l, which, s, 1));
        }
    return KERF_OK;
}
