/* test_calibrate_share.c - the layers of a calibration among parts: each layer has one part, all
 * come to the same, and no division into runs of layers has less work for the busiest part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/pseudo_random.h"
#include "calibrate/calibrate_share.h"

enum { LAYERS = 9, PARTS = 12, ROUNDS = 300 };

static uint64_t seed;

static uint64_t draw(uint64_t most)
{
    return kf_mix(seed += KF_RANDOM_STEP) % most;
}

static uint64_t most_of(const kf_layer_costs *c, const unsigned *of, unsigned parts)
{
    uint64_t most = 0;
    for (unsigned k = 0; k < parts; k++) {
        const uint64_t cost = kf_layers_cost(c, of, k);
        if (cost > most) most = cost;
    }
    return most;
}

static void test_cost(void **state)
{
    uint64_t own[] = {7, 5, 3, 1};
    const unsigned of[] = {0, 1, 1, 0};
    kf_layer_costs c = {4, 10, own, 0};
    (void)state;
    assert_int_equal(kf_layers_cost(&c, of, 0), 4 * 10 + 7 + 1);
    assert_int_equal(kf_layers_cost(&c, of, 1), 3 * 10 + 5 + 3); /* it stops behind its last */
    assert_int_equal(kf_layers_cost(&c, of, 2), 0);
    c.all = 1; /* to the end, and from the first of its own to the last once more */
    assert_int_equal(kf_layers_cost(&c, of, 0), (4 + 3) * 10 + 7 + 1);
    assert_int_equal(kf_layers_cost(&c, of, 1), (4 + 1) * 10 + 5 + 3);
}

/* Cheap runs: early and late layers go together. Dear ones: layers in a row. */
static void test_both(void **state)
{
    uint64_t own[] = {400, 300, 200, 100};
    unsigned of[4];
    kf_layer_costs c = {4, 1, own, 1};
    (void)state;
    assert_int_equal(kf_layers_divide(&c, 2, of, NULL), KERF_OK);
    assert_true(of[0] == of[3] && of[1] == of[2] && of[0] != of[1]);
    c.run = 1000;
    assert_int_equal(kf_layers_divide(&c, 2, of, NULL), KERF_OK);
    assert_true(of[0] == 0 && of[1] <= of[2] && of[2] <= of[3]);
    c.all = 0; /* the last layer alone is as much as the three before it */
    assert_int_equal(kf_layers_divide(&c, 2, of, NULL), KERF_OK);
    assert_true(of[0] == 0 && of[1] == 0 && of[2] == 0 && of[3] == 1);
}

/* Every way to cut LAYERS into runs, a bit for each place. */
static uint64_t best_in_order(const kf_layer_costs *c, unsigned parts)
{
    uint64_t best = UINT64_MAX;
    for (unsigned cuts = 0; cuts < 1u << (c->layers - 1); cuts++) {
        unsigned of[LAYERS] = {0};
        for (uint64_t i = 1; i < c->layers; i++) of[i] = of[i - 1] + (cuts >> (i - 1) & 1u);
        if (of[c->layers - 1] >= parts) continue;
        const uint64_t most = most_of(c, of, parts);
        if (most < best) best = most;
    }
    return best;
}

static void test_best(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t own[LAYERS];
        unsigned of[LAYERS], again[LAYERS];
        const unsigned parts = 1 + (unsigned)draw(PARTS);
        const kf_layer_costs c = {1 + draw(LAYERS), draw(100), own, round % 2};
        for (uint64_t i = 0; i < c.layers; i++) own[i] = draw(round % 3 ? 1000 : 3);
        assert_int_equal(kf_layers_divide(&c, parts, of, NULL), KERF_OK);
        assert_int_equal(kf_layers_divide(&c, parts, again, NULL), KERF_OK);
        assert_memory_equal(of, again, c.layers * sizeof *of);
        for (uint64_t i = 0; i < c.layers; i++) assert_true(of[i] < parts);
        assert_true(most_of(&c, of, parts) <= best_in_order(&c, parts));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_both),
        cmocka_unit_test(test_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
