/* options_tokens.h - what a model is run on: --text or --tokens, --length, --rows. */
#ifndef KERF_OPTIONS_TOKENS_H
#define KERF_OPTIONS_TOKENS_H

#include <kerf/forward.h>
#include <kerf/tokens.h>

#include "options.h"

extern const option option_text, option_tokens, option_length, option_bos, option_rows;

typedef struct tokens_option {
    kerf_token_list list; /* owned             */
    kerf_tokens tokens;   /* rows of it        */
    team_option team;     /* a member for each GPU */
} tokens_option;

/* Rows for this model. gpus: the most that --device may name. */
kerf_status option_tokens_open(tokens_option *t, const args *a, const kerf_checkpoint *model,
                               size_t gpus, kerf_error *err);
void option_tokens_close(tokens_option *t); /* all zeros are fine */

#endif
