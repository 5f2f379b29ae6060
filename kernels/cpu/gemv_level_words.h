/* gemv_level_words.h - ggml's blocks of 256 of two levels times several columns, in words
 * (gemv_levels.h, which includes this).
 *
 * A code times the level of its group is an integer of 13 bits at most, and is found once for all
 * columns. Then a column costs a product and a sum for each vector of words of codes, where bytes
 * cost two products and a sum, twice, for each vector of bytes; with fewer columns than
 * KF_GEMV_WORDS_FROM that does not make up for the words. Sums are exact: at most 16 products of
 * words meet in a dword, 16 * 128 * 32 * 32767 < 2^31, or 32 that are below half as large. */
#ifndef KERF_GEMV_LEVEL_WORDS_H
#define KERF_GEMV_LEVEL_WORDS_H

#define WORD_COLUMNS 8 /* at a time */

/* Adds sums of products, times d and what an integer of x stands for, to sum. */
KF_HD void add_word_sums(const int C, const vi dot[WORD_COLUMNS], vf d, const uint8_t *x,
                         vf sum[WORD_COLUMNS])
{
    UNROLL for (int c = 0; c < C; c++)
    {
        const uint8_t *more = x + c * KF_GEMV_WORDS_OF_STEP + 512;
        const vf scale = vf_mul(d, vf_set1(kf_gemv_level_unit(more, WORDS_UNIT)));
        sum[c] = vf_fma(vf_of_int(dot[c]), scale, sum[c]);
    }
}

/* Adds a block times those numbers of C columns to sum. */
KF_HD void add_words(kf_super k, const unsigned group, const int C, const kf_gemv_layout *l,
                     vi book, const uint8_t *block, const uint8_t *x, vf sum[WORD_COLUMNS])
{
    const unsigned per = 8 / k.low.bits;
    const int is_signed = kf_gemv_has_signs(k.levels);
    const int middle = k.book ? BOOK_BIAS : k.middle;
    /* others are below half as large */
    const int halves = VB == 32 && (k.book || k.levels == KF_LEVELS_EIGHT);
    const super_bytes b = level_bytes(k.levels, block + k.at);
    const vi levels = group_scales(k, block + k.at, b);
    const vf d = super_half(block + k.d);
    vi dot[WORD_COLUMNS], low = vi_set1(0);
    UNROLL for (int c = 0; c < C; c++) dot[c] = vi_set1(0);
    UNROLL for (unsigned v = 0; v < 256 / VB; v++)
    {
        const vi level = vi_level(levels, l->level_place + v * VB, 2, is_signed);
        vi words[2];
        if (v % per == 0) low = vi_load(block + k.low.at + v / per * VB);
        vi_words(level_codes(k, book, low, block, v), k.book && !BOOK_BIAS, words);
        UNROLL for (int i = 0; i < 2; i++)
        {
            const vi w = vi_times_level(words[i], middle, level);
            UNROLL for (int c = 0; c < C; c++) dot[c] =
                vi_dot_words(dot[c], w, x + c * KF_GEMV_WORDS_OF_STEP + (2 * v + (unsigned)i) * VB);
        }
        if (halves && v == 256 / VB / 2 - 1) {
            add_word_sums(C, dot, d, x, sum);
            UNROLL for (int c = 0; c < C; c++) dot[c] = vi_set1(0);
        }
    }
    add_word_sums(C, dot, d, x, sum);
    if (k.m == 0) return;
    const vf m = vf_sub(vf_set1(0), super_half(block + k.m));
    UNROLL for (unsigned j = 0; j < 256 / group; j += V)
    {
        const vf min = vf_mul(m, vf_of_int(group_minima(k, block + k.at, b, j)));
        UNROLL for (int c = 0; c < C; c++)
        {
            const uint8_t *more = x + c * KF_GEMV_WORDS_OF_STEP + 512;
            sum[c] = vf_fma(min, vf_load((const float *)more + j), sum[c]);
        }
    }
}

/* Adds steps [first, end) of n rows times C columns from `column` on. */
KF_HD void add_word_part(kf_spec s, const int C, const kf_gemv_call *call, level_block *b, size_t n,
                         size_t column, size_t first, size_t end)
{
    const kf_super k = kf_super_of(s);
    const kf_gemv_layout *l = call->plan->state;
    const uint8_t *x = (const uint8_t *)kf_gemv_packed(l, call->workspace, column);
    const vi book = vi_load16(l->level_book);
    for (size_t r = 0; r < n; r++) {
        vf sum[WORD_COLUMNS];
        UNROLL for (int c = 0; c < C; c++) sum[c] = b->sum[r][column + (size_t)c];
        for (size_t i = first; i < end; i++) {
            const uint8_t *block = b->row[r].row[0] + i * k.bytes;
            for (size_t j = 0; j < k.bytes; j += 64) fetch_ahead(block + j, b->row[r].ahead);
            add_words(k, s.group, C, l, book, block, x + 4 * l->x_step * i, sum);
        }
        UNROLL for (int c = 0; c < C; c++) b->sum[r][column + (size_t)c] = sum[c];
    }
}

#endif
