/* wide_e2m1.h - sixteen numbers under a scale of E2M1: how far their codes are from them, and these
 * errors added up. Steps of wide_fp4.h and wide_search.h that are written by hand, as those of
 * wide_vec.h are. */
#ifndef KERF_WIDE_E2M1_H
#define KERF_WIDE_E2M1_H

#include "cpu/wide_vec.h"

#if KF_VEC_TURN && defined(__AVX512BW__)

/* Sixteen rows of sixteen become columns. */
KF_HD void vec_turn(const float *x, float *out)
{
    __m512 r[16], s[16];
    for (int i = 0; i < 16; i++) r[i] = _mm512_loadu_ps(x + 16 * i);
    for (int i = 0; i < 16; i += 2) {
        s[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm512_shuffle_ps(s[i], s[i + 2], 0xee);
        r[i + 2] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) { /* quarters: even ones first, then odd ones */
        __m512 a = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        __m512 b = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        __m512 c = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        __m512 d = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
        _mm512_storeu_ps(out + 16 * i, _mm512_shuffle_f32x4(a, b, 0x88));
        _mm512_storeu_ps(out + 16 * (i + 4), _mm512_shuffle_f32x4(c, d, 0x88));
        _mm512_storeu_ps(out + 16 * (i + 8), _mm512_shuffle_f32x4(a, b, 0xdd));
        _mm512_storeu_ps(out + 16 * (i + 12), _mm512_shuffle_f32x4(c, d, 0xdd));
    }
}

#elif KF_VEC_TURN && defined(__AVX2__)

/* Eight rows of eight become columns; rows lie 16 apart on both sides. */
KF_HD void turn_eight(const float *x, float *out)
{
    __m256 r[8], s[8];
    for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(x + 16 * i);
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(out + 16 * i, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(out + 16 * (i + 4), _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

/* Sixteen rows of sixteen become columns. */
KF_HD void vec_turn(const float *x, float *out)
{
    turn_eight(x, out);
    turn_eight(x + 8, out + 128);
    turn_eight(x + 128, out + 8);
    turn_eight(x + 136, out + 136);
}

#elif KF_VEC_TURN

KF_HD float32x4_t halves_of(float32x4_t a, float32x4_t b, int high)
{
    float64x2_t x = vreinterpretq_f64_f32(a), y = vreinterpretq_f64_f32(b);
    return vreinterpretq_f32_f64(high ? vtrn2q_f64(x, y) : vtrn1q_f64(x, y));
}

/* Sixteen rows of sixteen become columns. */
KF_HD void vec_turn(const float *x, float *out)
{
    for (int i = 0; i < 16; i += 4) {
        for (int k = 0; k < 16; k += 4) {
            float32x4_t a = vld1q_f32(x + 16 * i + k), b = vld1q_f32(x + 16 * (i + 1) + k);
            float32x4_t c = vld1q_f32(x + 16 * (i + 2) + k), d = vld1q_f32(x + 16 * (i + 3) + k);
            float32x4_t ab = vtrn1q_f32(a, b), cd = vtrn1q_f32(c, d);
            float32x4_t ba = vtrn2q_f32(a, b), dc = vtrn2q_f32(c, d);
            vst1q_f32(out + 16 * k + i, halves_of(ab, cd, 0));
            vst1q_f32(out + 16 * (k + 1) + i, halves_of(ba, dc, 0));
            vst1q_f32(out + 16 * (k + 2) + i, halves_of(ab, cd, 1));
            vst1q_f32(out + 16 * (k + 3) + i, halves_of(ba, dc, 1));
        }
    }
}

#endif

#if KF_VEC_PAIRS

/* What a number in a binade of E2M1 is added to, so that the sum's last bits are its code: below 2
 * a step is 1/2, from there 1, from 4 on 2, and a step of fp32 is as wide from these numbers on. A
 * tie goes to the even code, as the addition rounds. Indexed by the last bits of the exponent. */
static const float e2m1_base[8] = {8388610.0f, 16777224.0f, 0,          0,
                                   4194304.0f, 4194304.0f,  4194304.0f, 4194304.0f};

/* Of numbers that are neither tiny nor above 6; magnitudes below 1/8 are zeros as well. */
static const float e2m1_least = 0.125f, e2m1_largest = 6.0f;

#if defined(__AVX512BW__)

/* Sixteen elements under a scale: how far values[the magnitude of the code that kf_e2m1_encode has
 * for x[i] * factor] is from |x[i]|, or the square of this. */
KF_HD void vec_try_e2m1(const float *x, float factor, const float *values, int squares,
                        float *error)
{
    const __m512 base = _mm512_broadcast_f32x8(_mm256_loadu_ps(e2m1_base));
    const __m512 value = _mm512_broadcast_f32x8(_mm256_loadu_ps(values));
    __m512 a = _mm512_abs_ps(_mm512_loadu_ps(x));
    __m512 y = _mm512_mul_ps(a, _mm512_set1_ps(factor));
    y = _mm512_max_ps(y, _mm512_set1_ps(e2m1_least));
    y = _mm512_min_ps(y, _mm512_set1_ps(e2m1_largest));
    __m512i binade = _mm512_srli_epi32(_mm512_castps_si512(y), 23);
    __m512i c = _mm512_castps_si512(_mm512_add_ps(y, _mm512_permutexvar_ps(binade, base)));
    __m512 d = _mm512_sub_ps(_mm512_permutexvar_ps(c, value), a);
    _mm512_storeu_ps(error, squares ? _mm512_mul_ps(d, d) : _mm512_abs_ps(d));
}

/* Adds up each of sixteen columns from its top, or finds its largest. */
KF_HD void vec_sum_columns(int largest, const float *x, float *sum)
{
    __m512 v = _mm512_loadu_ps(x);
    for (int i = 1; i < 16; i++) {
        __m512 next = _mm512_loadu_ps(x + 16 * i);
        v = largest ? _mm512_max_ps(v, next) : _mm512_add_ps(v, next);
    }
    _mm512_storeu_ps(sum, v);
}

#elif defined(__AVX2__)

KF_HD void vec_try_e2m1(const float *x, float factor, const float *values, int squares,
                        float *error)
{
    const __m256 base = _mm256_loadu_ps(e2m1_base), value = _mm256_loadu_ps(values);
    const __m256 sign = _mm256_set1_ps(-0.0f);
    for (int k = 0; k < KF_VEC; k += 8) {
        __m256 a = _mm256_andnot_ps(sign, _mm256_loadu_ps(x + k));
        __m256 y = _mm256_mul_ps(a, _mm256_set1_ps(factor));
        y = _mm256_max_ps(y, _mm256_set1_ps(e2m1_least));
        y = _mm256_min_ps(y, _mm256_set1_ps(e2m1_largest));
        __m256i binade = _mm256_srli_epi32(_mm256_castps_si256(y), 23);
        __m256 c = _mm256_add_ps(y, _mm256_permutevar8x32_ps(base, binade));
        __m256 d = _mm256_permutevar8x32_ps(value, _mm256_castps_si256(c));
        d = _mm256_sub_ps(d, a);
        _mm256_storeu_ps(error + k, squares ? _mm256_mul_ps(d, d) : _mm256_andnot_ps(sign, d));
    }
}

KF_HD void vec_sum_columns(int largest, const float *x, float *sum)
{
    __m256 v = _mm256_loadu_ps(x), w = _mm256_loadu_ps(x + 8);
    for (int i = 1; i < 16; i++) {
        __m256 a = _mm256_loadu_ps(x + 16 * i), b = _mm256_loadu_ps(x + 16 * i + 8);
        v = largest ? _mm256_max_ps(v, a) : _mm256_add_ps(v, a);
        w = largest ? _mm256_max_ps(w, b) : _mm256_add_ps(w, b);
    }
    _mm256_storeu_ps(sum, v);
    _mm256_storeu_ps(sum + 8, w);
}

#else

/* table[i], of which the last three bits count: a byte is four times that, and its own place. */
KF_HD float32x4_t pick_eighth(const float *table, uint32x4_t i)
{
    uint8x16x2_t t = {{vld1q_u8((const uint8_t *)table), vld1q_u8((const uint8_t *)(table + 4))}};
    i = vmulq_n_u32(vandq_u32(i, vdupq_n_u32(7)), 0x04040404u);
    i = vaddq_u32(i, vdupq_n_u32(0x03020100u));
    return vreinterpretq_f32_u8(vqtbl2q_u8(t, vreinterpretq_u8_u32(i)));
}

KF_HD void vec_try_e2m1(const float *x, float factor, const float *values, int squares,
                        float *error)
{
    for (int k = 0; k < KF_VEC; k += 4) {
        float32x4_t a = vabsq_f32(vld1q_f32(x + k)), y = vmulq_n_f32(a, factor);
        y = vminq_f32(vmaxq_f32(y, vdupq_n_f32(e2m1_least)), vdupq_n_f32(e2m1_largest));
        uint32x4_t binade = vshrq_n_u32(vreinterpretq_u32_f32(y), 23);
        uint32x4_t c = vreinterpretq_u32_f32(vaddq_f32(y, pick_eighth(e2m1_base, binade)));
        float32x4_t d = vsubq_f32(pick_eighth(values, c), a);
        vst1q_f32(error + k, squares ? vmulq_f32(d, d) : vabsq_f32(d));
    }
}

KF_HD void vec_sum_columns(int largest, const float *x, float *sum)
{
    for (int k = 0; k < 16; k += 4) {
        float32x4_t v = vld1q_f32(x + k);
        for (int i = 1; i < 16; i++) {
            float32x4_t next = vld1q_f32(x + 16 * i + k);
            v = largest ? vmaxq_f32(v, next) : vaddq_f32(v, next);
        }
        vst1q_f32(sum + k, v);
    }
}

#endif

#endif

#endif
