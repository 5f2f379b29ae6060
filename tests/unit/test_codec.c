/* test_codec.c - what the codec API promises of every format and encoder, looped over the table:
 * names, sizes, the same bytes however the work is cut, refusals, and that nothing outside a plane
 * is touched. Bytes themselves are pinned by the golden vectors. */
#include <kerf/codec.h>
#include <kerf/roles.h>
#include <kerf/words.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rounds.h"
#include "encoded.h"

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
    const int is_default = encoder == kerf_encoder_at(f, 0);
    for (size_t k = is_default ? 0 : STEP(2) - 1; k < 3; k += is_default ? 1 : STEP(2)) {
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
        kerf_exec one = {.threads = 1, .backend = "ref"}, seven = {.threads = 7};
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
    kerf_exec nobody = {.backend = "abacus"};
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
    assert_int_equal(kerf_encode(&e.g, NULL, e.stats, 0, 4, src, KERF_F32, e.plane, NULL, &err),
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
    const kerf_span scales = e.plane[KERF_PLANE_SCALES];
    e.plane[KERF_PLANE_SCALES].p = NULL;
    assert_int_equal(kerf_encode(&e.g, amax, e.stats, 0, 4, src, KERF_F32, e.plane, NULL, &err),
                     KERF_E_ARG);
    assert_string_equal(err.text, "plane of scales is NULL");
    const_planes(&e, planes);
    assert_int_equal(kerf_decode(&e.g, 0, 4, planes, out, KERF_F32, NULL, &err), KERF_E_ARG);
    e.plane[KERF_PLANE_SCALES] = scales;
    src.p = NULL;
    assert_int_equal(kerf_measure(&e.g, 0, 4, src, KERF_F32, e.stats, NULL, &err), KERF_E_ARG);
    assert_string_equal(err.text, "source is NULL");
    out.p = NULL;
    const_planes(&e, planes);
    assert_int_equal(kerf_decode(&e.g, 0, 4, planes, out, KERF_F32, NULL, &err), KERF_E_ARG);
    for (int p = 0; p < KERF_PLANES; p++) /* nothing was written by any of these */
        for (size_t i = 0; i < e.plane[p].n; i++)
            assert_int_equal(((uint8_t *)e.plane[p].p)[i], POISON);
    encoded_free(&e);
}

/* kerf_codec_check says beforehand what kerf_encode would say of every type. */
static void types_are_told_beforehand(void **state)
{
    (void)state;
    const kerf_format *f = kerf_format_find("nvfp4");
    const kerf_shape s = {2, {4, 64}};
    const kerf_codec c = {f, kerf_encoder_at(f, 0)};
    for (int t = KERF_DTYPE_NONE; kerf_dtype_bits((kerf_dtype)t) || !t; t++) {
        const kerf_dtype type = (kerf_dtype)t;
        const int takes = type == KERF_F32 || type == KERF_F16 || type == KERF_BF16;
        kerf_error err;
        assert_int_equal(kerf_codec_check(c, &s, type, &err), takes ? KERF_OK : KERF_E_NOSUP);
        if (!takes) assert_non_null(strstr(err.text, kerf_dtype_name(type)));
    }
}

/* A rank that no shape has is no reason to read behind the dimensions. */
static void ranks_without_dimensions(void **state)
{
    (void)state;
    const kerf_shape s = {KERF_MAX_RANK + 1, {1, 2, 3, 4, 5, 6, 7, 8}};
    uint64_t n;
    assert_int_equal(kerf_shape_equal(&s, &s), 0);
    assert_int_equal(kerf_shape_count(&s, &n, NULL), KERF_E_RANGE);
    struct {
        kerf_shape shape;
        uint64_t behind;
    } fenced = {s, 424242};
    char text[KERF_SHAPE_TEXT];
    assert_string_equal(kerf_shape_text(&fenced.shape, text), "no shape");
    kerf_place place;
    fenced.behind = 8; /* would be the inputs */
    kerf_place_find("gpt2", "h.0.mlp.c_fc.weight", &fenced.shape, &place);
    kerf_place scalar;
    kerf_place_find("gpt2", "h.0.mlp.c_fc.weight", &(kerf_shape){0}, &scalar);
    assert_int_equal(place.role, scalar.role);
    assert_int_equal(place.orientation, scalar.orientation);
}

/* By NaN, or by numbers whose sums overflow, every code of a tensor was chosen without a word. */
static void importance_is_a_number(void **state)
{
    (void)state;
    static const float wrong[] = {NAN, -1, INFINITY, 3e38f};
    const kerf_shape s = {3, {2, 4, 256}};
    kerf_codec c;
    kerf_error err;
    assert_int_equal(kerf_codec_find("q4_k:imatrix", &c, &err), KERF_OK);
    encoded e = encoded_new(c.format, s);
    static float x[2048], importance[512];
    kerf_cspan src = {x, sizeof x};
    kerf_exec exec = {.importance = importance};
    for (int i = 0; i < 512; i++) importance[i] = i % 2 ? 1e30f : 0;
    for (exec.importances = 256; exec.importances <= 512; exec.importances += 256) {
        assert_int_equal(
            kerf_encode(&e.g, c.encoder, NULL, 0, 8, src, KERF_F32, e.plane, &exec, &err), KERF_OK);
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            const size_t at = exec.importances - 1;
            importance[at] = wrong[i];
            assert_int_equal(
                kerf_encode(&e.g, c.encoder, NULL, 0, 8, src, KERF_F32, e.plane, &exec, &err),
                KERF_E_ARG);
            assert_non_null(
                strstr(err.text, at == 255 ? "importance 255 is" : "importance 511 is"));
            importance[at] = 1;
        }
    }
    encoded_free(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_told_beforehand),
        cmocka_unit_test(ranks_without_dimensions),
        cmocka_unit_test(importance_is_a_number),
        cmocka_unit_test(table_is_consistent),
        cmocka_unit_test(unknown_names_are_explained),
        cmocka_unit_test(planes_add_up),
        cmocka_unit_test(bits_per_weight),
        cmocka_unit_test(huge_shapes_are_refused),
        cmocka_unit_test(cuts_do_not_matter),
        cmocka_unit_test(experts_are_independent),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
