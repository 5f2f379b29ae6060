/* test_advise_errors.c - by what errors formats are compared: those that make Inf of a weight are
 * no candidates, and experts of one Gram matrix are measured by its inputs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/advise.h>

#include "test_advice.h"

/* --- formats that end too early -------------------------------------------------------------- */

/* Of weights above its range fp16 makes Inf. Errors leave these out, so that it seemed to lose
 * nothing, and was what advice liked best. */
static void test_overflow(void **state)
{
    static const kerf_entry entry[] = {{"a.weight", KERF_F32, {2, {32, 64}}, 0},
                                       {"b.weight", KERF_F32, {2, {32, 64}}, 0}};
    const char *path = in_folder(state, "large.safetensors");
    kerf_codec codec[2];
    kerf_checkpoint *large;
    kerf_writer *w;
    kerf_advice *a = NULL;
    kerf_error err = {0};
    float x[32 * 64];
    must(kerf_writer_create(path, entry, 2, NULL, &w, &err), &err);
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof x / sizeof *x; k++)
            x[k] = (float)((int)(k * 37 % 64) - 31) / 3 * (i ? 1 : 1e4f);
        must(kerf_writer_write(w, i, 0, x, sizeof x, &err), &err);
    }
    must(kerf_writer_commit(w, &err), &err);
    must(kerf_checkpoint_open(path, &large, &err), &err);
    must(kerf_codec_find("fp16", &codec[0], &err), &err);
    must(kerf_codec_find("int8", &codec[1], &err), &err);
    kerf_advise_request r = {.codec = codec, .codecs = 2, .budget = {.bits = 16}};
    must(kerf_advise(large, &r, NULL, NULL, &a, &err), &err);
    assert_true(a->groups == 2);
    assert_true(!a->group[0].cost[0].possible && a->group[0].pick == 1);
    assert_true(a->group[1].cost[0].possible && a->group[1].pick == 0);
    kerf_advice_close(a);
    kerf_checkpoint_close(large);
}

/* --- experts of one Gram matrix ----------------------------------------------------------------
 */

enum { K = 64, ELEMENTS = 32 * K };
static const char *const expert[2] = {"model.layers.0.mlp.experts.0.down_proj.weight",
                                      "model.layers.0.mlp.experts.1.down_proj.weight"};

static void write_floats(const char *path, const kerf_entry *e, const float *const *value,
                         size_t count, const kerf_key_value *about, size_t abouts)
{
    const kerf_key_value *const metadata[] = {about};
    const kerf_writer_options opt = {.metadata = metadata, .metadata_count = &abouts};
    kerf_writer *w;
    kerf_error err = {0};
    must(kerf_writer_create(path, e, count, about ? &opt : NULL, &w, &err), &err);
    for (size_t i = 0; i < count; i++)
        must(kerf_writer_write(w, i, 0, value[i], entry_bytes(&e[i]), &err), &err);
    must(kerf_writer_commit(w, &err), &err);
}

static void open_experts(void **state, kerf_checkpoint **experts, kerf_calibration **out)
{
    static float x[ELEMENTS], ones[K], small[K], gram[K * K];
    static const float none = 0, some = 8;
    const kerf_entry weight[] = {{expert[0], KERF_F32, {2, {32, K}}, 0},
                                 {expert[1], KERF_F32, {2, {32, K}}, 0}};
    char name[3][96], source[24], map[256];
    snprintf(name[0], sizeof name[0], "%s.count", expert[0]);
    snprintf(name[1], sizeof name[1], "%s.count", expert[1]);
    snprintf(name[2], sizeof name[2], "%s.gram", expert[0]);
    const kerf_entry means[] = {{expert[0], KERF_F32, {1, {K}}, 0},
                                {expert[1], KERF_F32, {1, {K}}, 0},
                                {name[0], KERF_F32, {1, {1}}, 0},
                                {name[1], KERF_F32, {1, {1}}, 0},
                                {name[2], KERF_F32, {2, {K, K}}, 0}};
    const char *path = in_folder(state, "experts.safetensors"),
               *cal = in_folder(state, "cal.safetensors");
    kerf_error err = {0};
    uint64_t contents;
    for (size_t i = 0; i < ELEMENTS; i++) x[i] = (float)((int)(i * 37 % 64) - 31) / 3;
    for (size_t i = 0; i < K; i++) {
        ones[i] = 1;
        small[i] = gram[i * K + i] = 0x1p-7f;
    }
    write_floats(path, weight, (const float *const[]){x, x}, 2, NULL, 0);
    must(kerf_checkpoint_open(path, experts, &err), &err);
    must(kerf_reader_contents(kerf_checkpoint_reader(*experts), &contents, &err), &err);
    snprintf(source, sizeof source, "%016llx", (unsigned long long)contents);
    snprintf(map, sizeof map, "{\"%s\": \"%s\"}", expert[1], expert[0]);
    const kerf_key_value about[] = {{"kerf.schema", "kerf.calibration/1"},
                                    {"kerf.source", source},
                                    {"kerf.tokens", "8"},
                                    {"kerf.text", "1"},
                                    {"kerf.alpha", "kl"},
                                    {"kerf.gram_of", map}};
    write_floats(cal, means, (const float *const[]){ones, small, &none, &some, gram}, 5, about, 6);
    must(kerf_calibration_open(cal, out, &err), &err);
}

/* A Gram matrix that is a multiple of one weighs all errors alike, whatever the multiple: also of
 * an expert that no token was routed to, whose own mean squares are ones. */
static void test_experts(void **state)
{
    kerf_checkpoint *experts;
    kerf_calibration *c;
    kerf_codec int4;
    kerf_advice *a = NULL;
    kerf_error err = {0};
    open_experts(state, &experts, &c);
    must(kerf_codec_find("int4-g32", &int4, &err), &err);
    kerf_advise_request r = {.codec = &int4, .codecs = 1, .budget = {.bits = 16}, .calibration = c};
    must(kerf_advise(experts, &r, NULL, NULL, &a, &err), &err);
    double t2 = 0;
    for (size_t t = 0; t < a->tensors; t++) t2 += kerf_score_t2(&a->tensor[t].score[0]);
    assert_true(a->groups == 1 && a->tensors == 2 && t2 > 0);
    assert_true(fabs(a->group[0].cost[0].t2 - t2) < 1e-5 * t2);
    kerf_advice_close(a);
    kerf_calibration_close(c);
    kerf_checkpoint_close(experts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_experts),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
