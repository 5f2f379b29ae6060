/* layer_run.c - takes all tokens through one layer, in panels of whole rows, so that memory beside
 * the state does not grow with the number of rows. */
#include "forward/layer_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PANEL_TOKENS UINT64_C(2048)
#define BLOCK_TOKENS UINT64_C(64)

/* --- tokens over threads ------------------------------------------------------------------- */

typedef struct blocks {
    kf_token_task *task;
    void *ctx;
    uint64_t tokens;
} blocks;

static kerf_status run_block(void *ctx, uint64_t i)
{
    const blocks *b = ctx;
    const uint64_t first = i * BLOCK_TOKENS;
    b->task(b->ctx, first, kf_min_u64(BLOCK_TOKENS, b->tokens - first));
    return KERF_OK;
}

void kf_for_tokens(const kerf_decoder *d, uint64_t tokens, kf_token_task *task, void *ctx)
{
    blocks b = {task, ctx, tokens};
    const kerf_status s = kf_parallel(kf_div_up(tokens, BLOCK_TOKENS), d->threads, run_block, &b);
    (void)s; /* no task fails */
}

/* --- norms --------------------------------------------------------------------------------- */

typedef struct norm_work {
    kf_rows y;
    const float *x, *w;
    size_t width;
    double eps;
} norm_work;

static void norm_block(void *ctx, uint64_t first, uint64_t count)
{
    const norm_work *n = ctx;
    for (uint64_t t = first; t < first + count; t++)
        for (size_t at = 0; at < n->y.columns; at += n->width) {
            const float *in = n->x + t * n->y.stride + at;
            float *out = n->y.p + t * n->y.stride + at;
            double sum = 0;
            for (size_t k = 0; k < n->width; k++) sum += (double)in[k] * (double)in[k];
            const float scale = (float)(1.0 / sqrt(sum / (double)n->width + n->eps));
            for (size_t k = 0; k < n->width; k++) out[k] = in[k] * scale * n->w[k];
        }
}

void kf_norm_rows(const kerf_decoder *d, kf_rows y, const float *x, const float *w, size_t width,
                  double eps)
{
    norm_work n = {y, x, w, width, eps};
    kf_for_tokens(d, y.rows, norm_block, &n);
}

/* --- products ------------------------------------------------------------------------------ */

typedef struct bias_work {
    kf_rows y;
    const float *bias;
    uint64_t step;
} bias_work;

static void bias_block(void *ctx, uint64_t first, uint64_t count)
{
    const bias_work *b = ctx;
    for (uint64_t t = first; t < first + count; t++)
        for (size_t k = 0; k < b->y.columns; k++)
            b->y.p[t * b->y.stride + k] += b->bias[k * b->step];
}

kerf_status kf_tell_input(const kf_panel_run *r, const kerf_layer_weight *w, kf_rows x)
{
    if (!r->watch || !r->watch->input || x.rows == 0) return KERF_OK;
    return r->watch->input(r->watch->ctx, w, x.p, x.rows, r->err);
}

kerf_status kf_multiply(const kf_panel_run *r, kf_rows y, kf_rows x, const kerf_layer_weight *w,
                        uint64_t first, uint64_t step, const float *bias)
{
    const kf_factor f = {w->data + first * w->cols, y.columns, (size_t)w->cols,
                         (size_t)(step * w->cols), 1};
    if (first == 0) KF_TRY(kf_tell_input(r, w, x));
    KF_TRY(kf_product_on(r->d->product, r->d->threads, y, x, f, r->err));
    if (!bias) return KERF_OK;
    bias_work b = {y, bias + first, step};
    kf_for_tokens(r->d, y.rows, bias_block, &b);
    return KERF_OK;
}

/* --- the layer ----------------------------------------------------------------------------- */

typedef struct add_work {
    kf_rows y, x;
} add_work;

static void add_block(void *ctx, uint64_t first, uint64_t count)
{
    const add_work *a = ctx;
    for (uint64_t i = first * a->y.stride; i < (first + count) * a->y.stride; i++)
        a->y.p[i] += a->x.p[i];
}

/* state += norm(delta), or delta where the family has no norm there. */
static void add_delta(const kf_panel_run *r, kf_rows state, int norm)
{
    const kf_config *c = &r->d->config;
    if (r->l->data[norm])
        kf_norm_rows(r->d, r->delta, r->delta.p, r->l->data[norm], (size_t)c->hidden, c->eps);
    add_work a = {state, r->delta};
    kf_for_tokens(r->d, state.rows, add_block, &a);
}

static kerf_status run_panel(kf_panel_run *r, float *hidden)
{
    const kf_config *c = &r->d->config;
    const kf_rows state = {hidden, (size_t)r->tokens, (size_t)c->hidden, (size_t)c->hidden};
    kf_norm_rows(r->d, r->normed, hidden, r->l->data[KF_SLOT_ATTN_NORM], state.columns, c->eps);
    KF_TRY(kf_run_attention(r));
    add_delta(r, state, KF_SLOT_ATTN_OUT_NORM);
    kf_norm_rows(r->d, r->normed, hidden, r->l->data[KF_SLOT_MLP_NORM], state.columns, c->eps);
    KF_TRY(r->l->kind->has & KF_HAS_EXPERTS ? kf_run_experts(r) : kf_run_mlp(r));
    add_delta(r, state, KF_SLOT_MLP_OUT_NORM);
    return KERF_OK;
}

/* --- memory -------------------------------------------------------------------------------- */

static uint64_t widest_mlp(const kerf_layer *l)
{
    const kf_config *c = &l->d->config;
    uint64_t most = l->kind->has & KF_HAS_EXPERTS ? c->expert_inner : c->inner;
    if (l->kind->has & KF_HAS_SHARED && c->shared_inner > most) most = c->shared_inner;
    return most;
}

static kerf_status open_panel(kf_panel_run *r, uint64_t tokens)
{
    const kf_config *c = &r->d->config;
    const uint64_t latent = c->kv_rank + c->rope_dim, kv = c->heads * (c->nope_dim + c->value_dim);
    const int is_latent = (r->l->kind->has & KF_HAS_LATENT) != 0;
    const uint64_t inner = widest_mlp(r->l), low = c->q_rank > latent ? c->q_rank : latent;
    const struct {
        kf_rows *to;
        uint64_t columns;
    } parts[] = {
        {&r->normed, c->hidden},
        {&r->delta, c->hidden},
        {&r->q, c->heads * c->head_dim},
        {&r->k, c->kv_heads * c->head_dim},
        {&r->v, c->kv_heads * c->value_dim},
        {&r->mixed, is_latent && kv > c->heads * c->value_dim ? kv : c->heads * c->value_dim},
        {&r->gate, inner},
        {&r->up, inner},
        {&r->low, is_latent ? low + c->kv_rank : 0}};
    uint64_t columns = 0, count, at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) columns += parts[i].columns;
    if (!kf_mul_ok(tokens, columns, &count))
        return kf_fail(r->err, KERF_E_RANGE, KF_NOWHERE, "too many tokens");
    r->memory = kf_alloc(count, sizeof *r->memory);
    if (!r->memory)
        return kf_fail(r->err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %llu tokens in a layer",
                       (unsigned long long)tokens);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const size_t width = (size_t)parts[i].columns;
        *parts[i].to = (kf_rows){r->memory + at, (size_t)tokens, width, width};
        at += tokens * width;
    }
    return KERF_OK;
}

/* Cosine and sine of every position: [2][length][dims / 2]. */
static kerf_status open_positions(const kerf_layer *l, uint64_t length, float **out,
                                  kerf_error *err)
{
    *out = NULL;
    if (l->kind->rope < 0) return KERF_OK;
    const kf_rope *rope = &l->d->config.rope[l->kind->rope];
    const uint64_t half = rope->dims / 2;
    double factor;
    float *frequency = kf_alloc(half, sizeof *frequency), *table = NULL;
    uint64_t count;
    if (frequency && kf_mul_ok(length, 2 * half, &count)) table = kf_alloc(count, sizeof *table);
    if (table) {
        kf_rope_frequencies(rope, length, frequency, &factor);
        for (uint64_t t = 0; t < length; t++)
            for (uint64_t i = 0; i < half; i++) {
                const float angle = (float)t * frequency[i];
                table[t * half + i] = (float)(cos((double)angle) * factor);
                table[(length + t) * half + i] = (float)(sin((double)angle) * factor);
            }
    }
    free(frequency);
    *out = table;
    return table ? KERF_OK : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for positions");
}

static void cut_to(kf_panel_run *r, uint64_t tokens)
{
    kf_rows *all[] = {&r->normed, &r->delta, &r->q,  &r->k,  &r->v,
                      &r->mixed,  &r->gate,  &r->up, &r->low};
    r->tokens = tokens;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) all[i]->rows = (size_t)tokens;
}

kerf_status kerf_layer_run(const kerf_layer *l, const kerf_tokens *tokens, float *hidden,
                           const kerf_watch *watch, const kerf_job *job, kerf_error *err)
{
    if (tokens->rows == 0 || tokens->length == 0) return KERF_OK;
    uint64_t rows = PANEL_TOKENS / tokens->length;
    rows = rows == 0 ? 1 : kf_min_u64(rows, tokens->rows);
    kf_panel_run r = {.l = l, .d = l->d, .watch = watch, .err = err, .length = tokens->length};
    float *table = NULL;
    KF_TRY(open_positions(l, tokens->length, &table, err));
    r.cosine = table;
    r.sine = table ? table + tokens->length * (l->d->config.rope[l->kind->rope].dims / 2) : NULL;
    kerf_status s = open_panel(&r, rows * tokens->length);
    for (uint64_t row = 0; row < tokens->rows && s == KERF_OK; row += rows) {
        r.rows = kf_min_u64(rows, tokens->rows - row);
        cut_to(&r, r.rows * r.length);
        if (job && job->cancel && job->cancel(job->ctx))
            s = kf_fail(err, KERF_E_CANCELED, KF_NOWHERE, "canceled");
        else
            s = run_panel(&r, hidden + row * r.length * l->d->config.hidden);
    }
    free(r.memory);
    free(table);
    return s;
}
