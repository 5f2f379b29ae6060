/* test_recipe_api.c - recipes: what advice writes is read again, executed, and keeps its promises;
 * what is no recipe is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/recipe.h>
#include <kerf/words.h>

#include "test_advice.h"

/* The rules of a recipe are the choice, and its promises what was measured. */
static void test_recipe(void **state)
{
    (void)state;
    kerf_advise_request request = request_of((kerf_budget){.bits = 5.5});
    kerf_advice *a = advise(&request);
    char *text = NULL;
    write_kind(a, KERF_ADVICE_RECIPE, &text);
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

/* --- executed --------------------------------------------------------------------- */

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
    char *text = NULL;
    write_kind(a, KERF_ADVICE_RECIPE, &text);
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
#define FEEDBACK(text)                                                                            \
    "{\"schema\": \"kerf.recipe/1\", \"rules\": [{\"tensors\": [\"*\"], \"codec\": \"nvfp4\"}], " \
    "\"feedback\": " text "}"
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
        FEEDBACK("7"),
        FEEDBACK("\"0x12\""),
        FEEDBACK("\" 123456789abcdef\""),
        FEEDBACK("\"-123456789abcdef\""),
        FEEDBACK("\"0000000000000000\""),
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipe),
        cmocka_unit_test(test_executed),
        cmocka_unit_test(test_malformed_recipes),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
