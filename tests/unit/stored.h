/* stored.h - weights and layouts by name, written and read. */
#ifndef KERF_TESTS_STORED_H
#define KERF_TESTS_STORED_H

#include <kerf/layouts.h>

#include "test_output.h"

enum { ROWS = 256, COLS = 256 };

static const kerf_layout *layout(const char *name)
{
    const kerf_layout *l = kerf_layout_find(name);
    assert_non_null(l);
    return l;
}

static kerf_weight weight_of(const kerf_format *f)
{
    kerf_weight w = {.name = "m.weight", .dtype = KERF_BF16, .shape = {2, {ROWS, COLS}}};
    w.codec.format = f;
    return w;
}

/* Plane content that is exact under every coding: scales per matrix are powers of two. */
static unsigned char *make_plane(const kerf_plane *plane, int p)
{
    unsigned char *bytes = malloc((size_t)plane->bytes + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < plane->bytes; i++)
        bytes[i] = (unsigned char)(i * 37 + i / 256 + 91u * (unsigned)p);
    if (plane->dtype == KERF_F32)
        for (size_t i = 0; i + 4 <= plane->bytes; i += 4) {
            float x = 0x1p-9f * (float)(1u << i / 4 % 8);
            memcpy(bytes + i, &x, 4);
        }
    return bytes;
}

static size_t element_bytes(const kerf_plane *plane)
{
    return kerf_dtype_bits(plane->dtype) / 8;
}

static void write_planes(kerf_weight_writer *ww, const kerf_weight *w,
                         unsigned char *plane[KERF_PLANES])
{
    kerf_error err;
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        const kerf_geometry all = kerf_weight_geometry(w);
        const kerf_plane *g = &all.plane[p];
        if (g->dtype == KERF_DTYPE_NONE) continue;
        size_t n = (size_t)g->bytes, cut = n / 3 / element_bytes(g) * element_bytes(g);
        must(kerf_weight_writer_write(ww, p, cut, plane[p] + cut, n - cut, &err), &err);
        must(kerf_weight_writer_write(ww, p, 0, plane[p], cut, &err), &err);
    }
    must(kerf_weight_writer_finish(ww, &err), &err);
}

/* Writes one weight and a norm; described: with kerf's metadata. */
static void write_weight(const char *path, const kerf_layout *l, const kerf_weight *w,
                         unsigned char *plane[KERF_PLANES], int described)
{
    char names[KERF_PLANES + KERF_EXTRAS][64];
    kerf_entry e[KERF_PLANES + KERF_EXTRAS + 1] = {{"norm.weight", KERF_BF16, {1, {8}}, 0}};
    kerf_plane_id p;
    kerf_error err;
    size_t n = 1;
    while (kerf_layout_entry(l, w, n - 1, names[n - 1], sizeof names[0], &e[n], &p)) n++;
    char *text = kerf_layout_describe(l, w, 1);
    const kerf_key_value pair[] = {{"kerf", text}};
    const kerf_key_value *const metadata[] = {pair};
    const size_t count[] = {described != 0};
    const kerf_writer_options opt = {.overwrite = 1, .metadata = metadata, .metadata_count = count};
    kerf_writer *out;
    kerf_weight_writer *ww;
    must(kerf_writer_create(path, e, n, &opt, &out, &err), &err);
    must(kerf_writer_write(out, 0, 0, "0123456789abcdef", 16, &err), &err);
    must(kerf_weight_writer_open(out, l, w, 1, &ww, &err), &err);
    write_planes(ww, w, plane);
    assert_int_equal(kerf_weight_writer_inexact(ww), 0);
    kerf_weight_writer_close(ww);
    must(kerf_writer_commit(out, &err), &err);
    free(text);
}

static void read_tensor(const char *path, const char *name, kerf_dtype dtype, kerf_shape shape,
                        void *dst, size_t n)
{
    kerf_reader *r;
    kerf_error err;
    must(kerf_reader_open(path, &r, &err), &err);
    const kerf_tensor *t = kerf_reader_find(r, name);
    if (!t) fail_msg("%s: no tensor %s", path, name);
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->shape.rank, shape.rank);
    for (unsigned i = 0; i < shape.rank; i++) assert_int_equal(t->shape.dim[i], shape.dim[i]);
    must(kerf_reader_read(r, t, 0, dst, n, &err), &err);
    kerf_reader_close(r);
}

static const char *write_one(void **state, const char *l, const char *format,
                             unsigned char *plane[KERF_PLANES])
{
    const char *path = in_folder(state, "one.safetensors");
    kerf_weight w = weight_of(kerf_format_find(format));
    const kerf_geometry g = kerf_weight_geometry(&w);
    for (int p = 0; p < KERF_PLANES; p++)
        if (!plane[p] && g.plane[p].dtype != KERF_DTYPE_NONE) plane[p] = make_plane(&g.plane[p], p);
    write_weight(path, layout(l), &w, plane, 0);
    return path;
}

static void free_planes(unsigned char *plane[KERF_PLANES])
{
    for (int p = 0; p < KERF_PLANES; p++) free(plane[p]);
}

#endif
