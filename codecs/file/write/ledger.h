/* ledger.h - a record of each write (place, length, hash), by which commit proves that every byte
 * of an output was written once and is on disk. */
#ifndef KERF_FILE_LEDGER_H
#define KERF_FILE_LEDGER_H

#include <pthread.h>

#include "file/disk/blob.h"
#include "file/table/placement.h"

#define KF_LEDGER_MAX_BYTES                                               \
    (1u << 22) /* of one record: bounds what reading back holds in memory \
                */

typedef struct kf_record {
    uint64_t offset, hash; /* in the unpacked file; XXH64 of the bytes */
    uint32_t bytes;
    uint32_t file;
} kf_record;

typedef struct kf_ledger {
    kf_record *record;
    size_t count, capacity;
    pthread_mutex_t lock;
} kf_ledger;

void kf_ledger_init(kf_ledger *l);
void kf_ledger_free(kf_ledger *l);
void kf_ledger_swap(kf_ledger *a, kf_ledger *b); /* while no other thread uses either */

/* Any thread. */
kerf_status kf_ledger_add(kf_ledger *l, kf_record r, kerf_error *err);
size_t kf_ledger_count(kf_ledger *l);
void kf_ledger_copy(kf_ledger *l, size_t first, size_t n, kf_record *out);

/* By file and offset, which kf_ledger_find and kf_ledger_verify need. */
void kf_ledger_sort(kf_ledger *l);

/* The records [*first, *end) that are, one after the other, these bytes and no others; 0: there are
 * none such. */
int kf_ledger_find(const kf_ledger *l, size_t file, uint64_t offset, uint64_t bytes, size_t *first,
                   size_t *end);

/* How much has been read back: told by the calling thread, every quarter GiB and after each file.
 */
typedef struct kf_watch {
    const kerf_job *job; /* NULL: nobody listens */
    uint64_t done, total;
} kf_watch;

/* Reads one file back and compares. Whether to go on is asked for every record. */
kerf_status kf_ledger_verify(const kf_ledger *l, size_t file, const kf_blob *blob, int threads,
                             kf_watch *watch, kerf_error *err);

/* Every byte of every file was written once. Sorts the records: no more may be added. */
kerf_status kf_ledger_check(kf_ledger *l, const kf_placement *placement, kerf_error *err);

#endif
