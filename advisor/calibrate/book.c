/* book.c - lists the weights of a model by layers, finds those that share an input and those that
 * get noise together, and declares the tensors of a calibration. */
#include "calibrate/book.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/parts.h>

#include "base/base.h"
#include "file/json/json_text.h"

static const char *const suffixes[KF_PARTS] = {"", ".amax", ".count", ".gram"};

/* --- slots --------------------------------------------------------------------------------- */

static int is_calibrated(const kerf_weight *w, uint64_t layer)
{
    const kerf_place *p = &w->place;
    const int role = p->role == KERF_ROLE_ATTENTION || p->role == KERF_ROLE_MLP ||
                     p->role == KERF_ROLE_EXPERT || p->role == KERF_ROLE_SHARED_EXPERT;
    return role && p->layer >= 0 && (uint64_t)p->layer == layer && w->shape.rank >= 2 &&
           p->piece != KERF_PIECE_NONE && !kerf_place_keeps(p);
}

static kf_slot make_slot(const kerf_weight *w, size_t at)
{
    kf_slot s = {.weight = w, .experts = 1, .input = at, .gram = at, .alpha = SIZE_MAX};
    s.columns = w->shape.dim[w->shape.rank - 1];
    for (unsigned i = 0; i + 2 < w->shape.rank; i++) s.experts *= w->shape.dim[i];
    for (size_t i = 0; i < KF_PARTS; i++) s.entry[i] = SIZE_MAX;
    return s;
}

static size_t find_slot(const kf_book *b, size_t from, size_t to, const kerf_weight *w)
{
    for (size_t i = from; i < to; i++)
        if (b->slot[i].weight == w) return i;
    return SIZE_MAX;
}

static int is_expert(const kf_slot *s)
{
    return s->weight->place.role == KERF_ROLE_EXPERT;
}

/* Experts have their inputs from the router, but for those of their last matrix. */
static int is_second(const kf_slot *s)
{
    return s->weight->place.piece == KERF_PIECE_DOWN;
}

/* What slot i shares with those of its layer before it. */
static void join_slot(kf_book *b, const kerf_weights *all, size_t first, size_t i)
{
    const kerf_weight *fused[KERF_FUSED_MOST];
    kf_slot *s = &b->slot[i];
    const size_t n = kerf_fused_group(all, s->weight, fused);
    size_t same = SIZE_MAX;
    for (size_t k = 0; k < n && same == SIZE_MAX; k++) same = find_slot(b, first, i, fused[k]);
    s->group = b->groups;
    if (same != SIZE_MAX) {
        s->input = b->slot[same].input;
        s->gram = b->slot[same].gram;
        s->group = b->slot[same].group;
    }
    for (size_t k = first; is_expert(s) && k < i; k++) {
        if (!is_expert(&b->slot[k])) continue;
        s->group = b->slot[k].group;
        if (is_second(&b->slot[k]) == is_second(s) && b->slot[k].columns == s->columns) {
            s->gram = b->slot[k].gram;
            /* stacks of one input have one name less than their pieces */
            if (s->experts > 1 && b->slot[k].experts == s->experts) s->input = b->slot[k].input;
        }
    }
    if (s->group == b->groups) b->groups++;
}

static kerf_status list_slots(kf_book *b, const kerf_weights *all, kerf_error *err)
{
    const size_t count = kerf_weights_count(all);
    KF_TRY(kf_allocate(&b->slot, count, sizeof *b->slot, err));
    for (uint64_t layer = 0; layer < b->layers; layer++) {
        const size_t first = b->leaf[layer].slot = b->slots;
        b->leaf[layer].group = b->groups;
        for (size_t i = 0; i < count; i++) {
            const kerf_weight *w = kerf_weights_at(all, i);
            if (!is_calibrated(w, layer)) continue;
            b->slot[b->slots] = make_slot(w, b->slots);
            join_slot(b, all, first, b->slots++);
        }
        if (b->slots == first)
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                           "layer %" PRIu64 " has no matrix to calibrate", layer);
    }
    b->leaf[b->layers] = (kf_leaf){.slot = b->slots, .group = b->groups};
    return KERF_OK;
}

kf_slot *kf_book_find(const kf_book *b, uint64_t layer, const char *name)
{
    for (size_t i = b->leaf[layer].slot; i < b->leaf[layer + 1].slot; i++)
        if (strcmp(b->slot[i].weight->name, name) == 0) return &b->slot[i];
    return NULL;
}

/* --- entries ------------------------------------------------------------------------------- */

static kerf_status add_entry(kf_book *b, const char *name, int bytes, const char *suffix,
                             kerf_shape shape, uint64_t layer, size_t *at, kerf_error *err)
{
    char text[KERF_MAX_NAME_BYTES + 32];
    if (b->entries == b->room) {
        const size_t room = b->room ? 2 * b->room : 256;
        kerf_entry *more = realloc(b->entry, room * sizeof *more);
        if (!more) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %zu names", room);
        b->entry = more;
        b->room = room;
    }
    snprintf(text, sizeof text, "%.*s%s", bytes, name, suffix);
    char *copy = strdup(text);
    if (!copy) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for names");
    if (at) *at = b->entries;
    b->entry[b->entries++] = (kerf_entry){copy, KERF_F32, shape, (unsigned)layer};
    return KERF_OK;
}

static kerf_status add_slot(kf_book *b, size_t i, uint64_t layer, int gram, kerf_error *err)
{
    kf_slot *s = &b->slot[i];
    const int has[KF_PARTS] = {1, 1, is_expert(s), gram && s->gram == i};
    const kerf_shape one = {1, {1}}, row = {1, {s->columns}}, rows = {2, {s->experts, s->columns}},
                     counts = {1, {s->experts}}, square = {2, {s->columns, s->columns}};
    const kerf_shape shape[KF_PARTS] = {s->experts > 1 ? rows : row, one, counts, square};
    for (size_t k = 0; k < KF_PARTS; k++)
        if (has[k])
            KF_TRY(add_entry(b, s->weight->name, (int)strlen(s->weight->name), suffixes[k],
                             shape[k], layer, &s->entry[k], err));
    return KERF_OK;
}

int kf_layer_bytes(const char *name)
{
    const size_t at = strcspn(name, "0123456789");
    return (int)(at + strspn(name + at, "0123456789"));
}

static kerf_status list_entries(kf_book *b, int gram, int alpha, kerf_error *err)
{
    const kerf_shape one = {1, {1}}, two = {1, {2}};
    for (uint64_t layer = 0; layer < b->layers; layer++) {
        kf_leaf *leaf = &b->leaf[layer];
        const char *name = b->slot[leaf->slot].weight->name;
        leaf->entry = b->entries;
        KF_TRY(add_entry(b, name, kf_layer_bytes(name), ".k_amax", one, layer, NULL, err));
        KF_TRY(add_entry(b, name, kf_layer_bytes(name), ".v_amax", one, layer, NULL, err));
        for (size_t i = leaf->slot; i < leaf[1].slot; i++) KF_TRY(add_slot(b, i, layer, gram, err));
        leaf->alpha = b->entries;
        for (size_t g = leaf->group; alpha && g < leaf[1].group; g++)
            for (size_t i = leaf->slot; i < leaf[1].slot; i++) {
                const char *weight = b->slot[i].weight->name;
                if (b->slot[i].group == g)
                    KF_TRY(add_entry(b, weight, (int)strlen(weight), ".alpha", two, layer,
                                     &b->slot[i].alpha, err));
            }
    }
    b->leaf[b->layers].entry = b->leaf[b->layers].alpha = b->entries;
    return KERF_OK;
}

/* kerf.gram_of: the weights whose matrix stands under another name. */
static kerf_status map_grams(kf_book *b, kerf_error *err)
{
    KF_TRY(kf_allocate(&b->map, b->layers, sizeof *b->map, err));
    for (uint64_t layer = 0; layer < b->layers; layer++) {
        json_t *map = json_object();
        for (size_t i = b->leaf[layer].slot; i < b->leaf[layer + 1].slot; i++)
            if (b->slot[i].gram != i)
                kf_json_set(&map, b->slot[i].weight->name,
                            json_string(b->slot[b->slot[i].gram].weight->name));
        KF_TRY(kf_json_write(map, JSON_COMPACT, &b->map[layer], NULL, err));
    }
    return KERF_OK;
}

kerf_status kf_book_open(kf_book *b, const kerf_checkpoint *source, uint64_t layers,
                         const kerf_calibrate_request *r, kerf_error *err)
{
    *b = (kf_book){.layers = layers};
    KF_TRY(kf_allocate(&b->leaf, layers + 1, sizeof *b->leaf, err));
    KF_TRY(list_slots(b, kerf_checkpoint_weights(source), err));
    KF_TRY(list_entries(b, r->gram, r->alpha != KERF_ALPHA_BY_NONE, err));
    return r->gram ? map_grams(b, err) : KERF_OK;
}

void kf_book_close(kf_book *b)
{
    for (size_t i = 0; i < b->entries; i++) free((char *)(uintptr_t)b->entry[i].name);
    for (uint64_t i = 0; b->map && i < b->layers; i++) free(b->map[i]);
    free(b->map);
    free(b->entry);
    free(b->leaf);
    free(b->slot);
    *b = (kf_book){0};
}

/* --- the folder ---------------------------------------------------------------------------- */

enum { KEYS = 6, SHARD_NAME = 96 };

typedef struct folder {
    const char **shard;          /* [layers], each into `names`             */
    char *names;                 /* [layers][SHARD_NAME]                    */
    kerf_key_value (*key)[KEYS]; /* [layers]                       */
    const kerf_key_value **keys;
    size_t *count;
} folder;

static kerf_status describe(folder *f, const kf_book *b, const kerf_key_value *about, size_t abouts,
                            kerf_error *err)
{
    const size_t n = (size_t)b->layers;
    KF_TRY(kf_allocate(&f->shard, n, sizeof *f->shard, err));
    KF_TRY(kf_allocate(&f->names, n, SHARD_NAME, err));
    KF_TRY(kf_allocate(&f->key, n, sizeof *f->key, err));
    KF_TRY(kf_allocate(&f->keys, n, sizeof *f->keys, err));
    KF_TRY(kf_allocate(&f->count, n, sizeof *f->count, err));
    for (size_t i = 0; i < n; i++) {
        f->shard[i] = f->names + i * SHARD_NAME;
        snprintf(f->names + i * SHARD_NAME, SHARD_NAME, "calibration-%05zu-of-%05zu.safetensors",
                 i + 1, n);
        memcpy(f->key[i], about, abouts * sizeof *about);
        f->keys[i] = f->key[i];
        f->count[i] = abouts;
        if (b->map) f->key[i][f->count[i]++] = (kerf_key_value){"kerf.gram_of", b->map[i]};
    }
    return KERF_OK;
}

kerf_status kf_book_create(const kf_book *b, const kerf_checkpoint *source,
                           const kerf_calibrate_request *r, const unsigned char *own,
                           uint64_t machine, const kerf_job *job, kerf_writer **out,
                           kerf_error *err)
{
    char numbers[3][32];
    uint64_t contents;
    folder f = {0};
    const kerf_reader *reader = kerf_checkpoint_reader(source);
    const uint64_t tokens = r->tokens.rows * r->tokens.length,
                   text = kerf_hash(r->tokens.token, (size_t)tokens * sizeof *r->tokens.token),
                   how[] = {text,
                            r->tokens.length,
                            (uint64_t)r->gram,
                            (uint64_t)r->alpha,
                            r->draws,
                            (uint64_t)(r->noise * 1e9),
                            machine};
    kerf_resume resume = {.work = kerf_hash(how, sizeof how), .goes_on = r->resume};
    KF_TRY(kerf_reader_fingerprint(reader, &resume.source, err));
    KF_TRY(kerf_reader_contents(reader, &contents, err));
    snprintf(numbers[0], sizeof *numbers, "%016" PRIx64, contents);
    snprintf(numbers[1], sizeof *numbers, "%" PRIu64, tokens);
    snprintf(numbers[2], sizeof *numbers, "%016" PRIx64, text);
    const kerf_key_value about[] = {{"kerf.schema", "kerf.calibration/1"},
                                    {"kerf.source", numbers[0]},
                                    {"kerf.tokens", numbers[1]},
                                    {"kerf.text", numbers[2]},
                                    {"kerf.alpha", r->alpha == KERF_ALPHA_BY_LOSS ? "loss" : "kl"}};
    const size_t abouts = sizeof about / sizeof *about - (r->alpha == KERF_ALPHA_BY_NONE);
    const kerf_own_part part = {r->part, r->parts, own, "calibrate"};
    kerf_status s = describe(&f, b, about, abouts, err);
    const kerf_writer_options opt = {.overwrite = r->overwrite,
                                     .shard = b->layers > 1 ? f.shard : NULL,
                                     .shards = (size_t)b->layers,
                                     .metadata = f.keys,
                                     .metadata_count = f.count,
                                     .part = r->parts ? &part : NULL,
                                     .resume = &resume,
                                     .job = job};
    if (s == KERF_OK) s = kerf_writer_create(r->path, b->entry, b->entries, &opt, out, err);
    free(f.shard);
    free(f.names);
    free(f.key);
    free(f.keys);
    free(f.count);
    return s;
}
