/* wide_bisect.h - codes that count thresholds below a number, found by halves: a step looks its
 * threshold up by the steps before it, in a table that fits a register. */
#ifndef KERF_WIDE_BISECT_H
#define KERF_WIDE_BISECT_H

#include "cpu/wide_fp4.h"

/* Room for looking up sixteen from the one that the last steps begin with. */
enum { THRESHOLDS = 24 };

/* How many of 2^bits - 1 rising thresholds, times `unit`, lie below x. */
KF_HD vec_u count_below(const float *threshold, int bits, vec_f unit, vec_f x)
{
    vec_u code = {0};
    for (uint32_t half = 1u << (bits - 1); half; half /= 2) {
        const float *from = threshold + half - 1;
        vec_f limit = bits == 3 ? vec_eighth(from, code) : vec_sixteenth(from, code);
        if (half == 1u << (bits - 1)) limit = vec_all(*from);
        code += (vec_u)(x > limit * unit) & half;
    }
    return code;
}

/* --- NF4 -----------------------------------------------------------------------------------------
 * kf_nf4_code without its clamp: no threshold lies beyond it. */

KF_HD void encode_nf4_block(const float *threshold, const uint8_t *src, const float *factor,
                            uint8_t *out)
{
    const vec_f one = vec_all(1);
    vec_u byte[4];
    for (size_t i = 0; i < 4; i++) {
        const vec_u pair = vec_load(src + VEC_BYTES * i);
        const vec_f f = vec_all(factor[2 * VEC_LANES * i / 64]);
        vec_u even = count_below(threshold, 4, one, (vec_f)(pair << 16) * f);
        vec_u odd = count_below(threshold, 4, one, (vec_f)(pair & 0xffff0000u) * f);
        byte[i] = even << 4 | odd;
    }
    vec_store_bytes(byte, out);
}

/* n elements of whole blocks of 64. ahead: read next. */
KF_STAGE void encode_nf4_pairs(const uint8_t *src, size_t n, const float *factor,
                               const uint8_t *ahead, uint8_t *out)
{
    float threshold[THRESHOLDS] = {0};
    size_t at = 0;
    for (uint32_t i = 0; i < 15; i++) threshold[i] = (kf_nf4_entry(i) + kf_nf4_entry(i + 1)) * 0.5f;
    for (; at + BLOCK <= n; at += BLOCK) {
        prefetch(ahead + 2 * at, 2 * BLOCK);
        encode_nf4_block(threshold, src + 2 * at, factor + at / 64, out + at / 2);
    }
    if (at < n) {
        uint8_t in[2 * BLOCK] = {0}, last[BLOCK / 2];
        memcpy(in, src + 2 * at, 2 * (n - at));
        encode_nf4_block(threshold, in, factor + at / 64, last);
        memcpy(out + at / 2, last, (n - at) / 2);
    }
}

/* --- GGUF's E2M1 ---------------------------------------------------------------------------------
 * kf_ggml_nearest: distances to neighbours are exact, so that the nearest number, the lower one of
 * two, is the number of midpoints below x. Only far above the largest number do rounded distances
 * become equal; under the largest scales numbers of codes are Inf, which is near nothing; and where
 * the scale is zero, all distances are equal. */

/* Whether no group has such an element or scale: their extremes are in the tile. The scale is twice
 * the factor. */
KF_HD int has_near_numbers(size_t groups, const kf_tile *t)
{
    uint32_t far = 0;
    for (size_t i = 0; i < groups; i++)
        far |= (t->factor[i] != 0 && float_of(t->high[i]) > t->factor[i] * 65536.0f) ||
               t->factor[i] > KF_F32_MAX / 12;
    return !far;
}

/* n elements of the tile in groups of `width`. */
KF_STAGE void encode_midpoints(size_t width, size_t n, kf_tile *t)
{
    static const float middle[THRESHOLDS] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    for (size_t at = 0; at < n; at += width) {
        const float d = t->factor[at / width] * 2;
        const vec_f unit = vec_all(d == 0 ? KF_F32_MAX : d);
        for (size_t i = at; i < at + width; i += VEC_LANES) {
            const vec_u x = vec_load(t->x + i);
            vec_u code = count_below(middle, 3, unit, (vec_f)(x & 0x7fffffffu));
            code |= (vec_u)(code != 0) & (x >> 28 & 8);
            vec_store(code, t->code + i);
        }
    }
}

#endif
