/* weights.c - groups the tensors of a checkpoint into weights, by its `kerf` metadata.
 *
 * A description is a claim: every plane that its format and shape demand must be there with
 * exactly that dtype and shape, none may be left over, and no tensor may serve two weights. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/file.h>

#include "base/base.h"
#include "file/io.h"
#include "file/json_walk.h"
#include "file/safetensors.h"

#define MAX_ENTRY_BYTES 65536u
#define MAX_DIM ((uint64_t)1 << 53)

/* description -> tensors -> tensor -> shape */
static const kf_json_rules description_rules = {.max_depth = 4, .integers_only = 1};

struct kerf_weights {
    kerf_weight *weight;
    kf_named *by_name;
    size_t count;
};

enum { DENSE, CODES, OTHER_PLANE }; /* what a tensor serves as */

typedef struct builder {
    const kerf_reader *r;
    const kerf_tensor *first; /* of the reader's table */
    unsigned char *role;      /* per tensor            */
    kerf_weight *at;          /* per tensor: the weight whose codes it holds */
    unsigned shard;
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

static int is_same_shape(const kerf_shape *a, const kerf_shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) == 0;
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

static kerf_status take_plane(builder *b, kerf_weight *w, kerf_plane_id p)
{
    char name[KERF_MAX_NAME_BYTES + 16], found[192], needed[192];
    const kerf_plane *plane = &w->geometry.plane[p];
    kerf_layout_plane_name(w->name, p, name, sizeof name);
    const kerf_tensor *t = kerf_reader_find(b->r, name);
    if (plane->dtype == KERF_DTYPE_NONE) {
        if (!t) return KERF_OK;
        return fail_weight(b, KERF_E_DATA, w->name, "format %s has no plane \"%.*s\"",
                           w->codec.format->name, KF_NAME(name));
    }
    if (!t || t->shard != b->shard)
        return fail_weight(b, KERF_E_DATA, w->name, "its plane \"%.*s\" is not in this file",
                           KF_NAME(name));
    if (t->dtype != plane->dtype || !is_same_shape(&t->shape, &plane->shape) ||
        t->bytes != plane->bytes)
        return fail_weight(b, KERF_E_DATA, w->name,
                           "plane \"%.*s\" is %s [%s], format %s needs %s [%s]", KF_NAME(name),
                           kerf_dtype_name(t->dtype), print_shape(&t->shape, found),
                           w->codec.format->name, kerf_dtype_name(plane->dtype),
                           print_shape(&plane->shape, needed));
    unsigned char *role = &b->role[t - b->first];
    if (*role != DENSE)
        return fail_weight(b, KERF_E_DATA, w->name, "plane \"%.*s\" serves two tensors",
                           KF_NAME(name));
    *role = p == KERF_PLANE_CODES ? CODES : OTHER_PLANE;
    w->plane[p] = t;
    return KERF_OK;
}

static kerf_status take_entry(builder *b, kerf_weight *w, const json_t *entry)
{
    if (!json_is_object(entry)) return fail_weight(b, KERF_E_DATA, w->name, "not a JSON object");
    KF_TRY(take_format(b, w, entry));
    KF_TRY(take_shape(b, w, entry));
    for (int p = 0; p < KERF_PLANES; p++) KF_TRY(take_plane(b, w, (kerf_plane_id)p));
    return KERF_OK;
}

static kerf_status take_member(builder *b, const kf_member *m)
{
    json_t *key, *entry;
    KF_TRY(kf_json_load(m->key, &key, b->err));
    const kerf_tensor *codes = kerf_reader_find(b->r, json_string_value(key));
    kerf_status s = KERF_OK;
    if (!codes || codes->shard != b->shard)
        s = fail_weight(b, KERF_E_DATA, json_string_value(key), "described, but not in this file");
    else if (m->value.n > MAX_ENTRY_BYTES)
        s = fail_weight(b, KERF_E_LIMIT, codes->name, "its description is too long");
    json_decref(key);
    if (s != KERF_OK) return s;
    kerf_weight *w = &b->at[codes - b->first];
    if (w->name) return fail_weight(b, KERF_E_DATA, codes->name, "described twice");
    w->name = codes->name;
    KF_TRY(kf_json_load(m->value, &entry, b->err));
    s = take_entry(b, w, entry);
    json_decref(entry);
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
    int more, versions = 0, lists = 0;
    uint64_t members;
    KF_TRY(kf_json_check(json, &description_rules, &members, b->err));
    kf_json_walk_init(&walk, json);
    for (;;) {
        KF_TRY(kf_json_walk_next(&walk, &m, &more, b->err));
        if (!more) break;
        if (is_key(m.key, "version")) {
            versions++;
            KF_TRY(take_version(b, m.value));
        } else if (is_key(m.key, "tensors")) {
            lists++;
            KF_TRY(take_tensors(b, m.value));
        } else {
            return kf_fail(b->err, KERF_E_DATA, KF_NOWHERE, "%s: unknown key %.*s", json.what,
                           m.key.n < 80 ? (int)m.key.n : 80, m.key.text);
        }
    }
    if (versions == 1 && lists == 1) return KERF_OK;
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

/* --- all weights --- */

/* Keeps what is a weight, in the order of the tensors. */
static size_t gather(builder *b, size_t tensors)
{
    size_t n = 0;
    for (size_t i = 0; i < tensors; i++) {
        const kerf_tensor *t = &b->first[i];
        if (b->role[i] == OTHER_PLANE) continue;
        if (b->role[i] == DENSE)
            b->at[n++] =
                (kerf_weight){.name = t->name, .shape = t->shape, .dtype = t->dtype, .plane = {t}};
        else
            b->at[n++] = b->at[i];
    }
    return n;
}

kerf_status kerf_weights_open(const kerf_reader *r, kerf_weights **out, kerf_error *err)
{
    size_t tensors = kerf_reader_count(r);
    kerf_weights *w = kf_alloc_zero(1, sizeof *w);
    builder b = {.r = r, .first = kerf_reader_at(r, 0), .err = err};
    b.role = kf_alloc_zero(tensors, 1);
    b.at = kf_alloc_zero(tensors, sizeof *b.at);
    kf_named *by_name = kf_alloc(tensors, sizeof *by_name);
    kerf_status s = KERF_OK;
    if (!w || !b.role || !b.at || !by_name)
        s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %zu tensors", tensors);
    for (size_t i = 0; s == KERF_OK && i < kerf_reader_shard_count(r); i++)
        s = take_shard(&b, (unsigned)i);
    if (s == KERF_OK) {
        w->count = gather(&b, tensors);
        w->weight = b.at;
        w->by_name = by_name;
        for (size_t i = 0; i < w->count; i++) by_name[i] = (kf_named){w->weight[i].name, i};
        kf_sort_names(by_name, w->count); /* of tensors, so none twice */
        *out = w;
    } else {
        free(b.at);
        free(by_name);
        free(w);
    }
    free(b.role);
    return s;
}

void kerf_weights_close(kerf_weights *w)
{
    if (!w) return;
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
