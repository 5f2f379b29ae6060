/* test_documents_machines.c - machines, what was measured on them, and what a call tells meanwhile,
 * as JSON documents and lines: what stands in them is what the structs hold. */
#include <math.h>

#include <kerf/measure.h>
#include <kerf/monitor.h>
#include <kerf/typical.h>

#include "document.h"
#include "near.h"
#include "test_output.h"

static kerf_codec codec_of(const char *name)
{
    kerf_codec codec;
    kerf_error err;
    must(kerf_codec_find(name, &codec, &err), &err);
    return codec;
}

/* --- machines and advice ------------------------------------------------------------------- */

static void test_machines(void **state)
{
    char *text = NULL;
    kerf_error err;
    (void)state;
    must(kerf_hardware_list_json(&text, &err), &err);
    json_t *doc = document(text, strlen(text), "kerf.hardware-list/1");
    const json_t *all = json_object_get(doc, "hardware");
    assert_int_equal(json_array_size(all), kerf_hardware_count());
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *row = json_array_get(all, i);
        assert_string_equal(text_at(row, "name"), kerf_hardware_at(i)->name);
        assert_null(json_object_get(row, "schema"));
    }
    json_decref(doc);
}

/* What is written of measured products is read as times. */
static void test_times(void **state)
{
    kerf_gemv_time time[] = {
        {.format = kerf_format_find("nvfp4"), .rows = 4096, .cols = 512, .columns = 2, .us = 3.5},
        {.format = kerf_format_find("int8"), .rows = 64, .cols = 1024, .columns = 1, .us = 1.25}};
    kerf_product_energy energy[] = {{.joules = 2e-3, .watts = 100, .peak_w = NAN, .seconds = 2},
                                    {.joules = 1e-3, .watts = 90, .peak_w = 95, .seconds = 2}};
    const kerf_gemv_times all = {.time = time,
                                 .energy = energy,
                                 .count = 2,
                                 .x = KERF_BF16,
                                 .trials = 9,
                                 .processor = "a CPU"};
    kerf_timings read;
    const char *path = in_folder(state, "times.json");
    char *text = NULL;
    kerf_error err;
    size_t n = 0;
    time[0].bytes = 1e6;
    time[1].bytes = 65536;
    time[0].backend = time[1].backend = "avx2";
    assert_near(kerf_joules_per_gb(&all, 0), 2, 1e-9);
    must(kerf_gemv_times_write(&all, &text, &n, &err), &err);
    FILE *f = fopen(path, "w");
    assert_true(f && fwrite(text, 1, n, f) == n && fclose(f) == 0);
    json_t *doc = document(text, n, "kerf.bench.gemv/1");
    const json_t *row = json_array_get(json_object_get(doc, "results"), 0);
    assert_true(json_is_null(json_object_get(json_object_get(row, "energy"), "peak_w")));
    json_decref(doc);
    must(kerf_timings_read(path, &read, &err), &err);
    assert_int_equal(read.count, 2);
    assert_ptr_equal(read.item[0].product.format, time[0].format);
    assert_true(read.item[0].us == 3.5 && read.item[0].product.rows == 2);
    assert_true(read.item[1].product.n == 64 && read.item[1].product.k == 1024);
    kerf_timings_free(&read);
}

static void test_typical(void **state)
{
    static kerf_model m;
    const kerf_codec codecs[] = {codec_of("nvfp4:4/6"), codec_of("int8")};
    kerf_typical_request r = {.model = &m,
                              .hardware = kerf_hardware_find("h100"),
                              .codec = codecs,
                              .codecs = 2,
                              .config = "there/config.json"};
    kerf_typical *t = NULL;
    char *text = NULL;
    kerf_error err;
    size_t n = 0;
    (void)state;
    must(kerf_model_open(KERF_TEST_DATA "/configs/llama-3.1-8b.json", &m, &err), &err);
    must(kerf_advise_typical(&r, &t, &err), &err);
    must(kerf_typical_write(t, KERF_TYPICAL_JSON, &text, &n, &err), &err);
    json_t *doc = document(text, n, "kerf.advise-typical/1");
    assert_string_equal(text_at(doc, "best"), "int8:amax");
    assert_string_equal(text_at(doc, "config"), "there/config.json");
    assert_int_equal(json_array_size(json_object_get(doc, "formats")), 2);
    json_decref(doc);
    must(kerf_typical_write(t, KERF_TYPICAL_SUMMARY, &text, &n, &err), &err);
    assert_int_equal(strncmp(text, "\nint8:amax: the least error", 27), 0);
    free(text);
    kerf_typical_close(t);

    r.budget.tokens_per_s = 1e6; /* out of reach, and said so */
    must(kerf_advise_typical(&r, &t, &err), &err);
    must(kerf_typical_write(t, KERF_TYPICAL_SUMMARY, &text, &n, &err), &err);
    assert_non_null(strstr(text, "not even at the fast end of its band"));
    free(text);
    kerf_typical_close(t);
}

/* --- energy -------------------------------------------------------------------------------- */

static void test_metered(void **state)
{
    static const char *const words[] = {"sleep", "1", NULL};
    static kerf_metered m;
    char *text = NULL;
    kerf_error err;
    size_t n = 0;
    (void)state;
    m.word = words;
    m.exit_code = 3;
    m.used.seconds = 4;
    m.used.count = m.idle.count = 1;
    m.used.source[0] = (kerf_source_energy){.is_gpu = 1, .joules = 1000, .peak_w = NAN};
    m.idle.source[0].average_w = 50;
    assert_true(isnan(kerf_metered_above_idle(&m, 0))); /* idle was not metered */
    m.idle_s = 2;
    assert_near(kerf_metered_idle_w(&m, 0), 50, 0);
    assert_near(kerf_metered_above_idle(&m, 0), 800, 1e-9);
    must(kerf_metered_write(&m, &text, &n, &err), &err);
    json_t *doc = document(text, n, "kerf.monitor-command/1");
    const json_t *source = json_array_get(json_object_get(doc, "sources"), 0);
    assert_int_equal(integer_at(doc, "exit_code"), 3);
    assert_int_equal(json_array_size(json_object_get(doc, "command")), 2);
    assert_string_equal(text_at(source, "kind"), "gpu");
    assert_near(json_number_value(json_object_get(source, "joules_above_idle")), 800, 1e-9);
    assert_true(json_is_null(json_object_get(source, "peak_w")));
    json_decref(doc);
}

static size_t commas_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++) n += *text == ',';
    return n;
}

static void test_values(void **state)
{
    static kerf_sample s;
    char *names = NULL, *line = NULL, word[40];
    kerf_error err;
    size_t n = 0;
    (void)state;
    s.count = 1;
    s.unix_s = 12.5;
    s.reading[0] = (kerf_reading){.index = 1, .name = "package", .throttles = 0x24};
    for (int g = 0; g < KERF_GAUGE_COUNT; g++) s.reading[0].gauge[g] = NAN;
    s.reading[0].gauge[KERF_GAUGE_POWER] = 55.25;
    assert_string_equal(kerf_throttles_text(&s.reading[0], word, sizeof word), "");
    s.reading[0].throttles_known = 1;
    assert_string_equal(kerf_throttles_text(&s.reading[0], word, sizeof word), "power-cap heat");
    assert_string_equal(kerf_throttles_text(&s.reading[0], word, 6), "power");
    must(kerf_sample_write_csv(NULL, &names, NULL, &err), &err);
    must(kerf_sample_write_csv(&s, &line, &n, &err), &err);
    assert_int_equal(n, strlen(line));
    assert_int_equal(commas_of(names), commas_of(line));
    assert_int_equal(strncmp(line, "12.500,0.000,rapl,1,\"package\",55.25,,", 37), 0);
    assert_string_equal(line + n - 19, ",,power-cap heat,0\n");
    free(names);
    free(line);
}

/* --- events -------------------------------------------------------------------------------- */

static json_t *line_of(kerf_event_kind kind, const char *what, const char *action, double left_s)
{
    const kerf_event e = {.kind = kind, .what = what, .action = action, .done = 5, .total = 9};
    char *text = NULL;
    size_t n = 0;
    kerf_error err;
    must(kerf_event_write(&e, 2.5, left_s, &text, &n, &err), &err);
    assert_null(strchr(text, '\n'));
    return document(text, n, "kerf.progress/1");
}

static void test_events(void **state)
{
    char *text = NULL;
    kerf_error err;
    size_t n = 0;
    (void)state;
    json_t *line = line_of(KERF_EVENT_PHASE, "writing", NULL, 0);
    assert_string_equal(text_at(line, "event"), "phase");
    assert_string_equal(text_at(line, "name"), "writing");
    assert_int_equal(integer_at(line, "total_bytes"), 9);
    json_decref(line);
    line = line_of(KERF_EVENT_ITEM, "a.weight", "nvfp4:4/6", 0);
    assert_string_equal(text_at(line, "action"), "nvfp4:4/6");
    json_decref(line);
    line = line_of(KERF_EVENT_PROGRESS, NULL, NULL, 0);
    assert_string_equal(text_at(line, "event"), "bytes");
    assert_int_equal(integer_at(line, "done_bytes"), 5);
    assert_true(json_is_null(json_object_get(line, "seconds_left")));
    json_decref(line);
    line = line_of(KERF_EVENT_PROGRESS, NULL, NULL, 1.5);
    assert_near(json_number_value(json_object_get(line, "seconds_left")), 1.5, 0);
    json_decref(line);
    line = line_of(KERF_EVENT_RESUME, "out", "another source", 0);
    assert_string_equal(text_at(line, "anew"), "another source");
    json_decref(line);
    must(kerf_event_write_end(5, 0.25, &text, &n, &err), &err);
    line = document(text, n, "kerf.progress/1");
    assert_string_equal(text_at(line, "event"), "end");
    json_decref(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machines), cmocka_unit_test(test_times),
        cmocka_unit_test(test_typical),  cmocka_unit_test(test_metered),
        cmocka_unit_test(test_values),   cmocka_unit_test(test_events),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
