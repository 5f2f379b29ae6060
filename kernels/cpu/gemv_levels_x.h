/* gemv_levels_x.h - a step of x beside blocks of two levels, in integers, for one instruction set
 * (gemv_rows.h): what gemv_level_steps.h reads.
 *
 * For each vector of codes VB upper bytes and VB lower ones, in the order of the codes. After them,
 * for a block of 256:
 *
 *   float sums[16]          of x, by groups, as numbers
 *   int16_t words[2][16]    of its upper and of its lower bytes, by groups
 *   float unit              what an integer stands for
 *
 * and for blocks of 32, by dwords as sums lie in a vector: float sums[V]; int32_t off[V], the
 * middle of the codes times the sum of the integers; float unit.
 *
 * Where codes become words (gemv_level_words.h): words of x for the even bytes of each vector of
 * codes and then for its odd ones; after all of them sums, and the unit. */
#ifndef KERF_GEMV_LEVELS_X_H
#define KERF_GEMV_LEVELS_X_H

#include "cpu/gemv_kernel.h"

#define VB (4 * V)
#define LEVELS_WORDS 64
#define LEVELS_UNIT 128
#define WORDS_UNIT 64

KF_HD float kf_gemv_level_unit(const uint8_t *more, size_t at)
{
    float unit;
    memcpy(&unit, more + at, 4);
    return unit;
}

/* n = BASE * upper + lower, both signed bytes. */
KF_HD int level_upper(int n)
{
    const uint32_t up = (uint32_t)(n + BASE / 2 + BASE * 128);
    return (int)((BASE == 256 ? up : up + 1 + (up >> 8)) >> 8) - 128;
}

/* n: in the order of the codes. */
static inline void place_level_bytes(const int16_t *n, size_t vectors, uint8_t *out)
{
    for (size_t v = 0; v < vectors; v++, n += VB, out += 2 * VB)
        for (size_t i = 0; i < VB; i++) {
            const int upper = level_upper(n[i]);
            out[i] = (uint8_t)upper;
            out[VB + i] = (uint8_t)(n[i] - BASE * upper);
        }
}

/* Words of x; n: in the order of the codes. */
static inline void place_level_words(const int16_t *n, size_t vectors, uint8_t *out)
{
    for (size_t v = 0; v < vectors; v++, n += VB, out += 2 * VB)
        for (size_t i = 0; i < VB; i++) memcpy(out + (i % 2 * VB / 2 + i / 2) * 2, n + i, 2);
}

/* Sums of x by groups, as numbers; n: in the order of elements. */
static inline void place_group_sums(const kf_gemv_layout *l, const int16_t *n, float unit,
                                    uint8_t *more)
{
    float sums[16] = {0};
    for (size_t i = 0; i < 16; i++) {
        int all = 0;
        for (size_t j = 0; j < 16; j++) all += n[16 * i + j];
        sums[16 * i / l->level_group] += unit * (float)all;
    }
    memcpy(more, sums, sizeof sums);
}

/* And of the bytes of x. */
static inline void place_level_sums(const kf_gemv_layout *l, const int16_t *n, float unit,
                                    uint8_t *more)
{
    int16_t words[2][16] = {{0}};
    for (size_t i = 0; i < 16; i++) { /* of 16 elements, then of groups */
        int all = 0, upper = 0;
        for (size_t j = 0; j < 16; j++) {
            all += n[16 * i + j];
            upper += level_upper(n[16 * i + j]);
        }
        const size_t group = 16 * i / l->level_group;
        words[0][group] = (int16_t)(words[0][group] + upper);
        words[1][group] = (int16_t)(words[1][group] + all - BASE * upper);
    }
    place_group_sums(l, n, unit, more);
    memcpy(more + LEVELS_WORDS, words, sizeof words);
    memcpy(more + LEVELS_UNIT, &unit, 4);
}

/* Sums of x by dwords of products, as numbers and times the middle of codes; n: in the order of the
 * codes, of two vectors. Words have no use for the second. */
static inline void place_lane_sums(const kf_gemv_layout *l, const int16_t *n, float unit,
                                   uint8_t *more)
{
    const int middle = l->level_middle < 0 ? BOOK_BIAS : l->level_middle;
    float sums[V];
    int32_t off[V];
    for (size_t i = 0; i < V; i++) {
        int all = 0;
        for (size_t j = 0; j < 4; j++) all += n[4 * i + j] + n[VB + 4 * i + j];
        sums[i] = unit * (float)all;
        off[i] = all * middle;
    }
    memcpy(more, sums, sizeof sums);
    more += sizeof sums;
    if (!l->level_words) {
        memcpy(more, off, sizeof off);
        more += sizeof off;
    }
    memcpy(more, &unit, 4);
}

/* n: the integers of a step in the order of its elements, of which 16 stay side by side. */
static inline void place_levels(const kf_gemv_layout *l, const int16_t *n, float unit, uint8_t *out)
{
    int16_t codes[KF_GEMV_STEP];
    for (size_t i = 0; i < l->step; i += 16) memcpy(codes + i, n + l->order[i], 32);
    if (l->level_words)
        place_level_words(codes, l->step / VB, out);
    else
        place_level_bytes(codes, l->step / VB, out);
    uint8_t *more = out + 2 * l->step;
    if (!l->level_group)
        place_lane_sums(l, codes, unit, more);
    else if (!l->level_words)
        place_level_sums(l, n, unit, more);
    else {
        place_group_sums(l, n, unit, more);
        memcpy(more + WORDS_UNIT, &unit, 4);
    }
}

#endif
