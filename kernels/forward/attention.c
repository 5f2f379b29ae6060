/* attention.c - queries, keys and values of a panel and their positions, and what the attention
 * makes of them: whole heads, and heads that come from a compressed vector. */
#include "forward/layer_run.h"

/* --- queries, keys and values ----------------------------------------------------------------- */

static kerf_status rotate(const kf_panel_run *r, kf_rows x, uint64_t head, uint64_t from)
{
    if (!r->cosine) return KERF_OK;
    const kf_rotation w = {x,         head,      from,    r->d->config.rope[r->l->kind->rope].dims,
                           r->length, r->cosine, r->sine, (r->l->kind->has & KF_HAS_PAIRS) != 0};
    return r->s->steps->rotate(r->s, &w, r->err);
}

static kerf_status norm(const kf_panel_run *r, kf_rows x, int slot, size_t width, double eps)
{
    return r->s->steps->norm(r->s, x, x.p, r->l->data[slot], width, eps, r->err);
}

static kerf_status project_heads(kf_panel_run *r)
{
    const kf_config *c = &r->d->config;
    kerf_layer_weight *const *of = r->l->of;
    float *const *data = r->l->data;
    const kerf_layer_weight *fused = of[KF_SLOT_QKV];
    const uint64_t q = r->q.columns, k = r->k.columns;
    KF_TRY(
        kf_multiply(r, r->q, r->normed, fused ? fused : of[KF_SLOT_Q], 0, 1, data[KF_SLOT_Q_BIAS]));
    KF_TRY(kf_multiply(r, r->k, r->normed, fused ? fused : of[KF_SLOT_K], fused ? q : 0, 1,
                       fused ? NULL : data[KF_SLOT_K_BIAS]));
    KF_TRY(kf_multiply(r, r->v, r->normed, fused ? fused : of[KF_SLOT_V], fused ? q + k : 0, 1,
                       fused ? NULL : data[KF_SLOT_V_BIAS]));
    if (r->l->kind->has & KF_HAS_HEAD_NORM) {
        KF_TRY(norm(r, r->q, KF_SLOT_Q_NORM, (size_t)c->head_dim, c->eps));
        KF_TRY(norm(r, r->k, KF_SLOT_K_NORM, (size_t)c->head_dim, c->eps));
    }
    KF_TRY(rotate(r, r->q, c->head_dim, 0));
    return rotate(r, r->k, c->head_dim, 0);
}

/* An array of these columns in memory that another one has. */
static kf_rows view_in(kf_rows memory, float *p, uint64_t columns)
{
    return (kf_rows){p, memory.rows, (size_t)columns, (size_t)columns};
}

#define LATENT_EPS 1e-6 /* of the norms of compressed vectors, whatever config.json says */

static kerf_status latent_queries(kf_panel_run *r)
{
    const kf_config *c = &r->d->config;
    kerf_layer_weight *const *of = r->l->of;
    if (!c->q_rank) return kf_multiply(r, r->q, r->normed, of[KF_SLOT_Q], 0, 1, NULL);
    const kf_rows low = view_in(r->low, r->low.p, c->q_rank);
    KF_TRY(kf_multiply(r, low, r->normed, of[KF_SLOT_Q_A], 0, 1, r->l->data[KF_SLOT_Q_A_BIAS]));
    KF_TRY(norm(r, low, KF_SLOT_Q_A_NORM, low.columns, LATENT_EPS));
    return kf_multiply(r, r->q, low, of[KF_SLOT_Q_B], 0, 1, NULL);
}

static kerf_status project_latent(kf_panel_run *r)
{
    const kf_config *c = &r->d->config;
    const kf_steps *steps = r->s->steps;
    kerf_layer_weight *const *of = r->l->of;
    KF_TRY(latent_queries(r));
    KF_TRY(rotate(r, r->q, c->head_dim, c->nope_dim));
    const kf_rows packed = view_in(r->low, r->low.p, c->kv_rank + c->rope_dim);
    const kf_rows latent = view_in(r->low, r->low.p + r->tokens * packed.columns, c->kv_rank);
    const kf_rows unpacked = view_in(r->mixed, r->mixed.p, c->heads * (c->nope_dim + c->value_dim));
    KF_TRY(
        kf_multiply(r, packed, r->normed, of[KF_SLOT_KV_A], 0, 1, r->l->data[KF_SLOT_KV_A_BIAS]));
    KF_TRY(rotate(r, packed, packed.columns, c->kv_rank));
    KF_TRY(steps->take(r->s, latent, packed, r->err));
    KF_TRY(norm(r, latent, KF_SLOT_KV_A_NORM, latent.columns, LATENT_EPS));
    KF_TRY(kf_multiply(r, unpacked, latent, of[KF_SLOT_KV_B], 0, 1, NULL));
    const kf_unpacking u = {packed,      unpacked,    r->k,         r->v,      c->heads,
                            c->nope_dim, c->rope_dim, c->value_dim, c->kv_rank};
    return steps->unpack(r->s, &u, r->err);
}

/* --- the attention ------------------------------------------------------------------------- */

kerf_status kf_run_attention(kf_panel_run *r)
{
    const kf_config *c = &r->d->config;
    const kf_rows mixed = view_in(r->mixed, r->mixed.p, c->heads * c->value_dim);
    KF_TRY(r->l->kind->has & KF_HAS_LATENT ? project_latent(r) : project_heads(r));
    KF_TRY(kf_tell_cache(r));
    const kf_attention a = {.q = r->q,
                            .k = r->k,
                            .v = r->v,
                            .mixed = mixed,
                            .rows = r->rows,
                            .length = r->length,
                            .heads = c->heads,
                            .kv_heads = c->kv_heads,
                            .dim = c->head_dim,
                            .value = c->value_dim,
                            .window = r->l->kind->window,
                            .scale = (float)c->score_scale,
                            .cap = (float)c->score_cap,
                            .sinks = r->l->data[KF_SLOT_SINKS]};
    KF_TRY(r->s->steps->attend(r->s, &a, r->err));
    return kf_multiply(r, r->delta, mixed, r->l->of[KF_SLOT_O], 0, 1, r->l->data[KF_SLOT_O_BIAS]);
}
