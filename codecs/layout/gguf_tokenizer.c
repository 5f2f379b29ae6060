/* gguf_tokenizer.c - the tokens, merges and special tokens of tokenizer.json; where there is none,
 * those of tokenizer.model.
 *
 * Source: llama.cpp, convert_hf_to_gguf.py (get_vocab_base, _create_vocab_sentencepiece) and
 * gguf-py, vocab.py. */
#include "layout/gguf_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/disk/io.h"
#include "file/gguf/gguf_put.h"
#include "file/json/json_read.h"
#include "layout/config_file.h"
#include "layout/gguf_cut.h"
#include "layout/gguf_pieces.h"
#include "layout/gguf_sentencepiece.h"
#include "layout/gguf_token_arrays.h"
#include "roles/facts.h"

#define CONVERT_FIRST \
    "convert the model with llama.cpp's convert_hf_to_gguf.py, and run kerf on the result"

#define MOST_TOKENS (1u << 22)
#define MOST_TEMPLATE_BYTES (UINT64_C(1) << 20)
#define MOST_PIECES_BYTES (UINT64_C(1) << 26)

/* --- tokens ------------------------------------------------------------------------------------
 */

static kerf_status fail_tokenizer(kerf_error *err, const char *why)
{
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "tokenizer.json: %s", why);
}

static int take_token(kf_token *list, size_t n, const json_t *id, const char *text, int type)
{
    const json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    if (i < 0 || (uint64_t)i >= n || !text) return 0;
    list[i] = (kf_token){text, type};
    return 1;
}

static int is_control(const json_t *added, const char *text)
{
    const size_t n = strlen(text);
    return json_is_true(json_object_get(added, "special")) ||
           (n > 4 && strncmp(text, "<|", 2) == 0 && strcmp(text + n - 2, "|>") == 0);
}

static kerf_status take_tokens(const json_t *tokenizer, kf_token *list, size_t n, kerf_error *err)
{
    const char *text;
    json_t *id, *added;
    size_t i;
    const json_t *vocab = json_object_get(json_object_get(tokenizer, "model"), "vocab");
    const int pieces = kf_pieces_are(tokenizer);
    const char *unknown =
        pieces
            ? json_string_value(json_object_get(json_object_get(tokenizer, "model"), "unk_token"))
            : NULL;
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id)
    {
        const int type = pieces && kf_piece_is_byte(text) ? KF_TOKEN_BYTE : KF_TOKEN_NORMAL;
        if (!take_token(list, n, id, text, type))
            return fail_tokenizer(err, "a token has no number below vocab_size");
    }
    json_array_foreach(json_object_get(tokenizer, "added_tokens"), i, added)
    {
        text = json_string_value(json_object_get(added, "content"));
        int type = text && is_control(added, text) ? KF_TOKEN_CONTROL : KF_TOKEN_USER_DEFINED;
        if (text && unknown && strcmp(text, unknown) == 0) type = KF_TOKEN_UNKNOWN;
        if (!take_token(list, n, json_object_get(added, "id"), text, type))
            return fail_tokenizer(err, "an added token has no number below vocab_size");
    }
    return KERF_OK;
}

static kerf_status add_scores(const json_t *tokenizer, size_t n, kf_text *t, uint32_t *count,
                              kerf_error *err)
{
    float *score = NULL;
    KF_TRY(kf_allocate(&score, n, sizeof *score, err));
    kerf_status s = kf_pieces_score(tokenizer, score, n, err);
    if (s == KERF_OK) kf_gguf_put_scores(score, n, t, count);
    free(score);
    return s;
}

/* "a b", as older files have them, or a pair. */
static kerf_status add_merges(const json_t *tokenizer, kf_text *t, uint32_t *count, kerf_error *err)
{
    const json_t *merges = json_object_get(json_object_get(tokenizer, "model"), "merges");
    json_t *one;
    size_t i;
    if (!json_is_array(merges)) return fail_tokenizer(err, "no merges");
    kf_gguf_begin_array(t, "tokenizer.ggml.merges", KF_GGUF_STRING, json_array_size(merges), count);
    json_array_foreach(merges, i, one)
    {
        const char *a = json_string_value(json_array_get(one, 0));
        const char *b = json_string_value(json_array_get(one, 1));
        if (json_is_string(one)) {
            kf_gguf_put_string(t, json_string_value(one));
        } else if (a && b && !strchr(a, ' ') && !strchr(b, ' ')) {
            kf_gguf_put(t, strlen(a) + 1 + strlen(b), 8);
            kf_text_add_bytes(t, a, strlen(a));
            kf_text_add_bytes(t, " ", 1);
            kf_text_add_bytes(t, b, strlen(b));
        } else {
            return fail_tokenizer(err, "a merge is no pair of tokens");
        }
    }
    return KERF_OK;
}

/* --- special tokens ----------------------------------------------------------------------------
 */

static void add_id(const json_t *config, const char *from, const char *key, kf_text *t,
                   uint32_t *count)
{
    const json_t *v = json_object_get(config, from);
    if (json_is_array(v)) v = json_array_get(v, 0); /* llama.cpp finds the others by their text */
    if (!json_is_integer(v) || json_integer_value(v) < 0) return;
    kf_gguf_put_u32(t, key, (uint32_t)json_integer_value(v));
    ++*count;
}

/* Whether what comes behind the tokenizer puts a special token before a text. */
static int begins_with_special(const json_t *post)
{
    const char *type = json_string_value(json_object_get(post, "type"));
    json_t *one;
    size_t i;
    int found = 0;
    json_array_foreach(json_object_get(post, "processors"), i, one) found |=
        begins_with_special(one);
    if (!type || strcmp(type, "TemplateProcessing") != 0) return found;
    return json_object_get(json_array_get(json_object_get(post, "single"), 0), "SpecialToken") !=
           NULL;
}

static void add_bool(kf_text *t, const char *key, int value, uint32_t *count)
{
    kf_gguf_put_key(t, key, KF_GGUF_BOOL);
    kf_gguf_put(t, (uint64_t)value, 1);
    ++*count;
}

/* One text, or some that have names. */
static const char *chat_template(const json_t *more)
{
    const json_t *all = json_object_get(more, "chat_template");
    json_t *one;
    size_t i;
    json_array_foreach(all, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && strcmp(name, "default") == 0)
            return json_string_value(json_object_get(one, "template"));
    }
    return json_string_value(all);
}

/* A file of the folder; *out NULL: it is not there. */
static kerf_status read_beside(const kerf_reader *r, const char *name, uint64_t most, char **out,
                               size_t *n, kerf_error *err)
{
    kerf_error own = {.text = ""};
    char *path = kf_path_join(kerf_reader_folder(r), name);
    *out = NULL;
    if (!path) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %s", name);
    kerf_status s = kf_read_whole(path, most, out, n, &own);
    if (kf_json_is_absent(path, s, &own))
        s = KERF_OK;
    else if (s != KERF_OK && err)
        *err = own;
    free(path);
    return s;
}

/* begins: whether a text begins with a special token where tokenizer_config.json says nothing. */
static void add_special(const json_t *config, const json_t *more, int begins, const char *chat,
                        kf_text *t, uint32_t *count)
{
    const json_t *add = json_object_get(more, "add_bos_token");
    if (!chat) chat = chat_template(more);
    const int bos = json_is_boolean(add) ? json_is_true(add) : begins;
    add_id(config, "bos_token_id", "tokenizer.ggml.bos_token_id", t, count);
    add_id(config, "eos_token_id", "tokenizer.ggml.eos_token_id", t, count);
    add_id(config, "pad_token_id", "tokenizer.ggml.padding_token_id", t, count);
    add_bool(t, "tokenizer.ggml.add_bos_token", bos, count);
    if (!chat) return;
    kf_gguf_put_key(t, "tokenizer.chat_template", KF_GGUF_STRING);
    kf_gguf_put_string(t, chat);
    ++*count;
}

/* --- all -----------------------------------------------------------------------------------------
 */

/* How a tokenizer is called in a GGUF file. */
typedef struct kind {
    const char *model, *cut; /* NULL: it is none that is known */
    int has_scores, prefix;
} kind;

static kind find_kind(const json_t *tokenizer)
{
    const json_t *model = json_object_get(tokenizer, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    kind k = {0};
    if (kf_pieces_are(tokenizer)) {
        k = (kind){.model = "llama", .has_scores = 1};
        if (kf_pieces_normal(tokenizer, &k.prefix)) k.cut = "default";
    } else if ((!type || strcmp(type, "BPE") == 0) && json_object_get(model, "merges")) {
        k = (kind){.model = "gpt2", .cut = kf_gguf_cut_name(tokenizer)};
    }
    return k;
}

static kerf_status check(const json_t *tokenizer, const kind *k, kerf_error *err)
{
    if (k->model && k->cut) return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "%s: " CONVERT_FIRST,
                   !tokenizer  ? "a GGUF file needs the tokens of its model, and there is no "
                                 "tokenizer.json and no tokenizer.model"
                   : !k->model ? "tokenizer.json is no BPE, and no other is written as GGUF"
                               : "tokenizer.json cuts texts in a way that kerf has no name of "
                                 "llama.cpp's for");
}

/* What joins the tokens, and how texts are cut before. */
static void add_model(const char *model, const char *cut, kf_text *t, uint32_t *count)
{
    kf_gguf_put_key(t, "tokenizer.ggml.model", KF_GGUF_STRING);
    kf_gguf_put_string(t, model);
    kf_gguf_put_key(t, "tokenizer.ggml.pre", KF_GGUF_STRING);
    kf_gguf_put_string(t, cut);
    *count += 2;
}

static void add_unknown(const kf_token *list, size_t n, kf_text *t, uint32_t *count)
{
    for (size_t i = 0; i < n; i++) {
        if (!list[i].text || list[i].type != KF_TOKEN_UNKNOWN) continue;
        kf_gguf_put_u32(t, "tokenizer.ggml.unknown_token_id", (uint32_t)i);
        ++*count;
        return;
    }
}

static kerf_status add_keys(const json_t *tokenizer, const json_t *config, const json_t *more,
                            const char *chat, kf_text *t, uint32_t *count, kerf_error *err)
{
    const kind k = find_kind(tokenizer);
    const uint64_t n = kf_fact_number(config, "vocab_size");
    kf_token *list = NULL;
    KF_TRY(check(tokenizer, &k, err));
    if (n > MOST_TOKENS) return fail_tokenizer(err, "more tokens than are read");
    KF_TRY(kf_allocate(&list, (size_t)n, sizeof *list, err));
    add_model(k.model, k.cut, t, count);
    kerf_status s = take_tokens(tokenizer, list, (size_t)n, err);
    if (s == KERF_OK) kf_gguf_put_tokens(list, (size_t)n, t, count);
    if (s == KERF_OK)
        s = k.has_scores ? add_scores(tokenizer, (size_t)n, t, count, err)
                         : add_merges(tokenizer, t, count, err);
    if (s == KERF_OK && k.has_scores)
        add_bool(t, "tokenizer.ggml.add_space_prefix", k.prefix, count);
    if (s == KERF_OK) {
        add_unknown(list, (size_t)n, t, count);
        add_special(config, more, begins_with_special(json_object_get(tokenizer, "post_processor")),
                    chat, t, count);
    }
    free(list);
    return s;
}

/* --- tokenizer.model -----------------------------------------------------------------------------
 */

typedef struct scored {
    kf_token *list;
    float *score;
    size_t n;
} scored;

/* One that was added later takes the place of what the file has. The model has none from n on. */
static void put_later(const scored *l, uint64_t i, const char *text, int type)
{
    if (i >= l->n) return;
    l->list[i] = (kf_token){text, type};
    l->score[i] = -1000;
}

/* Numbers by text, and a list by number. */
static kerf_status take_later(const scored *l, const json_t *by_number, const json_t *by_text,
                              kerf_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)by_text, key, value)
    {
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "added_tokens.json: a token has no number");
        put_later(l, (uint64_t)json_integer_value(value), key, KF_TOKEN_USER_DEFINED);
    }
    json_object_foreach((json_t *)(uintptr_t)by_number, key, value)
    {
        const char *text = json_string_value(json_object_get(value, "content"));
        const size_t digits = strspn(key, "0123456789");
        if (digits == 0 || key[digits] || !text)
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "tokenizer_config.json: added_tokens_decoder: a token has no number or "
                           "no text");
        put_later(l, strtoull(key, NULL, 10), text,
                  is_control(value, text) ? KF_TOKEN_CONTROL : KF_TOKEN_USER_DEFINED);
    }
    return KERF_OK;
}

static kerf_status check_pieces(const kf_pieces *p, uint64_t n, kerf_error *err)
{
    if (n > MOST_TOKENS || p->count > n)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "tokenizer.model: %zu tokens, and config.json has a vocab_size of %llu",
                       p->count, (unsigned long long)n);
    if (p->is_bpe && !p->is_changed) return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "tokenizer.model: %s: " CONVERT_FIRST,
                   !p->is_bpe ? "it was not trained as BPE, and no other is written as GGUF"
                              : "it changes texts before they are cut, as llama.cpp does not");
}

static kerf_status add_piece_keys(const kf_pieces *p, const scored *l, const json_t *config,
                                  const json_t *more, const json_t *later, const char *chat,
                                  kf_text *t, uint32_t *count, kerf_error *err)
{
    for (size_t i = 0; i < l->n; i++) {
        l->score[i] = i < p->count ? p->piece[i].score : -10000;
        if (i < p->count) l->list[i] = (kf_token){p->piece[i].text, p->piece[i].type};
    }
    add_unknown(l->list, l->n, t, count); /* its type becomes that of a control token */
    KF_TRY(take_later(l, json_object_get(more, "added_tokens_decoder"), later, err));
    add_model("llama", "default", t, count);
    kf_gguf_put_tokens(l->list, l->n, t, count);
    kf_gguf_put_scores(l->score, l->n, t, count);
    add_bool(t, "tokenizer.ggml.add_space_prefix", p->prefix, count);
    add_special(config, more, p->has_bos, chat, t, count);
    return KERF_OK;
}

static kerf_status add_pieces(const kerf_reader *r, const kf_pieces *p, const json_t *config,
                              const json_t *more, const char *chat, kf_text *t, uint32_t *count,
                              kerf_error *err)
{
    scored l = {.n = (size_t)kf_fact_number(config, "vocab_size")};
    json_t *later = NULL;
    KF_TRY(check_pieces(p, l.n, err));
    kerf_status s = kf_allocate(&l.list, l.n, sizeof *l.list, err);
    if (s == KERF_OK) s = kf_allocate(&l.score, l.n, sizeof *l.score, err);
    if (s == KERF_OK) s = kf_config_load(r, "added_tokens.json", &later, err);
    if (s == KERF_OK) s = add_piece_keys(p, &l, config, more, later, chat, t, count, err);
    json_decref(later);
    free(l.list);
    free(l.score);
    return s;
}

/* *done: there is a tokenizer.model. */
static kerf_status add_model_keys(const kerf_reader *r, const json_t *config, const json_t *more,
                                  const char *chat, kf_text *t, uint32_t *count, int *done,
                                  kerf_error *err)
{
    char *file;
    size_t n = 0;
    kf_pieces p = {.piece = NULL};
    KF_TRY(read_beside(r, "tokenizer.model", MOST_PIECES_BYTES, &file, &n, err));
    *done = file != NULL;
    if (!file) return KERF_OK;
    kerf_status s = kf_pieces_parse("tokenizer.model", (const unsigned char *)file, n, &p, err);
    if (s == KERF_OK) s = add_pieces(r, &p, config, more, chat, t, count, err);
    kf_pieces_close(&p);
    free(file);
    return s;
}

kerf_status kf_gguf_tokenizer_keys(const kerf_reader *r, const json_t *config, kf_text *t,
                                   uint32_t *count, kerf_error *err)
{
    json_t *tokenizer = NULL, *more = NULL;
    char *chat = NULL;
    size_t bytes;
    int done = 0;
    kerf_status s = kf_config_load(r, "tokenizer.json", &tokenizer, err);
    if (s == KERF_OK) s = kf_config_load(r, "tokenizer_config.json", &more, err);
    if (s == KERF_OK)
        s = read_beside(r, "chat_template.jinja", MOST_TEMPLATE_BYTES, &chat, &bytes, err);
    if (s == KERF_OK && !tokenizer) s = add_model_keys(r, config, more, chat, t, count, &done, err);
    if (s == KERF_OK && !done) s = add_keys(tokenizer, config, more, chat, t, count, err);
    free(chat);
    json_decref(tokenizer);
    json_decref(more);
    return s;
}
