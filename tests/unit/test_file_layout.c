/* test_file_layout.c - layout `kerf`: every format's planes are named, described, written and found
 * again as one weight. */
#include <kerf/layouts.h>

#include "test_output.h"

static const kerf_shape shapes[] = {
    {2, {130, 96}}, {3, {2, 5, 256}}, {1, {33}}, {0, {0}}, {2, {0, 8}}};
#define SHAPES (sizeof shapes / sizeof *shapes)

static const kerf_layout *own(void)
{
    const kerf_layout *l = kerf_layout_find("kerf");
    assert_ptr_equal(l, kerf_layout_at(0));
    return l;
}

static void test_plane_names(void **state)
{
    static const char *const suffix[KERF_PLANES] = {"", "_scale", "_scale_2", "_zero_point"};
    (void)state;
    char name[64], wanted[64];
    kerf_weight w = {.name = "w", .shape = {2, {8, 256}}};
    kerf_entry e;
    kerf_plane_id p;
    for (size_t f = 0; f < kerf_format_count(); f++) {
        w.codec.format = kerf_format_at(f);
        size_t i = 0;
        for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
            if (kerf_weight_geometry(&w).plane[k].dtype == KERF_DTYPE_NONE) continue;
            assert_int_equal(kerf_layout_entry(own(), &w, i++, name, sizeof name, &e, &p), 1);
            snprintf(wanted, sizeof wanted, "w%s", suffix[k]);
            assert_string_equal(name, wanted);
            assert_ptr_equal(e.name, name);
            assert_int_equal(p, k);
        }
        assert_int_equal(kerf_layout_entry(own(), &w, i, name, sizeof name, &e, &p), 0);
    }
    w.name = "model.w";
    w.codec.format = kerf_format_find("nvfp4");
    assert_int_equal(kerf_layout_entry(own(), &w, 2, name, 12, &e, &p), 1);
    assert_string_equal(name, "model.w_sca"); /* cut, and terminated */
}

static void test_description(void **state)
{
    (void)state;
    kerf_codec fos, int8;
    kerf_error err;
    must(kerf_codec_find("nvfp4:4/6", &fos, &err), &err);
    must(kerf_codec_find("int8", &int8, &err), &err);
    int8.encoder = NULL;
    const kerf_weight w[] = {
        {.name = "b\"", .dtype = KERF_BF16, .shape = {2, {4, 16}}, .codec = fos},
        {.name = "dense", .dtype = KERF_F32, .shape = {1, {4}}},
        {.name = "a", .dtype = KERF_F16, .shape = {0, {0}}, .codec = int8},
    };
    char *text = kerf_layout_describe(own(), w, 3);
    assert_string_equal(text, "{\"version\":1,\"tensors\":{"
                              "\"a\":{\"format\":\"int8\",\"dtype\":\"F16\",\"shape\":[]},"
                              "\"b\\\"\":{\"format\":\"nvfp4\",\"encoder\":\"4/6\","
                              "\"dtype\":\"BF16\",\"shape\":[4,16]}}}");
    free(text);
    text = kerf_layout_describe(own(), NULL, 0);
    assert_string_equal(text, "{\"version\":1,\"tensors\":{}}");
    free(text);
}

/* Writes one weight of a format, beside a dense tensor, to a file. */
static void write_weight(const char *path, const kerf_weight *w)
{
    char names[KERF_PLANES + 1][64];
    kerf_entry e[KERF_PLANES + 2] = {{"norm", KERF_BF16, {1, {8}}, 0}};
    size_t n = 1;
    kerf_plane_id p;
    while (kerf_layout_entry(own(), w, n - 1, names[n - 1], sizeof names[0], &e[n], &p)) n++;
    char *text = kerf_layout_describe(own(), w, 1);
    const kerf_key_value pair[] = {{"kerf", text}};
    const kerf_key_value *const metadata[] = {pair};
    const size_t count[] = {1};
    const kerf_writer_options opt = {.overwrite = 1, .metadata = metadata, .metadata_count = count};
    write_checkpoint(path, e, n, &opt);
    free(text);
}

static void check_weight(const char *path, const kerf_weight *want)
{
    kerf_reader *r;
    kerf_weights *all;
    kerf_error err;
    must(kerf_reader_open(path, &r, &err), &err);
    must(kerf_weights_open(r, &all, &err), &err);
    assert_int_equal(kerf_weights_count(all), 2);
    assert_null(kerf_weights_at(all, 2));
    const kerf_weight *w = kerf_weights_find(all, "w"), *dense = kerf_weights_find(all, "norm");
    assert_true(w && dense);
    assert_ptr_equal(w->codec.format, want->codec.format);
    assert_ptr_equal(w->codec.encoder, want->codec.encoder);
    assert_int_equal(w->dtype, want->dtype);
    assert_int_equal(w->shape.rank, want->shape.rank);
    assert_int_equal(kerf_weight_geometry(w).bytes, kerf_weight_geometry(want).bytes);
    for (int p = 0; p < KERF_PLANES; p++) {
        assert_int_equal(w->plane[p] != NULL,
                         kerf_weight_geometry(want).plane[p].dtype != KERF_DTYPE_NONE);
        if (w->plane[p])
            assert_int_equal(w->plane[p]->bytes, kerf_weight_geometry(want).plane[p].bytes);
    }
    assert_null(dense->codec.format);
    assert_int_equal(dense->dtype, KERF_BF16);
    assert_ptr_equal(dense->plane[0], kerf_reader_find(r, "norm"));
    assert_null(kerf_weights_find(all, "w_scale"));
    kerf_weights_close(all);
    kerf_reader_close(r);
}

static void test_every_format(void **state)
{
    const char *path = in_folder(state, "format.safetensors");
    for (size_t f = 0; f < kerf_format_count(); f++)
        for (size_t s = 0; s < SHAPES; s++) {
            kerf_error err;
            kerf_weight w = {.name = "w", .dtype = KERF_BF16, .shape = shapes[s]};
            w.codec.format = kerf_format_at(f);
            w.codec.encoder =
                kerf_encoder_at(w.codec.format, kerf_encoder_count(w.codec.format) - 1);
            kerf_geometry g;
            kerf_status known = kerf_geometry_init(&g, w.codec.format, &w.shape, &err);
            if (known == KERF_E_NOSUP) continue; /* byte structs have no short rows */
            must(known, &err);
            write_weight(path, &w);
            check_weight(path, &w);
        }
}

static void test_dense_checkpoint(void **state)
{
    (void)state;
    kerf_reader *r;
    kerf_weights *all;
    kerf_error err;
    must(kerf_reader_open(KERF_TEST_DATA "/tiny-llama", &r, &err), &err);
    must(kerf_weights_open(r, &all, &err), &err);
    assert_int_equal(kerf_weights_count(all), kerf_reader_count(r));
    for (size_t i = 0; i < kerf_weights_count(all); i++) {
        assert_null(kerf_weights_at(all, i)->codec.format);
        assert_ptr_equal(kerf_weights_at(all, i)->plane[0], kerf_reader_at(r, i));
    }
    kerf_weights_close(all);
    kerf_reader_close(r);
    kerf_weights_close(NULL);
    kerf_reader_close(NULL);
}

/* An encoder that this version does not know changes nothing for a reader. */
static void test_unknown_encoder(void **state)
{
    static const kerf_entry e[] = {{"w", KERF_I8, {2, {2, 4}}, 0},
                                   {"w_scale", KERF_F32, {2, {2, 1}}, 0}};
    static const kerf_key_value pair[] = {
        {"kerf",
         "{\"tensors\":{\"w\":{\"shape\":[2,4],\"dtype\":\"F32\",\"encoder\":\"of-the-future\","
         "\"format\":\"int8\"}},\"version\":1}"}};
    static const kerf_key_value *const metadata[] = {pair};
    static const size_t count[] = {1};
    const kerf_writer_options opt = {.metadata = metadata, .metadata_count = count};
    kerf_reader *r;
    kerf_weights *all;
    kerf_error err;
    write_checkpoint(in_folder(state, "future.safetensors"), e, 2, &opt);
    must(kerf_reader_open(in_folder(state, "future.safetensors"), &r, &err), &err);
    must(kerf_weights_open(r, &all, &err), &err);
    assert_int_equal(kerf_weights_count(all), 1);
    assert_string_equal(kerf_weights_at(all, 0)->codec.format->name, "int8");
    assert_null(kerf_weights_at(all, 0)->codec.encoder);
    kerf_weights_close(all);
    kerf_reader_close(r);
}

/* Each shard describes what it holds; a plane in the other shard does not count. */
static void test_shards(void **state)
{
    static const char *const names[] = {"s1.safetensors", "s2.safetensors"};
    static const kerf_key_value v[] = {{"kerf", "{\"version\":1,\"tensors\":{\"v\":{\"format\":"
                                                "\"int8\",\"dtype\":\"F32\",\"shape\":[2,4]}}}"}};
    static const kerf_key_value w[] = {{"kerf", "{\"version\":1,\"tensors\":{\"w\":{\"format\":"
                                                "\"int8\",\"dtype\":\"F32\",\"shape\":[2,4]}}}"}};
    static const kerf_key_value *const metadata[] = {v, w};
    static const size_t count[] = {1, 1};
    kerf_entry e[] = {{"v", KERF_I8, {2, {2, 4}}, 0},
                      {"v_scale", KERF_F32, {2, {2, 1}}, 0},
                      {"w", KERF_I8, {2, {2, 4}}, 1},
                      {"w_scale", KERF_F32, {2, {2, 1}}, 1}};
    kerf_writer_options opt = {
        .shard = names, .shards = 2, .metadata = metadata, .metadata_count = count, .overwrite = 1};
    kerf_reader *r;
    kerf_weights *all = NULL;
    kerf_error err;
    const char *path = in_folder(state, "shards");
    write_checkpoint(path, e, 4, &opt);
    must(kerf_reader_open(path, &r, &err), &err);
    must(kerf_weights_open(r, &all, &err), &err);
    assert_int_equal(kerf_weights_count(all), 2);
    assert_int_equal(kerf_weights_find(all, "w")->plane[0]->shard, 1);
    kerf_weights_close(all);
    kerf_reader_close(r);

    all = NULL;
    e[3].shard = 0;
    write_checkpoint(path, e, 4, &opt);
    must(kerf_reader_open(path, &r, &err), &err);
    assert_int_equal(kerf_weights_open(r, &all, &err), KERF_E_DATA);
    assert_null(all);
    assert_non_null(strstr(err.text, "\"w_scale\" is not in this file"));
    kerf_reader_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plane_names),     cmocka_unit_test(test_description),
        cmocka_unit_test(test_every_format),    cmocka_unit_test(test_dense_checkpoint),
        cmocka_unit_test(test_unknown_encoder), cmocka_unit_test(test_shards),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
