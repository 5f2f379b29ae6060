/* io.h - system calls on files: whole reads and writes, names of paths, syncing. A call that fails
 * says which path and why; a call that the system cuts short is continued. */
#ifndef KERF_FILE_IO_H
#define KERF_FILE_IO_H

#include <dirent.h>
#include <sys/types.h>
#include <time.h>

#include "base/base.h"

/* Reads or writes all n bytes at an offset. A file that ends too early is
 * KERF_E_IO: sizes are compared with what a file claims before, so it was cut meanwhile. */
kerf_status kf_read_at(int fd, const char *path, uint64_t offset, void *dst, size_t n,
                       kerf_error *err);
kerf_status kf_write_at(int fd, const char *path, uint64_t offset, const void *src, size_t n,
                        kerf_error *err);

/* Gives the file this size, and the disk's room for it. A disk that is full, here and while
 * writing, is KERF_E_IO: "no room for" so many bytes. */
kerf_status kf_reserve_at(int fd, const char *path, uint64_t bytes, kerf_error *err);

/* Opens a regular file for reading, through links; a pipe or a device is refused, not waited for.
 * The caller closes *fd. */
kerf_status kf_open_regular(const char *path, int *fd, uint64_t *bytes, kerf_error *err);

/* Which file stands under a path, and its state: whether it is still the same later. */
typedef struct kf_stamp {
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec changed;
} kf_stamp;

/* kf_open_regular, and what was opened. */
kerf_status kf_open_stamped(const char *path, int *fd, kf_stamp *stamp, kerf_error *err);
/* The state of what stands under a path; 0: nothing does, or it cannot be looked at, and *stamp is
 * all zeros. */
int kf_stamp_of(const char *path, kf_stamp *stamp);
/* KERF_E_IO: the open file or, where path is not NULL, what now has its name is another or was
 * written to. fd may be -1. `name` is for the text. */
kerf_status kf_stamp_check(const kf_stamp *s, int fd, const char *path, const char *name,
                           kerf_error *err);

/* The whole content of a file of at most `limit` bytes, with a 0 after it; the caller frees. */
kerf_status kf_read_whole(const char *path, uint64_t limit, char **out, size_t *n, kerf_error *err);

/* A folder is opened before a rename in it and synced after, so that little can fail in between. */
kerf_status kf_open_folder(const char *path, int *fd, kerf_error *err);
kerf_status kf_sync_folder(int fd, const char *path, kerf_error *err);

/* The next name in a folder, without "." and ".."; NULL past the last, or with the errno in *failed
 * when the folder cannot be read. */
const char *kf_next_name(DIR *folder, int *failed);

/* Paths: malloc'd, NULL when there is no memory. kf_path_base points into its argument. */
char *kf_path_join(const char *folder, const char *name);
char *kf_path_folder(const char *path);
const char *kf_path_base(const char *path);

#endif
