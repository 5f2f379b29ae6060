/* gemv_tiles.h - the matrix-vector product for several columns on tiles: 32 rows of weights times
 * all columns of x at once. A file says what a tile and 32 words are (tiles_plain.h, tiles_amx.h),
 * names its functions, and includes this.
 *
 * A row is done in stages of 256 elements, a stage in strips of 32:
 *
 *          strip of W, 32 rows           strip of x, 32 elements        sums of a group
 *        +--------------------+        +--------------------+        +------------------+
 *   row  | 32 codes as bf16   |   x    | columns of bf16,   |   ->   | 32 rows, columns |
 *        | in 64 bytes        |        | element by pairs   |        | in fp32          |
 *        +--------------------+        +--------------------+        +------------------+
 *         decoded row by row,           packed once a run,            += a dot for each strip
 *         its scale not yet in it       one or two terms              and term of a group
 *
 * A group is what one scale serves, at most a stage. When its sums are complete they are stored,
 * and each row adds its own times its scale, in fp32: a product with a number of the row.
 *
 * Where a code times its scale is exact in bfloat16 it is looked up as one number, by both, and a
 * stage is a group.
 *
 * Codes are exact in bfloat16: they are small integers, or have few bits; those of a code book are
 * the sums of two of bfloat16, and a strip has two tiles, by the same x. x is cut into terms of 8
 * bits: one of BF16 and two of F16 are exact, two of F32 are so to 2^-16. What blocks of two levels
 * add to a group, their minimum, is multiplied by the sum over that group of x as it was cut.
 *
 * A tile of sums has 16 lanes. What columns leave of them is for the terms of x, side by side, then
 * for other groups: of a strip's x, lanes of its group have the numbers, those of the groups that
 * are together with it have zeros. So one dot does all terms, sums of two or four groups are stored
 * as one vector, and their scales repeat in one. Lanes of a column are added at a row's end.
 *
 *   2 groups, 2 terms      lane 0    1     2     3     4    ...
 *                     column 0     0     0     0     1
 *                       term 0     0     1     1     0
 *                      group even  odd   even  odd   even
 *
 * Integers of 8 bits, codes with zero points and, where x is rounded either way, codes of up to 5
 * bits go as bytes, and x as integers: gemv_tiles_bytes.h. Those of blocks with minima go as bytes
 * times their levels: gemv_tiles_levels.h.
 *
 * In which order a strip has its elements is the decoder's choice, as long as x has the same. A row
 * is summed in an order that depends on the layout alone: dots of a group, groups of a stage,
 * stages. Rows of which a sum is not finite are done again by the reference, which knows what NaN
 * and infinities of scales and codes give. */
#ifndef KERF_GEMV_TILES_H
#define KERF_GEMV_TILES_H

#include "cpu/gemv_tiles_rows.h"
#include "cpu/gemv_tiles_bytes.h"
#include "cpu/gemv_tiles_levels.h"
#include "cpu/gemv_tiles_x.h"
#include "cpu/gemv_x.h"

#include <stdlib.h>

/* --- codes to bfloat16 --------------------------------------------------------------------------
 */

/* Strip t of a stage; `stored`: the first row's scales of it. Of BYTES, MINIS and SIXES two are
 * done at once, from an even one on. */
KF_HD void decode_strip(const int kind, kf_spec s, const kf_tile_layout *l, const unsigned t,
                        tile_place at, const uint8_t *stored, size_t rows,
                        uint16_t (*a)[TILE_ROWS * STRIP])
{
    const int two = kind == KF_TILE_BYTES || kind == KF_TILE_MINIS || kind == KF_TILE_SIXES;
    const int fetches = kind == KF_TILE_BYTES && l->across, split = kind == KF_TILE_SPLIT;
    const tw table = tw_load(l->table[0]), upper = tw_load(l->table[1]);
    const uint8_t *p = at.p + (kind == KF_TILE_SUPER ? 0 : l->strip_at[t]);
    const size_t next = two ? l->strip_at[(t + 1) % STRIPS] - l->strip_at[t] : 0;
    uint16_t *to = a[t % RING], *second = split ? a[RING + t % RING] : a[(t + 1) % RING];
    if (two && t % 2) return;
    for (size_t r = 0; r < rows; r++, p += at.stride, to += STRIP, second += STRIP) {
        tw out[2] = {table, table};
        if (fetches) fetch_ahead(p, l->across);
        switch (kind) {
        case KF_TILE_NIBBLES: out[0] = tw_look_up(table, tw_nibbles(p)); break;
        case KF_TILE_QUARTERS: out[0] = tw_look_up(table, tw_quarters(p)); break;
        case KF_TILE_SPLIT:
            out[1] = tw_look_up(upper, tw_nibbles(p));
            out[0] = tw_look_up(table, tw_nibbles(p));
            break;
        case KF_TILE_FOLDED:
            out[0] = tw_folded(p, l->folded, stored + r * CHUNK_GROUPS + 2 * t);
            break;
        case KF_TILE_BYTES: tw_signed(p, p + next, l->bytes, out); break;
        case KF_TILE_MINIS: tw_minis(p, l->bytes, out); break;
        case KF_TILE_SIXES: tw_sixes(p, l->bytes, out); break;
        default: out[0] = super_strip(kf_super_of(s), p, t, table, upper);
        }
        tw_store(to, out[0]);
        if (two || split) tw_store(second, out[1]);
    }
}

/* --- sums ---------------------------------------------------------------------------------------
 */

/* Strip t of a stage times its x; groups that end are stored at *c. */
KF_HD void multiply_strip(const int kind, const kf_tile_layout *l, const unsigned t,
                          const uint16_t *x, int both, tile_room *m, float **c)
{
    const size_t lanes = l->lanes, strip = STRIP * lanes, passes = l->passes;
    const unsigned others = l->strips - 1; /* a power of two, less one */
    const uint16_t *a = m->a.words[t % RING];
    x += t * passes * strip;
    TILES_SYNC;
    if (l->strips == 0) {
        for (size_t half = 0; half < 2; half++) {
            tiles_zero(&m->t);
            for (size_t i = 0; i < passes; i++)
                tiles_dot_half(&m->t, a + half * (STRIP / 2), x + i * strip + half * (strip / 2),
                               lanes, both);
            tiles_store(&m->t, *c, both);
            *c += TILE_ROWS * V;
        }
    } else {
        if ((t & others) == 0) tiles_zero(&m->t);
        for (size_t i = 0; i < passes; i++) {
            tiles_dot(&m->t, a, x + i * strip, lanes, both);
            if (kind == KF_TILE_SPLIT)
                tiles_dot(&m->t, m->a.words[RING + t % RING], x + i * strip, lanes, both);
        }
        if ((t & others) == others) {
            tiles_store(&m->t, *c, both);
            *c += TILE_ROWS * V;
        }
    }
    TILES_SYNC;
}

/* Adds n vectors of sums that are stored, `together` groups in each, the first of which is group
 * `first` of the chunk, to R rows from r on. */
KF_HD void add_rows(const int scaled, const int offsets, const size_t together, const size_t n,
                    const size_t R, size_t first, size_t r, const float *x_sums, tile_room *m)
{
    vf part[4];
    UNROLL for (size_t j = 0; j < n; j++)
    {
        UNROLL for (size_t i = 0; i < R; i++)
        {
            const vf sum = vf_load(m->c.words[j] + (r + i) * V);
            const float *scales = m->scale[r + i] + first + j * together;
            const vf scale = scaled ? vf_repeat(scales, together) : vf_set1(1);
            if (j)
                part[i] = vf_fma(sum, scale, part[i]);
            else
                part[i] = scaled ? vf_mul(sum, scale) : sum;
        }
        if (!offsets) continue;
        const vf x = vf_load(x_sums + j * V);
        UNROLL for (size_t i = 0; i < R; i++) part[i] =
            vf_fma(x, vf_repeat(m->offset[r + i] + first + j * together, together), part[i]);
    }
    UNROLL for (size_t i = 0; i < R; i++) m->sum[r + i] = vf_add(m->sum[r + i], part[i]);
}

/* The same for all rows, four at a time: sums of rows that are not there are not read. */
KF_HD void add_all_rows(const int scaled, const int offsets, const size_t together, size_t n,
                        size_t first, size_t rows, const float *x_sums, tile_room *m)
{
#define ADD(n)                                                              \
    case n:                                                                 \
        for (size_t r = 0; r < rows; r += 4)                                \
            add_rows(scaled, offsets, together, n, 4, first, r, x_sums, m); \
        break;
    switch (n) {
        ADD(1)
        ADD(2)
        ADD(4)
        ADD(8)
    }
#undef ADD
}

/* n vectors of sums. */
SHARED void add_groups(const kf_tile_layout *l, size_t n, size_t first, size_t rows,
                       const float *x_sums, tile_room *m)
{
#define ADD(together)                                                \
    case together:                                                   \
        if (l->offsets)                                              \
            add_all_rows(1, 1, together, n, first, rows, x_sums, m); \
        else                                                         \
            add_all_rows(1, 0, together, n, first, rows, x_sums, m); \
        break;
    if (!kf_tile_is_scaled(l)) {
        add_all_rows(0, 0, 1, n, 0, rows, x_sums, m);
        return;
    }
    switch (l->together) {
        ADD(1)
        ADD(2)
        ADD(4)
    }
#undef ADD
}

/* --- rows ---------------------------------------------------------------------------------------
 */

/* Stages [first, end) of a chunk. While a strip is multiplied the one LAG after it is decoded. */
KF_HD void do_chunk(const int kind, kf_spec s, const kf_gemv_call *call, size_t rows, size_t first,
                    size_t end, tile_room *m)
{
    const kf_tile_layout *l = call->plan->state;
    const size_t n = STAGE / l->group, k = n / l->together / l->parts;
    const size_t x_stage = kf_tile_x_stage(l) / sizeof(uint16_t);
    const uint16_t *x = (uint16_t *)call->workspace + first * x_stage;
    const float *x_sums = kf_tile_x_sums(l, call->workspace) + first * n / l->together * V;
    const uint8_t *stored = m->stored[0];
    tile_place now = stage_place(l, m, first);
    UNROLL for (unsigned t = 0; t < LAG; t++)
        decode_strip(kind, s, l, t, now, stored, rows, m->a.words);
    for (size_t stage = first; stage < end; stage++) {
        const int goes_on = stage + 1 < end; /* else the same once more, which nobody reads */
        const tile_place next = goes_on ? stage_place(l, m, stage + 1) : now;
        const uint8_t *later = stored + (goes_on ? STAGE / 16 : 0);
        float *c = m->c.words[0];
        size_t group = (stage - first) * n;
        UNROLL for (unsigned t = 0; t < STRIPS; t++)
        {
            const int turns = t + LAG >= STRIPS;
            fetch_part(l, m, stage, t, STRIPS);
            decode_strip(kind, s, l, (t + LAG) % STRIPS, turns ? next : now, turns ? later : stored,
                         rows, m->a.words);
            multiply_strip(kind, l, t, x, rows > TILE_ROWS / 2, m, &c);
            if ((t + 1) % (STRIPS / l->parts)) continue;
            add_groups(l, k, group, rows, x_sums, m);
            c = m->c.words[0];
            group += k * l->together;
            x_sums += k * V;
        }
        x += x_stage;
        stored = later;
        now = next;
    }
}

/* Rows [r0, r0 + rows), at most TILE_ROWS. */
KF_HD void do_tile_rows(const int kind, kf_spec s, const kf_gemv_call *call, size_t r0, size_t rows,
                        tile_room *m)
{
    const kf_tile_layout *l = call->plan->state;
    begin_rows(call, r0, rows, m);
    for (size_t stage = 0; stage < l->stages; stage += CHUNK) {
        const size_t end = l->stages - stage < CHUNK ? l->stages : stage + CHUNK;
        find_scales_of(call, r0, rows, stage, end, m);
        do_chunk(kind, s, call, rows, stage, end, m);
    }
    end_rows(call, r0, rows, m);
}

KF_HD void do_tiles(const int kind, kf_spec s, const kf_gemv_call *call, size_t r0, size_t r1)
{
    tile_room m;
    begin_room(&m);
    tiles_begin(&m.t, (unsigned)((const kf_tile_layout *)call->plan->state)->lanes);
    for (size_t r = r0; r < r1; r += TILE_ROWS)
        do_tile_rows(kind, s, call, r, r1 - r < TILE_ROWS ? r1 - r : TILE_ROWS, &m);
    tiles_end(&m.t);
}

#define TILE_KIND(name)                                                         \
    static void tiles_##name(const kf_gemv_call *c, size_t r0, size_t r1)       \
    {                                                                           \
        do_tiles(KF_TILE_##name, kf_spec_of(c->plan->shape.format), c, r0, r1); \
    }
TILE_KIND(NIBBLES)
TILE_KIND(FOLDED)
TILE_KIND(BYTES)
TILE_KIND(MINIS)
TILE_KIND(SIXES)
TILE_KIND(QUARTERS)
TILE_KIND(SPLIT)

KF_HD void tiles_of_super(kf_spec s, const kf_gemv_call *call, size_t r0, size_t r1)
{
    const kf_tile_layout *l = call->plan->state;
    if (has_byte_levels(kf_super_of(s)))
        do_levels(s, call, r0, r1);
    else if (l->kind == KF_TILE_SUPER)
        do_tiles(KF_TILE_SUPER, s, call, r0, r1);
    else if (kf_super_of(s).elements && s.group == STRIP)
        do_bytes(KF_TILE_WHOLE_SUPER, s, 1, call, r0, r1);
}

#define EACH_SUPER tiles_of_super
#define EACH_SUPER_SMALL 0
#define EACH_SUPER_NAME(x) tiles_of_super_##x
#include "cpu/gemv_each_super.h"

static void tile_rows(const kf_gemv_call *c, size_t r0, size_t r1)
{
    static kf_gemv_rows_function *const kinds[KF_TILE_KINDS] = {
        tiles_NIBBLES,       tiles_FOLDED,         tiles_BYTES,       tiles_MINIS,
        tiles_SIXES,         tiles_QUARTERS,       tiles_SPLIT,       tiles_of_super_any,
        bytes_WHOLE_NIBBLES, bytes_WHOLE_QUARTERS, bytes_WHOLE_BYTES, tiles_of_super_any,
        tiles_of_super_any};
    const kf_tile_layout *l = c->plan->state;
    kinds[l->kind](c, r0, r1);
}

/* --- a plan -------------------------------------------------------------------------------------
 */

static int tile_start(const kf_gemv_call *c)
{
    const kf_tile_layout *l = c->plan->state;
    const size_t columns = c->columns, size = kerf_dtype_bits(c->x_type) / 8;
    tile_x x = begin_x(l, c->workspace);
    float wide[STAGE];
    uint32_t amax[V] = {0};
    for (size_t at = 0; at < c->w.cols; at += STAGE) {
        const size_t left = c->w.cols - at, n = left < STAGE ? left : STAGE;
        memset(wide, 0, sizeof wide);
        for (unsigned i = 0; i < columns; i++) {
            const uint8_t *from = c->x + (i * c->x_stride + at) * size;
            const uint32_t largest = kf_bits(widen_x(c->x_type, from, n, wide));
            amax[i] = largest > amax[i] ? largest : amax[i];
            pack_x(l, wide, i, x);
        }
        next_x(l, &x);
    }
    for (unsigned i = 0; i < columns; i++)
        if (!x_is_tame(&l->l, kf_float(amax[i]))) return 0;
    return 1;
}

static kerf_status tile_plan(kerf_gemv *plan)
{
    kf_tile_layout *l = malloc(sizeof *l);
    if (!l) return KERF_E_NOMEM;
    if (!kf_tile_layout_init(l, plan)) {
        free(l);
        return KERF_E_NOSUP;
    }
    plan->state = l;
    plan->workspace = kf_tile_workspace(l);
    plan->bound = kf_tile_bound(l);
    plan->x_bound = kf_tile_x_bound(l, plan->shape.x);
    plan->panel = (plan->panel + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    return KERF_OK;
}

#endif
