/* test_made_cache.c - scales of the KV cache that a plan makes: which weights have them, what they
 * are called, and when there are none. */
#include <math.h>

#include "quantize_case.h"

#define ATTENTION "model.layers.0.self_attn"

/* One layer with these matrices of its attention, and one of an MLP. */
static kerf_checkpoint *layer(const char *folder, const char *const *pieces, size_t count)
{
    char path[4200], name[8][96];
    kerf_entry e[8] = {{0}};
    kerf_writer *w;
    kerf_error err;
    static float drawn[64 * 64];
    for (size_t i = 0; i < 64 * 64; i++)
        drawn[i] = (float)((int)(i * 2654435761u % 2001) - 1000) / 1000;
    for (size_t i = 0; i <= count; i++) {
        snprintf(name[i], sizeof name[i], i < count ? ATTENTION ".%s.weight" : "%s",
                 i < count ? pieces[i] : "model.layers.0.mlp.down_proj.weight");
        e[i] = (kerf_entry){name[i], KERF_F32, {2, {64, 64}}, 0};
    }
    must(kerf_writer_create(path_in(folder, "layer.safetensors", path), e, count + 1,
                            &(kerf_writer_options){.overwrite = 1}, &w, &err),
         &err);
    for (size_t i = 0; i <= count; i++)
        must(kerf_writer_write(w, i, 0, drawn, sizeof drawn, &err), &err);
    must(kerf_writer_commit(w, &err), &err);
    return open_checkpoint(path);
}

static kerf_status largest(const void *ctx, const kerf_weight *w, float *out, kerf_error *err)
{
    (void)w, (void)err;
    memcpy(out, ctx, 2 * sizeof *out);
    return KERF_OK;
}

static kerf_status plan(const kerf_checkpoint *c, const float seen[2], const char *layout,
                        const char *path, kerf_plan **p, kerf_error *err)
{
    const kerf_output to = {.path = path,
                            .layout = kerf_layout_find(layout),
                            .overwrite = 1,
                            .cached = {seen, largest, "CAL"}};
    return kerf_plan_make(c, NULL, NULL, 0, codec_of("nvfp4"), &to, p, err);
}

/* The output has these two, and their numbers are the largest / 448. */
static void check_names(void **state, kerf_checkpoint *c, const char *layout, const char *of_keys,
                        const char *of_values)
{
    static const float seen[2] = {7, 3};
    char path[4200];
    kerf_plan *p = NULL;
    kerf_error err;
    const char *name[] = {of_keys, of_values};
    must(plan(c, seen, layout, path_in(*state, "made.safetensors", path), &p, &err), &err);
    assert_string_equal(kerf_plan_note(p, 0),
                        "the KV cache is fp8-e4m3: 1 layer has scales of keys and values by CAL");
    must(kerf_quantize(p, NULL, NULL, NULL, &err), &err);
    kerf_plan_free(p);
    kerf_checkpoint *made = open_checkpoint(path);
    const kerf_reader *r = kerf_checkpoint_reader(made);
    for (int i = 0; i < 2; i++) {
        float x;
        const kerf_tensor *t = kerf_reader_find(r, name[i]);
        if (!t) fail_msg("no %s", name[i]);
        assert_true(t->dtype == KERF_F32 && t->bytes == sizeof x);
        must(kerf_reader_read(r, t, 0, &x, sizeof x, &err), &err);
        assert_true(x == seen[i] / 448);
    }
    size_t scales = 0;
    for (size_t i = 0; i < kerf_reader_count(r); i++) {
        const char *n = kerf_reader_at(r, i)->name;
        scales += strstr(n, ".k_scale") || strstr(n, ".v_scale");
    }
    assert_int_equal(scales, 2);
    kerf_checkpoint_close(made);
}

static void test_names(void **state)
{
    static const char *const apart[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    static const char *const fused[] = {"qkv_proj", "o_proj"};
    static const char *const one[] = {"q_proj", "k_proj", "o_proj"}; /* values are keys */
    const struct {
        const char *const *piece;
        size_t count;
    } kinds[] = {{apart, 4}, {fused, 2}, {one, 3}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        kerf_checkpoint *c = layer(*state, kinds[i].piece, kinds[i].count);
        check_names(state, c, "modelopt", ATTENTION ".k_proj.k_scale", ATTENTION ".v_proj.v_scale");
        check_names(state, c, "compressed-tensors", ATTENTION ".k_scale", ATTENTION ".v_scale");
        kerf_checkpoint_close(c);
    }
}

static void test_refusals(void **state)
{
    static const char *const apart[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    static const char *const latent[] = {"q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"};
    static const float usual[2] = {7, 3}, none[2] = {7, 0}, unknown[2] = {NAN, NAN};
    kerf_plan *p = NULL;
    kerf_error err;
    kerf_checkpoint *c = layer(*state, apart, 4);
    assert_int_equal(plan(c, none, "modelopt", NULL, &p, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "the largest value of the layer of " ATTENTION
                                     ".k_proj.weight is 0, which makes no scale"));
    assert_int_equal(plan(c, unknown, "modelopt", NULL, &p, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "CAL knows the keys and values of no layer"));
    assert_int_equal(plan(c, usual, "kerf", NULL, &p, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "layout kerf has no words for a KV cache"));
    kerf_checkpoint_close(c);
    c = layer(*state, latent, 4);
    assert_int_equal(plan(c, usual, "modelopt", NULL, &p, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "CAL knows the keys and values of no layer with a k_proj"));
    assert_null(p);
    kerf_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
