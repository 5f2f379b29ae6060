/* test_golden.c - every format and encoder against tests/golden/<format>.txt: bytes computed by an
 * independent program from the specification, and by the packages of other projects for the
 * encoders that are named after them (golden/peers/vectors/<format>.txt). One test per row of
 * formats.def, so a new format is covered as soon as its file lies there; a format without a file,
 * or with too few blocks for an encoder, is a failure. selftest/vector_check.c does the comparing, as it
 * does for `kerf selftest`. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "selftest/vector_check.h" /* before cmocka, whose fail() is a macro */

#include <cmocka.h>

#define MIN_BLOCKS 200 /* per encoder */
#define MAX_REPORTS 12 /* lines per format; the rest is only counted */

/* Other tests vary the threads; waking them for such small tensors takes longer than all else. */
static const kerf_exec one_thread = {.threads = 1};

/* Of one format on one backend. */
typedef struct findings {
    const char *backend;
    unsigned failures;
} findings;

/* Counts a difference; prints the first ones. */
static void report(void *context, const kf_vector_difference *d)
{
    findings *f = context;
    if (f->failures++ >= MAX_REPORTS) return;
    print_error("%s: %s:%u, case %s, %s: %s\n", f->backend, d->file, d->line, d->label,
                d->encoder ? d->encoder->name : "decode", d->what);
}

/* NULL when there is no such file. */
static char *read_text(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text;
    long size;

    if (f == NULL) return NULL;
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    size = ftell(f);
    assert_true(size >= 0);
    rewind(f);
    text = malloc((size_t)size + 1);
    assert_non_null(text);
    *n = (size_t)size;
    assert_int_equal(fread(text, 1, *n, f), *n);
    fclose(f);
    return text;
}

/* Compares with one file of FOLDER; 0 when there is none. */
static int check_file(kf_vector_check *c, const char *folder)
{
    char path[512];
    kerf_error err;
    size_t n = 0;

    snprintf(path, sizeof path, "%s/%s.txt", folder, c->format->name);
    char *text = read_text(path, &n);
    if (text == NULL) return 0;
    if (kf_vector_check_text(c, path, text, n, &err) != KERF_OK) fail_msg("%s", err.text);
    free(text);
    return 1;
}

static unsigned check_blocks(const kf_vector_check *c)
{
    const kerf_format *f = c->format;
    unsigned failures = 0;

    for (size_t i = 0; i < kerf_encoder_count(f); i++) {
        if (c->tally[i].blocks >= MIN_BLOCKS) continue;
        print_error("%s:%s has only %" PRIu64 " blocks; %d are needed\n", f->name,
                    kerf_encoder_at(f, i)->name, c->tally[i].blocks, MIN_BLOCKS);
        failures++;
    }
    return failures;
}

static void test_format(void **state)
{
    const kerf_format *f = *state;
    unsigned failures = 0;

    assert_true(kerf_encoder_count(f) <= KF_VECTOR_ENCODERS);
    for (size_t i = 0; i < kerf_backend_count(); i++) {
        const kerf_exec exec = {.threads = 1, .backend = kerf_backend_at(i)};
        findings found = {.backend = exec.backend};
        kf_vector_check c = {.format = f, .exec = &exec, .differs = report, .context = &found};
        int files = check_file(&c, KERF_TEST_GOLDEN);
        files += check_file(&c, KERF_TEST_GOLDEN "/peers/vectors");
        if (files == 0) fail_msg("%s: every format needs golden vectors", f->name);
        failures += found.failures + check_blocks(&c);
    }
    if (failures != 0) fail_msg("%u differences from the vectors of %s", failures, f->name);
}

/* --- the form of the lines ------------------------------------------------------------------- */

/* What a text of vectors of int8 is refused for; NULL: it is not. */
static const char *refusal(const char *text)
{
    static kerf_error err;
    findings found = {.backend = "default"};
    kf_vector_check c = {.format = kerf_format_find("int8"),
                         .exec = &one_thread,
                         .differs = report,
                         .context = &found};
    if (kf_vector_check_text(&c, "text", text, strlen(text), &err) == KERF_OK) return NULL;
    assert_int_equal(err.status, KERF_E_DATA);
    return err.text;
}

static void test_malformed(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"codes", "line 1: a plane outside of a case"},
        {"\n# note\nunknown 00", "line 3: unknown key"},
        {"a-key-that-is-too-long 00", "a key is a short word"},
        {"case", "no label"},
        {"case x", "no source type"},
        {"case x F99 [1]", "unknown source type"},
        {"case x F32 1,1", "no shape"},
        {"case x F32 [1", "no shape"},
        {"case x F32 [1,1,1,1,1,1,1,1,1]", "no shape"},
        {"case x F32 [99999999999999999999]", "no shape"},
        {"case x F32 [16777216]", "a tensor of this size"},
        {"case x F32 [1,1]\nsrc 0", "not bytes in hex"},
        {"case x F32 [1,1]\nsrc 0g", "not bytes in hex"},
        {"case x F32 [1,1]\nsrc 00*;", "not bytes in hex"},
        {"case x F32 [1,1]\nsrc 00*4", "not bytes in hex"},
        {"case x F32 [1,1]\nsrc 00*16777216;00", "too many bytes"},
        {"case x F32 [1,1]\nsrc 00*8;\nenc amax", "not as many bytes"},
        {"case x F32 [1,1]\nsrc 00*4;\nenc nobody", "unknown encoder"},
        {"case x F32 [1,1]\nsrc 00*4;\nenc amax\ncodes #12", "16 digits"},
        {"case x F32 [1,1]\nsrc 00*4;\nenc amax\ncodes #0123456789abcdeg", "not a digest"},
        {"enc amax", "an encoder outside of a case"},
        {"F32 00*4;", "values outside of a case"},
        {"decode x [1,1]\ncodes #0123456789abcdef", "a digest cannot be decoded"},
        {"file x", "a file within a file"},
        {"enc", "no name"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *why = refusal(rows[i].text);
        if (why == NULL || strstr(why, rows[i].why) == NULL)
            fail_msg("\"%s\" is refused for: %s", rows[i].text, why ? why : "nothing");
    }
}

/* Differences must be seen in either form, and NaNs that differ must not. */
static void test_differences(void **state)
{
#define ONE "case x F32 [1,1]\nsrc 0000803f\nenc amax\n"
    static const struct {
        const char *text;
        unsigned failures;
    } rows[] = {
        {ONE "codes 7f\nscales 0402013c\nF32 0000803f\n", 0},
        {ONE "codes 7e\nscales 0402013c\nF32 0000803f\n", 2}, /* what they decode to differs too */
        {ONE "codes 7f7f\nscales 0402013c\n", 1},
        {ONE "codes 7f\n", 1}, /* the other plane is missing */
        {ONE "codes #0000000000000000\nscales 0402013c\nF32 0000803f\n", 1},
        {ONE "codes 7f\nscales 0402013c\nF32 #0000000000000000\n", 1},
        {"decode x [1,1]\ncodes 01\nscales 0000c0ff\nF32 0100807f\n", 0},
        {"decode x [1,1]\ncodes 01\nscales 0000c0ff\nF32 0000807f\n", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kerf_error err;
        findings found = {.backend = "default"};
        kf_vector_check c = {.format = kerf_format_find("int8"),
                             .exec = &one_thread,
                             .differs = report,
                             .context = &found};
        if (kf_vector_check_text(&c, "text", rows[i].text, strlen(rows[i].text), &err) != KERF_OK)
            fail_msg("%s", err.text);
        if (found.failures != rows[i].failures)
            fail_msg("%u differences instead of %u in: %s", found.failures, rows[i].failures,
                     rows[i].text);
    }
}

int main(void)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_differences),
    };
    size_t n = kerf_format_count();
    struct CMUnitTest *tests = calloc(n + 1, sizeof *tests);
    int failed;

    if (tests == NULL || n == 0) return 1;
    for (size_t i = 0; i < n; i++) {
        tests[i].name = kerf_format_at(i)->name;
        tests[i].test_func = test_format;
        tests[i].initial_state = (void *)(uintptr_t)kerf_format_at(i); /* cmocka takes no const */
    }
    failed = _cmocka_run_group_tests("golden", tests, n, NULL, NULL);
    failed += cmocka_run_group_tests_name("the form of vectors", own, NULL, NULL);
    free(tests);
    return failed;
}
