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
 * Where x is more than a core keeps near, rows go in blocks, and x passes part by part.
 *
 * A scale that is infinite or NaN makes a sum so, too; such rows are done again by the reference.
 */
#ifndef KERF_GEMV_LEVELS_H
#define KERF_GEMV_LEVELS_H

#include "cpu/gemv_level_bytes.h"
#include "cpu/gemv_levels_x.h"

/* Blocks of one level go so where codes have no other way as integers. */
#ifdef FEW_DECODES
#define TAKES_SMALL 1
#else
#define TAKES_SMALL 0
#endif

/* --- codes ---------------------------------------------------------------------------------------
 */

#if VB <= 32 /* a vector has its high bits at one place */
KF_HD vi vi_merge(vi a, vi b, int mask)
{
    return vi_or(a, vi_and(b, vi_bytes(mask)));
}
KF_HD vi vi_high(const uint8_t *p, int n0, int n1)
{
    const vi bytes = vi_load(p);
    (void)n1;
    return n0 > 0 ? vi_shl(bytes, n0) : n0 < 0 ? vi_shr(bytes, -n0) : bytes;
}
#endif

/* Vector v of codes of a block of 256, `low` being the bytes that hold their low bits. */
KF_HD vi level_codes(kf_super k, vi book, vi low, const uint8_t *block, unsigned v)
{
    const unsigned shift = v % (8 / k.low.bits) * k.low.bits;
    const vi mask = vi_bytes((1 << k.low.bits) - 1);
    vi codes = vi_and(shift ? vi_shr(low, (int)shift) : low, mask);
    if (k.high.bits) { /* the upper half of a vector may have its bits at another place */
        const unsigned e = kf_gemv_level_element(k, VB, v, 0);
        const unsigned other = kf_gemv_level_element(k, VB, v, VB > 32 ? 32 : 0);
        const int n0 = (int)k.low.bits - (int)kf_place_shift(k.high, e);
        const int n1 = (int)k.low.bits - (int)kf_place_shift(k.high, other);
        const vi high = vi_high(block + kf_place_byte(k.high, e), n0, n1);
        codes = vi_merge(codes, high, ((1 << k.high.bits) - 1) << k.low.bits);
    }
    if (k.book) codes = vi_book(book, codes);
    return SIGNED_CODES && k.middle ? vi_sub_bytes(codes, vi_bytes(k.middle)) : codes;
}

/* 16 bits of each of the blocks that a step has, `stride` apart. */
KF_HD uint64_t sixteens(const uint8_t *p, size_t stride)
{
    uint64_t all = 0;
    UNROLL for (unsigned i = 0; i < V / 4; i++)
    {
        uint16_t bits;
        memcpy(&bits, p + i * stride, 2);
        all |= (uint64_t)bits << 16 * i;
    }
    return all;
}

/* --- blocks of 256, with levels ------------------------------------------------------------------
 */

/* n times the middle of codes: 4, 32, or what the numbers of a book were moved by. */
KF_HD vi times_middle(int middle, vi n)
{
    if (middle == 127) return vi_sub(vi_shl(n, 7), n);
    return vi_shl(n, middle == 4 ? 2 : 5);
}

/* Adds a vector of codes, or two of a book, which have the same levels. */
KF_HD void add_vector(kf_super k, const vi codes[2], vi level, const uint8_t *x, vi *sum)
{
    if (!k.book) {
        *sum = vi_dot_level(*sum, codes[0], x, level);
        return;
    }
    const vi dot = vi_dot(vi_dot(vi_set1(0), codes[0], x, 1), codes[1], x + 2 * VB, 1);
    *sum = vi_add(*sum, vi_mul(dot, level));
}

/* Adds a block times those numbers of C columns to sum. */
KF_HD void add_levels(kf_super k, const unsigned group, const int C, const kf_gemv_layout *l,
                      vi book, const uint8_t *block, const uint8_t *x, size_t x_stride,
                      vf sum[WIDE])
{
    const unsigned vectors = 256 / VB, per = 8 / k.low.bits, together = k.book ? 2 : 1;
    const int middle = SIGNED_CODES ? 0 : k.book ? BOOK_BIAS : k.middle;
    const super_bytes b = level_bytes(k.levels, block + k.at);
    const vi levels = vi_levels(b.scale[0], b.scale[1], (int)b.bias);
    vi upper[WIDE], lower[WIDE], low = vi_set1(0);
    UNROLL for (int c = 0; c < C; c++) upper[c] = lower[c] = vi_set1(0);
    UNROLL for (unsigned v = 0; v < vectors; v += together)
    {
        const int bytes = k.book || SIGNED_CODES ? 4 : 2;
        const vi level = vi_level(levels, l->level_place + v * VB, bytes, b.bias != 0);
        vi codes[2];
        if (v % per == 0) low = vi_load(block + k.low.at + v / per * VB);
        UNROLL for (unsigned i = 0; i < together; i++) codes[i] =
            level_codes(k, book, low, block, v + i);
        UNROLL for (int c = 0; c < C; c++)
        {
            const uint8_t *at = x + (size_t)c * x_stride + v * 2 * VB;
            add_vector(k, codes, level, at, &upper[c]);
            add_vector(k, codes, level, at + VB, &lower[c]);
        }
    }
    const vf d = super_half(block + k.d);
    UNROLL for (int c = 0; c < C; c++)
    {
        const uint8_t *more = x + (size_t)c * x_stride + 512;
        if (middle) {
            vi off = vi_level_sums(levels, more + LEVELS_WORDS);
            upper[c] = vi_sub(upper[c], times_middle(middle, off));
            off = vi_level_sums(levels, more + LEVELS_WORDS + 32);
            lower[c] = vi_sub(lower[c], times_middle(middle, off));
        }
        const vf dot = vf_fma(vf_of_int(upper[c]), vf_set1(BASE), vf_of_int(lower[c]));
        sum[c] = vf_fma(dot, vf_mul(d, vf_set1(kf_gemv_level_unit(more, LEVELS_UNIT))), sum[c]);
    }
    if (k.m == 0) return;
    const vf m = vf_sub(vf_set1(0), super_half(block + k.m));
    UNROLL for (unsigned j = 0; j < 256 / group; j += V)
    {
        const vf min = vf_mul(m, vf_of_int(vi_of_bytes(b.min, j)));
        UNROLL for (int c = 0; c < C; c++)
        {
            const uint8_t *more = x + (size_t)c * x_stride + 512;
            sum[c] = vf_fma(min, vf_load((const float *)more + j), sum[c]);
        }
    }
}

/* --- blocks of 32, as many at a time as a vector has 16 bytes ------------------------------------
 */

KF_HD void add_small(kf_super k, const int C, vi book, const uint8_t *block, const uint8_t *x,
                     size_t x_stride, vf sum[WIDE])
{
    const int middle = SIGNED_CODES ? 0 : k.book ? BOOK_BIAS : k.middle;
    const vi low = vi_load_pieces(block + k.low.at, k.bytes, 16);
    const int whole = k.low.bits == 8; /* with their sign turned: up by 128 */
    const vi second = whole ? vi_load_pieces(block + k.low.at + 16, k.bytes, 16) : vi_shr(low, 4);
    const vf d = vf_halves(sixteens(block + k.d, k.bytes));
    const vf m = vf_halves(sixteens(block + k.m, k.bytes));
    vi codes[2];
    UNROLL for (unsigned v = 0; v < 2; v++)
    {
        codes[v] = v ? second : low;
        codes[v] =
            whole ? vi_sub_bytes(codes[v], vi_bytes(k.middle)) : vi_and(codes[v], vi_bytes(15));
        if (k.high.bits)
            codes[v] = vi_add16(codes[v], sixteens(block + k.high.at + 2 * v, k.bytes));
        if (k.book) codes[v] = vi_book(book, codes[v]);
        if (SIGNED_CODES && k.middle) codes[v] = vi_sub_bytes(codes[v], vi_bytes(k.middle));
    }
    UNROLL for (int c = 0; c < C; c++)
    {
        const uint8_t *at = x + (size_t)c * x_stride, *more = at + 4 * VB;
        vi upper = vi_dot(vi_set1(0), codes[0], at, k.book);
        vi lower = vi_dot(vi_set1(0), codes[0], at + VB, k.book);
        upper = vi_dot(upper, codes[1], at + 2 * VB, k.book);
        lower = vi_dot(lower, codes[1], at + 3 * VB, k.book);
        vi dot = vi_add(vi_times_base(upper), lower);
        if (middle) dot = vi_sub(dot, vi_load(more + 4 * V));
        const vf scale = vf_mul(d, vf_set1(kf_gemv_level_unit(more, 8 * V)));
        sum[c] = vf_fma(vf_of_int(dot), scale, sum[c]);
        if (k.m) sum[c] = vf_fma(m, vf_load((const float *)more), sum[c]);
    }
}

/* --- rows ----------------------------------------------------------------------------------------
 */

/* Where a tile has its rows: their bytes, and of each the blocks of a last step that is not whole.
 */
typedef struct level_rows {
    const uint8_t *row[ROWS];
    uint8_t tail[ROWS][V / 4 * 34];
    size_t ahead; /* from here to the rows that come next */
} level_rows;

/* Adds steps [first, end) of R rows to total: their sum, or, of a part, one after the other. */
KF_HD void add_level_steps(kf_spec s, const int R, const int C, const int is_part,
                           const kf_gemv_layout *l, const level_rows *rows, const uint8_t *x,
                           size_t first, size_t end, vf total[ROWS][WIDE])
{
    const kf_super k = kf_gemv_level_block(s, TAKES_SMALL);
    const size_t x_stride = 4 * l->steps * l->step;
    const unsigned step = k.elements == 32 ? 2 * VB : 256, bytes = step / k.elements * k.bytes;
    const vi book = vi_load16(l->level_book);
    vf sum[ROWS][WIDE];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int c = 0; c < C; c++) sum[r][c] =
        is_part ? total[r][c] : vf_set1(0);
    for (size_t i = first; i < end; i++) UNROLL for (int r = 0; r < R; r++)
        {
            const uint8_t *block = i < l->whole ? rows->row[r] + i * bytes : rows->tail[r];
            for (size_t j = 0; j < bytes; j += 64) fetch_ahead(block + j, rows->ahead);
            if (k.elements == 32)
                add_small(k, C, book, block, x + 4 * step * i, x_stride, sum[r]);
            else
                add_levels(k, s.group, C, l, book, block, x + 4 * step * i, x_stride, sum[r]);
        }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int c = 0; c < C; c++) total[r][c] =
        is_part ? sum[r][c] : vf_add(total[r][c], sum[r][c]);
}

/* Row r of a column by the reference. */
static void redo_level_row(const kf_gemv_call *call, size_t r, size_t column)
{
    kf_gemv_call one = *call;
    const size_t y = column * call->y_stride * (kerf_dtype_bits(call->y_type) / 8);
    one.columns = 1;
    one.x += column * call->x_stride * (kerf_dtype_bits(call->x_type) / 8);
    one.y += y;
    if (one.residual) one.residual += y;
    kf_gemv_ref.rows(&one, r, r + 1);
}

KF_HD void finish_level(const kf_gemv_call *call, size_t r, size_t column, float y)
{
    if (kf_is_finite(y))
        kf_gemv_finish(call, r, column, y);
    else
        redo_level_row(call, r, column);
}

/* Points out `n` rows from r0 on. */
KF_HD void find_level_rows(const kf_gemv_call *call, size_t r0, size_t n, level_rows *rows)
{
    const kf_gemv_layout *l = call->plan->state;
    const size_t whole = l->whole * l->step_bytes;
    for (size_t r = 0; r < n; r++) {
        rows->row[r] = call->w.plane[KERF_PLANE_CODES] + (r0 + r) * l->row_bytes;
        memset(rows->tail[r], 0, sizeof rows->tail[r]);
        memcpy(rows->tail[r], rows->row[r] + whole, l->row_bytes - whole);
    }
}

/* R rows from r0 on times C columns from `column` on. */
KF_HD void levels_tile(kf_spec s, const int R, const int C, const kf_gemv_call *call, size_t r0,
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

/* A block of rows times more columns than go at a time: parts of x, WIDE columns of them, stay in
 * the first cache while all rows of the block pass. */
#define LEVEL_ROWS 16
#define LEVEL_PART 1024                /* inputs */
#define LEVEL_X_NEAR ((size_t)1 << 19) /* bytes of x that need none: about what a core keeps */

typedef struct level_block {
    level_rows row[LEVEL_ROWS]; /* one each */
    vf sum[LEVEL_ROWS][KERF_GEMV_COLUMNS], total[LEVEL_ROWS][KERF_GEMV_COLUMNS];
} level_block;

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

/* n rows from r0 on, each summed in the order of levels_tile. */
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
            size_t c = 0;
            for (; columns - c >= WIDE; c += WIDE) add_level_part(s, WIDE, call, b, n, c, from, to);
            if (columns - c >= 2) add_level_part(s, 2, call, b, n, c, from, to), c += 2;
            if (columns - c == 1) add_level_part(s, 1, call, b, n, c, from, to);
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

/* Rows in fours with a single column: memory is read at four places then. */
KF_HD void levels_rows(kf_spec s, const kf_gemv_call *call, size_t r0, size_t r1)
{
    for (size_t r = r0; r < r1;) {
        const int rows = call->columns == 1 && r1 - r >= ROWS ? ROWS : 1;
        for (size_t c = 0; c < call->columns;) {
            const size_t left = call->columns - c;
            if (rows == ROWS)
                levels_tile(s, ROWS, 1, call, r, c), c++;
            else if (left >= WIDE)
                levels_tile(s, 1, WIDE, call, r, c), c += WIDE;
            else if (left >= 2)
                levels_tile(s, 1, 2, call, r, c), c += 2;
            else
                levels_tile(s, 1, 1, call, r, c), c++;
        }
        r += (size_t)rows;
    }
}

/* Functions apart, so that what gcc does with the one leaves the other as it is. */
#define EACH_SUPER levels_rows
#define EACH_SUPER_SMALL TAKES_SMALL
#define EACH_SUPER_NAME(x) levels_of_##x
#include "cpu/gemv_each_super.h"

#define EACH_SUPER levels_blocks
#define EACH_SUPER_SMALL TAKES_SMALL
#define EACH_SUPER_NAME(x) blocks_of_##x
#include "cpu/gemv_each_super.h"

static void levels_any(const kf_gemv_call *c, size_t r0, size_t r1)
{
    const kf_gemv_layout *l = c->plan->state;
    if (c->columns > WIDE && c->columns * 4 * l->steps * l->step > LEVEL_X_NEAR)
        blocks_of_any(c, r0, r1);
    else
        levels_of_any(c, r0, r1);
}

kf_gemv_rows_function *const KF_ISA(LEVELS)[KF_SCALINGS] = {[KF_SCALING_STEP] = levels_any};

#endif
