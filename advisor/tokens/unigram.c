/* unigram.c - the likeliest tokens of a text, by Viterbi's way over the bytes at which characters
 * end. A character that is no token itself may be unknown, at ten less than the least score.
 *
 * Source: tokenizers 0.22, src/models/unigram/model.rs (encode_optimized, whose ties this keeps).
 */
#include "unigram.h"

#include <stdlib.h>

#include "utf8.h"

#define UNKNOWN_PENALTY 10.0

struct kf_unigram_node {
    double score; /* of the best way to here */
    uint32_t token;
    uint32_t bytes; /* of that token; 0: no way was found yet */
};

void kf_unigram_free(kf_unigram *u)
{
    free(u->score);
    kf_trie_free(&u->trie);
    *u = (kf_unigram){0};
}

void kf_unigram_work_free(kf_unigram_work *w)
{
    free(w->node);
    free(w->token);
    *w = (kf_unigram_work){0};
}

static void offer(struct kf_unigram_node *to, double score, uint32_t token, size_t bytes)
{
    if (to->bytes == 0 || score > to->score)
        *to = (struct kf_unigram_node){score, token, (uint32_t)bytes};
}

static kerf_status find_ways(const kf_unigram *u, struct kf_unigram_node *node, const char *text,
                             size_t n, kerf_error *err)
{
    for (size_t i = 0; i < n;) {
        const size_t character = kf_utf8_bytes((unsigned char)text[i]);
        const double here = node[i].score;
        uint32_t at = 0;
        int single = 0;
        for (size_t k = i; k < n && (at = kf_trie_step(&u->trie, at, (uint8_t)text[k])); k++) {
            const uint32_t id = u->trie.id[at];
            if (id == KF_NO_TOKEN) continue;
            offer(&node[k + 1], here + u->score[id], id, k + 1 - i);
            if (k + 1 - i == character) single = 1;
        }
        if (!single) {
            if (u->unknown == KF_NO_TOKEN)
                return kf_fail(err, KERF_E_DATA, i,
                               "the tokenizer has no token for a character, nor one for what is "
                               "unknown");
            offer(&node[i + character], here + u->least - UNKNOWN_PENALTY, u->unknown, character);
        }
        i += character;
    }
    return KERF_OK;
}

/* Tokens of [from, to), which the model calls unknown: from the last byte to the first, as all are
 * found. */
static void add_unknown(const kf_unigram *u, const kf_vocab *v, kf_unigram_work *w,
                        const char *text, size_t from, size_t to)
{
    uint32_t id = kf_vocab_find(v, text + from, to - from);
    size_t known = from;
    while (id == KF_NO_TOKEN && u->byte_fallback && known < to &&
           u->byte[(unsigned char)text[known]] != KF_NO_TOKEN)
        known++;
    if (id != KF_NO_TOKEN || known < to) {
        w->token[w->tokens++] = id != KF_NO_TOKEN ? id : u->unknown;
        return;
    }
    while (known-- > from) w->token[w->tokens++] = u->byte[(unsigned char)text[known]];
}

kerf_status kf_unigram_encode(const kf_unigram *u, const kf_vocab *v, kf_unigram_work *w,
                              const char *text, size_t n, kerf_error *err)
{
    w->tokens = 0;
    if (n + 1 > w->capacity) {
        kf_unigram_work_free(w);
        KF_TRY(kf_allocate(&w->node, n + 1, sizeof *w->node, err));
        KF_TRY(kf_allocate(&w->token, n + 1, sizeof *w->token, err));
        w->capacity = n + 1;
    }
    for (size_t i = 0; i <= n; i++) w->node[i].bytes = 0;
    w->node[0].score = 0;
    KF_TRY(find_ways(u, w->node, text, n, err));
    for (size_t end = n; end > 0;) {
        size_t from = end - w->node[end].bytes;
        if (w->node[end].token != u->unknown) {
            w->token[w->tokens++] = w->node[end].token;
        } else {
            while (from > 0 && w->node[from].token == u->unknown) from -= w->node[from].bytes;
            add_unknown(u, v, w, text, from, end);
        }
        end = from;
    }
    for (size_t a = 0, b = w->tokens; a + 1 < b; a++) {
        const uint32_t last = w->token[--b];
        w->token[b] = w->token[a];
        w->token[a] = last;
    }
    return KERF_OK;
}
