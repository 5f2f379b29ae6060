/* calibration.c - reads a calibration folder: which tensor of it belongs to a weight, and its
 * numbers. */
#include <kerf/calibrate.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "calibrate/book.h"
#include "file/json/json_read.h"

struct kerf_calibration {
    kerf_checkpoint *files;
    kerf_calibration_about about;
    json_t **gram_of; /* [shards of the files] */
    size_t shards;
};

static const kerf_reader *reader_of(const kerf_calibration *c)
{
    return kerf_checkpoint_reader(c->files);
}

/* --- opening ------------------------------------------------------------------------------- */

static kerf_status read_number(const kerf_reader *r, size_t shard, const char *key, int base,
                               uint64_t *out, kerf_error *err)
{
    const char *text = kerf_reader_metadata(r, shard, key);
    char *end = NULL;
    *out = text ? strtoull(text, &end, base) : 0;
    if (text && *text && !*end) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: its metadata have no number %s",
                   kerf_reader_shard(r, shard), key);
}

static kerf_status read_shard(kerf_calibration *c, size_t shard, kerf_error *err)
{
    const kerf_reader *r = reader_of(c);
    kerf_calibration_about a = {0};
    const char *schema = kerf_reader_metadata(r, shard, "kerf.schema"),
               *by = kerf_reader_metadata(r, shard, "kerf.alpha"),
               *map = kerf_reader_metadata(r, shard, "kerf.gram_of");
    if (!schema || strcmp(schema, "kerf.calibration/1") != 0)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "no calibration: kerf calibrate MODEL --text FILE -o CAL makes one");
    KF_TRY(read_number(r, shard, "kerf.source", 16, &a.source, err));
    KF_TRY(read_number(r, shard, "kerf.tokens", 10, &a.tokens, err));
    KF_TRY(read_number(r, shard, "kerf.text", 16, &a.text, err));
    a.by_kl = by && strcmp(by, "kl") == 0;
    if (shard > 0 && (a.source != c->about.source || a.tokens != c->about.tokens ||
                      a.text != c->about.text || a.by_kl != c->about.by_kl))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "its files are of several runs");
    c->about = a;
    if (!map) return KERF_OK;
    return kf_json_parse("kerf.gram_of", map, strlen(map), KF_JSON_STRICT, &c->gram_of[shard], err);
}

static kerf_status read_about(kerf_calibration *c, kerf_error *err)
{
    const kerf_reader *r = reader_of(c);
    KF_TRY(kf_allocate(&c->gram_of, kerf_reader_shard_count(r), sizeof *c->gram_of, err));
    for (; c->shards < kerf_reader_shard_count(r); c->shards++)
        KF_TRY(read_shard(c, c->shards, err));
    for (size_t i = 0; i < kerf_reader_count(r); i++) {
        const char *name = kerf_reader_at(r, i)->name;
        c->about.alphas += (size_t)kf_has_suffix(name, ".alpha");
        c->about.grams += (size_t)kf_has_suffix(name, ".gram");
    }
    return KERF_OK;
}

kerf_status kerf_calibration_open(const char *path, kerf_calibration **out, kerf_error *err)
{
    kerf_calibration *c = NULL;
    *out = NULL;
    KF_TRY(kf_allocate(&c, 1, sizeof *c, err));
    kerf_status s = kerf_checkpoint_open(path, &c->files, err);
    if (s == KERF_OK) {
        s = read_about(c, err);
        if (s != KERF_OK) kf_fail_at(err, s, path);
    }
    if (s == KERF_OK)
        *out = c;
    else
        kerf_calibration_close(c);
    return s;
}

void kerf_calibration_close(kerf_calibration *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->shards; i++) json_decref(c->gram_of[i]);
    free(c->gram_of);
    kerf_checkpoint_close(c->files);
    free(c);
}

kerf_calibration_about kerf_calibration_describe(const kerf_calibration *c)
{
    return c->about;
}

const kerf_checkpoint *kerf_calibration_imatrix(const kerf_calibration *c)
{
    return c->files;
}

kerf_status kerf_calibration_check(const kerf_calibration *c, const kerf_checkpoint *source,
                                   kerf_error *err)
{
    uint64_t contents;
    KF_TRY(kerf_reader_contents(kerf_checkpoint_reader(source), &contents, err));
    if (contents == c->about.source) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%.200s was made from another model than %.200s; kerf calibrate %.200s --text "
                   "FILE -o CAL makes one of it",
                   kerf_checkpoint_path(c->files), kerf_checkpoint_path(source),
                   kerf_checkpoint_path(source));
}

/* --- which tensor -------------------------------------------------------------------------- */

static const kerf_tensor *find_part(const kerf_calibration *c, const char *name, const char *part)
{
    char text[KERF_MAX_NAME_BYTES + 32];
    snprintf(text, sizeof text, "%s%s", name, part);
    return kerf_reader_find(reader_of(c), text);
}

/* Of the weight, or of the stack that it is a part of. */
static const kerf_tensor *find_own(const kerf_calibration *c, const kerf_weight *w,
                                   const char *part)
{
    const kerf_tensor *t = find_part(c, w->name, part);
    return t || !w->whole ? t : find_part(c, w->whole, part);
}

/* Numbers of a tensor in pieces: some threads make room for a Gram matrix, copy and look at it in a
 * quarter of the time of one, for which a GPU would wait. */
#define PIECE (UINT64_C(1) << 20)
enum { READERS = 4 };

typedef struct reading {
    const kerf_calibration *c;
    const kerf_tensor *t;
    uint64_t count;
    float *out;
    kerf_error *error; /* [pieces] */
} reading;

static kerf_status read_piece(void *ctx, uint64_t piece)
{
    const reading *r = ctx;
    const uint64_t first = piece * PIECE, end = kf_min_u64(first + PIECE, r->count);
    kerf_error *err = &r->error[piece];
    KF_TRY(kerf_reader_read(reader_of(r->c), r->t, 4 * first, r->out + first,
                            (size_t)(4 * (end - first)), err));
    for (uint64_t i = first; i < end; i++)
        if (!isfinite(r->out[i]))
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%.200s: %.200s: value %" PRIu64 " is not finite",
                           kerf_checkpoint_path(r->c->files), r->t->name, i);
    return KERF_OK;
}

static kerf_status read_floats(const kerf_calibration *c, const kerf_tensor *t, uint64_t count,
                               float *out, kerf_error *err)
{
    if (t->dtype != KERF_F32 || t->block_type || t->bytes != 4 * count)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: %.200s must be F32 of %" PRIu64,
                       kerf_checkpoint_path(c->files), t->name, count);
    const uint64_t pieces = kf_div_up(count, PIECE);
    reading r = {c, t, count, out, NULL};
    KF_TRY(kf_allocate(&r.error, pieces, sizeof *r.error, err));
    const kerf_status s = kf_parallel(pieces, READERS, read_piece, &r);
    for (uint64_t i = 0; s != KERF_OK && i < pieces; i++)
        if (r.error[i].status == s) {
            if (err) *err = r.error[i];
            break;
        }
    free(r.error);
    return s;
}

/* --- alpha --------------------------------------------------------------------------------- */

/* Adds the alphas of single experts, whose names tell their place: variances add up. */
static kerf_status add_experts(const kerf_calibration *c, const kerf_weight *stack,
                               kerf_alpha_value *out, kerf_error *err)
{
    const kerf_reader *r = reader_of(c);
    double sum = 0, variance = 0;
    size_t found = 0;
    for (size_t i = 0; i < kerf_reader_count(r); i++) {
        const kerf_tensor *t = kerf_reader_at(r, i);
        char name[KERF_MAX_NAME_BYTES + 1];
        kerf_place p;
        float v[2];
        if (!kf_has_suffix(t->name, ".alpha")) continue;
        snprintf(name, sizeof name, "%.*s", (int)(strlen(t->name) - strlen(".alpha")), t->name);
        kerf_place_find(NULL, name, &stack->shape, &p);
        if (p.role != KERF_ROLE_EXPERT || p.layer != stack->place.layer ||
            p.piece != stack->place.piece)
            continue;
        KF_TRY(read_floats(c, t, 2, v, err));
        sum += (double)v[0];
        variance += (double)v[1] * (double)v[1];
        found++;
    }
    if (found) *out = (kerf_alpha_value){sum, sqrt(variance)};
    return KERF_OK;
}

kerf_status kerf_calibration_alpha(const kerf_calibration *c, const kerf_weight *w,
                                   kerf_alpha_value *out, kerf_error *err)
{
    float v[2];
    double parts = 1;
    const kerf_tensor *t = find_part(c, w->name, ".alpha");
    *out = (kerf_alpha_value){NAN, NAN};
    if (!t && w->whole) {
        const kerf_tensor *stack = find_part(c, w->whole, "");
        t = find_part(c, w->whole, ".alpha");
        if (stack && stack->shape.rank > 1) parts = (double)stack->shape.dim[0];
    }
    if (!t && w->place.role == KERF_ROLE_EXPERT && w->shape.rank > 2)
        return add_experts(c, w, out, err);
    if (!t) return KERF_OK;
    KF_TRY(read_floats(c, t, 2, v, err));
    *out = (kerf_alpha_value){(double)v[0] / parts, (double)v[1] / parts};
    return KERF_OK;
}

/* --- Gram matrices and largest values ------------------------------------------------------- */

/* The name under which the matrix of this weight stands. */
static const char *owner_of(const kerf_calibration *c, const char *name)
{
    for (size_t i = 0; name && i < c->shards; i++) {
        const char *owner = json_string_value(json_object_get(c->gram_of[i], name));
        if (owner) return owner;
    }
    return NULL;
}

static const kerf_tensor *find_gram(const kerf_calibration *c, const kerf_weight *w)
{
    const kerf_tensor *t = find_own(c, w, ".gram");
    const char *owner = t ? NULL : owner_of(c, w->name);
    if (!t && !owner) owner = owner_of(c, w->whole);
    return owner ? find_part(c, owner, ".gram") : t;
}

int kerf_calibration_has_gram(const kerf_calibration *c, const kerf_weight *w)
{
    return find_gram(c, w) != NULL;
}

/* *n: the numbers of the matrix of a weight with k columns. */
static kerf_status check_square(const kerf_calibration *c, const kerf_tensor *t,
                                const kerf_weight *w, uint64_t k, uint64_t *n, kerf_error *err)
{
    if (kf_mul_ok(k, k, n) && t->bytes / 4 == *n) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%.200s: %.200s is no square of %" PRIu64 ", the columns of %.200s",
                   kerf_checkpoint_path(c->files), t->name, k, w->name);
}

static uint64_t columns_of(const kerf_weight *w)
{
    return kf_last_dim(&w->shape);
}

kerf_status kerf_calibration_gram_mean(const kerf_calibration *c, const kerf_weight *w, double *out,
                                       kerf_error *err)
{
    const kerf_tensor *t = find_gram(c, w);
    const uint64_t k = columns_of(w);
    uint64_t n;
    double sum = 0;
    *out = NAN;
    if (!t) return KERF_OK;
    KF_TRY(check_square(c, t, w, k, &n, err));
    for (uint64_t i = 0; i < k; i++) {
        float x;
        KF_TRY(kerf_reader_read(reader_of(c), t, 4 * (i * k + i), &x, sizeof x, err));
        sum += (double)x;
    }
    if (!isfinite(sum) || t->dtype != KERF_F32)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: %.200s: its diagonal is not finite",
                       kerf_checkpoint_path(c->files), t->name);
    *out = sum / (double)k;
    return KERF_OK;
}

kerf_status kerf_calibration_gram(const kerf_calibration *c, const kerf_weight *w, kerf_gram *out,
                                  kerf_error *err)
{
    const kerf_tensor *t = find_gram(c, w);
    const uint64_t k = columns_of(w);
    uint64_t n;
    *out = (kerf_gram){0};
    if (!t) return KERF_OK;
    KF_TRY(check_square(c, t, w, k, &n, err));
    KF_TRY(kf_allocate(&out->value, n, sizeof *out->value, err));
    out->columns = k;
    kerf_status s = read_floats(c, t, n, out->value, err);
    if (s != KERF_OK) kerf_gram_free(out);
    return s;
}

static int has_moments(const void *ctx, const kerf_weight *w)
{
    return kerf_calibration_has_gram(ctx, w);
}

static kerf_status read_moments(const void *ctx, const kerf_weight *w, float **out, kerf_error *err)
{
    kerf_gram gram;
    kerf_status s = kerf_calibration_gram(ctx, w, &gram, err);
    *out = gram.value;
    return s;
}

kerf_status kerf_calibration_moments(const kerf_calibration *c, kerf_moments *out, kerf_error *err)
{
    *out = (kerf_moments){c, has_moments, read_moments, 0, kerf_checkpoint_path(c->files), 0};
    KF_TRY(kerf_reader_contents(reader_of(c), &out->contents, err));
    if (out->contents == 0) out->contents = 1;
    return KERF_OK;
}

void kerf_gram_free(kerf_gram *g)
{
    free(g->value);
    *g = (kerf_gram){0};
}

kerf_status kerf_calibration_amax(const kerf_calibration *c, const kerf_weight *w, float *out,
                                  kerf_error *err)
{
    const kerf_tensor *t = find_own(c, w, ".amax");
    *out = NAN;
    return t ? read_floats(c, t, 1, out, err) : KERF_OK;
}

static kerf_status read_largest(const void *ctx, const kerf_weight *w, float *out, kerf_error *err)
{
    return kerf_calibration_amax(ctx, w, out, err);
}

kerf_inputs kerf_calibration_inputs(const kerf_calibration *c)
{
    return (kerf_inputs){c, read_largest, kerf_checkpoint_path(c->files)};
}

static kerf_status read_cached(const void *ctx, const kerf_weight *w, float *out, kerf_error *err)
{
    static const char *const parts[] = {".k_amax", ".v_amax"};
    const kerf_calibration *c = ctx;
    char layer[KERF_MAX_NAME_BYTES + 1];
    snprintf(layer, sizeof layer, "%.*s", kf_layer_bytes(w->name), w->name);
    for (int i = 0; i < 2; i++) {
        const kerf_tensor *t = find_part(c, layer, parts[i]);
        out[i] = NAN;
        if (t) KF_TRY(read_floats(c, t, 1, &out[i], err));
    }
    return KERF_OK;
}

kerf_cached kerf_calibration_cached(const kerf_calibration *c)
{
    return (kerf_cached){c, read_cached, kerf_checkpoint_path(c->files)};
}
