/* replay.c - a target without a fuzzer: every file of a corpus once, then so many changed ones.
 *
 *   fuzz_NAME CORPUS... [--changes N]    CORPUS: a file or a folder of files
 *
 * The last line counts. A wrong answer ends the process; FUZZ_KEEP in the environment names a file
 * that then has the input. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

enum { ROOM = 1 << 18 };

static size_t inputs, changes;

static void give(const uint8_t *p, size_t n)
{
    const char *keep = getenv("FUZZ_KEEP");
    if (keep) {
        const int fd = open(keep, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (write(fd, p, n) != (ssize_t)n) abort();
        close(fd);
    }
    fuzz_input(p, n);
    inputs++;
}

static void replay_file(const char *path, size_t changed)
{
    static uint8_t whole[ROOM], copy[ROOM];
    const int fd = open(path, O_RDONLY);
    const ssize_t n = fd < 0 ? -1 : read(fd, whole, sizeof whole);
    if (n < 0) {
        fprintf(stderr, "%s: cannot read it\n", path);
        exit(2);
    }
    close(fd);
    give(whole, (size_t)n);
    for (size_t i = 0; i < changed; i++) {
        memcpy(copy, whole, (size_t)n);
        size_t m = (size_t)n;
        for (size_t k = 0; k <= i % 3; k++)
            m = fuzz_change(copy, m, sizeof copy, (unsigned)++changes);
        give(copy, m);
    }
}

static int is_name(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static void replay(const char *path, size_t all)
{
    struct dirent **list;
    const int count = scandir(path, &list, is_name, alphasort);
    if (count < 0) {
        replay_file(path, all);
        return;
    }
    for (int i = 0; i < count; i++) {
        char inside[4096];
        snprintf(inside, sizeof inside, "%s/%s", path, list[i]->d_name);
        replay_file(inside,
                    all * (size_t)(i + 1) / (size_t)count - all * (size_t)i / (size_t)count);
        free(list[i]);
    }
    free(list);
}

int main(int argc, char **argv)
{
    size_t all = 0;
    /* What the command prints is not looked at; what a sanitizer writes to the descriptor is. Where
     * the stream is a constant, as musl has it, there are no sanitizers. */
    if (!freopen("/dev/null", "w", stdout)) return 2;
#ifdef __GLIBC__
    if (!(stderr = fopen("/dev/null", "w"))) return 2;
#endif
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--changes") == 0) all = (size_t)atol(argv[i + 1]);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--changes") == 0)
            i++;
        else
            replay(argv[i], all);
    }
    dprintf(STDERR_FILENO, "%zu inputs\n", inputs);
    return inputs > 0 ? 0 : 1;
}
