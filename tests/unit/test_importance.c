/* test_importance.c - imatrix files in their three forms: which entry a weight finds, and what
 * becomes of sums, counts and experts that saw no token. */
#include <kerf/advise.h>
#include <kerf/importance.h>
#include <kerf/inspect.h>
#include <kerf/layouts.h>

#include <stdio.h>

#include "test_output.h"

#define COLUMNS 4

/* Entries and their F32 values, as a checkpoint. */
typedef struct given {
    const char *name;
    kerf_shape shape;
    const float *value;
} given;

static kerf_checkpoint *open_given(const char *path, const given *g, size_t count)
{
    kerf_entry e[8] = {{0}};
    kerf_writer *w;
    kerf_checkpoint *c;
    kerf_error err;
    const kerf_writer_options opt = {.overwrite = 1};
    for (size_t i = 0; i < count; i++) e[i] = (kerf_entry){g[i].name, KERF_F32, g[i].shape, 0};
    must(kerf_writer_create(path, e, count, &opt, &w, &err), &err);
    for (size_t i = 0; i < count; i++)
        must(kerf_writer_write(w, i, 0, g[i].value, entry_bytes(&e[i]), &err), &err);
    must(kerf_writer_commit(w, &err), &err);
    must(kerf_checkpoint_open(path, &c, &err), &err);
    return c;
}

static kerf_weight weight_of(const char *name, kerf_shape shape)
{
    kerf_weight w = {.name = name, .shape = shape, .dtype = KERF_BF16};
    kerf_place_find("qwen3_moe", name, &shape, &w.place);
    return w;
}

static void expect(const kerf_checkpoint *c, const kerf_weight *w, int together, const float *want,
                   size_t count)
{
    kerf_importance got;
    kerf_error err;
    must(kerf_importance_read(c, w, together, &got, &err), &err);
    assert_int_equal(got.count, count);
    assert_int_equal(kerf_importance_names(c, w), count > 0);
    if (count) assert_memory_equal(got.value, want, count * sizeof *want);
    kerf_importance_free(&got);
}

static const float sums[12] = {2, 4, 6, 8, 9, 9, 9, 9, 10, 20, 30, 40};
static const float counts[3] = {2, 0, 10};

static void test_gguf_form(void **state)
{
    const given g[] = {{"blk.3.ffn_up.weight.in_sum2", {2, {1, 4}}, sums},
                       {"blk.3.ffn_up.weight.counts", {2, {1, 1}}, counts},
                       {"blk.3.ffn_up_exps.weight.in_sum2", {2, {3, 4}}, sums},
                       {"blk.3.ffn_up_exps.weight.counts", {2, {3, 1}}, counts}};
    kerf_checkpoint *c = open_given(in_folder(state, "imatrix.gguf"), g, 4);
    const float dense[] = {1, 2, 3, 4}, third[] = {1, 2, 3, 4};
    const float all[] = {1, 2, 3, 4, 1, 1, 1, 1, 1, 2, 3, 4}; /* the second saw no token */
    const float folded[] = {21 / 12.0f, 33 / 12.0f, 45 / 12.0f, 57 / 12.0f};
    kerf_weight w = weight_of("model.layers.3.mlp.up_proj.weight", (kerf_shape){2, {8, COLUMNS}});
    expect(c, &w, 0, dense, COLUMNS);
    w = weight_of("blk.3.ffn_up.weight", (kerf_shape){2, {8, COLUMNS}});
    expect(c, &w, 0, dense, COLUMNS);
    w = weight_of("model.layers.2.mlp.up_proj.weight", (kerf_shape){2, {8, COLUMNS}});
    expect(c, &w, 0, NULL, 0);
    w = weight_of("model.layers.3.mlp.down_proj.weight", (kerf_shape){2, {8, COLUMNS}});
    expect(c, &w, 0, NULL, 0);
    w = weight_of("model.layers.3.mlp.experts.2.up_proj.weight", (kerf_shape){2, {8, COLUMNS}});
    expect(c, &w, 0, third, COLUMNS);
    w = weight_of("blk.3.ffn_up_exps.weight", (kerf_shape){3, {3, 8, COLUMNS}});
    expect(c, &w, 0, all, 3 * COLUMNS);
    expect(c, &w, 1, folded, COLUMNS);
    kerf_checkpoint_close(c);
}

static void test_safetensors_form(void **state)
{
    const given g[] = {{"a.weight", {1, {4}}, sums}, {"b.weight", {1, {3}}, sums}};
    kerf_checkpoint *c = open_given(in_folder(state, "imatrix.safetensors"), g, 2);
    kerf_weight w = weight_of("a.weight", (kerf_shape){2, {8, COLUMNS}});
    kerf_importance got;
    kerf_error err;
    expect(c, &w, 0, sums, COLUMNS);
    w.name = "b.weight";
    assert_int_equal(kerf_importance_read(c, &w, 0, &got, &err), KERF_E_DATA);
    assert_non_null(strstr(err.text, "one value per column"));
    kerf_checkpoint_close(c);
}

/* Experts one by one, of which GGUF has one stack: each has its own entry, not that of the first.
 */
static void test_singles_of_a_stack(void **state)
{
    static const char *const names[] = {"m.layers.3.mlp.experts.0.up_proj.weight",
                                        "m.layers.3.mlp.experts.1.up_proj.weight",
                                        "m.layers.3.mlp.experts.2.up_proj.weight"};
    const float own[3][COLUMNS] = {{1, 2, 3, 4}, {0, 0, 0, 0}, {5, 6, 7, 8}};
    const float tokens[3] = {2, 0, 6};
    const given g[] = {{names[0], {1, {4}}, own[0]},
                       {names[1], {1, {4}}, own[1]},
                       {names[2], {1, {4}}, own[2]},
                       {"m.layers.3.mlp.experts.0.up_proj.weight.count", {1, {1}}, &tokens[0]},
                       {"m.layers.3.mlp.experts.1.up_proj.weight.count", {1, {1}}, &tokens[1]},
                       {"m.layers.3.mlp.experts.2.up_proj.weight.count", {1, {1}}, &tokens[2]}};
    const float all[] = {1, 2, 3, 4, 1, 1, 1, 1, 5, 6, 7, 8}, folded[] = {4, 5, 6, 7};
    kerf_weight w = weight_of("blk.3.ffn_up_exps.weight", (kerf_shape){3, {3, 8, COLUMNS}});
    w.whole = names[0];
    kerf_checkpoint *c = open_given(in_folder(state, "imatrix.safetensors"), g, 6);
    expect(c, &w, 0, all, 12);
    expect(c, &w, 1, folded, COLUMNS);
    kerf_checkpoint_close(c);
    c = open_given(in_folder(state, "imatrix.safetensors"), g, 3);
    const float means[] = {1, 2, 3, 4, 1, 1, 1, 1, 5, 6, 7, 8};
    expect(c, &w, 0, means, 12);
    kerf_checkpoint_close(c);
    c = open_given(in_folder(state, "imatrix.safetensors"), g, 2); /* the third has none */
    expect(c, &w, 0, NULL, 0);
    kerf_checkpoint_close(c);
}

static void put(FILE *f, int32_t v)
{
    assert_int_equal(fwrite(&v, sizeof v, 1, f), 1);
}

static kerf_status open_dat(const char *path, int32_t calls, int32_t values, kerf_checkpoint **c,
                            kerf_error *err)
{
    static const char name[] = "blk.0.attn_q.weight";
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    put(f, 1);
    put(f, sizeof name - 1);
    assert_int_equal(fwrite(name, sizeof name - 1, 1, f), 1);
    put(f, calls);
    put(f, values);
    assert_int_equal(fwrite(sums, sizeof *sums, COLUMNS, f), COLUMNS);
    fclose(f);
    return kerf_checkpoint_open(path, c, err);
}

static void test_dat_form(void **state)
{
    const float want[] = {1, 2, 3, 4};
    kerf_checkpoint *c = NULL;
    kerf_error err;
    must(open_dat(in_folder(state, "imatrix.dat"), 2, COLUMNS, &c, &err), &err);
    kerf_weight w =
        weight_of("model.layers.0.self_attn.q_proj.weight", (kerf_shape){2, {8, COLUMNS}});
    expect(c, &w, 0, want, COLUMNS);
    kerf_checkpoint_close(c);
    must(open_dat(in_folder(state, "means.dat"), 0, COLUMNS, &c, &err), &err);
    expect(c, &w, 0, sums, COLUMNS); /* no calls: means, as llama.cpp takes them */
    kerf_checkpoint_close(c);
    assert_int_equal(open_dat(in_folder(state, "cut.dat"), 2, COLUMNS + 1, &c, &err), KERF_E_DATA);
    assert_non_null(
        strstr(err.text, "entry 1 of an imatrix.dat: it has more values than the file"));
}

/* Encoders would make zeros of all that it is for. */
static void test_zeros(void **state)
{
    const float none[12] = {0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0};
    const float want[12] = {1, 1, 1, 1, 0, 3, 0, 0, 1, 1, 1, 1}, folded[] = {0, 1, 0, 0};
    const given g[] = {{"a.weight", {1, {4}}, none}, {"b", {2, {3, 4}}, none}};
    kerf_checkpoint *c = open_given(in_folder(state, "zeros.safetensors"), g, 2);
    const kerf_weight a = weight_of("a.weight", (kerf_shape){2, {8, COLUMNS}});
    const kerf_weight b = weight_of("b", (kerf_shape){3, {3, 8, COLUMNS}});
    expect(c, &a, 0, want, COLUMNS);
    expect(c, &b, 0, want, 3 * COLUMNS);
    expect(c, &b, 1, folded, COLUMNS);
    kerf_checkpoint_close(c);
}

/* A tensor without dimensions has one column, in all that weighs by it: scores, advice and its
 * cache, and llama.cpp's form. */
static void test_scalar(void **state)
{
    static float matrix[2 * 256];
    static const float one[1] = {3}, many[256] = {2, 1};
    for (size_t i = 0; i < 2 * 256; i++) matrix[i] = (float)(i % 11) - 5;
    const given model[] = {{"layers.0.weight", {2, {2, 256}}, matrix}, {"scale", {0}, one}};
    const given weights[] = {{"layers.0.weight", {1, {256}}, many}, {"scale", {1, {1}}, one}};
    kerf_checkpoint *c = open_given(in_folder(state, "model.safetensors"), model, 2);
    kerf_checkpoint *imatrix = open_given(in_folder(state, "imatrix.safetensors"), weights, 2);
    const kerf_select all = {.all = 1};
    kerf_codec codec[2];
    kerf_error err;
    kerf_scores *s;
    kerf_advice *a;
    must(kerf_codec_find("int8", &codec[0], &err), &err);
    must(kerf_codec_find("mxfp4", &codec[1], &err), &err);
    const kerf_score_request r = {.select = &all, .codec = codec, .codecs = 2, .imatrix = imatrix};
    must(kerf_score_checkpoint(c, &r, NULL, NULL, &s, &err), &err);
    assert_int_equal(s->tensors, 2);
    for (size_t i = 0; i < 4; i++) assert_true(kerf_score_weighted_t2(&s->score[i]) < 0.1);
    kerf_scores_close(s);
    kerf_advise_request q = {.select = &all, .codec = codec, .codecs = 2, .imatrix = imatrix};
    q.budget.bits = 6;
    q.cache = in_folder(state, "cache.json");
    for (size_t i = 0; i < 2; i++) { /* the second from the cache */
        must(kerf_advise(c, &q, NULL, NULL, &a, &err), &err);
        assert_int_equal(a->cached, i ? 4 : 0);
        kerf_advice_close(a);
    }
    kerf_checkpoint_close(c);
    kerf_checkpoint_close(imatrix);
}

/* What is no failure leaves the error alone: a config.json that is no JSON says nothing. */
static void test_a_config_that_says_nothing(void **state)
{
    static const float one[4] = {1, 2, 3, 4};
    const given g = {"layers.0.weight", {2, {1, 4}}, one};
    kerf_checkpoint *c = open_given(in_folder(state, "silent.safetensors"), &g, 1);
    const kerf_layout *layout;
    kerf_inspection *x;
    kerf_reader *r;
    kerf_error err, before;
    kerf_checkpoint_close(c);
    must(kerf_file_replace(in_folder(state, "config.json"), "no JSON", 7, 1, &err), &err);
    memset(&err, 0x5a, sizeof err);
    before = err;
    assert_int_equal(kerf_checkpoint_open(in_folder(state, "silent.safetensors"), &c, &err),
                     KERF_OK);
    assert_memory_equal(&err, &before, sizeof err);
    assert_int_equal(kerf_inspect_all(c, NULL, &x, &err), KERF_OK);
    assert_memory_equal(&err, &before, sizeof err);
    kerf_inspection_free(x);
    kerf_checkpoint_close(c);
    must(kerf_reader_open(in_folder(state, "silent.safetensors"), &r, &err), &err);
    memset(&err, 0x5a, sizeof err);
    assert_int_equal(kerf_layout_configured(r, &layout, &err), KERF_OK);
    assert_null(layout);
    assert_memory_equal(&err, &before, sizeof err);
    kerf_reader_close(r);
    assert_int_equal(unlink(in_folder(state, "config.json")), 0);
}

static void test_bad_values(void **state)
{
    const float bad[] = {1, -1, 0, 0}, huge[] = {1, 0, 1.1e30f, 0}, large[] = {1, 0, 9e29f, 0};
    const given g[] = {
        {"a.weight", {1, {4}}, bad}, {"b.weight", {1, {4}}, huge}, {"c.weight", {1, {4}}, large}};
    kerf_checkpoint *c = open_given(in_folder(state, "bad.safetensors"), g, 3);
    const kerf_weight w = weight_of("a.weight", (kerf_shape){2, {8, COLUMNS}});
    const kerf_weight b = weight_of("b.weight", (kerf_shape){2, {8, COLUMNS}});
    const kerf_weight l = weight_of("c.weight", (kerf_shape){2, {8, COLUMNS}});
    kerf_importance got;
    kerf_error err;
    assert_int_equal(kerf_importance_read(c, &w, 0, &got, &err), KERF_E_DATA);
    assert_non_null(strstr(err.text, "value 1 is negative"));
    assert_null(got.value);
    assert_int_equal(kerf_importance_read(c, &b, 0, &got, &err), KERF_E_DATA);
    assert_non_null(strstr(err.text, "value 2 is negative, not finite, or above 1e30"));
    expect(c, &l, 0, large, COLUMNS);
    kerf_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_form),
        cmocka_unit_test(test_safetensors_form),
        cmocka_unit_test(test_singles_of_a_stack),
        cmocka_unit_test(test_dat_form),
        cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_scalar),
        cmocka_unit_test(test_a_config_that_says_nothing),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
