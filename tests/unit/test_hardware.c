/* test_hardware.c - the registry holds dense figures with sources, and a file that is anything else
 * than that is refused with the place. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "near.h"

#include <kerf/hardware.h>

static double value(const char *name, kerf_fact_id id)
{
    const kerf_hardware *h = kerf_hardware_find(name);
    assert_non_null(h);
    return h->fact[id].value;
}

static void every_number_has_its_source(void **state)
{
    (void)state;
    assert_true(kerf_hardware_count() >= 14);
    for (size_t i = 0; i < kerf_hardware_count(); i++) {
        const kerf_hardware *h = kerf_hardware_at(i);
        assert_ptr_equal(kerf_hardware_find(h->name), h);
        assert_true(h->fact[KERF_FACT_BANDWIDTH].value > 0);
        assert_true(h->title[0] && h->kind[0] && h->native[0] && h->note && h->arch);
        for (int id = 0; id < KERF_FACT_COUNT; id++) {
            const kerf_fact *f = &h->fact[id];
            if (f->value == 0) continue;
            assert_true(f->value > 0);
            assert_true(strlen(f->source) > 10);
            assert_int_equal(strlen(f->date), 7); /* 2026-08 */
        }
    }
    assert_null(kerf_hardware_find("b10"));
    assert_null(kerf_hardware_at(kerf_hardware_count()));
}

/* What is often quoted is twice these. */
static void peaks_are_dense(void **state)
{
    (void)state;
    assert_near(value("h100", KERF_FACT_BF16), 989, 0);
    assert_near(value("h100", KERF_FACT_FP8), 1979, 0);
    assert_near(value("h100", KERF_FACT_INT4), 0, 0);
    assert_near(value("gb10", KERF_FACT_FP4), 500, 0);
    assert_near(value("gb10", KERF_FACT_BANDWIDTH), 273, 0);
    assert_near(value("b200", KERF_FACT_FP4), 9000, 0);
    assert_near(value("gb200", KERF_FACT_FP4), 10000, 0);
    assert_near(value("b200", KERF_FACT_BANDWIDTH), 7672, 0);
    assert_near(value("l40s", KERF_FACT_FP8), 733, 0);
    assert_near(value("h200", KERF_FACT_FP4), 0, 0);
    assert_true(kerf_hardware_find("gb10")->fact[KERF_FACT_BF16].unverified);
    assert_true(kerf_hardware_find("b300")->fact[KERF_FACT_INT8].unverified);
    /* Ridges of dense bf16 and fp4: 206 and 1173 operations per byte. */
    assert_near(value("h200", KERF_FACT_BF16) * 1e3 / 4800, 206, 0.5);
    assert_near(value("b200", KERF_FACT_FP4) * 1e3 / 7672, 1173, 0.5);
    assert_near(value("gb10", KERF_FACT_FP4) * 1e3 / 273, 1832, 0.8);
}

/* What a multiprocessor does a clock is a power of two, and narrower numbers go twice or four times
 * as fast: a figure that is sparse, halved, or of another machine falls out. */
static void peaks_fit_their_machine(void **state)
{
    (void)state;
    for (size_t i = 0; i < kerf_hardware_count(); i++) {
        const kerf_hardware *h = kerf_hardware_at(i);
        const double bf16 = h->fact[KERF_FACT_BF16].value, sms = h->fact[KERF_FACT_SMS].value;
        const double clock = h->fact[KERF_FACT_CLOCK].value, fp8 = h->fact[KERF_FACT_FP8].value;
        const double fp4 = h->fact[KERF_FACT_FP4].value, int8 = h->fact[KERF_FACT_INT8].value;
        if (strcmp(h->kind, "gpu") != 0 || bf16 == 0) continue;
        if (sms > 0 && clock > 0) {
            const double ops = bf16 * 1e6 / (sms * clock), power = exp2(round(log2(ops)));
            if (ops < 0.9 * power || ops > 1.1 * power)
                fail_msg("%s: %g operations a clock in bf16", h->name, ops);
        }
        if (fp8 > 0 && (fp8 < 1.9 * bf16 || fp8 > 2.1 * bf16)) fail_msg("%s: fp8 %g", h->name, fp8);
        if (fp4 > 0 && (fp4 < 3.9 * bf16 || fp4 > 8.1 * bf16)) fail_msg("%s: fp4 %g", h->name, fp4);
        if (int8 > 0 && int8 > 4.1 * bf16) fail_msg("%s: int8 %g", h->name, int8);
    }
    /* its source says that attention reached 95 */
    assert_true(value("gb10", KERF_FACT_BF16) >= 95);
}

/* Bandwidth is the width of the bus times its data rate, in the memory that a card has; published
 * figures are rounded by 2.5 % at most. Two that share a memory have the same. */
static void bandwidth_is_width_times_rate(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double bits, mts; /* 10^6 transfers a second on each */
    } rows[] = {
        {"a100-40", 5120, 2430}, {"a100", 5120, 3186},         {"a100-pcie", 5120, 3024},
        {"h100", 5120, 5234},    {"h100-pcie", 5120, 3186},    {"h200", 6144, 6250},
        {"b200", 7680, 7992},    {"gb10", 256, 8533},          {"rtx4090", 384, 21000},
        {"rtx5090", 512, 28000}, {"rtx-pro-6000", 512, 28000}, {"l40s", 384, 18000},
        {"l40", 384, 18000},     {"l4", 192, 12500},           {"t4", 256, 10000},
        {"a10", 384, 12500},     {"rtx3090", 384, 19500},      {"rtx4080", 256, 22400},
        {"rtx5080", 256, 30000}, {"rtx-6000-ada", 384, 20000}, {"jetson-thor", 256, 8533},
        {"m4-max", 512, 8533},   {"mi300x", 8192, 5200},       {"mi325x", 8192, 6000},
        {"mi355x", 8192, 8000},  {"epyc-9654", 768, 4800},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double gbps = rows[i].bits / 8 * rows[i].mts * 1e-3;
        const double published = value(rows[i].name, KERF_FACT_BANDWIDTH);
        if (fabs(published / gbps - 1) > 0.025)
            fail_msg("%s: %.0f GB/s, %.0f bits at %.0f MT/s are %.0f", rows[i].name, published,
                     rows[i].bits, rows[i].mts, gbps);
    }
    /* What a kernel read is less than what is published. */
    for (size_t i = 0; i < kerf_hardware_count(); i++) {
        const kerf_hardware *h = kerf_hardware_at(i);
        assert_true(h->fact[KERF_FACT_STREAM].value <= h->fact[KERF_FACT_BANDWIDTH].value);
        assert_true(h->fact[KERF_FACT_COPY].value <= h->fact[KERF_FACT_BANDWIDTH].value);
        assert_true(h->fact[KERF_FACT_LINK].value < h->fact[KERF_FACT_BANDWIDTH].value);
    }
    /* NVLink of a generation, and PCIe where there is none. */
    assert_near(value("h200", KERF_FACT_LINK), value("h100", KERF_FACT_LINK), 0);
    assert_near(value("b200", KERF_FACT_LINK), 2 * value("h100", KERF_FACT_LINK), 0);
    assert_near(value("rtx5090", KERF_FACT_LINK), 2 * value("rtx4090", KERF_FACT_LINK), 0);
}

static void machines_that_people_have(void **state)
{
    static const char *const names[] = {"l4",          "l40",     "a10",     "t4",
                                        "rtx3090",     "rtx4080", "rtx5080", "rtx-6000-ada",
                                        "jetson-thor", "mi325x",  "mi355x",  "m4-max"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_true(value(names[i], KERF_FACT_MEMORY) > 0);
        assert_true(value(names[i], KERF_FACT_BANDWIDTH) > 0);
    }
}

/* --- files --------------------------------------------------------------------------------- */

#define HEAD "{\"schema\": \"kerf.hardware/1\", \"name\": \"x\", \"kind\": \"gpu\", \"facts\": {"
#define FACT(key, v) "\"" key "\": {\"value\": " v ", \"source\": \"s\", \"date\": \"d\"}"
#define BW FACT("bandwidth_gbps", "273")
#define FIT "\"format\": \"nvfp4\", \"batch\": [1, 16], \"fixed_us\": 2, \"bandwidth_gbps\": 250"
#define SAID ", \"source\": \"s\", \"date\": \"d\""

static kerf_status open_text(const char *text, kerf_hardware **h, kerf_error *err)
{
    char path[] = "/tmp/kerf-hardware.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    kerf_status s = kerf_hardware_open(path, h, err);
    unlink(path);
    return s;
}

static void a_file_is_read(void **state)
{
    (void)state;
    kerf_hardware *h = NULL;
    kerf_error err = {0};
    const char *text = HEAD BW ", " FACT("bf16_tflops", "62.5") ", " FACT(
        "fp4_tflops",
        "500") "}, \"fits\": [{" FIT ", \"decode_gweights\": 900, \"input_us\": 0.5, "
               "\"round_us\": [1, 2, 3]" SAID "}], \"tables\": [{\"format\": \"int8\", "
               "\"batch\": 4, \"n\": [1024, 4096], \"k\": [512, 256], \"us\": [3, 5.5]" SAID "}]}";
    assert_int_equal(open_text(text, &h, &err), KERF_OK);
    assert_string_equal(h->name, "x");
    assert_near(h->fact[KERF_FACT_FP4].value, 500, 0);
    assert_int_equal(h->fits, 1);
    assert_string_equal(h->fit[0].format, "nvfp4");
    assert_int_equal(h->fit[0].batch_max, 16);
    assert_near(h->fit[0].decode_gweights, 900, 0);
    assert_near(h->fit[0].input_us, 0.5, 0);
    assert_near(h->fit[0].round_us[2], 3, 0);
    assert_near(h->fit[0].stage_us[2], 0, 0);
    assert_int_equal(h->tables, 1);
    assert_near(h->anchors[0].us[1], 5.5, 0);
    assert_int_equal(h->anchors[0].count, 2);
    assert_near(h->anchors[0].n[1], 4096, 0);
    assert_near(h->anchors[0].k[1], 256, 0);
    kerf_hardware_close(h);
    kerf_hardware_close(NULL);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "is empty"},
        {"[]", "not a JSON object"},
        {"{}", "schema"},
        {"{\"schema\": \"kerf.recipe/1\"}", "schema"},
        {HEAD "}}", "bandwidth_gbps is missing"},
        {HEAD BW "}, \"color\": 1}", "unknown key color"},
        {HEAD BW "}, \"name\": \"y\"}", "duplicate"},
        {HEAD FACT("bandwidth", "1") "}}", "unknown key bandwidth"},
        {HEAD "\"bandwidth_gbps\": 273}}", "must be an object"},
        {HEAD "\"bandwidth_gbps\": {\"value\": 273, \"date\": \"d\"}}}", "source must be"},
        {HEAD "\"bandwidth_gbps\": {\"value\": 273, \"source\": \"s\"}}}", "date must be"},
        {HEAD FACT("bandwidth_gbps", "-1") "}}", "must be a number from"},
        {HEAD FACT("bandwidth_gbps", "1e15") "}}", "must be a number from"},
        {HEAD FACT("bandwidth_gbps", "\"273\"") "}}", "must be a number from"},
        {HEAD BW ", \"fp8_tflops\": {\"value\": 1, \"source\": \"s\", \"date\": \"d\", "
                 "\"unit\": \"GFLOPS\"}}}",
         "its unit is TFLOPS"},
        /* Sparse figures: by key, by flag, by what they would mean. */
        {HEAD BW ", " FACT("fp4_sparse_tflops", "1000") "}}", "sparse"},
        {HEAD BW ", \"fp4_tflops\": {\"value\": 1000, \"source\": \"s\", \"date\": \"d\", "
                 "\"sparse\": true}}}",
         "sparse"},
        {HEAD BW ", \"fp8_tflops\": {\"value\": 1, \"source\": \"3958 with sparsity\", "
                 "\"date\": \"d\"}}}",
         "sparse"},
        {HEAD BW ", " FACT("bf16_tflops", "62.5") ", " FACT("fp4_tflops", "1000") "}}",
         "fp4_tflops is 16.0 times bf16_tflops"},
        {HEAD BW ", " FACT("bf16_tflops", "989") ", " FACT("fp8_tflops", "3958") "}}",
         "fp8_tflops is 4.0 times"},
        /* What was measured. */
        {HEAD BW "}, \"fits\": {}}", "must be lists"},
        {HEAD BW "}, \"fits\": [1]}", "fits[0] must be an object"},
        {HEAD BW "}, \"fits\": [{" FIT "}]}", "source must be"},
        {HEAD BW "}, \"fits\": [{" FIT ", \"eta\": 1" SAID "}]}", "unknown key eta"},
        {HEAD BW "}, \"fits\": [{\"format\": \"nvfp5\"" SAID "}]}", "unknown format nvfp5"},
        {HEAD BW "}, \"fits\": [{\"format\": \"nf4\", \"batch\": [4, 1]" SAID "}]}",
         "batch must be"},
        {HEAD BW "}, \"fits\": [{" FIT ", \"round_us\": [1, 2]" SAID "}]}",
         "round_us must be 3 numbers"},
        {HEAD BW "}, \"fits\": [{" FIT ", \"stage_us\": [1, -2, 3]" SAID "}]}",
         "stage_us must be 3 numbers"},
        {HEAD BW "}, \"tables\": [{\"format\": \"nf4\", \"batch\": 1, \"n\": [0.5], \"k\": [1], "
                 "\"us\": [1]" SAID "}]}",
         "n must hold numbers"},
        {HEAD BW
         "}, \"tables\": [{\"format\": \"nf4\", \"batch\": 1, \"n\": [1, 2], \"k\": [1, 1], "
         "\"us\": [1]" SAID "}]}",
         "all as long"},
        {HEAD BW "}, \"tables\": [{\"format\": \"nf4\", \"batch\": 1, \"n\": [1], \"k\": [1], "
                 "\"us\": [0]" SAID "}]}",
         "us must hold numbers above 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kerf_hardware *h = NULL;
        kerf_error err = {0};
        kerf_status s = open_text(cases[i].text, &h, &err);
        if (s != KERF_E_DATA || !strstr(err.text, cases[i].says)) {
            fail_msg("case %zu: status %d, '%s' without '%s'", i, (int)s, err.text, cases[i].says);
        }
        assert_null(h);
    }
    kerf_hardware *h = NULL;
    assert_int_equal(kerf_hardware_open("/nonexistent/x.json", &h, NULL), KERF_E_IO);
}

static void a_machine_is_had_by_its_name(void **state)
{
    (void)state;
    kerf_hardware *h = NULL;
    kerf_error err = {0};
    assert_int_equal(kerf_hardware_get("h200", &h, &err), KERF_OK);
    assert_string_equal(h->title, kerf_hardware_find("h200")->title);
    assert_near(h->fact[KERF_FACT_BF16].value, value("h200", KERF_FACT_BF16), 0);
    kerf_hardware_close(h);
    assert_int_equal(kerf_hardware_get("hh200", &h, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "did you mean h200?"));
    assert_null(h);
    assert_int_equal(kerf_hardware_get("/nonexistent/h200.json", &h, &err), KERF_E_IO);
    assert_null(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_has_its_source),
        cmocka_unit_test(peaks_are_dense),
        cmocka_unit_test(peaks_fit_their_machine),
        cmocka_unit_test(bandwidth_is_width_times_rate),
        cmocka_unit_test(machines_that_people_have),
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_machine_is_had_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
