/* test_json_read.c - the one reader of JSON files: what it takes, and that every way in which a
 * file can be wrong has a status and a text of its own and makes nobody wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/json/json_read.h"
#include "test_folder.h"

#define LIMIT 100u

static char path[4096];

static void put(const char *text, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static kerf_status read_it(kf_json_dialect dialect, json_t **out, kerf_error *err)
{
    *err = (kerf_error){.status = KERF_OK};
    *out = (json_t *)&path; /* must be replaced whatever happens */
    kerf_status s = kf_json_read(path, LIMIT, dialect, out, err);
    assert_int_equal(*out != NULL, s == KERF_OK);
    assert_int_equal(err->status, s);
    return s;
}

static void expect(kerf_status wanted, const char *part)
{
    json_t *j;
    kerf_error e;
    kerf_status s = read_it(KF_JSON_STRICT, &j, &e);
    json_decref(j);
    if (s != wanted || !strstr(e.text, part) || strncmp(e.text, path, strlen(path)) != 0)
        fail_msg("%s \"%s\", expected %s \"%s\"", kerf_status_name(s), e.text,
                 kerf_status_name(wanted), part);
    assert_int_equal(kf_json_is_absent(path, s, &e), access(path, F_OK) != 0);
}

static void test_object(void **state)
{
    json_t *j;
    kerf_error e;
    put("{\"a\": [1, 2.5, null], \"b\": \"x\"}\n", 32);
    assert_int_equal(read_it(KF_JSON_STRICT, &j, &e), KERF_OK);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(j, "a"), 0)), 1);
    assert_string_equal(json_string_value(json_object_get(j, "b")), "x");
    json_decref(j);
    (void)state;
}

/* As large as the limit, and a byte larger. */
static void test_limit(void **state)
{
    char text[LIMIT + 1];
    json_t *j;
    kerf_error e;
    memset(text, ' ', sizeof text);
    memcpy(text, "{}", 2);
    put(text, LIMIT);
    assert_int_equal(read_it(KF_JSON_STRICT, &j, &e), KERF_OK);
    json_decref(j);
    put(text, LIMIT + 1);
    expect(KERF_E_LIMIT, "101 bytes, at most 100 are read");
    (void)state;
}

/* Nobody writes to the pipe: a reader that waits hangs here. */
static void test_what_is_no_file(void **state)
{
    unlink(path);
    expect(KERF_E_IO, "No such file");
    assert_int_equal(mkfifo(path, 0666), 0);
    expect(KERF_E_DATA, "not a regular file");
    unlink(path);
    assert_int_equal(mkdir(path, 0777), 0);
    expect(KERF_E_DATA, "not a regular file");
    rmdir(path);
    assert_int_equal(symlink("/dev/zero", path), 0);
    expect(KERF_E_DATA, "not a regular file");
    unlink(path);
    (void)state;
}

static void test_unreadable(void **state)
{
    json_t *j;
    kerf_error e;
    assert_int_equal(symlink(strrchr(path, '/') + 1, path), 0); /* to itself */
    assert_int_equal(read_it(KF_JSON_STRICT, &j, &e), KERF_E_IO);
    assert_int_equal(e.native, ELOOP);
    assert_false(kf_json_is_absent(path, KERF_E_IO, &e));
    unlink(path);
    if (geteuid() == 0) return; /* who may read everything */
    put("{}", 2);
    chmod(path, 0);
    assert_int_equal(read_it(KF_JSON_STRICT, &j, &e), KERF_E_IO);
    assert_int_equal(e.native, EACCES);
    unlink(path);
    (void)state;
}

static void test_malformed(void **state)
{
    static const struct {
        const char *text;
        size_t n;
        const char *part;
    } bad[] = {
        {"", 0, "is empty"},
        {"{\"error\":\"x\"}", 13, "an error of a server"},
        {"{\"a\":\n1,\n", 9, ":3: "},
        {"{\"a\":1,\"a\":2}", 13, "duplicate"},
        {"{\"x\":{\"a\":1,\"a\":1}}", 19, "duplicate"},
        {"{} {}", 5, ":1: "},
        {"{}\0", 3, ":1: "},
        {"{\"a\":\"\\u0000\"}", 14, ":1: "},
        {"{\"a\":\"\xff\"}", 9, ":1: "},
        {"[1]", 3, "not a JSON object"},
        {"{\"a\":NaN}", 9, ":1: "},
        {"{\"a\":100000000000000000000}", 27, ":1: "},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put(bad[i].text, bad[i].n);
        expect(KERF_E_DATA, bad[i].part);
    }
    (void)state;
}

/* In strings they are text; elsewhere numbers that are not JSON's become 0, and all else stays. */
static void test_python(void **state)
{
    static const char text[] = "{\"s\":\"NaN \\\" 1\",\"n\":NaN,\"i\":[-Infinity,1],"
                               "\"l\":100000000000000000000,\"m\":7}";
    json_t *j;
    kerf_error e;
    put(text, sizeof text - 1);
    assert_int_equal(read_it(KF_JSON_PYTHON, &j, &e), KERF_OK);
    assert_string_equal(json_string_value(json_object_get(j, "s")), "NaN \" 1");
    assert_true(json_is_integer(json_object_get(j, "n")));
    assert_int_equal(json_array_size(json_object_get(j, "i")), 2);
    assert_int_equal(json_integer_value(json_object_get(j, "l")), 0);
    assert_int_equal(json_integer_value(json_object_get(j, "m")), 7);
    json_decref(j);
    put("{\"a\":nan}", 9);
    assert_int_equal(read_it(KF_JSON_PYTHON, &j, &e), KERF_E_DATA);
    (void)state;
}

static void test_text(void **state)
{
    json_t *j;
    kerf_error e = {0};
    assert_int_equal(kf_json_parse("here", "{\"a\":NaN}", 9, KF_JSON_PYTHON, &j, &e), KERF_OK);
    json_decref(j);
    assert_int_equal(kf_json_parse("here", "{\"a\":NaN}", 9, KF_JSON_STRICT, &j, &e), KERF_E_DATA);
    assert_null(j);
    assert_memory_equal(e.text, "here:1: ", 8);
    assert_int_equal(kf_json_parse("here", "{", 1, KF_JSON_STRICT, &j, NULL), KERF_E_DATA);
    (void)state;
}

static int set_up(void **state)
{
    if (make_test_folder(state) != 0) return -1;
    return snprintf(path, sizeof path, "%s/x.json", (const char *)*state) < (int)sizeof path ? 0
                                                                                             : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_object),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_what_is_no_file),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_python),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
