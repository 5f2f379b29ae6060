/* wide_band.h - encode, measure, decode, count: the way of a band through the stages of wide.h. */
#ifndef KERF_WIDE_BAND_H
#define KERF_WIDE_BAND_H

#include "block/stats.h"
#include "cpu/loss_sums.h"
#include "cpu/wide_bisect.h"
#include "cpu/wide_encoders.h"
#include "cpu/wide_narrow.h"
#include "cpu/wide_nibbles.h"
#include "cpu/wide_shares.h"
#include "cpu/wide_span.h"

/* --- encode ------------------------------------------------------------------------------------
 */

static int has_signs(const span *w)
{
    return needs_signs(w->s, w->b->encoder);
}

static void forget_groups(kf_tile *t, int signs, size_t groups)
{
    for (size_t i = 0; i < groups; i++) {
        t->low[i] = signs ? INT32_MAX : 0;
        t->high[i] = signs ? INT32_MIN : 0;
    }
}

/* What is not finite is an error (0), or replaced in the fp32 numbers of the tile. */
static int load_dirty(const span *w, kf_tile *t)
{
    return kf_widen(w->b->dtype, tile_source(w), w->cols, w->b->nan, t->x) == KF_NO_ELEMENT;
}

static int load_tile(const span *w, kf_tile *t)
{
    const uint8_t *src = tile_source(w);
    t->ahead = src + w->cols * (w->b->dtype == KERF_F32 ? 4 : 2);
    t->pairs = NULL;
    if (w->dirty) return load_dirty(w, t);
    if (w->b->dtype == KERF_BF16 && takes_pairs(w->s, w->b->encoder, w->cols)) t->pairs = src;
    if (t->pairs && !kf_is_search(KERF_FAMILY_NVFP4, w->b->encoder)) return 1;
    widen_tile(w->b->dtype, src, w->cols, t->x);
    return 1;
}

/* Adds the tile at hand to what its groups know; 0: a number that is not finite, and an error in
 * a dirty span. */
static int look_at_tile(const span *w, kf_tile *t)
{
    int signs = has_signs(w);
    size_t width = group_width(w, w->cols), g = tile_group(w);
    const uint8_t *src = tile_source(w);
    kerf_dtype type = w->b->dtype;
    if (w->dirty) {
        if (!load_dirty(w, t)) return 0;
        src = (const uint8_t *)t->x;
        type = KERF_F32;
    }
    return merge_source(type, signs, src, w->cols, width, t->low + g, t->high + g) < 0x7f800000u;
}

static int look_at_span(span *w, kf_tile *t)
{
    first_tile(w);
    do {
        if (!look_at_tile(w, t)) return 0;
    } while (next_tile(w));
    return 1;
}

static void encode_tile(const span *w, kf_tile *t)
{
    int flat = w->s.geometry == KERF_GROUP_FLAT;
    if (t->pairs && flat) {
        encode_nf4_pairs(t->pairs, w->cols, t->factor, t->ahead, tile_out(w));
        return;
    }
    if (t->pairs) {
        encode_pairs(t->pairs, w->cols, t->factor, t->dead, t->ahead, tile_out(w));
        return;
    }
    w->of.element->encode(group_width(w, w->cols), w->cols, tile_group(w), t);
    if (w->s.geometry == KERF_GROUP_STRUCT)
        pack_structs(w->s, t->code, w->first, w->groups, w->b->out[KERF_PLANE_CODES]);
    else
        pack_tile(w->s.bits, flat, flat ? KF_NF4_ZERO : 0, t->code, w->cols, tile_out(w));
}

/* All of the tile in one stage; 0: it takes the others. */
static int narrow_tile(const span *w, kf_tile *t)
{
    const uint8_t *src = tile_source(w);
    size_t width = group_width(w, w->cols);
    if (w->dirty || w->b->dtype == KERF_F32 || has_own_codes(KERF_FAMILY_NONE, w->b->encoder) ||
        !can_narrow(w->s) || w->cols % LANE_STEP || width % LANE_STEP)
        return 0;
    t->ahead = src + 2 * w->cols;
    w->of.element->narrow(w->b->dtype, src, width, w->cols, tile_group(w), t, tile_out(w));
    return 1;
}

/* x: the elements of the groups, where an encoder searches. */
static void choose(const span *w, const float *x, kf_tile *t)
{
    size_t cols = kf_group_cols(w->s, w->b, w->first + w->groups - 1);
    if (is_share_search(w->b->encoder)) search_shares(w->s, x, w->groups, w->s.group, cols, t);
    w->of.scale->choose(w->b, w->first, w->groups, cols, cols == kf_group_width(w->s, w->b), t);
}

/* A span whose groups end within it. */
static int encode_span(span *w, kf_tile *t)
{
    int looks = searches(KERF_FAMILY_NONE, w->b->encoder) || w->s.geometry == KERF_GROUP_STRUCT;
    int signs = has_signs(w);
    w->dirty = 0;
    forget_groups(t, signs, w->groups);
    if (!look_at_span(w, t)) {
        w->dirty = 1;
        forget_groups(t, signs, w->groups);
        if (!look_at_span(w, t)) return 0;
    }
    first_tile(w);
    if (looks) load_tile(w, t); /* one row: the span is one tile */
    choose(w, t->x, t);
    do {
        if (!looks && narrow_tile(w, t)) continue;
        if (!looks) load_tile(w, t);
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

/* Looks at all of a row, clean or dirty. */
static int look_at_row(const kf_band *b, int dirty, kf_tile *t)
{
    span w = span_open(b);
    w.dirty = dirty;
    forget_groups(t, has_signs(&w), 1);
    while (next_span(&w))
        if (!look_at_tile(&w, t)) return 0;
    return 1;
}

static int is_finite_tile(const span *w)
{
    int32_t low = 0, high = 0;
    return merge_source(w->b->dtype, 0, tile_source(w), w->cols, w->cols, &low, &high) <
           0x7f800000u;
}

/* One row with one scale, found in a round of its own if it is not the matrix's. */
static int encode_ungrouped(const kf_band *b, kf_tile *t)
{
    span w = span_open(b);
    int looks = kf_scale_per_group(w.s);
    if (looks && !look_at_row(b, 0, t)) {
        w.dirty = 1;
        if (!look_at_row(b, 1, t)) return 0;
    }
    w.groups = 1;
    if (is_share_search(b->encoder)) kf_widen(b->dtype, b->source, b->cols, b->nan, b->scratch);
    choose(&w, b->scratch, t);
    while (next_span(&w)) {
        if (!looks) w.dirty = !is_finite_tile(&w);
        if (narrow_tile(&w, t)) continue;
        if (!load_tile(&w, t)) return 0;
        encode_tile(&w, t);
    }
    return 1;
}

/* Casts have no scale: the source as it is becomes codes. */
static int encode_cast(const kf_band *b, kf_tile *t)
{
    for (span w = span_open(b); next_span(&w);) {
        kerf_dtype to = cast_type(w.s);
        if (is_finite_tile(&w)) {
            convert(b->dtype, to, tile_source(&w), w.cols, tile_out(&w));
            continue;
        }
        if (!load_dirty(&w, t)) return 0;
        convert(KERF_F32, to, (const uint8_t *)t->x, w.cols, tile_out(&w));
    }
    return 1;
}

/* kf_put_second with all bisections side by side: kf_map_nearest counts midpoints below a number.
 */
static uint32_t step_up(const float *middle, uint32_t code, uint32_t half, float c)
{
    return c > middle[code + half - 1] ? code + half : code;
}

static void put_second(const kf_band *b, size_t groups)
{
    const float *absmax = b->scratch + b->rows * b->cols;
    const float offset = b->tensor->offset;
    float middle[255], a[KF_NEST_BLOCKS];
    uint32_t code[KF_NEST_BLOCKS];
    int32_t top = 0;
    for (uint32_t i = 0; i < 255; i++) middle[i] = (kf_map_entry(i) + kf_map_entry(i + 1)) * 0.5f;
    for (size_t i = 0; i < groups; i++) {
        int32_t magnitude = (int32_t)(kf_bits(absmax[i] - offset) & 0x7fffffffu);
        top = magnitude > top ? magnitude : top;
    }
    const float second = kf_float((uint32_t)top), divisor = kf_max(second, KF_NF4_LEAST);
    const float factor = 1.0f / divisor;
    int whole = groups == KF_NEST_BLOCKS;
    for (size_t i = 0; i < groups; i++) {
        float c = absmax[i] - offset;
        c = whole ? c * factor : c / divisor;
        a[i] = kf_min(kf_max(-1.0f, c), 1.0f);
    }
    for (size_t i = 0; i < groups; i++) {
        uint32_t at = step_up(middle, 0, 128, a[i]);
        at = step_up(middle, at, 64, a[i]);
        at = step_up(middle, at, 32, a[i]);
        at = step_up(middle, at, 16, a[i]);
        at = step_up(middle, at, 8, a[i]);
        at = step_up(middle, at, 4, a[i]);
        at = step_up(middle, at, 2, a[i]);
        code[i] = step_up(middle, at, 1, a[i]);
    }
    pack_bytes(code, groups, b->out[KERF_PLANE_SCALES]);
    kf_put_code(b->out[KERF_PLANE_SECOND], 32, 0, kf_bits(second));
}

static size_t encode_band(const kf_band *b)
{
    kf_spec s = stages_of(b).spec;
    if (!takes_encoder(KERF_FAMILY_NONE, b->encoder)) return kf_ref_ops(b->g->format)->encode(b);
    if (s.zero == KERF_ZERO_CODE && kf_scale_per_group(s))
        memset(b->out[KERF_PLANE_ZEROS], 0, kf_packed_bytes(s.bits, kf_group_count(s, b)));
    kf_tile t;
    t.encoder = b->encoder;
    t.source = b->dtype;
    int good = s.family == KERF_FAMILY_CAST ? encode_cast(b, &t)
               : s.group                    ? encode_grouped(b, &t)
                                            : encode_ungrouped(b, &t);
    if (!good) /* the tiles of a band are not in the order of its elements */
        return kf_widen(b->dtype, b->source, b->rows * b->cols, b->nan, b->scratch);
    if (s.second == KERF_SECOND_NESTED) put_second(b, kf_group_count(s, b));
    return KF_NO_ELEMENT;
}

/* --- measure -----------------------------------------------------------------------------------
 */

/* Adds the absmax of every block of n elements, whose extremes the tile holds. */
static void add_blocks(kf_spec s, size_t n, const kf_tile *t, kerf_stats *stats)
{
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
    kf_spec s = stages_of(b).spec;
    size_t size = b->dtype == KERF_F32 ? 4 : 2;
    int32_t low = 0, high = 0; /* of the elements and zero */
    kf_tile t;
    for (size_t at = 0, n = b->rows * b->cols; at < n; at += KF_TILE) {
        size_t left = n - at < KF_TILE ? n - at : KF_TILE;
        const uint8_t *src = b->source + at * size;
        kerf_dtype type = b->dtype;
        int32_t least = low, largest = high;
        if (merge_source(type, 1, src, left, left, &least, &largest) >= 0x7f800000u) {
            if (kf_widen(type, src, left, b->nan, t.x) != KF_NO_ELEMENT)
                return kf_widen(b->dtype, b->source, n, b->nan, b->scratch);
            src = (const uint8_t *)t.x;
            type = KERF_F32;
            merge_source(type, 1, src, left, left, &low, &high);
        } else {
            low = least;
            high = largest;
        }
        if (s.second != KERF_SECOND_NESTED) continue;
        forget_groups(&t, 0, KF_TILE_GROUPS);
        merge_source(type, 0, src, left, s.group, t.low, t.high);
        add_blocks(s, left, &t, stats);
    }
    stats->min = kf_min(stats->min, float_of(low));
    stats->max = kf_max(stats->max, float_of(high));
    stats->amax = kf_max(stats->amax, kf_max(-float_of(low), float_of(high)));
    return KF_NO_ELEMENT;
}

/* --- decode ------------------------------------------------------------------------------------
 */

static void decode_other(const span *w, const uint8_t *codes, kerf_dtype type, kf_tile *t,
                         uint8_t *dst)
{
    w->of.element->values(codes, w->first, w->cols, t); /* leaves them as codes */
    w->of.element->decode(group_width(w, w->cols), w->cols, tile_group(w), t);
    for (size_t i = 0; i < w->cols; i++) t->x[i] = one_nan(t->x[i]);
    convert(KERF_F32, type, (const uint8_t *)t->x, w->cols, dst);
}

/* Codes of the tile; of byte structs, of the row. */
static const uint8_t *stored_codes(const span *w)
{
    return w->s.geometry == KERF_GROUP_STRUCT ? w->b->plane[KERF_PLANE_CODES] : tile_codes(w);
}

static void decode_tile(const span *w, kerf_dtype type, kf_tile *t, uint8_t *dst)
{
    const uint8_t *codes = stored_codes(w);
    if (w->s.family == KERF_FAMILY_CAST) {
        convert(cast_type(w->s), type, tile_codes(w), w->cols, dst);
        return;
    }
    if (!is_linear(w->s)) {
        decode_other(w, codes, type, t, dst);
        return;
    }
    if (type == KERF_BF16 && has_nibbles(w->s) && has_finite_scales(w->groups, t)) {
        float table[16];
        w->of.element->table(table);
        decode_pairs(w->s, table, group_width(w, w->cols), w->first, tile_group(w), t, codes,
                     w->cols, dst);
        return;
    }
    w->of.element->values(codes, w->first, w->cols, t);
    scale_tile(type, w->s.zero == KERF_ZERO_CODE, group_width(w, w->cols), w->cols, tile_group(w),
               t, dst);
}

static void dequant_span(const span *w, kf_tile *t)
{
    if (w->s.family != KERF_FAMILY_CAST) w->of.scale->dequant(w->b, w->first, w->groups, t);
}

static void decode_band(const kf_band *b)
{
    const size_t size = b->dtype == KERF_F32 ? 4 : 2;
    kf_tile t;
    for (span w = span_open(b); next_span(&w);) {
        dequant_span(&w, &t);
        do {
            decode_tile(&w, b->dtype, &t, b->target + tile_element(&w) * size);
        } while (next_tile(&w));
    }
}

/* How many elements of a tile lie outside the bounds of their groups. Counted in lanes, which are
 * added up once: groups are too short for it. */
static size_t count_outside(size_t width, size_t n, size_t g, const kf_tile *t)
{
    typedef float floats __attribute__((vector_size(4 * KF_VEC)));
    typedef int32_t counts __attribute__((vector_size(4 * KF_VEC)));
    const size_t step = sizeof(floats) / sizeof(float);
    counts found = {0};
    size_t outside = 0;
    for (size_t at = 0; at < n; at += width, g++) {
        const float least = kf_float((uint32_t)t->low[g]), largest = kf_float((uint32_t)t->high[g]);
        size_t i = at, end = n - at < width ? n : at + width;
        for (; i + step <= end; i += step) {
            floats x;
            memcpy(&x, t->x + i, sizeof x);
            found -= (x < least) | (x > largest);
        }
        for (; i < end; i++) outside += t->x[i] < least || t->x[i] > largest;
    }
    for (size_t k = 0; k < step; k++) outside += (uint32_t)found[k];
    return outside;
}

static size_t count_band(const kf_band *b)
{
    size_t clipped = 0;
    uint32_t lo, hi;
    kf_tile t;
    span w = span_open(b);
    if (w.s.bits > 8) return 0;
    w.of.element->extremes(&t, &lo, &hi);
    while (next_span(&w)) {
        w.of.scale->dequant(b, w.first, w.groups, &t);
        w.of.element->bound(lo, hi, w.groups, &t);
        do {
            widen_tile(b->dtype, tile_source(&w), w.cols, t.x);
            clipped += count_outside(group_width(&w, w.cols), w.cols, tile_group(&w), &t);
        } while (next_tile(&w));
    }
    return clipped;
}

#endif
