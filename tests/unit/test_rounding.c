/* test_rounding.c - inputs and caches as runtimes round them, beside definitions worked out here:
 * the nearest number of a list, by a scale that is stored or that a row needs. */
#include <float.h>
#include <math.h>

#include <kerf/rounding.h>

#include "quantize_case.h"

enum { TOKENS = 5, COLUMNS = 128 };
#define WEIGHT "model.layers.1.self_attn.k_proj.weight"

static const float met = 3, keys = 5, values = 2; /* what the largest of each layer was */
static float x[TOKENS * COLUMNS], y[TOKENS * COLUMNS];

/* --- what is quantized ---------------------------------------------------------------------- */

static kerf_status largest_input(const void *ctx, const kerf_weight *w, float *out, kerf_error *err)
{
    (void)ctx, (void)w, (void)err;
    *out = met;
    return KERF_OK;
}

static kerf_status largest_cached(const void *ctx, const kerf_weight *w, float *out,
                                  kerf_error *err)
{
    (void)ctx, (void)w, (void)err;
    out[0] = keys;
    out[1] = values;
    return KERF_OK;
}

/* tiny-llama in a format and layout; inputs: with scales of them, and an FP8 cache. */
static kerf_checkpoint *made(void **state, const char *format, const char *layout, int inputs)
{
    char path[4200];
    kerf_error err = {0};
    kerf_plan *p;
    kerf_checkpoint *source = open_checkpoint(model);
    kerf_output to = {.path = path_in(*state, "rounded", path),
                      .layout = kerf_layout_find(layout),
                      .overwrite = 1};
    if (inputs) to.inputs = (kerf_inputs){NULL, largest_input, "CAL"};
    if (inputs) to.cached = (kerf_cached){NULL, largest_cached, "CAL"};
    must(kerf_plan_make(source, NULL, NULL, 0, codec_of(format), &to, &p, &err), &err);
    must(kerf_quantize(p, NULL, NULL, NULL, &err), &err);
    kerf_plan_free(p);
    kerf_checkpoint_close(source);
    return open_checkpoint(path);
}

/* Some of them beyond `met`, some tiny, a block of zeros. */
static void draw_inputs(void)
{
    uint64_t bits = 12345;
    for (size_t i = 0; i < TOKENS * COLUMNS; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        const double part = (double)(bits >> 11) / 9007199254740992.0 - .5;
        x[i] = (float)(part * (i % 7 ? 2.5 : 7.7) * (i / 16 % 5 == 3 ? 1e-3 : 1));
        if (i / 16 == 9) x[i] = 0;
    }
}

/* --- definitions ---------------------------------------------------------------------------- */

/* The nearest number of a float with so many bits of exponent and mantissa, up to `most`; of two
 * that are as near the even one. */
static double nearest(double v, int bias, int mantissa, double most)
{
    const double a = fabs(v);
    int e;
    if (a >= most) return copysign(most, v);
    frexp(a, &e);
    if (e - 1 < 1 - bias) e = 2 - bias; /* below the least normal number steps stay */
    const double step = ldexp(1, e - 1 - mantissa);
    return copysign(fmin(nearbyint(a / step) * step, most), v);
}

static double e2m1(double v)
{
    return nearest(v, 1, 1, 6);
}

static double e4m3(double v)
{
    return nearest(v, 7, 3, 448);
}

static double integer(double v)
{
    return fmin(fmax(nearbyint(v), -127), 127);
}

typedef double code_of(double v);

/* Numbers of x that have one scale: to the nearest multiple of it. */
static void by_scale(double *out, const float *in, size_t n, double scale, code_of *code)
{
    for (size_t i = 0; i < n; i++) out[i] = scale > 0 ? code((double)in[i] / scale) * scale : 0;
}

static double largest_of(const float *in, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs((double)in[i]));
    return most;
}

static void by_largest(double *out, size_t group, double reach, code_of *code)
{
    for (size_t i = 0; i < TOKENS * COLUMNS; i += group)
        by_scale(out + i, x + i, group, largest_of(x + i, group) / reach, code);
}

static void by_blocks(double *out)
{
    const double whole = (double)met / (6 * 448);
    for (size_t i = 0; i < TOKENS * COLUMNS; i += 16)
        by_scale(out + i, x + i, 16, e4m3(largest_of(x + i, 16) / 6 / whole) * whole, e2m1);
}

static void compare(const float *got, const double *wanted, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - wanted[i]) <= 1e-6 * fabs(wanted[i])))
            fail_msg("number %zu, of %.9g: %.9g, not %.9g", i, (double)x[i], (double)got[i],
                     wanted[i]);
}

/* --- tests ---------------------------------------------------------------------------------- */

static const char *const layouts[] = {"modelopt", "compressed-tensors", "deepseek", "kerf"};

static const struct {
    const char *format;
    int layout, inputs; /* inputs: scales of them are stored */
    const char *to;     /* NULL: they stay as they are       */
} cases[] = {
    {"nvfp4", 0, 1, "nvfp4"},
    {"nvfp4", 1, 1, "nvfp4"},
    {"nvfp4", 0, 0, NULL},
    {"nvfp4", 1, 0, NULL},
    {"nvfp4", 3, 0, NULL},
    {"fp8-e4m3", 0, 1, "fp8-e4m3"},
    {"fp8-e4m3", 1, 1, "fp8-e4m3"},
    {"fp8-e4m3", 1, 0, "fp8-e4m3-row"},
    {"fp8-e4m3-row", 0, 0, "fp8-e4m3-row"},
    {"fp8-e4m3-row", 1, 0, "fp8-e4m3-row"},
    {"fp8-e4m3-128x128", 2, 0, "fp8-e4m3-row"},
    {"int8", 1, 0, "int8"},
    {"int4-g32", 1, 0, NULL},
    {"mxfp4", 1, 0, NULL},
    {"int8", 3, 0, NULL},
};

static void define(size_t i, double *out)
{
    const char *to = cases[i].to;
    if (!to)
        for (size_t k = 0; k < TOKENS * COLUMNS; k++) out[k] = (double)x[k];
    else if (!strcmp(to, "nvfp4"))
        by_blocks(out);
    else if (!strcmp(to, "fp8-e4m3"))
        by_scale(out, x, TOKENS * COLUMNS, (double)met / 448, e4m3);
    else if (!strcmp(to, "int8"))
        by_largest(out, COLUMNS, 127, integer);
    else
        by_largest(out, COLUMNS, 448, e4m3);
}

static void test_inputs(void **state)
{
    draw_inputs();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static double wanted[TOKENS * COLUMNS];
        kerf_checkpoint *c =
            made(state, cases[i].format, layouts[cases[i].layout], cases[i].inputs);
        kerf_rounding *r;
        kerf_rounds about;
        kerf_error err = {0};
        must(kerf_rounding_open(c, &r, &err), &err);
        kerf_rounding_describe(r, &about);
        assert_int_equal(about.weights, cases[i].to ? 28 : 0);
        if (cases[i].to) assert_string_equal(about.inputs[0]->name, cases[i].to);
        assert_null(about.inputs[cases[i].to != NULL]);
        assert_int_equal(kerf_rounds_inputs(r, WEIGHT), cases[i].to != NULL);
        assert_int_equal(kerf_rounds_inputs(r, "lm_head.weight"), 0);
        must(kerf_round_inputs(r, WEIGHT, x, TOKENS, COLUMNS, y, NULL, &err), &err);
        define(i, wanted);
        compare(y, wanted, TOKENS * COLUMNS);
        kerf_rounding_close(r);
        kerf_checkpoint_close(c);
    }
}

/* Where rows are no multiple of a group the rest is a group. */
static void test_rest(void **state)
{
    enum { WIDE = 300 };
    kerf_checkpoint *c = made(state, "fp8-e4m3-128x128", "deepseek", 0);
    kerf_rounding *r;
    kerf_error err = {0};
    double wanted[2 * WIDE];
    draw_inputs();
    must(kerf_rounding_open(c, &r, &err), &err);
    must(kerf_round_inputs(r, WEIGHT, x, 2, WIDE, y, NULL, &err), &err);
    for (size_t t = 0; t < 2; t++)
        for (size_t k = 0; k < WIDE; k += 128) {
            const size_t at = t * WIDE + k, n = k + 128 < WIDE ? 128 : WIDE - k;
            by_scale(wanted + at, x + at, n, largest_of(x + at, n) / 448, e4m3);
        }
    compare(y, wanted, 2 * WIDE);
    kerf_rounding_close(r);
    kerf_checkpoint_close(c);
}

/* What a model has ruined is not hidden. */
static void test_no_number(void **state)
{
    kerf_checkpoint *c = made(state, "nvfp4", "modelopt", 1);
    kerf_rounding *r;
    kerf_error err = {0};
    draw_inputs();
    x[70] = NAN;
    must(kerf_rounding_open(c, &r, &err), &err);
    must(kerf_round_inputs(r, WEIGHT, x, TOKENS, COLUMNS, y, NULL, &err), &err);
    assert_memory_equal(x, y, sizeof x);
    kerf_rounding_close(r);
    kerf_checkpoint_close(c);
}

static void test_cache(void **state)
{
    for (int layout = 0; layout < 2; layout++) {
        kerf_checkpoint *c = made(state, "nvfp4", layouts[layout], 1);
        kerf_rounding *r;
        kerf_rounds about;
        kerf_error err = {0};
        static double wanted[TOKENS * COLUMNS];
        draw_inputs();
        must(kerf_rounding_open(c, &r, &err), &err);
        kerf_rounding_describe(r, &about);
        assert_string_equal(about.cache->name, "fp8-e4m3");
        memcpy(y, x, sizeof y);
        must(kerf_round_cache(r, "model.layers.1.self_attn.q_proj.weight", y, COLUMNS, y, COLUMNS,
                              TOKENS, NULL, &err),
             &err);
        assert_memory_equal(x, y, sizeof x);
        must(kerf_round_cache(r, WEIGHT, y, COLUMNS, y + 2 * COLUMNS, COLUMNS, 2, NULL, &err),
             &err);
        by_scale(wanted, x, 2 * COLUMNS, (double)keys / 448, e4m3);
        by_scale(wanted + 2 * COLUMNS, x + 2 * COLUMNS, 2 * COLUMNS, (double)values / 448, e4m3);
        compare(y, wanted, 4 * COLUMNS);
        assert_memory_equal(y + 4 * COLUMNS, x + 4 * COLUMNS, COLUMNS * sizeof *x);
        kerf_rounding_close(r);
        kerf_checkpoint_close(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_no_number),
        cmocka_unit_test(test_cache),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
