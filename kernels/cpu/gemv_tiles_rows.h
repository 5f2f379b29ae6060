/* gemv_tiles_rows.h - what rows on tiles need besides products (gemv_tiles.h): room for a thread,
 * scales of a chunk of stages, where stages lie, the beginning and the end of rows. */
#ifndef KERF_GEMV_TILES_ROWS_H
#define KERF_GEMV_TILES_ROWS_H

#include "cpu/gemv_scales.h"
#include "cpu/gemv_tiles_fit.h"
#include "cpu/gemv_tiles_super.h"

/* What all kinds of codes have in common is compiled once. */
#define SHARED static __attribute__((noinline))

#define LAG 2  /* strips that are decoded before they are multiplied */
#define RING 4 /* strips that there is room for */

/* Sums of up to two groups of bytes: of x's upper bytes, then of its lower ones. */
typedef int32_t byte_sums[2][2][TILE_ROWS * V];

/* LEVELS: what half of the rows have of a stage; halves take four places in turns. */
#define HALF (TILE_ROWS / 2)
#define HALF_PLANE (HALF * STAGE)
typedef struct level_room {
    float d[4][HALF], min[4][HALF][V];
} level_room;

/* What a thread needs besides tiles. */
typedef struct tile_room {
    union {
        uint16_t words[2 * RING][TILE_ROWS * STRIP]; /* the second half: what is left of numbers */
        uint8_t bytes[RING][TILE_ROWS * 2 * STRIP];
        uint8_t planes[2][2 * HALF_PLANE]; /* of half of the rows a stage each */
    } a __attribute__((aligned(64)));      /* decoded strips */
    union {
        float words[STORED][TILE_ROWS * V];
        byte_sums bytes[2]; /* those that are stored, and those that are added meanwhile */
        int32_t planes[2][4 * 16 * V];
    } c __attribute__((aligned(64)));
    float scale[TILE_ROWS][CHUNK_GROUPS + V], offset[TILE_ROWS][CHUNK_GROUPS + V];
    level_room level;
    uint8_t stored[TILE_ROWS][CHUNK_GROUPS]; /* FOLDED: scales of groups, as they are stored */
    uint8_t tail[TILE_ROWS][STAGE_BYTES];
    vf sum[TILE_ROWS];
    const uint8_t *row; /* the first one's codes */
    tiles t;
} tile_room;

SHARED void begin_room(tile_room *m)
{
    memset(&m->a, 0, sizeof m->a);
    memset(&m->c, 0, sizeof m->c);
}

/* Where a stage of the first row lies, and bytes from there to the next row's. */
typedef struct tile_place {
    const uint8_t *p;
    size_t stride;
} tile_place;

KF_HD tile_place stage_place(const kf_tile_layout *l, const tile_room *m, size_t stage)
{
    if (stage >= l->whole) return (tile_place){m->tail[0], STAGE_BYTES};
    return (tile_place){m->row + stage * l->stage_bytes, l->row_bytes};
}

/* Part t, of `of`, of what the rows that come next have in a stage, in the order in which they lie:
 * so memory is read in a row. */
KF_HD void fetch_part(const kf_tile_layout *l, const tile_room *m, size_t stage, const unsigned t,
                      const unsigned of)
{
    const size_t bytes = TILE_ROWS * l->stage_bytes / of;
    const uint8_t *p = m->row + (stage * of + t) * bytes;
    for (size_t i = 0; i < bytes && l->ahead; i += 64) fetch_ahead(p + i, l->ahead);
}

/* --- scales -------------------------------------------------------------------------------------
 */

/* The bytes of n scales from group `first` of row r on; zeros where the row has ended. */
static void stored_scales(kf_spec s, const kf_gemv_call *call, size_t r, size_t first, size_t n,
                          uint8_t *out)
{
    const size_t all = (call->w.cols + s.group - 1) / s.group,
                 m = all - first < n ? all - first : n;
    const uint8_t *from = find_scales(s, &call->w, r, first, m, out);
    if (from != out) memcpy(out, from, m);
    memset(out + m, 0, n - m);
}

/* Scales of n groups of a row of structs, `bytes` long, from group `first` on; zeros where it has
 * ended. */
KF_HD void struct_scales(const kf_gemv_call *call, size_t r, size_t first, size_t n,
                         const size_t bytes, float *out)
{
    const kf_tile_layout *l = call->plan->state;
    const size_t all = l->row_bytes / bytes, m = all - first < n ? all - first : n;
    halves_apart(call->w.plane[KERF_PLANE_CODES] + r * l->row_bytes + first * bytes, m, bytes, out);
    memset(out + m, 0, (n - m) * sizeof *out);
}

/* Scales, and what else groups have, of stages [first, end). */
static void find_scales_of(const kf_gemv_call *call, size_t r0, size_t rows, size_t first,
                           size_t end, tile_room *m)
{
    const kf_tile_layout *l = call->plan->state;
    const kf_spec s = kf_spec_of(call->plan->shape.format);
    const size_t index = kf_format_index(call->plan->shape.format);
    const int halves = s.geometry == KERF_GROUP_STRUCT && s.scale == KERF_SCALE_F16;
    if (!l->entry) return;
    const size_t from = first * STAGE / l->entry,
                 n = ((end - first) * STAGE + l->entry - 1) / l->entry;
    for (size_t r = 0; r < rows; r++) {
        if (l->kind == KF_TILE_FOLDED)
            stored_scales(s, call, r0 + r, from, n, m->stored[r]);
        else if (halves && l->l.stride == 18)
            struct_scales(call, r0 + r, from, n, 18, m->scale[r]);
        else if (halves && l->l.stride == 34)
            struct_scales(call, r0 + r, from, n, 34, m->scale[r]);
        else if (s.geometry == KERF_GROUP_SUPER)
            super_scales_of[index](m->row + r * l->row_bytes, first, end, l, m->scale[r],
                                   m->offset[r]);
        else
            KF_ISA(widen)[index](&l->l, &call->w, r0 + r, from, n, m->scale[r], m->offset[r]);
    }
}

/* --- the beginning and the end ------------------------------------------------------------------
 */

/* Sums of zero; what a row has of a stage that it does not fill. */
SHARED void begin_rows(const kf_gemv_call *call, size_t r0, size_t rows, tile_room *m)
{
    const kf_tile_layout *l = call->plan->state;
    const size_t done = l->whole * l->stage_bytes;
    m->row = call->w.plane[KERF_PLANE_CODES] + r0 * l->row_bytes;
    for (size_t r = 0; r < TILE_ROWS; r++) m->sum[r] = vf_set1(0);
    for (size_t r = rows; r % 4; r++) { /* rows are added four at a time */
        memset(m->scale[r], 0, sizeof m->scale[r]);
        memset(m->offset[r], 0, sizeof m->offset[r]);
    }
    for (size_t r = 0; r < rows && l->whole < l->stages; r++) {
        memset(m->tail[r], 0, STAGE_BYTES);
        memcpy(m->tail[r], m->row + r * l->row_bytes + done, l->row_bytes - done);
    }
}

/* The lanes of each column, one after the other. */
KF_HD void sum_lanes(const kf_tile_layout *l, size_t columns, vf sums, float *y)
{
    const size_t lanes = l->wide * l->together;
    float lane[V];
    vf_store(lane, sums);
    for (size_t c = 0; c < columns; c++) {
        y[c] = lane[c * lanes];
        for (size_t i = 1; i < lanes; i++) y[c] += lane[c * lanes + i];
    }
}

/* Sums times what a row or a tensor has of its own; rows that are not finite once more. */
SHARED void end_rows(const kf_gemv_call *call, size_t r0, size_t rows, tile_room *m)
{
    const kf_tile_layout *l = call->plan->state;
    const kerf_format *f = call->plan->shape.format;
    const kf_spec s = kf_spec_of(f);
    float late = 1;
    if (s.geometry != KERF_GROUP_SUPER && l->entry && l->l.halves == KF_HALVES_BYTES) {
        late = kf_gemv_late_factor(&l->l, s, &call->w);
        if (l->kind == KF_TILE_FOLDED)
            late /= KF_TILE_FOLDS;
        else if (late == 0)
            late = 1; /* scales have it */
    }
    const int plainly =
        call->y_type == KERF_F32 && call->alpha == 1 && !call->bias && !call->residual;
    for (size_t r = 0; r < rows; r++) {
        float y[V], factor[1 + V] = {late}, none[1 + V];
        int finite = late != 0;
        if (!l->entry)
            KF_ISA(widen)[kf_format_index(f)](&l->l, &call->w, r0 + r, 0, 1, factor, none);
        sum_lanes(l, call->columns, vf_mul(m->sum[r], vf_set1(factor[0])), y);
        for (unsigned c = 0; c < call->columns; c++) finite &= kf_is_finite(y[c]);
        if (!finite) {
            kf_gemv_ref.rows(call, r0 + r, r0 + r + 1);
            continue;
        }
        for (size_t c = 0; plainly && c < call->columns; c++)
            memcpy(call->y + 4 * (c * call->y_stride + r0 + r), y + c, 4);
        for (unsigned c = 0; !plainly && c < call->columns; c++)
            kf_gemv_finish(call, r0 + r, c, y[c]);
    }
}

#endif
