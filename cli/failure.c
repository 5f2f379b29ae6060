/* failure.c - from a failure to an exit code, and memory. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

int exit_code(kerf_status s)
{
    switch (s) {
    case KERF_OK: return EXIT_OK;
    case KERF_E_ARG: return EXIT_USAGE;
    case KERF_E_DATA:
    case KERF_E_RANGE:
    case KERF_E_NOSUP: return EXIT_INPUT;
    case KERF_E_EXISTS:
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
    return kerf_fail(err, KERF_E_NOMEM, "no memory for %zu x %zu bytes", count, size);
}
