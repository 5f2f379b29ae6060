/* test_file_stored.c - every format in every layout: its planes come back byte for byte, described
 * and undescribed, and what stands in the file is what the layout's own loaders look for. */
#include <kerf/layouts.h>

#include "test_output.h"

#include "rounds.h"
#include "stored.h"

/* A weight that the layout takes: a matrix, or experts. */
static kerf_weight weight_in(const kerf_layout *l, const kerf_format *f)
{
    kerf_error err;
    kerf_weight w = weight_of(f);
    int written;
    assert_non_null(kerf_layout_scheme(l, f, &written));
    const int stacks = strstr(l->name, "-stacks") != NULL; /* of which nothing but stacks is read */
    if (!stacks && (!written || kerf_layout_check_tensor(l, f, w.name, &w.shape, &err) == KERF_OK))
        return w;
    w.name = l == layout("compressed-tensors-stacks") ? "m.experts.down_proj.weight"
                                                      : "m.experts.down_proj";
    w.shape = (kerf_shape){3, {4, ROWS / 2, COLS / 2}};
    if (written) must(kerf_layout_check_tensor(l, f, w.name, &w.shape, &err), &err);
    return w;
}

/* Rows of zero points end with zero bits. */
static void clear_padding(const kerf_weight *w, unsigned char *zeros)
{
    const uint64_t row = kerf_weight_geometry(w).plane[KERF_PLANE_ZEROS].band_bytes;
    const unsigned used =
        (unsigned)(kerf_weight_geometry(w).band_groups * w->codec.format->bits % 8);
    for (size_t i = 0; zeros && used && i < ROWS; i++)
        zeros[(i + 1) * row - 1] &= (unsigned char)((1u << used) - 1);
}

static void check_plane(const kerf_reader *r, const kerf_weight *w, kerf_plane_id p,
                        const unsigned char *want)
{
    const kerf_geometry all = kerf_weight_geometry(w);
    const kerf_plane *g = &all.plane[p];
    kerf_error err;
    size_t n = (size_t)g->bytes, one = element_bytes(g);
    unsigned char *got = malloc(n + 1);
    assert_non_null(got);
    must(kerf_weight_read(r, w, p, 0, got, n, &err), &err);
    assert_memory_equal(got, want, n);
    for (size_t at = 0; at < n; at += 24 * one) { /* in pieces that fit no row */
        size_t take = n - at < 24 * one ? n - at : 24 * one;
        must(kerf_weight_read(r, w, p, at, got, take, &err), &err);
        assert_memory_equal(got, want + at, take);
    }
    assert_int_equal(kerf_weight_read(r, w, p, n, got, one, &err), KERF_E_ARG);
    free(got);
}

static int same_plane(const kerf_plane *a, const kerf_plane *b) /* their padding may differ */
{
    return a->dtype == b->dtype && kerf_shape_equal(&a->shape, &b->shape) && a->bytes == b->bytes &&
           a->per_matrix == b->per_matrix && a->band_bytes == b->band_bytes;
}

/* Whether two formats lie alike: then only a description can tell them apart. */
static int same_geometry(const kerf_weight *a, const kerf_weight *b)
{
    const kerf_format *f = a->codec.format, *g = b->codec.format;
    const kerf_geometry ga = kerf_weight_geometry(a), gb = kerf_weight_geometry(b);
    int same = f->element == g->element && f->scale == g->scale && f->zero == g->zero;
    for (int p = 0; p < KERF_PLANES; p++) same = same && same_plane(&ga.plane[p], &gb.plane[p]);
    return same;
}

static void check_weight(const char *path, const kerf_layout *l, const kerf_weight *want,
                         unsigned char *plane[KERF_PLANES], int described)
{
    kerf_reader *r;
    kerf_weights *all;
    kerf_error err;
    must(kerf_reader_open(path, &r, &err), &err);
    must(kerf_weights_open(r, &all, &err), &err);
    assert_int_equal(kerf_weights_count(all), 2);
    const kerf_weight *w = kerf_weights_find(all, want->name);
    assert_true(w && w->codec.format && kerf_weights_find(all, "norm.weight"));
    if (described) assert_ptr_equal(w->layout, l);
    if (described) assert_ptr_equal(w->codec.format, want->codec.format);
    if (!same_geometry(w, want))
        fail_msg("%s in %s is read as %s", want->codec.format->name, l->name,
                 w->codec.format->name);
    assert_int_equal(w->dtype, KERF_BF16);
    /* Nothing but config.json tells the zero points of the second version from the first's. */
    int unknown = !described && strcmp(l->name, "gptq-v2") == 0 && plane[KERF_PLANE_ZEROS];
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++)
        if (plane[p] && !(unknown && p == KERF_PLANE_ZEROS)) check_plane(r, w, p, plane[p]);
    kerf_weights_close(all);
    kerf_reader_close(r);
}

static void test_every_row(void **state)
{
    const char *path = in_folder(state, "row.safetensors");
    size_t rows = 0;
    for (size_t i = 1; i < kerf_layout_count(); i++)
        for (size_t f = 0; f < kerf_format_count(); f++) {
            const kerf_layout *l = kerf_layout_at(i);
            int written;
            if (!is_asked(kerf_format_at(f)->name)) continue;
            if (!kerf_layout_scheme(l, kerf_format_at(f), &written)) continue;
            if (l == layout("gguf")) continue; /* another kind of file: test_file_gguf.c */
            kerf_weight w = weight_in(l, kerf_format_at(f));
            unsigned char *plane[KERF_PLANES] = {NULL};
            const kerf_geometry g = kerf_weight_geometry(&w);
            for (int p = 0; p < KERF_PLANES; p++)
                if (g.plane[p].dtype != KERF_DTYPE_NONE) plane[p] = make_plane(&g.plane[p], p);
            clear_padding(&w, plane[KERF_PLANE_ZEROS]);
            for (int described = 0; described < 2; described++) {
                write_weight(path, l, &w, plane, described);
                check_weight(path, l, &w, plane, described);
            }
            for (int p = 0; p < KERF_PLANES; p++) free(plane[p]);
            rows++;
        }
    assert_true(getenv("FORMATS") || rows >= 66);
}

/* --- what stands in the file --- */

/* Codes -8, -7, -1, 0, 1, 2, 6, 7 are the word 0xfea98710. */
static void test_signed_codes_in_words(void **state)
{
    static const unsigned char codes[] = {0x98, 0x0f, 0x21, 0x76};
    unsigned char *plane[KERF_PLANES] = {calloc(ROWS * COLS / 2, 1)};
    uint32_t word;
    int64_t shape[2];
    memcpy(plane[0], codes, 4);
    const char *path = write_one(state, "compressed-tensors", "int4-g128", plane);
    read_tensor(path, "m.weight_packed", KERF_I32, (kerf_shape){2, {ROWS, COLS / 8}}, &word, 4);
    assert_int_equal(word, 0xfea98710u);
    read_tensor(path, "m.weight_shape", KERF_I64, (kerf_shape){1, {2}}, shape, sizeof shape);
    assert_int_equal(shape[0], ROWS);
    assert_int_equal(shape[1], COLS);
    free_planes(plane);
}

/* Zero points of rows 0 .. 7 in column 1 are the second word, row 0 lowest. */
static void test_zero_points_are_stacked(void **state)
{
    unsigned char *plane[KERF_PLANES] = {NULL};
    uint32_t words[4];
    plane[KERF_PLANE_ZEROS] = calloc(ROWS, 1); /* two groups of 128 in a row of 256: one byte */
    for (unsigned i = 0; i < ROWS; i++)
        plane[KERF_PLANE_ZEROS][i] = (unsigned char)((i % 16) << 4 | (15 - i % 16));
    const char *path = write_one(state, "compressed-tensors", "int4-g128-asym", plane);
    read_tensor(path, "m.weight_zero_point", KERF_I32, (kerf_shape){2, {ROWS / 8, 2}}, words,
                sizeof words);
    assert_int_equal(words[0], 0x89abcdefu);
    assert_int_equal(words[1], 0x76543210u);
    assert_int_equal(words[2], 0x01234567u);
    assert_int_equal(words[3], 0xfedcba98u);
    free_planes(plane);
}

/* GPTQ: words of eight columns, columns and rows swapped, zero points of rows 0 .. 7 in a word. */
static void test_gptq(void **state)
{
    static const unsigned char codes[] = {0x98, 0x0f, 0x21, 0x76};
    static uint32_t words[COLS / 8][ROWS], zeros[2][ROWS / 8];
    unsigned char *plane[KERF_PLANES] = {calloc(ROWS * COLS / 2, 1)};
    uint16_t scales[2][ROWS], first[2];
    int32_t group[COLS];
    memcpy(plane[0] + 3 * COLS / 2 + 4, codes, 4); /* row 3, columns 8 .. 15 */
    const char *path = write_one(state, "gptq", "int4-g128-f16", plane);
    memcpy(first, plane[KERF_PLANE_SCALES] + 3 * 4, 4);
    read_tensor(path, "m.qweight", KERF_I32, (kerf_shape){2, {COLS / 8, ROWS}}, words,
                sizeof words);
    assert_int_equal(words[1][3], 0xfea98710u);
    assert_int_equal(words[1][2], 0x88888888u);
    read_tensor(path, "m.scales", KERF_F16, (kerf_shape){2, {2, ROWS}}, scales, sizeof scales);
    assert_true(scales[0][3] == first[0] && scales[1][3] == first[1]);
    read_tensor(path, "m.g_idx", KERF_I32, (kerf_shape){1, {COLS}}, group, sizeof group);
    for (int i = 0; i < COLS; i++) assert_int_equal(group[i], i / 128);
    read_tensor(path, "m.qzeros", KERF_I32, (kerf_shape){2, {2, ROWS / 8}}, zeros, sizeof zeros);
    for (int i = 0; i < ROWS / 8; i++) assert_int_equal(zeros[1][i], 0x77777777u);
    path = write_one(state, "gptq-v2", "int4-g128-f16", plane);
    read_tensor(path, "m.qzeros", KERF_I32, (kerf_shape){2, {2, ROWS / 8}}, zeros, sizeof zeros);
    for (int i = 0; i < ROWS / 8; i++) assert_int_equal(zeros[0][i], 0x88888888u);
    free_planes(plane);
}

/* Version 1 keeps zero points less one, and 0 wraps around. */
static void test_gptq_zero_points(void **state)
{
    unsigned char *plane[KERF_PLANES] = {NULL};
    static uint32_t zeros[2][ROWS / 8];
    plane[KERF_PLANE_ZEROS] = calloc(ROWS, 1);
    for (unsigned i = 0; i < ROWS; i++)
        plane[KERF_PLANE_ZEROS][i] = (unsigned char)((i % 16) << 4 | (15 - i % 16));
    const char *path = write_one(state, "gptq-v2", "int4-g128-asym-f16", plane);
    read_tensor(path, "m.qzeros", KERF_I32, (kerf_shape){2, {2, ROWS / 8}}, zeros, sizeof zeros);
    assert_int_equal(zeros[0][0], 0x89abcdefu);
    assert_int_equal(zeros[1][0], 0x76543210u);
    path = write_one(state, "gptq", "int4-g128-asym-f16", plane);
    read_tensor(path, "m.qzeros", KERF_I32, (kerf_shape){2, {2, ROWS / 8}}, zeros, sizeof zeros);
    assert_int_equal(zeros[0][0], 0x789abcdeu);
    assert_int_equal(zeros[1][0], 0x6543210fu);
    free_planes(plane);
}

/* AWQ: column n of eight is nibble 0, 4, 1, 5, 2, 6, 3, 7 of a word. */
static void test_awq(void **state)
{
    static uint32_t words[COLS][ROWS / 8];
    unsigned char *plane[KERF_PLANES] = {calloc(ROWS * COLS / 2, 1)};
    for (unsigned i = 0; i < 8; i++) plane[0][i * COLS / 2] = (unsigned char)(i | (7 - i) << 4);
    const char *path = write_one(state, "awq", "int4-g128-asym-f16", plane);
    read_tensor(path, "m.qweight", KERF_I32, (kerf_shape){2, {COLS, ROWS / 8}}, words,
                sizeof words);
    assert_int_equal(words[0][0], 0x75316420u);
    assert_int_equal(words[1][0], 0x02461357u);
    free_planes(plane);
}

/* bitsandbytes keeps the largest magnitude of a row in place of its scale. */
static void test_llm_int8(void **state)
{
    unsigned char *plane[KERF_PLANES] = {NULL};
    float scb[ROWS], scale;
    unsigned char format = 7;
    plane[KERF_PLANE_SCALES] = calloc(ROWS, 4);
    for (int i = 1; i < ROWS; i++) { /* of magnitudes with 11 bits, as fp16 weights have them */
        scale = (float)(1024 + 7 * i) * 0x1p-14f / 127.0f;
        memcpy(plane[KERF_PLANE_SCALES] + 4 * i, &scale, 4);
    }
    const char *path = write_one(state, "bitsandbytes", "int8", plane);
    read_tensor(path, "m.SCB", KERF_F32, (kerf_shape){1, {ROWS}}, scb, sizeof scb);
    assert_true(scb[0] == 0);
    for (int i = 1; i < ROWS; i++) assert_true(scb[i] == (float)(1024 + 7 * i) * 0x1p-14f);
    read_tensor(path, "m.weight_format", KERF_U8, (kerf_shape){0, {0}}, &format, 1);
    assert_int_equal(format, 0);
    free_planes(plane);
}

/* A plane larger than what waits to be written: its rows come in order, in pieces of any length. */
static void test_large_turned_plane(void **state)
{
    enum { TALL = 65536, WIDE = 2048 };
    const char *path = in_folder(state, "large.safetensors");
    kerf_weight w = {.name = "m.weight", .dtype = KERF_BF16, .shape = {2, {TALL, WIDE}}};
    const kerf_layout *l = layout("gptq");
    char names[4][64];
    kerf_entry e[4];
    kerf_plane_id p;
    kerf_error err;
    kerf_writer *out;
    kerf_weight_writer *ww;
    w.codec.format = kerf_format_find("int4-g128-f16");
    unsigned char *plane[KERF_PLANES] = {NULL};
    const kerf_geometry g = kerf_weight_geometry(&w);
    for (int k = 0; k < 2; k++) plane[k] = make_plane(&g.plane[k], k);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(kerf_layout_entry(l, &w, i, names[i], sizeof names[i], &e[i], &p), 1);
    const kerf_writer_options opt = {.overwrite = 1};
    must(kerf_writer_create(path, e, 4, &opt, &out, &err), &err);
    must(kerf_weight_writer_open(out, l, &w, 0, &ww, &err), &err);
    size_t n = (size_t)kerf_weight_geometry(&w).plane[0].bytes, last = n - 7;
    assert_int_equal(kerf_weight_writer_write(ww, 0, last, plane[0], 7, &err), KERF_E_ARG);
    for (size_t at = 0; at < n; at += 12345679) {
        size_t take = n - at < 12345679 ? n - at : 12345679;
        must(kerf_weight_writer_write(ww, 0, at, plane[0] + at, take, &err), &err);
    }
    must(
        kerf_weight_writer_write(ww, 1, 0, plane[1], kerf_weight_geometry(&w).plane[1].bytes, &err),
        &err);
    must(kerf_weight_writer_finish(ww, &err), &err);
    kerf_weight_writer_close(ww);
    must(kerf_writer_commit(out, &err), &err);
    kerf_reader *r;
    kerf_weights *all;
    must(kerf_reader_open(path, &r, &err), &err);
    must(kerf_weights_open(r, &all, &err), &err);
    unsigned char *back = malloc(n);
    assert_non_null(back);
    must(kerf_weight_read(r, kerf_weights_at(all, 0), 0, 0, back, n, &err), &err);
    assert_memory_equal(back, plane[0], n);
    free(back);
    free_planes(plane);
    kerf_weights_close(all);
    kerf_reader_close(r);
}

static void test_tensor_scale(void **state)
{
    unsigned char *plane[KERF_PLANES] = {NULL};
    float x = 0.25f, stored;
    plane[KERF_PLANE_SECOND] = malloc(4);
    memcpy(plane[KERF_PLANE_SECOND], &x, 4);
    const char *path = write_one(state, "compressed-tensors", "nvfp4", plane);
    read_tensor(path, "m.weight_global_scale", KERF_F32, (kerf_shape){1, {1}}, &stored, 4);
    assert_true(stored == 4.0f);
    path = write_one(state, "modelopt", "nvfp4", plane);
    read_tensor(path, "m.weight_scale_2", KERF_F32, (kerf_shape){0, {0}}, &stored, 4);
    assert_true(stored == 0.25f);
    free_planes(plane);
}

static void test_shapes_of_scales(void **state)
{
    unsigned char *a[KERF_PLANES] = {NULL}, *b[KERF_PLANES] = {NULL};
    float x[ROWS];
    const char *path = write_one(state, "modelopt", "fp8-e4m3-row", a);
    read_tensor(path, "m.weight_scale", KERF_F32, (kerf_shape){1, {ROWS}}, x, sizeof x);
    path = write_one(state, "compressed-tensors", "fp8-e4m3-row", a);
    read_tensor(path, "m.weight_scale", KERF_F32, (kerf_shape){2, {ROWS, 1}}, x, sizeof x);
    path = write_one(state, "modelopt", "fp8-e4m3-128x128", b);
    read_tensor(path, "m.weight_scale", KERF_F32, (kerf_shape){4, {2, 1, 2, 1}}, x, 16);
    path = write_one(state, "deepseek", "fp8-e4m3-128x128", b);
    read_tensor(path, "m.weight_scale_inv", KERF_F32, (kerf_shape){2, {2, 2}}, x, 16);
    free_planes(a);
    free_planes(b);
}

/* A reciprocal that fp32 cannot give back is counted, one that came from few bits is exact. */
static void test_reciprocals(void **state)
{
    const char *path = in_folder(state, "reciprocal.safetensors");
    kerf_weight w = weight_of(kerf_format_find("nvfp4"));
    const kerf_layout *l = layout("compressed-tensors");
    char names[4][64];
    kerf_entry e[4];
    kerf_plane_id p;
    kerf_error err;
    kerf_writer *out;
    kerf_weight_writer *ww;
    uint64_t rounded = 0;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(kerf_layout_entry(l, &w, i, names[i], sizeof names[i], &e[i], &p), 1);
    const kerf_writer_options opt = {.overwrite = 1};
    must(kerf_writer_create(path, e, 3, &opt, &out, &err), &err);
    must(kerf_weight_writer_open(out, l, &w, 0, &ww, &err), &err);
    for (uint32_t m = 0; m < 256; m++) { /* bf16 divisors, as compressed-tensors has them */
        uint32_t bits = 0x45000000u | m << 16;
        float divisor, scale;
        memcpy(&divisor, &bits, 4);
        scale = 1 / divisor;
        must(kerf_weight_writer_write(ww, KERF_PLANE_SECOND, 0, &scale, 4, &err), &err);
        assert_int_equal(kerf_weight_writer_inexact(ww), 0);
    }
    for (uint32_t m = 0; m < 4; m++) { /* is there a divisor at all? */
        uint32_t bits = 0x3a000001u + m * 2097143u, guess = 0;
        float scale, x;
        memcpy(&scale, &bits, 4);
        must(kerf_weight_writer_write(ww, KERF_PLANE_SECOND, 0, &scale, 4, &err), &err);
        for (uint32_t b = 0x44800000u; guess != bits && b <= 0x45000000u; b++) {
            memcpy(&x, &b, 4);
            x = 1 / x;
            memcpy(&guess, &x, 4);
        }
        rounded += guess != bits;
    }
    assert_in_range(rounded, 1, 3);
    assert_int_equal(kerf_weight_writer_inexact(ww), rounded);
    kerf_weight_writer_close(ww);
    kerf_writer_abort(out);
}

/* --- refusals --- */

static void test_refusals(void **state)
{
    (void)state;
    kerf_error err;
    const kerf_layout *ct = layout("compressed-tensors"), *mo = layout("modelopt");
    const kerf_format *nvfp4 = kerf_format_find("nvfp4"), *nf4 = kerf_format_find("nf4");
    const kerf_shape good = {2, {32, 64}}, odd = {2, {32, 63}}, stack = {3, {2, 32, 64}};
    assert_null(kerf_layout_find("modelopt "));
    assert_null(kerf_layout_at(kerf_layout_count()));
    must(kerf_layout_check(ct, nvfp4, &err), &err);
    assert_int_equal(kerf_layout_check(ct, nf4, &err), KERF_E_NOSUP);
    assert_non_null(strstr(err.text, "does not take nf4"));
    assert_non_null(strstr(err.text, "nvfp4, mxfp4"));
    const kerf_layout *naive = layout("compressed-tensors-naive");
    assert_int_equal(kerf_layout_check(naive, kerf_format_find("int8"), &err), KERF_E_NOSUP);
    assert_non_null(strstr(err.text, "layout compressed-tensors has them in groups"));
    const kerf_format *int8 = kerf_format_find("int8");
    const kerf_shape narrow = {2, {32, 32}};
    must(kerf_layout_check_tensor(mo, int8, "a.weight", &good, &err), &err);
    assert_int_equal(kerf_layout_check_tensor(mo, int8, "a.weight", &narrow, &err), KERF_E_NOSUP);
    assert_non_null(strstr(err.text, "columns must be a multiple of 64, rows of 8"));
    must(kerf_layout_check_tensor(mo, nvfp4, "a.weight", &good, &err), &err);
    assert_int_equal(kerf_layout_check_tensor(mo, nvfp4, "a.weight", &odd, &err), KERF_E_NOSUP);
    assert_int_equal(kerf_layout_check_tensor(mo, nvfp4, "a.weight", &stack, &err), KERF_E_NOSUP);
    assert_int_equal(kerf_layout_check_tensor(mo, nvfp4, "a.bias", &good, &err), KERF_E_NOSUP);
    assert_int_equal(kerf_layout_shares_scale(mo, nvfp4), 1);
    assert_int_equal(kerf_layout_shares_scale(kerf_layout_at(0), nvfp4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row),
        cmocka_unit_test(test_signed_codes_in_words),
        cmocka_unit_test(test_zero_points_are_stacked),
        cmocka_unit_test(test_gptq),
        cmocka_unit_test(test_gptq_zero_points),
        cmocka_unit_test(test_awq),
        cmocka_unit_test(test_llm_int8),
        cmocka_unit_test(test_large_turned_plane),
        cmocka_unit_test(test_tensor_scale),
        cmocka_unit_test(test_shapes_of_scales),
        cmocka_unit_test(test_reciprocals),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
