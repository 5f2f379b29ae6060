/* gemv_level_steps.h - steps of rows of ggml's blocks times columns, in integers, and where rows
 * that go together are kept (gemv_levels.h). */
#ifndef KERF_GEMV_LEVEL_STEPS_H
#define KERF_GEMV_LEVEL_STEPS_H

#include "cpu/gemv_block_levels.h"
#include "cpu/gemv_levels_x.h"

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

/* --- blocks of 256, with levels ------------------------------------------------------------------
 */

/* Scales of groups with their signs, in each 128 bits: what fills bytes by vectors, other bits by
 * words of 64, which vectors leave time for. */
KF_HD vi group_scales(kf_super k, const uint8_t *p, super_bytes b)
{
    if (k.levels == KF_LEVELS_EIGHT) return vi_load16(p);
    if (k.levels == KF_LEVELS_BYTES) return vi_and(vi_load16(p), vi_bytes(15));
    return vi_levels(b.scale[0], b.scale[1], (int)b.bias);
}

/* V minima from group j on. */
KF_HD vi group_minima(kf_super k, const uint8_t *p, super_bytes b, unsigned j)
{
    if (k.levels == KF_LEVELS_BYTES) return vi_shr(vi_load_bytes(p + j), 4);
    return vi_of_bytes(b.min, j);
}

/* n times the middle of codes: 4, 32, or what the numbers of a book were moved by. */
KF_HD vi times_middle(int middle, vi n)
{
    if (middle == 127) return vi_sub(vi_shl(n, 7), n);
    return vi_shl(n, middle == 4 ? 2 : 5);
}

/* Adds a vector of codes, or two of a book, which have the same levels. */
KF_HD void add_vector(kf_super k, const vi codes[2], vi level, const uint8_t *x, vi *sum)
{
#if PRODUCTS_ARE_WORDS
    *sum = vi_dot_level(*sum, codes[0], x, level, k.book);
    if (k.book) *sum = vi_dot_level(*sum, codes[1], x + 2 * VB, level, k.book);
#else
    if (!k.book) {
        *sum = vi_dot_level(*sum, codes[0], x, level);
        return;
    }
    const vi dot = vi_dot(vi_dot(vi_set1(0), codes[0], x), codes[1], x + 2 * VB);
    *sum = vi_add(*sum, vi_mul(dot, level));
#endif
}

/* Adds a block times those numbers of C columns to sum. */
KF_HD void add_levels(kf_super k, const unsigned group, const int C, const kf_gemv_layout *l,
                      vi book, const uint8_t *block, const uint8_t *x, size_t x_stride,
                      vf sum[WIDE])
{
    const unsigned vectors = 256 / VB, per = 8 / k.low.bits, together = k.book ? 2 : 1;
    const int middle = SIGNED_CODES ? 0 : k.book ? BOOK_BIAS : k.middle;
    const int is_signed = kf_gemv_has_signs(k.levels);
    const super_bytes b = level_bytes(k.levels, block + k.at);
    const vi levels = group_scales(k, block + k.at, b);
    vi upper[WIDE], lower[WIDE], low = vi_set1(0);
    UNROLL for (int c = 0; c < C; c++) upper[c] = lower[c] = vi_set1(0);
    UNROLL for (unsigned v = 0; v < vectors; v += together)
    {
        const int bytes = SIGNED_CODES || (k.book && !PRODUCTS_ARE_WORDS) ? 4 : 2;
        const vi level = vi_level(levels, l->level_place + v * VB, bytes, is_signed);
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
        const vf min = vf_mul(m, vf_of_int(group_minima(k, block + k.at, b, j)));
        UNROLL for (int c = 0; c < C; c++)
        {
            const uint8_t *more = x + (size_t)c * x_stride + 512;
            sum[c] = vf_fma(min, vf_load((const float *)more + j), sum[c]);
        }
    }
}

/* --- blocks of 32, as many at a time as a vector has 16 bytes ------------------------------------
 */

/* BASE times the sum of two vectors of codes times upper bytes of x, and that of lower ones. */
KF_HD vi dot_small(kf_super k, const vi codes[2], const uint8_t *x)
{
#if PRODUCTS_ARE_WORDS
    return vi_dot_small(codes, x, k.book);
#else
    (void)k;
    const vi upper = vi_dot(vi_dot(vi_set1(0), codes[0], x), codes[1], x + 2 * VB);
    const vi lower = vi_dot(vi_dot(vi_set1(0), codes[0], x + VB), codes[1], x + 3 * VB);
    return vi_add(vi_times_base(upper), lower);
#endif
}

/* The codes of a step: of its blocks the first halves, and the second. */
KF_HD void small_codes(kf_super k, vi book, const uint8_t *block, vi codes[2])
{
    const vi low = vi_load_pieces(block + k.low.at, k.bytes, 16);
    const int whole = k.low.bits == 8; /* with their sign turned: up by 128 */
    const vi second = whole ? vi_load_pieces(block + k.low.at + 16, k.bytes, 16) : vi_shr(low, 4);
    UNROLL for (unsigned v = 0; v < 2; v++)
    {
        codes[v] = v ? second : low;
        codes[v] =
            whole ? vi_sub_bytes(codes[v], vi_bytes(k.middle)) : vi_and(codes[v], vi_bytes(15));
        if (k.high.bits) codes[v] = vi_add16(codes[v], block + k.high.at, k.bytes, v);
        if (k.book) codes[v] = vi_book(book, codes[v]);
        if (SIGNED_CODES && k.middle) codes[v] = vi_sub_bytes(codes[v], vi_bytes(k.middle));
    }
}

KF_HD void add_small(kf_super k, const int C, vi book, const uint8_t *block, const uint8_t *x,
                     size_t x_stride, vf sum[WIDE])
{
    const int middle = SIGNED_CODES ? 0 : k.book ? BOOK_BIAS : k.middle;
    vf m;
    const vf d = vf_halves(block + k.d, k.bytes, &m);
    vi codes[2];
    small_codes(k, book, block, codes);
    UNROLL for (int c = 0; c < C; c++)
    {
        const uint8_t *at = x + (size_t)c * x_stride, *more = at + 4 * VB;
        vi dot = dot_small(k, codes, at);
        if (middle) dot = vi_sub(dot, vi_load(more + 4 * V));
        const vf scale = vf_mul(d, vf_set1(kf_gemv_level_unit(more, 8 * V)));
        sum[c] = vf_fma(vf_of_int(dot), scale, sum[c]);
        if (k.m) sum[c] = vf_fma(m, vf_load((const float *)more), sum[c]);
    }
}

/* --- rows ----------------------------------------------------------------------------------------
 */

/* Where rows that go together lie: their bytes, and of each the blocks of a last step that is not
 * whole. */
typedef struct level_rows {
    const uint8_t *row[ROWS];
    uint8_t tail[ROWS][V / 4 * 34];
    size_t ahead; /* from here to the rows that come next */
} level_rows;

#define LEVEL_ROWS 16 /* of a block of rows (gemv_level_blocks.h) */

typedef struct level_block {
    level_rows row[LEVEL_ROWS]; /* one each */
    vf sum[LEVEL_ROWS][KERF_GEMV_COLUMNS], total[LEVEL_ROWS][KERF_GEMV_COLUMNS];
} level_block;

/* Whether the rows of a step are code of their own each. Of blocks of 256 they are one after the
 * other with AVX2: that takes less time on a Zen 3, more with AVX-512 (bench/notes-gemv-cpu.md). */
#define UNROLLS_ROWS(k) (!PRODUCTS_ARE_WORDS || (k).elements == 32)

/* Adds the step of a row that begins at `block` to sum. */
KF_HD void add_level_step(kf_super k, const unsigned group, const int C, const kf_gemv_layout *l,
                          vi book, const uint8_t *block, size_t ahead, const uint8_t *x,
                          size_t x_stride, vf sum[WIDE])
{
    const unsigned bytes = k.elements == 32 ? VB / 16 * k.bytes : k.bytes;
    for (size_t j = 0; j < bytes; j += 64) fetch_ahead(block + j, ahead);
    if (k.elements == 32)
        add_small(k, C, book, block, x, x_stride, sum);
    else
        add_levels(k, group, C, l, book, block, x, x_stride, sum);
}

/* Adds steps [first, end) of R rows to total: their sum, or, of a part, one after the other. */
KF_HD void add_level_steps(kf_spec s, const int R, const int C, const int is_part,
                           const kf_gemv_layout *l, const level_rows *rows, const uint8_t *x,
                           size_t first, size_t end, vf total[ROWS][WIDE])
{
    const kf_super k = kf_gemv_level_block(s, kf_gemv_small_bits(INTEGERS, 1));
    const size_t x_stride = 4 * l->steps * l->step;
    const unsigned step = k.elements == 32 ? 2 * VB : 256, bytes = step / k.elements * k.bytes;
    const vi book = vi_load16(l->level_book);
    vf sum[ROWS][WIDE];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int c = 0; c < C; c++) sum[r][c] =
        is_part ? total[r][c] : vf_set1(0);
    for (size_t i = first; i < end;) {
        const size_t from = i;
        const int is_whole = k.elements > 32 || i < l->whole; /* 256 are a step */
        const size_t stop = is_whole && l->whole < end ? l->whole : end;
        const uint8_t *at[ROWS];
        UNROLL for (int r = 0; r < R; r++) at[r] =
            is_whole ? rows->row[r] + i * bytes : rows->tail[r];
#define ADD_STEP                                                                    \
    add_level_step(k, s.group, C, l, book, at[r] + (i - from) * bytes, rows->ahead, \
                   x + 4 * step * i, x_stride, sum[r])
        for (; i < stop; i++)
            if (UNROLLS_ROWS(k))
                UNROLL for (int r = 0; r < R; r++) ADD_STEP;
            else
                for (int r = 0; r < R; r++) ADD_STEP;
#undef ADD_STEP
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

#endif
