/* gemv_cuda.c - matrix-vector products on the GPU against what its memory can do, and cuBLAS.
 *
 *   gemv_cuda [-o FILE.json] [--formats LIST|all] [--shapes LIST|none] [--columns LIST]
 *             [--decoder LIST|none] [--parts] [--no-baselines] [--replays N] [--budget SECONDS]
 *             [--rotate GB] [--commit ID]        e.g. --formats nvfp4,int8 --shapes 4096x14336
 *
 * Weights rotate over distinct allocations of a gigabyte in total, each with numbers of its own, so
 * all reads are cold; x and y stay in L2, as they do in a model. A graph holds at least 100 calls,
 * and as many as there are copies; it is measured as it is (plain) and with programmatic dependent
 * launch between its kernels (chain). The ceiling of both is a kernel that only reads the same
 * bytes, in the best of several shapes of grid. All contestants of a shape take turns. The error of
 * each is that of sampled rows against double arithmetic on decoded weights, over rms(y).
 *
 * "nvfp4-shuffled" and the like are formats whose codes went through kerf_gemv_shuffle.
 *
 * Baselines: cuBLAS in fp16, the best of cublasGemmEx and cublasLt's algorithms; cublasLt in FP8,
 * which takes no fewer than 16 columns, and x already in FP8. */
#include "gemv_cuda.h"

#include "blas_cuda.h"
#include "read_only.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RMS_LIMIT 1e-3 /* fp16 results round by 2e-4 */

enum { MOST_SHAPES = 16, MANY_ROWS = 4096, MANY_PARTS = 512, WARM = 3 };

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

enum { RUN, READ, BLAS, BLAS8, KINDS };
static const char *const by[KINDS] = {"kerf", "read", "cublas", "cublaslt-fp8"};

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
    return blas_run(&e->blas, e->blas_way, w, e->kind == BLAS ? common.x : common.x8, common.y,
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
            double miss = (double)half(y[c * rows + e->w->row[i]]) - want;
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
    e->r.call = kind == RUN ? call_run : call_blas;
    return e;
}

static void add_read(entrant *all, int *n, const weights *w)
{
    for (int way = 0; way < WAYS_TO_LAUNCH; way++) {
        entrant *e = new_entrant(all, n, READ, way, w, 0);
        size_t bytes = (size_t)w->m.g.bytes / 16 * 16;
        e->read = (read_context){w->copy, w->copies, best_read(w->copy, w->copies, bytes, way), way,
                                 bytes};
        e->r.call = call_read;
        e->r.ctx = &e->read;
        race_prepare(&e->r, bench_stream);
    }
}

/* Plain and in a chain; 0: there is no such plan. */
static int add_run(entrant *all, int *n, const weights *w, unsigned columns, const double *exact)
{
    uint16_t *y = bench_room(columns * w->rows * 2);
    int planned = 1;
    for (int way = 0; way < WAYS_TO_LAUNCH && planned; way++) {
        kerf_exec exec = {.device = bench_gpu};
        kerf_gemv_shape shape = {.format = w->format,
                                 .rows = w->rows,
                                 .cols = w->cols,
                                 .columns = columns,
                                 .x = KERF_F16,
                                 .y = KERF_F16,
                                 .flags =
                                     w->flags | (way == CHAIN ? KERF_GEMV_CONSTANT_WEIGHTS : 0)};
        entrant *e = new_entrant(all, n, RUN, way, w, columns);
        if (kerf_gemv_plan_create(&e->plan, &shape, &exec, &bench_error) != KERF_OK) {
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
        if (e->r.error || e->rms <= RMS_LIMIT) continue;
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
    e->r.error = blas_plan(&e->blas, kind == BLAS ? BLAS_F16 : BLAS_E4M3, (int)w->rows,
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
    if (e->r.error) printf("%s, %u columns: %s\n", by[kind], columns, e->r.error);
    free(y);
}

/* --- results ------------------------------------------------------------------------------------
 */

typedef struct row {
    const char *by, *format;
    uint64_t rows, cols;
    unsigned columns;
    double bytes, rms;
    timing t[WAYS_TO_LAUNCH], read[WAYS_TO_LAUNCH];
    const char *read_way[WAYS_TO_LAUNCH];
    gpu_state state;
} row;

static row rows[MANY_ROWS];
static int n_rows;
static decoder_result decoders[MANY_PARTS];
static int n_decoders;

timing timing_of(const racer *r, double calls)
{
    return (timing){r->median * calls, r->low * calls, r->high * calls, r->replays};
}

static void collect(const entrant *all, int n)
{
    for (int i = 0; i < n; i++) {
        const entrant *e = &all[i];
        if (e->kind == READ || e->way == CHAIN || !e->r.replays || n_rows == MANY_ROWS) continue;
        row *r = &rows[n_rows++];
        *r = (row){.by = by[e->kind],
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
            if (o->kind == READ) {
                r->read[o->way] = timing_of(&o->r, 1);
                r->read_way[o->way] = read_way_name(o->read.way);
            }
            if (o->kind == RUN && e->kind == RUN && o->way == CHAIN && o->columns == e->columns)
                r->t[CHAIN] = timing_of(&o->r, 1);
        }
    }
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static void write_timings(FILE *f, const timing t[WAYS_TO_LAUNCH],
                          const timing read[WAYS_TO_LAUNCH], double bytes)
{
    static const char *const end[] = {"", "_chain"};
    for (int way = 0; way < WAYS_TO_LAUNCH; way++) {
        if (read[way].us > 0) fprintf(f, ", \"read_us%s\": %.3f", end[way], read[way].us);
        if (!(t[way].us > 0)) continue;
        fprintf(f, ", \"us%s\": %.3f, \"low%s\": %.3f, \"high%s\": %.3f, \"gbps%s\": %.0f",
                end[way], t[way].us, end[way], t[way].low, end[way], t[way].high, end[way],
                bytes / t[way].us * 1e-3);
        fprintf(f, ", \"share%s\": %.3f", end[way], ratio(read[way].us, t[way].us));
    }
}

static void write_row(FILE *f, const row *r)
{
    fprintf(f,
            "{\"by\": \"%s\", \"format\": \"%s\", \"rows\": %llu, \"cols\": %llu, \"columns\": %u, "
            "\"bytes\": %.0f, \"replays\": %d",
            r->by, r->format, (unsigned long long)r->rows, (unsigned long long)r->cols, r->columns,
            r->bytes, r->t[PLAIN].replays);
    write_timings(f, r->t, r->read, r->bytes);
    if (isfinite(r->rms)) fprintf(f, ", \"rms\": %.2e", r->rms);
    for (int way = 0; way < WAYS_TO_LAUNCH; way++)
        if (r->read_way[way])
            fprintf(f, ", \"read_grid%s\": \"%s\"", way == CHAIN ? "_chain" : "", r->read_way[way]);
    fprintf(f, ", \"sm_mhz\": %u, \"memory_mhz\": %u, \"power_w\": %.0f, \"temperature_c\": %u}",
            r->state.sm_mhz, r->state.memory_mhz, r->state.power_w, r->state.temperature_c);
}

static void write_decoder(FILE *f, const decoder_result *r)
{
    fprintf(
        f,
        "{\"by\": \"%s\", \"format\": \"%s\", \"part\": \"%s\", \"columns\": %u, \"bytes\": %.0f",
        r->by, r->format, r->part, r->columns, r->bytes);
    write_timings(f, r->t, r->read, r->bytes);
    fprintf(f, "}");
}

static void write_json(const char *path, const bench_options *o, const char *device,
                       const char *commit)
{
    FILE *f = fopen(path, "w");
    gpu_state now = gpu_state_now();
    int cuda = 0;
    if (!f) bench_fail(path, "cannot be written");
    cudaRuntimeGetVersion(&cuda);
    fprintf(
        f,
        "{\n  \"schema\": \"kerf-bench-gemv-cuda-1\",\n  \"device\": \"%s\", \"driver\": \"%s\", ",
        device, now.driver);
    fprintf(f, "\"cuda\": \"%d.%d\", \"cublas\": %d, \"commit\": \"%s\",\n", cuda / 1000,
            cuda % 1000 / 10, blas_version(), commit);
    fprintf(f,
            "  \"x\": \"F16\", \"y\": \"F16\", \"rotated_bytes\": %.0f, \"replays\": %d, "
            "\"seconds\": %.1f,\n",
            o->rotated_bytes, o->replays, race_now() - o->started);
    fprintf(f, "  \"results\": [");
    for (int i = 0; i < n_rows; i++) {
        fprintf(f, "%s\n    ", i ? "," : "");
        write_row(f, &rows[i]);
    }
    fprintf(f, "\n  ],\n  \"decoder\": [");
    for (int i = 0; i < n_decoders; i++) {
        fprintf(f, "%s\n    ", i ? "," : "");
        write_decoder(f, &decoders[i]);
    }
    fprintf(f, "\n  ]\n}\n");
    if (fclose(f) != 0) bench_fail(path, "cannot be written");
}

/* --- one shape ----------------------------------------------------------------------------------
 */

typedef struct extent {
    uint64_t rows, cols;
} extent;

static void make_common(extent size)
{
    size_t n = KERF_GEMV_COLUMNS * size.cols;
    float one = 1;
    memset(&common, 0, sizeof common);
    common.cols = size.cols;
    common.x = bench_device_room(n * 2);
    common.x8 = bench_device_room(n);
    common.y_bytes = KERF_GEMV_COLUMNS * size.rows * 2;
    common.y = bench_device_room(common.y_bytes);
    common.workspace_bytes = (size_t)64 << 20;
    common.workspace = bench_device_room(common.workspace_bytes);
    common.one = bench_device_room(4);
    bench_need_cuda(cudaMemcpyAsync(common.one, &one, 4, cudaMemcpyHostToDevice, bench_stream),
                    "copy");
    bench_need_cuda(fill_numbers(common.x, KERF_F16, n, 1, 0, 77, bench_stream), "x");
    bench_need_cuda(to_e4m3(common.x8, common.x, KERF_F16, n, bench_stream), "x");
    bench_need_cuda(cudaStreamSynchronize(bench_stream), "x");
}

static void free_common(void)
{
    void *all[] = {common.x, common.x8, common.y, common.workspace, common.one};
    for (size_t i = 0; i < 5; i++) bench_need_cuda(cudaFree(all[i]), "free");
}

static void add_format(entrant *all, int *n, const weights *w, const bench_options *o)
{
    double *exact = weights_exact(w, common.x, KERF_F16, KERF_GEMV_COLUMNS);
    int before = *n;
    for (int i = 0; i < o->n_columns; i++) add_run(all, n, w, o->columns[i], exact);
    for (int i = 0; o->baselines && i < o->n_columns; i++)
        if (w->format->id == KERF_FORMAT_FP16) add_blas(all, n, w, BLAS, o->columns[i], exact);
    if (o->baselines && w->format->id == KERF_FORMAT_FP8_E4M3)
        add_blas(all, n, w, BLAS8, KERF_GEMV_COLUMNS, exact);
    if (*n > before) add_read(all, n, w);
    free(exact);
}

static void bench_shape(extent size, const bench_options *o, double deadline)
{
    int each = 3 * o->n_columns + 4, n = 0;
    size_t room = (size_t)(o->n_formats * each);
    entrant *all = bench_room(room * sizeof *all);
    racer **racers = bench_room(room * sizeof *racers);
    weights *w = bench_room((size_t)o->n_formats * sizeof *w);
    double began = race_now();
    make_common(size);
    for (int i = 0; i < o->n_formats; i++) {
        w[i] = weights_new(&o->formats[i], size.rows, size.cols, o->rotated_bytes);
        add_format(all, &n, &w[i], o);
    }
    double ready = race_now();
    for (int i = 0; i < n; i++) racers[i] = &all[i].r;
    race_run(racers, n, WARM, o->replays, deadline, bench_stream);
    collect(all, n);
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

/* --- tables -------------------------------------------------------------------------------------
 */

static const row *find_row(const char *name, const char *format, extent size, unsigned columns)
{
    for (int i = 0; i < n_rows; i++) {
        const row *r = &rows[i];
        if (r->rows == size.rows && r->cols == size.cols && r->columns == columns &&
            strcmp(r->by, name) == 0 && strcmp(r->format, format) == 0)
            return r;
    }
    return NULL;
}

static void print_line(const char *name, const char *format, unsigned columns, const extent *shapes,
                       int n)
{
    int any = 0;
    double rms = 0;
    for (int i = 0; i < n; i++) any |= find_row(name, format, shapes[i], columns) != NULL;
    if (!any) return;
    printf("%-12s %-16s %2u", strcmp(name, "kerf") == 0 ? "" : name, format, columns);
    for (int i = 0; i < n; i++) {
        const row *r = find_row(name, format, shapes[i], columns);
        if (!r) {
            printf(" |%23s", "");
            continue;
        }
        printf(" | %5.1f .%02.0f", r->t[PLAIN].us, 100 * ratio(r->read[PLAIN].us, r->t[PLAIN].us));
        if (r->t[CHAIN].us > 0)
            printf("  %5.1f .%02.0f", r->t[CHAIN].us,
                   100 * ratio(r->read[CHAIN].us, r->t[CHAIN].us));
        else
            printf("%11s", "");
        if (!(r->rms <= rms)) rms = r->rms;
    }
    printf(" | %.1e\n", rms);
}

static void print_tables(const bench_options *o, const extent *shapes, int n)
{
    if (n_rows) {
        printf("\nus and share of reading, plain and in a chain; rms error\n%-31s", "");
        for (int i = 0; i < n; i++)
            printf(" | %12llu x %-8llu", (unsigned long long)shapes[i].rows,
                   (unsigned long long)shapes[i].cols);
        printf("\n");
    }
    for (int c = 0; c < o->n_columns; c++) {
        for (int i = 0; i < o->n_formats; i++)
            print_line("kerf", o->formats[i].name, o->columns[c], shapes, n);
        print_line(by[BLAS], "fp16", o->columns[c], shapes, n);
        print_line(by[BLAS8], "fp8-e4m3", o->columns[c], shapes, n);
    }
    for (int i = 0; i < n_decoders; i++) {
        const decoder_result *r = &decoders[i];
        printf("%-8s %-8s %-16s %2u columns", r->part, r->by, r->format, r->columns);
        for (int way = 0; way < WAYS_TO_LAUNCH; way++)
            if (r->t[way].us > 0)
                printf("  %s %8.1f us %6.0f/s %.3f", way == CHAIN ? "chain" : "plain", r->t[way].us,
                       1e6 / r->t[way].us, ratio(r->read[way].us, r->t[way].us));
        printf("\n");
    }
}

/* --- options ------------------------------------------------------------------------------------
 */

static const char *const default_formats =
    "nvfp4,nvfp4-shuffled,mxfp4,mxfp4-shuffled,int4-g128,int4-g32,int4-g64,int4-row,int4-g128-asym,"
    "nf4,nf4-dq,mxfp6-e2m3,mxfp6-e3m2,mxfp8-e4m3,mxfp8-e5m2,mxint8,fp8-e4m3,fp8-e4m3-row,"
    "fp8-e4m3-128x128,int8,int8-g128,fp16,bf16";
static const char *const default_shapes =
    "4096x4096,14336x4096,4096x14336,8192x8192,28672x8192,7168x16384";
static const char *const default_decoder =
    "nvfp4,nvfp4-shuffled,mxfp4,mxfp4-shuffled,int4-g128,nf4,mxfp6-e2m3,mxfp8-e4m3,fp8-e4m3,int8,"
    "fp16";

double bench_deadline(const bench_options *o, double done)
{
    return o->budget_s > 0 ? o->started + o->budget_s * done : 1e300;
}

/* Calls `take` for each word of a list. */
static void each_word(const char *list, void (*take)(const char *word, void *out), void *out)
{
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", list);
    for (char *p = copy, *word; (word = strsep(&p, ","));)
        if (*word && strcmp(word, "none") != 0) take(word, out);
}

typedef struct format_list {
    variant *at;
    int n;
} format_list;

static void take_format(const char *word, void *out)
{
    static const char end[] = "-shuffled";
    format_list *list = out;
    variant v = {.format = kerf_format_find(word)};
    snprintf(v.name, sizeof v.name, "%s", word);
    size_t n = strlen(v.name), cut = sizeof end - 1;
    if (!v.format && n > cut && strcmp(v.name + n - cut, end) == 0) {
        v.shuffled = 1;
        v.name[n - cut] = 0;
        v.format = kerf_format_find(v.name);
        v.name[n - cut] = end[0];
    }
    if (!v.format) bench_fail(word, "no such format");
    if (list->n < MANY_FORMATS) list->at[list->n++] = v;
}

static int formats_of(const char *list, variant *out)
{
    format_list l = {out, 0};
    if (strcmp(list, "all") == 0) list = default_formats;
    each_word(list, take_format, &l);
    return l.n;
}

typedef struct shape_list {
    extent *at;
    int n;
} shape_list;

static void take_shape(const char *word, void *out)
{
    shape_list *list = out;
    char *x, *end;
    extent e = {strtoull(word, &x, 10), 0};
    e.cols = *x == 'x' ? strtoull(x + 1, &end, 10) : 0;
    if (!e.rows || !e.cols) bench_fail(word, "not ROWSxCOLS");
    if (list->n < MOST_SHAPES) list->at[list->n++] = e;
}

static void take_columns(const char *word, void *out)
{
    bench_options *o = out;
    int n = atoi(word);
    if (n < 1 || n > KERF_GEMV_COLUMNS) bench_fail(word, "1 to 16 columns");
    if (o->n_columns < KERF_GEMV_COLUMNS) o->columns[o->n_columns++] = (unsigned)n;
}

typedef struct arguments {
    const char *out, *formats, *shapes, *columns, *decoder, *commit;
} arguments;

static bench_options parse(int argc, char **argv, arguments *a)
{
    static const struct option known[] = {
        {"formats", 1, NULL, 'f'}, {"shapes", 1, NULL, 's'}, {"columns", 1, NULL, 'c'},
        {"decoder", 1, NULL, 'd'}, {"parts", 0, NULL, 'p'},  {"no-baselines", 0, NULL, 'n'},
        {"replays", 1, NULL, 'r'}, {"budget", 1, NULL, 'b'}, {"rotate", 1, NULL, 'R'},
        {"commit", 1, NULL, 'C'},  {NULL, 0, NULL, 0}};
    bench_options o = {
        .replays = 21, .baselines = 1, .started = race_now(), .rotated_bytes = 1.05e9};
    for (int k; (k = getopt_long(argc, argv, "o:", known, NULL)) != -1;) switch (k) {
        case 'o': a->out = optarg; break;
        case 'f': a->formats = optarg; break;
        case 's': a->shapes = optarg; break;
        case 'c': a->columns = optarg; break;
        case 'd': a->decoder = optarg; break;
        case 'p': o.parts = 1; break;
        case 'n': o.baselines = 0; break;
        case 'r': o.replays = atoi(optarg); break;
        case 'b': o.budget_s = atof(optarg); break;
        case 'R': o.rotated_bytes = 1e9 * atof(optarg); break;
        case 'C': a->commit = optarg; break;
        default: exit(2);
        }
    if (o.replays < 1 || o.replays > RACE_REPLAYS) bench_fail("--replays", "1 to 64");
    o.n_formats = formats_of(a->formats, o.formats);
    o.n_decoder_formats = formats_of(a->decoder, o.decoder_formats);
    each_word(a->columns, take_columns, &o);
    if (!o.n_columns) bench_fail("--columns", "none given");
    return o;
}

int main(int argc, char **argv)
{
    arguments a = {NULL, default_formats, default_shapes, "1,4,8,16", default_decoder, "unknown"};
    extent shapes[MOST_SHAPES];
    shape_list list = {shapes, 0};
    kerf_device_info info;
    bench_options o = parse(argc, argv, &a);
    each_word(a.shapes, take_shape, &list);
    bench_need(kerf_device_describe(0, &info, &bench_error), "GPU");
    bench_need(kerf_device_open(0, &bench_gpu, &bench_error), "GPU");
    bench_need_cuda(cudaStreamCreateWithFlags(&bench_stream, cudaStreamNonBlocking), "stream");
    sink = bench_device_room(4);
    const char *why = o.baselines ? blas_open() : NULL;
    if (why) printf("%s: no baselines\n", why), o.baselines = 0;
    printf("%s, %.1f s to start\n", info.name, race_now() - o.started);
    double weight = 0.85 / (list.n ? list.n : 1);
    for (int i = 0; i < list.n; i++) {
        if (race_now() > bench_deadline(&o, 0.85)) {
            printf("out of time before %llu x %llu\n", (unsigned long long)shapes[i].rows,
                   (unsigned long long)shapes[i].cols);
            break;
        }
        bench_shape(shapes[i], &o, bench_deadline(&o, weight * (i + 1)));
        if (a.out) write_json(a.out, &o, info.name, a.commit);
    }
    if (o.n_decoder_formats) n_decoders = bench_decoder(&o, decoders, MANY_PARTS);
    if (a.out) write_json(a.out, &o, info.name, a.commit);
    print_tables(&o, shapes, list.n);
    printf("%d results, %llu wrong, %.1f s\n", n_rows + n_decoders, (unsigned long long)bench_wrong,
           race_now() - o.started);
    kerf_device_close(bench_gpu);
    return bench_wrong != 0;
}
