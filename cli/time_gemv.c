/* time_gemv.c - measures products of matrix and vectors on the CPU.
 *
 * Weights rotate over copies of COLD bytes in total, so that no cache holds them. Each trial
 * streams as many bytes on the same threads right before the product: whatever else the machine
 * does at that moment slows both, and their ratio stays. */
#include "time_gemv.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"

enum { PATTERN_ROWS = 256, WARM = 2 };
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
    double start = now_s();
#pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(^ : sum)
    for (long i = 0; i < pieces; i++) {
        size_t at = (size_t)i * PIECE, size = n - at < PIECE ? n - at : PIECE;
        if (to) {
            memcpy(to + at, from + at, size);
        } else {
            sum ^= fold(from + at, size);
        }
    }
    double seconds = now_s() - start;
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

static double quantile(double *v, size_t n, double q)
{
    qsort(v, n, sizeof *v, by_value);
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;
    return i + 1 < n ? v[i] + (at - (double)i) * (v[i + 1] - v[i]) : v[i];
}

double gemv_timer_stream_gbps(gemv_timer *t)
{
    double v[MAX_TRIALS];
    for (size_t i = 0; i < t->trials; i++) {
        v[i] = (double)COLD / stream(t->cold.p, NULL, COLD, t->exec.threads);
    }
    return quantile(v, t->trials, 0.5) * 1e-9;
}

double gemv_timer_copy_gbps(gemv_timer *t)
{
    double v[MAX_TRIALS];
    unsigned char *half = (unsigned char *)t->cold.p + COLD / 2;
    for (size_t i = 0; i < t->trials; i++) {
        v[i] = (double)COLD / stream(t->cold.p, half, COLD / 2, t->exec.threads);
    }
    return quantile(v, t->trials, 0.5) * 1e-9;
}

/* --- one product --------------------------------------------------------------------------- */

typedef struct product {
    const kerf_format *format;
    uint64_t rows, cols, columns;
    kerf_geometry whole, part; /* part: PATTERN_ROWS of random weights, which the whole repeats */
    kerf_span pattern[KERF_PLANES];
    size_t copies, copy_bytes;
    unsigned char *arena; /* of all copies */
    kerf_span x, y, workspace;
    kerf_gemv *plan;
} product;

static void product_close(product *p)
{
    kerf_gemv_plan_free(p->plan);
    for (int i = 0; i < KERF_PLANES; i++) free(p->pattern[i].p);
    free(p->arena), free(p->x.p), free(p->y.p), free(p->workspace.p);
}

static kerf_status take_span(kerf_span *s, size_t bytes, kerf_error *err)
{
    TRY(allocate(&s->p, bytes + 1, 1, err));
    s->n = bytes;
    return KERF_OK;
}

/* Near to normal, the same in every run. */
static float number_at(uint64_t i)
{
    uint64_t h = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
    h ^= h >> 31;
    uint64_t sum = (h & 0xffff) + (h >> 16 & 0xffff) + (h >> 32 & 0xffff) + (h >> 48);
    return ((float)sum - 131070.0f) * 0x1p-21f;
}

static void fill_numbers(float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) x[i] = number_at(i);
}

/* Encodes numbers of a whole geometry; planes are taken here. */
static kerf_status encode_numbers(const kerf_geometry *g, kerf_span planes[KERF_PLANES],
                                  kerf_error *err)
{
    kerf_span numbers = {0};
    kerf_stats stats = {0};
    kerf_exec exec = {0};
    for (int i = 0; i < KERF_PLANES; i++) {
        TRY(take_span(&planes[i], (size_t)g->plane[i].bytes, err));
    }
    TRY(take_span(&numbers, (size_t)g->elements * sizeof(float), err));
    kerf_cspan in = {numbers.p, numbers.n};
    fill_numbers(numbers.p, g->elements);
    kerf_status s = kerf_measure(g, 0, g->bands, in, KERF_F32, &stats, &exec, err);
    if (s == KERF_OK) {
        s = kerf_encode(g, kerf_encoder_at(g->format, 0), &stats, 0, g->bands, in, KERF_F32, planes,
                        &exec, err);
    }
    free(numbers.p);
    return s;
}

/* Numbers in one of the plain types, by their formats. */
static kerf_status fill_activations(kerf_span *out, uint64_t columns, uint64_t cols,
                                    kerf_dtype type, kerf_error *err)
{
    kerf_geometry g;
    kerf_shape shape = {2, {columns, cols}};
    kerf_span planes[KERF_PLANES] = {0};
    const char *name = type == KERF_F32 ? "fp32" : type == KERF_F16 ? "fp16" : "bf16";
    TRY(kerf_geometry_init(&g, kerf_format_find(name), &shape, err));
    kerf_status s = encode_numbers(&g, planes, err);
    for (int i = 1; i < KERF_PLANES; i++) free(planes[i].p);
    *out = planes[0];
    return s;
}

/* Bytes of a plane in a copy: each begins at a cache line. */
static size_t padded(const product *p, int plane)
{
    return ((size_t)p->whole.plane[plane].bytes + 63) / 64 * 64;
}

static void find_copy(const product *p, size_t i, kerf_gemv_args *out)
{
    unsigned char *at = p->arena + i * p->copy_bytes;
    for (int k = 0; k < KERF_PLANES; k++) {
        out->weights[k] = (kerf_cspan){at, (size_t)p->whole.plane[k].bytes};
        at += padded(p, k);
    }
}

/* The pattern again and again. */
static void fill_copy(product *p, size_t i)
{
    unsigned char *to = p->arena + i * p->copy_bytes;
    for (int k = 0; k < KERF_PLANES; k++) {
        size_t n = (size_t)p->whole.plane[k].bytes, step = p->pattern[k].n;
        for (size_t at = 0; at < n; at += step) {
            memcpy(to + at, p->pattern[k].p, n - at < step ? n - at : step);
        }
        to += padded(p, k);
    }
}

static kerf_status product_open(product *p, const gemv_timer *t, kerf_error *err)
{
    kerf_shape whole = {2, {p->rows, p->cols}};
    kerf_shape part = {2, {p->rows < PATTERN_ROWS ? p->rows : PATTERN_ROWS, p->cols}};
    kerf_gemv_shape shape = {.format = p->format,
                             .rows = p->rows,
                             .cols = p->cols,
                             .columns = (unsigned)p->columns,
                             .x = t->type,
                             .y = KERF_F32};
    TRY(kerf_geometry_init(&p->whole, p->format, &whole, err));
    TRY(kerf_geometry_init(&p->part, p->format, &part, err));
    TRY(kerf_gemv_plan_create(&p->plan, &shape, &t->exec, err));
    TRY(encode_numbers(&p->part, p->pattern, err));
    TRY(fill_activations(&p->x, p->columns, p->cols, t->type, err));
    TRY(take_span(&p->y, (size_t)(p->columns * p->rows) * sizeof(float), err));
    TRY(take_span(&p->workspace, kerf_gemv_workspace(p->plan), err));
    for (int k = 0; k < KERF_PLANES; k++) p->copy_bytes += padded(p, k);
    p->copies = COLD / p->copy_bytes + 2;
    TRY(allocate(&p->arena, p->copies, p->copy_bytes, err));
    for (size_t i = 0; i < p->copies; i++) fill_copy(p, i);
    return KERF_OK;
}

/* The first rows against the reference: far apart only when a kernel is wrong. */
static kerf_status find_error(const product *p, const gemv_timer *t, double *out, kerf_error *err)
{
    kerf_exec exec = {.threads = t->exec.threads, .backend = "ref"};
    uint64_t rows = p->part.shape.dim[0];
    kerf_gemv_shape shape = {.format = p->format,
                             .rows = rows,
                             .cols = p->cols,
                             .columns = (unsigned)p->columns,
                             .x = t->type,
                             .y = KERF_F32};
    kerf_gemv_args a = {.x = {p->x.p, p->x.n}};
    kerf_gemv *plan = NULL;
    kerf_status s = kerf_gemv_plan_create(&plan, &shape, &exec, err);
    if (s == KERF_OK) s = take_span(&a.workspace, kerf_gemv_workspace(plan), err);
    if (s == KERF_OK) s = take_span(&a.y, (size_t)(rows * p->columns) * sizeof(float), err);
    for (int k = 0; k < KERF_PLANES; k++) {
        a.weights[k] = (kerf_cspan){p->pattern[k].p, p->pattern[k].n};
    }
    if (s == KERF_OK) s = kerf_gemv_run(plan, &a, NULL, err);
    double error = 0, power = 0;
    const float *want = a.y.p, *got = p->y.p;
    for (uint64_t c = 0; s == KERF_OK && c < p->columns; c++) {
        for (uint64_t r = 0; r < rows; r++) {
            double w = (double)want[c * rows + r], d = (double)got[c * p->rows + r] - w;
            error += d * d;
            power += w * w;
        }
    }
    *out = sqrt(error / power);
    free(a.workspace.p), free(a.y.p);
    kerf_gemv_plan_free(plan);
    return s;
}

static kerf_status run_trials(gemv_timer *t, const product *p, gemv_time *out, kerf_error *err)
{
    double us[MAX_TRIALS], stream_us[MAX_TRIALS], share[MAX_TRIALS];
    kerf_gemv_args a = {.x = {p->x.p, p->x.n}, .y = p->y, .workspace = p->workspace};
    size_t moved = (size_t)p->whole.bytes;
    for (size_t i = 0; i < t->trials + WARM; i++) {
        if (moved > COLD) moved = COLD; /* the rate is the same */
        if (t->at + moved > COLD) t->at = 0;
        double s = stream((const unsigned char *)t->cold.p + t->at, NULL, moved, t->exec.threads);
        s *= (double)p->whole.bytes / (double)moved;
        t->at += (moved + PIECE - 1) / PIECE * PIECE;
        find_copy(p, i % p->copies, &a);
        double start = now_s();
        TRY(kerf_gemv_run(p->plan, &a, NULL, err));
        double seconds = now_s() - start;
        if (i < WARM) continue;
        us[i - WARM] = seconds * 1e6;
        stream_us[i - WARM] = s * 1e6;
        share[i - WARM] = s / seconds;
    }
    out->low_us = quantile(us, t->trials, 0.25);
    out->high_us = quantile(us, t->trials, 0.75);
    out->time.us = quantile(us, t->trials, 0.5);
    out->stream_us = quantile(stream_us, t->trials, 0.5);
    out->share = quantile(share, t->trials, 0.5);
    return KERF_OK;
}

kerf_status gemv_timer_run(gemv_timer *t, const kerf_format *f, uint64_t rows, uint64_t cols,
                           uint64_t columns, gemv_time *out, kerf_error *err)
{
    product p = {.format = f, .rows = rows, .cols = cols, .columns = columns};
    *out =
        (gemv_time){.time.product = {.format = f, .n = rows, .k = cols, .rows = (double)columns}};
    kerf_status s = product_open(&p, t, err);
    if (s == KERF_OK) s = run_trials(t, &p, out, err);
    if (s == KERF_OK) s = find_error(&p, t, &out->error, err);
    if (s == KERF_OK) {
        out->bytes = (double)p.whole.bytes;
        out->backend = kerf_gemv_backend(p.plan);
    }
    product_close(&p);
    return s;
}

kerf_status gemv_timer_open(gemv_timer *t, const kerf_exec *exec, kerf_dtype type, int trials,
                            kerf_error *err)
{
    *t = (gemv_timer){.exec = *exec, .type = type, .trials = (size_t)trials};
    if (exec->device) {
        return fail(err, KERF_E_NOSUP, "matrix-vector products run on the CPU; use --device cpu");
    }
    if (t->exec.threads == 0) t->exec.threads = all_threads();
    TRY(take_span(&t->cold, COLD, err));
    memset(t->cold.p, 0x55, COLD); /* pages of its own, not the one of zeros */
    return KERF_OK;
}

void gemv_timer_close(gemv_timer *t)
{
    free(t->cold.p);
    *t = (gemv_timer){0};
}
