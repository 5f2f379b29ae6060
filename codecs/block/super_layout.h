/* super_layout.h - where numbers lie in ggml's blocks of two levels, and how they are decoded.
 *
 * Such a block is a byte struct with one fp16 scale d, for some types an fp16 minimum m, and codes;
 * blocks of 256 elements have small integer scales (and minima) for each group of 16 or 32 besides.
 * The bits of a code lie in up to two places, 1, 2 or 4 of them in each. In either place `run`
 * bytes in a row hold the first `run` elements in their lowest bits, the next `run` elements in the
 * bits above, until the bytes are full; then come the next bytes.
 *
 * What a code means, every operation rounded once to fp32:
 *
 *   q4_1 q5_1           code * d + m
 *   q5_0                (code - 16) * d
 *   iq4_nl              book[code] * d
 *   q2_k q4_k q5_k      (d * scale) * code - m * min
 *   q3_k q6_k           (d * scale) * (code - 4 or 32), scale signed
 *   iq4_xs              (d * scale) * book[code], scale signed
 *
 * Source: ggml 0.13, dequantize_row_*; gguf-py 0.19, quants.py. */
#ifndef KERF_SUPER_LAYOUT_H
#define KERF_SUPER_LAYOUT_H

#include "block/scale.h"

/* How the scales of groups are stored. */
typedef enum kf_levels {
    KF_LEVELS_NONE,  /* d (and m) alone                                                       */
    KF_LEVELS_BYTES, /* a scale in the low nibble of a byte, a minimum in the high one        */
    KF_LEVELS_PAIRS, /* eight scales and eight minima of 6 bits in 12 bytes                   */
    KF_LEVELS_SIX,   /* sixteen scales of 6 bits, less 32, in 12 bytes                        */
    KF_LEVELS_EIGHT, /* signed bytes                                                          */
    KF_LEVELS_SPLIT  /* eight scales of 6 bits, less 32: two high bits in a word, then nibbles */
} kf_levels;

/* Bits of codes: `bits` of each, in bytes from `at` on; 0 bits: none. */
typedef struct kf_place {
    unsigned at, bits, run;
} kf_place;

typedef struct kf_super {
    unsigned elements, bytes; /* of a block                    */
    unsigned d;               /* where its fp16 scale is       */
    unsigned m;               /* its fp16 minimum; 0: none     */
    kf_levels levels;
    unsigned at; /* of the levels                              */
    kf_place low, high;
    int middle; /* what is taken off a code                    */
    int book;   /* 1: codes are indices of kf_super_book       */
} kf_super;

/* One row for each type: the struct of ggml-common.h. */
#define KF_SUPER_ROWS(X)                                                                  \
    /* id     elements bytes  d    m  levels  at   low           high      middle book */ \
    X(Q4_1, 32, 20, 0, 2, NONE, 0, 4, 4, 16, 0, 0, 1, 0, 0)                               \
    X(Q5_0, 32, 22, 0, 0, NONE, 0, 6, 4, 16, 2, 1, 1, 16, 0)                              \
    X(Q5_1, 32, 24, 0, 2, NONE, 0, 8, 4, 16, 4, 1, 1, 0, 0)                               \
    X(IQ4_NL, 32, 18, 0, 0, NONE, 0, 2, 4, 16, 0, 0, 1, 0, 1)                             \
    X(Q2_K, 256, 84, 80, 82, BYTES, 0, 16, 2, 32, 0, 0, 1, 0, 0)                          \
    X(Q3_K, 256, 110, 108, 0, SIX, 96, 32, 2, 32, 0, 1, 32, 4, 0)                         \
    X(Q4_K, 256, 144, 0, 2, PAIRS, 4, 16, 4, 32, 0, 0, 1, 0, 0)                           \
    X(Q5_K, 256, 176, 0, 2, PAIRS, 4, 48, 4, 32, 16, 1, 32, 0, 0)                         \
    X(Q6_K, 256, 210, 208, 0, EIGHT, 192, 0, 4, 64, 128, 2, 32, 32, 0)                    \
    X(IQ4_XS, 256, 136, 0, 0, SPLIT, 2, 8, 4, 16, 0, 0, 1, 0, 1)

KF_HD_CONST kf_super kf_super_of(kf_spec s)
{
    kf_super none = {0, 0, 0, 0, KF_LEVELS_NONE, 0, {0, 0, 1}, {0, 0, 1}, 0, 0};
    switch ((int)s.id) {
#define X(ID, elements, bytes, d, m, levels, at, low, low_bits, low_run, high, high_bits, \
          high_run, middle, book)                                                         \
    case KERF_FORMAT_##ID: {                                                              \
        kf_super row = {elements,                                                         \
                        bytes,                                                            \
                        d,                                                                \
                        m,                                                                \
                        KF_LEVELS_##levels,                                               \
                        at,                                                               \
                        {low, low_bits, low_run},                                         \
                        {high, high_bits, high_run},                                      \
                        middle,                                                           \
                        book};                                                            \
        return row;                                                                       \
    }
        KF_SUPER_ROWS(X)
#undef X
    }
    return none;
}

/* What 4-bit codes of iq4_nl and iq4_xs stand for. */
KF_HD int kf_super_book(unsigned code)
{
    KF_TABLE signed char book[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
    return book[code & 15];
}

KF_HD float kf_super_half(const uint8_t *p)
{
    return kf_f16_decode((uint16_t)(p[0] | p[1] << 8));
}

/* --- codes ---------------------------------------------------------------------------------------
 */

/* The byte, from p.at on, and the bit in it where the bits of element i begin. */
KF_HD_CONST unsigned kf_place_byte(kf_place p, unsigned i)
{
    const unsigned span = p.bits ? p.run * (8 / p.bits) : 1;
    return p.at + i / span * p.run + i % span % p.run;
}

KF_HD_CONST unsigned kf_place_shift(kf_place p, unsigned i)
{
    const unsigned span = p.bits ? p.run * (8 / p.bits) : 1;
    return i % span / p.run * p.bits;
}

KF_HD uint32_t kf_place_get(kf_place p, const uint8_t *block, unsigned i)
{
    if (p.bits == 0) return 0;
    return (uint32_t)block[kf_place_byte(p, i)] >> kf_place_shift(p, i) & ((1u << p.bits) - 1);
}

/* Into bytes that were zero. */
KF_HD void kf_place_put(kf_place p, uint8_t *block, unsigned i, uint32_t bits)
{
    if (p.bits == 0) return;
    uint8_t *byte = block + kf_place_byte(p, i);
    *byte = (uint8_t)(*byte | (bits & ((1u << p.bits) - 1)) << kf_place_shift(p, i));
}

KF_HD uint32_t kf_super_get(kf_super k, const uint8_t *block, unsigned i)
{
    return kf_place_get(k.low, block, i) | kf_place_get(k.high, block, i) << k.low.bits;
}

KF_HD void kf_super_put(kf_super k, uint8_t *block, unsigned i, uint32_t code)
{
    kf_place_put(k.low, block, i, code);
    kf_place_put(k.high, block, i, code >> k.low.bits);
}

/* --- scales of groups ----------------------------------------------------------------------------
 */

/* Scale and minimum of group j, as they are stored: p is where the levels begin. */
KF_HD int kf_level_scale(kf_levels levels, const uint8_t *p, unsigned j)
{
    switch (levels) {
    case KF_LEVELS_BYTES: return p[j] & 15;
    case KF_LEVELS_PAIRS: return j < 4 ? p[j] & 63 : (p[j + 4] & 15) | p[j - 4] >> 6 << 4;
    case KF_LEVELS_SIX:
        return ((j < 8 ? p[j] & 15 : p[j - 8] >> 4) | (p[8 + j % 4] >> 2 * (j / 4) & 3) << 4) - 32;
    case KF_LEVELS_EIGHT: return (int)(p[j] ^ 0x80u) - 0x80;
    case KF_LEVELS_SPLIT:
        return ((p[2 + j / 2] >> 4 * (j % 2) & 15) | (p[j / 4] >> 2 * (j % 4) & 3) << 4) - 32;
    case KF_LEVELS_NONE: break;
    }
    return 1;
}

KF_HD int kf_level_min(kf_levels levels, const uint8_t *p, unsigned j)
{
    if (levels == KF_LEVELS_BYTES) return p[j] >> 4;
    return j < 4 ? p[j + 4] & 63 : p[j + 4] >> 4 | p[j] >> 6 << 4;
}

/* Into bytes that were zero. Less 32 where they are read so. */
KF_HD void kf_level_put(kf_levels levels, uint8_t *p, unsigned j, uint32_t scale, uint32_t min)
{
    uint8_t *a = p, *b = p;
    uint32_t first = scale, second = 0;
    switch (levels) {
    case KF_LEVELS_NONE: return;
    case KF_LEVELS_BYTES:
        a = b = p + j;
        second = min << 4;
        break;
    case KF_LEVELS_EIGHT: a = b = p + j; break;
    case KF_LEVELS_SIX:
        a = p + j % 8;
        b = p + 8 + j % 4;
        first = (scale & 15) << j / 8 * 4;
        second = (scale >> 4 & 3) << j / 4 * 2;
        break;
    case KF_LEVELS_SPLIT:
        a = p + 2 + j / 2;
        b = p + j / 4;
        first = (scale & 15) << j % 2 * 4;
        second = (scale >> 4 & 3) << j % 4 * 2;
        break;
    case KF_LEVELS_PAIRS:
        if (j < 4) {
            a = p + j;
            b = p + j + 4;
            second = min;
            break;
        }
        p[j + 4] = (uint8_t)((scale & 15) | (min & 15) << 4);
        a = p + j - 4;
        b = p + j;
        first = scale >> 4 << 6;
        second = min >> 4 << 6;
        break;
    }
    *a = (uint8_t)(*a | first);
    *b = (uint8_t)(*b | second);
}

/* --- decode --------------------------------------------------------------------------------------
 */

/* How the codes of a group become numbers. */
KF_HD kf_dequant kf_super_group(kf_super k, const uint8_t *block, unsigned j)
{
    const float d = kf_super_half(block + k.d);
    kf_dequant q = {d, 0, 0};
    if (k.levels != KF_LEVELS_NONE) q.scale = d * (float)kf_level_scale(k.levels, block + k.at, j);
    if (k.m == 0) return q;
    q.offset = kf_super_half(block + k.m);
    if (k.levels != KF_LEVELS_NONE)
        q.offset = -(q.offset * (float)kf_level_min(k.levels, block + k.at, j));
    return q;
}

KF_HD float kf_super_number(kf_super k, kf_dequant q, uint32_t code)
{
    const float y = q.scale * (float)(k.book ? kf_super_book(code) : (int)code - k.middle);
    return k.m ? y + q.offset : y; /* a sum would turn -0 into +0 */
}

#endif
