/* time_cpu.c - measures products of matrix and vectors on the processor.
 *
 * There are many copies of the weights, COLD bytes in total, and products use them in turn, so that
 * no cache holds the next one. Right before each product the same threads read as many bytes:
 * whatever else the machine does at that moment slows both, and their ratio stays. */
#include "time/time_cpu.h"

#include <stdlib.h>
#include <string.h>

#include "base/work.h"
#include "time/gemv_product.h"
#include "time/read_all.h"

enum { WARM = 2, TRIALS = 21 };
#define COLD ((size_t)256 << 20)
#define PIECE ((size_t)1 << 17) /* what a thread takes at a time */

/* --- memory -------------------------------------------------------------------------------- */

typedef struct memory_move {
    const unsigned char *from;
    unsigned char *to; /* NULL: only read */
    size_t n;
    uint64_t sum; /* of what was read, so that no compiler leaves it out */
} memory_move;

static kerf_status move_piece(void *ctx, uint64_t i)
{
    memory_move *m = ctx;
    if (i * PIECE >= m->n) return KERF_OK;
    size_t at = (size_t)i * PIECE, size = m->n - at < PIECE ? m->n - at : PIECE;
    if (m->to) {
        memcpy(m->to + at, m->from + at, size);
    } else {
        __atomic_fetch_xor(&m->sum, kf_read_all(m->from + at, size), __ATOMIC_RELAXED);
    }
    return KERF_OK;
}

/* Seconds to read n bytes, or to copy them to `to`, in pieces by all threads. */
static double move_s(const unsigned char *from, unsigned char *to, size_t n, int threads)
{
    static volatile uint64_t sink;
    memory_move m = {.from = from, .to = to, .n = n};
    double start = kf_now_s();
    uint64_t pieces = kf_div_up(n, PIECE);
    /* One for each thread at least: a team that is always the same size is always ready, where one
     * that had shrunk would start threads within the time of the product. */
    if (pieces < (uint64_t)threads) pieces = (uint64_t)threads;
    (void)kf_parallel(pieces, threads, move_piece, &m);
    double seconds = kf_now_s() - start;
    sink = m.sum;
    (void)sink;
    return seconds;
}

/* Median rate of `trials` moves of `n` bytes, which count `COLD`, in 10^9 bytes per second. */
static kerf_status find_rate(const kf_cpu_timer *t, const kf_timer_setup *setup, unsigned char *to,
                             size_t n, double *out, kerf_error *err)
{
    double v[KERF_TIMER_TRIALS];
    for (size_t i = 0; i < setup->trials; i++) {
        KF_TRY(kf_job_check(setup->job, err));
        v[i] = (double)COLD / move_s(t->cold.p, to, n, setup->exec.threads);
    }
    *out = kf_quantile(v, setup->trials, 0.5) * 1e-9;
    return KERF_OK;
}

kerf_status kf_cpu_timer_rates(const kf_cpu_timer *t, const kf_timer_setup *setup,
                               double *read_gbps, double *copy_gbps, kerf_error *err)
{
    unsigned char *half = (unsigned char *)t->cold.p + COLD / 2;
    KF_TRY(find_rate(t, setup, NULL, COLD, read_gbps, err));
    return find_rate(t, setup, half, COLD / 2, copy_gbps, err);
}

/* --- one product --------------------------------------------------------------------------- */

typedef struct cpu_run {
    kf_gemv_product product;
    kerf_gemv *plan;
    unsigned char *arena; /* of all copies of the weights */
    size_t copies;
    kerf_span y, workspace;
} cpu_run;

static void cpu_run_close(cpu_run *r)
{
    kerf_gemv_plan_free(r->plan);
    kf_gemv_product_close(&r->product);
    free(r->arena), free(r->y.p), free(r->workspace.p);
}

/* The pattern again and again. */
static kerf_status fill_copy(cpu_run *r, size_t i, const kerf_job *job, kerf_error *err)
{
    const kf_gemv_product *p = &r->product;
    unsigned char *to = r->arena + i * p->copy_bytes;
    for (int k = 0; k < KERF_PLANES; k++) {
        size_t n = (size_t)p->whole.plane[k].bytes, step = p->pattern[k].n;
        for (size_t at = 0; at < n; at += step) {
            KF_TRY(kf_job_check(job, err));
            memcpy(to + p->plane_at[k] + at, p->pattern[k].p, n - at < step ? n - at : step);
        }
    }
    return KERF_OK;
}

static kerf_status cpu_run_open(cpu_run *r, const kf_timer_setup *setup,
                                const kerf_gemv_shape *shape, kerf_error *err)
{
    KF_TRY(kf_job_check(setup->job, err));
    KF_TRY(kerf_gemv_plan_create(&r->plan, shape, &setup->exec, err));
    KF_TRY(kf_gemv_product_open(&r->product, shape, err));
    KF_TRY(kf_take_span(&r->y, kf_gemv_product_y_bytes(&r->product), err));
    KF_TRY(kf_take_span(&r->workspace, kerf_gemv_workspace(r->plan), err));
    r->copies = COLD / r->product.copy_bytes + 2;
    KF_TRY(kf_allocate(&r->arena, r->copies, r->product.copy_bytes, err));
    for (size_t i = 0; i < r->copies; i++) KF_TRY(fill_copy(r, i, setup->job, err));
    return KERF_OK;
}

static kerf_status run_trials(kf_cpu_timer *t, const kf_timer_setup *setup, const cpu_run *r,
                              kerf_gemv_time *out, kerf_error *err)
{
    const kf_gemv_product *p = &r->product;
    double us[KERF_TIMER_TRIALS], read_us[KERF_TIMER_TRIALS], share[KERF_TIMER_TRIALS];
    kerf_gemv_args a = {.x = {p->x.p, p->x.n}, .y = r->y, .workspace = r->workspace};
    size_t trials = setup->trials, moved = (size_t)p->whole.bytes;
    if (moved > COLD) moved = COLD; /* the rate is the same */
    for (size_t i = 0; i < trials + WARM; i++) {
        KF_TRY(kf_job_check(setup->job, err));
        if (t->at + moved > COLD) t->at = 0;
        double s =
            move_s((const unsigned char *)t->cold.p + t->at, NULL, moved, setup->exec.threads);
        s *= (double)p->whole.bytes / (double)moved;
        t->at += (moved + PIECE - 1) / PIECE * PIECE;
        kf_gemv_product_find(p, r->arena + i % r->copies * p->copy_bytes, a.weights);
        double start = kf_now_s();
        KF_TRY(kerf_gemv_run(r->plan, &a, NULL, err));
        double seconds = kf_now_s() - start;
        if (i < WARM) continue;
        us[i - WARM] = seconds * 1e6;
        read_us[i - WARM] = s * 1e6;
        share[i - WARM] = s / seconds;
    }
    out->low_us = kf_quantile(us, trials, 0.25);
    out->high_us = kf_quantile(us, trials, 0.75);
    out->us = kf_quantile(us, trials, 0.5);
    out->read_us = kf_quantile(read_us, trials, 0.5);
    out->share = kf_quantile(share, trials, 0.5);
    return KERF_OK;
}

kerf_status kf_cpu_timer_run(kf_cpu_timer *t, const kf_timer_setup *setup,
                             const kerf_gemv_shape *shape, kerf_gemv_time *out, kerf_error *err)
{
    cpu_run r = {0};
    kerf_status s = cpu_run_open(&r, setup, shape, err);
    if (s == KERF_OK) s = run_trials(t, setup, &r, out, err);
    kerf_cspan y = {r.y.p, r.y.n};
    if (s == KERF_OK) {
        s = kf_gemv_product_error(&r.product, y, setup->exec.threads, &out->error, err);
    }
    if (s == KERF_OK) {
        out->bytes = (double)r.product.whole.bytes;
        out->backend = kerf_gemv_backend(r.plan);
    }
    cpu_run_close(&r);
    return s;
}

static kerf_status hold_run(const cpu_run *r, const kf_timer_setup *setup, const kerf_hold *hold,
                            uint64_t *calls, kerf_error *err)
{
    const kf_gemv_product *p = &r->product;
    kerf_gemv_args a = {.x = {p->x.p, p->x.n}, .y = r->y, .workspace = r->workspace};
    kerf_status s = KERF_OK;
    hold->around(hold->ctx, 1);
    const double until = kf_now_s() + hold->seconds;
    while (s == KERF_OK && kf_now_s() < until) {
        s = kf_job_check(setup->job, err);
        kf_gemv_product_find(p, r->arena + *calls % r->copies * p->copy_bytes, a.weights);
        if (s == KERF_OK) s = kerf_gemv_run(r->plan, &a, NULL, err);
        ++*calls;
    }
    hold->around(hold->ctx, 0);
    return s;
}

kerf_status kf_cpu_timer_hold(const kf_timer_setup *setup, const kerf_gemv_shape *shape,
                              const kerf_hold *hold, uint64_t *calls, kerf_error *err)
{
    cpu_run r = {0};
    kerf_status s = cpu_run_open(&r, setup, shape, err);
    if (s == KERF_OK) s = hold_run(&r, setup, hold, calls, err);
    cpu_run_close(&r);
    return s;
}

/* --- timer --------------------------------------------------------------------------------- */

kerf_status kf_cpu_timer_open(kf_cpu_timer *t, kf_timer_setup *setup, kerf_error *err)
{
    setup->y = KERF_F32;
    if (setup->trials == 0) setup->trials = TRIALS;
    KF_TRY(kf_take_span(&t->cold, COLD, err));
    for (size_t at = 0; at < COLD; at += COLD / 16) { /* else all pages are one page of zeros */
        KF_TRY(kf_job_check(setup->job, err));
        memset((unsigned char *)t->cold.p + at, 0x55, COLD / 16);
    }
    return KERF_OK;
}

void kf_cpu_timer_close(kf_cpu_timer *t)
{
    free(t->cold.p);
    *t = (kf_cpu_timer){0};
}
