/* x86.h - what the vectors of AVX2 and of AVX-512 share: halves of 128 bits. */
#ifndef KERF_GEMV_X86_H
#define KERF_GEMV_X86_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "scalar/bits.h"

/* 8 bytes, or `two` of them, `gap` apart. */
KF_HD __m128i eight_or_two(const uint8_t *p, int two, size_t gap)
{
    __m128i a = _mm_loadl_epi64((const __m128i *)p);
    if (!two) return a;
    return _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(a), (const __m64 *)(p + gap)));
}

#endif
