/* config_text.c - the JSON files beside a model, as Python writes and reads them: NaN, Infinity and
 * integers of any length stand in them for numbers, which JSON has not. Nobody asks here for such a
 * number; 0 stands in its place. All else that is no JSON is refused, whatever a loader makes of
 * it. */
#include "file/json/config_text.h"

#include <stdlib.h>
#include <string.h>

#include "file/disk/io.h"

#define MAX_CONFIG_BYTES (1u << 24)
#define MOST_DIGITS 18 /* of an integer that fits 64 bits */

static int is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '+' ||
           c == '-' || c == '.';
}

static int is_foreign(const char *word, size_t n)
{
    static const char *const names[] = {"NaN", "Infinity", "-Infinity"};
    const size_t sign = n > 0 && word[0] == '-';
    size_t digits = sign;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (n == strlen(names[i]) && memcmp(word, names[i], n) == 0) return 1;
    while (digits < n && word[digits] >= '0' && word[digits] <= '9') digits++;
    return digits == n && n - sign > MOST_DIGITS && word[sign] != '0';
}

/* In place: no text becomes longer. */
static void replace_foreign(char *text, size_t n)
{
    int in_string = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"') in_string = !in_string;
        if (in_string && text[i] == '\\') i++;
        if (in_string || !is_word(text[i])) continue;
        size_t end = i;
        while (end < n && is_word(text[end])) end++;
        if (is_foreign(text + i, end - i)) {
            memset(text + i, ' ', end - i);
            text[i] = '0';
        }
        i = end - 1;
    }
}

/* The same text for any parser. */
static kerf_status parse(const char *what, char *text, size_t n, json_t **out, kerf_error *err)
{
    json_error_t why;
    replace_foreign(text, n);
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (json_is_object(*out)) return KERF_OK;
    json_t *other = *out;
    *out = NULL;
    if (!other && json_error_code(&why) == json_error_out_of_memory)
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", what);
    json_decref(other);
    if (other) return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: not a JSON object", what);
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: damaged in line %d: %.100s", what, why.line,
                   why.text);
}

kerf_status kf_config_check(const char *what, const char *text, size_t n, kerf_error *err)
{
    json_t *j = NULL;
    char *copy = kf_alloc(n + 1, 1);
    if (!copy) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", what);
    memcpy(copy, text, n);
    kerf_status s = parse(what, copy, n, &j, err);
    json_decref(j);
    free(copy);
    return s;
}

kerf_status kf_config_load(const kerf_reader *r, const char *name, json_t **out, kerf_error *err)
{
    char *path = kf_path_join(kerf_reader_folder(r), name), *text = NULL;
    size_t n;
    *out = NULL;
    if (!path) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %s", name);
    kerf_status s = kf_read_whole(path, MAX_CONFIG_BYTES, &text, &n, err);
    if (s == KERF_OK) s = parse(path, text, n, out, err);
    free(text);
    free(path);
    return s;
}

kerf_status kerf_config_read(const kerf_reader *r, const char *name, char **out, kerf_error *err)
{
    json_t *j;
    *out = NULL;
    KF_TRY(kf_config_load(r, name, &j, err));
    *out = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    return *out ? KERF_OK : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %s", name);
}
