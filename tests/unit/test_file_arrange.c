/* test_file_arrange.c - experts as views: every element is where it belongs however it is asked
 * for, and stacks that are no experts stay as they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <kerf/layouts.h>

#include "layout/arranging.h"

enum { EXPERTS = 3, INNER = 5, HIDDEN = 7, ELEMENTS = 2 * EXPERTS * INNER * HIDDEN };

static char path[64];

/* A file of these tensors, whose data are 16-bit numbers that count up. */
static void write_file(const char *tensors, size_t bytes)
{
    char header[4096];
    const int n = snprintf(header, sizeof header, "{%s}", tensors);
    const uint64_t length = (uint64_t)n;
    snprintf(path, sizeof path, "/tmp/kerf-arrange-%d.safetensors", (int)getpid());
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(&length, 1, 8, f);
    fwrite(header, 1, (size_t)n, f);
    for (size_t i = 0; i < bytes / 2; i++) {
        const uint16_t x = (uint16_t)i;
        fwrite(&x, 1, 2, f);
    }
    assert_int_equal(fclose(f), 0);
}

static void open_file(kerf_reader **r, kerf_weights **w)
{
    kerf_error err;
    if (kerf_reader_open(path, r, &err) != KERF_OK) fail_msg("%s", err.text);
    if (kerf_weights_open(*r, w, &err) != KERF_OK) fail_msg("%s", err.text);
}

static void close_file(kerf_reader *r, kerf_weights *w)
{
    kerf_weights_close(w);
    kerf_reader_close(r);
    unlink(path);
}

static uint16_t element(const kerf_reader *r, const kerf_tensor *t, uint64_t i)
{
    uint16_t x;
    assert_int_equal(kerf_reader_read(r, t, 2 * i, &x, sizeof x, NULL), KERF_OK);
    return x;
}

/* Reads of every length from every element give what one element at a time does. */
static void check_reads(const kerf_reader *r, const kerf_tensor *t)
{
    uint16_t whole[ELEMENTS], part[ELEMENTS];
    const uint64_t n = t->bytes / 2;
    kerf_error err;
    for (uint64_t i = 0; i < n; i++) whole[i] = element(r, t, i);
    for (uint64_t i = 0; i <= n; i++)
        for (uint64_t k = 0; i + k <= n; k++) {
            assert_int_equal(kerf_reader_read(r, t, 2 * i, part, 2 * k, NULL), KERF_OK);
            assert_memory_equal(part, whole + i, 2 * k);
        }
    assert_int_equal(kerf_reader_read(r, t, 1, part, 2, &err), KERF_E_ARG);
    assert_int_equal(kerf_reader_read(r, t, 2 * n, part, 2, &err), KERF_E_ARG);
}

/* What the numbers of the file are in each form: up is [experts, 2 inner, hidden] and so on. */
static void test_stacks(void **state)
{
    static const struct {
        const char *tensors;
        int turned, alternates;
    } forms[] = {
        {"\"x.experts.down_proj\":{\"dtype\":\"I16\",\"shape\":[3,7,5],\"data_offsets\":[0,210]},"
         "\"x.experts.gate_up_proj\":{\"dtype\":\"I16\",\"shape\":[3,10,7],"
         "\"data_offsets\":[210,630]}",
         0, 0},
        {"\"x.experts.down_proj\":{\"dtype\":\"I16\",\"shape\":[3,5,7],\"data_offsets\":[0,210]},"
         "\"x.experts.gate_up_proj\":{\"dtype\":\"I16\",\"shape\":[3,7,10],"
         "\"data_offsets\":[210,630]}",
         1, 0},
        {"\"x.experts.down_proj\":{\"dtype\":\"I16\",\"shape\":[3,5,7],\"data_offsets\":[0,210]},"
         "\"x.experts.gate_up_proj\":{\"dtype\":\"I16\",\"shape\":[3,7,10],"
         "\"data_offsets\":[210,630]},"
         "\"x.experts.gate_up_proj_bias\":{\"dtype\":\"I16\",\"shape\":[3,10],"
         "\"data_offsets\":[630,690]}",
         1, 1},
    };
    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        kerf_reader *r;
        kerf_weights *w;
        write_file(forms[f].tensors, forms[f].alternates ? 690 : 630);
        open_file(&r, &w);
        assert_int_equal(kerf_weights_arrange(w, KERF_EXPERTS_SINGLE, NULL, NULL, NULL), KERF_OK);
        assert_int_equal(kerf_weights_count(w), forms[f].alternates ? 15 : 9);
        const kerf_weight *up = kerf_weights_find(w, "x.experts.2.up_proj.weight");
        const kerf_weight *down = kerf_weights_find(w, "x.experts.1.down_proj.weight");
        assert_non_null(up);
        assert_non_null(down);
        assert_string_equal(up->whole, "x.experts.gate_up_proj");
        assert_true(up->shape.rank == 2 && up->shape.dim[0] == INNER && up->shape.dim[1] == HIDDEN);
        assert_true(down->shape.dim[0] == HIDDEN && down->shape.dim[1] == INNER);
        for (uint64_t row = 0; row < INNER; row++)
            for (uint64_t col = 0; col < HIDDEN; col++) {
                const uint64_t there = forms[f].alternates ? 2 * row + 1 : INNER + row;
                const uint64_t in =
                    forms[f].turned ? col * 2 * INNER + there : there * HIDDEN + col;
                assert_int_equal(element(r, up->plane[0], row * HIDDEN + col),
                                 105 + 2 * (2 * INNER * HIDDEN) + in);
                const uint64_t of_down = forms[f].turned ? row * HIDDEN + col : col * INNER + row;
                assert_int_equal(element(r, down->plane[0], col * INNER + row),
                                 INNER * HIDDEN + of_down);
            }
        check_reads(r, up->plane[0]);
        check_reads(r, down->plane[0]);
        if (forms[f].alternates) {
            const kerf_weight *bias = kerf_weights_find(w, "x.experts.2.up_proj.bias");
            for (uint64_t i = 0; i < INNER; i++)
                assert_int_equal(element(r, bias->plane[0], i), 315 + 20 + 2 * i + 1);
            check_reads(r, bias->plane[0]);
        }
        /* and stacked again: output features first, gate and up in turn */
        assert_int_equal(kerf_weights_arrange(w, KERF_EXPERTS_STACKED, NULL, NULL, NULL), KERF_OK);
        const kerf_weight *stack = kerf_weights_find(w, "x.experts.gate_up_proj");
        assert_non_null(stack);
        assert_true(stack->shape.rank == 3 && stack->shape.dim[1] == 2 * INNER);
        for (uint64_t row = 0; row < 2 * INNER; row++) {
            const uint64_t there = forms[f].alternates ? row : row % 2 * INNER + row / 2;
            const uint64_t in = forms[f].turned ? there : there * HIDDEN;
            assert_int_equal(element(r, stack->plane[0], (2 * 2 * INNER + row) * HIDDEN),
                             105 + 2 * (2 * INNER * HIDDEN) + in);
        }
        check_reads(r, stack->plane[0]);
        close_file(r, w);
    }
}

/* Elements that are no whole bytes, sizes of 0, shapes that do not agree, and too many. */
static void test_what_stays(void **state)
{
    static const char *const files[] = {
        "\"a.experts.down_proj\":{\"dtype\":\"F4\",\"shape\":[2,32,32],\"data_offsets\":[0,1024]},"
        "\"a.experts.gate_up_proj\":{\"dtype\":\"F4\",\"shape\":[2,64,32],"
        "\"data_offsets\":[1024,3072]}",
        "\"a.experts.0.down_proj.weight\":{\"dtype\":\"F4\",\"shape\":[32,32],"
        "\"data_offsets\":[0,512]},"
        "\"a.experts.0.gate_proj.weight\":{\"dtype\":\"F4\",\"shape\":[32,64],"
        "\"data_offsets\":[512,1536]},"
        "\"a.experts.0.up_proj.weight\":{\"dtype\":\"F4\",\"shape\":[32,96],"
        "\"data_offsets\":[1536,3072]}",
        "\"a.experts.down_proj\":{\"dtype\":\"U8\",\"shape\":[0,8,8],\"data_offsets\":[0,0]},"
        "\"a.experts.gate_up_proj\":{\"dtype\":\"U8\",\"shape\":[0,16,8],\"data_offsets\":[0,0]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[3072],\"data_offsets\":[0,3072]}",
        "\"a.experts.down_proj\":{\"dtype\":\"U8\",\"shape\":[2,0,8],\"data_offsets\":[0,0]},"
        "\"a.experts.gate_up_proj\":{\"dtype\":\"U8\",\"shape\":[2,16,0],\"data_offsets\":[0,0]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[3072],\"data_offsets\":[0,3072]}",
        "\"a.experts.down_proj\":{\"dtype\":\"U8\",\"shape\":[2,8,64],\"data_offsets\":[0,1024]},"
        "\"a.experts.gate_up_proj\":{\"dtype\":\"U8\",\"shape\":[2,16,64],"
        "\"data_offsets\":[1024,3072]}",
        "\"a.experts.down_proj\":{\"dtype\":\"U8\",\"shape\":[2,8,64],\"data_offsets\":[0,1024]},"
        "\"a.experts.down_proj_bias\":{\"dtype\":\"U8\",\"shape\":[2,7],"
        "\"data_offsets\":[1024,1038]},"
        "\"a.experts.gate_up_proj\":{\"dtype\":\"U8\",\"shape\":[2,128,8],"
        "\"data_offsets\":[1038,3086]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (int how = KERF_EXPERTS_SINGLE; how <= KERF_EXPERTS_STACKED; how++) {
            kerf_reader *r;
            kerf_weights *w;
            write_file(files[i], i == 5 ? 3086 : 3072);
            open_file(&r, &w);
            const size_t before = kerf_weights_count(w);
            assert_int_equal(kerf_weights_arrange(w, (kerf_experts)how, NULL, NULL, NULL), KERF_OK);
            assert_int_equal(kerf_weights_count(w), before);
            for (size_t k = 0; k < before; k++) assert_null(kerf_weights_at(w, k)->plane[0]->view);
            close_file(r, w);
        }
}

static void test_too_many(void **state)
{
    kerf_reader *r;
    kerf_weights *w;
    kerf_error err;
    (void)state;
    write_file("\"a.experts.down_proj\":{\"dtype\":\"U8\",\"shape\":[200000,1,1],"
               "\"data_offsets\":[0,200000]},"
               "\"a.experts.gate_up_proj\":{\"dtype\":\"U8\",\"shape\":[200000,2,1],"
               "\"data_offsets\":[200000,600000]}",
               600000);
    open_file(&r, &w);
    assert_int_equal(kerf_weights_arrange(w, KERF_EXPERTS_SINGLE, NULL, NULL, &err), KERF_E_LIMIT);
    assert_non_null(strstr(err.text, "are more than"));
    close_file(r, w);
}

/* One reading of a name, for all that ask which expert a matrix is of. */
static void test_numbers(void **state)
{
    static const struct {
        const char *name;
        size_t before;
        uint64_t number;
    } names[] = {{"model.layers.3.mlp.experts.17.up_proj.weight", 27, 17},
                 {"experts.0.w1.weight", 8, 0},
                 {"a.experts.0.experts.2.w1", 20, 2},
                 {"a.shared_experts.0.up_proj.weight", 0, 9},
                 {"a.experts.up_proj.weight", 0, 9},
                 {"a.experts.7", 0, 9},
                 {"a.experts.7b.w1", 0, 9},
                 {"a.experts.99999999999999999999.w1", 0, 9},
                 {"a.mlp.up_proj.weight", 0, 9}};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint64_t number = 9;
        assert_int_equal(kf_before_expert(names[i].name, &number), names[i].before);
        assert_int_equal(number, names[i].number);
        assert_int_equal(kf_before_expert(names[i].name, NULL), names[i].before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_what_stays),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
