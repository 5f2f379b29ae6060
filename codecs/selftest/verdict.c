/* verdict.c - problems and digest of one codec. */
#include "selftest/verdict.h"
#include <stdio.h>

#include <stdarg.h>

enum { KEPT = 20 }; /* one broken rule fails hundreds of vectors */

void verdict_add(verdict *v, const char *fmt, ...)
{
    char text[512];
    va_list list;
    if (v->problems++ >= KEPT) return;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    if (!v->texts) v->texts = json_array();
    json_array_append_new(v->texts, json_string(text));
}

void verdict_digest(verdict *v, const void *p, size_t n)
{
    uint64_t pair[2] = {v->digest, kerf_hash(p, n)};
    v->digest = kerf_hash(pair, sizeof pair);
}

void verdict_free(verdict *v)
{
    json_decref(v->texts);
    *v = (verdict){0};
}
