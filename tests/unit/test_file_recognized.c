/* test_file_recognized.c - checkpoints of other writers: what is recognized without a description,
 * and what is not. */
#include <kerf/layouts.h>

#include "test_output.h"

#include "stored.h"

/* --- other writers --- */

static const char *write_raw(void **state, const kerf_entry *e, size_t n)
{
    const char *path = in_folder(state, "raw.safetensors");
    const kerf_writer_options opt = {.overwrite = 1};
    write_checkpoint(path, e, n, &opt);
    return path;
}

static size_t count_recognized(const char *path)
{
    kerf_reader *r;
    kerf_weights *all;
    kerf_error err;
    size_t n = 0;
    must(kerf_reader_open(path, &r, &err), &err);
    must(kerf_weights_open(r, &all, &err), &err);
    for (size_t i = 0; i < kerf_weights_count(all); i++)
        n += kerf_weights_at(all, i)->codec.format != NULL;
    kerf_weights_close(all);
    kerf_reader_close(r);
    return n;
}

/* compressed-tensors saves scales in the type of the model; they are read as the floats they are.
 */
static void test_shorter_scales(void **state)
{
    const kerf_entry e[] = {{"m.weight", KERF_I8, {2, {4, 8}}, 0},
                            {"m.weight_scale", KERF_BF16, {2, {4, 1}}, 0}};
    kerf_reader *r;
    kerf_weights *all;
    kerf_error err;
    uint16_t stored[4];
    uint32_t read[4];
    const char *path = write_raw(state, e, 2);
    must(kerf_reader_open(path, &r, &err), &err);
    must(kerf_weights_open(r, &all, &err), &err);
    const kerf_weight *w = kerf_weights_find(all, "m.weight");
    assert_string_equal(w->codec.format->name, "int8");
    must(kerf_reader_read(r, w->plane[KERF_PLANE_SCALES], 0, stored, sizeof stored, &err), &err);
    must(kerf_weight_read(r, w, KERF_PLANE_SCALES, 0, read, sizeof read, &err), &err);
    for (int i = 0; i < 4; i++) assert_int_equal(read[i], (uint32_t)stored[i] << 16);
    must(kerf_weight_read(r, w, KERF_PLANE_SCALES, 8, read, 8, &err), &err);
    assert_int_equal(read[0], (uint32_t)stored[2] << 16);
    kerf_weights_close(all);
    kerf_reader_close(r);
}

static void test_half_scales(void **state)
{
    const kerf_entry e[] = {{"m.weight", KERF_I8, {2, {65536, 1}}, 0},
                            {"m.weight_scale", KERF_F16, {2, {65536, 1}}, 0}};
    static uint16_t all_halves[65536];
    static float got[65536];
    const kerf_writer_options opt = {.overwrite = 1};
    const char *path = in_folder(state, "half.safetensors");
    kerf_writer *out;
    kerf_reader *r;
    kerf_weights *all;
    kerf_error err;
    for (unsigned i = 0; i < 65536; i++) all_halves[i] = (uint16_t)i;
    must(kerf_writer_create(path, e, 2, &opt, &out, &err), &err);
    must(kerf_writer_write(out, 0, 0, all_halves, 65536, &err), &err);
    must(kerf_writer_write(out, 1, 0, all_halves, sizeof all_halves, &err), &err);
    must(kerf_writer_commit(out, &err), &err);
    must(kerf_reader_open(path, &r, &err), &err);
    must(kerf_weights_open(r, &all, &err), &err);
    const kerf_weight *w = kerf_weights_find(all, "m.weight");
    must(kerf_weight_read(r, w, KERF_PLANE_SCALES, 0, got, sizeof got, &err), &err);
    for (unsigned i = 0; i < 65536; i++) {
        unsigned exponent = i >> 10 & 31, mantissa = i & 1023;
        double value =
            exponent ? (1024 + mantissa) * 0x1p-25 * (double)(1u << exponent) : mantissa * 0x1p-24;
        if (exponent == 31)
            assert_true(mantissa ? got[i] != got[i] : got[i] > 1e38f || got[i] < -1e38f);
        else
            assert_true((double)got[i] == (i >> 15 ? -value : value));
    }
    kerf_weights_close(all);
    kerf_reader_close(r);
}

/* Writes the tensors of a packed weight [8, 128]; the content of "_shape" is the given one. */
static size_t count_packed(void **state, const kerf_entry *e, size_t n, int64_t cols)
{
    const char *path = in_folder(state, "packed.safetensors");
    const int64_t shape[] = {8, cols, 0};
    const kerf_writer_options opt = {.overwrite = 1};
    static const char zeros[1 << 14];
    kerf_writer *w;
    kerf_error err;
    must(kerf_writer_create(path, e, n, &opt, &w, &err), &err);
    for (size_t i = 0; i < n; i++) {
        int is_shape = strstr(e[i].name, "_shape") != NULL;
        const void *from = is_shape ? (const void *)shape : zeros;
        assert_true(is_shape || entry_bytes(&e[i]) <= sizeof zeros);
        must(kerf_writer_write(w, i, 0, from, entry_bytes(&e[i]), &err), &err);
    }
    must(kerf_writer_commit(w, &err), &err);
    return count_recognized(path);
}

/* One tensor too many or of another shape, and nothing is recognized. */
static void test_not_recognized(void **state)
{
    const kerf_entry good[] = {{"m.weight_packed", KERF_I32, {2, {8, 16}}, 0},
                               {"m.weight_scale", KERF_BF16, {2, {8, 1}}, 0},
                               {"m.weight_shape", KERF_I64, {1, {2}}, 0},
                               {"m.weight_zero_point", KERF_I32, {2, {1, 1}}, 0},
                               {"m.weight_g_idx", KERF_I32, {1, {128}}, 0}};
    assert_int_equal(count_packed(state, good, 3, 128), 1);
    assert_int_equal(count_packed(state, good, 4, 128), 1); /* asymmetric then */
    assert_int_equal(count_packed(state, good, 5, 128), 0);
    assert_int_equal(count_packed(state, good, 2, 128), 0);
    assert_int_equal(count_packed(state, good, 3, 127), 0);
    for (size_t i = 0; i < 3; i++) {
        kerf_entry bad[3] = {good[0], good[1], good[2]};
        bad[i].shape.dim[0]++;
        assert_int_equal(count_packed(state, bad, 3, 128), 0);
        bad[i] = good[i];
        bad[i].dtype = KERF_F64;
        assert_int_equal(count_packed(state, bad, 3, 128), 0);
    }
}

static void check_doubt(const char *path, const char *name, const char *wanted)
{
    kerf_reader *r;
    kerf_error err;
    char text[256];
    must(kerf_reader_open(path, &r, &err), &err);
    assert_int_equal(kerf_tensor_doubt(r, kerf_reader_find(r, name), text, sizeof text),
                     wanted != NULL);
    if (wanted && !strstr(text, wanted)) fail_msg("%s: \"%s\", not \"%s\"", name, text, wanted);
    kerf_reader_close(r);
}

/* GPTQ's parts: each must be there and as it should be, and nothing else by that name. */
static void test_gptq_recognized(void **state)
{
    const kerf_entry good[] = {{"m.qweight", KERF_I32, {2, {16, 32}}, 0},
                               {"m.scales", KERF_F16, {2, {1, 32}}, 0},
                               {"m.qzeros", KERF_I32, {2, {1, 4}}, 0},
                               {"m.g_idx", KERF_I32, {1, {128}}, 0},
                               {"m.weight", KERF_BF16, {2, {32, 128}}, 0}};
    static const char *const missing[] = {"", "m.scales is missing", "m.qzeros is missing",
                                          "m.g_idx is missing"};
    assert_int_equal(count_packed(state, good, 4, 128), 1);
    const char *path = in_folder(state, "packed.safetensors");
    check_doubt(path, "m.qweight", NULL);
    check_doubt(path, "m.scales", NULL);
    assert_int_equal(count_packed(state, good, 5, 128), 0);
    check_doubt(path, "m.qweight", "m.weight has no place beside it");
    for (size_t i = 0; i < 4; i++) {
        kerf_entry bad[4] = {good[0], good[1], good[2], good[3]};
        bad[i].shape.dim[0]++;
        assert_int_equal(count_packed(state, bad, 4, 128), 0);
        bad[i] = good[i];
        bad[i].dtype = KERF_F64;
        assert_int_equal(count_packed(state, bad, 4, 128), 0);
        bad[i] = (kerf_entry){"other", KERF_F32, {1, {1}}, 0};
        assert_int_equal(count_packed(state, bad, 4, 128), 0);
        if (i > 0) check_doubt(path, "m.qweight", missing[i]);
    }
}

/* The JSON that bitsandbytes reads, word for word, and its tables. */
static void test_bitsandbytes_state(void **state)
{
    unsigned char *plane[KERF_PLANES] = {NULL};
    char text[256];
    float offset = 0.1f, book[16], map[256];
    plane[KERF_PLANE_ZEROS] = malloc(4);
    memcpy(plane[KERF_PLANE_ZEROS], &offset, 4);
    const char *path = write_one(state, "bitsandbytes", "nf4-dq", plane);
    read_tensor(path, "m.weight.quant_state.bitsandbytes__nf4", KERF_U8, (kerf_shape){1, {256}},
                text, sizeof text);
    const char want[] = "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"bfloat16\", "
                        "\"shape\": [256, 256], \"nested_blocksize\": 256, \"nested_dtype\": "
                        "\"float32\", \"nested_offset\": 0.100000001} ";
    assert_memory_equal(text, want, sizeof want - 1);
    for (size_t i = sizeof want - 1; i < sizeof text; i++) assert_int_equal(text[i], ' ');
    read_tensor(path, "m.weight.quant_map", KERF_F32, (kerf_shape){1, {16}}, book, sizeof book);
    assert_true(book[0] == -1 && book[7] == 0 && book[15] == 1);
    read_tensor(path, "m.weight.nested_quant_map", KERF_F32, (kerf_shape){1, {256}}, map,
                sizeof map);
    assert_true(map[127] == 0 && map[255] == 1);
    for (int i = 1; i < 256; i++) assert_true(map[i] > map[i - 1]);
    free_planes(plane);
}

/* Writes an NF4 weight [4, 32] with this state. */
static size_t count_nf4(void **state, const char *json, float first)
{
    static const kerf_entry e[] = {
        {"m.weight", KERF_U8, {2, {64, 1}}, 0},
        {"m.weight.absmax", KERF_F32, {1, {2}}, 0},
        {"m.weight.quant_map", KERF_F32, {1, {16}}, 0},
        {"m.weight.quant_state.bitsandbytes__nf4", KERF_U8, {1, {128}}, 0}};
    const kerf_writer_options opt = {.overwrite = 1};
    const char *path = in_folder(state, "nf4.safetensors");
    static char zeros[256];
    char text[128];
    float book[256];
    kerf_writer *w;
    kerf_error err;
    assert_int_equal(kerf_codebook(kerf_format_find("int8"), KERF_PLANE_CODES, book), 0);
    assert_int_equal(kerf_codebook(kerf_format_find("nf4"), KERF_PLANE_CODES, book), 16);
    book[0] = first;
    memset(text, ' ', sizeof text);
    memcpy(text, json, strlen(json));
    must(kerf_writer_create(path, e, 4, &opt, &w, &err), &err);
    must(kerf_writer_write(w, 0, 0, zeros, 64, &err), &err);
    must(kerf_writer_write(w, 1, 0, zeros, 8, &err), &err);
    must(kerf_writer_write(w, 2, 0, book, 64, &err), &err);
    must(kerf_writer_write(w, 3, 0, text, sizeof text, &err), &err);
    must(kerf_writer_commit(w, &err), &err);
    return count_recognized(path);
}

static void test_bitsandbytes_recognized(void **state)
{
#define STATE(type, block, dtype, shape) \
    "{\"quant_type\":" type ",\"blocksize\":" block ",\"dtype\":" dtype ",\"shape\":" shape "}"
    static const char *const bad[] = {
        STATE("\"fp4\"", "64", "\"float16\"", "[4,32]"),
        STATE("\"nf4\"", "32", "\"float16\"", "[4,32]"),
        STATE("\"nf4\"", "64", "\"int8\"", "[4,32]"),
        STATE("\"nf4\"", "64", "\"float16\"", "[4,33]"),
        STATE("\"nf4\"", "64", "\"float16\"", "[4,-32]"),
        STATE("\"nf4\"", "64", "\"float16\"", "[9007199254740992,9007199254740992]"),
        STATE("\"nf4\"", "64", "\"float16\"", "[1,1,1,1,1,1,1,4,32]"),
        STATE("\"nf4\"", "64", "\"float16\"", "4"),
        STATE("7", "\"64\"", "\"float16\"", "[4,32]"),
        "[]",
        "{",
        "",
    };
    const char *good = STATE("\"nf4\"", "64", "\"float16\"", "[4,32]");
    assert_int_equal(count_nf4(state, good, -1), 1);
    assert_int_equal(count_nf4(state, good, -0.5f), 0); /* another code book */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(count_nf4(state, bad[i], -1), 0);
#undef STATE
}

/* What ComfyUI would read in the metadata, and beside a weight: no JSON is no failure, and leaves
 * the error of the call alone. */
static void test_no_marks(void **state)
{
    static const kerf_key_value about = {"_quantization_metadata", "{\"layers\": "};
    static const size_t one = 1;
    const kerf_key_value *const metadata[] = {&about};
    const kerf_entry e[] = {{"m.weight", KERF_F8_E4M3, {2, {4, 8}}, 0},
                            {"m.weight_scale", KERF_F32, {2, {4, 1}}, 0},
                            {"m.comfy_quant", KERF_U8, {1, {9}}, 0}};
    for (int with_metadata = 0; with_metadata < 2; with_metadata++) {
        const char *path = in_folder(state, "raw.safetensors");
        const kerf_writer_options opt = {.overwrite = 1,
                                         .metadata = with_metadata ? metadata : NULL,
                                         .metadata_count = with_metadata ? &one : NULL};
        kerf_reader *r;
        kerf_weights *all;
        kerf_error err = {0}, before;
        write_checkpoint(path, e, with_metadata ? 2 : 3, &opt);
        must(kerf_reader_open(path, &r, &err), &err);
        memset(&err, 0x5a, sizeof err);
        before = err;
        assert_int_equal(kerf_weights_open(r, &all, &err), KERF_OK);
        assert_memory_equal(&err, &before, sizeof err);
        const kerf_weight *m = kerf_weights_find(all, "m.weight"); /* a mark says another form */
        assert_int_equal(m->codec.format != NULL, with_metadata);
        kerf_weights_close(all);
        kerf_reader_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shorter_scales),     cmocka_unit_test(test_half_scales),
        cmocka_unit_test(test_not_recognized),     cmocka_unit_test(test_gptq_recognized),
        cmocka_unit_test(test_bitsandbytes_state), cmocka_unit_test(test_bitsandbytes_recognized),
        cmocka_unit_test(test_no_marks),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
