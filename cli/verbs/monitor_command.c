/* monitor_command.c - runs a command and says what it used: energy and power between its start and
 * its end, beside those of the idle machine before it. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "monitor_verb.h"
#include "terminal.h"

enum { NOT_STARTED = 127 };

/* --- the command --------------------------------------------------------------------------- */

static volatile pid_t child;

static void pass_on(int number)
{
    if (child > 0) kill(child, number);
}

static int start(char **word)
{
    extern char **environ;
    posix_spawnattr_t how;
    sigset_t all;
    pid_t pid = 0;
    posix_spawnattr_init(&how);
    sigfillset(&all);
    posix_spawnattr_setsigdefault(&how, &all); /* what kerf catches is not the command's */
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF);
    const int failed = posix_spawnp(&pid, word[0], NULL, &how, word, environ);
    posix_spawnattr_destroy(&how);
    child = failed ? 0 : pid;
    return failed;
}

/* The keys that end a command reach it by themselves, and this one stays for the report; other
 * signals are passed on. */
static int run(char **word)
{
    static const int passed[] = {SIGTERM, SIGHUP};
    struct sigaction pass = {0};
    int state = 0;
    pass.sa_handler = pass_on;
    const int failed = start(word);
    if (failed) return -failed;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) sigaction(passed[i], &pass, NULL);
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
    child = 0;
    return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}

/* --- verb ---------------------------------------------------------------------------------- */

static kerf_status meter(kerf_monitor *m, char **word, kerf_metered *r, kerf_error *err)
{
    kerf_meter *meter = NULL;
    if (r->idle_s > 0) TRY(kerf_meter_idle(m, r->idle_s, &r->idle, err));
    fflush(stdout);
    TRY(kerf_meter_begin(m, r->interval_s, &meter, err));
    r->exit_code = run(word);
    kerf_meter_end(meter, &r->used);
    if (r->exit_code >= 0) return KERF_OK;
    print_note("kerf: %s: %s", shown(r->word[0]), strerror(-r->exit_code));
    r->exit_code = NOT_STARTED;
    return KERF_OK;
}

static kerf_status report(const kerf_metered *r, const args *a, kerf_error *err)
{
    const char *path = args_value(a, "output");
    char *text = NULL;
    if (!is_quiet()) {
        TRY(kerf_metered_text(r, text_form(2), &text, NULL, err));
        fputs(text, stderr);
        free(text);
    }
    if (!path) return KERF_OK;
    return put_file(kerf_metered_write(r, &text, NULL, err), path, &text, args_has(a, "overwrite"),
                    err);
}

int monitor_command(kerf_monitor *m, const args *a, kerf_error *err)
{
    kerf_metered *r = NULL;
    char **word = NULL;
    TRY(allocate(&r, 1, sizeof *r, err));
    r->idle_s = 2;
    r->interval_s = 0.01;
    kerf_status s = allocate(&word, args_operands(a) + 1, sizeof *word, err);
    for (size_t i = 0; s == KERF_OK && i < args_operands(a); i++)
        word[i] = (char *)(uintptr_t)args_operand(a, i);
    r->word = (const char *const *)word;
    if (s == KERF_OK) s = args_seconds(a, "idle", 0, 600, &r->idle_s, err);
    if (s == KERF_OK) s = args_seconds(a, "interval", 0.001, 3600, &r->interval_s, err);
    if (s == KERF_OK) s = meter(m, word, r, err);
    if (s == KERF_OK && r->exit_code != NOT_STARTED) s = report(r, a, err);
    const int code = r->exit_code;
    free(word);
    free(r);
    return s == KERF_OK ? code : s;
}
