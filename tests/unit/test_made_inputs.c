/* test_made_inputs.c - scales of inputs that a plan makes: of experts that no token came to, of
 * layers that are not known, and beside those that a source brings along. */
#include <math.h>

#include "quantize_case.h"

enum { EXPERTS = 3, TENSORS = 11 };

static const char *const pieces[] = {"gate_proj", "up_proj", "down_proj"};

/* A layer of three experts, a router, and what is asked of it. */
static kerf_checkpoint *experts(const char *folder, const char *more)
{
    static char name[TENSORS][96];
    char path[4200];
    kerf_entry e[TENSORS] = {{0}};
    kerf_writer *w;
    kerf_error err;
    size_t n = 0;
    for (int i = 0; i < EXPERTS; i++)
        for (int p = 0; p < 3; p++, n++)
            snprintf(name[n], sizeof name[n], "model.layers.0.mlp.experts.%d.%s.weight", i,
                     pieces[p]);
    snprintf(name[n++], sizeof name[0], "model.layers.0.mlp.gate.weight");
    if (more) snprintf(name[n++], sizeof name[0], "%s", more);
    for (size_t i = 0; i < n; i++) {
        const kerf_shape square = {2, {64, 64}}, one = {0};
        e[i] = (kerf_entry){name[i], KERF_F32, i < TENSORS - 1 ? square : one, 0};
    }
    must(kerf_writer_create(path_in(folder, "experts.safetensors", path), e, n,
                            &(kerf_writer_options){.overwrite = 1}, &w, &err),
         &err);
    static float drawn[64 * 64];
    for (size_t i = 0; i < 64 * 64; i++)
        drawn[i] = (float)((int)(i * 2654435761u % 2001) - 1000) / 1000;
    for (size_t i = 0; i < n; i++)
        must(
            kerf_writer_write(w, i, 0, drawn, i < TENSORS - 1 ? sizeof drawn : sizeof(float), &err),
            &err);
    must(kerf_writer_commit(w, &err), &err);
    return open_checkpoint(path);
}

/* The first expert met 3, the second nothing, the third 5; a name that it does not know is NaN. */
static kerf_status largest(const void *ctx, const kerf_weight *w, float *out, kerf_error *err)
{
    const float *of_expert = ctx;
    const char *at = strstr(w->name, "experts.");
    (void)err;
    *out = at ? of_expert[at[strlen("experts.")] - '0'] : NAN;
    return KERF_OK;
}

static kerf_status plan(const kerf_checkpoint *c, const float *of_expert, const char *path,
                        kerf_plan **p, kerf_error *err)
{
    const kerf_output to = {.path = path,
                            .layout = kerf_layout_find("modelopt"),
                            .inputs = {of_expert, largest, "CAL"}};
    return kerf_plan_make(c, NULL, NULL, 0, codec_of("nvfp4"), &to, p, err);
}

static float number_of(const kerf_checkpoint *c, const char *name)
{
    float x;
    kerf_error err;
    const kerf_tensor *t = kerf_reader_find(kerf_checkpoint_reader(c), name);
    if (!t) fail_msg("no tensor %s", name);
    assert_int_equal(t->dtype, KERF_F32);
    assert_int_equal(t->shape.rank, 0);
    must(kerf_reader_read(kerf_checkpoint_reader(c), t, 0, &x, sizeof x, &err), &err);
    return x;
}

static void test_experts(void **state)
{
    static const float met[EXPERTS] = {3, 0, 5};
    char path[4200], name[96];
    kerf_checkpoint *c = experts(*state, NULL), *made;
    kerf_plan *p = NULL;
    kerf_error err;
    must(plan(c, met, path_in(*state, "made.safetensors", path), &p, &err), &err);
    assert_string_equal(
        kerf_plan_note(p, 0),
        "9 layers have a scale of inputs by CAL; 3 of experts that no token came to: "
        "the largest input of their layer's counts");
    must(kerf_quantize(p, NULL, NULL, NULL, &err), &err);
    kerf_plan_free(p);
    kerf_checkpoint_close(c);
    made = open_checkpoint(path);
    for (int i = 0; i < EXPERTS; i++)
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "model.layers.0.mlp.experts.%d.%s.input_scale", i,
                     pieces[k]);
            assert_true(number_of(made, name) == (i == 0 ? 3.0f : 5.0f) / 2688);
        }
    assert_null(
        kerf_reader_find(kerf_checkpoint_reader(made), "model.layers.0.mlp.gate.input_scale"));
    kerf_checkpoint_close(made);
}

/* What the source brings along stays. */
static void test_source_has_one(void **state)
{
    static const float met[EXPERTS] = {3, 4, 5};
    char path[4200];
    kerf_checkpoint *c = experts(*state, "model.layers.0.mlp.experts.0.up_proj.input_scale"), *made;
    kerf_plan *p = NULL;
    kerf_error err;
    must(plan(c, met, path_in(*state, "kept.safetensors", path), &p, &err), &err);
    must(kerf_quantize(p, NULL, NULL, NULL, &err), &err);
    kerf_plan_free(p);
    kerf_checkpoint_close(c);
    made = open_checkpoint(path);
    assert_true(number_of(made, "model.layers.0.mlp.experts.0.up_proj.input_scale") == -1.0f);
    assert_true(number_of(made, "model.layers.0.mlp.experts.1.up_proj.input_scale") == 4.0f / 2688);
    kerf_checkpoint_close(made);
}

static void test_refusals(void **state)
{
    static const float none[EXPERTS] = {0, 0, 0}, unknown[EXPERTS] = {3, NAN, 5};
    kerf_checkpoint *c = experts(*state, NULL);
    kerf_plan *p = NULL;
    kerf_error err;
    assert_int_equal(plan(c, none, NULL, &p, &err), KERF_E_ARG);
    assert_non_null(
        strstr(err.text, "the largest input of model.layers.0.mlp.experts.0.down_proj.weight is 0"));
    assert_int_equal(plan(c, unknown, NULL, &p, &err), KERF_E_ARG);
    assert_non_null(
        strstr(err.text, "does not know the inputs of model.layers.0.mlp.experts.1.down_proj"));
    assert_null(p);
    kerf_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_source_has_one),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
