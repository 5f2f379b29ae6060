/* seekable_write.c - packs a file into zstd's seekable format.
 *
 * A batch of frames is packed in parallel, then written in order. Frames are independent, so
 * neither the number of threads nor of batches shows in the result. */
#include "file/disk/seekable.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/work.h"
#include "file/disk/io.h"

#define MAX_BATCH 32 /* two buffers of 1 MiB each */

typedef struct slot {
    ZSTD_CCtx *zstd;
    uint8_t *plain, *packed;
    uint64_t offset;
    size_t plain_bytes, packed_bytes;
    kerf_status status;
    kerf_error err;
} slot;

typedef struct packer {
    const kf_seek_pack *job;
    slot slot[MAX_BATCH];
    size_t batch;
    size_t packed_capacity;
    uint64_t frames, written;
    uint8_t *table; /* one skippable frame */
    uint64_t table_bytes;
    kerf_error *err;
} packer;

static uint8_t *put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> 8 * i);
    return p + 4;
}

static kerf_status pack_slot(void *ctx, uint64_t i)
{
    packer *p = ctx;
    slot *s = &p->slot[i];
    s->status = kf_job_check(p->job->job, &s->err);
    if (s->status != KERF_OK) return s->status;
    s->status =
        kf_read_at(p->job->in, p->job->in_path, s->offset, s->plain, s->plain_bytes, &s->err);
    if (s->status != KERF_OK) return s->status;
    s->packed_bytes =
        ZSTD_compress2(s->zstd, s->packed, p->packed_capacity, s->plain, s->plain_bytes);
    if (ZSTD_isError(s->packed_bytes))
        s->status = kf_fail(&s->err, KERF_E_NOMEM, s->offset, "%s: zstd: %s", p->job->out_path,
                            ZSTD_getErrorName(s->packed_bytes));
    return s->status;
}

static kerf_status write_batch(packer *p, size_t n, uint8_t **entry)
{
    for (size_t i = 0; i < n; i++) {
        slot *s = &p->slot[i];
        KF_TRY(kf_write_at(p->job->out, p->job->out_path, p->written, s->packed, s->packed_bytes,
                           p->err));
        *entry = put32(*entry, (uint32_t)s->packed_bytes);
        *entry = put32(*entry, (uint32_t)s->plain_bytes);
        *entry = put32(*entry, (uint32_t)kerf_hash(s->plain, s->plain_bytes));
        p->written += s->packed_bytes;
    }
    return KERF_OK;
}

static kerf_status pack_frames(packer *p, uint8_t **entry)
{
    uint64_t left = p->job->bytes, offset = 0;
    while (left > 0) {
        size_t n = 0;
        for (; n < p->batch && left > 0; n++) {
            slot *s = &p->slot[n];
            s->offset = offset;
            s->plain_bytes = (size_t)kf_min_u64(left, KF_SEEK_FRAME_BYTES);
            s->status = KERF_OK;
            offset += s->plain_bytes;
            left -= s->plain_bytes;
        }
        if (kf_parallel(n, p->job->threads, pack_slot, p) != KERF_OK) {
            size_t i = 0;
            while (i + 1 < n && p->slot[i].status == KERF_OK) i++;
            if (p->err) *p->err = p->slot[i].err;
            return p->slot[i].status;
        }
        KF_TRY(write_batch(p, n, entry));
    }
    return KERF_OK;
}

static kerf_status pack_all(packer *p)
{
    uint8_t *at = put32(p->table, KF_SEEK_TABLE_MAGIC);
    at = put32(at, (uint32_t)(p->table_bytes - 8));
    KF_TRY(pack_frames(p, &at));
    at = put32(at, (uint32_t)p->frames);
    *at++ = 0x80; /* checksums are there */
    put32(at, KF_SEEK_FOOTER_MAGIC);
    return kf_write_at(p->job->out, p->job->out_path, p->written, p->table, (size_t)p->table_bytes,
                       p->err);
}

static int prepare_slot(const packer *p, slot *s)
{
    s->zstd = ZSTD_createCCtx();
    s->plain = kf_alloc(KF_SEEK_FRAME_BYTES, 1);
    s->packed = kf_alloc(p->packed_capacity, 1);
    if (!s->zstd || !s->plain || !s->packed) return 0;
    /* zstd's own checksum lets plain `zstd -t` find damage too. */
    size_t e = ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_compressionLevel, p->job->level);
    if (!ZSTD_isError(e)) e = ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_checksumFlag, 1);
    return !ZSTD_isError(e);
}

kerf_status kf_seek_write(const kf_seek_pack *job, uint64_t *packed_bytes, kerf_error *err)
{
    packer p = {.job = job, .err = err};
    kerf_status s;
    p.frames = kf_div_up(job->bytes, KF_SEEK_FRAME_BYTES);
    if (p.frames > KF_SEEK_MAX_FRAMES)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                       "%s: too large for a seek table: write shards", job->out_path);
    p.table_bytes = 8 + 12 * p.frames + KF_SEEK_FOOTER_BYTES;
    p.table = kf_alloc(p.table_bytes, 1);
    p.packed_capacity = ZSTD_compressBound(KF_SEEK_FRAME_BYTES);
    p.batch = (size_t)kf_min_u64(MAX_BATCH, 4 * (uint64_t)kf_thread_count(job->threads));
    p.batch = (size_t)kf_min_u64(p.batch, p.frames);
    int ready = p.table != NULL;
    for (size_t i = 0; i < p.batch && ready; i++) ready = prepare_slot(&p, &p.slot[i]);
    s = ready ? pack_all(&p)
              : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory to pack", job->out_path);
    for (size_t i = 0; i < p.batch; i++) {
        ZSTD_freeCCtx(p.slot[i].zstd);
        free(p.slot[i].plain);
        free(p.slot[i].packed);
    }
    free(p.table);
    *packed_bytes = p.written + p.table_bytes;
    return s;
}
