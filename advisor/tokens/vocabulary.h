/* vocabulary.h - which bytes are which token, and the trie of such bytes for whoever looks for all
 * tokens that a text begins with. */
#ifndef KERF_TOKENS_VOCABULARY_H
#define KERF_TOKENS_VOCABULARY_H

#include "base/base.h"

#define KF_NO_TOKEN UINT32_MAX
#define KF_MOST_TOKENS (1u << 22)

typedef struct kf_vocab_entry {
    uint32_t at, bytes; /* in `bytes` of the vocabulary */
    uint32_t id;
} kf_vocab_entry;

typedef struct kf_vocab {
    kf_vocab_entry *entry;
    size_t count, capacity;
    char *bytes;
    size_t used, space;
    uint32_t *slot; /* [mask + 1] index into entry + 1; 0: free */
    uint32_t mask;
} kf_vocab;

/* Adds a key; one that is there gets the new number. The bytes are copied, and a 0 behind them. */
kerf_status kf_vocab_add(kf_vocab *v, const char *p, size_t n, uint32_t id, kerf_error *err);
void kf_vocab_free(kf_vocab *v);
uint32_t kf_vocab_find(const kf_vocab *v, const char *p, size_t n); /* KF_NO_TOKEN: none */
static inline const char *kf_vocab_text(const kf_vocab *v, size_t i)
{
    return v->bytes + v->entry[i].at;
}

/* Children of a node stand one after another, ordered by their byte. Node 0 is the root. */
typedef struct kf_trie {
    uint32_t *first; /* [nodes + 1] children of node i: [first[i], first[i + 1]) */
    uint8_t *byte;   /* [nodes] that leads to the node                           */
    uint32_t *id;    /* [nodes] of the key that ends here, or KF_NO_TOKEN        */
    uint32_t nodes;
    uint8_t begins[256]; /* 1: some key begins with this byte */
} kf_trie;

kerf_status kf_trie_build(const kf_vocab *v, kf_trie *out, kerf_error *err);
void kf_trie_free(kf_trie *t);

static inline uint32_t kf_trie_step(const kf_trie *t, uint32_t node, uint8_t byte) /* 0: none */
{
    uint32_t a = t->first[node], b = t->first[node + 1];
    while (b - a > 8) {
        const uint32_t m = a + (b - a) / 2;
        if (t->byte[m] <= byte)
            a = m;
        else
            b = m;
    }
    for (; a < b; a++)
        if (t->byte[a] == byte) return a;
    return 0;
}

/* The longest key that p begins with: its token and *bytes; KF_NO_TOKEN: none. */
uint32_t kf_trie_longest(const kf_trie *t, const char *p, size_t n, size_t *bytes);

static inline uint64_t kf_hash_bytes(const char *p, size_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ n;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * 0x100000001b3u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return h ^ h >> 32;
}

#endif
