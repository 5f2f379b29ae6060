/* test_score_api.c - kerf_score_checkpoint on a real model: rows and sums, codecs that do not fit,
 * importance, and a job that follows it and stops it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/score.h>

#include "test_job.h"

#define MODEL KERF_TEST_DATA "/tiny-llama"

static kerf_checkpoint *open_checkpoint(const char *path)
{
    kerf_checkpoint *c = NULL;
    kerf_error err = {0};
    if (kerf_checkpoint_open(path, &c, &err) != KERF_OK) fail_msg("%s", err.text);
    return c;
}

static kerf_codec codec(const char *name)
{
    kerf_codec c;
    assert_int_equal(kerf_codec_find(name, &c, NULL), KERF_OK);
    return c;
}

static void test_rows(void **state)
{
    (void)state;
    kerf_checkpoint *c = open_checkpoint(MODEL);
    const kerf_codec codecs[] = {codec("nvfp4:4/6"), codec("int8")};
    const kerf_score_request request = {.codec = codecs, .codecs = 2};
    kerf_scores *s = NULL;
    test_job job;
    assert_int_equal(kerf_score_checkpoint(c, &request, NULL, test_job_open(&job, -1), &s, NULL),
                     KERF_OK);
    assert_int_equal(s->tensors, 28);
    assert_int_equal(s->considered, 38);
    assert_int_equal(s->codecs, 2);
    assert_int_equal(s->left_outs, 0);
    assert_string_equal(s->source, MODEL);
    assert_null(s->imatrix);
    kerf_score total[2] = {0};
    for (size_t i = 0; i < s->tensors; i++) {
        assert_ptr_equal(s->weight[i],
                         kerf_weights_find(kerf_checkpoint_weights(c), s->weight[i]->name));
        for (size_t k = 0; k < 2; k++) {
            const kerf_score *row = &s->score[i * 2 + k];
            assert_int_equal(row->elements, kerf_weight_elements(s->weight[i]));
            assert_true(kerf_score_t2(row) > 0 && kerf_score_t2(row) < 0.02);
            assert_int_equal(row->zstd_bytes, 0);
            kerf_score_merge(&total[k], row);
        }
        assert_true(s->score[i * 2].noise > s->score[i * 2 + 1].noise);
    }
    assert_memory_equal(total, s->total, sizeof total);
    assert_true(fabs(kerf_score_bpw(&total[0]) - 4.5) < 0.01);
    assert_int_equal(job.phases, 1);
    assert_int_equal(job.items, 28);
    assert_int_equal(job.done, job.total);
    char *text;
    size_t n;
    assert_int_equal(kerf_scores_write(s, &text, &n, NULL), KERF_OK);
    assert_int_equal(n, strlen(text));
    assert_non_null(strstr(text, "\"schema\": \"kerf.score/1\""));
    free(text);
    kerf_scores_close(s);
    kerf_checkpoint_close(c);
}

/* The same bits from one thread and from several, and from a team. */
static void test_threads(void **state)
{
    (void)state;
    static const char *const only[] = {"*layers.0.*"};
    kerf_checkpoint *c = open_checkpoint(MODEL);
    const kerf_codec codecs[] = {codec("mxfp4:even"), codec("nf4-dq"), codec("int4-g128")};
    const kerf_select select = {.only = only, .onlys = 1};
    const kerf_score_request request = {
        .select = &select, .codec = codecs, .codecs = 3, .zstd_level = 1};
    const kerf_exec one = {.threads = 1}, three = {.threads = 3},
                    two[2] = {{.threads = 1}, {.threads = 2}};
    const kerf_team teams[] = {{&one, 1}, {&three, 1}, {two, 2}};
    kerf_scores *s[3];
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(kerf_score_checkpoint(c, &request, &teams[i], NULL, &s[i], NULL), KERF_OK);
        assert_int_equal(s[i]->tensors, 7);
    }
    assert_memory_equal(s[0]->score, s[1]->score, 21 * sizeof(kerf_score));
    assert_memory_equal(s[0]->score, s[2]->score, 21 * sizeof(kerf_score));
    assert_true(s[0]->score->zstd_bytes > 0);
    for (size_t i = 0; i < 3; i++) kerf_scores_close(s[i]);
    kerf_checkpoint_close(c);
}

static void test_importance(void **state)
{
    (void)state;
    kerf_checkpoint *c = open_checkpoint(MODEL), *m = open_checkpoint(MODEL "/imatrix.safetensors");
    const kerf_codec codecs[] = {codec("mxfp4")};
    kerf_score_request request = {.codec = codecs, .codecs = 1, .imatrix = m};
    kerf_scores *s = NULL;
    kerf_error err = {0};
    assert_int_equal(kerf_score_checkpoint(c, &request, NULL, NULL, &s, &err), KERF_OK);
    for (size_t i = 0; i < s->tensors; i++) {
        const double weighted = kerf_score_weighted_t2(&s->score[i]);
        assert_true(weighted > 0 && weighted != kerf_score_t2(&s->score[i]));
    }
    kerf_scores_close(s);
    /* The model itself has no tensors of importance. */
    request.imatrix = c;
    assert_int_equal(kerf_score_checkpoint(c, &request, NULL, NULL, &s, &err), KERF_E_DATA);
    assert_null(s);
    kerf_checkpoint_close(m);
    kerf_checkpoint_close(c);
}

static void test_unfit(void **state)
{
    (void)state;
    static const char *const only[] = {"*norm*"};
    kerf_checkpoint *c = open_checkpoint(MODEL);
    const kerf_codec codecs[] = {codec("bf16"), codec("int4-g32-f16:ct")};
    const unsigned char required[] = {1, 0};
    const kerf_select norms = {.only = only, .onlys = 1, .all = 1},
                      none = {.only = only, .onlys = 1};
    kerf_score_request request = {.select = &norms, .codec = codecs, .codecs = 2};
    kerf_scores *s = NULL;
    kerf_error err = {0};
    assert_int_equal(kerf_score_checkpoint(c, &request, NULL, NULL, &s, &err), KERF_E_NOSUP);
    request.required = required;
    assert_int_equal(kerf_score_checkpoint(c, &request, NULL, NULL, &s, &err), KERF_OK);
    assert_int_equal(s->codecs, 1);
    assert_string_equal(s->codec[0].format->name, "bf16");
    assert_int_equal(s->left_outs, 1);
    assert_string_equal(s->left_out[0].codec.format->name, "int4-g32-f16");
    assert_non_null(strstr(s->left_out[0].reason, "norm"));
    kerf_scores_close(s);
    request.codec = codecs + 1;
    request.codecs = 1;
    const unsigned char optional[] = {0};
    request.required = optional;
    assert_int_equal(kerf_score_checkpoint(c, &request, NULL, NULL, &s, &err), KERF_E_ARG);
    request.select = &none; /* norms are not quantized by default */
    assert_int_equal(kerf_score_checkpoint(c, &request, NULL, NULL, &s, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "no tensor to score"));
    kerf_checkpoint_close(c);
}

static void test_cancel(void **state)
{
    (void)state;
    kerf_checkpoint *c = open_checkpoint(MODEL);
    const kerf_codec codecs[] = {codec("nvfp4:sweep"), codec("int4-g128:search")};
    const kerf_score_request request = {.codec = codecs, .codecs = 2};
    static const long after[] = {0, 1, 10, 40};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        test_job job;
        kerf_scores *s = (kerf_scores *)c; /* must become NULL */
        kerf_error err = {0};
        assert_int_equal(
            kerf_score_checkpoint(c, &request, NULL, test_job_open(&job, after[i]), &s, &err),
            KERF_E_CANCELED);
        assert_true(test_job_ms(&job) < CANCEL_MS);
        assert_null(s);
    }
    kerf_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),       cmocka_unit_test(test_threads),
        cmocka_unit_test(test_importance), cmocka_unit_test(test_unfit),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
