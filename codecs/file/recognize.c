/* recognize.c - quantized weights that nothing describes but their own tensors: a weight is in a
 * layout when every tensor that a row of its table asks for is there, with the type and shape that
 * follow from the codes, and none that the row does not know. Nothing is guessed from values. */
#include "file/recognize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/io.h"
#include "file/json_walk.h"
#include "file/state.h"

#define MAX_CONFIG_BYTES (1u << 24)

const kerf_layout *kerf_layout_configured(const kerf_reader *r)
{
    static const struct {
        const char *method, *layout;
    } methods[] = {
        {"fp8", "deepseek"}, {"modelopt_fp4", "modelopt"}, {"modelopt_mxfp8", "modelopt"}};
    char *path = kf_path_join(kerf_reader_folder(r), "config.json"), *text = NULL;
    size_t n;
    json_t *j = NULL;
    const kerf_layout *found = NULL;
    if (path && kf_read_whole(path, MAX_CONFIG_BYTES, &text, &n, NULL) == KERF_OK)
        j = json_loadb(text, n, 0, NULL);
    const char *method = json_string_value(
        json_object_get(json_object_get(j, "quantization_config"), "quant_method"));
    if (method) {
        found = kerf_layout_find(method);
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
            if (strcmp(method, methods[i].method) == 0) found = kerf_layout_find(methods[i].layout);
    }
    json_decref(j);
    free(text);
    free(path);
    return found;
}

/* Elements of the dense tensor per element of the stored codes. */
static uint64_t codes_per_element(const kf_stored *s, const kerf_format *f)
{
    if (s->part[KERF_PLANE_CODES].form == KF_FORM_WORDS) return 32 / f->bits;
    return f->bits < 8 ? 8 / f->bits : 1;
}

/* The dense shape that these codes stand for, and the geometry that follows from it. Codes of a
 * flattened tensor do not tell; their state does. */
static int take_shape(const kerf_reader *r, const kf_stored *s, const kerf_tensor *t,
                      kerf_weight *w)
{
    for (size_t i = 0; i < kerf_format_count(); i++)
        if (kerf_format_at(i)->id == s->format) w->codec.format = kerf_format_at(i);
    w->shape = t->shape;
    if (w->codec.format->geometry == KERF_GROUP_FLAT) {
        char name[KERF_MAX_NAME_BYTES + 64];
        kf_state state;
        snprintf(name, sizeof name, "%s" KF_STATE_SUFFIX, w->name);
        const kerf_tensor *at = kerf_reader_find(r, name);
        if (!at || !kf_state_read(r, at, &state)) return 0;
        w->shape = state.shape;
    } else if (t->shape.rank != 2 ||
               !kf_mul_ok(t->shape.dim[1], codes_per_element(s, w->codec.format),
                          &w->shape.dim[1])) {
        return 0;
    }
    return kerf_geometry_init(&w->geometry, w->codec.format, &w->shape, NULL) == KERF_OK &&
           kf_stored_fits(s, &w->geometry, NULL) == KERF_OK;
}

/* Other writers use shorter types for scales and give one number the shape [] or [1]. */
static int is_stored_as(const kerf_tensor *t, const kerf_entry *e, const kerf_plane *plane)
{
    uint64_t have, need;
    int shorter =
        plane && plane->dtype == KERF_F32 && (t->dtype == KERF_BF16 || t->dtype == KERF_F16);
    int exponent = e->dtype == KERF_U8 && t->dtype == KERF_F8_E8M0;
    if (t->dtype != e->dtype && !shorter && !exponent) return 0;
    if (plane && plane->per_matrix)
        return kerf_shape_count(&t->shape, &have, NULL) == KERF_OK && have == 1 &&
               kerf_shape_count(&e->shape, &need, NULL) == KERF_OK && need == 1;
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
static int is_shape_of(const kerf_reader *r, const kerf_tensor *t, const kerf_weight *w)
{
    uint64_t dim[KERF_MAX_RANK];
    const size_t n = w->shape.rank * sizeof *dim;
    return t->bytes == n && kerf_reader_read(r, t, 0, dim, n, NULL) == KERF_OK &&
           memcmp(dim, w->shape.dim, n) == 0;
}

static int is_book_of(const kerf_reader *r, const kerf_tensor *t, const kerf_format *f,
                      kerf_plane_id p)
{
    float own[256], stored[256];
    size_t n = kerf_codebook(f, p, own) * sizeof *own;
    return t->bytes == n && kerf_reader_read(r, t, 0, stored, n, NULL) == KERF_OK &&
           memcmp(own, stored, n) == 0;
}

static int is_state_of(const kerf_reader *r, const kerf_tensor *t, kerf_weight *w)
{
    kf_state state;
    if (!kf_state_read(r, t, &state)) return 0;
    if (w->dtype == KERF_DTYPE_NONE) w->dtype = state.dtype;
    return state.block == w->codec.format->group && state.shape.rank == w->shape.rank &&
           memcmp(state.shape.dim, w->shape.dim, w->shape.rank * sizeof *w->shape.dim) == 0 &&
           state.nested == (w->codec.format->second == KERF_SECOND_NESTED);
}

int kf_extras_agree(const kerf_reader *r, kerf_weight *w)
{
    const kf_stored *s = kf_stored_find(w->layout, w->codec.format);
    for (size_t i = 0; s && i < KERF_EXTRAS; i++) {
        const kerf_tensor *t = w->extra[i];
        switch (s->extra[i]) {
        case KF_EXTRA_NONE: break;
        case KF_EXTRA_SHAPE:
            if (!is_shape_of(r, t, w)) return 0;
            break;
        case KF_EXTRA_CODE_BOOK:
            if (!is_book_of(r, t, w->codec.format, KERF_PLANE_CODES)) return 0;
            break;
        case KF_EXTRA_SCALE_BOOK:
            if (!is_book_of(r, t, w->codec.format, KERF_PLANE_SCALES)) return 0;
            break;
        case KF_EXTRA_STATE:
            if (!is_state_of(r, t, w)) return 0;
            break;
        }
    }
    return 1;
}

static int has_other(const kerf_reader *r, const kerf_weight *w)
{
    static const char *const known[] = {"_scale", "_scale_2",   "_global_scale", "_zero_point",
                                        "_g_idx", "_scale_inv", "_packed"};
    char name[KERF_MAX_NAME_BYTES + 32], own[KERF_MAX_NAME_BYTES + 32];
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        kerf_entry e;
        kerf_plane_id p;
        int is_own = 0;
        snprintf(name, sizeof name, "%s%s", w->name, known[k]);
        for (size_t i = 0; kerf_layout_entry(w->layout, w, i, own, sizeof own, &e, &p); i++)
            is_own |= strcmp(own, name) == 0;
        if (!is_own && kerf_reader_find(r, name)) return 1;
    }
    return 0;
}

static int take_parts(const kerf_reader *r, kerf_weight *w)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    kerf_entry e;
    kerf_plane_id p;
    for (size_t i = 0; kerf_layout_entry(w->layout, w, i, name, sizeof name, &e, &p); i++) {
        const kerf_tensor *t = kerf_reader_find(r, name);
        const kerf_plane *plane = p == KERF_PLANES ? NULL : &w->geometry.plane[p];
        int is_state = kf_has_suffix(name, KF_STATE_SUFFIX); /* whose length is free */
        if (!t || (!is_state && !is_stored_as(t, &e, plane))) return 0;
        if (plane)
            w->plane[p] = t;
        else
            kf_add_extra(w, t);
    }
    return kf_extras_agree(r, w) && !has_other(r, w);
}

/* Tries one row; name has room for that of a weight. */
static int try_row(const kerf_reader *r, const kf_stored *s, const kerf_tensor *t, char *name,
                   kerf_weight *w)
{
    const kf_part *codes = &s->part[KERF_PLANE_CODES];
    if (s->layout == KF_LAYOUT_GGUF) return 0; /* whose files say so: block_weights.c */
    if (t->dtype != codes->dtype || !kf_has_suffix(t->name, codes->suffix)) return 0;
    size_t n = strlen(t->name) - strlen(codes->suffix);
    memcpy(name, t->name, n);
    name[n] = 0;
    *w = (kerf_weight){.name = name, .layout = &kf_layouts[s->layout]};
    return kf_has_suffix(name, ".weight") && take_shape(r, s, t, w) && take_parts(r, w);
}

int kf_recognize(const kerf_reader *r, const kerf_tensor *t, const kerf_layout *first,
                 kerf_weight *w, size_t *name_length)
{
    char name[KERF_MAX_NAME_BYTES + 1];
    if (strlen(t->name) > KERF_MAX_NAME_BYTES) return 0;
    for (int others = first == NULL; others < 2; others++)
        for (size_t i = 0; i < kf_stored_count; i++) {
            const kf_stored *s = &kf_stored_table[i];
            if (!others && &kf_layouts[s->layout] != first) continue;
            if (!try_row(r, s, t, name, w)) continue;
            *name_length = strlen(name);
            w->name = NULL;
            return 1;
        }
    return 0;
}
