/* cleanup.h - the table of temporaries that a signal handler removes. */
#ifndef KERF_FILE_CLEANUP_H
#define KERF_FILE_CLEANUP_H

#include <signal.h>

/* Enters a path; -1 when the table is full or the path too long: then only the next run removes
 * it. A folder goes with the files in it; fd is open on it as
 * long as it is entered, for when no other descriptor can be had. */
int kf_cleanup_add(const char *path, int is_folder, int fd);
void kf_cleanup_drop(int slot); /* -1 is fine */

/* Between the two no handler of signals begins: a path that is made can be entered before it. */
void kf_cleanup_hold(sigset_t *before);
void kf_cleanup_let(const sigset_t *before);

/* Removes the files in an open folder but for those that `keeps` (NULL: none) returns 1 for. Takes
 * neither memory nor a descriptor, and may run in a handler of signals. */
void kf_empty_folder(int fd, int (*keeps)(void *ctx, const char *name), void *ctx);
/* Removes the folder at a path with the files in it. `own` is open on it and used if it still is:
 * in a handler it may have been closed, and another run may have put another folder there. */
void kf_remove_folder(int own, const char *path);

#endif
