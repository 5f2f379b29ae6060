/* arrange.c - the experts of a layer in the arrangement that loaders want.
 *
 * Models hold them one by one (X.experts.3.gate_proj.weight), or stacked as X.experts.gate_up_proj
 * and X.experts.down_proj. Loaders of quantized matrices want the former, those of gpt-oss the
 * latter with input features last. Either is made of the other here without moving a byte: the new
 * weights are views of the stored tensors (view.h).
 *
 * Stacked ones are [experts, out, in] or, as transformers holds them, [experts, in, out]: with 2 n
 * rows of gate and up and n columns of down, no pair of shapes can be read both ways. Gate and up
 * follow each other as halves, but for gpt-oss, which alternates them and alone has biases.
 *
 * Places inside of a stack are products of its dimensions, none of which is zero (find_layer) and
 * whose bytes are in the file: they cannot wrap.
 *
 * Sources: llama4 and qwen3_vl_moe of transformers and of vLLM (gate, then up), gpt_oss of both
 * (alternating), llm-compressor's linearized experts (names of single ones). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/disk/io.h"
#include "layout/groups.h"
#include "layout/layout.h"
#include "file/read/view.h"
#include "layout/weights.h"

enum { GATE_UP, DOWN, GATE_UP_BIAS, DOWN_BIAS, STACKS };
enum { GATE, UP, SINGLE_DOWN, SINGLES }; /* down as the others; its stack is DOWN */

static const char mark[] = "experts.";
static const char down_name[] = "down_proj";

/* The layer of a single expert; gate and up are a row of groups.def. */
static const char *single_end(int which)
{
    return which == SINGLE_DOWN ? down_name : kf_groups[KF_GROUP_GATE_UP].member[which];
}

/* The same of a stack; out holds STACK_END bytes; returns out. */
enum { STACK_END = 32 };
static const char *stack_end(int which, char out[STACK_END])
{
    const int is_down = which == DOWN || which == DOWN_BIAS;
    snprintf(out, STACK_END, "%s%s", is_down ? down_name : kf_groups[KF_GROUP_GATE_UP].name,
             which < GATE_UP_BIAS ? "" : "_bias");
    return out;
}

/* The experts of a layer. inner: features between the matrices. */
typedef struct layer {
    size_t prefix; /* bytes of the name up to the experts, mark included */
    const kerf_weight *stack[STACKS];
    uint64_t experts, inner, hidden;
    int turned; /* output features last */
    int alternates;
} layer;

typedef struct arranging {
    kerf_weights *out;
    const kerf_reader *reader;
    kerf_weight *at; /* the new list */
    size_t count, room;
    kerf_error *err;
} arranging;

/* --- memory --- */

static kerf_status no_memory(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for experts");
}

/* Memory that lives as long as the weights; NULL: none. */
static void *keep(arranging *a, uint64_t count, size_t size)
{
    kerf_weights *w = a->out;
    if ((w->owned_count & (w->owned_count + 1)) == 0) { /* room for 1, 3, 7, ... */
        void **more = realloc(w->owned, (2 * w->owned_count + 1) * sizeof *more);
        if (!more) return NULL;
        w->owned = more;
    }
    void *p = kf_alloc_zero(count, size);
    if (p) w->owned[w->owned_count++] = p;
    return p;
}

static kerf_status append(arranging *a, const kerf_weight *w)
{
    if (a->count == a->room) {
        const size_t room = a->room ? 2 * a->room : 64;
        kerf_weight *more = realloc(a->at, room * sizeof *more);
        if (!more) return no_memory(a->err);
        a->at = more;
        a->room = room;
    }
    a->at[a->count++] = *w;
    return KERF_OK;
}

static char *keep_name(arranging *a, const char *prefix, size_t n, const char *rest)
{
    char *name = keep(a, n + strlen(rest) + 1, 1);
    if (name) snprintf(name, n + strlen(rest) + 1, "%.*s%s", (int)n, prefix, rest);
    return name;
}

/* --- tensors that are views --- */

/* A tensor like `from` of other name and shape, for which v says where its elements are. */
static kerf_status make_tensor(arranging *a, const kerf_tensor *from, const char *name,
                               kerf_shape shape, kerf_view v, const kerf_tensor **out)
{
    struct {
        kerf_tensor tensor;
        kerf_view view;
        const kerf_tensor *from;
    } *made = keep(a, 1, sizeof *made);
    uint64_t count, bytes;
    if (!made) return no_memory(a->err);
    KF_TRY(kerf_shape_count(&shape, &count, a->err));
    v.size = kerf_dtype_bits(from->dtype) / 8;
    if (!kf_mul_ok(count, v.size, &bytes))
        return kf_fail(a->err, KERF_E_RANGE, KF_NOWHERE, "%s: too large", name);
    made->tensor = (kerf_tensor){.name = name, .dtype = from->dtype, .shape = shape};
    made->tensor.bytes = bytes;
    made->tensor.shard = from->shard;
    made->tensor.view = &made->view;
    made->from = from;
    if (!v.parts) v.from = &made->from;
    made->view = v;
    *out = &made->tensor;
    return KERF_OK;
}

/* --- from stacks to single ones --- */

/* Rows first, first + step, ... of each of the matrices of a stack. */
typedef struct slice {
    uint64_t expert, first, step, rows;
} slice;

/* Dense matrices and biases; whole: [experts, rows, cols] or [experts, rows]. */
static kerf_status slice_dense(arranging *a, const layer *l, const kerf_weight *whole, slice s,
                               const char *name, kerf_weight *out)
{
    const uint64_t *dim = whole->shape.dim;
    const int is_bias = whole->shape.rank == 2, turned = is_bias || l->turned;
    const uint64_t cols = is_bias ? 1 : turned ? dim[1] : dim[2];
    const uint64_t all = is_bias ? dim[1] : dim[1] * dim[2];
    const uint64_t row = turned ? 1 : cols, col = turned ? all / cols : 1;
    kerf_view v = {.rows = s.rows, .cols = cols, .row = row * s.step, .col = col};
    v.first = s.expert * all + s.first * row;
    kerf_shape shape = {2, {s.rows, cols}};
    if (is_bias) shape = (kerf_shape){1, {s.rows}};
    *out = (kerf_weight){.name = name, .shape = shape, .dtype = whole->dtype};
    out->whole = whole->name;
    return make_tensor(a, whole->plane[0], name, shape, v, &out->plane[0]);
}

/* The part of a plane that belongs to some rows: one value of each matrix, or bands of rows. */
static kerf_status slice_plane(arranging *a, const kerf_weight *whole, slice s, kerf_plane_id p,
                               kerf_weight *out)
{
    const kerf_geometry *g = &whole->geometry;
    const kerf_tensor *t = whole->plane[p];
    const unsigned size = kerf_dtype_bits(t->dtype) / 8;
    const uint64_t pieces = g->plane[p].per_matrix ? g->matrices : g->bands;
    const uint64_t cols = t->bytes / size / pieces; /* elements of a piece */
    kerf_view v = {.rows = 1, .cols = cols, .row = cols, .col = 1, .first = s.expert * cols};
    if (!g->plane[p].per_matrix) {
        v.rows = s.rows / g->band_rows;
        v.row = cols * s.step;
        v.first = (s.expert * g->bands_per_matrix + s.first / g->band_rows) * cols;
    }
    return make_tensor(a, t, out->name, (kerf_shape){2, {v.rows, cols}}, v, &out->plane[p]);
}

static kerf_status slice_quantized(arranging *a, const kerf_weight *whole, slice s,
                                   const char *name, kerf_weight *out)
{
    *out = (kerf_weight){.name = name, .shape = {2, {s.rows, whole->shape.dim[2]}}};
    out->dtype = whole->dtype;
    out->codec = whole->codec;
    out->layout = whole->layout;
    out->whole = whole->name;
    KF_TRY(kerf_geometry_init(&out->geometry, whole->codec.format, &out->shape, a->err));
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++)
        if (whole->plane[p]) KF_TRY(slice_plane(a, whole, s, p, out));
    return KERF_OK;
}

static kerf_status add_single(arranging *a, const layer *l, int which, slice s, int is_bias)
{
    char rest[64];
    kerf_weight w;
    const int stack = (which == SINGLE_DOWN ? DOWN : GATE_UP) + (is_bias ? GATE_UP_BIAS : GATE_UP);
    const kerf_weight *whole = l->stack[stack];
    if (!whole) return KERF_OK;
    snprintf(rest, sizeof rest, "%llu.%s.%s", (unsigned long long)s.expert, single_end(which),
             is_bias ? "bias" : "weight");
    const char *name = keep_name(a, whole->name, l->prefix, rest);
    if (!name) return no_memory(a->err);
    if (strlen(name) > KERF_MAX_NAME_BYTES)
        return kf_fail(a->err, KERF_E_LIMIT, KF_NOWHERE, "%.*s: its experts have no room for names",
                       KF_NAME(whole->name));
    if (whole->codec.format)
        KF_TRY(slice_quantized(a, whole, s, name, &w));
    else
        KF_TRY(slice_dense(a, l, whole, s, name, &w));
    return append(a, &w);
}

static kerf_status add_singles(arranging *a, const layer *l)
{
    if (a->count > KERF_MAX_TENSORS || l->experts > (KERF_MAX_TENSORS - a->count) / (2 * SINGLES))
        return kf_fail(a->err, KERF_E_LIMIT, KF_NOWHERE,
                       "%.*s: its experts are more than %u tensors",
                       KF_NAME(l->stack[GATE_UP]->name), KERF_MAX_TENSORS);
    for (uint64_t e = 0; e < l->experts; e++)
        for (int which = 0; which < SINGLES; which++) {
            slice s = {e, 0, 1, which == SINGLE_DOWN ? l->hidden : l->inner};
            if (which != SINGLE_DOWN && l->alternates) s.step = 2;
            if (which == UP) s.first = l->alternates ? 1 : l->inner;
            KF_TRY(add_single(a, l, which, s, 0));
            KF_TRY(add_single(a, l, which, s, 1));
        }
    return KERF_OK;
}

/* --- finding stacks --- */

static const kerf_weight *find(const kerf_weights *w, const char *like, size_t prefix,
                               const char *rest)
{
    char name[KERF_MAX_NAME_BYTES + 64];
    snprintf(name, sizeof name, "%.*s%s", (int)prefix, like, rest);
    return kerf_weights_find(w, name);
}

/* Bytes of the name up to one of the tensors of stacks; 0: it is none. */
static size_t prefix_of(const kerf_weight *w)
{
    const char *at = w->name;
    for (const char *next = at; (next = strstr(next, mark)) != NULL; next++) at = next;
    if (strncmp(at, mark, strlen(mark)) != 0 || (at > w->name && at[-1] != '.')) return 0;
    const char *end = at + strlen(mark);
    for (int i = 0; i < STACKS; i++) {
        char text[STACK_END];
        const size_t n = strlen(stack_end(i, text));
        if (strncmp(end, text, n) != 0) continue;
        if (end[n] == 0 || (i < GATE_UP_BIAS && strcmp(end + n, ".weight") == 0))
            return (size_t)(end - w->name);
    }
    return 0;
}

/* Dense, and of elements that are whole bytes. */
static int is_plain(const kerf_weight *w)
{
    const unsigned bits = kerf_dtype_bits(w->dtype);
    return !w->codec.format && !w->plane[0]->block_type && bits > 0 && bits % 8 == 0;
}

/* Whether the rows of a quantized stack can be told apart: its planes are arrays of rows, or of
 * bands of them that end where the parts do. */
static int can_be_sliced(const kerf_weight *w, uint64_t rows, int step)
{
    const kerf_geometry *g = &w->geometry;
    const kf_stored *s = w->codec.format ? kf_stored_find(w->layout, w->codec.format) : NULL;
    if (!w->codec.format) return is_plain(w);
    if (s && s->rank != 3) return 0; /* layout kerf has no rows in the table */
    if (g->format->geometry == KERF_GROUP_FLAT) return 0;
    return rows % g->band_rows == 0 && (step == 1 || g->band_rows == 1);
}

static int shapes_agree(layer *l)
{
    const uint64_t *up = l->stack[GATE_UP]->shape.dim, *down = l->stack[DOWN]->shape.dim;
    const int straight = up[2] == down[1] && up[1] / 2 == down[2] && up[1] % 2 == 0;
    l->turned = up[1] == down[2] && up[2] / 2 == down[1] && up[2] % 2 == 0;
    l->experts = up[0];
    l->inner = l->turned ? down[1] : down[2];
    l->hidden = l->turned ? down[2] : down[1];
    return up[0] == down[0] && straight != l->turned && l->experts > 0 && l->inner > 0 &&
           l->hidden > 0;
}

static int bias_agrees(const layer *l, int which, uint64_t n)
{
    const kerf_weight *b = l->stack[which];
    return !b || (b->shape.rank == 2 && is_plain(b) && b->shape.dim[0] == l->experts &&
                  b->shape.dim[1] == n);
}

/* The layer that w is a stack of; 0: none, or none that can be taken apart. */
static int find_layer(const kerf_weights *all, const kerf_weight *w, layer *l)
{
    *l = (layer){.prefix = prefix_of(w)};
    for (int i = 0; i < STACKS && l->prefix; i++) {
        char rest[64], end[STACK_END];
        l->stack[i] = find(all, w->name, l->prefix, stack_end(i, end));
        snprintf(rest, sizeof rest, "%s.weight", end);
        if (!l->stack[i]) l->stack[i] = find(all, w->name, l->prefix, rest);
    }
    const kerf_weight *up = l->stack[GATE_UP], *down = l->stack[DOWN];
    if (!up || !down || up->shape.rank != 3 || down->shape.rank != 3 || !shapes_agree(l)) return 0;
    const kerf_layout *oss = &kf_layouts[KF_LAYOUT_GPT_OSS];
    l->alternates = l->stack[GATE_UP_BIAS] || up->layout == oss || down->layout == oss;
    if (l->turned && (up->codec.format || down->codec.format)) return 0;
    return bias_agrees(l, GATE_UP_BIAS, 2 * l->inner) && bias_agrees(l, DOWN_BIAS, l->hidden) &&
           can_be_sliced(up, l->inner, l->alternates ? 2 : 1) && can_be_sliced(down, l->hidden, 1);
}

/* --- from single ones to stacks --- */

/* A stack whose row r of expert e is row r / parts of single[e * parts + r % parts]. */
static kerf_status stack_singles(arranging *a, const kerf_weight *const *single, uint64_t experts,
                                 unsigned parts, const char *name)
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
    if (w.codec.format) KF_TRY(kerf_geometry_init(&w.geometry, w.codec.format, &w.shape, a->err));
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        if (!one->plane[p]) continue;
        const kerf_tensor **from = keep(a, all_parts, sizeof *from);
        if (!from) return no_memory(a->err);
        for (uint64_t i = 0; i < all_parts; i++) from[i] = single[i]->plane[p];
        const uint64_t bytes = from[0]->bytes, all = one->shape.dim[0];
        const uint64_t cols = bytes / (kerf_dtype_bits(from[0]->dtype) / 8) / (all ? all : 1);
        kerf_view v = {.rows = rows, .cols = cols, .parts = parts, .from = from};
        kerf_shape shape = {3, {experts, rows, cols}};
        KF_TRY(make_tensor(a, from[0], name, w.codec.format ? shape : w.shape, v, &w.plane[p]));
    }
    return append(a, &w);
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
    if (!w->codec.format) return is_plain(w);
    if (w->geometry.band_rows != 1 || w->geometry.format->geometry == KERF_GROUP_FLAT) return 0;
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++)
        if (w->plane[p] && (w->geometry.plane[p].per_matrix || (s && s->part[p].coding != KF_COPY)))
            return 0;
    return 1;
}

/* All experts of one part ("weight" or "bias"), in the order of rows; NULL: not all of them. */
static const kerf_weight **find_singles(arranging *a, const kerf_weight *like, size_t prefix,
                                        int is_down, const char *kind, uint64_t *experts)
{
    const unsigned parts = is_down ? 1 : 2;
    const kerf_weight **list = NULL;
    size_t n = 0;
    for (;;) {
        char rest[64];
        snprintf(rest, sizeof rest, "%zu.%s.%s", n / parts,
                 single_end(is_down ? SINGLE_DOWN : (int)(n % parts)), kind);
        const kerf_weight *w = find(a->out, like->name, prefix, rest);
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

/* Bytes of the name up to the number of an expert, of its matrix or bias; 0: it is none. */
static size_t single_prefix(const kerf_weight *w)
{
    const char *at = strstr(w->name, mark);
    if (!at || (at > w->name && at[-1] != '.')) return 0;
    const char *digits = at + strlen(mark), *part = digits + strspn(digits, "0123456789") + 1;
    if (part == digits + 1 || part[-1] != '.') return 0;
    for (int i = 0; i < SINGLES; i++) {
        const char *end = part + strlen(single_end(i));
        if (strncmp(part, single_end(i), (size_t)(end - part)) == 0 &&
            (strcmp(end, ".weight") == 0 || strcmp(end, ".bias") == 0))
            return (size_t)(digits - w->name);
    }
    return 0;
}

/* Single ones of a layer become stacks. *done is 0 when they are not all there, or not alike. */
static kerf_status add_stacks(arranging *a, const kerf_weight *first, size_t prefix, int *done)
{
    const kerf_weight **found[STACKS] = {NULL};
    uint64_t experts[STACKS];
    for (int i = 0; i < STACKS; i++)
        found[i] = find_singles(a, first, prefix, i == DOWN || i == DOWN_BIAS,
                                i < GATE_UP_BIAS ? "weight" : "bias", &experts[i]);
    *done = found[GATE_UP] && found[DOWN] && experts[GATE_UP] == experts[DOWN];
    for (int i = GATE_UP_BIAS; i < STACKS; i++)
        *done = *done && (!found[i] || experts[i] == experts[GATE_UP]);
    kerf_status s = KERF_OK;
    for (int i = 0; i < STACKS && *done && s == KERF_OK; i++) {
        char end[STACK_END];
        if (!found[i]) continue;
        const char *name = keep_name(a, first->name, prefix, stack_end(i, end));
        s = name ? stack_singles(a, found[i], experts[i], i == DOWN || i == DOWN_BIAS ? 1 : 2, name)
                 : no_memory(a->err);
    }
    for (int i = 0; i < STACKS; i++) free(found[i]);
    return s;
}

/* --- all layers --- */

/* [experts, in, out] as [experts, out, in]. */
static kerf_status turn(arranging *a, const kerf_weight *w)
{
    const uint64_t *dim = w->shape.dim;
    kerf_weight out = *w;
    kerf_view v = {.rows = dim[2], .cols = dim[1], .row = 1, .col = dim[2]};
    v.matrix = dim[1] * dim[2];
    out.shape = (kerf_shape){3, {dim[0], dim[2], dim[1]}};
    KF_TRY(make_tensor(a, w->plane[0], w->name, out.shape, v, &out.plane[0]));
    return append(a, &out);
}

enum { UNKNOWN, AS_IT_IS, GONE, TURNED }; /* what becomes of a weight of the old list */

static void mark_layer(unsigned char *fate, const kerf_weights *w, const layer *l, int matrices,
                       int biases)
{
    for (int i = 0; i < STACKS; i++)
        if (l->stack[i])
            fate[l->stack[i] - w->weight] = (unsigned char)(i < GATE_UP_BIAS ? matrices : biases);
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

static kerf_status arrange_stack(arranging *a, const kerf_weight *w, const request *q,
                                 unsigned char *fate)
{
    layer l;
    if (!find_layer(a->out, w, &l)) return KERF_OK;
    const int is_single = q->how == KERF_EXPERTS_SINGLE;
    if (!is_wanted(q, l.stack[GATE_UP]))
        mark_layer(fate, a->out, &l, AS_IT_IS, AS_IT_IS);
    else if (is_single)
        mark_layer(fate, a->out, &l, GONE, GONE);
    else
        mark_layer(fate, a->out, &l, l.turned ? TURNED : AS_IT_IS, AS_IT_IS);
    return fate[w - a->out->weight] == GONE ? add_singles(a, &l) : KERF_OK;
}

static kerf_status arrange_single(arranging *a, const kerf_weight *w, const request *q,
                                  unsigned char *fate)
{
    const kerf_weights *all = a->out;
    const size_t prefix = single_prefix(w);
    int done = 0;
    if (!prefix) return KERF_OK;
    if (is_wanted(q, w)) KF_TRY(add_stacks(a, w, prefix, &done));
    for (size_t i = 0; i < all->count; i++) {
        const kerf_weight *other = &all->weight[i];
        if (strncmp(other->name, w->name, prefix) == 0 && single_prefix(other) == prefix)
            fate[i] = done ? GONE : AS_IT_IS;
    }
    return KERF_OK;
}

/* Goes through the old list; what is made new stands where its first part stood. */
static kerf_status arrange_all(arranging *a, const request *q, unsigned char *fate)
{
    const kerf_weights *w = a->out;
    for (size_t i = 0; i < w->count; i++) {
        if (fate[i] == UNKNOWN) KF_TRY(arrange_stack(a, &w->weight[i], q, fate));
        if (fate[i] == UNKNOWN && q->how == KERF_EXPERTS_STACKED)
            KF_TRY(arrange_single(a, &w->weight[i], q, fate));
        if (fate[i] == TURNED) KF_TRY(turn(a, &w->weight[i]));
        if (fate[i] == UNKNOWN || fate[i] == AS_IT_IS) KF_TRY(append(a, &w->weight[i]));
    }
    return KERF_OK;
}

kerf_status kerf_weights_arrange(kerf_weights *w, kerf_experts how,
                                 int (*wanted)(void *ctx, const kerf_weight *w), void *ctx,
                                 kerf_error *err)
{
    arranging a = {.out = w, .err = err};
    if (how == KERF_EXPERTS_AS_THEY_ARE || w->count == 0) return KERF_OK;
    unsigned char *fate = kf_alloc_zero(w->count, 1);
    if (!fate) return no_memory(err);
    const request q = {how, wanted, ctx};
    kerf_status s = arrange_all(&a, &q, fate);
    free(fate);
    kf_named *names =
        s == KERF_OK ? realloc(w->by_name, (a.count ? a.count : 1) * sizeof *names) : NULL;
    if (s == KERF_OK && !names) s = no_memory(err);
    if (s != KERF_OK) {
        free(a.at);
        return s;
    }
    free(w->weight);
    w->weight = a.at;
    w->count = a.count;
    w->by_name = names;
    return kf_weights_index(w, err);
}
