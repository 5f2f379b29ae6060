/* gemv_tiles_x.h - x for tiles (gemv_tiles.h), a stage of 256 elements at a time, in the order of a
 * strip: cut into terms of bfloat16, pairs of one column beside those of the others; or rounded to
 * integers and taken apart into bytes, fours of one column beside those of the others. */
#ifndef KERF_GEMV_TILES_X_H
#define KERF_GEMV_TILES_X_H

#include "cpu/gemv_tiles_fit.h"
#include "cpu/gemv_x.h"

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

/* n times four bytes, all of group g, into the rows of a tile: in the lane of the group, with zeros
 * in those of the groups together with it. */
KF_HD void put_in_lane(const size_t together, size_t g, const void *from, size_t n, uint8_t *out,
                       size_t stride)
{
    const unsigned up = 32 * (g % 2), second = g / 2 % 2;
    for (size_t k = 0; k < n; k++, out += stride) {
        uint32_t four;
        memcpy(&four, (const uint8_t *)from + 4 * k, 4);
        uint64_t two = (uint64_t)four << up, none = 0;
        if (together == 1) memcpy(out, &four, 4);
        if (together == 2) memcpy(out, &two, 8);
        if (together == 4)
            memcpy(out + 8 * second, &two, 8), memcpy(out + 8 - 8 * second, &none, 8);
    }
}

/* The same for n fours that begin with element e of a stage; half a strip has one group. */
static inline void put_fours(const kf_tile_layout *l, const void *from, size_t n, size_t e,
                             uint8_t *out)
{
    const size_t g = e >> l->group_shift, stride = 4 * l->lanes;
    if (l->together == 1)
        put_in_lane(1, 0, from, n, out, stride);
    else if (l->together == 2)
        put_in_lane(2, g, from, n, out, stride);
    else
        put_in_lane(4, g, from, n, out, stride);
}

/* A stage of one column: pairs of its numbers beside those of other columns. */
static void pack_terms(const kf_tile_layout *l, const float *from, uint8_t *out, float *kept)
{
    const tw order = tw_load(l->order);
    for (size_t t = 0; t < STRIPS; t++, out += 2 * STRIP * l->lanes * l->passes) {
        uint16_t words[2][STRIP];
        cut_strip(l, from + t * STRIP, order, words, kept + t * STRIP);
        for (size_t term = 0; term < l->terms; term++) {
            uint8_t *to = out + (l->wide > 1 ? 4 * l->together : 2 * STRIP * l->lanes) * term;
            for (size_t k = 0; k < STRIP; k += STRIP / 2)
                put_fours(l, words[term] + k, STRIP / 4, t * STRIP + k, to + 2 * k * l->lanes);
        }
    }
}

/* Where the sum of group g of a stage goes, from the first lane of a column on. */
static inline float *place_of_sum(const kf_tile_layout *l, float *sums, size_t g)
{
    return sums + g / l->sums_together * V + g % l->sums_together;
}

/* Sums over the groups of a stage of one column: of all terms, in the lane of the first. */
static void sum_groups(const kf_tile_layout *l, const float *x, float *sums)
{
    for (size_t g = 0; g < STAGE / l->group; g++, x += l->group) {
        double sum[8] = {0};
        for (size_t i = 0; i < l->group; i += 8)
            for (size_t j = 0; j < 8; j++) sum[j] += (double)x[i + j];
        for (size_t j = 1; j < 8; j++) sum[0] += sum[j];
        *place_of_sum(l, sums, g) = (float)sum[0];
    }
}

/* --- bytes --------------------------------------------------------------------------------------
 */

static inline int upper_byte(int n)
{
    return (n + 128) >> 8;
}

/* A stage of one column: for each tile upper bytes, then lower ones. */
static void pack_bytes(const kf_tile_layout *l, const int16_t *whole, uint8_t *out)
{
    const size_t tile = l->depth * l->lanes;
    const tw order = tw_load(l->order);
    uint8_t upper[STAGE], lower[STAGE];
    for (size_t t = 0; t < STAGE; t += STRIP) {
        uint16_t n[STRIP];
        tw_store(n, tw_look_up(tw_load((const uint16_t *)whole + t), order));
        for (size_t i = 0; i < STRIP; i++) {
            upper[t + i] = (uint8_t)(((unsigned)n[i] + 128) >> 8);
            lower[t + i] = (uint8_t)n[i];
        }
    }
    for (size_t i = 0; i < STAGE; i += l->depth, out += tile * l->passes) {
        uint8_t *second = out + (l->wide > 1 ? 4 * l->together : tile);
        for (size_t k = 0; k < l->depth; k += STRIP) {
            put_fours(l, upper + i + k, STRIP / 4, i + k, out + k * l->lanes);
            put_fours(l, lower + i + k, STRIP / 4, i + k, second + k * l->lanes);
        }
    }
}

/* Sums of integers, or of their upper and lower bytes where these lie side by side, over the groups
 * of a stage of one column: integers, or in groups of 32 fp32. */
static void sum_integers(const kf_tile_layout *l, const int16_t *whole, float *sums)
{
    for (size_t g = 0; g < STAGE / l->group; g++) {
        int32_t sum[2] = {0, 0};
        for (size_t i = 0; i < l->group; i++) {
            const int n = whole[g * l->group + i], upper = l->wide > 1 ? upper_byte(n) : n;
            sum[0] += upper;
            sum[1] += n - 256 * upper;
        }
        for (size_t i = 0; i < l->wide; i++) {
            const float rounded = (float)sum[i];
            memcpy(place_of_sum(l, sums, g) + i * l->together,
                   l->group > STRIP ? (const void *)&sum[i] : &rounded, 4);
        }
    }
}

/* Sums of all of an integer over the groups of a stage of one column, as numbers. */
static void sum_numbers(const kf_tile_layout *l, const int16_t *whole, float unit, float *sums)
{
    for (size_t g = 0; g < STAGE / l->group; g++) {
        int32_t sum = 0;
        for (size_t i = 0; i < l->group; i++) sum += whole[g * l->group + i];
        *place_of_sum(l, sums, g) = (float)sum * unit;
    }
}

/* --- both ---------------------------------------------------------------------------------------
 */

static tile_x begin_x(const kf_tile_layout *l, void *workspace)
{
    const tile_x x = {workspace, kf_tile_x_sums(l, workspace), kf_tile_units(l, workspace)};
    memset(x.sums, 0, kf_tile_x_sums_count(l) * sizeof *x.sums);
    if (kf_tile_is_whole(l)) memset(x.unit, 0, l->stages * V * sizeof *x.unit);
    return x;
}

/* A stage of column i. */
static void pack_x(const kf_tile_layout *l, const float *from, size_t i, tile_x x)
{
    const size_t lane = i * l->wide * l->together;
    if (kf_tile_is_whole(l)) {
        int16_t whole[STAGE];
        const float unit = l->l.factor * kf_gemv_round_x(from, STAGE, KF_GEMV_LARGEST, whole);
        for (size_t k = 0; k < l->wide * l->together; k++)
            x.unit[lane + k] = k + l->together < l->wide * l->together ? 256 * unit : unit;
        pack_bytes(l, whole, x.tiles + 4 * lane);
        if (l->kind == KF_TILE_LEVELS)
            sum_numbers(l, whole, unit, x.sums + lane);
        else if (l->zeros || l->offsets)
            sum_integers(l, whole, x.sums + lane);
    } else {
        float kept[STAGE];
        pack_terms(l, from, x.tiles + 4 * lane, kept);
        if (l->offsets) sum_groups(l, kept, x.sums + lane);
    }
}

static void next_x(const kf_tile_layout *l, tile_x *x)
{
    x->tiles += kf_tile_x_stage(l);
    if (l->offsets || l->zeros) x->sums += STAGE / l->group / l->sums_together * V;
    if (kf_tile_is_whole(l)) x->unit += V;
}

#endif
