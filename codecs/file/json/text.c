/* text.c - a text that grows. */
#include "file/json/text.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *reserve(kf_text *t, size_t n)
{
    if (t->failed) return NULL;
    if (t->capacity - t->n <= n) {
        uint64_t capacity = t->capacity + t->capacity / 2 + n + 256;
        char *p = realloc(t->p, capacity);
        if (!p) {
            t->failed = 1;
            return NULL;
        }
        t->p = p;
        t->capacity = capacity;
    }
    return t->p + t->n;
}

static int append(const char *p, size_t n, void *text)
{
    kf_text *t = text;
    char *at = reserve(t, n);
    if (!at) return -1;
    memcpy(at, p, n);
    at[n] = 0;
    t->n += n;
    return 0;
}

void kf_text_add(kf_text *t, const char *fmt, ...)
{
    char part[256];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(part, sizeof part, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof part)
        t->failed = 1;
    else
        append(part, (size_t)n, t);
}

void kf_text_add_bytes(kf_text *t, const char *p, size_t n)
{
    append(p, n, t);
}

void kf_text_add_quoted(kf_text *t, const char *s)
{
    json_t *j = json_string(s);
    if (!j || json_dump_callback(j, append, t, JSON_ENCODE_ANY) != 0) t->failed = 1;
    json_decref(j);
}

void kf_text_fill(kf_text *t, char c, size_t n)
{
    char *at = reserve(t, n);
    if (!at) return;
    memset(at, c, n);
    at[n] = 0;
    t->n += n;
}

int kf_is_utf8(const char *s)
{
    json_t *j = json_string(s);
    json_decref(j);
    return j != NULL;
}
