/* exact_blocks.h - GGUF's blocks of two levels whose sums of products are exact in any order. */
#ifndef KERF_TESTS_EXACT_BLOCKS_H
#define KERF_TESTS_EXACT_BLOCKS_H

#include "block/all.h"

#include <string.h>

/* All scales 1 and minima 0 or 1 under d and m, codes as they fall. next: a number from a seed, on
 * to the next. */
static void fill_exact_blocks(uint8_t *plane, size_t bytes, kf_spec s,
                              uint32_t (*next)(uint64_t *seed), uint64_t *seed)
{
    static const unsigned char level_bytes[] = {0, 16, 12, 12, 16, 6};
    const kf_super k = kf_super_of(s);
    for (size_t i = 0; i < bytes; i++) plane[i] = (uint8_t)next(seed);
    for (uint8_t *at = plane; at < plane + bytes; at += k.bytes) {
        const int signed_levels = k.levels == KF_LEVELS_SIX || k.levels == KF_LEVELS_SPLIT;
        const uint32_t level = signed_levels ? 33 : 1;
        const float d = kf_exp2((int)(next(seed) % 4) - 2);
        memset(at + k.at, 0, level_bytes[k.levels]);
        for (unsigned j = 0; k.levels != KF_LEVELS_NONE && j < k.elements / s.group; j++)
            kf_level_put(k.levels, at + k.at, j, level, j & 1);
        kf_super_put_half(at + k.d, k.book ? d / 8 : d);
        if (k.m) kf_super_put_half(at + k.m, d);
    }
}

#endif
