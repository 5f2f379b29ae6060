/* tokenizer_gguf.c - the tokenizer inside of a GGUF file: lists of tokens, their types, merges or
 * scores, and the name under which llama.cpp knows how texts are cut.
 *
 * Source: llama.cpp, src/llama-vocab.cpp (the patterns behind the names, and what each kind of
 * model does), gguf-py, constants.py (the keys). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "file/gguf/gguf.h"
#include "tokenizer.h"
#include "utf8.h"

enum { CONTROL = 3, USER_DEFINED = 4 };

#define LETTERS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CLITIC "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"

static const struct {
    const char *name, *pattern[3];
    int whole_words;
} cuts[] = {
    {"gpt-2", {KF_GPT2_PATTERN}, 0},
    {"smollm", {"\\p{N}", KF_GPT2_PATTERN}, 0},
    {"llama-bpe", {LETTERS "\\p{N}{1,3}" REST}, 1},
    {"llama3", {LETTERS "\\p{N}{1,3}" REST}, 1},
    {"qwen2", {LETTERS "\\p{N}" REST}, 0},
    {"gpt-4o",
     {"[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CLITIC "[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER
      "*" CLITIC "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     0},
    {"deepseek-v3",
     {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"
      "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     0},
};

/* --- keys ------------------------------------------------------------------------------------- */

typedef struct list {
    const uint8_t *p; /* of the next item */
    uint64_t count;
    kf_gguf_value type;
} list;

static const kf_gguf_key *find_key(const kf_gguf *g, const char *name)
{
    for (size_t i = 0; i < g->keys; i++)
        if (strncmp(g->key[i].name, "tokenizer.ggml.", 15) == 0 &&
            strcmp(g->key[i].name + 15, name) == 0)
            return &g->key[i];
    return NULL;
}

static list find_list(const kf_gguf *g, const char *name, kf_gguf_value type)
{
    const kf_gguf_key *k = find_key(g, name);
    if (!k || k->type != KF_GGUF_ARRAY) return (list){0};
    const uint8_t *p = g->bytes + k->value;
    const list l = {p + 12, kf_gguf_get(p + 4, 8), (kf_gguf_value)kf_gguf_get(p, 4)};
    return l.type == type ? l : (list){0};
}

/* A string key, which is no longer than `out` with its 0. */
static int get_text(const kf_gguf *g, const char *name, char *out, size_t room)
{
    const kf_gguf_key *k = find_key(g, name);
    if (!k || k->type != KF_GGUF_STRING) return 0;
    const uint64_t n = kf_gguf_get(g->bytes + k->value, 8);
    if (n >= room) return 0;
    memcpy(out, g->bytes + k->value + 8, (size_t)n);
    out[n] = 0;
    return 1;
}

static uint32_t get_u32(const kf_gguf *g, const char *name)
{
    const kf_gguf_key *k = find_key(g, name);
    return k && k->type == KF_GGUF_U32 ? (uint32_t)kf_gguf_get(g->bytes + k->value, 4)
                                       : KF_NO_TOKEN;
}

static int get_flag(const kf_gguf *g, const char *name, int by_default)
{
    const kf_gguf_key *k = find_key(g, name);
    return k && k->type == KF_GGUF_BOOL ? g->bytes[k->value] : by_default;
}

static const char *next_text(list *l, size_t *n)
{
    const char *text = (const char *)l->p + 8;
    *n = (size_t)kf_gguf_get(l->p, 8);
    l->p += 8 + *n;
    return text;
}

/* --- byte-level BPE --------------------------------------------------------------------------- */

static kerf_status take_pattern(kerf_tokenizer *t, const kf_gguf *g, kerf_error *err)
{
    char name[64];
    if (!get_text(g, "pre", name, sizeof name))
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "no tokenizer.ggml.pre says how to cut");
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        if (strcmp(cuts[i].name, name) != 0) continue;
        t->bpe.whole_words = cuts[i].whole_words;
        for (size_t k = 0; k < 3 && cuts[i].pattern[k]; k++)
            KF_TRY(kf_add_split(t, cuts[i].pattern[k], KF_ISOLATED, 0, err));
        return KERF_OK;
    }
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "the pre-tokenizer \"%s\" is not read; its tokenizer.json may be", name);
}

static kerf_status take_merges(kerf_tokenizer *t, list merges, kerf_error *err)
{
    kf_text whole = {0};
    kerf_status s = kf_bpe_reserve(&t->bpe, (size_t)merges.count, err);
    for (uint64_t i = 0; i < merges.count && s == KERF_OK; i++) {
        size_t n;
        const char *text = next_text(&merges, &n);
        const char *space = n > 1 ? memchr(text + 1, ' ', n - 1) : NULL;
        const size_t left = space ? (size_t)(space - text) : 0;
        whole.n = 0;
        if (space) {
            kf_text_add_bytes(&whole, text, left);
            kf_text_add_bytes(&whole, space + 1, n - left - 1);
        }
        const uint32_t a = kf_vocab_find(&t->names, text, left),
                       b = space ? kf_vocab_find(&t->names, space + 1, n - left - 1) : KF_NO_TOKEN,
                       id = whole.p ? kf_vocab_find(&t->names, whole.p, whole.n) : KF_NO_TOKEN;
        if (a == KF_NO_TOKEN || b == KF_NO_TOKEN || id == KF_NO_TOKEN)
            s = kf_fail(err, KERF_E_DATA, i, "merge %llu is no pair of tokens",
                        (unsigned long long)i);
        else
            kf_bpe_add(&t->bpe, a, b, (uint32_t)i, id);
    }
    free(whole.p);
    return s;
}

/* --- SentencePiece's BPE ---------------------------------------------------------------------- */

typedef struct scored {
    float score;
    uint32_t entry;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->entry > y->entry) - (x->entry < y->entry);
}

/* Every way to make this token of two others. */
static size_t add_ways(kerf_tokenizer *t, uint32_t entry, uint32_t rank, int adds)
{
    const kf_vocab_entry *e = &t->names.entry[entry];
    const char *p = kf_vocab_text(&t->names, entry);
    size_t ways = 0;
    for (size_t i = 1; i < e->bytes; i++) {
        if (((unsigned char)p[i] & 0xc0) == 0x80) continue;
        const uint32_t a = kf_vocab_find(&t->names, p, i),
                       b = kf_vocab_find(&t->names, p + i, e->bytes - i);
        if (a == KF_NO_TOKEN || b == KF_NO_TOKEN) continue;
        if (adds) kf_bpe_add(&t->bpe, a, b, rank, e->id);
        ways++;
    }
    return ways;
}

/* Merges of the best score come first: ranks are places among the scores. */
static kerf_status rank_by_score(kerf_tokenizer *t, const float *score, kerf_error *err)
{
    const size_t n = t->names.count;
    scored *order = NULL;
    size_t ways = 0;
    KF_TRY(kf_allocate(&order, n + 1, sizeof *order, err));
    for (uint32_t i = 0; i < n; i++) {
        order[i] = (scored){score[t->names.entry[i].id], i};
        ways += add_ways(t, i, 0, 0);
    }
    qsort(order, n, sizeof *order, by_score);
    kerf_status s = kf_bpe_reserve(&t->bpe, ways, err);
    uint32_t rank = 0;
    for (size_t i = 0; i < n && s == KERF_OK; i++) {
        if (i > 0 && order[i].score != order[i - 1].score) rank++;
        (void)add_ways(t, order[i].entry, rank, 1);
    }
    free(order);
    return s;
}

static kerf_status add_normal(kerf_tokenizer *t, kf_normal_kind kind, const char *what,
                              kerf_error *err)
{
    kf_normal *s = &t->normal[t->normals++];
    s->kind = kind;
    s->what = strdup(what);
    s->with = strdup("\xe2\x96\x81");
    return s->what && s->with ? KERF_OK : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory");
}

static kerf_status take_scores(kerf_tokenizer *t, const kf_gguf *g, uint64_t tokens,
                               kerf_error *err)
{
    list l = find_list(g, "scores", KF_GGUF_F32);
    float *score = NULL;
    if (l.count != tokens)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "not one score for each token");
    KF_TRY(kf_allocate(&score, tokens, sizeof *score, err));
    memcpy(score, l.p, (size_t)tokens * sizeof *score);
    kerf_status s = KERF_OK;
    for (uint64_t i = 0; i < tokens && s == KERF_OK; i++)
        if (!isfinite(score[i])) s = kf_fail(err, KERF_E_DATA, i, "a score is no number");
    if (s == KERF_OK) s = rank_by_score(t, score, err);
    free(score);
    if (s == KERF_OK && get_flag(g, "add_space_prefix", 1))
        s = add_normal(t, KF_NORMAL_PREPEND, "", err);
    return s == KERF_OK ? add_normal(t, KF_NORMAL_REPLACE, " ", err) : s;
}

/* --- all -------------------------------------------------------------------------------------- */

static kerf_status take_tokens(kerf_tokenizer *t, list texts, list types, kerf_error *err)
{
    for (uint64_t i = 0; i < texts.count; i++) {
        size_t n;
        const char *text = next_text(&texts, &n);
        const uint64_t type = types.count ? kf_gguf_get(types.p + 4 * i, 4) : 1;
        const kf_added added = {.id = (uint32_t)i};
        if (kf_utf8_check(text, n) < n || memchr(text, 0, n))
            return kf_fail(err, KERF_E_DATA, i, "token %llu is no UTF-8", (unsigned long long)i);
        KF_TRY(kf_take_token(t, text, n, i, err));
        if (type == CONTROL || type == USER_DEFINED)
            KF_TRY(kf_add_token(&t->raw, text, n, added, err));
    }
    return KERF_OK;
}

static kerf_status take_bos(kerf_tokenizer *t, const kf_gguf *g, int by_default, kerf_error *err)
{
    const uint32_t bos = get_u32(g, "bos_token_id");
    if (bos == KF_NO_TOKEN || !get_flag(g, "add_bos_token", by_default)) return KERF_OK;
    KF_TRY(kf_allocate(&t->before, 1, sizeof *t->before, err));
    t->before[0] = bos;
    t->befores = 1;
    return KERF_OK;
}

static kerf_status take_all(kerf_tokenizer *t, const kf_gguf *g, kerf_error *err)
{
    char model[32] = "(none)";
    const list texts = find_list(g, "tokens", KF_GGUF_STRING),
               types = find_list(g, "token_type", KF_GGUF_I32);
    (void)get_text(g, "model", model, sizeof model);
    const int is_llama = strcmp(model, "llama") == 0;
    if (!is_llama && strcmp(model, "gpt2") != 0)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "a tokenizer of the kind \"%s\" is not read from GGUF, gpt2 and llama are",
                       model);
    if (texts.count == 0 || texts.count > KF_MOST_TOKENS ||
        (types.count && types.count != texts.count))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "no tokens, or not a type for each");
    t->is_bytes = !is_llama;
    KF_TRY(take_tokens(t, texts, types, err));
    t->bpe.unknown = is_llama ? get_u32(g, "unknown_token_id") : KF_NO_TOKEN;
    if (t->bpe.unknown >= texts.count) t->bpe.unknown = KF_NO_TOKEN;
    if (is_llama)
        KF_TRY(take_scores(t, g, texts.count, err));
    else
        KF_TRY(take_pattern(t, g, err));
    if (!is_llama) KF_TRY(take_merges(t, find_list(g, "merges", KF_GGUF_STRING), err));
    KF_TRY(kf_finish_bpe(t, is_llama, err));
    KF_TRY(take_bos(t, g, is_llama, err));
    return kf_finish_tokenizer(t, err);
}

kerf_status kf_tokenizer_from_gguf(kerf_tokenizer *t, const kerf_reader *r, kerf_error *err)
{
    const char *packed = kerf_reader_metadata(r, 0, KF_GGUF_CARRIED);
    uint8_t *bytes;
    size_t n;
    kf_gguf g;
    if (!packed) return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: no header", t->path);
    KF_TRY(kf_gguf_unpack(packed, &bytes, &n, err));
    KF_TRY(kf_gguf_parse(t->path, bytes, n, &g, err));
    kerf_status s = take_all(t, &g, err);
    kf_gguf_free(&g);
    return s == KERF_OK ? s : kf_fail_at(err, s, t->path);
}
