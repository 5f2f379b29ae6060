/* words.c - names that people type: patterns, suggestions, suffixes, and texts safe to print. */
#include <fnmatch.h>
#include <kerf/words.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

int kf_has_suffix(const char *text, const char *suffix)
{
    const size_t n = strlen(text), m = strlen(suffix);
    return n >= m && memcmp(text + n - m, suffix, m) == 0;
}

int kerf_glob_matches(const char *glob, const char *name)
{
    return fnmatch(glob, name, 0) == 0;
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
            unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            const int swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

const char *kerf_nearest_word(const char *text, const char *const *words)
{
    const char *best = NULL;
    unsigned least = (unsigned)strlen(text) / 3 + 2;
    for (; *words; words++) {
        unsigned distance = edit_distance(text, *words);
        const int begins = strlen(text) >= 3 && strncmp(text, *words, strlen(text)) == 0;
        if (begins) distance = 1;
        if (distance >= least) continue;
        least = distance;
        best = *words;
    }
    return best;
}

char *kerf_text_printable(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; text[n] && n + 1 < size; n++) {
        const unsigned char c = (unsigned char)text[n];
        /* U+0080 to U+009F are controls too, in two bytes */
        const unsigned char before = n > 0 ? (unsigned char)text[n - 1] : 0;
        out[n] = c < 0x20 || c == 0x7f ? '?' : text[n];
        if (before == 0xc2 && c >= 0x80 && c < 0xa0) out[n - 1] = out[n] = '?';
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
    snprintf(out, KERF_BYTES_TEXT, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
    return out;
}
