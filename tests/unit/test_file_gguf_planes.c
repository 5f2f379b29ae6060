/* test_file_gguf_planes.c - planes of quantized weights become blocks of GGUF and come back. */
#include <kerf/layouts.h>

#include "test_output.h"

#include "file/gguf/gguf.h"

/* --- planes --- */

static void fill_planes(const kerf_weight *w, unsigned char *plane[KERF_PLANES])
{
    for (int p = 0; p < KERF_PLANES; p++) {
        const size_t n = (size_t)kerf_weight_geometry(w).plane[p].bytes;
        plane[p] = malloc(n + 1);
        assert_non_null(plane[p]);
        for (size_t i = 0; i < n; i++)
            plane[p][i] = (unsigned char)(i * 37 + i / 251 + 91u * (unsigned)p);
    }
}

static void write_bands(kerf_weight_writer *to, const kerf_weight *w,
                        unsigned char *plane[KERF_PLANES])
{
    kerf_error e;
    const kerf_geometry all = kerf_weight_geometry(w), *g = &all;
    for (uint64_t b = 0; b < g->bands; b += 3)
        for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
            const uint64_t end = b + 3 < g->bands ? b + 3 : g->bands;
            const kerf_extent x = kerf_band_bytes(g, p, b, end);
            if (g->plane[p].band_bytes == 0) continue;
            must(
                kerf_weight_writer_write(to, p, x.offset, plane[p] + x.offset, (size_t)x.count, &e),
                &e);
        }
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++)
        if (g->plane[p].per_matrix)
            must(kerf_weight_writer_write(to, p, 0, plane[p], (size_t)g->plane[p].bytes, &e), &e);
    must(kerf_weight_writer_finish(to, &e), &e);
}

static void write_weight(const char *path, const kerf_weight *w, unsigned char *plane[KERF_PLANES])
{
    const kerf_layout *l = kerf_layout_find("gguf");
    char names[KERF_PLANES][64];
    const char *type[KERF_PLANES] = {NULL};
    kerf_entry e[KERF_PLANES];
    kerf_plane_id p;
    kerf_error err;
    size_t n = 0;
    int written;
    for (; kerf_layout_entry(l, w, n, names[n], sizeof names[0], &e[n], &p); n++)
        if (p == KERF_PLANE_CODES) type[n] = kerf_layout_scheme(l, w->codec.format, &written);
    const kerf_writer_options opt = {.overwrite = 1, .block_type = type};
    kerf_writer *out;
    kerf_weight_writer *to;
    must(kerf_writer_create(path, e, n, &opt, &out, &err), &err);
    must(kerf_weight_writer_open(out, l, w, 0, &to, &err), &err);
    write_bands(to, w, plane);
    kerf_weight_writer_close(to);
    must(kerf_writer_commit(out, &err), &err);
}

static void check_plane(const kerf_reader *r, const kerf_weight *w, kerf_plane_id p,
                        const unsigned char *want)
{
    const size_t n = (size_t)kerf_weight_geometry(w).plane[p].bytes;
    unsigned char *got = malloc(n + 1);
    kerf_error e;
    assert_non_null(got);
    must(kerf_weight_read(r, w, p, 0, got, n, &e), &e);
    assert_memory_equal(got, want, n);
    for (size_t at = 0; at < n; at += 44) { /* pieces that fit no block */
        const size_t take = n - at < 44 ? n - at : 44;
        must(kerf_weight_read(r, w, p, at, got, take, &e), &e);
        assert_memory_equal(got, want + at, take);
    }
    assert_int_equal(kerf_weight_read(r, w, p, n, got, 4, &e), KERF_E_ARG);
    free(got);
}

/* Every format of the layout, in the blocks that kerf reads it as or in those of its twin. */
static void check_format(const char *path, const kerf_format *f, const kerf_shape *shape)
{
    unsigned char *plane[KERF_PLANES];
    kerf_weight w = {.name = "m.weight", .shape = *shape, .dtype = KERF_F32, .codec = {f, NULL}};
    kerf_reader *r;
    kerf_weights *all;
    kerf_error e;
    unsigned foreign;
    fill_planes(&w, plane);
    write_weight(path, &w, plane);
    must(kerf_reader_open(path, &r, &e), &e);
    must(kerf_weights_open(r, &all, &e), &e);
    assert_int_equal(kerf_weights_count(all), 1);
    kerf_weight got = *kerf_weights_at(all, 0);
    assert_ptr_equal(got.layout, kerf_layout_find("gguf"));
    assert_memory_equal(&got.shape, shape, sizeof *shape);
    if (got.codec.format != f) must(kerf_weight_fit(r, kerf_layout_at(0), &got, &foreign, &e), &e);
    assert_ptr_equal(got.codec.format, f);
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++)
        if (kerf_weight_geometry(&w).plane[p].bytes) check_plane(r, &got, p, plane[p]);
    kerf_weights_close(all);
    kerf_reader_close(r);
    for (int p = 0; p < KERF_PLANES; p++) free(plane[p]);
}

static void test_every_format(void **state)
{
    static const kerf_shape shapes[] = {{2, {7, 192}}, {3, {3, 5, 64}}, {4, {2, 3, 2, 128}}};
    const kerf_layout *l = kerf_layout_find("gguf");
    size_t formats = 0;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        int written;
        const kerf_format *f = kerf_format_at(i);
        if (!kerf_layout_scheme(l, f, &written) || !written) continue;
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            kerf_shape shape = shapes[k];
            if (f->geometry == KERF_GROUP_SUPER) shape.dim[shape.rank - 1] = 512;
            check_format(in_folder(state, "plane.gguf"), f, &shape);
        }
        formats++;
    }
    assert_int_equal(formats, 17);
}

/* How elements lie in blocks, by hand. */
static void test_places_in_blocks(void **state)
{
    const char *path = in_folder(state, "hand.gguf");
    unsigned char codes[32], scales[4] = {1, 2, 3, 4}, block[36];
    unsigned char *plane[KERF_PLANES] = {codes, scales, NULL, NULL};
    kerf_weight w = {
        .name = "m.weight", .shape = {2, {1, 64}}, .dtype = KERF_F32, .unit_second = 1};
    kerf_reader *r;
    kerf_error e;
    float one = 1;
    plane[KERF_PLANE_SECOND] = (unsigned char *)&one;
    w.codec.format = kerf_format_find("nvfp4");
    for (unsigned i = 0; i < 32; i++) /* element i is i % 16 */
        codes[i] = (unsigned char)((2 * i) % 16 | (2 * i + 1) % 16 << 4);
    write_weight(path, &w, plane);
    must(kerf_reader_open(path, &r, &e), &e);
    assert_int_equal(kerf_reader_count(r), 1); /* no scale of 1 */
    must(kerf_reader_read(r, kerf_reader_at(r, 0), 0, block, sizeof block, &e), &e);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(block[i], i + 1);
    for (unsigned i = 0; i < 32; i++) assert_int_equal(block[4 + i], i % 8 | (i % 8 + 8) << 4);
    kerf_reader_close(r);
}

/* Two's complement codes are counted from -8 in Q4_0. */
static void test_signs_in_blocks(void **state)
{
    const char *path = in_folder(state, "sign.gguf");
    unsigned char codes[16], scale[2] = {0x34, 0x12}, block[18];
    unsigned char *plane[KERF_PLANES] = {codes, scale, NULL, NULL};
    kerf_weight w = {.name = "m.weight", .shape = {2, {1, 32}}, .dtype = KERF_F32};
    kerf_reader *r;
    kerf_error e;
    w.codec.format = kerf_format_find("int4-g32-f16");
    memset(codes, 0, 8);        /* elements 0 to 15: 0 */
    memset(codes + 8, 0x87, 8); /* then 7 and -8 in turn */
    write_weight(path, &w, plane);
    must(kerf_reader_open(path, &r, &e), &e);
    must(kerf_reader_read(r, kerf_reader_at(r, 0), 0, block, sizeof block, &e), &e);
    assert_memory_equal(block, scale, 2);
    for (unsigned i = 0; i < 16; i++) assert_int_equal(block[2 + i], i % 2 ? 0x08 : 0xf8);
    kerf_reader_close(r);
}

/* Codes, then the scales of the same blocks; nothing else. */
static void test_order_of_writes(void **state)
{
    kerf_weight w = {.name = "m.weight", .shape = {2, {2, 32}}, .dtype = KERF_F32};
    const kerf_layout *l = kerf_layout_find("gguf");
    const char *type = "MXFP4";
    const kerf_writer_options opt = {.overwrite = 1, .block_type = &type};
    unsigned char bytes[32] = {0};
    char name[64];
    kerf_entry e;
    kerf_plane_id p;
    kerf_writer *out;
    kerf_weight_writer *to;
    kerf_error err;
    w.codec.format = kerf_format_find("mxfp4");
    assert_true(kerf_layout_entry(l, &w, 0, name, sizeof name, &e, &p));
    must(kerf_writer_create(in_folder(state, "order.gguf"), &e, 1, &opt, &out, &err), &err);
    must(kerf_weight_writer_open(out, l, &w, 0, &to, &err), &err);
    assert_int_equal(kerf_weight_writer_write(to, 1, 0, bytes, 1, &err), KERF_E_ARG);
    assert_int_equal(kerf_weight_writer_write(to, 0, 0, bytes, 15, &err), KERF_E_ARG);
    assert_int_equal(kerf_weight_writer_write(to, 0, 16, bytes, 32, &err), KERF_E_ARG);
    must(kerf_weight_writer_write(to, 0, 16, bytes, 16, &err), &err);
    assert_int_equal(kerf_weight_writer_write(to, 0, 0, bytes, 16, &err), KERF_E_ARG);
    assert_int_equal(kerf_weight_writer_write(to, 1, 0, bytes, 1, &err), KERF_E_ARG);
    assert_int_equal(kerf_weight_writer_finish(to, &err), KERF_E_ARG);
    must(kerf_weight_writer_write(to, 1, 1, bytes, 1, &err), &err);
    must(kerf_weight_writer_finish(to, &err), &err);
    kerf_weight_writer_close(to);
    assert_int_equal(kerf_writer_commit(out, &err), KERF_E_ARG); /* block 0 was never written */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_format),
        cmocka_unit_test(test_places_in_blocks),
        cmocka_unit_test(test_signs_in_blocks),
        cmocka_unit_test(test_order_of_writes),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
