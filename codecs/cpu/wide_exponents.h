/* wide_exponents.h - the search of MX formats: three exponents for each of sixteen blocks.
 *
 * A sum in order cannot be split over lanes, but those of different blocks can lie side by side:
 * elements are turned so that those of one place are neighbours, and scaled once, for all three.
 * Floating-point elements often have the same error under two exponents, so only sums in order
 * tell; there is no sifting as in wide_shares.h. */
#ifndef KERF_WIDE_EXPONENTS_H
#define KERF_WIDE_EXPONENTS_H

#include "cpu/wide_tile.h"

enum { BLOCKS = 16, BLOCK_SIZE = 32 };

typedef struct blocks {
    float y[BLOCK_SIZE * BLOCKS]; /* element i of block k at i * BLOCKS + k, in units of 2^base */
    int32_t base[BLOCKS];         /* floor's exponents */
    int32_t best[BLOCKS];         /* exponents ... */
    float least[BLOCKS];          /* ... and their errors */
} blocks;

/* Up to sixteen blocks of the tile from `first` on, of which the last of all ends at element
 * `end`; what is not there is zeros. */
KF_HD void turn_blocks(kf_spec s, size_t first, size_t n, size_t end, const kf_tile *t, blocks *b)
{
    for (size_t k = 0; k < BLOCKS; k++) {
        const float amax = k < n ? float_of(t->high[first + k]) : 0;
        const kf_group none = {&amax, 1, 1, 1, 1};
        b->base[k] = kf_mx_exponent(s, KERF_ENC_MX_FLOOR, none, amax);
    }
    memset(b->y, 0, sizeof b->y);
    for (size_t k = 0; k < n; k++) {
        const size_t at = (first + k) * BLOCK_SIZE;
        const size_t size = end - at < BLOCK_SIZE ? end - at : BLOCK_SIZE;
        const float unit = kf_exp2(-b->base[k]);
        for (size_t i = 0; i < size; i++) b->y[i * BLOCKS + k] = t->x[at + i] * unit;
    }
}

/* Tries base + step for every block, within the range of exponents, as kf_mx_error does. */
KF_HD void try_step(kf_spec s, int step, blocks *b)
{
    float down[BLOCKS], up[BLOCKS], error[BLOCKS] = {0};
    int32_t exponent[BLOCKS];
    for (size_t k = 0; k < BLOCKS; k++) {
        exponent[k] = kf_mx_clamp(b->base[k] + step);
        down[k] = kf_exp2(b->base[k] - exponent[k]);
        up[k] = kf_exp2(exponent[k] - b->base[k]);
    }
    for (size_t i = 0; i < BLOCK_SIZE; i++)
        for (size_t k = 0; k < BLOCKS; k++) {
            const float y = b->y[i * BLOCKS + k];
            const uint32_t code = kf_element_encode(s.element, y * down[k]);
            const float d = kf_element_decode(s.element, code) * up[k] - y;
            error[k] = error[k] + d * d;
        }
    for (size_t k = 0; k < BLOCKS; k++) { /* step 1 comes first */
        const int better = step == 1 || error[k] < b->least[k];
        b->best[k] = better ? exponent[k] : b->best[k];
        b->least[k] = better ? error[k] : b->least[k];
    }
}

/* Chooses the exponents of `groups` blocks, of which the last one has `cols` elements. An exponent
 * that the range cuts off is one that was tried before: not better. */
KF_HD void search_exponents(kf_spec s, const kf_tensor *tensor, size_t groups, size_t cols,
                            kf_tile *t)
{
    const size_t end = (groups - 1) * BLOCK_SIZE + cols;
    blocks b;
    for (size_t first = 0; first < groups; first += BLOCKS) {
        const size_t n = groups - first < BLOCKS ? groups - first : BLOCKS;
        turn_blocks(s, first, n, end, t, &b);
        for (int step = 1; step >= -1; step--) try_step(s, step, &b);
        for (size_t k = 0; k < n; k++) {
            const kf_group none = {t->x, 0, 0, 0, 1};
            const kf_scale scale = {t->high[first + k] ? (uint32_t)(b.best[k] + 127) : 0, 0};
            keep_choice(s, scale, kf_mx_quant(s, KERF_ENC_MX_SEARCH, tensor, scale, none),
                        first + k, t);
        }
    }
}

#endif
