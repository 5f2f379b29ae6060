/* test_verify_api.c - limits as files and texts; kerf_verify on a model, a copy of it with a byte
 * changed, and one with a tensor less; a job that stops it; how much memory it asks for. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/quantize.h>
#include <kerf/verify.h>

#include "test_job.h"
#include "near.h"
#include "test_output.h"

#define MODEL KERF_TEST_DATA "/tiny-llama/model.safetensors"
#define NAME "model.layers.1.mlp.down_proj.weight"

static kerf_checkpoint *open_checkpoint(const char *path)
{
    kerf_checkpoint *c = NULL;
    kerf_error err = {0};
    must(kerf_checkpoint_open(path, &c, &err), &err);
    return c;
}

static kerf_status parse(const char *text, kerf_limits **out, kerf_error *err)
{
    return kerf_limits_parse(text, strlen(text), "text", out, err);
}

/* --- limits -------------------------------------------------------------------------------- */

static void test_limits(void **state)
{
    (void)state;
    double limit[KERF_FIGURES];
    kerf_limits *l = NULL;
    kerf_error err = {0};
    kerf_limits_of(NULL, "a", NULL, limit);
    assert_true(limit[KERF_FIGURE_T2] == KERF_LIMIT_T2 && isinf(limit[KERF_FIGURE_BPW]));
    must(parse("{\"schema\": \"kerf.limits/1\", \"tensors\": {\"*.b\": {\"t2\": 2, \"bias\": 0}, "
               "\"a.*\": {\"t2\": 3}, \"[x\": {\"bpw\": 4}}, \"default\": {\"t2\": 1, "
               "\"clip_share\": 0.5}}",
               &l, &err),
         &err);
    kerf_limits_of(l, "c", NULL, limit);
    assert_true(limit[KERF_FIGURE_T2] == 1 && limit[KERF_FIGURE_CLIP_SHARE] == 0.5);
    assert_true(isinf(limit[KERF_FIGURE_BIAS]) && isinf(limit[KERF_FIGURE_MAX_ERROR]));
    kerf_limits_of(l, "a.b", NULL,
                   limit); /* the later pattern over the earlier one, figure by figure */
    assert_true(limit[KERF_FIGURE_T2] == 3 && limit[KERF_FIGURE_BIAS] == 0);
    kerf_limits_of(l, "[x", NULL, limit); /* a name that is no pattern for itself */
    assert_true(limit[KERF_FIGURE_BPW] == 4);
    kerf_limits_close(l);
    kerf_limits_close(NULL);
    /* Integers with one scale for a row lose more, and more of them than groups do. */
    assert_near(kerf_limit_t2(kerf_format_find("int4-row")), 2 * 16 * 1.4e-2, 1e-12);
    assert_near(kerf_limit_t2(kerf_format_find("int4-g32")), 16 * 1.4e-2, 1e-12);
    assert_near(kerf_limit_t2(kerf_format_find("int8")), 0.05, 1e-12);
}

static void test_malformed_limits(void **state)
{
    static const char *const texts[] = {
        "",
        "[]",
        "{\"schema\": \"kerf.limits/1\"",
        "{\"schema\": \"kerf.limits/2\"}",
        "{\"schema\": \"kerf.limits/1\"}",
        "{\"schema\": \"kerf.limits/1\", \"default\": {}, \"tensors\": {\"*\": {}}}",
        "{\"schema\": \"kerf.limits/1\", \"tensor\": {}}",
        "{\"schema\": \"kerf.limits/1\", \"tensors\": []}",
        "{\"schema\": \"kerf.limits/1\", \"tensors\": {\"a\": 1}}",
        "{\"schema\": \"kerf.limits/1\", \"default\": 1}",
        "{\"schema\": \"kerf.limits/1\", \"default\": {\"mse\": 1}}",
        "{\"schema\": \"kerf.limits/1\", \"default\": {\"t2\": \"low\"}}",
        "{\"schema\": \"kerf.limits/1\", \"default\": {\"t2\": -1}}",
        "{\"schema\": \"kerf.limits/1\", \"default\": {\"t2\": 1, \"t2\": 2}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        kerf_limits *l = NULL;
        kerf_error err = {0};
        if (parse(texts[i], &l, &err) != KERF_E_DATA) fail_msg("accepted: %s", texts[i]);
        assert_null(l);
        assert_non_null(strstr(err.text, "text:"));
    }
    kerf_limits *l = NULL;
    assert_int_equal(kerf_limits_open(in_folder(state, "absent.json"), &l, NULL), KERF_E_IO);
    assert_int_equal(kerf_limits_open(*state, &l, NULL), KERF_E_DATA); /* a folder */
    assert_null(l);
}

/* --- verify -------------------------------------------------------------------------------- */

/* A copy of the model in which one byte of a tensor is another. */
static const char *copy_with_change(void **state, const kerf_checkpoint *c)
{
    const char *path = in_folder(state, "changed.safetensors");
    const kerf_tensor *t = kerf_reader_find(kerf_checkpoint_reader(c), NAME);
    FILE *in = fopen(MODEL, "rb"), *out = fopen(path, "wb");
    assert_true(in && out && t);
    for (int byte; (byte = getc(in)) != EOF;) putc(byte, out);
    fclose(in);
    fclose(out);
    assert_non_null(out = fopen(path, "r+b"));
    fseek(out, (long)t->offset + 7, SEEK_SET);
    putc(0x40, out); /* the high byte of a BF16: about 2 instead of a small weight */
    fclose(out);
    return path;
}

static const kerf_verify_row *row_of(const kerf_verification *v, const char *name)
{
    for (size_t i = 0; i < v->rows; i++)
        if (strcmp(v->row[i].weight->name, name) == 0) return &v->row[i];
    return NULL;
}

static void test_equal(void **state)
{
    (void)state;
    kerf_checkpoint *c = open_checkpoint(MODEL);
    kerf_verification *v = NULL;
    kerf_error err = {0};
    test_job job;
    must(kerf_verify(c, c, NULL, NULL, test_job_open(&job, -1), &v, &err), &err);
    assert_true(v->passed && v->rows == 38 && v->equal == 38);
    assert_true(v->measured == 0 && v->over == 0 && v->problems == 0 && v->extras == 0);
    assert_true(job.items == 38 && job.done == job.total && job.total > 7000000);
    kerf_verification_close(v);
    kerf_checkpoint_close(c);
}

static void test_changed(void **state)
{
    kerf_checkpoint *c = open_checkpoint(MODEL), *d = open_checkpoint(copy_with_change(state, c));
    kerf_verification *v = NULL;
    kerf_error err = {0};
    must(kerf_verify(c, d, NULL, NULL, NULL, &v, &err), &err);
    const kerf_verify_row *row = row_of(v, NAME);
    assert_true(!v->passed && v->problems == 1 && v->equal == 37);
    assert_string_equal(row->problem, "differs from the source at byte 7");
    kerf_verification_close(v);

    /* By value it has lost something, but not more than the limit without a file. */
    kerf_verify_options options = {.by_value = 1};
    must(kerf_verify(c, d, &options, NULL, NULL, &v, &err), &err);
    row = row_of(v, NAME);
    assert_true(v->passed && v->measured == 38 && v->over == 0);
    assert_true(row->score.max_error > 1 && row->score.max_error == v->total.max_error);
    assert_true(row->limit[KERF_FIGURE_T2] == KERF_LIMIT_T2);

    /* Limits of what was measured hold for the same, and for nothing worse. */
    char *text = NULL;
    size_t n;
    must(kerf_verification_limits(v, &text, &n, &err), &err);
    kerf_limits *limits = NULL;
    must(kerf_limits_parse(text, n, "limits", &limits, &err), &err);
    free(text);
    kerf_verification_close(v);
    options.limits = limits;
    must(kerf_verify(c, d, &options, NULL, NULL, &v, &err), &err);
    assert_true(v->passed);
    kerf_verification_close(v);
    kerf_limits_close(limits);

    must(parse("{\"schema\": \"kerf.limits/1\", \"tensors\": {\"*down*\": {\"max_error\": 1, "
               "\"t2\": 1}}}",
               &limits, &err),
         &err);
    options.limits = limits;
    must(kerf_verify(c, d, &options, NULL, NULL, &v, &err), &err);
    row = row_of(v, NAME);
    assert_true(!v->passed && v->over == 1 && v->problems == 0);
    assert_int_equal(row->over, 1u << KERF_FIGURE_MAX_ERROR);
    must(kerf_verification_write(v, &text, &n, &err), &err);
    assert_non_null(strstr(text, "\"schema\": \"kerf.verify/1\""));
    assert_non_null(strstr(text, "\"figure\": \"max_error\""));
    free(text);
    kerf_verification_close(v);
    kerf_limits_close(limits);
    kerf_checkpoint_close(d);
    kerf_checkpoint_close(c);
}

static void test_missing(void **state)
{
    (void)state;
    kerf_checkpoint *c = open_checkpoint(MODEL),
                    *d = open_checkpoint(KERF_TEST_DATA "/tiny-llama/imatrix.safetensors");
    kerf_verification *v = NULL;
    kerf_error err = {0};
    must(kerf_verify(d, c, NULL, NULL, NULL, &v, &err), &err);
    assert_true(!v->passed && v->rows == 28 && v->extras == 10 && v->problems == 38);
    assert_string_equal(v->row[0].problem, "has another shape than the source");
    kerf_verification_close(v);
    must(kerf_verify(c, d, NULL, NULL, NULL, &v, &err), &err);
    assert_string_equal(row_of(v, "model.norm.weight")->problem, "is missing");
    assert_null(row_of(v, "model.norm.weight")->other);
    kerf_verification_close(v);
    kerf_checkpoint_close(d);
    kerf_checkpoint_close(c);
}

/* Memory that is asked for follows the tensors. A buffer of some MiB for each of thousands of small
 * ones costs more time than their bytes, where the C library gives such buffers back at once. */
#if defined(__GLIBC__) && !defined(INSTRUMENTED)
extern void *__libc_calloc(size_t count, size_t size);
static uint64_t asked_for;

void *calloc(size_t count, size_t size)
{
    __atomic_fetch_add(&asked_for, (uint64_t)count * size, __ATOMIC_RELAXED);
    return __libc_calloc(count, size);
}

static uint64_t asked_by(const kerf_checkpoint *a, const kerf_checkpoint *b)
{
    kerf_verification *v = NULL;
    kerf_error err = {0};
    const uint64_t before = asked_for;
    must(kerf_verify(a, b, NULL, NULL, NULL, &v, &err), &err);
    assert_true(v->rows > 30);
    kerf_verification_close(v);
    return asked_for - before;
}

static void test_memory(void **state)
{
    kerf_checkpoint *source = open_checkpoint(MODEL), *quantized;
    const char *path = in_folder(state, "memory.safetensors");
    kerf_error err = {0};
    kerf_codec codec;
    kerf_plan *plan;
    must(kerf_codec_find("nvfp4", &codec, &err), &err);
    must(kerf_plan_make(source, NULL, NULL, 0, codec, &(kerf_output){.path = path}, &plan, &err),
         &err);
    must(kerf_quantize(plan, NULL, NULL, NULL, &err), &err);
    kerf_plan_free(plan);
    quantized = open_checkpoint(path);
    const uint64_t model = 7 << 20;
    assert_in_range(asked_by(source, source), model, 4 * model);
    assert_in_range(asked_by(source, quantized), model, 4 * model);
    kerf_checkpoint_close(quantized);
    kerf_checkpoint_close(source);
}
#else
static void test_memory(void **state)
{
    (void)state;
    skip(); /* this C library, or the sanitizer, has an allocator that is not to be replaced */
}
#endif

static void test_cancel(void **state)
{
    (void)state;
    kerf_checkpoint *c = open_checkpoint(MODEL);
    for (int by_value = 0; by_value < 2; by_value++) {
        const kerf_verify_options options = {.by_value = by_value};
        for (long after = 0; after < 30; after += 7) {
            test_job job;
            kerf_verification *v = NULL;
            kerf_error err = {0};
            assert_int_equal(
                kerf_verify(c, c, &options, NULL, test_job_open(&job, after), &v, &err),
                KERF_E_CANCELED);
            assert_true(test_job_ms(&job) < CANCEL_MS);
            assert_null(v);
        }
    }
    kerf_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_malformed_limits),
        cmocka_unit_test(test_equal),   cmocka_unit_test(test_changed),
        cmocka_unit_test(test_missing), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
