/* selftest_json.c - what a self-test found, for programs. */
#include <kerf/selftest.h>

#include <stdio.h>

#include "file/json/json_text.h"

static json_t *codec_json(const kerf_selftest_row *r)
{
    char name[64], digest[24];
    json_t *problems = r->texts ? json_array() : NULL;
    for (size_t i = 0; i < r->texts; i++) kf_json_add(&problems, kf_json_path(r->problem[i]));
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)r->digest);
    return json_pack("{s:s, s:s*, s:b, s:I, s:b, s:I, s:o*}", "format",
                     kerf_codec_name(r->codec, name, sizeof name), "digest",
                     r->tried ? digest : NULL, "recorded", r->recorded, "vectors",
                     (json_int_t)r->vectors, "pass", r->problems == 0, "problems",
                     (json_int_t)r->problems, "first_problems", problems);
}

kerf_status kerf_selftest_write(const kerf_selftest_result *r, char **text, size_t *n,
                                kerf_error *err)
{
    json_t *tried = json_array(), *codecs = json_array();
    for (size_t i = 0; i < r->backends; i++) kf_json_add(&tried, json_string(r->backend[i]));
    for (size_t i = 0; i < r->rows; i++) kf_json_add(&codecs, codec_json(&r->row[i]));
    json_t *doc = json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:f, s:o, s:o}", "schema",
                            "kerf.selftest/1", "pass", r->failed == 0, "passed",
                            (json_int_t)r->passed, "failed", (json_int_t)r->failed, "unrecorded",
                            (json_int_t)r->unrecorded, "vectors", (json_int_t)r->vectors, "seconds",
                            r->seconds, "backends", tried, "codecs", codecs);
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}
