/* tiles_amx.h - tiles of AMX, and the vectors of AVX-512 that codes become, in the words of
 * gemv_tiles.h. tiles_plain.h has the same in plain C and says what each is. */
#ifndef KERF_TILES_AMX_H
#define KERF_TILES_AMX_H

#include "cpu/avx512.h"

/* --- tiles --------------------------------------------------------------------------------------
 */

typedef struct tiles {
    int dummy; /* they lie in the processor */
} tiles;

#define TILES_SYNC __asm volatile("" ::: "memory") /* what tiles load has been stored */

/* Tiles 0 and 1 are sums, 2 and 3 rows of W, 4 is x; 5 to 7 are their halves. */
KF_HD void tiles_begin(tiles *t, unsigned columns)
{
    const uint16_t x = (uint16_t)(4 * columns);
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1,
                .bytes = {x, x, 64, 64, x, 32, 32, x},
                .rows = {16, 16, 16, 16, 16, 16, 16, 8}};
    t->dummy = 0;
    TILES_SYNC;
    _tile_loadconfig(&config);
}
KF_HD void tiles_end(tiles *t)
{
    (void)t;
    _tile_release();
}
KF_HD void tiles_zero(tiles *t)
{
    (void)t;
    _tile_zero(0);
    _tile_zero(1);
}
/* Numbers of tiles are part of an instruction. */
#define TILES_DOT(name, x, low, high)                                                         \
    KF_HD void name(tiles *t, const uint16_t *a, const uint16_t *b, size_t columns, int both) \
    {                                                                                         \
        (void)t;                                                                              \
        _tile_loadd(x, b, 4 * columns);                                                       \
        _tile_loadd(low, a, 64);                                                              \
        _tile_dpbf16ps(0, low, x);                                                            \
        if (!both) return;                                                                    \
        _tile_loadd(high, a + 16 * 32, 64);                                                   \
        _tile_dpbf16ps(1, high, x);                                                           \
    }
TILES_DOT(tiles_dot, 4, 2, 3)
TILES_DOT(tiles_dot_half, 7, 5, 6)
#undef TILES_DOT
KF_HD void tiles_store(tiles *t, float *c, int both)
{
    (void)t;
    _tile_stored(0, c, 64);
    if (both) _tile_stored(1, c + 16 * 16, 64);
}

/* Of bytes: 0 and 1 are sums by upper bytes of x, 2 and 3 by lower ones; 4 and 5 rows of W, 6 and 7
 * x. */
KF_HD void bytes_begin(tiles *t, unsigned depth, unsigned columns)
{
    const uint16_t x = (uint16_t)(4 * columns), w = (uint16_t)depth;
    const uint8_t rows = (uint8_t)(depth / 4);
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1,
                .bytes = {x, x, x, x, w, w, x, x},
                .rows = {16, 16, 16, 16, 16, 16, rows, rows}};
    t->dummy = 0;
    TILES_SYNC;
    _tile_loadconfig(&config);
}
KF_HD void bytes_zero(tiles *t, int one)
{
    (void)t;
    _tile_zero(0);
    _tile_zero(1);
    if (one) return;
    _tile_zero(2);
    _tile_zero(3);
}
KF_HD void bytes_dot(tiles *t, const uint8_t *a, size_t stride, const uint8_t *b, size_t depth,
                     size_t columns, int one, int both)
{
    (void)t;
    _tile_loadd(4, a, stride);
    _tile_loadd(6, b, 4 * columns);
    _tile_dpbssd(0, 4, 6);
    if (!one) {
        _tile_loadd(7, b + depth * columns, 4 * columns);
        _tile_dpbssd(2, 4, 7);
    }
    if (!both) return;
    _tile_loadd(5, a + 16 * stride, stride);
    _tile_dpbssd(1, 5, 6);
    if (!one) _tile_dpbssd(3, 5, 7);
}
KF_HD void bytes_store(tiles *t, int32_t *upper, int32_t *lower, int both)
{
    (void)t;
    _tile_stored(0, upper, 64);
    if (lower) _tile_stored(2, lower, 64);
    if (!both) return;
    _tile_stored(1, upper + 16 * 16, 64);
    if (lower) _tile_stored(3, lower + 16 * 16, 64);
}

/* Of bytes without a sign, two planes: 0 and 1 are sums of one by either tile of x, 2 and 3 of the
 * other; 4 and 5 rows of W, 6 and 7 x. */
KF_HD void planes_begin(tiles *t, unsigned lanes)
{
    bytes_begin(t, 64, lanes);
}
KF_HD void planes_zero(tiles *t)
{
    bytes_zero(t, 0);
}
KF_HD void planes_dot(tiles *t, const unsigned plane, const uint8_t *a, const uint8_t *b,
                      size_t lanes, const int one)
{
    (void)t;
    if (plane == 0) {
        _tile_loadd(4, a, 64);
        _tile_loadd(6, b, 4 * lanes);
        _tile_dpbusd(0, 4, 6);
        if (one) return;
        _tile_loadd(7, b + 64 * lanes, 4 * lanes);
        _tile_dpbusd(1, 4, 7);
    } else {
        _tile_loadd(5, a, 64);
        _tile_dpbusd(2, 5, 6);
        if (!one) _tile_dpbusd(3, 5, 7);
    }
}
KF_HD void planes_store(tiles *t, const unsigned plane, int32_t *c, const int one)
{
    (void)t;
    if (plane == 0) {
        _tile_stored(0, c, 64);
        if (!one) _tile_stored(1, c + 16 * 16, 64);
    } else {
        _tile_stored(2, c, 64);
        if (!one) _tile_stored(3, c + 16 * 16, 64);
    }
}

/* --- scales -------------------------------------------------------------------------------------
 */

/* Two or four at a time, of what is loaded at once; no byte behind the last is read. */
KF_HD vf vf_of_halves_apart(const uint8_t *p, const size_t apart)
{
    const size_t at_once = 3 * apart + 2 <= 64 ? 4 : 2, bytes = (at_once - 1) * apart + 2;
    const __mmask64 there = ~(uint64_t)0 >> (64 - bytes);
    uint8_t from[64] = {0};
    __m512i halves = _mm512_setzero_si512();
    UNROLL for (size_t i = 0; i < 2 * V; i++) from[i] = (uint8_t)(i / 2 % at_once * apart + i % 2);
    const __m512i places = _mm512_loadu_si512(from);
    UNROLL for (size_t i = 0; i < V; i += at_once)
    {
        const __mmask64 into = (((uint64_t)1 << 2 * at_once) - 1) << 2 * i;
        const __m512i bytes_ = _mm512_maskz_loadu_epi8(there, p + i * apart);
        halves = _mm512_mask_permutexvar_epi8(halves, into, places, bytes_);
    }
    return vf_of_half(_mm512_castsi512_si256(halves));
}

/* --- bytes --------------------------------------------------------------------------------------
 */

typedef __m512i tb;

KF_HD void tb_store(uint8_t *p, tb a)
{
    _mm512_storeu_si512(p, a);
}
KF_HD tb tb_table(const uint8_t *p)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
}
KF_HD tb tb_load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}
KF_HD tb tb_repeat(uint64_t a)
{
    return _mm512_set1_epi64((long long)a);
}
KF_HD tb tb_repeat_two(uint64_t a, uint64_t b)
{
    return _mm512_broadcast_i32x4(_mm_set_epi64x((long long)b, (long long)a));
}
KF_HD tb tb_times(tb a, tb b)
{
    return _mm512_mullo_epi16(a, b);
}
KF_HD tb tb_and(tb a, uint8_t mask)
{
    return _mm512_and_si512(a, _mm512_set1_epi8((char)mask));
}
KF_HD tb tb_nibbles(const uint8_t *p, const uint8_t *q)
{
    const __m512i down = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
    const __m128i a = _mm_loadu_si128((const __m128i *)p);
    const __m128i b = _mm_loadu_si128((const __m128i *)q);
    const __m512i both = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(a), 0xff00, b);
    return tb_and(_mm512_srlv_epi64(both, down), 15);
}
KF_HD tb tb_quarters(const uint8_t *p, const uint8_t *q)
{
    const __m512i down = _mm512_setr_epi64(0, 2, 4, 6, 0, 2, 4, 6);
    const __m512i a = _mm512_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)p));
    const __m512i both = _mm512_mask_broadcastq_epi64(a, 0xf0, _mm_loadl_epi64((const __m128i *)q));
    return tb_and(_mm512_srlv_epi64(both, down), 3);
}
KF_HD tb tb_twice(const uint8_t *p, const unsigned first, const unsigned second)
{
    const __m512i both = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p));
    const long long a = (long long)first, b = (long long)second;
    return _mm512_rorv_epi64(both, _mm512_setr_epi64(a, a, a, a, b, b, b, b));
}
KF_HD tb tb_merge(tb a, tb b, uint8_t mask)
{
    return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi8((char)mask), 0xd8);
}
KF_HD tb tb_less(tb a, int n)
{
    return _mm512_sub_epi8(a, _mm512_set1_epi8((char)n));
}
KF_HD tb tb_more_bits(tb a, const uint8_t *p, const uint8_t *q, int n)
{
    uint32_t low, high;
    memcpy(&low, p, 4);
    memcpy(&high, q, 4);
    const __mmask64 has = (uint64_t)high << 32 | low;
    return _mm512_mask_add_epi8(a, has, a, _mm512_set1_epi8((char)n));
}
KF_HD tb tb_look_up(tb table, tb i)
{
    return _mm512_shuffle_epi8(table, i);
}

/* --- words --------------------------------------------------------------------------------------
 */

typedef __m512i tw;

KF_HD tw tw_load(const uint16_t *p)
{
    return _mm512_loadu_si512(p);
}
KF_HD void tw_store(uint16_t *p, tw a)
{
    _mm512_storeu_si512(p, a);
}
KF_HD tw tw_up(tw a, unsigned n)
{
    return _mm512_sll_epi16(a, _mm_cvtsi32_si128((int)n));
}
KF_HD tw tw_down(tw a, unsigned n)
{
    return _mm512_srl_epi16(a, _mm_cvtsi32_si128((int)n));
}
KF_HD tw tw_merge(tw a, tw b, uint16_t mask)
{
    return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi16((short)mask), 0xd8);
}
KF_HD tw tw_look_up(tw table, tw i)
{
    return _mm512_permutexvar_epi16(i, table);
}
KF_HD tw tw_look_up_two(tw low, tw high, tw i)
{
    return _mm512_permutex2var_epi16(low, i, high);
}
KF_HD tw tw_of_bytes(const uint8_t *p)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p));
}
KF_HD tw tw_nibbles(const uint8_t *p)
{
    const __m512i down =
        _mm512_set_epi64(0x000c000c000c000c, 0x000c000c000c000c, 0x0008000800080008,
                         0x0008000800080008, 0x0004000400040004, 0x0004000400040004, 0, 0);
    const __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    return _mm512_srlv_epi16(_mm512_broadcast_i32x4(bytes), down);
}
KF_HD tw tw_quarters(const uint8_t *p)
{
    const __m512i down = _mm512_set_epi64(
        0x000e000e000e000e, 0x000c000c000c000c, 0x000a000a000a000a, 0x0008000800080008,
        0x0006000600060006, 0x0004000400040004, 0x0002000200020002, 0);
    return _mm512_srlv_epi16(_mm512_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)p)), down);
}
KF_HD tw tw_nibbles_of_two(const uint8_t *p)
{
    const __m512i down =
        _mm512_set_epi64(0x000c000c000c000c, 0x0008000800080008, 0x0004000400040004, 0,
                         0x000c000c000c000c, 0x0008000800080008, 0x0004000400040004, 0);
    const __m128i a = _mm_loadl_epi64((const __m128i *)p);
    const __m128i b = _mm_loadl_epi64((const __m128i *)(p + 8));
    const __m512i both = _mm512_mask_broadcastq_epi64(_mm512_broadcastq_epi64(a), 0xf0, b);
    return _mm512_srlv_epi16(both, down);
}
KF_HD tw tw_folded(const uint8_t *p, const uint16_t (*table)[16], const uint8_t *scales)
{
    const __m512i upper = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(16), 1);
    const __m512i codes = tw_nibbles_of_two(p), low = _mm512_set1_epi16(15);
    const __m256i a = _mm256_loadu_si256((const __m256i *)table[scales[0]]);
    const __m256i b = _mm256_loadu_si256((const __m256i *)table[scales[1]]);
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
    return tw_look_up(both, _mm512_ternarylogic_epi32(codes, low, upper, 0xea));
}
KF_HD tw tw_more_bits(tw a, const uint8_t *p, unsigned up)
{
    /* Word 8 k + i is element 2 i + k / 2 of 16, where k is odd of those behind them. */
    const __m512i half = _mm512_broadcast_i64x4(_mm256_set_epi64x(
        0x0302030203020302, 0x0302030203020302, 0x0100010001000100, 0x0100010001000100));
    const __m128i even = _mm_setr_epi16(1, 4, 16, 64, 256, 1024, 4096, 16384);
    const __m256i odd = _mm256_broadcastsi128_si256(_mm_slli_epi16(even, 1));
    const __m512i bit = _mm512_inserti64x4(_mm512_broadcast_i32x4(even), odd, 1);
    int32_t word;
    memcpy(&word, p, 4);
    const __m512i bits = _mm512_shuffle_epi8(_mm512_set1_epi32(word), half);
    const __mmask32 has = _mm512_test_epi16_mask(bits, bit);
    const __m512i low = _mm512_and_si512(a, _mm512_set1_epi16((short)((1u << up) - 1)));
    return _mm512_or_si512(low, _mm512_maskz_set1_epi16(has, (short)(1u << up)));
}

/* Low and high bytes become words: of each 128 bits the first eight, then the second eight. */
KF_HD void tw_join(__m512i low, __m512i high, tw out[2])
{
    out[0] = _mm512_unpacklo_epi8(low, high);
    out[1] = _mm512_unpackhi_epi8(low, high);
}
KF_HD void tw_minis(const uint8_t *p, const uint8_t *table, tw out[2])
{
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    const __m512i b = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(p));
    const __m512i low =
        _mm512_permutex2var_epi8(_mm512_loadu_si512(table), b, _mm512_loadu_si512(table + 64));
    const __m512i high = _mm512_permutex2var_epi8(_mm512_loadu_si512(table + 128), b,
                                                  _mm512_loadu_si512(table + 192));
    tw_join(low, _mm512_ternarylogic_epi32(high, b, _mm512_set1_epi8((char)0x80), 0xf8), out);
}
KF_HD void tw_signed(const uint8_t *p, const uint8_t *q, const uint8_t *table, tw out[2])
{
    const __m512i order = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m256i first = _mm256_loadu_si256((const __m256i *)p);
    const __m256i second = _mm256_loadu_si256((const __m256i *)q);
    const __m512i b = _mm512_permutex2var_epi64(_mm512_castsi256_si512(first), order,
                                                _mm512_castsi256_si512(second));
    const __m512i size = _mm512_abs_epi8(b), least = _mm512_set1_epi8((char)0x80);
    const __m512i low =
        _mm512_permutex2var_epi8(_mm512_loadu_si512(table), size, _mm512_loadu_si512(table + 64));
    const __m512i high = _mm512_permutex2var_epi8(_mm512_loadu_si512(table + 128), size,
                                                  _mm512_loadu_si512(table + 192));
    const __m512i number = _mm512_ternarylogic_epi32(high, b, least, 0xf8); /* but of -128 */
    tw_join(low,
            _mm512_mask_mov_epi8(number, _mm512_cmpeq_epi8_mask(b, least),
                                 _mm512_set1_epi8((char)0xc3)),
            out);
}
KF_HD void tw_sixes(const uint8_t *p, const uint8_t *table, tw out[2])
{
    static const uint8_t place[64] __attribute__((aligned(64))) = {
#define SIX(i) 6 * (i), 6 * (i) + 1, 6 * (i) + 2, 6 * (i) + 3, 6 * (i) + 4, 6 * (i) + 5, 63, 63
        SIX(0), SIX(4), SIX(1), SIX(5), SIX(2),
        SIX(6), SIX(3), SIX(7)
#undef SIX
    };
    const __m512i from = _mm512_set1_epi64(0x2a241e18120c0600);
    const __m512i raw = _mm512_maskz_loadu_epi8(0xffffffffffff, p);
    const __m512i words = _mm512_permutexvar_epi8(_mm512_load_si512(place), raw);
    const __m512i b = _mm512_multishift_epi64_epi8(from, words);
    tw_join(_mm512_permutexvar_epi8(b, _mm512_loadu_si512(table)),
            _mm512_permutexvar_epi8(b, _mm512_loadu_si512(table + 128)), out);
}

#endif
