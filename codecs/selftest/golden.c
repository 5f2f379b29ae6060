/* golden.c - unpacks the golden vectors and finds the files of a format among them. */
#include "selftest/golden.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

kerf_status kf_golden_open(kf_golden *out, kerf_error *err)
{
    *out = (kf_golden){0};
    unsigned long long n = ZSTD_getFrameContentSize(kf_golden_pack, kf_golden_pack_bytes);
    if (n == 0 || n > (1u << 28))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "the golden vectors in this library are damaged; install it again");
    KF_TRY(kf_allocate(&out->text, (size_t)n, 1, err));
    out->n = (size_t)n;
    size_t got = ZSTD_decompress(out->text, out->n, kf_golden_pack, kf_golden_pack_bytes);
    if (got == out->n) return KERF_OK;
    kf_golden_close(out);
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "the golden vectors in this library are damaged (%s); install it again",
                   ZSTD_isError(got) ? ZSTD_getErrorName(got) : "too short");
}

void kf_golden_close(kf_golden *g)
{
    free(g->text);
    *g = (kf_golden){0};
}

int kf_golden_is_of(const char *name, const kerf_format *f)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    size_t n = strlen(f->name);
    return strncmp(base, f->name, n) == 0 && (base[n] == 0 || strcmp(base + n, ".txt") == 0);
}

/* Where the next line "file ..." begins, at or after p. */
static const char *find_file(const char *p, const char *end)
{
    while (p < end && !(end - p > 5 && memcmp(p, "file ", 5) == 0)) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        p = stop ? stop + 1 : end;
    }
    return p;
}

int kf_golden_next(const kf_golden *g, const kerf_format *f, size_t *at, kf_golden_file *out)
{
    const char *end = g->text + g->n, *p = find_file(g->text + *at, end);
    while (p < end) {
        const char *name = p + 5, *stop = memchr(name, '\n', (size_t)(end - name));
        if (!stop) break;
        p = find_file(stop, end);
        size_t n =
            (size_t)(stop - name) < sizeof out->name ? (size_t)(stop - name) : sizeof out->name - 1;
        memcpy(out->name, name, n);
        out->name[n] = 0;
        out->text = stop + 1;
        out->n = (size_t)(p - out->text);
        *at = (size_t)(p - g->text);
        if (kf_golden_is_of(out->name, f)) return 1;
    }
    return 0;
}
