/* test_predictions.c - many predictions in one call: rows are those of single calls, in the order
 * that the header says, and both documents hold them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include <kerf/predictions.h>

#include "near.h"

enum { FORMATS = 3, BATCHES = 2, SHAPES = 2 };

static const kerf_format *format[FORMATS];
static const unsigned batch[BATCHES] = {1, 48};
static const kerf_weight_shape shape[SHAPES] = {{4096, 4096}, {1000, 14336}};

static int find_formats(void **state)
{
    static const char *const names[FORMATS] = {"bf16", "nvfp4", "int4-g128"};
    (void)state;
    for (size_t i = 0; i < FORMATS; i++) format[i] = kerf_format_find(names[i]);
    return 0;
}

static size_t lines_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static double number_at(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);
    assert_true(json_is_number(v));
    return json_number_value(v);
}

/* --- matrix products ----------------------------------------------------------------------- */

static kerf_products_request products(void)
{
    return (kerf_products_request){.hardware = kerf_hardware_find("h200"),
                                   .format = format,
                                   .formats = FORMATS,
                                   .shape = shape,
                                   .shapes = SHAPES,
                                   .batch = batch,
                                   .batches = BATCHES,
                                   .matrices = 3};
}

static void check_product(const kerf_product_outlook *o, size_t i)
{
    kerf_prediction p, bf16;
    kerf_matmul m = {.format = format[i % FORMATS],
                     .n = shape[i / FORMATS / BATCHES].n,
                     .k = shape[i / FORMATS / BATCHES].k,
                     .rows = 3.0 * batch[i / FORMATS % BATCHES],
                     .matrices = 3};
    assert_ptr_equal(o->format, m.format);
    assert_int_equal(o->shape.n, m.n);
    assert_int_equal(o->shape.k, m.k);
    assert_int_equal(o->batch, batch[i / FORMATS % BATCHES]);
    assert_int_equal(kerf_predict(kerf_hardware_find("h200"), &m, &p, NULL), KERF_OK);
    m.format = kerf_format_find("bf16");
    assert_int_equal(kerf_predict(kerf_hardware_find("h200"), &m, &bf16, NULL), KERF_OK);
    assert_true(o->time.us == p.us && o->time.low_us == p.low_us);
    assert_near(o->speedup, bf16.us / p.us, 1e-12);
}

static void test_products(void **state)
{
    const kerf_products_request r = products();
    kerf_product_outlooks *all = NULL;
    kerf_error err = {0};
    char *text = NULL;
    size_t n = 0;
    (void)state;
    assert_int_equal(kerf_predict_products(&r, &all, &err), KERF_OK);
    assert_int_equal(all->rows, FORMATS * BATCHES * SHAPES);
    for (size_t i = 0; i < all->rows; i++) check_product(&all->row[i], i);

    assert_int_equal(kerf_product_outlooks_write(all, KERF_OUTLOOK_CSV, &text, &n, &err), KERF_OK);
    assert_int_equal(n, strlen(text));
    assert_int_equal(lines_of(text), 1 + all->rows);
    assert_non_null(strstr(text, "\nh200,1000,14336,48,3,nvfp4,spec-only,"));
    free(text);

    assert_int_equal(kerf_product_outlooks_write(all, KERF_OUTLOOK_JSON, &text, &n, &err), KERF_OK);
    json_t *doc = json_loadb(text, n, 0, NULL);
    const json_t *rows = json_object_get(doc, "predictions");
    assert_string_equal(json_string_value(json_object_get(doc, "schema")), "kerf.predict/1");
    assert_int_equal(json_array_size(rows), all->rows);
    for (size_t i = 0; i < all->rows; i++) {
        const json_t *row = json_array_get(rows, i);
        assert_true(number_at(row, "n") == (double)all->row[i].shape.n);
        assert_near(number_at(row, "us"), all->row[i].time.us, 1e-12 * all->row[i].time.us);
        assert_near(number_at(row, "speedup"), all->row[i].speedup, 1e-12 * all->row[i].speedup);
    }
    json_decref(doc);
    free(text);
    kerf_product_outlooks_free(all);
    kerf_product_outlooks_free(NULL);
}

static void test_impossible_product(void **state)
{
    const kerf_weight_shape none[] = {{64, 64}, {0, 4096}};
    kerf_products_request r = products();
    kerf_product_outlooks *all = NULL;
    kerf_error err = {0};
    (void)state;
    r.shape = none;
    assert_int_equal(kerf_predict_products(&r, &all, &err), KERF_E_ARG);
    assert_null(all);
    assert_int_equal(strncmp(err.text, "product 0x4096: ", 16), 0);
}

/* --- steps of a model ---------------------------------------------------------------------- */

static void check_step(const kerf_step_outlook *o, size_t i, const kerf_model *whole,
                       const kerf_model *one, const kerf_hardware *h)
{
    const kerf_formats f = {.linear = format[i % FORMATS], .kv = kerf_format_find("fp8-e4m3")};
    const kerf_phase phase = {batch[i / FORMATS], 8192, 0};
    kerf_step step;
    double bytes = 0, share = 0, cache = 0;
    assert_ptr_equal(o->format, f.linear);
    assert_int_equal(kerf_model_plan(one, h, &f, &phase, &step, NULL), KERF_OK);
    assert_true(step.time.us == o->step.time.us && step.ops == o->step.ops);
    assert_int_equal(kerf_model_bytes(whole, &f, &bytes, NULL), KERF_OK);
    assert_true(bytes == o->weight_bytes);
    assert_int_equal(kerf_model_bytes(one, &f, &share, NULL), KERF_OK);
    assert_int_equal(kerf_model_cache_bytes(one, f.kv, 8192, &cache, NULL), KERF_OK);
    assert_near(o->gpu_bytes, share + cache * phase.batch, 1);
    assert_int_equal(o->fits, o->gpu_bytes <= h->fact[KERF_FACT_MEMORY].value * 1e9);
}

static void test_steps(void **state)
{
    static kerf_model model, one;
    static const char path[] = KERF_TEST_DATA "/configs/llama-3.1-70b.json";
    kerf_step_outlooks *all = NULL;
    kerf_error err = {0};
    char *text = NULL;
    size_t n = 0, fit = 0;
    (void)state;
    assert_int_equal(kerf_model_open(path, &model, &err), KERF_OK);
    assert_int_equal(kerf_model_shard(&model, 2, 0, &one, &err), KERF_OK);
    const kerf_steps_request r = {.hardware = kerf_hardware_find("rtx4090"),
                                  .model = &model,
                                  .config = path,
                                  .format = format,
                                  .formats = FORMATS,
                                  .batch = batch,
                                  .batches = BATCHES,
                                  .others = {.kv = kerf_format_find("fp8-e4m3")},
                                  .context = 8192,
                                  .gpus = 2};
    assert_int_equal(kerf_predict_steps(&r, &all, &err), KERF_OK);
    assert_int_equal(all->rows, FORMATS * BATCHES);
    for (size_t i = 0; i < all->rows; i++) {
        check_step(&all->row[i], i, &model, &one, r.hardware);
        fit += all->row[i].fits == 1;
    }
    assert_true(fit > 0 && fit < all->rows); /* some formats fit on such GPUs, bf16 does not */

    assert_int_equal(kerf_step_outlooks_write(all, KERF_OUTLOOK_CSV, &text, &n, &err), KERF_OK);
    assert_int_equal(lines_of(text), 1 + all->rows);
    free(text);
    assert_int_equal(kerf_step_outlooks_write(all, KERF_OUTLOOK_JSON, &text, &n, &err), KERF_OK);
    json_t *doc = json_loadb(text, n, 0, NULL);
    const json_t *last = json_array_get(json_object_get(doc, "predictions"), all->rows - 1);
    const kerf_step_outlook *o = &all->row[all->rows - 1];
    assert_string_equal(json_string_value(json_object_get(doc, "config")), path);
    assert_int_equal(json_array_size(json_object_get(last, "operators")), o->step.ops);
    assert_near(number_at(last, "crossover_tokens"), o->crossover, 1e-9 * o->crossover);
    json_decref(doc);
    free(text);
    kerf_step_outlooks_free(all);
}

/* --- beside measured times ----------------------------------------------------------------- */

static void test_comparison(void **state)
{
    static const char *const names[] = {"nvfp4", "nvfp4", "int8", "nvfp4"};
    const kerf_hardware *h = kerf_hardware_find("h200");
    kerf_timing times[4] = {0};
    kerf_time_errors errors;
    kerf_comparison *c = NULL;
    kerf_error err = {0};
    char *text = NULL;
    size_t n = 0;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        kerf_prediction p;
        times[i].product = (kerf_matmul){
            .format = kerf_format_find(names[i]), .n = 4096, .k = 1024 * (i + 1), .rows = 1};
        assert_int_equal(kerf_predict(h, &times[i].product, &p, &err), KERF_OK);
        times[i].us = p.us * (1 + (double)i / 4);
    }
    assert_int_equal(kerf_compare_times(h, times, 4, &c, &err), KERF_OK);
    assert_int_equal(c->count, 4);
    assert_int_equal(c->formats, 2);
    for (size_t f = 0; f < c->formats; f++) {
        const kerf_format_errors *x = &c->format[f];
        assert_int_equal(x->errors.count, strcmp(x->format->name, "int8") == 0 ? 1 : 3);
        assert_int_equal(kerf_sum_up_times(c->item, 4, x->format, &errors, &err), KERF_OK);
        assert_true(errors.median == x->errors.median && errors.worst == x->errors.worst);
    }
    assert_near(c->item[2].ratio, 1 / 1.5, 1e-12);
    assert_near(c->all.worst, 1 - 1 / 1.75, 1e-12);
    assert_int_equal(kerf_comparison_write(c, "bench.json", &text, &n, &err), KERF_OK);
    json_t *doc = json_loadb(text, n, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(doc, "bench")), "bench.json");
    assert_int_equal(json_array_size(json_object_get(doc, "results")), 4);
    assert_int_equal(json_array_size(json_object_get(doc, "formats")), 2);
    assert_near(number_at(json_object_get(doc, "all"), "worst"), c->all.worst, 1e-12);
    json_decref(doc);
    free(text);
    kerf_comparison_free(c);
    kerf_comparison_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_impossible_product),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_comparison),
    };
    return cmocka_run_group_tests(tests, find_formats, NULL);
}
