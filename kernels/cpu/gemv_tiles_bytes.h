/* gemv_tiles_bytes.h - rows whose codes are bytes, on tiles (gemv_tiles.h).
 *
 * x is rounded to integers of 16 bits, with one power of two for a stage and column, and an integer
 * is two signed bytes: 256 * upper + lower. A strip has 64 elements and is multiplied by both.
 *
 *        strip of W, 32 rows        strip of x, twice                  sums of a group
 *        +------------------+       +--------------+--------------+    +----------------+
 *   row  | 64 bytes, decoded|   x   | upper bytes, | lower bytes, | -> | 32 rows, twice |
 *        | or as they lie   |       | 4 by 4       | 4 by 4       |    | columns, int32 |
 *        +------------------+       +--------------+--------------+    +----------------+
 *                                     columns of both                   256 * one + other
 *
 * Up to eight columns have both bytes side by side in one tile (gemv_tiles.h), upper ones first:
 * there sums of either are multiplied by what its unit stands for, and meet at the end of the row.
 *
 * Sums of a group are whole numbers in 32 bits, so a zero point is taken off exactly: times the sum
 * of x over the group. Then comes the scale, in fp32.
 *
 * Of up to four columns two groups of 32 are one vector of sums.
 *
 * A part is a group, or two of 32 elements. It is added to rows while the next one is multiplied:
 * what a tile has stored can be loaded only some time later. */
#ifndef KERF_GEMV_TILES_BYTES_H
#define KERF_GEMV_TILES_BYTES_H

#include "cpu/gemv_tiles_rows.h"

#define BYTE_STRIP (2 * STRIP)
#define BYTE_STRIPS (STAGE / BYTE_STRIP)

/* --- codes to bytes -----------------------------------------------------------------------------
 */

/* Strip t of a stage, 64 codes; of structs two of 32. */
KF_HD void decode_bytes(const int kind, kf_spec s, const kf_tile_layout *l, const unsigned t,
                        tile_place at, size_t rows, uint8_t (*a)[TILE_ROWS * BYTE_STRIP])
{
    const tb table = tb_table(l->bytes);
    const uint8_t *p = at.p + (kind == KF_TILE_WHOLE_SUPER ? 0 : l->strip_at[2 * t]);
    const size_t next = l->strip_at[2 * t + 1] - l->strip_at[2 * t];
    uint8_t *to = a[t % RING];
    for (size_t r = 0; r < rows; r++, p += at.stride, to += BYTE_STRIP) {
        if (kind == KF_TILE_WHOLE_BYTES && t % 2 == 0 && l->across) fetch_ahead(p, l->across);
        if (kind == KF_TILE_WHOLE_SUPER)
            tb_store(to, super_bytes_of(kf_super_of(s), p, 2 * t, table));
        else if (kind == KF_TILE_WHOLE_NIBBLES)
            tb_store(to, tb_look_up(table, tb_nibbles(p, p + next)));
        else if (kind == KF_TILE_WHOLE_QUARTERS)
            tb_store(to, tb_look_up(table, tb_quarters(p, p + next)));
        else {
            memcpy(to, p, STRIP);
            memcpy(to + STRIP, p + next, STRIP);
        }
    }
}

/* --- sums ---------------------------------------------------------------------------------------
 */

/* A part whose sums are stored: of which stage, and its first group in the chunk. */
typedef struct byte_part {
    byte_sums *sums; /* NULL: none */
    size_t stage, group;
} byte_part;

/* What groups have besides codes. In groups of 32 codes of up to 4 bits all sums and their products
 * with zero points are below 2^24, and fp32 holds them. */
typedef enum byte_mode {
    BYTES_ALONE,
    BYTES_SCALED,
    BYTES_LESS_ZEROS,
    BYTES_LESS_FEW,
    BYTES_AND_MINIMA
} byte_mode;

/* Adds a part of n vectors of sums to R rows from r on. `wide`: sums by both bytes of x lie side by
 * side, and `unit` is of either. */
KF_HD void add_byte_rows(const int mode, const int wide, const size_t together, const size_t n,
                         const size_t R, size_t r, float zero_is, byte_part part,
                         const float *x_sums, const float *unit, tile_room *m)
{
    vf total[4];
    UNROLL for (size_t j = 0; j < n; j++) UNROLL for (size_t i = 0; i < R; i++)
    {
        const uint8_t *upper = (const uint8_t *)((*part.sums)[j][0] + (r + i) * V);
        const uint8_t *lower = (const uint8_t *)((*part.sums)[j][1] + (r + i) * V);
        const size_t group = part.group + j * together;
        vi dot = vi_load(upper);
        if (!wide) dot = vi_add(vi_shl(dot, 8), vi_load(lower));
        if (mode == BYTES_LESS_ZEROS) {
            const int zero = (int)(m->offset[r + i][group] * zero_is);
            const vi x = vi_load((const uint8_t *)(x_sums + j * V));
            dot = vi_sub(dot, vi_mul(x, vi_set1(zero)));
        }
        vf sum = vf_of_int(dot);
        if (mode == BYTES_LESS_FEW)
            sum = vf_sub(sum, vf_mul(vf_load(x_sums + j * V),
                                     vf_repeat(m->offset[r + i] + group, together)));
        const vf scale =
            mode == BYTES_ALONE ? vf_set1(1) : vf_repeat(m->scale[r + i] + group, together);
        if (j)
            total[i] = vf_fma(sum, scale, total[i]);
        else
            total[i] = mode == BYTES_ALONE ? sum : vf_mul(sum, scale);
        if (mode == BYTES_AND_MINIMA)
            total[i] = vf_fma(vf_load(x_sums + j * V),
                              vf_repeat(m->offset[r + i] + group, together), total[i]);
    }
    UNROLL for (size_t i = 0; i < R; i++) m->sum[r + i] =
        vf_fma(total[i], vf_load(unit), m->sum[r + i]);
}

/* The same for all rows, four at a time: sums of rows that are not there are not read. */
KF_HD void add_byte_part(const int wide, const size_t together, const size_t n,
                         const kf_gemv_call *call, byte_part part, size_t rows, tile_room *m)
{
    const kf_tile_layout *l = call->plan->state;
    const size_t groups = STAGE / l->group, in = part.group % groups;
    const float *x_sums =
        kf_tile_x_sums(l, call->workspace) + (part.stage * groups + in) / together * V;
    const float *unit = kf_tile_units(l, call->workspace) + part.stage * V;
#define ADD(mode)                        \
    for (size_t r = 0; r < rows; r += 4) \
    add_byte_rows(mode, wide, together, n, 4, r, l->zero_is, part, x_sums, unit, m)
    if (l->offsets)
        ADD(BYTES_AND_MINIMA);
    else if (l->zeros && l->group < BYTE_STRIP)
        ADD(BYTES_LESS_FEW);
    else if (l->group < BYTE_STRIP)
        ADD(BYTES_SCALED);
    else if (l->zeros)
        ADD(BYTES_LESS_ZEROS);
    else if (kf_tile_is_scaled(l))
        ADD(BYTES_SCALED);
    else
        ADD(BYTES_ALONE);
#undef ADD
}

SHARED void add_part(const kf_gemv_call *call, byte_part part, size_t rows, tile_room *m)
{
    const kf_tile_layout *l = call->plan->state;
    const int two = l->group < BYTE_STRIP;
    if (l->together > 1)
        add_byte_part(1, 2, 1, call, part, rows, m);
    else if (l->wide > 1 && two)
        add_byte_part(1, 1, 2, call, part, rows, m);
    else if (l->wide > 1)
        add_byte_part(1, 1, 1, call, part, rows, m);
    else if (two)
        add_byte_part(0, 1, 2, call, part, rows, m);
    else
        add_byte_part(0, 1, 1, call, part, rows, m);
}

/* --- rows ---------------------------------------------------------------------------------------
 */

/* Strip t of a stage, 64 codes of each row, times its x; groups that end are stored. `next`: bytes
 * from 32 codes to the next 32. */
KF_HD void multiply_bytes(const kf_tile_layout *l, const int wide, const unsigned t, tile_place a,
                          size_t next, const uint8_t *x, int both, byte_sums *sums, tiles *tile)
{
    const size_t per = BYTE_STRIP / l->depth, others = l->group * l->together / l->depth - 1;
    const size_t lanes = l->lanes, x_tile = l->depth * lanes;
    x += t * per * x_tile * l->passes;
    TILES_SYNC;
    for (size_t i = 0; i < per; i++, x += x_tile * l->passes) {
        const size_t n = t * per + i;
        if ((n & others) == 0) bytes_zero(tile, wide);
        bytes_dot(tile, a.p + i * next, a.stride, x, l->depth, lanes, wide, both);
        if ((n & others) == others) {
            int32_t(*to)[TILE_ROWS * V] = (*sums)[l->together > 1 ? 0 : i];
            bytes_store(tile, to[0], wide ? NULL : to[1], both);
        }
    }
    TILES_SYNC;
}

/* The same place of the rows that come next, of each row once for 64 codes. */
KF_HD void fetch_bytes(const kf_tile_layout *l, const unsigned t, tile_place at, size_t rows)
{
    const uint8_t *p = at.p + l->strip_at[2 * t];
    for (size_t r = 0; r < rows && l->across; r++, p += at.stride) fetch_ahead(p, l->across);
}

/* Stages [first, end) of a chunk. */
KF_HD void do_byte_chunk(const int kind, kf_spec s, const int wide, const kf_gemv_call *call,
                         size_t rows, size_t first, size_t end, tile_room *m)
{
    const kf_tile_layout *l = call->plan->state;
    const int as_they_lie = kind == KF_TILE_WHOLE_BYTES && rows % (TILE_ROWS / 2) == 0;
    const size_t x_stage = kf_tile_x_stage(l), n = l->group < BYTE_STRIP ? 2 : 1;
    const unsigned strips = l->group < BYTE_STRIP ? 1 : (unsigned)(l->group / BYTE_STRIP);
    const uint8_t *x = (uint8_t *)call->workspace + first * x_stage;
    byte_part before = {NULL, 0, 0}, now = {&m->c.bytes[0], first, 0};
    tile_place at = stage_place(l, m, first);
    if (!as_they_lie)
        UNROLL for (unsigned t = 0; t < LAG; t++) decode_bytes(kind, s, l, t, at, rows, m->a.bytes);
    for (size_t stage = first; stage < end; stage++, x += x_stage) {
        const tile_place next = stage + 1 < end ? stage_place(l, m, stage + 1) : at;
        UNROLL for (unsigned t = 0; t < BYTE_STRIPS; t++)
        {
            tile_place a = {m->a.bytes[t % RING], BYTE_STRIP};
            size_t apart = STRIP;
            fetch_part(l, m, stage, t, BYTE_STRIPS);
            if (as_they_lie) {
                fetch_bytes(l, t, at, rows);
                a = (tile_place){at.p + l->strip_at[2 * t], at.stride};
                apart = l->strip_at[2 * t + 1] - l->strip_at[2 * t];
            } else
                decode_bytes(kind, s, l, (t + LAG) % BYTE_STRIPS, t + LAG < BYTE_STRIPS ? at : next,
                             rows, m->a.bytes);
            multiply_bytes(l, wide, t, a, apart, x, rows > TILE_ROWS / 2, now.sums, &m->t);
            if ((t + 1) % strips) continue;
            if (before.sums) add_part(call, before, rows, m);
            before = now;
            now.sums = &m->c.bytes[now.sums == &m->c.bytes[0]];
            now.group += n;
            now.stage = stage + (t + 1 == BYTE_STRIPS);
        }
        at = next;
    }
    add_part(call, before, rows, m);
}

KF_HD void do_bytes(const int kind, kf_spec s, const int wide, const kf_gemv_call *call, size_t r0,
                    size_t r1)
{
    const kf_tile_layout *l = call->plan->state;
    tile_room m;
    begin_room(&m);
    bytes_begin(&m.t, (unsigned)l->depth, (unsigned)l->lanes);
    for (size_t r = r0; r < r1; r += TILE_ROWS) {
        const size_t rows = r1 - r < TILE_ROWS ? r1 - r : TILE_ROWS;
        begin_rows(call, r, rows, &m);
        for (size_t stage = 0; stage < l->stages; stage += CHUNK) {
            const size_t end = l->stages - stage < CHUNK ? l->stages : stage + CHUNK;
            find_scales_of(call, r, rows, stage, end, &m);
            do_byte_chunk(kind, s, wide, call, rows, stage, end, &m);
        }
        end_rows(call, r, rows, &m);
    }
    tiles_end(&m.t);
}

#define BYTE_KIND(name)                                                   \
    static void bytes_##name(const kf_gemv_call *c, size_t r0, size_t r1) \
    {                                                                     \
        const kf_spec s = kf_spec_of(c->plan->shape.format);              \
        if (((const kf_tile_layout *)c->plan->state)->wide > 1)           \
            do_bytes(KF_TILE_##name, s, 1, c, r0, r1);                    \
        else                                                              \
            do_bytes(KF_TILE_##name, s, 0, c, r0, r1);                    \
    }
BYTE_KIND(WHOLE_NIBBLES)
BYTE_KIND(WHOLE_QUARTERS)
BYTE_KIND(WHOLE_BYTES)

#endif
