/* gemv_level_words.h - ggml's blocks times several columns, in words (gemv_levels.h).
 *
 * Codes become words once for all columns, those of blocks of 256 times the levels of their groups:
 * integers of 13 bits at most. Then a column costs a product and a sum for each vector of words,
 * where bytes cost two products and a sum, twice, for each vector of bytes; with fewer columns than
 * KF_GEMV_WORDS_FROM that does not make up for the words. Sums are exact: at most 16 products meet
 * in a dword, 16 * 128 * 32 * 32767 < 2^31, or 32 that are below half as large. */
#ifndef KERF_GEMV_LEVEL_WORDS_H
#define KERF_GEMV_LEVEL_WORDS_H

#include "cpu/gemv_level_steps.h"

#define WORD_COLUMNS 8 /* at a time */

/* Adds sums of products to sum, times d and what an integer of x stands for; unit: where the first
 * column has that. */
KF_HD void add_word_sums(const int C, const vi dot[WORD_COLUMNS], vf d, const uint8_t *unit,
                         size_t x_column, vf sum[WORD_COLUMNS])
{
    UNROLL for (int c = 0; c < C; c++)
    {
        const vf scale = vf_mul(d, vf_set1(kf_gemv_level_unit(unit + (size_t)c * x_column, 0)));
        sum[c] = vf_fma(vf_of_int(dot[c]), scale, sum[c]);
    }
}

/* Two vectors of words, less the middle of the codes. */
KF_HD void code_words(kf_super k, vi codes, vi words[2])
{
    const int middle = k.book ? BOOK_BIAS : k.middle;
    vi_words(codes, k.book && !BOOK_BIAS, words);
    UNROLL for (int i = 0; i < 2; i++) if (middle) words[i] = vi_sub_words(words[i], middle);
}

/* Adds a block of 256 times those numbers of C columns to sum. */
KF_HD void add_words(kf_super k, const unsigned group, const int C, const kf_gemv_layout *l,
                     vi book, const uint8_t *block, const uint8_t *x, vf sum[WORD_COLUMNS])
{
    const size_t x_column = kf_gemv_words_of_step(256, VB);
    const unsigned per = 8 / k.low.bits;
    const int is_signed = kf_gemv_has_signs(k.levels);
    /* others are below half as large */
    const int halves = VB == 32 && (k.book || k.levels == KF_LEVELS_EIGHT);
    const super_bytes b = level_bytes(k.levels, block + k.at);
    const vi levels = group_scales(k, block + k.at, b);
    const vf d = super_half(block + k.d);
    const uint8_t *more = x + 512;
    vi dot[WORD_COLUMNS], low = vi_set1(0);
    UNROLL for (int c = 0; c < C; c++) dot[c] = vi_set1(0);
    UNROLL for (unsigned v = 0; v < 256 / VB; v++)
    {
        const vi level = vi_level(levels, l->level_place + v * VB, 2, is_signed);
        vi words[2];
        if (v % per == 0) low = vi_load(block + k.low.at + v / per * VB);
        code_words(k, level_codes(k, book, low, block, v), words);
        UNROLL for (unsigned i = 0; i < 2; i++)
        {
            const vi w = vi_mul_words(words[i], level);
            UNROLL for (int c = 0; c < C; c++) dot[c] =
                vi_dot_words(dot[c], w, x + (size_t)c * x_column + (2 * v + i) * VB);
        }
        if (halves && v == 256 / VB / 2 - 1) {
            add_word_sums(C, dot, d, more + WORDS_UNIT, x_column, sum);
            UNROLL for (int c = 0; c < C; c++) dot[c] = vi_set1(0);
        }
    }
    add_word_sums(C, dot, d, more + WORDS_UNIT, x_column, sum);
    if (k.m == 0) return;
    const vf m = vf_sub(vf_set1(0), super_half(block + k.m));
    UNROLL for (unsigned j = 0; j < 256 / group; j += V)
    {
        const vf min = vf_mul(m, vf_of_int(group_minima(k, block + k.at, b, j)));
        UNROLL for (int c = 0; c < C; c++) sum[c] =
            vf_fma(min, vf_load((const float *)(more + (size_t)c * x_column) + j), sum[c]);
    }
}

/* Adds as many blocks of 32 as are a step. */
KF_HD void add_small_words(kf_super k, const int C, vi book, const uint8_t *block, const uint8_t *x,
                           vf sum[WORD_COLUMNS])
{
    const size_t x_column = kf_gemv_words_of_step(32, VB);
    const uint8_t *more = x + 4 * VB;
    vf m;
    const vf d = vf_halves(block + k.d, k.bytes, &m);
    vi codes[2], words[4], dot[WORD_COLUMNS];
    small_codes(k, book, block, codes);
    UNROLL for (int v = 0; v < 2; v++) code_words(k, codes[v], words + 2 * v);
    UNROLL for (int c = 0; c < C; c++)
    {
        dot[c] = vi_set1(0);
        UNROLL for (unsigned i = 0; i < 4; i++) dot[c] =
            vi_dot_words(dot[c], words[i], x + (size_t)c * x_column + i * VB);
    }
    add_word_sums(C, dot, d, more + 4 * V, x_column, sum);
    UNROLL for (int c = 0; c < C; c++) if (k.m) sum[c] =
        vf_fma(m, vf_load((const float *)(more + (size_t)c * x_column)), sum[c]);
}

/* Adds steps [first, end) of n rows times C columns from `column` on. */
KF_HD void add_word_part(kf_spec s, const int C, const kf_gemv_call *call, level_block *b, size_t n,
                         size_t column, size_t first, size_t end)
{
    const kf_super k = kf_gemv_level_block(s, kf_gemv_small_bits(INTEGERS, KERF_GEMV_COLUMNS));
    const kf_gemv_layout *l = call->plan->state;
    const uint8_t *x = (const uint8_t *)((const float *)call->workspace + column * l->x_column);
    const unsigned bytes = k.elements == 32 ? VB / 16 * k.bytes : k.bytes;
    const vi book = vi_load16(l->level_book);
    for (size_t r = 0; r < n; r++) {
        const level_rows *row = &b->row[r];
        vf sum[WORD_COLUMNS];
        UNROLL for (int c = 0; c < C; c++) sum[c] = b->sum[r][column + (size_t)c];
        for (size_t i = first; i < end; i++) {
            const uint8_t *block = i < l->whole ? row->row[0] + i * bytes : row->tail[0];
            const uint8_t *at = x + 4 * l->x_step * i;
            for (size_t j = 0; j < bytes; j += 64) fetch_ahead(block + j, row->ahead);
            if (k.elements == 32)
                add_small_words(k, C, book, block, at, sum);
            else
                add_words(k, s.group, C, l, book, block, at, sum);
        }
        UNROLL for (int c = 0; c < C; c++) b->sum[r][column + (size_t)c] = sum[c];
    }
}

#endif
