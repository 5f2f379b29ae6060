/* child.c - starts and reads a run of the command. It dies with the server, even where that is
 * killed; what it had finished of an output is found by --resume. */
#include "serve/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_MOST = 64 << 20 };

/* In the child, where nothing may be called that takes a lock. */
static void become(char *const *argv, int out, int err, pid_t parent)
{
    static const struct rlimit no_core = {0, 0};
    sigset_t none;
    const int null = open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0); /* Ctrl-C is for the server, which ends its jobs in order */
    if (getppid() != parent || null < 0) _exit(70);
    for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setrlimit(RLIMIT_CORE, &no_core);
    if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(70);
    syscall(SYS_close_range, 3u, ~0u, 0u); /* musl has no function for it */
    execv("/proc/self/exe", argv);
    _exit(70);
}

int child_start(child *c, char *const *words)
{
    char *argv[4200] = {(char *)(uintptr_t) "kerf"};
    int out[2], err[2];
    size_t n = 1;
    for (; words[n - 1] && n + 1 < sizeof argv / sizeof *argv; n++) argv[n] = words[n - 1];
    memset(c, 0, sizeof *c);
    if (pipe2(out, O_CLOEXEC) != 0) return errno;
    if (pipe2(err, O_CLOEXEC) != 0) {
        const int why = errno;
        close(out[0]), close(out[1]);
        return why;
    }
    const pid_t parent = getpid();
    c->pid = fork();
    if (c->pid == 0) become(argv, out[1], err[1], parent);
    const int why = errno;
    close(out[1]), close(err[1]);
    c->out = out[0], c->err = err[0];
    if (c->pid > 0) return 0;
    close(c->out), close(c->err);
    return why;
}

static void take_line(child *c, void (*tell)(void *, const char *), void *ctx)
{
    c->line[c->line_n] = 0;
    if (c->line[0] == '{')
        tell(ctx, c->line);
    else if (c->line_n)
        memcpy(c->last, c->line, c->line_n < sizeof c->last ? c->line_n + 1 : sizeof c->last);
    c->last[sizeof c->last - 1] = 0;
    c->line_n = 0;
}

/* 0: the end. */
static int take_lines(child *c, void (*tell)(void *, const char *), void *ctx)
{
    char block[4096];
    const ssize_t n = read(c->err, block, sizeof block);
    if (n <= 0) return n < 0 && errno == EINTR;
    for (ssize_t i = 0; i < n; i++) {
        if (block[i] == '\n')
            take_line(c, tell, ctx);
        else if (c->line_n + 1 < sizeof c->line)
            c->line[c->line_n++] = block[i];
    }
    return 1;
}

static int take_text(child *c)
{
    if (c->room - c->n < 4096) {
        const size_t room = c->room ? 2 * c->room : 65536;
        char *text = room <= TEXT_MOST ? realloc(c->text, room) : NULL;
        if (!text) {
            kill(c->pid, SIGKILL);
            return 0;
        }
        c->text = text;
        c->room = room;
    }
    const ssize_t n = read(c->out, c->text + c->n, c->room - c->n - 1);
    if (n <= 0) return n < 0 && errno == EINTR;
    c->n += (size_t)n;
    c->text[c->n] = 0;
    return 1;
}

int child_wait(child *c, void (*tell)(void *ctx, const char *line), void *ctx)
{
    struct pollfd from[2] = {{.fd = c->out, .events = POLLIN}, {.fd = c->err, .events = POLLIN}};
    int state = 0;
    while (from[0].fd >= 0 || from[1].fd >= 0) {
        if (poll(from, 2, -1) < 0 && errno != EINTR) break;
        if (from[0].fd >= 0 && from[0].revents && !take_text(c)) from[0].fd = -1;
        if (from[1].fd >= 0 && from[1].revents && !take_lines(c, tell, ctx)) from[1].fd = -1;
    }
    close(c->out), close(c->err);
    while (waitpid(c->pid, &state, 0) < 0 && errno == EINTR) continue;
    return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}
