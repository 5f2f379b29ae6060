/* test_file_seekable.c - *.safetensors.zst: plain zstd gives the safetensors file back, a tensor
 * costs the frames that it touches, and the bytes depend on nothing but content and level. */
#include "test_output.h"

#include <fcntl.h>
#include <zstd.h>

#include "file/disk/seekable.h"

/* Nine frames of 1 MiB; "m" starts and ends inside of frames. */
static const kerf_entry large[] = {{"z", KERF_U32, {2, {300, 1111}}, 0},
                                   {"m", KERF_U8, {1, {3456789}}, 0},
                                   {"n", KERF_U8, {1, {4000000}}, 0}};

static void write_large(void **state, const char *name, int threads, int level)
{
    const kerf_writer_options opt = {.threads = threads, .zstd_level = level};
    write_checkpoint(in_folder(state, name), large, 3, &opt);
}

static int run(const char *format, const char *a, const char *b)
{
    char command[9000];
    snprintf(command, sizeof command, format, a, b);
    return system(command);
}

static void test_plain_zstd_unpacks(void **state)
{
    const char *packed = in_folder(state, "a.safetensors.zst"),
               *plain = in_folder(state, "a.safetensors");
    write_large(state, "a.safetensors.zst", 0, 0);
    write_large(state, "a.safetensors", 0, 0);
    if (system("zstd --version >/dev/null 2>&1") != 0) skip();
    assert_int_equal(run("zstd -tq '%s'", packed, ""), 0);
    assert_int_equal(run("zstd -dcq '%s' | cmp - '%s'", packed, plain), 0);
}

static void test_same_bytes(void **state)
{
    write_large(state, "t1.safetensors.zst", 1, 0);
    write_large(state, "t3.safetensors.zst", 3, 3); /* 3 is the default level */
    write_large(state, "l19.safetensors.zst", 0, 9);
    const char *one = in_folder(state, "t1.safetensors.zst");
    assert_int_equal(run("cmp '%s' '%s'", one, in_folder(state, "t3.safetensors.zst")), 0);
    assert_int_not_equal(run("cmp -s '%s' '%s'", one, in_folder(state, "l19.safetensors.zst")), 0);
    check_checkpoint(in_folder(state, "l19.safetensors.zst"), large, 3);
}

/* Every frame that tensor "m" does not touch is destroyed; "m" is still read. */
static void test_only_touched_frames(void **state)
{
    const char *path = in_folder(state, "touched.safetensors.zst");
    kerf_reader *r;
    kerf_error err;
    write_large(state, "touched.safetensors.zst", 0, 0);
    must(kerf_reader_open(path, &r, &err), &err);
    const kerf_tensor *m = kerf_reader_find(r, "m");
    uint64_t first = m->offset / KF_SEEK_FRAME_BYTES;
    uint64_t last = (m->offset + m->bytes - 1) / KF_SEEK_FRAME_BYTES;
    assert_true(first > 0 && last < 8);

    int fd = open(path, O_RDWR);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    unsigned char table[8 + 9 * 12 + 9];
    assert_int_equal(pread(fd, table, sizeof table, st.st_size - (off_t)sizeof table),
                     (ssize_t)sizeof table);
    off_t at = 0;
    for (uint64_t f = 0; f < 9; f++) {
        uint32_t bytes;
        memcpy(&bytes, table + 8 + 12 * f, 4);
        if (f < first || f > last)
            assert_int_equal(pwrite(fd, "\0\0\0\0", 4, at), 4); /* its magic */
        at += bytes;
    }
    close(fd);

    check_tensor(r, &large[1]);
    unsigned char byte;
    assert_int_equal(kerf_reader_read(r, kerf_reader_find(r, "n"), 3999999, &byte, 1, &err),
                     KERF_E_DATA);
    assert_non_null(strstr(err.text, "zstd frame 8"));
    kerf_reader_close(r);
}

/* What other writers of the format make: large frames, no checksums. */
static void test_foreign_table(void **state)
{
    static const kerf_entry e[] = {{"x", KERF_U8, {1, {30000}}, 0}};
    const char *plain = in_folder(state, "f.safetensors"),
               *packed = in_folder(state, "f.safetensors.zst");
    write_checkpoint(plain, e, 1, NULL);
    size_t n;
    unsigned char *text = (unsigned char *)read_text(plain, &n);
    FILE *f = fopen(packed, "wb");
    assert_non_null(f);
    uint32_t table[2 + 2 * 2] = {KF_SEEK_TABLE_MAGIC, 2 * 8 + 9};
    static unsigned char out[65536];
    for (size_t i = 0, at = 0; i < 2; i++) {
        size_t part = i == 0 ? 20001 : n - 20001;
        size_t bytes = ZSTD_compress(out, sizeof out, text + at, part, 5);
        assert_false(ZSTD_isError(bytes));
        assert_int_equal(fwrite(out, 1, bytes, f), bytes);
        table[2 + 2 * i] = (uint32_t)bytes;
        table[3 + 2 * i] = (uint32_t)part;
        at += part;
    }
    static const unsigned char footer[] = {2, 0, 0, 0, 0, 0xb1, 0xea, 0x92, 0x8f};
    assert_int_equal(fwrite(table, 1, sizeof table, f), sizeof table);
    assert_int_equal(fwrite(footer, 1, sizeof footer, f), sizeof footer);
    assert_int_equal(fclose(f), 0);
    free(text);
    check_checkpoint(packed, e, 1);
}

static void test_plain_stream_is_refused(void **state)
{
    const char *plain = in_folder(state, "p.safetensors"),
               *packed = in_folder(state, "p.safetensors.zst");
    kerf_reader *r = NULL;
    kerf_error err;
    write_checkpoint(plain, large, 3, NULL);
    if (run("zstd -q '%s' -o '%s' 2>/dev/null", plain, packed) != 0) skip();
    assert_int_equal(kerf_reader_open(packed, &r, &err), KERF_E_NOSUP);
    assert_non_null(strstr(err.text, "zstd -d"));
    assert_non_null(strstr(err.text, "*.safetensors.zst"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_zstd_unpacks),      cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_only_touched_frames),     cmocka_unit_test(test_foreign_table),
        cmocka_unit_test(test_plain_stream_is_refused),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
