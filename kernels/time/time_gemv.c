/* time_gemv.c - measures products of matrix and vectors on the CPU.
 *
 * Weights rotate over copies of COLD bytes in total, so that no cache holds them. Each trial
 * streams as many bytes on the same threads right before the product: whatever else the machine
 * does at that moment slows both, and their ratio stays. */
#include "time/time_gemv.h"
#include "base/base.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "time/gemv_product.h"
#include "base/work.h"
#include "time/time_gemv_gpu.h"

enum { WARM = 2, TRIALS = 21 };
#define COLD ((size_t)256 << 20)
#define PIECE ((size_t)1 << 17) /* of a stream: what a thread takes at a time */

/* As many as this process may run on, which is what threads of 0 means to the library. */
static int all_threads(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* --- streams ------------------------------------------------------------------------------- */

static uint64_t fold(const unsigned char *p, size_t n)
{
    const uint64_t *w = (const void *)p;
    uint64_t a[8] = {0};
    for (size_t i = 0; i + 8 <= n / 8; i += 8)
        for (size_t k = 0; k < 8; k++) a[k] ^= w[i + k];
    for (size_t k = 1; k < 8; k++) a[0] ^= a[k];
    return a[0];
}

/* Reads n bytes, or copies them to `to`, in pieces of all threads; seconds. */
static double stream(const unsigned char *from, unsigned char *to, size_t n, int threads)
{
    static volatile uint64_t sink;
    uint64_t sum = 0;
    long pieces = (long)((n + PIECE - 1) / PIECE);
    double start = kf_now_s();
#pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(^ : sum)
    for (long i = 0; i < pieces; i++) {
        size_t at = (size_t)i * PIECE, size = n - at < PIECE ? n - at : PIECE;
        if (to) {
            memcpy(to + at, from + at, size);
        } else {
            sum ^= fold(from + at, size);
        }
    }
    double seconds = kf_now_s() - start;
    sink = sum;
    (void)sink;
    (void)threads;
    return seconds;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

double quantile(double *v, size_t n, double q)
{
    qsort(v, n, sizeof *v, by_value);
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;
    return i + 1 < n ? v[i] + (at - (double)i) * (v[i + 1] - v[i]) : v[i];
}

kerf_status gemv_timer_rates(gemv_timer *t, double *read_gbps, double *copy_gbps, kerf_error *err)
{
    double v[MAX_TRIALS];
    if (t->gpu) return gpu_timer_rates(t, read_gbps, copy_gbps, err);
    unsigned char *half = (unsigned char *)t->cold.p + COLD / 2;
    for (size_t i = 0; i < t->trials; i++) {
        v[i] = (double)COLD / stream(t->cold.p, NULL, COLD, t->exec.threads);
    }
    *read_gbps = quantile(v, t->trials, 0.5) * 1e-9;
    for (size_t i = 0; i < t->trials; i++) {
        v[i] = (double)COLD / stream(t->cold.p, half, COLD / 2, t->exec.threads);
    }
    *copy_gbps = quantile(v, t->trials, 0.5) * 1e-9;
    return KERF_OK;
}

/* --- one product --------------------------------------------------------------------------- */

typedef struct cpu_run {
    gemv_product product;
    kerf_gemv *plan;
    unsigned char *arena; /* of all copies of the weights */
    size_t copies;
    kerf_span y, workspace;
} cpu_run;

static void cpu_run_close(cpu_run *r)
{
    kerf_gemv_plan_free(r->plan);
    gemv_product_close(&r->product);
    free(r->arena), free(r->y.p), free(r->workspace.p);
}

/* The pattern again and again. */
static void fill_copy(cpu_run *r, size_t i)
{
    const gemv_product *p = &r->product;
    unsigned char *to = r->arena + i * p->copy_bytes;
    for (int k = 0; k < KERF_PLANES; k++) {
        size_t n = (size_t)p->whole.plane[k].bytes, step = p->pattern[k].n;
        for (size_t at = 0; at < n; at += step) {
            memcpy(to + p->plane_at[k] + at, p->pattern[k].p, n - at < step ? n - at : step);
        }
    }
}

static kerf_status cpu_run_open(cpu_run *r, const gemv_timer *t, const kerf_gemv_shape *shape,
                                kerf_error *err)
{
    KF_TRY(kerf_gemv_plan_create(&r->plan, shape, &t->exec, err));
    KF_TRY(gemv_product_open(&r->product, shape, err));
    KF_TRY(take_span(&r->y, gemv_product_y_bytes(&r->product), err));
    KF_TRY(take_span(&r->workspace, kerf_gemv_workspace(r->plan), err));
    r->copies = COLD / r->product.copy_bytes + 2;
    KF_TRY(kf_allocate(&r->arena, r->copies, r->product.copy_bytes, err));
    for (size_t i = 0; i < r->copies; i++) fill_copy(r, i);
    return KERF_OK;
}

static kerf_status run_trials(gemv_timer *t, const cpu_run *r, gemv_time *out, kerf_error *err)
{
    const gemv_product *p = &r->product;
    double us[MAX_TRIALS], read_us[MAX_TRIALS], share[MAX_TRIALS];
    kerf_gemv_args a = {.x = {p->x.p, p->x.n}, .y = r->y, .workspace = r->workspace};
    size_t moved = (size_t)p->whole.bytes;
    for (size_t i = 0; i < t->trials + WARM; i++) {
        if (moved > COLD) moved = COLD; /* the rate is the same */
        if (t->at + moved > COLD) t->at = 0;
        double s = stream((const unsigned char *)t->cold.p + t->at, NULL, moved, t->exec.threads);
        s *= (double)p->whole.bytes / (double)moved;
        t->at += (moved + PIECE - 1) / PIECE * PIECE;
        gemv_product_find(p, r->arena + i % r->copies * p->copy_bytes, a.weights);
        double start = kf_now_s();
        KF_TRY(kerf_gemv_run(r->plan, &a, NULL, err));
        double seconds = kf_now_s() - start;
        if (i < WARM) continue;
        us[i - WARM] = seconds * 1e6;
        read_us[i - WARM] = s * 1e6;
        share[i - WARM] = s / seconds;
    }
    out->low_us = quantile(us, t->trials, 0.25);
    out->high_us = quantile(us, t->trials, 0.75);
    out->time.us = quantile(us, t->trials, 0.5);
    out->read_us = quantile(read_us, t->trials, 0.5);
    out->share = quantile(share, t->trials, 0.5);
    return KERF_OK;
}

static kerf_status run_on_cpu(gemv_timer *t, const kerf_gemv_shape *shape, gemv_time *out,
                              kerf_error *err)
{
    cpu_run r = {0};
    kerf_status s = cpu_run_open(&r, t, shape, err);
    if (s == KERF_OK) s = run_trials(t, &r, out, err);
    kerf_cspan y = {r.y.p, r.y.n};
    if (s == KERF_OK) s = gemv_product_error(&r.product, y, t->exec.threads, &out->error, err);
    if (s == KERF_OK) {
        out->bytes = (double)r.product.whole.bytes;
        out->backend = kerf_gemv_backend(r.plan);
    }
    cpu_run_close(&r);
    return s;
}

kerf_status gemv_timer_run(gemv_timer *t, const kerf_format *f, uint64_t rows, uint64_t cols,
                           uint64_t columns, gemv_time *out, kerf_error *err)
{
    kerf_gemv_shape shape = {.format = f,
                             .rows = rows,
                             .cols = cols,
                             .columns = (unsigned)columns,
                             .x = t->x,
                             .y = t->y};
    *out =
        (gemv_time){.time.product = {.format = f, .n = rows, .k = cols, .rows = (double)columns}};
    return t->gpu ? gpu_timer_run(t, &shape, out, err) : run_on_cpu(t, &shape, out, err);
}

kerf_status gemv_timer_open(gemv_timer *t, const kerf_exec *exec, kerf_dtype x, int trials,
                            kerf_error *err)
{
    *t = (gemv_timer){.exec = *exec, .x = x, .y = KERF_F32, .trials = (size_t)trials};
    if (t->exec.threads == 0) t->exec.threads = all_threads();
    if (exec->device) return gpu_timer_open(t, err);
    if (trials == 0) t->trials = TRIALS;
    KF_TRY(take_span(&t->cold, COLD, err));
    memset(t->cold.p, 0x55, COLD); /* pages of its own, not the one of zeros */
    return KERF_OK;
}

void gemv_timer_close(gemv_timer *t)
{
    gpu_timer_close(t->gpu);
    free(t->cold.p);
    *t = (gemv_timer){0};
}
