/* encoded.h - a tensor encoded into guarded planes, for tests that loop over formats and encoders.
 */
#ifndef KERF_TESTS_ENCODED_H
#define KERF_TESTS_ENCODED_H

#include <kerf/codec.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rounds.h"

#define GUARD 64
#define POISON 0xa5

typedef struct encoded {
    kerf_geometry g;
    uint8_t *memory[KERF_PLANES];
    kerf_span plane[KERF_PLANES];
    kerf_stats *stats;
} encoded;

static inline encoded encoded_new(const kerf_format *f, kerf_shape shape)
{
    encoded e;
    memset(&e, 0, sizeof e);
    assert_int_equal(kerf_geometry_init(&e.g, f, &shape, NULL), KERF_OK);
    for (int p = 0; p < KERF_PLANES; p++) {
        size_t n = (size_t)e.g.plane[p].bytes;
        e.memory[p] = malloc(n + 2 * GUARD);
        assert_non_null(e.memory[p]);
        memset(e.memory[p], POISON, n + 2 * GUARD);
        e.plane[p].p = e.memory[p] + GUARD;
        e.plane[p].n = n;
    }
    e.stats = calloc((size_t)e.g.matrices + 1, sizeof *e.stats);
    assert_non_null(e.stats);
    return e;
}

static inline void encoded_free(encoded *e)
{
    for (int p = 0; p < KERF_PLANES; p++) {
        const uint8_t *before = e->memory[p], *after = before + GUARD + e->plane[p].n;
        for (size_t i = 0; i < GUARD; i++)
            if (before[i] != POISON || after[i] != POISON)
                fail_msg("%s wrote outside plane %d (%zu bytes)", e->g.format->name, p,
                         e->plane[p].n);
        free(e->memory[p]);
    }
    free(e->stats);
}

static inline void const_planes(const encoded *e, kerf_cspan out[KERF_PLANES])
{
    for (int p = 0; p < KERF_PLANES; p++) {
        out[p].p = e->plane[p].p;
        out[p].n = e->plane[p].n;
    }
}

/* Rows that the format can hold: blocks of GGUF files are never short. */
static inline kerf_shape whole_blocks(const kerf_format *f, kerf_shape s)
{
    if (f->geometry == KERF_GROUP_STRUCT || f->geometry == KERF_GROUP_SUPER) {
        const uint64_t n = f->geometry == KERF_GROUP_STRUCT ? 64 : 256;
        uint64_t *cols = &s.dim[s.rank ? s.rank - 1 : 0];
        *cols = (*cols + n - 1) / n * n;
        if (s.rank == 0) s = (kerf_shape){1, {n}};
    }
    return s;
}

/* The same, and few of the blocks of two levels, whose encoders search long. */
static inline kerf_shape fit(const kerf_format *f, kerf_shape s)
{
    for (unsigned i = 0; f->geometry == KERF_GROUP_SUPER && i < s.rank; i++) {
        const uint64_t most = i + 1 < s.rank ? 33 : 512;
        if (s.dim[i] > most) s.dim[i] = most;
    }
    return whole_blocks(f, s);
}

/* The source type of a check: fp32, but for encoders that keep scales in the source's type the one
 * that the format can hold. */
static inline kerf_dtype source_type(const kerf_format *f, const kerf_encoder *encoder)
{
    static const char *const in_type[] = {"ct", "torchao", "awq"};
    if (f->family != KERF_FAMILY_INT && f->family != KERF_FAMILY_AFFINE) return KERF_F32;
    for (size_t i = 0; i < 3; i++)
        if (!strcmp(encoder->name, in_type[i]) && f->scale != KERF_SCALE_F32)
            return f->scale == KERF_SCALE_F16 ? KERF_F16 : KERF_BF16;
    return KERF_F32;
}

/* Rounds n numbers to a type, in place and back; then writes them in that type. Numbers beyond its
 * range become its largest. */
static inline void narrow(float *x, size_t n, kerf_dtype t, void *out)
{
    const kerf_exec one = {.threads = 1};
    kerf_codec cast;
    kerf_shape s = {1, {n}};
    kerf_geometry g;
    kerf_cspan src = {x, n * 4}, planes[KERF_PLANES] = {{0}};
    kerf_span dst[KERF_PLANES] = {{out, n * kerf_dtype_bits(t) / 8}}, back = {x, n * 4};
    const char *name = t == KERF_F16 ? "fp16" : t == KERF_BF16 ? "bf16" : "fp32";
    for (size_t i = 0; t == KERF_F16 && i < n; i++)
        if (fabsf(x[i]) > 65504) x[i] = copysignf(65504, x[i]);
    for (size_t i = 0; t == KERF_BF16 && i < n; i++)
        if (fabsf(x[i]) > 0x1.fep127f) x[i] = copysignf(0x1.fep127f, x[i]);
    assert_int_equal(kerf_codec_find(name, &cast, NULL), KERF_OK);
    assert_int_equal(kerf_geometry_init(&g, cast.format, &s, NULL), KERF_OK);
    assert_int_equal(
        kerf_encode(&g, cast.encoder, NULL, 0, g.bands, src, KERF_F32, dst, &one, NULL), KERF_OK);
    planes[0] = (kerf_cspan){out, dst[0].n};
    assert_int_equal(kerf_decode(&g, 0, g.bands, planes, back, KERF_F32, &one, NULL), KERF_OK);
}

static inline kerf_status encode_all(encoded *e, const kerf_encoder *encoder, const void *src,
                                     kerf_dtype dtype, const kerf_exec *exec, kerf_error *err)
{
    kerf_cspan s = {src, (size_t)(e->g.elements * kerf_dtype_bits(dtype) / 8)};
    memset(e->stats, 0, (size_t)(e->g.matrices + 1) * sizeof *e->stats);
    if (kerf_needs_stats(&e->g)) {
        kerf_status status = kerf_measure(&e->g, 0, e->g.bands, s, dtype, e->stats, exec, err);
        if (status != KERF_OK) return status;
    }
    return kerf_encode(&e->g, encoder, e->stats, 0, e->g.bands, s, dtype, e->plane, exec, err);
}

/* The same for fp32 numbers, which are first rounded to what the encoder takes. */
static inline kerf_status encode_floats(encoded *e, const kerf_encoder *encoder, float *x)
{
    kerf_dtype t = source_type(e->g.format, encoder);
    void *narrowed = malloc((size_t)e->g.elements * 4 + 1);
    assert_non_null(narrowed);
    narrow(x, (size_t)e->g.elements, t, narrowed);
    kerf_status status = encode_all(e, encoder, narrowed, t, NULL, NULL);
    free(narrowed);
    return status;
}

static inline void assert_same_planes(const encoded *a, const encoded *b, const char *encoder)
{
    for (int p = 0; p < KERF_PLANES; p++) {
        const uint8_t *x = a->plane[p].p, *y = b->plane[p].p;
        for (size_t i = 0; i < a->plane[p].n; i++)
            if (x[i] != y[i])
                fail_msg("%s:%s plane %d byte %zu: %02x, %02x", a->g.format->name, encoder, p, i,
                         x[i], y[i]);
    }
}

static inline float *random_floats(size_t n, uint64_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        float u = (float)((int64_t)seed >> 40) / 8388608.0f; /* [-1, 1) */
        x[i] = u * u * u * 0.1f;
    }
    return x;
}

static inline uint64_t count(kerf_shape s)
{
    uint64_t n = 0;
    assert_int_equal(kerf_shape_count(&s, &n, NULL), KERF_OK);
    return n;
}

static inline void for_each_codec(void (*check)(const kerf_format *f, const kerf_encoder *e))
{
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        if (!is_asked(f->name)) continue;
        assert_true(kerf_encoder_count(f) > 0);
        for (size_t k = 0; k < kerf_encoder_count(f); k++) check(f, kerf_encoder_at(f, k));
    }
}

static const kerf_shape shapes[] = {
    {0, {0}},        {1, {1}},        {1, {100}},       {1, {0}},           {2, {0, 64}},
    {2, {3, 0}},     {2, {1, 33}},    {2, {5, 128}},    {2, {130, 257}},    {2, {2, 17000}},
    {3, {3, 5, 50}}, {3, {0, 5, 50}}, {3, {2, 129, 7}}, {4, {2, 2, 3, 40}},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

#endif
