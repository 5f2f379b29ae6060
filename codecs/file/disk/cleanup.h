/* cleanup.h - the table of temporaries that a signal handler removes. */
#ifndef KERF_FILE_CLEANUP_H
#define KERF_FILE_CLEANUP_H

#include <signal.h>

/* Enters a path; -1 when the table is full or the path too long: then only the next run removes
 * it. A folder goes with the files in it. */
int kf_cleanup_add(const char *path, int is_folder);
void kf_cleanup_drop(int slot); /* -1 is fine */

/* Between the two no handler of signals begins: a path that is made can be entered before it. */
void kf_cleanup_hold(sigset_t *before);
void kf_cleanup_let(const sigset_t *before);

#endif
