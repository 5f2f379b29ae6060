/* guards.c - how the command ends when a library that it uses gets no memory or no thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <kerf/file.h>

#include "output.h"

/* Needs no memory itself. */
static void end_command(const char *line)
{
    kerf_writer_cleanup_signal();
    const char *const part[] = {line, written_text(), "\n"};
    for (int i = 0; i < 3; i++) (void)!write(STDERR_FILENO, part[i], strlen(part[i]));
    _exit(EXIT_LIMIT);
}

/* --- jansson ------------------------------------------------------------------------------- */

static void *get_memory(size_t n)
{
    void *p = malloc(n);
    if (!p) end_command("kerf: no memory for a JSON document");
    return p;
}

void guard_json_memory(void)
{
    json_set_alloc_funcs(get_memory, free);
}

/* --- exit ---------------------------------------------------------------------------------- */

static int is_guarded;

static void check_exit(void)
{
    if (is_guarded) end_command("kerf: no memory or no thread left; -j 1 needs the least");
}

#ifdef __GLIBC__ /* whose OpenMP it is; elsewhere stderr is no variable */

static int is_muted;

/* Standard error, but for what OpenMP's library says before it exits: the line above says it. A
 * write that is cut short is continued, or a program that reads lines of progress would get halves.
 */
static ssize_t write_error(void *cookie, const char *text, size_t n)
{
    static const char begins[] = "\nlibgomp: ";
    (void)cookie;
    if (n >= sizeof begins - 1 && memcmp(text, begins, sizeof begins - 1) == 0) is_muted = 1;
    for (size_t done = 0; !is_muted && done < n;) {
        const ssize_t put = write(STDERR_FILENO, text + done, n - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return 0; /* as such functions say that they failed */
        done += (size_t)put;
    }
    return (ssize_t)n;
}

static void filter_errors(void)
{
    FILE *to = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_error});
    if (to) {
        setvbuf(to, NULL, _IONBF, 0);
        stderr = to;
    }
}

#else
static void filter_errors(void) {}
#endif

void begin_exit_guard(void)
{
    filter_errors();
    is_guarded = atexit(check_exit) == 0;
}

void end_exit_guard(void)
{
    is_guarded = 0;
}
