/* neonint.h - codes of 2 and 4 bits times 16-bit integers on 64-bit Arm, in the words of
 * gemv_rows.h.
 *
 * Arm multiplies bytes and adds them up in dwords. So an integer of x is two signed bytes,
 * 256 * upper + lower, and so is a number of a code book. Whatever lane a code lies in, the sum has
 * it too. Sums of 8 products are at most 8 * 128 * 128, of 16 with codes of 2 bits as much. */
#ifndef KERF_NEONINT_H
#define KERF_NEONINT_H

#include "cpu/gemv_layout.h"
#include "cpu/neon.h"

/* Of lower codes and of upper ones: the numbers, or their upper and lower bytes. Codes of 2 bits
 * have four places. */
typedef struct vw {
    int8x16_t v[4], low[2];
} vw;
typedef struct vw_tables {
    int8x16_t high, low;
} vw_tables;

#define INTEGERS KF_KIND_BYTES
#define vi_load6 vi_load /* never: 6 bits do not fit bytes */
#define UNIT_OF(decode) 1.0f

/* n = 256 * upper + lower, both signed bytes. */
static inline int8_t upper_byte(int16_t n)
{
    return (int8_t)((n + 128) >> 8);
}
static inline int8_t lower_byte(int16_t n)
{
    return (int8_t)(n - 256 * upper_byte(n));
}

KF_HD vw_tables vw_tables_of(const kf_gemv_layout *l)
{
    int8_t low[16], high[16];
    for (int i = 0; i < 16; i++) {
        high[i] = upper_byte(l->whole_table[i]);
        low[i] = lower_byte(l->whole_table[i]);
    }
    vw_tables t = {vld1q_s8(high), vld1q_s8(low)};
    return t;
}

typedef int8x16_t vz; /* zero points of lanes, as bytes */

typedef int8x16_t vz_table;

KF_HD vz_table vz_table_of(const float zero_of[16])
{
    int8_t bytes[16];
    for (int i = 0; i < 16; i++) bytes[i] = (int8_t)zero_of[i];
    return vld1q_s8(bytes);
}

/* By the low 4 bits of bytes. */
KF_HD vz vz_look_up(vz_table t, vi codes)
{
    return vqtbl1q_s8(t, vandq_u8(vreinterpretq_u8_u32(codes), vdupq_n_u8(15)));
}

KF_HD vz vz_set1(float zero)
{
    return vdupq_n_s8((int8_t)zero);
}

KF_HD vz vz_of(vf zero)
{
    return vreinterpretq_s8_u32(vmulq_u32(vcvtq_u32_f32(zero), vdupq_n_u32(0x01010101)));
}

KF_HD vw vw_of(const int decode, const int zeros, const vw_tables *t, vi codes, vz zero)
{
    uint8x16_t bytes = vreinterpretq_u8_u32(codes);
    uint8x16_t q[2] = {vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8(bytes, 4)};
    vw w;
    if (decode == KF_DECODE_INT2) {
        const uint8x16_t most = vdupq_n_u8(3);
        const uint8x16_t code[4] = {vandq_u8(bytes, most), vandq_u8(vshrq_n_u8(bytes, 2), most),
                                    vandq_u8(q[1], most), vshrq_n_u8(bytes, 6)};
        UNROLL for (int i = 0; i < 4; i++)
        {
            w.v[i] = vqtbl1q_s8(t->low, code[i]);
            if (zeros) w.v[i] = vsubq_s8(w.v[i], zero);
        }
        return w;
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        w.low[i] = vqtbl1q_s8(t->low, q[i]);
        w.v[i] = decode == KF_DECODE_BOOK4 ? vqtbl1q_s8(t->high, q[i]) : w.low[i];
        if (!zeros) continue;
        w.v[i] = vsubq_s8(w.v[i], zero);
    }
    return w;
}

/* Lane by lane: the products of four bytes of w[0] and x[0] and of w[1] and x[1]. */
KF_HD int32x4_t dot_bytes(const int8x16_t w[2], const int8_t *x)
{
    int8x16_t a = vld1q_s8(x), b = vld1q_s8(x + 16);
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(vdotq_s32(vdupq_n_s32(0), w[0], a), w[1], b);
#else
    int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(w[0]), vget_low_s8(a)));
    int32x4_t high = vpaddlq_s16(vmull_high_s8(w[0], a));
    low = vpadalq_s16(low, vmull_s8(vget_low_s8(w[1]), vget_low_s8(b)));
    high = vpadalq_s16(high, vmull_high_s8(w[1], b));
    return vpaddq_s32(low, high);
#endif
}

KF_HD vf vw_dot(const int decode, const vw *w, const int16_t *x)
{
    const int8_t *upper = (const int8_t *)x, *lower = upper + (decode == KF_DECODE_INT2 ? 64 : 32);
    int32x4_t top = dot_bytes(w->v, upper), mid = dot_bytes(w->v, lower);
    if (decode == KF_DECODE_INT2) {
        top = vaddq_s32(top, dot_bytes(w->v + 2, upper + 32));
        mid = vaddq_s32(mid, dot_bytes(w->v + 2, lower + 32));
    }
    if (decode != KF_DECODE_BOOK4) return vcvtq_f32_s32(vaddq_s32(vshlq_n_s32(top, 8), mid));
    mid = vaddq_s32(mid, dot_bytes(w->low, upper));
    vf most = vcvtq_f32_s32(vaddq_s32(vshlq_n_s32(top, 8), mid));
    return vf_fma(most, vf_set1(256), vcvtq_f32_s32(dot_bytes(w->low, lower)));
}

static inline void place_integers(const kf_gemv_layout *l, const int16_t *n, int16_t *out)
{
    int8_t *bytes = (int8_t *)out;
    for (size_t i = 0; i < l->step; i++) {
        bytes[i] = upper_byte(n[l->order[i]]);
        bytes[l->step + i] = lower_byte(n[l->order[i]]);
    }
}

#endif
