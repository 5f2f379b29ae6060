/* signals.c - a command that is killed by a signal removes its temporary files first. */
#include <signal.h>
#include <unistd.h>

#include <kerf/file.h>

#include "cli.h"

static void die_of_signal(int number)
{
    kerf_writer_cleanup_signal();
    _exit(128 + number);
}

void catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGXCPU, SIGALRM};
    struct sigaction action = {0};
    action.sa_handler = die_of_signal;
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old;
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN) continue;
        sigaction(numbers[i], &action, NULL);
    }
    signal(SIGXFSZ, SIG_IGN); /* the write fails with EFBIG instead */
}
