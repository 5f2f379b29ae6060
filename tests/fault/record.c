/* record.c - writes down, in order, what a program does to the files under one folder, so that a
 * test can replay it as a disk may have kept it:
 *
 *   file INODE PATH          a file was made            cut INODE        it was opened empty
 *   folder INODE PATH        a folder was made
 *   write INODE OFFSET N     N bytes follow the line, then a line's end
 *   size INODE N             it was given N bytes, new ones are zeros
 *   sync INODE               all of a file, or the names in a folder, are on the disk
 *   rename A<TAB>B    exchange A<TAB>B    unlink A
 *
 * Paths are absolute. The file is written by bare system calls: nothing of it is seen by the shim.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim.h"

static int log_fd = -1;
static char folder[SHIM_PATH_BYTES];
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

void shim_record_open(const char *log, const char *under)
{
    snprintf(folder, sizeof folder, "%s", under);
    log_fd = (int)syscall(SYS_openat, AT_FDCWD, log,
                          O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
}

int shim_record_enter(void)
{
    if (log_fd < 0) return 0;
    pthread_mutex_lock(&one);
    return 1;
}

void shim_record_leave(void)
{
    pthread_mutex_unlock(&one);
}

static void put(const void *p, size_t n)
{
    const char *at = p;
    while (n > 0) {
        const long done = syscall(SYS_write, log_fd, at, n);
        if (done <= 0) return;
        at += done;
        n -= (size_t)done;
    }
}

static void put_text(const char *text)
{
    put(text, strlen(text));
}

static int is_under(const char *path)
{
    return strncmp(path, folder, strlen(folder)) == 0;
}

/* The inode of an open file under the folder; 0: it is elsewhere. */
static unsigned long long inode_of(int fd, char path[SHIM_PATH_BYTES], struct stat *st)
{
    shim_fd_path(fd, path);
    if (!is_under(path) || syscall(SYS_fstat, fd, st) != 0) return 0;
    return (unsigned long long)st->st_ino;
}

void shim_record_create(int fd, int is_new, int is_cut)
{
    char path[SHIM_PATH_BYTES], line[64];
    struct stat st;
    const unsigned long long inode = inode_of(fd, path, &st);
    if (!inode || (!is_new && !is_cut)) return;
    snprintf(line, sizeof line, "%s %llu", is_new ? "file" : "cut", inode);
    put_text(line);
    if (is_new) put_text(" ");
    if (is_new) put_text(path);
    put_text("\n");
}

void shim_record_write(int fd, const void *p, size_t n, off_t at)
{
    char path[SHIM_PATH_BYTES], line[96];
    struct stat st;
    const unsigned long long inode = inode_of(fd, path, &st);
    if (!inode) return;
    if (at < 0) at = (off_t)syscall(SYS_lseek, fd, 0, SEEK_CUR) - (off_t)n;
    snprintf(line, sizeof line, "write %llu %lld %zu\n", inode, (long long)at, n);
    put_text(line);
    put(p, n);
    put_text("\n");
}

void shim_record_size(int fd)
{
    char path[SHIM_PATH_BYTES], line[96];
    struct stat st;
    const unsigned long long inode = inode_of(fd, path, &st);
    if (!inode) return;
    snprintf(line, sizeof line, "size %llu %lld\n", inode, (long long)st.st_size);
    put_text(line);
}

void shim_record_sync(int fd)
{
    char path[SHIM_PATH_BYTES], line[64];
    struct stat st;
    const unsigned long long inode = inode_of(fd, path, &st);
    if (!inode) return;
    snprintf(line, sizeof line, "sync %llu\n", inode);
    put_text(line);
}

void shim_record_names(const char *what, int a_folder, const char *a, int b_folder, const char *b)
{
    char from[SHIM_PATH_BYTES], to[SHIM_PATH_BYTES] = "";
    shim_full_path(a_folder, a, from);
    if (b) shim_full_path(b_folder, b, to);
    if (!is_under(from) && !is_under(to)) return;
    put_text(what);
    put_text(" ");
    put_text(from);
    if (b) put_text("\t");
    put_text(to);
    put_text("\n");
}

void shim_record_mkdir(const char *path)
{
    char full[SHIM_PATH_BYTES], line[64];
    struct stat st;
    shim_full_path(AT_FDCWD, path, full);
    if (!is_under(full) || syscall(SYS_newfstatat, AT_FDCWD, full, &st, 0) != 0) return;
    snprintf(line, sizeof line, "folder %llu ", (unsigned long long)st.st_ino);
    put_text(line);
    put_text(full);
    put_text("\n");
}
