/* test_documents.c - results as JSON documents: what stands in them is what the structs hold. */
#include <jansson.h>
#include <math.h>

#include <kerf/advisor.h>
#include <kerf/inspect.h>
#include <kerf/measure.h>
#include <kerf/selftest.h>
#include <kerf/monitor.h>
#include <kerf/typical.h>
#include <kerf/verify.h>

#include "near.h"
#include "quantize_case.h"

/* Takes the text of a document; its schema must be this. */
static json_t *document(char *text, size_t n, const char *schema)
{
    json_error_t why;
    json_t *doc = json_loadb(text, n, 0, &why);
    if (!doc) fail_msg("%s: %s", schema, why.text);
    assert_int_equal(n, strlen(text));
    assert_string_equal(json_string_value(json_object_get(doc, "schema")), schema);
    free(text);
    return doc;
}

static json_int_t integer_at(const json_t *row, const char *key)
{
    assert_true(json_is_integer(json_object_get(row, key)));
    return json_integer_value(json_object_get(row, key));
}

static const char *text_at(const json_t *row, const char *key)
{
    assert_true(json_is_string(json_object_get(row, key)));
    return json_string_value(json_object_get(row, key));
}

/* --- formats ------------------------------------------------------------------------------- */

static void test_formats(void **state)
{
    char *text = NULL, word[KERF_FORMAT_TEXT];
    size_t n = 0;
    kerf_error err;
    (void)state;
    must(kerf_formats_write(NULL, &text, &n, &err), &err);
    json_t *doc = document(text, n, "kerf.formats/1");
    assert_int_equal(json_array_size(json_object_get(doc, "formats")), kerf_format_count());
    json_decref(doc);

    const kerf_format *f = kerf_format_find("fp8-e4m3-128x128");
    must(kerf_formats_write(f, &text, &n, &err), &err);
    doc = document(text, n, "kerf.formats/1");
    const json_t *row = json_array_get(json_object_get(doc, "formats"), 0);
    assert_int_equal(json_array_size(json_object_get(doc, "formats")), 1);
    assert_string_equal(text_at(row, "name"), f->name);
    assert_string_equal(text_at(row, "group"), "128x128");
    assert_string_equal(text_at(row, "element"), "E4M3");
    assert_int_equal(json_array_size(json_object_get(row, "encoders")), kerf_encoder_count(f));
    json_decref(doc);
    f = kerf_format_find("nvfp4");
    assert_string_equal(kerf_scale_text(f, word, sizeof word), "E4M3 + F32");
    assert_string_equal(kerf_group_text(f, word, sizeof word), "16");
    assert_string_equal(kerf_scale_text(f, word, 5), "E4M3");
}

static void test_selftest(void **state)
{
    const kerf_format *f = kerf_format_find("nf4");
    const kerf_selftest_options o = {.format = &f, .formats = 1};
    kerf_selftest_result *r = NULL;
    char *text = NULL, digest[24];
    size_t n = 0;
    kerf_error err;
    (void)state;
    must(kerf_selftest(&o, NULL, &r, &err), &err);
    assert_true(r->seconds > 0);
    must(kerf_selftest_write(r, &text, &n, &err), &err);
    json_t *doc = document(text, n, "kerf.selftest/1");
    const json_t *row = json_array_get(json_object_get(doc, "codecs"), 0);
    assert_true(json_is_true(json_object_get(doc, "pass")));
    assert_int_equal(integer_at(doc, "passed"), r->rows);
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)r->row[0].digest);
    assert_string_equal(text_at(row, "digest"), digest);
    assert_int_equal(json_array_size(json_object_get(doc, "backends")), r->backends);
    json_decref(doc);
    kerf_selftest_free(r);
}

/* --- checkpoints --------------------------------------------------------------------------- */

static void test_inspection(void **state)
{
    char path[4200], from[4200], to[4200], *text = NULL;
    const char *sound = quantized_model(state);
    kerf_inspection *x = NULL;
    kerf_error err;
    size_t n = 0;
    mkdir(path_in(*state, "plain-config", path), 0777); /* one that does not speak of the codes */
    copy_file(path_in(sound, "model.safetensors", from), path_in(path, "model.safetensors", to));
    copy_file(path_in(model, "config.json", from), path_in(path, "config.json", to));
    kerf_checkpoint *c = open_checkpoint(path);
    must(kerf_inspect_all(c, NULL, &x, &err), &err);
    assert_int_equal(x->errors, 1);
    assert_true(x->findings >= 1);
    assert_int_equal(x->quantized, kerf_checkpoint_quantized(c));
    must(kerf_inspection_write(x, &text, &n, &err), &err);
    json_t *doc = document(text, n, "kerf.inspect/1");
    const json_t *totals = json_object_get(doc, "totals"),
                 *weights = json_object_get(doc, "weights");
    const json_t *finding = json_array_get(json_object_get(doc, "findings"), 0);
    uint64_t bytes = 0;
    assert_int_equal(json_array_size(weights), x->weights);
    for (size_t i = 0; i < json_array_size(weights); i++)
        bytes += (uint64_t)integer_at(json_array_get(weights, i), "bytes");
    assert_true(bytes == x->bytes && integer_at(totals, "bytes") == (json_int_t)bytes);
    assert_string_equal(text_at(doc, "source"), path);
    assert_string_equal(text_at(finding, "severity"), "error");
    assert_string_equal(text_at(finding, "tensor"), x->finding[0].tensor);
    assert_non_null(strstr(text_at(finding, "text"), "config.json names none"));
    json_decref(doc);
    kerf_inspection_free(x);
    kerf_inspection_free(NULL);
    kerf_checkpoint_close(c);
}

static json_t *plan_document(const kerf_plan *p, const kerf_result *r)
{
    char *text = NULL;
    size_t n = 0;
    kerf_error err;
    must(kerf_plan_write(p, r, &text, &n, &err), &err);
    return document(text, n, "kerf.quantize/1");
}

/* A part of two, whose plan is looked at before and after; then both are merged. */
static void test_quantized(void **state)
{
    char path[4200], *text = NULL;
    kerf_checkpoint *c = open_checkpoint(model);
    kerf_error err;
    kerf_merged merged;
    size_t n = 0;
    path_in(*state, "in-parts", path);
    for (unsigned part = 1; part <= 2; part++) {
        kerf_plan *p = NULL;
        kerf_result r;
        kerf_totals t;
        must(kerf_plan_make(
                 c, NULL, NULL, 0, codec_of("int8"),
                 &(kerf_output){.path = path, .part = part, .parts = 2, .shard_bytes = 1 << 20}, &p,
                 &err),
             &err);
        kerf_plan_totals(p, &t);
        json_t *doc = plan_document(p, NULL);
        assert_true(json_is_true(json_object_get(doc, "dry_run")));
        assert_null(json_object_get(doc, "part"));
        json_decref(doc);
        must(kerf_quantize(p, NULL, NULL, &r, &err), &err);
        doc = plan_document(p, &r);
        const json_t *of_part = json_object_get(doc, "part");
        const json_t *row = json_array_get(json_object_get(doc, "tensors"), 0);
        assert_true(json_is_false(json_object_get(doc, "dry_run")));
        assert_string_equal(text_at(doc, "output"), path);
        assert_int_equal(integer_at(of_part, "part"), part);
        assert_int_equal(integer_at(of_part, "shards"), r.share.shards);
        assert_int_equal(integer_at(json_object_get(doc, "totals"), "bytes_out"), t.bytes_out);
        assert_string_equal(text_at(row, "name"), kerf_plan_at(p, 0)->weight->name);
        assert_int_equal(integer_at(row, "bytes_out"), kerf_decision_bytes(kerf_plan_at(p, 0)));
        json_decref(doc);
        kerf_plan_free(p);
    }
    must(kerf_merge(path, NULL, NULL, &merged, &err), &err);
    must(kerf_merged_write(path, &merged, &text, &n, &err), &err);
    json_t *doc = document(text, n, "kerf.merge/1");
    assert_int_equal(integer_at(doc, "parts"), 2);
    assert_int_equal(integer_at(doc, "bytes"), merged.bytes);
    json_decref(doc);
    kerf_checkpoint_close(c);
}

static void test_written(void **state)
{
    char path[4200], *text = NULL;
    kerf_checkpoint *c = open_checkpoint(quantized_model(state));
    const kerf_losses lost = {.groups = 3};
    kerf_error err;
    kerf_result r;
    size_t n = 0;
    kerf_output to = {.path = path_in(*state, "dense.safetensors", path)};
    must(kerf_dequantize(c, KERF_F32, &to, NULL, NULL, &r, &err), &err);
    must(kerf_dequantized_write(c, &to, &r, &text, &n, &err), &err);
    json_t *doc = document(text, n, "kerf.dequantize/1");
    assert_int_equal(integer_at(doc, "decoded"), r.changed);
    assert_int_equal(integer_at(doc, "bytes_out"), r.bytes_out);
    assert_null(json_object_get(doc, "part"));
    json_decref(doc);

    to = (kerf_output){.path = path_in(*state, "moved.safetensors", path)};
    must(kerf_convert(c, &to, NULL, &r, NULL, &err), &err);
    must(kerf_converted_write(c, &to, &r, &lost, &text, &n, &err), &err);
    doc = document(text, n, "kerf.convert/1");
    const json_t *losses = json_object_get(doc, "losses");
    assert_string_equal(text_at(doc, "layout"), "kerf"); /* what an output without one has */
    assert_int_equal(integer_at(doc, "converted"), r.changed);
    assert_int_equal(json_array_size(losses), 1);
    assert_int_equal(strncmp(json_string_value(json_array_get(losses, 0)), "3 ", 2), 0);
    json_decref(doc);
    kerf_checkpoint_close(c);
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
    char path[4200], *text = NULL;
    kerf_error err;
    size_t n = 0;
    time[0].bytes = 1e6;
    time[1].bytes = 65536;
    time[0].backend = time[1].backend = "avx2";
    assert_near(kerf_joules_per_gb(&all, 0), 2, 1e-9);
    must(kerf_gemv_times_write(&all, &text, &n, &err), &err);
    FILE *f = fopen(path_in(*state, "times.json", path), "w");
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

/* --- of a checkpoint ----------------------------------------------------------------------- */

static void test_model_of(void **state)
{
    static kerf_model m;
    char path[4200], why[200];
    kerf_error err = {0};
    int found = -1;
    kerf_checkpoint *c = open_checkpoint(model);
    must(kerf_model_find(c, NULL, &m, &found, why, sizeof why, &err), &err);
    assert_int_equal(found, 1);
    assert_string_equal(m.type, "llama");
    assert_string_equal(why, "");
    assert_int_equal(kerf_model_find(c, "/nowhere/config.json", &m, &found, why, sizeof why, &err),
                     KERF_E_IO);
    kerf_checkpoint_close(c);

    c = open_checkpoint(large); /* no config.json beside it */
    must(kerf_model_find(c, NULL, &m, &found, why, sizeof why, &err), &err);
    assert_int_equal(found, 0);
    assert_string_equal(why, "");
    FILE *f = fopen(path_in(*state, "config.json", path), "w");
    assert_true(f && fputs("{\"model_type\": \"llama\"}", f) >= 0 && fclose(f) == 0);
    must(kerf_model_find(c, NULL, &m, &found, why, sizeof why, &err), &err);
    assert_int_equal(found, 0);
    assert_true(strlen(why) > 0); /* what is missing in it */
    assert_int_equal(remove(path), 0);
    kerf_checkpoint_close(c);
}

static void test_worst(void **state)
{
    kerf_checkpoint *a = open_checkpoint(model), *b = open_checkpoint(quantized_model(state));
    const kerf_verify_row *order[256];
    kerf_verification *v = NULL;
    kerf_error err;
    must(kerf_verify(a, b, NULL, NULL, NULL, &v, &err), &err);
    assert_true(v->rows <= 256);
    const size_t n = kerf_verification_worst(v, order);
    assert_int_equal(n, v->measured);
    assert_true(n > 2 && n < v->rows);
    for (size_t i = 1; i < n; i++)
        assert_true(kerf_score_t2(&order[i - 1]->score) >= kerf_score_t2(&order[i]->score));
    kerf_verification_close(v);
    kerf_checkpoint_close(b);
    kerf_checkpoint_close(a);
}

static void test_finished_part(void **state)
{
    kerf_finished_part done = {.schema = "kerf.score/1", .path = "scores", .part = 2, .parts = 3};
    char *text = NULL;
    kerf_error err;
    size_t n = 0;
    (void)state;
    must(kerf_finished_part_write(&done, &text, &n, &err), &err);
    json_t *doc = document(text, n, "kerf.score/1");
    assert_int_equal(json_object_size(json_object_get(doc, "part")), 2);
    json_decref(doc);
    done.of_tensors = 28;
    must(kerf_finished_part_write(&done, &text, &n, &err), &err);
    doc = document(text, n, "kerf.score/1");
    assert_int_equal(integer_at(json_object_get(doc, "part"), "tensors"), 0);
    assert_int_equal(integer_at(json_object_get(doc, "part"), "of_tensors"), 28);
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),       cmocka_unit_test(test_selftest),
        cmocka_unit_test(test_inspection),    cmocka_unit_test(test_quantized),
        cmocka_unit_test(test_written),       cmocka_unit_test(test_machines),
        cmocka_unit_test(test_times),         cmocka_unit_test(test_typical),
        cmocka_unit_test(test_metered),       cmocka_unit_test(test_values),
        cmocka_unit_test(test_model_of),      cmocka_unit_test(test_worst),
        cmocka_unit_test(test_finished_part),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
