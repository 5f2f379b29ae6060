/* wide_loss.h - what a band loses, tile by tile: what is decoded never leaves the processor.
 *
 * Of formats whose numbers are products of a scale, elements are scaled, compared with the source
 * and added to the sums of loss.h in one go; of all others, one tile is decoded after the other. */
#ifndef KERF_WIDE_LOSS_H
#define KERF_WIDE_LOSS_H

#include "cpu/wide_band.h"

_Static_assert((int)KF_PIECE == (int)KF_TILE, "loss.h names the pieces that a row is cut into");

/* --- in one go -------------------------------------------------------------------------------- */

typedef float eight __attribute__((vector_size(32)));
typedef int32_t eight_counts __attribute__((vector_size(32)));
typedef uint16_t eight_halves __attribute__((vector_size(16)));
typedef uint32_t eight_words __attribute__((vector_size(32)));

/* What goes through a loop over the groups of a tile. */
typedef struct one_go {
    eight_sums sums;
    eight_counts outside;
} one_go;

static inline __attribute__((always_inline)) void load_eight(kerf_dtype type, const uint8_t *src,
                                                             size_t i, eight *x)
{
    if (type == KERF_F32) {
        memcpy(x, src + 4 * i, sizeof *x);
        return;
    }
#if defined(__AVX2__)
    __m128i half = _mm_loadu_si128((const __m128i *)(const void *)(src + 2 * i));
    *x = (eight)_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
#else
    eight_halves half;
    memcpy(&half, src + 2 * i, sizeof half);
    *x = (eight)(__builtin_convertvector(half, eight_words) << 16);
#endif
}

/* The groups of a tile from group g on; t->x: their numbers at scale 1. */
static inline __attribute__((always_inline)) void
lose_groups(kerf_dtype type, int shifts, int weighted, const uint8_t *src, const float *h,
            size_t width, size_t n, size_t g, const kf_tile *t, one_go *o)
{
    for (size_t at = 0; at < n; at += width, g++) {
        const kf_dequant d = dequant_of(t, g);
        const float zero = (float)d.zero;
        const float least = kf_float((uint32_t)t->low[g]), largest = kf_float((uint32_t)t->high[g]);
        const size_t end = n - at < width ? n : at + width;
        for (size_t i = at; i < end; i += EIGHT) {
            eight x, v;
            load_eight(type, src, i, &x);
            memcpy(&v, t->x + i, sizeof v);
            v = (shifts ? v - zero : v) * d.scale;
            o->outside -= (x < least) | (x > largest);
            add_eight((const float *)(const void *)&x, (const float *)(const void *)&v,
                      weighted ? h + i : NULL, weighted, &o->sums);
        }
    }
}

/* Returns 0, and adds nothing, when an element is not finite. */
static inline __attribute__((always_inline)) int lose_as(kerf_dtype type, int shifts, int weighted,
                                                         const uint8_t *src, const float *h,
                                                         size_t width, size_t n, size_t g,
                                                         const kf_tile *t, kerf_loss *loss)
{
    one_go o;
    memset(&o, 0, sizeof o);
    lose_groups(type, shifts, weighted, src, h, width, n, g, t, &o);
    if (!add_lanes(&o.sums, weighted, loss)) return 0;
    for (int k = 0; k < EIGHT; k++) loss->clipped += (uint32_t)o.outside[k];
    return 1;
}

#define LOSE_AS(type, shifts)                                   \
    (h ? lose_as(type, shifts, 1, src, h, width, n, g, t, loss) \
       : lose_as(type, shifts, 0, src, NULL, width, n, g, t, loss))

KF_STAGE int lose_scaled(kerf_dtype type, int shifts, const uint8_t *src, const float *h,
                         size_t width, size_t n, size_t g, const kf_tile *t, kerf_loss *loss)
{
    if (type == KERF_F32) return shifts ? LOSE_AS(KERF_F32, 1) : LOSE_AS(KERF_F32, 0);
    return shifts ? LOSE_AS(KERF_BF16, 1) : LOSE_AS(KERF_BF16, 0);
}

/* --- a tile ----------------------------------------------------------------------------------- */

static int lose_in_one_go(const span *w, const float *h, kf_tile *t, kerf_loss *loss)
{
    const size_t width = group_width(w, w->cols);
    if (!is_linear(w->s) || w->cols % EIGHT || width % EIGHT) return 0;
    float widened[KF_TILE];
    const uint8_t *src = tile_source(w);
    kerf_dtype type = w->b->dtype;
    if (type == KERF_F16) {
        widen_tile(type, src, w->cols, widened);
        src = (const uint8_t *)widened;
        type = KERF_F32;
    }
    w->of.element->values(stored_codes(w), w->first, w->cols, t);
    return lose_scaled(type, w->s.zero == KERF_ZERO_CODE, src, h, width, w->cols, tile_group(w), t,
                       loss);
}

static void lose_tile(const span *w, int clips, kf_tile *t, kerf_loss *loss)
{
    float decoded[KF_TILE], room[KF_TILE];
    const float *h = importance_at(w->b, tile_element(w), w->cols, room);
    if (clips && lose_in_one_go(w, h, t, loss)) return;
    decode_tile(w, KERF_F32, t, (uint8_t *)decoded);
    widen_tile(w->b->dtype, tile_source(w), w->cols, t->x);
    if (clips) loss->clipped += count_outside(group_width(w, w->cols), w->cols, tile_group(w), t);
    add_piece(t->x, decoded, h, w->cols, loss);
}

static void lose_band(const kf_band *b, kerf_loss *loss)
{
    if (b->target) {
        lose_decoded(b, (const float *)(const void *)b->target, loss);
        return;
    }
    uint32_t lo = 0, hi = 0;
    kf_tile t;
    span w = span_open(b);
    const int clips = w.s.bits <= 8;
    if (clips) w.of.element->extremes(&t, &lo, &hi);
    while (next_span(&w)) {
        dequant_span(&w, &t);
        if (clips) w.of.element->bound(lo, hi, w.groups, &t);
        do {
            lose_tile(&w, clips, &t, loss);
        } while (next_tile(&w));
    }
}

#endif
