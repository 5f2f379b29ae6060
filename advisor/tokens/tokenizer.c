/* tokenizer.c - opens a tokenizer, whatever it is stored in, and makes tokens of texts. */
#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "file/disk/io.h"
#include "utf8.h"

#define MOST_TEXT_BYTES ((uint64_t)1 << 32)

/* --- opening ---------------------------------------------------------------------------------- */

static kerf_status new_tokenizer(char *path, kerf_tokenizer **out, kerf_error *err)
{
    *out = path ? kf_alloc_zero(1, sizeof **out) : NULL;
    if (*out) {
        (*out)->path = path;
        return KERF_OK;
    }
    free(path);
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a tokenizer");
}

static kerf_status finish(kerf_tokenizer **t, kerf_status s)
{
    if (s == KERF_OK) return s;
    kerf_tokenizer_close(*t);
    *t = NULL;
    return s;
}

static kerf_status open_json(char *path, const char *folder, kerf_tokenizer **out, kerf_error *err)
{
    struct stat st;
    KF_TRY(new_tokenizer(path, out, err));
    if (folder && stat(path, &st) != 0) {
        (void)kf_fail(err, KERF_E_IO, KF_NOWHERE,
                      "%.*s: no tokenizer.json; with Python: "
                      "transformers.AutoTokenizer.from_pretrained(d).save_pretrained(d)",
                      KF_NAME(folder));
        return finish(out, KERF_E_IO);
    }
    return finish(out, kf_tokenizer_from_json(*out, err));
}

static kerf_status open_gguf(const kerf_reader *r, const char *path, kerf_tokenizer **out,
                             kerf_error *err)
{
    KF_TRY(new_tokenizer(strdup(path), out, err));
    return finish(out, kf_tokenizer_from_gguf(*out, r, err));
}

kerf_status kerf_tokenizer_open(const char *path, kerf_tokenizer **out, kerf_error *err)
{
    struct stat st;
    kerf_reader *r;
    *out = NULL;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return open_json(kf_path_join(path, "tokenizer.json"), path, out, err);
    if (!kf_has_suffix(path, ".gguf")) return open_json(strdup(path), NULL, out, err);
    KF_TRY(kerf_reader_open(path, &r, err));
    kerf_status s = open_gguf(r, path, out, err);
    kerf_reader_close(r);
    return s;
}

kerf_status kerf_tokenizer_open_for(const kerf_checkpoint *c, kerf_tokenizer **out, kerf_error *err)
{
    const kerf_reader *r = kerf_checkpoint_reader(c);
    const char *folder = kerf_reader_folder(r);
    *out = NULL;
    if (kerf_reader_is_gguf(r)) return open_gguf(r, kerf_checkpoint_path(c), out, err);
    return open_json(kf_path_join(folder, "tokenizer.json"), folder, out, err);
}

void kerf_tokenizer_close(kerf_tokenizer *t)
{
    if (!t) return;
    kf_vocab_free(&t->names);
    kf_vocab_free(&t->bytes);
    kf_vocab_free(&t->added);
    kf_added_free(&t->raw);
    kf_added_free(&t->normalized);
    for (size_t i = 0; i < t->normals; i++) kf_normal_free(&t->normal[i]);
    for (size_t i = 0; i < t->cuts; i++) kf_cut_free(&t->cut[i]);
    kf_bpe_free(&t->bpe);
    kf_unigram_free(&t->unigram);
    free(t->by_id);
    free(t->before);
    free(t->after);
    free(t->path);
    free(t);
}

const char *kerf_tokenizer_kind(const kerf_tokenizer *t)
{
    return t->is_unigram ? "unigram" : t->is_bytes ? "byte-level BPE" : "SentencePiece BPE";
}

uint64_t kerf_tokenizer_vocabulary(const kerf_tokenizer *t)
{
    return t->named > 0 ? (uint64_t)t->by_id[t->named - 1].id + 1 : 0;
}

const char *kerf_tokenizer_token(const kerf_tokenizer *t, uint32_t id)
{
    size_t a = 0, b = t->named;
    while (a < b) {
        const size_t m = a + (b - a) / 2;
        if (t->by_id[m].id == id) return t->by_id[m].text;
        if (t->by_id[m].id < id)
            a = m + 1;
        else
            b = m;
    }
    return NULL;
}

/* --- encoding --------------------------------------------------------------------------------- */

typedef struct encoding {
    const kerf_tokenizer *t;
    uint32_t *token;
    size_t tokens, capacity;
    kf_cutter cutter;
    kf_text work[2], buffer[KF_MOST_STEPS];
    kf_bpe_work *bpe;
    kf_unigram_work unigram;
    int is_first; /* the part begins where the text begins */
} encoding;

static kerf_status append(encoding *e, const uint32_t *token, size_t n, kerf_error *err)
{
    if (e->tokens + n > e->capacity) {
        const size_t more = e->capacity + e->capacity / 2 + n + 1024;
        uint32_t *p = realloc(e->token, more * sizeof *p);
        if (!p) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %zu tokens", more);
        e->token = p;
        e->capacity = more;
    }
    if (n > 0) memcpy(e->token + e->tokens, token, n * sizeof *token);
    e->tokens += n;
    return KERF_OK;
}

static kerf_status put_word(void *ctx, const char *word, size_t n, kerf_error *err)
{
    encoding *e = ctx;
    const kerf_tokenizer *t = e->t;
    const uint32_t *token;
    size_t count;
    if (t->is_unigram) {
        KF_TRY(kf_unigram_encode(&t->unigram, &t->names, &e->unigram, word, n, err));
        return append(e, e->unigram.token, e->unigram.tokens, err);
    }
    while (n > 0) {
        const size_t part = kf_bpe_part(&t->bpe, kf_words(t), word, n);
        KF_TRY(kf_bpe_encode(&t->bpe, kf_words(t), e->bpe, word, part, &token, &count, err));
        KF_TRY(append(e, token, count, err));
        word += part;
        n -= part;
    }
    return KERF_OK;
}

static kerf_status put_normalized(void *ctx, const kf_added *token, const char *part, size_t n,
                                  size_t at, kerf_error *err)
{
    encoding *e = ctx;
    if (token) return append(e, &token->id, 1, err);
    return kf_cut_text(&e->cutter, part, n, e->is_first && at == 0, err);
}

static kerf_status put_raw(void *ctx, const kf_added *token, const char *part, size_t n, size_t at,
                           kerf_error *err)
{
    encoding *e = ctx;
    const char *text;
    size_t bytes;
    if (token) return append(e, &token->id, 1, err);
    KF_TRY(kf_normalize(e->t->normal, e->t->normals, e->cutter.match, part, n, e->work, &text,
                        &bytes, err));
    e->is_first = at == 0;
    return kf_added_split(&e->t->normalized, text, bytes, put_normalized, e, err);
}

static kerf_status encode(encoding *e, const char *text, size_t n, int template_tokens,
                          kerf_error *err)
{
    const kerf_tokenizer *t = e->t;
    e->cutter = (kf_cutter){t->cut, t->cuts, NULL, e->buffer, put_word, e};
    KF_TRY(kf_match_open(&e->cutter.match, err));
    if (!t->is_unigram) KF_TRY(kf_bpe_work_open(&e->bpe, err));
    if (template_tokens) KF_TRY(append(e, t->before, t->befores, err));
    KF_TRY(kf_added_split(&t->raw, text, n, put_raw, e, err));
    return template_tokens ? append(e, t->after, t->afters, err) : KERF_OK;
}

kerf_status kerf_tokenizer_encode(const kerf_tokenizer *t, const char *text, size_t n,
                                  const kerf_tokenize_options *options, kerf_token_list *out,
                                  kerf_error *err)
{
    const int template_tokens = options && options->template_tokens;
    encoding e = {.t = t};
    *out = (kerf_token_list){0};
    if (n == 0) text = ""; /* of nothing, NULL is as good as any */
    const size_t valid = kf_utf8_check(text, n);
    if (valid < n)
        return kf_fail(err, KERF_E_DATA, valid, "the text is no UTF-8 at byte %zu", valid);
    if (template_tokens && t->no_template)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.*s: its post_processor is no template, and is not read",
                       KF_NAME(t->path));
    kerf_status s = encode(&e, text, n, template_tokens, err);
    kf_match_close(e.cutter.match);
    kf_bpe_work_close(e.bpe);
    kf_unigram_work_free(&e.unigram);
    for (size_t i = 0; i < KF_MOST_STEPS; i++) free(e.buffer[i].p);
    for (size_t i = 0; i < 2; i++) free(e.work[i].p);
    if (s == KERF_OK)
        *out = (kerf_token_list){.token = e.token, .count = e.tokens};
    else
        free(e.token);
    return s;
}

kerf_status kerf_tokenizer_encode_file(const kerf_tokenizer *t, const char *path,
                                       const kerf_tokenize_options *options, kerf_token_list *out,
                                       kerf_error *err)
{
    char *text;
    size_t n;
    *out = (kerf_token_list){0};
    KF_TRY(kf_read_whole(path, MOST_TEXT_BYTES, &text, &n, err));
    kerf_status s = kerf_tokenizer_encode(t, text, n, options, out, err);
    free(text);
    return s == KERF_OK ? s : kf_fail_at(err, s, path);
}
