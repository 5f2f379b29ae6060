/* tokenizer_json.c - the model, the added tokens and the template of a tokenizer.json.
 *
 * Source: tokenizers 0.22, src/tokenizer/serialization.rs, src/models, src/processors. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "file/json/json_read.h"
#include "tokenizer.h"

#define MOST_BYTES (1u << 27) /* the largest known has 35 MB */

static kerf_status bad(kerf_error *err, const char *why)
{
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s", why);
}

static int has_text(const json_t *j, const char *key)
{
    return json_string_length(json_object_get(j, key)) > 0;
}

static uint64_t id_of(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0 ? (uint64_t)json_integer_value(v)
                                                            : UINT64_MAX;
}

/* --- BPE -------------------------------------------------------------------------------------- */

/* The two tokens of a merge: "a b", as older files have it, or a pair. */
static int sides_of(const json_t *one, const char *side[2], size_t n[2])
{
    const json_t *a = json_array_get(one, 0), *b = json_array_get(one, 1);
    if (json_is_string(a) && json_is_string(b) && json_array_size(one) == 2) {
        side[0] = json_string_value(a), n[0] = json_string_length(a);
        side[1] = json_string_value(b), n[1] = json_string_length(b);
        return 1;
    }
    const char *text = json_string_value(one), *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' ')) return 0;
    side[0] = text, n[0] = (size_t)(space - text);
    side[1] = space + 1, n[1] = strlen(space + 1);
    return 1;
}

static kerf_status take_merge(kerf_tokenizer *t, const json_t *one, uint32_t rank, kf_text *whole,
                              kerf_error *err)
{
    const char *side[2];
    size_t n[2];
    if (!sides_of(one, side, n)) return bad(err, "a merge is no pair of tokens");
    whole->n = 0;
    for (int i = 0; i < 2; i++) kf_text_add_bytes(whole, side[i], n[i]);
    if (whole->failed) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for merges");
    const uint32_t left = kf_vocab_find(&t->names, side[0], n[0]),
                   right = kf_vocab_find(&t->names, side[1], n[1]),
                   id = kf_vocab_find(&t->names, whole->p, whole->n);
    if (left == KF_NO_TOKEN || right == KF_NO_TOKEN || id == KF_NO_TOKEN)
        return kf_fail(err, KERF_E_DATA, rank, "merge %u has a token that is not in the vocabulary",
                       rank);
    kf_bpe_add(&t->bpe, left, right, rank, id);
    return KERF_OK;
}

static kerf_status take_merges(kerf_tokenizer *t, const json_t *list, kerf_error *err)
{
    kf_text whole = {0};
    size_t i;
    json_t *one;
    kerf_status s = KERF_OK;
    if (!json_is_array(list)) return bad(err, "no merges");
    KF_TRY(kf_bpe_reserve(&t->bpe, json_array_size(list), err));
    json_array_foreach(list, i, one)
    {
        s = take_merge(t, one, (uint32_t)i, &whole, err);
        if (s != KERF_OK) break;
    }
    free(whole.p);
    return s;
}

static kerf_status take_bpe(kerf_tokenizer *t, const json_t *model, kerf_error *err)
{
    static const char *const refused[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *unknown = json_object_get(model, "unk_token"),
                 *vocab = json_object_get(model, "vocab");
    const char *text;
    json_t *id;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (has_text(model, refused[i]))
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "BPE with %s is not read", refused[i]);
    if (json_number_value(json_object_get(model, "dropout")) > 0)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "BPE with dropout is random, and not read");
    if (!json_is_object(vocab)) return bad(err, "no vocabulary");
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id)
    {
        KF_TRY(kf_take_token(t, text, strlen(text), id_of(id), err));
    }
    t->bpe.unknown = KF_NO_TOKEN;
    if (json_is_string(unknown))
        t->bpe.unknown =
            kf_vocab_find(&t->names, json_string_value(unknown), json_string_length(unknown));
    t->bpe.fuse_unknown = json_is_true(json_object_get(model, "fuse_unk"));
    t->bpe.whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    KF_TRY(take_merges(t, json_object_get(model, "merges"), err));
    return kf_finish_bpe(t, json_is_true(json_object_get(model, "byte_fallback")), err);
}

/* --- unigram ---------------------------------------------------------------------------------- */

static kerf_status take_unigram(kerf_tokenizer *t, const json_t *model, kerf_error *err)
{
    const json_t *vocab = json_object_get(model, "vocab"), *id = json_object_get(model, "unk_id");
    kf_unigram *u = &t->unigram;
    size_t i;
    json_t *one;
    char name[8];
    if (t->is_bytes)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "a unigram model of bytes is not read");
    if (!json_is_array(vocab) || json_array_size(vocab) == 0) return bad(err, "no vocabulary");
    t->is_unigram = 1;
    u->scores = json_array_size(vocab);
    KF_TRY(kf_allocate(&u->score, u->scores, sizeof *u->score, err));
    json_array_foreach(vocab, i, one)
    {
        const json_t *text = json_array_get(one, 0), *score = json_array_get(one, 1);
        if (!json_is_string(text) || !json_is_number(score))
            return bad(err, "an entry of the vocabulary is no token with its score");
        KF_TRY(kf_take_token(t, json_string_value(text), json_string_length(text), i, err));
        u->score[i] = json_number_value(score);
        if (i == 0 || u->score[i] < u->least) u->least = u->score[i];
    }
    u->unknown = id_of(id) < u->scores ? (uint32_t)id_of(id) : KF_NO_TOKEN;
    u->byte_fallback = json_is_true(json_object_get(model, "byte_fallback"));
    for (unsigned b = 0; b < 256; b++) {
        static const char digit[] = "0123456789ABCDEF";
        memcpy(name, "<0x..>", 7);
        name[3] = digit[b >> 4];
        name[4] = digit[b & 15];
        u->byte[b] = kf_vocab_find(&t->names, name, 6);
    }
    return kf_trie_build(&t->names, &u->trie, err);
}

/* --- around the model ------------------------------------------------------------------------- */

static kerf_status take_added(kerf_tokenizer *t, const json_t *list, kerf_error *err)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
    {
        const char *text = json_string_value(json_object_get(one, "content"));
        const uint64_t id = id_of(json_object_get(one, "id"));
        if (!text || id >= KF_MOST_TOKENS)
            return bad(err, "an added token has no text, or no number that is possible");
        const kf_added a = {(uint32_t)id, json_is_true(json_object_get(one, "single_word")),
                            json_is_true(json_object_get(one, "lstrip")),
                            json_is_true(json_object_get(one, "rstrip"))};
        KF_TRY(kf_take_added(t, text, a, json_is_true(json_object_get(one, "normalized")), err));
    }
    return KERF_OK;
}

static kerf_status add_ids(uint32_t **list, size_t *count, const json_t *ids, kerf_error *err)
{
    size_t i;
    json_t *id;
    uint32_t *more = realloc(*list, (*count + json_array_size(ids) + 1) * sizeof *more);
    if (!more) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a template");
    *list = more;
    json_array_foreach(ids, i, id)
    {
        if (id_of(id) >= KF_MOST_TOKENS) return bad(err, "the template has a token that is none");
        more[(*count)++] = (uint32_t)id_of(id);
    }
    return KERF_OK;
}

static kerf_status take_single(kerf_tokenizer *t, const json_t *post, kerf_error *err)
{
    const json_t *tokens = json_object_get(post, "special_tokens");
    size_t i;
    json_t *one;
    int behind = 0;
    json_array_foreach(json_object_get(post, "single"), i, one)
    {
        const char *name =
            json_string_value(json_object_get(json_object_get(one, "SpecialToken"), "id"));
        const json_t *ids = json_object_get(json_object_get(tokens, name ? name : ""), "ids");
        if (json_object_get(one, "Sequence"))
            behind = 1;
        else if (behind)
            KF_TRY(add_ids(&t->after, &t->afters, ids, err));
        else
            KF_TRY(add_ids(&t->before, &t->befores, ids, err));
    }
    return KERF_OK;
}

static kerf_status take_template(kerf_tokenizer *t, const json_t *post, int depth, kerf_error *err)
{
    const char *type = json_string_value(json_object_get(post, "type"));
    size_t i;
    json_t *one;
    if (!type || depth > KF_MOST_STEPS || strcmp(type, "ByteLevel") == 0) return KERF_OK;
    if (strcmp(type, "TemplateProcessing") == 0) return take_single(t, post, err);
    if (strcmp(type, "Sequence") != 0) t->no_template = 1;
    json_array_foreach(json_object_get(post, "processors"), i, one)
        KF_TRY(take_template(t, one, depth + 1, err));
    return KERF_OK;
}

/* --- all of it -------------------------------------------------------------------------------- */

static kerf_status take_model(kerf_tokenizer *t, const json_t *model, kerf_error *err)
{
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!type) type = json_object_get(model, "merges") ? "BPE" : "(no type)";
    if (strcmp(type, "BPE") == 0) return take_bpe(t, model, err);
    if (strcmp(type, "Unigram") == 0) return take_unigram(t, model, err);
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "a tokenizer of the kind \"%.*s\" is not read, BPE and Unigram are",
                   KF_NAME(type));
}

static kerf_status take_all(kerf_tokenizer *t, const json_t *j, kerf_error *err)
{
    KF_TRY(kf_take_normalizers(t, json_object_get(j, "normalizer"), err));
    KF_TRY(kf_take_cuts(t, json_object_get(j, "pre_tokenizer"), err));
    KF_TRY(take_model(t, json_object_get(j, "model"), err));
    KF_TRY(take_added(t, json_object_get(j, "added_tokens"), err));
    KF_TRY(take_template(t, json_object_get(j, "post_processor"), 0, err));
    return kf_finish_tokenizer(t, err);
}

kerf_status kf_tokenizer_from_json(kerf_tokenizer *t, kerf_error *err)
{
    json_t *j;
    KF_TRY(kf_json_read(t->path, MOST_BYTES, KF_JSON_PYTHON, &j, err));
    kerf_status s = take_all(t, j, err);
    json_decref(j);
    return s == KERF_OK ? s : kf_fail_at(err, s, t->path);
}
