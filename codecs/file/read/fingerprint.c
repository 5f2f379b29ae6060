/* fingerprint.c - a number for the files of a checkpoint, by which a later run knows whether they
 * are still the same, and one for what stands in them, which a copy has too. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/system.h"
#include "file/read/reader.h"

#define SAMPLES 8u /* per file */
#define SAMPLE_BYTES 4096u

static void mix(uint64_t *h, const void *p, size_t n)
{
    const uint64_t pair[2] = {*h, kerf_hash(p, n)};
    *h = kerf_hash(pair, sizeof pair);
}

static void mix_tensor(uint64_t *h, const kerf_tensor *t)
{
    const uint64_t place[] = {(uint64_t)t->dtype, t->bytes, t->shard, t->offset, t->shape.rank};
    mix(h, t->name, strlen(t->name));
    mix(h, place, sizeof place);
    mix(h, t->shape.dim, t->shape.rank * sizeof *t->shape.dim);
}

/* Times of change can be set back, so some of the data is looked at too. */
static kerf_status mix_samples(uint64_t *h, const kf_blob *b, kerf_error *err)
{
    uint8_t text[SAMPLE_BYTES];
    const size_t n = (size_t)kf_min_u64(b->bytes, sizeof text);
    const uint64_t rest = b->bytes - n, parts = SAMPLES - 1;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        uint64_t at = rest / parts * i + rest % parts * i / parts;
        KF_TRY(kf_blob_read(b, at, text, n, err));
        mix(h, text, n);
    }
    return KERF_OK;
}

kerf_status kerf_reader_fingerprint(const kerf_reader *r, uint64_t *out, kerf_error *err)
{
    uint64_t h = r->shards;
    for (size_t i = 0; i < r->shards; i++) {
        struct stat st;
        const kf_shard *s = &r->shard[i];
        if (fstat(s->blob.fd, &st) != 0)
            return kf_fail_errno(err, errno, "%s: cannot look at it", s->blob.path);
        const struct timespec changed = kf_changed(&st);
        const uint64_t file[] = {(uint64_t)st.st_size, (uint64_t)changed.tv_sec,
                                 (uint64_t)changed.tv_nsec, s->blob.bytes};
        mix(&h, s->name, strlen(s->name));
        mix(&h, file, sizeof file);
        for (size_t k = 0; k < s->header.metadata_count; k++) {
            mix(&h, s->header.metadata[k].key, strlen(s->header.metadata[k].key));
            mix(&h, s->header.metadata[k].value, strlen(s->header.metadata[k].value));
        }
        KF_TRY(mix_samples(&h, &s->blob, err));
    }
    for (size_t i = 0; i < r->count; i++) mix_tensor(&h, &r->tensor[i]);
    *out = h;
    return KERF_OK;
}

/* Some bytes from the middle of a tensor: the first rows of an embedding are often zeros. */
static kerf_status mix_middle(uint64_t *h, const kerf_reader *r, const kerf_tensor *t,
                              kerf_error *err)
{
    uint8_t text[256];
    const size_t n = (size_t)kf_min_u64(t->bytes, sizeof text);
    KF_TRY(kerf_reader_read(r, t, (t->bytes - n) / 2, text, n, err));
    mix(h, text, n);
    return KERF_OK;
}

kerf_status kerf_reader_contents(const kerf_reader *r, uint64_t *out, kerf_error *err)
{
    uint64_t sum = r->count;
    for (size_t i = 0; i < r->count; i++) {
        const kerf_tensor *t = &r->tensor[i];
        const uint64_t what[] = {(uint64_t)t->dtype, t->bytes, t->shape.rank};
        uint64_t h = kerf_hash(t->name, strlen(t->name));
        mix(&h, what, sizeof what);
        mix(&h, t->shape.dim, t->shape.rank * sizeof *t->shape.dim);
        KF_TRY(mix_middle(&h, r, t, err));
        sum += h; /* in whatever order and files they stand */
    }
    *out = sum;
    return KERF_OK;
}
