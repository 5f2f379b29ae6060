/* scale_tiles.c - block scales from rows to cuBLASLt's tiles and back, in host memory. */
#include "block/scale_tiles.h"
#include "base/base.h"

#include <kerf/codec.h>

/* rows x cols of a matrix, and its size in tiles. */
typedef struct extent {
    uint64_t across, plain, tiled;
} extent;

static kerf_status measure(uint64_t matrices, uint64_t rows, uint64_t cols, extent *out,
                           kerf_error *err)
{
    uint64_t down = kf_div_up(rows, KF_TILE_ROWS), all;
    out->across = kf_div_up(cols, KF_TILE_COLS);
    if (__builtin_mul_overflow(rows, cols, &out->plain) ||
        __builtin_mul_overflow(down, out->across, &out->tiled) ||
        __builtin_mul_overflow(out->tiled, KF_TILE_ROWS * KF_TILE_COLS, &out->tiled) ||
        __builtin_mul_overflow(out->tiled, matrices, &all))
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE,
                       "the size of %llu matrices of %llu x %llu scales overflows",
                       (unsigned long long)matrices, (unsigned long long)rows,
                       (unsigned long long)cols);
    return KERF_OK;
}

kerf_status kerf_tiled_scale_bytes(uint64_t matrices, uint64_t rows, uint64_t cols, uint64_t *out,
                                   kerf_error *err)
{
    extent e = {0, 0, 0};
    *out = 0;
    KF_TRY(measure(matrices, rows, cols, &e, err));
    *out = matrices * e.tiled;
    return KERF_OK;
}

static kerf_status check(const extent *e, uint64_t matrices, kerf_cspan plain, kerf_cspan tiled,
                         kerf_error *err)
{
    if (plain.n == matrices * e->plain && tiled.n == matrices * e->tiled) {
        const int lacks = (plain.n && !plain.p) || (tiled.n && !tiled.p);
        return lacks ? kf_fail(err, KERF_E_ARG, KF_NOWHERE, "scales are NULL") : KERF_OK;
    }
    return kf_fail(err, KERF_E_BUFFER, KF_NOWHERE,
                   "scales have %zu bytes in rows and %zu in tiles, need %llu and %llu", plain.n,
                   tiled.n, (unsigned long long)(matrices * e->plain),
                   (unsigned long long)(matrices * e->tiled));
}

kerf_status kerf_scales_to_tiles(uint64_t matrices, uint64_t rows, uint64_t cols, kerf_cspan plain,
                                 kerf_span tiled, kerf_error *err)
{
    extent e = {0, 0, 0};
    KF_TRY(measure(matrices, rows, cols, &e, err));
    KF_TRY(check(&e, matrices, plain, (kerf_cspan){tiled.p, tiled.n}, err));
    if (tiled.n) memset(tiled.p, 0, tiled.n); /* of nothing, NULL is as good as any */
    for (uint64_t m = 0; m < matrices; m++)
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t c = 0; c < cols; c++)
                ((uint8_t *)tiled.p)[m * e.tiled + kf_tiled_place(r, c, e.across)] =
                    ((const uint8_t *)plain.p)[m * e.plain + r * cols + c];
    return KERF_OK;
}

kerf_status kerf_scales_from_tiles(uint64_t matrices, uint64_t rows, uint64_t cols,
                                   kerf_cspan tiled, kerf_span plain, kerf_error *err)
{
    extent e = {0, 0, 0};
    KF_TRY(measure(matrices, rows, cols, &e, err));
    KF_TRY(check(&e, matrices, (kerf_cspan){plain.p, plain.n}, tiled, err));
    for (uint64_t m = 0; m < matrices; m++)
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t c = 0; c < cols; c++)
                ((uint8_t *)plain.p)[m * e.plain + r * cols + c] =
                    ((const uint8_t *)tiled.p)[m * e.tiled + kf_tiled_place(r, c, e.across)];
    return KERF_OK;
}
