/* blob.c - one open file as plain bytes, also when it is compressed. */
#include "file/disk/blob.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static kerf_status look_at(kf_blob *b, kerf_error *err)
{
    uint8_t first[4] = {0};
    if (b->bytes >= sizeof first) KF_TRY(kf_read_at(b->fd, b->path, 0, first, sizeof first, err));
    if (!kf_seek_is_zstd(first)) return KERF_OK;
    KF_TRY(kf_seek_open(b->fd, b->path, b->bytes, &b->seek, err));
    b->bytes = kf_seek_bytes(b->seek);
    return KERF_OK;
}

kerf_status kf_blob_open(const char *path, kf_blob *b, kerf_error *err)
{
    *b = (kf_blob){.fd = -1};
    KF_TRY(kf_open_stamped(path, &b->fd, &b->stamp, err));
    b->bytes = (uint64_t)b->stamp.bytes;
    b->path = strdup(path);
    kerf_status s =
        b->path ? look_at(b, err) : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
    if (s != KERF_OK) kf_blob_close(b);
    return s;
}

void kf_blob_close(kf_blob *b)
{
    kf_seek_close(b->seek);
    if (b->fd >= 0) close(b->fd);
    free(b->path);
    *b = (kf_blob){.fd = -1};
}

kerf_status kf_blob_check(const kf_blob *b, kerf_error *err)
{
    return kf_stamp_check(&b->stamp, b->fd, b->path, b->path, err);
}

kerf_status kf_blob_read(const kf_blob *b, uint64_t offset, void *dst, size_t n, kerf_error *err)
{
    if (b->seek) return kf_seek_read(b->seek, offset, dst, n, err);
    return kf_read_at(b->fd, b->path, offset, dst, n, err);
}
