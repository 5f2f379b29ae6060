/* gemv_level_blocks.h - a block of rows times more columns than go at a time, of ggml's blocks
 * (gemv_levels.h): parts of x, as many columns of them as go at a time, stay in the first cache
 * while all rows of the block pass. */
#ifndef KERF_GEMV_LEVEL_BLOCKS_H
#define KERF_GEMV_LEVEL_BLOCKS_H

#include "cpu/gemv_level_steps.h"
#if TAKES_WORDS
#include "cpu/gemv_level_words.h"
#endif

#define LEVEL_PART 1024                /* inputs */
#define LEVEL_X_NEAR ((size_t)1 << 19) /* bytes of x that need none: about what a core keeps */

#if !TAKES_WORDS
/* Adds steps [first, end) of n rows times C columns from `column` on. */
KF_HD void add_level_part(kf_spec s, const int C, const kf_gemv_call *call, level_block *b,
                          size_t n, size_t column, size_t first, size_t end)
{
    const kf_gemv_layout *l = call->plan->state;
    const uint8_t *x = (const uint8_t *)kf_gemv_packed(l, call->workspace, column);
    for (size_t r = 0; r < n; r++)
        add_level_steps(s, 1, C, 1, l, &b->row[r], x, first, end,
                        (vf(*)[WIDE]) & b->sum[r][column]);
}
#endif

/* Adds steps [from, to) of n rows times all columns, as many at a time as is quick. */
KF_HD void add_part(kf_spec s, const kf_gemv_call *call, level_block *b, size_t n, size_t from,
                    size_t to)
{
    size_t c = 0;
#if TAKES_WORDS
    for (size_t left; (left = call->columns - c) > 0;)
        if (left >= 8)
            add_word_part(s, 8, call, b, n, c, from, to), c += 8;
        else if (left == 4 || left == 7)
            add_word_part(s, 4, call, b, n, c, from, to), c += 4;
        else if (left >= 3)
            add_word_part(s, 3, call, b, n, c, from, to), c += 3;
        else if (left == 2)
            add_word_part(s, 2, call, b, n, c, from, to), c += 2;
        else
            add_word_part(s, 1, call, b, n, c, from, to), c += 1;
#else
    for (; call->columns - c >= WIDE; c += WIDE) add_level_part(s, WIDE, call, b, n, c, from, to);
    if (call->columns - c >= 2) add_level_part(s, 2, call, b, n, c, from, to), c += 2;
    if (call->columns - c == 1) add_level_part(s, 1, call, b, n, c, from, to);
#endif
}

/* n rows from r0 on: sums of chunks are added up, as levels_few_rows does. */
KF_HD void levels_block(kf_spec s, const kf_gemv_call *call, size_t r0, size_t n, level_block *b)
{
    const kf_gemv_layout *l = call->plan->state;
    const size_t columns = call->columns, part = LEVEL_PART / l->step;
    for (size_t r = 0; r < n; r++) {
        find_level_rows(call, r0 + r, 1, &b->row[r]);
        b->row[r].ahead = LEVEL_ROWS * l->row_bytes;
        for (size_t c = 0; c < columns; c++) b->total[r][c] = vf_set1(0);
    }
    for (size_t first = 0; first < l->steps; first += l->chunk) {
        const size_t end = l->steps - first < l->chunk ? l->steps : first + l->chunk;
        for (size_t r = 0; r < n; r++)
            for (size_t c = 0; c < columns; c++) b->sum[r][c] = vf_set1(0);
        for (size_t from = first; from < end; from += part) {
            const size_t to = end - from < part ? end : from + part;
            add_part(s, call, b, n, from, to);
        }
        for (size_t r = 0; r < n; r++)
            for (size_t c = 0; c < columns; c++)
                b->total[r][c] = vf_add(b->total[r][c], b->sum[r][c]);
    }
    for (size_t r = 0; r < n; r++)
        for (size_t c = 0; c < columns; c++) finish_level(call, r0 + r, c, vf_sum(b->total[r][c]));
}

KF_HD void levels_blocks(kf_spec s, const kf_gemv_call *call, size_t r0, size_t r1)
{
    level_block block;
    for (size_t r = r0; r < r1; r += LEVEL_ROWS)
        levels_block(s, call, r, r1 - r < LEVEL_ROWS ? r1 - r : LEVEL_ROWS, &block);
}

#endif
