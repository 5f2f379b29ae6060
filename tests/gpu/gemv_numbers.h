/* gemv_numbers.h - numbers that models do not have: sums that have one right answer in any order,
 * any bytes as codes and scales, and vectors with outliers, infinities and NaN. */
#ifndef KERF_TESTS_GEMV_NUMBERS_H
#define KERF_TESTS_GEMV_NUMBERS_H

#include "exact_blocks.h"
#include "gpu/gemv_run.h"

/* Codes whose numbers, under a scale of one, are small multiples of 1/8. */
static size_t tame_codes(kf_spec s, uint32_t codes[256])
{
    kf_dequant unit = {1, 0, 0};
    size_t n = 0;
    if (s.bits > 8) {
        for (int i = -16; i < 16; i++) codes[n++] = kf_element_encode(s.element, (float)i * 0.25f);
        return n;
    }
    for (uint32_t i = 0; i < 1u << s.bits; i++) {
        float v = kf_value(s, unit, i);
        int integer = s.zero == KERF_ZERO_CODE && fabsf(v) <= 16;
        if (integer || (fabsf(v) <= 4 && v * 8 == floorf(v * 8))) codes[n++] = i;
    }
    return n;
}

/* The bits of a scale of 2^e, e in [-2, 1]. */
static uint32_t scale_of_two(kf_spec s, int e)
{
    switch (s.scale) {
    case KERF_SCALE_E8M0: return (uint32_t)(127 + e);
    case KERF_SCALE_E4M3: return kf_e4m3_encode(kf_exp2(e));
    case KERF_SCALE_MAP8: return 255; /* 1 */
    default: return kf_scale_store(s.scale, kf_exp2(e));
    }
}

static uint32_t next_mix(uint64_t *seed)
{
    return (uint32_t)mix((*seed)++);
}

static void fill_exact(problem *p, uint64_t seed)
{
    kf_spec s = kf_spec_of(p->format);
    if (s.geometry == KERF_GROUP_SUPER) {
        fill_exact_blocks(p->plane[0], (size_t)p->g.plane[0].bytes, s, next_mix, &seed);
        decode_planes(p);
        return;
    }
    uint32_t codes[256];
    size_t n = tame_codes(s, codes), places = (size_t)p->g.plane[0].bytes * 8 / s.bits;
    size_t row_bytes = (size_t)p->g.plane[0].band_bytes / (size_t)p->g.band_rows;
    unsigned bits = 8 * kf_scale_bytes(s.scale);
    if (n < 3) die(p->format->name, "no codes for exact sums");
    for (size_t i = 0; s.bits != 6 && i < places; i++)
        kf_put_code(p->plane[0], s.bits, i, codes[mix(seed++) % n]);
    for (size_t r = 0; s.bits == 6 && r < p->rows; r++)
        for (size_t k = 0; k < p->cols; k++)
            kf_put_code(p->plane[0] + r * row_bytes, 6, k, codes[mix(seed++) % n]);
    size_t scales = s.geometry == KERF_GROUP_STRUCT ? p->rows * (p->cols / s.group)
                    : bits ? (size_t)p->g.plane[KERF_PLANE_SCALES].bytes * 8 / bits
                           : 0;
    for (size_t i = 0; i < scales; i++) {
        uint8_t *at = p->plane[KERF_PLANE_SCALES];
        size_t place = i;
        if (s.geometry == KERF_GROUP_STRUCT) {
            size_t groups = p->cols / s.group;
            at = p->plane[0] + i / groups * row_bytes + kf_struct_scale(s, i % groups);
            place = 0;
            memset(at, 0, bits / 8);
        }
        kf_put_code(at, bits, place, scale_of_two(s, (int)(mix(seed++) % 4) - 2));
    }
    for (size_t i = 0; i < p->g.plane[KERF_PLANE_SECOND].bytes / 4; i++)
        kf_put_code(p->plane[KERF_PLANE_SECOND], 32, i, kf_bits(0.5f));
    for (size_t i = 0; s.zero == KERF_ZERO_CODE && i < p->g.plane[KERF_PLANE_ZEROS].bytes; i++)
        p->plane[KERF_PLANE_ZEROS][i] = (uint8_t)(s.bits == 8 ? mix(seed++) % 16 : mix(seed++));
    decode_planes(p);
}

static float eighth(uint64_t seed)
{
    return (float)((int)(mix(seed) % 5) - 2) * 0.5f;
}

/* Every sum, in any order, is a number of fp16: then there is one right answer. The last setting
 * adds alpha, bias and residual, which keep it so in F32. */
static void check_exact(const kerf_format *f)
{
    static const extent sizes[] = {{7, 5}, {33, 96}, {17, 256}, {131, 1000}, {9, 4128}, {64, 2051}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        problem p = problem_new(f, sizes[i].rows, sizes[i].cols, types[i % 3]);
        fill_exact(&p, i * 31 + 1);
        for (size_t c = 0; c < COLUMNS; c++)
            for (size_t k = 0; k < p.cols; k++) set_x(&p, c, k, eighth(i * 7919 + c * 104729 + k));
        solve(&p);
        mark m = zones_mark();
        setting s = {.y = KERF_F32};
        loaded l = load(&p, &s);
        float *y = allocate(COLUMNS * p.rows * sizeof *y);
        for (size_t j = 0; j < 2 * COUNT(columns_all); j++) {
            int more = j >= COUNT(columns_all);
            s.columns = columns_all[j % COUNT(columns_all)];
            s.alpha = more ? -0.5f : 0;
            s.bias = more;
            s.residual = more;
            describe(&p, &s, more ? "exactly, with alpha, bias and residual" : "exactly");
            if (!run(&p, &l, &s, (uint8_t *)y, NULL)) continue;
            size_t wrong = 0;
            for (size_t n = 0; n < s.columns * p.rows; n++) {
                size_t c = n / p.rows, r = n % p.rows;
                double add = (double)bias_at(r) + (double)residual_at(c, r);
                wrong += (double)y[n] != (more ? -0.5 * p.e[n].y + add : p.e[n].y);
            }
            check(wrong == 0, "not the exact sum");
        }
        free(y);
        zones_free(m);
        problem_free(&p);
    }
}

/* Any bytes; and one scale that is NaN or the largest number, which only its rows may show. */
static void check_bytes(const kerf_format *f)
{
    static const extent sizes[] = {{17, 67}, {17, 384}, {33, 1024}, {150, 416}};
    for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
        extent size = sizes[i / 2];
        problem p = problem_new(f, size.rows, size.cols, types[i % 3]);
        if (i % 2 == 0) {
            fill_bytes(&p, i + 1);
        } else {
            uint8_t *scales = p.plane[KERF_PLANE_SCALES];
            unsigned bytes = kf_scale_bytes(kf_spec_of(f).scale);
            size_t n = bytes ? (size_t)p.g.plane[KERF_PLANE_SCALES].bytes / bytes : 0;
            fill_weights(&p, 1, 0, i);
            if (n) memset(scales + n / 2 * bytes, 0xff, bytes);
            if (n > 3) memset(scales + n / 3 * bytes, 0x7e, bytes);
            decode_planes(&p);
        }
        fill_x(&p, 1, i);
        solve(&p);
        check_problem(&p, columns_few, COUNT(columns_few), 1, i % 2 ? "odd scales" : "any bytes",
                      0);
        problem_free(&p);
    }
}

/* Scales of rows, multiplied by `scale`, times x of the size 1/scale and beyond: what a row's scale
 * and the power of two of its x come to by themselves may be zero or infinite, and y a number. One
 * row has codes of zero. */
static void check_far(const kerf_format *f, float scale, float size)
{
    problem p = problem_new(f, 40, 4096, KERF_F32);
    float *src = allocate(p.rows * p.cols * sizeof *src);
    uint8_t *scales = p.plane[KERF_PLANE_SCALES];
    for (size_t i = 0; i < p.rows * p.cols; i++) src[i] = 256 * fabsf(bell(i));
    encode_planes(&p, src);
    free(src);
    for (size_t i = 0; i < p.g.plane[KERF_PLANE_SCALES].bytes / 4; i++)
        kf_put_code(scales, 32, i, kf_bits(kf_float(kf_get_code(scales, 32, i)) * scale));
    memset(p.plane[KERF_PLANE_CODES] + 7 * p.cols, 0, p.cols);
    decode_planes(&p);
    for (size_t c = 0; c < COLUMNS; c++)
        for (size_t k = 0; k < p.cols; k++) set_x(&p, c, k, size * fabsf(bell(k + c)));
    solve(&p);
    check_problem(&p, columns_all, COUNT(columns_all), 0, "far scales", 0);
    problem_free(&p);
}

static void check_far_scales(const kerf_format *f)
{
    const kf_spec s = kf_spec_of(f);
    if (s.scale != KERF_SCALE_F32 || s.bits != 8 || s.zero == KERF_ZERO_CODE) return;
    check_far(f, 0x1p-60f, 0x1p-86f);
    check_far(f, 0x1p66f, 0x1p80f);
    check_far(f, 0x1p-40f, 0x1p60f);
}

enum {
    OUTLIERS,
    SUBNORMAL,
    TINY,
    SPIKE,
    LARGEST,
    INFINITE,
    BOTH_INFINITE,
    NOT_A_NUMBER,
    ZERO,
    KINDS
};

static float odd_x(int kind, kerf_dtype t, size_t c, size_t k, size_t cols)
{
    float x = bell(c * 7877 + k), least = t == KERF_F16    ? 0x1p-24f
                                          : t == KERF_BF16 ? 0x1p-133f
                                                           : 0x1p-149f;
    size_t at = cols * 2 / 3;
    switch (kind) {
    case OUTLIERS: return k % (cols / 20 + 1) == c ? 60 * x : x;
    case SUBNORMAL: return floorf(x * 40) * least;
    case TINY: return x * (t == KERF_F16 ? 0x1p-20f : 0x1p-100f);
    case SPIKE: return k == at ? 0x1.8p15f : x * 0x1p-9f;
    case LARGEST: return k % 5 == c % 5 ? (t == KERF_F16 ? 65504.0f : 0x1p125f) : x;
    case INFINITE: return c % 3 == 1 && k == at ? INFINITY : x;
    case BOTH_INFINITE:
        return c % 3 == 1 && k == at ? INFINITY : c % 3 == 1 && k == at / 2 ? -INFINITY : x;
    case NOT_A_NUMBER: return c % 3 == 0 && k == at ? NAN : x;
    default: return c % 2 ? -0.0f : 0.0f;
    }
}

/* Vectors that break kernels which think of the usual ones. Some rows are zero where the spike is:
 * there, what is small counts. */
static void check_odd_x(const kerf_format *f)
{
    static const char *const names[KINDS] = {"outliers",  "subnormal x",  "tiny x",
                                             "a spike",   "largest x",    "one inf",
                                             "inf - inf", "one NaN in x", "zero x"};
    static const extent sizes[] = {{37, 1056}, {40, 4096}, {19, 103}, {16, 36864}};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (size_t t = 0; t < COUNT(types); t++) {
            problem p = problem_new(f, sizes[i].rows, sizes[i].cols, types[t]);
            float *src = allocate(p.rows * p.cols * sizeof *src);
            for (size_t n = 0; n < p.rows * p.cols; n++) {
                size_t k = n % p.cols, at = p.cols * 2 / 3;
                int gone = n / p.cols % 4 == 1 && k / 128 == at / 128;
                src[n] = gone ? 0 : 0.1f * bell(n + i);
            }
            encode_planes(&p, src);
            free(src);
            for (int kind = 0; kind < KINDS; kind++) {
                for (size_t c = 0; c < COLUMNS; c++)
                    for (size_t k = 0; k < p.cols; k++)
                        set_x(&p, c, k, odd_x(kind, types[t], c, k, p.cols));
                solve(&p);
                check_problem(&p, columns_few, COUNT(columns_few), t == (size_t)kind % 3,
                              names[kind], kind == OUTLIERS);
            }
            problem_free(&p);
        }
}

#endif
