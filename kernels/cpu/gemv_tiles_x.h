/* gemv_tiles_x.h - x for tiles (gemv_tiles.h), a stage of 256 elements at a time, in the order of a
 * strip: cut into terms of bfloat16, pairs of one column beside those of the others; or rounded to
 * integers and taken apart into bytes, fours of one column beside those of the others. */
#ifndef KERF_GEMV_TILES_X_H
#define KERF_GEMV_TILES_X_H

#include "cpu/gemv_round_x.h"
#include "cpu/gemv_tiles_fit.h"

/* Where a stage goes: for tiles, its sums over groups, the units of its integers. */
typedef struct tile_x {
    uint8_t *tiles;
    float *sums, *unit;
} tile_x;

/* --- bfloat16 -----------------------------------------------------------------------------------
 */

/* A strip of one column, cut into terms of 8 bits each; in `kept` what they stand for. */
KF_HD void cut_strip(const kf_tile_layout *l, const float *from, tw order, uint16_t words[2][STRIP],
                     float *kept)
{
    float rest[STRIP];
    uint16_t top[STRIP];
    for (size_t i = 0; i < STRIP; i++) rest[i] = from[i] * l->l.factor;
    for (size_t term = 0; term < l->terms; term++) {
        for (size_t i = 0; i < STRIP; i++) { /* to nearest even */
            const uint32_t bits = kf_bits(rest[i]), odd = bits >> 16 & 1;
            top[i] = (uint16_t)((bits + 0x7fff + odd) >> 16);
            rest[i] -= kf_float((uint32_t)top[i] << 16);
        }
        tw_store(words[term], tw_look_up(tw_load(top), order));
    }
    for (size_t i = 0; i < STRIP; i++) kept[i] = from[i] * l->l.factor - rest[i];
}

/* A stage of one column: pairs of its numbers beside those of other columns. */
static void pack_terms(const kf_tile_layout *l, const float *from, size_t columns, uint8_t *out,
                       float *kept)
{
    const tw order = tw_load(l->order);
    for (size_t t = 0; t < STRIPS; t++) {
        uint16_t words[2][STRIP];
        cut_strip(l, from + t * STRIP, order, words, kept + t * STRIP);
        for (size_t term = 0; term < l->terms; term++, out += 2 * STRIP * columns)
            for (size_t k = 0; k < STRIP / 2; k++)
                memcpy(out + 4 * k * columns, words[term] + 2 * k, 4);
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

/* --- bytes --------------------------------------------------------------------------------------
 */

/* A stage of one column: for each tile upper bytes, then lower ones. */
static void pack_bytes(const kf_tile_layout *l, const int16_t *whole, size_t columns, uint8_t *out)
{
    uint8_t upper[STAGE], lower[STAGE];
    for (size_t i = 0; i < STAGE; i++) {
        const int n = whole[i / STRIP * STRIP + l->order[i % STRIP]];
        upper[i] = (uint8_t)((n + 128) >> 8);
        lower[i] = (uint8_t)n;
    }
    for (size_t i = 0; i < STAGE; i += l->depth, out += l->depth * columns * 2)
        for (size_t k = 0; k < l->depth; k += 4) {
            memcpy(out + k * columns, upper + i + k, 4);
            memcpy(out + (l->depth + k) * columns, lower + i + k, 4);
        }
}

/* Sums of integers over the groups of a stage of one column: integers, or in groups of 32 fp32. */
static void sum_integers(const kf_tile_layout *l, const int16_t *whole, float *sums)
{
    for (size_t g = 0; g < STAGE / l->group; g++) {
        int32_t sum = 0;
        for (size_t i = 0; i < l->group; i++) sum += whole[g * l->group + i];
        if (l->group > STRIP)
            memcpy(sums + g * V, &sum, 4);
        else
            sums[g * V] = (float)sum;
    }
}

/* --- both ---------------------------------------------------------------------------------------
 */

static tile_x begin_x(const kf_tile_layout *l, void *workspace, size_t columns)
{
    const tile_x x = {workspace, kf_tile_x_sums(l, workspace, columns),
                      kf_tile_units(l, workspace, columns)};
    memset(x.sums, 0, kf_tile_x_sums_count(l) * sizeof *x.sums);
    if (kf_tile_is_whole(l)) memset(x.unit, 0, l->stages * V * sizeof *x.unit);
    return x;
}

/* A stage of column i. */
static void pack_x(const kf_tile_layout *l, const float *from, size_t columns, size_t i, tile_x x)
{
    if (kf_tile_is_whole(l)) {
        int16_t whole[STAGE];
        x.unit[i] = l->l.factor * kf_gemv_round_x(from, STAGE, KF_GEMV_LARGEST, whole);
        pack_bytes(l, whole, columns, x.tiles + 4 * i);
        if (l->zeros) sum_integers(l, whole, x.sums + i);
    } else {
        float kept[STAGE];
        pack_terms(l, from, columns, x.tiles + 4 * i, kept);
        if (l->offsets) sum_groups(l, kept, x.sums + i);
    }
}

static void next_x(const kf_tile_layout *l, size_t columns, tile_x *x)
{
    x->tiles += STAGE * 2 * columns * (kf_tile_is_whole(l) ? 1 : l->terms);
    if (l->offsets || l->zeros) x->sums += STAGE / l->group * V;
    if (kf_tile_is_whole(l)) x->unit += V;
}

#endif
