/* tokens_for.c - what a model is run on: a text or a file of tokens, and how long its rows are. */
#include <kerf/forward.h>
#include <kerf/tokens.h>

#include "base/base.h"

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
