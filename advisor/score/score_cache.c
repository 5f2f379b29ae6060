/* score_cache.c - reads and writes a file of scores: an object with one array of numbers per key.
 */
#include "score/score_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/json/json_read.h"
#include "file/json/json_text.h"

/* The fields of a score that are kept, in this order. */
static json_t *pack(const kerf_score *s)
{
    return json_pack("[I, I, I, I, f, f, f, f, f, f, f, f, I, I]", (json_int_t)s->elements,
                     (json_int_t)s->bytes, (json_int_t)s->clipped, (json_int_t)s->nonfinite,
                     s->signal, s->noise, s->cross, s->weighted_signal, s->weighted_noise,
                     s->max_error, s->rest_signal, s->rest_noise, (json_int_t)s->zeroed,
                     (json_int_t)s->lost_blocks);
}

static int unpack(const json_t *a, kerf_score *s)
{
    json_int_t whole[4];
    double real[8];
    const json_t *zeroed = json_array_get(a, 12), *lost = json_array_get(a, 13);
    if (json_array_size(a) != 14 || json_integer_value(zeroed) < 0) return 0;
    if (!json_is_integer(lost) || json_integer_value(lost) < 0) return 0;
    for (size_t i = 0; i < 4; i++) {
        const json_t *v = json_array_get(a, i);
        whole[i] = json_integer_value(v);
        if (!json_is_integer(v) || whole[i] < 0) return 0;
    }
    for (size_t i = 0; i < 8; i++) {
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
                      .max_error = real[5],
                      .rest_signal = real[6],
                      .rest_noise = real[7],
                      .zeroed = (uint64_t)json_integer_value(zeroed),
                      .lost_blocks = (uint64_t)json_integer_value(lost)};
    return 1;
}

static void make_name(char out[128], kf_score_key key, kerf_codec codec)
{
    char name[64];
    snprintf(out, 128, "%016" PRIx64 "-%016" PRIx64 "-%s", key.tensor, key.importance,
             kerf_codec_name(codec, name, sizeof name));
}

kerf_status kf_score_cache_open(kf_score_cache *c, const char *path, kerf_error *err)
{
    json_t *doc = NULL;
    kerf_error why = {.text = ""};
    *c = (kf_score_cache){.path = path};
    if (!path) return KERF_OK;
    kerf_status s = kf_json_read(path, KF_JSON_MAX_DOCUMENT_BYTES, KF_JSON_STRICT, &doc, &why);
    const int is_absent = kf_json_is_absent(path, s, &why);
    if (s == KERF_E_DATA || (s == KERF_OK && !kf_json_has_schema(doc, "kerf.scores/1")))
        s = kf_fail(&why, KERF_E_DATA, KF_NOWHERE,
                    "%.200s: not a file of scores; name another --cache", path);
    const char *version = json_string_value(json_object_get(doc, "version"));
    if (s == KERF_OK && version && strcmp(version, KERF_VERSION_TEXT) == 0) {
        json_t *scores = json_object_get(doc, "scores");
        if (json_is_object(scores)) c->scores = json_incref(scores);
    }
    json_decref(doc);
    if (s != KERF_OK && !is_absent) {
        if (err) *err = why;
        return s;
    }
    if (!c->scores) c->scores = json_object();
    return c->scores ? KERF_OK
                     : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %.200s", path);
}

int kf_score_cache_find(const kf_score_cache *c, kf_score_key key, kerf_codec codec,
                        kerf_score *out)
{
    char name[128];
    if (!c->scores) return 0;
    make_name(name, key, codec);
    return unpack(json_object_get(c->scores, name), out);
}

void kf_score_cache_add(kf_score_cache *c, kf_score_key key, kerf_codec codec, const kerf_score *s)
{
    char name[128];
    if (!c->scores) return;
    make_name(name, key, codec);
    if (json_object_set_new(c->scores, name, pack(s)) == 0)
        c->added++;
    else
        c->lost = 1;
}

kerf_status kf_score_cache_save(const kf_score_cache *c, kerf_error *err)
{
    char *text;
    size_t n;
    if (c->lost) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %.200s", c->path);
    if (!c->path || c->added == 0) return KERF_OK;
    json_t *doc = json_pack("{s:s, s:s, s:O}", "schema", "kerf.scores/1", "version",
                            KERF_VERSION_TEXT, "scores", c->scores);
    KF_TRY(kf_json_write(doc, JSON_INDENT(0) | JSON_REAL_PRECISION(17), &text, &n, err));
    kerf_status s = kerf_file_replace(c->path, text, n, 1, err);
    free(text);
    return s;
}

void kf_score_cache_close(kf_score_cache *c)
{
    json_decref(c->scores);
    *c = (kf_score_cache){0};
}
