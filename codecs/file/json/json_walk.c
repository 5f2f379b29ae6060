/* json_walk.c - reads a large JSON object member by member. */
#include "file/json/json_walk.h"

#include <inttypes.h>
#include <string.h>

#include "file/disk/download.h"
#include "file/json/json_read.h"

enum { BEFORE_FIRST, AFTER_COMMA, AT_END };

static kerf_status fail_at(kf_json j, size_t at, kerf_error *err, const char *why)
{
    return kf_fail(err, KERF_E_DATA, at, "%s: %s (byte %zu)", j.what, why, at);
}

static size_t skip_space(kf_json j, size_t i)
{
    while (i < j.n &&
           (j.text[i] == ' ' || j.text[i] == '\t' || j.text[i] == '\n' || j.text[i] == '\r'))
        i++;
    return i;
}

/* i stands on an opening quote; returns the place behind the closing one, j.n + 1 without one. */
static size_t skip_string(kf_json j, size_t i)
{
    for (i++; i < j.n; i++) {
        if (j.text[i] == '\\')
            i++;
        else if (j.text[i] == '"')
            return i + 1;
    }
    return j.n + 1;
}

static kerf_status check_string(kf_json j, size_t *i, kerf_error *err)
{
    size_t start = *i, end = skip_string(j, start);
    if (end > j.n) return fail_at(j, start, err, "a string does not end");
    for (size_t k = start; k + 1 < end; k++) {
        if (j.text[k] == 0) return fail_at(j, k, err, "NUL in a string");
        if (j.text[k] != '\\') continue;
        if (end - k > 6 && memcmp(j.text + k, "\\u0000", 6) == 0)
            return fail_at(j, k, err, "NUL in a string");
        k++;
    }
    *i = end;
    return KERF_OK;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static kerf_status check_number(kf_json j, size_t *i, kerf_error *err)
{
    static const char why[] = "a number is not a plain unsigned integer";
    size_t k = *i;
    while (k < j.n && is_digit(j.text[k])) k++;
    if (k == *i || (k < j.n && strchr(".eE+-", j.text[k]) && j.text[k]))
        return fail_at(j, *i, err, why);
    *i = k;
    return KERF_OK;
}

static kerf_status check_end(kf_json j, size_t i, kerf_error *err)
{
    i = skip_space(j, i);
    if (i == j.n) return KERF_OK;
    return fail_at(j, i, err,
                   j.text[i] ? "bytes follow the JSON object"
                             : "NUL bytes follow the JSON object, pad with spaces");
}

kerf_status kf_json_check(kf_json j, const kf_json_rules *rules, uint64_t *members, kerf_error *err)
{
    unsigned depth = 0;
    size_t i = rules->brace_first ? 0 : skip_space(j, 0);
    *members = 1;
    if (i >= j.n || j.text[i] != '{') {
        const char *is = kf_download_is(j.text, j.n < KF_DOWNLOAD_BYTES ? j.n : KF_DOWNLOAD_BYTES);
        return fail_at(j, i, err, is ? is : j.n == 0 ? "is empty" : "does not start with '{'");
    }
    while (i < j.n) {
        char c = j.text[i];
        if (c == '"') {
            KF_TRY(check_string(j, &i, err));
            continue;
        }
        if (rules->integers_only && (is_digit(c) || c == '-')) {
            KF_TRY(check_number(j, &i, err));
            continue;
        }
        if ((c == '{' || c == '[') && ++depth > rules->max_depth)
            return fail_at(j, i, err, "nested too deep");
        if (c == ',' && depth == 1) ++*members;
        if ((c == '}' || c == ']') && --depth == 0) return check_end(j, i + 1, err);
        i++;
    }
    return fail_at(j, j.n, err, "the JSON object does not end");
}

void kf_json_walk_init(kf_json_walk *w, kf_json j)
{
    w->json = j;
    w->at = 0;
    w->state = BEFORE_FIRST;
}

/* The place of the comma or brace that ends a value, j.n without one. */
static size_t find_value_end(kf_json j, size_t i)
{
    size_t depth = 0;
    while (i < j.n) {
        char c = j.text[i];
        if (c == '"') {
            i = skip_string(j, i);
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}')) return i;
        if (c == '{' || c == '[') depth++;
        if ((c == '}' || c == ']') && depth-- == 0) break;
        i++;
    }
    return j.n;
}

static kerf_status begin_object(kf_json_walk *w, kerf_error *err)
{
    kf_json j = w->json;
    size_t i = skip_space(j, 0);
    if (i >= j.n || j.text[i] != '{') return fail_at(j, i, err, "not a JSON object");
    w->at = skip_space(j, i + 1);
    if (w->at < j.n && j.text[w->at] == '}') {
        w->state = AT_END;
        return check_end(j, w->at + 1, err);
    }
    w->state = AFTER_COMMA;
    return KERF_OK;
}

kerf_status kf_json_walk_next(kf_json_walk *w, kf_member *m, int *more, kerf_error *err)
{
    kf_json j = w->json;
    *more = 0;
    if (w->state == BEFORE_FIRST) KF_TRY(begin_object(w, err));
    if (w->state == AT_END) return KERF_OK;

    size_t key = skip_space(j, w->at);
    if (key >= j.n || j.text[key] != '"')
        return fail_at(j, key, err, "a name in quotes must follow");
    size_t key_end = skip_string(j, key);
    size_t colon = skip_space(j, key_end);
    if (colon >= j.n || j.text[colon] != ':')
        return fail_at(j, colon, err, "':' must follow a name");
    size_t value = colon + 1, end = find_value_end(j, value);
    if (end >= j.n) return fail_at(j, value, err, "a value does not end");

    m->key = (kf_json){j.what, j.text + key, key_end - key};
    m->value = (kf_json){j.what, j.text + value, end - value};
    w->at = end + 1;
    *more = 1;
    if (j.text[end] == ',') return KERF_OK;
    w->state = AT_END;
    return check_end(j, end + 1, err);
}

/* Printable ASCII without escapes stands for itself. Nearly all names do, and jansson takes twenty
 * times as long over them. */
static int is_plain_string(kf_json part)
{
    if (part.n < 2 || part.text[0] != '"' || part.text[part.n - 1] != '"') return 0;
    for (size_t i = 1; i + 1 < part.n; i++) {
        unsigned char c = (unsigned char)part.text[i];
        if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') return 0;
    }
    return 1;
}

kerf_status kf_json_string(kf_json part, char *dst, size_t *length, kerf_error *err)
{
    json_t *j;
    if (is_plain_string(part)) {
        *length = part.n - 2;
        memcpy(dst, part.text + 1, *length);
        dst[*length] = 0;
        return KERF_OK;
    }
    KF_TRY(kf_json_load(part, &j, err));
    *length = SIZE_MAX;
    if (json_is_string(j)) {
        *length = json_string_length(j);
        memcpy(dst, json_string_value(j), *length + 1);
    }
    json_decref(j);
    return KERF_OK;
}

kerf_status kf_json_load(kf_json part, json_t **out, kerf_error *err)
{
    json_error_t e;
    *out = NULL;
    KF_TRY(kf_json_check_memory(part.what, part.text, part.n, KF_JSON_MAX_TABLE_BYTES, err));
    *out = json_loadb(part.text, part.n, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &e);
    if (*out) return KERF_OK;
    if (json_error_code(&e) == json_error_out_of_memory)
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", part.what);
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: not valid JSON: %s", part.what, e.text);
}
