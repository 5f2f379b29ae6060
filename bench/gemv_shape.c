/* gemv_shape.c - one shape of bench/gemv_cuda.c: kerf's products, cuBLAS's, and a kernel that only
 * reads the same bytes, each checked, all of them racing in turns. */
#include "gemv_cuda.h"

#include "blas_cuda.h"
#include "read_only.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* fp16 results round by 2e-4 of rms(y), bfloat16 by 1.7e-3. */
#define RMS_LIMIT(x) ((x) == KERF_F16 ? 1e-3 : 3e-3)

enum { WARM = 3 };

static void *sink;
uint64_t bench_wrong;

/* --- reading ------------------------------------------------------------------------------------
 */

const char *call_read(void *ctx, int i, cudaStream_t s)
{
    const read_context *r = ctx;
    cudaError_t e = read_only(r->way, r->copies[i % r->n_copies], r->n, r->chained, sink, s);
    return e == cudaSuccess ? NULL : cudaGetErrorString(e);
}

int best_read(void *const *copies, int n_copies, size_t n, int chained)
{
    static struct {
        size_t n;
        int chained, way;
    } known[256];
    static int n_known;
    double best = 1e30;
    int chosen = 0;
    if (!sink) sink = bench_device_room(4);
    for (int i = 0; i < n_known; i++)
        if (known[i].chained == chained && fabs((double)n / (double)known[i].n - 1) < 0.02)
            return known[i].way;
    for (int way = 0; way < READ_WAYS; way++) {
        read_context c = {copies, n_copies, way, chained, n};
        racer r = {.call = call_read, .ctx = &c, .calls = n > 64000000 ? 20 : 60};
        double us = race_quick(&r, bench_stream);
        race_free(&r);
        if (us < best) best = us, chosen = way;
    }
    if (n_known < 256) {
        known[n_known].n = n;
        known[n_known].chained = chained;
        known[n_known++].way = chosen;
    }
    return chosen;
}

/* --- contestants --------------------------------------------------------------------------------
 */

typedef struct entrant {
    racer r;
    int kind, way; /* PLAIN or CHAIN */
    unsigned columns;
    const weights *w;
    kerf_gemv *plan;
    blas_product blas;
    int blas_way;
    read_context read;
    double rms;
} entrant;

/* What all contestants of a shape share. */
static struct {
    uint8_t *x, *x8, *y, *workspace;
    float *one;
    size_t y_bytes, workspace_bytes;
    uint64_t cols;
    kerf_dtype type; /* of x and y */
} common;

static const char *call_run(void *ctx, int i, cudaStream_t s)
{
    const entrant *e = ctx;
    kerf_gemv_args a = {.x = {common.x, e->columns * e->w->cols * 2},
                        .y = {common.y, e->columns * e->w->rows * 2},
                        .workspace = {common.workspace, common.workspace_bytes}};
    place_spans(&e->w->m, e->w->copy[i % e->w->copies], a.weights);
    if (kerf_gemv_run(e->plan, &a, s, &bench_error) == KERF_OK) return NULL;
    return bench_error.text;
}

static const char *call_blas(void *ctx, int i, cudaStream_t s)
{
    const entrant *e = ctx;
    const uint8_t *w = e->w->copy[i % e->w->copies];
    return blas_run(&e->blas, e->blas_way, w, e->kind == BY_CUBLAS ? common.x : common.x8, common.y,
                    w + e->w->m.offset[KERF_PLANE_SCALES], common.one, s);
}

/* About a millisecond, every copy once, and never less than 100. */
static int calls_for(const weights *w)
{
    double us = 0.5 + (double)w->m.g.bytes / 4.5e6;
    int calls = (int)(1000 / us);
    calls = calls < 100 ? 100 : calls > 400 ? 400 : calls;
    return calls < w->copies ? w->copies : calls;
}

static float half(uint16_t h)
{
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    float size = exponent == 31  ? mantissa ? NAN : INFINITY
                 : exponent == 0 ? ldexpf((float)mantissa, -24)
                                 : ldexpf((float)(mantissa | 1024), exponent - 25);
    return h & 0x8000 ? -size : size;
}

static float number(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float wide;
    if (common.type == KERF_F16) return half(h);
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

/* y of call i, made by itself. */
static void call_alone(entrant *e, int i, uint16_t *y)
{
    size_t bytes = e->columns * (size_t)e->w->rows * 2;
    bench_need_cuda(cudaMemsetAsync(common.y, 0xff, common.y_bytes, bench_stream), "memset");
    e->r.error = e->r.call(e, i, bench_stream);
    if (e->r.error) return;
    bench_need_cuda(cudaMemcpyAsync(y, common.y, bytes, cudaMemcpyDeviceToHost, bench_stream),
                    "copy");
    bench_need_cuda(cudaStreamSynchronize(bench_stream), "a product");
}

/* One call with the first copy, in y; its error over the sampled rows. */
static void measure_error(entrant *e, const double *exact, uint16_t *y)
{
    size_t rows = (size_t)e->w->rows;
    double errors = 0, squares = 0;
    call_alone(e, 0, y);
    if (e->r.error) return;
    for (size_t c = 0; c < e->columns; c++)
        for (size_t i = 0; i < e->w->sampled; i++) {
            double want = exact[c * e->w->sampled + i];
            double miss = (double)number(y[c * rows + e->w->row[i]]) - want;
            errors += miss * miss;
            squares += want * want;
        }
    e->rms = sqrt(errors / squares);
}

/* Whether the last call of the graph gives what it gives by itself. */
static int is_same_in_graph(entrant *e, uint16_t *y)
{
    size_t bytes = e->columns * (size_t)e->w->rows * 2;
    uint16_t *last = bench_room(bytes);
    call_alone(e, e->r.calls - 1, y);
    bench_need_cuda(cudaMemsetAsync(common.y, 0xff, common.y_bytes, bench_stream), "memset");
    bench_need_cuda(cudaGraphLaunch(e->r.graph, bench_stream), "graph");
    bench_need_cuda(cudaMemcpyAsync(last, common.y, bytes, cudaMemcpyDeviceToHost, bench_stream),
                    "copy");
    bench_need_cuda(cudaStreamSynchronize(bench_stream), "a graph");
    int same = memcmp(y, last, bytes) == 0;
    free(last);
    return same;
}

static entrant *new_entrant(entrant *all, int *n, int kind, int way, const weights *w,
                            unsigned columns)
{
    entrant *e = &all[(*n)++];
    *e = (entrant){.kind = kind, .way = way, .w = w, .columns = columns};
    e->r.ctx = e;
    e->r.calls = calls_for(w);
    e->r.call = kind == BY_KERF ? call_run : call_blas;
    return e;
}

static void add_read(entrant *all, int *n, const weights *w)
{
    for (int way = 0; way < WAYS_TO_LAUNCH; way++) {
        entrant *e = new_entrant(all, n, BY_READ, way, w, 0);
        size_t bytes = (size_t)w->m.g.bytes / 16 * 16;
        e->read = (read_context){w->copy, w->copies, best_read(w->copy, w->copies, bytes, way), way,
                                 bytes};
        e->r.call = call_read;
        e->r.ctx = &e->read;
        race_prepare(&e->r, bench_stream);
    }
}

/* Plain and in a chain; 0: there is no such plan. */
static int add_run(entrant *all, int *n, const weights *w, unsigned columns, const double *exact,
                   const bench_options *o)
{
    uint16_t *y = bench_room(columns * w->rows * 2);
    int planned = 1;
    for (int way = 0; way < WAYS_TO_LAUNCH && planned; way++) {
        kerf_exec exec = {.device = bench_gpu};
        kerf_gemv_shape shape = {.format = w->format,
                                 .rows = w->rows,
                                 .cols = w->cols,
                                 .columns = columns,
                                 .x = o->x,
                                 .y = o->x,
                                 .flags =
                                     w->flags | (way == CHAIN ? KERF_GEMV_CONSTANT_WEIGHTS : 0)};
        entrant *e = new_entrant(all, n, BY_KERF, way, w, columns);
        if (kf_gemv_plan_create_with(&e->plan, &shape, &exec, &o->plan, &bench_error) != KERF_OK) {
            printf("%s, %u columns: %s\n", w->name, columns, bench_error.text);
            --*n;
            planned = 0;
            continue;
        }
        size_t work = kerf_gemv_workspace(e->plan);
        if (work > common.workspace_bytes) bench_fail(w->name, "a workspace of more than 64 MiB");
        measure_error(e, exact, y);
        if (!e->r.error) race_prepare(&e->r, bench_stream);
        if (!e->r.error && !is_same_in_graph(e, y)) e->r.error = "a graph gives other bits";
        if (!e->r.error) continue;
        printf("WRONG: %s, %u columns: %s\n", w->name, columns, e->r.error);
        bench_wrong++;
    }
    for (int way = 0; way < WAYS_TO_LAUNCH && planned; way++) {
        const entrant *e = &all[*n - 1 - way];
        if (e->r.error || e->rms <= RMS_LIMIT(o->x)) continue;
        printf("WRONG: %s, %u columns: an error of %.1e\n", w->name, columns, e->rms);
        bench_wrong++;
    }
    free(y);
    return planned;
}

static void add_blas(entrant *all, int *n, const weights *w, int kind, unsigned columns,
                     const double *exact)
{
    uint16_t *y = bench_room(KERF_GEMV_COLUMNS * w->rows * 2);
    entrant *e = new_entrant(all, n, kind, PLAIN, w, columns);
    double best = 1e30;
    int chosen = 0, calls = e->r.calls;
    e->r.error = blas_plan(&e->blas, kind == BY_CUBLAS ? BLAS_F16 : BLAS_E4M3, (int)w->rows,
                           (int)w->cols, (int)columns, 0);
    e->r.calls = calls < 40 ? calls : 40;
    for (e->blas_way = 0; !e->r.error && e->blas_way < e->blas.ways; e->blas_way++) {
        double us = race_quick(&e->r, bench_stream);
        race_free(&e->r);
        e->r.error = NULL; /* another way may work */
        if (us < best) best = us, chosen = e->blas_way;
    }
    e->blas_way = chosen;
    e->r.calls = calls;
    if (!e->r.error) measure_error(e, exact, y);
    if (!e->r.error) race_prepare(&e->r, bench_stream);
    if (e->r.error) printf("%s, %u columns: %s\n", bench_by[kind], columns, e->r.error);
    free(y);
}

timing timing_of(const racer *r, double calls)
{
    return (timing){r->median * calls, r->low * calls, r->high * calls, r->replays};
}

/* --- one shape ----------------------------------------------------------------------------------
 */

static void make_common(extent size, kerf_dtype x)
{
    size_t n = KERF_GEMV_COLUMNS * size.cols;
    float one = 1;
    memset(&common, 0, sizeof common);
    common.cols = size.cols;
    common.type = x;
    common.x = bench_device_room(n * 2);
    common.x8 = bench_device_room(n);
    common.y_bytes = KERF_GEMV_COLUMNS * size.rows * 2;
    common.y = bench_device_room(common.y_bytes);
    common.workspace_bytes = (size_t)64 << 20;
    common.workspace = bench_device_room(common.workspace_bytes);
    common.one = bench_device_room(4);
    bench_need_cuda(cudaMemcpyAsync(common.one, &one, 4, cudaMemcpyHostToDevice, bench_stream),
                    "copy");
    bench_need_cuda(fill_numbers(common.x, x, n, 1, 0, 77, bench_stream), "x");
    bench_need_cuda(to_e4m3(common.x8, common.x, x, n, bench_stream), "x");
    bench_need_cuda(cudaStreamSynchronize(bench_stream), "x");
}

static void free_common(void)
{
    void *all[] = {common.x, common.x8, common.y, common.workspace, common.one};
    for (size_t i = 0; i < 5; i++) bench_need_cuda(cudaFree(all[i]), "free");
}

static void add_format(entrant *all, int *n, const weights *w, const bench_options *o)
{
    double *exact = weights_exact(w, common.x, o->x, KERF_GEMV_COLUMNS);
    int before = *n;
    for (int i = 0; i < o->n_columns; i++) add_run(all, n, w, o->columns[i], exact, o);
    for (int i = 0; o->baselines && i < o->n_columns; i++)
        if (w->format->id == KERF_FORMAT_FP16) add_blas(all, n, w, BY_CUBLAS, o->columns[i], exact);
    if (o->baselines && w->format->id == KERF_FORMAT_FP8_E4M3)
        add_blas(all, n, w, BY_CUBLAS_FP8, KERF_GEMV_COLUMNS, exact);
    if (*n > before) add_read(all, n, w);
    free(exact);
}

static void collect(const entrant *all, int n, bench_results *out)
{
    for (int i = 0; i < n; i++) {
        const entrant *e = &all[i];
        if (e->kind == BY_READ || e->way == CHAIN || !e->r.replays || out->n_rows == MANY_ROWS)
            continue;
        result_row *r = &out->row[out->n_rows++];
        *r = (result_row){.by = bench_by[e->kind],
                          .format = e->w->name,
                          .rows = e->w->rows,
                          .cols = e->w->cols,
                          .columns = e->columns,
                          .bytes = (double)e->w->m.g.bytes,
                          .rms = e->rms,
                          .state = race_state};
        r->t[PLAIN] = timing_of(&e->r, 1);
        for (int k = 0; k < n; k++) {
            const entrant *o = &all[k];
            if (o->w != e->w) continue;
            if (o->kind == BY_READ) {
                r->read[o->way] = timing_of(&o->r, 1);
                r->read_way[o->way] = read_way_name(o->read.way);
            }
            if (o->kind == BY_KERF && e->kind == BY_KERF && o->way == CHAIN &&
                o->columns == e->columns)
                r->t[CHAIN] = timing_of(&o->r, 1);
        }
    }
}

void bench_shape(extent size, const bench_options *o, double deadline, bench_results *out)
{
    int each = 3 * o->n_columns + 4, n = 0;
    size_t room = (size_t)(o->n_formats * each);
    entrant *all = bench_room(room * sizeof *all);
    racer **racers = bench_room(room * sizeof *racers);
    weights *w = bench_room((size_t)o->n_formats * sizeof *w);
    double began = race_now();
    make_common(size, o->x);
    for (int i = 0; i < o->n_formats; i++) {
        w[i] = weights_new(&o->formats[i], size.rows, size.cols, o->rotated_bytes);
        add_format(all, &n, &w[i], o);
    }
    double ready = race_now();
    for (int i = 0; i < n; i++) racers[i] = &all[i].r;
    race_run(racers, n, WARM, o->replays, deadline, bench_stream);
    collect(all, n, out);
    printf("%llu x %llu: %d contestants, %.1f s to make, %.1f s to measure, SM %u MHz, memory %u "
           "MHz, %.0f W\n",
           (unsigned long long)size.rows, (unsigned long long)size.cols, n, ready - began,
           race_now() - ready, race_state.sm_mhz, race_state.memory_mhz, race_state.power_w);
    fflush(stdout);
    for (int i = 0; i < n; i++) {
        race_free(&all[i].r);
        kerf_gemv_plan_free(all[i].plan);
        if (all[i].blas.ways) blas_free(&all[i].blas);
    }
    for (int i = 0; i < o->n_formats; i++) weights_free(&w[i]);
    free_common();
    free(w);
    free(racers);
    free(all);
}
