/* or_die.h - programs that measure or prepare end when a call fails, and say which. Define PROGRAM,
 * the name to say it under, before. */
#ifndef OR_DIE_H
#define OR_DIE_H

#include <kerf/codec.h>

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

static kerf_error error;

static void die(const char *what, const char *why)
{
    fprintf(stderr, PROGRAM ": %s: %s\n", what, why);
    exit(1);
}

static void need(kerf_status s, const char *what)
{
    if (s != KERF_OK) die(what, error.text);
}

static inline void need_cuda(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) die(what, cudaGetErrorString(e));
}

#endif
