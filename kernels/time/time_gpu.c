/* time_gpu.c - measures products of matrix and vectors on a GPU.
 *
 * One trial replays a graph of CALLS products or more. There are many copies of the weights, COLD
 * bytes in total, and products use them in turn; that is so much that caches hold 2 % at most of
 * the next one. Each product is measured in two ways: as a chain, where a kernel may begin to read
 * its weights while the one before it still works, which is how a model runs them; and plain, one
 * after the other.
 *
 * The ceiling is the time of a kernel that only reads as many bytes. It is measured in the same two
 * ways, at sizes that double, with the best of some grids, and interpolated between the sizes. */
#include "time/time_gpu.h"

#include <math.h>
#include <stdlib.h>

#include "base/work.h"
#include "time/gemv_product.h"

enum { CALLS = 100, MOST_CALLS = 4096, TRIALS = 9, READ_TRIALS = 5, READ_SIZES = 12 };
#define COLD ((size_t)4 << 30)
#define FIRST_READ ((size_t)1 << 18)
#define COPIED ((size_t)1 << 28)

enum { CHAIN, PLAIN, LAUNCHES, MOST_PLANS = KERF_GEMV_TRIES };

struct kf_gpu_timer {
    kerf_device *device;
    kerf_dbuf arena;                      /* of copies of weights; all zeros at first */
    double read_us[LAUNCHES][READ_SIZES]; /* of FIRST_READ << i bytes */
    double read_gbps, copy_gbps;
};

/* --- graphs -------------------------------------------------------------------------------- */

/* Times of `trials` replays of a graph of these calls. */
static kerf_status time_calls(const kf_timer_setup *setup, kerf_enqueue enqueue, void *ctx,
                              size_t calls, double *us, size_t trials, kerf_error *err)
{
    kerf_graph *graph = NULL;
    KF_TRY(kf_job_check(setup->job, err));
    kerf_status s = kerf_graph_record(setup->exec.device, enqueue, ctx, calls, &graph, err);
    for (size_t i = 0; s == KERF_OK && i < trials; i++) {
        s = kf_job_check(setup->job, err);
        if (s == KERF_OK) s = kerf_graph_time(graph, &us[i], err);
    }
    kerf_graph_free(graph);
    return s;
}

/* How many calls go around `copies` copies in whole turns. */
static size_t calls_of(size_t copies)
{
    size_t turns = (CALLS + copies - 1) / copies;
    return copies * turns;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* --- ceilings ------------------------------------------------------------------------------ */

typedef struct read_run {
    const kf_gpu_timer *gpu;
    size_t bytes, copies;
    int width, chained;
} read_run;

static kerf_status enqueue_read(void *ctx, size_t i, void *stream, kerf_error *err)
{
    const read_run *r = ctx;
    const unsigned char *p = (const unsigned char *)r->gpu->arena.p + i % r->copies * r->bytes;
    return kerf_device_read(r->gpu->device, p, r->bytes, r->width, r->chained, stream, err);
}

static kerf_status enqueue_copy(void *ctx, size_t i, void *stream, kerf_error *err)
{
    const kf_gpu_timer *g = ctx;
    unsigned char *from = (unsigned char *)g->arena.p + i % 2 * 2 * COPIED;
    return kerf_device_copy(g->device, from + COPIED, from, COPIED, stream, err);
}

static kerf_status measure_reads(kf_gpu_timer *g, const kf_timer_setup *setup, int launch, size_t i,
                                 kerf_error *err)
{
    read_run r = {.gpu = g, .bytes = FIRST_READ << i, .chained = launch == CHAIN};
    double best = INFINITY, us[READ_TRIALS];
    r.copies = min_size(COLD / r.bytes, MOST_CALLS);
    for (r.width = 0; r.width < KERF_READ_WIDTHS; r.width++) {
        KF_TRY(time_calls(setup, enqueue_read, &r, calls_of(r.copies), us, READ_TRIALS, err));
        best = fmin(best, kf_quantile(us, READ_TRIALS, 0.5));
    }
    g->read_us[launch][i] = best;
    return KERF_OK;
}

/* Time to read so many bytes: between two sizes a straight line, outside of them the rate of the
 * last one or the time of the first. */
static double read_us(const kf_gpu_timer *g, int launch, double bytes)
{
    const double *us = g->read_us[launch];
    double at = log2(bytes / (double)FIRST_READ);
    if (at <= 0) return us[0];
    if (at >= READ_SIZES - 1) {
        return us[READ_SIZES - 1] * bytes / (double)(FIRST_READ << (READ_SIZES - 1));
    }
    size_t i = (size_t)at;
    double share = bytes / (double)(FIRST_READ << i) - 1;
    return us[i] + share * (us[i + 1] - us[i]);
}

/* --- one product --------------------------------------------------------------------------- */

typedef struct gpu_run {
    kf_gemv_product product;
    kerf_gemv *plan[MOST_PLANS];
    size_t copies;
    kerf_dbuf x, y, workspace;
    kerf_gemv_args args;
    const kerf_gemv *replayed;
    const kf_gpu_timer *gpu;
} gpu_run;

static void gpu_run_close(gpu_run *r)
{
    for (int i = 0; i < MOST_PLANS; i++) kerf_gemv_plan_free(r->plan[i]);
    kf_gemv_product_close(&r->product);
    kerf_dbuf_free(&r->x);
    kerf_dbuf_free(&r->y);
    kerf_dbuf_free(&r->workspace);
}

/* The pattern again and again in the first copy, and that one in all others. */
static kerf_status fill_arena(gpu_run *r, kf_gpu_timer *g, kerf_error *err)
{
    const kf_gemv_product *p = &r->product;
    size_t least = p->copy_bytes * 2;
    if (g->arena.n < least) {
        kerf_dbuf_free(&g->arena);
        KF_TRY(kerf_dbuf_alloc(g->device, least, &g->arena, err));
    }
    r->copies = COLD / p->copy_bytes + 1;
    r->copies = min_size(r->copies < 2 ? 2 : r->copies, g->arena.n / p->copy_bytes);
    r->copies = min_size(r->copies, MOST_CALLS);
    for (int k = 0; k < KERF_PLANES; k++) {
        size_t n = (size_t)p->whole.plane[k].bytes, step = min_size(p->pattern[k].n, n);
        if (n == 0) continue;
        KF_TRY(kerf_dbuf_write(&g->arena, p->plane_at[k], p->pattern[k].p, step, err));
        KF_TRY(kerf_dbuf_repeat(&g->arena, p->plane_at[k], step, n, err));
    }
    return kerf_dbuf_repeat(&g->arena, 0, p->copy_bytes, r->copies * p->copy_bytes, err);
}

/* Weights, x and y of plans that are made. */
static kerf_status gpu_run_fill(gpu_run *r, kf_gpu_timer *g, const kerf_gemv_shape *shape,
                                kerf_error *err)
{
    size_t workspace = 0;
    r->gpu = g;
    for (int i = 0; i < MOST_PLANS; i++) {
        size_t n = r->plan[i] ? kerf_gemv_workspace(r->plan[i]) : 0;
        if (n > workspace) workspace = n;
    }
    KF_TRY(kf_gemv_product_open(&r->product, shape, err));
    KF_TRY(fill_arena(r, g, err));
    KF_TRY(kerf_dbuf_alloc(g->device, r->product.x.n, &r->x, err));
    KF_TRY(kerf_dbuf_alloc(g->device, kf_gemv_product_y_bytes(&r->product), &r->y, err));
    KF_TRY(kerf_dbuf_alloc(g->device, workspace, &r->workspace, err));
    KF_TRY(kerf_dbuf_write(&r->x, 0, r->product.x.p, r->product.x.n, err));
    r->args = (kerf_gemv_args){.x = {r->x.p, r->x.n},
                               .y = {r->y.p, r->y.n},
                               .workspace = {r->workspace.p, r->workspace.n}};
    return KERF_OK;
}

static kerf_status gpu_run_open(gpu_run *r, kf_gpu_timer *g, const kf_timer_setup *setup,
                                const kerf_gemv_shape *shape, kerf_error *err)
{
    KF_TRY(kf_job_check(setup->job, err));
    for (int i = 0; i < LAUNCHES; i++) {
        kerf_gemv_shape s = *shape;
        s.flags = i == CHAIN ? KERF_GEMV_CONSTANT_WEIGHTS : 0;
        KF_TRY(kerf_gemv_plan_create_tuned(&r->plan[i], &s, &setup->exec, &setup->tuning, err));
    }
    return gpu_run_fill(r, g, shape, err);
}

static kerf_status enqueue_product(void *ctx, size_t i, void *stream, kerf_error *err)
{
    gpu_run *r = ctx;
    const unsigned char *copy = (const unsigned char *)r->gpu->arena.p;
    copy += i % r->copies * r->product.copy_bytes;
    kf_gemv_product_find(&r->product, copy, r->args.weights);
    return kerf_gemv_run(r->replayed, &r->args, stream, err);
}

static kerf_status find_error(gpu_run *r, int threads, double *out, kerf_error *err)
{
    kerf_span y = {0};
    KF_TRY(kf_take_span(&y, r->y.n, err));
    kerf_status s = kerf_dbuf_read(&r->y, 0, y.p, y.n, err);
    if (s == KERF_OK) {
        s = kf_gemv_product_error(&r->product, (kerf_cspan){y.p, y.n}, threads, out, err);
    }
    free(y.p);
    return s;
}

static kerf_status time_run(gpu_run *r, const kf_timer_setup *setup, kerf_gemv_time *out,
                            kerf_error *err)
{
    double us[LAUNCHES][KERF_TIMER_TRIALS];
    size_t trials = setup->trials;
    int launches = setup->chains_only ? CHAIN + 1 : LAUNCHES;
    for (int i = 0; i < launches; i++) {
        r->replayed = r->plan[i];
        KF_TRY(time_calls(setup, enqueue_product, r, calls_of(r->copies), us[i], trials, err));
    }
    out->bytes = (double)r->product.whole.bytes;
    out->low_us = kf_quantile(us[CHAIN], trials, 0.25);
    out->high_us = kf_quantile(us[CHAIN], trials, 0.75);
    out->us = kf_quantile(us[CHAIN], trials, 0.5);
    out->read_us = read_us(r->gpu, CHAIN, out->bytes);
    out->share = out->read_us / out->us;
    if (!setup->chains_only) {
        out->plain_us = kf_quantile(us[PLAIN], trials, 0.5);
        out->plain_share = read_us(r->gpu, PLAIN, out->bytes) / out->plain_us;
    }
    out->backend = kerf_gemv_backend(r->plan[CHAIN]);
    return find_error(r, setup->exec.threads, &out->error, err);
}

kerf_status kf_gpu_timer_run(kf_gpu_timer *t, const kf_timer_setup *setup,
                             const kerf_gemv_shape *shape, kerf_gemv_time *out, kerf_error *err)
{
    gpu_run r = {0};
    kerf_status s = gpu_run_open(&r, t, setup, shape, err);
    if (s == KERF_OK) s = time_run(&r, setup, out, err);
    gpu_run_close(&r);
    return s;
}

/* --- several plans of one product ---------------------------------------------------------- */

/* Graphs of the plans that launch in a way of their own, and which of them a plan's time is. */
typedef struct heats {
    kerf_graph *graph[MOST_PLANS];
    size_t like[MOST_PLANS];
    double us[MOST_PLANS][TRIALS];
} heats;

/* Records the graph of plan i, unless one before it is alike, and checks its result. */
static kerf_status enter_heat(heats *h, gpu_run *r, size_t i, const kf_timer_setup *setup,
                              kerf_error *err)
{
    double error = 0;
    for (h->like[i] = 0; h->like[i] < i; h->like[i]++)
        if (kerf_gemv_plans_alike(r->plan[h->like[i]], r->plan[i])) return KERF_OK;
    r->replayed = r->plan[i];
    KF_TRY(kerf_graph_record(setup->exec.device, enqueue_product, r, calls_of(r->copies),
                             &h->graph[i], err));
    KF_TRY(find_error(r, setup->exec.threads, &error, err));
    if (error <= 1e-2) return KERF_OK;
    const kerf_gemv_shape *s = &r->product.shape;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%s %llux%llu, %u columns: a plan is off by %.2g of rms from the reference; "
                   "please report this",
                   s->format->name, (unsigned long long)s->rows, (unsigned long long)s->cols,
                   s->columns, error);
}

/* All take turns, so that a card that changes its clock does so for all. */
static kerf_status run_heats(heats *h, size_t n, const kf_timer_setup *setup, double *us,
                             kerf_error *err)
{
    for (size_t turn = 0; turn < TRIALS; turn++) {
        KF_TRY(kf_job_check(setup->job, err));
        for (size_t i = 0; i < n; i++)
            if (h->graph[i]) KF_TRY(kerf_graph_time(h->graph[i], &h->us[i][turn], err));
    }
    for (size_t i = 0; i < n; i++)
        us[i] = h->graph[i] ? kf_quantile(h->us[i], TRIALS, 0.5) : us[h->like[i]];
    return KERF_OK;
}

kerf_status kf_gpu_timer_race(kf_gpu_timer *t, const kf_timer_setup *setup,
                              const kerf_gemv_shape *shape, const kerf_gemv_tuning *tunings,
                              size_t n, double *us, kerf_error *err)
{
    gpu_run r = {0};
    heats h = {.graph = {NULL}};
    kerf_status s = KERF_OK;
    for (size_t i = 0; s == KERF_OK && i < n; i++)
        s = kerf_gemv_plan_create_tuned(&r.plan[i], shape, &setup->exec, &tunings[i], err);
    if (s == KERF_OK) s = gpu_run_fill(&r, t, shape, err);
    for (size_t i = 0; s == KERF_OK && i < n; i++) s = enter_heat(&h, &r, i, setup, err);
    if (s == KERF_OK) s = run_heats(&h, n, setup, us, err);
    for (size_t i = 0; i < n; i++) kerf_graph_free(h.graph[i]);
    gpu_run_close(&r);
    return s;
}

/* --- one product for some time ------------------------------------------------------------- */

static kerf_status hold_run(gpu_run *r, const kf_timer_setup *setup, const kerf_hold *hold,
                            uint64_t *calls, kerf_error *err)
{
    kerf_graph *graph = NULL;
    const size_t each = calls_of(r->copies);
    double us;
    r->replayed = r->plan[CHAIN];
    KF_TRY(kerf_graph_record(setup->exec.device, enqueue_product, r, each, &graph, err));
    hold->around(hold->ctx, 1);
    const double until = kf_now_s() + hold->seconds;
    kerf_status s = KERF_OK;
    while (s == KERF_OK && kf_now_s() < until) {
        s = kf_job_check(setup->job, err);
        if (s == KERF_OK) s = kerf_graph_time(graph, &us, err);
        *calls += each;
    }
    hold->around(hold->ctx, 0);
    kerf_graph_free(graph);
    return s;
}

kerf_status kf_gpu_timer_hold(kf_gpu_timer *t, const kf_timer_setup *setup,
                              const kerf_gemv_shape *shape, const kerf_hold *hold, uint64_t *calls,
                              kerf_error *err)
{
    gpu_run r = {0};
    kerf_status s = gpu_run_open(&r, t, setup, shape, err);
    if (s == KERF_OK) s = hold_run(&r, setup, hold, calls, err);
    gpu_run_close(&r);
    return s;
}

/* --- timer --------------------------------------------------------------------------------- */

static kerf_status measure_memory(kf_gpu_timer *g, const kf_timer_setup *setup, kerf_error *err)
{
    double us[READ_TRIALS];
    for (int launch = 0; launch < LAUNCHES; launch++) {
        for (size_t i = 0; i < READ_SIZES; i++) KF_TRY(measure_reads(g, setup, launch, i, err));
    }
    KF_TRY(time_calls(setup, enqueue_copy, g, 2, us, READ_TRIALS, err));
    size_t most = FIRST_READ << (READ_SIZES - 1);
    g->read_gbps = (double)most / g->read_us[CHAIN][READ_SIZES - 1] * 1e-3;
    g->copy_gbps = 2 * (double)COPIED / kf_quantile(us, READ_TRIALS, 0.5) * 1e-3;
    return KERF_OK;
}

kerf_status kf_gpu_timer_open(kf_gpu_timer **out, kf_timer_setup *setup, kerf_error *err)
{
    const unsigned char zero[16] = {0};
    KF_TRY(kf_allocate(out, 1, sizeof **out, err));
    kf_gpu_timer *g = *out;
    g->device = setup->exec.device;
    setup->y = setup->x; /* as in a model */
    if (setup->trials == 0) setup->trials = TRIALS;
    KF_TRY(kerf_dbuf_alloc(g->device, COLD + COLD / 8, &g->arena, err));
    KF_TRY(kerf_dbuf_write(&g->arena, 0, zero, sizeof zero, err));
    KF_TRY(kerf_dbuf_repeat(&g->arena, 0, sizeof zero, g->arena.n, err));
    return measure_memory(g, setup, err);
}

void kf_gpu_timer_close(kf_gpu_timer *g)
{
    if (g) kerf_dbuf_free(&g->arena);
    free(g);
}

void kf_gpu_timer_rates(const kf_gpu_timer *g, double *read_gbps, double *copy_gbps)
{
    *read_gbps = g->read_gbps;
    *copy_gbps = g->copy_gbps;
}
