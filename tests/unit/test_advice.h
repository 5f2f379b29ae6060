/* test_advice.h - advice on a small real model, for the tests of what advise says and of recipes.
 */
#ifndef KERF_TESTS_TEST_ADVICE_H
#define KERF_TESTS_TEST_ADVICE_H

#include <kerf/advise.h>

#include "test_job.h"
#include "test_output.h"

#define MODEL KERF_TEST_DATA "/tiny-llama"
enum { CODECS = 3 };

static kerf_checkpoint *model;
static kerf_codec candidate[CODECS];
static kerf_model config;
static char shared_cache[4200]; /* of all tests that need not measure themselves */

static inline int open_model(void **state)
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

static inline int close_model(void **state)
{
    kerf_checkpoint_close(model);
    return remove_test_folder(state);
}

static inline kerf_advise_request request_of(kerf_budget budget)
{
    return (kerf_advise_request){
        .codec = candidate, .codecs = CODECS, .budget = budget, .cache = shared_cache};
}

static inline kerf_advice *advise(const kerf_advise_request *r)
{
    kerf_advice *a = NULL;
    kerf_error err = {0};
    must(kerf_advise(model, r, NULL, NULL, &a, &err), &err);
    return a;
}

/* *text is to be freed. */
static inline void write_kind(const kerf_advice *a, kerf_advice_kind kind, char **text)
{
    size_t n = 0;
    kerf_error err = {0};
    must(kerf_advice_write(a, kind, text, &n, &err), &err);
    assert_int_equal(strlen(*text), n);
}

#endif
