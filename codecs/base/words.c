/* words.c - names that people type: patterns, suggestions, suffixes, and texts safe to print. */
#include <fnmatch.h>
#include <kerf/words.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/characters.h"
#include "base/plain_numbers.h"

int kf_has_suffix(const char *text, const char *suffix)
{
    const size_t n = strlen(text), m = strlen(suffix);
    return n >= m && memcmp(text + n - m, suffix, m) == 0;
}

/* A pattern whose only wildcards are stars. What stands before the first star and behind the last
 * one tells most names apart; pieces between them are taken where they come first, which no other
 * place could better. fnmatch takes several times as long. */
static int stars_match(const char *glob, const char *name)
{
    const char *star = strchr(glob, '*'), *last = strrchr(glob, '*');
    const size_t n = strlen(name), head = (size_t)(star - glob), tail = strlen(last + 1);
    if (n < head + tail || memcmp(glob, name, head) != 0 ||
        memcmp(last + 1, name + n - tail, tail) != 0)
        return 0;
    const char *at = name + head, *end = name + n - tail;
    while (star < last) {
        const char *piece = star + 1;
        star = strchr(piece, '*');
        const size_t bytes = (size_t)(star - piece);
        while ((size_t)(end - at) >= bytes && memcmp(at, piece, bytes) != 0) at++;
        if ((size_t)(end - at) < bytes) return 0;
        at += bytes;
    }
    return 1;
}

int kerf_glob_matches(const char *glob, const char *name)
{
    if (glob[strcspn(glob, "?[\\")]) return fnmatch(glob, name, 0) == 0;
    return strchr(glob, '*') ? stars_match(glob, name) : strcmp(glob, name) == 0;
}

char *kerf_glob_escape(const char *name, char *out, size_t size)
{
    size_t n = 0;
    for (; *name && n + 3 < size; name++) {
        if (strchr("*?[]\\", *name)) out[n++] = '\\';
        out[n++] = *name;
    }
    if (size) out[n] = 0;
    return out;
}

/* --- names, as people write them ---------------------------------------------------------------
 */

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* The next letter or digit at *text, in lower case, and moves past it; 0 at the end. Bytes beyond
 * ASCII count as letters. */
static char next_sign(const char **text)
{
    while (**text) {
        const char c = lower(*(*text)++);
        if ((c >= 'a' && c <= 'z') || is_digit(c) || (unsigned char)c >= 0x80) return c;
    }
    return 0;
}

int kerf_name_begins(const char *name, const char *text)
{
    char want = next_sign(&text);
    if (!want) return 0;
    for (; want; want = next_sign(&text))
        if (next_sign(&name) != want) return 0;
    return 1;
}

int kerf_names_match(const char *a, const char *b)
{
    return kerf_name_begins(a, b) && kerf_name_begins(b, a);
}

/* Whether two texts have the same digits, in the same order. */
static int has_digits_of(const char *text, const char *word)
{
    for (;; text++, word++) {
        while (*text && !is_digit(*text)) text++;
        while (*word && !is_digit(*word)) word++;
        if (*text != *word) return 0;
        if (!*text) return 1;
    }
}

/* Edits (insert, delete, replace, swap neighbours) from a to b; words over 31 bytes are far. */
static unsigned edit_distance(const char *a, const char *b)
{
    enum { MOST = 32 };
    const size_t n = strlen(a), m = strlen(b);
    if (n >= MOST || m >= MOST) return MOST;
    unsigned d[MOST][MOST];
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = (unsigned)(i + j);
                continue;
            }
            const char x = lower(a[i - 1]), y = lower(b[j - 1]);
            unsigned best = d[i - 1][j - 1] + (x != y);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            const int swapped = i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y;
            if (swapped && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

const char *kerf_nearest_word(const char *text, const char *const *words)
{
    const unsigned bound = ((unsigned)strlen(text) + 1) / 4 + 1;
    const char *best = NULL;
    unsigned least = bound;
    for (; *words; words++) {
        if (!has_digits_of(text, *words)) continue;
        unsigned distance = edit_distance(text, *words);
        if (strlen(text) >= 3 && distance > 1 && kerf_name_begins(*words, text)) distance = 1;
        if (distance >= bound || distance > least) continue;
        if (distance < least) {
            best = *words;
            least = distance;
        } else if (best && !kerf_name_begins(*words, best)) {
            /* as near: none, unless the other goes on from this one */
            best = kerf_name_begins(best, *words) ? *words : NULL;
        }
    }
    return best;
}

/* --- texts to print ------------------------------------------------------------------------------
 */

char *kerf_text_printable(const char *text, char *out, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = 0;
    while (s[n]) {
        const size_t character = kf_character_bytes(s + n), bytes = character ? character : 1;
        if (n + bytes >= size) break;
        memcpy(out + n, text + n, bytes);
        if (!character || kf_is_control(s + n)) memset(out + n, '?', bytes);
        n += bytes;
    }
    if (size) out[n] = 0;
    return out;
}

char *kerf_bytes_text(uint64_t bytes, char *out)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit < 5) {
        value /= 1024;
        unit++;
    }
    kf_print(out, KERF_BYTES_TEXT, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
    return out;
}

char *kerf_shape_text(const kerf_shape *shape, char *out)
{
    size_t n = 0;
    out[0] = 0;
    if (shape->rank > KERF_MAX_RANK) {
        snprintf(out, KERF_SHAPE_TEXT, "no shape");
        return out;
    }
    for (unsigned i = 0; i < shape->rank && n < KERF_SHAPE_TEXT; i++) {
        int k = snprintf(out + n, KERF_SHAPE_TEXT - n, "%s%llu", i ? "x" : "",
                         (unsigned long long)shape->dim[i]);
        if (k > 0) n += (size_t)k;
    }
    if (shape->rank == 0) snprintf(out, KERF_SHAPE_TEXT, "scalar");
    return out;
}
