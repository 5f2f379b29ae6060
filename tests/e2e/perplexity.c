/* perplexity.c - how well the model in a checkpoint folder predicts a file of tokens.
 *
 *   perplexity MODEL TOKENS [--context N] [--rows N] [-j N] [--json] [--logits OUT]
 *
 * --logits writes the logits of every position as float32, to be compared with another program's.
 *
 * TOKENS holds little-endian uint16 tokens in rows of --context (256); each row is a text of its
 * own, and every token but its first is predicted from those before. Exit codes: 0 ok, 2 usage,
 * 3 bad input. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <kerf/forward.h>

#include "base/base.h"

typedef struct options {
    const char *folder, *tokens, *logits;
    size_t context, rows; /* rows 0: all of the file */
    int threads, json;
} options;

typedef struct evaluation {
    kerf_checkpoint *checkpoint;
    kerf_decoder *decoder;
    uint32_t *token;
    size_t context, rows, vocab;
    float *hidden;
    double *loss; /* [rows][context], so that the sum does not depend on the threads */
    int threads;
    FILE *logits; /* NULL: not wanted */
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
        else if (!strcmp(argv[i], "--logits"))
            ok = (o->logits = argv[++i]) != NULL;
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
        const size_t n = e->rows * e->context;
        uint16_t *raw = kf_alloc(n, sizeof *raw);
        e->token = kf_alloc(n, sizeof *e->token);
        e->loss = kf_alloc_zero(n, sizeof *e->loss);
        if (!raw || !e->token || !e->loss)
            s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", o->tokens);
        else if (fread(raw, row_bytes, e->rows, f) != e->rows)
            s = kf_fail(err, KERF_E_IO, KF_NOWHERE, "%s: cannot be read", o->tokens);
        for (size_t i = 0; s == KERF_OK && i < n; i++) e->token[i] = raw[i];
        free(raw);
    }
    fclose(f);
    return s;
}

/* --- the run ------------------------------------------------------------------------------- */

typedef struct panel {
    const float *logits;
    const uint32_t *next;
    double *loss;
    size_t vocab;
} panel;

/* -ln softmax(logits)[next], in double and shifted by the largest logit. */
static kerf_status cross_entropy(void *ctx, uint64_t i)
{
    const panel *p = ctx;
    const float *x = p->logits + i * p->vocab;
    float top = x[0];
    for (size_t k = 1; k < p->vocab; k++) top = x[k] > top ? x[k] : top;
    double sum = 0;
    for (size_t k = 0; k < p->vocab; k++) sum += (double)expf(x[k] - top);
    p->loss[i] = log(sum) + (double)top - (double)x[p->next[i]];
    return KERF_OK;
}

static kerf_status take_logits(void *ctx, uint64_t row, uint64_t position, uint64_t n,
                               float *logits, kerf_error *err)
{
    const evaluation *e = ctx;
    const size_t at = row * e->context + position;
    panel p = {logits, e->token + at + 1, e->loss + at, e->vocab};
    if (e->logits && fwrite(logits, sizeof *logits, n * e->vocab, e->logits) != n * e->vocab)
        return kf_fail(err, KERF_E_IO, KF_NOWHERE, "the logits cannot be written");
    return kf_parallel(position + n < e->context ? n : n - 1, e->threads, cross_entropy, &p);
}

static kerf_status run(evaluation *e, kerf_error *err)
{
    const kerf_decoder_info *info = kerf_decoder_about(e->decoder);
    const kerf_tokens t = {e->token, e->rows, e->context};
    e->vocab = info->vocab;
    e->hidden = kf_alloc(e->rows * e->context, info->hidden * sizeof(float));
    if (!e->hidden) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the state");
    KF_TRY(kerf_decoder_embed(e->decoder, &t, e->hidden, err));
    for (uint64_t i = 0; i < info->layers; i++) {
        kerf_layer *layer;
        KF_TRY(kerf_decoder_layer_load(e->decoder, i, &layer, err));
        const kerf_status s = kerf_layer_run(layer, &t, e->hidden, NULL, NULL, err);
        kerf_layer_free(layer);
        KF_TRY(s);
    }
    return kerf_decoder_logits(e->decoder, &t, e->hidden, NULL, take_logits, e, NULL, err);
}

static void print_result(const options *o, const evaluation *e, double seconds)
{
    double loss = 0;
    size_t predictions = e->rows * (e->context - 1);
    for (size_t i = 0; i < e->rows * e->context; i++) loss += e->loss[i];
    loss /= (double)predictions;
    if (!o->json) {
        printf("perplexity %.4f over %zu tokens, %.1f s\n", exp(loss), predictions, seconds);
        return;
    }
    /* JSON has no NaN: a model that is broken has a null perplexity. */
    json_t *root = json_pack(
        "{s:s, s:s, s:I, s:I, s:i, s:o, s:o, s:f}", "schema", "kerf.perplexity/1", "model",
        o->folder, "rows", (json_int_t)e->rows, "tokens", (json_int_t)predictions, "quantized",
        (int)kerf_checkpoint_quantized(e->checkpoint), "loss",
        isfinite(loss) ? json_real(loss) : json_null(), "perplexity",
        isfinite(loss) ? json_real(exp(loss)) : json_null(), "seconds", seconds);
    json_dumpf(root, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(root);
}

int main(int argc, char **argv)
{
    options o;
    kerf_error err = {0};
    if (!parse_options(argc, argv, &o)) {
        fputs("usage: perplexity MODEL TOKENS [--context N] [--rows N] [-j N] [--json] [--logits "
              "OUT]\n",
              stderr);
        return 2;
    }
    evaluation e = {.threads = o.threads};
    kerf_status s = kerf_checkpoint_open(o.folder, &e.checkpoint, &err);
    const kerf_exec exec = {.threads = o.threads};
    if (s == KERF_OK) s = kerf_decoder_open(e.checkpoint, &exec, &e.decoder, &err);
    if (s == KERF_OK) s = read_tokens(&o, &e, &err);
    if (s == KERF_OK && o.logits && !(e.logits = fopen(o.logits, "wb")))
        s = kf_fail_errno(&err, errno, "%s", o.logits);
    double start = kf_now_s();
    if (s == KERF_OK) s = run(&e, &err);
    if (s == KERF_OK)
        print_result(&o, &e, kf_now_s() - start);
    else
        fprintf(stderr, "perplexity: %s\n", err.text[0] ? err.text : kerf_status_name(s));
    if (e.logits && fclose(e.logits) != 0 && s == KERF_OK)
        s = kf_fail(&err, KERF_E_IO, KF_NOWHERE, "the logits cannot be written");
    kerf_decoder_close(e.decoder);
    kerf_checkpoint_close(e.checkpoint);
    free(e.token);
    free(e.loss);
    free(e.hidden);
    return s == KERF_OK ? 0 : 3;
}
