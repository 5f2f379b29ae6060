/* decoder_experts.c - the gated MLP, and the choice among many of them. Experts run in rising
 * order, each over the tokens that chose it, and are added to those in that order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/layer_run.h"
#include "base/vector_exp.h"

/* --- one MLP ------------------------------------------------------------------------------- */

typedef struct gating {
    const kf_config *c;
    kf_rows gate, up;
} gating;

static float activate(kf_activation a, float x)
{
    return a == KF_ACT_GELU
               ? 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f))
               : 0.5f * x * (1.0f + tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x)));
}

/* The gate of gpt-oss: both sides clamped, and one added to `up`. */
static float clamped(float gate, float up, float limit, float alpha)
{
    const float x = gate > limit ? limit : gate;
    const float y = up > limit ? limit : up < -limit ? -limit : up;
    return (y + 1.0f) * (x / (1.0f + kf_exp(-alpha * x)));
}

/* gate = act(gate) * up */
static void gate_block(void *ctx, uint64_t first, uint64_t count)
{
    const gating *w = ctx;
    const float limit = (float)w->c->limit, alpha = (float)w->c->alpha;
    const size_t n = w->gate.columns;
    for (uint64_t t = first; t < first + count; t++) {
        float *restrict g = w->gate.p + t * w->gate.stride;
        const float *restrict u = w->up.p + t * w->up.stride;
        if (w->c->family->has & KF_HAS_CLAMPED)
            for (size_t k = 0; k < n; k++) g[k] = clamped(g[k], u[k], limit, alpha);
        else if (w->c->activation == KF_ACT_SILU)
            for (size_t k = 0; k < n; k++) g[k] = g[k] / (1.0f + kf_exp(-g[k])) * u[k];
        else
            for (size_t k = 0; k < n; k++) g[k] = activate(w->c->activation, g[k]) * u[k];
    }
}

kerf_status kf_gated(const kf_panel_run *r, const kf_mlp *m, kf_rows x, kf_rows out)
{
    const size_t inner = (size_t)m->inner;
    const kf_rows gate = {r->gate.p, x.rows, inner, inner}, up = {r->up.p, x.rows, inner, inner};
    if (m->gate_up) {
        const uint64_t step = m->alternates ? 2 : 1, second = m->alternates ? 1 : inner;
        KF_TRY(kf_multiply(r, gate, x, m->gate_up, 0, step, m->gate_up_bias));
        KF_TRY(kf_multiply(r, up, x, m->gate_up, second, step, m->gate_up_bias));
    } else {
        KF_TRY(kf_multiply(r, gate, x, m->gate, 0, 1, m->gate_bias));
        KF_TRY(kf_multiply(r, up, x, m->up, 0, 1, m->up_bias));
    }
    gating g = {&r->d->config, gate, up};
    kf_for_tokens(r->d, x.rows, gate_block, &g);
    return kf_multiply(r, out, gate, m->down, 0, 1, m->down_bias);
}

kerf_status kf_run_mlp(kf_panel_run *r)
{
    kerf_layer_weight *const *of = r->l->of;
    float *const *data = r->l->data;
    const kf_mlp m = {.gate = of[KF_SLOT_GATE],
                      .up = of[KF_SLOT_UP],
                      .gate_up = of[KF_SLOT_GATE_UP],
                      .down = of[KF_SLOT_DOWN],
                      .gate_bias = data[KF_SLOT_GATE_BIAS],
                      .up_bias = data[KF_SLOT_UP_BIAS],
                      .down_bias = data[KF_SLOT_DOWN_BIAS],
                      .inner = r->d->config.inner};
    return kf_gated(r, &m, r->normed, r->delta);
}

/* --- the router ---------------------------------------------------------------------------- */

typedef struct routing {
    const kf_panel_run *r;
    kf_rows scores;   /* [experts]                                              */
    uint32_t *expert; /* [tokens][used], rising                                 */
    float *share;     /* [tokens][used]                                         */
    float *choice;    /* [tokens][experts]: by what experts are chosen          */
} routing;

static void score_token(const kf_config *c, float *score, const float *correction, float *choice)
{
    const uint64_t n = c->experts;
    if (c->family->router == KF_ROUTER_SIGMOID) {
        for (uint64_t e = 0; e < n; e++) score[e] = 1.0f / (1.0f + kf_exp(-score[e]));
    } else {
        float top = score[0], sum = 0;
        for (uint64_t e = 1; e < n; e++) top = score[e] > top ? score[e] : top;
        for (uint64_t e = 0; e < n; e++) sum += score[e] = kf_exp(score[e] - top);
        for (uint64_t e = 0; e < n; e++) score[e] /= sum;
    }
    for (uint64_t e = 0; e < n; e++) choice[e] = score[e] + (correction ? correction[e] : 0.0f);
}

/* Groups of experts count by their best one or the sum of their best two; the choice of all others
 * is withdrawn. */
static void keep_groups(const kf_config *c, float *choice)
{
    const uint64_t each = c->experts / c->groups;
    const int best = (c->family->has & KF_HAS_GROUPED_MAX) != 0;
    for (uint64_t g = 0; g < c->groups; g++) {
        uint64_t ahead = 0;
        float mine = 0;
        for (uint64_t other = 0; other <= c->groups; other++) {
            const uint64_t at = (other == 0 ? g : other - 1) * each;
            float one = -INFINITY, two = -INFINITY;
            for (uint64_t e = at; e < at + each; e++) {
                const float x = choice[c->experts + e];
                if (x > one) {
                    two = one;
                    one = x;
                } else if (x > two) {
                    two = x;
                }
            }
            const float worth = best ? one : one + two;
            if (other == 0)
                mine = worth;
            else if (worth > mine || (worth == mine && other - 1 < g))
                ahead++;
        }
        for (uint64_t e = g * each; ahead >= c->groups_used && e < (g + 1) * each; e++)
            choice[e] = -INFINITY;
    }
}

static void choose(const kf_config *c, const float *score, const float *choice, uint32_t *expert,
                   float *share)
{
    uint64_t n = 0;
    float sum = 0;
    for (uint64_t e = 0; e < c->experts && n < c->used; e++) {
        uint64_t ahead = 0;
        for (uint64_t o = 0; o < c->experts; o++)
            ahead += choice[o] > choice[e] || (choice[o] == choice[e] && o < e);
        if (ahead >= c->used) continue;
        expert[n] = (uint32_t)e;
        share[n++] = score[e];
        sum += score[e];
    }
    for (; n < c->used; n++) { /* of scores that are no numbers, none is ahead */
        expert[n] = (uint32_t)n;
        share[n] = NAN;
    }
    if (c->normalize)
        for (uint64_t i = 0; i < n; i++) share[i] /= sum + 1e-20f;
    for (uint64_t i = 0; i < n; i++) share[i] *= (float)c->route_scale;
}

static void route_block(void *ctx, uint64_t first, uint64_t count)
{
    const routing *w = ctx;
    const kf_config *c = &w->r->d->config;
    for (uint64_t t = first; t < first + count; t++) {
        float *score = w->scores.p + t * w->scores.stride, *choice = w->choice + t * 2 * c->experts;
        score_token(c, score, w->r->l->data[KF_SLOT_CORRECTION], choice);
        memcpy(choice + c->experts, choice, c->experts * sizeof *choice);
        if (c->groups > 1) keep_groups(c, choice);
        choose(c, score, choice, w->expert + t * c->used, w->share + t * c->used);
    }
}

/* --- experts ------------------------------------------------------------------------------- */

typedef struct gathering {
    kf_rows from, to;
    const uint32_t *token; /* [n] */
    const float *share;
    int back;
} gathering;

/* to[i] = from[token[i]], or to[token[i]] += share[i] * from[i]. */
static void gather_block(void *ctx, uint64_t first, uint64_t count)
{
    const gathering *w = ctx;
    for (uint64_t i = first; i < first + count; i++) {
        const uint64_t in = w->back ? i : w->token[i], out = w->back ? w->token[i] : i;
        const float *from = w->from.p + in * w->from.stride;
        float *to = w->to.p + out * w->to.stride;
        if (!w->back)
            memcpy(to, from, w->from.columns * sizeof *to);
        else
            for (size_t k = 0; k < w->from.columns; k++) to[k] += w->share[i] * from[k];
    }
}

static const kerf_layer_weight *expert_of(const kerf_layer *l, int each, int stack, uint64_t e)
{
    if (l->of[each]) return &l->of[each][e];
    return stack >= 0 && l->of[stack] ? &l->of[stack][e] : NULL;
}

static kf_mlp mlp_of(const kerf_layer *l, uint64_t e)
{
    const kf_config *c = &l->d->config;
    const float *in = l->data[KF_SLOT_E_GATE_UP_BIAS], *out = l->data[KF_SLOT_E_DOWN_BIAS];
    const kerf_weight *stack = l->d->layer[l->index].slot[KF_SLOT_E_GATE_UPS];
    return (kf_mlp){.gate = expert_of(l, KF_SLOT_E_GATE, KF_SLOT_E_GATES, e),
                    .up = expert_of(l, KF_SLOT_E_UP, KF_SLOT_E_UPS, e),
                    .gate_up = expert_of(l, KF_SLOT_E_GATE_UPS, -1, e),
                    .down = expert_of(l, KF_SLOT_E_DOWN, KF_SLOT_E_DOWNS, e),
                    .gate_up_bias = in ? in + e * 2 * c->expert_inner : NULL,
                    .down_bias = out ? out + e * c->hidden : NULL,
                    .inner = c->expert_inner,
                    .alternates = stack && stack->place.alternates};
}

/* Memory of a run over experts: gathered inputs and outputs, and the lists. */
typedef struct crowd {
    routing w;
    kf_rows in, out;
    uint32_t *token;
    float *share;
} crowd;

static kerf_status run_expert(kf_panel_run *r, crowd *m, uint64_t e)
{
    const kf_config *c = &r->d->config;
    uint64_t n = 0;
    for (uint64_t i = 0; i < r->tokens * c->used; i++) {
        if (m->w.expert[i] != e) continue;
        m->token[n] = (uint32_t)(i / c->used);
        m->share[n++] = m->w.share[i];
    }
    if (n == 0) return KERF_OK;
    const kf_mlp mlp = mlp_of(r->l, e);
    m->in.rows = m->out.rows = (size_t)n;
    gathering g = {r->normed, m->in, m->token, m->share, 0};
    kf_for_tokens(r->d, n, gather_block, &g);
    KF_TRY(kf_gated(r, &mlp, m->in, m->out));
    g = (gathering){m->out, r->delta, m->token, m->share, 1};
    kf_for_tokens(r->d, n, gather_block, &g);
    return KERF_OK;
}

static kerf_status run_shared(kf_panel_run *r, crowd *m)
{
    kerf_layer_weight *const *of = r->l->of;
    const kf_mlp mlp = {.gate = of[KF_SLOT_S_GATE],
                        .up = of[KF_SLOT_S_UP],
                        .down = of[KF_SLOT_S_DOWN],
                        .inner = r->d->config.shared_inner};
    if (!mlp.gate) return KERF_OK;
    m->out.rows = (size_t)r->tokens;
    KF_TRY(kf_gated(r, &mlp, r->normed, m->out));
    for (uint64_t i = 0; i < r->tokens * m->out.stride; i++) r->delta.p[i] += m->out.p[i];
    return KERF_OK;
}

static kerf_status run_routed(kf_panel_run *r, crowd *m)
{
    const kf_config *c = &r->d->config;
    KF_TRY(kf_multiply(r, m->w.scores, r->normed, r->l->of[KF_SLOT_ROUTER], 0, 1,
                       r->l->data[KF_SLOT_ROUTER_BIAS]));
    kf_for_tokens(r->d, r->tokens, route_block, &m->w);
    memset(r->delta.p, 0, r->tokens * r->delta.stride * sizeof(float));
    for (uint64_t e = 0; e < c->experts; e++) KF_TRY(run_expert(r, m, e));
    return run_shared(r, m);
}

kerf_status kf_run_experts(kf_panel_run *r)
{
    const kf_config *c = &r->d->config;
    const uint64_t n = r->tokens, hidden = c->hidden;
    crowd m = {.w = {.r = r}};
    uint64_t floats = 3 * c->experts + 2 * hidden + c->used + 1;
    float *memory = kf_mul_ok(floats, n, &floats) ? kf_alloc(floats, sizeof *memory) : NULL;
    uint32_t *list = kf_alloc(n, (c->used + 1) * sizeof *list);
    kerf_status s = KERF_E_NOMEM;
    if (memory && list) {
        float *at = memory;
        m.in = (kf_rows){at, (size_t)n, (size_t)hidden, (size_t)hidden};
        m.out = (kf_rows){at += n * hidden, (size_t)n, (size_t)hidden, (size_t)hidden};
        m.w.scores = (kf_rows){at += n * hidden, (size_t)n, (size_t)c->experts, (size_t)c->experts};
        m.w.choice = at += n * c->experts;
        m.w.share = at += 2 * n * c->experts;
        m.share = at + n * c->used;
        m.w.expert = list;
        m.token = list + n * c->used;
        s = run_routed(r, &m);
    } else {
        kf_fail(r->err, s, KF_NOWHERE, "no memory for the experts of %llu tokens",
                (unsigned long long)n);
    }
    free(memory);
    free(list);
    return s;
}
