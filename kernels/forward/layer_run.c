/* layer_run.c - takes all tokens through one layer, in panels of whole rows, so that memory beside
 * the state does not grow with the number of rows. */
#include "forward/layer_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/work.h"
#include "forward/steps_plain.h"

/* --- products, and what the caller sees ----------------------------------------------------- */

/* A copy of rows that are apart, in host memory. The caller frees. */
static kerf_status bring(const kf_panel_run *r, kf_rows x, float **out)
{
    KF_TRY(kf_allocate(out, x.rows * x.columns, sizeof **out, r->err));
    return r->s->steps->download(r->s, *out, x.p, x.rows * x.columns * sizeof **out, r->err);
}

static kerf_status tell_sums(const kf_panel_run *r, const kerf_layer_weight *w, kf_rows x)
{
    kerf_sums to = {0};
    KF_TRY(r->watch->sums(r->watch->ctx, w, x.rows, &to, r->err));
    if (!to.square && !to.largest && !to.gram) return KERF_OK;
    return r->s->steps->sum(r->s, x, &(kf_sums){to.square, to.largest, to.gram}, r->err);
}

static kerf_status tell_from_apart(const kf_panel_run *r, const kerf_layer_weight *w, kf_rows x)
{
    float *here = NULL;
    kerf_status s = bring(r, x, &here);
    if (s == KERF_OK) s = r->watch->input(r->watch->ctx, w, here, x.rows, r->err);
    free(here);
    return s;
}

kerf_status kf_tell_input(const kf_panel_run *r, const kerf_layer_weight *w, kf_rows x)
{
    if (!r->watch || x.rows == 0) return KERF_OK;
    if (r->s->steps->apart && r->watch->sums) return tell_sums(r, w, x);
    if (!r->watch->input) return KERF_OK;
    if (r->s->steps->apart) return tell_from_apart(r, w, x);
    return r->watch->input(r->watch->ctx, w, x.p, x.rows, r->err);
}

/* The caller may change keys and values. */
static kerf_status cache_from_apart(const kf_panel_run *r)
{
    const kerf_watch *watch = r->watch;
    const kf_steps *steps = r->s->steps;
    float *k = NULL, *v = NULL;
    kerf_status s = bring(r, r->k, &k);
    if (s == KERF_OK) s = bring(r, r->v, &v);
    if (s == KERF_OK) s = watch->cache(watch->ctx, r->l->index, k, v, r->tokens, r->err);
    if (s == KERF_OK)
        s = steps->upload(r->s, r->k.p, k, r->tokens * r->k.columns * sizeof *k, r->err);
    if (s == KERF_OK)
        s = steps->upload(r->s, r->v.p, v, r->tokens * r->v.columns * sizeof *v, r->err);
    free(k);
    free(v);
    return s;
}

kerf_status kf_tell_cache(const kf_panel_run *r)
{
    const kf_steps *steps = r->s->steps;
    if (r->watch && steps->apart && r->watch->cache_largest) {
        float *largest = r->watch->cache_largest;
        KF_TRY(steps->sum(r->s, r->k, &(kf_sums){NULL, largest, NULL}, r->err));
        return steps->sum(r->s, r->v, &(kf_sums){NULL, largest + 1, NULL}, r->err);
    }
    if (!r->watch || !r->watch->cache) return KERF_OK;
    if (steps->apart) return cache_from_apart(r);
    return r->watch->cache(r->watch->ctx, r->l->index, r->k.p, r->v.p, r->tokens, r->err);
}

static kerf_status replace_apart(const kf_panel_run *r, const kerf_layer_weight *w, kf_rows *x)
{
    const uint64_t bytes = x->rows * x->columns * sizeof *x->p;
    const float *other = NULL;
    float *here = NULL;
    kerf_status s = bring(r, *x, &here);
    if (s == KERF_OK) s = r->watch->replace(r->watch->ctx, w, here, x->rows, &other, r->err);
    if (s == KERF_OK && other) {
        s = r->s->steps->upload(r->s, r->replaced.p, other, bytes, r->err);
        x->p = r->replaced.p;
    }
    free(here);
    return s;
}

/* x becomes what the watch wants in its place. */
static kerf_status replace_input(const kf_panel_run *r, const kerf_layer_weight *w, kf_rows *x)
{
    const float *other = NULL;
    if (!r->l || !r->watch || !r->watch->replace || x->rows == 0) return KERF_OK;
    if (r->s->steps->apart) return replace_apart(r, w, x);
    KF_TRY(r->watch->replace(r->watch->ctx, w, x->p, x->rows, &other, r->err));
    if (other) x->p = (float *)other; /* a product only reads it */
    return KERF_OK;
}

kerf_status kf_multiply(const kf_panel_run *r, kf_rows y, kf_rows x, const kerf_layer_weight *w,
                        uint64_t first, uint64_t step, const float *bias)
{
    const kf_factor f = {w->data + first * w->cols, y.columns, (size_t)w->cols,
                         (size_t)(step * w->cols), 1};
    if (first == 0) KF_TRY(kf_tell_input(r, w, x));
    KF_TRY(replace_input(r, w, &x));
    return r->s->steps->product(r->s, y, x, f, bias ? bias + first : NULL, step, r->err);
}

/* --- the layer ----------------------------------------------------------------------------- */

static kerf_status norm(const kf_panel_run *r, kf_rows y, const float *x, int slot)
{
    const kf_config *c = &r->d->config;
    return r->s->steps->norm(r->s, y, x, r->l->data[slot], (size_t)c->hidden, c->eps, r->err);
}

/* state += norm(delta), or delta where the family has no norm there. */
static kerf_status add_delta(const kf_panel_run *r, kf_rows state, int slot)
{
    if (r->l->data[slot]) KF_TRY(norm(r, r->delta, r->delta.p, slot));
    return r->s->steps->add(r->s, state, r->delta, r->err);
}

/* Not too much is on its way, so that who cancels is heard. */
static kerf_status pace(const kf_panel_run *r)
{
    if (r->s->steps->pace) KF_TRY(r->s->steps->pace(r->s, r->err));
    return kf_job_check(r->job, r->err);
}

static kerf_status run_panel(kf_panel_run *r, float *hidden)
{
    const size_t columns = (size_t)r->d->config.hidden;
    const kf_rows state = {hidden, (size_t)r->tokens, columns, columns};
    KF_TRY(norm(r, r->normed, hidden, KF_SLOT_ATTN_NORM));
    KF_TRY(kf_run_attention(r));
    KF_TRY(add_delta(r, state, KF_SLOT_ATTN_OUT_NORM));
    KF_TRY(pace(r));
    KF_TRY(norm(r, r->normed, hidden, KF_SLOT_MLP_NORM));
    KF_TRY(r->l->kind->has & KF_HAS_EXPERTS ? kf_run_experts(r) : kf_run_mlp(r));
    return add_delta(r, state, KF_SLOT_MLP_OUT_NORM);
}

/* A panel of states that may be elsewhere. */
static kerf_status bring_panel(kf_panel_run *r, float *hidden)
{
    const kf_steps *steps = r->s->steps;
    const uint64_t bytes = r->tokens * r->d->config.hidden * sizeof *hidden;
    if (!steps->apart || steps->is_there(r->s, hidden)) return run_panel(r, hidden);
    KF_TRY(steps->upload(r->s, r->state.p, hidden, bytes, r->err));
    KF_TRY(run_panel(r, r->state.p));
    return steps->download(r->s, hidden, r->state.p, bytes, r->err);
}

/* --- memory -------------------------------------------------------------------------------- */

#define ALIGNED UINT64_C(64) /* numbers: arrays begin alike, however many tokens a panel has */

static uint64_t widest_mlp(const kerf_layer *l)
{
    const kf_config *c = &l->d->config;
    uint64_t most = l->kind->has & KF_HAS_EXPERTS ? c->expert_inner : c->inner;
    if (l->kind->has & KF_HAS_SHARED && c->shared_inner > most) most = c->shared_inner;
    return most;
}

/* Of the widest input, where it may be replaced. */
static uint64_t widest_replaced(const kf_panel_run *r)
{
    uint64_t most = 0;
    if (!r->s->steps->apart || !r->watch || !r->watch->replace) return 0;
    for (size_t i = 0; i < r->l->weights; i++)
        if (r->l->weight[i].cols > most) most = r->l->weight[i].cols;
    return most;
}

static kerf_status open_panel(kf_panel_run *r, uint64_t tokens)
{
    const kf_config *c = &r->d->config;
    const uint64_t latent = c->kv_rank + c->rope_dim, kv = c->heads * (c->nope_dim + c->value_dim);
    const int is_latent = (r->l->kind->has & KF_HAS_LATENT) != 0;
    const int is_apart = r->s->steps->apart;
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
        {&r->low, is_latent ? low + c->kv_rank : 0},
        {&r->state, is_apart ? c->hidden : 0},
        {&r->replaced, widest_replaced(r)}};
    const size_t n = sizeof parts / sizeof *parts;
    uint64_t columns = 0, count, at = 0;
    for (size_t i = 0; i < n; i++) columns += parts[i].columns;
    if (!kf_mul_ok(tokens, columns * sizeof *r->memory, &count))
        return kf_fail(r->err, KERF_E_RANGE, KF_NOWHERE, "too many tokens");
    KF_TRY(
        r->s->steps->allocate(r->s, count + n * ALIGNED * sizeof *r->memory, &r->memory, r->err));
    for (size_t i = 0; i < n; i++) {
        const size_t width = (size_t)parts[i].columns;
        *parts[i].to = (kf_rows){r->memory + at, (size_t)tokens, width, width};
        at += kf_div_up(tokens * width, ALIGNED) * ALIGNED;
    }
    return KERF_OK;
}

typedef struct angles {
    const float *frequency;
    float *table;
    double factor;
    uint64_t length, half;
} angles;

static void find_angles(const void *ctx, uint64_t first, uint64_t count)
{
    const angles *a = ctx;
    for (uint64_t t = first; t < first + count; t++)
        for (uint64_t i = 0; i < a->half; i++) {
            const float angle = (float)t * a->frequency[i];
            a->table[t * a->half + i] = (float)(cos((double)angle) * a->factor);
            a->table[(a->length + t) * a->half + i] = (float)(sin((double)angle) * a->factor);
        }
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
        const angles a = {frequency, table, factor, length, half};
        const kerf_status s = kf_for_tokens(l->d->threads, length, find_angles, &a);
        (void)s; /* nothing of it fails */
    }
    free(frequency);
    *out = table;
    return table ? KERF_OK : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for positions");
}

/* Where steps work. */
static kerf_status place_positions(kf_panel_run *r, float *table, float **there)
{
    const kf_layer_kind *kind = r->l->kind;
    *there = table;
    if (!table) return KERF_OK;
    const uint64_t n = r->length * (r->d->config.rope[kind->rope].dims / 2);
    if (r->s->steps->apart) {
        *there = NULL;
        KF_TRY(r->s->steps->allocate(r->s, 2 * n * sizeof *table, there, r->err));
        KF_TRY(r->s->steps->upload(r->s, *there, table, 2 * n * sizeof *table, r->err));
    }
    r->cosine = *there;
    r->sine = *there + n;
    return KERF_OK;
}

/* Everything that steps will be given the address of. */
static kerf_status list_weights(const kerf_layer *l, kf_held **out, size_t *n, kerf_error *err)
{
    *n = 0;
    KF_TRY(kf_allocate(out, l->weights + KF_SLOTS, sizeof **out, err));
    for (size_t i = 0; i < l->weights; i++)
        (*out)[(*n)++] = (kf_held){l->weight[i].data, l->weight[i].rows * l->weight[i].cols, 1};
    for (int s = 0; s < KF_SLOTS; s++)
        if (l->data[s] && !l->of[s])
            (*out)[(*n)++] =
                (kf_held){l->data[s], kerf_weight_elements(l->d->layer[l->index].slot[s]), 0};
    return KERF_OK;
}

static kerf_status hold_weights(kf_panel_run *r)
{
    const kf_steps *steps = r->s->steps;
    kf_held *held = NULL;
    size_t n;
    if (!steps->apart) return KERF_OK;
    if (r->l->sent) return steps->hold_sent(r->s, r->l->sent, r->err);
    KF_TRY(list_weights(r->l, &held, &n, r->err));
    const kerf_status s = steps->hold(r->s, held, n, 0, r->err);
    free(held);
    return s;
}

kerf_status kerf_layer_send(kerf_layer *l, kerf_error *err)
{
    kf_stepper *stepper = l->d->stepper;
    kf_held *held = NULL;
    size_t n;
    if (!stepper->steps->send || l->sent) return KERF_OK;
    KF_TRY(list_weights(l, &held, &n, err));
    const kerf_status s = stepper->steps->send(stepper, held, n, &l->sent, err);
    free(held);
    return s;
}

static void cut_to(kf_panel_run *r, uint64_t tokens)
{
    kf_rows *all[] = {&r->normed, &r->delta, &r->q,  &r->k,   &r->v,
                      &r->mixed,  &r->gate,  &r->up, &r->low, &r->state};
    r->tokens = tokens;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) all[i]->rows = (size_t)tokens;
}

static kerf_status run_panels(kf_panel_run *r, const kerf_tokens *tokens, uint64_t rows,
                              float *hidden)
{
    for (uint64_t row = 0; row < tokens->rows; row += rows) {
        r->rows = kf_min_u64(rows, tokens->rows - row);
        cut_to(r, r->rows * r->length);
        KF_TRY(pace(r));
        KF_TRY(bring_panel(r, hidden + row * r->length * r->d->config.hidden));
    }
    return KERF_OK;
}

/* --- sums of several runs ------------------------------------------------------------------ */

static int sums_stay(const kf_panel_run *r)
{
    return r->watch && r->watch->there && r->s->steps->keep;
}

static kerf_status take_sums(const kf_panel_run *r)
{
    if (!sums_stay(r) || !*r->watch->there) return KERF_OK;
    KF_TRY(r->s->steps->go_on(r->s, *r->watch->there, r->err));
    *r->watch->there = NULL;
    return KERF_OK;
}

static kerf_status give_sums(const kf_panel_run *r)
{
    if (!r->s->steps->apart) return KERF_OK;
    if (sums_stay(r)) return r->s->steps->keep(r->s, r->watch->there, r->err);
    return r->s->steps->settle(r->s, r->err);
}

kerf_status kerf_gpu_sums_settle(kerf_gpu_sums *s, int threads, kerf_error *err)
{
    return s->settle(s, threads, err);
}

void kerf_gpu_sums_free(kerf_gpu_sums *s)
{
    if (s) s->free(s);
}

kerf_status kerf_layer_run(const kerf_layer *l, const kerf_tokens *tokens, float *hidden,
                           const kerf_watch *watch, const kerf_job *job, kerf_error *err)
{
    if (tokens->rows == 0 || tokens->length == 0) return KERF_OK;
    const kf_steps *steps = l->d->stepper->steps;
    uint64_t rows = (steps->apart ? (uint64_t)KERF_GPU_PANEL_TOKENS : (uint64_t)KERF_PANEL_TOKENS) /
                    tokens->length;
    rows = rows == 0 ? 1 : kf_min_u64(rows, tokens->rows);
    kf_panel_run r = {.l = l,
                      .d = l->d,
                      .s = l->d->stepper,
                      .watch = watch,
                      .job = job,
                      .err = err,
                      .length = tokens->length};
    float *table = NULL, *there = NULL;
    kerf_status s = open_positions(l, tokens->length, &table, err);
    if (s == KERF_OK) s = place_positions(&r, table, &there);
    if (s == KERF_OK) s = open_panel(&r, rows * tokens->length);
    if (s == KERF_OK) s = hold_weights(&r);
    if (s == KERF_OK) s = take_sums(&r);
    if (s == KERF_OK) s = run_panels(&r, tokens, rows, hidden);
    if (s == KERF_OK) s = give_sums(&r);
    if (steps->apart) {
        steps->drop(r.s);
        steps->release(r.s, there);
    }
    steps->release(r.s, r.memory);
    free(table);
    return s;
}
