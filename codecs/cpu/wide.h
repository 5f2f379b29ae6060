/* wide.h - a band in stages: the backends of processors with vectors.
 *
 * The reference takes one element after another from its source to its bytes. Here 2,048 elements,
 * which fit the first-level cache, take one step together:
 *
 *   encode  widen to fp32 - range of each group - its scale - codes of its elements - pack
 *   decode  unpack - scale of each group - numbers of its codes - narrow to the target
 *
 * Every step is a plain loop around the very functions of block/ that the reference calls, so there
 * is no second text of any rule and nothing for an instruction set to get wrong. The loops have
 * neither branches nor calls; compilers turn them into vector code for whatever processor the file
 * that includes this one is compiled for, and IEEE arithmetic gives the same bits in any lane.
 * No instruction set needs a line of its own: bfloat16 instructions flush subnormals and so cannot
 * be used where bytes are made.
 *
 * A scale that needs no more than the extremes of its group is chosen from a group that holds just
 * these. Encoders that search, and peers whose codes round in ways of their own, are left to the
 * reference, save for NVFP4's searches: wide_search.h.
 *
 * The file that includes this takes wide_ops, which serves every format. */
#ifndef KERF_WIDE_H
#define KERF_WIDE_H

#include "cpu/wide_search.h"
#include "cpu/wide_tile.h"
#include "format.h"

/* Encoders whose codes need only the scale, and whose scales follow from the extremes of a group or
 * are searched for in wide_search.h. */
KF_HD int takes_encoder(int encoder)
{
    if (kf_nvfp4_is_search(encoder)) return 1;
    switch (encoder) {
    case KERF_ENC_CAST_RNE:
    case KERF_ENC_FP8_AMAX:
    case KERF_ENC_FP8_TORCHAO:
    case KERF_ENC_FP8_DEEPSEEK:
    case KERF_ENC_MX_FLOOR:
    case KERF_ENC_MX_RCEIL:
    case KERF_ENC_MX_EVEN:
    case KERF_ENC_MX_CEIL:
    case KERF_ENC_NVFP4_AMAX:
    case KERF_ENC_NF4_BNB_CPU:
    case KERF_ENC_INT_AMAX:
    case KERF_ENC_AFFINE_MINMAX: return 1;
    default: return 0;
    }
}

/* --- the stages that depend on the format ------------------------------------------------------
 */

/* The extremes of group i, as a group that has no other elements. */
typedef struct extremes {
    float x[2];
} extremes;

KF_HD extremes extremes_at(const kf_tile *t, size_t i)
{
    extremes e = {{float_of(t->low[i]), float_of(t->high[i])}};
    return e;
}

KF_HD kf_group group_of(kf_spec s, const extremes *e, int whole)
{
    kf_group g = {e->x, 1, s.family == KERF_FAMILY_AFFINE ? 2 : 1, 2, whole};
    return g;
}

/* Scales of groups [from, to) of the tile. */
KF_HD void choose_run(kf_spec s, int encoder, const kf_tensor *tensor, size_t from, size_t to,
                      int whole, kf_tile *t)
{
    const kf_tensor own = *tensor;
    for (size_t i = from; i < to; i++) {
        extremes e = extremes_at(t, i);
        kf_group g = group_of(s, &e, whole);
        kf_scale scale = {own.bits, own.zero};
        if (kf_scale_per_group(s)) scale = kf_choose(s, encoder, &own, g);
        kf_quant q = kf_quant_init(s, encoder, &own, scale, g);
        t->bits[i] = scale.bits;
        t->factor[i] = q.factor;
        if (s.zero == KERF_ZERO_CODE) t->point[i] = scale.zero;
        if (s.zero == KERF_ZERO_CODE || s.geometry == KERF_GROUP_FLAT) t->zero[i] = q.zero;
        if (s.second == KERF_SECOND_TENSOR) t->dead[i] = q.dead;
    }
}

KF_HD void put_scales(kf_spec s, const kf_band *b, size_t first, size_t groups, const kf_tile *t)
{
    for (size_t i = 0; kf_scale_per_group(s) && i < groups; i++) {
        kf_scale scale = {t->bits[i], s.zero == KERF_ZERO_CODE ? t->point[i] : 0};
        kf_put_scale(s, b, first + i, scale);
    }
}

/* Chooses and stores the scales of `groups` groups from group `first` of the band on. */
KF_HD void choose_scales(kf_spec s, int encoder, const kf_band *b, size_t first, size_t groups,
                         kf_tile *t)
{
    int whole = kf_group_cols(s, b, first + groups - 1) == kf_group_width(s, b);
    choose_run(s, encoder, b->tensor, 0, groups - !whole, 1, t);
    if (!whole) choose_run(s, encoder, b->tensor, groups - 1, groups, 0, t);
    put_scales(s, b, first, groups, t);
}

/* The same for encoders that search. A short last group goes the way of the reference. */
KF_HD void search_scales(kf_spec s, const kf_band *b, size_t first, size_t groups, kf_tile *t)
{
    size_t cols = kf_group_cols(s, b, first + groups - 1);
    int whole = cols == s.group;
    search_run(s, b->encoder, b->tensor, groups - !whole, t);
    if (!whole) {
        kf_group g = {t->x + (groups - 1) * s.group, 1, cols, cols, 0};
        kf_scale scale = kf_choose(s, b->encoder, b->tensor, g);
        kf_quant q = kf_quant_init(s, b->encoder, b->tensor, scale, g);
        t->bits[groups - 1] = scale.bits;
        t->factor[groups - 1] = q.factor;
        t->dead[groups - 1] = q.dead;
    }
    put_scales(s, b, first, groups, t);
}

/* What choose_run left of a group's kf_quant. A literal encoder lets the rules of all others fold
 * away. */
KF_HD kf_quant quant_at(kf_spec s, const kf_tile *t, size_t i)
{
    kf_quant q = {0};
    q.factor = t->factor[i];
    if (s.zero == KERF_ZERO_CODE || s.geometry == KERF_GROUP_FLAT) q.zero = t->zero[i];
    if (s.second == KERF_SECOND_TENSOR) q.dead = t->dead[i];
    q.encoder = s.family == KERF_FAMILY_NVFP4 ? KERF_ENC_NVFP4_AMAX : KERF_ENC_NONE;
    q.source = KERF_F32;
    return q;
}

KF_HD void dequant_run(kf_spec s, const kf_band *b, size_t first, size_t groups, kf_tile *t)
{
    for (size_t i = 0; i < groups; i++) {
        kf_dequant d = kf_dequant_at(s, b, first + i);
        t->factor[i] = d.scale;
        t->zero[i] = d.zero;
    }
}

KF_HD kf_dequant dequant_of(const kf_tile *t, size_t i)
{
    kf_dequant d = {t->factor[i], t->zero[i]};
    return d;
}

KF_HD void choose_any(kf_spec s, const kf_band *b, size_t first, size_t groups, kf_tile *t)
{
    if (s.family == KERF_FAMILY_NVFP4 && kf_nvfp4_is_search(b->encoder)) {
        search_scales(s, b, first, groups, t);
        return;
    }
    switch (b->encoder) {
#define KERF_ENCODER(f, ID, ...)                                                       \
    case KERF_ENC_##f##_##ID:                                                          \
        if (s.family == KERF_FAMILY_##f && !kf_nvfp4_is_search(KERF_ENC_##f##_##ID) && \
            takes_encoder(KERF_ENC_##f##_##ID))                                        \
            choose_scales(s, KERF_ENC_##f##_##ID, b, first, groups, t);                \
        break;
#include <kerf/formats.def>
#undef KERF_ENCODER
    default: break;
    }
}

KF_HD void encode_group(kf_spec s, kf_quant q, const float *restrict x, size_t n,
                        uint32_t *restrict code)
{
    for (size_t i = 0; i < n; i++) code[i] = kf_code(s, q, x[i]);
}

KF_HD void encode_elements(kf_spec s, size_t n, size_t g, kf_tile *t)
{
    size_t at = 0;
    for (; s.group && at + s.group <= n; at += s.group)
        encode_group(s, quant_at(s, t, g++), t->x + at, s.group, t->code + at);
    if (at < n) encode_group(s, quant_at(s, t, g), t->x + at, n - at, t->code + at);
}

KF_HD void decode_group(kf_spec s, kf_dequant d, const uint32_t *restrict code, size_t n,
                        float *restrict x)
{
    for (size_t i = 0; i < n; i++) x[i] = kf_decoded(s, d, code[i]);
}

KF_HD void decode_elements(kf_spec s, size_t n, size_t g, kf_tile *t)
{
    size_t at = 0;
    for (; s.group && at + s.group <= n; at += s.group)
        decode_group(s, dequant_of(t, g++), t->code + at, s.group, t->x + at);
    if (at < n) decode_group(s, dequant_of(t, g), t->code + at, n - at, t->x + at);
}

/* Marks the elements of a group outside the numbers of the codes lo and hi. */
KF_HD void mark_group(kf_spec s, kf_dequant d, uint32_t lo, uint32_t hi, const float *restrict x,
                      size_t n, uint32_t *restrict mark)
{
    float a = kf_value(s, d, lo), z = kf_value(s, d, hi); /* a scale may be negative */
    float least = kf_min(a, z), largest = kf_max(a, z);
    for (size_t i = 0; i < n; i++) mark[i] = x[i] < least || x[i] > largest;
}

KF_HD void mark_elements(kf_spec s, uint32_t lo, uint32_t hi, size_t n, size_t g, kf_tile *t)
{
    size_t at = 0;
    for (; s.group && at + s.group <= n; at += s.group)
        mark_group(s, dequant_of(t, g++), lo, hi, t->x + at, s.group, t->code + at);
    if (at < n) mark_group(s, dequant_of(t, g), lo, hi, t->x + at, n - at, t->code + at);
}

/* --- one set of stages per format --------------------------------------------------------------
 */

/* n: elements of the tile; group: its first one in the arrays of groups. */
typedef struct stages {
    kf_spec spec;
    void (*choose)(const kf_band *b, size_t first, size_t groups, kf_tile *t);
    void (*encode)(size_t n, size_t group, kf_tile *t);
    void (*dequant)(const kf_band *b, size_t first, size_t groups, kf_tile *t);
    void (*decode)(size_t n, size_t group, kf_tile *t);
    void (*extremes)(uint32_t *lo, uint32_t *hi);
    void (*mark)(uint32_t lo, uint32_t hi, size_t n, size_t group, kf_tile *t);
} stages;

#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note) \
    _Static_assert(group == 0 || group * KF_TILE_GROUPS >= KF_TILE,                                \
                   #ID ": its groups are too small");                                              \
    static const kf_spec spec_##ID =                                                               \
        KF_SPEC(ID, family, elem, geometry, group, scale, second, zero);                           \
    static void choose_##ID(const kf_band *b, size_t first, size_t groups, kf_tile *t)             \
    {                                                                                              \
        choose_any(spec_##ID, b, first, groups, t);                                                \
    }                                                                                              \
    static void encode_##ID(size_t n, size_t g, kf_tile *t)                                        \
    {                                                                                              \
        encode_elements(spec_##ID, n, g, t);                                                       \
    }                                                                                              \
    static void dequant_##ID(const kf_band *b, size_t first, size_t groups, kf_tile *t)            \
    {                                                                                              \
        dequant_run(spec_##ID, b, first, groups, t);                                               \
    }                                                                                              \
    static void decode_##ID(size_t n, size_t g, kf_tile *t)                                        \
    {                                                                                              \
        decode_elements(spec_##ID, n, g, t);                                                       \
    }                                                                                              \
    static void extremes_##ID(uint32_t *lo, uint32_t *hi)                                          \
    {                                                                                              \
        kf_extreme_codes(spec_##ID, lo, hi);                                                       \
    }                                                                                              \
    static void mark_##ID(uint32_t lo, uint32_t hi, size_t n, size_t g, kf_tile *t)                \
    {                                                                                              \
        mark_elements(spec_##ID, lo, hi, n, g, t);                                                 \
    }
#include <kerf/formats.def>
#undef KERF_FORMAT

static const stages all_stages[] = {
#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note) \
    {KF_SPEC(ID, family, elem, geometry, group, scale, second, zero),                              \
     choose_##ID,                                                                                  \
     encode_##ID,                                                                                  \
     dequant_##ID,                                                                                 \
     decode_##ID,                                                                                  \
     extremes_##ID,                                                                                \
     mark_##ID},
#include <kerf/formats.def>
#undef KERF_FORMAT
};

static const stages *stages_of(const kf_band *b)
{
    return &all_stages[kf_format_index(b->g->format)];
}

#include "cpu/wide_band.h"

static const kf_codec_ops wide_ops = {encode_band, measure_band, decode_band, count_band};

#endif
