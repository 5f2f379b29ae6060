/* test_file_malformed.c - what is wrong with a file is found when it is opened, and said in one
 * line: the table of malformed.h, every truncation, and every byte changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <kerf/layouts.h>

#include "malformed.h"
#include "file/safetensors/safetensors.h"
#include "file/json/text.h"
#include "test_folder.h"

/* 1, and a line about it, when the answer is not the expected one. */
static size_t is_wrong(const struct malformed *m, kerf_status s, const kerf_error *e)
{
    if (s == m->status && e->status == s && strstr(e->text, m->message) && !strchr(e->text, '\n') &&
        kf_is_utf8(e->text))
        return 0;
    print_error("%s: %s \"%s\", expected %s \"%s\"\n", m->name, kerf_status_name(s), e->text,
                kerf_status_name(m->status), m->message);
    return 1;
}

static size_t open_case(const struct malformed *m, const char *path)
{
    kerf_error e = {0};
    kerf_reader *r = NULL;
    kerf_weights *w = NULL;
    kerf_status s = kerf_reader_open(path, &r, &e);
    if (m->kind == LAYOUT_CASE) {
        if (s != KERF_OK) fail_msg("%s: %s", m->name, e.text);
        s = kerf_weights_open(r, &w, &e);
        assert_null(w);
        kerf_reader_close(r);
        r = NULL;
    }
    assert_null(r);
    return is_wrong(m, s, &e);
}

static void test_every_case(void **state)
{
    char path[4096];
    size_t wrong = 0;
    for (size_t i = 0; i < MALFORMED_CASES; i++) {
        malformed_put(&malformed_cases[i], *state, path, sizeof path);
        wrong += open_case(&malformed_cases[i], path);
        /* without an error to fill: the same status */
        kerf_reader *r = NULL;
        if (malformed_cases[i].kind != LAYOUT_CASE)
            assert_int_equal(kerf_reader_open(path, &r, NULL), malformed_cases[i].status);
    }
    assert_int_equal(wrong, 0);
    assert_true(MALFORMED_CASES >= 80);
}

static void test_names_are_unique(void **state)
{
    (void)state;
    for (size_t i = 0; i < MALFORMED_CASES; i++)
        for (size_t k = i + 1; k < MALFORMED_CASES; k++)
            assert_string_not_equal(malformed_cases[i].name, malformed_cases[k].name);
}

/* A header that is larger than what is read, in a file that has it: sparse. */
static void test_header_above_the_limit(void **state)
{
    char path[4096];
    kerf_error e;
    kerf_reader *r = NULL;
    snprintf(path, sizeof path, "%s/large.safetensors", (char *)*state);
    put_file(*state, "large.safetensors", "\1\341\365\5\0\0\0\0{", 9);
    assert_int_equal(truncate(path, 100000100), 0);
    assert_int_equal(kerf_reader_open(path, &r, &e), KERF_E_LIMIT);
    assert_non_null(strstr(e.text, "at most 100000000"));
}

static void test_missing_files(void **state)
{
    char path[4096];
    kerf_error e;
    kerf_reader *r = NULL;
    snprintf(path, sizeof path, "%s/nothing.safetensors", (char *)*state);
    assert_int_equal(kerf_reader_open(path, &r, &e), KERF_E_IO);
    assert_int_equal(e.native, ENOENT);
    assert_non_null(strstr(e.text, path));
    snprintf(path, sizeof path, "%s/nothing", (char *)*state);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(kerf_reader_open(path, &r, &e), KERF_E_DATA);
    assert_non_null(strstr(e.text, "no model.safetensors"));
    assert_int_equal(kerf_reader_open("/dev/null", &r, &e), KERF_E_DATA);
    assert_non_null(strstr(e.text, "not a regular file"));
    snprintf(path, sizeof path, "%s/pipe.safetensors", (char *)*state);
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_int_equal(kerf_reader_open(path, &r, &e), KERF_E_DATA);
}

/* --- mutations of a good file, through the pure parser --- */

static const char good_header[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"k\\n\":\"\\u00e9\"},"
    "\"a\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
    "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[8,8]},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]}}  ";
#define GOOD_BYTES (sizeof good_header - 1)
#define GOOD_DATA 20u

static kerf_status parse(const char *text, size_t n, uint64_t file_bytes)
{
    /* exactly n bytes, so that a sanitizer sees one byte too many */
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    kf_header h;
    kerf_error e = {.text = "untouched"};
    kerf_status s = kf_header_parse("f", copy, n, file_bytes, &h, &e);
    free(copy);
    if (s == KERF_OK)
        kf_header_free(&h);
    else if (strchr(e.text, '\n') || strcmp(e.text, "untouched") == 0)
        fail_msg("bad text: %s", e.text);
    return s;
}

/* What looks odd and is legal. */
static void test_unusual_but_good(void **state)
{
    static const struct {
        const char *header;
        size_t data_bytes, tensors;
    } good[] = {
        {"{}", 0, 0},
        {"{} \t\r\n", 0, 0},
        {"{ }", 0, 0},
        {"{\"__metadata__\":{}}", 0, 0},
        {"{\"__metadata__\" : { } }", 0, 0},
        {"{\"__metadata__\":{\"\":\"\"}}", 0, 0},
        {"{\"\":" MALFORMED_GOOD "}", 8, 1},
        {"{\"a\" : { \"shape\" : [ 2 ] , \"dtype\" : \"F32\",\n\"data_offsets\":[0, 8] } }", 8, 1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":[1,\"}\",null]}}", 8,
         1},
        {"{\"\\u00e9\\\"{[\":" MALFORMED_GOOD "}", 8, 1},
        {"{\"\\ud83d\\ude80\":" MALFORMED_GOOD "}", 8, 1},
        {"{\"a\":{\"dty\\u0070e\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, 1},
        {ONE("\"F64\"", "[]", "[0,8]"), 8, 1},
        {ONE("\"U8\"", "[9007199254740992,0]", "[0,0]"), 0, 1},
        {ONE("\"F6_E3M2\"", "[4]", "[0,3]"), 3, 1},
        {ONE("\"F32\"", "[1,1,1,1,1,1,1,2]", "[0,8]"), 8, 1},
        {TWO(F32AT("[0]", "[0,0]"), F32AT("[0]", "[0,0]")), 0, 2},
        {TWO(F32AT("[0]", "[8,8]"), F32AT("[2]", "[0,8]")), 8, 2},
        {TWO(ENTRY("\"U8\"", "[1]", "[0,1]"), F32AT("[2]", "[1,9]")), 9, 2},
    };
    char path[4096];
    snprintf(path, sizeof path, "%s/good.safetensors", (char *)*state);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct bytes b = {0};
        kerf_reader *r = NULL;
        kerf_error e;
        bytes_file(&b, good[i].header, strlen(good[i].header), good[i].data_bytes);
        put_file(*state, "good.safetensors", b.p, b.n);
        free(b.p);
        if (kerf_reader_open(path, &r, &e) != KERF_OK) fail_msg("%s: %s", good[i].header, e.text);
        assert_int_equal(kerf_reader_count(r), good[i].tensors);
        kerf_reader_close(r);
    }
}

static void test_truncated_headers(void **state)
{
    (void)state;
    assert_int_equal(parse(good_header, GOOD_BYTES, 8 + GOOD_BYTES + GOOD_DATA), KERF_OK);
    for (size_t n = 0; n + 2 < GOOD_BYTES; n++)
        assert_int_equal(parse(good_header, n, 8 + n + GOOD_DATA), KERF_E_DATA);
}

static void test_truncated_files(void **state)
{
    struct bytes b = {0};
    char path[4096];
    bytes_file(&b, good_header, GOOD_BYTES, GOOD_DATA);
    snprintf(path, sizeof path, "%s/cut.safetensors", (char *)*state);
    for (size_t n = 0; n <= b.n + 1; n++) {
        kerf_reader *r = NULL;
        kerf_error e;
        put_file(*state, "cut.safetensors", b.p, n); /* with one byte too many at last */
        kerf_status s = kerf_reader_open(path, &r, &e);
        assert_int_equal(s, n == b.n ? KERF_OK : KERF_E_DATA);
        kerf_reader_close(r);
    }
    free(b.p);
}

/* Each byte becomes each of those that mean something to a parser. */
static void test_changed_bytes(void **state)
{
    (void)state;
    static const char other[] = "\0\t\n \"',-./01289:F[\\]_anu{}\x7f\x80\xc3\xff";
    char text[GOOD_BYTES];
    size_t accepted = 0;
    for (size_t i = 0; i < GOOD_BYTES; i++)
        for (size_t c = 0; c < sizeof other - 1; c++) {
            memcpy(text, good_header, GOOD_BYTES);
            text[i] = other[c];
            accepted += parse(text, GOOD_BYTES, 8 + GOOD_BYTES + GOOD_DATA) == KERF_OK;
        }
    /* names, metadata and like-sized dtypes may change; most of the rest may not */
    assert_in_range(accepted, GOOD_BYTES, GOOD_BYTES * sizeof other / 4);
}

/* Whatever one byte of a packed file becomes: refused, or the same content. */
static void test_changed_packed_bytes(void **state)
{
    static const struct malformed good = {.name = "good", .kind = PACKED_CASE};
    struct bytes b = {0};
    char path[4096];
    make_packed(&good, &b);
    snprintf(path, sizeof path, "%s/changed.safetensors.zst", (char *)*state);
    for (size_t i = 0; i < b.n; i++) {
        kerf_reader *r = NULL;
        kerf_error e;
        unsigned char data[160], zero[160] = {0};
        b.p[i] ^= (unsigned char)(1 << i % 8);
        put_file(*state, "changed.safetensors.zst", b.p, b.n);
        b.p[i] ^= (unsigned char)(1 << i % 8);
        kerf_status s = kerf_reader_open(path, &r, &e);
        if (s == KERF_OK) s = kerf_reader_read(r, kerf_reader_at(r, 0), 0, data, sizeof data, &e);
        if (s == KERF_OK)
            assert_memory_equal(data, zero, sizeof data);
        else
            assert_null(strchr(e.text, '\n'));
        kerf_reader_close(r);
    }
    free(b.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_case),
        cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_header_above_the_limit),
        cmocka_unit_test(test_missing_files),
        cmocka_unit_test(test_unusual_but_good),
        cmocka_unit_test(test_truncated_headers),
        cmocka_unit_test(test_truncated_files),
        cmocka_unit_test(test_changed_bytes),
        cmocka_unit_test(test_changed_packed_bytes),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
