/* wide_span.h - how the stages of wide.h walk through a band.
 *
 * Columns are taken in spans: as many groups as a tile has room for, or a tile of a row that has
 * one scale or none. The rows of a span (more than one in tiled formats) go through tile by tile.
 */
#ifndef KERF_WIDE_SPAN_H
#define KERF_WIDE_SPAN_H

#include "cpu/wide_stages.h"
#include "format/format.h"

static stages stages_of(const kf_band *b)
{
    static stages (*const of_format[])(void) = {
#define KERF_FORMAT(ID, ...) KF_ISA(stages_##ID),
#include <kerf/formats.def>
#undef KERF_FORMAT
    };
    return of_format[kf_format_index(b->g->format)]();
}

typedef struct span {
    const kf_band *b;
    stages of;
    kf_spec s;
    size_t row_bytes;
    size_t at, n, size;    /* columns of the span         */
    size_t first, groups;  /* groups of the span          */
    size_t row, col, cols; /* tile at hand: col from `at` */
    int dirty;             /* holds NaN or Inf, which must be replaced */
} span;

KF_HD span span_open(const kf_band *b)
{
    span w = {.b = b, .of = stages_of(b)};
    w.s = w.of.spec;
    w.row_bytes = kf_row_bytes(w.s, b);
    w.size = w.s.geometry == KERF_GROUP_TILE ? KF_PIECE_COLUMNS : KF_TILE;
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

/* Of the tile at hand: its first element in the band, its first group in the span, its codes as
 * they are read and as they are written. */
static size_t tile_element(const span *w)
{
    return w->row * w->b->cols + w->at + w->col;
}

static size_t tile_group(const span *w)
{
    return w->s.group ? w->col / w->s.group : 0;
}

static size_t tile_code(const span *w)
{
    return w->row * w->row_bytes + (w->at + w->col) * w->s.bits / 8;
}

static const uint8_t *tile_codes(const span *w)
{
    return w->b->plane[KERF_PLANE_CODES] + tile_code(w);
}

static uint8_t *tile_out(const span *w)
{
    return w->b->out[KERF_PLANE_CODES] + tile_code(w);
}

/* Columns of a group. */
static size_t group_width(const span *w, size_t whole_tile)
{
    return w->s.group ? w->s.group : whole_tile;
}

static const uint8_t *tile_source(const span *w)
{
    return w->b->source + tile_element(w) * (w->b->dtype == KERF_F32 ? 4 : 2);
}

#endif
