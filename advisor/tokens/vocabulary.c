/* vocabulary.c - a table from bytes to tokens, and a trie of it. */
#include "vocabulary.h"

#include <stdlib.h>
#include <string.h>

static kerf_status no_memory(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the tokens of a tokenizer");
}

/* --- the table ---------------------------------------------------------------------------------
 */

static uint32_t *slot_of(const kf_vocab *v, const char *p, size_t n)
{
    for (uint32_t i = (uint32_t)kf_hash_bytes(p, n);; i++) {
        uint32_t *s = &v->slot[i & v->mask];
        if (*s == 0) return s;
        const kf_vocab_entry *e = &v->entry[*s - 1];
        if (e->bytes == n && memcmp(v->bytes + e->at, p, n) == 0) return s;
    }
}

static int grow_slots(kf_vocab *v)
{
    const uint32_t slots = v->slot ? 2 * (v->mask + 1) : 64;
    uint32_t *bigger = kf_alloc_zero(slots, sizeof *bigger);
    if (!bigger) return 0;
    free(v->slot);
    v->slot = bigger;
    v->mask = slots - 1;
    for (size_t i = 0; i < v->count; i++)
        *slot_of(v, kf_vocab_text(v, i), v->entry[i].bytes) = (uint32_t)i + 1;
    return 1;
}

static int grow(void *list, size_t *capacity, size_t needed, size_t size)
{
    void *old, *bigger;
    uint64_t bytes;
    size_t more = *capacity ? *capacity : 64;
    if (needed <= *capacity) return 1;
    while (more < needed) more *= 2;
    memcpy(&old, list, sizeof old);
    if (!kf_mul_ok(more, size, &bytes) || !(bigger = realloc(old, (size_t)bytes))) return 0;
    memcpy(list, &bigger, sizeof bigger);
    *capacity = more;
    return 1;
}

kerf_status kf_vocab_add(kf_vocab *v, const char *p, size_t n, uint32_t id, kerf_error *err)
{
    if (v->count >= KF_MOST_TOKENS || n >= UINT32_MAX / 4 || v->used >= UINT32_MAX / 2)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "more tokens than are read");
    if ((!v->slot || 2 * v->count >= v->mask) && !grow_slots(v)) return no_memory(err);
    uint32_t *slot = slot_of(v, p, n);
    if (*slot) {
        v->entry[*slot - 1].id = id;
        return KERF_OK;
    }
    if (!grow(&v->entry, &v->capacity, v->count + 1, sizeof *v->entry) ||
        !grow(&v->bytes, &v->space, v->used + n + 1, 1))
        return no_memory(err);
    memcpy(v->bytes + v->used, p, n);
    v->bytes[v->used + n] = 0;
    v->entry[v->count++] = (kf_vocab_entry){(uint32_t)v->used, (uint32_t)n, id};
    *slot = (uint32_t)v->count;
    v->used += n + 1;
    return KERF_OK;
}

uint32_t kf_vocab_find(const kf_vocab *v, const char *p, size_t n)
{
    if (!v->slot) return KF_NO_TOKEN;
    const uint32_t at = *slot_of(v, p, n);
    return at ? v->entry[at - 1].id : KF_NO_TOKEN;
}

void kf_vocab_free(kf_vocab *v)
{
    free(v->entry);
    free(v->bytes);
    free(v->slot);
    *v = (kf_vocab){0};
}

/* --- the trie ----------------------------------------------------------------------------------
 */

typedef struct key {
    const char *p;
    uint32_t bytes, id;
} key;

static int by_bytes(const void *a, const void *b)
{
    const key *x = a, *y = b;
    const size_t n = x->bytes < y->bytes ? x->bytes : y->bytes;
    const int c = memcmp(x->p, y->p, n);
    return c ? c : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* A node while the trie is built: the sorted keys that go through it. */
typedef struct range {
    uint32_t from, to, depth;
} range;

/* Nodes level by level: each takes its range apart by the next byte. */
static void split_ranges(const key *k, kf_trie *t, range *r)
{
    t->nodes = 1;
    for (uint32_t node = 0; node < t->nodes; node++) {
        const range mine = r[node];
        uint32_t i = mine.from;
        t->first[node] = t->nodes;
        if (i < mine.to && k[i].bytes == mine.depth) t->id[node] = k[i++].id;
        while (i < mine.to) {
            const uint8_t byte = (uint8_t)k[i].p[mine.depth];
            const uint32_t from = i;
            while (i < mine.to && (uint8_t)k[i].p[mine.depth] == byte) i++;
            r[t->nodes] = (range){from, i, mine.depth + 1};
            t->id[t->nodes] = KF_NO_TOKEN;
            t->byte[t->nodes++] = byte;
        }
    }
    t->first[t->nodes] = t->nodes;
}

kerf_status kf_trie_build(const kf_vocab *v, kf_trie *out, kerf_error *err)
{
    const uint64_t most = v->used + 1; /* each byte of a key is a node at most */
    key *k = kf_alloc(v->count + 1, sizeof *k);
    range *r = kf_alloc(most, sizeof *r);
    *out = (kf_trie){.first = kf_alloc(most + 1, sizeof *out->first),
                     .byte = kf_alloc(most, 1),
                     .id = kf_alloc(most, sizeof *out->id)};
    kerf_status s = KERF_OK;
    if (!k || !r || !out->first || !out->byte || !out->id) s = no_memory(err);
    if (s == KERF_OK) {
        size_t n = 0;
        for (size_t i = 0; i < v->count; i++)
            if (v->entry[i].bytes > 0)
                k[n++] = (key){kf_vocab_text(v, i), v->entry[i].bytes, v->entry[i].id};
        qsort(k, n, sizeof *k, by_bytes);
        r[0] = (range){0, (uint32_t)n, 0};
        out->id[0] = KF_NO_TOKEN;
        split_ranges(k, out, r);
        for (size_t i = 0; i < n; i++) out->begins[(uint8_t)k[i].p[0]] = 1;
    }
    free(k);
    free(r);
    if (s != KERF_OK) kf_trie_free(out);
    return s;
}

void kf_trie_free(kf_trie *t)
{
    free(t->first);
    free(t->byte);
    free(t->id);
    *t = (kf_trie){0};
}

uint32_t kf_trie_longest(const kf_trie *t, const char *p, size_t n, size_t *bytes)
{
    uint32_t found = KF_NO_TOKEN, node = 0;
    for (size_t i = 0; i < n && (node = kf_trie_step(t, node, (uint8_t)p[i])) != 0; i++)
        if (t->id[node] != KF_NO_TOKEN) {
            found = t->id[node];
            *bytes = i + 1;
        }
    return found;
}
