/* bench_file.h - measured times of matrix products, as a benchmark writes them:
 *
 *   {"results": [{"format": "nvfp4", "n": 4096, "k": 4096, "batch": 1, "us": 5.1}, ...]}
 *
 * rows, cols, columns and median_us are understood as n, k, batch and us; batch may be missing. */
#ifndef KERF_BENCH_FILE_H
#define KERF_BENCH_FILE_H

#include <kerf/predict.h>

#include "base/base.h"

typedef struct bench_file {
    kerf_timing *item;
    size_t count;
} bench_file;

kerf_status bench_file_open(bench_file *b, const char *path, kerf_error *err);
void bench_file_close(bench_file *b); /* all zeros are fine */

#endif
