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
