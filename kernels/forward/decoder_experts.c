/* decoder_experts.c - the gated MLP, and the choice among many of them. Experts run in rising
 * order, each over the tokens that chose it, and are added to those in that order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector_exp.h"
#include "forward/layer_run.h"
#include "forward/steps_plain.h"

/* --- one MLP ------------------------------------------------------------------------------- */

static kf_gate_kind gate_of(const kf_config *c)
{
    if (c->family->has & KF_HAS_CLAMPED) return KF_GATE_CLAMPED;
    if (c->activation == KF_ACT_SILU) return KF_GATE_SILU;
    return c->activation == KF_ACT_GELU ? KF_GATE_GELU : KF_GATE_GELU_TANH;
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
    const kf_config *c = &r->d->config;
    const kf_gating g = {gate, up, gate_of(c), (float)c->limit, (float)c->alpha};
    KF_TRY(r->s->steps->gate(r->s, &g, r->err));
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
    kf_rows scores;   /* [experts], there                                       */
    float *seen;      /* the same where the host reads it                       */
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

static void route_block(const void *ctx, uint64_t first, uint64_t count)
{
    const routing *w = ctx;
    const kf_config *c = &w->r->d->config;
    for (uint64_t t = first; t < first + count; t++) {
        float *score = w->seen + t * c->experts, *choice = w->choice + t * 2 * c->experts;
        score_token(c, score, w->r->l->data[KF_SLOT_CORRECTION], choice);
        memcpy(choice + c->experts, choice, c->experts * sizeof *choice);
        if (c->groups > 1) keep_groups(c, choice);
        choose(c, score, choice, w->expert + t * c->used, w->share + t * c->used);
    }
}

/* --- experts ------------------------------------------------------------------------------- */

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
    kf_gathering g = {r->normed, m->in, m->token, m->share, 0};
    KF_TRY(r->s->steps->gather(r->s, &g, r->err));
    KF_TRY(kf_gated(r, &mlp, m->in, m->out));
    g = (kf_gathering){m->out, r->delta, m->token, m->share, 1};
    return r->s->steps->gather(r->s, &g, r->err);
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
    return r->s->steps->add(r->s, r->delta, m->out, r->err);
}

static kerf_status run_routed(kf_panel_run *r, crowd *m)
{
    const kf_config *c = &r->d->config;
    KF_TRY(kf_multiply(r, m->w.scores, r->normed, r->l->of[KF_SLOT_ROUTER], 0, 1,
                       r->l->data[KF_SLOT_ROUTER_BIAS]));
    if (r->s->steps->apart)
        KF_TRY(r->s->steps->download(r->s, m->w.seen, m->w.scores.p,
                                     r->tokens * c->experts * sizeof(float), r->err));
    KF_TRY(kf_for_tokens(r->s->threads, r->tokens, route_block, &m->w));
    KF_TRY(r->s->steps->zero(r->s, r->delta, r->err));
    for (uint64_t e = 0; e < c->experts; e++) KF_TRY(run_expert(r, m, e));
    return run_shared(r, m);
}

kerf_status kf_run_experts(kf_panel_run *r)
{
    const kf_config *c = &r->d->config;
    const uint64_t n = r->tokens, hidden = c->hidden;
    const size_t experts = (size_t)c->experts;
    crowd m = {.w = {.r = r}};
    uint64_t floats = 3 * c->experts + c->used + 1, there = c->experts + 2 * hidden;
    float *memory = NULL, *panel = NULL;
    if (!kf_mul_ok(floats, n, &floats) || !kf_mul_ok(there * sizeof *panel, n, &there))
        return kf_fail(r->err, KERF_E_RANGE, KF_NOWHERE, "too many tokens");
    uint32_t *list = kf_alloc(n, (c->used + 1) * sizeof *list);
    kerf_status s = kf_allocate(&memory, floats, sizeof *memory, r->err);
    if (s == KERF_OK && !list)
        s = kf_fail(r->err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the experts of %llu tokens",
                    (unsigned long long)n);
    if (s == KERF_OK) s = r->s->steps->allocate(r->s, there, &panel, r->err);
    if (s == KERF_OK) {
        m.in = (kf_rows){panel, (size_t)n, (size_t)hidden, (size_t)hidden};
        m.out = (kf_rows){panel + n * hidden, (size_t)n, (size_t)hidden, (size_t)hidden};
        m.w.scores = (kf_rows){panel + 2 * n * hidden, (size_t)n, experts, experts};
        m.w.seen = r->s->steps->apart ? memory : m.w.scores.p;
        m.w.choice = memory + n * experts;
        m.w.share = memory + 3 * n * experts;
        m.share = m.w.share + n * c->used;
        m.w.expert = list;
        m.token = list + n * c->used;
        s = run_routed(r, &m);
    }
    r->s->steps->release(r->s, panel);
    free(memory);
    free(list);
    return s;
}
