/* test_manifest.c - each file of an output describes the quantized weights that it holds, and as
 * many files as weights take no longer than one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "model/manifest.h"
#include "test_folder.h"

enum { WEIGHTS = 15000, ROWS = 3 };

static kerf_weight weights[WEIGHTS];
static char names[WEIGHTS][16];
static kerf_tensor stored; /* by all of them */
static kerf_reader *source;
static char path[4200];

static void describe(kf_manifest *m, uint64_t shard_bytes, size_t count)
{
    kerf_error err;
    const kerf_output to = {.path = path, .shard_bytes = shard_bytes};
    assert_int_equal(kf_manifest_open(m, &to, &err), KERF_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(kf_manifest_add_dense(m, &weights[i], KERF_BF16, &err), KERF_OK);
    assert_int_equal(kf_manifest_describe(m, source, path, kerf_layout_at(0), weights, count, &err),
                     KERF_OK);
}

/* Three weights to a file, of which one in five is dense. */
static void test_own_weights(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    kf_manifest m;
    for (size_t i = 0; i < COUNT; i += 5) weights[i].codec.format = NULL;
    describe(&m, 3 * 2 * ROWS, COUNT);
    assert_int_equal(m.shards, (COUNT + 2) / 3);
    for (size_t i = 0; i < COUNT; i++) {
        char quoted[32];
        snprintf(quoted, sizeof quoted, "\"%.24s\":", names[i]);
        for (size_t k = 0; k < m.shards; k++) {
            const int wanted = weights[i].codec.format && k == i / 3;
            assert_int_equal(m.metadata_count[k], 1);
            assert_string_equal(m.metadata[k][0].key, "kerf");
            assert_int_equal(strstr(m.metadata[k][0].value, quoted) != NULL, wanted);
        }
    }
    kf_manifest_close(&m);
    for (size_t i = 0; i < COUNT; i++) weights[i].codec.format = weights[COUNT].codec.format;
}

/* Looking through all weights for each file took seconds here. */
static void test_many_files(void **state)
{
    (void)state;
    kf_manifest m;
    const clock_t began = clock();
    describe(&m, 1, WEIGHTS);
    assert_int_equal(m.shards, WEIGHTS);
    assert_true((double)(clock() - began) / CLOCKS_PER_SEC < 1.5);
    kf_manifest_close(&m);
}

static int open_source(void **state)
{
    kerf_error err;
    FILE *f;
    static const char header[] =
        "{\"w\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[0,6]}}";
    const uint64_t n = sizeof header - 1;
    if (make_test_folder(state) != 0) return -1;
    snprintf(path, sizeof path, "%s/w.safetensors", (const char *)*state);
    if (!(f = fopen(path, "wb"))) return -1;
    fwrite(&n, sizeof n, 1, f);
    fwrite(header, 1, n, f);
    fwrite("\0\0\0\0\0\0", 1, 6, f);
    fclose(f);
    if (kerf_reader_open(path, &source, &err) != KERF_OK) return -1;
    snprintf(path, sizeof path, "%s/out/", (const char *)*state);
    for (size_t i = 0; i < WEIGHTS; i++) {
        snprintf(names[i], sizeof names[i], "w%zu", i);
        weights[i] = (kerf_weight){.name = names[i],
                                   .shape = {1, {ROWS}},
                                   .dtype = KERF_BF16,
                                   .codec = {.format = kerf_format_find("int8")},
                                   .plane = {&stored}};
    }
    return weights[0].codec.format ? 0 : -1;
}

static int close_source(void **state)
{
    kerf_reader_close(source);
    return remove_test_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_weights),
        cmocka_unit_test(test_many_files),
    };
    return cmocka_run_group_tests(tests, open_source, close_source);
}
