/* test_texts_machines.c - times, machines and what they use as texts for people: what stands in
 * them is what the structs hold. */
#include <math.h>

#include <kerf/monitor.h>
#include <kerf/predictions.h>
#include <kerf/typical.h>

#include "test_output.h"
#include "text_case.h"

static kerf_codec codec_of(const char *name)
{
    kerf_codec codec;
    must(kerf_codec_find(name, &codec, &why), &why);
    return codec;
}

/* --- times --------------------------------------------------------------------------------- */

static void test_predictions(void **state)
{
    static kerf_model m;
    const kerf_format *const formats[] = {kerf_format_find("bf16"), kerf_format_find("nvfp4")};
    const kerf_weight_shape shape = {4096, 14336};
    const unsigned batch = 3;
    const kerf_hardware *h = kerf_hardware_find("h100");
    kerf_product_outlooks *products = NULL;
    kerf_step_outlooks *steps = NULL;
    (void)state;
    must(kerf_predict_products(&(kerf_products_request){.hardware = h,
                                                        .format = formats,
                                                        .formats = 2,
                                                        .shape = &shape,
                                                        .shapes = 1,
                                                        .batch = &batch,
                                                        .batches = 1},
                               &products, &why),
         &why);
    check(kerf_product_outlooks_text(products, NULL, &text, &size, &why));
    has("\n4096x14336      3  nvfp4 ");
    has("\nspec-only: from the data sheet of h100;");
    done();
    kerf_product_outlooks_free(products);

    must(kerf_model_open(KERF_TEST_DATA "/configs/llama-3.1-8b.json", &m, &why), &why);
    kerf_steps_request r = {
        .hardware = h, .model = &m, .format = formats, .formats = 2, .batch = &batch, .batches = 1};
    must(kerf_predict_steps(&r, &steps, &why), &why);
    check(kerf_step_outlooks_text(steps, &wide, &text, &size, &why));
    has("llama: 8.030 G parameters");
    assert_null(strstr(text, "operator"));
    done();
    kerf_step_outlooks_free(steps);
    r.formats = 1;
    must(kerf_predict_steps(&r, &steps, &why), &why);
    check(kerf_step_outlooks_text(steps, &wide, &text, &size, &why));
    for (size_t i = 0; i < steps->row[0].step.ops; i++) has(steps->row[0].step.op[i].name);
    done();
    kerf_step_outlooks_free(steps);
}

static void test_comparison(void **state)
{
    const kerf_format *f = kerf_format_find("nvfp4");
    const kerf_timing times[] = {{{.format = f, .n = 4096, .k = 4096, .rows = 1}, 6.5},
                                 {{.format = f, .n = 8192, .k = 8192, .rows = 1}, 21.5}};
    kerf_comparison *c = NULL;
    (void)state;
    must(kerf_compare_times(kerf_hardware_find("h200"), times, 2, &c, &why), &why);
    check(kerf_comparison_text(c, NULL, &text, &size, &why));
    assert_int_equal(lines(), 2 + 2 + 1 + 2 + 1 + 2);
    has("8192x8192");
    has("21.50");
    done();
    kerf_comparison_free(c);
}

static void test_typical(void **state)
{
    static kerf_model m;
    const kerf_codec codecs[] = {codec_of("nvfp4:4/6"), codec_of("int8")};
    const kerf_typical_request r = {
        .model = &m, .hardware = kerf_hardware_find("h100"), .codec = codecs, .codecs = 2};
    kerf_typical *t = NULL;
    (void)state;
    must(kerf_model_open(KERF_TEST_DATA "/configs/llama-3.1-8b.json", &m, &why), &why);
    must(kerf_advise_typical(&r, &t, &why), &why);
    check(kerf_typical_text(t, NULL, &text, &size, &why));
    has("\nnvfp4:4/6 ");
    has("\nint8:amax: the least error");
    done();
    kerf_typical_close(t);
}

/* --- machines ------------------------------------------------------------------------------ */

static void test_hardware(void **state)
{
    const kerf_hardware *h = kerf_hardware_find("b200");
    (void)state;
    check(kerf_hardware_text(NULL, &wide, &text, &size, &why));
    for (size_t i = 0; i < kerf_hardware_count(); i++) has(kerf_hardware_at(i)->title);
    done();
    check(kerf_hardware_text(h, &wide, &text, &size, &why));
    for (kerf_fact_id id = 0; id < KERF_FACT_COUNT; id++)
        if (h->fact[id].value != 0) has(h->fact[id].source);
    done();

    kerf_hardware tuned = *h;
    const kerf_gemv_tuning tuning = {.factor = {1.5}, .rules = KERF_GEMV_RULES + 1};
    tuned.tuning = &tuning;
    tuned.tuning_source = "a test";
    tuned.tuning_date = "2026-11-28";
    check(kerf_hardware_text(&tuned, NULL, &text, &size, &why));
    has(kerf_gemv_factor_text(0));
    has("\nTuning of its products (a test, 2026-11-28):\n");
    has("other rules than this kerf's");
    done();
}

static void test_times(void **state)
{
    kerf_gemv_time time = {.format = kerf_format_find("nvfp4"),
                           .rows = 4096,
                           .cols = 512,
                           .columns = 2,
                           .us = 3.5,
                           .bytes = 7e6};
    kerf_product_energy energy = {.joules = 2e-3, .watts = 100, .seconds = 2};
    kerf_gemv_times all = {.time = &time, .count = 1, .x = KERF_BF16, .threads = 7};
    (void)state;
    time.backend = "avx2";
    check(kerf_gemv_times_text(&all, &wide, &text, &size, &why));
    has("2000.00"); /* GB/s */
    has("\n7 threads; x BF16");
    assert_null(strstr(text, "plain"));
    done();
    all.energy = &energy;
    snprintf(all.device.name, sizeof all.device.name, "a GPU");
    check(kerf_gemv_times_text(&all, &wide, &text, &size, &why));
    has("plain us");
    has("\na GPU; x and y");
    has("\nmJ: ");
    done();
}

static void test_sample(void **state)
{
    static kerf_sample s;
    kerf_reading *r = &s.reading[0];
    (void)state;
    s.count = 1;
    *r = (kerf_reading){.is_gpu = 1, .name = "a GPU", .throttles_known = 1, .processes = 3};
    for (int g = 0; g < KERF_GAUGE_COUNT; g++) r->gauge[g] = NAN;
    r->gauge[KERF_GAUGE_POWER] = 55.25;
    for (unsigned i = 0; i < 3; i++)
        r->process[i] = (kerf_gpu_process){.pid = 7 + i, .name = "p\tq", .memory_bytes = 2e9};
    check(kerf_sample_text(&s, 3, &wide, &text, &size, &why));
    has("\ngpu0    a GPU  55.2 ");
    has("\ngpu0: 8 p?q, 2.00 GB\nand 1 processes more\n");
    done();
}

static void test_metered(void **state)
{
    static const char *const words[] = {"sleep", "1", NULL};
    static kerf_metered m;
    (void)state;
    m.word = words;
    m.exit_code = 3;
    m.idle_s = 2;
    m.used.seconds = 4;
    m.used.count = m.idle.count = 1;
    m.used.source[0] =
        (kerf_source_energy){.is_gpu = 1, .joules = 1000, .peak_w = NAN, .step_s = 0.02};
    m.idle.source[0].average_w = 50;
    check(kerf_metered_text(&m, NULL, &text, &size, &why));
    has("sleep: 4.00 s, exit code 3\n");
    has(" 800.0\n");
    has("counters go in steps of up to 20 ms\n");
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_predictions), cmocka_unit_test(test_comparison),
        cmocka_unit_test(test_typical),     cmocka_unit_test(test_hardware),
        cmocka_unit_test(test_times),       cmocka_unit_test(test_sample),
        cmocka_unit_test(test_metered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
