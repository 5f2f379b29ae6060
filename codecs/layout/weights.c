/* weights.c - groups the tensors of a checkpoint into weights: first those that its `kerf`
 * metadata describes, then those that are recognized by their tensors (recognize.c).
 *
 * A description is a claim: every plane that its format and shape demand must be there with
 * exactly that dtype and shape, none may be left over, and no tensor may serve two weights. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/file.h>

#include "base/base.h"
#include "layout/block_weights.h"
#include "file/disk/io.h"
#include "file/json/json_walk.h"
#include "layout/recognize.h"
#include "layout/weights.h"

#define MAX_ENTRY_BYTES 65536u
#define MAX_DIM ((uint64_t)1 << 53)

/* description -> tensors -> tensor -> shape */
static const kf_json_rules description_rules = {.max_depth = 4, .integers_only = 1};

enum { DENSE, CODES, OTHER_PLANE }; /* what a tensor serves as */

typedef struct builder {
    kerf_weights *out;
    const kerf_reader *r;
    const kerf_tensor *first; /* of the reader's table */
    unsigned char *role;      /* per tensor            */
    kerf_weight *at;          /* per tensor: the weight whose codes it holds */
    unsigned shard;
    const kerf_layout *layout; /* of this shard */
    kerf_error *err;
} builder;

static kerf_status fail_weight(builder *b, kerf_status s, const char *name, const char *fmt, ...)
    KERF_PRINTF(4, 5);

static kerf_status fail_weight(builder *b, kerf_status s, const char *name, const char *fmt, ...)
{
    char why[448];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return kf_fail(b->err, s, KF_NOWHERE, "%s: quantized tensor \"%.*s\": %s",
                   kerf_reader_shard(b->r, b->shard), KF_NAME(name), why);
}

/* --- one description --- */

static kerf_status take_format(builder *b, kerf_weight *w, const json_t *entry)
{
    const char *format = json_string_value(json_object_get(entry, "format"));
    const json_t *encoder = json_object_get(entry, "encoder");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!format || !dtype || (encoder && !json_is_string(encoder)))
        return fail_weight(b, KERF_E_DATA, w->name, "format, encoder or dtype is not a string");
    w->codec.format = kerf_format_find(format);
    if (!w->codec.format)
        return fail_weight(b, KERF_E_NOSUP, w->name,
                           "unknown format \"%.*s\": it needs a newer kerf", KF_NAME(format));
    for (size_t i = 0; encoder && i < kerf_encoder_count(w->codec.format); i++) {
        const kerf_encoder *e = kerf_encoder_at(w->codec.format, i);
        if (strcmp(e->name, json_string_value(encoder)) == 0) w->codec.encoder = e;
    }
    w->dtype = kerf_dtype_find(dtype);
    if (w->dtype == KERF_DTYPE_NONE)
        return fail_weight(b, KERF_E_DATA, w->name, "unknown dtype \"%.*s\"", KF_NAME(dtype));
    return KERF_OK;
}

static kerf_status take_shape(builder *b, kerf_weight *w, const json_t *entry)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape) || json_array_size(shape) > KERF_MAX_RANK)
        return fail_weight(b, KERF_E_DATA, w->name, "shape is not an array of at most %d",
                           KERF_MAX_RANK);
    w->shape.rank = (unsigned)json_array_size(shape);
    for (unsigned i = 0; i < w->shape.rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || (uint64_t)json_integer_value(dim) > MAX_DIM)
            return fail_weight(b, KERF_E_DATA, w->name, "shape[%u] is not an integer below 2^53",
                               i);
        w->shape.dim[i] = (uint64_t)json_integer_value(dim);
    }
    kerf_error why;
    if (kerf_geometry_init(&w->geometry, w->codec.format, &w->shape, &why) != KERF_OK)
        return fail_weight(b, KERF_E_DATA, w->name, "%s", why.text);
    return KERF_OK;
}

static char *print_shape(const kerf_shape *s, char out[192])
{
    size_t n = 0;
    for (unsigned i = 0; i < s->rank && i < KERF_MAX_RANK; i++)
        n += (size_t)snprintf(out + n, 192 - n, "%s%llu", i ? "," : "",
                              (unsigned long long)s->dim[i]);
    out[n] = 0;
    return out;
}

/* Finds the i-th stored tensor of w and marks it as taken; *more is 0 past the last. */
static kerf_status take_stored(builder *b, kerf_weight *w, size_t i, int *more)
{
    char name[KERF_MAX_NAME_BYTES + 32], found[192], needed[192];
    kerf_entry e;
    kerf_plane_id p;
    *more = kerf_layout_entry(w->layout, w, i, name, sizeof name, &e, &p);
    if (!*more) return KERF_OK;
    const kerf_tensor *t = kerf_reader_find(b->r, name);
    if (!t || t->shard != b->shard)
        return fail_weight(b, KERF_E_DATA, w->name, "its plane \"%.*s\" is not in this file",
                           KF_NAME(name));
    uint64_t bytes;
    if (t->dtype != e.dtype || !kerf_shape_equal(&t->shape, &e.shape) ||
        kf_tensor_bytes(e.dtype, &e.shape, &bytes) != KERF_OK || t->bytes != bytes)
        return fail_weight(
            b, KERF_E_DATA, w->name, "plane \"%.*s\" is %s [%s], format %s needs %s [%s]",
            KF_NAME(name), kerf_dtype_name(t->dtype), print_shape(&t->shape, found),
            w->codec.format->name, kerf_dtype_name(e.dtype), print_shape(&e.shape, needed));
    unsigned char *role = &b->role[t - b->first];
    if (*role != DENSE)
        return fail_weight(b, KERF_E_DATA, w->name, "plane \"%.*s\" serves two tensors",
                           KF_NAME(name));
    *role = p == KERF_PLANE_CODES ? CODES : OTHER_PLANE;
    if (p == KERF_PLANES)
        kf_add_extra(w, t);
    else
        w->plane[p] = t;
    return KERF_OK;
}

/* Layout `kerf` leaves no tensor beside a weight that is named like a plane of it. */
static kerf_status check_left_over(builder *b, const kerf_weight *w)
{
    static const char *const suffix[] = {"_scale", "_scale_2", "_zero_point"};
    char name[KERF_MAX_NAME_BYTES + 32];
    for (kerf_plane_id p = KERF_PLANE_SCALES; p < KERF_PLANES; p++) {
        snprintf(name, sizeof name, "%s%s", w->name, suffix[p - KERF_PLANE_SCALES]);
        if (w->geometry.plane[p].dtype == KERF_DTYPE_NONE && kerf_reader_find(b->r, name))
            return fail_weight(b, KERF_E_DATA, w->name, "format %s has no plane \"%.*s\"",
                               w->codec.format->name, KF_NAME(name));
    }
    return KERF_OK;
}

static kerf_status take_entry(builder *b, kerf_weight *w, const json_t *entry)
{
    if (!json_is_object(entry)) return fail_weight(b, KERF_E_DATA, w->name, "not a JSON object");
    KF_TRY(take_format(b, w, entry));
    KF_TRY(take_shape(b, w, entry));
    w->layout = b->layout;
    const kf_stored *stored = kf_stored_find(b->layout, w->codec.format);
    if (b->layout == kerf_layout_at(KF_LAYOUT_KERF)) {
        KF_TRY(check_left_over(b, w));
    } else {
        kerf_error why = {.text = ""};
        if (!stored)
            return fail_weight(b, KERF_E_DATA, w->name, "layout %s has no format %s",
                               b->layout->name, w->codec.format->name);
        if (!kf_has_suffix(w->name, stored->tail))
            return fail_weight(b, KERF_E_DATA, w->name, "layout %s takes names in %s only",
                               b->layout->name, stored->tail);
        if (kf_stored_fits(stored, &w->geometry, &why) != KERF_OK)
            return fail_weight(b, KERF_E_DATA, w->name, "%s", why.text);
    }
    for (size_t i = 0, more = 1; more; i++) {
        int is_there;
        KF_TRY(take_stored(b, w, i, &is_there));
        more = (size_t)is_there;
    }
    if (!kf_extras_agree(b->r, w))
        return fail_weight(b, KERF_E_DATA, w->name,
                           "the tensors of its layout that describe it say otherwise");
    return KERF_OK;
}

/* The name of a weight, kept for as long as the weights. */
static kerf_status keep_name(builder *b, const char *name, const kerf_tensor *codes,
                             const char **out)
{
    if (strcmp(codes->name, name) == 0) {
        *out = codes->name;
        return KERF_OK;
    }
    kerf_weights *w = b->out;
    if ((w->names & (w->names + 1)) == 0) { /* room for 1, 2, 4, ... */
        char **more = realloc(w->name, (2 * w->names + 1) * sizeof *more);
        if (more) w->name = more;
        if (!more) return kf_fail(b->err, KERF_E_NOMEM, KF_NOWHERE, "no memory for names");
    }
    char *copy = strdup(name);
    if (!copy) return kf_fail(b->err, KERF_E_NOMEM, KF_NOWHERE, "no memory for names");
    w->name[w->names++] = copy;
    *out = copy;
    return KERF_OK;
}

/* The tensor with the codes of a described weight: its suffix is for the layout to say. */
static const kerf_tensor *find_codes(const builder *b, const char *name)
{
    char stored[KERF_MAX_NAME_BYTES + 32];
    const kerf_tensor *t = kerf_reader_find(b->r, name);
    for (size_t i = 0; !t && i < kf_stored_count; i++) {
        const kf_stored *s = &kf_stored_table[i];
        if (&kf_layouts[s->layout] != b->layout || strlen(name) > KERF_MAX_NAME_BYTES) continue;
        if (!kf_has_suffix(name, s->tail)) continue;
        snprintf(stored, sizeof stored, "%.*s%s", (int)(strlen(name) - strlen(s->tail)), name,
                 s->part[KERF_PLANE_CODES].suffix);
        t = kerf_reader_find(b->r, stored);
    }
    return t;
}

static kerf_status take_member(builder *b, const kf_member *m)
{
    json_t *key, *entry;
    KF_TRY(kf_json_load(m->key, &key, b->err));
    const kerf_tensor *codes = find_codes(b, json_string_value(key));
    kerf_status s = KERF_OK;
    kerf_weight w = {.name = NULL};
    if (!codes || codes->shard != b->shard)
        s = fail_weight(b, KERF_E_DATA, json_string_value(key), "described, but not in this file");
    else if (m->value.n > MAX_ENTRY_BYTES)
        s = fail_weight(b, KERF_E_LIMIT, codes->name, "its description is too long");
    else if (b->at[codes - b->first].name)
        s = fail_weight(b, KERF_E_DATA, codes->name, "described twice");
    else
        s = keep_name(b, json_string_value(key), codes, &w.name);
    json_decref(key);
    if (s != KERF_OK) return s;
    KF_TRY(kf_json_load(m->value, &entry, b->err));
    s = take_entry(b, &w, entry);
    json_decref(entry);
    if (s == KERF_OK && w.plane[KERF_PLANE_CODES] != codes)
        s = fail_weight(b, KERF_E_DATA, w.name, "its codes are not where its layout has them");
    if (s == KERF_OK) b->at[codes - b->first] = w;
    return s;
}

/* --- the metadata of one shard --- */

static kerf_status take_version(builder *b, kf_json value)
{
    json_t *j;
    KF_TRY(kf_json_load(value, &j, b->err));
    int known = json_is_integer(j) && json_integer_value(j) == 1;
    json_decref(j);
    if (known) return KERF_OK;
    return kf_fail(b->err, KERF_E_NOSUP, KF_NOWHERE,
                   "%s: the version of its kerf metadata is not 1: it needs a newer kerf",
                   kerf_reader_shard(b->r, b->shard));
}

static kerf_status take_layout(builder *b, kf_json value)
{
    json_t *j;
    KF_TRY(kf_json_load(value, &j, b->err));
    const char *name = json_string_value(j);
    kerf_status s = KERF_OK;
    if (!name || !(b->layout = kerf_layout_find(name)) ||
        b->layout == &kf_layouts[KF_LAYOUT_GGUF]) /* which is never described */
        s = kf_fail(b->err, KERF_E_NOSUP, KF_NOWHERE,
                    "%s: the layout that its kerf metadata names is unknown: it needs a newer kerf",
                    kerf_reader_shard(b->r, b->shard));
    json_decref(j);
    return s;
}

static kerf_status take_tensors(builder *b, kf_json value)
{
    kf_json_walk walk;
    kf_member m;
    int more;
    kf_json_walk_init(&walk, value);
    for (;;) {
        KF_TRY(kf_json_walk_next(&walk, &m, &more, b->err));
        if (!more) return KERF_OK;
        KF_TRY(take_member(b, &m));
    }
}

static int is_key(kf_json key, const char *name)
{
    return key.n == strlen(name) + 2 && memcmp(key.text + 1, name, key.n - 2) == 0;
}

static kerf_status take_description(builder *b, kf_json json)
{
    kf_json_walk walk;
    kf_member m;
    int more, versions = 0, lists = 0, layouts = 0;
    uint64_t members;
    kf_json tensors = {0};
    KF_TRY(kf_json_check(json, &description_rules, &members, b->err));
    kf_json_walk_init(&walk, json);
    b->layout = kerf_layout_at(KF_LAYOUT_KERF);
    for (;;) {
        KF_TRY(kf_json_walk_next(&walk, &m, &more, b->err));
        if (!more) break;
        if (is_key(m.key, "version")) {
            versions++;
            KF_TRY(take_version(b, m.value));
        } else if (is_key(m.key, "layout") && layouts++ == 0) {
            KF_TRY(take_layout(b, m.value));
        } else if (is_key(m.key, "tensors")) {
            lists++;
            tensors = m.value;
        } else {
            return kf_fail(b->err, KERF_E_DATA, KF_NOWHERE, "%s: unknown key %.*s", json.what,
                           m.key.n < 80 ? (int)m.key.n : 80, m.key.text);
        }
    }
    if (versions == 1 && lists == 1) return take_tensors(b, tensors);
    return kf_fail(b->err, KERF_E_DATA, KF_NOWHERE, "%s: not one version and one list of tensors",
                   json.what);
}

static kerf_status take_shard(builder *b, unsigned shard)
{
    const char *text = kerf_reader_metadata(b->r, shard, "kerf");
    char what[320];
    b->shard = shard;
    if (!text) return KERF_OK;
    snprintf(what, sizeof what, "%s: kerf metadata", kerf_reader_shard(b->r, shard));
    kf_json json = {what, text, strlen(text)};
    return take_description(b, json);
}

/* --- what nothing describes --- */

/* The type that a weight had before: that of most models, unless a norm or bias says otherwise. */
static kerf_dtype dense_dtype(const builder *b, size_t tensors)
{
    for (size_t i = 0; i < tensors; i++) {
        const kerf_tensor *t = &b->first[i];
        int is_part = strstr(t->name, "scale") != NULL || t->shape.rank == 0;
        if (b->role[i] != DENSE || is_part) continue;
        if (t->dtype == KERF_BF16 || t->dtype == KERF_F16 || t->dtype == KERF_F32) return t->dtype;
    }
    return KERF_BF16;
}

static int holds_codes(kerf_dtype t)
{
    return t == KERF_U8 || t == KERF_I8 || t == KERF_I32 || t == KERF_F8_E4M3;
}

/* Marks the tensors of a recognized weight; 0 when one of them serves another already. */
static int claim(builder *b, const kerf_weight *w)
{
    const kerf_tensor *part[KERF_PLANES + KERF_EXTRAS];
    memcpy(part, w->plane, sizeof w->plane);
    memcpy(part + KERF_PLANES, w->extra, sizeof w->extra);
    for (int i = 0; i < KERF_PLANES + KERF_EXTRAS; i++)
        if (part[i] && b->role[part[i] - b->first] != DENSE) return 0;
    for (int i = 0; i < KERF_PLANES + KERF_EXTRAS; i++)
        if (part[i]) b->role[part[i] - b->first] = OTHER_PLANE;
    b->role[w->plane[KERF_PLANE_CODES] - b->first] = CODES;
    return 1;
}

/* A tensor whose file says what its blocks are. Blocks that kerf cannot decode are dense as far as
 * it is concerned: bytes to be copied, of a tensor of that shape. */
static kerf_status take_blocks(builder *b, const kerf_tensor *t)
{
    kerf_weight *w = &b->at[t - b->first];
    KF_TRY(kf_blocks_recognize(b->r, t, w, b->err));
    if (!w->codec.format) return KERF_OK;
    if (claim(b, w)) return KERF_OK;
    return kf_fail(b->err, KERF_E_DATA, KF_NOWHERE, "%s: tensor \"%.*s\": its scale serves two",
                   kerf_reader_shard(b->r, t->shard), KF_NAME(t->name));
}

static kerf_status recognize_all(builder *b, size_t tensors)
{
    const kerf_layout *configured = NULL;
    int asked = 0;
    char name[KF_NAME_ROOM];
    for (size_t i = 0; i < tensors; i++) {
        const kerf_tensor *t = &b->first[i];
        kerf_weight w;
        if (t->block_type) {
            KF_TRY(take_blocks(b, t));
            continue;
        }
        if (b->role[i] != DENSE || !holds_codes(t->dtype)) continue;
        if (!asked++) configured = kerf_layout_configured(b->r);
        if (!kf_recognize(b->r, t, configured, &w, name) || !claim(b, &w)) continue;
        KF_TRY(keep_name(b, name, t, &w.name));
        b->at[i] = w;
    }
    const kerf_dtype dtype = asked ? dense_dtype(b, tensors) : KERF_BF16; /* of what is left */
    for (size_t i = 0; asked && i < tensors; i++)
        if (b->role[i] == CODES && b->at[i].dtype == KERF_DTYPE_NONE) b->at[i].dtype = dtype;
    return KERF_OK;
}

/* --- all weights --- */

/* Keeps what is a weight, in the order of the tensors. */
static size_t gather(builder *b, size_t tensors)
{
    size_t n = 0;
    for (size_t i = 0; i < tensors; i++) {
        const kerf_tensor *t = &b->first[i];
        if (b->role[i] == OTHER_PLANE) continue;
        if (b->role[i] == DENSE && !t->block_type)
            b->at[n++] =
                (kerf_weight){.name = t->name, .shape = t->shape, .dtype = t->dtype, .plane = {t}};
        else
            b->at[n++] = b->at[i];
    }
    return n;
}

kerf_status kf_weights_index(kerf_weights *w, kerf_error *err)
{
    for (size_t i = 0; i < w->count; i++) w->by_name[i] = (kf_named){w->weight[i].name, i};
    size_t twice = kf_sort_names(w->by_name, w->count);
    if (twice == w->count) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "two weights are named \"%.*s\"",
                   KF_NAME(w->by_name[twice].name));
}

kerf_status kerf_weights_open(const kerf_reader *r, kerf_weights **out, kerf_error *err)
{
    size_t tensors = kerf_reader_count(r);
    kerf_weights *w = kf_alloc_zero(1, sizeof *w);
    builder b = {.out = w, .r = r, .first = kerf_reader_at(r, 0), .err = err};
    b.role = kf_alloc_zero(tensors, 1);
    b.at = kf_alloc_zero(tensors, sizeof *b.at);
    kf_named *by_name = kf_alloc(tensors, sizeof *by_name);
    kerf_status s = KERF_OK;
    if (!w || !b.role || !b.at || !by_name)
        s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %zu tensors", tensors);
    for (size_t i = 0; s == KERF_OK && i < kerf_reader_shard_count(r); i++)
        s = take_shard(&b, (unsigned)i);
    if (s == KERF_OK) s = recognize_all(&b, tensors);
    if (s == KERF_OK) {
        w->count = gather(&b, tensors);
        w->weight = b.at;
        w->by_name = by_name;
        s = kf_weights_index(w, err);
    } else {
        free(b.at);
        free(by_name);
    }
    if (s == KERF_OK)
        *out = w;
    else
        kerf_weights_close(w);
    free(b.role);
    return s;
}

void kerf_weights_close(kerf_weights *w)
{
    if (!w) return;
    for (size_t i = 0; i < w->names; i++) free(w->name[i]);
    for (size_t i = 0; i < w->owned_count; i++) free(w->owned[i]);
    free(w->owned);
    free(w->name);
    free(w->weight);
    free(w->by_name);
    free(w);
}

size_t kerf_weights_count(const kerf_weights *w)
{
    return w->count;
}

const kerf_weight *kerf_weights_at(const kerf_weights *w, size_t i)
{
    return i < w->count ? &w->weight[i] : NULL;
}

const kerf_weight *kerf_weights_find(const kerf_weights *w, const char *name)
{
    const kf_named *found = kf_find_name(w->by_name, w->count, name);
    return found ? &w->weight[found->index] : NULL;
}
