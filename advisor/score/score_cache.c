/* score_cache.c - one JSON object per file; see score_cache.h. */
#include "score/score_cache.h"
#include "base/base.h"
#include <stdio.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kerf/file.h>

/* Fields of a score as they stand in the file, in this order. */
static json_t *pack(const kerf_score *s)
{
    return json_pack("[I, I, I, I, f, f, f, f, f, f]", (json_int_t)s->elements,
                     (json_int_t)s->bytes, (json_int_t)s->clipped, (json_int_t)s->nonfinite,
                     s->signal, s->noise, s->cross, s->weighted_signal, s->weighted_noise,
                     s->max_error);
}

static int unpack(const json_t *a, kerf_score *s)
{
    json_int_t whole[4];
    double real[6];
    if (json_array_size(a) != 10) return 0;
    for (size_t i = 0; i < 4; i++) {
        const json_t *v = json_array_get(a, i);
        whole[i] = json_integer_value(v);
        if (!json_is_integer(v) || whole[i] < 0) return 0;
    }
    for (size_t i = 0; i < 6; i++) {
        const json_t *v = json_array_get(a, i + 4);
        real[i] = json_number_value(v);
        if (!json_is_number(v)) return 0;
    }
    *s = (kerf_score){.elements = (uint64_t)whole[0],
                      .bytes = (uint64_t)whole[1],
                      .clipped = (uint64_t)whole[2],
                      .nonfinite = (uint64_t)whole[3],
                      .signal = real[0],
                      .noise = real[1],
                      .cross = real[2],
                      .weighted_signal = real[3],
                      .weighted_noise = real[4],
                      .max_error = real[5]};
    return 1;
}

static void make_key(char out[128], uint64_t tensor, uint64_t importance, kerf_codec codec)
{
    char name[64];
    snprintf(out, 128, "%016" PRIx64 "-%016" PRIx64 "-%s", tensor, importance,
             kerf_codec_name(codec, name, sizeof name));
}

kerf_status score_cache_open(score_cache *c, const char *path, kerf_error *err)
{
    json_error_t why;
    *c = (score_cache){.path = path};
    if (!path) return KERF_OK;
    if (access(path, F_OK) == 0) {
        json_t *doc = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
        const char *schema = json_string_value(json_object_get(doc, "schema"));
        const char *version = json_string_value(json_object_get(doc, "version"));
        if (!doc || !schema || strcmp(schema, "kerf.scores/1") != 0) {
            json_decref(doc);
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%.200s: not a file of scores; name another --cache", path);
        }
        if (version && strcmp(version, KERF_VERSION_TEXT) == 0) {
            json_t *scores = json_object_get(doc, "scores");
            if (json_is_object(scores)) c->scores = json_incref(scores);
        }
        json_decref(doc);
    }
    if (!c->scores) c->scores = json_object();
    return c->scores ? KERF_OK
                     : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %.200s", path);
}

int score_cache_find(const score_cache *c, uint64_t tensor, uint64_t importance, kerf_codec codec,
                     kerf_score *out)
{
    char key[128];
    if (!c->scores) return 0;
    make_key(key, tensor, importance, codec);
    return unpack(json_object_get(c->scores, key), out);
}

void score_cache_add(score_cache *c, uint64_t tensor, uint64_t importance, kerf_codec codec,
                     const kerf_score *s)
{
    char key[128];
    if (!c->scores) return;
    make_key(key, tensor, importance, codec);
    json_object_set_new(c->scores, key, pack(s));
    c->added++;
}

kerf_status score_cache_save(score_cache *c, kerf_error *err)
{
    if (!c->path || c->added == 0) return KERF_OK;
    json_t *doc = json_pack("{s:s, s:s, s:O}", "schema", "kerf.scores/1", "version",
                            KERF_VERSION_TEXT, "scores", c->scores);
    char *text = doc ? json_dumps(doc, JSON_INDENT(0) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(doc);
    if (!text) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %.200s", c->path);
    kerf_status s = kerf_file_replace(c->path, text, strlen(text), 1, err);
    free(text);
    return s;
}

void score_cache_close(score_cache *c)
{
    json_decref(c->scores);
    *c = (score_cache){0};
}
