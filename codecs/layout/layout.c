/* layout.c - the layouts by name: what each takes, and the tensors that store a weight. */
#include "layout/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/gguf/gguf.h"
#include "file/json/text.h"
#include "roles/places.h"

/* Layout `kerf`: the planes as they are. */
const char *const kf_plane_suffix[KERF_PLANES] = {"", "_scale", "_scale_2", "_zero_point"};

size_t kerf_layout_count(void)
{
    return KF_LAYOUTS;
}

const kerf_layout *kerf_layout_at(size_t i)
{
    return i < KF_LAYOUTS ? &kf_layouts[i] : NULL;
}

const kerf_layout *kerf_layout_find(const char *name)
{
    for (size_t i = 0; i < KF_LAYOUTS; i++)
        if (strcmp(kf_layouts[i].name, name) == 0) return &kf_layouts[i];
    return NULL;
}

const kf_stored *kf_stored_find(const kerf_layout *l, const kerf_format *f)
{
    for (size_t i = 0; i < kf_stored_count; i++)
        if (&kf_layouts[kf_stored_table[i].layout] == l && kf_stored_table[i].format == f->id)
            return &kf_stored_table[i];
    return NULL;
}

int kf_is_stacks(const kerf_layout *l)
{
    return l == &kf_layouts[KF_LAYOUT_FP8_STACKS] || l == &kf_layouts[KF_LAYOUT_CT_STACKS];
}

const kerf_format *kf_format_of(kerf_format_id id)
{
    size_t i = 0;
    while (kerf_format_at(i)->id != id) i++;
    return kerf_format_at(i);
}

const kerf_format *kf_layout_fallback(const kerf_layout *l, const kerf_format *f)
{
    for (size_t i = 0; i < kf_fallback_count; i++)
        if (&kf_layouts[kf_fallback_table[i].layout] == l && kf_fallback_table[i].format == f->id)
            return kf_format_of(kf_fallback_table[i].instead);
    return NULL;
}

char *kf_shape_text(const kerf_shape *s, char out[KF_SHAPE_TEXT])
{
    size_t n = 0;
    out[0] = 0;
    for (unsigned i = 0; i < s->rank && i < KERF_MAX_RANK; i++)
        n += (size_t)snprintf(out + n, KF_SHAPE_TEXT - n, "%s%" PRIu64, i ? "," : "", s->dim[i]);
    return out;
}

/* --- what a layout takes --- */

static int is_own(const kerf_layout *l)
{
    return l == &kf_layouts[KF_LAYOUT_KERF];
}

const char *kerf_layout_scheme(const kerf_layout *l, const kerf_format *f, int *written)
{
    const kf_stored *s = kf_stored_find(l, f);
    *written = is_own(l) || (s && !s->refusal);
    return is_own(l) ? "" : s ? s->scheme : NULL;
}

int kerf_layout_shares_scale(const kerf_layout *l, const kerf_format *f)
{
    const kf_stored *s = kf_stored_find(l, f);
    return s && s->shares_second;
}

const kf_input *kf_input_find(const kerf_layout *l, const kerf_format *f)
{
    for (size_t i = 0; i < kf_input_count; i++) {
        const kf_input *in = &kf_input_table[i];
        if (&kf_layouts[in->layout] == l && in->format == f->id) return in;
    }
    return NULL;
}

const char *kerf_layout_input(const kerf_layout *l, const kerf_format *f, int *is_inverse,
                              int *is_vector)
{
    const kf_input *in = kf_input_find(l, f);
    if (!in) return NULL;
    *is_inverse = in->is_inverse;
    *is_vector = in->is_vector;
    return in->name;
}

kerf_experts kerf_layout_experts(const kerf_layout *l)
{
    return kf_layout_experts[l - kf_layouts];
}

kerf_status kerf_layout_check(const kerf_layout *l, const kerf_format *f, kerf_error *err)
{
    int written;
    const char *scheme = kerf_layout_scheme(l, f, &written);
    if (written) return KERF_OK;
    kf_text list = {0};
    for (size_t i = 0; i < kf_stored_count; i++) {
        const kf_stored *s = &kf_stored_table[i];
        if (&kf_layouts[s->layout] != l || s->refusal) continue;
        kf_text_add(&list, "%s%s", list.n ? ", " : "", kf_format_of(s->format)->name);
    }
    const char *why = scheme ? kf_stored_find(l, f)->refusal
                      : f->family != KERF_FAMILY_CAST
                          ? "its loaders have no such scheme"
                          : "what is not quantized has the type of the source there: --keep 'GLOB' "
                            "leaves tensors so, kerf convert -o OUT.gguf a whole model";
    kerf_status st =
        list.p ? kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                         "layout %s does not take %s (%s); it takes %.340s", l->name, f->name, why,
                         list.p)
               : kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                         "layout %s is read, not written%s%s; kerf formats %s lists those that are",
                         l->name, scheme ? ": " : "", scheme ? why : "", f->name);
    free(list.p);
    return st;
}

kerf_status kf_stored_fits(const kf_stored *s, const kerf_geometry *g, kerf_error *err)
{
    const char *layout = kf_layouts[s->layout].name;
    const unsigned most = s->layout == KF_LAYOUT_GGUF ? KF_GGUF_MAX_RANK : s->rank;
    const unsigned rank = g->shape.rank;
    if (rank < s->rank || rank > most || g->elements == 0)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "layout %s takes %s only", layout,
                       s->rank == 2 ? "matrices" : "stacks of matrices");
    /* of a matrix: those that are flattened have it in their shape alone */
    if (g->shape.dim[rank - 2] % s->rows == 0 && g->shape.dim[rank - 1] % s->cols == 0)
        return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "layout %s: columns must be a multiple of %u, rows of %u", layout, s->cols,
                   s->rows);
}

kerf_status kerf_layout_check_tensor(const kerf_layout *l, const kerf_format *f, const char *name,
                                     const kerf_shape *shape, kerf_error *err)
{
    kerf_geometry g;
    KF_TRY(kerf_geometry_init(&g, f, shape, err));
    if (is_own(l)) return KERF_OK;
    const kf_stored *s = kf_stored_find(l, f);
    if (!s || s->refusal) return kerf_layout_check(l, f, err);
    if (!kf_has_suffix(name, s->tail))
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "layout %s takes names in %s only", l->name,
                       s->tail);
    return kf_stored_fits(s, &g, err);
}

/* Its loaders want [out, in] of what the model has as [in, out], or kerf alone reads it. */
static int holds_turned(const kerf_layout *l)
{
    return is_own(l) || l == &kf_layouts[KF_LAYOUT_GPT_OSS] || l == &kf_layouts[KF_LAYOUT_GGUF];
}

/* vLLM's and SGLang's loaders of FP8 in tiles quantize linear layers and experts (Fp8Config,
 * get_quant_method), and the head is neither: its codes would be weights. */
const char *kf_layout_lacks(const kerf_layout *l, const kerf_weight *w)
{
    const int is_embedding = kf_place_is_looked_up(&w->place, w->name);
    if (is_embedding) return kf_layout_looks_up[l - kf_layouts] ? NULL : "embedding";
    const int is_head = l == &kf_layouts[KF_LAYOUT_DEEPSEEK] && w->place.role == KERF_ROLE_HEAD;
    return is_head ? "output head" : NULL;
}

int kf_layout_holds(const kerf_layout *l, const kerf_weight *w)
{
    return kf_layout_lacks(l, w) == NULL;
}

kerf_status kerf_layout_check_weight(const kerf_layout *l, const kerf_format *f,
                                     const kerf_weight *w, kerf_error *err)
{
    if (w->stored.rank && !holds_turned(l))
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "layout %s has no matrices that are [in, out]; layout kerf has", l->name);
    const char *lacks = kf_layout_lacks(l, w);
    if (lacks)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "layout %s: its loaders take no quantized %s; %s", l->name, lacks,
                       w->place.role == KERF_ROLE_HEAD ? "layout compressed-tensors does"
                                                       : "layouts kerf and gguf do");
    return kerf_layout_check_tensor(l, f, w->name, &w->shape, err);
}

/* --- the tensors that store a weight --- */

static kerf_shape blocks_of(const kf_stored *s, const kerf_geometry *g)
{
    const kf_gguf_type *type = kf_gguf_type_find(s->scheme);
    kerf_shape shape = g->shape;
    shape.dim[shape.rank - 1] = g->cols / type->elements * type->bytes;
    return shape;
}

static kerf_shape words_of(const kerf_shape *bytes)
{
    kerf_shape shape = *bytes;
    shape.dim[shape.rank - 1] /= 4;
    return shape;
}

static kerf_shape form_of(const kf_stored *s, const kf_part *part, const kerf_geometry *g,
                          kerf_plane_id p)
{
    const kerf_plane *plane = &g->plane[p];
    const uint64_t rows = plane->shape.dim[0], cols = plane->shape.dim[1];
    const uint64_t codes = p == KERF_PLANE_CODES ? g->cols : g->band_groups;
    const unsigned per_word = 32 / g->format->bits;
    switch (part->form) {
    case KF_FORM_PLANE: break;
    case KF_FORM_ONE: return (kerf_shape){1, {1}};
    case KF_FORM_VECTOR: return (kerf_shape){1, {rows}};
    case KF_FORM_TILES: return (kerf_shape){4, {rows, 1, cols, 1}};
    case KF_FORM_WORDS: return words_of(&plane->shape);
    case KF_FORM_STACK: return (kerf_shape){2, {rows / per_word, codes}};
    case KF_FORM_BLOCKS: return (kerf_shape){4, {rows, cols, plane->shape.dim[2] / 16, 16}};
    case KF_FORM_INTERLEAVED: return blocks_of(s, g);
    case KF_FORM_MATRICES: return (kerf_shape){1, {g->matrices}};
    case KF_FORM_TURNED: return (kerf_shape){2, {cols, rows}};
    case KF_FORM_TURNED_WORDS: return (kerf_shape){2, {cols / 4, rows}};
    case KF_FORM_TURNED_STACK: return (kerf_shape){2, {codes, rows / per_word}};
    }
    return plane->shape;
}

uint32_t kf_middle_word(const kf_stored *s, const kerf_format *f)
{
    uint32_t code = (1u << (f->bits - 1)) - s->part[KERF_PLANE_ZEROS].less;
    return code * (UINT32_MAX / ((1u << f->bits) - 1)); /* a copy in each place */
}

/* Of a tensor that stores no plane. */
static kerf_shape extra_form(kf_extra extra, const kerf_weight *w, const kerf_geometry *g)
{
    switch (extra) {
    case KF_EXTRA_NONE:
    case KF_EXTRA_ROW_MAJOR: break;
    case KF_EXTRA_SHAPE: return (kerf_shape){1, {w->shape.rank}};
    case KF_EXTRA_CODE_BOOK: return (kerf_shape){1, {16}};
    case KF_EXTRA_SCALE_BOOK: return (kerf_shape){1, {256}};
    case KF_EXTRA_STATE: return (kerf_shape){1, {KF_STATE_BYTES}};
    case KF_EXTRA_MIDDLE: return (kerf_shape){2, {g->band_groups, g->rows * g->format->bits / 32}};
    case KF_EXTRA_GROUP_INDEX: return (kerf_shape){1, {g->cols}};
    }
    return (kerf_shape){0, {0}};
}

/* The name of a stored tensor: the tail of the weight's gives way to the suffix. One that has the
 * tail as its suffix is called like the weight, whatever that is called. */
static void name_stored(const kf_stored *s, const kerf_weight *w, const char *suffix, char *name,
                        size_t size)
{
    size_t n = strlen(w->name), tail = s && kf_has_suffix(w->name, s->tail) ? strlen(s->tail) : 0;
    if (s && strcmp(suffix, s->tail) == 0) tail = 0, suffix = "";
    snprintf(name, size, "%.*s%s", (int)(n - tail), w->name, suffix);
}

/* A plane without a tensor of its own. */
static int is_elsewhere(const kf_part *part, const kerf_weight *w)
{
    return part->coding == KF_IN_STATE || part->coding == KF_BLOCK_SCALES ||
           (part->coding == KF_UNLESS_ONE && w->unit_second);
}

/* Its planes, then what stores none. */
int kerf_layout_entry(const kerf_layout *l, const kerf_weight *w, size_t i, char *name, size_t size,
                      kerf_entry *out, kerf_plane_id *plane)
{
    const kf_stored *s = kf_stored_find(l, w->codec.format);
    const kerf_geometry g = kerf_weight_geometry(w);
    *out = (kerf_entry){.name = name};
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        const kerf_plane *from = &g.plane[p];
        if (from->dtype == KERF_DTYPE_NONE || (s && is_elsewhere(&s->part[p], w))) continue;
        if (i-- > 0) continue;
        out->dtype = s ? s->part[p].dtype : from->dtype;
        out->shape = s ? form_of(s, &s->part[p], &g, p) : from->shape;
        name_stored(s, w, s ? s->part[p].suffix : kf_plane_suffix[p], name, size);
        *plane = p;
        return 1;
    }
    *plane = KERF_PLANES;
    if (!s || i >= KERF_EXTRAS || s->extra[i] == KF_EXTRA_NONE) return 0;
    out->dtype = kf_extra_table[s->extra[i]].dtype;
    out->shape = extra_form(s->extra[i], w, &g);
    name_stored(s, w, kf_extra_table[s->extra[i]].suffix, name, size);
    return 1;
}
