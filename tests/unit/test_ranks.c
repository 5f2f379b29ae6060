/* test_ranks.c - what several processes do together gives what one gives, bit by bit: outputs in
 * files, scores, calibrations; and when one of them fails all come back. The ranks are threads. */
#include <kerf/calibrate.h>
#include <kerf/quantize.h>
#include <kerf/score.h>
#include <kerf/tokens.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "thread_ranks.h"
#include "test_output.h"

#define MODEL KERF_TEST_DATA "/tiny-llama"

static const kerf_exec one_thread = {.threads = 1};
static const kerf_team team = {&one_thread, 1};

static kerf_checkpoint *open_model(void)
{
    kerf_checkpoint *c;
    kerf_error err;
    must(kerf_checkpoint_open(MODEL, &c, &err), &err);
    return c;
}

/* Two folders have the same files. */
static void check_same(const char *a, const char *b)
{
    char line[9000];
    snprintf(line, sizeof line, "diff -r '%s' '%s' && rm -rf '%s'", a, b, b);
    assert_int_equal(system(line), 0);
}

/* --- outputs ------------------------------------------------------------------------------- */

typedef struct written {
    const char *source, *path, *codec, *layout;
    int converts, cancels_rank; /* the rank that is canceled, from 1; 0: none */
    int overwrite, resume;
} written;

static int yes(void *ctx)
{
    (void)ctx;
    return 1;
}

static kerf_status write_model(void *ctx, const kerf_ranks *r, kerf_error *err)
{
    const written *w = ctx;
    const kerf_output to = {.path = w->path,
                            .layout = kerf_layout_find(w->layout),
                            .overwrite = w->overwrite,
                            .resume = w->resume,
                            .threads = 1,
                            .shard_bytes = 300000,
                            .ranks = r};
    const kerf_job job = {.cancel = r && r->rank + 1 == (unsigned)w->cancels_rank ? yes : NULL};
    kerf_checkpoint *c = NULL;
    kerf_plan *plan = NULL;
    kerf_codec codec;
    kerf_result result;
    kerf_losses losses;
    kerf_status s = kerf_checkpoint_open(w->source, &c, err);
    if (s == KERF_OK && w->converts) {
        s = kerf_convert(c, &to, &job, &result, &losses, err);
    } else if (s == KERF_OK) {
        s = kerf_codec_find(w->codec, &codec, err);
        if (s == KERF_OK) s = kerf_plan_make(c, NULL, NULL, 0, codec, &to, &plan, err);
        if (s == KERF_OK) s = kerf_quantize(plan, &team, &job, &result, err);
    }
    if (s == KERF_OK && (result.share.shards != result.share.of_shards || result.changed == 0))
        s = kerf_fail(err, KERF_E_RANGE, "the result is not of the whole");
    kerf_plan_free(plan);
    kerf_checkpoint_close(c);
    return s;
}

static void test_outputs(void **state)
{
    static const char *const layouts[] = {"kerf", "modelopt", "compressed-tensors"};
    kerf_error err;
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "whole-%s", layouts[i]);
        written w = {.source = MODEL, .codec = "nvfp4", .layout = layouts[i]};
        w.path = in_folder(state, name);
        must(write_model(&w, NULL, &err), &err);
        const char *whole = w.path;
        w.path = in_folder(state, "out");
        for (unsigned ranks = 1; ranks <= RANKS_MOST; ranks = ranks < 3 ? ranks + 1 : ranks + 5) {
            must(run_ranks(ranks, write_model, &w, &err), &err);
            check_same(whole, w.path);
        }
    }
    written w = {.source = in_folder(state, "whole-modelopt"),
                 .path = in_folder(state, "converted"),
                 .layout = "compressed-tensors",
                 .converts = 1};
    must(write_model(&w, NULL, &err), &err);
    const char *whole = w.path;
    w.path = in_folder(state, "out");
    must(run_ranks(3, write_model, &w, &err), &err);
    check_same(whole, w.path);
}

/* A rank that is canceled ends all; what was finished is found by the next run, which may have
 * another number of ranks. */
static void test_failures(void **state)
{
    kerf_error err;
    written w = {.source = MODEL, .codec = "nvfp4:4/6", .layout = "modelopt"};
    w.path = in_folder(state, "whole");
    must(write_model(&w, NULL, &err), &err);
    const char *whole = w.path;
    w.path = in_folder(state, "out");
    for (int i = 1; i <= 3; i++) {
        w.cancels_rank = i;
        w.resume = i == 3;
        assert_int_equal(run_ranks(3, write_model, &w, &err), KERF_E_CANCELED);
    }
    w.cancels_rank = 0;
    must(run_ranks(2, write_model, &w, &err), &err);
    assert_int_equal(run_ranks(2, write_model, &w, &err), KERF_E_EXISTS);
    w.overwrite = 1;
    must(run_ranks(2, write_model, &w, &err), &err);
    check_same(whole, w.path);
    w.path = in_folder(state, "out.safetensors");
    assert_int_equal(run_ranks(2, write_model, &w, &err), KERF_E_ARG);
}

/* --- scores -------------------------------------------------------------------------------- */

typedef struct scored {
    const kerf_checkpoint *source;
    char *text[RANKS_MOST];
} scored;

static kerf_status score_model(void *ctx, const kerf_ranks *r, kerf_error *err)
{
    scored *to = ctx;
    kerf_codec codec[2];
    kerf_scores *s = NULL;
    size_t n;
    kerf_status status = kerf_codec_find("nvfp4:4/6", &codec[0], err);
    if (status == KERF_OK) status = kerf_codec_find("int4-g128", &codec[1], err);
    const kerf_score_request request = {.codec = codec, .codecs = 2, .zstd_level = 1, .ranks = r};
    if (status == KERF_OK)
        status = kerf_score_checkpoint(to->source, &request, &team, NULL, &s, err);
    if (status == KERF_OK) status = kerf_scores_write(s, &to->text[r ? r->rank : 0], &n, err);
    kerf_scores_close(s);
    return status;
}

static void test_scores(void **state)
{
    kerf_error err;
    kerf_checkpoint *c = open_model();
    scored alone = {.source = c};
    (void)state;
    must(score_model(&alone, NULL, &err), &err);
    for (unsigned ranks = 1; ranks <= 3; ranks++) {
        scored all = {.source = c};
        must(run_ranks(ranks, score_model, &all, &err), &err);
        for (unsigned i = 0; i < ranks; i++) {
            assert_string_equal(all.text[i], alone.text[0]);
            free(all.text[i]);
        }
    }
    free(alone.text[0]);
    kerf_checkpoint_close(c);
}

/* --- calibrations -------------------------------------------------------------------------- */

typedef struct calibrated {
    kerf_tokens tokens;
    kerf_alpha_by alpha;
    const char *path;
} calibrated;

static kerf_status calibrate_model(void *ctx, const kerf_ranks *r, kerf_error *err)
{
    const calibrated *to = ctx;
    const kerf_calibrate_request request = {.tokens = to->tokens,
                                            .gram = 1,
                                            .alpha = to->alpha,
                                            .draws = 2,
                                            .path = to->path,
                                            .ranks = r};
    kerf_checkpoint *c = NULL;
    kerf_status s = kerf_checkpoint_open(MODEL, &c, err);
    if (s == KERF_OK) s = kerf_calibrate(c, &request, &one_thread, NULL, err);
    kerf_checkpoint_close(c);
    return s;
}

static void check_calibration(void **state, kerf_tokens tokens, kerf_alpha_by by, unsigned most)
{
    kerf_error err;
    calibrated one = {tokens, by, in_folder(state, "alone")}, all = one;
    must(calibrate_model(&one, NULL, &err), &err);
    all.path = in_folder(state, "together");
    for (unsigned ranks = most < 3 ? most : 1; ranks <= most; ranks++) {
        must(run_ranks(ranks, calibrate_model, &all, &err), &err);
        check_same(one.path, all.path);
    }
    check_same(one.path, one.path); /* and removes it */
}

/* Rows of 700 tokens: panels of two rows, and of one at the end; more ranks than panels, too. Alpha
 * takes a pass for each group, so two rows of a panel each must do. */
static void test_calibrations(void **state)
{
    enum { ROWS = 5, LENGTH = 700, LONG = 1025 };
    static uint32_t token[ROWS * LENGTH];
    for (size_t i = 0; i < ROWS * LENGTH; i++) token[i] = (uint32_t)(i * i * 7 + i / 3) % 400;
    check_calibration(state, (kerf_tokens){token, ROWS, LENGTH}, KERF_ALPHA_BY_NONE, 4);
#ifndef KERF_TEST_SLOW
    check_calibration(state, (kerf_tokens){token, 2, LONG}, KERF_ALPHA_BY_KL, 2);
#endif
}

/* Members of a team are ranks that are threads; here all of them compute on the processor. */
typedef struct stopping {
    int after, asked;
    kerf_event last;
} stopping;

static int stop_later(void *ctx)
{
    stopping *s = ctx;
    return s->after && __atomic_add_fetch(&s->asked, 1, __ATOMIC_RELAXED) > s->after;
}

static void hear(void *ctx, const kerf_event *e)
{
    stopping *s = ctx;
    assert_true(e->done <= e->total);
    if (e->kind == KERF_EVENT_PROGRESS && e->total == s->last.total)
        assert_true(e->done >= s->last.done);
    s->last = *e;
}

static kerf_status calibrate_team(const kerf_checkpoint *c, kerf_tokens tokens, const char *path,
                                  size_t members, stopping *stop, kerf_error *err)
{
    const kerf_exec member[4] = {{.threads = 1}, {.threads = 1}, {.threads = 1}, {.threads = 1}};
    const kerf_team some = {member, members};
    const kerf_calibrate_request request = {.tokens = tokens,
                                            .gram = 1,
                                            .draws = 2,
                                            .path = path,
                                            .team = &some,
                                            .alpha = KERF_ALPHA_BY_NONE};
    const kerf_job job = {hear, stop_later, stop};
    return kerf_calibrate(c, &request, NULL, &job, err);
}

static void test_team(void **state)
{
    enum { ROWS = 5, LENGTH = 700 };
    static uint32_t token[ROWS * LENGTH];
    kerf_error err;
    kerf_checkpoint *c = open_model();
    for (size_t i = 0; i < ROWS * LENGTH; i++) token[i] = (uint32_t)(i * i * 7 + i / 3) % 400;
    const kerf_tokens tokens = {token, ROWS, LENGTH};
    calibrated one = {tokens, KERF_ALPHA_BY_NONE, in_folder(state, "alone")};
    must(calibrate_model(&one, NULL, &err), &err);
    const char *path = in_folder(state, "team");
    int asked = 0;
    for (size_t members = 1; members <= 4; members++) {
        stopping none = {0};
        must(calibrate_team(c, tokens, path, members, &none, &err), &err);
        assert_int_equal(none.last.done, none.last.total);
        check_same(one.path, path);
    }
    /* A job that is canceled wherever it asks leaves nothing; so does a rank whose tokens are
     * wrong, and the one line is its own. */
    for (int after = 1; after < 40; after += 3) {
        stopping soon = {.after = after};
        assert_int_equal(calibrate_team(c, tokens, path, 3, &soon, &err), KERF_E_CANCELED);
        asked += soon.asked > after;
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_int_equal(asked, 13);
    for (int row = 0; row < ROWS; row += 2) {
        stopping none = {0};
        const uint32_t kept = token[row * LENGTH];
        token[row * LENGTH] = 1u << 30;
        assert_int_equal(calibrate_team(c, tokens, path, 3, &none, &err), KERF_E_DATA);
        assert_non_null(strstr(err.text, "1073741824"));
        assert_int_equal(access(path, F_OK), -1);
        token[row * LENGTH] = kept;
    }
    kerf_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_outputs, make_test_folder, remove_test_folder),
        cmocka_unit_test_setup_teardown(test_failures, make_test_folder, remove_test_folder),
        cmocka_unit_test(test_scores),
        cmocka_unit_test_setup_teardown(test_calibrations, make_test_folder, remove_test_folder),
        cmocka_unit_test_setup_teardown(test_team, make_test_folder, remove_test_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
