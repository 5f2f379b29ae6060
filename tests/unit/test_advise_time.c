/* test_advise_time.c - what a step takes besides what a format is chosen for, and what takes none
 * of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/advise.h>
#include <kerf/quantize.h>

#include "near.h"
#include "test_advice.h"

static kerf_hardware *h200;

static kerf_advice *advise_timed(const kerf_select *select, const kerf_model *of)
{
    kerf_advise_request r = request_of((kerf_budget){.bits = 16});
    r.hardware = h200;
    r.model = of;
    r.select = select;
    return advise(&r);
}

/* Of the groups whose names have `part`, kept as they are. */
static double kept_us(const kerf_advice *a, const char *part)
{
    double us = 0;
    for (size_t i = 0; i < a->groups; i++)
        if (strstr(a->group[i].name, part)) us += a->group[i].cost[a->codecs].us;
    return us;
}

/* A layer that nobody chooses for is read in each step all the same. */
static void kept_layers_take_time(void **state)
{
    (void)state;
    static const char *const mlp[] = {"*mlp*"}, *const attention[] = {"*self_attn*"};
    const kerf_select keep = {.keep = mlp, .keeps = 1}, only = {.only = attention, .onlys = 1};
    const kerf_model *const models[] = {&config, NULL};
    for (size_t i = 0; i < 2; i++) {
        kerf_advice *all = advise_timed(NULL, models[i]), *some = advise_timed(&keep, models[i]);
        assert_true(some->groups == 8 && kept_us(all, ".mlp.") > 0);
        assert_near(some->other_us - all->other_us, kept_us(all, ".mlp."), 1e-9);
        assert_true(some->other_high_us > all->other_high_us);
        assert_true(some->other_low_us > all->other_low_us);
        kerf_advice_close(some);
        some = advise_timed(&only, models[i]);
        assert_near(some->other_us - all->other_us, kept_us(all, ".mlp."), 1e-9);
        kerf_advice_close(some);
        kerf_advice_close(all);
    }
}

/* No product: norms, and a table of which rows are looked up, where it is not the head as well. */
static void what_is_no_product_takes_none(void **state)
{
    (void)state;
    const kerf_select every = {.all = 1};
    kerf_model untied = config;
    untied.tied = 0;
    kerf_advice *usual = advise_timed(NULL, &config), *all = advise_timed(&every, &config);
    assert_true(all->groups == 26 && config.tied);
    assert_near(kept_us(all, "norm"), 0, 0);
    assert_true(kept_us(all, "embed_tokens") > 0);
    assert_near(all->other_us, usual->other_us - kept_us(all, "embed_tokens"), 1e-9);
    kerf_advice_close(all);
    all = advise_timed(&every, &untied);
    assert_near(kept_us(all, "embed_tokens"), 0, 0);
    assert_near(all->other_us, usual->other_us, 1e-9);
    kerf_advice_close(all);
    kerf_advice_close(usual);
    static const char *const table[] = {"*embed_tokens*"};
    const kerf_select lone = {.only = table, .onlys = 1, .all = 1};
    all = advise_timed(&lone, &untied);
    assert_true(all->groups == 1 && all->by_time.count > 0);
    kerf_advice_close(all);
}

static kerf_advice_shape shape_of(const kerf_advice *a, const char *part)
{
    for (size_t i = 0; i < a->groups; i++) {
        if (!strstr(a->group[i].name, part)) continue;
        assert_int_equal(a->group[i].shapes, 1);
        return a->group[i].shape[0];
    }
    fail_msg("no group %s", part);
    return (kerf_advice_shape){0};
}

/* Eight GPUs, eight heads of 32 with four for keys: each has a head of q, and a whole one of k and
 * v, which two GPUs have. What ends a branch is divided by its inputs. */
static void gpus_have_parts(void **state)
{
    (void)state;
    kerf_advise_request r = request_of((kerf_budget){.bits = 16});
    r.hardware = h200;
    r.model = &config;
    r.gpus = 8;
    kerf_advice *a = advise(&r);
    const kerf_advice_shape qkv = shape_of(a, "0.self_attn.q"), o = shape_of(a, "0.self_attn.o"),
                            gate_up = shape_of(a, "0.mlp.gate"), down = shape_of(a, "0.mlp.down");
    assert_true(qkv.n == 3 * 32 && qkv.k == 256);
    assert_true(o.n == 256 && o.k == 32);
    assert_true(gate_up.n == 2 * 768 / 8 && gate_up.k == 256);
    assert_true(down.n == 256 && down.k == 768 / 8);
    kerf_advice_close(a);
}

/* --- what others say the same of ------------------------------------------------------------ */

enum { HIDDEN = 256, INNER = 128, EXPERTS = 8 };

static kerf_checkpoint *write_experts(void **state)
{
    static char name[3 * EXPERTS][64];
    static const char *const piece[] = {"gate_proj", "up_proj", "down_proj"};
    const char *path = in_folder(state, "experts.safetensors");
    kerf_entry e[3 * EXPERTS];
    static float x[HIDDEN * INNER];
    kerf_writer *w = NULL;
    kerf_checkpoint *c = NULL;
    kerf_error err = {0};
    for (size_t i = 0; i < HIDDEN * INNER; i++) x[i] = (float)((int)(i * 37 % 64) - 31) / 64;
    for (size_t i = 0; i < 3 * EXPERTS; i++) {
        const int is_down = i % 3 == 2;
        snprintf(name[i], sizeof name[i], "model.layers.0.mlp.experts.%zu.%s.weight", i / 3,
                 piece[i % 3]);
        e[i] = (kerf_entry){
            name[i], KERF_F32, {2, {is_down ? HIDDEN : INNER, is_down ? INNER : HIDDEN}}, 0};
    }
    must(kerf_writer_create(path, e, 3 * EXPERTS, NULL, &w, &err), &err);
    for (size_t i = 0; i < 3 * EXPERTS; i++)
        must(kerf_writer_write(w, i, 0, x, sizeof x, &err), &err);
    must(kerf_writer_commit(w, &err), &err);
    must(kerf_checkpoint_open(path, &c, &err), &err);
    return c;
}

static void describe_experts(void **state, kerf_model *out)
{
    static const char text[] =
        "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 256, \"num_hidden_layers\": 1,"
        " \"num_attention_heads\": 8, \"num_key_value_heads\": 8, \"head_dim\": 32,"
        " \"intermediate_size\": 128, \"moe_intermediate_size\": 128, \"num_experts\": 8,"
        " \"num_experts_per_tok\": 2, \"vocab_size\": 512}";
    const char *path = in_folder(state, "experts.json");
    kerf_error err = {0};
    must(kerf_file_replace(path, text, sizeof text - 1, 0, &err), &err);
    must(kerf_model_open(path, out, &err), &err);
}

/* The plan of one GPU's step: of the products of experts alone. */
static double planned_us(const kerf_model *whole, unsigned gpus, int apart, double batch)
{
    const kerf_format *fp32 = kerf_format_find("fp32");
    const kerf_formats formats = {.linear = fp32, .experts = fp32};
    const kerf_phase phase = {batch, 4096, 0};
    kerf_model *model_of_one = malloc(sizeof *model_of_one);
    kerf_step *step = malloc(sizeof *step);
    kerf_error err = {0};
    double us = 0;
    assert_true(model_of_one && step);
    must(kerf_model_shard(whole, gpus, apart, model_of_one, &err), &err);
    must(kerf_model_plan(model_of_one, h200, &formats, &phase, step, &err), &err);
    for (size_t i = 0; i < step->ops; i++)
        if (strstr(step->op[i].name, "expert") && step->op[i].work.weights > 0)
            us += step->op[i].count * step->op[i].time.us;
    free(model_of_one);
    free(step);
    return us;
}

/* Experts take the time that the plan of the same model says: one token, where weights are read,
 * and many, where rows are multiplied; in parts on all GPUs, or whole on one each. */
static void experts_take_what_a_plan_says(void **state)
{
    static kerf_model of;
    kerf_checkpoint *experts = write_experts(state);
    kerf_error err = {0};
    describe_experts(state, &of);
    for (unsigned i = 0; i < 8; i++) {
        kerf_advise_request r = {.codec = candidate, .codecs = CODECS, .budget = {.bits = 32}};
        kerf_advice *a = NULL;
        r.hardware = h200;
        r.model = &of;
        r.batch = i & 1 ? 1 << 20 : 1;
        r.gpus = i & 2 ? 4 : 1;
        r.expert_parallel = i & 4 ? 1 : 0;
        must(kerf_advise(experts, &r, NULL, NULL, &a, &err), &err);
        assert_true(a->groups == 1 && a->group[0].experts);
        const double us = planned_us(&of, r.gpus, r.gpus > 1 && r.expert_parallel, r.batch);
        assert_near(kept_us(a, "experts"), us, 1e-9 * us);
        assert_true(us > 0);
        kerf_advice_close(a);
    }
    kerf_checkpoint_close(experts);
}

/* --- what is quantized already --------------------------------------------------------------- */

/* The model with a matrix in int8, as kerf has it. */
static kerf_checkpoint *quantize_one(void **state, const char *glob)
{
    const char *path = in_folder(state, "int8.safetensors");
    const kerf_select select = {.only = &glob, .onlys = 1};
    const kerf_output to = {.path = path};
    kerf_plan *plan = NULL;
    kerf_checkpoint *c = NULL;
    kerf_error err = {0};
    must(kerf_plan_make(model, &select, NULL, 0, candidate[2], &to, &plan, &err), &err);
    must(kerf_quantize(plan, NULL, NULL, NULL, &err), &err);
    kerf_plan_free(plan);
    must(kerf_checkpoint_open(path, &c, &err), &err);
    return c;
}

/* The same matrix in the FP8 of another program, and one more. */
static kerf_checkpoint *write_fp8(void **state, const char *name)
{
    static unsigned char codes[256 * 768], other[2 * 256 * 256];
    static const float scale[2 * 6] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const char *path = in_folder(state, "fp8.safetensors");
    char weight[64], scales[64];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(scales, sizeof scales, "%s.weight_scale_inv", name);
    const kerf_entry e[] = {
        {weight, KERF_F8_E4M3, {2, {256, 768}}, 0},
        {scales, KERF_F32, {2, {2, 6}}, 0},
        {"model.layers.0.self_attn.o_proj.weight", KERF_BF16, {2, {256, 256}}, 0}};
    kerf_writer *w = NULL;
    kerf_checkpoint *c = NULL;
    kerf_error err = {0};
    memset(codes, 0x38, sizeof codes);
    memset(other, 0x3c, sizeof other);
    must(kerf_writer_create(path, e, 3, NULL, &w, &err), &err);
    must(kerf_writer_write(w, 0, 0, codes, sizeof codes, &err), &err);
    must(kerf_writer_write(w, 1, 0, scale, sizeof scale, &err), &err);
    must(kerf_writer_write(w, 2, 0, other, sizeof other, &err), &err);
    must(kerf_writer_commit(w, &err), &err);
    must(kerf_checkpoint_open(path, &c, &err), &err);
    return c;
}

static void check_kept(const kerf_checkpoint *source, const kerf_model *of, const char *layout,
                       double before_us, const kerf_advice_cost *kept)
{
    static const char *const glob = "*.layers.0.mlp.down_proj.*";
    const kerf_select keep = {.keep = &glob, .keeps = 1};
    kerf_codec tiles;
    kerf_advice *a = NULL;
    kerf_error err = {0};
    must(kerf_codec_find("fp8-e4m3-128x128", &tiles, &err), &err);
    const kerf_advise_request r = {.codec = &tiles,
                                   .codecs = 1,
                                   .budget = {.bits = 16},
                                   .hardware = h200,
                                   .model = of,
                                   .select = &keep,
                                   .layout = kerf_layout_find(layout)};
    must(kerf_advise(source, &r, NULL, NULL, &a, &err), &err);
    assert_near(a->other_us - before_us, kept->us, 1e-9);
    kerf_advice_close(a);
}

/* A weight that is quantized takes the time of its format where it stays, and that of its source
 * type where the output has it dense. */
static void quantized_layers_take_theirs(void **state)
{
    static const char name[] = "model.layers.0.mlp.down_proj";
    kerf_checkpoint *int8 = quantize_one(state, "*.layers.0.mlp.down_proj.*"),
                    *fp8 = write_fp8(state, name);
    kerf_advice *all = advise_timed(NULL, &config);
    kerf_matmul m = {.format = kerf_format_find("fp8-e4m3-128x128"), .n = 256, .k = 768, .rows = 1};
    kerf_prediction p;
    kerf_error err = {0};
    size_t g = 0;
    while (g < all->groups && strcmp(all->group[g].name, name) != 0) g++;
    assert_true(g < all->groups);
    const kerf_advice_cost *cost = all->group[g].cost, *dense = &cost[all->codecs];
    m.matrices = 1;
    must(kerf_predict(h200, &m, &p, &err), &err);
    const kerf_advice_cost tiles = {.us = p.us};
    assert_true(cost[2].us < dense->us && tiles.us < dense->us);
    check_kept(int8, &config, "kerf", all->other_us, &cost[2]);
    check_kept(fp8, NULL, "deepseek", 0, &tiles);
    check_kept(fp8, NULL, "kerf", 0, dense);
    kerf_advice_close(all);
    kerf_checkpoint_close(fp8);
    kerf_checkpoint_close(int8);
}

static int open_all(void **state)
{
    return kerf_hardware_get("h200", &h200, NULL) == KERF_OK ? open_model(state) : -1;
}

static int close_all(void **state)
{
    kerf_hardware_close(h200);
    return close_model(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_layers_take_time),
        cmocka_unit_test(what_is_no_product_takes_none),
        cmocka_unit_test(gpus_have_parts),
        cmocka_unit_test(experts_take_what_a_plan_says),
        cmocka_unit_test(quantized_layers_take_theirs),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
