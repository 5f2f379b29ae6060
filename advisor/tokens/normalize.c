/* normalize.c - the steps that change a text before it is cut.
 *
 * Source: tokenizers 0.22, src/normalizers. */
#include "normalize.h"

#include <stdlib.h>
#include <string.h>

#include "compose.h"
#include "utf8.h"

/* A text may grow so much; a file could make it grow without end. */
static size_t most_bytes(size_t n)
{
    return 64 * n + (1 << 20);
}

static kerf_status check_growth(const kf_text *t, size_t most, kerf_error *err)
{
    if (t->n <= most) return KERF_OK;
    return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                   "the normalizer makes more than 64 times as much of a text");
}

void kf_normal_free(kf_normal *s)
{
    free(s->what);
    free(s->with);
    kf_regex_free(s->regex);
    kf_charsmap_free(&s->map);
    *s = (kf_normal){0};
}

static kerf_status replace_matches(const kf_normal *s, kf_match *match, const char *text, size_t n,
                                   kf_text *out, kerf_error *err)
{
    const size_t most = most_bytes(n);
    size_t at = 0, from, to;
    int found = 1;
    while (at < n) {
        KF_TRY(kf_regex_next(s->regex, match, text, n, at, &from, &to, &found, err));
        if (!found) break;
        kf_text_add_bytes(out, text + at, from - at);
        kf_text_add_bytes(out, s->with, strlen(s->with));
        KF_TRY(check_growth(out, most, err));
        at = to;
    }
    kf_text_add_bytes(out, text + at, n - at);
    return KERF_OK;
}

static kerf_status replace_text(const kf_normal *s, const char *text, size_t n, kf_text *out,
                                kerf_error *err)
{
    const size_t most = most_bytes(n);
    const size_t bytes = strlen(s->what), with = strlen(s->with);
    size_t at = 0;
    while (at < n && bytes > 0) {
        const char *p = memmem(text + at, n - at, s->what, bytes);
        if (!p) break;
        kf_text_add_bytes(out, text + at, (size_t)(p - (text + at)));
        kf_text_add_bytes(out, s->with, with);
        KF_TRY(check_growth(out, most, err));
        at = (size_t)(p - text) + bytes;
    }
    kf_text_add_bytes(out, text + at, n - at);
    return KERF_OK;
}

static void strip(const kf_normal *s, const char **text, size_t *n)
{
    size_t bytes;
    while (s->left && *n > 0 && kf_is_space(kf_utf8_get(*text, &bytes))) {
        *text += bytes;
        *n -= bytes;
    }
    while (s->right && *n > 0) {
        size_t last = *n - 1;
        while (((unsigned char)(*text)[last] & 0xc0) == 0x80) last--;
        if (!kf_is_space(kf_utf8_get(*text + last, &bytes))) break;
        *n = last;
    }
}

static kerf_status apply(const kf_normal *s, kf_match *match, const char *text, size_t n,
                         kf_text *out, kerf_error *err)
{
    kf_text_add_bytes(out, "", 0); /* so that there is one */
    switch (s->kind) {
    case KF_NORMAL_PREPEND:
        if (n > 0) kf_text_add_bytes(out, s->with, strlen(s->with));
        kf_text_add_bytes(out, text, n);
        return KERF_OK;
    case KF_NORMAL_REPLACE:
        if (s->regex) return replace_matches(s, match, text, n, out, err);
        return replace_text(s, text, n, out, err);
    case KF_NORMAL_NFC:
    case KF_NORMAL_NFD:
        kf_unicode_normalize(text, n, s->kind == KF_NORMAL_NFC, out);
        return KERF_OK;
    case KF_NORMAL_CHARSMAP: return kf_charsmap_apply(&s->map, match, text, n, out, err);
    case KF_NORMAL_STRIP: break;
    }
    return KERF_OK;
}

kerf_status kf_normalize(const kf_normal *step, size_t count, kf_match *match, const char *text,
                         size_t n, kf_text work[2], const char **out, size_t *out_n,
                         kerf_error *err)
{
    const size_t most = most_bytes(n);
    size_t next = 0;
    for (size_t i = 0; i < count; i++) {
        if (step[i].kind == KF_NORMAL_STRIP) {
            strip(&step[i], &text, &n);
            continue;
        }
        kf_text *to = &work[next];
        to->n = 0;
        KF_TRY(apply(&step[i], match, text, n, to, err));
        if (to->failed) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a text");
        KF_TRY(check_growth(to, most, err));
        text = to->p;
        n = to->n;
        next = 1 - next;
    }
    *out = text;
    *out_n = n;
    return KERF_OK;
}
