/* test_advise_api.c - kerf_advise on a real model: budgets of every kind, requests that contradict
 * themselves, reports, the cache, and a job that stops it; recipes as texts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/advise.h>
#include <kerf/recipe.h>
#include <kerf/words.h>

#include "test_job.h"
#include "test_output.h"

#define MODEL KERF_TEST_DATA "/tiny-llama"
enum { CODECS = 3 };

static kerf_checkpoint *model;
static kerf_codec candidate[CODECS];
static kerf_model config;
static char shared_cache[4200]; /* of all tests that need not measure themselves */

static int open_model(void **state)
{
    static const char *const names[CODECS] = {"nvfp4", "int4-g32-asym", "int8"};
    for (size_t i = 0; i < CODECS; i++)
        if (kerf_codec_find(names[i], &candidate[i], NULL) != KERF_OK) return -1;
    if (kerf_model_open(MODEL, &config, NULL) != KERF_OK) return -1;
    if (kerf_checkpoint_open(MODEL, &model, NULL) != KERF_OK) return -1;
    if (make_test_folder(state) != 0) return -1;
    snprintf(shared_cache, sizeof shared_cache, "%s/shared.json", (const char *)*state);
    return 0;
}

static int close_model(void **state)
{
    kerf_checkpoint_close(model);
    return remove_test_folder(state);
}

static kerf_advise_request request_of(kerf_budget budget)
{
    return (kerf_advise_request){
        .codec = candidate, .codecs = CODECS, .budget = budget, .cache = shared_cache};
}

static kerf_advice *advise(const kerf_advise_request *r)
{
    kerf_advice *a = NULL;
    kerf_error err = {0};
    must(kerf_advise(model, r, NULL, NULL, &a, &err), &err);
    return a;
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
    assert_true(p.bits <= 5 && p.bits > 4.8 && p.bits == 8 * bytes / elements);
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

    r = request_of((kerf_budget){.tokens_per_s = 14000});
    r.hardware = h;
    r.model = &config;
    r.context = 64;
    a = advise(&r);
    assert_true(1e6 / (kerf_advice_total(a).us + a->other_us) >= 14000);
    kerf_advice_close(a);

    r = request_of((kerf_budget){.bits = 4});
    assert_int_equal(kerf_advise(model, &r, NULL, NULL, &a, &err), KERF_E_LIMIT);
    assert_null(a);
    assert_non_null(strstr(err.text, "it would take 4.50"));
    kerf_hardware_close(h);
}

static double bytes_of(const kerf_advice *a, const char *part)
{
    double bytes = 0;
    for (size_t i = 0; i < a->groups; i++)
        if (strstr(a->group[i].name, part)) bytes += a->group[i].cost[a->group[i].pick].bytes;
    return bytes;
}

static void test_alpha(void **state)
{
    static const kerf_alpha_rule rule[] = {{"*", 1}, {"*down_proj*", 100}, {"*nothing*", 7}};
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
    assert_int_equal(kerf_alphas_open(in_folder(state, "none"), &alphas, &err), KERF_E_IO);
}

static void refuse(const kerf_advise_request *r, const char *says)
{
    kerf_advice *a = (kerf_advice *)model; /* must become NULL */
    kerf_error err = {0};
    assert_int_equal(kerf_advise(model, r, NULL, NULL, &a, &err), KERF_E_ARG);
    if (!strstr(err.text, says)) fail_msg("'%s' does not say '%s'", err.text, says);
    assert_null(a);
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
    r.select = &none;
    refuse(&r, "no tensor to choose for");
    r.codecs = 0;
    refuse(&r, "no candidate");
}

/* --- reports and recipes ------------------------------------------------------------------- */

static char *write_kind(const kerf_advice *a, kerf_advice_kind kind)
{
    char *text = NULL;
    size_t n = 0;
    kerf_error err = {0};
    must(kerf_advice_write(a, kind, &text, &n, &err), &err);
    assert_int_equal(strlen(text), n);
    return text;
}

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
        char *text = write_kind(a, kinds[k]), name[64], glob[KERF_ADVICE_NAME];
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
    char *text = write_kind(a, KERF_ADVICE_HTML);
    assert_non_null(strstr(text, "<!DOCTYPE html>"));
    assert_non_null(strstr(text, "</html>"));
    free(text);
    text = write_kind(a, KERF_ADVICE_SUMMARY);
    assert_memory_equal(text, "28 tensors in 16 groups", 23);
    free(text);
    size_t n;
    assert_int_equal(kerf_advice_write(a, (kerf_advice_kind)99, &text, &n, NULL), KERF_E_ARG);
    kerf_advice_close(a);
    kerf_hardware_close(h);
}

/* The rules of a recipe are the choice, and its promises what was measured. */
static void test_recipe(void **state)
{
    (void)state;
    kerf_advise_request request = request_of((kerf_budget){.bits = 5.5});
    kerf_advice *a = advise(&request);
    char *text = write_kind(a, KERF_ADVICE_RECIPE);
    kerf_recipe *r = NULL;
    kerf_error err = {0};
    must(kerf_recipe_parse(text, strlen(text), "recipe", &r, &err), &err);
    free(text);
    assert_int_equal(r->rules, 28);
    size_t promised = 0;
    for (size_t t = 0; t < a->tensors; t++) {
        const char *name = a->tensor[t].weight->name;
        const size_t pick = a->group[a->tensor[t].group].pick;
        const kerf_rule *found = NULL;
        for (size_t i = 0; i < r->rules; i++)
            if (kerf_glob_matches(r->rule[i].glob, name)) found = &r->rule[i];
        assert_non_null(found);
        if (pick == CODECS) assert_null(found->codec.format);
        if (pick == CODECS) continue;
        promised++;
        assert_ptr_equal(found->codec.encoder, candidate[pick].encoder);
        const kerf_promise *p = r->promise;
        while (strcmp(p->tensor, name) != 0) assert_true(++p < r->promise + r->promises);
        assert_int_equal(p->bytes, a->tensor[t].score[pick].bytes);
        assert_true(p->t2 == kerf_score_t2(&a->tensor[t].score[pick]));
    }
    assert_int_equal(r->promises, promised);
    kerf_recipe_close(r);
    kerf_advice_close(a);
}

/* --- a recipe executed --------------------------------------------------------------------- */

static kerf_recipe_result check(const kerf_recipe *r, const kerf_rule *further, size_t furthers,
                                const char *path)
{
    kerf_checkpoint *written = NULL;
    kerf_recipe_result result;
    kerf_error err = {0};
    must(kerf_checkpoint_open(path, &written, &err), &err);
    must(kerf_recipe_check(r, further, furthers, model, written, NULL, NULL, &result, &err), &err);
    kerf_checkpoint_close(written);
    return result;
}

static void quantize(const kerf_rule *rule, size_t rules, const char *path)
{
    const kerf_output out = {.path = path, .overwrite = 1};
    kerf_plan *plan = NULL;
    kerf_error err = {0};
    must(kerf_plan_make(model, NULL, rule, rules, (kerf_codec){NULL, NULL}, &out, &plan, &err),
         &err);
    must(kerf_quantize(plan, NULL, NULL, NULL, &err), &err);
    kerf_plan_free(plan);
}

/* What is written after a recipe is what it promises; rules of one's own are edits; another promise
 * is broken. */
static void test_executed(void **state)
{
    const char *path = in_folder(state, "out.safetensors");
    const kerf_advise_request request = request_of((kerf_budget){.bits = 5.5});
    kerf_advice *a = advise(&request);
    char *text = write_kind(a, KERF_ADVICE_RECIPE);
    kerf_advice_close(a);
    kerf_recipe *r = NULL;
    kerf_error err = {0};
    must(kerf_recipe_parse(text, strlen(text), "recipe", &r, &err), &err);
    quantize(r->rule, r->rules, path);
    kerf_recipe_result result = check(r, NULL, 0, path);
    assert_true(result.kept == r->promises && result.broken == 0 && result.edited == 0);
    assert_string_equal(result.first, "");

    kerf_rule all[64] = {{NULL, NULL, {NULL, NULL}}};
    const kerf_rule further = {"*layers.0.*down_proj*", NULL, candidate[0]};
    assert_true(r->rules < 64);
    memcpy(all, r->rule, r->rules * sizeof *all);
    all[r->rules] = further;
    quantize(all, r->rules + 1, path);
    result = check(r, &further, 1, path);
    assert_true(result.broken == 0 && result.kept + result.edited == r->promises);
    assert_true(result.edited <= 1);
    kerf_recipe_close(r);

    /* A better error than was measured, for the first tensor with a promise. */
    char *t2 = strstr(strstr(text, "\"promise\""), "\"t2\": 0.0");
    assert_non_null(t2);
    t2[8] = '9'; /* digits after the point: 0.0... becomes 0.9... */
    must(kerf_recipe_parse(text, strlen(text), "recipe", &r, &err), &err);
    quantize(r->rule, r->rules, path);
    result = check(r, NULL, 0, path);
    assert_true(result.broken == 1 && result.kept == r->promises - 1);
    assert_non_null(strstr(result.first, "t2 was promised as 0.9"));

    test_job job;
    kerf_checkpoint *written = NULL;
    must(kerf_checkpoint_open(path, &written, &err), &err);
    for (long after = 0; after < 20; after += 5) {
        assert_int_equal(kerf_recipe_check(r, NULL, 0, model, written, NULL,
                                           test_job_open(&job, after), &result, &err),
                         KERF_E_CANCELED);
        assert_true(test_job_ms(&job) < CANCEL_MS);
    }
    kerf_checkpoint_close(written);
    kerf_recipe_close(r);
    free(text);
}

static void test_malformed_recipes(void **state)
{
#define RULES(text) "{\"schema\": \"kerf.recipe/1\", \"rules\": " text "}"
#define PROMISE(text)                                                                            \
    "{\"schema\": \"kerf.recipe/1\", \"rules\": [{\"tensors\": [\"*\"], \"codec\": \"keep\"}], " \
    "\"promise\": {\"tensors\": {\"a\": " text "}}}"
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        RULES("[]"),
        RULES("7"),
        RULES("[7]"),
        RULES("[{\"tensors\": [\"*\"]}]"),
        RULES("[{\"tensors\": [], \"codec\": \"nvfp4\"}]"),
        RULES("[{\"tensors\": [7], \"codec\": \"nvfp4\"}]"),
        RULES("[{\"tensors\": [\"\"], \"codec\": \"nvfp4\"}]"),
        RULES("[{\"tensors\": [\"*\"], \"codec\": \"nvfp5\"}]"),
        PROMISE("1"),
        PROMISE("{\"codec\": \"nvfp4\", \"bytes\": -1, \"t2\": 0.1}"),
        PROMISE("{\"codec\": \"nvfp4\", \"bytes\": 1, \"t2\": \"low\"}"),
        PROMISE("{\"codec\": 4, \"bytes\": 1, \"t2\": 0.1}"),
    };
    kerf_recipe *r = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        kerf_error err = {0};
        if (kerf_recipe_parse(texts[i], strlen(texts[i]), "text", &r, &err) != KERF_E_DATA)
            fail_msg("accepted: %s", texts[i]);
        assert_null(r);
        assert_non_null(strstr(err.text, "text"));
    }
    assert_int_equal(kerf_recipe_open(in_folder(state, "absent.json"), &r, NULL), KERF_E_IO);
    const char *good = PROMISE("{\"codec\": \"nvfp9\", \"bytes\": 1, \"t2\": 0.1}");
    assert_int_equal(kerf_recipe_parse(good, strlen(good), "text", &r, NULL), KERF_OK);
    assert_true(r->rules == 1 && !r->rule->codec.format && r->promises == 1);
    kerf_recipe_close(r);
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
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        assert_int_equal(kerf_advise(model, &r, NULL, test_job_open(&job, after[i]), &a, &err),
                         KERF_E_CANCELED);
        assert_true(test_job_ms(&job) < CANCEL_MS);
        assert_null(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_alpha),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_recipe),
        cmocka_unit_test(test_malformed_recipes),
        cmocka_unit_test(test_executed),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
