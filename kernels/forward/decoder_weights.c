/* decoder_weights.c - finds the weights of a decoder by the layer and the end of their names. What
 * stands in a layer and is no weight that this family computes with is refused: a model that has
 * more than is known of it would give wrong numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/decoder.h"

enum {
    KF_SIZE_NONE,
    KF_SIZE_HIDDEN,
    KF_SIZE_QUERIES,
    KF_SIZE_KEYS,
    KF_SIZE_VALUES,
    KF_SIZE_QKV,
    KF_SIZE_MIXED,
    KF_SIZE_HEAD,
    KF_SIZE_HEADS,
    KF_SIZE_QUERY_RANK,
    KF_SIZE_KV_RANK,
    KF_SIZE_LATENT,
    KF_SIZE_UNPACKED,
    KF_SIZE_INNER,
    KF_SIZE_INNER_TWICE,
    KF_SIZE_EXPERTS,
    KF_SIZE_E_INNER,
    KF_SIZE_E_INNER_TWICE,
    KF_SIZE_S_INNER
};

const kf_slot kf_slots[KF_SLOTS] = {
#define KF_SLOT(ID, kind, rows, cols, needed, instead, names) \
    {KF_KIND_##kind, KF_SIZE_##rows, KF_SIZE_##cols, needed, KF_SLOT_##instead, names},
#include "forward/decoder_slots.def"
#undef KF_SLOT
};

uint64_t kf_slot_size(const kf_config *c, int size)
{
    const uint64_t q = c->heads * c->head_dim, k = c->kv_heads * c->head_dim;
    const uint64_t v = c->kv_heads * c->value_dim;
    switch (size) {
    case KF_SIZE_HIDDEN: return c->hidden;
    case KF_SIZE_QUERIES: return q;
    case KF_SIZE_KEYS: return k;
    case KF_SIZE_VALUES: return v;
    case KF_SIZE_QKV: return q + k + v;
    case KF_SIZE_MIXED: return c->heads * c->value_dim;
    case KF_SIZE_HEAD: return c->head_dim;
    case KF_SIZE_HEADS: return c->heads;
    case KF_SIZE_QUERY_RANK: return c->q_rank;
    case KF_SIZE_KV_RANK: return c->kv_rank;
    case KF_SIZE_LATENT: return c->kv_rank + c->rope_dim;
    case KF_SIZE_UNPACKED: return c->heads * (c->nope_dim + c->value_dim);
    case KF_SIZE_INNER: return c->inner;
    case KF_SIZE_INNER_TWICE: return 2 * c->inner;
    case KF_SIZE_EXPERTS: return c->experts;
    case KF_SIZE_E_INNER: return c->expert_inner;
    case KF_SIZE_E_INNER_TWICE: return 2 * c->expert_inner;
    case KF_SIZE_S_INNER: return c->shared_inner;
    default: return 0;
    }
}

/* --- names --------------------------------------------------------------------------------- */

/* 1: the n bytes of a pattern are this text, # standing for a number, which is in *expert. */
static int fits(const char *pattern, size_t n, const char *text, uint64_t *expert)
{
    for (size_t i = 0; i < n; i++) {
        if (pattern[i] != '#') {
            if (*text++ != pattern[i]) return 0;
            continue;
        }
        if (*text < '0' || *text > '9') return 0;
        char *end;
        *expert = strtoull(text, &end, 10);
        text = end;
    }
    return *text == 0;
}

static int is_one_of(const char *names, const char *text, uint64_t *expert)
{
    for (const char *at = names; *at;) {
        const size_t n = strcspn(at, "|");
        if (fits(at, n, text, expert)) return 1;
        at += n + (at[n] == '|');
    }
    return 0;
}

static int slot_of(const char *text, unsigned has, uint64_t *expert)
{
    for (int s = 0; s < KF_SLOTS; s++) {
        const kf_slot *slot = &kf_slots[s];
        if ((has & slot->needed) != slot->needed && slot->kind != KF_KIND_BIAS) continue;
        if (is_one_of(slot->names, text, expert)) return s;
    }
    return -1;
}

/* What follows ".N." for the number N of the layer; NULL: nothing. */
static const char *behind_layer(const char *name, int layer)
{
    char number[16];
    const size_t n = (size_t)snprintf(number, sizeof number, ".%d.", layer);
    const char *at = strstr(name, number);
    return at ? at + n : NULL;
}

static int is_ignored(const kerf_weight *w)
{
    switch (w->place.role) {
    case KERF_ROLE_SCALE:
    case KERF_ROLE_VISION:
    case KERF_ROLE_AUDIO:
    case KERF_ROLE_PROJECTOR:
    case KERF_ROLE_MTP: return 1;
    default: return strstr(w->name, "rotary_emb") != NULL;
    }
}

static int ends_in(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0 && (n == m || name[n - m - 1] == '.');
}

/* --- shapes -------------------------------------------------------------------------------- */

static kerf_status check_shape(const kerf_weight *w, uint64_t experts, uint64_t rows, uint64_t cols,
                               kerf_error *err)
{
    uint64_t want[3];
    unsigned rank = 0;
    if (experts) want[rank++] = experts;
    want[rank++] = rows;
    if (cols) want[rank++] = cols;
    int same = w->shape.rank == rank;
    for (unsigned i = 0; same && i < rank; i++) same = w->shape.dim[i] == want[i];
    if (same) return KERF_OK;
    char text[96] = "";
    for (unsigned i = 0, n = 0; i < rank && n < sizeof text; i++)
        n += (unsigned)snprintf(text + n, sizeof text - n, "%s%llu", i ? " x " : "",
                                (unsigned long long)want[i]);
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "tensor \"%.*s\": config.json makes it %s, and the file does not",
                   KF_NAME(w->name), text);
}

static kerf_status check_slot(const kerf_decoder *d, int s, const kerf_weight *w, kerf_error *err)
{
    const kf_config *c = &d->config;
    const kf_slot *slot = &kf_slots[s];
    const int stacked = slot->kind == KF_KIND_STACK || slot->kind == KF_KIND_VECTORS;
    return check_shape(w, stacked ? c->experts : 0, kf_slot_size(c, slot->rows),
                       kf_slot_size(c, slot->cols), err);
}

/* --- finding ------------------------------------------------------------------------------- */

/* The place of an expert that is a matrix of its own. */
static const kerf_weight **each_of(const kerf_decoder *d, uint64_t layer, int s, uint64_t expert)
{
    const uint64_t piece = s == KF_SLOT_E_GATE ? 0 : s == KF_SLOT_E_UP ? 1 : 2;
    return &d->each[(layer * 3 + piece) * d->config.experts + expert];
}

static kerf_status take_layer_weight(kerf_decoder *d, const kerf_weight *w, kerf_error *err)
{
    const uint64_t layer = (uint64_t)w->place.layer;
    if (layer >= d->config.layers) return KERF_OK;
    const char *text = behind_layer(w->name, w->place.layer);
    uint64_t expert = 0;
    const int s = text ? slot_of(text, d->config.kind[layer].has, &expert) : -1;
    if (s < 0)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "tensor \"%.*s\": the forward pass of %s does not use it", KF_NAME(w->name),
                       d->config.family->names);
    const kerf_weight **slot = &d->layer[layer].slot[s];
    if (kf_slots[s].kind == KF_KIND_EACH) {
        if (expert >= d->config.experts)
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "tensor \"%.*s\": config.json knows %llu experts", KF_NAME(w->name),
                           (unsigned long long)d->config.experts);
        if (!d->each) {
            uint64_t count;
            if (!kf_mul_ok(d->config.layers, d->config.experts, &count) ||
                count > 4 * (uint64_t)kerf_weights_count(d->weights))
                return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                               "config.json: more experts than the "
                               "files have weights");
            KF_TRY(kf_allocate(&d->each, count * 3, sizeof *d->each, err));
        }
        slot = each_of(d, layer, s, expert);
        if (expert == 0) d->layer[layer].slot[s] = w;
    }
    if (*slot && *slot != w)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "tensor \"%.*s\": the layer has two of these",
                       KF_NAME(w->name));
    *slot = w;
    return check_slot(d, s, w, err);
}

static kerf_status take_outside(kerf_decoder *d, const kerf_weight *w, kerf_error *err)
{
    const kf_config *c = &d->config;
    if (ends_in(w->name, "embed_tokens.weight") || ends_in(w->name, "token_embd.weight")) {
        d->embedding = w;
        return check_shape(w, 0, c->vocab, c->hidden, err);
    }
    if (ends_in(w->name, "lm_head.weight") || strcmp(w->name, "output.weight") == 0) {
        d->head = w;
        return check_shape(w, 0, c->vocab, c->hidden, err);
    }
    if (ends_in(w->name, "norm.weight") || strcmp(w->name, "output_norm.weight") == 0) {
        d->norm = w;
        return check_shape(w, 0, c->hidden, 0, err);
    }
    if (strcmp(w->name, "rope_freqs.weight") == 0) {
        d->rope_parts = w;
        return check_shape(w, 0, c->rope[0].dims / 2, 0, err);
    }
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "tensor \"%.*s\": the forward pass of %s does not use it", KF_NAME(w->name),
                   c->family->names);
}

/* A slot or what may stand in its place. */
static int is_there(const kerf_decoder *d, uint64_t layer, int s)
{
    for (;;) {
        if (d->layer[layer].slot[s]) return 1;
        if (kf_slots[s].instead == s) return 0;
        s = kf_slots[s].instead;
    }
}

static kerf_status missing(const kerf_decoder *d, uint64_t layer, int s, kerf_error *err)
{
    (void)d;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "layer %llu: no tensor \"%.*s\"",
                   (unsigned long long)layer, (int)strcspn(kf_slots[s].names, "|"),
                   kf_slots[s].names);
}

static kerf_status check_layer(const kerf_decoder *d, uint64_t layer, kerf_error *err)
{
    const unsigned has = d->config.kind[layer].has;
    const kf_found *f = &d->layer[layer];
    for (int s = 0; s < KF_SLOTS; s++) {
        const unsigned needed = kf_slots[s].needed;
        if (needed == 0 || (has & needed) != needed) continue;
        if (!is_there(d, layer, s)) return missing(d, layer, s, err);
        for (uint64_t e = 0;
             kf_slots[s].kind == KF_KIND_EACH && f->slot[s] && e < d->config.experts; e++)
            if (!*each_of(d, layer, s, e)) return missing(d, layer, s, err);
    }
    return KERF_OK;
}

kerf_status kf_decoder_find(kerf_decoder *d, kerf_error *err)
{
    KF_TRY(kf_allocate(&d->layer, d->config.layers, sizeof *d->layer, err));
    for (size_t i = 0; i < kerf_weights_count(d->weights); i++) {
        const kerf_weight *w = kerf_weights_at(d->weights, i);
        if (is_ignored(w)) continue;
        KF_TRY(w->place.layer >= 0 ? take_layer_weight(d, w, err) : take_outside(d, w, err));
    }
    for (uint64_t i = 0; i < d->config.layers; i++) KF_TRY(check_layer(d, i, err));
    const char *absent = !d->embedding ? "model.embed_tokens.weight"
                         : !d->norm    ? "model.norm.weight"
                         : !d->head && d->config.kind[0].has & KF_HAS_HEAD ? "lm_head.weight"
                                                                           : NULL;
    if (absent) return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "no tensor \"%s\"", absent);
    if (!d->head) d->head = d->embedding;
    return KERF_OK;
}
