/* shim.h - what the parts of the shim know of each other: shim.c decides what becomes of a
 * call, record.c writes down what a call did to the disk. */
#ifndef KERF_FAULT_SHIM_H
#define KERF_FAULT_SHIM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The absolute path of what is open, or that a call names; "" when there is none. */
enum { SHIM_PATH_BYTES = 4096 };
void shim_fd_path(int fd, char out[SHIM_PATH_BYTES]);
void shim_full_path(int folder, const char *path, char out[SHIM_PATH_BYTES]);

/* --- shim.c: the plan ----------------------------------------------------------------------- */

typedef enum kind {
    MEMORY,
    OPEN,
    LIST,
    READ,
    WRITE,
    SYNC,
    RENAME,
    RESERVE,
    STAT,
    MKDIR,
    UNLINK,
    CLOSE,
    LOCK,
    THREAD,
    SOCKET,
    KINDS
} kind;

typedef enum what { PASS, FAIL, SHORT, END, SKIP, SLOW, KILL, KILL_AFTER, STOP } what;

/* What shall become of this call, on an open file or on a path (`fd` is the folder that the path is
 * relative to). A failure has set errno; a sleep, and a signal before the call, are over. */
what shim_judge(kind k, int fd, const char *path);
int shim_error(void);     /* the errno that a failure has      */
long shim_clock_ms(void); /* what the clock is further on, now */

/* --- record.c: nothing happens until shim_record_open, and nothing outside of its folder is told.
 * Between enter and leave one thread alone calls the system, so that the order of the lines is the
 * order of the calls. ------------------------------------------------------------------------- */

void shim_record_open(const char *log, const char *under);
int shim_record_enter(void); /* 1: this is recorded */
void shim_record_leave(void);

void shim_record_create(int fd, int is_new, int is_cut);
void shim_record_write(int fd, const void *p, size_t n, off_t at);
void shim_record_size(int fd);
void shim_record_sync(int fd);
void shim_record_names(const char *what, int a_folder, const char *a, int b_folder, const char *b);
void shim_record_mkdir(const char *path);

#endif
