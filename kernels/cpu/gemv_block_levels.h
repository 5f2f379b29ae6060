/* gemv_block_levels.h - the scales of a block of two levels as vectors want them, for one
 * instruction set (gemv_rows.h): its fp16 numbers, and the small integers of its groups as bytes.
 */
#ifndef KERF_GEMV_BLOCK_LEVELS_H
#define KERF_GEMV_BLOCK_LEVELS_H

#include "cpu/gemv_kernel.h"

#define SUPER_GROUPS 16  /* of a block, at most                          */
#define SUPER_AHEAD 2048 /* bytes: rows follow each other without gaps */

KF_HD vf super_half(const uint8_t *p)
{
    int16_t half;
    memcpy(&half, p, 2);
    return vf_of_half(vh_set1(half));
}

/* Levels as bytes, `bias` above what they mean; minima have none. */
typedef struct super_bytes {
    uint64_t scale[SUPER_GROUPS / 8], min[SUPER_GROUPS / 8];
    float bias;
} super_bytes;

KF_HD uint64_t bytes_at(const uint8_t *p, size_t n)
{
    uint64_t word = 0;
    memcpy(&word, p, n);
    return word;
}

/* kf_level_scale and kf_level_min of all groups, eight bytes at a time. */
KF_HD super_bytes level_bytes(kf_levels levels, const uint8_t *p)
{
    const uint64_t each = 0x0101010101010101u;
    super_bytes b = {{0, 0}, {0, 0}, 0};
    if (levels == KF_LEVELS_BYTES) {
        for (int i = 0; i < 2; i++) {
            const uint64_t both = bytes_at(p + 8 * i, 8);
            b.scale[i] = both & 15 * each;
            b.min[i] = both >> 4 & 15 * each;
        }
    } else if (levels == KF_LEVELS_PAIRS) { /* four of six bits, four whose upper bits are above */
        const uint64_t scale = bytes_at(p, 4), min = bytes_at(p + 4, 4), low = bytes_at(p + 8, 4);
        const uint64_t upper = (low & 15 * each) | (scale >> 2 & 48 * each);
        b.scale[0] = (scale & 63 * each) | upper << 32;
        b.min[0] = (min & 63 * each) | ((low >> 4 & 15 * each) | (min >> 2 & 48 * each)) << 32;
    } else if (levels == KF_LEVELS_SIX) { /* nibbles, and two bits above them at four places */
        const uint64_t low = bytes_at(p, 8), high = bytes_at(p + 8, 4);
        b.scale[0] = (low & 15 * each) | ((high | high >> 2 << 32) & 3 * each) << 4;
        b.scale[1] = (low >> 4 & 15 * each) | ((high >> 4 | high >> 6 << 32) & 3 * each) << 4;
        b.bias = 32;
    } else if (levels == KF_LEVELS_EIGHT) {
        for (int i = 0; i < 2; i++) b.scale[i] = bytes_at(p + 8 * i, 8) ^ 128 * each;
        b.bias = 128;
    } else if (levels == KF_LEVELS_SPLIT) {
        uint64_t low = bytes_at(p + 2, 4), high = bytes_at(p, 2); /* fields in a row, spread */
        low = (low | low << 16) & 0x0000ffff0000ffffu;
        low = (low | low << 8) & 0x00ff00ff00ff00ffu;
        high = (high | high << 24) & 0x000000ff000000ffu;
        high = (high | high << 12) & 0x000f000f000f000fu;
        b.scale[0] = ((low | low << 4) & 15 * each) | ((high | high << 6) & 3 * each) << 4;
        b.bias = 32;
    }
    return b;
}

#endif
