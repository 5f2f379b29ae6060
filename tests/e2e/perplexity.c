/* perplexity.c - how well the model in a checkpoint folder predicts a file of tokens.
 *
 *   perplexity FOLDER TOKENS [--context N] [--rows N] [-j N] [--json]
 *
 * TOKENS holds little-endian uint16 tokens in rows of --context (256); each row is a text of its
 * own, and every token but its first is predicted from those before. Exit codes: 0 ok, 2 usage,
 * 3 bad input. */
#include "llama.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "base/base.h"

typedef struct options {
    const char *folder, *tokens;
    size_t context, rows; /* rows 0: all of the file */
    int threads, json;
} options;

typedef struct evaluation {
    const llama *model;
    uint16_t *token;
    size_t context, rows;
    double *loss; /* [rows], so that the sum does not depend on the threads */
} evaluation;

/* --- the command line ---------------------------------------------------------------------- */

static int parse_count(const char *text, size_t *out)
{
    char *end;
    errno = 0;
    unsigned long n = text ? strtoul(text, &end, 10) : 0;
    if (!text || errno || *end || n < 1 || n > 1u << 20) return 0;
    *out = n;
    return 1;
}

static int parse_options(int argc, char **argv, options *o)
{
    *o = (options){.context = 256};
    for (int i = 1; i < argc; i++) {
        size_t threads = 0;
        int ok = 1;
        if (!strcmp(argv[i], "--json"))
            o->json = 1;
        else if (!strcmp(argv[i], "--context"))
            ok = parse_count(argv[++i], &o->context);
        else if (!strcmp(argv[i], "--rows"))
            ok = parse_count(argv[++i], &o->rows);
        else if (!strcmp(argv[i], "-j"))
            ok = parse_count(argv[++i], &threads);
        else if (argv[i][0] == '-')
            ok = 0;
        else if (!o->folder)
            o->folder = argv[i];
        else if (!o->tokens)
            o->tokens = argv[i];
        else
            ok = 0;
        if (!ok) return 0;
        if (threads) o->threads = (int)threads;
    }
    return o->tokens && o->context > 1;
}

/* --- tokens -------------------------------------------------------------------------------- */

static kerf_status read_tokens(const options *o, evaluation *e, kerf_error *err)
{
    FILE *f = fopen(o->tokens, "rb");
    if (!f) return kf_fail_errno(err, errno, "%s", o->tokens);
    kerf_status s = KERF_OK;
    long bytes = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
    size_t row_bytes = o->context * sizeof(uint16_t);
    size_t rows = bytes > 0 ? (size_t)bytes / row_bytes : 0;
    e->context = o->context;
    e->rows = o->rows ? o->rows : rows;
    rewind(f);
    if (e->rows == 0 || e->rows > rows) {
        s = kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: holds %zu rows of %zu tokens", o->tokens,
                    rows, o->context);
    } else {
        e->token = kf_alloc(e->rows, row_bytes);
        e->loss = kf_alloc_zero(e->rows, sizeof *e->loss);
        if (!e->token || !e->loss)
            s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", o->tokens);
        else if (fread(e->token, row_bytes, e->rows, f) != e->rows)
            s = kf_fail(err, KERF_E_IO, KF_NOWHERE, "%s: cannot be read", o->tokens);
    }
    fclose(f);
    return s;
}

static kerf_status check_tokens(const options *o, const evaluation *e, kerf_error *err)
{
    for (size_t i = 0; i < e->rows * e->context; i++)
        if (e->token[i] >= e->model->config.vocab_size)
            return kf_fail(err, KERF_E_DATA, i, "%s: token %zu is %u, the model knows %u",
                           o->tokens, i, e->token[i], e->model->config.vocab_size);
    return KERF_OK;
}

/* --- the run ------------------------------------------------------------------------------- */

static kerf_status run_row(void *ctx, uint64_t i)
{
    evaluation *e = ctx;
    return llama_row_loss(e->model, e->token + i * e->context, e->context, &e->loss[i], NULL);
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void print_result(const options *o, const evaluation *e, double seconds)
{
    double loss = 0;
    size_t predictions = e->rows * (e->context - 1);
    for (size_t i = 0; i < e->rows; i++) loss += e->loss[i];
    loss /= (double)predictions;
    if (!o->json) {
        printf("perplexity %.4f over %zu tokens, %.1f s\n", exp(loss), predictions, seconds);
        return;
    }
    /* JSON has no NaN: a model that is broken has a null perplexity. */
    json_t *root = json_pack(
        "{s:s, s:s, s:I, s:I, s:i, s:o, s:o, s:f}", "schema", "kerf.perplexity/1", "model",
        o->folder, "rows", (json_int_t)e->rows, "tokens", (json_int_t)predictions, "quantized",
        (int)e->model->quantized, "loss", isfinite(loss) ? json_real(loss) : json_null(),
        "perplexity", isfinite(loss) ? json_real(exp(loss)) : json_null(), "seconds", seconds);
    json_dumpf(root, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(root);
}

int main(int argc, char **argv)
{
    options o;
    llama model;
    kerf_error err = {0};
    if (!parse_options(argc, argv, &o)) {
        fputs("usage: perplexity FOLDER TOKENS [--context N] [--rows N] [-j N] [--json]\n", stderr);
        return 2;
    }
    evaluation e = {.model = &model};
    kerf_status s = llama_open(o.folder, &model, &err);
    if (s == KERF_OK) s = read_tokens(&o, &e, &err);
    if (s == KERF_OK) s = check_tokens(&o, &e, &err);
    double start = seconds_now();
    if (s == KERF_OK) s = kf_parallel(e.rows, o.threads, run_row, &e);
    if (s == KERF_OK)
        print_result(&o, &e, seconds_now() - start);
    else
        fprintf(stderr, "perplexity: %s\n", err.text[0] ? err.text : kerf_status_name(s));
    llama_close(&model);
    free(e.token);
    free(e.loss);
    return s == KERF_OK ? 0 : 3;
}
