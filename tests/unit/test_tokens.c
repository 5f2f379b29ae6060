/* test_tokens.c - files of tokens: every form gives the same list, and what is no such file is
 * refused with its place. */
#include <kerf/forward.h>
#include <kerf/tokens.h>

#include "test_output.h"

static const uint16_t tokens[6] = {1, 2, 300, 4, 4095, 0};

static const char *write_bytes(void **state, const char *name, const void *p, size_t n)
{
    const char *path = in_folder(state, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* The tokens as elements of `bytes` bytes, little-endian. */
static size_t put_tokens(uint8_t *out, unsigned bytes)
{
    memset(out, 0, 6 * bytes);
    for (size_t i = 0; i < 6; i++) {
        out[i * bytes] = (uint8_t)tokens[i];
        out[i * bytes + 1] = (uint8_t)(tokens[i] >> 8);
    }
    return 6 * bytes;
}

static const char *write_npy(void **state, const char *text, unsigned bytes)
{
    uint8_t file[512] = "\x93NUMPY\x01";
    const size_t n = strlen(text);
    file[8] = (uint8_t)n;
    file[9] = (uint8_t)(n >> 8);
    memcpy(file + 10, text, n);
    return write_bytes(state, "t.npy", file, 10 + n + put_tokens(file + 10 + n, bytes));
}

static void expect_tokens(const char *path, uint64_t length)
{
    kerf_token_list l;
    kerf_error err;
    must(kerf_tokens_read(path, 4096, &l, &err), &err);
    assert_int_equal(l.count, 6);
    assert_int_equal(l.length, length);
    for (size_t i = 0; i < 6; i++) assert_int_equal(l.token[i], tokens[i]);
    kerf_token_list_free(&l);
    assert_null(l.token);
}

static void expect_failure(const char *path, uint64_t vocabulary, kerf_status s, const char *part)
{
    kerf_token_list l;
    kerf_error err = {0};
    assert_int_equal(kerf_tokens_read(path, vocabulary, &l, &err), s);
    if (!strstr(err.text, part)) fail_msg("\"%s\" says nothing of \"%s\"", err.text, part);
    assert_null(l.token);
}

static void test_forms(void **state)
{
    static const struct {
        const char *descr;
        unsigned bytes;
    } of[] = {{"<u2", 2}, {"<i2", 2}, {"<u4", 4}, {"<i4", 4}, {"<u8", 8}, {"<i8", 8}};
    uint8_t raw[48];
    char text[128];
    expect_tokens(write_bytes(state, "t.u16", raw, put_tokens(raw, 2)), 0);
    expect_tokens(write_bytes(state, "t.u32", raw, put_tokens(raw, 4)), 0);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (6,), }   \n",
                 of[i].descr);
        expect_tokens(write_npy(state, text, of[i].bytes), 0);
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }\n",
                 of[i].descr);
        expect_tokens(write_npy(state, text, of[i].bytes), 3);
    }
}

static void test_safetensors(void **state)
{
    const kerf_entry e[3] = {{"input_ids", KERF_I64, {2, {3, 2}}, 0},
                             {"mask", KERF_U8, {1, {6}}, 0},
                             {"scale", KERF_F64, {1, {6}}, 0}};
    const char *path = in_folder(state, "t.safetensors");
    uint8_t raw[48];
    kerf_writer *w;
    kerf_error err;
    put_tokens(raw, 8);
    must(kerf_writer_create(path, e, 3, NULL, &w, &err), &err);
    for (size_t i = 0; i < 3; i++)
        must(kerf_writer_write(w, i, 0, raw, i == 1 ? 6 : 48, &err), &err);
    must(kerf_writer_commit(w, &err), &err);
    expect_tokens(path, 2);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *text;
        kerf_status status;
        const char *part;
    } npy[] = {
        {"{'descr': '>u2', 'fortran_order': False, 'shape': (6,), }", KERF_E_NOSUP, "astype"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", KERF_E_NOSUP, "astype"},
        {"{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (6,), }", KERF_E_NOSUP, "ast"},
        {"{'descr': '<u2', 'fortran_order': True, 'shape': (2, 3), }", KERF_E_NOSUP, "contiguous"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (1, 2, 3), }", KERF_E_NOSUP, "reshape"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (), }", KERF_E_NOSUP, "reshape"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (7,), }", KERF_E_DATA, "cut"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (5,), }", KERF_E_DATA, "shape"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
         KERF_E_DATA, "shape"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (99999999999999999999999,), }",
         KERF_E_DATA, "64 bits"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (-6,), }", KERF_E_DATA, "no shape"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (6", KERF_E_DATA, "no shape"},
        {"{'descr': '<u2', 'shape': (6,), }", KERF_E_DATA, "dictionary"},
        {"", KERF_E_DATA, "dictionary"},
    };
    const uint8_t odd[3] = {1, 2, 3};
    uint8_t raw[48];
    for (size_t i = 0; i < sizeof npy / sizeof *npy; i++)
        expect_failure(write_npy(state, npy[i].text, 2), 0, npy[i].status, npy[i].part);
    expect_failure(write_bytes(state, "odd.u16", odd, 3), 0, KERF_E_DATA, "whole number");
    expect_failure(write_bytes(state, "none.u32", odd, 0), 0, KERF_E_DATA, "no tokens");
    expect_failure(write_bytes(state, "t.txt", odd, 3), 0, KERF_E_NOSUP, ".npy");
    expect_failure(write_bytes(state, "s.npy", odd, 3), 0, KERF_E_DATA, "too short");
    expect_failure(write_bytes(state, "l.npy", "\x93NUMPY\x03\0\xff\xff\xff\xff", 12), 0,
                   KERF_E_LIMIT, "too long");
    expect_failure(in_folder(state, "absent.u16"), 0, KERF_E_IO, "absent");
    expect_failure(write_bytes(state, "t.u16", raw, put_tokens(raw, 2)), 4095, KERF_E_DATA,
                   "token 4 is 4095");
    expect_failure(write_npy(state, "{'descr': '<i2', 'fortran_order': False, 'shape': (6,), }", 2),
                   300, KERF_E_DATA, "token 2 is 300");
}

static void test_negative(void **state)
{
    uint8_t file[96] = "\x93NUMPY\x01";
    const char *text = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }";
    const size_t n = strlen(text);
    file[8] = (uint8_t)n;
    memcpy(file + 10, text, n);
    memset(file + 14 + n, 0xff, 4);
    expect_failure(write_bytes(state, "m.npy", file, 18 + n), 0, KERF_E_DATA,
                   "token 1 is negative");
}

/* What a model is run on: of a stream, rows are as long as its context. */
static void test_tokens_for_a_model(void **state)
{
    static const char file[] = KERF_TEST_DATA "/tiny-llama/eval.u16";
    static const char text[] = KERF_TEST_DATA "/tiny-llama/config.json";
    kerf_checkpoint *c = NULL;
    kerf_decoder *d = NULL;
    kerf_token_list list;
    kerf_error err;
    struct stat st;
    uint64_t length = 0;
    uint32_t rows[6] = {1, 2, 3, 4, 5, 6};
    must(kerf_checkpoint_open(KERF_TEST_DATA "/tiny-llama", &c, &err), &err);
    must(kerf_decoder_open(c, NULL, &d, &err), &err);
    const uint64_t context = kerf_decoder_about(d)->context, vocab = kerf_decoder_about(d)->vocab;
    kerf_decoder_close(d);
    must(kerf_tokens_for(c, NULL, file, &list, &length, &err), &err);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(list.count, st.st_size / 2);
    assert_true(length == context || (context > 2048 && length == 2048));
    kerf_token_list_free(&list);
    const kerf_status cut = kerf_tokens_for(c, text, NULL, &list, &length, &err);
    if (cut == KERF_E_NOSUP) { /* a build that cannot cut texts says so */
        assert_non_null(strstr(err.text, "libpcre2-dev"));
    } else {
        must(cut, &err);
        assert_true(list.count > 10 && list.count < 2000);
        for (uint64_t i = 0; i < list.count; i++) assert_true(list.token[i] < vocab);
    }
    kerf_token_list_free(&list);
    assert_int_equal(kerf_tokens_for(c, NULL, NULL, &list, &length, &err), KERF_E_ARG);
    kerf_token_list_free(&list);
    assert_int_equal(kerf_tokens_for(c, text, file, &list, &length, &err), KERF_E_ARG);
    kerf_token_list_free(&list);
    rows[5] = (uint32_t)vocab; /* one that the model does not have */
    assert_int_equal(kerf_tokens_for(c, NULL, write_bytes(state, "far.u32", rows, sizeof rows),
                                     &list, &length, &err),
                     KERF_E_DATA);
    kerf_token_list_free(&list);
    kerf_checkpoint_close(c);
}

/* Rows begin by the template of a tokenizer, or stay as they were: tests/cli/calibrate.sh has one
 * that can. */
static void test_beginnings(void **state)
{
    (void)state;
    kerf_checkpoint *c = NULL;
    kerf_error err;
    uint32_t token[6] = {1, 2, 3, 4, 5, 6};
    kerf_token_list list = {token, 6, 3};
    must(kerf_checkpoint_open(KERF_TEST_DATA "/tiny-llama", &c, &err), &err);
    assert_int_equal(kerf_tokens_begin_rows(c, 3, &list, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "these tokens have rows"));
    list.length = 0;
    assert_int_equal(kerf_tokens_begin_rows(c, 3, &list, &err), KERF_E_NOSUP);
    assert_true(strstr(err.text, "no template") || strstr(err.text, "libpcre2-dev"));
    assert_true(list.token == token && list.count == 6 && list.length == 0);
    kerf_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_for_a_model), cmocka_unit_test(test_forms),
        cmocka_unit_test(test_safetensors),        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_negative),           cmocka_unit_test(test_beginnings),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
