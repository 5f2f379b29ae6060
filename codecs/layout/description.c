/* description.c - the metadata string by which kerf finds its own weights again, in any layout:
 *
 *   {"version":1,"layout":"modelopt","tensors":
 *       {"NAME":{"format":"nvfp4","encoder":"4/6","dtype":"BF16","shape":[N,K]}}}
 *
 * without the line breaks; layout `kerf` is not named. dtype and shape are those of the source; a
 * weight that was turned has "stored":[K,N] besides, the shape that its model has it in. One that
 * was rounded with error feedback has "feedback":"0123456789abcdef", the number of the moments.
 * Each shard describes the tensors that it holds.
 *
 * When it is read, a description is a claim: every plane that its format and shape demand must be
 * there with exactly that dtype and shape, none may be left over, and no tensor may serve two
 * weights. */
#include "layout/description.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/json/json_walk.h"
#include "file/json/text.h"
#include "layout/recognize.h"

#define MAX_ENTRY_BYTES 65536u

/* description -> tensors -> tensor -> shape */
static const kf_json_rules description_rules = {.max_depth = 4, .integers_only = 1};

/* --- written ------------------------------------------------------------------------------- */

static void add_shape(kf_text *t, const char *key, const kerf_shape *s)
{
    kf_text_add(t, ",\"%s\":[", key);
    for (unsigned i = 0; i < s->rank; i++) kf_text_add(t, "%s%" PRIu64, i ? "," : "", s->dim[i]);
    kf_text_add(t, "]");
}

static void add_weight(kf_text *t, const kerf_weight *w)
{
    kf_text_add_quoted(t, w->name);
    kf_text_add(t, ":{\"format\":");
    kf_text_add_quoted(t, w->codec.format->name);
    if (w->codec.encoder) {
        kf_text_add(t, ",\"encoder\":");
        kf_text_add_quoted(t, w->codec.encoder->name);
    }
    kf_text_add(t, ",\"dtype\":\"%s\"", kerf_dtype_name(w->dtype));
    add_shape(t, "shape", &w->shape);
    if (w->stored.rank) add_shape(t, "stored", &w->stored);
    if (w->feedback) kf_text_add(t, ",\"feedback\":\"%016" PRIx64 "\"", w->feedback);
    kf_text_add(t, "}");
}

static int compare_weights(const void *a, const void *b)
{
    return strcmp((*(const kerf_weight *const *)a)->name, (*(const kerf_weight *const *)b)->name);
}

char *kerf_layout_describe(const kerf_layout *l, const kerf_weight *weights, size_t count)
{
    kf_text t = {0};
    size_t n = 0;
    const kerf_weight **sorted = kf_alloc(count, sizeof *sorted);
    if (!sorted) return NULL;
    for (size_t i = 0; i < count; i++)
        if (weights[i].codec.format) sorted[n++] = &weights[i];
    qsort(sorted, n, sizeof *sorted, compare_weights);
    kf_text_add(&t, "{\"version\":1,");
    if (l != kerf_layout_at(KF_LAYOUT_KERF)) kf_text_add(&t, "\"layout\":\"%s\",", l->name);
    kf_text_add(&t, "\"tensors\":{");
    for (size_t i = 0; i < n; i++) {
        if (i > 0) kf_text_add(&t, ",");
        add_weight(&t, sorted[i]);
    }
    kf_text_add(&t, "}}");
    free(sorted);
    if (t.failed) {
        free(t.p);
        return NULL;
    }
    return t.p;
}

/* --- read: one weight ---------------------------------------------------------------------- */

static kerf_status fail_weight(kf_weights_builder *b, kerf_status s, const char *name,
                               const char *fmt, ...) KERF_PRINTF(4, 5);

static kerf_status fail_weight(kf_weights_builder *b, kerf_status s, const char *name,
                               const char *fmt, ...)
{
    char why[448];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return kf_fail(b->err, s, KF_NOWHERE, "%s: quantized tensor \"%.*s\": %s",
                   kerf_reader_shard(b->r, b->shard), KF_NAME(name), why);
}

static kerf_status take_format(kf_weights_builder *b, kerf_weight *w, const json_t *entry)
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
    const json_t *feedback = json_object_get(entry, "feedback");
    if (feedback && !kf_content_read(json_string_value(feedback), &w->feedback))
        return fail_weight(b, KERF_E_DATA, w->name, "feedback is not 16 hexadecimal digits");
    w->dtype = kerf_dtype_find(dtype);
    if (w->dtype == KERF_DTYPE_NONE)
        return fail_weight(b, KERF_E_DATA, w->name, "unknown dtype \"%.*s\"", KF_NAME(dtype));
    return KERF_OK;
}

static kerf_status read_shape(kf_weights_builder *b, const char *name, const char *key,
                              const json_t *shape, kerf_shape *out)
{
    if (!json_is_array(shape) || json_array_size(shape) > KERF_MAX_RANK)
        return fail_weight(b, KERF_E_DATA, name, "%s is not an array of at most %d", key,
                           KERF_MAX_RANK);
    out->rank = (unsigned)json_array_size(shape);
    for (unsigned i = 0; i < out->rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || (uint64_t)json_integer_value(dim) > KF_MAX_DIM)
            return fail_weight(b, KERF_E_DATA, name, "%s[%u] is not an integer below 2^53", key, i);
        out->dim[i] = (uint64_t)json_integer_value(dim);
    }
    return KERF_OK;
}

/* The same elements, with the last two axes of each matrix exchanged; matrices may stand one behind
 * the other. */
static int is_turned_shape(const kerf_shape *s, const kerf_shape *stored)
{
    uint64_t n, m;
    if (s->rank < 2 || stored->rank < 2 || kerf_shape_count(s, &n, NULL) != KERF_OK ||
        kerf_shape_count(stored, &m, NULL) != KERF_OK)
        return 0;
    const uint64_t in = s->dim[s->rank - 1], rows = stored->dim[stored->rank - 2];
    return n == m && stored->dim[stored->rank - 1] == s->dim[s->rank - 2] && in > 0 &&
           (stored->rank == s->rank ? rows == in : rows % in == 0);
}

static kerf_status take_shape(kf_weights_builder *b, kerf_weight *w, const json_t *entry)
{
    const json_t *stored = json_object_get(entry, "stored");
    KF_TRY(read_shape(b, w->name, "shape", json_object_get(entry, "shape"), &w->shape));
    if (stored) {
        KF_TRY(read_shape(b, w->name, "stored", stored, &w->stored));
        if (!is_turned_shape(&w->shape, &w->stored))
            return fail_weight(b, KERF_E_DATA, w->name, "stored is not its shape turned");
    }
    kerf_error why;
    kerf_geometry g;
    if (kerf_geometry_init(&g, w->codec.format, &w->shape, &why) != KERF_OK)
        return fail_weight(b, KERF_E_DATA, w->name, "%s", why.text);
    return KERF_OK;
}

/* Finds the i-th stored tensor of w and marks it as taken; *more is 0 past the last. */
static kerf_status take_stored(kf_weights_builder *b, kerf_weight *w, size_t i, int *more)
{
    char name[KERF_MAX_NAME_BYTES + 32], found[KF_SHAPE_TEXT], needed[KF_SHAPE_TEXT];
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
            KF_NAME(name), kerf_dtype_name(t->dtype), kf_shape_text(&t->shape, found),
            w->codec.format->name, kerf_dtype_name(e.dtype), kf_shape_text(&e.shape, needed));
    unsigned char *role = &b->role[t - b->first];
    if (*role != KF_ROLE_DENSE)
        return fail_weight(b, KERF_E_DATA, w->name, "plane \"%.*s\" serves two tensors",
                           KF_NAME(name));
    *role = p == KERF_PLANE_CODES ? KF_ROLE_CODES : KF_ROLE_OTHER;
    if (p == KERF_PLANES)
        kf_add_extra(w, t);
    else
        w->plane[p] = t;
    return KERF_OK;
}

/* Layout `kerf` leaves no tensor beside a weight that is named like a plane of it. */
static kerf_status check_left_over(kf_weights_builder *b, const kerf_weight *w)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    const kerf_geometry g = kerf_weight_geometry(w);
    for (kerf_plane_id p = KERF_PLANE_SCALES; p < KERF_PLANES; p++) {
        snprintf(name, sizeof name, "%s%s", w->name, kf_plane_suffix[p]);
        if (g.plane[p].dtype == KERF_DTYPE_NONE && kerf_reader_find(b->r, name))
            return fail_weight(b, KERF_E_DATA, w->name, "format %s has no plane \"%.*s\"",
                               w->codec.format->name, KF_NAME(name));
    }
    return KERF_OK;
}

/* Whether its tensors are what kerf writes of such a weight. */
static int is_as_written(const kf_weights_builder *b, const kerf_weight *w)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    const kf_stored *stored = kf_stored_find(b->layout, w->codec.format);
    kerf_entry e;
    kerf_plane_id p;
    const kerf_geometry g = kerf_weight_geometry(w);
    if (!stored || kf_stored_fits(stored, &g, NULL) != KERF_OK) return 0;
    for (size_t i = 0; kerf_layout_entry(w->layout, w, i, name, sizeof name, &e, &p); i++) {
        const kerf_tensor *t = kerf_reader_find(b->r, name);
        if (!t || t->dtype != e.dtype || !kerf_shape_equal(&t->shape, &e.shape)) return 0;
    }
    return 1;
}

/* A weight that was kept is as others wrote it: scales of shorter types or under other names, tiles
 * that are cut. *taken 0: it is not that. */
static kerf_status take_as_found(kf_weights_builder *b, kerf_weight *w, const kerf_tensor *codes,
                                 int *taken)
{
    char name[KF_NAME_ROOM];
    kerf_weight found;
    *taken = 0;
    if (b->layout == kerf_layout_at(KF_LAYOUT_KERF) || is_as_written(b, w)) return KERF_OK;
    int is_known;
    KF_TRY(
        kf_recognize_as(b->r, codes, b->layout, w->codec.format, &found, name, &is_known, b->err));
    if (!is_known || strcmp(name, w->name) != 0 || !kerf_shape_equal(&found.shape, &w->shape) ||
        w->stored.rank || !kf_weights_claim(b, &found))
        return KERF_OK;
    memcpy(w->plane, found.plane, sizeof w->plane);
    memcpy(w->extra, found.extra, sizeof w->extra);
    *taken = 1;
    return KERF_OK;
}

static kerf_status take_entry(kf_weights_builder *b, kerf_weight *w, const kerf_tensor *codes,
                              const json_t *entry)
{
    int taken;
    if (!json_is_object(entry)) return fail_weight(b, KERF_E_DATA, w->name, "not a JSON object");
    KF_TRY(take_format(b, w, entry));
    KF_TRY(take_shape(b, w, entry));
    w->layout = b->layout;
    KF_TRY(take_as_found(b, w, codes, &taken));
    if (taken) return KERF_OK;
    const kf_stored *stored = kf_stored_find(b->layout, w->codec.format);
    if (b->layout == kerf_layout_at(KF_LAYOUT_KERF)) {
        KF_TRY(check_left_over(b, w));
    } else {
        kerf_error why = {.text = ""};
        const kerf_geometry g = kerf_weight_geometry(w);
        if (!stored)
            return fail_weight(b, KERF_E_DATA, w->name, "layout %s has no format %s",
                               b->layout->name, w->codec.format->name);
        if (!kf_has_suffix(w->name, stored->tail))
            return fail_weight(b, KERF_E_DATA, w->name, "layout %s takes names in %s only",
                               b->layout->name, stored->tail);
        if (kf_stored_fits(stored, &g, &why) != KERF_OK)
            return fail_weight(b, KERF_E_DATA, w->name, "%s", why.text);
    }
    for (size_t i = 0, more = 1; more; i++) {
        int is_there;
        KF_TRY(take_stored(b, w, i, &is_there));
        more = (size_t)is_there;
    }
    int agree;
    KF_TRY(kf_extras_check(b->r, w, &agree, b->err));
    if (!agree)
        return fail_weight(b, KERF_E_DATA, w->name,
                           "the tensors of its layout that describe it say otherwise");
    return KERF_OK;
}

/* The tensor with the codes of a described weight: its suffix is for the layout to say. */
static const kerf_tensor *find_codes(const kf_weights_builder *b, const char *name)
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

static kerf_status take_member(kf_weights_builder *b, const kf_member *m)
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
    else if (kf_weights_found(b, codes))
        s = fail_weight(b, KERF_E_DATA, codes->name, "described twice");
    else
        s = kf_weights_keep_name(b->out, json_string_value(key), codes, &w.name, b->err);
    json_decref(key);
    if (s != KERF_OK) return s;
    KF_TRY(kf_json_load(m->value, &entry, b->err));
    s = take_entry(b, &w, codes, entry);
    json_decref(entry);
    if (s == KERF_OK && w.plane[KERF_PLANE_CODES] != codes)
        s = fail_weight(b, KERF_E_DATA, w.name, "its codes are not where its layout has them");
    return s == KERF_OK ? kf_weights_add(b, codes, &w) : s;
}

/* --- the metadata of one shard --- */

static kerf_status take_version(kf_weights_builder *b, kf_json value)
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

static kerf_status take_layout(kf_weights_builder *b, kf_json value)
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

static kerf_status take_tensors(kf_weights_builder *b, kf_json value)
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

static kerf_status take_description(kf_weights_builder *b, kf_json json)
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

kerf_status kf_description_take(kf_weights_builder *b, unsigned shard)
{
    const char *text = kerf_reader_metadata(b->r, shard, "kerf");
    char what[320];
    b->shard = shard;
    if (!text) return KERF_OK;
    snprintf(what, sizeof what, "%s: kerf metadata", kerf_reader_shard(b->r, shard));
    kf_json json = {what, text, strlen(text)};
    return take_description(b, json);
}
