/* wide.h - a band in stages: the backends of processors with vectors.
 *
 * The reference takes one element after another from its source to its bytes. Here 2,048 elements,
 * which fit the first-level cache, take one step together:
 *
 *   encode  range of each group - its scale - widen to fp32 - codes of its elements - pack
 *   decode  unpack - numbers of the codes at scale 1 - scale of each group, narrow to the target
 *
 * Almost every step is a plain loop around the very functions of block/ that the reference calls,
 * so there is no second text of any rule and nothing for an instruction set to get wrong. The loops
 * have neither branches nor calls; compilers turn them into vector code for whatever processor the
 * file that includes this one is compiled for, and IEEE arithmetic gives the same bits in any lane.
 * The steps that they do not find are in wide_vec.h and wide_pairs.h. bfloat16 instructions flush
 * subnormals and so cannot be used where bytes are made.
 *
 * Elements of bfloat16 have shorter ways, on which they stay in pairs: from the source to codes in
 * wide_fp4.h and wide_bisect.h, and from codes of up to 4 bits in wide_nibbles.h.
 *
 * A scale that needs no more than the extremes of its group is chosen from a group that holds just
 * these. Encoders that search look at all of it: NVFP4's in wide_search.h, MX's in
 * wide_exponents.h, those of integers in wide_shares.h.
 *
 * Formats that differ only in what a stage does not look at share it: each stage has a key, and the
 * first row of formats.def with the same key has its code.
 *
 * The file that includes this takes wide_ops, which serves every format. */
#ifndef KERF_WIDE_H
#define KERF_WIDE_H

#include "cpu/wide_bisect.h"
#include "cpu/wide_exponents.h"
#include "cpu/wide_narrow.h"
#include "cpu/wide_nibbles.h"
#include "cpu/wide_search.h"
#include "cpu/wide_shares.h"
#include "cpu/wide_tile.h"
#include "cpu/wide_value.h"
#include "format/format.h"

/* Encoders whose scales follow from the extremes of a group, and whose codes follow from the scale.
 */
#define EASY_ENCODERS(X, F) \
    X(F, CAST, RNE)         \
    X(F, FP8, AMAX)         \
    X(F, FP8, TORCHAO)      \
    X(F, FP8, DEEPSEEK)     \
    X(F, MX, FLOOR)         \
    X(F, MX, RCEIL)         \
    X(F, MX, EVEN)          \
    X(F, MX, CEIL)          \
    X(F, NVFP4, AMAX)       \
    X(F, NF4, BNB_CPU)      \
    X(F, INT, AMAX)         \
    X(F, AFFINE, MINMAX)    \
    X(F, GGML, GGML)

/* Of these too, but each has a rounding of its own. */
#define PEER_ENCODERS(X, F)      \
    X(F, FP8, MODELOPT)          \
    X(F, FP8, CT)                \
    X(F, MX, TORCHAO)            \
    X(F, MX, CT)                 \
    X(F, MX, MODELOPT)           \
    X(F, MX, MICROXCALING)       \
    X(F, MX, GGML)               \
    X(F, NVFP4, TE)              \
    X(F, NVFP4, MODELOPT)        \
    X(F, NVFP4, MODELOPT_STATIC) \
    X(F, NVFP4, CT)              \
    X(F, NVFP4, CT_FP32)         \
    X(F, NVFP4, TORCHAO)         \
    X(F, NVFP4, STATIC_6)        \
    X(F, NVFP4, STATIC_4)        \
    X(F, NVFP4, AUTOROUND)       \
    X(F, INT, CT)                \
    X(F, INT, TORCHAO)           \
    X(F, INT, MODELOPT)          \
    X(F, INT, GPTQ)              \
    X(F, INT, BNB)               \
    X(F, AFFINE, CT)             \
    X(F, AFFINE, TORCHAO)        \
    X(F, AFFINE, GPTQ)           \
    X(F, AFFINE, AWQ)            \
    X(F, AFFINE, HQQ)

/* Whether an encoder looks at all elements of a group to choose its scale. */
KF_HD int searches(int encoder)
{
    return kf_nvfp4_is_search(encoder) || is_share_search(encoder) || encoder == KERF_ENC_MX_SEARCH;
}

/* Whether all of an encoder's work is done here; what is not is left to the reference. */
KF_HD int takes_encoder(int encoder)
{
    switch (encoder) {
#define EASY(F, family, ID) case KERF_ENC_##family##_##ID:
        EASY_ENCODERS(EASY, )
        PEER_ENCODERS(EASY, )
#undef EASY
        return 1;
    default: return searches(encoder);
    }
}

/* Whether codes have a rounding of their encoder's own. */
KF_HD int has_rounding(int encoder)
{
    switch (encoder) {
#define PEER(F, family, ID) case KERF_ENC_##family##_##ID:
        PEER_ENCODERS(PEER, )
#undef PEER
        return 1;
    default: return 0;
    }
}

/* --- the stages that depend on the format ------------------------------------------------------
 */

/* Whether a scale depends on more than the largest magnitude of a group. */
KF_HD int needs_signs(kf_spec s, int encoder)
{
    return s.family == KERF_FAMILY_AFFINE || encoder == KERF_ENC_INT_GPTQ ||
           (s.family == KERF_FAMILY_GGML && s.element == KERF_ELEM_U4);
}

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
        put_words(t->bits, groups, kf_scale_bytes(s.scale), kf_scale_at(s, b, first));
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

static const kf_dequant unit_scale = {1, 0};

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

#define CHOOSE_CASE(F, family, ID)                                                    \
    case KERF_ENC_##family##_##ID:                                                    \
        if (KERF_FAMILY_##F == KERF_FAMILY_##family)                                  \
            choose_run_##F(s, KERF_ENC_##family##_##ID, b->tensor, groups, whole, t); \
        break;

#define ENCODE_CASE(F, family, ID)                                       \
    case KERF_ENC_##family##_##ID:                                       \
        if (KERF_FAMILY_##F == KERF_FAMILY_##family)                     \
            encode_run_##F(s, KERF_ENC_##family##_##ID, width, n, g, t); \
        break;

#define KERF_FAMILY(F, prefix)                                                                     \
    KF_HD void choose_run_##F(kf_spec s, int encoder, const kf_tensor *tensor, size_t groups,      \
                              int whole, kf_tile *t)                                               \
    {                                                                                              \
        const kf_tensor own = *tensor;                                                             \
        for (size_t i = 0; i < groups; i++) {                                                      \
            extremes e = extremes_at(t, i);                                                        \
            kf_group g = group_of(s, encoder, &e, whole || i + 1 < groups, i, t);                  \
            kf_scale scale = {own.bits, own.zero};                                                 \
            if (kf_scale_per_group(s)) scale = kf_##prefix##_choose(s, encoder, &own, g);          \
            keep_choice(s, scale, kf_##prefix##_quant(s, encoder, &own, scale, g), i, t);          \
        }                                                                                          \
    }                                                                                              \
    KF_HD void choose_any_##F(kf_spec s, const kf_band *b, size_t first, size_t groups,            \
                              size_t cols, int whole, kf_tile *t)                                  \
    {                                                                                              \
        if (KERF_FAMILY_##F == KERF_FAMILY_NVFP4 && kf_nvfp4_is_search(b->encoder))                \
            search_scales(s, b, groups, cols, t);                                                  \
        if (KERF_FAMILY_##F == KERF_FAMILY_MX && b->encoder == KERF_ENC_MX_SEARCH)                 \
            search_exponents(s, b->tensor, groups, cols, t);                                       \
        switch (b->encoder) {                                                                      \
            EASY_ENCODERS(CHOOSE_CASE, F)                                                          \
            PEER_ENCODERS(CHOOSE_CASE, F)                                                          \
        default: break;                                                                            \
        }                                                                                          \
        put_scales(s, b, first, groups, t);                                                        \
    }                                                                                              \
    KF_HD void encode_run_##F(kf_spec s, int encoder, size_t width, size_t n, size_t g,            \
                              kf_tile *t)                                                          \
    {                                                                                              \
        for (size_t at = 0; at < n; at += width, g++) {                                            \
            const kf_quant q = quant_at(s, encoder, t, g);                                         \
            size_t end = n - at < width ? n : at + width;                                          \
            prefetch(t->ahead + 2 * at, 2 * (end - at));                                           \
            for (size_t i = at; i < end; i += KF_VEC) {                                            \
                const float *restrict x = t->x + i;                                                \
                uint32_t *restrict code = t->code + i;                                             \
                for (size_t k = 0; k < KF_VEC; k++) code[k] = kf_##prefix##_code(s, q, x[k]);      \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    KF_HD void encode_any_##F(kf_spec s, size_t width, size_t n, size_t g, kf_tile *t)             \
    {                                                                                              \
        if (KERF_FAMILY_##F == KERF_FAMILY_GGML && s.element == KERF_ELEM_E2M1 && g == 0 &&        \
            has_near_numbers(n / width, t)) {                                                      \
            encode_midpoints(width, n, t);                                                         \
            return;                                                                                \
        }                                                                                          \
        switch (t->encoder) {                                                                      \
            PEER_ENCODERS(ENCODE_CASE, F)                                                          \
        default: encode_run_##F(s, KERF_ENC_NONE, width, n, g, t); break;                          \
        }                                                                                          \
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
#include <kerf/formats.def>
#undef KERF_FAMILY

/* --- one set of stages per format --------------------------------------------------------------
 */

/* What stages look at. Of the geometry: whether scales are apart, and where codes lie; group sizes
 * are literals where scales are searched for or lie among the codes. */
#define GEOMETRY_KEY(geometry)                       \
    (KERF_GROUP_##geometry == KERF_GROUP_STRUCT ? 1u \
     : KERF_GROUP_##geometry == KERF_GROUP_FLAT ? 2u \
                                                : 0u)
#define SCALE_IS_APART(geometry) \
    (KERF_GROUP_##geometry != KERF_GROUP_NONE && KERF_GROUP_##geometry != KERF_GROUP_TENSOR)
#define STRUCT_KEY(geometry, group, scale) \
    (KERF_GROUP_##geometry == KERF_GROUP_STRUCT ? group * 16ull + KERF_SCALE_##scale : 0ull)
#define ELEMENT_KEY(family, elem, geometry, group, scale, second, zero)                       \
    (((((KERF_FAMILY_##family * 32ull + KERF_ELEM_##elem) * 4 + GEOMETRY_KEY(geometry)) * 2 + \
       (KERF_ZERO_##zero == KERF_ZERO_CODE)) *                                                \
          2 +                                                                                 \
      (KERF_SECOND_##second == KERF_SECOND_TENSOR)) *                                         \
         65536 +                                                                              \
     STRUCT_KEY(geometry, group, scale))
#define SCALE_KEY(family, elem, geometry, group, scale, second, zero)           \
    (((((ELEMENT_KEY(family, elem, geometry, group, scale, second, zero) * 16 + \
         KERF_SCALE_##scale) *                                                  \
            4 +                                                                 \
        KERF_SECOND_##second) *                                                 \
           4 +                                                                  \
       KERF_ZERO_##zero) *                                                      \
          2 +                                                                   \
      SCALE_IS_APART(geometry)) *                                               \
         4096 +                                                                 \
     (KERF_SECOND_##second == KERF_SECOND_TENSOR ? group : 0))

enum {
#define KERF_FORMAT(ID, ...) AT_##ID,
#include <kerf/formats.def>
#undef KERF_FORMAT
};

/* The first row with this key. */
KF_HD int first_element(uint64_t key)
{
#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note) \
    if (key == ELEMENT_KEY(family, elem, geometry, group, scale, second, zero)) return AT_##ID;
#include <kerf/formats.def>
#undef KERF_FORMAT
    return -1;
}

KF_HD int first_scale(uint64_t key)
{
#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note) \
    if (key == SCALE_KEY(family, elem, geometry, group, scale, second, zero)) return AT_##ID;
#include <kerf/formats.def>
#undef KERF_FORMAT
    return -1;
}

/* Of groups of the band and of their arrays in the tile. */
typedef struct scale_stages {
    void (*choose)(const kf_band *b, size_t first, size_t groups, size_t cols, int whole,
                   kf_tile *t);
    void (*dequant)(const kf_band *b, size_t first, size_t groups, kf_tile *t);
} scale_stages;

/* n: elements of the tile; g: their first group in the arrays of groups; codes: of the tile, or of
 * the row in byte structs, where the tile begins at group `first`. */
typedef struct element_stages {
    void (*encode)(size_t width, size_t n, size_t g, kf_tile *t);
    void (*narrow)(kerf_dtype type, const uint8_t *src, size_t width, size_t n, size_t g,
                   kf_tile *t, uint8_t *out); /* source of 16 bits to bytes, where can_narrow */
    void (*table)(float table[16]); /* at scale 1, where codes have no more than four bits */
    void (*values)(const uint8_t *codes, size_t first, size_t n, kf_tile *t);
    void (*decode)(size_t width, size_t n, size_t g, kf_tile *t); /* where it is not linear */
    void (*extremes)(kf_tile *t, uint32_t *lo, uint32_t *hi);
    void (*bound)(uint32_t lo, uint32_t hi, size_t groups, kf_tile *t);
} element_stages;

typedef struct stages {
    kf_spec spec;
    const scale_stages *scale;
    const element_stages *element;
} stages;

#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note) \
    _Static_assert(group == 0 || group * KF_TILE_GROUPS >= KF_TILE,                                \
                   #ID ": its groups are too small");                                              \
    _Static_assert(KERF_GROUP_##geometry != KERF_GROUP_TILE ||                                     \
                       group * KF_TILE_GROUPS >= KF_PIECE_COLUMNS,                                 \
                   #ID ": too many groups beside each other");                                     \
    static const kf_spec spec_##ID =                                                               \
        KF_SPEC(ID, family, elem, geometry, group, scale, second, zero);                           \
    KF_HD int has_scale_##ID(void)                                                                 \
    {                                                                                              \
        return first_scale(SCALE_KEY(family, elem, geometry, group, scale, second, zero)) ==       \
               AT_##ID;                                                                            \
    }                                                                                              \
    KF_HD int has_element_##ID(void)                                                               \
    {                                                                                              \
        return first_element(ELEMENT_KEY(family, elem, geometry, group, scale, second, zero)) ==   \
               AT_##ID;                                                                            \
    }                                                                                              \
    static void choose_##ID(const kf_band *b, size_t first, size_t n, size_t cols, int whole,      \
                            kf_tile *t)                                                            \
    {                                                                                              \
        if (has_scale_##ID()) choose_any_##family(spec_##ID, b, first, n, cols, whole, t);         \
    }                                                                                              \
    static void dequant_##ID(const kf_band *b, size_t first, size_t n, kf_tile *t)                 \
    {                                                                                              \
        if (has_scale_##ID()) dequant_any_##family(spec_##ID, b, first, n, t);                     \
    }                                                                                              \
    static void encode_##ID(size_t width, size_t n, size_t g, kf_tile *t)                          \
    {                                                                                              \
        if (has_element_##ID()) encode_any_##family(spec_##ID, width, n, g, t);                    \
    }                                                                                              \
    static void narrow_##ID(kerf_dtype type, const uint8_t *src, size_t width, size_t n, size_t g, \
                            kf_tile *t, uint8_t *out)                                              \
    {                                                                                              \
        if (has_element_##ID() && can_narrow(spec_##ID))                                           \
            narrow_any_##family(spec_##ID, type, src, width, n, g, t, out);                        \
    }                                                                                              \
    static void table_##ID(float table[16])                                                        \
    {                                                                                              \
        if (has_element_##ID()) table_any_##family(spec_##ID, table);                              \
    }                                                                                              \
    static void values_##ID(const uint8_t *codes, size_t first, size_t n, kf_tile *t)              \
    {                                                                                              \
        if (has_element_##ID()) values_any_##family(spec_##ID, codes, first, n, t);                \
    }                                                                                              \
    static void decode_##ID(size_t width, size_t n, size_t g, kf_tile *t)                          \
    {                                                                                              \
        if (has_element_##ID()) decode_any_##family(spec_##ID, width, n, g, t);                    \
    }                                                                                              \
    static void extremes_##ID(kf_tile *t, uint32_t *lo, uint32_t *hi)                              \
    {                                                                                              \
        if (has_element_##ID()) extremes_any_##family(spec_##ID, t, lo, hi);                       \
    }                                                                                              \
    static void bound_##ID(uint32_t lo, uint32_t hi, size_t n, kf_tile *t)                         \
    {                                                                                              \
        if (has_element_##ID()) bound_any_##family(spec_##ID, lo, hi, n, t);                       \
    }
#include <kerf/formats.def>
#undef KERF_FORMAT

static const scale_stages all_scale_stages[] = {
#define KERF_FORMAT(ID, ...) {choose_##ID, dequant_##ID},
#include <kerf/formats.def>
#undef KERF_FORMAT
};

static const element_stages all_element_stages[] = {
#define KERF_FORMAT(ID, ...) \
    {encode_##ID, narrow_##ID, table_##ID, values_##ID, decode_##ID, extremes_##ID, bound_##ID},
#include <kerf/formats.def>
#undef KERF_FORMAT
};

static stages stages_of(const kf_band *b)
{
    switch (kf_format_index(b->g->format)) {
#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note) \
    case AT_##ID:                                                                                  \
        return (stages){spec_##ID,                                                                 \
                        &all_scale_stages[first_scale(                                             \
                            SCALE_KEY(family, elem, geometry, group, scale, second, zero))],       \
                        &all_element_stages[first_element(                                         \
                            ELEMENT_KEY(family, elem, geometry, group, scale, second, zero))]};
#include <kerf/formats.def>
#undef KERF_FORMAT
    default: return (stages){spec_FP32, &all_scale_stages[AT_FP32], &all_element_stages[AT_FP32]};
    }
}

#include "cpu/wide_band.h"
#include "cpu/wide_loss.h"

static const kf_codec_ops wide_ops = {encode_band, measure_band, decode_band, count_band,
                                      lose_band};

#endif
