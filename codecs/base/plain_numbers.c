/* plain_numbers.c - the locale C for a while, in one thread. */
#include "base/plain_numbers.h"

#include <stdarg.h>
#include <stdio.h>

kf_plain kf_plain_begin(void)
{
    kf_plain p = {
        .own = newlocale(LC_ALL_MASK, "C", (locale_t)0)}; /* takes no memory in glibc, musl */
    if (p.own) p.before = uselocale(p.own);
    return p;
}

void kf_plain_end(kf_plain *p)
{
    if (!p->own) return;
    uselocale(p->before);
    freelocale(p->own);
    *p = (kf_plain){0};
}

int kf_print(char *out, size_t size, const char *fmt, ...)
{
    va_list ap;
    kf_plain p = kf_plain_begin();
    va_start(ap, fmt);
    const int n = vsnprintf(out, size, fmt, ap);
    va_end(ap);
    kf_plain_end(&p);
    return n;
}
