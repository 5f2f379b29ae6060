/* gemv.c - how near to the speed of memory Y = W X runs on all cores.
 *
 *   bench_gemv [-m ROWS] [-k COLS] [-c COLUMNS] [-b BACKEND] [-t b|h|f] [-j THREADS] [-n TRIALS]
 *              [-o FILE] [FORMAT...]
 *
 * Each trial streams as many cold bytes as the weights have through the same threads right before
 * the product; the share is the time of the stream over the time of the product. Weights rotate
 * over copies of at least 256 MiB in total, so that no cache holds them; x and y stay warm, as they
 * do in a model. Two figures a format: by the clock on the wall, and /cpu by the processor time of
 * all threads, which other work on the machine disturbs less. Threads sleep while they wait, or
 * waiting would count as work. */
#include "harness.h"

#include <kerf/gemv.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#define ROTATED ((size_t)256 << 20)
#define PATTERN_ROWS 256u /* of random weights, repeated over the matrix */
#define MAX_TRIALS 256

typedef struct options {
    uint64_t rows, cols;
    unsigned columns;
    size_t trials;
    int threads;
    char type;
    const char *backend, *path;
} options;

static double process_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(kerf_status s, const kerf_error *err)
{
    if (s != KERF_OK) bench_die("%s", err->text);
}

/* Reads n bytes on all threads. */
static void stream(const uint8_t *p, size_t n, int threads)
{
    const size_t block = 1u << 17;
    long blocks = (long)((n + block - 1) / block);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (long i = 0; i < blocks; i++) {
        size_t at = (size_t)i * block;
        bench_read_s(p + at, n - at < block ? n - at : block);
    }
    (void)threads;
}

/* Some rows of random numbers, encoded. */
static void encode_pattern(const kerf_geometry *g, kerf_span planes[KERF_PLANES])
{
    size_t n = (size_t)g->elements;
    kerf_cspan in = {bench_alloc(n * 4), n * 4};
    kerf_stats stats = {0};
    kerf_error err = {0};
    bench_weights((void *)(uintptr_t)in.p, n, 'f');
    for (int p = 0; p < KERF_PLANES; p++) {
        size_t bytes = (size_t)g->plane[p].bytes;
        planes[p] = (kerf_span){bench_alloc(bytes + 1), bytes};
    }
    check(kerf_measure(g, 0, g->bands, in, KERF_F32, &stats, NULL, &err), &err);
    check(kerf_encode(g, kerf_encoder_at(g->format, 0), &stats, 0, g->bands, in, KERF_F32, planes,
                      NULL, &err),
          &err);
    free((void *)(uintptr_t)in.p);
}

/* One copy of the matrix: the pattern again and again. */
static void fill_weights(kerf_gemv_args *a, const kerf_geometry *g, const kerf_span *pattern)
{
    for (int p = 0; p < KERF_PLANES; p++) {
        size_t n = (size_t)g->plane[p].bytes;
        uint8_t *to = bench_alloc(n + 1);
        for (size_t at = 0; at < n; at += pattern[p].n)
            memcpy(to + at, pattern[p].p, n - at < pattern[p].n ? n - at : pattern[p].n);
        a->weights[p] = (kerf_cspan){to, n};
    }
}

typedef struct trials {
    double rate[MAX_TRIALS], share[MAX_TRIALS], cpu_rate[MAX_TRIALS], cpu_share[MAX_TRIALS];
} trials;

static void run_trials(const kerf_gemv *plan, const kerf_gemv_args *args, size_t copies,
                       size_t bytes, const uint8_t *cold, const options *o, trials *t)
{
    kerf_error err = {0};
    size_t at = 0, warm = 2;
    for (size_t i = 0; i < o->trials + warm; i++) {
        if (at + bytes > ROTATED) at = 0;
        double w0 = bench_wall_s(), c0 = process_s();
        stream(cold + at, bytes, o->threads);
        double w1 = bench_wall_s(), c1 = process_s();
        check(kerf_gemv_run(plan, &args[i % copies], NULL, &err), &err);
        double w2 = bench_wall_s(), c2 = process_s();
        at += (bytes + 4095) / 4096 * 4096;
        if (i < warm) continue;
        t->rate[i - warm] = (double)bytes / (w2 - w1);
        t->share[i - warm] = (w1 - w0) / (w2 - w1);
        t->cpu_rate[i - warm] = (double)bytes / (c2 - c1);
        t->cpu_share[i - warm] = (c1 - c0) / (c2 - c1);
    }
}

static void time_format(bench_report *r, const kerf_format *f, const options *o,
                        const uint8_t *cold)
{
    kerf_dtype type = o->type == 'f' ? KERF_F32 : o->type == 'h' ? KERF_F16 : KERF_BF16;
    kerf_shape whole = {2, {o->rows, o->cols}};
    kerf_shape part = {2, {o->rows < PATTERN_ROWS ? o->rows : PATTERN_ROWS, o->cols}};
    kerf_geometry g, small;
    kerf_error err = {0};
    kerf_exec exec = {.threads = o->threads, .backend = o->backend};
    kerf_gemv_shape shape = {f, o->rows, o->cols, o->columns, type, type};
    kerf_gemv *plan;
    kerf_span pattern[KERF_PLANES];
    check(kerf_geometry_init(&g, f, &whole, &err), &err);
    check(kerf_geometry_init(&small, f, &part, &err), &err);
    check(kerf_gemv_plan_create(&plan, &shape, &exec, &err), &err);
    encode_pattern(&small, pattern);

    size_t copies = ROTATED / (size_t)g.bytes + 2, size = kerf_dtype_bits(type) / 8;
    size_t x = o->columns * (size_t)o->cols, y = o->columns * (size_t)o->rows;
    kerf_gemv_args *args = bench_alloc(copies * sizeof *args);
    void *x_p = bench_alloc(x * size), *y_p = bench_alloc(y * size);
    void *workspace = bench_alloc(kerf_gemv_workspace(plan) + 1);
    bench_weights(x_p, x, o->type);
    for (size_t i = 0; i < copies; i++) {
        kerf_gemv_args a = {.x = {x_p, x * size}, .y = {y_p, y * size}};
        a.workspace = (kerf_span){workspace, kerf_gemv_workspace(plan)};
        fill_weights(&a, &g, pattern);
        args[i] = a;
    }
    static trials t;
    char name[128];
    run_trials(plan, args, copies, (size_t)g.bytes, cold, o, &t);
    int n = snprintf(name, sizeof name, "gemv/%s/%s/%s/%u", f->name, kerf_dtype_name(type),
                     kerf_gemv_backend(plan), o->columns);
    bench_add(r, name, "bytes/s", bench_summary(t.rate, o->trials), "read",
              bench_summary(t.share, o->trials).median);
    snprintf(name + n, sizeof name - (size_t)n, "/cpu");
    bench_add(r, name, "bytes/s", bench_summary(t.cpu_rate, o->trials), "read",
              bench_summary(t.cpu_share, o->trials).median);

    for (size_t i = 0; i < copies; i++)
        for (int p = 0; p < KERF_PLANES; p++) free((void *)(uintptr_t)args[i].weights[p].p);
    for (int p = 0; p < KERF_PLANES; p++) free(pattern[p].p);
    free(args), free(x_p), free(y_p), free(workspace);
    kerf_gemv_plan_free(plan);
}

static options parse(int argc, char **argv)
{
    options o = {4096, 14336, 1, 31, 1, 'b', NULL, "-"};
    int option;
#ifdef _OPENMP
    o.threads = omp_get_num_procs();
#endif
    while ((option = getopt(argc, argv, "m:k:c:b:t:j:n:o:")) != -1) {
        switch (option) {
        case 'm': o.rows = strtoull(optarg, NULL, 10); break;
        case 'k': o.cols = strtoull(optarg, NULL, 10); break;
        case 'c': o.columns = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'b': o.backend = optarg; break;
        case 't': o.type = optarg[0]; break;
        case 'j': o.threads = (int)strtol(optarg, NULL, 10); break;
        case 'n': o.trials = (size_t)strtoul(optarg, NULL, 10); break;
        case 'o': o.path = optarg; break;
        default: bench_die("the head of bench/gemv.c has the options");
        }
    }
    if (o.trials < 1 || o.trials > MAX_TRIALS) bench_die("from 1 to %d trials", MAX_TRIALS);
    if (o.rows < 1 || o.cols < 1 || o.threads < 1 || o.rows > 1 << 20 || o.cols > 1 << 20)
        bench_die("rows, columns and threads must be from 1 to 2^20");
    return o;
}

int main(int argc, char **argv)
{
    if (!getenv("OMP_WAIT_POLICY")) { /* read when the program is loaded */
        setenv("OMP_WAIT_POLICY", "passive", 1);
        execv("/proc/self/exe", argv);
    }
    options o = parse(argc, argv);
    uint8_t *cold = bench_alloc(ROTATED);
    bench_report *r = bench_open("gemv");
    for (int i = optind; i < argc; i++) {
        const kerf_format *f = kerf_format_find(argv[i]);
        if (!f) bench_die("no format \"%s\"; `kerf formats` lists them", argv[i]);
        time_format(r, f, &o, cold);
    }
    for (size_t i = 0; optind >= argc && i < kerf_format_count(); i++)
        time_format(r, kerf_format_at(i), &o, cold);
    bench_close(r, o.path);
    free(cold);
    return 0;
}
