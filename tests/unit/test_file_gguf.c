/* test_file_gguf.c - GGUF files: what is refused, what is odd but legal, what damage does, and that
 * what is written is what was read, key for key. */
#include <kerf/layouts.h>

#include "test_output.h"

#include "file/gguf/gguf.h"
#include "malformed_gguf.h"

/* --- refusals --- */

static kerf_status open_all(const char *path, kerf_error *e)
{
    kerf_reader *r = NULL;
    kerf_weights *w = NULL;
    kerf_status s = kerf_reader_open(path, &r, e);
    if (s == KERF_OK) s = kerf_weights_open(r, &w, e);
    kerf_weights_close(w);
    kerf_reader_close(r);
    return s;
}

static void check_refusal(kerf_status s, const kerf_error *e, const char *name)
{
    if (s != e->status || strchr(e->text, '\n') || strcmp(e->text, "untouched") == 0)
        fail_msg("%s: bad text: %s", name, e->text);
}

static void test_every_case(void **state)
{
    char path[4096];
    for (size_t i = 0; i < MALFORMED_GGUF_CASES; i++) {
        const struct malformed_gguf *m = &malformed_gguf_cases[i];
        kerf_error e = {.text = "untouched"};
        malformed_gguf_put(m, *state, path, sizeof path);
        kerf_status s = open_all(path, &e);
        if (s != m->status || !strstr(e.text, m->message))
            fail_msg("%s: %s: %s", m->name, kerf_status_name(s), e.text);
        check_refusal(s, &e, m->name);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(m->name, malformed_gguf_cases[k].name);
    }
}

/* --- odd but legal --- */

static const char *put_line(void **state, const char *name, const char *line)
{
    struct bytes b = {0};
    gguf_bytes(&b, line);
    put_file(*state, name, b.p, b.n);
    free(b.p);
    return in_folder(state, name);
}

static void test_unusual_but_good(void **state)
{
    static const struct {
        const char *line;
        size_t tensors;
        const char *name;
        kerf_shape shape;
    } good[] = {
        {G_HEAD(0, 0), 0, NULL, {0}},
        {G_HEAD(0, 0) "a32", 0, NULL, {0}},
        {"'GGUF' 2:4 0:8 0:8", 0, NULL, {0}},
        {G_HEAD(1, 0) G_TENSOR1("w", 2, 0, 0) "a32 *8 0", 1, "w", {1, {2}}},
        {G_HEAD(1, 0) G_TENSOR1("w", 2, 0, 0) "a32 *8 0 a32", 1, "w", {1, {2}}},
        {G_HEAD(1, 0) "s's' 0:4 0:4 0:8 a32 *4 0", 1, "s", {0}},
        {G_HEAD(1, 0) "s'w' 4:4 5:8 2:8 1:8 3:8 24:4 0:8 a32 *30 0", 1, "w", {4, {3, 1, 2, 5}}},
        {G_HEAD(2, 0) G_TENSOR2("e", 7, 0, 0, 0) G_TENSOR1("w", 2, 0, 0) "a32 *8 0",
         2,
         "e",
         {2, {0, 7}}},
        {G_HEAD(1, 1) G_U32("general.alignment", 1) G_TENSOR1("w", 2, 0, 0) "*8 0",
         1,
         "w",
         {1, {2}}},
        {G_HEAD(1, 1) G_U32("general.alignment", 1048576) G_TENSOR1("w", 2, 0, 0) "a1048576 *8 0",
         1,
         "w",
         {1, {2}}},
        {G_HEAD(1, 0) "63:8 *63 110 1:4 2:8 0:4 0:8 a32 *8 0", 1, NULL, {0}},
        {G_HEAD(0, 1) "s'k' 9:4 10:4 0:8", 0, NULL, {0}},
        {G_HEAD(0, 1) "s'k' 8:4 2:8 0xff:1 0:1", 0, NULL, {0}},
        {G_HEAD(0, 1) "s'split.count' 2:4 1:2", 0, NULL, {0}},
        {G_HEAD(0, 1) G_U32("general.quantization_version", 1), 0, NULL, {0}},
        {G_HEAD(1, 0) G_TENSOR2("w", 256, 3, 14, 0) "a32 *630 0", 1, "w", {2, {3, 210}}},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        kerf_reader *r = NULL;
        kerf_error e;
        must(kerf_reader_open(put_line(state, "good.gguf", good[i].line), &r, &e), &e);
        assert_true(kerf_reader_is_gguf(r));
        assert_int_equal(kerf_reader_count(r), good[i].tensors);
        const kerf_tensor *t = good[i].name ? kerf_reader_find(r, good[i].name) : NULL;
        if (t) assert_memory_equal(&t->shape, &good[i].shape, sizeof t->shape);
        if (good[i].name) assert_non_null(t);
        kerf_reader_close(r);
    }
    /* by its content alone */
    kerf_reader *r = NULL;
    kerf_error e;
    must(kerf_reader_open(put_line(state, "blob", G_HEAD(0, 0)), &r, &e), &e);
    assert_true(kerf_reader_is_gguf(r));
    kerf_reader_close(r);
}

/* --- damage --- */

static const char good_line[] = G_HEAD(3, 8) G_STRING("general.architecture", "llama") //
    G_U32("general.alignment", 32) G_U32("general.quantization_version", 2)            //
    "s'u' 2:4 7:2 s'b' 7:4 1:1 s't' 9:4 8:4 2:8 s'one' s'' s'f' 9:4 6:4 2:8 1:4 2:4 "  //
    "s'd' 12:4 0:8 "                                                                   //
    G_TENSOR2("a.weight", 64, 2, 40, 0) G_TENSOR1("a.scale", 1, 0, 96)                 //
    G_TENSOR2("b", 3, 5, 30, 128) "a32 *72 1 a32 *4 2 a32 *30 3 a32";

static void test_truncated(void **state)
{
    struct bytes b = {0};
    gguf_bytes(&b, good_line);
    for (size_t n = 0; n <= b.n; n++) {
        kerf_error e = {.text = "untouched"};
        put_file(*state, "cut.gguf", b.p, n);
        kerf_status s = open_all(in_folder(state, "cut.gguf"), &e);
        assert_int_equal(s, n + 2 >= b.n ? KERF_OK : KERF_E_DATA); /* 2 bytes are padding */
        if (s != KERF_OK) check_refusal(s, &e, "cut");
    }
    free(b.p);
}

/* Each byte becomes each of those that mean something to a parser: refused in one line, or read as
 * something else. */
static void test_changed_bytes(void **state)
{
    static const unsigned char other[] = {0,    1,    2,    4,    7,    8,    9,   13,
                                          0x1f, 0x20, 0x40, 0x7f, 0x80, 0xc3, 0xff};
    struct bytes b = {0};
    size_t accepted = 0, tried = 0;
    gguf_bytes(&b, good_line);
    const size_t header = b.n - 160;
    for (size_t i = 0; i < header; i++)
        for (size_t c = 0; c < sizeof other; c++) {
            kerf_error e = {.text = "untouched"};
            const unsigned char was = b.p[i];
            b.p[i] = other[c];
            put_file(*state, "changed.gguf", b.p, b.n);
            b.p[i] = was;
            kerf_status s = open_all(in_folder(state, "changed.gguf"), &e);
            if (s != KERF_OK) check_refusal(s, &e, "changed");
            accepted += s == KERF_OK;
            tried++;
        }
    assert_in_range(accepted, tried / 50, tried / 2);
    free(b.p);
}

/* --- writing --- */

/* All tensors of src, under the metadata of src. */
static void copy_file(const char *src, const char *dst)
{
    kerf_reader *r;
    kerf_writer *w;
    kerf_error e;
    kerf_entry entry[16];
    const char *type[16], *key, *value;
    kerf_key_value pair[16];
    size_t n = 0, pairs = 0;
    must(kerf_reader_open(src, &r, &e), &e);
    for (const kerf_tensor *t; (t = kerf_reader_at(r, n)) != NULL; n++) {
        entry[n] = (kerf_entry){t->name, t->dtype, t->shape, 0};
        type[n] = t->block_type;
    }
    while (kerf_reader_metadata_at(r, 0, pairs, &key, &value))
        pair[pairs++] = (kerf_key_value){key, value};
    const kerf_key_value *const metadata[] = {pair};
    const kerf_writer_options opt = {
        .overwrite = 1, .metadata = metadata, .metadata_count = &pairs, .block_type = type};
    must(kerf_writer_create(dst, entry, n, &opt, &w, &e), &e);
    for (size_t i = 0; i < n; i++) {
        const kerf_tensor *t = kerf_reader_at(r, i);
        unsigned char bytes[4096];
        assert_true(t->bytes <= sizeof bytes);
        must(kerf_reader_read(r, t, 0, bytes, (size_t)t->bytes, &e), &e);
        must(kerf_writer_write(w, i, 0, bytes, (size_t)t->bytes, &e), &e);
    }
    must(kerf_writer_commit(w, &e), &e);
    kerf_reader_close(r);
}

static void check_same(const char *a, const char *b)
{
    size_t n, m;
    char *p = read_text(a, &n), *q = read_text(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(p, q, n);
    free(p);
    free(q);
}

/* What has all keys and padding that kerf writes comes back byte for byte. */
static void test_same_file(void **state)
{
    static const char *const lines[] = {
        G_HEAD(0, 0),
        G_HEAD(0, 1) "s'k' 8:4 2:8 0xff:1 0:1 a32",
        G_HEAD(2, 3) G_U32("general.file_type", 39)
            G_U32("general.quantization_version",
                  2) "s'\xc3\xa9' 9:4 0:4 3:8 1:1 2:1 3:1 " G_TENSOR2("a.weight", 64, 2, 40, 0)
                G_TENSOR1("n", 3, 0, 96) "a32 *72 1 a32 *12 2 a32",
        G_HEAD(3, 3) G_U32("general.alignment", 128) G_U32("general.file_type", 1)
            G_U32("general.quantization_version", 2) G_TENSOR2("z", 3, 2, 1, 0) G_TENSOR2(
                "e", 3, 0, 1, 128) "s'q' 3:4 256:8 1:8 2:8 15:4 128:8 a128 *12 1 a128 *584 1 a128",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *from = put_line(state, "from.gguf", lines[i]),
                   *to = in_folder(state, "to.gguf");
        copy_file(from, to);
        if (i > 0) check_same(from, to);
    }
}

/* Its file type follows from its matrices, and blocks have a version; the rest stays. */
static void test_keys_that_change(void **state)
{
    const char *from =
        put_line(state, "from.gguf",
                 G_HEAD(2, 2) G_U32("general.file_type", 0) G_STRING("k", "v") //
                 G_TENSOR2("a", 64, 2, 8, 0) G_TENSOR1("n", 3, 0, 160) "a32 *136 1 a32 *12 2 a32");
    const char *want =
        put_line(state, "want.gguf",
                 G_HEAD(2, 3) G_U32("general.file_type", 7) G_STRING("k", "v") //
                 G_U32("general.quantization_version", 2)                      //
                 G_TENSOR2("a", 64, 2, 8, 0) G_TENSOR1("n", 3, 0, 160) "a32 *136 1 a32 *12 2 a32");
    const char *to = in_folder(state, "to.gguf");
    copy_file(from, to);
    check_same(want, to);
}

static kerf_status create(const char *path, const kerf_entry *e, const char *type,
                          const char *carried, kerf_error *err)
{
    const kerf_key_value pair[] = {{"gguf", carried}};
    const kerf_key_value *const metadata[] = {pair};
    const size_t count[] = {carried != NULL};
    const kerf_writer_options opt = {
        .overwrite = 1, .metadata = metadata, .metadata_count = count, .block_type = &type};
    kerf_writer *w = NULL;
    kerf_status s = kerf_writer_create(path, e, 1, &opt, &w, err);
    kerf_writer_abort(w);
    return s;
}

static void test_output_refusals(void **state)
{
    static const struct {
        kerf_entry entry;
        const char *type, *carried, *message;
    } bad[] = {
        {{"w", KERF_BOOL, {1, {4}}, 0}, NULL, NULL, "no tensors of BOOL"},
        {{"w", KERF_F8_E4M3, {1, {4}}, 0}, NULL, NULL, "no tensors of F8_E4M3"},
        {{"w", KERF_U8, {1, {34}}, 0}, "Q9_0", NULL, "no tensors of Q9_0"},
        {{"w", KERF_U8, {1, {33}}, 0}, "Q8_0", NULL, "not whole blocks"},
        {{"w", KERF_I8, {1, {34}}, 0}, "Q8_0", NULL, "not whole blocks"},
        {{"w", KERF_F32, {5, {1, 1, 1, 1, 1}}, 0}, NULL, NULL, "at most 4 dimensions"},
        {{"", KERF_F32, {1, {1}}, 0}, NULL, NULL, "needs a name"},
        {{"0123456789012345678901234567890123456789012345678901234567890123",
          KERF_F32,
          {1, {1}},
          0},
         NULL,
         NULL,
         "at most 63 bytes"},
        {{"w", KERF_F32, {1, {1}}, 0}, NULL, "abc", "not the header"},
        {{"w", KERF_F32, {1, {1}}, 0}, NULL, "ab#d", "not the header"},
        {{"w", KERF_F32, {1, {1}}, 0}, NULL, "", "needs 4 bytes"},
        {{"w", KERF_F32, {1, {1}}, 0}, NULL, "R0dVRgMAAAA=", "needs 8 bytes"},
    };
    const char *path = in_folder(state, "bad.gguf");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kerf_error e = {.text = ""};
        assert_true(create(path, &bad[i].entry, bad[i].type, bad[i].carried, &e) != KERF_OK);
        if (!strstr(e.text, bad[i].message)) fail_msg("%s: %s", bad[i].message, e.text);
        assert_false(is_there(path));
    }
    kerf_error e = {.text = ""}; /* blocks have no place in safetensors */
    const kerf_entry blocks = {"w", KERF_U8, {1, {34}}, 0};
    assert_int_equal(create(in_folder(state, "b.safetensors"), &blocks, "Q8_0", NULL, &e),
                     KERF_E_NOSUP);
}

/* Strings, where there is no header to follow. */
static void test_strings_as_keys(void **state)
{
    const char *path = in_folder(state, "strings.gguf");
    static const kerf_entry e[] = {{"w", KERF_F32, {2, {2, 3}}, 0}, {"v", KERF_I16, {0}, 0}};
    const kerf_key_value pair[] = {{"general.architecture", "llama"}, {"format", "pt"}};
    const kerf_key_value *const metadata[] = {pair};
    const size_t count[] = {2};
    const kerf_writer_options opt = {.metadata = metadata, .metadata_count = count};
    kerf_reader *r;
    kerf_error err;
    write_checkpoint(path, e, 2, &opt);
    must(kerf_reader_open(path, &r, &err), &err);
    check_tensor(r, &e[0]);
    assert_string_equal(kerf_reader_metadata(r, 0, "general.architecture"), "llama");
    assert_null(kerf_reader_metadata(r, 0, "format"));
    assert_non_null(kerf_reader_metadata(r, 0, "gguf"));
    assert_int_equal(kerf_reader_find(r, "v")->shape.dim[0], 1); /* a scalar is a row of one */
    kerf_reader_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_case),      cmocka_unit_test(test_unusual_but_good),
        cmocka_unit_test(test_truncated),       cmocka_unit_test(test_changed_bytes),
        cmocka_unit_test(test_same_file),       cmocka_unit_test(test_keys_that_change),
        cmocka_unit_test(test_output_refusals), cmocka_unit_test(test_strings_as_keys),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
