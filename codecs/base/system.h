/* system.h - what operating systems and C libraries do in different ways. Nobody else asks which
 * one this is: Linux with glibc is what is tested, musl too, macOS is compiled. */
#ifndef KERF_SYSTEM_H
#define KERF_SYSTEM_H

#include <pthread.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/* 0 or -1 with errno, as the system calls that they stand for. EINVAL, ENOSYS: this file system
 * cannot. */
int kf_rename_new(const char *from, const char *to); /* EEXIST: something has that name */
int kf_rename_exchange(const char *a, const char *b);
int kf_reserve(int fd, off_t bytes); /* the file has this size, and the disk the room for it */
int kf_sync(int fd);                 /* what was written outlasts a loss of power */
int kf_sync_data(int fd);
void kf_sync_begin(int fd); /* a hint: the disk may start on what was written */

/* What stands next in an open folder, from where it was left or sought to: bytes in list, 0 at its
 * end, -1. Allocates nothing, so that handlers of signals may ask. kf_entry_name: the name of the
 * entry at *at, which becomes the place of the next. list is aligned for 64-bit numbers. */
long kf_folder_entries(int fd, void *list, size_t size);
const char *kf_entry_name(const void *list, long *at);

/* When a file was changed last. */
struct timespec kf_changed(const struct stat *st);

/* The system's words for an errno; in `room` or not. */
const char *kf_errno_text(int errnum, char *room, size_t size);

/* A condition whose waits end at a moment of kf_now_s, which no change of the date moves. The wait
 * is pthread_cond_timedwait. */
int kf_wake_init(pthread_cond_t *wake);
int kf_wait_until(pthread_cond_t *wake, pthread_mutex_t *lock, double at_s);

/* The processor as the system calls it; "CPU" where it has no name. Cut to size. 0, or why it could
 * not be asked, as errno has it. */
int kf_processor_name(char *out, size_t size);

/* Processors that this process may use: by its affinity, and by the quota of its cgroups. At
 * least 1. */
int kf_processors(void);

#endif
