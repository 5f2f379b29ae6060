/* gemv_launch.h - more than one matrix: several in one launch, and launches that follow each other
 * so closely that one starts before the other ends. */
#ifndef KERF_TESTS_GEMV_LAUNCH_H
#define KERF_TESTS_GEMV_LAUNCH_H

#include "gpu/gemv_run.h"

/* --- several plans -------------------------------------------------------------------------------
 */

/* A plan is not changed by those that are made after it. */
static void check_many_plans(const kerf_format *f)
{
    static const extent others[] = {{16, 64}, {300, 512}, {9, 33}, {64, 8192}};
    problem p = problem_new(f, 48, 14336, KERF_F16);
    fill_weights(&p, 0.1f, 0, 3);
    fill_x(&p, 1, 4);
    for (size_t j = 0; j < COUNT(columns_few); j++) {
        mark m = zones_mark();
        setting s = {.columns = columns_few[j], .y = KERF_F32};
        size_t n = s.columns * p.rows * sizeof(float);
        kerf_gemv_shape shape = shape_of(&p, &s), other = shape;
        kerf_gemv *plan = plan_of(&shape), *later[COUNT(others)] = {NULL};
        describe(&p, &s, "with other plans");
        loaded l = load(&p, &s);
        kerf_gemv_args a = args_of(&p, &l, &s);
        uint8_t *first = allocate(n), *y = allocate(n);
        zone out = zone_new(n, 0);
        for (size_t i = 0; plan && i < 2; i++) {
            zone work = workspace_for(plan);
            a.y = (kerf_span){out.p, n};
            a.workspace = (kerf_span){work.p, work.n};
            zone_write(out, NULL);
            check(kerf_gemv_run(plan, &a, stream, &error) == KERF_OK, error.text);
            zone_read(out, i ? y : first);
            for (size_t k = 0; k < COUNT(others); k++) {
                other.rows = others[k].rows;
                other.cols = fit_cols(f, others[k].cols);
                if (!i) later[k] = plan_of(&other);
            }
        }
        check(!plan || memcmp(first, y, n) == 0, "other bits after other plans");
        for (size_t k = 0; k < COUNT(others); k++) kerf_gemv_plan_free(later[k]);
        kerf_gemv_plan_free(plan);
        free(first);
        free(y);
        zones_free(m);
    }
    problem_free(&p);
}

/* --- several matrices in one launch -------------------------------------------------------------
 */

typedef struct together {
    problem p[KERF_GEMV_PARTS];
    loaded l[KERF_GEMV_PARTS];
    unsigned parts;
    setting s;
} together;

static void together_new(together *t, const kerf_format *f, const size_t *rows, size_t cols,
                         kerf_dtype x)
{
    for (unsigned i = 0; i < t->parts; i++) {
        t->p[i] = problem_new(f, rows[i], cols, x);
        fill_weights(&t->p[i], 0.1f, 0, i * 1000 + 1);
        fill_x(&t->p[i], 1, 9);
        solve(&t->p[i]);
        t->l[i] = load(&t->p[i], &t->s);
    }
}

/* Inputs of a case: of many columns more than a block of an sm_89 has room for. */
static size_t cols_of(size_t i, unsigned columns)
{
    return i % 2 == 0 ? 333 : columns > 4 ? 6144 : 1056;
}

/* One launch; y[i] receives part i, of which SWIGLU has only the first. 0: no such plan. */
static int run_together(together *t, uint8_t *const y[], double *bound)
{
    kerf_gemv_shape shape = shape_of(&t->p[0], &t->s);
    zone out[KERF_GEMV_PARTS];
    int swiglu = (t->s.flags & KERF_GEMV_SWIGLU) != 0;
    unsigned results = swiglu ? 1 : t->parts;
    size_t size = size_of(t->s.y), columns = t->s.columns;
    shape.parts = t->parts;
    for (unsigned i = 1; i < t->parts; i++) shape.more_rows[i - 1] = t->p[i].rows;
    kerf_gemv *plan = plan_of(&shape);
    if (!plan) return 0;
    mark m = zones_mark();
    kerf_gemv_args a = args_of(&t->p[0], &t->l[0], &t->s);
    for (unsigned i = 0; i < t->parts; i++) {
        kerf_gemv_part part = {{{0}}, {0}, 0, {0}, {0}};
        if (i < results) {
            out[i] = zone_new(columns * t->p[i].rows * size, 0);
            zone_write(out[i], NULL);
            part.y = (kerf_span){out[i].p, out[i].n};
            if (t->s.bias)
                part.bias = span_of(numbers(&t->s, 1, t->p[i].rows, t->p[i].rows, bias_in));
            if (t->s.residual)
                part.residual =
                    span_of(numbers(&t->s, columns, t->p[i].rows, t->p[i].rows, residual_at));
        }
        for (int k = 0; k < KERF_PLANES; k++) part.weights[k] = span_of(t->l[i].plane[k]);
        if (i) {
            a.more[i - 1] = part;
        } else {
            a.y = part.y;
            a.bias = part.bias;
            a.residual = part.residual;
        }
    }
    zone work = workspace_for(plan);
    a.workspace = (kerf_span){work.p, work.n};
    int good = check(kerf_gemv_run(plan, &a, stream, &error) == KERF_OK, error.text);
    wait_for_device();
    for (unsigned i = 0; i < results; i++) check(zone_read(out[i], y[i]), "writes outside of y");
    check(zone_read(work, NULL), "writes outside of its workspace");
    *bound = kerf_gemv_bound(plan);
    kerf_gemv_plan_free(plan);
    zones_free(m);
    seen.runs++;
    return good;
}

/* Which has the bits of each matrix alone, but where `wide` makes shapes of few rows divide K as
 * these do not: there results are judged. */
static void check_parts(const kerf_format *f)
{
    static const size_t rows[][KERF_GEMV_PARTS] = {
        {128, 32, 32, 0}, {301, 33, 7, 64}, {1, 1, 0, 0}};
    for (size_t i = 0; i < 3 * COUNT(columns_few); i++) {
        mark m = zones_mark();
        unsigned parts = i % 3 == 0 ? 3 : i % 3 == 1 ? 4 : 2;
        together t = {.parts = parts,
                      .s = {.columns = columns_few[i / 3], .y = types[i % 3], .bias = i % 2}};
        if (options.always_wide) t.s.y = KERF_F32, t.s.bias = 0;
        together_new(&t, f, rows[i % 3], cols_of(i, t.s.columns), types[(i + i / 3) % 3]);
        uint8_t *y[KERF_GEMV_PARTS], *alone = allocate(COLUMNS * 512 * 4);
        double bound = 0;
        for (unsigned k = 0; k < parts; k++) y[k] = allocate(COLUMNS * t.p[k].rows * 4);
        describe(&t.p[0], &t.s, "several matrices");
        if (run_together(&t, y, &bound))
            for (unsigned k = 0; k < parts; k++) {
                size_t n = t.s.columns * t.p[k].rows * size_of(t.s.y);
                if (!options.always_wide && run(&t.p[k], &t.l[k], &t.s, alone, NULL))
                    check(memcmp(alone, y[k], n) == 0, "other bits than alone");
                if (t.s.y == KERF_F32 && !t.s.bias) judge(&t.p[k], &t.s, (float *)y[k], bound, 1);
            }
        for (unsigned k = 0; k < parts; k++) {
            free(y[k]);
            problem_free(&t.p[k]);
        }
        free(alone);
        zones_free(m);
    }
}

/* silu(gate x) * (up x): what the bounds of both products allow, and a few roundings of its own. */
static void check_swiglu(const kerf_format *f)
{
    for (size_t i = 0; i < 2 * COUNT(columns_few); i++) {
        mark m = zones_mark();
        size_t rows[] = {i % 2 ? 257 : 64, i % 2 ? 257 : 64}, wrong = 0;
        together t = {.parts = 2,
                      .s = {.columns = columns_few[i / 2],
                            .y = KERF_F32,
                            .flags = KERF_GEMV_SWIGLU,
                            .alpha = i % 4 == 3 ? 0.7f : 0,
                            .bias = i % 3 == 1,
                            .residual = i % 3 == 2}};
        together_new(&t, f, rows, cols_of(i, t.s.columns), types[i % 3]);
        float *y = allocate(COLUMNS * rows[0] * sizeof *y);
        uint8_t *out[] = {(uint8_t *)y}, *narrow = allocate(COLUMNS * rows[0] * 2);
        double bound = 0, a = i % 4 == 3 ? (double)0.7f : 1;
        describe(&t.p[0], &t.s, "SwiGLU");
        if (run_together(&t, out, &bound)) {
            for (size_t n = 0; n < t.s.columns * rows[0]; n++) {
                size_t c = n / rows[0], r = n % rows[0];
                double g = a * t.p[0].e[n].y, u = a * t.p[1].e[n].y, silu = g / (1 + exp(-g));
                double off_g = fabs(a) * tolerance(&t.p[0], bound, c, r) + 0x1p-23 * fabs(g);
                double off_u = fabs(a) * tolerance(&t.p[1], bound, c, r) + 0x1p-23 * fabs(u);
                double want = silu * u, off = 1.1 * off_g * (fabs(u) + off_u) + fabs(silu) * off_u;
                off += fabs(want) * (0x1p-20 + fabs(g) * 0x1p-22) + 1e-36 * (1 + fabs(u));
                if (t.s.bias) want += (double)bias_at(r), off += 0x1p-23 * fabs(want);
                if (t.s.residual) want += (double)residual_at(c, r), off += 0x1p-23 * fabs(want);
                wrong += !(fabs((double)y[n] - want) <= off);
            }
            check(wrong == 0, "not silu(gate x) * (up x)");
            t.s.y = types[1 + i % 2];
            out[0] = narrow;
            if (run_together(&t, out, &bound))
                judge_narrow(t.s.y, t.s.columns * rows[0], y, narrow);
        }
        free(y);
        free(narrow);
        problem_free(&t.p[0]);
        problem_free(&t.p[1]);
        zones_free(m);
    }
}

/* --- chains -------------------------------------------------------------------------------------
 */

enum { LINKS = 9, WIDTHS = 3, REPLAYS = 30 };

typedef struct chain {
    problem p[WIDTHS];
    loaded l[WIDTHS];
    zone y[2], end, work;
    size_t width; /* elements of the widest vectors */
} chain;

/* x of each link is y of the one before; two buffers take turns, so that a link which starts too
 * early reads what is not there yet, or spoils what is still read. */
static int enqueue_chain(chain *c, const setting *s, kerf_gemv *const plans[WIDTHS], int wait)
{
    kerf_status status = KERF_OK;
    for (int i = 0; i < LINKS && status == KERF_OK; i++) {
        const problem *p = &c->p[i % WIDTHS];
        setting link = *s;
        kerf_gemv_args a = args_of(p, &c->l[i % WIDTHS], &link);
        if (i) a.x.p = c->y[(i + 1) % 2].p;
        a.y = (kerf_span){c->y[i % 2].p, s->columns * p->rows * size_of(s->y)};
        a.workspace = (kerf_span){c->work.p, c->work.n};
        status = kerf_gemv_run(plans[i % WIDTHS], &a, stream, &error);
        if (wait) wait_for_device();
    }
    const zone *last = &c->y[(LINKS - 1) % 2];
    if (status == KERF_OK)
        need_cuda(cudaMemcpyAsync(c->end.p, last->p, c->end.n, cudaMemcpyDeviceToDevice, stream),
                  "copy");
    return status == KERF_OK;
}

static void replay(chain *c, const setting *s, kerf_gemv *const plans[WIDTHS], const uint8_t *want)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    uint8_t *got = allocate(c->end.n);
    size_t other = 0;
    need_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    int good = check(enqueue_chain(c, s, plans, 0), error.text);
    need_cuda(cudaStreamEndCapture(stream, &graph), "capture");
    if (good) {
        need_cuda(cudaGraphInstantiate(&exec, graph, 0), "graph");
        for (int i = 0; i < REPLAYS; i++) {
            zone_write(c->end, NULL);
            need_cuda(cudaGraphLaunch(exec, stream), "graph");
            if (i % 3 == 0) need_cuda(cudaGraphLaunch(exec, stream), "graph");
            wait_for_device();
            zone_read(c->end, got);
            other += memcmp(want, got, c->end.n) != 0;
        }
        need_cuda(cudaGraphExecDestroy(exec), "graph");
    }
    check(other == 0, "other bits from a graph");
    need_cuda(cudaGraphDestroy(graph), "graph");
    free(got);
}

static void check_chain(const kerf_format *f, size_t variant)
{
    static const size_t widths[WIDTHS] = {1024, 352, 2080};
    mark m = zones_mark();
    chain c;
    setting s = {.columns = columns_few[variant], .y = types[variant % 3]};
    kerf_gemv *plans[2][WIDTHS] = {{NULL}};
    size_t work = 0;
    int good = 1;
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t cols = fit_cols(f, widths[i]), rows = fit_cols(f, widths[(i + 1) % WIDTHS]);
        c.p[i] = problem_new(f, rows, cols, s.y);
        fill_weights(&c.p[i], 1 / sqrtf((float)cols), 0, i);
        fill_x(&c.p[i], 1, i);
        c.l[i] = load(&c.p[i], &s);
        describe(&c.p[i], &s, "in a chain");
        for (int k = 0; k < 2; k++) {
            kerf_gemv_shape shape = shape_of(&c.p[i], &s);
            if (k) shape.flags |= KERF_GEMV_CONSTANT_WEIGHTS;
            plans[k][i] = plan_of(&shape);
            good = good && plans[k][i];
            if (plans[k][i] && kerf_gemv_workspace(plans[k][i]) > work)
                work = kerf_gemv_workspace(plans[k][i]);
        }
    }
    if (good) {
        size_t n = COLUMNS * 2304 * size_of(s.y), end = s.columns * c.p[2].rows * size_of(s.y);
        uint8_t *want = allocate(end), *got = allocate(end);
        for (int i = 0; i < 2; i++) {
            c.y[i] = zone_new(n, 0);
            zone_write(c.y[i], NULL);
        }
        c.end = zone_new(end, 0);
        c.work = zone_new(work, 0);
        zone_write(c.work, NULL);
        for (int k = 0; k < 2; k++) {
            zone_write(c.end, NULL);
            check(enqueue_chain(&c, &s, plans[k], 1), error.text);
            wait_for_device();
            zone_read(c.end, want);
            float size = 0;
            for (size_t i = 0; i < end / size_of(s.y); i++) size += fabsf(kf_load(s.y, want, i));
            check(size > 0 && size < 1e9f, "a chain that ends in nothing");
            check(enqueue_chain(&c, &s, plans[k], 0), error.text);
            wait_for_device();
            zone_read(c.end, got);
            check(memcmp(want, got, end) == 0, "other bits without waiting");
            replay(&c, &s, plans[k], want);
        }
        for (int i = 0; i < 2; i++) check(zone_read(c.y[i], NULL), "writes outside of y");
        seen.runs += LINKS * (2 + 2 * REPLAYS);
        free(want);
        free(got);
    }
    for (size_t i = 0; i < WIDTHS; i++) {
        kerf_gemv_plan_free(plans[0][i]);
        kerf_gemv_plan_free(plans[1][i]);
        problem_free(&c.p[i]);
    }
    zones_free(m);
}

#endif
