/* gemv_tiles_levels.h - blocks of two levels with minima on tiles (gemv_tiles.h), their levels in
 * their codes.
 *
 * A level of 6 bits is 8 a + b, and a code has at most 5: a and b times a code are bytes without a
 * sign, two planes of them; a level of 4 bits times a code of two is one. So a block of 256 is one
 * group: its sums are whole, as of bytes (gemv_tiles_bytes.h), 8 times those of one plane plus
 * those of the other, and times d and the unit of x they are added to the row. Minima are
 * multiplied by the sums of x over their groups, found once for all rows.
 *
 *      strip, 64 codes        levels of their groups        planes                    64 by lanes
 *      +-------------+        +------------------+          +---------+---------+
 *      | c0 c1 c2 .. |   x    | a b              |    ->    | a c ..  | b c ..  |   x   x
 *      +-------------+        +------------------+          +---------+---------+
 *
 * Up to eight columns have both bytes of x side by side; more have two tiles of x. While half of
 * the rows are multiplied the other half, or the first of the next stage, are decoded, two rows
 * beside each dot. */
#ifndef KERF_GEMV_TILES_LEVELS_H
#define KERF_GEMV_TILES_LEVELS_H

#include "cpu/gemv_tiles_rows.h"

#define LEVEL_STRIP (2 * STRIP)
#define LEVEL_STRIPS (STAGE / LEVEL_STRIP)
#define LEVEL_TILE (HALF * LEVEL_STRIP)

KF_HD int has_byte_levels(kf_super k)
{
    return k.levels == KF_LEVELS_BYTES || k.levels == KF_LEVELS_PAIRS;
}

KF_HD int planes_of(kf_super k)
{
    return k.levels == KF_LEVELS_PAIRS ? 2 : 1;
}

/* Half of the rows of a stage: `rows` of them from row `from` on; `at`: places in turns. */
typedef struct level_half {
    size_t stage, from, rows, at;
} level_half;

KF_HD level_half half_of(size_t stage, size_t from, size_t rows, size_t at)
{
    const size_t left = rows - from;
    return (level_half){stage, from, left < HALF ? left : HALF, at};
}

KF_HD level_half half_after(level_half h, size_t rows)
{
    const size_t from = h.from + HALF < rows ? h.from + HALF : 0;
    return half_of(h.stage + (from == 0), from, rows, h.at + 1);
}

/* --- codes times levels -------------------------------------------------------------------------
 */

/* Row r of a half; its block is at p. Meanwhile the rows that come next are fetched, in the order
 * in which they lie. */
KF_HD void decode_level_row(kf_super k, const kf_tile_layout *l, const uint8_t *p,
                            const uint8_t *coming, size_t r, size_t at, tile_room *m)
{
    const uint64_t low = 0x0707070707070707u;
    const int two = planes_of(k) > 1;
    const super_bytes b = level_bytes(k.levels, p + k.at);
    const tb first = two ? tb_repeat(b.scale[0] >> 3 & low) : tb_repeat_two(b.scale[0], b.scale[1]);
    const tb second = tb_repeat(b.scale[0] & low);
    uint8_t *a = m->a.planes[at % 2] + r * LEVEL_STRIP;
    UNROLL for (unsigned t = 0; t < LEVEL_STRIPS; t++, a += LEVEL_TILE)
    {
        const tb place = tb_load(l->level_place + t * LEVEL_STRIP);
        const tb codes = super_bytes_of(k, p, 2 * t, first);
        if (t * 64 < k.bytes) fetch_ahead(coming, t * 64);
        tb_store(a, tb_times(codes, tb_look_up(first, place)));
        if (two) tb_store(a + HALF_PLANE, tb_times(codes, tb_look_up(second, place)));
    }
    const vf m_ = super_half(p + k.m), min = vf_of_int(vi_of_bytes(b.min, 0));
    m->level.d[at % 4][r] = kf_super_half(p + k.d);
    vf_store(m->level.min[at % 4][r], vf_mul(vf_sub(vf_set1(0), m_), min)); /* -(m * min) */
}

KF_HD void decode_level_rows(kf_super k, const kf_tile_layout *l, level_half h, size_t r0,
                             size_t r1, tile_room *m)
{
    const tile_place place = stage_place(l, m, h.stage);
    const uint8_t *p = place.p + (h.from + r0) * place.stride;
    const uint8_t *coming = m->row + l->ahead + (h.at * HALF + r0) * k.bytes;
    for (size_t r = r0; r < r1 && r < h.rows; r++, p += place.stride, coming += k.bytes)
        decode_level_row(k, l, p, coming, r, h.at, m);
}

/* --- sums ---------------------------------------------------------------------------------------
 */

/* Adds a half whose sums are stored to R of its rows from r on: a stage's minima are added up
 * first, so that a long row is one sum for each stage. */
KF_HD void add_level_rows(const int planes, const int wide, const size_t groups, const size_t R,
                          size_t r, level_half h, const float *x_sums, vf unit, tile_room *m)
{
    const size_t together = wide ? 2 : 1;
    const int32_t *stored = m->c.planes[h.at % 2];
    UNROLL for (size_t i = 0; i < R; i++)
    {
        const float *min = m->level.min[h.at % 4][r + i];
        const uint8_t *sums = (const uint8_t *)(stored + (r + i) * V);
        const vf scale = vf_mul(vf_set1(m->level.d[h.at % 4][r + i]), unit);
        vf part = vf_mul(vf_load(x_sums), vf_repeat(min, together));
        UNROLL for (size_t j = together; j < groups; j += together) part =
            vf_fma(vf_load(x_sums + j / together * V), vf_repeat(min + j, together), part);
        vi upper = vi_load(sums);
        if (planes > 1) upper = vi_add(vi_shl(upper, 3), vi_load(sums + 4 * 512));
        vf dot = vf_of_int(upper);
        if (!wide) {
            vi lower = vi_load(sums + 4 * 256);
            if (planes > 1) lower = vi_add(vi_shl(lower, 3), vi_load(sums + 4 * 768));
            dot = vf_fma(dot, vf_set1(256), vf_of_int(lower));
        }
        const size_t row = h.from + r + i;
        m->sum[row] = vf_add(m->sum[row], vf_fma(dot, scale, part));
    }
}

/* The same for all of its rows, four at a time: sums of rows that are not there are not read. */
KF_HD void add_level_half(const int planes, const int wide, const size_t groups,
                          const kf_gemv_call *call, level_half h, tile_room *m)
{
    const kf_tile_layout *l = call->plan->state;
    const vf unit = vf_load(kf_tile_units(l, call->workspace) + h.stage * V);
    const float *x_sums =
        kf_tile_x_sums(l, call->workspace) + h.stage * groups / l->sums_together * V;
    for (size_t r = 0; r < h.rows; r += 4)
        add_level_rows(planes, wide, groups, 4, r, h, x_sums, unit, m);
}

/* --- rows ---------------------------------------------------------------------------------------
 */

KF_HD void do_level_rows(kf_spec s, const int wide, const kf_gemv_call *call, size_t rows,
                         tile_room *m)
{
    const kf_tile_layout *l = call->plan->state;
    const kf_super k = kf_super_of(s);
    const unsigned groups = 256 / s.group, planes = (unsigned)planes_of(k);
    const size_t x_stage = kf_tile_x_stage(l), x_strip = x_stage / LEVEL_STRIPS;
    level_half now = half_of(0, 0, rows, 0), before = now;
    if (l->stages == 0) return;
    decode_level_rows(k, l, now, 0, HALF, m);
    while (now.stage < l->stages) {
        const uint8_t *x = (const uint8_t *)call->workspace + now.stage * x_stage;
        const uint8_t *a = m->a.planes[now.at % 2];
        level_half next = half_after(now, rows);
        if (next.stage == l->stages) next.rows = 0;
        TILES_SYNC;
        planes_zero(&m->t);
        for (size_t t = 0; t < LEVEL_STRIPS; t++, x += x_strip, a += LEVEL_TILE)
            UNROLL for (unsigned i = 0; i < planes; i++)
            {
                const size_t each = HALF / LEVEL_STRIPS / planes, r = t * (HALF / LEVEL_STRIPS);
                decode_level_rows(k, l, next, r + i * each, r + (i + 1) * each, m);
                TILES_SYNC;
                planes_dot(&m->t, i, a + i * HALF_PLANE, x, l->lanes, wide);
            }
        UNROLL for (unsigned i = 0; i < planes; i++)
            planes_store(&m->t, i, m->c.planes[now.at % 2] + 512 * i, wide);
        TILES_SYNC;
        if (now.at) add_level_half((int)planes, wide, groups, call, before, m);
        before = now;
        now = next;
    }
    add_level_half((int)planes, wide, groups, call, before, m);
}

KF_HD void do_level_panel(kf_spec s, const int wide, const kf_gemv_call *call, size_t r0, size_t r1)
{
    const kf_tile_layout *l = call->plan->state;
    tile_room m;
    begin_room(&m);
    memset(&m.level, 0, sizeof m.level);
    planes_begin(&m.t, (unsigned)l->lanes);
    for (size_t r = r0; r < r1; r += TILE_ROWS) {
        const size_t rows = r1 - r < TILE_ROWS ? r1 - r : TILE_ROWS;
        begin_rows(call, r, rows, &m);
        do_level_rows(s, wide, call, rows, &m);
        end_rows(call, r, rows, &m);
    }
    tiles_end(&m.t);
}

KF_HD void do_levels(kf_spec s, const kf_gemv_call *call, size_t r0, size_t r1)
{
    const kf_tile_layout *l = call->plan->state;
    if (l->wide > 1)
        do_level_panel(s, 1, call, r0, r1);
    else
        do_level_panel(s, 0, call, r0, r1);
}

#endif
