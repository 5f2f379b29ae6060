/* gemv_calls.h - calls: alpha, bias, residual and strides; the same bits from any place and in
 * every run; calls that must be refused; shuffled codes. */
#ifndef KERF_TESTS_GEMV_CALLS_H
#define KERF_TESTS_GEMV_CALLS_H

#include "gpu/gemv_run.h"

/* alpha, bias, residual, strides: each adds one rounding at most. */
static void check_arguments(const kerf_format *f)
{
    static const setting all[] = {
        {.alpha = 1.7f},
        {.bias = 1},
        {.residual = 1, .y_gap = 3},
        {.residual = 2},
        {.alpha = -0.3f, .bias = 1, .residual = 1, .x_gap = 5, .y_gap = 7},
        {.alpha = 3, .bias = 1, .residual = 2, .y_gap = 1}};
    for (size_t i = 0; i < 6; i++) {
        problem p = problem_new(f, i % 2 ? 45 : 264, i % 3 ? 1056 : 133, types[i % 3]);
        fill_weights(&p, 0.1f, 0, i);
        fill_x(&p, 1, i);
        solve(&p);
        mark m = zones_mark();
        loaded l = load(&p, &all[i]);
        float *y = allocate(COLUMNS * p.rows * sizeof *y);
        uint8_t *narrow = allocate(COLUMNS * p.rows * 2);
        for (size_t j = 0; j < COUNT(columns_few); j++) {
            setting s = all[i];
            double bound = 0;
            size_t wrong = 0;
            s.columns = columns_few[j];
            s.y = KERF_F32;
            describe(&p, &s, "alpha, bias, residual, strides");
            if (!run(&p, &l, &s, (uint8_t *)y, &bound)) continue;
            for (size_t n = 0; n < s.columns * p.rows; n++) {
                size_t c = n / p.rows, r = n % p.rows;
                double a = s.alpha == 0 ? 1 : (double)s.alpha, want = a * p.e[n].y;
                double off = fabs(a) * tolerance(&p, bound, c, r) + 0x1p-23 * fabs(want);
                if (s.bias) want += (double)bias_at(r), off += 0x1p-23 * fabs(want);
                if (s.residual) want += (double)residual_at(c, r), off += 0x1p-23 * fabs(want);
                wrong += !(fabs((double)y[n] - want) <= off);
            }
            check(wrong == 0, "not alpha W x + bias + residual");
            s.y = types[1 + i % 2];
            describe(&p, &s, "alpha, bias, residual, strides");
            if (run(&p, &l, &s, narrow, NULL)) judge_narrow(s.y, s.columns * p.rows, y, narrow);
        }
        free(y);
        free(narrow);
        zones_free(m);
        problem_free(&p);
    }
}

/* The same bits wherever everything lies. */
static void check_places(const kerf_format *f)
{
    static const extent sizes[] = {{37, 1056}, {40, 4096}, {9, 77}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        problem p = problem_new(f, sizes[i].rows, sizes[i].cols, types[i % 3]);
        fill_weights(&p, 0.1f, 0, i);
        fill_x(&p, 1, i);
        for (size_t j = 0; j < COUNT(columns_few); j++) {
            float *first = allocate(COLUMNS * p.rows * sizeof *first),
                  *y = allocate(COLUMNS * p.rows * sizeof *y);
            for (size_t skew = 0; skew < (mode == BRIEF ? 4 : 17); skew++) {
                mark m = zones_mark();
                setting s = {.columns = columns_few[j], .y = KERF_F32, .skew = skew};
                loaded l = load(&p, &s);
                describe(&p, &s, "elsewhere in memory");
                if (run(&p, &l, &s, (uint8_t *)(skew ? y : first), NULL) && skew)
                    check(memcmp(first, y, s.columns * p.rows * sizeof *y) == 0, "other bits");
                zones_free(m);
            }
            free(first);
            free(y);
        }
        problem_free(&p);
    }
}

/* A thousand runs in a row, into a place each. */
static void check_repeats(const kerf_format *f)
{
    size_t repeats = gpu ? 1000 : 20;
    problem p = problem_new(f, 301, 1056, KERF_BF16);
    fill_weights(&p, 0.1f, 0, 3);
    fill_x(&p, 1, 4);
    for (size_t j = 0; j < COUNT(columns_few); j++) {
        mark m = zones_mark();
        setting s = {.columns = columns_few[j], .y = KERF_F32, .flags = KERF_GEMV_CONSTANT_WEIGHTS};
        size_t n = s.columns * p.rows * sizeof(float), other = 0;
        kerf_gemv_shape shape = shape_of(&p, &s);
        describe(&p, &s, "again and again");
        kerf_gemv *plan = plan_of(&shape);
        if (!plan) continue;
        loaded l = load(&p, &s);
        zone out = zone_new(repeats * n, 0), work = workspace_for(plan);
        kerf_gemv_args a = args_of(&p, &l, &s);
        uint8_t *image = allocate(repeats * n);
        int good = 1;
        zone_write(out, NULL);
        a.workspace = (kerf_span){work.p, work.n};
        for (size_t i = 0; i < repeats; i++) {
            a.y = (kerf_span){out.p + i * n, n};
            good = good && kerf_gemv_run(plan, &a, stream, &error) == KERF_OK;
        }
        wait_for_device();
        check(good, error.text);
        check(zone_read(out, image), "writes outside of y");
        for (size_t i = 1; i < repeats; i++) other += memcmp(image, image + i * n, n) != 0;
        check(other == 0, "runs differ");
        seen.runs += repeats;
        free(image);
        kerf_gemv_plan_free(plan);
        zones_free(m);
    }
    problem_free(&p);
}

static void refuse_plan(kerf_gemv_shape s, const char *what)
{
    kerf_gemv *plan = NULL;
    kerf_exec exec = {.device = gpu};
    error.text[0] = 0;
    kerf_status status = kerf_gemv_plan_create(&plan, &s, &exec, &error);
    check(status != KERF_OK && !plan && error.text[0], what);
    kerf_gemv_plan_free(plan);
}

static void refuse_run_as(kerf_status want, const kerf_gemv *plan, const kerf_gemv_args *a, zone y,
                          const char *what)
{
    uint8_t *got = allocate(y.n);
    size_t written = 0;
    check(kerf_gemv_run(plan, a, stream, &error) == want, what);
    wait_for_device();
    zone_read(y, got);
    for (size_t i = 0; i < y.n; i++) written += got[i] != POISON;
    check(written == 0, "writes though it refuses");
    free(got);
}

static void refuse_run(const kerf_gemv *plan, const kerf_gemv_args *a, zone y, const char *what)
{
    refuse_run_as(KERF_E_BUFFER, plan, a, y, what);
}

/* Each begins a byte further on than it may, in x's memory, and is long enough. */
static void check_crooked(const kerf_gemv *plan, const kerf_gemv_args *all, zone y)
{
    const kerf_cspan crooked = {(const uint8_t *)all->x.p + 1, all->x.n + all->y.n};
    kerf_gemv_args a;
    a = *all, a.x = crooked, refuse_run_as(KERF_E_ARG, plan, &a, y, "a crooked x");
    a = *all, a.bias = crooked, refuse_run_as(KERF_E_ARG, plan, &a, y, "a crooked bias");
    a = *all, a.residual = crooked, refuse_run_as(KERF_E_ARG, plan, &a, y, "a crooked residual");
    a = *all, a.y = (kerf_span){(uint8_t *)all->y.p + 1, all->y.n};
    refuse_run_as(KERF_E_ARG, plan, &a, y, "a crooked y");
}

static void check_refusals(const kerf_format *f)
{
    mark m = zones_mark();
    problem p = problem_new(f, 40, 256, KERF_F16);
    setting s = {.columns = 3, .y = KERF_F32};
    kerf_gemv_shape good = shape_of(&p, &s), bad;
    fill_weights(&p, 1, 0, 1);
    fill_x(&p, 1, 1);
    describe(&p, &s, "refusals");
    bad = good, bad.columns = 0, refuse_plan(bad, "no columns");
    bad = good, bad.columns = COLUMNS + 1, refuse_plan(bad, "too many columns");
    bad = good, bad.x = KERF_F64, refuse_plan(bad, "x of type F64");
    bad = good, bad.y = KERF_I8, refuse_plan(bad, "y of type I8");
    bad = good, bad.parts = KERF_GEMV_PARTS + 1, refuse_plan(bad, "too many parts");
    bad = good, bad.flags = 1u << 20, refuse_plan(bad, "a flag that is not there");
    bad = good, bad.parts = 2, bad.more_rows[0] = 41, bad.flags = KERF_GEMV_SWIGLU;
    refuse_plan(bad, "SwiGLU of unequal parts");
    bad = good, bad.flags = KERF_GEMV_SWIGLU, refuse_plan(bad, "SwiGLU of one part");
    bad = good, bad.parts = 2, bad.more_rows[0] = (UINT64_C(1) << 32) + 40;
    refuse_plan(bad, "rows of a second part that 32 bits do not count");
    kerf_gemv *plan = plan_of(&good);
    if (plan) {
        loaded l = load(&p, &s);
        zone y = zone_new(3 * 40 * 4, 0), work = workspace_for(plan);
        kerf_gemv_args all = args_of(&p, &l, &s), a;
        zone_write(y, NULL);
        all.y = (kerf_span){y.p, y.n};
        all.workspace = (kerf_span){work.p, work.n};
        for (int k = 0; k < KERF_PLANES; k++)
            if (p.g.plane[k].bytes)
                a = all, a.weights[k].n--, refuse_run(plan, &a, y, "a short plane");
        a = all, a.x.n--, refuse_run(plan, &a, y, "a short x");
        a = all, a.y.n--, refuse_run(plan, &a, y, "a short y");
        a = all, a.y_stride = 41, refuse_run(plan, &a, y, "a y too short for its stride");
        a = all, a.bias = (kerf_cspan){l.x.p, 39 * 4}, refuse_run(plan, &a, y, "a short bias");
        a = all, a.residual = (kerf_cspan){l.x.p, 3 * 40 * 4 - 1};
        refuse_run(plan, &a, y, "a short residual");
        if (work.n) a = all, a.workspace.n--, refuse_run(plan, &a, y, "a short workspace");
        check_crooked(plan, &all, y);
        kerf_gemv_plan_free(plan);
    }
    problem_free(&p);
    zones_free(m);
}

static int is_shuffled(const kerf_format *f)
{
    return f->element == KERF_ELEM_E2M1 && f->geometry != KERF_GROUP_STRUCT;
}

/* The device shuffles as the processor does, and both know the way back. */
static void check_shuffle(const kerf_format *f)
{
    enum { WORDS = 100003 };
    mark m = zones_mark();
    size_t n = WORDS * sizeof(uint32_t);
    uint32_t *codes = allocate(n), *want = allocate(n), *got = allocate(n);
    kerf_exec exec = {.device = gpu};
    for (size_t i = 0; i < WORDS; i++) want[i] = codes[i] = (uint32_t)mix(i);
    zone z = zone_new(n, 0);
    zone_write(z, (uint8_t *)codes);
    kerf_span on_host = {want, n}, on_device = {z.p, n};
    snprintf(doing, sizeof doing, "%s, shuffling %d words", f->name, WORDS);
    check(kerf_gemv_shuffle(f, on_host, NULL, NULL, &error) == KERF_OK, error.text);
    check(kerf_gemv_shuffle(f, on_device, &exec, stream, &error) == KERF_OK, error.text);
    wait_for_device();
    check(zone_read(z, (uint8_t *)got), "writes outside of the codes");
    check(memcmp(want, codes, n) != 0 && memcmp(want, got, n) == 0, "shuffled otherwise");
    check(kerf_gemv_unshuffle(f, on_host, NULL, NULL, &error) == KERF_OK, error.text);
    check(kerf_gemv_unshuffle(f, on_device, &exec, stream, &error) == KERF_OK, error.text);
    wait_for_device();
    check(zone_read(z, (uint8_t *)got), "writes outside of the codes");
    check(memcmp(want, codes, n) == 0 && memcmp(got, codes, n) == 0, "not brought back");
    free(codes);
    free(want);
    free(got);
    zones_free(m);
}

#endif
