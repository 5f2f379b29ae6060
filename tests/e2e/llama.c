/* llama.c - the forward pass over one row of tokens, in the order of the published model: RMS
 * norm, attention with rotary positions (the halves of a head are rotated against each other)
 * over shared key and value heads, RMS norm, gated feed-forward. Sums of a dot product are
 * float32; norms, the softmax of the loss and the loss itself are summed in double. */
#include "llama.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Logits are made for so many positions at a time: a vocabulary can be large. */
#define LOGIT_ROWS 32u

/* Everything one row needs, carved out of one allocation. */
typedef struct state {
    size_t tokens;
    view x, normed, delta; /* [tokens][hidden]                      */
    view q, k, v, mixed;   /* [tokens][heads][head_dim]             */
    view gate, up;         /* [tokens][intermediate]                */
    view score;            /* [tokens][tokens] of one head          */
    view logits;           /* [LOGIT_ROWS][vocab]                   */
    view cosine, sine;     /* [tokens][head_dim / 2]                */
    float *head;           /* panels of one head's keys or values   */
} state;

/* The next count x stride floats of `memory`, of which *used are taken. */
static view carve(float *memory, size_t *used, size_t count, size_t stride)
{
    float *p = memory ? memory + *used : NULL;
    *used += count * stride;
    return (view){p, count, stride};
}

/* Lays the arrays out from `memory`, or only counts their floats when that is NULL. */
static size_t lay_out(state *s, const llama_config *c, size_t n, float *memory)
{
    size_t used = 0, q = (size_t)c->num_attention_heads * c->head_dim;
    size_t kv = (size_t)c->num_key_value_heads * c->head_dim;
    s->tokens = n;
    s->x = carve(memory, &used, n, c->hidden_size);
    s->normed = carve(memory, &used, n, c->hidden_size);
    s->delta = carve(memory, &used, n, c->hidden_size);
    s->q = carve(memory, &used, n, q);
    s->mixed = carve(memory, &used, n, q);
    s->k = carve(memory, &used, n, kv);
    s->v = carve(memory, &used, n, kv);
    s->gate = carve(memory, &used, n, c->intermediate_size);
    s->up = carve(memory, &used, n, c->intermediate_size);
    s->score = carve(memory, &used, n, n);
    s->logits = carve(memory, &used, LOGIT_ROWS, c->vocab_size);
    s->cosine = carve(memory, &used, n, c->head_dim / 2);
    s->sine = carve(memory, &used, n, c->head_dim / 2);
    size_t keys = matrix_floats(n, c->head_dim), values = matrix_floats(c->head_dim, n);
    s->head = carve(memory, &used, 1, keys > values ? keys : values).p;
    return used;
}

/* --- the parts of a layer ------------------------------------------------------------------ */

static void rms_norm(view y, view x, const float *weight, double eps)
{
    for (size_t i = 0; i < x.count; i++) {
        const float *in = x.p + i * x.stride;
        float *out = y.p + i * y.stride;
        double sum = 0;
        for (size_t k = 0; k < x.stride; k++) sum += (double)in[k] * (double)in[k];
        float scale = (float)(1.0 / sqrt(sum / (double)x.stride + eps));
        for (size_t k = 0; k < x.stride; k++) out[k] = in[k] * scale * weight[k];
    }
}

static void fill_rotations(state *s, double theta)
{
    size_t half = s->cosine.stride;
    for (size_t t = 0; t < s->tokens; t++)
        for (size_t i = 0; i < half; i++) {
            double angle = (double)t * pow(theta, -(double)i / (double)half);
            s->cosine.p[t * half + i] = (float)cos(angle);
            s->sine.p[t * half + i] = (float)sin(angle);
        }
}

/* Rotates element i of every head against element i + head_dim / 2. */
static void rotate(view y, const state *s)
{
    size_t half = s->cosine.stride;
    for (size_t t = 0; t < y.count; t++) {
        const float *cosine = s->cosine.p + t * half, *sine = s->sine.p + t * half;
        for (float *a = y.p + t * y.stride, *end = a + y.stride; a < end; a += 2 * half)
            for (size_t i = 0; i < half; i++) {
                float lo = a[i], hi = a[i + half];
                a[i] = lo * cosine[i] - hi * sine[i];
                a[i + half] = hi * cosine[i] + lo * sine[i];
            }
    }
}

/* Softmax over the first `seen` scores; the future behind them weighs nothing. */
static void softmax_causal(float *score, size_t seen, size_t n, float scale)
{
    float top = score[0];
    for (size_t j = 1; j < seen; j++) top = score[j] > top ? score[j] : top;
    float sum = 0;
    for (size_t j = 0; j < seen; j++) sum += score[j] = expf((score[j] - top) * scale);
    for (size_t j = 0; j < seen; j++) score[j] /= sum;
    memset(score + seen, 0, (n - seen) * sizeof *score);
}

static void attend_head(state *s, const llama_config *c, size_t head)
{
    size_t dim = c->head_dim, n = s->tokens;
    size_t shared = head / (c->num_attention_heads / c->num_key_value_heads);
    float scale = (float)(1.0 / sqrt((double)dim));

    matrix keys = {n, dim, s->head};
    matrix_pack(&keys, s->k.p + shared * dim, s->k.stride, 1);
    matmul(s->score, (view){s->q.p + head * dim, n, s->q.stride}, &keys);
    for (size_t t = 0; t < n; t++) softmax_causal(s->score.p + t * n, t + 1, n, scale);

    matrix values = {dim, n, s->head};
    matrix_pack(&values, s->v.p + shared * dim, 1, s->v.stride);
    matmul((view){s->mixed.p + head * dim, n, s->mixed.stride}, s->score, &values);
}

/* x += y W^T */
static void add_product(state *s, view y, const matrix *w)
{
    matmul(s->delta, y, w);
    for (size_t i = 0; i < s->x.count * s->x.stride; i++) s->x.p[i] += s->delta.p[i];
}

static void run_layer(state *s, const llama_config *c, const llama_layer *l)
{
    rms_norm(s->normed, s->x, l->input_norm, c->rms_norm_eps);
    matmul(s->q, s->normed, &l->q);
    matmul(s->k, s->normed, &l->k);
    matmul(s->v, s->normed, &l->v);
    rotate(s->q, s);
    rotate(s->k, s);
    for (size_t head = 0; head < c->num_attention_heads; head++) attend_head(s, c, head);
    add_product(s, s->mixed, &l->o);

    rms_norm(s->normed, s->x, l->post_attention_norm, c->rms_norm_eps);
    matmul(s->gate, s->normed, &l->gate);
    matmul(s->up, s->normed, &l->up);
    for (size_t i = 0; i < s->gate.count * s->gate.stride; i++) {
        float g = s->gate.p[i];
        s->gate.p[i] = g / (1.0f + expf(-g)) * s->up.p[i];
    }
    add_product(s, s->gate, &l->down);
}

/* --- the loss ------------------------------------------------------------------------------ */

/* -ln softmax(logits)[target], in double and shifted by the largest logit. */
static double cross_entropy(const float *logits, size_t n, uint16_t target)
{
    float top = logits[0];
    for (size_t i = 1; i < n; i++) top = logits[i] > top ? logits[i] : top;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)expf(logits[i] - top);
    return log(sum) + (double)top - (double)logits[target];
}

static double sum_loss(state *s, const llama *m, const uint16_t *tokens)
{
    double loss = 0;
    size_t predictions = s->tokens - 1, width = s->normed.stride;
    for (size_t t = 0; t < predictions; t += LOGIT_ROWS) {
        size_t count = predictions - t < LOGIT_ROWS ? predictions - t : LOGIT_ROWS;
        matmul(s->logits, (view){s->normed.p + t * width, count, width}, &m->lm_head);
        for (size_t i = 0; i < count; i++)
            loss += cross_entropy(s->logits.p + i * s->logits.stride, s->logits.stride,
                                  tokens[t + i + 1]);
    }
    return loss;
}

kerf_status llama_row_loss(const llama *m, const uint16_t *tokens, size_t n, double *loss,
                           kerf_error *err)
{
    const llama_config *c = &m->config;
    state s;
    float *memory = kf_alloc(lay_out(&s, c, n, NULL), sizeof *memory);
    if (!memory) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a row of %zu", n);
    lay_out(&s, c, n, memory);
    fill_rotations(&s, c->rope_theta);
    for (size_t t = 0; t < n; t++)
        memcpy(s.x.p + t * s.x.stride, m->embedding + (size_t)tokens[t] * s.x.stride,
               s.x.stride * sizeof *memory);
    for (unsigned i = 0; i < c->num_hidden_layers; i++) run_layer(&s, c, &m->layer[i]);
    rms_norm(s.normed, s.x, m->norm, c->rms_norm_eps);
    *loss = sum_loss(&s, m, tokens);
    free(memory);
    return KERF_OK;
}
