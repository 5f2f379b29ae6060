/* test_quantize_cancel.c - what is left of a call that was canceled, how soon it ends, and how the
 * next run goes on. */
#include "quantize_case.h"
#include "rounds.h"

/* The promise is of optimized code; sanitizers make it some ten times slower. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOST_CANCEL_S 1.0
#endif
#endif
#ifndef MOST_CANCEL_S
#define MOST_CANCEL_S 0.1
#endif

/* One of the calls that write; the output is a name in a folder. */
typedef struct call {
    const char *name;
    const char *(*source)(void **state); /* path */
    const char *codec, *output, *layout;
    size_t members;
} call;

static const char *source_large(void **state)
{
    (void)state;
    return large;
}

static const char *source_model(void **state)
{
    (void)state;
    return model;
}

static const char *quantized_large(void **state)
{
    return quantized(state, large, "large-nvfp4.safetensors", NULL);
}

static kerf_status run_call(const call *k, const kerf_checkpoint *c, const char *path, int resume,
                            const kerf_job *job, kerf_error *err)
{
    static const kerf_exec member[3] = {{.threads = 2}, {.threads = 1}, {.threads = 1}};
    const kerf_team team = {member, k->members};
    const kerf_output to = {
        .path = path, .layout = k->layout ? kerf_layout_find(k->layout) : NULL, .resume = resume};
    if (strcmp(k->name, "dequantize") == 0)
        return kerf_dequantize(c, KERF_DTYPE_NONE, &to, &team, job, NULL, err);
    if (strcmp(k->name, "convert") == 0) return kerf_convert(c, &to, job, NULL, NULL, err);
    kerf_plan *p = plan_for(c, k->codec, &to);
    kerf_status s = kerf_quantize(p, &team, job, NULL, err);
    kerf_plan_free(p);
    return s;
}

/* Runs a call that is canceled, and returns how long it went on after that. */
static double cancel_once(const call *k, const kerf_checkpoint *c, const char *path, listener *l)
{
    kerf_error err = {0};
    const kerf_job job = job_of(l);
    kerf_status s = run_call(k, c, path, 0, &job, &err);
    const double took_s = now_s() - l->yes_s;
    if (s != KERF_E_CANCELED)
        fail_msg("%s to %s, canceled at question %ld%s: %s %s", k->name, k->output, l->yes_from,
                 l->yes_in ? l->yes_in : "", kerf_status_name(s), err.text);
    assert_int_equal(err.status, KERF_E_CANCELED);
    assert_false(is_there(path));
    return took_s;
}

/* A busy machine may hold up a thread for longer than the call does: the best of some runs counts.
 */
static void cancel_at(const call *k, const kerf_checkpoint *c, const char *folder, long question,
                      const char *phase)
{
    char path[4200];
    listener l = {.yes_from = question, .yes_in = phase};
    double best_s = 1e9;
    for (int i = 0; i < 5 && best_s > MOST_CANCEL_S; i += STEP(5)) {
        const double took_s = cancel_once(k, c, path_in(folder, k->output, path), &l);
        assert_int_equal(count_entries(folder), 0);
        if (took_s < best_s) best_s = took_s;
    }
#ifndef KERF_EMULATED
    if (best_s > MOST_CANCEL_S)
        fail_msg("%s to %s went on for %.3f s after it was canceled", k->name, k->output, best_s);
#endif
}

static void test_cancel(void **state)
{
    static const call calls[] = {
        {"quantize", source_model, "nvfp4:4/6", "out", NULL, 0},
        {"quantize", source_model, "int4-g128:search", "out", "compressed-tensors", 3},
        {"quantize", source_large, "int2-g16-asym:search", "out.safetensors", NULL, 1},
        {"dequantize", quantized_model, NULL, "out", NULL, 3},
        {"quantize", source_large, "nvfp4:sweep", "out.safetensors.zst", NULL, 3},
        {"dequantize", quantized_large, NULL, "out.safetensors", NULL, 1},
        {"convert", quantized_model, NULL, "out", "compressed-tensors", 0},
        {"convert", quantized_large, NULL, "out.safetensors", "modelopt", 0},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i += STEP(3)) { /* each verb */
        const call *k = &calls[i];
        char path[4200], name[40];
        snprintf(name, sizeof name, "cancel-%zu", i);
        kerf_checkpoint *c = open_checkpoint(k->source(state));
        const char *folder = folder_of(state, name);
        listener l = {0}; /* how often is it asked? */
        kerf_error err;
        const kerf_job job = job_of(&l);
        must(run_call(k, c, path_in(folder, k->output, path), 0, &job, &err), &err);
        const long asked = l.asked;
        char command[4400];
        snprintf(command, sizeof command, "rm -r '%s'", path);
        assert_int_equal(system(command), 0);
        assert_true(asked >= 3);
        cancel_at(k, c, folder, 1, NULL);
        cancel_at(k, c, folder, 2, NULL);
        cancel_at(k, c, folder, asked / 3 + 1, NULL);
        cancel_at(k, c, folder, asked * 2 / 3 + 1, NULL);
        cancel_at(k, c, folder, 0, "comparing what was written");
        kerf_checkpoint_close(c);
    }
}

/* With `resume` the next run goes on with what a canceled one has finished. */
static void test_cancel_and_resume(void **state)
{
    static const char *const codec = KERF_TEST_SLOW ? "nvfp4:4/6" : "int2-g16:search";
    const call k = {"quantize", source_model, codec, "out", NULL, 1};
    char path[4200], whole[4200], a[4200], b[4200];
    const char *folder = folder_of(state, "resume");
    kerf_checkpoint *c = open_checkpoint(model);
    listener l = {.yes_from = 20}; /* also after a journal was begun, which takes 20 ms */
    kerf_error err;
    kerf_job job = job_of(&l);
    assert_int_equal(run_call(&k, c, path_in(folder, "out", path), 1, &job, &err), KERF_E_CANCELED);
    assert_false(is_there(path));
    assert_int_equal(count_entries(folder), 1);
    l.yes_from = 1; /* while it compares what is there */
    job = job_of(&l);
    assert_int_equal(run_call(&k, c, path, 1, &job, &err), KERF_E_CANCELED);
    assert_int_equal(count_entries(folder), 1);
    l.yes_from = 0;
    job = job_of(&l);
    must(run_call(&k, c, path, 1, &job, &err), &err);
    assert_true(l.resumed > 0);
    assert_int_equal(count_entries(folder), 1);
    must(run_call(&k, c, path_in(folder, "whole", whole), 0, NULL, &err), &err);
    assert_same_file(path_in(path, "model.safetensors", a), path_in(whole, "model.safetensors", b));
    kerf_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_and_resume),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
