/* failure.c - how the command fails: one line of text, one documented exit code. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

kerf_status fail(kerf_error *err, kerf_status s, const char *fmt, ...)
{
    if (!err) return s;
    err->status = s;
    err->native = 0;
    err->offset = UINT64_MAX;
    va_list list;
    va_start(list, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, list);
    va_end(list);
    return s;
}

kerf_status fail_at(kerf_error *err, kerf_status s, const char *where)
{
    if (!err) return s;
    const size_t room = sizeof err->text - 1;
    size_t n = strlen(where) < room / 2 ? strlen(where) : room / 2;
    size_t rest = strlen(err->text) < room - n - 2 ? strlen(err->text) : room - n - 2;
    memmove(err->text + n + 2, err->text, rest);
    memcpy(err->text, where, n);
    memcpy(err->text + n, ": ", 2);
    err->text[n + 2 + rest] = 0;
    return s;
}

int exit_code(kerf_status s)
{
    switch (s) {
    case KERF_OK: return EXIT_OK;
    case KERF_E_ARG:
    case KERF_E_EXISTS: return EXIT_USAGE;
    case KERF_E_DATA:
    case KERF_E_RANGE:
    case KERF_E_NOSUP: return EXIT_INPUT;
    case KERF_E_IO: return EXIT_IO;
    case KERF_E_NOMEM:
    case KERF_E_LIMIT: return EXIT_LIMIT;
    case KERF_E_CUDA: return EXIT_DEVICE;
    case KERF_E_BUFFER:
    case KERF_E_CANCELED: break;
    }
    return EXIT_INTERNAL;
}

kerf_status allocate(void *out, size_t count, size_t size, kerf_error *err)
{
    void *p = calloc(count ? count : 1, size);
    memcpy(out, &p, sizeof p);
    if (p) return KERF_OK;
    return fail(err, KERF_E_NOMEM, "no memory for %zu x %zu bytes", count, size);
}

char *printable(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; text[n] && n + 1 < size; n++) {
        unsigned char c = (unsigned char)text[n];
        out[n] = c < 0x20 || c == 0x7f ? '?' : text[n];
    }
    if (size) out[n] = 0;
    return out;
}

/* Edits (insert, delete, replace, swap neighbours) from a to b; words over 31 bytes are far. */
static unsigned edit_distance(const char *a, const char *b)
{
    enum { MOST = 32 };
    size_t n = strlen(a), m = strlen(b);
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
            int swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

const char *nearest_word(const char *text, const char *const *words)
{
    const char *best = NULL;
    unsigned least = (unsigned)strlen(text) / 3 + 2;
    for (; *words; words++) {
        unsigned distance = edit_distance(text, *words);
        int begins = strlen(text) >= 3 && strncmp(text, *words, strlen(text)) == 0;
        if (begins) distance = 1;
        if (distance >= least) continue;
        least = distance;
        best = *words;
    }
    return best;
}
