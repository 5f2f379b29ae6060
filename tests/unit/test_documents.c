/* test_documents.c - results of formats and checkpoints as JSON documents: what stands in them is
 * what the structs hold. */
#include <kerf/inspect.h>
#include <kerf/model.h>
#include <kerf/selftest.h>
#include <kerf/verify.h>

#include "document.h"
#include "quantize_case.h"

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
        cmocka_unit_test(test_formats),    cmocka_unit_test(test_selftest),
        cmocka_unit_test(test_inspection), cmocka_unit_test(test_quantized),
        cmocka_unit_test(test_written),    cmocka_unit_test(test_model_of),
        cmocka_unit_test(test_worst),      cmocka_unit_test(test_finished_part),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
