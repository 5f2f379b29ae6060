/* test_advise_api.c - kerf_advise on a real model: budgets of every kind, requests that contradict
 * themselves, reports, the cache, and a job that stops it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/advise.h>
#include <kerf/words.h>

#include "rounds.h"
#include "test_advice.h"

/* --- candidates ---------------------------------------------------------------------------- */

/* Every word is a codec, each another one, and a layout and a runtime take them all. */
static void check_candidates(const char *list, const kerf_layout *l, const kerf_runtime *r)
{
    kerf_codec codec[32];
    size_t n = 0;
    char *copy = strdup(list), *rest = copy;
    assert_non_null(copy);
    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        assert_true(n < sizeof codec / sizeof *codec);
        assert_int_equal(kerf_codec_find(word, &codec[n], NULL), KERF_OK);
        if (l) assert_int_equal(kerf_layout_check(l, codec[n].format, NULL), KERF_OK);
        if (r)
            assert_int_equal(kerf_runtime_check(r, l, codec[n].format, NULL, NULL, NULL), KERF_OK);
        for (size_t i = 0; i < n; i++)
            assert_false(codec[i].encoder == codec[n].encoder &&
                         codec[i].format == codec[n].format);
        n++;
    }
    assert_int_equal(n, 12);
    free(copy);
}

static void test_candidates(void **state)
{
    (void)state;
    const kerf_layout *gguf = kerf_layout_find("gguf");
    const kerf_runtime *r = NULL;
    assert_int_equal(kerf_runtime_get("llama.cpp", &r, NULL), KERF_OK);
    const char *const blocks = kerf_advise_candidates_for(gguf, NULL);
    check_candidates(kerf_advise_candidates(), NULL, NULL);
    check_candidates(blocks, gguf, r);
    assert_string_equal(kerf_advise_candidates_for(NULL, r), blocks);
    assert_string_equal(kerf_advise_candidates_for(NULL, NULL), kerf_advise_candidates());
    assert_string_equal(kerf_advise_candidates_for(kerf_layout_find("gptq"), NULL),
                        kerf_advise_candidates());
}

/* --- budgets ------------------------------------------------------------------------------- */

static void test_choice(void **state)
{
    (void)state;
    kerf_advise_request request = request_of((kerf_budget){.bits = 5});
    request.cache = NULL;
    kerf_advice *a = advise(&request);
    assert_true(a->tensors == 28 && a->groups == 16 && a->codecs == CODECS);
    assert_string_equal(a->source, MODEL);
    assert_string_equal(a->alpha_source, "1 for every tensor");
    assert_true(a->scored == 28 * CODECS && a->cached == 0 && a->weighted == 0);
    double bytes = 0, t2 = 0, elements = 0;
    for (size_t i = 0; i < a->groups; i++) {
        const kerf_advice_group *g = &a->group[i];
        assert_true(g->pick <= CODECS && g->cost[g->pick].possible && g->cost[CODECS].t2 == 0);
        assert_true(g->reason[0] && g->layer == (int)(i / 4));
        bytes += g->cost[g->pick].bytes;
        t2 += g->cost[g->pick].t2;
        elements += g->elements;
        for (size_t m = 0; m < g->members; m++) assert_int_equal(a->tensor[g->member[m]].group, i);
    }
    const kerf_advice_point p = kerf_advice_total(a);
    assert_true(p.bytes == bytes && p.t2 == t2 && p.us == 0 && elements == a->elements);
    assert_true(p.bits < 5.0005 && p.bits > 4.8 && p.bits == 8 * bytes / elements);
    for (size_t c = 0; c < CODECS; c++) {
        const kerf_advice_point u = kerf_advice_uniform(a, c);
        assert_true(u.bits > 5 || u.t2 >= p.t2);
    }
    assert_true(a->by_size.count == KERF_ADVICE_CURVE && a->by_time.count == 0);
    for (size_t i = 1; i < a->by_size.count; i++)
        assert_true(a->by_size.point[i].t2 <= a->by_size.point[i - 1].t2);
    kerf_advice_close(a);
    kerf_advice_close(NULL);
}

static void test_budgets(void **state)
{
    (void)state;
    kerf_hardware *h = NULL;
    kerf_error err = {0};
    must(kerf_hardware_get("b200", &h, &err), &err);

    kerf_advise_request r = request_of((kerf_budget){.bytes = 3.2e6});
    kerf_advice *a = advise(&r);
    assert_true(kerf_advice_total(a).bytes + a->kept_bytes <= 3.2e6);
    kerf_advice_close(a);

    r = request_of((kerf_budget){.t2 = 0.05});
    r.minimise = KERF_PRICE_BYTES;
    a = advise(&r);
    assert_true(kerf_advice_total(a).t2 <= 0.05);
    const double least = kerf_advice_total(a).bytes;
    kerf_advice_close(a);

    r.hardware = h;
    r.model = &config;
    r.minimise = KERF_PRICE_TIME;
    a = advise(&r);
    const kerf_advice_point fastest = kerf_advice_total(a);
    assert_true(fastest.t2 <= 0.05 && fastest.bytes >= least && fastest.us > 0 && a->other_us > 0);
    assert_true(a->tier == KERF_TIER_SPEC && a->by_time.count == KERF_ADVICE_CURVE);
    kerf_advice_close(a);

    r = request_of((kerf_budget){.tokens_per_s = 13500, .likely = 1});
    r.hardware = h;
    r.model = &config;
    r.context = 64;
    a = advise(&r);
    assert_true(1e6 / (kerf_advice_total(a).us + a->other_us) >= 13500);
    assert_true(1e6 / (kerf_advice_total(a).high_us + a->other_high_us) < 13500);
    kerf_advice_close(a);

    /* by default a limit holds wherever in the band the truth is */
    r.budget = (kerf_budget){.us = 1200};
    a = advise(&r);
    assert_true(kerf_advice_total(a).high_us + a->other_high_us <= 1200);
    assert_true(kerf_advice_total(a).low_us < kerf_advice_total(a).us);
    kerf_advice_close(a);
    r.budget = (kerf_budget){.tokens_per_s = 14000};
    assert_int_equal(kerf_advise(model, &r, NULL, NULL, &a, &err), KERF_E_LIMIT);
    assert_non_null(strstr(err.text, "at the slow end"));

    r = request_of((kerf_budget){.bits = 4});
    assert_int_equal(kerf_advise(model, &r, NULL, NULL, &a, &err), KERF_E_LIMIT);
    assert_null(a);
    assert_non_null(strstr(err.text, "it would take 4.50"));
    kerf_hardware_close(h);
}

/* The number behind `words` in the refusal of a request. */
static double refused(const kerf_advise_request *r, const char *words)
{
    kerf_advice *a;
    kerf_error err = {0};
    assert_int_equal(kerf_advise(model, r, NULL, NULL, &a, &err), KERF_E_LIMIT);
    const char *at = strstr(err.text, words);
    if (!at) fail_msg("'%s' does not say '%s'", err.text, words);
    return strtod(at + strlen(words), NULL);
}

/* What a refusal says that it would take is enough, as it is written there. */
static void test_nearest(void **state)
{
    (void)state;
    static const char *const only[] = {"*layers.2.*"};
    const kerf_select some = {.only = only, .onlys = 1};
    kerf_hardware *h = NULL;
    kerf_error err = {0};
    must(kerf_hardware_get("h200", &h, &err), &err);
    for (size_t i = 0; i < 2 * CODECS; i++) {
        kerf_advise_request r = request_of((kerf_budget){.bits = 1});
        r.codec = &candidate[i % CODECS];
        r.codecs = 1;
        r.select = i < CODECS ? NULL : &some;
        r.budget.bits = refused(&r, "it would take ");
        kerf_advice_close(advise(&r));
        r.budget = (kerf_budget){.bytes = 1};
        r.budget.bytes = refused(&r, "bits, ");
        kerf_advice_close(advise(&r));
        r.minimise = KERF_PRICE_BYTES;
        r.budget = (kerf_budget){.us = 1};
        r.hardware = h;
        r.model = &config;
        for (unsigned n = 1; n < 40; n += 3) {
            r.batch = n;
            r.budget = (kerf_budget){.us = 1};
            r.budget.us = refused(&r, "; or ");
            kerf_advice_close(advise(&r));
            r.budget = (kerf_budget){.us = 1};
            const double speed = refused(&r, "us a step, ");
            r.budget = (kerf_budget){.tokens_per_s = speed};
            kerf_advice_close(advise(&r));
        }
    }
    kerf_hardware_close(h);
}

static double bytes_of(const kerf_advice *a, const char *part)
{
    double bytes = 0;
    for (size_t i = 0; i < a->groups; i++)
        if (strstr(a->group[i].name, part)) bytes += a->group[i].cost[a->group[i].pick].bytes;
    return bytes;
}

static void refuse(const kerf_advise_request *r, const char *says)
{
    kerf_advice *a = (kerf_advice *)model; /* must become NULL */
    kerf_error err = {0};
    assert_int_equal(kerf_advise(model, r, NULL, NULL, &a, &err), KERF_E_ARG);
    if (!strstr(err.text, says)) fail_msg("'%s' does not say '%s'", err.text, says);
    assert_null(a);
}

static void test_alpha(void **state)
{
    static const kerf_alpha_rule rule[] = {
        {"*", 1}, {"*down_proj*", 100}, {"*norm*", 7}, {"*nothing*", 7}};
    kerf_advise_request r = request_of((kerf_budget){.bits = 5});
    kerf_advice *a = advise(&r);
    const double flat = bytes_of(a, "down_proj");
    kerf_advice_close(a);
    r.alpha = KERF_ALPHA_DEPTH;
    a = advise(&r);
    assert_true(a->tensor[0].alpha == 1 && a->tensor[14].alpha < 1);
    kerf_advice_close(a);
    r.alpha = KERF_ALPHA_RULES;
    r.alpha_rule = rule;
    r.alpha_rules = 3;
    a = advise(&r);
    assert_true(bytes_of(a, "down_proj") > flat); /* what matters more gets more bits */
    for (size_t t = 0; t < a->tensors; t++) {
        const int down = strstr(a->tensor[t].weight->name, "down_proj") != NULL;
        assert_true(a->tensor[t].alpha == (down ? 100 : 1));
    }
    kerf_advice_close(a);
    r.alpha_rules =
        4; /* the last matches nothing; one that matches what is kept is none the less one */
    refuse(&r, "alpha of *nothing* matches no tensor");

    const char *path = in_folder(state, "alpha.json");
    const char text[] = "{\"schema\": \"kerf.alpha/1\", \"alpha\": {\"a*\": 2, \"b\": 0.5}}";
    kerf_alphas *alphas = NULL;
    kerf_error err = {0};
    must(kerf_file_replace(path, text, sizeof text - 1, 0, &err), &err);
    must(kerf_alphas_open(path, &alphas, &err), &err);
    assert_true(alphas->rules == 2 && alphas->rule[1].alpha == 0.5);
    assert_string_equal(alphas->rule[0].glob, "a*");
    kerf_alphas_close(alphas);
    const char bad[] = "{\"schema\": \"kerf.alpha/1\", \"alpha\": {\"a*\": 0}}";
    must(kerf_file_replace(path, bad, sizeof bad - 1, 1, &err), &err);
    assert_int_equal(kerf_alphas_open(path, &alphas, &err), KERF_E_DATA);
    assert_null(alphas);
    const char none[] = "{\"schema\": \"kerf.alpha/1\", \"alpha\": {}}"; /* would change nothing */
    must(kerf_file_replace(path, none, sizeof none - 1, 1, &err), &err);
    assert_int_equal(kerf_alphas_open(path, &alphas, &err), KERF_E_DATA);
    assert_int_equal(kerf_alphas_open(in_folder(state, "none"), &alphas, &err), KERF_E_IO);
}

/* A choice of one format for all tries each: those that do not fit are no failure, and the error of
 * the call says nothing of them. */
static void test_nothing_said(void **state)
{
    (void)state;
    static const unsigned char optional[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    kerf_advise_request r = request_of((kerf_budget){.bits = 6});
    kerf_codec codec[2];
    kerf_advice *a;
    kerf_error err, before;
    assert_int_equal(kerf_codec_find("int8", &codec[0], NULL), KERF_OK);
    assert_int_equal(kerf_codec_find("int4-g128", &codec[1], NULL), KERF_OK);
    r.codec = codec;
    r.codecs = 2;
    r.optional = optional;
    r.layout = kerf_layout_find("gptq");
    memset(&err, 0x5a, sizeof err);
    before = err;
    assert_int_equal(kerf_advise(model, &r, NULL, NULL, &a, &err), KERF_OK);
    assert_memory_equal(&err, &before, sizeof err);
    kerf_advice_close(a);
}

static void test_contradictions(void **state)
{
    (void)state;
    static const char *const only[] = {"*norm*"};
    const kerf_select none = {.only = only, .onlys = 1};
    kerf_advise_request r = request_of((kerf_budget){0});
    refuse(&r, "budget is missing");
    r = request_of((kerf_budget){.us = 100});
    refuse(&r, "limits on time need");
    r = request_of((kerf_budget){.t2 = 0.1});
    refuse(&r, "a limit on t2 needs");
    r = request_of((kerf_budget){.bits = 5});
    r.minimise = KERF_PRICE_BYTES;
    refuse(&r, "does not go with");
    r = request_of((kerf_budget){.bits = -5});
    refuse(&r, "below 0 or no number");
    r = request_of((kerf_budget){.bits = NAN});
    refuse(&r, "below 0 or no number");
    r = request_of((kerf_budget){.bits = 5});
    r.minimise = KERF_PRICES;
    refuse(&r, "no measure to minimise");
    r.minimise = KERF_PRICE_LOSS;
    r.select = &none;
    refuse(&r, "no tensor to choose for");
    r.codecs = 0;
    refuse(&r, "no candidate");
}

/* --- reports ------------------------------------------------------------------------------- */

static void test_reports(void **state)
{
    (void)state;
    kerf_hardware *h = NULL;
    assert_int_equal(kerf_hardware_get("h200", &h, NULL), KERF_OK);
    kerf_advise_request request = request_of((kerf_budget){.bits = 5});
    request.hardware = h;
    request.model = &config;
    kerf_advice *a = advise(&request);
    static const kerf_advice_kind kinds[] = {KERF_ADVICE_JSON, KERF_ADVICE_MARKDOWN,
                                             KERF_ADVICE_HTML, KERF_ADVICE_RECIPE};
    for (size_t k = 0; k < 4; k++) {
        char *text = NULL, name[64], glob[KERF_ADVICE_NAME];
        write_kind(a, kinds[k], &text);
        for (size_t i = 0; i < a->groups; i++) { /* the choice, and the reason for it */
            const kerf_advice_group *g = &a->group[i];
            const char *member = a->tensor[g->member[0]].weight->name;
            kerf_glob_escape(member, glob, sizeof glob);
            assert_non_null(strstr(text, kinds[k] == KERF_ADVICE_RECIPE ? glob : g->name));
            assert_non_null(strstr(text, kerf_advice_codec_name(a, g->pick, name)));
            assert_non_null(strstr(text, g->reason));
        }
        free(text);
    }
    char *text = NULL;
    write_kind(a, KERF_ADVICE_HTML, &text);
    assert_non_null(strstr(text, "<!DOCTYPE html>"));
    assert_non_null(strstr(text, "</html>"));
    free(text);
    write_kind(a, KERF_ADVICE_SUMMARY, &text);
    assert_memory_equal(text, "28 tensors in 16 groups", 23);
    free(text);
    size_t n;
    assert_int_equal(kerf_advice_write(a, (kerf_advice_kind)99, &text, &n, NULL), KERF_E_ARG);
    kerf_advice_close(a);
    kerf_hardware_close(h);
}

/* --- cache and cancel ---------------------------------------------------------------------- */

static void test_cache(void **state)
{
    kerf_advise_request r = request_of((kerf_budget){.bits = 5});
    r.cache = in_folder(state, "scores.json");
    kerf_advice *a = NULL;
    test_job job;
    kerf_error err = {0};
    /* What was measured before a cancel is there for the next run. */
    assert_int_equal(kerf_advise(model, &r, NULL, test_job_open(&job, 60), &a, &err),
                     KERF_E_CANCELED);
    a = advise(&r);
    assert_true(a->cached > 0 && a->scored > 0 && a->scored + a->cached == 28 * CODECS);
    const kerf_advice_point first = kerf_advice_total(a);
    kerf_advice_close(a);
    a = advise(&r);
    assert_true(a->cached == 28 * CODECS && a->scored == 0);
    const kerf_advice_point second = kerf_advice_total(a);
    assert_memory_equal(&first, &second, sizeof first);
    kerf_advice_close(a);
    r.cache = MODEL "/config.json";
    assert_int_equal(kerf_advise(model, &r, NULL, NULL, &a, &err), KERF_E_DATA);
}

static void test_cancel(void **state)
{
    (void)state;
    kerf_advise_request r = request_of((kerf_budget){.bits = 5});
    r.cache = NULL;
    test_job job;
    kerf_advice *a = NULL;
    kerf_error err = {0};
    must(kerf_advise(model, &r, NULL, test_job_open(&job, 1 << 30), &a, &err), &err);
    kerf_advice_close(a);
    const long all = job.asked; /* at the beginning, amid the scores, and during the choice */
    const long after[] = {0, 1, all / 3, all - 40, all - 1};
    for (size_t i = 0; i < sizeof after / sizeof *after; i += STEP(2)) {
        assert_int_equal(kerf_advise(model, &r, NULL, test_job_open(&job, after[i]), &a, &err),
                         KERF_E_CANCELED);
        assert_true(test_job_ms(&job) < CANCEL_MS);
        assert_null(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice),         cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_nearest),        cmocka_unit_test(test_alpha),
        cmocka_unit_test(test_contradictions), cmocka_unit_test(test_reports),
        cmocka_unit_test(test_cache),          cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_candidates),     cmocka_unit_test(test_nothing_said),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
