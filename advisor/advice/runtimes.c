/* runtimes.c - the table of what programs load (runtimes.def), and how it is asked. */
#include <kerf/runtimes.h>
#include <kerf/words.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum {
#define KERF_RUNTIME(ID, ...) RUNTIME_##ID,
#include "advice/runtimes.def"
#undef KERF_RUNTIME
    RUNTIMES
};

static const kerf_runtime runtimes[RUNTIMES] = {
#define KERF_RUNTIME(ID, name, title, layout, mixes) {name, title, layout, mixes},
#include "advice/runtimes.def"
#undef KERF_RUNTIME
};

/* The columns of a line but for its condition. */
static const struct {
    int runtime;
    const char *layout;
    kerf_runtime_way way;
} lines[] = {
#define KERF_LOADS(RUNTIME, layout, formats, least, most, how, source) \
    {RUNTIME_##RUNTIME, layout, {how, source, least, most}},
#include "advice/runtimes.def"
#undef KERF_LOADS
};
enum { LINES = sizeof lines / sizeof *lines };

#define IS(ID) (f->id == KERF_FORMAT_##ID)
#define FAMILY(ID) (f->family == KERF_FAMILY_##ID)
#define BITS(n) (f->bits == (n))

/* Whether the condition of a line holds. */
static int takes(size_t line, const kerf_format *f)
{
    size_t i = 0;
#define KERF_LOADS(RUNTIME, layout, formats, least, most, how, source) \
    if (i++ == line) return formats;
#include "advice/runtimes.def"
#undef KERF_LOADS
    return 0;
}

size_t kerf_runtime_count(void)
{
    return RUNTIMES;
}

const kerf_runtime *kerf_runtime_at(size_t i)
{
    return i < RUNTIMES ? &runtimes[i] : NULL;
}

kerf_status kerf_runtime_get(const char *text, const kerf_runtime **out, kerf_error *err)
{
    char list[160] = "";
    *out = NULL;
    for (size_t i = 0; i < RUNTIMES; i++) {
        const size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", runtimes[i].name);
        if (kerf_names_match(text, runtimes[i].name) || kerf_names_match(text, runtimes[i].title))
            *out = &runtimes[i];
    }
    if (*out) return KERF_OK;
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "unknown runtime %.40s; expected one of %s", text,
                   list);
}

/* 89 of "sm_89"; 0: another kind of machine. */
static int capability_of(const kerf_hardware *h)
{
    return h && strncmp(h->arch, "sm_", 3) == 0 ? atoi(h->arch + 3) : 0;
}

/* "sm_80 to sm_99", "from sm_89 on". */
static const char *range_text(const kerf_runtime_way *w, char out[48])
{
    if (w->most_sm && w->most_sm == w->least_sm)
        snprintf(out, 48, "on sm_%d alone", w->least_sm);
    else if (w->most_sm)
        snprintf(out, 48, "from sm_%d to before sm_%d", w->least_sm, w->most_sm + 1);
    else
        snprintf(out, 48, "from sm_%d on", w->least_sm);
    return out;
}

kerf_status kerf_runtime_check(const kerf_runtime *r, const kerf_layout *l, const kerf_format *f,
                               const kerf_hardware *h, kerf_runtime_way *out, kerf_error *err)
{
    const int sm = capability_of(h);
    const kerf_runtime_way *elsewhere = NULL;
    char range[48];
    int written;
    if (!kerf_layout_scheme(l, f, &written)) /* a line may stand for a whole family of formats */
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%s does not load %s from layout %s, which has no place for it", r->title,
                       f->name, l->name);
    for (size_t i = 0; i < LINES; i++) {
        const kerf_runtime_way *w = &lines[i].way;
        if (&runtimes[lines[i].runtime] != r || strcmp(lines[i].layout, l->name) != 0) continue;
        if (!takes(i, f)) continue;
        if (sm == 0 || (sm >= w->least_sm && (w->most_sm == 0 || sm <= w->most_sm))) {
            if (out) *out = *w;
            return KERF_OK;
        }
        elsewhere = w;
        break;
    }
    if (elsewhere)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%s has %s from layout %s %s, and %s is %s (%.200s)", r->title, f->name,
                       l->name, range_text(elsewhere, range), h->name, h->arch, elsewhere->source);
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "%s does not load %s from layout %s, as far as kerf knows", r->title, f->name,
                   l->name);
}
