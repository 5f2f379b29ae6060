/* child.h - a run of the command: its progress line by line, its document, its end. */
#ifndef KERF_SERVE_CHILD_H
#define KERF_SERVE_CHILD_H

#include <stddef.h>
#include <sys/types.h>

typedef struct child {
    pid_t pid;
    int out, err; /* what is read of it */
    char *text;   /* its standard output so far; owned until child_wait has given it away */
    size_t n, room;
    char line[4096]; /* of its standard error, unfinished */
    size_t line_n;
    char last[1024]; /* the last line for people */
} child;

/* Starts this very program with these words behind its name. 0, or errno. */
int child_start(child *c, char *const *words);
/* Reads until it ends. tell: every line of progress, which is JSON. Returns its exit code, 128 +
 * the signal that it died of. */
int child_wait(child *c, void (*tell)(void *ctx, const char *line), void *ctx);

#endif
