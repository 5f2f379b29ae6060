/* wide_band.h - the way of a band through the stages of wide.h.
 *
 * Columns are taken in spans: as many groups as a tile has room for, or a tile of a row that has
 * one scale or none. The rows of a span (more than one in tiled formats) go through tile by tile.
 */
#ifndef KERF_WIDE_BAND_H
#define KERF_WIDE_BAND_H

#include "block/stats.h"

typedef struct span {
    const kf_band *b;
    const stages *of;
    kf_spec s;
    size_t row_bytes;
    size_t at, n, size;    /* columns of the span         */
    size_t first, groups;  /* groups of the span          */
    size_t row, col, cols; /* tile at hand: col from `at` */
} span;

static span span_open(const kf_band *b)
{
    const stages *of = stages_of(b);
    span w = {.b = b, .of = of, .s = of->spec, .row_bytes = kf_row_bytes(of->spec, b)};
    w.size = of->spec.geometry == KERF_GROUP_TILE ? KF_TILE_GROUPS * of->spec.group : KF_TILE;
    return w;
}

static void first_tile(span *w)
{
    w->row = w->col = 0;
    w->cols = w->n < KF_TILE ? w->n : KF_TILE;
}

/* Moves on to the next tile of the span, row by row; 0 past the last one. */
static int next_tile(span *w)
{
    w->col += w->cols;
    if (w->col == w->n) {
        w->col = 0;
        if (++w->row == w->b->rows) return 0;
    }
    w->cols = w->n - w->col < KF_TILE ? w->n - w->col : KF_TILE;
    return 1;
}

/* Moves on to the next span and its first tile; 0 past the last one. */
static int next_span(span *w)
{
    w->at += w->n;
    if (w->at >= w->b->cols) return 0;
    w->n = w->b->cols - w->at < w->size ? w->b->cols - w->at : w->size;
    w->first = w->s.group ? w->at / w->s.group : 0;
    w->groups = w->s.group ? (w->n + w->s.group - 1) / w->s.group : 1;
    first_tile(w);
    return 1;
}

/* Of the tile at hand: its first element in the band, its first group in the span, its codes. */
static size_t tile_element(const span *w)
{
    return w->row * w->b->cols + w->at + w->col;
}

static size_t tile_group(const span *w)
{
    return w->s.group ? w->col / w->s.group : 0;
}

static uint8_t *tile_codes(const span *w)
{
    return w->b->plane[KERF_PLANE_CODES] + w->row * w->row_bytes + (w->at + w->col) * w->s.bits / 8;
}

/* --- encode ------------------------------------------------------------------------------------
 */

static void forget_groups(kf_tile *t, int signs)
{
    for (size_t i = 0; i < KF_TILE_GROUPS; i++) {
        t->low[i] = signs ? INT32_MAX : 0;
        t->high[i] = signs ? INT32_MIN : 0;
    }
}

/* Loads the tile at hand and adds it to what its groups know; 0: a number that is an error. */
static int look_at_tile(const span *w, kf_tile *t)
{
    int signs = w->s.family == KERF_FAMILY_AFFINE;
    size_t g = tile_group(w);
    uint32_t top;
    if (!load_tile(w->b, tile_element(w), w->cols, t->x, &top)) return 0;
    if (w->s.group || signs)
        merge_tile(signs, t->x, w->cols, w->s.group ? w->s.group : w->cols, t->low + g,
                   t->high + g);
    else if ((int32_t)top > t->high[0])
        t->low[0] = t->high[0] = (int32_t)top;
    return 1;
}

static void encode_tile(const span *w, kf_tile *t)
{
    int flat = w->s.geometry == KERF_GROUP_FLAT;
    w->of->encode(w->cols, tile_group(w), t);
    pack_tile(w->s.bits, flat, flat ? KF_NF4_ZERO : 0, t->code, w->cols, tile_codes(w));
}

/* A span whose groups end within it. */
static int encode_span(span *w, kf_tile *t)
{
    uint32_t top;
    int one = w->b->rows == 1 && w->n <= KF_TILE; /* then it need not be loaded twice */
    forget_groups(t, w->s.family == KERF_FAMILY_AFFINE);
    do {
        if (!look_at_tile(w, t)) return 0;
    } while (next_tile(w));
    w->of->choose(w->b, w->first, w->groups, t);
    first_tile(w);
    do {
        if (!one && !load_tile(w->b, tile_element(w), w->cols, t->x, &top)) return 0;
        encode_tile(w, t);
    } while (next_tile(w));
    return 1;
}

static int encode_grouped(const kf_band *b, kf_tile *t)
{
    for (span w = span_open(b); next_span(&w);)
        if (!encode_span(&w, t)) return 0;
    return 1;
}

/* One row with one scale: found in a round of its own, if it is not the matrix's. */
static int encode_ungrouped(const kf_band *b, kf_tile *t)
{
    uint32_t top;
    span w = span_open(b);
    forget_groups(t, w.s.family == KERF_FAMILY_AFFINE);
    while (kf_scale_per_group(w.s) && next_span(&w))
        if (!look_at_tile(&w, t)) return 0;
    w.of->choose(b, 0, 1, t);
    for (w = span_open(b); next_span(&w);) {
        if (!load_tile(b, tile_element(&w), w.cols, t->x, &top)) return 0;
        encode_tile(&w, t);
    }
    return 1;
}

static size_t encode_band(const kf_band *b)
{
    kf_spec s = stages_of(b)->spec;
    if (!takes_encoder(b->encoder)) return kf_ref_ops(b->g->format)->encode(b);
    if (s.zero == KERF_ZERO_CODE && kf_scale_per_group(s))
        memset(b->plane[KERF_PLANE_ZEROS], 0, kf_packed_bytes(s.bits, kf_group_count(s, b)));
    kf_tile t;
    int good = s.group ? encode_grouped(b, &t) : encode_ungrouped(b, &t);
    if (!good) /* the tiles of a band are not in the order of its elements */
        return kf_widen(b->dtype, b->source, b->rows * b->cols, b->nan, b->scratch);
    if (s.second == KERF_SECOND_NESTED) kf_put_second(b, kf_group_count(s, b));
    return KF_NO_ELEMENT;
}

/* --- measure -----------------------------------------------------------------------------------
 */

/* Adds the absmax of every block of n elements. */
static void add_blocks(kf_spec s, size_t n, kf_tile *t, kerf_stats *stats)
{
    forget_groups(t, 0);
    merge_tile(0, t->x, n, s.group, t->low, t->high);
    for (size_t i = 0; i * s.group < n; i++) {
        float largest = float_of(t->high[i]);
        kf_group g = {&largest, 1, 1, 1, (i + 1) * s.group <= n};
        kf_tensor none = {0};
        kf_scale absmax = kf_choose(s, KERF_ENC_NF4_BNB_CPU, &none, g);
        kf_stats_add_block(stats, kf_float(absmax.bits));
    }
}

static size_t measure_band(const kf_band *b, kerf_stats *stats)
{
    kf_spec s = stages_of(b)->spec;
    int32_t low = 0, high = 0; /* of the elements and zero */
    uint32_t top;
    kf_tile t;
    for (size_t at = 0, n = b->rows * b->cols; at < n; at += KF_TILE) {
        size_t left = n - at < KF_TILE ? n - at : KF_TILE;
        if (!load_tile(b, at, left, t.x, &top))
            return kf_widen(b->dtype, b->source, n, b->nan, b->scratch);
        merge_tile(1, t.x, left, left, &low, &high);
        if (s.second == KERF_SECOND_NESTED) add_blocks(s, left, &t, stats);
    }
    stats->min = kf_min(stats->min, float_of(low));
    stats->max = kf_max(stats->max, float_of(high));
    stats->amax = kf_max(stats->amax, kf_max(-float_of(low), float_of(high)));
    return KF_NO_ELEMENT;
}

/* --- decode ------------------------------------------------------------------------------------
 */

static void decode_band(const kf_band *b)
{
    kf_tile t;
    for (span w = span_open(b); next_span(&w);) {
        w.of->dequant(b, w.first, w.groups, &t);
        do {
            if (w.s.geometry == KERF_GROUP_STRUCT)
                unpack_struct(w.s, b->plane[KERF_PLANE_CODES], w.first, w.groups, t.code);
            else
                unpack_tile(w.s.bits, w.s.geometry == KERF_GROUP_FLAT, tile_codes(&w), w.cols,
                            t.code);
            w.of->decode(w.cols, tile_group(&w), &t);
            store_tile(b, tile_element(&w), w.cols, t.x);
        } while (next_tile(&w));
    }
}

static size_t count_band(const kf_band *b)
{
    size_t clipped = 0, size = b->dtype == KERF_F32 ? 4 : 2;
    uint32_t lo, hi;
    kf_tile t;
    span w = span_open(b);
    if (w.s.bits > 8) return 0;
    w.of->extremes(&lo, &hi);
    while (next_span(&w)) {
        w.of->dequant(b, w.first, w.groups, &t);
        do {
            widen_tile(b->dtype, b->source + tile_element(&w) * size, w.cols, t.x);
            w.of->mark(lo, hi, w.cols, tile_group(&w), &t);
            for (size_t i = 0; i < w.cols; i++) clipped += t.code[i];
        } while (next_tile(&w));
    }
    return clipped;
}

#endif
