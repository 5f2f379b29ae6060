/* test_texts.c - results as texts for people: tables that fit a window, or are whole where there is
 * none; and what is found of formats and models says what the
 * structs hold. */
#include <math.h>

#include <kerf/advise.h>
#include <kerf/eval.h>
#include <kerf/selftest.h>
#include <kerf/verify.h>

#include "base/text_page.h"
#include "quantize_case.h"
#include "text_case.h"

/* --- pages --------------------------------------------------------------------------------- */

static void put_example(kf_page *p, const void *ctx)
{
    const char *first = ctx;
    fprintf(p->to, "of %s:\n", kf_page_plain(p, "a\033[2Jb"));
    kf_table_begin(p, "~name|+~note|>figure|+>other");
    kf_table_cell(p, "%s", first);
    kf_table_cell(p, "%s", "what it is");
    kf_table_figure(p, "%.1f", 2.25);
    kf_table_figure(p, "%.1f", NAN);
    kf_table_rule(p);
    kf_table_cell(p, "all");
    kf_table_cell(p, "%s", "");
    kf_table_cell(p, "%d", 1234567);
    kf_table_cell(p, "\t");
    kf_table_end(p);
    kf_page_verdict(p, 0, "good", "bad");
}

static void check_page(const char *first, const kerf_text_form *form, const char *expected)
{
    must(kf_page_print(put_example, first, form, &text, &size, &why), &why);
    assert_string_equal(text, expected);
    assert_int_equal(size, strlen(text));
    done();
}

static void test_page(void **state)
{
    static const char name[] = "layers.0123456789.weight";
    char whole[101] = "";
    (void)state;
    memset(whole, 'x', 100); /* where there is no window, a program may read names */
    must(kf_page_print(put_example, whole, NULL, &text, &size, &why), &why);
    has(whole);
    assert_null(strstr(text, "note"));
    done();
    check_page("w\xc3\xbc", NULL,
               "of a?[2Jb:\n"
               "name  note         figure  other\n"
               "--------------------------------\n"
               "w\xc3\xbc    what it is      2.2      -\n"
               "--------------------------------\n"
               "all               1234567      ?\n"
               "bad");
    /* the last column that may go goes first, then the other, then names lose their middle */
    check_page(name, &(kerf_text_form){.columns = 46},
               "of a?[2Jb:\n"
               "name                      note         figure\n"
               "---------------------------------------------\n"
               "layers.0123456789.weight  what it is      2.2\n"
               "---------------------------------------------\n"
               "all                                   1234567\n"
               "bad");
    check_page(name, &(kerf_text_form){.columns = 27, .colours = 1},
               "of a?[2Jb:\n"
               "name                 figure\n"
               "---------------------------\n"
               "layer..6789.weight      2.2\n"
               "---------------------------\n"
               "all                 1234567\n"
               "\033[1;31mbad\033[0m");
    check_page(name, &(kerf_text_form){.columns = 27, .wide = 1},
               "of a?[2Jb:\n"
               "name                      note         figure  other\n"
               "----------------------------------------------------\n"
               "layers.0123456789.weight  what it is      2.2      -\n"
               "----------------------------------------------------\n"
               "all                                   1234567      ?\n"
               "bad");
}

/* --- results ------------------------------------------------------------------------------- */

static void test_formats(void **state)
{
    const kerf_format *f = kerf_format_find("nvfp4");
    (void)state;
    check(kerf_formats_text(NULL, &wide, &text, &size, &why));
    for (size_t i = 0; i < kerf_format_count(); i++) has(kerf_format_at(i)->name);
    for (size_t i = 0; i < kerf_layout_count(); i++) has(kerf_layout_at(i)->note);
    done();
    check(kerf_formats_text(f, NULL, &text, &size, &why));
    for (size_t i = 0; i < kerf_encoder_count(f); i++) has(kerf_encoder_at(f, i)->source);
    has("  size     4.5000 bits per weight");
    done();
}

static void test_selftest(void **state)
{
    const kerf_format *f = kerf_format_find("nf4");
    const kerf_selftest_options o = {.format = &f, .formats = 1};
    kerf_selftest_result *r = NULL;
    char part[64];
    (void)state;
    must(kerf_selftest(&o, NULL, &r, &why), &why);
    check(kerf_selftest_text(r, NULL, &text, &size, &why));
    snprintf(part, sizeof part, "%016llx", (unsigned long long)r->row[0].digest);
    has(part);
    snprintf(part, sizeof part, "\npassed: %zu codecs pass, 0 fail", r->passed);
    has(part);
    done();
    kerf_selftest_free(r);
}

static void test_inspection(void **state)
{
    kerf_checkpoint *c = open_checkpoint(quantized_model(state));
    const kerf_reader *r = kerf_checkpoint_reader(c);
    kerf_inspection *x = NULL;
    must(kerf_inspect_all(c, NULL, &x, &why), &why);
    check(kerf_inspection_text(x, 0, &wide, &text, &size, &why));
    for (size_t i = 0; i < x->weights; i++)
        has(kerf_weights_at(kerf_checkpoint_weights(c), i)->name);
    assert_int_equal(lines(), 4 + x->weights + 3 + x->findings); /* rules, headings, sums, notes */
    done();
    check(kerf_inspection_text(x, 1, &wide, &text, &size, &why));
    for (size_t i = 0; i < kerf_reader_count(r); i++) has(kerf_reader_at(r, i)->name);
    done();
    kerf_inspection_free(x);
    kerf_checkpoint_close(c);
}

static void test_plan(void **state)
{
    kerf_checkpoint *c = open_checkpoint(model);
    kerf_plan *p = NULL;
    (void)state;
    must(kerf_plan_make(c, NULL, NULL, 0, codec_of("mxfp4"), &(kerf_output){0}, &p, &why), &why);
    check(kerf_plan_text(p, NULL, &wide, &text, &size, &why));
    const kerf_decision *d;
    for (size_t i = 0; (d = kerf_plan_at(p, i)) != NULL; i++) {
        has(d->weight->name);
        has(d->reason);
    }
    has("28 quantized, 10 kept");
    done();
    kerf_plan_free(p);
    kerf_checkpoint_close(c);
}

/* In two parts, merged; then decoded, and moved. */
static void test_written(void **state)
{
    char path[4200], there[4200];
    kerf_checkpoint *c = open_checkpoint(model);
    const kerf_losses lost = {.groups = 3};
    kerf_merged merged;
    kerf_result r;
    path_in(*state, "told", path);
    for (unsigned part = 1; part <= 2; part++) {
        const kerf_output to = {.path = path, .part = part, .parts = 2, .shard_bytes = 1 << 20};
        kerf_plan *p = NULL;
        must(kerf_plan_make(c, NULL, NULL, 0, codec_of("int8"), &to, &p, &why), &why);
        must(kerf_quantize(p, NULL, NULL, &r, &why), &why);
        check(kerf_plan_text(p, &r, NULL, &text, &size, &why));
        snprintf(there, sizeof there, ": part %u/2 is finished, %zu of %zu files", part,
                 r.share.shards, r.share.of_shards);
        has(there);
        assert_true(r.share.shards < r.share.of_shards);
        has("/told when all are\n");
        done();
        kerf_plan_free(p);
    }
    must(kerf_merge(path, NULL, NULL, &merged, &why), &why);
    check(kerf_merged_text(path, &merged, NULL, &text, &size, &why));
    has("/told: 2 parts, ");
    done();
    kerf_checkpoint_close(c);

    c = open_checkpoint(path);
    kerf_output to = {.path = path_in(*state, "dense.safetensors", there)};
    must(kerf_dequantize(c, KERF_F32, &to, NULL, NULL, &r, &why), &why);
    check(kerf_dequantized_text(c, &to, &r, NULL, &text, &size, &why));
    has("/dense.safetensors: 28 of 38 tensors decoded, ");
    done();
    to = (kerf_output){.path = path_in(*state, "moved.safetensors", there)};
    must(kerf_convert(c, &to, NULL, &r, NULL, &why), &why);
    check(kerf_converted_text(c, &to, &r, &lost, NULL, &text, &size, &why));
    has("/moved.safetensors: 28 weights in layout kerf, not without loss, ");
    has("\nlost: 3 ");
    assert_int_equal(lines(), 2);
    done();
    kerf_checkpoint_close(c);

    const kerf_finished_part part = {
        .path = "a\tb", .part = 2, .parts = 3, .tensors = 9, .of_tensors = 28};
    check(kerf_finished_part_text(&part, NULL, &text, &size, &why));
    assert_string_equal(
        text, "a?b: part 2/3 is finished, 9 of 28 tensors; kerf merge a?b when all are\n");
    done();
}

static void test_scores(void **state)
{
    kerf_checkpoint *c = open_checkpoint(model);
    const kerf_codec codecs[] = {codec_of("nvfp4"), codec_of("int8")};
    const kerf_score_request r = {.codec = codecs, .codecs = 2};
    kerf_scores *s = NULL;
    char part[64];
    (void)state;
    must(kerf_score_checkpoint(c, &r, NULL, NULL, &s, &why), &why);
    check(kerf_scores_text(s, 0, &wide, &text, &size, &why));
    assert_int_equal(lines(), 1 + 2 + 2); /* 56 rows are not few */
    snprintf(part, sizeof part, "%.3e", kerf_score_t2(&s->total[1]));
    has(part);
    done();
    s->score[1].nonfinite = 3;
    s->score[3].lost_blocks = s->score[3].elements / 128;
    check(kerf_scores_text(s, 0, &wide, &text, &size, &why));
    has(" in int8:amax: 3 of 196608 weights become NaN or infinite");
    has(" in int8:amax: 100 % of its blocks of 128 ");
    done();
    s->score[1].nonfinite = s->score[3].lost_blocks = 0;
    s->imatrix = "some.dat";
    for (size_t i = 1; i < s->tensors; i++) s->score[2 * i].weighted_signal = 1;
    check(kerf_scores_text(s, 0, &wide, &text, &size, &why));
    has("\nweighted: of 27 of them alone, for which some.dat has ");
    done();
    s->imatrix = NULL;
    check(kerf_scores_text(s, 1, &wide, &text, &size, &why));
    assert_int_equal(lines(), 2 + s->tensors * 2 + 1 + 1 + 2 + 2);
    done();
    kerf_scores_close(s);
    kerf_checkpoint_close(c);
}

static void test_verification(void **state)
{
    kerf_checkpoint *a = open_checkpoint(model), *b = open_checkpoint(quantized_model(state));
    const kerf_text_form coloured = {.colours = 1};
    kerf_verification *v = NULL;
    char part[64];
    must(kerf_verify(a, b, NULL, NULL, NULL, &v, &why), &why);
    check(kerf_verification_text(v, 0, NULL, &text, &size, &why));
    assert_int_equal(lines(), 2 + 10 + 2 + 2);
    has("\npassed: ");
    snprintf(part, sizeof part, "%.3f  %.3e", kerf_score_bpw(&v->total), kerf_score_t2(&v->total));
    has(part);
    done();
    check(kerf_verification_text(v, 1, NULL, &text, &size, &why));
    assert_int_equal(lines(), 2 + v->measured + 2 + 2);
    done();
    v->passed = 0;
    v->row[0].over = 1u << KERF_FIGURE_T2;
    v->over = 1;
    must(kerf_verification_text(v, 0, &coloured, &text, &size, &why), &why);
    has("\nover its limit");
    has("\033[1;31mfailed\033[0m: ");
    done();
    kerf_verification_close(v);
    kerf_checkpoint_close(b);
    kerf_checkpoint_close(a);
}

static void test_advice(void **state)
{
    kerf_checkpoint *c = open_checkpoint(model);
    const kerf_codec codecs[] = {codec_of("mxfp4"), codec_of("int8")};
    const kerf_advise_request r = {.codec = codecs,
                                   .codecs = 2,
                                   .budget = {.bits = 6},
                                   .hardware = kerf_hardware_find("h200")};
    kerf_advice *a = NULL;
    char name[64], *summary = NULL;
    (void)state;
    must(kerf_advise(c, &r, NULL, NULL, &a, &why), &why);
    check(kerf_advice_text(a, &wide, &text, &size, &why));
    for (size_t i = 0; i < a->groups; i++) {
        has(a->group[i].name);
        has(a->group[i].reason);
        has(kerf_advice_codec_name(a, a->group[i].pick, name));
    }
    must(kerf_advice_write(a, KERF_ADVICE_SUMMARY, &summary, NULL, &why), &why);
    has(summary);
    free(summary);
    done();
    kerf_advice_close(a);
    kerf_checkpoint_close(c);
}

static void test_evaluation(void **state)
{
    kerf_eval_model m[2] = {{.path = "source", .bits = 16, .perplexity = 7.5},
                            {.path = "a\nb", .bits = 4.5, .perplexity = 8.25, .over = 1}};
    const kerf_evaluation e = {.model = m, .models = 2, .predictions = 510, .rows = 2};
    (void)state;
    m[1].figure[KERF_EVAL_FLIPS] = 0.25;
    check(kerf_evaluation_text(&e, NULL, &text, &size, &why));
    has("75.00 %");
    has("\na?b: ");
    has(" is over its limit ");
    has("510 predictions in 2 rows");
    done();
    m[1].figure[KERF_EVAL_KL] = m[1].kl_low = m[1].kl_high = m[1].perplexity = NAN;
    check(kerf_evaluation_text(&e, NULL, &text, &size, &why));
    has("\na?b: kl is no number: ");
    assert_null(strstr(text, "nan"));
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page),     cmocka_unit_test(test_formats),
        cmocka_unit_test(test_selftest), cmocka_unit_test(test_inspection),
        cmocka_unit_test(test_plan),     cmocka_unit_test(test_written),
        cmocka_unit_test(test_scores),   cmocka_unit_test(test_verification),
        cmocka_unit_test(test_advice),   cmocka_unit_test(test_evaluation),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
