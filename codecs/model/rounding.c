/* rounding.c - finds how each weight's inputs are rounded when it is opened, then rounds by
 * encoding and decoding. */
#include <kerf/rounding.h>

#include <kerf/encode_matrix.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/activations.h"
#include "layout/config_cache.h"
#include "layout/config_file.h"
#include "layout/layout.h"
#include "model/checkpoint_view.h"

struct kerf_rounding {
    const kerf_checkpoint *of;
    kf_activations *inputs; /* of each weight of the checkpoint */
    float (*cache)[2];      /* scales of keys and of values, of weights that make keys; 0: none */
    kerf_rounds about;
    unsigned char *codes; /* all planes, of the call that took most */
    uint64_t bytes;
};

/* --- opening ------------------------------------------------------------------------------- */

static void note_format(kerf_rounds *a, const kerf_format *f)
{
    const size_t most = sizeof a->inputs / sizeof *a->inputs;
    size_t i = 0;
    while (i < most && a->inputs[i] && a->inputs[i] != f) i++;
    if (i + 1 < most) a->inputs[i] = f;
    a->weights++;
}

static kerf_status find_inputs(kerf_rounding *r, const kerf_layout *l, kerf_error *err)
{
    const kerf_weights *all = r->of->weights;
    json_t *config = NULL;
    kerf_status s = kf_config_load_sound(r->of->reader, "config.json", &config, err);
    const json_t *q = kf_config_quantization(config, NULL);
    for (size_t i = 0; s == KERF_OK && i < kerf_weights_count(all); i++) {
        const kerf_weight *w = kerf_weights_at(all, i);
        if (w->place.role == KERF_ROLE_HEAD) continue;
        s = kf_activations_find(l, q, r->of->reader, w, &r->inputs[i], err);
        if (s == KERF_OK && r->inputs[i].format) note_format(&r->about, r->inputs[i].format);
    }
    json_decref(config);
    return s;
}

/* One that no checkpoint has is 1 to loaders. */
static kerf_status read_scale(const kerf_reader *r, const char *weight, int which, float *out,
                              kerf_error *err)
{
    const kerf_tensor *t = kf_cache_scale_find(r, weight, which);
    *out = 1;
    if (!t) return KERF_OK;
    if (t->dtype != KERF_F32 || t->bytes != sizeof *out)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s must be one F32", t->name);
    KF_TRY(kerf_reader_read(r, t, 0, out, sizeof *out, err));
    if (*out > 0 && isfinite(*out)) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s is %g, no scale of a cache", t->name,
                   (double)*out);
}

static kerf_status find_cache(kerf_rounding *r, kerf_error *err)
{
    const kerf_weights *all = r->of->weights;
    int is_fp8;
    KF_TRY(kf_cache_is_fp8(r->of->reader, &is_fp8, err));
    for (size_t i = 0; is_fp8 && i < kerf_weights_count(all); i++) {
        const kerf_weight *w = kerf_weights_at(all, i);
        if (w->place.role != KERF_ROLE_ATTENTION || !kf_cache_tail(w->name)) continue;
        r->about.cache = kf_format_of(KERF_FORMAT_FP8_E4M3);
        for (int which = 0; which < 2; which++)
            KF_TRY(read_scale(r->of->reader, w->name, which, &r->cache[i][which], err));
    }
    return KERF_OK;
}

static kerf_status find_all(kerf_rounding *r, kerf_error *err)
{
    const size_t n = kerf_weights_count(r->of->weights);
    const kerf_layout *l;
    KF_TRY(kf_allocate(&r->inputs, n, sizeof *r->inputs, err));
    KF_TRY(kf_allocate(&r->cache, n, sizeof *r->cache, err));
    if (!kerf_reader_is_folder(r->of->reader)) return KERF_OK;
    KF_TRY(kerf_layout_configured(r->of->reader, &l, err));
    if (!l) return KERF_OK;
    KF_TRY(find_inputs(r, l, err));
    return find_cache(r, err);
}

kerf_status kerf_rounding_open(const kerf_checkpoint *c, kerf_rounding **out, kerf_error *err)
{
    kerf_rounding *r;
    *out = NULL;
    KF_TRY(kf_allocate(&r, 1, sizeof *r, err));
    r->of = c;
    const kerf_status s = find_all(r, err);
    if (s == KERF_OK)
        *out = r;
    else
        kerf_rounding_close(r);
    return s;
}

void kerf_rounding_close(kerf_rounding *r)
{
    if (!r) return;
    free(r->inputs);
    free(r->cache);
    free(r->codes);
    free(r);
}

void kerf_rounding_describe(const kerf_rounding *r, kerf_rounds *out)
{
    *out = r->about;
}

/* --- rounding ------------------------------------------------------------------------------ */

static size_t index_of(const kerf_rounding *r, const char *weight)
{
    const kerf_weight *w = kerf_weights_find(r->of->weights, weight);
    return w ? (size_t)(w - kerf_weights_at(r->of->weights, 0)) : SIZE_MAX;
}

static kerf_status open_codes(kerf_rounding *r, const kerf_geometry *g, kerf_span to[KERF_PLANES],
                              kerf_cspan from[KERF_PLANES], kerf_error *err)
{
    uint64_t at = 0;
    if (g->bytes > r->bytes) {
        free(r->codes);
        r->codes = NULL;
        r->bytes = 0;
        KF_TRY(kf_allocate(&r->codes, g->bytes, 1, err));
        r->bytes = g->bytes;
    }
    for (int p = 0; p < KERF_PLANES; p++) {
        to[p] = (kerf_span){r->codes + at, (size_t)g->plane[p].bytes};
        from[p] = (kerf_cspan){to[p].p, to[p].n};
        at += g->plane[p].bytes;
    }
    return KERF_OK;
}

/* y = x through a format. amax: of its own scale of all; 0: it is found. x may be y. */
static kerf_status round_matrix(kerf_rounding *r, const kerf_format *f, float amax, const float *x,
                                uint64_t rows, uint64_t columns, float *y, const kerf_exec *exec,
                                kerf_error *err)
{
    const kerf_exec own = {.threads = exec ? exec->threads : 0};
    const uint64_t bytes = rows * columns * sizeof *x;
    const kerf_cspan source = {x, (size_t)bytes};
    const kerf_stats stats = {.amax = amax, .min = -amax, .max = amax};
    kerf_geometry g;
    kerf_codec codec;
    kerf_span to[KERF_PLANES];
    kerf_cspan from[KERF_PLANES];
    if (bytes == 0) return KERF_OK;
    KF_TRY(kerf_codec_find(f->name, &codec, err));
    KF_TRY(kerf_geometry_init(&g, f, &(kerf_shape){2, {rows, columns}}, err));
    KF_TRY(open_codes(r, &g, to, from, err));
    kerf_error said;
    const kerf_status s =
        amax > 0
            ? kerf_encode(&g, codec.encoder, &stats, 0, g.bands, source, KERF_F32, to, &own, &said)
            : kerf_encode_matrix(&g, codec.encoder, source, KERF_F32, to, &own, NULL, &said);
    if (s == KERF_E_DATA) { /* NaN or Inf, which a runtime hands on */
        if (y != x) memcpy(y, x, (size_t)bytes);
        return KERF_OK;
    }
    if (s != KERF_OK) {
        if (err) *err = said;
        return s;
    }
    return kerf_decode(&g, 0, g.bands, from, (kerf_span){y, (size_t)bytes}, KERF_F32, &own, err);
}

/* Groups of a row are rows to the format; the last one may be shorter. */
static kerf_status round_groups(kerf_rounding *r, const kf_activations *a, const float *x,
                                uint64_t tokens, uint64_t columns, float *y, const kerf_exec *exec,
                                kerf_error *err)
{
    const uint64_t rest = columns % a->group, whole = columns - rest;
    if (rest == 0)
        return round_matrix(r, a->format, 0, x, tokens * (columns / a->group), a->group, y, exec,
                            err);
    for (uint64_t t = 0; t < tokens; t++) {
        const float *from = x + t * columns;
        float *to = y + t * columns;
        KF_TRY(round_matrix(r, a->format, 0, from, whole / a->group, a->group, to, exec, err));
        KF_TRY(round_matrix(r, a->format, 0, from + whole, 1, rest, to + whole, exec, err));
    }
    return KERF_OK;
}

int kerf_rounds_inputs(const kerf_rounding *r, const char *weight)
{
    const size_t i = r->about.weights ? index_of(r, weight) : SIZE_MAX;
    return i != SIZE_MAX && r->inputs[i].format;
}

kerf_status kerf_round_inputs(kerf_rounding *r, const char *weight, const float *x, uint64_t tokens,
                              uint64_t columns, float *y, const kerf_exec *exec, kerf_error *err)
{
    if (!kerf_rounds_inputs(r, weight)) {
        memcpy(y, x, (size_t)(tokens * columns * sizeof *x));
        return KERF_OK;
    }
    const kf_activations *a = &r->inputs[index_of(r, weight)];
    if (a->group) return round_groups(r, a, x, tokens, columns, y, exec, err);
    return round_matrix(r, a->format, a->amax, x, tokens, columns, y, exec, err);
}

kerf_status kerf_round_cache(kerf_rounding *r, const char *weight, float *k, uint64_t key_columns,
                             float *v, uint64_t value_columns, uint64_t tokens,
                             const kerf_exec *exec, kerf_error *err)
{
    const size_t i = r->about.cache ? index_of(r, weight) : SIZE_MAX;
    if (i == SIZE_MAX || r->cache[i][0] == 0) return KERF_OK;
    const kerf_format *f = r->about.cache;
    KF_TRY(round_matrix(r, f, r->cache[i][0] * 448, k, tokens, key_columns, k, exec, err));
    return round_matrix(r, f, r->cache[i][1] * 448, v, tokens, value_columns, v, exec, err);
}
