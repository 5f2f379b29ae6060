/* gemv_shuffle.h - eight E2M1 codes of a word in the order that a GPU decodes with least work.
 *
 * A code's number, 2^14 times too small, is the half that has its sign in bit 15 and its other bits
 * in 11 to 9: four bits of sixteen, the same in both halves of a word. In the order of checkpoints
 * no shift brings a code's bits to all four at once. Shuffled, a word w is such that each pair of
 * halves is one mask away from w, from w shifted, or from both added without carry:
 *
 *   elements 0 and 1    w << 6             2 and 3    w << 9
 *   elements 4 and 5    w ^ w >> 3         6 and 7    w ^ w << 2
 *
 * which is eight instructions for eight codes, four of them by the pipe that shifts left by
 * multiplying, where checkpoint order takes eleven, nine of them by the other. With three shifts
 * there is no such map that has an inverse, with four there are several; this is one of them. It is
 * linear over bits, so that zeros stay zeros. */
#ifndef KERF_GEMV_SHUFFLE_H
#define KERF_GEMV_SHUFFLE_H

#include "scalar/bits.h"

/* Pairs of halves: element 2 i below, 2 i + 1 above. */
KF_HD void kf_shuffled_pairs(uint32_t w, uint32_t p[4])
{
    const uint32_t halves = 0x8e008e00u;
    p[0] = w << 6 & halves;
    p[1] = w << 9 & halves;
    p[2] = (w ^ w >> 3) & halves;
    p[3] = (w ^ w << 2) & halves;
}

/* Each line finds what one kind of bit of w is from those above. */
KF_HD uint32_t kf_shuffle_word(uint32_t codes)
{
    uint32_t p[4];
    for (int i = 0; i < 4; i++) {
        uint32_t below = codes >> 8 * i & 15, above = codes >> (8 * i + 4) & 15;
        uint32_t two = below | above << 16;
        p[i] = (two & 0x00080008u) << 12 | (two & 0x00070007u) << 9;
    }
    uint32_t w = p[0] >> 6 | p[1] >> 9;
    w |= (p[3] ^ w << 2) & 0x08000800u;
    w |= ((p[3] ^ w) & 0x02000200u) >> 2;
    w |= ((p[2] ^ w) & 0x0a000a00u) << 3;
    w |= (p[2] ^ w >> 3) & 0x80008000u;
    w |= ((p[3] ^ w) & 0x80008000u) >> 2;
    w |= (p[2] ^ w >> 3) & 0x04000400u;
    w |= ((p[3] ^ w) & 0x04000400u) >> 2;
    return w;
}

KF_HD uint32_t kf_unshuffle_word(uint32_t w)
{
    uint32_t p[4], codes = 0;
    kf_shuffled_pairs(w, p);
    for (int i = 0; i < 4; i++) {
        uint32_t two = p[i] >> 12 & 0x00080008u;
        two |= p[i] >> 9 & 0x00070007u;
        codes |= ((two & 15) | two >> 16 << 4) << 8 * i;
    }
    return codes;
}

#endif
