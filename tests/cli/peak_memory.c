/* peak_memory.c - peak_memory FILE COMMAND...: runs the command, writes the most memory it had
 * resident, in KiB, to FILE, and ends with its exit code. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: peak_memory FILE COMMAND...\n");
        return 2;
    }
    pid_t child = fork();
    if (child < 0) return 71;
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status = 0;
    struct rusage used;
    if (wait4(child, &status, 0, &used) != child) return 71;
    FILE *out = fopen(argv[1], "w");
    if (!out || fprintf(out, "%ld\n", used.ru_maxrss) < 0 || fclose(out) != 0) return 74;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
