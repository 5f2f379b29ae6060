/* options_tokens.c - a text or a file of tokens, cut into rows of equal length. */
#include "options_tokens.h"

const option option_text = {"text", 0, "FILE", "a text, cut into tokens by the model's tokenizer"};
const option option_tokens = {"tokens", 0, "FILE", "tokens: .u16, .u32, .npy or .safetensors"};
const option option_length = {"length", 0, "N",
                              "tokens of a row, which is a text of its own (default: the file's, "
                              "else the model's context, 2048 at most)"};
const option option_bos = {"bos", 0, NULL, "rows begin as texts do, with a token like <bos>"};
const option option_rows = {"rows", 0, "A:B", "rows A to B - 1 alone, counted from 0"};

static kerf_status take_rows(tokens_option *t, const char *text, kerf_error *err)
{
    unsigned long long first = 0, end = 0, rows = t->tokens.rows;
    int n = 0;
    if (sscanf(text, "%llu:%llu%n", &first, &end, &n) != 2 || text[n] || first >= end || end > rows)
        return USAGE(err, "--rows %.40s: expected A:B, A below B, and there are %llu rows", text,
                     rows);
    t->tokens.token += first * t->tokens.length;
    t->tokens.rows = end - first;
    return KERF_OK;
}

static kerf_status make_rows(tokens_option *t, const args *a, const kerf_checkpoint *model,
                             int length, kerf_error *err)
{
    TRY(args_integer(a, "length", 2, 1 << 20, &length, err));
    if (args_has(a, "bos")) TRY(kerf_tokens_begin_rows(model, (uint64_t)length, &t->list, err));
    t->tokens = (kerf_tokens){t->list.token, t->list.count / (uint64_t)length, (uint64_t)length};
    const char *path = args_value(a, args_has(a, "text") ? "text" : "tokens");
    if (t->list.count < 2)
        return USAGE(err, "%.300s: %llu tokens, and it takes two at least to predict one", path,
                     (unsigned long long)t->list.count);
    if (t->tokens.rows == 0)
        return USAGE(err, "%.300s: %llu tokens are less than a row of %d; --length %llu takes them",
                     path, (unsigned long long)t->list.count, length,
                     (unsigned long long)t->list.count);
    return args_has(a, "rows") ? take_rows(t, args_value(a, "rows"), err) : KERF_OK;
}

kerf_status option_tokens_open(tokens_option *t, const args *a, const kerf_checkpoint *model,
                               size_t gpus, kerf_error *err)
{
    uint64_t length = 0;
    TRY(option_ranks_open(&t->team, a, err));
    if (t->team.team.count > gpus)
        return USAGE(err, "--device %.40s: this verb uses one GPU", args_value(a, "device"));
    TRY(kerf_tokens_for(model, args_value(a, "text"), args_value(a, "tokens"), &t->list, &length,
                        err));
    return make_rows(t, a, model, (int)length, err);
}

void option_tokens_close(tokens_option *t)
{
    option_team_close(&t->team);
    kerf_token_list_free(&t->list);
}
