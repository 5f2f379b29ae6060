/* cleanup.h - the table of temporaries that a signal handler removes. */
#ifndef KERF_FILE_CLEANUP_H
#define KERF_FILE_CLEANUP_H

/* Enters a path; -1 when the table is full or the path too long: then only the next run removes
 * it. A folder goes with the files in it. */
int kf_cleanup_add(const char *path, int is_folder);
void kf_cleanup_drop(int slot); /* -1 is fine */

#endif
