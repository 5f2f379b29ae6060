/* seekable_read.c - byte ranges of a file in zstd's seekable format.
 *
 * The table is checked: its sums must meet the size of the file, every size is bounded before
 * memory is taken, and a frame must unpack to exactly the size that the table says. The frame that
 * was read last is kept, since ranges that follow each other share it. */
#include "file/disk/seekable.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "file/disk/io.h"

#define SKIPPABLE_HEADER_BYTES 8u
#define NO_FRAME UINT64_MAX

typedef struct frame {
    uint64_t packed, plain; /* where it starts */
    uint32_t checksum;
} frame;

struct kf_seek {
    int fd;
    const char *path;
    frame *frame; /* count + 1: the last holds the ends */
    uint64_t count;
    int has_checksums;
    pthread_mutex_t lock; /* of what follows */
    uint64_t kept;        /* frame in `data`, or NO_FRAME */
    uint8_t *data;
};

static uint32_t load32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int kf_seek_is_zstd(const uint8_t first[4])
{
    uint32_t magic = load32(first);
    return magic == ZSTD_MAGICNUMBER ||
           (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
}

static kerf_status fail_table(const kf_seek *s, kerf_error *err, const char *why)
{
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: zstd seek table: %s", s->path, why);
}

static kerf_status fail_no_table(const kf_seek *s, kerf_error *err)
{
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "%s: zstd without a seek table, tensors in it cannot be found: unpack it with "
                   "`zstd -d`; kerf writes a seekable one when an output is named "
                   "*.safetensors.zst",
                   s->path);
}

/* Fills frame[] from the entries of the table; the sums must end where the table begins. */
static kerf_status take_entries(kf_seek *s, const uint8_t *entry, uint64_t table_start,
                                kerf_error *err)
{
    size_t step = s->has_checksums ? 12 : 8;
    uint64_t packed = 0, plain = 0;
    for (uint64_t i = 0; i < s->count; i++, entry += step) {
        uint32_t packed_bytes = load32(entry), plain_bytes = load32(entry + 4);
        if (plain_bytes == 0 || packed_bytes == 0) return fail_table(s, err, "an empty frame");
        if (plain_bytes > KF_SEEK_MAX_FRAME_BYTES)
            return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                           "%s: zstd frame of %u bytes, at most %u are read: pack with smaller "
                           "frames",
                           s->path, plain_bytes, KF_SEEK_MAX_FRAME_BYTES);
        if (packed_bytes > 2 * ZSTD_compressBound(plain_bytes))
            return fail_table(s, err, "a packed frame is far larger than its content");
        s->frame[i] = (frame){packed, plain, s->has_checksums ? load32(entry + 8) : 0};
        packed += packed_bytes; /* 2^23 frames of 32-bit sizes cannot wrap */
        plain += plain_bytes;
    }
    s->frame[s->count] = (frame){packed, plain, 0};
    if (packed != table_start)
        return fail_table(s, err, "frames do not end where the table begins");
    return KERF_OK;
}

static kerf_status read_table(kf_seek *s, uint64_t file_bytes, kerf_error *err)
{
    uint8_t footer[KF_SEEK_FOOTER_BYTES];
    if (file_bytes < SKIPPABLE_HEADER_BYTES + KF_SEEK_FOOTER_BYTES) return fail_no_table(s, err);
    KF_TRY(kf_read_at(s->fd, s->path, file_bytes - sizeof footer, footer, sizeof footer, err));
    if (load32(footer + 5) != KF_SEEK_FOOTER_MAGIC) return fail_no_table(s, err);
    if (footer[4] & 0x7c) return fail_table(s, err, "reserved bits are set");
    s->has_checksums = footer[4] >> 7;
    s->count = load32(footer);
    if (s->count > KF_SEEK_MAX_FRAMES)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                       "%s: %" PRIu64 " zstd frames, at most %u are read", s->path, s->count,
                       KF_SEEK_MAX_FRAMES);
    uint64_t entries = s->count * (s->has_checksums ? 12 : 8);
    uint64_t table = entries + SKIPPABLE_HEADER_BYTES + KF_SEEK_FOOTER_BYTES;
    if (table > file_bytes) return fail_table(s, err, "claims more frames than the file can hold");

    uint8_t *bytes = kf_alloc(table, 1);
    s->frame = kf_alloc(s->count + 1, sizeof *s->frame);
    kerf_status st = KERF_OK;
    if (!bytes || !s->frame)
        st = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory for the seek table", s->path);
    if (st == KERF_OK)
        st = kf_read_at(s->fd, s->path, file_bytes - table, bytes, (size_t)table, err);
    if (st == KERF_OK && (load32(bytes) != KF_SEEK_TABLE_MAGIC ||
                          load32(bytes + 4) != table - SKIPPABLE_HEADER_BYTES))
        st = fail_table(s, err, "its length and its number of frames disagree");
    if (st == KERF_OK)
        st = take_entries(s, bytes + SKIPPABLE_HEADER_BYTES, file_bytes - table, err);
    free(bytes);
    return st;
}

kerf_status kf_seek_open(int fd, const char *path, uint64_t file_bytes, kf_seek **out,
                         kerf_error *err)
{
    kf_seek *s = kf_alloc_zero(1, sizeof *s);
    if (!s) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
    s->fd = fd;
    s->path = path;
    s->kept = NO_FRAME;
    pthread_mutex_init(&s->lock, NULL);
    kerf_status st = read_table(s, file_bytes, err);
    if (st != KERF_OK) {
        kf_seek_close(s);
        return st;
    }
    *out = s;
    return KERF_OK;
}

void kf_seek_close(kf_seek *s)
{
    if (!s) return;
    pthread_mutex_destroy(&s->lock);
    free(s->frame);
    free(s->data);
    free(s);
}

uint64_t kf_seek_bytes(const kf_seek *s)
{
    return s->frame[s->count].plain;
}

static size_t frame_bytes(const kf_seek *s, uint64_t f)
{
    return (size_t)(s->frame[f + 1].plain - s->frame[f].plain);
}

/* dst has frame_bytes(s, f). */
static kerf_status unpack_frame(const kf_seek *s, uint64_t f, void *dst, kerf_error *err)
{
    uint64_t start = s->frame[f].packed, packed_bytes = s->frame[f + 1].packed - start;
    size_t plain_bytes = frame_bytes(s, f);
    void *packed = kf_alloc(packed_bytes, 1);
    if (!packed) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", s->path);
    kerf_status st = kf_read_at(s->fd, s->path, start, packed, (size_t)packed_bytes, err);
    if (st == KERF_OK) {
        size_t got = ZSTD_decompress(dst, plain_bytes, packed, (size_t)packed_bytes);
        if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
            st = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory to unpack", s->path);
        else if (ZSTD_isError(got))
            st = kf_fail(err, KERF_E_DATA, start, "%s: zstd frame %" PRIu64 " is damaged: %s",
                         s->path, f, ZSTD_getErrorName(got));
        else if (got != plain_bytes)
            st = kf_fail(err, KERF_E_DATA, start,
                         "%s: zstd frame %" PRIu64 " has %zu bytes, its seek table says %zu",
                         s->path, f, got, plain_bytes);
        else if (s->has_checksums && (uint32_t)kerf_hash(dst, got) != s->frame[f].checksum)
            st = kf_fail(err, KERF_E_DATA, start,
                         "%s: zstd frame %" PRIu64 " does not match the checksum in the seek table",
                         s->path, f);
    }
    free(packed);
    return st;
}

static kerf_status copy_part(kf_seek *s, uint64_t f, size_t at, void *dst, size_t n,
                             kerf_error *err)
{
    pthread_mutex_lock(&s->lock);
    int hit = s->kept == f;
    if (hit) memcpy(dst, s->data + at, n);
    pthread_mutex_unlock(&s->lock);
    if (hit) return KERF_OK;

    uint8_t *data = kf_alloc(frame_bytes(s, f), 1);
    if (!data) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", s->path);
    kerf_status st = unpack_frame(s, f, data, err);
    if (st == KERF_OK) {
        memcpy(dst, data + at, n);
        pthread_mutex_lock(&s->lock);
        uint8_t *old = s->data;
        s->data = data;
        s->kept = f;
        pthread_mutex_unlock(&s->lock);
        data = old;
    }
    free(data);
    return st;
}

/* The frame that holds an unpacked offset: the last that starts at or before it. */
static uint64_t find_frame(const kf_seek *s, uint64_t offset)
{
    uint64_t low = 0, high = s->count;
    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;
        if (s->frame[mid].plain <= offset)
            low = mid;
        else
            high = mid;
    }
    return low;
}

kerf_status kf_seek_read(kf_seek *s, uint64_t offset, void *dst, size_t n, kerf_error *err)
{
    uint64_t end;
    if (!kf_add_ok(offset, n, &end) || end > kf_seek_bytes(s))
        return kf_fail(err, KERF_E_ARG, offset, "%s: read past the end", s->path);
    uint8_t *p = dst;
    for (uint64_t f = n ? find_frame(s, offset) : 0; n > 0; f++) {
        size_t at = (size_t)(offset - s->frame[f].plain), part = frame_bytes(s, f) - at;
        if (at == 0 && part <= n) {
            KF_TRY(unpack_frame(s, f, p, err));
        } else {
            if (part > n) part = n;
            KF_TRY(copy_part(s, f, at, p, part, err));
        }
        p += part;
        offset += part;
        n -= part;
    }
    return KERF_OK;
}
