/* make_malformed.c - writes the bad weight files of malformed.h and malformed_gguf.h below a
 * folder, for tests of the command, and one line "STATUS PATH" for each to stdout. */
#include "malformed.h"
#include "malformed_gguf.h"

int main(int argc, char **argv)
{
    char path[4096];
    if (argc != 2) {
        fprintf(stderr, "usage: make_malformed FOLDER\n");
        return 2;
    }
    if (mkdir(argv[1], 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
        return 4;
    }
    for (size_t i = 0; i < MALFORMED_CASES; i++) {
        malformed_put(&malformed_cases[i], argv[1], path, sizeof path);
        printf("%s %s\n", kerf_status_name(malformed_cases[i].status), path);
    }
    for (size_t i = 0; i < MALFORMED_GGUF_CASES; i++) {
        malformed_gguf_put(&malformed_gguf_cases[i], argv[1], path, sizeof path);
        printf("%s %s\n", kerf_status_name(malformed_gguf_cases[i].status), path);
    }
    return fflush(stdout) == 0 ? 0 : 4;
}
