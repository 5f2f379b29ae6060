/* gemv_tiles_x.h - x for tiles (gemv_tiles.h): cut into terms of bfloat16, in the order of a strip,
 * pairs of one column beside those of the others. */
#ifndef KERF_GEMV_TILES_X_H
#define KERF_GEMV_TILES_X_H

#include "cpu/gemv_tiles_fit.h"

/* A strip of one column, cut into terms of 8 bits each. */
KF_HD void cut_strip(const kf_tile_layout *l, const float *from, tw order, uint16_t words[3][STRIP])
{
    float rest[STRIP];
    uint16_t top[STRIP];
    for (size_t i = 0; i < STRIP; i++) rest[i] = from[i] * l->l.factor;
    for (size_t term = 0; term < l->terms; term++) {
        for (size_t i = 0; i < STRIP; i++) {
            const uint32_t bits = kf_bits(rest[i]) & 0xffff0000;
            top[i] = (uint16_t)(bits >> 16);
            rest[i] -= kf_float(bits);
        }
        tw_store(words[term], tw_look_up(tw_load(top), order));
    }
}

/* A stage of one column: pairs of its numbers beside those of other columns. */
static void pack_stage(const kf_tile_layout *l, const float *from, tw order, size_t columns,
                       uint16_t *out)
{
    for (size_t t = 0; t < STRIPS; t++) {
        uint16_t words[3][STRIP];
        cut_strip(l, from + t * STRIP, order, words);
        for (size_t term = 0; term < l->terms; term++, out += STRIP * columns)
            for (size_t k = 0; k < STRIP / 2; k++)
                memcpy(out + 2 * k * columns, words[term] + 2 * k, 4);
    }
}

/* Sums over the groups of a stage of one column. */
static void sum_groups(const kf_tile_layout *l, const float *x, float *sums)
{
    for (size_t g = 0; g < STAGE / l->group; g++) {
        double sum = 0;
        for (size_t i = 0; i < l->group; i++) sum += (double)x[g * l->group + i];
        sums[g * V] = (float)sum;
    }
}

#endif
