/* recognize.c - quantized weights that nothing describes but their own tensors: a weight is in a
 * layout when every tensor that a row of its table asks for is there, with the type and shape that
 * follow from the codes, and none that the row does not know. Nothing is guessed from values.
 *
 * When no row fits, the failure names the first tensor that is missing, or is of another type or
 * shape, in the row that fits best (kerf_tensor_doubt). */
#include "layout/recognize.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/state.h"
#include "layout/weight_shape.h"

/* --- doubts --- */

/* How far a row came and what it lacked, for the one that came furthest; and whether it could be
 * asked at all: what cannot be read is not what a row lacks. */
typedef struct doubt {
    size_t
        found;  /* four times the tensors that are as the row has them, and how near the next is */
    char *text; /* NULL: nobody wants to know */
    size_t size;
    kerf_status status;
    kerf_error *err;
    int own_names; /* a row has its own names for scales, and no alias */
} doubt;

/* Notes a reason when no row came as far before; the answer of who doubts. */
static int lacks(doubt *d, size_t found, const char *fmt, ...) KERF_PRINTF(3, 4);

static int lacks(doubt *d, size_t found, const char *fmt, ...)
{
    va_list ap;
    if (!d->text || (d->text[0] && found <= d->found)) return 0;
    d->found = found;
    va_start(ap, fmt);
    vsnprintf(d->text, d->size, fmt, ap);
    va_end(ap);
    return 0;
}

/* Reads bytes of a tensor; 0: they cannot be read. */
static int read_bytes(const kerf_reader *r, const kerf_tensor *t, uint64_t at, void *dst, size_t n,
                      doubt *d)
{
    if (d->status == KERF_OK) d->status = kerf_reader_read(r, t, at, dst, n, d->err);
    return d->status == KERF_OK;
}

static int read_state(const kerf_reader *r, const kerf_tensor *t, kf_state *out, doubt *d)
{
    int is_state = 0;
    if (d->status == KERF_OK) d->status = kf_state_read(r, t, out, &is_state, d->err);
    return d->status == KERF_OK && is_state;
}

/* --- one row of the table --- */

/* The dense shape that codes of this form and shape stand for; 0: none. */
static int shape_of_codes(const kf_stored *s, const kerf_format *f, const kerf_shape *stored,
                          kerf_shape *out)
{
    const kf_form form = s->part[KERF_PLANE_CODES].form;
    const uint64_t per_word = 32 / f->bits, per_byte = f->bits < 8 ? 8 / f->bits : 1;
    const uint64_t *dim = stored->dim;
    *out = (kerf_shape){2, {dim[0], dim[1]}};
    if (form == KF_FORM_BLOCKS) {
        *out = (kerf_shape){3, {dim[0], dim[1], 0}};
        return stored->rank == 4 && dim[3] == 16 && kf_mul_ok(dim[2], 16 * per_byte, &out->dim[2]);
    }
    if (stored->rank != s->rank) return 0;
    if (s->rank == 3) {
        *out = *stored;
        return kf_mul_ok(dim[2], form == KF_FORM_WORDS ? per_word : per_byte, &out->dim[2]);
    }
    if (form == KF_FORM_TURNED_WORDS || form == KF_FORM_TURNED_STACK) {
        int rows = form == KF_FORM_TURNED_STACK; /* several in a word */
        *out = (kerf_shape){2, {dim[1], dim[0]}};
        return kf_mul_ok(out->dim[!rows], per_word, &out->dim[!rows]);
    }
    return kf_mul_ok(dim[1], form == KF_FORM_WORDS ? per_word : per_byte, &out->dim[1]);
}

/* A stack of [experts, in, out]: the codes of an output stand below each other. Scales that belong
 * to outputs, or to blocks along inputs, show it. */
static int shape_of_turned(const kerf_format *f, const kerf_shape *stored, kerf_weight *w)
{
    const uint64_t per_byte = f->bits < 8 ? 8 / f->bits : 1;
    uint64_t in;
    if (stored->rank != 3 || !kf_mul_ok(stored->dim[1], per_byte, &in)) return 0;
    w->shape = (kerf_shape){3, {stored->dim[0], stored->dim[2], in}};
    w->stored = (kerf_shape){3, {stored->dim[0], in, stored->dim[2]}};
    return 1;
}

/* Whole tiles are what loaders want; others are decoded all the same. */
static kerf_status fits(const kf_stored *s, const kerf_geometry *g, kerf_error *err)
{
    if (g->format->geometry == KERF_GROUP_TILE && g->shape.rank == s->rank && g->elements > 0)
        return KERF_OK;
    return kf_stored_fits(s, g, err);
}

/* The dense shape that these codes stand for, and the geometry that follows from it. Codes of a
 * flattened tensor do not tell; their state does. */
static int take_shape(const kerf_reader *r, const kf_stored *s, const kerf_tensor *t, int is_turned,
                      kerf_weight *w, doubt *d)
{
    char text[KF_SHAPE_TEXT];
    kerf_error why = {.text = ""};
    kerf_geometry g;
    if (kf_is_stacks(&kf_layouts[s->layout]) && t->shape.rank != 3) return 0; /* no doubt */
    w->codec.format = kf_format_of(s->format);
    if (w->codec.format->geometry == KERF_GROUP_FLAT) {
        char name[KERF_MAX_NAME_BYTES + 64];
        kf_state state;
        snprintf(name, sizeof name, "%s" KF_STATE_SUFFIX, w->name);
        const kerf_tensor *at = kerf_reader_find(r, name);
        if (!at || !read_state(r, at, &state, d))
            return lacks(d, 0, "%s is missing or not of NF4 with blocks of %u",
                         "its quant_state.bitsandbytes__nf4", w->codec.format->group);
        w->shape = state.shape;
    } else if (!(is_turned ? shape_of_turned(w->codec.format, &t->shape, w)
                           : shape_of_codes(s, w->codec.format, &t->shape, &w->shape))) {
        return lacks(d, 0, "codes of shape [%s] are none of layout %s",
                     kf_shape_text(&t->shape, text), kf_layouts[s->layout].name);
    }
    if (kerf_geometry_init(&g, w->codec.format, &w->shape, &why) == KERF_OK &&
        fits(s, &g, &why) == KERF_OK)
        return 1;
    return lacks(d, 0, "as %s [%s]: %.150s", w->codec.format->name, kf_shape_text(&w->shape, text),
                 why.text);
}

/* Codes, and scales of outputs or of blocks along inputs, in the order of the stack. A scale of
 * each output has a dimension of 1 on either side, or none. */
static int is_stacked_as(const kerf_weight *w, const kerf_tensor *t, const kerf_entry *e,
                         int is_codes)
{
    kerf_shape s = e->shape;
    if (s.rank != 3) return 0;
    if (w->stored.rank) {
        s.dim[1] = e->shape.dim[2];
        s.dim[2] = e->shape.dim[1];
    }
    if (kerf_shape_equal(&t->shape, &s)) return 1;
    if (e->shape.dim[2] != 1 || is_codes) return 0;
    s = (kerf_shape){2, {e->shape.dim[0], e->shape.dim[1]}};
    return kerf_shape_equal(&t->shape, &s) ||
           (w->stored.rank && kerf_shape_equal(&t->shape, &e->shape));
}

/* Other writers use shorter types for scales, or exponents alone, give one number the shape []
 * or [1], and a stack one number for all its matrices. */
static int is_stored_as(const kerf_weight *w, const kerf_tensor *t, const kerf_entry *e,
                        const kerf_plane *plane, int is_codes)
{
    uint64_t have, need;
    int shorter =
        plane && plane->dtype == KERF_F32 && (t->dtype == KERF_BF16 || t->dtype == KERF_F16);
    int exponent =
        t->dtype == KERF_F8_E8M0 && (e->dtype == KERF_U8 || (plane && plane->dtype == KERF_F32));
    if (t->dtype == KERF_I32 && e->dtype == KERF_I64) shorter = !plane; /* a shape */
    if (t->dtype != e->dtype && !shorter && !exponent) return 0;
    if (plane && plane->per_matrix)
        return kerf_shape_count(&t->shape, &have, NULL) == KERF_OK &&
               kerf_shape_count(&e->shape, &need, NULL) == KERF_OK && (have == 1 || have == need);
    if (w->layout == &kf_layouts[KF_LAYOUT_FP8_STACKS]) return is_stacked_as(w, t, e, is_codes);
    return t->shape.rank == e->shape.rank &&
           memcmp(t->shape.dim, e->shape.dim, e->shape.rank * sizeof *e->shape.dim) == 0;
}

void kf_add_extra(kerf_weight *w, const kerf_tensor *t)
{
    size_t i = 0;
    while (i < KERF_EXTRAS && w->extra[i]) i++;
    if (i < KERF_EXTRAS) w->extra[i] = t;
}

/* The words of a row say how many bits it has, not how many codes; this tensor does. */
static int is_shape_of(const kerf_reader *r, const kerf_tensor *t, const kerf_weight *w, doubt *d)
{
    uint64_t dim[KERF_MAX_RANK];
    int is = 0;
    if (d->status == KERF_OK)
        d->status = kf_weight_shape_read(r, t, w->shape.rank, dim, &is, d->err);
    return d->status == KERF_OK && is &&
           memcmp(dim, w->shape.dim, w->shape.rank * sizeof *dim) == 0;
}

static int is_book_of(const kerf_reader *r, const kerf_tensor *t, const kerf_format *f,
                      kerf_plane_id p, doubt *d)
{
    float own[256], stored[256];
    size_t n = kerf_codebook(f, p, own) * sizeof *own;
    return t->bytes == n && read_bytes(r, t, 0, stored, n, d) && memcmp(own, stored, n) == 0;
}

static int is_state_of(const kerf_reader *r, const kerf_tensor *t, kerf_weight *w, doubt *d)
{
    kf_state state;
    if (!read_state(r, t, &state, d)) return 0;
    if (w->dtype == KERF_DTYPE_NONE) w->dtype = state.dtype;
    return state.block == w->codec.format->group && state.shape.rank == w->shape.rank &&
           memcmp(state.shape.dim, w->shape.dim, w->shape.rank * sizeof *w->shape.dim) == 0 &&
           state.nested == (w->codec.format->second == KERF_SECOND_NESTED);
}

/* Words that are all alike, or count groups of columns. */
static int are_words(const kerf_reader *r, const kerf_tensor *t, uint32_t word, uint64_t group,
                     doubt *d)
{
    uint32_t words[1024];
    for (uint64_t at = 0; at < t->bytes; at += sizeof words) {
        size_t n = (size_t)kf_min_u64(sizeof words, t->bytes - at);
        if (!read_bytes(r, t, at, words, n, d)) return 0;
        for (size_t i = 0; i < n / sizeof *words; i++)
            if (words[i] != (group ? (uint32_t)((at / sizeof *words + i) / group) : word)) return 0;
    }
    return 1;
}

static int extra_agrees(const kerf_reader *r, kf_extra extra, const kerf_tensor *t, kerf_weight *w,
                        doubt *d)
{
    const kerf_format *f = w->codec.format;
    unsigned char zero = 0;
    switch (extra) {
    case KF_EXTRA_NONE: break;
    case KF_EXTRA_SHAPE: return is_shape_of(r, t, w, d);
    case KF_EXTRA_CODE_BOOK: return is_book_of(r, t, f, KERF_PLANE_CODES, d);
    case KF_EXTRA_SCALE_BOOK: return is_book_of(r, t, f, KERF_PLANE_SCALES, d);
    case KF_EXTRA_STATE: return is_state_of(r, t, w, d);
    case KF_EXTRA_ROW_MAJOR: return read_bytes(r, t, 0, &zero, 1, d) && zero == 0;
    case KF_EXTRA_MIDDLE:
        return are_words(r, t, kf_middle_word(kf_stored_find(w->layout, f), f), 0, d);
    case KF_EXTRA_GROUP_INDEX: return are_words(r, t, 0, f->group, d);
    }
    return 1;
}

/* What it means when the content of such a tensor is another. */
static const char *const extra_doubts[] = {
    [KF_EXTRA_SHAPE] = "is not the shape of the codes",
    [KF_EXTRA_CODE_BOOK] = "is not NF4's code book",
    [KF_EXTRA_SCALE_BOOK] = "is not bitsandbytes' map of scales",
    [KF_EXTRA_STATE] = "says otherwise",
    [KF_EXTRA_ROW_MAJOR] = "is not 0: the codes lie in tiles of one GPU",
    [KF_EXTRA_MIDDLE] = "is not the same for all: the codes are asymmetric",
    [KF_EXTRA_GROUP_INDEX] =
        "is not in order: columns were sorted by activation (desc_act), which config.json denies, "
        "or a group is not there; with \"desc_act\": true in config.json sorted ones are decoded",
};

static int check_extras(const kerf_reader *r, kerf_weight *w, doubt *d, size_t found)
{
    const kf_stored *s = kf_stored_find(w->layout, w->codec.format);
    for (size_t i = 0; s && i < KERF_EXTRAS; i++) {
        if (extra_agrees(r, s->extra[i], w->extra[i], w, d)) continue;
        return lacks(d, 4 * (found + i), "%s %s", w->extra[i]->name, extra_doubts[s->extra[i]]);
    }
    return 1;
}

kerf_status kf_extras_check(const kerf_reader *r, kerf_weight *w, int *agree, kerf_error *err)
{
    doubt d = {.err = err};
    *agree = check_extras(r, w, &d, 0);
    return d.status;
}

/* What torchao's classes have besides codes and scales where these are not all there is. */
static const char *find_attribute(const kerf_reader *r, const kerf_weight *w)
{
    static const char *const known[] = {"zero_point", "act_quant_scale", "act_scale",
                                        "act_pre_scale", "per_tensor_scale"};
    char name[KERF_MAX_NAME_BYTES + 64];
    if (w->layout != &kf_layouts[KF_LAYOUT_TORCHAO]) return NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        snprintf(name, sizeof name, "%.*s_weight_%s", (int)(strlen(w->name) - strlen("weight")),
                 w->name, known[i]);
        const kerf_tensor *t = kerf_reader_find(r, name);
        if (t) return t->name;
    }
    return NULL;
}

static const char *find_other(const kerf_reader *r, const kerf_weight *w)
{
    static const char *const known[] = {"",        "_scale", "_scale_2",   "_global_scale",
                                        "_packed", "_g_idx", "_scale_inv", "_zero_point"};
    char name[KERF_MAX_NAME_BYTES + 32], own[KERF_MAX_NAME_BYTES + 32];
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        kerf_entry e;
        kerf_plane_id p;
        int is_own = 0;
        snprintf(name, sizeof name, "%s%s", w->name, known[k]);
        for (size_t i = 0; kerf_layout_entry(w->layout, w, i, own, sizeof own, &e, &p); i++)
            is_own |= strcmp(own, name) == 0;
        const kerf_tensor *t = is_own ? NULL : kerf_reader_find(r, name);
        if (t && t != w->plane[KERF_PLANE_SCALES]) return t->name; /* which has other names too */
    }
    return find_attribute(r, w);
}

/* What is unlike in a tensor of the right name. Whole tiles of 128 x 4 are those of a kernel. */
static int doubt_form(doubt *d, size_t found, const kerf_weight *w, const kerf_tensor *t,
                      const kerf_entry *e)
{
    char have[KF_SHAPE_TEXT], need[KF_SHAPE_TEXT];
    const uint64_t *a = t->shape.dim, *b = e->shape.dim;
    const int is_same = t->shape.rank == e->shape.rank &&
                        memcmp(a, b, t->shape.rank * sizeof *a) == 0; /* but for the type */
    int is_tiled = t->shape.rank == 2 && e->shape.rank == 2 && kerf_dtype_bits(e->dtype) == 8 &&
                   a[0] == (b[0] + 127) / 128 * 128 && a[1] == (b[1] + 3) / 4 * 4;
    int is_flat = t->shape.rank == 2 && e->shape.rank == 2 && kerf_dtype_bits(e->dtype) == 8 &&
                  a[0] == (b[0] + 127) / 128 * 32 && a[1] == (b[1] + 3) / 4 * 16;
    const int is_half = is_same && t->dtype == KERF_F16 && e->dtype == KERF_BF16;
    return lacks(
        d, 4 * found + 1 + (size_t)is_same, "%s is %s [%s], not %s [%s]%s", t->name,
        kerf_dtype_name(t->dtype), kf_shape_text(&t->shape, have), kerf_dtype_name(e->dtype),
        kf_shape_text(&e->shape, need),
        is_tiled || is_flat ? ": padded to the tiles of a kernel, which checkpoints do "
                              "not have"
        : w->codec.format->geometry == KERF_GROUP_TILE && !is_same && t->shape.rank == 2
            ? ": so many are of no tiles of one size, or not of those that config.json names"
        : is_half ? ": BF16 would round these scales, and no format with groups of this "
                    "size has them in FP16"
                  : "");
}

/* Words are of codes with other bits when the shape beside them is another. */
static int has_other_shape(const kerf_reader *r, const kf_stored *s, const kerf_weight *w, doubt *d)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    snprintf(name, sizeof name, "%s_shape", w->name);
    const kerf_tensor *t = s->extra[0] == KF_EXTRA_SHAPE ? kerf_reader_find(r, name) : NULL;
    return t && !is_shape_of(r, t, w, d);
}

static int take_parts(const kerf_reader *r, const kf_stored *s, kerf_weight *w, doubt *d)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    if (has_other_shape(r, s, w, d)) return 0;
    kerf_entry e;
    kerf_plane_id p;
    size_t i = 0;
    const kerf_geometry g = kerf_weight_geometry(w);
    for (; kerf_layout_entry(w->layout, w, i, name, sizeof name, &e, &p); i++) {
        const kerf_tensor *t = kerf_reader_find(r, name);
        const kerf_plane *plane = p == KERF_PLANES ? NULL : &g.plane[p];
        if (!t && !d->own_names) t = kf_find_alias(r, name);
        int is_state = kf_has_suffix(name, KF_STATE_SUFFIX); /* whose length is free */
        if (!t) return lacks(d, 4 * i, "%s is missing", name);
        if (!is_state && !is_stored_as(w, t, &e, plane, p == KERF_PLANE_CODES))
            return doubt_form(d, i, w, t, &e);
        if (plane)
            w->plane[p] = t;
        else
            kf_add_extra(w, t);
    }
    if (!check_extras(r, w, d, i)) return 0;
    const char *other = find_other(r, w);
    if (!other) return 1;
    return lacks(d, 4 * (i + KERF_EXTRAS), "%s has no place beside it%s", other,
                 kf_has_suffix(other, "_g_idx") ? ": columns were sorted by activation (actorder), "
                                                  "kerf has no such groups; save it dequantized"
                                                : "");
}

/* Tries one row; name has room for that of a weight. */
static int try_row(const kerf_reader *r, const kf_stored *s, const kerf_tensor *t, char *name,
                   kerf_weight *w, doubt *d)
{
    const kf_part *codes = &s->part[KERF_PLANE_CODES];
    if (s->layout == KF_LAYOUT_GGUF) return 0; /* whose files say so: block_weights.c */
    if (t->dtype != codes->dtype || !kf_has_suffix(t->name, codes->suffix)) return 0;
    int n = (int)(strlen(t->name) - strlen(codes->suffix));
    snprintf(name, KF_NAME_ROOM, "%.*s%s", n, t->name, s->tail);
    const kerf_group_kind kind = kf_format_of(s->format)->geometry;
    const int shows = kind == KERF_GROUP_ROW || kind == KERF_GROUP_BLOCK; /* which axis is which */
    const int orders = s->layout == KF_LAYOUT_FP8_STACKS && shows ? 2 : 1;
    for (int is_turned = 0; is_turned < orders && d->status == KERF_OK; is_turned++) {
        *w = (kerf_weight){.name = name, .layout = &kf_layouts[s->layout]};
        if (take_shape(r, s, t, is_turned, w, d) && take_parts(r, s, w, d)) return 1;
    }
    return 0;
}

static int try_rows(const kerf_reader *r, const kerf_tensor *t, const kerf_layout *first,
                    kerf_weight *w, char *name, doubt *d)
{
    if (strlen(t->name) > KERF_MAX_NAME_BYTES) return 0;
    /* of those that config.json names, then of all; by their own names, then by others */
    for (int pass = first ? 0 : 2; pass < 4; pass++) {
        d->own_names = pass % 2 == 0;
        for (size_t i = 0; i < kf_stored_count; i++) {
            const kf_stored *s = &kf_stored_table[i];
            if (pass < 2 && &kf_layouts[s->layout] != first) continue;
            if (try_row(r, s, t, name, w, d)) return 1;
            if (d->status != KERF_OK) return 0;
        }
    }
    return 0;
}

kerf_status kf_recognize(const kerf_reader *r, const kerf_tensor *t, const kerf_layout *first,
                         kerf_weight *w, char name[KF_NAME_ROOM], int *found, kerf_error *err)
{
    doubt d = {.err = err};
    *found = try_rows(r, t, first, w, name, &d);
    return d.status;
}

kerf_status kf_recognize_as(const kerf_reader *r, const kerf_tensor *t, const kerf_layout *l,
                            const kerf_format *f, kerf_weight *w, char name[KF_NAME_ROOM],
                            int *found, kerf_error *err)
{
    const kf_stored *s = kf_stored_find(l, f);
    doubt d = {.err = err};
    *found = s && strlen(t->name) <= KERF_MAX_NAME_BYTES && try_row(r, s, t, name, w, &d);
    return d.status;
}

int kerf_tensor_doubt(const kerf_reader *r, const kerf_tensor *t, char *out, size_t size)
{
    char name[KF_NAME_ROOM];
    kerf_weight w;
    const kerf_layout *configured;
    doubt d = {.text = out, .size = size};
    out[0] = 0;
    if (kerf_layout_configured(r, &configured, NULL) != KERF_OK) return 0;
    return !try_rows(r, t, configured, &w, name, &d) && out[0];
}
