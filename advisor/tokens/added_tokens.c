/* added_tokens.c - tokens that are found in a text by what they are called: those that mark turns
 * and ends, and what was added after a model was trained.
 *
 * Source: tokenizers 0.22, src/tokenizer/added_vocabulary.rs: leftmost and longest. */
#include <stdlib.h>

#include "tokenizer.h"
#include "utf8.h"

kerf_status kf_add_token(kf_added_set *s, const char *text, size_t n, kf_added token,
                         kerf_error *err)
{
    if (n == 0) return KERF_OK;
    if (s->count == s->capacity) {
        const size_t more = s->capacity ? 2 * s->capacity : 16;
        kf_added *t = realloc(s->token, more * sizeof *t);
        if (!t) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for added tokens");
        s->token = t;
        s->capacity = more;
    }
    s->token[s->count] = token;
    return kf_vocab_add(&s->text, text, n, (uint32_t)s->count++, err);
}

void kf_added_free(kf_added_set *s)
{
    kf_vocab_free(&s->text);
    kf_trie_free(&s->trie);
    free(s->token);
    *s = (kf_added_set){0};
}

static int is_word(const char *p)
{
    size_t bytes;
    const uint32_t c = kf_utf8_get(p, &bytes);
    const uint32_t lower = c | 0x20;
    return c >= 0x80 ? !kf_is_space(c)
                     : (lower >= 'a' && lower <= 'z') || c == '_' || (c >= '0' && c <= '9');
}

static size_t one_before(const char *text, size_t i)
{
    do i--;
    while (((unsigned char)text[i] & 0xc0) == 0x80);
    return i;
}

static int stands_alone(const char *text, size_t n, size_t from, size_t to)
{
    return (from == 0 || !is_word(text + one_before(text, from))) &&
           (to == n || !is_word(text + to));
}

kerf_status kf_added_split(const kf_added_set *s, const char *text, size_t n, kf_put_part put,
                           void *ctx, kerf_error *err)
{
    size_t done = 0, bytes = 0, width;
    for (size_t i = 0; s->count > 0 && i < n;) {
        const uint32_t found = s->trie.begins[(unsigned char)text[i]]
                                   ? kf_trie_longest(&s->trie, text + i, n - i, &bytes)
                                   : KF_NO_TOKEN;
        if (found == KF_NO_TOKEN) {
            i++;
            continue;
        }
        const kf_added *t = &s->token[found];
        size_t from = i, to = i + bytes;
        i = to;
        if (t->single_word && !stands_alone(text, n, from, to)) continue;
        while (t->left && from > done &&
               kf_is_space(kf_utf8_get(text + one_before(text, from), &width)))
            from -= width;
        if (from < done) from = done;
        while (t->right && to < n && kf_is_space(kf_utf8_get(text + to, &width))) to += width;
        if (from > done) KF_TRY(put(ctx, NULL, text + done, from - done, done, err));
        KF_TRY(put(ctx, t, text + from, to > from ? to - from : 0, from, err));
        if (to > done) done = to;
    }
    return done < n || n == 0 ? put(ctx, NULL, text + done, n - done, done, err) : KERF_OK;
}
