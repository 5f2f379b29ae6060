/* test_advise_time.c - what a step takes besides what a format is chosen for, and what takes none
 * of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/advise.h>

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
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
