/* tiles_plain.h - tiles and the words that codes become, in plain C: what the words of gemv_tiles.h
 * mean, and what tests compare tiles_amx.h with, byte for byte.
 *
 *   tiles            sums of 32 rows by up to 16 columns, fp32; of 16 where `both` is 0
 *   tiles_begin, tiles_end   around all that a thread does with them
 *   tiles_zero       sums of zero
 *   tiles_dot(t, a, b, columns, both)   adds rows of 32 bfloat16 times 32 by `columns`. Row r
 *                    begins at word 32 r of a. b has pairs: word 2 (i * columns + c) + j is number
 *                    2 i + j of column c.
 *   tiles_dot_half   the same with 16 of each row and 16 by `columns`
 *   tiles_store(t, c, both)   the sums: row r from c[16 r] on, `columns` of them
 *   TILES_SYNC       between plain stores and tiles that load them, and the other way round
 *
 * A dot rounds as TDPBF16PS does: for each row and column two sums, of even and of odd numbers,
 * begin at zero and take one fused product after the other; then their sum is added to what was
 * there. Each of these is rounded to nearest even, whatever the thread's modes are. What is
 * subnormal counts as zero, of bfloat16, of sums, and of results.
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS.
 *
 *   bytes_begin(t, depth, columns)   in place of tiles_begin: there are two sums of each row and
 *                    column, in 32 bits, and a tile has `depth` elements, 32 or 64
 *   bytes_zero(t, one)   sums of zero; `one`: second sums are not used
 *   bytes_dot(t, a, stride, b, depth, columns, one, both)
 *                    adds rows of signed bytes times signed bytes. Row r begins at a + r * stride.
 *                    b has fours: byte 4 (i * columns + c) + j is number 4 i + j of column c;
 *                    behind them lie those of the second sums, unless `one`
 *   bytes_store(t, first, second, both)
 *                    the sums: row r from 16 r on, `columns` of them; second: NULL if `one`
 *
 *   planes_begin(t, lanes)   in place of these: 16 rows of 64 bytes without a sign, in two planes
 *                    that have sums of their own, times one tile of x, or two if not `one`
 *   planes_zero(t)   sums of zero, of both planes
 *   planes_dot(t, plane, a, b, lanes, one)   plane 0, then plane 1 by the same x
 *   planes_store(t, plane, c, one)   sums by the first tile of x, row r from 16 r on, and from
 *                    c[256] on those by the second
 *
 *   tw               32 words; of bfloat16, or indices
 *   tw_load, tw_store, tw_up, tw_down(a, bits)
 *   tw_merge(a, b, mask)         the bits of b where mask has ones, else of a
 *   tw_look_up(table, i)         by the low 5 bits; tw_look_up_two(low, high, i): by the low 6
 *   tw_of_bytes(p)               32 bytes
 *   tw_nibbles(p)                word 8 k + i: word i of 16 bytes, down by 4 k bits
 *   tw_quarters(p)               word 4 k + i: word i of 8 bytes, down by 2 k bits
 *   tw_nibbles_of_two(p)         word 16 g + 4 k + i: word i of the 8 bytes at p + 8 g, down by 4 k
 *   tw_folded(p, table, scales)  those of tw_nibbles_of_two, looked up: word 16 g + i in the row
 *                                scales[g] of the table
 *   tw_more_bits(a, p, up)       the low `up` bits of a, and above them one of 32 bits, in the
 *                                order of tw_nibbles where low nibbles come before high ones
 *   tw_signed(p, q, table, out)  32 signed bytes at p and 32 at q: their numbers, from 0 on in the
 *                                table of tw_minis, then with signs
 *   tw_minis(p, table, out)      64 bytes: the numbers of their low 7 bits, whose low and high
 *                                bytes begin at table[0] and table[128], with their signs
 *   tw_sixes(p, table, out)      64 codes of 6 bits in 48 bytes: their numbers, as there
 *
 *   tb               64 bytes; tb_load, tb_store
 *   tb_table(p)      a table of 16 bytes; tb_repeat(a): of a word of 8 twice; tb_repeat_two(a, b)
 *   tb_nibbles(p, q)     byte 16 n + i: nibble n of byte i at p; byte 32 + 16 n + i: at q
 *   tb_quarters(p, q)    byte 8 n + i: bits 2 n and 2 n + 1 of byte i at p; byte 32 + 8 n + i: at q
 *   tb_twice(p, a, b)    32 bytes twice; of these words of 64 bits are rotated down, by a or b bits
 *   tb_and(a, mask), tb_merge(a, b, mask), tb_less(a, n): byte by byte, as words above
 *   tb_times(a, b)   as 32 words, the low 16 bits of each product
 *   tb_more_bits(a, p, q, n)   n more where one of the 32 bits at p, then of those at q, is set
 *   tb_look_up(table, i)   by bytes below 16 */
#ifndef KERF_TILES_PLAIN_H
#define KERF_TILES_PLAIN_H

#include <math.h>
#include <string.h>

#include "cpu/vectors_plain.h"
#include "scalar/pack.h"

/* --- tiles --------------------------------------------------------------------------------------
 */

typedef struct tiles {
    float sum[32][16];
    int32_t first[32][16], second[32][16];
    unsigned columns;
} tiles;

#define TILES_SYNC ((void)0)

KF_HD float tile_flush(float x)
{
    const uint32_t bits = kf_bits(x);
    return bits & 0x7f800000 ? x : kf_float(bits & 0x80000000);
}

/* A product of two bfloat16 has 16 bits: where it is normal it is exact, and fmaf is not needed. */
KF_HD float tile_fma(float a, float b, float c)
{
    const float product = a * b;
    return tile_flush(isnormal(product) ? product + c : fmaf(a, b, c));
}
KF_HD void tile_numbers(const uint16_t *a, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = tile_flush(kf_bf16_decode(a[i]));
}
KF_HD void tiles_begin(tiles *t, unsigned columns)
{
    t->columns = columns;
}
KF_HD void tiles_end(tiles *t)
{
    t->columns = 0;
}
KF_HD void tiles_zero(tiles *t)
{
    memset(t->sum, 0, sizeof t->sum);
}
static void tile_dot_pairs(tiles *t, const uint16_t *a, const uint16_t *b, size_t columns,
                           size_t rows, size_t pairs)
{
    float w[2 * 16], x[2 * 16 * 16];
    tile_numbers(b, 2 * pairs * columns, x);
    for (size_t r = 0; r < rows; r++) {
        tile_numbers(a + 32 * r, 2 * pairs, w);
        for (size_t c = 0; c < columns; c++) {
            float sum[2] = {0, 0};
            for (size_t i = 0; i < pairs; i++)
                for (size_t j = 0; j < 2; j++)
                    sum[j] = tile_fma(w[2 * i + j], x[2 * (i * columns + c) + j], sum[j]);
            t->sum[r][c] = tile_flush(t->sum[r][c] + tile_flush(sum[0] + sum[1]));
        }
    }
}
KF_HD void tiles_dot(tiles *t, const uint16_t *a, const uint16_t *b, size_t columns, int both)
{
    tile_dot_pairs(t, a, b, columns, both ? 32 : 16, 16);
}
KF_HD void tiles_dot_half(tiles *t, const uint16_t *a, const uint16_t *b, size_t columns, int both)
{
    tile_dot_pairs(t, a, b, columns, both ? 32 : 16, 8);
}
KF_HD void tiles_store(tiles *t, float *c, int both)
{
    for (size_t r = 0; r < (both ? 32 : 16); r++)
        memcpy(c + 16 * r, t->sum[r], t->columns * sizeof *c);
}

KF_HD void bytes_begin(tiles *t, unsigned depth, unsigned columns)
{
    (void)depth;
    t->columns = columns;
}
KF_HD void bytes_zero(tiles *t, int one)
{
    (void)one;
    memset(t->first, 0, sizeof t->first);
    memset(t->second, 0, sizeof t->second);
}
static void byte_dot(int32_t sum[32][16], const uint8_t *a, size_t stride, const uint8_t *b,
                     size_t depth, size_t columns, size_t rows)
{
    for (size_t r = 0; r < rows; r++, a += stride)
        for (size_t i = 0; i < depth; i++) {
            const int8_t *x = (const int8_t *)b + i / 4 * 4 * columns + i % 4;
            for (size_t c = 0; c < columns; c++) sum[r][c] += (int8_t)a[i] * x[4 * c];
        }
}
KF_HD void bytes_dot(tiles *t, const uint8_t *a, size_t stride, const uint8_t *b, size_t depth,
                     size_t columns, int one, int both)
{
    byte_dot(t->first, a, stride, b, depth, columns, both ? 32 : 16);
    if (!one) byte_dot(t->second, a, stride, b + depth * columns, depth, columns, both ? 32 : 16);
}
KF_HD void bytes_store(tiles *t, int32_t *first, int32_t *second, int both)
{
    for (size_t r = 0; r < (both ? 32 : 16); r++) {
        memcpy(first + 16 * r, t->first[r], t->columns * sizeof *first);
        if (second) memcpy(second + 16 * r, t->second[r], t->columns * sizeof *second);
    }
}

KF_HD void planes_begin(tiles *t, unsigned lanes)
{
    t->columns = lanes;
}
KF_HD void planes_zero(tiles *t)
{
    bytes_zero(t, 0);
}
static void plane_dot(int32_t sum[16][16], const uint8_t *a, const uint8_t *b, size_t lanes)
{
    for (size_t r = 0; r < 16; r++, a += 64)
        for (size_t i = 0; i < 64; i++) {
            const int8_t *x = (const int8_t *)b + i / 4 * 4 * lanes + i % 4;
            for (size_t c = 0; c < lanes; c++) sum[r][c] += a[i] * x[4 * c];
        }
}
KF_HD void planes_dot(tiles *t, unsigned plane, const uint8_t *a, const uint8_t *b, size_t lanes,
                      int one)
{
    int32_t(*sum)[16] = plane ? t->second : t->first;
    plane_dot(sum, a, b, lanes);
    if (!one) plane_dot(sum + 16, a, b + 64 * lanes, lanes);
}
KF_HD void planes_store(tiles *t, unsigned plane, int32_t *c, int one)
{
    for (size_t r = 0; r < (one ? 16 : 32); r++)
        memcpy(c + 16 * r, plane ? t->second[r] : t->first[r], t->columns * sizeof *c);
}

/* --- bytes --------------------------------------------------------------------------------------
 */

typedef struct tb {
    uint8_t at[64];
} tb;

#define TB_EACH(expression)                                            \
    tb y;                                                              \
    for (unsigned i = 0; i < 64; i++) y.at[i] = (uint8_t)(expression); \
    return y

KF_HD void tb_store(uint8_t *p, tb a)
{
    memcpy(p, &a, sizeof a);
}
KF_HD tb tb_load(const uint8_t *p)
{
    TB_EACH(p[i]);
}
KF_HD tb tb_repeat_two(uint64_t a, uint64_t b)
{
    TB_EACH((i & 8 ? b : a) >> 8 * (i % 8));
}
KF_HD tb tb_repeat(uint64_t a)
{
    return tb_repeat_two(a, a);
}
KF_HD tb tb_times(tb a, tb b)
{
    tb y;
    for (unsigned i = 0; i < 64; i += 2) {
        const unsigned m = a.at[i] | (unsigned)a.at[i + 1] << 8;
        const unsigned n = (b.at[i] | (unsigned)b.at[i + 1] << 8) * m;
        y.at[i] = (uint8_t)n, y.at[i + 1] = (uint8_t)(n >> 8);
    }
    return y;
}
KF_HD tb tb_table(const uint8_t *p)
{
    TB_EACH(p[i % 16]);
}
KF_HD tb tb_nibbles(const uint8_t *p, const uint8_t *q)
{
    TB_EACH((i < 32 ? p : q)[i % 16] >> 4 * (i / 16 % 2) & 15);
}
KF_HD tb tb_quarters(const uint8_t *p, const uint8_t *q)
{
    TB_EACH((i < 32 ? p : q)[i % 8] >> 2 * (i / 8 % 4) & 3);
}
KF_HD tb tb_twice(const uint8_t *p, unsigned first, unsigned second)
{
    tb y;
    for (unsigned i = 0; i < 8; i++) {
        const unsigned n = i < 4 ? first : second;
        uint64_t word;
        memcpy(&word, p + i % 4 * 8, 8);
        word = word >> n % 64 | word << (64 - n) % 64;
        memcpy(y.at + 8 * i, &word, 8);
    }
    return y;
}
KF_HD tb tb_and(tb a, uint8_t mask)
{
    TB_EACH(a.at[i] & mask);
}
KF_HD tb tb_merge(tb a, tb b, uint8_t mask)
{
    TB_EACH((a.at[i] & ~mask) | (b.at[i] & mask));
}
KF_HD tb tb_less(tb a, int n)
{
    TB_EACH(a.at[i] - n);
}
KF_HD tb tb_more_bits(tb a, const uint8_t *p, const uint8_t *q, int n)
{
    TB_EACH(a.at[i] + ((i < 32 ? p : q)[i % 32 / 8] >> i % 8 & 1) * n);
}
KF_HD tb tb_look_up(tb table, tb i_)
{
    TB_EACH(i_.at[i] & 128 ? 0 : table.at[i_.at[i] & 15]);
}

/* --- words --------------------------------------------------------------------------------------
 */

typedef struct tw {
    uint16_t at[32];
} tw;

#define TW_EACH(expression)                                             \
    tw y;                                                               \
    for (unsigned i = 0; i < 32; i++) y.at[i] = (uint16_t)(expression); \
    return y

KF_HD unsigned tw_word(const uint8_t *p, unsigned i)
{
    return p[2 * i] | (unsigned)p[2 * i + 1] << 8;
}
KF_HD tw tw_load(const uint16_t *p)
{
    TW_EACH(p[i]);
}
KF_HD void tw_store(uint16_t *p, tw a)
{
    memcpy(p, &a, sizeof a);
}
KF_HD tw tw_up(tw a, unsigned n)
{
    TW_EACH(a.at[i] << n);
}
KF_HD tw tw_down(tw a, unsigned n)
{
    TW_EACH(a.at[i] >> n);
}
KF_HD tw tw_merge(tw a, tw b, uint16_t mask)
{
    TW_EACH((a.at[i] & ~mask) | (b.at[i] & mask));
}
KF_HD tw tw_look_up(tw table, tw a)
{
    TW_EACH(table.at[a.at[i] & 31]);
}
KF_HD tw tw_look_up_two(tw low, tw high, tw a)
{
    TW_EACH(a.at[i] & 32 ? high.at[a.at[i] & 31] : low.at[a.at[i] & 31]);
}
KF_HD tw tw_of_bytes(const uint8_t *p)
{
    TW_EACH(p[i]);
}
KF_HD tw tw_nibbles(const uint8_t *p)
{
    TW_EACH(tw_word(p, i % 8) >> 4 * (i / 8));
}
KF_HD tw tw_quarters(const uint8_t *p)
{
    TW_EACH(tw_word(p, i % 4) >> 2 * (i / 4));
}
KF_HD tw tw_nibbles_of_two(const uint8_t *p)
{
    TW_EACH(tw_word(p + i / 16 * 8, i % 4) >> 4 * (i / 4 % 4));
}
KF_HD tw tw_folded(const uint8_t *p, const uint16_t (*table)[16], const uint8_t *scales)
{
    TW_EACH(table[scales[i / 16]][tw_word(p + i / 16 * 8, i % 4) >> 4 * (i / 4 % 4) & 15]);
}
KF_HD tw tw_more_bits(tw a, const uint8_t *p, unsigned up)
{
    TW_EACH((a.at[i] & ((1u << up) - 1)) | (tw_word(p, i / 8 % 2) >> (2 * (i % 8) + i / 16) & 1)
                                               << up);
}
KF_HD void tw_minis(const uint8_t *p, const uint8_t *table, tw out[2])
{
    for (unsigned i = 0; i < 64; i++) {
        const unsigned m = p[i] & 127;
        out[i / 32].at[i % 32] =
            (uint16_t)(table[m] | (unsigned)(table[128 + m] | (p[i] & 128)) << 8);
    }
}
KF_HD void tw_signed(const uint8_t *p, const uint8_t *q, const uint8_t *table, tw out[2])
{
    for (unsigned i = 0; i < 64; i++) {
        const int number = (int8_t)(i < 32 ? p : q)[i % 32];
        const unsigned size = (unsigned)(number < 0 ? -number : number),
                       sign = number < 0 ? 128 : 0;
        const unsigned high = size < 128 ? table[128 + size] : 0x43;
        out[i / 32].at[i % 32] = (uint16_t)((size < 128 ? table[size] : 0) | (high | sign) << 8);
    }
}
KF_HD void tw_sixes(const uint8_t *p, const uint8_t *table, tw out[2])
{
    for (unsigned i = 0; i < 64; i++) {
        const uint32_t code = kf_get_code(p, 6, i);
        out[i / 32].at[i % 32] = (uint16_t)(table[code] | (unsigned)table[128 + code] << 8);
    }
}

#endif
