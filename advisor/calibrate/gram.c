/* gram.c - the upper half of X^T X in tiles of 64 x 64 elements, each the work of one thread; of a
 * tile, 8 rows by 16 columns at a time in registers. */
#include "calibrate/gram.h"

#include <stdlib.h>
#include <string.h>

#include "base/vector_copies.h"
#include "base/work.h"

enum { TILE = 64, TOKENS = 256, ROWS = 8, COLUMNS = 16 };

typedef struct gram_sum {
    float *gram;
    const float *x;
    uint64_t tokens, columns;
    uint64_t tiles; /* per side */
} gram_sum;

/* Columns [at, at + TILE) of some tokens, one token after the other; zeros behind the last. */
static void pack(float *to, const gram_sum *s, uint64_t first, uint64_t n, uint64_t at)
{
    const size_t m = (size_t)kf_min_u64(TILE, s->columns - at);
    for (uint64_t t = 0; t < n; t++) {
        memcpy(to + t * TILE, s->x + (first + t) * s->columns + at, m * sizeof *to);
        memset(to + t * TILE + m, 0, (TILE - m) * sizeof *to);
    }
}

typedef float lanes __attribute__((vector_size(COLUMNS * sizeof(float))));

/* out[ROWS][COLUMNS] = sum over tokens of a[t][.] b[t][.] */
KF_WIDE(multiply, (float *out, const float *a, const float *b, uint64_t n), (out, a, b, n), {
    lanes sum[ROWS] = {{0}};
    for (uint64_t t = 0; t < n; t++) {
        lanes y;
        memcpy(&y, b + t * TILE, sizeof y);
        for (size_t i = 0; i < ROWS; i++) sum[i] += a[t * TILE + i] * y;
    }
    memcpy(out, sum, sizeof sum);
})

static void add_part(const gram_sum *s, uint64_t row, uint64_t column, const float *part)
{
    for (uint64_t i = 0; i < ROWS && row + i < s->columns; i++)
        for (uint64_t k = 0; k < COLUMNS && column + k < s->columns; k++)
            s->gram[(row + i) * s->columns + column + k] += part[i * COLUMNS + k];
}

static kerf_status add_tile(void *ctx, uint64_t index)
{
    const gram_sum *s = ctx;
    uint64_t row = 0, left = index; /* tiles on and above the diagonal, row by row */
    while (left >= s->tiles - row) left -= s->tiles - row++;
    const uint64_t column = row + left;
    float part[ROWS * COLUMNS];
    float *a = kf_alloc(2, TILE * TOKENS * sizeof *a);
    if (!a) return KERF_E_NOMEM;
    float *b = a + TILE * TOKENS;
    for (uint64_t first = 0; first < s->tokens; first += TOKENS) {
        const uint64_t n = kf_min_u64(TOKENS, s->tokens - first);
        pack(a, s, first, n, row * TILE);
        pack(b, s, first, n, column * TILE);
        for (uint64_t i = 0; i < TILE; i += ROWS)
            for (uint64_t k = 0; k < TILE; k += COLUMNS) {
                multiply(part, a + i, b + k, n);
                add_part(s, row * TILE + i, column * TILE + k, part);
            }
    }
    free(a);
    return KERF_OK;
}

kerf_status kf_gram_add(float *gram, const float *x, uint64_t tokens, uint64_t columns, int threads,
                        kerf_error *err)
{
    gram_sum s = {gram, x, tokens, columns, kf_div_up(columns, TILE)};
    if (kf_parallel(s.tiles * (s.tiles + 1) / 2, threads, add_tile, &s) == KERF_OK) return KERF_OK;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a Gram matrix");
}

typedef struct finishing {
    float *gram;
    uint64_t columns, tiles;
    double tokens;
    const kerf_job *job;
} finishing;

/* A row of tiles, and the column of them that mirrors it. */
static kerf_status finish_tiles(void *ctx, uint64_t index)
{
    const finishing *f = ctx;
    const uint64_t n = f->columns, row = index * TILE, end = kf_min_u64(row + TILE, n);
    KF_TRY(kf_job_check(f->job, NULL));
    for (uint64_t at = row; at < n; at += TILE)
        for (uint64_t i = row; i < end; i++)
            for (uint64_t k = at > i ? at : i; k < kf_min_u64(at + TILE, n); k++) {
                const float mean = (float)((double)f->gram[i * n + k] / f->tokens);
                f->gram[i * n + k] = f->gram[k * n + i] = mean;
            }
    return KERF_OK;
}

kerf_status kf_gram_finish(float *gram, uint64_t columns, double tokens, int threads,
                           const kerf_job *job, kerf_error *err)
{
    finishing f = {gram, columns, kf_div_up(columns, TILE), tokens, job};
    const kerf_status s = kf_parallel(f.tiles, threads, finish_tiles, &f);
    return s == KERF_OK ? KERF_OK : kf_fail(err, s, KF_NOWHERE, "canceled");
}
