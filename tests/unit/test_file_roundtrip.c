/* test_file_roundtrip.c - what is written is read back: every dtype, every shape, files, folders,
 * shards, packed and plain; and what the files look like to others. */
#include "test_output.h"

#include "base/base.h"
#include "file/read/reader.h"

static const kerf_entry mixed[] = {
    {"b.weight", KERF_BF16, {2, {3, 5}}, 0},
    {"a.weight", KERF_BF16, {2, {7, 2}}, 0},
    {"scalar", KERF_F32, {0, {0}}, 0},
    {"empty", KERF_F32, {2, {0, 9}}, 0},
    {"deep", KERF_U8, {8, {1, 2, 1, 3, 1, 1, 2, 1}}, 0},
    {"wide", KERF_I64, {1, {4}}, 0},
    {"\"\\\n\xc3\xa9/", KERF_BOOL, {1, {3}}, 0},
    {"packed", KERF_F4, {2, {2, 3}}, 0},
    {"six", KERF_F6_E2M3, {1, {4}}, 0},
};
#define MIXED (sizeof mixed / sizeof *mixed)

static void test_mixed(void **state)
{
    static const char *const names[] = {"mixed.safetensors", "mixed.safetensors.zst", "mixed"};
    for (int i = 0; i < 3; i++) {
        const char *path = in_folder(state, names[i]);
        write_checkpoint(path, mixed, MIXED, NULL);
        check_checkpoint(path, mixed, MIXED);
    }
    assert_int_equal(count_files(in_folder(state, "mixed")), 1);
}

static void test_every_dtype(void **state)
{
    static const kerf_entry all[] = {
#define X(name, bits) {#name "-tensor", KERF_##name, {1, {8}}, 0},
        KERF_DTYPES(X)
#undef X
    };
    const size_t count = sizeof all / sizeof *all;
    const char *path = in_folder(state, "dtypes.safetensors");
    kerf_reader *r;
    kerf_error err;
    write_checkpoint(path, all, count, NULL);
    check_checkpoint(path, all, count);
    /* the widest dtypes stand first, so that each tensor is aligned to its elements */
    must(kerf_reader_open(path, &r, &err), &err);
    for (size_t i = 0; i < count; i++) {
        const kerf_tensor *t = kerf_reader_at(r, i);
        assert_int_equal(t->dtype, all[count - 1 - i].dtype);
        if (kerf_dtype_bits(t->dtype) >= 8)
            assert_int_equal(t->offset * 8 % kerf_dtype_bits(t->dtype), 0);
    }
    assert_null(kerf_reader_at(r, count));
    assert_null(kerf_reader_find(r, "BF16"));
    kerf_reader_close(r);
}

static void test_no_tensors(void **state)
{
    write_checkpoint(in_folder(state, "none.safetensors"), NULL, 0, NULL);
    check_checkpoint(in_folder(state, "none.safetensors"), NULL, 0);
    write_checkpoint(in_folder(state, "none.safetensors.zst"), NULL, 0, NULL);
    check_checkpoint(in_folder(state, "none.safetensors.zst"), NULL, 0);
    write_checkpoint(in_folder(state, "none"), NULL, 0, NULL);
    check_checkpoint(in_folder(state, "none"), NULL, 0);
}

/* Byte for byte what the safetensors library writes for the same content, with metadata sorted. */
static void test_exact_bytes(void **state)
{
    static const kerf_entry e[] = {
        {"b", KERF_U8, {1, {3}}, 0}, {"a", KERF_U8, {2, {1, 1}}, 0}, {"z", KERF_F32, {0, {0}}, 0}};
    static const kerf_key_value pairs[] = {{"kerf", "{\"v\":1}"}, {"a", "b"}, {"format", "np"}};
    static const kerf_key_value *const metadata[] = {pairs};
    static const size_t pair_count[] = {3};
    const kerf_writer_options opt = {.metadata = metadata, .metadata_count = pair_count};
    static const char want[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"a\":\"b\",\"kerf\":\"{\\\"v\\\":1}\"},"
        "\"z\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[4,5]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[5,8]}}";
    const char *path = in_folder(state, "exact.safetensors");
    kerf_writer *w;
    kerf_error err;
    must(kerf_writer_create(path, e, 3, &opt, &w, &err), &err);
    write_entries(w, e, 3);
    uint64_t bytes = kerf_writer_bytes(w);
    must(kerf_writer_commit(w, &err), &err);

    size_t n, header = (sizeof want - 1 + 7) / 8 * 8;
    char *text = read_text(path, &n);
    assert_int_equal(n, 8 + header + 8);
    assert_int_equal(n, bytes);
    assert_int_equal((unsigned char)text[0] | (unsigned char)text[1] << 8, (int)header);
    assert_memory_equal(text + 8, want, sizeof want - 1);
    for (size_t i = sizeof want - 1; i < header; i++) assert_int_equal(text[8 + i], ' ');
    free(text);

    kerf_reader *r;
    const char *key, *value;
    must(kerf_reader_open(path, &r, &err), &err);
    assert_string_equal(kerf_reader_metadata(r, 0, "format"), "pt");
    assert_string_equal(kerf_reader_metadata(r, 0, "kerf"), "{\"v\":1}");
    assert_null(kerf_reader_metadata(r, 0, "b"));
    assert_null(kerf_reader_metadata(r, 1, "format"));
    assert_int_equal(kerf_reader_metadata_at(r, 0, 0, &key, &value), 1);
    assert_string_equal(key, "a");
    assert_int_equal(kerf_reader_metadata_at(r, 0, 3, &key, &value), 0);
    assert_int_equal(kerf_reader_is_folder(r), 0);
    assert_string_equal(kerf_reader_folder(r), (const char *)*state);
    assert_string_equal(kerf_reader_shard(r, 0), "exact.safetensors");
    assert_null(kerf_reader_shard(r, 1));
    kerf_reader_close(r);
}

/* --- folders and shards --- */

static const kerf_entry sharded[] = {
    {"model.b", KERF_BF16, {2, {8, 8}}, 0},
    {"model.a", KERF_F32, {1, {5}}, 1},
    {"model.c", KERF_U8, {1, {0}}, 1},
    {"lm_head", KERF_BF16, {2, {3, 3}}, 0},
};
static const char *const plain_names[] = {"model-00001-of-00002.safetensors",
                                          "model-00002-of-00002.safetensors"};
static const char *const packed_names[] = {"model-00001-of-00002.safetensors.zst",
                                           "model-00002-of-00002.safetensors.zst"};
static const char index_text[] = "{\n  \"metadata\": {\n    \"total_size\": 166\n  },\n"
                                 "  \"weight_map\": {\n"
                                 "    \"lm_head\": \"model-00001-of-00002.safetensors\",\n"
                                 "    \"model.a\": \"model-00002-of-00002.safetensors\",\n"
                                 "    \"model.b\": \"model-00001-of-00002.safetensors\",\n"
                                 "    \"model.c\": \"model-00002-of-00002.safetensors\"\n"
                                 "  }\n}\n";

static void check_index_text(void **state, const char *path)
{
    size_t n;
    char *text = read_text(in_folder(state, path), &n);
    assert_string_equal(text, index_text);
    free(text);
}

static void test_shards(void **state)
{
    const kerf_writer_options opt = {.shard = plain_names, .shards = 2};
    const char *path = in_folder(state, "shards");
    kerf_reader *r;
    kerf_error err;
    write_checkpoint(path, sharded, 4, &opt);
    check_checkpoint(path, sharded, 4);
    check_index_text(state, "shards/model.safetensors.index.json");
    assert_int_equal(count_files(path), 3);

    must(kerf_reader_open(path, &r, &err), &err);
    assert_int_equal(kerf_reader_is_folder(r), 1);
    assert_int_equal(kerf_reader_shard_count(r), 2);
    assert_string_equal(kerf_reader_shard(r, 1), plain_names[1]);
    assert_string_equal(kerf_reader_metadata(r, 1, "format"), "pt");
    for (size_t i = 1; i < 4; i++) { /* by shard, then front to back */
        const kerf_tensor *a = kerf_reader_at(r, i - 1), *b = kerf_reader_at(r, i);
        assert_true(a->shard < b->shard || (a->shard == b->shard && a->offset <= b->offset));
    }
    kerf_reader_close(r);
}

/* The index names the unpacked files, so that a folder survives `zstd -d --rm *.zst`. */
static void test_packed_shards(void **state)
{
    const kerf_writer_options opt = {.shard = packed_names, .shards = 2};
    const char *path = in_folder(state, "packed-shards");
    kerf_reader *r;
    kerf_error err;
    write_checkpoint(path, sharded, 4, &opt);
    check_checkpoint(path, sharded, 4);
    check_index_text(state, "packed-shards/model.safetensors.index.json");
    assert_int_equal(count_files(path), 3);
    must(kerf_reader_open(path, &r, &err), &err);
    assert_string_equal(kerf_reader_shard(r, 0), packed_names[0]);
    kerf_reader_close(r);
}

/* One shard under another name than model.safetensors is found through an index. */
static void test_one_named_shard(void **state)
{
    static const char *const name[] = {"model-00001-of-00001.safetensors"};
    const kerf_writer_options opt = {.shard = name, .shards = 1};
    write_checkpoint(in_folder(state, "one"), mixed, MIXED, &opt);
    check_checkpoint(in_folder(state, "one"), mixed, MIXED);
    assert_int_equal(count_files(in_folder(state, "one")), 2);
}

static void test_index_of_others(void **state)
{
    static const kerf_entry a[] = {{"a", KERF_F32, {1, {2}}, 0}},
                            b[] = {{"b", KERF_I8, {1, {1}}, 0}};
    const kerf_entry both[] = {a[0], b[0]};
    free(sub_folder(state, "others"));
    write_checkpoint(in_folder(state, "others/x.safetensors"), a, 1, NULL);
    write_checkpoint(in_folder(state, "others/y.safetensors.zst"), b, 1, NULL);
    put_text(in_folder(state, "others/model.safetensors.index.json"),
             " {\"metadata\":{\"total_size\":1.6e1,\"x\":-1},\"other\":[null,true],"
             "\"weight_map\":{\"b\":\"y.safetensors\",\"a\":\"x.safetensors\"}}\n");
    check_checkpoint(in_folder(state, "others"), both, 2);
}

/* --- small files --- */

static void test_companions(void **state)
{
    static const char *const copied[] = {"config.json", "tokenizer.json", "tokenizer.model",
                                         "merges.txt",  "modeling_x.py",  "README.md"};
    static const char *const left[] = {"pytorch_model.bin", "x.gguf", "notes.txt", "old.pt",
                                       "tokenizer.safetensors"};
    kerf_reader *r;
    kerf_error err;
    const kerf_writer_options in_shards = {.shard = plain_names, .shards = 2};
    write_checkpoint(in_folder(state, "source"), sharded, 4, &in_shards);
    for (size_t i = 0; i < 6; i++) {
        char name[64];
        snprintf(name, sizeof name, "source/%s", copied[i]);
        put_text(in_folder(state, name), copied[i]);
    }
    for (size_t i = 0; i < 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "source/%s", left[i]);
        put_text(in_folder(state, name), left[i]);
    }
    free(sub_folder(state, "source/tokenizer_folder"));
    must(kerf_reader_open(in_folder(state, "source"), &r, &err), &err);
    const kerf_writer_options opt = {.source = r};
    write_checkpoint(in_folder(state, "target"), mixed, MIXED, &opt);
    kerf_reader_close(r);
    check_checkpoint(in_folder(state, "target"), mixed, MIXED);
    assert_int_equal(count_files(in_folder(state, "target")), 1 + 6);
    for (size_t i = 0; i < 6; i++) {
        char name[64];
        size_t n;
        snprintf(name, sizeof name, "target/%s", copied[i]);
        char *text = read_text(in_folder(state, name), &n);
        assert_string_equal(text, copied[i]);
        free(text);
    }
}

static void test_permissions(void **state)
{
    struct stat st;
    mode_t old = umask(027);
    write_checkpoint(in_folder(state, "mode.safetensors"), mixed, MIXED, NULL);
    write_checkpoint(in_folder(state, "mode"), mixed, MIXED, NULL);
    umask(old);
    assert_int_equal(stat(in_folder(state, "mode.safetensors"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(stat(in_folder(state, "mode"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
}

/* --- size and order of writes --- */

struct piecewise {
    kerf_writer *w;
    unsigned char *p;
    size_t n, pieces;
};

static kerf_status write_piece(void *ctx, uint64_t i)
{
    struct piecewise *j = ctx;
    i = (i * 7) % j->pieces; /* any order */
    size_t first = j->n * i / j->pieces, end = j->n * (i + 1) / j->pieces;
    return kerf_writer_write(j->w, 0, first, j->p + first, end - first, NULL);
}

static void test_parallel_writes(void **state)
{
    static const kerf_entry e[] = {{"large", KERF_U8, {2, {13, 1000003}}, 0}};
    static const char *const names[] = {"large.safetensors", "large.safetensors.zst"};
    struct piecewise j = {.n = entry_bytes(e), .pieces = 100};
    kerf_error err;
    j.p = malloc(j.n);
    assert_non_null(j.p);
    fill(e, j.p, j.n);
    for (int i = 0; i < 2; i++) {
        must(kerf_writer_create(in_folder(state, names[i]), e, 1, NULL, &j.w, &err), &err);
        assert_int_equal(kf_parallel(j.pieces, 4, write_piece, &j), KERF_OK);
        must(kerf_writer_commit(j.w, &err), &err);
        check_checkpoint(in_folder(state, names[i]), e, 1);
    }
    /* in one call, which is more than one record of the ledger */
    must(kerf_writer_create(in_folder(state, "once.safetensors"), e, 1, NULL, &j.w, &err), &err);
    must(kerf_writer_write(j.w, 0, 0, j.p, j.n, &err), &err);
    must(kerf_writer_commit(j.w, &err), &err);
    check_checkpoint(in_folder(state, "once.safetensors"), e, 1);
    free(j.p);
}

struct concurrent {
    kerf_reader *r;
    const kerf_entry *e;
};

static kerf_status read_piece(void *ctx, uint64_t i)
{
    struct concurrent *c = ctx;
    unsigned char p[5000];
    size_t offset = (size_t)(i * 48611 % (entry_bytes(c->e) - sizeof p));
    kerf_status s = kerf_reader_read(c->r, kerf_reader_at(c->r, 0), offset, p, sizeof p, NULL);
    for (size_t k = 0; k < sizeof p && s == KERF_OK; k++)
        if (p[k] != byte_of(c->e->name, offset + k)) s = KERF_E_DATA;
    return s;
}

static void test_parallel_reads(void **state)
{
    static const kerf_entry e[] = {{"large", KERF_U8, {1, {5000000}}, 0}};
    struct concurrent c = {.e = e};
    kerf_error err;
    write_checkpoint(in_folder(state, "reads.safetensors.zst"), e, 1, NULL);
    must(kerf_reader_open(in_folder(state, "reads.safetensors.zst"), &c.r, &err), &err);
    assert_int_equal(kf_parallel(400, 4, read_piece, &c), KERF_OK);
    kerf_reader_close(c.r);
}

static void test_real_model(void **state)
{
    kerf_reader *r;
    kerf_error err;
    kerf_writer *w;
    must(kerf_reader_open(KERF_TEST_DATA "/tiny-llama", &r, &err), &err);
    size_t count = kerf_reader_count(r);
    kerf_entry *e = calloc(count, sizeof *e);
    assert_non_null(e);
    for (size_t i = 0; i < count; i++) {
        const kerf_tensor *t = kerf_reader_at(r, i);
        e[i] = (kerf_entry){t->name, t->dtype, t->shape, 0};
    }
    const char *path = in_folder(state, "copy.safetensors");
    must(kerf_writer_create(path, e, count, NULL, &w, &err), &err);
    for (size_t i = 0; i < count; i++) {
        const kerf_tensor *t = kerf_reader_at(r, i);
        void *p = malloc((size_t)t->bytes);
        assert_non_null(p);
        must(kerf_reader_read(r, t, 0, p, (size_t)t->bytes, &err), &err);
        must(kerf_writer_write(w, i, 0, p, (size_t)t->bytes, &err), &err);
        free(p);
    }
    must(kerf_writer_commit(w, &err), &err);
    kerf_reader_close(r);
    free(e);
    char command[9000];
    snprintf(command, sizeof command, "cmp '%s' '%s'", path,
             KERF_TEST_DATA "/tiny-llama/model.safetensors");
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed),           cmocka_unit_test(test_every_dtype),
        cmocka_unit_test(test_no_tensors),      cmocka_unit_test(test_exact_bytes),
        cmocka_unit_test(test_shards),          cmocka_unit_test(test_packed_shards),
        cmocka_unit_test(test_one_named_shard), cmocka_unit_test(test_index_of_others),
        cmocka_unit_test(test_companions),      cmocka_unit_test(test_permissions),
        cmocka_unit_test(test_parallel_writes), cmocka_unit_test(test_parallel_reads),
        cmocka_unit_test(test_real_model),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
