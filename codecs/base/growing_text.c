/* growing_text.c - a text that grows. */
#include "base/growing_text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static char *reserve(kf_text *t, size_t n)
{
    if (t->failed) return NULL;
    if (t->capacity - t->n <= n) {
        uint64_t capacity;
        char *p = NULL;
        if (kf_add_ok(t->capacity + t->capacity / 2 + 256, n, &capacity) && capacity <= PTRDIFF_MAX)
            p = realloc(t->p, (size_t)capacity);
        if (!p) {
            t->failed = 1;
            return NULL;
        }
        t->p = p;
        t->capacity = (size_t)capacity;
    }
    return t->p + t->n;
}

void kf_text_add_bytes(kf_text *t, const char *p, size_t n)
{
    char *at = reserve(t, n);
    if (!at) return;
    memcpy(at, p, n);
    at[n] = 0;
    t->n += n;
}

void kf_text_add(kf_text *t, const char *fmt, ...)
{
    char part[256];
    va_list ap;
    kf_plain plain = kf_plain_begin();
    va_start(ap, fmt);
    int n = vsnprintf(part, sizeof part, fmt, ap);
    va_end(ap);
    kf_plain_end(&plain);
    if (n < 0 || (size_t)n >= sizeof part)
        t->failed = 1;
    else
        kf_text_add_bytes(t, part, (size_t)n);
}

void kf_text_fill(kf_text *t, char c, size_t n)
{
    char *at = reserve(t, n);
    if (!at) return;
    memset(at, c, n);
    at[n] = 0;
    t->n += n;
}

/* --- as a stream ----------------------------------------------------------------------------- */

#ifdef __APPLE__
static int take(void *text, const char *p, int n)
{
    kf_text *t = text;
    kf_text_add_bytes(t, p, (size_t)n);
    return t->failed ? -1 : n;
}

static FILE *open_stream(kf_text *t)
{
    return funopen(t, NULL, take, NULL, NULL);
}
#else
static ssize_t take(void *text, const char *p, size_t n)
{
    kf_text *t = text;
    kf_text_add_bytes(t, p, n);
    return t->failed ? 0 : (ssize_t)n;
}

static FILE *open_stream(kf_text *t)
{
    return fopencookie(t, "w", (cookie_io_functions_t){.write = take});
}
#endif

FILE *kf_text_stream(kf_text *t)
{
    FILE *to = open_stream(t);
    if (to) t->plain = kf_plain_begin();
    return to;
}

int kf_text_close(kf_text *t, FILE *to, char **text, size_t *n)
{
    if (!to || ferror(to)) t->failed = 1;
    if (to && fclose(to) != 0) t->failed = 1;
    if (to) kf_plain_end(&t->plain);
    kf_text_fill(t, 0, 0); /* an empty text is one, too */
    if (t->failed) {
        free(t->p);
        t->p = NULL;
        t->n = 0;
    }
    *text = t->p;
    if (n) *n = t->n;
    return !t->failed;
}
