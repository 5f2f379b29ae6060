/* avx2int.h - codes of 2, 4 and 6 bits times 16-bit integers on AVX2, in the words of gemv_rows.h.
 *
 * A look-up by bytes (vpshufb) makes two vectors of 32 small integers of 32 bytes of codes. Each is
 * taken apart into words that have a byte at their top: those of even bytes by a shift, those of
 * odd bytes by a mask, signs included. vpmaddwd multiplies them by x and adds neighbours, so that a
 * dword has the sum of the codes that it held in memory, times 256: at most 8 * 32 * 256 * 32767 <
 * 2^31. Codes of 2 bits are taken apart by three shifts, and are 16 numbers half as large.
 *
 * Codes of 6 bits come four in three bytes: these are put at a dword each, its words multiplied so
 * that two codes lie at the same bits of each; numbers from 16 on are looked up. Four of them in a
 * dword are at most 4 * 63 * 256 * 32639.
 *
 * The numbers of a code book have two bytes, looked up apart and zipped into words. Of their
 * products with x, at most 2^14 * 32767, four make a sum, and sums are of other dwords than the
 * codes were. */
#ifndef KERF_AVX2INT_H
#define KERF_AVX2INT_H

#include "cpu/avx2.h"
#include "cpu/gemv_layout.h"
#include "cpu/unit.h"

#if KF_IN_UNIT(INT2)
#define WORDS_OF_STEP 8
#else
#define WORDS_OF_STEP 4 /* of all others: gcc keeps fewer of them in memory */
#endif

typedef struct vw {
    vi v[WORDS_OF_STEP];
} vw;
typedef struct vw_tables {
    vi low, high; /* INT6: high has those of codes from 16 on */
} vw_tables;

#define INTEGERS KF_KIND_WORDS
#define UNIT_OF(decode) ((decode) == KF_DECODE_BOOK4 ? 1.0f : 0x1p-8f)

KF_HD vw_tables vw_tables_of(const kf_gemv_layout *l)
{
    uint8_t low[16], high[16];
    for (int i = 0; i < 16; i++) {
        low[i] = (uint8_t)l->whole_table[i];
        high[i] = l->decode == KF_DECODE_INT6 ? (uint8_t)l->whole_table[i + 16]
                                              : (uint8_t)((uint16_t)l->whole_table[i] >> 8);
    }
    vw_tables t = {
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)low)),
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)high)),
    };
    return t;
}

typedef vi vz; /* zero points of lanes, as bytes */

typedef vi vz_table;

KF_HD vz_table vz_table_of(const float zero_of[16])
{
    uint8_t bytes[16];
    for (int i = 0; i < 16; i++) bytes[i] = (uint8_t)zero_of[i];
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)bytes));
}

/* By the low 4 bits of bytes. */
KF_HD vz vz_look_up(vz_table t, vi codes)
{
    return _mm256_shuffle_epi8(t, vi_and(codes, _mm256_set1_epi8(15)));
}

KF_HD vz vz_set1(float zero)
{
    return _mm256_set1_epi8((char)zero);
}

KF_HD vz vz_of(vf zero)
{
    const __m128i place = _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    return _mm256_shuffle_epi8(_mm256_cvtps_epi32(zero), _mm256_broadcastsi128_si256(place));
}

/* Words of vi_load6 as bytes, looked up: numbers below 16 are what their codes are, and an index
 * whose top bit is set finds a zero, which is less. A zero has no sign, whatever vpsignb makes of
 * it. */
KF_HD vi look_up6(const vw_tables *t, vi words)
{
    vi codes = _mm256_or_si256(vi_and(_mm256_srli_epi16(words, 4), _mm256_set1_epi16(0x003f)),
                               vi_and(_mm256_srli_epi16(words, 2), _mm256_set1_epi16(0x3f00)));
    vi size = vi_and(codes, _mm256_set1_epi8(31));
    vi large = _mm256_shuffle_epi8(t->high, _mm256_sub_epi8(size, _mm256_set1_epi8(16)));
    return _mm256_sign_epi8(_mm256_max_epu8(size, large), _mm256_slli_epi16(codes, 2));
}

KF_HD vw vw_of(const int decode, const int zeros, const vw_tables *t, vi codes, vz zero)
{
    const vi four = _mm256_set1_epi8(15), top = _mm256_set1_epi16((short)0xff00);
    vi lower = vi_and(codes, four), upper = vi_and(_mm256_srli_epi16(codes, 4), four);
    vw w;
    if (decode == KF_DECODE_INT6) {
        vi all = look_up6(t, codes);
        w.v[0] = w.v[2] = _mm256_slli_epi16(all, 8);
        w.v[1] = w.v[3] = vi_and(all, top);
        return w;
    }
    if (decode == KF_DECODE_BOOK4) {
        vi l = _mm256_shuffle_epi8(t->low, lower), h = _mm256_shuffle_epi8(t->high, lower);
        w.v[0] = _mm256_unpacklo_epi8(l, h);
        w.v[1] = _mm256_unpackhi_epi8(l, h);
        l = _mm256_shuffle_epi8(t->low, upper), h = _mm256_shuffle_epi8(t->high, upper);
        w.v[2] = _mm256_unpacklo_epi8(l, h);
        w.v[3] = _mm256_unpackhi_epi8(l, h);
        return w;
    }
    if (decode == KF_DECODE_INT2) {
        UNROLL for (int i = 0; i < WORDS_OF_STEP / 2; i++)
        {
            vi n = vi_and(i == 0 ? codes : _mm256_srli_epi16(codes, 2 * i), _mm256_set1_epi8(3));
            n = _mm256_shuffle_epi8(t->low, n);
            if (zeros) n = _mm256_sub_epi8(n, zero);
            w.v[2 * i] = _mm256_slli_epi16(n, 8);
            w.v[2 * i + 1] = vi_and(n, top);
        }
        return w;
    }
    lower = _mm256_shuffle_epi8(t->low, lower), upper = _mm256_shuffle_epi8(t->low, upper);
    if (zeros) {
        lower = _mm256_sub_epi8(lower, zero), upper = _mm256_sub_epi8(upper, zero);
    }
    w.v[0] = _mm256_slli_epi16(lower, 8);
    w.v[1] = vi_and(lower, top);
    w.v[2] = _mm256_slli_epi16(upper, 8);
    w.v[3] = vi_and(upper, top);
    return w;
}

KF_HD vf vw_dot(const int decode, const vw *w, const int16_t *x)
{
    vi p[WORDS_OF_STEP];
    const int n = decode == KF_DECODE_INT6 ? 2 : decode == KF_DECODE_INT2 ? WORDS_OF_STEP : 4;
    UNROLL for (int i = 0; i < n; i++) p[i] =
        _mm256_madd_epi16(w->v[i], vi_load((const uint8_t *)(x + 16 * i)));
    vi a = _mm256_add_epi32(p[0], p[1]);
    if (decode == KF_DECODE_INT6) return vf_of_int(a);
    vi b = _mm256_add_epi32(p[2], p[3]);
    if (decode == KF_DECODE_BOOK4) return vf_add(vf_of_int(a), vf_of_int(b));
    UNROLL for (int i = 4; i < n; i += 4)
    {
        a = _mm256_add_epi32(a, _mm256_add_epi32(p[i], p[i + 1]));
        b = _mm256_add_epi32(b, _mm256_add_epi32(p[i + 2], p[i + 3]));
    }
    return vf_of_int(_mm256_add_epi32(a, b));
}

static inline void place_integers(const kf_gemv_layout *l, const int16_t *n, int16_t *out)
{
    for (size_t i = 0; i < l->step; i++) out[i] = n[l->order[i]];
}

#endif
