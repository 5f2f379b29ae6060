/* test_folder.h - a folder for the files of one test program, removed afterwards. */
#ifndef KERF_TESTS_TEST_FOLDER_H
#define KERF_TESTS_TEST_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline int make_test_folder(void **state)
{
    const char *base = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/kerf-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(path)) return -1;
    *state = strdup(path);
    return *state ? 0 : -1;
}

static inline int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static inline int remove_test_folder(void **state)
{
    int failed = nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return failed;
}

#endif
