/* ref.c - the reference backend: one band at a time, one element at a time, straight from the
 * block headers. It defines what every other backend must produce.
 *
 * Each row of formats.def becomes five functions whose spec is a literal, so the compiler drops
 * everything that the format does not use. */
#include "block/stats.h"
#include "cpu/band.h"
#include "cpu/loss_sums.h"
#include "cpu/unit.h"
#include "cpu/widen.h"
#include "format/format.h"

KF_HD kf_group group_at(kf_spec s, const kf_band *b, const float *x, size_t i)
{
    size_t width = kf_group_width(s, b), cols = kf_group_cols(s, b, i);
    kf_group g = {x + i * width, b->rows, cols, b->cols, cols == width};
    return g;
}

/* --- encode ----------------------------------------------------------------------------------- */

KF_HD void encode_codes(kf_spec s, const kf_band *b, kf_group g, size_t first, kf_quant q)
{
    for (size_t r = 0; r < g.rows; r++) {
        uint8_t *row = b->out[KERF_PLANE_CODES] + r * kf_row_bytes(s, b);
        for (size_t c = 0; c < g.cols; c++)
            kf_put_code(row, s.bits, kf_code_place(s, first + c), kf_code(s, q, g.x[r * g.ld + c]));
    }
}

/* Rows of structs that are encoded as a whole. */
KF_HD void encode_blocks(kf_spec s, const kf_band *b, const float *x)
{
    const size_t elements = kf_inline_elements(s), blocks = b->cols / elements;
    const int weighted = kf_takes_importance(s.family, b->encoder);
    const float square = weighted ? kf_mean_square(b->cols, x) : 0;
    float same[256];
    for (size_t i = 0; i < elements; i++) same[i] = 1;
    for (size_t i = 0; i < blocks; i++) {
        const float *importance = b->importance ? b->importance + i * elements : same;
        kf_super_encode(s, x + i * elements, weighted ? importance : NULL, square,
                        b->out[KERF_PLANE_CODES] + i * kf_inline_bytes(s));
    }
}

KF_HD size_t encode_band(kf_spec s, const kf_band *b)
{
    float *x = b->scratch;
    size_t bad = kf_widen(b->dtype, b->source, b->rows * b->cols, b->nan, x);
    if (bad != KF_NO_ELEMENT) return bad;
    if (s.geometry == KERF_GROUP_SUPER) {
        encode_blocks(s, b, x);
        return KF_NO_ELEMENT;
    }

    size_t groups = kf_group_count(s, b);
    int per_group = kf_scale_per_group(s);
    memset(b->out[KERF_PLANE_CODES], 0, b->rows * kf_row_bytes(s, b));
    if (per_group && s.zero == KERF_ZERO_CODE)
        memset(b->out[KERF_PLANE_ZEROS], 0, kf_packed_bytes(s.bits, groups));
    if (s.geometry == KERF_GROUP_FLAT && b->cols % 2) /* the padding of the last byte is a zero */
        kf_put_code(b->out[KERF_PLANE_CODES], s.bits, kf_code_place(s, b->cols), KF_NF4_ZERO);

    for (size_t i = 0; i < groups; i++) {
        kf_group g = group_at(s, b, x, i);
        kf_scale scale = {b->tensor->bits, b->tensor->zero};
        if (per_group) scale = kf_choose(s, b->encoder, b->tensor, g);
        if (per_group) kf_put_scale(s, b, i, scale);
        kf_quant q = kf_quant_init(s, b->encoder, b->tensor, scale, g);
        encode_codes(s, b, g, (size_t)(g.x - x), q);
    }
    if (s.second == KERF_SECOND_NESTED) kf_put_second(b, groups);
    return KF_NO_ELEMENT;
}

/* --- measure ---------------------------------------------------------------------------------- */

KF_HD size_t measure_band(kf_spec s, const kf_band *b, kerf_stats *stats)
{
    float *x = b->scratch;
    size_t n = b->rows * b->cols, bad = kf_widen(b->dtype, b->source, n, b->nan, x);
    if (bad != KF_NO_ELEMENT) return bad;
    for (size_t i = 0; i < n; i++) {
        stats->amax = kf_max(stats->amax, kf_abs(x[i]));
        stats->min = kf_min(stats->min, x[i]);
        stats->max = kf_max(stats->max, x[i]);
    }
    for (size_t i = 0; s.second == KERF_SECOND_NESTED && i < kf_group_count(s, b); i++) {
        kf_tensor none = {0};
        kf_scale absmax = kf_choose(s, KERF_ENC_NF4_BNB_CPU, &none, group_at(s, b, x, i));
        kf_stats_add_block(stats, kf_float(absmax.bits));
    }
    return KF_NO_ELEMENT;
}

/* --- decode ----------------------------------------------------------------------------------- */

KF_HD void decode_band(kf_spec s, const kf_band *b)
{
    for (size_t i = 0; i < kf_group_count(s, b); i++) {
        kf_dequant d = kf_dequant_at(s, b, i);
        size_t first = i * kf_group_width(s, b), end = first + kf_group_cols(s, b, i);
        for (size_t r = 0; r < b->rows; r++) {
            const uint8_t *row = b->plane[KERF_PLANE_CODES] + r * kf_row_bytes(s, b);
            for (size_t c = first; c < end; c++) {
                float x = kf_decoded(s, d, kf_row_code(s, row, c));
                kf_store(b->dtype, b->target, r * b->cols + c, x);
            }
        }
    }
}

/* --- clip share ------------------------------------------------------------------------------- */

KF_HD size_t count_clipped_band(kf_spec s, const kf_band *b)
{
    size_t clipped = 0;
    uint32_t lo = 0, hi = 0;
    if (s.bits > 8) return 0; /* casts: what overflows shows as an infinite error */
    kf_extreme_codes(s, &lo, &hi);
    for (size_t i = 0; i < kf_group_count(s, b); i++) {
        kf_dequant d = kf_dequant_at(s, b, i);
        size_t first = i * kf_group_width(s, b), end = first + kf_group_cols(s, b, i);
        float a = kf_value(s, d, lo), z = kf_value(s, d, hi); /* a scale may be negative */
        float least = kf_min(a, z), largest = kf_max(a, z);
        for (size_t r = 0; r < b->rows; r++) {
            for (size_t c = first; c < end; c++) {
                float x = kf_load(b->dtype, b->source, r * b->cols + c);
                clipped += x < least || x > largest;
            }
        }
    }
    return clipped;
}

/* --- loss ------------------------------------------------------------------------------------- */

static inline void lose_band(const kf_band *b, void (*decode)(const kf_band *),
                             size_t (*count_clipped)(const kf_band *), kerf_loss *loss)
{
    if (b->target) {
        lose_decoded(b, (const float *)(const void *)b->target, loss);
        return;
    }
    kf_band own = *b;
    own.target = (uint8_t *)b->scratch;
    own.dtype = KERF_F32;
    decode(&own);
    lose_decoded(b, b->scratch, loss);
    loss->clipped += count_clipped(b);
}

/* --- one set of functions per format ----------------------------------------------------------
 *
 * Formats that differ in the width of their groups alone share the functions of the first of them,
 * which ask the band for that width: half of what a compiler has to do here. */

#define ROW_KEY(ID, family, elem, geometry, scale, second, zero)                              \
    (KERF_GROUP_##geometry != KERF_GROUP_BLOCK                                                \
         ? 1 + AT_##ID                                                                        \
         : ((((KERF_FAMILY_##family * 32 + KERF_ELEM_##elem) * 16 + KERF_SCALE_##scale) * 4 + \
             KERF_SECOND_##second) *                                                          \
                4 +                                                                           \
            KERF_ZERO_##zero) *                                                               \
               256)

#define KERF_FORMAT(ID, ...) const kf_codec_ops *kf_ref_ops_##ID(void);
#include <kerf/formats.def>
#undef KERF_FORMAT

#if KF_UNIT_HAS_ROWS
enum {
#define KF_ROW(ID, ...) AT_##ID,
#include "cpu/unit_rows.def"
};

/* The first row with this key, and how many have it. */
KF_HD int first_row(int key)
{
#define KF_ROW(ID, wire, name, family, elem, geometry, group, scale, second, zero, ...) \
    if (key == ROW_KEY(ID, family, elem, geometry, scale, second, zero)) return AT_##ID;
#include "cpu/unit_rows.def"
    return -1;
}

KF_HD int count_rows(int key)
{
    int count = 0;
#define KF_ROW(ID, wire, name, family, elem, geometry, group, scale, second, zero, ...) \
    count += key == ROW_KEY(ID, family, elem, geometry, scale, second, zero);
#include "cpu/unit_rows.def"
    return count;
}

KF_HD kf_spec with_width(kf_spec s, const kf_band *b)
{
    s.group = b->g->format->group;
    return s;
}

#define KF_ROW(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note) \
    enum { KEY_##ID = ROW_KEY(ID, family, elem, geometry, scale, second, zero) };             \
    KF_HD kf_spec spec_##ID(const kf_band *b)                                                 \
    {                                                                                         \
        kf_spec s = KF_SPEC(ID, family, elem, geometry, group, scale, second, zero);          \
        return count_rows(KEY_##ID) > 1 ? with_width(s, b) : s;                               \
    }                                                                                         \
    static size_t encode_##ID(const kf_band *b)                                               \
    {                                                                                         \
        return first_row(KEY_##ID) == AT_##ID ? encode_band(spec_##ID(b), b) : 0;             \
    }                                                                                         \
    static size_t measure_##ID(const kf_band *b, kerf_stats *s)                               \
    {                                                                                         \
        return first_row(KEY_##ID) == AT_##ID ? measure_band(spec_##ID(b), b, s) : 0;         \
    }                                                                                         \
    static void decode_##ID(const kf_band *b)                                                 \
    {                                                                                         \
        if (first_row(KEY_##ID) == AT_##ID) decode_band(spec_##ID(b), b);                     \
    }                                                                                         \
    static size_t count_clipped_##ID(const kf_band *b)                                        \
    {                                                                                         \
        return first_row(KEY_##ID) == AT_##ID ? count_clipped_band(spec_##ID(b), b) : 0;      \
    }                                                                                         \
    static void lose_##ID(const kf_band *b, kerf_loss *loss)                                  \
    {                                                                                         \
        lose_band(b, decode_##ID, count_clipped_##ID, loss);                                  \
    }
#include "cpu/unit_rows.def"

static const kf_codec_ops all_ops[] = {
#define KF_ROW(ID, ...) {encode_##ID, measure_##ID, decode_##ID, count_clipped_##ID, lose_##ID},
#include "cpu/unit_rows.def"
};

#define KF_ROW(ID, ...)                       \
    const kf_codec_ops *kf_ref_ops_##ID(void) \
    {                                         \
        return &all_ops[first_row(KEY_##ID)]; \
    }
#include "cpu/unit_rows.def"
#endif

#if KF_IN_UNIT(COMMON)
const kf_codec_ops *kf_ref_ops(const kerf_format *f)
{
    static const kf_codec_ops *(*const of_format[])(void) = {
#define KERF_FORMAT(ID, ...) kf_ref_ops_##ID,
#include <kerf/formats.def>
#undef KERF_FORMAT
    };
    return of_format[kf_format_index(f)]();
}
#endif
