/* neonlevels.h - bytes times bytes on 64-bit Arm, for blocks of two levels, in the words of
 * gemv_rows.h. Both have signs, so that the middle is taken off codes themselves. */
#ifndef KERF_NEONLEVELS_H
#define KERF_NEONLEVELS_H

#include "cpu/neon.h"

#define BASE 256
#define SIGNED_CODES 1
#define BOOK_BIAS 0
#define PRODUCTS_ARE_WORDS 0
#define TAKES_WORDS 0

KF_HD vi vi_bytes(int n)
{
    return vreinterpretq_u32_u8(vdupq_n_u8((uint8_t)n));
}
KF_HD vi vi_load16(const uint8_t *p)
{
    return vi_load(p);
}
KF_HD vi vi_add(vi a, vi b)
{
    return vaddq_u32(a, b);
}
KF_HD vi vi_sub(vi a, vi b)
{
    return vsubq_u32(a, b);
}
KF_HD vi vi_mul(vi a, vi b)
{
    return vmulq_u32(a, b);
}
KF_HD vi vi_times_base(vi a)
{
    return vshlq_n_u32(a, 8);
}
KF_HD vi vi_sub_bytes(vi a, vi b)
{
    return vreinterpretq_u32_u8(vsubq_u8(vreinterpretq_u8_u32(a), vreinterpretq_u8_u32(b)));
}
KF_HD vi vi_book(vi table, vi codes)
{
    return vreinterpretq_u32_u8(
        vqtbl1q_u8(vreinterpretq_u8_u32(table), vreinterpretq_u8_u32(codes)));
}
KF_HD vi vi_add16(vi a, const uint8_t *p, size_t stride, unsigned v)
{
    const uint8x16_t one = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
    const uint8x16_t both = vcombine_u8(vdup_n_u8(p[2 * v]), vdup_n_u8(p[2 * v + 1]));
    (void)stride;
    return vi_or(a, vi_and(vreinterpretq_u32_u8(vtstq_u8(both, one)), vi_bytes(16)));
}

KF_HD vi vi_dot(vi sum, vi codes, const uint8_t *x)
{
    const int8x16_t a = vreinterpretq_s8_u32(codes), b = vreinterpretq_s8_u8(vld1q_u8(x));
    const int32x4_t before = vreinterpretq_s32_u32(sum);
#if defined(__ARM_FEATURE_DOTPROD)
    return vreinterpretq_u32_s32(vdotq_s32(before, a, b));
#else
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    const int32x4_t high = vpaddlq_s16(vmull_high_s8(a, b));
    return vreinterpretq_u32_s32(vaddq_s32(before, vpaddq_s32(low, high)));
#endif
}
KF_HD vi vi_dot_level(vi sum, vi codes, const uint8_t *x, vi level)
{
    return vmlaq_u32(sum, vi_dot(vi_set1(0), codes, x), level);
}

KF_HD vi vi_levels(uint64_t a, uint64_t b, int bias)
{
    const uint8x16_t all = vcombine_u8(vcreate_u8(a), vcreate_u8(b));
    return vreinterpretq_u32_u8(vsubq_u8(all, vdupq_n_u8((uint8_t)bias)));
}
KF_HD vi vi_level(vi levels, const uint8_t *place, int size, int is_signed)
{
    const vi all = vi_book(levels, vi_load(place));
    (void)size; /* 4 */
    if (!is_signed) return all;
    return vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(all), 24));
}
KF_HD vi vi_level_sums(vi levels, const uint8_t *p)
{
    (void)p; /* never: codes have signs */
    return levels;
}
KF_HD vf vf_halves(const uint8_t *p, size_t stride, vf *next)
{
    int16_t both[2];
    memcpy(both, p, 4);
    (void)stride; /* there is one */
    *next = vf_of_half(vh_set1(both[1]));
    return vf_of_half(vh_set1(both[0]));
}

#endif
