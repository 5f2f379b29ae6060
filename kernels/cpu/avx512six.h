/* avx512six.h - codes of 6 bits times 16-bit integers on AVX-512 with VNNI and VBMI, in the words
 * of gemv_rows.h.
 *
 * vpermb puts the 6 bytes of 8 codes at a quadword each, vpmultishiftqb takes 8 bits from where
 * each code begins, and a second vpermb, which looks at 6 bits of an index, finds the number, moved
 * up until it is positive. A step of x, of 64: its upper bytes, its lower ones, SIX_MIDDLE times
 * the sum of each four as a dword, and its unit. */
#ifndef KERF_AVX512SIX_H
#define KERF_AVX512SIX_H

#include "cpu/avx512int.h"

#define UNIT_OF(decode) 1.0f
#define X_STEP(l, x, step, n) ((int16_t *)(x) + (step) * (n) * (2 * V))
#define X_UNIT(l, x, step, n) ((float *)(x) + (step) * (n)*V + 3 * V)

/* What numbers are moved by. */
KF_HD int six_middle(const int decode)
{
    return decode == KF_DECODE_WIDE6 ? 512 : 64;
}

/* n: the integers of a step in the order of its elements, which is that of its codes. */
static inline void place_integers(const kf_gemv_layout *l, const int16_t *n, int16_t *out)
{
    uint8_t *bytes = (uint8_t *)out;
    int32_t off[V];
    const int middle = six_middle((int)l->decode);
    for (size_t i = 0; i < 4 * V; i++) {
        const int upper = (n[i] + 128) >> 8;
        bytes[i] = (uint8_t)upper;
        bytes[4 * V + i] = (uint8_t)(n[i] - 256 * upper);
    }
    for (size_t i = 0; i < V; i++)
        off[i] = middle * (n[4 * i] + n[4 * i + 1] + n[4 * i + 2] + n[4 * i + 3]);
    memcpy(bytes + 8 * V, off, sizeof off);
}

/* No format of 6 bits has zero points. */
typedef vi vz;
typedef vi vz_table;
KF_HD vz vz_of(vf zero)
{
    return _mm512_castps_si512(zero);
}
KF_HD vz vz_set1(float zero)
{
    return _mm512_castps_si512(_mm512_set1_ps(zero));
}
KF_HD vz_table vz_table_of(const float zero_of[16])
{
    return _mm512_loadu_si512(zero_of);
}
KF_HD vz vz_look_up(vz_table t, vi codes)
{
    return vi_and(t, codes);
}

#ifdef __AVX512VBMI__
/* WIDE6: numbers of two bytes, low of them. */
typedef struct vw {
    vi numbers, low;
} vw;
typedef struct vw_tables {
    vi numbers, low, place, shift;
} vw_tables;

KF_HD vw_tables vw_tables_of(const kf_gemv_layout *l)
{
    uint8_t numbers[64], low[64], place[64], shift[64];
    const int wide = l->decode == KF_DECODE_WIDE6;
    for (int i = 0; i < 64; i++) { /* the sign is the upper bit */
        const int n = l->whole_table[i % 32], all = six_middle((int)l->decode) + (i < 32 ? n : -n);
        numbers[i] = (uint8_t)(wide ? all >> 8 : all);
        low[i] = (uint8_t)all;
        place[i] = (uint8_t)(i / 8 * 6 + (i % 8 < 6 ? i % 8 : 0));
        shift[i] = (uint8_t)(i % 8 * 6);
    }
    vw_tables t = {vi_load(numbers), vi_load(low), vi_load(place), vi_load(shift)};
    return t;
}

/* 48 bytes. */
KF_HD vi vi_load6(const uint8_t *p)
{
    return _mm512_maskz_loadu_epi64(0x3f, p);
}

KF_HD vw vw_of(const int decode, const int zeros, const vw_tables *t, vi codes, vz zero)
{
    (void)decode, (void)zeros, (void)zero;
    const vi in_quads = _mm512_permutexvar_epi8(t->place, codes);
    const vi in_bytes = _mm512_multishift_epi64_epi8(t->shift, in_quads);
    vw w = {_mm512_permutexvar_epi8(in_bytes, t->numbers),
            _mm512_permutexvar_epi8(in_bytes, t->low)};
    return w;
}

/* Sums of four numbers below 1024 times 16 bits are exact, and so is what is taken off them. */
KF_HD vf vw_dot(const int decode, const vw *w, const int16_t *x)
{
    const uint8_t *upper = (const uint8_t *)x, *lower = upper + 4 * V, *off = lower + 4 * V;
    vi top = vi_dot(vi_set1(0), w->numbers, upper);
    vi mid = vi_dot(vi_set1(0), w->numbers, lower);
    if (decode == KF_DECODE_WIDE6) {
        mid = vi_dot(mid, w->low, upper);
        top = vi_add(vi_times_base(top), mid);
        mid = vi_dot(vi_set1(0), w->low, lower);
    }
    return vf_of_int(vi_sub(vi_add(vi_times_base(top), mid), vi_load(off)));
}
#endif

#endif
