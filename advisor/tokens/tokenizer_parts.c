/* tokenizer_parts.c - tokens as they are taken into a tokenizer, whatever file they come from. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer.h"
#include "utf8.h"

/* --- bytes as characters ---------------------------------------------------------------------- */

/* GPT-2's table: bytes that print stand for themselves, the others for U+0100 and up. */
static int prints(unsigned b)
{
    return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
}

int kf_bytes_of_token(const char *text, size_t n, char *out, size_t *bytes)
{
    size_t width;
    *bytes = 0;
    for (size_t i = 0; i < n; i += width) {
        const uint32_t c = kf_utf8_get(text + i, &width);
        if (c < 256) {
            if (!prints(c)) return 0;
            out[(*bytes)++] = (char)c;
            continue;
        }
        uint32_t before = 0x100;
        unsigned b = 0;
        for (; b < 256; b++) {
            if (prints(b)) continue;
            if (before++ == c) break;
        }
        if (b == 256) return 0;
        out[(*bytes)++] = (char)b;
    }
    return 1;
}

/* --- tokens ----------------------------------------------------------------------------------- */

kerf_status kf_take_token(kerf_tokenizer *t, const char *text, size_t n, uint64_t id,
                          kerf_error *err)
{
    size_t bytes;
    if (id >= KF_MOST_TOKENS)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "the token \"%.*s\" has no number from 0 to %u", KF_NAME(text),
                       KF_MOST_TOKENS - 1);
    KF_TRY(kf_vocab_add(&t->names, text, n, (uint32_t)id, err));
    if (!t->is_bytes || n == 0) return KERF_OK;
    char *word = kf_alloc(n, 1);
    if (!word) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for tokens");
    kerf_status s = KERF_OK;
    if (kf_bytes_of_token(text, n, word, &bytes))
        s = kf_vocab_add(&t->bytes, word, bytes, (uint32_t)id, err);
    free(word);
    return s;
}

kerf_status kf_take_added(kerf_tokenizer *t, const char *text, kf_added token, int normalized,
                          kerf_error *err)
{
    kf_text work[2] = {{0}};
    kf_match *match;
    const char *what;
    size_t n;
    KF_TRY(kf_vocab_add(&t->added, text, strlen(text), token.id, err));
    if (!normalized) return kf_add_token(&t->raw, text, strlen(text), token, err);
    KF_TRY(kf_match_open(&match, err));
    kerf_status s =
        kf_normalize(t->normal, t->normals, match, text, strlen(text), work, &what, &n, err);
    if (s == KERF_OK) s = kf_add_token(&t->normalized, what, n, token, err);
    kf_match_close(match);
    for (size_t i = 0; i < 2; i++) free(work[i].p);
    return s;
}

kerf_status kf_finish_bpe(kerf_tokenizer *t, int byte_fallback, kerf_error *err)
{
    kf_bpe *b = &t->bpe;
    char name[8];
    b->bytes = t->is_bytes;
    b->has_bytes = byte_fallback;
    for (unsigned i = 0; i < 256; i++) {
        static const char digit[] = "0123456789ABCDEF";
        const char byte = (char)i;
        memcpy(name, "<0x..>", 7);
        name[3] = digit[i >> 4];
        name[4] = digit[i & 15];
        b->byte[i] = KF_NO_TOKEN;
        if (t->is_bytes)
            b->byte[i] = kf_vocab_find(&t->bytes, &byte, 1);
        else if (byte_fallback)
            b->byte[i] = kf_vocab_find(&t->names, name, 6);
        if (b->byte[i] == KF_NO_TOKEN) b->has_bytes = 0;
    }
    return t->is_bytes || b->whole_words ? KERF_OK : kf_bpe_note_joined(b, &t->names, err);
}

/* --- the end ---------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    const kf_named_token *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

kerf_status kf_finish_tokenizer(kerf_tokenizer *t, kerf_error *err)
{
    const kf_vocab *of[2] = {&t->names, &t->added};
    KF_TRY(kf_trie_build(&t->raw.text, &t->raw.trie, err));
    KF_TRY(kf_trie_build(&t->normalized.text, &t->normalized.trie, err));
    KF_TRY(kf_allocate(&t->by_id, t->names.count + t->added.count + 1, sizeof *t->by_id, err));
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < of[k]->count; i++)
            t->by_id[t->named++] = (kf_named_token){of[k]->entry[i].id, kf_vocab_text(of[k], i)};
    qsort(t->by_id, t->named, sizeof *t->by_id, by_number);
    return KERF_OK;
}
