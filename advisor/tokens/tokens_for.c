/* tokens_for.c - what a model is run on: a text or a file of tokens, how long its rows are, and
 * what they begin with. */
#include <kerf/forward.h>
#include <kerf/tokens.h>

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tokens/tokenizer.h"

enum { LENGTH_MOST = 2048, ROW_MOST = 1 << 20 };

static kerf_status read_tokens(const kerf_checkpoint *model, const char *text, const char *tokens,
                               uint64_t vocabulary, kerf_token_list *out, kerf_error *err)
{
    kerf_tokenizer *tokenizer = NULL;
    if (!text == !tokens)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "give --text FILE or --tokens FILE");
    if (tokens) return kerf_tokens_read(tokens, vocabulary, out, err);
    KF_TRY(kerf_tokenizer_open_for(model, &tokenizer, err));
    const kerf_status s = kerf_tokenizer_encode_file(tokenizer, text, NULL, out, err);
    kerf_tokenizer_close(tokenizer);
    return s;
}

kerf_status kerf_tokens_for(const kerf_checkpoint *model, const char *text, const char *tokens,
                            kerf_token_list *out, uint64_t *length, kerf_error *err)
{
    kerf_decoder *d = NULL;
    *out = (kerf_token_list){0};
    KF_TRY(kerf_decoder_open(model, NULL, &d, err));
    const kerf_decoder_info about = *kerf_decoder_about(d);
    kerf_decoder_close(d);
    KF_TRY(read_tokens(model, text, tokens, about.vocab, out, err));
    *length = about.context > 0 && about.context < LENGTH_MOST ? about.context : LENGTH_MOST;
    if (out->length > 1 && out->length < ROW_MOST) *length = out->length;
    return KERF_OK;
}

/* --- rows that begin as texts do ------------------------------------------------------------- */

/* What there is is cut into parts, each of which comes behind `before`. */
static kerf_status put_before(const uint32_t *before, uint64_t n, uint64_t length,
                              kerf_token_list *list, kerf_error *err)
{
    const uint64_t rows = list->count / (length - n);
    uint32_t *made = NULL;
    uint64_t count;
    if (!kf_mul_ok(rows, length, &count))
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "rows of %llu tokens",
                       (unsigned long long)length);
    KF_TRY(kf_allocate(&made, count, sizeof *made, err));
    for (uint64_t i = 0; i < rows; i++) {
        uint32_t *row = made + i * length;
        memcpy(row, before, n * sizeof *row);
        memcpy(row + n, list->token + i * (length - n), (length - n) * sizeof *row);
    }
    kerf_token_list_free(list);
    *list = (kerf_token_list){made, count, length};
    return KERF_OK;
}

kerf_status kerf_tokens_begin_rows(const kerf_checkpoint *model, uint64_t length,
                                   kerf_token_list *list, kerf_error *err)
{
    kerf_tokenizer *t = NULL;
    if (list->length)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "these tokens have rows, which begin as they do; only those of a text or of "
                       "a stream can be given a beginning");
    KF_TRY(kerf_tokenizer_open_for(model, &t, err));
    kerf_status s;
    if (t->befores == 0)
        s = kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                    "%.*s: no template of it puts a token before a text", KF_NAME(t->path));
    else if (length <= t->befores || list->count < length - t->befores)
        s = kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                    "%llu tokens fill no row of %llu of which %zu begin it",
                    (unsigned long long)list->count, (unsigned long long)length, t->befores);
    else
        s = put_before(t->before, t->befores, length, list, err);
    kerf_tokenizer_close(t);
    return s;
}
