/* wide_family.h - the stages of wide.h that depend on a format, for each family: loops over groups
 * and elements around the functions of one header of block/. */
#ifndef KERF_WIDE_FAMILY_H
#define KERF_WIDE_FAMILY_H

#include "cpu/unit.h"
#include "cpu/wide_bisect.h"
#include "cpu/wide_encoders.h"
#include "cpu/wide_exponents.h"
#include "cpu/wide_narrow.h"
#include "cpu/wide_nibbles.h"
#include "cpu/wide_search.h"
#include "cpu/wide_shares.h"

/* --- the stages that depend on the format ------------------------------------------------------
 */

/* ggml-q4_0 asks which of the largest magnitudes is the first: all elements know, which whole byte
 * structs have in the tile by then. */
KF_HD kf_group group_of(kf_spec s, int encoder, const extremes *e, int whole, size_t i,
                        const kf_tile *t)
{
    kf_group g = {e->x, 1, needs_signs(s, encoder) ? 2 : 1, 2, whole};
    if (s.family == KERF_FAMILY_GGML && s.element == KERF_ELEM_U4 && e->x[0] == -e->x[1]) {
        kf_group all = {t->x + i * s.group, 1, s.group, s.group, 1};
        g = all;
    }
    return g;
}

/* The last bytes of words. */
KF_HD void put_words(const uint32_t *word, size_t n, unsigned bytes, uint8_t *out)
{
    if (bytes == 1)
        pack_bytes(word, n, out);
    else if (bytes == 2)
        pack_halves(word, n, out);
    else
        memcpy(out, word, 4 * n);
}

KF_HD void put_scales(kf_spec s, const kf_band *b, size_t first, size_t groups, const kf_tile *t)
{
    if (kf_scale_per_group(s) && s.geometry != KERF_GROUP_STRUCT &&
        s.second != KERF_SECOND_NESTED && s.zero != KERF_ZERO_CODE) {
        put_words(t->bits, groups, kf_scale_bytes(s.scale), kf_scale_out(s, b, first));
        return;
    }
    for (size_t i = 0; kf_scale_per_group(s) && i < groups; i++) {
        kf_scale scale = {t->bits[i], s.zero == KERF_ZERO_CODE ? t->point[i] : 0};
        kf_put_scale(s, b, first + i, scale);
    }
}

/* Encoders that search look at the elements. A short last group of `cols` goes the way of the
 * reference. */
KF_HD void search_scales(kf_spec s, const kf_band *b, size_t groups, size_t cols, kf_tile *t)
{
    int whole = cols == s.group;
    search_run(b->encoder, b->tensor, groups - !whole, t);
    if (!whole) {
        kf_group g = {group_numbers(groups - 1, cols, t), 1, cols, cols, 0};
        kf_scale scale = kf_choose(s, b->encoder, b->tensor, g);
        kf_quant q = kf_quant_init(s, b->encoder, b->tensor, scale, g);
        t->bits[groups - 1] = scale.bits;
        t->factor[groups - 1] = q.factor;
        t->dead[groups - 1] = q.dead;
    }
}

/* What choose_run left of a group's kf_quant. A literal encoder lets the rules of all others fold
 * away: 0 stands for those that have no rounding of their own. */
KF_HD kf_quant quant_at(kf_spec s, int encoder, const kf_tile *t, size_t i)
{
    kf_quant q = {0};
    q.factor = t->factor[i];
    if (s.zero == KERF_ZERO_CODE || s.geometry == KERF_GROUP_FLAT) q.zero = t->zero[i];
    if (s.second == KERF_SECOND_TENSOR) q.dead = t->dead[i];
    q.encoder = encoder                         ? encoder
                : s.family == KERF_FAMILY_NVFP4 ? KERF_ENC_NVFP4_AMAX
                                                : KERF_ENC_NONE;
    q.source = encoder ? (int)t->source : KERF_F32;
    return q;
}

/* The stored scales of groups [first, first + groups), in bits and point. */
KF_HD void get_scales(kf_spec s, const kf_band *b, size_t first, size_t groups, kf_tile *t)
{
    int apart = kf_scale_per_group(s) && s.geometry != KERF_GROUP_STRUCT;
    unsigned bytes = kf_scale_bytes(s.scale);
    if (apart && bytes == 1) unpack_bytes(kf_scale_at(s, b, first), groups, t->bits);
    if (apart && bytes == 2) unpack_halves(kf_scale_at(s, b, first), groups, t->bits);
    if (apart && bytes == 4) memcpy(t->bits, kf_scale_at(s, b, first), 4 * groups);
    int within = s.geometry == KERF_GROUP_STRUCT && bytes == 1;
    for (size_t i = 0; within && i < groups; i += kf_struct_groups(s))
        unpack_bytes(kf_scale_at(s, b, first + i), kf_struct_groups(s), t->bits + i);
    for (size_t i = 0; !apart && !within && bytes && i < groups; i++) {
        size_t at = s.geometry == KERF_GROUP_TENSOR ? 0 : first + i;
        t->bits[i] = kf_get_code(kf_scale_at(s, b, at), 8 * bytes, 0);
    }
    if (s.zero == KERF_ZERO_CODE && s.geometry == KERF_GROUP_BLOCK)
        unpack_tile(s.bits, 0, b->plane[KERF_PLANE_ZEROS] + first * s.bits / 8, groups, t->point);
    for (size_t i = 0; s.zero == KERF_ZERO_CODE && s.geometry != KERF_GROUP_BLOCK && i < groups;
         i++) {
        size_t at = s.geometry == KERF_GROUP_TENSOR ? 0 : first + i;
        t->point[i] = kf_get_code(b->plane[KERF_PLANE_ZEROS], s.bits, at);
    }
}

KF_HD void get_second(kf_spec s, const kf_band *b, float *second, float *offset)
{
    if (s.second != KERF_SECOND_NONE)
        *second = kf_float(kf_get_code(b->plane[KERF_PLANE_SECOND], 32, 0));
    if (s.zero == KERF_ZERO_F32) *offset = kf_float(kf_get_code(b->plane[KERF_PLANE_ZEROS], 32, 0));
}

static const uint32_t first_codes[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                         11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                         22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

static const kf_dequant unit_scale = {1, 0, 0};

KF_HD kf_scale scale_at(kf_spec s, const kf_tile *t, size_t i)
{
    kf_scale scale = {s.scale == KERF_SCALE_NONE ? 0 : t->bits[i],
                      s.zero == KERF_ZERO_CODE ? t->point[i] : 0};
    return scale;
}

/* Where element `at` of a tile that begins at group `first` has its byte. */
KF_HD size_t byte_place(kf_spec s, size_t first, size_t at)
{
    return s.geometry == KERF_GROUP_STRUCT ? kf_struct_code(s, first * s.group + at) : at;
}

/* The least and the largest finite number of t->x, as kf_extreme_codes has them. */
KF_STAGE void find_extremes(uint32_t count, const float *x, uint32_t *lo, uint32_t *hi)
{
    *lo = *hi = 0;
    for (uint32_t code = 0; code < count; code++) {
        if (!kf_is_finite(x[code])) continue;
        if (x[code] < x[*lo]) *lo = code;
        if (x[code] > x[*hi]) *hi = code;
    }
}

/* --- what the families do ----------------------------------------------------------------------
 * Loops over groups and elements around the functions of one family, by its name: going through
 * the switches of block/all.h each would be compiled with all of them. */

/* The loops of one encoder. */
#define ENCODER_LOOPS(F, prefix)                                                              \
    KF_HD void choose_run_##F(kf_spec s, int encoder, const kf_tensor *tensor, size_t groups, \
                              int whole, kf_tile *t)                                          \
    {                                                                                         \
        const kf_tensor own = *tensor;                                                        \
        for (size_t i = 0; i < groups; i++) {                                                 \
            extremes e = extremes_at(t, i);                                                   \
            kf_group g = group_of(s, encoder, &e, whole || i + 1 < groups, i, t);             \
            kf_scale scale = {own.bits, own.zero};                                            \
            if (kf_scale_per_group(s)) scale = kf_##prefix##_choose(s, encoder, &own, g);     \
            keep_choice(s, scale, kf_##prefix##_quant(s, encoder, &own, scale, g), i, t);     \
        }                                                                                     \
    }                                                                                         \
    KF_HD void encode_run_##F(kf_spec s, int encoder, size_t width, size_t n, size_t g,       \
                              kf_tile *t)                                                     \
    {                                                                                         \
        for (size_t at = 0; at < n; at += width, g++) {                                       \
            const kf_quant q = quant_at(s, encoder, t, g);                                    \
            size_t end = n - at < width ? n : at + width;                                     \
            prefetch(t->ahead + 2 * at, 2 * (end - at));                                      \
            for (size_t i = at; i < end; i += KF_VEC) {                                       \
                const float *restrict x = t->x + i;                                           \
                uint32_t *restrict code = t->code + i;                                        \
                for (size_t k = 0; k < KF_VEC; k++) code[k] = kf_##prefix##_code(s, q, x[k]); \
            }                                                                                 \
        }                                                                                     \
    }
#define KERF_FAMILY(F, prefix) KF_IF_UNIT(F, ENCODER_LOOPS(F, prefix))
#include <kerf/formats.def>
#undef KERF_FAMILY

/* The loops with the encoder as a literal: its rule alone is compiled into them. Of encoders that
 * look at more than the extremes of a group, none is here. */
#define CHOOSE_NONE(F, ID)
#define CHOOSE_PAIR(F, ID)
#define CHOOSE_SEARCH(F, ID)
#define CHOOSE_COLUMNS(F, ID)
#define CHOOSE_OTHER(F, ID)
#define CHOOSE_RANGE(F, ID) CHOOSE_AMAX(F, ID)
#define CHOOSE_AMAX(F, ID)                                                    \
    case KERF_ENC_##F##_##ID:                                                 \
        if (s.family == KERF_FAMILY_##F)                                      \
            choose_run_##F(s, KERF_ENC_##F##_##ID, tensor, groups, whole, t); \
        return;

KF_HD void choose_by_extremes(kf_spec s, int encoder, const kf_tensor *tensor, size_t groups,
                              int whole, kf_tile *t)
{
    (void)s, (void)tensor, (void)groups, (void)whole, (void)t; /* casts have no scales */
    switch (encoder) {
#define KERF_ENCODER(F, ID, name, formats, sources, rule, choice, ...) \
    KF_IF_UNIT(F, CHOOSE_##choice(F, ID))
#include <kerf/formats.def>
#undef KERF_ENCODER
    default: return;
    }
}

/* KERF_ENC_NONE stands for all encoders that round as their family does. */
#define ENCODE_SHARED(F, ID)
#define ENCODE_OWN(F, ID)                                                                        \
    case KERF_ENC_##F##_##ID:                                                                    \
        if (s.family == KERF_FAMILY_##F) encode_run_##F(s, KERF_ENC_##F##_##ID, width, n, g, t); \
        return;

KF_HD void encode_by_encoder(kf_spec s, size_t width, size_t n, size_t g, kf_tile *t)
{
    switch (t->encoder) {
#define KERF_ENCODER(F, ID, name, formats, sources, rule, choice, codes, ...) \
    KF_IF_UNIT(F, ENCODE_##codes(F, ID))
#include <kerf/formats.def>
#undef KERF_ENCODER
    default: break;
    }
    switch (s.family) {
#define KERF_FAMILY(F, prefix) \
    KF_IF_UNIT(F, case KERF_FAMILY_##F : encode_run_##F(s, KERF_ENC_NONE, width, n, g, t); return;)
#include <kerf/formats.def>
#undef KERF_FAMILY
    default: return;
    }
}

#define FAMILY_STAGES(F, prefix)                                                                   \
    KF_HD void choose_any_##F(kf_spec s, const kf_band *b, size_t first, size_t groups,            \
                              size_t cols, int whole, kf_tile *t)                                  \
    {                                                                                              \
        if (KERF_FAMILY_##F == KERF_FAMILY_NVFP4 && searches(s.family, b->encoder))                \
            search_scales(s, b, groups, cols, t);                                                  \
        if (KERF_FAMILY_##F == KERF_FAMILY_MX && searches(s.family, b->encoder))                   \
            search_exponents(s, b->tensor, groups, cols, t);                                       \
        choose_by_extremes(s, b->encoder, b->tensor, groups, whole, t);                            \
        put_scales(s, b, first, groups, t);                                                        \
    }                                                                                              \
    KF_HD void encode_any_##F(kf_spec s, size_t width, size_t n, size_t g, kf_tile *t)             \
    {                                                                                              \
        if (KERF_FAMILY_##F == KERF_FAMILY_GGML && s.element == KERF_ELEM_E2M1 && g == 0 &&        \
            has_near_numbers(n / width, t)) {                                                      \
            encode_midpoints(width, n, t);                                                         \
            return;                                                                                \
        }                                                                                          \
        encode_by_encoder(s, width, n, g, t);                                                      \
    }                                                                                              \
    KF_HD void narrow_words_##F(kf_spec s, kerf_dtype type, const uint8_t *restrict src,           \
                                size_t width, size_t n, size_t g, kf_tile *t,                      \
                                uint8_t *restrict out)                                             \
    {                                                                                              \
        for (size_t at = 0; at < n; at += width, g++) {                                            \
            const kf_quant q = quant_at(s, KERF_ENC_NONE, t, g);                                   \
            size_t end = n - at < width ? n : at + width;                                          \
            prefetch(t->ahead + 2 * at, 2 * (end - at));                                           \
            for (size_t i = at; i < end; i += LANE_STEP) {                                         \
                float x[LANE_STEP];                                                                \
                uint32_t code[LANE_STEP];                                                          \
                widen_as(type, src + 2 * i, LANE_STEP, x);                                         \
                for (size_t k = 0; k < LANE_STEP; k++) code[k] = kf_##prefix##_code(s, q, x[k]);   \
                pack_words(s.bits, code, out + i * s.bits / 8);                                    \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    KF_HD void narrow_any_##F(kf_spec s, kerf_dtype type, const uint8_t *src, size_t width,        \
                              size_t n, size_t g, kf_tile *t, uint8_t *out)                        \
    {                                                                                              \
        if (type == KERF_BF16 && narrow_lanes(s, src, width, n, g, t, out)) return;                \
        if (type == KERF_BF16)                                                                     \
            narrow_words_##F(s, KERF_BF16, src, width, n, g, t, out);                              \
        else                                                                                       \
            narrow_words_##F(s, KERF_F16, src, width, n, g, t, out);                               \
    }                                                                                              \
    KF_HD void dequant_any_##F(kf_spec s, const kf_band *b, size_t first, size_t groups,           \
                               kf_tile *t)                                                         \
    {                                                                                              \
        float second = 1, offset = 0;                                                              \
        get_second(s, b, &second, &offset);                                                        \
        get_scales(s, b, first, groups, t);                                                        \
        for (size_t i = 0; i < groups; i++) {                                                      \
            kf_dequant d = kf_##prefix##_dequant(s, scale_at(s, t, i), second, offset);            \
            t->factor[i] = d.scale;                                                                \
            t->zero[i] = d.zero;                                                                   \
        }                                                                                          \
    }                                                                                              \
    KF_HD void numbers_##F(kf_spec s, kf_dequant d, const uint32_t *restrict code, size_t n,       \
                           float *restrict x)                                                      \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) x[i] = kf_##prefix##_value(s, d, code[i]);                  \
    }                                                                                              \
    KF_HD void table_any_##F(kf_spec s, float table[16])                                           \
    {                                                                                              \
        if (has_nibbles(s)) numbers_##F(s, unit_scale, first_codes, 16, table);                    \
    }                                                                                              \
    KF_HD void byte_numbers_##F(kf_spec s, const uint8_t *restrict code, size_t n,                 \
                                float *restrict x)                                                 \
    {                                                                                              \
        for (size_t i = convert_bytes(s.element, code, n, x); i < n; i++)                          \
            x[i] = kf_##prefix##_value(s, unit_scale, code[i]);                                    \
    }                                                                                              \
    KF_HD void values_any_##F(kf_spec s, const uint8_t *codes, size_t first, size_t n, kf_tile *t) \
    {                                                                                              \
        const size_t count = s.bits == 6 ? 32 : s.bits < 5 ? 1u << s.bits : 0;                     \
        float table[32] = {0};                                                                     \
        if (s.bits == 8 && is_linear(s)) {                                                         \
            size_t step = s.geometry == KERF_GROUP_STRUCT ? s.group : n;                           \
            for (size_t at = 0; at < n; at += step)                                                \
                byte_numbers_##F(s, codes + byte_place(s, first, at), step, t->x + at);            \
            return;                                                                                \
        }                                                                                          \
        unpack_codes(s, codes, first, n, t);                                                       \
        if (!is_linear(s)) return;                                                                 \
        if (KF_VEC_TABLES && count) {                                                              \
            numbers_##F(s, unit_scale, first_codes, count, table);                                 \
            look_up_values(s.bits, table, t->code, n, t->x);                                       \
        } else                                                                                     \
            numbers_##F(s, unit_scale, t->code, n, t->x);                                          \
    }                                                                                              \
    KF_HD void decode_any_##F(kf_spec s, size_t width, size_t n, size_t g, kf_tile *t)             \
    {                                                                                              \
        for (size_t at = 0; !is_linear(s) && at < n; at += width, g++)                             \
            numbers_##F(s, dequant_of(t, g), t->code + at, n - at < width ? n - at : width,        \
                        t->x + at);                                                                \
    }                                                                                              \
    KF_HD void extremes_any_##F(kf_spec s, kf_tile *t, uint32_t *lo, uint32_t *hi)                 \
    {                                                                                              \
        const uint32_t count = s.bits > 8 ? 0 : 1u << s.bits % 32;                                 \
        for (uint32_t c = 0; c < count; c++) t->code[c] = c;                                       \
        numbers_##F(s, unit_scale, t->code, count, t->x);                                          \
        find_extremes(count, t->x, lo, hi);                                                        \
    }                                                                                              \
    KF_HD void bound_any_##F(kf_spec s, uint32_t lo, uint32_t hi, size_t groups, kf_tile *t)       \
    {                                                                                              \
        for (size_t i = 0; i < groups; i++) { /* a scale may be negative */                        \
            kf_dequant d = dequant_of(t, i);                                                       \
            float a = kf_##prefix##_value(s, d, lo), z = kf_##prefix##_value(s, d, hi);            \
            t->low[i] = (int32_t)kf_bits(kf_min(a, z));                                            \
            t->high[i] = (int32_t)kf_bits(kf_max(a, z));                                           \
        }                                                                                          \
    }
#define KERF_FAMILY(F, prefix) KF_IF_UNIT(F, FAMILY_STAGES(F, prefix))
#include <kerf/formats.def>
#undef KERF_FAMILY

#endif
