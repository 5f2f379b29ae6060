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
 *         its scale not yet in it       one to three terms            and term of a group
 *
 * A group is what one scale serves, at most a stage. When its sums are complete they are stored,
 * and each row adds its own times its scale, in fp32: a product with a number of the row.
 *
 * Where a code times its scale is exact in bfloat16 it is looked up as one number, by both, and a
 * stage is a group.
 *
 * Codes are exact in bfloat16: with any zero point taken off they are small integers, or have few
 * bits. So is x, cut into terms of 8 bits: one of BF16, two of F16, three of F32. What blocks of
 * two levels add to a group, their minimum, is multiplied by the sum of x over that group.
 *
 * In which order a strip has its elements is the decoder's choice, as long as x has the same. A row
 * is summed in an order that depends on the layout alone: dots of a group, groups of a stage,
 * stages. Rows of which a sum is not finite are done again by the reference, which knows what NaN
 * and infinities of scales and codes give. */
#ifndef KERF_GEMV_TILES_H
#define KERF_GEMV_TILES_H

#include "cpu/gemv_scales.h"
#include "cpu/gemv_tiles_fit.h"
#include "cpu/gemv_tiles_super.h"
#include "cpu/gemv_tiles_x.h"
#include "cpu/gemv_widen_x.h"

#include <stdlib.h>

/* What all kinds of codes have in common is compiled once. */
#define SHARED static __attribute__((noinline))

#define LAG 2  /* strips that are decoded before they are multiplied */
#define RING 4 /* strips that there is room for */

/* What a thread needs besides tiles. */
typedef struct tile_room {
    uint16_t a[RING][TILE_ROWS * STRIP] __attribute__((aligned(64)));
    float c[STORED][TILE_ROWS * V] __attribute__((aligned(64)));
    float scale[TILE_ROWS][CHUNK_GROUPS + V], offset[TILE_ROWS][CHUNK_GROUPS + V];
    uint8_t tail[TILE_ROWS][STAGE_BYTES];
    vf sum[TILE_ROWS];
    const uint8_t *row; /* the first one's codes */
    tiles t;
    uint8_t bytes[TILE_ROWS][CHUNK_GROUPS]; /* FOLDED: scales of groups, as they are stored */
} tile_room;

/* --- codes to bfloat16 --------------------------------------------------------------------------
 */

/* Rows of a stage: the codes of the first, bytes from one to the next, and the zero points and
 * stored scales of the first, whose rows are ZEROS and CHUNK_GROUPS apart. */
typedef struct tile_codes {
    const uint8_t *p;
    size_t stride;
    const float *zeros;
    const uint8_t *scales;
} tile_codes;

#define ZEROS (CHUNK_GROUPS + V)

/* Strip t of a stage. Of MINIS and SIXES two are done at once, from an even one on. */
KF_HD void decode_strip(const int kind, kf_spec s, const kf_tile_layout *l, const unsigned t,
                        tile_codes c, size_t rows, uint16_t (*a)[TILE_ROWS * STRIP])
{
    const int two = kind == KF_TILE_MINIS || kind == KF_TILE_SIXES;
    const int fetches = kind <= KF_TILE_FOLDED ? t % 4 == 0 : t % 2 == 0;
    const tw table = tw_load(l->table[0]), upper = tw_load(l->table[1]);
    const uint8_t *p = c.p + (kind == KF_TILE_SUPER ? 0 : l->strip_at[t]);
    uint16_t *to = a[t % RING], *second = a[(t + 1) % RING];
    if (two && t % 2) return;
    for (size_t r = 0; r < rows; r++, p += c.stride, to += STRIP, second += STRIP) {
        const float zero = kind == KF_TILE_LESS || kind == KF_TILE_BYTES_LESS
                               ? c.zeros[r * ZEROS + t * STRIP / l->group]
                               : 0;
        tw out[2] = {table, table};
        if (fetches) fetch_ahead(p, l->ahead);
        switch (kind) {
        case KF_TILE_NIBBLES: out[0] = tw_look_up(table, tw_nibbles(p)); break;
        case KF_TILE_LESS:
            out[0] = tw_look_up(tw_load(l->table[(int)zero & 31]), tw_nibbles(p));
            break;
        case KF_TILE_HALVES: out[0] = tw_look_up(table, tw_nibbles_of_two(p)); break;
        case KF_TILE_FOLDED:
            out[0] = tw_folded(p, l->folded, c.scales + r * CHUNK_GROUPS + 2 * t);
            break;
        case KF_TILE_BYTES: out[0] = tw_numbers(p, 0); break;
        case KF_TILE_BYTES_LESS: out[0] = tw_numbers(p, (int)(zero * 0x1p-24f)); break;
        case KF_TILE_MINIS: tw_minis(p, l->bytes, out); break;
        case KF_TILE_SIXES: tw_sixes(p, l->bytes, out); break;
        default: out[0] = super_strip(kf_super_of(s), p, t, table, upper);
        }
        tw_store(to, out[0]);
        if (two) tw_store(second, out[1]);
    }
}

/* One scale serves a row. */
KF_HD int is_row_scaled(const kf_tile_layout *l)
{
    return l->kind != KF_TILE_SUPER && l->l.scaling == KF_SCALING_ROW;
}

/* --- sums ---------------------------------------------------------------------------------------
 */

/* Strip t of a stage times its x; groups that end are stored at *c. */
KF_HD void multiply_strip(const kf_tile_layout *l, const unsigned t, const uint16_t *x,
                          size_t columns, int both, tile_room *m, float **c)
{
    const size_t strip = STRIP * columns, terms = l->terms;
    const unsigned others = l->strips - 1; /* of a group: a power of two */
    const uint16_t *a = m->a[t % RING];
    x += t * terms * strip;
    TILES_SYNC;
    if (l->strips == 0) {
        for (size_t half = 0; half < 2; half++) {
            tiles_zero(&m->t);
            for (size_t i = 0; i < terms; i++)
                tiles_dot_half(&m->t, a + half * (STRIP / 2), x + i * strip + half * (strip / 2),
                               columns, both);
            tiles_store(&m->t, *c, both);
            *c += TILE_ROWS * V;
        }
    } else {
        if ((t & others) == 0) tiles_zero(&m->t);
        for (size_t i = 0; i < terms; i++) tiles_dot(&m->t, a, x + i * strip, columns, both);
        if ((t & others) == others) {
            tiles_store(&m->t, *c, both);
            *c += TILE_ROWS * V;
        }
    }
    TILES_SYNC;
}

/* Adds the n groups that are stored, the first of which is group `first` of the chunk, to R rows
 * from r on. */
KF_HD void add_rows(const int scaled, const int offsets, const size_t n, const size_t R,
                    size_t first, size_t r, const float *x_sums, tile_room *m)
{
    vf part[4];
    UNROLL for (size_t j = 0; j < n; j++)
    {
        UNROLL for (size_t i = 0; i < R; i++)
        {
            const vf sum = vf_load(m->c[j] + (r + i) * V);
            const vf scale = scaled ? vf_set1(m->scale[r + i][first + j]) : vf_set1(1);
            if (j)
                part[i] = vf_fma(sum, scale, part[i]);
            else
                part[i] = scaled ? vf_mul(sum, scale) : sum;
        }
        if (!offsets) continue;
        const vf x = vf_load(x_sums + j * V);
        UNROLL for (size_t i = 0; i < R; i++) part[i] =
            vf_fma(x, vf_set1(m->offset[r + i][first + j]), part[i]);
    }
    UNROLL for (size_t i = 0; i < R; i++) m->sum[r + i] = vf_add(m->sum[r + i], part[i]);
}

/* The same for all rows, four at a time: sums of rows that are not there are not read. */
KF_HD void add_all_rows(const int scaled, const int offsets, size_t n, size_t first, size_t rows,
                        const float *x_sums, tile_room *m)
{
#define ADD(n)                                                                                     \
    case n:                                                                                        \
        for (size_t r = 0; r < rows; r += 4) add_rows(scaled, offsets, n, 4, first, r, x_sums, m); \
        break;
    switch (n) {
        ADD(1)
        ADD(2)
        ADD(4)
        ADD(8)
    }
#undef ADD
}

SHARED void add_groups(const kf_tile_layout *l, size_t n, size_t first, size_t rows,
                       const float *x_sums, tile_room *m)
{
    if (l->offsets)
        add_all_rows(1, 1, n, first, rows, x_sums, m);
    else if (is_row_scaled(l) || l->kind == KF_TILE_FOLDED)
        add_all_rows(0, 0, n, 0, rows, x_sums, m);
    else
        add_all_rows(1, 0, n, first, rows, x_sums, m);
}

/* --- rows ---------------------------------------------------------------------------------------
 */

/* The bytes of n scales from group `first` of row r on; zeros where the row has ended. */
KF_HD void stored_scales(kf_spec s, const kf_gemv_call *call, size_t r, size_t first, size_t n,
                         uint8_t *out)
{
    const size_t all = (call->w.cols + s.group - 1) / s.group,
                 m = all - first < n ? all - first : n;
    const uint8_t *from = find_scales(s, &call->w, r, first, m, out);
    if (from != out) memcpy(out, from, m);
    memset(out + m, 0, n - m);
}

/* Scales, and what else groups have, of stages [first, end). */
KF_HD void find_scales_of(const int kind, kf_spec s, const kf_gemv_call *call,
                          const kf_tile_layout *l, size_t r0, size_t rows, size_t first, size_t end,
                          tile_room *m)
{
    kf_gemv_widen *widen = KF_ISA(widen)[kf_format_index(call->plan->shape.format)];
    const size_t each = l->entry; /* elements */
    for (size_t r = 0; r < rows; r++) {
        if (kind == KF_TILE_FOLDED)
            stored_scales(s, call, r0 + r, first * STAGE / each, (end - first) * STAGE / each,
                          m->bytes[r]);
        else if (kind == KF_TILE_SUPER)
            super_scales(s, m->row + r * l->row_bytes, first, end, l, m->scale[r], m->offset[r]);
        else if (l->l.scaling != KF_SCALING_ROW)
            widen(&l->l, &call->w, r0 + r, first * STAGE / each,
                  ((end - first) * STAGE + each - 1) / each, m->scale[r], m->offset[r]);
    }
}

/* Where a stage lies. */
KF_HD tile_codes codes_of(const kf_tile_layout *l, const tile_room *m, size_t stage)
{
    const float *zeros = m->offset[0] + stage % CHUNK * (STAGE / l->group);
    const uint8_t *scales = m->bytes[0] + stage % CHUNK * (STAGE / 16);
    if (stage >= l->whole) return (tile_codes){m->tail[0], STAGE_BYTES, zeros, scales};
    return (tile_codes){m->row + stage * l->stage_bytes, l->row_bytes, zeros, scales};
}

/* Stages [first, end) of a chunk. While a strip is multiplied the one LAG after it is decoded. */
KF_HD void do_chunk(const int kind, kf_spec s, const kf_gemv_call *call, size_t rows, size_t first,
                    size_t end, tile_room *m)
{
    const kf_tile_layout *l = call->plan->state;
    const size_t columns = call->columns, n = STAGE / l->group, k = n / l->parts;
    const uint16_t *x = (uint16_t *)call->workspace + first * STAGE * l->terms * columns;
    const float *x_sums = kf_tile_x_sums(l, call->workspace, columns) + first * n * V;
    tile_codes now = codes_of(l, m, first);
    UNROLL for (unsigned t = 0; t < LAG; t++) decode_strip(kind, s, l, t, now, rows, m->a);
    for (size_t stage = first; stage < end; stage++) {
        const tile_codes next = stage + 1 < end ? codes_of(l, m, stage + 1) : now;
        float *c = m->c[0];
        size_t group = (stage - first) * n;
        UNROLL for (unsigned t = 0; t < STRIPS; t++)
        {
            decode_strip(kind, s, l, (t + LAG) % STRIPS, t + LAG < STRIPS ? now : next, rows, m->a);
            multiply_strip(l, t, x, columns, rows > TILE_ROWS / 2, m, &c);
            if ((t + 1) % (STRIPS / l->parts)) continue;
            add_groups(l, k, group, rows, x_sums, m);
            c = m->c[0];
            group += k;
            x_sums += k * V;
        }
        x += STAGE * l->terms * columns;
        now = next;
    }
}

/* Sums of zero; what a row has of a stage that it does not fill. */
SHARED void begin_rows(const kf_gemv_call *call, size_t r0, size_t rows, tile_room *m)
{
    const kf_tile_layout *l = call->plan->state;
    const size_t done = l->whole * l->stage_bytes;
    m->row = call->w.plane[KERF_PLANE_CODES] + r0 * l->row_bytes;
    for (size_t r = 0; r < TILE_ROWS; r++) m->sum[r] = vf_set1(0);
    for (size_t r = 0; r < rows && l->whole < l->stages; r++) {
        memset(m->tail[r], 0, STAGE_BYTES);
        memcpy(m->tail[r], m->row + r * l->row_bytes + done, l->row_bytes - done);
    }
}

/* Sums times what a row or a tensor has of its own; rows that are not finite once more. */
SHARED void end_rows(const kf_gemv_call *call, size_t r0, size_t rows, tile_room *m)
{
    const kf_tile_layout *l = call->plan->state;
    const kerf_format *f = call->plan->shape.format;
    float late = 1;
    if (l->kind != KF_TILE_SUPER && !is_row_scaled(l) && l->l.halves == KF_HALVES_BYTES) {
        late = kf_gemv_late_factor(&l->l, kf_spec_of(f), &call->w);
        if (late == 0 && l->kind != KF_TILE_FOLDED) late = 1; /* scales have it */
    }
    for (size_t r = 0; r < rows; r++) {
        float y[V], factor[1 + V] = {late}, none[1 + V];
        int finite = late != 0;
        if (is_row_scaled(l))
            KF_ISA(widen)[kf_format_index(f)](&l->l, &call->w, r0 + r, 0, 1, factor, none);
        vf_store(y, vf_mul(m->sum[r], vf_set1(factor[0])));
        for (unsigned c = 0; c < call->columns; c++) finite &= kf_is_finite(y[c]);
        if (!finite) {
            kf_gemv_ref.rows(call, r0 + r, r0 + r + 1);
            continue;
        }
        for (unsigned c = 0; c < call->columns; c++) kf_gemv_finish(call, r0 + r, c, y[c]);
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
        find_scales_of(kind, s, call, l, r0, rows, stage, end, m);
        do_chunk(kind, s, call, rows, stage, end, m);
    }
    end_rows(call, r0, rows, m);
}

SHARED void begin_room(tile_room *m, unsigned columns)
{
    memset(m->a, 0, sizeof m->a);
    memset(m->c, 0, sizeof m->c);
    memset(m->scale, 0, sizeof m->scale);
    memset(m->offset, 0, sizeof m->offset);
    tiles_begin(&m->t, columns);
}

KF_HD void do_tiles(const int kind, kf_spec s, const kf_gemv_call *call, size_t r0, size_t r1)
{
    tile_room m;
    begin_room(&m, call->columns);
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
TILE_KIND(LESS)
TILE_KIND(HALVES)
TILE_KIND(FOLDED)
TILE_KIND(BYTES)
TILE_KIND(BYTES_LESS)
TILE_KIND(MINIS)
TILE_KIND(SIXES)

KF_HD void tiles_of_super(kf_spec s, const kf_gemv_call *call, size_t r0, size_t r1)
{
    do_tiles(KF_TILE_SUPER, s, call, r0, r1);
}

#define EACH_SUPER tiles_of_super
#define EACH_SUPER_SMALL 0
#define EACH_SUPER_ENTRY KF_ISA(SUPER)
#include "cpu/gemv_each_super.h"

static void tile_rows(const kf_gemv_call *c, size_t r0, size_t r1)
{
    static kf_gemv_rows_function *const kinds[] = {tiles_NIBBLES, tiles_LESS,  tiles_HALVES,
                                                   tiles_FOLDED,  tiles_BYTES, tiles_BYTES_LESS,
                                                   tiles_MINIS,   tiles_SIXES, any_super};
    const kf_tile_layout *l = c->plan->state;
    kinds[l->kind](c, r0, r1);
}

/* --- a plan -------------------------------------------------------------------------------------
 */

static int tile_start(const kf_gemv_call *c)
{
    const kf_tile_layout *l = c->plan->state;
    const size_t columns = c->columns, size = kerf_dtype_bits(c->x_type) / 8;
    uint16_t *x = c->workspace;
    float *sums = kf_tile_x_sums(l, c->workspace, columns), wide[STAGE];
    const tw order = tw_load(l->order);
    uint32_t amax[V] = {0};
    if (l->offsets) memset(sums, 0, kf_tile_x_sums_count(l) * sizeof *sums);
    for (size_t at = 0; at < c->w.cols; at += STAGE) {
        const size_t left = c->w.cols - at, n = left < STAGE ? left : STAGE;
        memset(wide, 0, sizeof wide);
        for (unsigned i = 0; i < columns; i++) {
            const uint8_t *from = c->x + (i * c->x_stride + at) * size;
            const uint32_t largest = kf_bits(widen_x(c->x_type, from, n, wide));
            amax[i] = largest > amax[i] ? largest : amax[i];
            if (l->offsets) sum_groups(l, wide, sums + i);
            pack_stage(l, wide, order, columns, x + 2 * i);
        }
        x += STAGE * l->terms * columns;
        if (l->offsets) sums += STAGE / l->group * V;
    }
    for (unsigned i = 0; i < columns; i++)
        if (!x_is_tame(kf_float(amax[i]))) return 0;
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
    plan->workspace = kf_tile_workspace(l, &plan->shape);
    plan->bound = kf_tile_bound(l);
    plan->x_bound = l->offsets ? KF_TILE_X_BOUND : 0;
    plan->panel = (plan->panel + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    return KERF_OK;
}

#endif
