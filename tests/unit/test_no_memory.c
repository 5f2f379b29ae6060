/* test_no_memory.c - documents that are written while memory runs out: each is whole or is not
 * there at all, whichever allocation of jansson fails; and UTF-8, which needs no memory to be
 * judged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include <kerf/hardware.h>
#include <kerf/layouts.h>
#include <kerf/verify.h>

#include "file/json/text.h"
#include "test_advice.h"

/* --- jansson's memory ------------------------------------------------------------------------ */

static long calls, fails_at; /* 0: none */

static void *get(size_t n)
{
    return ++calls == fails_at ? NULL : malloc(n);
}

/* A document of the library as text; NULL: there was no memory, and it said so. */
typedef char *(*make_document)(const void *of);

static char *taken(kerf_status s, char *text)
{
    if (s == KERF_OK) return text;
    assert_int_equal(s, KERF_E_NOMEM);
    return NULL;
}

/* Fails one allocation after another, `step` apart. */
static void check(make_document make, const void *of, long step)
{
    fails_at = 0;
    char *whole = make(of);
    assert_non_null(whole);
    long failed = 0;
    calls = 0;
    free(make(of));
    const long all = calls;
    assert_true(all > 5);
    for (fails_at = 1; fails_at <= all; fails_at += step) {
        calls = 0;
        char *text = make(of);
        if (text) assert_string_equal(text, whole);
        failed += text == NULL;
        free(text);
    }
    fails_at = 0;
    assert_true(failed > all / step / 2);
    free(whole);
}

/* --- documents ------------------------------------------------------------------------------ */

static char *hardware_text(const void *of)
{
    char *text = NULL;
    const kerf_status s = kerf_hardware_json(of, &text, NULL);
    return taken(s, text);
}

static char *scores_text(const void *of)
{
    char *text = NULL;
    size_t n;
    const kerf_status s = kerf_scores_write(of, &text, &n, NULL);
    return taken(s, text);
}

static char *verification_text(const void *of)
{
    char *text = NULL;
    size_t n;
    const kerf_status s = kerf_verification_write(of, &text, &n, NULL);
    return taken(s, text);
}

static char *limits_text(const void *of)
{
    char *text = NULL;
    size_t n;
    const kerf_status s = kerf_verification_limits(of, &text, &n, NULL);
    return taken(s, text);
}

static char *recipe_text(const void *of)
{
    char *text = NULL;
    size_t n;
    const kerf_status s = kerf_advice_write(of, KERF_ADVICE_RECIPE, &text, &n, NULL);
    return taken(s, text);
}

static char *advice_text(const void *of)
{
    char *text = NULL;
    size_t n;
    const kerf_status s = kerf_advice_write(of, KERF_ADVICE_JSON, &text, &n, NULL);
    return taken(s, text);
}

static void test_hardware(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) check(hardware_text, kerf_hardware_at(i), 1);
}

static void test_scores(void **state)
{
    (void)state;
    static const char *const only[] = {"*layers.0.self_attn.[qk]_proj*"};
    const kerf_select select = {.only = only, .onlys = 1};
    const kerf_score_request request = {.select = &select, .codec = candidate, .codecs = CODECS};
    kerf_scores *s = NULL;
    must(kerf_score_checkpoint(model, &request, NULL, NULL, &s, NULL), NULL);
    check(scores_text, s, 1);
    kerf_scores_close(s);
}

static void test_verification(void **state)
{
    (void)state;
    const kerf_verify_options options = {.by_value = 1};
    kerf_verification *v = NULL;
    must(kerf_verify(model, model, &options, NULL, NULL, &v, NULL), NULL);
    check(verification_text, v, 1);
    check(limits_text, v, 1);
    kerf_verification_close(v);
}

static void test_advice(void **state)
{
    (void)state;
    kerf_advise_request r = request_of((kerf_budget){.bits = 5});
    kerf_advice *a = advise(&r);
    check(recipe_text, a, 7);
    check(advice_text, a, 31);
    kerf_advice_close(a);
}

/* What stands in config.json and beside it, in every layout that says something there. */
static void test_companions(void **state)
{
    (void)state;
    const kerf_weights *w = kerf_checkpoint_weights(model);
    const size_t count = kerf_weights_count(w);
    kerf_weight *quantized = malloc(count * sizeof *quantized);
    assert_non_null(quantized);
    memcpy(quantized, kerf_weights_at(w, 0), count * sizeof *quantized);
    for (size_t i = 0; i < count; i++)
        if (strstr(quantized[i].name, "_proj")) quantized[i].codec.format = candidate[2].format;
    for (size_t l = 0; l < kerf_layout_count(); l++) {
        kerf_companion whole[KERF_COMPANIONS], c[KERF_COMPANIONS];
        size_t n, got;
        fails_at = 0;
        if (kerf_layout_companions(kerf_layout_at(l), kerf_checkpoint_reader(model), quantized,
                                   count, whole, &n, NULL) != KERF_OK)
            continue;
        calls = 0;
        for (fails_at = 1; fails_at < 2000; fails_at++) {
            calls = 0;
            kerf_status s = kerf_layout_companions(kerf_layout_at(l), kerf_checkpoint_reader(model),
                                                   quantized, count, c, &got, NULL);
            if (s != KERF_OK) continue;
            assert_int_equal(got, n);
            for (size_t i = 0; i < n; i++) assert_string_equal(c[i].text, whole[i].text);
            kerf_companions_free(c, got);
            if (calls < fails_at) break; /* none failed */
        }
        kerf_companions_free(whole, n);
    }
    fails_at = 0;
    free(quantized);
}

/* --- UTF-8 ----------------------------------------------------------------------------------- */

/* The same verdict as jansson's, on every start of up to three bytes and ends that matter. */
static void test_utf8(void **state)
{
    (void)state;
    static const unsigned char ends[] = {0,    'a',  0x7f, 0x80, 0x8f, 0x90,
                                         0x9f, 0xa0, 0xbf, 0xc0, 0xff};
    for (unsigned a = 1; a < 256; a++)
        for (size_t b = 0; b < sizeof ends; b++)
            for (size_t c = 0; c < sizeof ends; c++)
                for (size_t d = 0; d < sizeof ends; d++) {
                    const char text[] = {(char)a, (char)ends[b], (char)ends[c], (char)ends[d], 0};
                    json_t *j = json_string(text);
                    if (kf_is_utf8(text) != (j != NULL))
                        fail_msg("%02x %02x %02x %02x", a, ends[b], ends[c], ends[d]);
                    json_decref(j);
                }
    fails_at = 1; /* memory is not what makes a text UTF-8 */
    calls = 0;
    assert_true(kf_is_utf8("\xc3\xa9"));
    fails_at = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hardware),     cmocka_unit_test(test_scores),
        cmocka_unit_test(test_verification), cmocka_unit_test(test_advice),
        cmocka_unit_test(test_companions),   cmocka_unit_test(test_utf8)};
    json_set_alloc_funcs(get, free);
    return cmocka_run_group_tests(tests, open_model, close_model);
}
