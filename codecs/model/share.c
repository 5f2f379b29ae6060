/* share.c - which files of an output one of several processes writes.
 *
 * The whole waits for its slowest part, so shards are divided by the bytes that are read for them,
 * twice where an encoder looks at a tensor twice: the shard with the most work first, each to the
 * part that has least so far. The slowest part then has at most 4/3 - 1/(3 N) of the least that is
 * possible (Graham 1969, longest processing time first). Runs of neighbouring shards would read the
 * source in longer pieces, but a shard is gigabytes, and one heavy neighbour cannot be put
 * elsewhere. Equal work goes by number, so that all processes come to the same. */
#include "model/share.h"

#include <stdlib.h>

#include <kerf/parts.h>

#include "base/base.h"

typedef struct load {
    uint64_t work;
    size_t index;
} load;

static int heaviest_first(const void *pa, const void *pb)
{
    const load *a = pa, *b = pb;
    if (a->work != b->work) return a->work > b->work ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* A weight whose tensors lie in several shards is work for each. */
static void sum_up(load *shard, const kf_manifest *m,
                   uint64_t (*work_bytes)(const void *ctx, size_t i), const void *ctx)
{
    for (size_t i = 0; i < m->weights; i++) {
        const uint64_t work = work_bytes(ctx, i);
        const size_t end = m->first[i] + kf_manifest_entries(m, i);
        for (size_t e = m->first[i]; e < end; e++) {
            size_t k = m->first[i];
            while (m->entry[k].shard != m->entry[e].shard) k++;
            if (k == e) shard[m->entry[e].shard].work += work;
        }
    }
}

static void divide(kf_share *s, const load *shard, size_t shards, uint64_t *part, unsigned parts,
                   unsigned own)
{
    for (size_t i = 0; i < shards; i++) {
        unsigned least = 0;
        for (unsigned k = 1; k < parts; k++)
            if (part[k] < part[least]) least = k;
        part[least] += shard[i].work;
        if (least + 1 != own) continue;
        s->shard[shard[i].index] = 1;
        s->shards++;
    }
}

static void make(kf_share *s, const kf_manifest *m, load *shard, uint64_t *loads, unsigned part,
                 unsigned parts, uint64_t (*work_bytes)(const void *ctx, size_t i), const void *ctx)
{
    for (size_t i = 0; i < m->shards; i++) shard[i].index = i;
    sum_up(shard, m, work_bytes, ctx);
    qsort(shard, m->shards, sizeof *shard, heaviest_first);
    divide(s, shard, m->shards, loads, parts, part);
    for (size_t i = 0; i < m->weights; i++) {
        const size_t end = m->first[i] + kf_manifest_entries(m, i);
        for (size_t e = m->first[i]; e < end; e++) {
            if (!s->shard[m->entry[e].shard]) continue;
            s->weight[i] = 1;
            s->bytes += kf_manifest_entry_bytes(m, e);
        }
    }
}

kerf_status kf_share_make(kf_share *s, const kf_manifest *m, unsigned part, unsigned parts,
                          uint64_t (*work_bytes)(const void *ctx, size_t i), const void *ctx,
                          kerf_error *err)
{
    load *shard = NULL;
    uint64_t *loads = NULL;
    *s = (kf_share){0};
    if (m->is_file)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "part %u/%u: parts are whole files of a folder: -o names a folder", part,
                       parts);
    if (part == 0 || part > parts || parts > KERF_PARTS_MOST)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "part %u/%u: parts are counted from 1/N to N/N, N at most %u", part, parts,
                       KERF_PARTS_MOST);
    if (m->shards == 1 && parts > 1)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "part %u/%u: the output would be one file, which one part writes: "
                       "--shard-size 5GB makes several",
                       part, parts);
    kerf_status status = kf_allocate(&s->shard, m->shards, 1, err);
    if (status == KERF_OK) status = kf_allocate(&s->weight, m->weights, 1, err);
    if (status == KERF_OK) status = kf_allocate(&shard, m->shards, sizeof *shard, err);
    if (status == KERF_OK) status = kf_allocate(&loads, parts, sizeof *loads, err);
    if (status == KERF_OK) make(s, m, shard, loads, part, parts, work_bytes, ctx);
    free(shard);
    free(loads);
    return status;
}

void kf_share_free(kf_share *s)
{
    free(s->shard);
    free(s->weight);
    *s = (kf_share){0};
}

kerf_status kf_share_work(const kf_manifest *m, uint64_t (*work_bytes)(const void *ctx, size_t i),
                          const void *ctx, uint64_t *out, kerf_error *err)
{
    load *shard = NULL;
    KF_TRY(kf_allocate(&shard, m->shards, sizeof *shard, err));
    sum_up(shard, m, work_bytes, ctx);
    *out = 0;
    for (size_t i = 0; i < m->shards; i++) *out += shard[i].work;
    free(shard);
    return KERF_OK;
}
