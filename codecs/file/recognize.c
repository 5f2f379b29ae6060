/* recognize.c - quantized weights that nothing describes but their own tensors: a weight is in a
 * layout when every tensor that a row of its table asks for is there, with the type and shape that
 * follow from the codes, and none that the row does not know. Nothing is guessed from values. */
#include "file/recognize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/io.h"
#include "file/json_walk.h"

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

/* The dense shape that these codes stand for, and the geometry that follows from it. */
static int take_shape(const kf_stored *s, const kerf_tensor *t, kerf_weight *w)
{
    for (size_t i = 0; i < kerf_format_count(); i++)
        if (kerf_format_at(i)->id == s->format) w->codec.format = kerf_format_at(i);
    w->shape = t->shape;
    return t->shape.rank == 2 &&
           kf_mul_ok(t->shape.dim[1], codes_per_element(s, w->codec.format), &w->shape.dim[1]) &&
           kerf_geometry_init(&w->geometry, w->codec.format, &w->shape, NULL) == KERF_OK &&
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

/* The words of a row say how many bits it has, not how many codes; this tensor does. */
static int is_shape_of(const kerf_reader *r, const kerf_tensor *t, const kerf_weight *w)
{
    uint64_t dim[KERF_MAX_RANK];
    const size_t n = w->shape.rank * sizeof *dim;
    return t->bytes == n && kerf_reader_read(r, t, 0, dim, n, NULL) == KERF_OK &&
           memcmp(dim, w->shape.dim, n) == 0;
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
        if (!t || !is_stored_as(t, &e, plane)) return 0;
        if (!plane && !is_shape_of(r, t, w)) return 0;
        if (plane)
            w->plane[p] = t;
        else
            w->extra = t;
    }
    return !has_other(r, w);
}

/* Tries one row; name has room for that of a weight. */
static int try_row(const kerf_reader *r, const kf_stored *s, const kerf_tensor *t, char *name,
                   kerf_weight *w)
{
    const kf_part *codes = &s->part[KERF_PLANE_CODES];
    if (t->dtype != codes->dtype || !kf_has_suffix(t->name, codes->suffix)) return 0;
    size_t n = strlen(t->name) - strlen(codes->suffix);
    memcpy(name, t->name, n);
    name[n] = 0;
    *w = (kerf_weight){.name = name, .layout = &kf_layouts[s->layout]};
    return kf_has_suffix(name, ".weight") && take_shape(s, t, w) && take_parts(r, w);
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
