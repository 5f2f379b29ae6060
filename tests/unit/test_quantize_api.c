/* test_quantize_api.c - the engine as a program uses it: plans, quantize, dequantize, convert and
 * inspect, with their events. How calls are canceled: test_quantize_cancel.c. */
#include "quantize_case.h"

/* --- plans --- */

static const kerf_decision *decision_for(const kerf_plan *p, const char *name)
{
    const kerf_decision *d;
    for (size_t i = 0; (d = kerf_plan_at(p, i)) != NULL; i++)
        if (strcmp(d->weight->name, name) == 0) return d;
    fail_msg("no decision for %s", name);
    return NULL;
}

static void test_decisions(void **state)
{
    (void)state;
    static const char *const keep[] = {"*layers.1.*"};
    const kerf_select select = {.keep = keep, .keeps = 1};
    const kerf_rule rules[] = {{"*o_proj*", NULL, codec_of("int8")},
                               {"*layers.0.self_attn.o_proj*", "my rule", {NULL, NULL}},
                               {"*embed_tokens*", "embeddings too", codec_of("nf4")}};
    kerf_checkpoint *c = open_checkpoint(model);
    kerf_plan *p = NULL;
    kerf_error err;
    kerf_totals t;
    must(kerf_plan_make(c, &select, rules, 3, codec_of("nvfp4:4/6"), &(kerf_output){0}, &p, &err),
         &err);
    const kerf_decision *d = decision_for(p, "model.layers.0.mlp.up_proj.weight");
    assert_string_equal(d->codec.encoder->name, "4/6");
    assert_string_equal(d->reason, "");
    assert_true(kerf_decision_bytes(d) > 0);
    d = decision_for(p, "model.layers.0.self_attn.o_proj.weight");
    assert_null(d->codec.format);
    assert_string_equal(d->reason, "my rule");
    d = decision_for(p, "model.layers.1.self_attn.o_proj.weight"); /* rules overrule */
    assert_string_equal(d->codec.format->name, "int8");
    assert_string_equal(d->reason, "*o_proj*");
    d = decision_for(p, "model.layers.1.mlp.up_proj.weight");
    assert_null(d->codec.format);
    d = decision_for(p, "model.embed_tokens.weight");
    assert_string_equal(d->codec.format->name, "nf4");
    d = decision_for(p, "model.layers.0.input_layernorm.weight");
    assert_string_equal(d->reason, "norm");
    kerf_plan_totals(p, &t);
    assert_int_equal(t.weights, kerf_weights_count(kerf_checkpoint_weights(c)));
    assert_true(t.quantized > 0 && t.quantized < t.weights);
    assert_true(t.bytes_out < t.bytes_in);
    assert_null(kerf_plan_at(p, t.weights));
    assert_ptr_equal(kerf_plan_layout(p), kerf_layout_at(0));
    assert_int_equal(kerf_quantize(p, NULL, NULL, NULL, &err), KERF_E_ARG); /* has no path */
    kerf_plan_free(p);
    kerf_checkpoint_close(c);
}

static void test_only(void **state)
{
    (void)state;
    static const char *const only[] = {"*layers.0.mlp.*"};
    const kerf_select select = {.only = only, .onlys = 1};
    kerf_checkpoint *c = open_checkpoint(model);
    kerf_plan *p = NULL;
    kerf_error err;
    kerf_totals t;
    must(kerf_plan_make(c, &select, NULL, 0, codec_of("nvfp4"), &(kerf_output){0}, &p, &err), &err);
    kerf_plan_totals(p, &t);
    assert_int_equal(t.quantized, 3);
    assert_non_null(decision_for(p, "model.layers.0.mlp.up_proj.weight")->codec.format);
    assert_string_equal(decision_for(p, "model.layers.1.mlp.up_proj.weight")->reason,
                        "not in --only");
    kerf_plan_free(p);
    kerf_checkpoint_close(c);
}

static void refuses(const kerf_checkpoint *c, const kerf_select *s, const kerf_rule *rules,
                    size_t count, const kerf_output *to, kerf_status wanted, const char *text)
{
    kerf_plan *p = NULL;
    kerf_error err = {0};
    assert_int_equal(kerf_plan_make(c, s, rules, count, codec_of("nvfp4"), to, &p, &err), wanted);
    assert_null(p);
    if (!strstr(err.text, text)) fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

static void test_refused_plans(void **state)
{
    (void)state;
    static const char *const nothing[] = {"*nothing*"}, *const up[] = {"*up_proj*"},
                             *const all[] = {"*"};
    const kerf_output usual = {0}, ct = {.layout = kerf_layout_find("compressed-tensors")},
                      gguf = {.path = "x", .layout = kerf_layout_find("gguf")};
    const kerf_rule no_match = {"*nothing*", "rule 1", codec_of("nf4")};
    kerf_checkpoint *c = open_checkpoint(model);
    refuses(c, &(kerf_select){.keep = nothing, .keeps = 1}, NULL, 0, &usual, KERF_E_ARG,
            "*nothing* matches no tensor");
    refuses(c, NULL, &no_match, 1, &usual, KERF_E_ARG, "rule 1 matches no tensor");
    /* a plan of nothing can be looked at, not executed */
    kerf_plan *p = NULL;
    kerf_error err = {0};
    assert_int_equal(kerf_plan_make(c, &(kerf_select){.keep = all, .keeps = 1}, NULL, 0,
                                    codec_of("nvfp4"), &usual, &p, &err),
                     KERF_OK);
    assert_string_equal(kerf_plan_at(p, 0)->reason, "--keep *");
    assert_int_equal(kerf_quantize(p, NULL, NULL, NULL, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "is kept (--keep *)"));
    kerf_plan_free(p);
    refuses(c, &(kerf_select){.keep = up, .keeps = 1}, NULL, 0, &ct, KERF_E_ARG,
            "are one matrix to the loaders");
    refuses(c, NULL, NULL, 0, &gguf, KERF_E_ARG, "layout gguf");
    const kerf_rule half = {"*up_proj*", NULL, {kerf_format_find("nf4"), NULL}};
    refuses(c, NULL, &half, 1, &usual, KERF_E_ARG, "no encoder");
    p = NULL;
    assert_int_equal(kerf_plan_make(c, NULL, NULL, 0, half.codec, &usual, &p, &err), KERF_E_ARG);
    assert_null(p);
    refuses(c, NULL, NULL, 0, &(kerf_output){.path = "x.safetensors", .zstd_level = 9}, KERF_E_ARG,
            "--zstd-level");
    refuses(c, NULL, NULL, 0, &(kerf_output){.path = "x", .zstd_level = 9}, KERF_E_ARG,
            "--zstd-level");
    kerf_checkpoint_close(c);
}

/* --- quantize --- */

static void test_quantize(void **state)
{
    char out[4200], other[4200], file[4200], same[4200];
    const char *folder = folder_of(state, "quantize");
    kerf_checkpoint *c = open_checkpoint(model);
    kerf_plan *p = plan_for(c, "nvfp4:4/6", &(kerf_output){.path = path_in(folder, "out", out)});
    kerf_totals t;
    kerf_result r;
    kerf_error err;
    listener l = {0};
    const kerf_job job = job_of(&l);
    kerf_plan_totals(p, &t);
    must(kerf_quantize(p, NULL, &job, &r, &err), &err);
    assert_string_equal(l.phases, "[writing][comparing what was written]");
    assert_int_equal(l.items, t.weights);
    assert_true(l.asked >= (long)t.weights);
    assert_true(l.done > 0 && l.done == l.total);
    assert_false(l.twice);
    assert_int_equal(r.changed, t.quantized);
    assert_int_equal(r.kept, t.weights - t.quantized);
    assert_int_equal(r.bytes_in, t.bytes_in);
    assert_int_equal(r.bytes_out, t.bytes_out);
    assert_true(r.seconds > 0);
    assert_int_equal(count_entries(folder), 1);
    assert_int_equal(kerf_quantize(p, NULL, NULL, NULL, &err), KERF_E_EXISTS);
    kerf_plan_free(p);

    kerf_checkpoint *written = open_checkpoint(out);
    assert_int_equal(kerf_checkpoint_quantized(written), t.quantized);
    kerf_checkpoint_close(written);

    /* the same bytes from a team of several members */
    const kerf_exec member[3] = {{.threads = 1}, {.threads = 2}, {.threads = 1}};
    const kerf_team team = {member, 3};
    p = plan_for(c, "nvfp4:4/6", &(kerf_output){.path = path_in(folder, "other", other)});
    must(kerf_quantize(p, &team, NULL, NULL, &err), &err);
    assert_same_file(path_in(out, "model.safetensors", file),
                     path_in(other, "model.safetensors", same));
    kerf_plan_free(p);
    kerf_checkpoint_close(c);
}

/* --- dequantize, convert, inspect --- */

static void test_dequantize(void **state)
{
    char out[4200];
    const char *folder = folder_of(state, "dequantize");
    kerf_checkpoint *c = open_checkpoint(quantized_model(state)), *dense = open_checkpoint(model);
    kerf_result r;
    kerf_error err;
    const kerf_output to = {.path = path_in(folder, "out", out)};
    must(kerf_dequantize(c, KERF_F32, &to, NULL, NULL, &r, &err), &err);
    assert_int_equal(r.changed, kerf_checkpoint_quantized(c));
    kerf_checkpoint *written = open_checkpoint(out);
    const kerf_weights *all = kerf_checkpoint_weights(written);
    assert_int_equal(kerf_checkpoint_quantized(written), 0);
    const kerf_weight *w = kerf_weights_find(all, "model.layers.0.mlp.up_proj.weight");
    assert_int_equal(w->dtype, KERF_F32);
    w = kerf_weights_find(all, "model.embed_tokens.weight");
    assert_int_equal(w->dtype, KERF_BF16);
    kerf_checkpoint_close(written);
    assert_int_equal(kerf_dequantize(dense, KERF_F32, &to, NULL, NULL, NULL, &err), KERF_E_NOSUP);
    assert_int_equal(kerf_dequantize(c, KERF_U8, &to, NULL, NULL, NULL, &err), KERF_E_ARG);
    kerf_checkpoint_close(dense);
    kerf_checkpoint_close(c);
}

static void convert(const char *from, const char *to, const char *layout, kerf_result *r,
                    kerf_losses *lost)
{
    kerf_checkpoint *c = open_checkpoint(from);
    const kerf_output out = {.path = to, .layout = kerf_layout_find(layout)};
    kerf_error err;
    must(kerf_convert(c, &out, NULL, r, lost, &err), &err);
    kerf_checkpoint_close(c);
}

static void test_convert(void **state)
{
    char out[4200], back[4200], a[4200], b[4200];
    const char *folder = folder_of(state, "convert"), *modelopt = quantized_model(state);
    kerf_checkpoint *c = open_checkpoint(modelopt);
    kerf_result r;
    kerf_losses lost;
    kerf_error err;
    convert(modelopt, path_in(folder, "out", out), "kerf", &r, &lost);
    assert_int_equal(r.changed, kerf_checkpoint_quantized(c));
    assert_memory_equal(&lost, &(kerf_losses){0}, sizeof lost);
    convert(out, path_in(folder, "back", back), "modelopt", NULL, NULL);
    assert_same_file(path_in(modelopt, "model.safetensors", a),
                     path_in(back, "model.safetensors", b));
    convert(modelopt, path_in(folder, "reciprocals", out), "compressed-tensors", &r, &lost);
    assert_true(lost.rounded > 0);
    const kerf_output bnb = {.path = path_in(folder, "none", out),
                             .layout = kerf_layout_find("bitsandbytes")};
    assert_int_equal(kerf_convert(c, &bnb, NULL, NULL, NULL, &err), KERF_E_NOSUP);
    assert_false(is_there(out));
    kerf_checkpoint_close(c);
}

typedef struct found {
    size_t errors, notes;
    char first[200];
} found;

static void add_finding(void *ctx, const kerf_finding *f)
{
    found *all = ctx;
    if (f->severity == KERF_ERROR)
        all->errors++;
    else
        all->notes++;
    if (!all->first[0]) snprintf(all->first, sizeof all->first, "%s: %s", f->tensor, f->text);
}

static void test_inspect(void **state)
{
    char path[4200], from[4200], to[4200];
    const char *sound = quantized_model(state);
    kerf_checkpoint *c = open_checkpoint(sound);
    kerf_error err;
    found all = {0};
    listener l = {0};
    kerf_job job = job_of(&l);
    must(kerf_inspect(c, add_finding, &all, &job, &err), &err);
    assert_int_equal(all.errors, 0);
    assert_true(l.asked > 0 && l.done == l.total);
    l.yes_from = 5;
    job = job_of(&l);
    assert_int_equal(kerf_inspect(c, add_finding, &all, &job, &err), KERF_E_CANCELED);
    kerf_checkpoint_close(c);

    /* a config.json that does not speak of the codes */
    mkdir(path_in(*state, "plain-config", path), 0777);
    copy_file(path_in(sound, "model.safetensors", from), path_in(path, "model.safetensors", to));
    copy_file(path_in(model, "config.json", from), path_in(path, "config.json", to));
    c = open_checkpoint(path);
    all = (found){0};
    must(kerf_inspect(c, add_finding, &all, NULL, &err), &err);
    assert_int_equal(all.errors, 1);
    assert_non_null(strstr(all.first, "is in layout modelopt, but config.json names none"));
    kerf_checkpoint_close(c);
}

/* --- layers that are merged --- */

static void test_fused(void **state)
{
    (void)state;
    const kerf_weight *member[KERF_FUSED_MOST];
    kerf_checkpoint *c = open_checkpoint(model);
    const kerf_weights *all = kerf_checkpoint_weights(c);
    const kerf_weight *k = kerf_weights_find(all, "model.layers.1.self_attn.k_proj.weight");
    assert_int_equal(kerf_fused_group(all, k, member), 3);
    assert_string_equal(member[0]->name, "model.layers.1.self_attn.q_proj.weight");
    assert_ptr_equal(member[1], k);
    const kerf_weight *down = kerf_weights_find(all, "model.layers.1.mlp.down_proj.weight");
    assert_int_equal(kerf_fused_group(all, down, member), 0);
    assert_string_equal(kerf_piece_fused(KERF_PIECE_UP), "gate_up_proj");
    assert_string_equal(kerf_piece_fused(KERF_PIECE_KV_A), "qkv_a_proj");
    assert_null(kerf_piece_fused(KERF_PIECE_DOWN));
    assert_null(kerf_piece_fused(KERF_PIECE_NONE));
    kerf_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions),     cmocka_unit_test(test_only),
        cmocka_unit_test(test_refused_plans), cmocka_unit_test(test_quantize),
        cmocka_unit_test(test_dequantize),    cmocka_unit_test(test_convert),
        cmocka_unit_test(test_inspect),       cmocka_unit_test(test_fused),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
