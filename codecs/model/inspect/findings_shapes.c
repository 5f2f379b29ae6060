/* findings_shapes.c - shapes that config.json contradicts: a layer of another width, heads that are
 * cut, an embedding with fewer rows than there are tokens, layers that are missing.
 *
 * Families differ in what follows from the sizes of config.json, and some have layers of several
 * widths. Asked are those whose row promises that every layer is as config.json says
 * (KF_FAMILY_EVEN). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "layout/config_file.h"
#include "model/inspect/findings.h"
#include "model/stray.h"
#include "roles/facts.h"

/* What a row or a column of a matrix counts; 0: nothing that is told. */
typedef enum size_of {
    ANY,
    HIDDEN,
    HEADS,
    KV_HEADS,
    QKV_HEADS,
    INNER,
    TWICE_INNER,
    EXPERT,
    EXPERTS,
    SIZES
} size_of;

/* Of a piece of a role: what its outputs and its inputs are. */
static const struct kind {
    kerf_role role;
    kerf_piece piece;
    size_of out, in;
} kinds[] = {
    {KERF_ROLE_ATTENTION, KERF_PIECE_Q, HEADS, HIDDEN},
    {KERF_ROLE_ATTENTION, KERF_PIECE_K, KV_HEADS, HIDDEN},
    {KERF_ROLE_ATTENTION, KERF_PIECE_V, KV_HEADS, HIDDEN},
    {KERF_ROLE_ATTENTION, KERF_PIECE_QKV, QKV_HEADS, HIDDEN},
    {KERF_ROLE_ATTENTION, KERF_PIECE_O, HIDDEN, HEADS},
    {KERF_ROLE_MLP, KERF_PIECE_GATE, INNER, HIDDEN},
    {KERF_ROLE_MLP, KERF_PIECE_UP, INNER, HIDDEN},
    {KERF_ROLE_MLP, KERF_PIECE_GATE_UP, TWICE_INNER, HIDDEN},
    {KERF_ROLE_MLP, KERF_PIECE_DOWN, HIDDEN, INNER},
    {KERF_ROLE_EXPERT, KERF_PIECE_GATE, EXPERT, HIDDEN},
    {KERF_ROLE_EXPERT, KERF_PIECE_UP, EXPERT, HIDDEN},
    {KERF_ROLE_EXPERT, KERF_PIECE_DOWN, HIDDEN, EXPERT},
    {KERF_ROLE_ROUTER, KERF_PIECE_NONE, EXPERTS, HIDDEN},
};
enum { KINDS = sizeof kinds / sizeof *kinds, AXES = 2 };

typedef struct sizes {
    kf_facts facts;
    uint64_t value[SIZES]; /* 0: config.json does not tell */
} sizes;

static const char *name_of(size_of s)
{
    static const char *const names[SIZES] = {
        [ANY] = "",
        [HIDDEN] = "the hidden size",
        [HEADS] = "attention heads x head size",
        [KV_HEADS] = "key-value heads x head size",
        [QKV_HEADS] = "heads of q, k and v x head size",
        [INNER] = "the intermediate size",
        [TWICE_INNER] = "twice the intermediate size",
        [EXPERT] = "the intermediate size of an expert",
        [EXPERTS] = "the number of experts",
    };
    return names[s];
}

static void read_sizes(const json_t *config, sizes *s)
{
    kf_facts_read(config, NULL, &s->facts);
    const uint64_t heads =
        kf_fact_number(config, "num_attention_heads|n_head|n_heads|num_heads|attention_heads");
    uint64_t kv = kf_fact_number(config, "num_key_value_heads|num_kv_heads|n_kv_heads");
    uint64_t size = kf_fact_number(config, "head_dim|kv_channels|attention_head_dim");
    uint64_t *v = s->value;
    if (!kv) kv = heads;
    if (!size && heads && s->facts.hidden % heads == 0) size = s->facts.hidden / heads;
    v[HIDDEN] = s->facts.hidden;
    v[INNER] = s->facts.inner;
    v[EXPERTS] = s->facts.experts;
    v[EXPERT] = kf_fact_number(config, "moe_intermediate_size");
    if (!kf_mul_ok(heads, size, &v[HEADS]) || !kf_mul_ok(kv, size, &v[KV_HEADS]) ||
        !kf_mul_ok(2, v[KV_HEADS], &v[QKV_HEADS]) ||
        !kf_add_ok(v[QKV_HEADS], v[HEADS], &v[QKV_HEADS]))
        v[HEADS] = v[KV_HEADS] = v[QKV_HEADS] = 0; /* no model: nothing is told by them */
    if (!kf_mul_ok(2, v[INNER], &v[TWICE_INNER])) v[TWICE_INNER] = 0;
}

static const struct kind *kind_of(const kerf_weight *w)
{
    const kerf_place *p = &w->place;
    if (w->shape.rank < 2 || w->shape.rank > 3 || p->stack == KERF_STACK_ROWS ||
        p->stack == KERF_STACK_LAST || p->orientation == KERF_AXES_UNKNOWN || p->layer < 0)
        return NULL;
    if (p->role == KERF_ROLE_ROUTER && (w->shape.rank != 2 || w->shape.dim[0] == 1)) return NULL;
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].role == p->role && kinds[i].piece == p->piece) return &kinds[i];
    return NULL;
}

/* What an axis should count, and whether it does. Gates of attention stand among the rows of q. */
static int is_as_told(const sizes *s, const kerf_weight *w, const struct kind *k, int axis,
                      size_of *told)
{
    const uint64_t have = w->shape.dim[w->shape.rank - AXES + (unsigned)axis];
    *told = axis ? k->in : k->out;
    const uint64_t want = s->value[*told];
    return !want || have == want || (k->piece == KERF_PIECE_Q && axis == 0 && have == 2 * want);
}

static void find_in_layer(const kf_inspection *x, const sizes *s, const kerf_weight *w)
{
    const struct kind *k = kf_is_stray(x->source, w) ? NULL : kind_of(w);
    char text[200];
    size_of told;
    for (int axis = 0; k && axis < AXES; axis++) {
        if (is_as_told(s, w, k, axis, &told)) continue;
        snprintf(text, sizeof text,
                 "has %" PRIu64 " %s, but %s in config.json is %" PRIu64 ": loaders refuse it",
                 w->shape.dim[w->shape.rank - AXES + (unsigned)axis], axis ? "inputs" : "outputs",
                 name_of(told), s->value[told]);
        kf_found(x, KERF_ERROR, w->name, text);
    }
}

/* --- embeddings, layers, experts ------------------------------------------------------------ */

/* Nearly as many rows as there are tokens: no table of positions or types. */
static int is_of_tokens(const sizes *s, const kerf_weight *w)
{
    const uint64_t vocab = s->facts.vocab;
    return w->shape.rank == 2 && vocab && w->place.role == KERF_ROLE_EMBEDDING &&
           w->place.layer < 0 && w->shape.dim[0] >= vocab - vocab / 8 &&
           w->shape.dim[0] / 2 <= vocab;
}

/* Rows above the tokens are padding; tokens without a row are none. */
static void find_in_embedding(const kf_inspection *x, const sizes *s)
{
    const kerf_weights *all = x->source->weights;
    const kerf_weight *found = NULL;
    char text[200];
    for (size_t i = 0; i < kerf_weights_count(all); i++) {
        const kerf_weight *w = kerf_weights_at(all, i);
        if (!is_of_tokens(s, w)) continue;
        if (w->shape.dim[0] >= s->facts.vocab) return;
        if (!found) found = w;
    }
    if (!found) return;
    snprintf(text, sizeof text,
             "has %" PRIu64 " rows, fewer than the %" PRIu64
             " tokens of config.json's vocabulary: the last ones have no embedding",
             found->shape.dim[0], s->facts.vocab);
    kf_found(x, KERF_ERROR, found->name, text);
}

static void find_missing_layers(const kf_inspection *x, const sizes *s)
{
    const kerf_weights *all = x->source->weights;
    uint64_t layers = 0;
    char text[160];
    if (!s->facts.layers || !kerf_reader_is_folder(x->source->reader)) return;
    for (size_t i = 0; i < kerf_weights_count(all); i++) {
        const kerf_weight *w = kerf_weights_at(all, i);
        if (kind_of(w) && (uint64_t)w->place.layer >= layers) layers = (uint64_t)w->place.layer + 1;
    }
    if (layers == 0 || layers >= s->facts.layers) return;
    snprintf(text, sizeof text,
             "names %" PRIu64 " layers, but the tensors are those of %" PRIu64
             ": a part of the model is missing",
             s->facts.layers, layers);
    kf_found(x, KERF_NOTE, "config.json", text);
}

kerf_status kf_find_shapes(const kf_inspection *x, kerf_error *err)
{
    kerf_error why = {.text = ""};
    json_t *config = NULL;
    sizes s = {0};
    if (kerf_reader_is_gguf(x->source->reader)) return KERF_OK;
    const kerf_status loaded = kf_config_load(x->source->reader, "config.json", &config, &why);
    if (loaded == KERF_E_DATA) return KERF_OK; /* which is a finding of its own */
    if (loaded != KERF_OK) return kf_fail(err, loaded, KF_NOWHERE, "%s", why.text);
    if (config) read_sizes(config, &s);
    json_decref(config);
    if (!s.facts.family || !(s.facts.family->flags & KF_FAMILY_EVEN)) return KERF_OK;
    for (size_t i = 0; i < kerf_weights_count(x->source->weights); i++)
        find_in_layer(x, &s, kerf_weights_at(x->source->weights, i));
    find_in_embedding(x, &s);
    find_missing_layers(x, &s);
    return KERF_OK;
}
