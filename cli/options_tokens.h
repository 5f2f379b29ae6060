/* options_tokens.h - what a model is run on: --text or --tokens, --length, --rows. */
#ifndef KERF_OPTIONS_TOKENS_H
#define KERF_OPTIONS_TOKENS_H

#include <kerf/forward.h>
#include <kerf/tokens.h>

#include "args.h"

extern const option option_text, option_tokens, option_length, option_rows;

typedef struct tokens_option {
    kerf_token_list list; /* owned             */
    kerf_tokens tokens;   /* rows of it        */
    kerf_exec exec;       /* with its device   */
} tokens_option;

/* Rows for this model: as long as --length, the rows of the file, or its context (2048 at most). */
kerf_status option_tokens_open(tokens_option *t, const args *a, const kerf_checkpoint *model,
                               kerf_error *err);
void option_tokens_close(tokens_option *t); /* all zeros are fine */

#endif
