/* globs.c - which patterns of a list match a name. */
#include "base/globs.h"

#include <kerf/words.h>
#include <stdlib.h>
#include <string.h>

static int compare_entries(const void *a, const void *b)
{
    const kf_glob_entry *x = a, *y = b;
    if (x->is_end != y->is_end) return x->is_end - y->is_end;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    const int order = memcmp(x->key, y->key, x->bytes);
    if (order != 0) return order;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* A pattern that begins with a wildcard is found by its end. */
static void set_key(kf_glob_entry *e)
{
    e->prefix = e->bytes = strcspn(e->text, "*?[\\");
    e->key = e->text;
    if (e->prefix > 0) return;
    const char *end = e->text + strlen(e->text);
    while (end > e->text && !strchr("*?[]\\", end[-1])) end--;
    e->key = end;
    e->bytes = strlen(end);
    e->is_end = e->bytes > 0;
}

kerf_status kf_globs_open(kf_globs *g, const void *list, size_t count, size_t size, kerf_error *err)
{
    *g = (kf_globs){0};
    KF_TRY(kf_allocate(&g->entry, count, sizeof *g->entry, err));
    for (size_t i = 0; i < count; i++) {
        kf_glob_entry *e = &g->entry[i];
        memcpy(&e->text, (const char *)list + i * size, sizeof e->text);
        e->index = i;
        set_key(e);
    }
    qsort(g->entry, count, sizeof *g->entry, compare_entries);
    KF_TRY(kf_allocate(&g->span, count, sizeof *g->span, err));
    for (size_t i = 0; i < count; i++) {
        const kf_glob_entry *e = &g->entry[i];
        if (i == 0 || e->bytes != e[-1].bytes || e->is_end != e[-1].is_end)
            g->span[g->spans++] = (kf_glob_span){e->bytes, i, i, e->is_end};
        g->span[g->spans - 1].end = i + 1;
    }
    return KERF_OK;
}

void kf_globs_close(kf_globs *g)
{
    free(g->entry);
    free(g->span);
    *g = (kf_globs){0};
}

/* The first entry of a span whose key is not below that of a name (after = 0), or above it (1). */
static size_t find_bound(const kf_globs *g, const kf_glob_span *s, const char *key, int after)
{
    size_t low = s->first, high = s->end;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (memcmp(g->entry[mid].key, key, s->bytes) < after)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int matches(const kf_globs *g, const kf_glob_entry *e, const char *name, size_t n)
{
    if (!e->text[e->prefix]) return e->prefix == n; /* all of it is before the first wildcard */
    return (g->takes_equal && strcmp(e->text, name) == 0) || kerf_glob_matches(e->text, name);
}

size_t kf_globs_last(const kf_globs *g, const char *name, size_t before)
{
    const size_t n = strlen(name);
    size_t found = KF_NO_GLOB;
    for (const kf_glob_span *s = g->span; s < g->span + g->spans; s++) {
        if (s->bytes > n) continue;
        const char *key = s->is_end ? name + n - s->bytes : name;
        const size_t first = find_bound(g, s, key, 0);
        for (size_t i = find_bound(g, s, key, 1); i-- > first;) {
            const kf_glob_entry *e = &g->entry[i];
            if (e->index >= before) continue;
            if (found != KF_NO_GLOB && e->index <= found) break; /* those before come earlier */
            if (!matches(g, e, name, n)) continue;
            found = e->index;
            break;
        }
    }
    return found;
}

size_t kf_globs_last_of(const kf_globs *g, const char *name, const char *whole, size_t before)
{
    const size_t own = kf_globs_last(g, name, before);
    const size_t other = whole ? kf_globs_last(g, whole, before) : KF_NO_GLOB;
    if (own == KF_NO_GLOB || other == KF_NO_GLOB) return own == KF_NO_GLOB ? other : own;
    return own > other ? own : other;
}
