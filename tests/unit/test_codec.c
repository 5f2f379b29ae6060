/* test_codec.c - what the codec API promises of every format and encoder, looped over the table:
 * sizes, splitting, threads, alignment, NaN policy, empty and odd shapes, tails, zeros, and that
 * nothing outside a plane is touched. Bytes themselves are pinned by the golden vectors. */
#include <kerf/codec.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GUARD 64
#define POISON 0xa5

/* --- an encoded tensor with guarded planes -----------------------------------------------------
 */

typedef struct encoded {
    kerf_geometry g;
    uint8_t *memory[KERF_PLANES];
    kerf_span plane[KERF_PLANES];
    kerf_stats *stats;
} encoded;

static encoded encoded_new(const kerf_format *f, kerf_shape shape)
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

static void encoded_free(encoded *e)
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

static void const_planes(const encoded *e, kerf_cspan out[KERF_PLANES])
{
    for (int p = 0; p < KERF_PLANES; p++) {
        out[p].p = e->plane[p].p;
        out[p].n = e->plane[p].n;
    }
}

/* A row that the format can hold: blocks of GGUF files are never short. */
static kerf_shape fit(const kerf_format *f, kerf_shape s)
{
    if (f->geometry == KERF_GROUP_STRUCT) {
        uint64_t *cols = &s.dim[s.rank ? s.rank - 1 : 0];
        *cols = (*cols + 63) / 64 * 64;
        if (s.rank == 0) s = (kerf_shape){1, {64}};
    }
    return s;
}

/* The source type of a check: fp32, but for encoders that keep scales in the source's type the one
 * that the format can hold. */
static kerf_dtype source_type(const kerf_format *f, const kerf_encoder *encoder)
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
static void narrow(float *x, size_t n, kerf_dtype t, void *out)
{
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
        kerf_encode(&g, cast.encoder, NULL, 0, g.bands, src, KERF_F32, dst, NULL, NULL), KERF_OK);
    planes[0] = (kerf_cspan){out, dst[0].n};
    assert_int_equal(kerf_decode(&g, 0, g.bands, planes, back, KERF_F32, NULL, NULL), KERF_OK);
}

static kerf_status encode_all(encoded *e, const kerf_encoder *encoder, const void *src,
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
static kerf_status encode_floats(encoded *e, const kerf_encoder *encoder, float *x)
{
    kerf_dtype t = source_type(e->g.format, encoder);
    void *narrowed = malloc((size_t)e->g.elements * 4 + 1);
    assert_non_null(narrowed);
    narrow(x, (size_t)e->g.elements, t, narrowed);
    kerf_status status = encode_all(e, encoder, narrowed, t, NULL, NULL);
    free(narrowed);
    return status;
}

static void assert_same_planes(const encoded *a, const encoded *b, const char *encoder)
{
    for (int p = 0; p < KERF_PLANES; p++) {
        const uint8_t *x = a->plane[p].p, *y = b->plane[p].p;
        for (size_t i = 0; i < a->plane[p].n; i++)
            if (x[i] != y[i])
                fail_msg("%s:%s plane %d byte %zu: %02x, %02x", a->g.format->name, encoder, p, i,
                         x[i], y[i]);
    }
}

static float *random_floats(size_t n, uint64_t seed)
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

static uint64_t count(kerf_shape s)
{
    uint64_t n = 0;
    assert_int_equal(kerf_shape_count(&s, &n, NULL), KERF_OK);
    return n;
}

static void for_each_codec(void (*check)(const kerf_format *f, const kerf_encoder *e))
{
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
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

/* --- the table ---------------------------------------------------------------------------------
 */

static void table_is_consistent(void **state)
{
    (void)state;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        assert_ptr_equal(kerf_format_find(f->name), f);
        assert_string_equal(kerf_encoder_at(f, 0)->name, f->default_encoder);
        assert_null(kerf_encoder_at(f, kerf_encoder_count(f)));
        for (size_t k = 0; k < i; k++) assert_true(kerf_format_at(k)->id != f->id);
        for (size_t k = 0; k < kerf_encoder_count(f); k++) {
            kerf_codec in = {f, kerf_encoder_at(f, k)}, out;
            char name[64];
            assert_int_equal(kerf_codec_find(kerf_codec_name(in, name, sizeof name), &out, NULL),
                             KERF_OK);
            assert_ptr_equal(out.format, f);
            assert_ptr_equal(out.encoder, in.encoder);
        }
    }
    assert_null(kerf_format_at(kerf_format_count()));
}

static void unknown_names_are_explained(void **state)
{
    (void)state;
    kerf_codec c;
    kerf_error err;
    assert_int_equal(kerf_codec_find("nvpf4", &c, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "\"nvfp4\""));
    assert_int_equal(kerf_codec_find("nvfp4:5/6", &c, &err), KERF_E_NOSUP);
    assert_non_null(strstr(err.text, "4/6-mae"));
    assert_int_equal(kerf_codec_find("int8-tensor:search", &c, &err), KERF_E_NOSUP);
    assert_int_equal(kerf_codec_find("", &c, &err), KERF_E_ARG);
    assert_int_equal(kerf_codec_find(":amax", &c, &err), KERF_E_ARG);
    char long_name[300];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    assert_int_equal(kerf_codec_find(long_name, &c, &err), KERF_E_ARG);
}

/* --- sizes -------------------------------------------------------------------------------------
 */

static void planes_add_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        for (size_t k = 0; k < SHAPES; k++) {
            kerf_geometry g;
            uint64_t bytes = 0;
            kerf_shape fitting = fit(kerf_format_at(i), shapes[k]);
            assert_int_equal(kerf_geometry_init(&g, kerf_format_at(i), &fitting, NULL), KERF_OK);
            for (int p = 0; p < KERF_PLANES; p++) {
                const kerf_plane *plane = &g.plane[p];
                bytes += plane->bytes;
                assert_int_equal(count(plane->shape) * kerf_dtype_bits(plane->dtype) / 8,
                                 plane->dtype ? plane->bytes : 0);
                uint64_t at = 0; /* bands are contiguous and cover the plane */
                for (uint64_t b = 0; !plane->per_matrix && b < g.bands; b++) {
                    kerf_extent e = kerf_band_bytes(&g, (kerf_plane_id)p, b, b + 1);
                    assert_int_equal(e.offset, at);
                    at += e.count;
                }
                if (!plane->per_matrix && plane->dtype) assert_int_equal(at, plane->bytes);
            }
            assert_int_equal(bytes, g.bytes);
            assert_int_equal(kerf_band_elements(&g, 0, g.bands).count, g.elements);
        }
    }
}

static void bits_per_weight(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double bpw;
    } want[] = {
        {"fp16", 16},
        {"fp8-e4m3-row", 8 + 32.0 / 4096},
        {"mxfp8-e4m3", 8.25},
        {"mxfp6-e3m2", 6.25},
        {"mxfp4", 4.25},
        {"nvfp4", 4.5 + 32.0 / (4096.0 * 4096)},
        {"nf4", 4.5},
        {"nf4-f16", 4.25},
        {"nf4-dq", 4.126953125 + 32.0 / (4096.0 * 4096)},
        {"int4-g128", 4.125},
        {"int4-g32-asym", 4.625},
        {"int2-g16", 3},
    };
    kerf_shape s = {2, {4096, 4096}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        kerf_geometry g;
        assert_int_equal(kerf_geometry_init(&g, kerf_format_find(want[i].name), &s, NULL), KERF_OK);
        assert_true(fabs(kerf_geometry_bpw(&g) - want[i].bpw) < 1e-12);
    }
}

static void huge_shapes_are_refused(void **state)
{
    (void)state;
    static const kerf_shape huge[] = {
        {2, {UINT64_MAX, 2}}, {3, {1ull << 22, 1ull << 22, 1ull << 22}}, {2, {0, UINT64_MAX}},
        {1, {UINT64_MAX}},    {3, {UINT64_MAX, UINT64_MAX, 0}},          {9, {1}},
    };
    for (size_t i = 0; i < kerf_format_count(); i++)
        for (size_t k = 0; k < sizeof huge / sizeof huge[0]; k++) {
            kerf_geometry g;
            kerf_error err;
            assert_int_equal(kerf_geometry_init(&g, kerf_format_at(i), &huge[k], &err),
                             KERF_E_RANGE);
        }
}

/* --- the same bytes however the work is cut ------------------------------------------------------
 */

static void cut_check(const kerf_format *f, const kerf_encoder *encoder)
{
    static const kerf_shape some[] = {{2, {130, 131}}, {3, {3, 5, 50}}, {1, {20000}}};
    for (size_t k = 0; k < 3; k++) {
        if (!strcmp(encoder->name, "sweep") && k == 0) continue; /* slow, and as the others */
        kerf_shape shape = fit(f, some[k]);
        size_t n = (size_t)count(shape);
        kerf_dtype type = source_type(f, encoder);
        size_t width = kerf_dtype_bits(type) / 8;
        float *floats = random_floats(n, k);
        uint8_t *x = malloc(n * 4);
        narrow(floats, n, type, x);
        free(floats);
        encoded whole = encoded_new(f, shape), parts = encoded_new(f, shape);
        kerf_exec one = {1, KERF_NAN_ERROR, "ref", NULL}, seven = {7, KERF_NAN_ERROR, NULL, NULL};
        assert_int_equal(encode_all(&whole, encoder, x, type, &one, NULL), KERF_OK);
        assert_int_equal(encode_all(&parts, encoder, x, type, &seven, NULL), KERF_OK);
        assert_same_planes(&whole, &parts, encoder->name);

        /* in runs of 1, 2, 3 .. bands, from a misaligned copy of the source, into its own memory */
        const kerf_geometry *g = &parts.g;
        uint8_t *odd = malloc(n * width + 1);
        memcpy(odd + 1, x, n * width);
        memset(parts.stats, 0, (size_t)(g->matrices + 1) * sizeof *parts.stats);
        for (int p = 0; p < KERF_PLANES; p++) memset(parts.plane[p].p, 0, parts.plane[p].n);
        for (int pass = 0; pass < 2; pass++) {
            uint64_t step = 1;
            for (uint64_t b = 0; b < g->bands; b += step++) {
                uint64_t b1 = b + step < g->bands ? b + step : g->bands;
                kerf_extent e = kerf_band_elements(g, b, b1);
                kerf_cspan src = {odd + 1 + e.offset * width, (size_t)e.count * width};
                kerf_span dst[KERF_PLANES];
                for (int p = 0; p < KERF_PLANES; p++) {
                    kerf_extent at = kerf_band_bytes(g, (kerf_plane_id)p, b, b1);
                    dst[p].p = (uint8_t *)parts.plane[p].p + at.offset;
                    dst[p].n = (size_t)at.count;
                }
                if (pass == 0)
                    assert_int_equal(kerf_measure(g, b, b1, src, type, parts.stats, NULL, NULL),
                                     KERF_OK);
                else
                    assert_int_equal(
                        kerf_encode(g, encoder, parts.stats, b, b1, src, type, dst, NULL, NULL),
                        KERF_OK);
            }
        }
        assert_same_planes(&whole, &parts, encoder->name);
        free(odd);
        free(x);
        encoded_free(&whole);
        encoded_free(&parts);
    }
}

static void cuts_do_not_matter(void **state)
{
    (void)state;
    for_each_codec(cut_check);
}

/* A stack of matrices is encoded as each matrix alone (the flattened formats apart). */
static void stack_check(const kerf_format *f, const kerf_encoder *encoder)
{
    if (f->geometry == KERF_GROUP_FLAT) return;
    kerf_shape stack_shape = fit(f, (kerf_shape){3, {3, 4, 72}});
    kerf_shape one_shape = fit(f, (kerf_shape){2, {4, 72}});
    size_t n = (size_t)count(one_shape);
    float *x = random_floats(3 * n, 5);
    encoded stack = encoded_new(f, stack_shape);
    assert_int_equal(encode_floats(&stack, encoder, x), KERF_OK);
    for (size_t m = 0; m < 3; m++) {
        encoded one = encoded_new(f, one_shape);
        assert_int_equal(encode_floats(&one, encoder, x + m * n), KERF_OK);
        for (int p = 0; p < KERF_PLANES; p++) {
            assert_int_equal(stack.plane[p].n, 3 * one.plane[p].n);
            assert_memory_equal((uint8_t *)stack.plane[p].p + m * one.plane[p].n, one.plane[p].p,
                                one.plane[p].n);
        }
        encoded_free(&one);
    }
    free(x);
    encoded_free(&stack);
}

static void experts_are_independent(void **state)
{
    (void)state;
    for_each_codec(stack_check);
}

/* --- shapes, tails, zeros ------------------------------------------------------------------------
 */

/* Decoding must come close: within the coarsest step of any format of this table. */
static void shape_check(const kerf_format *f, const kerf_encoder *encoder)
{
    /* A group on one side of zero is beyond the unsigned zero points of awq and hqq, and a group of
     * small numbers below torchao's least fp16 scale: their projects lose these as well. */
    if (!strcmp(encoder->name, "awq") || !strcmp(encoder->name, "hqq")) return;
    if (!strcmp(encoder->name, "torchao") && source_type(f, encoder) == KERF_F16) return;
    for (size_t k = 0; k < SHAPES; k++) {
        if (!strcmp(encoder->name, "sweep") && count(shapes[k]) > 10000) continue;
        kerf_shape shape = fit(f, shapes[k]);
        size_t n = (size_t)count(shape);
        float *x = random_floats(n, 77 + k), *y = malloc((n + 1) * sizeof *y);
        encoded e = encoded_new(f, shape);
        kerf_cspan planes[KERF_PLANES];
        kerf_span out = {y, n * 4};
        assert_int_equal(encode_floats(&e, encoder, x), KERF_OK);
        const_planes(&e, planes);
        assert_int_equal(kerf_decode(&e.g, 0, e.g.bands, planes, out, KERF_F32, NULL, NULL),
                         KERF_OK);
        double error = 0, power = 0;
        for (size_t i = 0; i < n; i++) {
            error += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
            power += (double)x[i] * (double)x[i];
        }
        if (error > power * (f->bits == 2 ? 0.9 : f->bits == 4 ? 0.2 : 0.01))
            fail_msg("%s:%s shape %zu: error %g of %g", f->name, encoder->name, k, error, power);
        free(x);
        free(y);
        encoded_free(&e);
    }
}

static void every_shape_round_trips(void **state)
{
    (void)state;
    for_each_codec(shape_check);
}

/* All zeros, of both signs, decode to zeros and never to NaN. */
static void zero_check(const kerf_format *f, const kerf_encoder *encoder)
{
    kerf_shape s = fit(f, (kerf_shape){2, {3, 150}});
    float x[576], y[576];
    size_t n = (size_t)count(s);
    for (size_t i = 0; i < n; i++) x[i] = i % 3 ? 0.0f : -0.0f;
    encoded e = encoded_new(f, s);
    kerf_cspan planes[KERF_PLANES];
    kerf_span out = {y, sizeof y};
    assert_int_equal(encode_floats(&e, encoder, x), KERF_OK);
    const_planes(&e, planes);
    assert_int_equal(kerf_decode(&e.g, 0, e.g.bands, planes, out, KERF_F32, NULL, NULL), KERF_OK);
    for (size_t i = 0; i < n; i++)
        if (!(y[i] == 0))
            fail_msg("%s:%s element %zu decodes to %g", f->name, encoder->name, i, (double)y[i]);
    encoded_free(&e);
}

static void zeros_stay_zeros(void **state)
{
    (void)state;
    for_each_codec(zero_check);
}

/* The extremes of fp32: no crash, no NaN. */
static void extreme_check(const kerf_format *f, const kerf_encoder *encoder)
{
    static const float values[] = {3.402823466e+38f,
                                   1.401298464e-45f,
                                   -3.402823466e+38f,
                                   1.17549435e-38f,
                                   -1.401298464e-45f,
                                   1,
                                   65504,
                                   -0.0f};
    if (f->family == KERF_FAMILY_GGML && f->scale == KERF_SCALE_F16)
        return; /* as in ggml, a scale beyond fp16 is Inf, and 0 * Inf NaN */
    kerf_shape s = fit(f, (kerf_shape){2, {8, 136}});
    float x[8 * 192], y[8 * 192];
    size_t cols = (size_t)s.dim[1];
    for (size_t i = 0; i < 8 * cols; i++) /* rows of one value, then a mix */
        x[i] = i / cols < 6 ? values[i / cols] : values[(i * 5 + i / cols) % 8];
    encoded e = encoded_new(f, s);
    kerf_cspan planes[KERF_PLANES];
    kerf_span out = {y, sizeof y};
    assert_int_equal(encode_floats(&e, encoder, x), KERF_OK);
    const_planes(&e, planes);
    assert_int_equal(kerf_decode(&e.g, 0, e.g.bands, planes, out, KERF_F32, NULL, NULL), KERF_OK);
    for (size_t i = 0; i < 8 * cols; i++)
        if (isnan(y[i])) fail_msg("%s:%s turns %g into NaN", f->name, encoder->name, (double)x[i]);
    encoded_free(&e);
}

static void extremes_make_no_nan(void **state)
{
    (void)state;
    for_each_codec(extreme_check);
}

/* --- NaN and Inf of the source -------------------------------------------------------------------
 */

static void nan_check(const kerf_format *f, const kerf_encoder *encoder)
{
    if (source_type(f, encoder) != KERF_F32) return;
    kerf_shape s = fit(f, (kerf_shape){2, {70, 100}});
    float *x = random_floats((size_t)count(s), 3);
    encoded e = encoded_new(f, s), want = encoded_new(f, s);
    kerf_error err;
    kerf_exec zero = {0, KERF_NAN_ZERO, NULL, NULL}, two = {2, KERF_NAN_ERROR, NULL, NULL};
    float a = x[4321], b = x[6000];
    x[4321] = -INFINITY;
    x[6000] = NAN;
    assert_int_equal(encode_all(&e, encoder, x, KERF_F32, &two, &err), KERF_E_DATA);
    assert_int_equal(err.offset, 4321);
    assert_non_null(strstr(err.text, "element 4321 is -Inf"));
    assert_int_equal(encode_all(&e, encoder, x, KERF_F32, &zero, &err), KERF_OK);
    x[4321] = x[6000] = 0;
    assert_int_equal(encode_all(&want, encoder, x, KERF_F32, NULL, &err), KERF_OK);
    assert_same_planes(&e, &want, encoder->name);
    x[4321] = a;
    x[6000] = b;
    free(x);
    encoded_free(&e);
    encoded_free(&want);
}

static void nan_is_named_or_zeroed(void **state)
{
    (void)state;
    for_each_codec(nan_check);
}

static void inf_saturates_on_request(void **state)
{
    (void)state;
    static const uint16_t bf16[4] = {0x7f80, 0xff80, 0x7fc0, 0x3f80}; /* Inf, -Inf, NaN, 1 */
    static const float want[4] = {0x1.fep127f, -0x1.fep127f, 0, 1};
    float got[4];
    kerf_shape s = {1, {4}};
    kerf_exec saturate = {1, KERF_NAN_SATURATE, NULL, NULL};
    encoded e = encoded_new(kerf_format_find("fp32"), s);
    kerf_cspan planes[KERF_PLANES];
    kerf_span out = {got, sizeof got};
    assert_int_equal(
        encode_all(&e, kerf_encoder_at(e.g.format, 0), bf16, KERF_BF16, &saturate, NULL), KERF_OK);
    const_planes(&e, planes);
    assert_int_equal(kerf_decode(&e.g, 0, e.g.bands, planes, out, KERF_F32, NULL, NULL), KERF_OK);
    assert_memory_equal(got, want, sizeof got);
    encoded_free(&e);
}

/* --- sources and targets of 16 bits ----------------------------------------------------------- */

/* These round to the type of the source on their way, as the projects that they are named after. */
static int computes_in_source_type(const kerf_format *f, const kerf_encoder *encoder)
{
    static const char *const names[] = {"ct", "torchao", "awq"};
    for (size_t i = 0; i < 3; i++)
        if (!strcmp(encoder->name, names[i])) return 1;
    return f->family == KERF_FAMILY_FP8 && !strcmp(encoder->name, "modelopt");
}

/* bf16 and fp16 sources give the bytes of the same numbers in fp32; 16-bit targets are the fp32
 * numbers rounded once. */
static void width_check(const kerf_format *f, const kerf_encoder *encoder)
{
    static const kerf_dtype types[] = {KERF_BF16, KERF_F16};
    kerf_shape s = fit(f, (kerf_shape){2, {6, 150}});
    size_t n = (size_t)count(s);
    for (size_t t = 0; t < 2; t++) {
        if (source_type(f, encoder) != KERF_F32 && source_type(f, encoder) != types[t]) continue;
        const kerf_format *cast = kerf_format_find(types[t] == KERF_F16 ? "fp16" : "bf16");
        float *x = random_floats(n, t), wide[1152], y[1152];
        encoded narrow = encoded_new(cast, s), a = encoded_new(f, s), b = encoded_new(f, s);
        encoded rounded = encoded_new(cast, s);
        kerf_cspan planes[KERF_PLANES];
        kerf_span out = {wide, sizeof wide}, out_y = {y, sizeof y};
        uint16_t half[1152];
        kerf_span out_half = {half, sizeof half};
        assert_int_equal(encode_all(&narrow, kerf_encoder_at(cast, 0), x, KERF_F32, NULL, NULL),
                         KERF_OK);
        const_planes(&narrow, planes);
        assert_int_equal(
            kerf_decode(&narrow.g, 0, narrow.g.bands, planes, out, KERF_F32, NULL, NULL), KERF_OK);
        assert_int_equal(encode_all(&a, encoder, narrow.plane[0].p, types[t], NULL, NULL), KERF_OK);
        if (!computes_in_source_type(f, encoder)) {
            assert_int_equal(encode_all(&b, encoder, wide, KERF_F32, NULL, NULL), KERF_OK);
            assert_same_planes(&a, &b, encoder->name);
        }

        const_planes(&a, planes);
        assert_int_equal(kerf_decode(&a.g, 0, a.g.bands, planes, out_y, KERF_F32, NULL, NULL),
                         KERF_OK);
        assert_int_equal(kerf_decode(&a.g, 0, a.g.bands, planes, out_half, types[t], NULL, NULL),
                         KERF_OK);
        assert_int_equal(encode_all(&rounded, kerf_encoder_at(cast, 0), y, KERF_F32, NULL, NULL),
                         KERF_OK);
        assert_memory_equal(half, rounded.plane[0].p, n * 2);
        free(x);
        encoded_free(&narrow);
        encoded_free(&rounded);
        encoded_free(&a);
        encoded_free(&b);
    }
}

static void sixteen_bits_agree(void **state)
{
    (void)state;
    for_each_codec(width_check);
}

/* --- misuse ----------------------------------------------------------------------------------- */

static void misuse_is_refused(void **state)
{
    (void)state;
    const kerf_format *f = kerf_format_find("nvfp4");
    const kerf_encoder *amax = kerf_encoder_at(f, 0);
    kerf_shape s = {2, {4, 64}};
    float x[256] = {1}, y[256];
    encoded e = encoded_new(f, s);
    kerf_error err;
    kerf_cspan src = {x, sizeof x}, cut = {x, sizeof x - 1}, planes[KERF_PLANES];
    kerf_exec nobody = {0, KERF_NAN_ERROR, "abacus", NULL};
    const kerf_encoder *foreign = kerf_encoder_at(kerf_format_find("mxfp4"), 0);
    assert_int_equal(kerf_encode(&e.g, amax, e.stats, 0, 4, cut, KERF_F32, e.plane, NULL, &err),
                     KERF_E_BUFFER);
    assert_int_equal(kerf_encode(&e.g, amax, e.stats, 3, 2, src, KERF_F32, e.plane, NULL, &err),
                     KERF_E_ARG);
    assert_int_equal(kerf_encode(&e.g, amax, e.stats, 0, 5, src, KERF_F32, e.plane, NULL, &err),
                     KERF_E_ARG);
    assert_int_equal(kerf_encode(&e.g, amax, NULL, 0, 4, src, KERF_F32, e.plane, NULL, &err),
                     KERF_E_ARG);
    assert_int_equal(kerf_encode(&e.g, foreign, e.stats, 0, 4, src, KERF_F32, e.plane, NULL, &err),
                     KERF_E_ARG);
    assert_int_equal(kerf_encode(&e.g, amax, e.stats, 0, 4, src, KERF_F64, e.plane, NULL, &err),
                     KERF_E_NOSUP);
    assert_non_null(strstr(err.text, "F64"));
    assert_int_equal(kerf_encode(&e.g, amax, e.stats, 0, 4, src, KERF_F32, e.plane, &nobody, &err),
                     KERF_E_NOSUP);
    e.plane[KERF_PLANE_SCALES].n--;
    assert_int_equal(kerf_encode(&e.g, amax, e.stats, 0, 4, src, KERF_F32, e.plane, NULL, &err),
                     KERF_E_BUFFER);
    assert_non_null(strstr(err.text, "scales"));
    const_planes(&e, planes);
    kerf_span out = {y, sizeof y};
    assert_int_equal(kerf_decode(&e.g, 0, 4, planes, out, KERF_F32, NULL, &err), KERF_E_BUFFER);
    e.plane[KERF_PLANE_SCALES].n++;
    for (int p = 0; p < KERF_PLANES; p++) /* nothing was written by any of these */
        for (size_t i = 0; i < e.plane[p].n; i++)
            assert_int_equal(((uint8_t *)e.plane[p].p)[i], POISON);
    encoded_free(&e);
}

/* Any bytes decode: nothing traps, nothing is read outside the planes. */
static void every_byte_pattern_decodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        kerf_shape s = fit(kerf_format_at(i), (kerf_shape){2, {7, 131}});
        encoded e = encoded_new(kerf_format_at(i), s);
        float y[7 * 192];
        kerf_cspan planes[KERF_PLANES];
        kerf_span out = {y, sizeof y};
        uint32_t seed = (uint32_t)i;
        for (int round = 0; round < 50; round++) {
            for (int p = 0; p < KERF_PLANES; p++)
                for (size_t k = 0; k < e.plane[p].n; k++)
                    ((uint8_t *)e.plane[p].p)[k] =
                        (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
            const_planes(&e, planes);
            assert_int_equal(kerf_decode(&e.g, 0, e.g.bands, planes, out, KERF_F32, NULL, NULL),
                             KERF_OK);
        }
        encoded_free(&e);
    }
}

/* Clip share: floor clips the top of a block, rceil never does. */
static void clipping_is_counted(void **state)
{
    (void)state;
    kerf_shape s = {2, {1, 32}};
    float x[32] = {7.9f, -7.5f, 6.5f, 6.0f, 1};
    static const struct {
        const char *codec;
        uint64_t clipped;
    } want[] = {{"mxfp4:floor", 3}, {"mxfp4:rceil", 0}, {"fp32", 0}, {"int8", 0}};
    for (size_t i = 0; i < 4; i++) {
        kerf_codec c;
        assert_int_equal(kerf_codec_find(want[i].codec, &c, NULL), KERF_OK);
        encoded e = encoded_new(c.format, s);
        kerf_cspan planes[KERF_PLANES], src = {x, sizeof x};
        uint64_t clipped = 99;
        assert_int_equal(encode_all(&e, c.encoder, x, KERF_F32, NULL, NULL), KERF_OK);
        const_planes(&e, planes);
        assert_int_equal(
            kerf_count_clipped(&e.g, 0, 1, planes, src, KERF_F32, NULL, &clipped, NULL), KERF_OK);
        assert_int_equal(clipped, want[i].clipped);
        encoded_free(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_consistent),
        cmocka_unit_test(unknown_names_are_explained),
        cmocka_unit_test(planes_add_up),
        cmocka_unit_test(bits_per_weight),
        cmocka_unit_test(huge_shapes_are_refused),
        cmocka_unit_test(cuts_do_not_matter),
        cmocka_unit_test(experts_are_independent),
        cmocka_unit_test(every_shape_round_trips),
        cmocka_unit_test(zeros_stay_zeros),
        cmocka_unit_test(extremes_make_no_nan),
        cmocka_unit_test(nan_is_named_or_zeroed),
        cmocka_unit_test(inf_saturates_on_request),
        cmocka_unit_test(sixteen_bits_agree),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(every_byte_pattern_decodes),
        cmocka_unit_test(clipping_is_counted),
    };
    return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
