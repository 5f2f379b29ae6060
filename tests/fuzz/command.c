/* command.c - the whole command in one process: main of kerf under another name, and nothing of
 * what ends a process or changes it for good (guards.c, signals.c of the command). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

int kerf_main(int argc, char **argv);
#define main kerf_main
#include "start.c"
#undef main

void guard_json_memory(void) {}
void catch_signals(void) {}
void begin_exit_guard(void) {}
void end_exit_guard(void) {}

enum { WORDS = 40 };

static void wrong(const char *line, const char *what, int code)
{
    dprintf(STDERR_FILENO, "kerf %s: %s %d\n", line, what, code);
    abort();
}

/* Splits a line into words; @ is the folder. The words are freed with *text. */
static int split(const char *line, char **text, char *argv[WORDS])
{
    int argc = 0;
    size_t room = 16 + strlen(line);
    for (const char *p = line; *p; p++) room += *p == '@' ? strlen(fuzz_folder()) : 0;
    char *out = *text = malloc(room);
    if (!out) abort();
    static char name[] = "kerf";
    argv[argc++] = name;
    argv[argc++] = out;
    for (const char *p = line; *p; p++) {
        if (*p == '@') {
            out += sprintf(out, "%s", fuzz_folder());
        } else if (*p == ' ') {
            *out++ = 0;
            if (argc < WORDS - 1) argv[argc++] = out;
        } else {
            *out++ = *p;
        }
    }
    *out = 0;
    argv[argc] = NULL;
    return argc;
}

static int is_there(const char *name)
{
    char path[1024];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    return lstat(path, &st) == 0;
}

int fuzz_kerf(const char *line, const char *out)
{
    /* ok, findings, usage, input, limit */
    static const int codes[] = {0, 1, 2, 3, 5};
    char *argv[WORDS], *text;
    const int argc = split(line, &text, argv);
    const int code = kerf_main(argc, argv);
    free(text);
    /* predict wants a file by its name, which need not be there */
    int is_known = code == 4 && strncmp(line, "predict", strlen("predict")) == 0;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) is_known |= code == codes[i];
    if (!is_known) wrong(line, "exit code", code);
    if (fuzz_count(".") > 2) wrong(line, "leaves a temporary behind, exit code", code);
    if (out && code > 1 && is_there(out))
        wrong(line, "fails and leaves an output, exit code", code);
    if (out && code == 0 && !is_there(out)) wrong(line, "writes nothing, exit code", code);
    return code;
}
