/* model_plan.c - the operators of one step of a model, each with the bytes that it moves and the
 * operations that it computes, and the time predicted from them. */
#include <kerf/model.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

/* --- counts -------------------------------------------------------------------------------- */

static double elements(const kerf_part *p)
{
    return (double)p->n * (double)p->k * (double)p->copies * (double)p->experts;
}

double kerf_model_parameters(const kerf_model *m)
{
    double sum = 0;
    for (size_t i = 0; i < m->parts; i++) {
        if (m->part[i].kind != KERF_PART_HEAD || !m->tied) sum += elements(&m->part[i]);
    }
    return sum;
}

double kerf_model_active(const kerf_model *m)
{
    double sum = 0;
    for (size_t i = 0; i < m->parts; i++) {
        const kerf_part *p = &m->part[i];
        if (p->kind == KERF_PART_EMBEDDING) continue;
        double share = p->experts > 1 ? (double)m->experts_active / (double)m->experts : 1;
        sum += share * elements(p);
    }
    return sum;
}

/* Cached elements of one token in one layer. */
static uint64_t kv_elements_per_layer(const kerf_model *m)
{
    return m->latent ? m->latent + m->rope_dim : m->kv_heads * (m->qk_dim + m->v_dim);
}

/* Layers that cache keys and values of their own. */
static double caching_layers(const kerf_model *m)
{
    return (double)(m->attention_layers - m->borrowing_layers);
}

double kerf_model_kv_elements(const kerf_model *m)
{
    return caching_layers(m) * (double)kv_elements_per_layer(m);
}

static kerf_status kv_bytes_per_layer(const kerf_model *m, const kerf_format *f, double *out,
                                      kerf_error *err)
{
    kerf_geometry g;
    *out = 2.0 * (double)kv_elements_per_layer(m);
    if (!f) return KERF_OK;
    KF_TRY(kerf_geometry_init(&g, f, &(kerf_shape){2, {1, kv_elements_per_layer(m)}}, err));
    *out = 0;
    for (int p = 0; p < KERF_PLANES; p++) {
        int counted = g.plane[p].dtype != KERF_DTYPE_NONE && !g.plane[p].per_matrix;
        if (counted) *out += (double)g.plane[p].bytes;
    }
    return KERF_OK;
}

kerf_status kerf_model_kv_bytes(const kerf_model *m, const kerf_format *f, double *out,
                                kerf_error *err)
{
    KF_TRY(kv_bytes_per_layer(m, f, out, err));
    *out *= caching_layers(m);
    return KERF_OK;
}

static double windowed_layers(const kerf_model *m)
{
    return (double)(m->window ? kf_min_u64(m->window_layers, m->attention_layers) : 0);
}

kerf_status kerf_model_cache_bytes(const kerf_model *m, const kerf_format *f, double context,
                                   double *out, kerf_error *err)
{
    double layer;
    KF_TRY(kv_bytes_per_layer(m, f, &layer, err));
    const double all = caching_layers(m);
    const double windowed = fmin(all, windowed_layers(m) - (double)m->borrowing_windows);
    *out = layer * ((all - windowed) * context + windowed * fmin(context, (double)m->window));
    return KERF_OK;
}

static double attention_flops_per_layer(const kerf_model *m, int absorbed)
{
    double qk = (double)(m->latent && absorbed ? m->latent + m->rope_dim : m->qk_dim);
    double v = (double)(m->latent && absorbed ? m->latent : m->v_dim);
    return 2 * (double)m->heads * (qk + v);
}

double kerf_model_attention_flops(const kerf_model *m, int absorbed)
{
    return (double)m->attention_layers * attention_flops_per_layer(m, absorbed);
}

double kerf_expected_experts(double experts, double chosen, double batch)
{
    return experts * -expm1(batch * log1p(-chosen / experts));
}

/* --- bytes --------------------------------------------------------------------------------- */

static const kerf_format *or_bf16(const kerf_format *f)
{
    return f ? f : kerf_format_find("bf16");
}

/* The format of a part's matrix; embedding, router and vectors stay as they are. */
static const kerf_format *format_of(const kerf_part *p, const kerf_formats *f)
{
    switch (p->kind) {
    case KERF_PART_LINEAR: return or_bf16(f->linear);
    case KERF_PART_EXPERT: return or_bf16(f->experts ? f->experts : f->linear);
    case KERF_PART_HEAD: return or_bf16(f->head);
    default: return or_bf16(NULL);
    }
}

static kerf_status matrix_bytes(const kerf_part *p, const kerf_formats *f, double *out,
                                kerf_error *err)
{
    kerf_geometry g;
    KF_TRY(kerf_geometry_init(&g, format_of(p, f), &(kerf_shape){2, {p->n, p->k}}, err));
    *out = (double)g.bytes;
    return KERF_OK;
}

kerf_status kerf_model_bytes(const kerf_model *m, const kerf_formats *f, double *out,
                             kerf_error *err)
{
    double bytes;
    *out = 0;
    for (size_t i = 0; i < m->parts; i++) {
        const kerf_part *p = &m->part[i];
        if (m->tied && p->kind == KERF_PART_EMBEDDING) continue; /* the head stands for both */
        KF_TRY(matrix_bytes(p, f, &bytes, err));
        *out += bytes * (double)p->copies * (double)p->experts;
    }
    return KERF_OK;
}

/* Of how many GPUs one has the experts; each is taken to be chosen as often. */
static double expert_share(const kerf_model *m)
{
    return m->expert_gpus > 1 ? m->expert_gpus : 1;
}

/* Matrices of one layer that a step reads. */
static double matrices_read(const kerf_model *m, const kerf_part *p, double tokens)
{
    if (p->kind != KERF_PART_EXPERT) return 1;
    return kerf_expected_experts((double)m->experts, (double)m->experts_active, tokens) /
           expert_share(m);
}

kerf_status kerf_model_read_bytes(const kerf_model *m, const kerf_formats *f, double batch,
                                  double *out, kerf_error *err)
{
    double bytes;
    *out = 0;
    for (size_t i = 0; i < m->parts; i++) {
        const kerf_part *p = &m->part[i];
        if (p->kind == KERF_PART_EMBEDDING || p->kind == KERF_PART_VECTOR) continue;
        KF_TRY(matrix_bytes(p, f, &bytes, err));
        *out += bytes * (double)p->copies * matrices_read(m, p, batch);
    }
    return KERF_OK;
}

kerf_status kerf_model_crossover(const kerf_model *m, const kerf_formats *f, double batch,
                                 double *out, kerf_error *err)
{
    double weights, layer;
    KF_TRY(kerf_model_read_bytes(m, f, batch, &weights, err));
    KF_TRY(kv_bytes_per_layer(m, f->kv, &layer, err));
    const double windowed = windowed_layers(m), all = (double)m->attention_layers;
    const double tokens = weights / (layer * batch); /* of one layer */
    *out = tokens / all;
    if (*out > (double)m->window && windowed > 0)
        *out = (tokens - windowed * (double)m->window) / (all - windowed);
    if (all == 0) *out = INFINITY;
    return KERF_OK;
}

/* --- what runs between products ------------------------------------------------------------ */

/* Operations, and elements read and written, per element of its result. */
typedef struct elementwise {
    const char *name;
    double flops, reads, writes;
} elementwise;

static const elementwise elementwises[] = {
    {"rmsnorm", 5, 1, 1}, /* square, add, scale, weight, and a share of the root */
    {"softmax", 5, 1, 1}, /* maximum, subtract, exponential, add, divide         */
    {"residual", 1, 2, 1}, {"rope", 6, 1, 1},     {"silu_mul", 4, 2, 1},
    {"add_norm", 6, 2, 2}, {"sampling", 5, 1, 0}, /* a softmax whose result is one token */
};

static const elementwise *find_elementwise(const char *name)
{
    for (size_t i = 0; i < sizeof elementwises / sizeof *elementwises; i++) {
        if (strcmp(elementwises[i].name, name) == 0) return &elementwises[i];
    }
    return NULL;
}

double kerf_elementwise_intensity(const char *name)
{
    const elementwise *e = find_elementwise(name);
    return e ? e->flops / (2 * (e->reads + e->writes)) : 0;
}

/* --- operators ----------------------------------------------------------------------------- */

typedef struct planner {
    const kerf_model *model;
    const kerf_hardware *hardware;
    const kerf_formats *formats;
    const kerf_phase *phase;
    double tokens; /* that pass every layer in this step */
    kerf_step *out;
    kerf_error *err;
} planner;

static kerf_operator *next_operator(planner *p, const char *name, double count)
{
    /* Parts are few enough that the last place is never taken twice. */
    if (p->out->ops == KERF_MAX_OPERATORS) p->out->ops--;
    kerf_operator *op = &p->out->op[p->out->ops++];
    *op = (kerf_operator){.count = count};
    snprintf(op->name, sizeof op->name, "%s", name);
    return op;
}

static void add_operator(planner *p, const kerf_operator *op)
{
    p->out->flops += op->count * op->work.flops;
    p->out->bytes += op->count * kerf_work_bytes(&op->work);
    kerf_prediction_add(&p->out->time, &op->time, op->count);
}

static kerf_status add_product(planner *p, const char *name, double count, const kerf_matmul *m)
{
    kerf_operator *op = next_operator(p, name, count);
    KF_TRY(kerf_matmul_work(p->hardware, m, &op->work, p->err));
    KF_TRY(kerf_predict(p->hardware, m, &op->time, p->err));
    add_operator(p, op);
    return KERF_OK;
}

static void add_elementwise(planner *p, const char *kind, const char *name, double count,
                            double width)
{
    const elementwise *e = find_elementwise(kind);
    kerf_operator *op = next_operator(p, name, count);
    double n = width * p->tokens;
    op->work.flops = e->flops * n;
    op->work.input_bytes = 2 * e->reads * n;
    op->work.output_bytes = 2 * e->writes * n;
    kerf_predict_work(p->hardware, &op->work, &op->time);
    add_operator(p, op);
}

/* Tokens that a query sees, on average, in a layer with a window of w (0: none), times queries. */
static double pairs(const kerf_phase *phase, double w)
{
    double s = phase->context, seen = w > 0 ? fmin(s, w) : s;
    if (!phase->prefill) return phase->batch * seen;
    return phase->batch * (s * seen - seen * seen / 2); /* causal */
}

static kerf_status add_attention_over(planner *p, const char *name, double count, double window)
{
    const kerf_model *m = p->model;
    const kerf_phase *phase = p->phase;
    if (count == 0) return KERF_OK;
    kerf_operator *op = next_operator(p, name, count);
    int absorbed = m->latent && !phase->prefill;
    double kv, tokens = phase->context;
    if (window > 0 && !phase->prefill) tokens = fmin(tokens, window);
    KF_TRY(kv_bytes_per_layer(m, p->formats->kv, &kv, p->err));
    double q = (double)m->heads * (double)(absorbed ? m->latent + m->rope_dim : m->qk_dim);
    double o = (double)m->heads * (double)(absorbed ? m->latent : m->v_dim);
    op->work.flops = attention_flops_per_layer(m, absorbed) * pairs(phase, window);
    op->work.input_bytes = kv * tokens * phase->batch + 2 * q * p->tokens;
    op->work.output_bytes = 2 * o * p->tokens;
    op->work.rows = p->tokens;
    op->work.peak_tflops = kerf_peak_tflops(p->hardware, NULL, NULL);
    kerf_predict_work(p->hardware, &op->work, &op->time);
    add_operator(p, op);
    return KERF_OK;
}

static kerf_status add_attention(planner *p)
{
    const kerf_model *m = p->model;
    double windowed = windowed_layers(m);
    KF_TRY(add_attention_over(p, m->latent ? "attention on latents" : "attention",
                              (double)m->attention_layers - windowed, 0));
    return add_attention_over(p, "attention in window", windowed, (double)m->window);
}

/* In decode, kv_b is folded into queries and results: one small matrix per head, twice. */
static kerf_status add_absorbed(planner *p, const kerf_part *part)
{
    const kerf_model *m = p->model;
    double heads = (double)m->heads;
    kerf_matmul in = {.format = format_of(part, p->formats),
                      .n = m->latent,
                      .k = m->qk_dim - m->rope_dim,
                      .rows = p->tokens * heads,
                      .matrices = heads};
    kerf_matmul out = in;
    out.n = m->v_dim;
    out.k = m->latent;
    KF_TRY(add_product(p, "kv_b: queries to latents", (double)part->copies, &in));
    return add_product(p, "kv_b: latents to values", (double)part->copies, &out);
}

/* The product of part i together with those fused to it, which follow it. */
static kerf_status add_part(planner *p, size_t i)
{
    const kerf_model *m = p->model;
    const kerf_part *part = &m->part[i];
    kerf_matmul mm = {.format = format_of(part, p->formats),
                      .activations = part->kind == KERF_PART_ROUTER || part->kind == KERF_PART_HEAD
                                         ? NULL
                                         : p->formats->activations,
                      .k = part->k,
                      .rows = p->tokens};
    char name[48] = "";
    for (size_t j = i; j < m->parts; j++) {
        const kerf_part *q = &m->part[j];
        if (j != i && (!part->fused || q->fused != part->fused || q->copies != part->copies)) {
            continue;
        }
        size_t n = strlen(name);
        snprintf(name + n, sizeof name - n, "%s%s", n ? "+" : "", q->name);
        mm.n += q->n;
    }
    if (part->kind == KERF_PART_EXPERT) {
        mm.rows = p->tokens * (double)m->experts_active / expert_share(m);
        mm.matrices = matrices_read(m, part, p->tokens);
    }
    if (part->kind == KERF_PART_HEAD) mm.rows = p->phase->batch;
    return add_product(p, name, (double)part->copies, &mm);
}

/* After attention and after the MLP of a layer each GPU has a part of a sum, and of the logits some
 * rows. With whole experts tokens travel to them and back, as many bytes for each chosen one; each
 * GPU sends its share of the tokens. */
static void add_exchange(planner *p, const char *name, double count, double bytes)
{
    kerf_operator *op = next_operator(p, name, count);
    op->work.output_bytes = bytes;
    kerf_predict_all_reduce(p->hardware, p->model->gpus, bytes, &op->time);
    add_operator(p, op);
}

static void add_exchanges(planner *p)
{
    const kerf_model *m = p->model;
    const double hidden = 2 * p->tokens * (double)m->hidden, layers = (double)m->layers;
    const double routed = m->expert_gpus > 1 ? (double)m->moe_layers : 0;
    if (m->gpus <= 1) return;
    add_exchange(p, "all-reduce", 2 * layers - routed, hidden);
    if (routed > 0)
        add_exchange(p, "tokens to experts and back", routed,
                     hidden * (double)m->experts_active / expert_share(m));
    /* 16-bit logits are gathered: half of what a sum moves. */
    add_exchange(p, "logits from all", 1, p->phase->batch * (double)m->vocab);
}

static int is_first_of_fused(const kerf_model *m, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        const kerf_part *a = &m->part[j], *b = &m->part[i];
        if (b->fused && a->fused == b->fused && a->copies == b->copies) return 0;
    }
    return 1;
}

static kerf_status add_all(planner *p)
{
    const kerf_model *m = p->model;
    double layers = (double)m->layers, hidden = (double)m->hidden;
    for (size_t i = 0; i < m->parts; i++) {
        const kerf_part *part = &m->part[i];
        if (part->kind == KERF_PART_EMBEDDING || part->kind == KERF_PART_VECTOR) continue;
        if (!is_first_of_fused(m, i)) continue;
        if (!p->phase->prefill && m->latent && strcmp(part->name, "kv_b_proj") == 0) {
            KF_TRY(add_absorbed(p, part));
        } else {
            KF_TRY(add_part(p, i));
        }
        double width = (double)part->n;
        if (strstr(part->name, "expert gate")) width *= (double)m->experts_active / expert_share(m);
        if (strstr(part->name, "gate_proj")) {
            add_elementwise(p, "silu_mul", "activation", (double)part->copies, width);
        }
    }
    KF_TRY(add_attention(p));
    add_elementwise(p, "add_norm", "norm and residual", 2 * layers + 1, hidden);
    add_elementwise(p, "rope", "rotary and cache", layers,
                    (double)m->heads * (double)m->qk_dim + (double)kv_elements_per_layer(m));
    add_elementwise(p, "sampling", "sampling", 1, (double)m->vocab * p->phase->batch / p->tokens);
    add_exchanges(p);
    return KERF_OK;
}

kerf_status kerf_model_plan(const kerf_model *m, const kerf_hardware *h, const kerf_formats *f,
                            const kerf_phase *phase, kerf_step *out, kerf_error *err)
{
    planner p = {.model = m,
                 .hardware = h,
                 .formats = f,
                 .phase = phase,
                 .tokens = phase->batch * (phase->prefill ? phase->context : 1),
                 .out = out,
                 .err = err};
    memset(out, 0, sizeof *out);
    if (!(phase->batch >= 1) || !(phase->context >= 1)) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "batch and context must be 1 at least");
    }
    KF_TRY(add_all(&p));
    out->tokens_per_s[0] = p.tokens * 1e6 / out->time.high_us;
    out->tokens_per_s[1] = p.tokens * 1e6 / out->time.low_us;
    return KERF_OK;
}
