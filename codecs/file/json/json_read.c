/* json_read.c - a JSON file, or a text, as a tree. */
#include "file/json/json_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "file/disk/download.h"
#include "file/disk/io.h"

#define MOST_DIGITS 18             /* of an integer that fits 64 bits */
#define LITTLE ((uint64_t)1 << 20) /* memory that need not be counted */

/* --- numbers of Python ---------------------------------------------------------------------- */

static int is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '+' ||
           c == '-' || c == '.';
}

/* A word of Python's that JSON does not have. */
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

/* Puts "0" and spaces in their place, so that lines and columns stay what they are. */
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

/* --- memory --------------------------------------------------------------------------------- */

/* What jansson takes for each kind of value at most, as measured, told by the character that begins
 * or ends it. Strings count twice what they are: their quotes here, their bytes as text. */
static uint64_t memory_of(char c)
{
    switch (c) {
    case '{': return 224;
    case '[': return 128;
    case ':': return 56;
    case ',': return 40; /* a number */
    case '"': return 40;
    default: return 0;
    }
}

kerf_status kf_json_check_memory(const char *what, const char *text, size_t n, uint64_t limit,
                                 kerf_error *err)
{
    const uint64_t most = limit < LITTLE / KF_JSON_MEMORY ? LITTLE : KF_JSON_MEMORY * limit;
    uint64_t bytes = n;
    int in_string = 0;
    if (n <= most / 256) return KERF_OK; /* not even if all of it were braces */
    for (size_t i = 0; i < n; i++) {
        if (!in_string || text[i] == '"') bytes += memory_of(text[i]);
        if (text[i] == '"') in_string = !in_string;
        if (in_string && text[i] == '\\') i++;
    }
    if (bytes <= most) return KERF_OK;
    return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                   "%.200s: %llu MiB of memory would be needed to read it, at most %llu are taken",
                   what, (unsigned long long)(bytes >> 20), (unsigned long long)(most >> 20));
}

/* --- parsing -------------------------------------------------------------------------------- */

/* What editors on Windows put before a text, which JSON may not have: it cannot be seen. */
static const char *find_mark(const char *text, size_t n)
{
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) return "a byte order (BOM)";
    if (n >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        return "UTF-16";
    return NULL;
}

static kerf_status parse(const char *what, const char *text, size_t n, uint64_t limit, json_t **out,
                         kerf_error *err)
{
    json_error_t why;
    *out = NULL;
    if (n == 0) return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: is empty", what);
    KF_TRY(kf_json_check_memory(what, text, n, limit, err));
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (json_is_object(*out)) return KERF_OK;
    if (*out) {
        json_decref(*out);
        *out = NULL;
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: not a JSON object", what);
    }
    if (json_error_code(&why) == json_error_out_of_memory)
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%.200s: no memory", what);
    const char *is = kf_download_is(text, n < KF_DOWNLOAD_BYTES ? n : KF_DOWNLOAD_BYTES);
    if (is) return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: %s", what, is);
    const char *mark = find_mark(text, n);
    if (mark)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: begins with the mark of %s: save it as "
                       "UTF-8 without one",
                       what, mark);
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s:%d: %.150s", what, why.line, why.text);
}

kerf_status kf_json_parse(const char *what, const char *text, size_t n, kf_json_dialect dialect,
                          json_t **out, kerf_error *err)
{
    *out = NULL;
    if (dialect == KF_JSON_STRICT)
        return parse(what, text, n, KF_JSON_MAX_DOCUMENT_BYTES, out, err);
    char *copy = kf_alloc(n, 1);
    if (!copy) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%.200s: no memory", what);
    if (n > 0) memcpy(copy, text, n);
    replace_foreign(copy, n);
    kerf_status s = parse(what, copy, n, KF_JSON_MAX_DOCUMENT_BYTES, out, err);
    free(copy);
    return s;
}

kerf_status kf_json_read(const char *path, uint64_t limit, kf_json_dialect dialect, json_t **out,
                         kerf_error *err)
{
    char *text;
    size_t n;
    *out = NULL;
    KF_TRY(kf_read_whole(path, limit, &text, &n, err));
    if (dialect == KF_JSON_PYTHON) replace_foreign(text, n);
    kerf_status s = parse(path, text, n, limit, out, err);
    const char *is = kf_download_is(text, n < KF_DOWNLOAD_BYTES ? n : KF_DOWNLOAD_BYTES);
    free(text);
    if (s != KERF_OK || !is) return s;
    json_decref(*out); /* a server's answer may be JSON as well */
    *out = NULL;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: %s", path, is);
}

int kf_json_is_absent(const char *path, kerf_status s, const kerf_error *err)
{
    struct stat st;
    return s == KERF_E_IO && err->native == ENOENT && lstat(path, &st) != 0 && errno == ENOENT;
}
