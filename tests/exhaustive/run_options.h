/* run_options.h - what the long-running tests share: their command line, time, random numbers. */
#ifndef KERF_TEST_OPTIONS_H
#define KERF_TEST_OPTIONS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct test_options {
    int full;      /* everything, instead of the part that CI runs */
    uint64_t seed; /* of the stratified part; printed, so that a failure can be repeated */
} test_options;

static inline double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* 64 mixed bits of a counter (the finalizer of splitmix64). */
static inline uint64_t mix_bits(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* [--full] [--seed N]; without a seed, the clock gives one. */
static inline test_options read_options(int argc, char **argv)
{
    test_options o = {0, mix_bits((uint64_t)time(NULL)) >> 32};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0) {
            o.full = 1;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            o.seed = strtoull(argv[++i], NULL, 0);
        } else {
            fprintf(stderr, "usage: %s [--full] [--seed N]\n", argv[0]);
            exit(2);
        }
    }
    printf("seed %llu%s\n", (unsigned long long)o.seed, o.full ? ", full" : "");
    return o;
}

#endif
