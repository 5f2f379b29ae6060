/* compose.c - canonical normalization. A text is cut before characters that begin anew (of class 0,
 * and no second part of any pair); each run is taken apart, put in order, and composed.
 *
 * Source: Unicode Standard Annex 15, and chapter 3.12 for Hangul. */
#include "compose.h"

#include <stdlib.h>
#include <string.h>

#include "unicode_tables.h"
#include "utf8.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define POINT 0xffffffu

enum { S = 0xac00, L = 0x1100, V = 0x1161, T = 0x11a7, LS = 19, VS = 21, TS = 28, SS = 11172 };

/* A character of a run. */
typedef struct mark {
    uint32_t point;
    uint32_t order; /* class << 24, then its place: sorts stably */
} mark;

typedef struct run {
    mark *m;
    size_t n, capacity;
    int failed;
} run;

static uint32_t class_of(uint32_t c)
{
    size_t a = 0, b = COUNT(classes);
    if (c < (classes[0] & POINT)) return 0;
    while (b - a > 1) {
        const size_t m = a + (b - a) / 2;
        if ((classes[m] & POINT) <= c)
            a = m;
        else
            b = m;
    }
    return classes[a] >> 24;
}

/* The decomposition of a character: its length, 1 where it has none. */
static size_t decompose(uint32_t c, uint32_t out[4])
{
    size_t a = 0, b = COUNT(decomposed);
    if (c >= S && c < S + SS) {
        const uint32_t i = c - S, t = i % TS;
        out[0] = L + i / (VS * TS);
        out[1] = V + i % (VS * TS) / TS;
        out[2] = T + t;
        return t ? 3 : 2;
    }
    while (b > a) {
        const size_t m = a + (b - a) / 2;
        const uint32_t at = decomposed[m] & POINT;
        if (at == c) {
            const size_t n = decomposed[m] >> 24;
            for (size_t i = 0; i < n; i++) out[i] = parts[decomposed_at[m] + i];
            return n;
        }
        if (at < c)
            a = m + 1;
        else
            b = m;
    }
    out[0] = c;
    return 1;
}

/* What two characters become; 0: they stay two. */
static uint32_t compose(uint32_t first, uint32_t second)
{
    size_t a = 0, b = COUNT(pair_first);
    if (first >= L && first < L + LS && second >= V && second < V + VS)
        return S + ((first - L) * VS + (second - V)) * TS;
    if (first >= S && first < S + SS && (first - S) % TS == 0 && second > T && second < T + TS)
        return first + (second - T);
    while (b > a) {
        const size_t m = a + (b - a) / 2;
        if (pair_first[m] == first && pair_second[m] == second) return pair_whole[m];
        if (pair_first[m] < first || (pair_first[m] == first && pair_second[m] < second))
            a = m + 1;
        else
            b = m;
    }
    return 0;
}

/* Whether a run may begin here. Four characters of class 0 are marks once they are taken apart. */
static int begins(uint32_t c)
{
    uint32_t part[4];
    if (c < 0x300) return 1;
    if (c >= V && c < T + TS) return 0;
    if (class_of(c) != 0) return 0;
    if (c == 0x344 || (c >= 0xf73 && c <= 0xf81)) {
        (void)decompose(c, part);
        if (class_of(part[0]) != 0) return 0;
    }
    if (c < joining[0] || c > joining[COUNT(joining) - 1]) return 1;
    for (size_t i = 0; i < COUNT(joining); i++)
        if (joining[i] == c) return 0;
    return 1;
}

static void add_mark(run *r, uint32_t c)
{
    if (r->n == r->capacity) {
        const size_t more = r->capacity ? 2 * r->capacity : 64;
        mark *m = realloc(r->m, more * sizeof *m);
        if (!m) {
            r->failed = 1;
            return;
        }
        r->m = m;
        r->capacity = more;
    }
    r->m[r->n] = (mark){c, class_of(c) << 24};
    r->n++;
}

static int by_order(const void *a, const void *b)
{
    const mark *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

/* Marks between two characters of class 0 are ordered by class, and else stay as they are. */
static void put_in_order(run *r)
{
    for (size_t i = 0; i < r->n; i++) r->m[i].order |= (uint32_t)i & POINT;
    for (size_t i = 0; i < r->n;) {
        size_t end = i + 1;
        if (r->m[i].order >> 24 == 0) {
            i = end;
            continue;
        }
        while (end < r->n && r->m[end].order >> 24 != 0) end++;
        qsort(r->m + i, end - i, sizeof *r->m, by_order);
        i = end;
    }
}

static void compose_run(run *r)
{
    size_t starter = SIZE_MAX, kept = 0;
    uint32_t last = 0; /* class of what stands between, + 1 */
    for (size_t i = 0; i < r->n; i++) {
        const mark c = r->m[i];
        const uint32_t class = c.order >> 24;
        const uint32_t whole = starter != SIZE_MAX && (last == 0 || last <= class)
                                   ? compose(r->m[starter].point, c.point)
                                   : 0;
        if (whole) {
            r->m[starter].point = whole;
            continue;
        }
        if (class == 0) starter = kept;
        last = class == 0 ? 0 : class + 1;
        r->m[kept++] = c;
    }
    r->n = kept;
}

static void finish_run(run *r, int composed, kf_text *out)
{
    char bytes[4];
    put_in_order(r);
    if (composed) compose_run(r);
    for (size_t i = 0; i < r->n; i++)
        kf_text_add_bytes(out, bytes, kf_utf8_put(bytes, r->m[i].point));
    r->n = 0;
}

/* Bytes of a character that no normal form changes and that the next one can't join. */
static size_t plain_bytes(const char *text, size_t n, int composed)
{
    const unsigned char most = composed ? 0xcc : 0x80; /* U+0300 is cc 80 */
    size_t i = 0;
    while (i < n && (unsigned char)text[i] < most) i++;
    if (i == n) return n;
    if (i > 0) i--; /* it may get a mark */
    while (i > 0 && ((unsigned char)text[i] & 0xc0) == 0x80) i--;
    return i;
}

void kf_unicode_normalize(const char *text, size_t n, int composed, kf_text *out)
{
    run r = {0};
    uint32_t part[4];
    size_t i = 0, bytes;
    while (i < n) {
        const size_t plain = r.n == 0 ? plain_bytes(text + i, n - i, composed) : 0;
        if (plain > 0) {
            kf_text_add_bytes(out, text + i, plain);
            i += plain;
            continue;
        }
        const uint32_t c = kf_utf8_get(text + i, &bytes);
        if (r.n > 0 && begins(c)) {
            finish_run(&r, composed, out);
            if (c < 0x80) continue; /* maybe many of them follow */
        }
        const size_t count = decompose(c, part);
        for (size_t k = 0; k < count; k++) add_mark(&r, part[k]);
        i += bytes;
    }
    finish_run(&r, composed, out);
    if (r.failed) out->failed = 1;
    free(r.m);
}
