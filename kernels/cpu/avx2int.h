/* avx2int.h - codes of 4 bits times 16-bit integers on AVX2, in the words of gemv_rows.h.
 *
 * A look-up by bytes (vpshufb) makes two vectors of 32 small integers of 32 bytes of codes. Each is
 * taken apart into words that have a byte at their top: those of even bytes by a shift, those of
 * odd bytes by a mask, signs included. vpmaddwd multiplies them by x and adds neighbours, so that a
 * dword has the sum of the codes that it held in memory, times 256: at most 8 * 32 * 256 * 32767 <
 * 2^31.
 *
 * The numbers of a code book have two bytes, looked up apart and zipped into words. Of their
 * products with x, at most 2^14 * 32767, four make a sum, and sums are of other dwords than the
 * codes were. */
#ifndef KERF_AVX2INT_H
#define KERF_AVX2INT_H

#include "cpu/avx2.h"
#include "cpu/gemv_layout.h"

typedef struct vw {
    vi v[4];
} vw;
typedef struct vw_tables {
    vi low, high;
} vw_tables;

#define INTEGERS KF_KIND_WORDS
#define UNIT_OF(decode) ((decode) == KF_DECODE_INT4 ? 0x1p-8f : 1.0f)

KF_HD vw_tables vw_tables_of(const kf_gemv_layout *l)
{
    uint8_t low[16], high[16];
    for (int i = 0; i < 16; i++) {
        low[i] = (uint8_t)l->whole_table[i];
        high[i] = (uint8_t)((uint16_t)l->whole_table[i] >> 8);
    }
    vw_tables t = {
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)low)),
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)high)),
    };
    return t;
}

/* Zero points of lanes, fp32, as bytes. */
KF_HD vi vw_zeros(vf zero)
{
    const __m128i place = _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    return _mm256_shuffle_epi8(_mm256_cvtps_epi32(zero), _mm256_broadcastsi128_si256(place));
}

KF_HD vw vw_of(const int decode, const int zeros, const vw_tables *t, vi codes, vf zero)
{
    const vi four = _mm256_set1_epi8(15), top = _mm256_set1_epi16((short)0xff00);
    vi lower = vi_and(codes, four), upper = vi_and(_mm256_srli_epi16(codes, 4), four);
    vw w;
    if (decode == KF_DECODE_BOOK4) {
        vi l = _mm256_shuffle_epi8(t->low, lower), h = _mm256_shuffle_epi8(t->high, lower);
        w.v[0] = _mm256_unpacklo_epi8(l, h);
        w.v[1] = _mm256_unpackhi_epi8(l, h);
        l = _mm256_shuffle_epi8(t->low, upper), h = _mm256_shuffle_epi8(t->high, upper);
        w.v[2] = _mm256_unpacklo_epi8(l, h);
        w.v[3] = _mm256_unpackhi_epi8(l, h);
        return w;
    }
    lower = _mm256_shuffle_epi8(t->low, lower), upper = _mm256_shuffle_epi8(t->low, upper);
    if (zeros) {
        vi z = vw_zeros(zero);
        lower = _mm256_sub_epi8(lower, z), upper = _mm256_sub_epi8(upper, z);
    }
    w.v[0] = _mm256_slli_epi16(lower, 8);
    w.v[1] = vi_and(lower, top);
    w.v[2] = _mm256_slli_epi16(upper, 8);
    w.v[3] = vi_and(upper, top);
    return w;
}

KF_HD vf vw_dot(const int decode, const vw *w, const int16_t *x)
{
    vi p[4];
    UNROLL for (int i = 0; i < 4; i++) p[i] =
        _mm256_madd_epi16(w->v[i], vi_load((const uint8_t *)(x + 16 * i)));
    vi a = _mm256_add_epi32(p[0], p[1]), b = _mm256_add_epi32(p[2], p[3]);
    if (decode == KF_DECODE_BOOK4) return vf_add(vf_of_int(a), vf_of_int(b));
    return vf_of_int(_mm256_add_epi32(a, b));
}

static inline void place_integers(const kf_gemv_layout *l, const int16_t *n, int16_t *out)
{
    for (size_t i = 0; i < l->step; i++) out[i] = n[l->order[i]];
}

#endif
