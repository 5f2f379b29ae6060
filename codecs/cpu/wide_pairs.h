/* wide_pairs.h - whole vectors, as wide as the processor has them, and what C has no word for.
 *
 * Arithmetic on them is that of the compiler's vector types. What is left are a few functions per
 * instruction set, so that an algorithm above them has one text for all. A lane has 32 bits: a
 * float, a word, or two neighbours of bfloat16, the even one in the lower half. */
#ifndef KERF_WIDE_PAIRS_H
#define KERF_WIDE_PAIRS_H

#include "cpu/wide_e2m1.h"
#include "cpu/wide_vec.h"

#if defined(__AVX512BW__)
#define VEC_BYTES 64
#elif defined(__AVX2__)
#define VEC_BYTES 32
#else
#define VEC_BYTES 16
#endif

enum { VEC_LANES = VEC_BYTES / 4 };

typedef float vec_f __attribute__((vector_size(VEC_BYTES)));
typedef uint32_t vec_u __attribute__((vector_size(VEC_BYTES)));
typedef int32_t vec_i __attribute__((vector_size(VEC_BYTES)));
typedef int16_t vec_h __attribute__((vector_size(VEC_BYTES)));

KF_HD vec_u vec_load(const void *p)
{
    vec_u v;
    memcpy(&v, p, sizeof v);
    return v;
}

KF_HD void vec_store(vec_u v, void *p)
{
    memcpy(p, &v, sizeof v);
}

KF_HD vec_f vec_all(float x)
{
    return x - (vec_f){0};
}

/* Bits of a where those of the mask are set, of b elsewhere. */
KF_HD vec_u vec_mix(uint32_t mask, vec_u a, vec_u b)
{
#if defined(__AVX512BW__)
    __m512i m = _mm512_set1_epi32((int)mask);
    return (vec_u)_mm512_ternarylogic_epi32(m, (__m512i)a, (__m512i)b, 0xca);
#else
    return (a & mask) | (b & ~mask);
#endif
}

/* Bit i is that of lane i, which is 0 or all ones. */
KF_HD uint32_t vec_bits(vec_u v)
{
#if defined(__AVX512BW__)
    return _mm512_movepi32_mask((__m512i)v);
#elif defined(__AVX2__)
    return (uint32_t)_mm256_movemask_ps((__m256)v);
#else
    const vec_u bit = {1, 2, 4, 8};
    return vaddvq_u32((uint32x4_t)(v & bit));
#endif
}

/* Sixteen bytes with one group of 32 codes or two of 16, the first half of each in low nibbles,
 * become codes in order. */
KF_HD void vec_order_halves(const uint8_t *in, size_t group, uint8_t *out)
{
#if defined(__AVX2__)
    const __m128i mask = _mm_set1_epi8(15), join = _mm_set1_epi16(16 << 8 | 1);
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)in);
    __m128i low = _mm_maddubs_epi16(_mm_and_si128(v, mask), join);
    __m128i high = _mm_maddubs_epi16(_mm_and_si128(_mm_srli_epi16(v, 4), mask), join);
    v = _mm_packus_epi16(low, high);
    if (group == 16) v = _mm_shuffle_epi32(v, 0xd8);
    _mm_storeu_si128((__m128i *)(void *)out, v);
#else
    uint8x16_t v = vld1q_u8(in), low = vandq_u8(v, vdupq_n_u8(15)), high = vshrq_n_u8(v, 4);
    v = vorrq_u8(vuzp1q_u8(low, high), vshlq_n_u8(vuzp2q_u8(low, high), 4));
    uint32x4_t w = vreinterpretq_u32_u8(v);
    if (group == 16) v = vreinterpretq_u8_u32(vzip1q_u32(w, vextq_u32(w, w, 2)));
    vst1q_u8(out, v);
#endif
}

#if defined(__AVX512BW__)

/* The larger of |x| and what is positive; the lesser of two. Nothing is NaN. */
KF_HD vec_f vec_larger_magnitude(vec_f x, float least)
{
    return (vec_f)_mm512_range_ps((__m512)x, _mm512_set1_ps(least), 11);
}

KF_HD vec_f vec_lesser(vec_f x, float largest)
{
    return (vec_f)_mm512_min_ps((__m512)x, _mm512_set1_ps(largest));
}

/* x, or the bound that it lies beyond. */
KF_HD vec_f vec_within(vec_f low, vec_f x, vec_f high)
{
    return (vec_f)_mm512_min_ps(_mm512_max_ps((__m512)x, (__m512)low), (__m512)high);
}

/* The nearest integer, ties to even. */
KF_HD vec_f vec_nearest(vec_f x)
{
    return (vec_f)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT);
}

/* table[i], of which the last three bits count. */
KF_HD vec_f vec_eighth(const float *table, vec_u i)
{
    __m512 t = _mm512_broadcast_f32x8(_mm256_loadu_ps(table));
    return (vec_f)_mm512_permutexvar_ps((__m512i)i, t);
}

/* The same of sixteen, and four bits. */
KF_HD vec_f vec_sixteenth(const float *table, vec_u i)
{
    return (vec_f)_mm512_permutexvar_ps((__m512i)i, _mm512_loadu_ps(table));
}

/* A byte for each lane. */
KF_HD vec_u vec_widen_bytes(const uint8_t *p)
{
    return (vec_u)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* x * y + z; how often it is rounded differs. */
KF_HD vec_f vec_about(vec_f x, vec_f y, vec_f z)
{
    return (vec_f)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
}

/* The larger ones of unsigned halves. */
KF_HD vec_u vec_larger_halves(vec_u a, vec_u b)
{
    return (vec_u)_mm512_max_epu16((__m512i)a, (__m512i)b);
}

KF_HD vec_h vec_magnitudes(vec_h a)
{
    return (vec_h)_mm512_abs_epi16((__m512i)a);
}

/* a * b * 2^-15, to nearest. */
KF_HD vec_h vec_scale_halves(vec_h a, vec_h b)
{
    return (vec_h)_mm512_mulhrs_epi16((__m512i)a, (__m512i)b);
}

/* Of each lane the sum of both products. */
KF_HD vec_i vec_dot(vec_h a, vec_h b)
{
    return (vec_i)_mm512_madd_epi16((__m512i)a, (__m512i)b);
}

/* table[i] for i below 32, entries being multiples of 256. */
KF_HD vec_h vec_of_32(const int16_t *table, vec_h i)
{
    return (vec_h)_mm512_permutexvar_epi16((__m512i)i, _mm512_loadu_si512(table));
}

/* The numbers of groups of 16, each for all of its pairs: those of a vector that begins with
 * element `at`. */
KF_HD vec_f vec_of_groups(const float *number, size_t at)
{
    const __m512i lane = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    __m128 two =
        _mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)(const void *)(number + at / 16)));
    return (vec_f)_mm512_permutexvar_ps(lane, _mm512_castps128_ps512(two));
}

/* The last bytes of all lanes. */
KF_HD void vec_store_bytes(const vec_u v[4], uint8_t *out)
{
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    __m512i a = _mm512_packus_epi32((__m512i)v[0], (__m512i)v[1]);
    __m512i b = _mm512_packus_epi32((__m512i)v[2], (__m512i)v[3]);
    a = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(a, b));
    _mm512_storeu_si512(out, a);
}

/* As many groups of 32 bytes as there are lanes: word i of each becomes vector i. */
KF_HD void vec_turn_groups(const uint8_t *src, vec_u out[8])
{
    __m512i r[8], s[8];
    for (int i = 0; i < 8; i++) {
        const uint8_t *p = src + 32 * (i + i / 4 * 4);
        __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)p);
        __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(p + 128));
        r[i] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm512_unpacklo_epi64(s[i], s[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(s[i], s[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(s[i + 1], s[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(s[i + 1], s[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        out[i] = (vec_u)_mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        out[i + 4] = (vec_u)_mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    }
}

#elif defined(__AVX2__)

KF_HD vec_f vec_larger_magnitude(vec_f x, float least)
{
    x = (vec_f)((vec_u)x & 0x7fffffffu);
    return (vec_f)_mm256_max_ps((__m256)x, _mm256_set1_ps(least));
}

KF_HD vec_f vec_lesser(vec_f x, float largest)
{
    return (vec_f)_mm256_min_ps((__m256)x, _mm256_set1_ps(largest));
}

KF_HD vec_f vec_within(vec_f low, vec_f x, vec_f high)
{
    return (vec_f)_mm256_min_ps(_mm256_max_ps((__m256)x, (__m256)low), (__m256)high);
}

KF_HD vec_f vec_nearest(vec_f x)
{
    return (vec_f)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

KF_HD vec_f vec_eighth(const float *table, vec_u i)
{
    return (vec_f)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)i);
}

KF_HD vec_f vec_sixteenth(const float *table, vec_u i)
{
    return (vec_f)look_up_halves(table, (__m256i)i, 3);
}

KF_HD vec_u vec_widen_bytes(const uint8_t *p)
{
    return (vec_u)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

KF_HD vec_f vec_about(vec_f x, vec_f y, vec_f z)
{
    return x * y + z;
}

KF_HD vec_u vec_larger_halves(vec_u a, vec_u b)
{
    return (vec_u)_mm256_max_epu16((__m256i)a, (__m256i)b);
}

KF_HD vec_h vec_magnitudes(vec_h a)
{
    return (vec_h)_mm256_abs_epi16((__m256i)a);
}

KF_HD vec_h vec_scale_halves(vec_h a, vec_h b)
{
    return (vec_h)_mm256_mulhrs_epi16((__m256i)a, (__m256i)b);
}

KF_HD vec_i vec_dot(vec_h a, vec_h b)
{
    return (vec_i)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}

/* A byte whose highest bit is set picks zero: one of two halves of the table answers. */
KF_HD vec_h vec_of_32(const int16_t *table, vec_h i)
{
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)table);
    __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(table + 16));
    __m256i both = _mm256_packus_epi16(_mm256_srli_epi16(low, 8), _mm256_srli_epi16(high, 8));
    both = _mm256_permute4x64_epi64(both, 0xd8);
    low = _mm256_permute4x64_epi64(both, 0x44);
    high = _mm256_permute4x64_epi64(both, 0xee);
    low = _mm256_shuffle_epi8(low, _mm256_add_epi8((__m256i)i, _mm256_set1_epi16(0x70)));
    high = _mm256_shuffle_epi8(high, _mm256_sub_epi8((__m256i)i, _mm256_set1_epi16(16)));
    return (vec_h)_mm256_slli_epi16(_mm256_or_si256(low, high), 8);
}

KF_HD vec_f vec_of_groups(const float *number, size_t at)
{
    return vec_all(number[at / 16]);
}

KF_HD void vec_store_bytes(const vec_u v[4], uint8_t *out)
{
    const __m256i order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
    __m256i a = _mm256_packus_epi32((__m256i)v[0], (__m256i)v[1]);
    __m256i b = _mm256_packus_epi32((__m256i)v[2], (__m256i)v[3]);
    a = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), order);
    _mm256_storeu_si256((__m256i *)(void *)out, a);
}

KF_HD void vec_turn_groups(const uint8_t *src, vec_u out[8])
{
    __m256i r[8], s[8];
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_si256((const __m256i *)(const void *)(src + 32 * i));
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_unpacklo_epi64(s[i], s[i + 2]);
        r[i + 1] = _mm256_unpackhi_epi64(s[i], s[i + 2]);
        r[i + 2] = _mm256_unpacklo_epi64(s[i + 1], s[i + 3]);
        r[i + 3] = _mm256_unpackhi_epi64(s[i + 1], s[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        out[i] = (vec_u)_mm256_permute2x128_si256(r[i], r[i + 4], 0x20);
        out[i + 4] = (vec_u)_mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
    }
}

#else

KF_HD vec_f vec_larger_magnitude(vec_f x, float least)
{
    return (vec_f)vmaxq_f32(vabsq_f32((float32x4_t)x), vdupq_n_f32(least));
}

KF_HD vec_f vec_lesser(vec_f x, float largest)
{
    return (vec_f)vminq_f32((float32x4_t)x, vdupq_n_f32(largest));
}

KF_HD vec_f vec_within(vec_f low, vec_f x, vec_f high)
{
    return (vec_f)vminq_f32(vmaxq_f32((float32x4_t)x, (float32x4_t)low), (float32x4_t)high);
}

KF_HD vec_f vec_nearest(vec_f x)
{
    return (vec_f)vrndnq_f32((float32x4_t)x);
}

KF_HD vec_f vec_eighth(const float *table, vec_u i)
{
    return (vec_f)pick_eighth(table, (uint32x4_t)i);
}

KF_HD vec_f vec_sixteenth(const float *table, vec_u i)
{
    const uint8_t *p = (const uint8_t *)table;
    uint8x16x4_t t = {{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
    i = (i & 15) * 0x04040404u + 0x03020100u;
    return (vec_f)vqtbl4q_u8(t, (uint8x16_t)i);
}

KF_HD vec_u vec_widen_bytes(const uint8_t *p)
{
    uint32_t four;
    memcpy(&four, p, 4);
    uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(four));
    return (vec_u)vmovl_u16(vget_low_u16(vmovl_u8(bytes)));
}

KF_HD vec_f vec_about(vec_f x, vec_f y, vec_f z)
{
    return (vec_f)vfmaq_f32((float32x4_t)z, (float32x4_t)x, (float32x4_t)y);
}

KF_HD vec_u vec_larger_halves(vec_u a, vec_u b)
{
    return (vec_u)vmaxq_u16((uint16x8_t)a, (uint16x8_t)b);
}

KF_HD vec_h vec_magnitudes(vec_h a)
{
    return (vec_h)vabsq_s16((int16x8_t)a);
}

KF_HD vec_h vec_scale_halves(vec_h a, vec_h b)
{
    return (vec_h)vqrdmulhq_s16((int16x8_t)a, (int16x8_t)b);
}

KF_HD vec_i vec_dot(vec_h a, vec_h b)
{
    int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
    return (vec_i)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}

KF_HD vec_h vec_of_32(const int16_t *table, vec_h i)
{
    uint8x16x2_t high = {
        {vld2q_u8((const uint8_t *)table).val[1], vld2q_u8((const uint8_t *)(table + 16)).val[1]}};
    uint8x16_t found = vqtbl2q_u8(high, (uint8x16_t)i);
    return (vec_h)vshlq_n_u16((uint16x8_t)found, 8);
}

KF_HD vec_f vec_of_groups(const float *number, size_t at)
{
    return vec_all(number[at / 16]);
}

KF_HD void vec_store_bytes(const vec_u v[4], uint8_t *out)
{
    uint16x8_t a = vuzp1q_u16((uint16x8_t)v[0], (uint16x8_t)v[1]);
    uint16x8_t b = vuzp1q_u16((uint16x8_t)v[2], (uint16x8_t)v[3]);
    vst1q_u8(out, vuzp1q_u8((uint8x16_t)a, (uint8x16_t)b));
}

KF_HD void vec_turn_groups(const uint8_t *src, vec_u out[8])
{
    for (int i = 0; i < 8; i += 4) {
        uint32x4_t r[4], s[4];
        for (int k = 0; k < 4; k++) r[k] = (uint32x4_t)vld1q_u8(src + 32 * k + 4 * i);
        for (int k = 0; k < 4; k += 2) {
            s[k] = vtrn1q_u32(r[k], r[k + 1]);
            s[k + 1] = vtrn2q_u32(r[k], r[k + 1]);
        }
        for (int k = 0; k < 2; k++) {
            uint64x2_t a = (uint64x2_t)s[k], b = (uint64x2_t)s[k + 2];
            out[i + k] = (vec_u)vtrn1q_u64(a, b);
            out[i + k + 2] = (vec_u)vtrn2q_u64(a, b);
        }
    }
}

#endif

#endif
