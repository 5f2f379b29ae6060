/* bpe.c - byte pair encoding. A word is a list of symbols; a heap has the pairs that can be merged,
 * those of the lowest rank first, and of these the leftmost.
 *
 * Source: tokenizers 0.22, src/models/bpe (word.rs, model.rs), whose tokens result: also what
 * becomes of characters that are not known. */
#include "bpe.h"

#include <stdlib.h>
#include <string.h>

#include "utf8.h"

enum { CACHED_BYTES = 24, CACHED_TOKENS = 8, CACHE_SLOTS = 1 << 16, JOINED_BITS = 1 << 21 };

/* --- what was learned ------------------------------------------------------------------------- */

static size_t slot_of(const kf_bpe *b, uint64_t pair)
{
    uint64_t h = pair * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    for (size_t i = (size_t)h;; i++)
        if (b->merge[i & b->mask].pair == pair || b->merge[i & b->mask].pair == UINT64_MAX)
            return i & b->mask;
}

kerf_status kf_bpe_reserve(kf_bpe *b, size_t count, kerf_error *err)
{
    size_t slots = 16;
    if (count > KF_MOST_TOKENS)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "more merges than are read");
    while (slots < 2 * count) slots *= 2;
    KF_TRY(kf_allocate(&b->merge, slots, sizeof *b->merge, err));
    for (size_t i = 0; i < slots; i++) b->merge[i].pair = UINT64_MAX;
    b->mask = slots - 1;
    b->count = count;
    return KERF_OK;
}

void kf_bpe_add(kf_bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id)
{
    const uint64_t pair = (uint64_t)left << 32 | right;
    b->merge[slot_of(b, pair)] = (kf_merge){pair, rank, id};
}

void kf_bpe_free(kf_bpe *b)
{
    free(b->merge);
    free(b->joined);
    *b = (kf_bpe){0};
}

/* --- where a text may be cut ------------------------------------------------------------------ */

static uint32_t joined_bit(uint32_t a, uint32_t c)
{
    const uint64_t h = ((uint64_t)a << 32 | c) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 40) & (JOINED_BITS - 1);
}

kerf_status kf_bpe_note_joined(kf_bpe *b, const kf_vocab *v, kerf_error *err)
{
    KF_TRY(kf_allocate(&b->joined, JOINED_BITS / 64, sizeof *b->joined, err));
    for (size_t i = 0; i < v->count; i++) {
        const char *p = kf_vocab_text(v, i), *end = p + v->entry[i].bytes;
        uint32_t before = 0;
        size_t bytes;
        for (int first = 1; p < end; p += bytes, first = 0) {
            const uint32_t c = kf_utf8_get(p, &bytes);
            const uint32_t bit = joined_bit(before, c);
            if (!first) b->joined[bit / 64] |= (uint64_t)1 << bit % 64;
            before = c;
        }
    }
    return KERF_OK;
}

size_t kf_bpe_part(const kf_bpe *b, const kf_vocab *v, const char *text, size_t n)
{
    size_t i, bytes;
    if (!b->joined || n == 0) return n;
    uint32_t before = kf_utf8_get(text, &bytes);
    for (i = bytes; i < n; i += bytes) {
        const uint32_t c = kf_utf8_get(text + i, &bytes);
        const uint32_t bit = joined_bit(before, c);
        if (!(b->joined[bit / 64] >> bit % 64 & 1) &&
            (b->has_bytes || kf_vocab_find(v, text + i, bytes) != KF_NO_TOKEN))
            return i;
        before = c;
    }
    return n;
}

/* --- one word --------------------------------------------------------------------------------- */

typedef struct symbol {
    uint32_t id; /* KF_NO_TOKEN: was merged into the one before */
    uint32_t previous, next;
} symbol;

typedef struct candidate {
    uint64_t order; /* rank << 32 | place */
    uint32_t id;    /* what the two become */
} candidate;

typedef struct known_word {
    uint8_t bytes, count; /* bytes 0: free */
    char word[CACHED_BYTES];
    uint32_t token[CACHED_TOKENS];
} known_word;

struct kf_bpe_work {
    symbol *symbol;
    size_t symbols, capacity;
    candidate *heap;
    size_t waiting, room;
    uint32_t *token;
    size_t tokens;
    known_word *known;
};

#define NONE UINT32_MAX

kerf_status kf_bpe_work_open(kf_bpe_work **out, kerf_error *err)
{
    KF_TRY(kf_allocate(out, 1, sizeof **out, err));
    kerf_status s = kf_allocate(&(*out)->known, CACHE_SLOTS, sizeof *(*out)->known, err);
    if (s != KERF_OK) {
        free(*out);
        *out = NULL;
    }
    return s;
}

void kf_bpe_work_close(kf_bpe_work *w)
{
    if (!w) return;
    free(w->symbol);
    free(w->heap);
    free(w->token);
    free(w->known);
    free(w);
}

static int make_room(kf_bpe_work *w, size_t n)
{
    if (n >= NONE / 4) return 0;
    if (n > w->capacity) {
        const size_t more = n + n / 2 + 64;
        free(w->symbol);
        free(w->token);
        free(w->heap);
        w->symbol = kf_alloc(more, sizeof *w->symbol);
        w->token = kf_alloc(more, sizeof *w->token);
        w->heap = kf_alloc(3 * more, sizeof *w->heap); /* a merge takes one out, adds two */
        w->capacity = w->symbol && w->token && w->heap ? more : 0;
        if (!w->capacity) return 0;
    }
    return 1;
}

static void push(kf_bpe_work *w, candidate c)
{
    size_t i = w->waiting++;
    for (; i > 0 && w->heap[(i - 1) / 2].order > c.order; i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
}

static candidate pop(kf_bpe_work *w)
{
    const candidate top = w->heap[0], last = w->heap[--w->waiting];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < w->waiting) {
        if (child + 1 < w->waiting && w->heap[child + 1].order < w->heap[child].order) child++;
        if (w->heap[child].order >= last.order) break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

static void consider(const kf_bpe *b, kf_bpe_work *w, uint32_t left)
{
    const symbol *s = w->symbol;
    if (left == NONE || s[left].next == NONE) return;
    const uint64_t pair = (uint64_t)s[left].id << 32 | s[s[left].next].id;
    const kf_merge *m = &b->merge[slot_of(b, pair)];
    if (m->pair == pair) push(w, (candidate){(uint64_t)m->rank << 32 | left, m->id});
}

static void merge_all(const kf_bpe *b, kf_bpe_work *w)
{
    symbol *s = w->symbol;
    w->waiting = 0;
    for (uint32_t i = 0; i + 1 < w->symbols; i++) consider(b, w, i);
    while (w->waiting > 0) {
        const candidate c = pop(w);
        const uint32_t at = (uint32_t)c.order, next = s[at].next;
        if (s[at].id == KF_NO_TOKEN || next == NONE) continue;
        const uint64_t pair = (uint64_t)s[at].id << 32 | s[next].id;
        const kf_merge *m = &b->merge[slot_of(b, pair)];
        if (m->pair != pair || m->id != c.id) continue; /* other symbols stand here by now */
        s[at].id = c.id;
        s[at].next = s[next].next;
        s[next].id = KF_NO_TOKEN;
        if (s[at].next != NONE) s[s[at].next].previous = at;
        consider(b, w, s[at].previous);
        consider(b, w, at);
    }
}

static void add_symbol(kf_bpe_work *w, uint32_t id)
{
    const uint32_t i = (uint32_t)w->symbols++;
    w->symbol[i] = (symbol){id, i > 0 ? i - 1 : NONE, NONE};
    if (i > 0) w->symbol[i - 1].next = i;
}

/* Characters as symbols. One that is unknown waits, because the next may belong to it. */
static void take_characters(const kf_bpe *b, const kf_vocab *v, kf_bpe_work *w, const char *word,
                            size_t n)
{
    uint32_t waiting = KF_NO_TOKEN;
    for (size_t i = 0, bytes; i < n; i += bytes) {
        bytes = b->bytes ? 1 : kf_utf8_bytes((unsigned char)word[i]);
        const uint32_t id =
            b->bytes ? b->byte[(unsigned char)word[i]] : kf_vocab_find(v, word + i, bytes);
        if (id != KF_NO_TOKEN) {
            if (waiting != KF_NO_TOKEN) add_symbol(w, waiting);
            waiting = KF_NO_TOKEN;
            add_symbol(w, id);
            continue;
        }
        if (!b->bytes) {
            size_t k = 0;
            while (k < bytes && b->byte[(unsigned char)word[i + k]] != KF_NO_TOKEN) k++;
            if (k == bytes) {
                for (k = 0; k < bytes; k++) add_symbol(w, b->byte[(unsigned char)word[i + k]]);
                continue;
            }
        }
        if (b->unknown == KF_NO_TOKEN) continue;
        if (waiting != KF_NO_TOKEN && !b->fuse_unknown) add_symbol(w, waiting);
        waiting = b->unknown;
    }
    if (waiting != KF_NO_TOKEN) add_symbol(w, waiting);
}

static void encode_word(const kf_bpe *b, const kf_vocab *v, kf_bpe_work *w, const char *word,
                        size_t n)
{
    w->tokens = 0;
    if (b->whole_words) {
        const uint32_t id = kf_vocab_find(v, word, n);
        if (id != KF_NO_TOKEN) {
            w->token[w->tokens++] = id;
            return;
        }
    }
    w->symbols = 0;
    take_characters(b, v, w, word, n);
    merge_all(b, w);
    for (size_t i = 0; i < w->symbols; i++)
        if (w->symbol[i].id != KF_NO_TOKEN) w->token[w->tokens++] = w->symbol[i].id;
}

kerf_status kf_bpe_encode(const kf_bpe *b, const kf_vocab *v, kf_bpe_work *w, const char *word,
                          size_t n, const uint32_t **token, size_t *count, kerf_error *err)
{
    known_word *k = NULL;
    if (n > 0 && n <= CACHED_BYTES) {
        k = &w->known[kf_hash_bytes(word, n) & (CACHE_SLOTS - 1)];
        if (k->bytes == n && memcmp(k->word, word, n) == 0) {
            *token = k->token;
            *count = k->count;
            return KERF_OK;
        }
    }
    if (!make_room(w, n + 1))
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a word of %zu bytes", n);
    encode_word(b, v, w, word, n);
    *token = w->token;
    *count = w->tokens;
    if (k && w->tokens <= CACHED_TOKENS) {
        k->bytes = (uint8_t)n;
        k->count = (uint8_t)w->tokens;
        memcpy(k->word, word, n);
        memcpy(k->token, w->token, w->tokens * sizeof *w->token);
    }
    return KERF_OK;
}
