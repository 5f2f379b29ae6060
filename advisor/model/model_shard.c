/* model_shard.c - what one of several GPUs holds of a model, and how long they take to exchange
 * what each needs of the others. */
#include <kerf/model.h>

#include <string.h>

#include "base/base.h"

static uint64_t share_of(uint64_t n, unsigned gpus)
{
    return n / gpus + (n % gpus != 0);
}

static int ends_in(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Outputs are divided, but for a matrix that ends a branch: its inputs are what a GPU has. */
static void shard_matrix(kerf_part *p, const kerf_model *m, unsigned gpus)
{
    if (ends_in(p->name, "o_proj") || ends_in(p->name, "down_proj") || ends_in(p->name, "out_proj"))
        p->k = share_of(p->k, gpus);
    else if (!ends_in(p->name, "_a_proj"))
        p->n = share_of(p->n, gpus);
    if ((strcmp(p->name, "k_proj") == 0 || strcmp(p->name, "v_proj") == 0) && gpus > m->kv_heads)
        p->n = p->name[0] == 'k' ? m->qk_dim : m->v_dim;
}

static void shard_part(kerf_part *p, const kerf_model *m, unsigned gpus, int whole_experts)
{
    switch (p->kind) {
    case KERF_PART_EXPERT:
        if (whole_experts)
            p->experts = share_of(p->experts, gpus);
        else
            shard_matrix(p, m, gpus);
        break;
    case KERF_PART_LINEAR:
    case KERF_PART_EMBEDDING:
    case KERF_PART_HEAD: shard_matrix(p, m, gpus); break;
    default: break;
    }
}

kerf_status kerf_model_shard(const kerf_model *m, unsigned gpus, int expert_parallel,
                             kerf_model *out, kerf_error *err)
{
    *out = *m;
    if (gpus <= 1) return KERF_OK;
    if (m->heads % gpus != 0 || (m->kv_heads && m->kv_heads % gpus && gpus % m->kv_heads))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%llu heads with %llu for keys cannot be divided by %u GPUs",
                       (unsigned long long)m->heads, (unsigned long long)m->kv_heads, gpus);
    if (expert_parallel && (m->experts == 0 || m->experts % gpus != 0))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%llu experts cannot be divided by %u GPUs",
                       (unsigned long long)m->experts, gpus);
    for (size_t i = 0; i < m->parts; i++) shard_part(&out->part[i], m, gpus, expert_parallel);
    out->heads = m->heads / gpus;
    if (m->kv_heads) out->kv_heads = m->kv_heads > gpus ? m->kv_heads / gpus : 1;
    out->gpus = gpus;
    out->expert_gpus = expert_parallel ? gpus : 0;
    return KERF_OK;
}
