/* cut_text.c - the steps that cut a text into words, each of which takes the pieces of the one
 * before it.
 *
 * Source: tokenizers 0.22, src/pre_tokenizers, and NormalizedString::split for what becomes of
 * matches. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer.h"

void kf_cut_free(kf_cut_step *s)
{
    kf_regex_free(s->regex);
    free(s->text);
    *s = (kf_cut_step){0};
}

/* Where a piece is in the steps, and what was said of it. */
typedef struct place {
    const kf_cutter *c;
    size_t step;
    const char *text; /* the piece that is cut */
    int is_first;
    /* of a split: the part that waits for what comes next */
    size_t from, to;
    int waits, was_match;
} place;

static kerf_status cut_from(const kf_cutter *c, size_t step, const char *text, size_t n,
                            int is_first, kerf_error *err);

static kerf_status emit(place *p, size_t from, size_t to, kerf_error *err)
{
    if (to == from) return KERF_OK;
    return cut_from(p->c, p->step + 1, p->text + from, to - from, p->is_first && from == 0, err);
}

static kerf_status emit_waiting(place *p, kerf_error *err)
{
    const int waits = p->waits;
    p->waits = 0;
    return waits ? emit(p, p->from, p->to, err) : KERF_OK;
}

/* The next part of the piece: a match, or what lies before one. */
static kerf_status take_part(place *p, size_t from, size_t to, int is_match, kerf_error *err)
{
    const kf_behavior how = p->c->step[p->step].behavior;
    const int before = p->was_match;
    p->was_match = is_match;
    if (how == KF_REMOVED) return is_match ? KERF_OK : emit(p, from, to, err);
    if (how == KF_ISOLATED) return emit(p, from, to, err);
    const int joins = p->waits && (how == KF_CONTIGUOUS      ? before == is_match
                                   : how == KF_WITH_PREVIOUS ? is_match && !before
                                                             : before && !is_match);
    if (joins) {
        p->to = to;
        return KERF_OK;
    }
    KF_TRY(emit_waiting(p, err));
    p->from = from;
    p->to = to;
    p->waits = 1;
    return KERF_OK;
}

static kerf_status find_next(const kf_cut_step *s, kf_match *m, const char *text, size_t n,
                             size_t at, size_t *from, size_t *to, int *found, kerf_error *err)
{
    if (s->regex) return kf_regex_next(s->regex, m, text, n, at, from, to, found, err);
    const size_t bytes = strlen(s->text);
    const char *p = bytes > 0 ? memmem(text + at, n - at, s->text, bytes) : NULL;
    *found = p != NULL;
    if (!p) return KERF_OK;
    *from = (size_t)(p - text);
    *to = *from + bytes;
    return KERF_OK;
}

static kerf_status split(const kf_cutter *c, size_t step, const char *text, size_t n, int is_first,
                         kerf_error *err)
{
    const kf_cut_step *s = &c->step[step];
    place p = {.c = c, .step = step, .text = text, .is_first = is_first};
    size_t at = 0, from, to;
    int found = 1;
    while (at < n) {
        KF_TRY(find_next(s, c->match, text, n, at, &from, &to, &found, err));
        if (!found) break;
        if (from > at) KF_TRY(take_part(&p, at, from, s->invert, err));
        KF_TRY(take_part(&p, from, to, !s->invert, err));
        at = to;
    }
    if (at < n) KF_TRY(take_part(&p, at, n, s->invert, err));
    return emit_waiting(&p, err);
}

/* The piece with U+2581, or whatever stands for it, in place of spaces and in front. */
static kerf_status put_metaspace(const kf_cutter *c, size_t step, const char *text, size_t n,
                                 int is_first, kerf_error *err)
{
    const kf_cut_step *s = &c->step[step];
    const size_t bytes = strlen(s->text);
    kf_text *t = &c->buffer[step];
    const int has = n > 0 && (text[0] == ' ' || (n >= bytes && memcmp(text, s->text, bytes) == 0));
    t->n = 0;
    if (!has && (s->always || (s->first && is_first))) kf_text_add_bytes(t, s->text, bytes);
    while (n > 0) {
        const char *space = memchr(text, ' ', n);
        const size_t plain = space ? (size_t)(space - text) : n;
        kf_text_add_bytes(t, text, plain);
        if (space) kf_text_add_bytes(t, s->text, bytes);
        text += plain + (space != NULL);
        n -= plain + (space != NULL);
    }
    if (t->failed) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a text");
    if (!s->splits) return cut_from(c, step + 1, t->p, t->n, is_first, err);
    return split(c, step, t->p, t->n, is_first, err);
}

static kerf_status put_prefix(const kf_cutter *c, size_t step, const char *text, size_t n,
                              int is_first, kerf_error *err)
{
    kf_text *t = &c->buffer[step];
    if (text[0] == ' ') return cut_from(c, step + 1, text, n, is_first, err);
    t->n = 0;
    kf_text_add_bytes(t, " ", 1);
    kf_text_add_bytes(t, text, n);
    if (t->failed) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a text");
    return cut_from(c, step + 1, t->p, t->n, is_first, err);
}

static kerf_status cut_from(const kf_cutter *c, size_t step, const char *text, size_t n,
                            int is_first, kerf_error *err)
{
    if (n == 0) return KERF_OK;
    if (step == c->steps) return c->put(c->ctx, text, n, err);
    switch (c->step[step].kind) {
    case KF_CUT_METASPACE: return put_metaspace(c, step, text, n, is_first, err);
    case KF_CUT_PREFIX: return put_prefix(c, step, text, n, is_first, err);
    case KF_CUT_SPLIT: break;
    }
    return split(c, step, text, n, is_first, err);
}

kerf_status kf_cut_text(const kf_cutter *c, const char *text, size_t n, int is_first,
                        kerf_error *err)
{
    return cut_from(c, 0, text, n, is_first, err);
}
