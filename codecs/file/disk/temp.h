/* temp.h - temporary files and folders, in which an output is written before it gets its name.
 *
 * A temporary stands in the folder of its target, under a hidden name, and is locked for as long as
 * its process lives; publish.h renames it. One whose lock is free was left by a process that has
 * ended (a dead run): the next run for the same target removes it or takes it over. */
#ifndef KERF_FILE_TEMP_H
#define KERF_FILE_TEMP_H

#include "base/base.h"

typedef struct kf_temp {
    char *path;  /* NULL: none                                          */
    int fd;      /* of the file or folder; -1 once closed               */
    int lock_fd; /* keeps the lock when fd is closed; -1: no lock       */
    int slot;    /* in the table of what a signal removes; -1: no place */
    int is_folder;
    const char *const
        *unpublished; /* names in the folder that are not published, then NULL; or NULL */
} kf_temp;

#define KF_NO_TEMP                          \
    {                                       \
        .fd = -1, .lock_fd = -1, .slot = -1 \
    }

/* Makes a temporary for `target`, which may not exist yet; its folder must. Removes those of dead
 * runs first. */
kerf_status kf_temp_create(const char *target, int is_folder, kf_temp *t, kerf_error *err);

/* Takes over the first temporary folder of a dead run for which `judge` returns something else than
 * 0, and returns 1. No signal removes it. */
int kf_temp_adopt(const char *target, int (*judge)(void *ctx, const char *folder), void *ctx,
                  kf_temp *t);

/* From now on a signal leaves it on the disk. */
void kf_temp_keep(kf_temp *t);

/* Makes a file inside a temporary folder, or opens one; it goes where the folder goes. */
kerf_status kf_temp_create_in(const kf_temp *folder, const char *name, kf_temp *t, kerf_error *err);
kerf_status kf_temp_open_in(const kf_temp *folder, const char *name, kf_temp *t, kerf_error *err);

/* Removes the files in a temporary folder but for those that `keeps` returns 1 for. */
void kf_temp_sweep(const kf_temp *folder, int (*keeps)(void *ctx, const char *name), void *ctx);

kerf_status kf_temp_size(const kf_temp *t, uint64_t *bytes, kerf_error *err);

/* KERF_E_IO when the file has another size. */
kerf_status kf_temp_check_size(const kf_temp *t, uint64_t bytes, kerf_error *err);

/* A failure is final: the system reports it once, and a second sync may succeed without the bytes.
 */
kerf_status kf_temp_sync(const kf_temp *t, kerf_error *err);

/* Size check, sync and checked close. A failed sync is final: the system may drop the bytes and
 * say nothing the next time. */
kerf_status kf_temp_settle(kf_temp *t, uint64_t bytes, kerf_error *err);

/* Writes a whole small file, reads it back, and settles it. */
kerf_status kf_temp_fill(kf_temp *t, const void *p, size_t n, kerf_error *err);

/* The same of a new file in a temporary folder, which has its last name from the beginning. */
kerf_status kf_temp_put_in(const kf_temp *folder, const char *name, const void *p, size_t n,
                           kerf_error *err);

/* Removes it from the disk (a folder with the files in it) and frees. Fine on KF_NO_TEMP. */
void kf_temp_discard(kf_temp *t);

/* Frees what belongs to a file inside a temporary folder, and leaves the file. */
void kf_temp_release(kf_temp *t);

#endif
