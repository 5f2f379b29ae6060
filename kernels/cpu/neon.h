/* neon.h - the vectors of 64-bit Arm in the words of gemv_rows.h. */
#ifndef KERF_NEON_H
#define KERF_NEON_H

#include <arm_neon.h>
#include <stdlib.h>

#include "scalar/bits.h"

#define V 4
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef float32x4_t vf;
typedef uint32x4_t vi;
typedef uint16x4_t vh;
typedef uint8x16x4_t vt;

KF_HD vf vf_load(const float *p)
{
    return vld1q_f32(p);
}
KF_HD void vf_store(float *p, vf a)
{
    vst1q_f32(p, a);
}
KF_HD vf vf_set1(float x)
{
    return vdupq_n_f32(x);
}
KF_HD vf vf_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}
KF_HD vf vf_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}
KF_HD vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}
KF_HD vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}
KF_HD vf vf_of_int(vi a)
{
    return vcvtq_f32_s32(vreinterpretq_s32_u32(a));
}
KF_HD vf vf_of_half(vh a)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(a));
}
KF_HD vf vf_of_bits(vi a)
{
    return vreinterpretq_f32_u32(a);
}
KF_HD vi vi_load(const uint8_t *p)
{
    return vreinterpretq_u32_u8(vld1q_u8(p));
}
KF_HD vi vi_set1(int x)
{
    return vdupq_n_u32((uint32_t)x);
}
KF_HD vi vi_shl(vi a, int n)
{
    return vshlq_u32(a, vdupq_n_s32(n));
}
KF_HD vi vi_shr(vi a, int n)
{
    return vshlq_u32(a, vdupq_n_s32(-n));
}
KF_HD vi vi_and(vi a, vi b)
{
    return vandq_u32(a, b);
}
KF_HD vi vi_or(vi a, vi b)
{
    return vorrq_u32(a, b);
}
KF_HD vi vi_shr_lanes(vi a, int n)
{
    static const int32_t lane[V] = {0, -1, -2, -3};
    return vshlq_u32(a, vaddq_s32(vld1q_s32(lane), vdupq_n_s32(-n)));
}
KF_HD vi vi_load_bytes(const uint8_t *p)
{
    uint32_t bytes;
    memcpy(&bytes, p, 4);
    return vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(bytes)))));
}
KF_HD vi vi_of_bytes(const uint64_t *words, unsigned j)
{
    const uint64_t bytes = words[j / 8] >> j % 8 * 8 & 0xffffffff;
    return vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
}
KF_HD vi vi_max(vi a, vi b)
{
    return vmaxq_u32(a, b);
}
KF_HD vi vi_shr_each(vi a, const uint32_t n[V])
{
    return vshlq_u32(a, vnegq_s32(vreinterpretq_s32_u32(vld1q_u32(n))));
}
/* 8 bytes, or `two` of them, `gap` apart. */
KF_HD uint8x16_t eight_or_two(const uint8_t *p, int two, size_t gap)
{
    return vcombine_u8(vld1_u8(p), vld1_u8(two ? p + gap : p));
}
KF_HD vi vi_place(const uint8_t *p, int two, size_t gap, vi place)
{
    return vreinterpretq_u32_u8(vqtbl1q_u8(eight_or_two(p, two, gap), vreinterpretq_u8_u32(place)));
}
KF_HD vh vh_place(const uint8_t *p, int two, size_t gap, vh place)
{
    return vreinterpret_u16_u8(vqtbl1_u8(eight_or_two(p, two, gap), vreinterpret_u8_u16(place)));
}
KF_HD vh vh_half_down(vh a)
{
    return vreinterpret_u16_s16(vshr_n_s16(vreinterpret_s16_u16(a), 1));
}
KF_HD vh vh_max16(vh a, vh b)
{
    return vmax_u16(a, b);
}
KF_HD int vh_any_above(vh a, uint16_t x)
{
    return vmaxv_u16(a) >= x;
}
KF_HD vh vh_load(const uint8_t *p)
{
    return vreinterpret_u16_u8(vld1_u8(p));
}
KF_HD vh vh_set1(int16_t x)
{
    return vdup_n_u16((uint16_t)x);
}
KF_HD vh vh_set32(int32_t x)
{
    return vreinterpret_u16_s32(vdup_n_s32(x));
}
KF_HD vh vh_and(vh a, vh b)
{
    return vand_u16(a, b);
}
KF_HD vh vh_or(vh a, vh b)
{
    return vorr_u16(a, b);
}
KF_HD vh vh_shl16(vh a, int n)
{
    return vshl_u16(a, vdup_n_s16((int16_t)n));
}

/* Byte j of each lane at its top. */
KF_HD vi vi_top_byte(vi a, int j)
{
    return vandq_u32(vi_shl(a, 24 - 8 * j), vdupq_n_u32(0xff000000));
}

KF_HD vh vh_shl32(vh a, int n)
{
    return vreinterpret_u16_u32(vshl_u32(vreinterpret_u32_u16(a), vdup_n_s32(n)));
}

KF_HD vh vh_sra16(vh a, unsigned n)
{
    return vreinterpret_u16_s16(vshl_s16(vreinterpret_s16_u16(a), vdup_n_s16((int16_t) - (int)n)));
}

KF_HD vh vh_max8(vh a, vh b)
{
    return vreinterpret_u16_u8(vmax_u8(vreinterpret_u8_u16(a), vreinterpret_u8_u16(b)));
}

KF_HD int vh_has8(vh a, uint8_t x)
{
    return vmaxv_u8(vceq_u8(vreinterpret_u8_u16(a), vdup_n_u8(x))) != 0;
}

KF_HD vf pick_where(vf a, vh words, vh equal, float x)
{
    vi all = vreinterpretq_u32_s32(vmovl_s16(vreinterpret_s16_u16(vceq_u16(words, equal))));
    return vbslq_f32(all, vf_set1(x), a);
}

KF_HD vf vf_spread_bytes(const uint8_t *p, uint16_t mask, const float last[2])
{
    uint16_t w[4];
    UNROLL for (int i = 0; i < 4; i++) w[i] = (uint16_t)(p[i] << 8);
    vh top = vld1_u16(w);
    vf half = vf_of_half(vh_and(vh_sra16(top, 1), vdup_n_u16(mask)));
    vf scale = pick_where(half, top, vdup_n_u16(0x7f00), last[0]);
    return pick_where(scale, top, vdup_n_u16(0xff00), last[1]);
}

/* Bytes of lane i[l] of 16 lanes. */
KF_HD uint8x16_t lane_bytes(vi i)
{
    vi four = vmulq_u32(vandq_u32(i, vdupq_n_u32(15)), vdupq_n_u32(0x04040404));
    return vreinterpretq_u8_u32(vaddq_u32(four, vdupq_n_u32(0x03020100)));
}

KF_HD vf vf_two(float a, float b)
{
    return vcombine_f32(vdup_n_f32(a), vdup_n_f32(b));
}
KF_HD vf vf_spread(const float *p, vi i)
{
    uint8x16_t all = vreinterpretq_u8_f32(vld1q_f32(p));
    return vreinterpretq_f32_u8(vqtbl1q_u8(all, lane_bytes(i)));
}

KF_HD vt vt_load(const float *p)
{
    vt t;
    UNROLL for (int i = 0; i < 4; i++) t.val[i] = vreinterpretq_u8_f32(vld1q_f32(p + 4 * i));
    return t;
}

KF_HD vf vf_look_up(vt t, vi i)
{
    return vreinterpretq_f32_u8(vqtbl4q_u8(t, lane_bytes(i)));
}

/* No struct is smaller than a vector. */
KF_HD vi vi_load_pieces(const uint8_t *p, size_t stride, size_t bytes)
{
    (void)stride, (void)bytes;
    return vi_load(p);
}

/* 6 bytes. */
KF_HD vh vh_load6(const uint8_t *p)
{
    uint64_t all = 0;
    memcpy(&all, p, 6);
    all = (all & 0xffffff) | (all & 0xffffff000000) << 8;
    return vcreate_u16(all);
}

KF_HD float vf_sum(vf a)
{
    return (vgetq_lane_f32(a, 0) + vgetq_lane_f32(a, 2)) +
           (vgetq_lane_f32(a, 1) + vgetq_lane_f32(a, 3));
}

#endif
