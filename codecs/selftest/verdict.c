/* verdict.c - counts the problems of one codec and keeps the first texts; adds up its digest. */
#include "selftest/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kf_verdict_add(kf_verdict *v, const char *fmt, ...)
{
    char text[512];
    va_list list;
    v->problems++;
    if (v->texts == KF_VERDICT_TEXTS) return;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    char *copy = strdup(text);
    if (copy) v->text[v->texts++] = copy; /* without memory for it the count must do */
}

void kf_verdict_digest(kf_verdict *v, const void *p, size_t n)
{
    uint64_t pair[2] = {v->digest, kerf_hash(p, n)};
    v->digest = kerf_hash(pair, sizeof pair);
}

void kf_verdict_free(kf_verdict *v)
{
    for (size_t i = 0; i < v->texts; i++) free(v->text[i]);
    *v = (kf_verdict){0};
}
