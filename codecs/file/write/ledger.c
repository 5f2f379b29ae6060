/* ledger.c - a record of each write, by which commit proves that all of an output is on disk. */
#include "file/write/ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/work.h"

#define MAX_RUNS 64                     /* parts of a file that are read back in parallel */
#define SLICE_BYTES (UINT64_C(1) << 28) /* read back between two calls of kerf_job.tell   */

void kf_ledger_init(kf_ledger *l)
{
    memset(l, 0, sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
}

void kf_ledger_free(kf_ledger *l)
{
    pthread_mutex_destroy(&l->lock);
    free(l->record);
    l->record = NULL;
}

void kf_ledger_swap(kf_ledger *a, kf_ledger *b)
{
    kf_record *record = a->record;
    size_t count = a->count, capacity = a->capacity;
    a->record = b->record;
    a->count = b->count;
    a->capacity = b->capacity;
    b->record = record;
    b->count = count;
    b->capacity = capacity;
}

kerf_status kf_ledger_add(kf_ledger *l, kf_record r, kerf_error *err)
{
    kerf_status s = KERF_OK;
    pthread_mutex_lock(&l->lock);
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 1024;
        kf_record *more = realloc(l->record, capacity * sizeof *more);
        if (more) {
            l->record = more;
            l->capacity = capacity;
        } else {
            s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the list of writes");
        }
    }
    if (s == KERF_OK) l->record[l->count++] = r;
    pthread_mutex_unlock(&l->lock);
    return s;
}

size_t kf_ledger_count(kf_ledger *l)
{
    pthread_mutex_lock(&l->lock);
    size_t n = l->count;
    pthread_mutex_unlock(&l->lock);
    return n;
}

void kf_ledger_copy(kf_ledger *l, size_t first, size_t n, kf_record *out)
{
    pthread_mutex_lock(&l->lock);
    memcpy(out, l->record + first, n * sizeof *out);
    pthread_mutex_unlock(&l->lock);
}

static int compare_records(const void *pa, const void *pb)
{
    const kf_record *a = pa, *b = pb;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

void kf_ledger_sort(kf_ledger *l)
{
    if (l->count > 0) qsort(l->record, l->count, sizeof *l->record, compare_records);
}

/* The first record that is not before this place. */
static size_t find_place(const kf_ledger *l, size_t file, uint64_t offset)
{
    size_t low = 0, high = l->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const kf_record *r = &l->record[mid];
        if (r->file < file || (r->file == file && r->offset < offset))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int kf_ledger_find(const kf_ledger *l, size_t file, uint64_t offset, uint64_t bytes, size_t *first,
                   size_t *end)
{
    size_t i = find_place(l, file, offset);
    *first = i;
    for (; bytes > 0; i++) {
        if (i == l->count) return 0;
        const kf_record *r = &l->record[i];
        if (r->file != file || r->offset != offset || r->bytes == 0 || r->bytes > bytes) return 0;
        offset += r->bytes;
        bytes -= r->bytes;
    }
    *end = i;
    return 1;
}

static kerf_status fail_coverage(const kf_placement *placement, size_t file, uint64_t at,
                                 const char *what, kerf_error *err)
{
    for (size_t i = 0; i < placement->count; i++) {
        const kf_named *named = &placement->by_name[i];
        const kf_place *place = &placement->place[named->index];
        if (place->file == file && at >= place->offset && at - place->offset < place->bytes)
            return kf_fail(err, KERF_E_ARG, at - place->offset,
                           "output tensor \"%.*s\": byte %" PRIu64 " %s", KF_NAME(named->name),
                           at - place->offset, what);
    }
    return kf_fail(err, KERF_E_ARG, at, "byte %" PRIu64 " of the output %s", at, what);
}

kerf_status kf_ledger_check(kf_ledger *l, const kf_placement *placement, kerf_error *err)
{
    kf_ledger_sort(l);
    size_t i = 0;
    for (size_t f = 0; f < placement->files; f++) {
        uint64_t at = 0;
        for (; i < l->count && l->record[i].file == f; i++) {
            const kf_record *r = &l->record[i];
            if (r->offset > at) break;
            if (r->offset < at)
                return fail_coverage(placement, f, r->offset, "was written twice", err);
            at += r->bytes;
        }
        if (at < placement->file[f].bytes)
            return fail_coverage(placement, f, at, "was never written", err);
    }
    return KERF_OK;
}

typedef struct run {
    size_t first, end;
    kerf_status status;
    kerf_error err;
} run;

typedef struct verifier {
    const kf_ledger *ledger;
    const kerf_job *job;
    const kf_blob *blob;
    run run[MAX_RUNS];
} verifier;

static kerf_status verify_record(const verifier *v, const kf_record *r, void *buffer,
                                 kerf_error *err)
{
    KF_TRY(kf_job_check(v->job, err));
    KF_TRY(kf_blob_read(v->blob, r->offset, buffer, r->bytes, err));
    if (kerf_hash(buffer, r->bytes) == r->hash) return KERF_OK;
    return kf_fail(err, KERF_E_IO, r->offset,
                   "%s: bytes %" PRIu64 " to %" PRIu64 " read back other than they were written",
                   v->blob->path, r->offset, r->offset + r->bytes);
}

static kerf_status verify_run(void *ctx, uint64_t i)
{
    verifier *v = ctx;
    run *r = &v->run[i];
    void *buffer = kf_alloc(KF_LEDGER_MAX_BYTES, 1);
    if (!buffer) r->status = kf_fail(&r->err, KERF_E_NOMEM, KF_NOWHERE, "no memory to read back");
    for (size_t k = r->first; k < r->end && r->status == KERF_OK; k++)
        r->status = verify_record(v, &v->ledger->record[k], buffer, &r->err);
    free(buffer);
    return r->status;
}

static kerf_status verify_slice(verifier *v, size_t first, size_t end, int threads, kerf_error *err)
{
    size_t runs = end - first < MAX_RUNS ? end - first : MAX_RUNS;
    for (size_t i = 0; i < runs; i++)
        v->run[i] = (run){.first = first + (end - first) * i / runs,
                          .end = first + (end - first) * (i + 1) / runs};
    kerf_status s = kf_parallel(runs, threads, verify_run, v);
    for (size_t i = 0; i < runs && s != KERF_OK; i++)
        if (v->run[i].status != KERF_OK) {
            if (err) *err = v->run[i].err;
            return v->run[i].status;
        }
    return s;
}

static void tell(const kf_watch *w)
{
    const kerf_event e = {.kind = KERF_EVENT_PROGRESS, .done = w->done, .total = w->total};
    if (w->job && w->job->tell) w->job->tell(w->job->ctx, &e);
}

kerf_status kf_ledger_verify(const kf_ledger *l, size_t file, const kf_blob *blob, int threads,
                             kf_watch *watch, kerf_error *err)
{
    verifier *v = kf_alloc(1, sizeof *v);
    if (!v) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to read back");
    *v = (verifier){.ledger = l, .job = watch->job, .blob = blob};
    kerf_status s = KERF_OK;
    size_t i = find_place(l, file, 0);
    while (i < l->count && l->record[i].file == file && s == KERF_OK) {
        uint64_t bytes = 0;
        size_t first = i;
        for (; i < l->count && l->record[i].file == file && bytes < SLICE_BYTES; i++)
            bytes += l->record[i].bytes;
        s = verify_slice(v, first, i, threads, err);
        watch->done += bytes;
        if (s == KERF_OK) tell(watch);
    }
    free(v);
    return s;
}
