/* share.c - which files of an output one of several processes writes.
 *
 * The whole waits for its slowest part, so shards are divided by the bytes that are read for them,
 * twice where an encoder looks at a tensor twice (base/divide.h). Runs of neighbouring shards would
 * read the source in longer pieces, but a shard is gigabytes, and one heavy neighbour cannot be put
 * elsewhere. */
#include "model/share.h"

#include <stdlib.h>

#include <kerf/parts.h>

#include "base/base.h"
#include "base/divide.h"

/* Adds to work[shards]. A weight whose tensors lie in several shards is work for each. */
static void sum_up(uint64_t *work, const kf_manifest *m,
                   uint64_t (*work_bytes)(const void *ctx, size_t i), const void *ctx)
{
    for (size_t i = 0; i < m->weights; i++) {
        const uint64_t bytes = work_bytes(ctx, i);
        const size_t end = m->first[i] + kf_manifest_entries(m, i);
        for (size_t e = m->first[i]; e < end; e++) {
            size_t k = m->first[i];
            while (m->entry[k].shard != m->entry[e].shard) k++;
            if (k == e) work[m->entry[e].shard] += bytes;
        }
    }
}

static void take_own(kf_share *s, const kf_manifest *m, const unsigned *of, unsigned own)
{
    for (size_t i = 0; i < m->shards; i++) {
        s->shard[i] = of[i] == own;
        s->shards += s->shard[i];
    }
    for (size_t i = 0; i < m->weights; i++) {
        const size_t end = m->first[i] + kf_manifest_entries(m, i);
        for (size_t e = m->first[i]; e < end; e++) {
            if (!s->shard[m->entry[e].shard]) continue;
            s->weight[i] = 1;
            s->bytes += kf_manifest_entry_bytes(m, e);
        }
    }
}

/* A size of shards by which there are as many as parts, or as there are tensors. */
static kerf_status fail_one_file(const kf_manifest *m, unsigned part, unsigned parts,
                                 kerf_error *err)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {{"GB", 1000000000}, {"MB", 1000000}, {"KB", 1000}, {"B", 1}};
    const uint64_t bytes = kf_manifest_bytes(m) / parts;
    size_t u = 0;
    while (units[u].bytes > 1 && bytes < 2 * units[u].bytes) u++;
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                   "part %u/%u: the output would be one file, which one part writes: "
                   "--shard-size %llu%s makes several",
                   part, parts, (unsigned long long)(bytes / units[u].bytes) + !bytes,
                   units[u].name);
}

kerf_status kf_share_make(kf_share *s, const kf_manifest *m, unsigned part, unsigned parts,
                          uint64_t (*work_bytes)(const void *ctx, size_t i), const void *ctx,
                          kerf_error *err)
{
    uint64_t *work = NULL;
    unsigned *of = NULL;
    *s = (kf_share){0};
    if (m->is_file)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "part %u/%u: parts are whole files of a folder: -o names a folder", part,
                       parts);
    if (part == 0 || part > parts || parts > KERF_PARTS_MOST)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "part %u/%u: parts are counted from 1/N to N/N, N at most %u", part, parts,
                       KERF_PARTS_MOST);
    if (m->shards == 1 && parts > 1) return fail_one_file(m, part, parts, err);
    kerf_status status = kf_allocate(&s->shard, m->shards, 1, err);
    if (status == KERF_OK) status = kf_allocate(&s->weight, m->weights, 1, err);
    if (status == KERF_OK) status = kf_allocate(&work, m->shards, sizeof *work, err);
    if (status == KERF_OK) status = kf_allocate(&of, m->shards, sizeof *of, err);
    if (status == KERF_OK) sum_up(work, m, work_bytes, ctx);
    if (status == KERF_OK) status = kf_divide(work, m->shards, parts, of, err);
    if (status == KERF_OK) take_own(s, m, of, part - 1);
    free(work);
    free(of);
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
    uint64_t *work = NULL;
    KF_TRY(kf_allocate(&work, m->shards, sizeof *work, err));
    sum_up(work, m, work_bytes, ctx);
    *out = 0;
    for (size_t i = 0; i < m->shards; i++) *out += work[i];
    free(work);
    return KERF_OK;
}
