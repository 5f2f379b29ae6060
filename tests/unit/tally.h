/* tally.h - counting checks in a program that goes on after a failure, and what ends it. */
#ifndef TALLY_H
#define TALLY_H

#include "gpu/numbers.h"

#include <kerf/codec.h>

#include <stdio.h>
#include <stdlib.h>

static kerf_error error;
static uint64_t checks, failures;

static int check(int good, const char *what, const char *detail)
{
    checks++;
    if (good) return 1;
    failures++;
    if (failures < 50) printf("FAILED %s: %s\n", what, detail);
    return 0;
}

static void need(kerf_status s, const char *what)
{
    if (s == KERF_OK) return;
    printf("%s: %s\n", what, error.text);
    exit(1);
}

static void *allocate(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (p) return p;
    printf("out of memory\n");
    exit(1);
}

#endif
