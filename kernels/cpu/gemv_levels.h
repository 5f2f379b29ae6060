/* gemv_levels.h - rows of ggml's blocks of two levels, of q4_0's and q8_0's, times columns in
 * integers, for one instruction set (gemv_rows.h). Each row of the table in block/super_layout.h is
 * compiled as a literal.
 *
 * Codes stay bytes, in the order in which they lie: a shift and a mask give those of as many
 * elements as a vector has bytes, and x is in that order (gemv_levels_x.h). An integer of x is
 * BASE * upper + lower, two signed bytes, so there are two sums, of products of bytes. The level of
 * a group multiplies them as an integer too, so all sums of a block are exact, and two roundings
 * bring them to fp32 and to the sum of the row. What is taken off all codes of a group, its minimum
 * or the middle of the codes, is multiplied by the group's sum of x, found once for all rows.
 *
 * Rows go in blocks, and x passes part by part, where it is more than a core keeps near
 * (gemv_level_blocks.h), and always where several columns are multiplied as words instead
 * (gemv_level_words.h).
 *
 * A scale that is infinite or NaN makes a sum so, too; such rows are done again by the reference.
 */
#ifndef KERF_GEMV_LEVELS_H
#define KERF_GEMV_LEVELS_H

#include "cpu/gemv_level_blocks.h"
#include "cpu/gemv_level_steps.h"

/* R rows from r0 on times C columns from `column` on. */
KF_HD void levels_few_rows(kf_spec s, const int R, const int C, const kf_gemv_call *call, size_t r0,
                           size_t column)
{
    const kf_gemv_layout *l = call->plan->state;
    const uint8_t *x = (const uint8_t *)kf_gemv_packed(l, call->workspace, column);
    level_rows rows;
    vf total[ROWS][WIDE];
    rows.ahead = R > 1 ? ROWS * l->row_bytes : SUPER_AHEAD;
    find_level_rows(call, r0, (size_t)R, &rows);
    for (int r = 0; r < R; r++) UNROLL for (int c = 0; c < C; c++) total[r][c] = vf_set1(0);
    for (size_t first = 0; first < l->steps; first += l->chunk) {
        const size_t end = l->steps - first < l->chunk ? l->steps : first + l->chunk;
        add_level_steps(s, R, C, 0, l, &rows, x, first, end, total);
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++)
            finish_level(call, r0 + (size_t)r, column + (size_t)c, vf_sum(total[r][c]));
}

/* Rows in fours with a single column: memory is read at four places then. */
KF_HD void levels_rows(kf_spec s, const kf_gemv_call *call, size_t r0, size_t r1)
{
    for (size_t r = r0; r < r1;) {
        const int rows = call->columns == 1 && r1 - r >= ROWS ? ROWS : 1;
        for (size_t c = 0; c < call->columns;) {
            const size_t left = call->columns - c;
            if (rows == ROWS)
                levels_few_rows(s, ROWS, 1, call, r, c), c++;
            else if (left >= WIDE && !TAKES_WORDS)
                levels_few_rows(s, 1, WIDE, call, r, c), c += WIDE;
            else if (left >= 2)
                levels_few_rows(s, 1, 2, call, r, c), c += 2;
            else
                levels_few_rows(s, 1, 1, call, r, c), c++;
        }
        r += (size_t)rows;
    }
}

/* Functions apart, so that what gcc does with the one leaves the other as it is. */
#define EACH_SUPER levels_rows
#define EACH_SUPER_SMALL kf_gemv_small_bits(INTEGERS, 1)
#define EACH_SUPER_NAME(x) levels_of_##x
#include "cpu/gemv_each_super.h"

#define EACH_SUPER levels_blocks
#define EACH_SUPER_SMALL kf_gemv_small_bits(INTEGERS, KERF_GEMV_COLUMNS)
#define EACH_SUPER_NAME(x) blocks_of_##x
#include "cpu/gemv_each_super.h"

static void levels_any(const kf_gemv_call *c, size_t r0, size_t r1)
{
    const kf_gemv_layout *l = c->plan->state;
    const int x_is_far = c->columns > WIDE && c->columns * 4 * l->steps * l->step > LEVEL_X_NEAR;
    if (TAKES_WORDS ? l->level_words : x_is_far)
        blocks_of_any(c, r0, r1);
    else
        levels_of_any(c, r0, r1);
}

kf_gemv_rows_function *const KF_ISA(LEVELS)[KF_SCALINGS] = {[KF_SCALING_STEP] = levels_any};

#endif
