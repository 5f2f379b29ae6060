/* gemv_ggml.c - Y = W x by ggml and by kerf on the same bytes, in turns.
 *
 *   gemv_ggml [ROWS COLS TRIALS THREADS]
 *
 * GGUF's block types are formats of kerf, so both read the same planes: ggml's mat-vec on one side
 * (its graph with one product, which rounds x to 8 bits first), kerf_gemv_run on the other, with x
 * as F32, as ggml takes it, and as BF16. Weights rotate over copies of 256 MiB in total. Prints the
 * median time of each and the median of ggml's time over kerf's of the same turn, by the clock and
 * by processor time of all threads, and the error of each against double arithmetic, as a share of
 * rms(y). One JSON document on stdout. Run with OMP_WAIT_POLICY=passive.
 *
 * ggml comes from the source package llama-cpp-python of PyPI (vendor/llama.cpp/ggml, built with
 * GGML_NATIVE=ON and static): link this with libggml-cpu.a, libggml-base.a and libkerf.a. Not in
 * kerf's own build. ggml's kernels here are those for blocks in file order, not its repacked ones.
 */
#include <kerf/gemv.h>

#include <ggml-cpu.h>
#include <ggml.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROTATED ((size_t)256 << 20)
#define MAX_TRIALS 256
#define SIDES 3

static const struct pair {
    const char *format;
    enum ggml_type type;
} pairs[] = {{"ggml-q8_0", GGML_TYPE_Q8_0},
             {"ggml-q4_0", GGML_TYPE_Q4_0},
             {"ggml-mxfp4", GGML_TYPE_MXFP4},
             {"ggml-nvfp4", GGML_TYPE_NVFP4}};

static void die(const char *what)
{
    fprintf(stderr, "gemv_ggml: %s\n", what);
    exit(1);
}

static void *must(void *p)
{
    if (!p) die("out of memory");
    return p;
}

static double clock_s(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2];
}

static float noise(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*seed >> 32) * 0x1p-31f;
}

/* ggml's side: one graph per copy of W over one context. */
typedef struct peer {
    struct ggml_context *context;
    struct ggml_cgraph *graph;
    struct ggml_tensor *y;
    struct ggml_cplan plan;
} peer;

static peer peer_new(enum ggml_type type, size_t rows, size_t cols, void *w, const float *x,
                     int threads, struct ggml_threadpool *pool)
{
    struct ggml_init_params params = {ggml_graph_overhead() + ((size_t)8 << 20) + rows * 8, NULL,
                                      false};
    peer p = {.context = must(ggml_init(params))};
    struct ggml_tensor *a = ggml_new_tensor_2d(p.context, GGML_TYPE_F32, 1, 1), *b;
    b = ggml_new_tensor_1d(p.context, GGML_TYPE_F32, (int64_t)cols);
    memcpy(b->data, x, cols * sizeof *x);
    ggml_set_no_alloc(p.context, true);
    a = ggml_new_tensor_2d(p.context, type, (int64_t)cols, (int64_t)rows);
    a->data = w;
    ggml_set_no_alloc(p.context, false);
    p.y = ggml_mul_mat(p.context, a, b);
    p.graph = ggml_new_graph_custom(p.context, 8, false);
    ggml_build_forward_expand(p.graph, p.y);
    p.plan = ggml_graph_plan(p.graph, threads, pool);
    p.plan.work_data = must(malloc(p.plan.work_size + 1));
    return p;
}

typedef struct side {
    kerf_gemv *plan;
    kerf_gemv_args args;
} side;

static side side_new(const kerf_format *f, size_t rows, size_t cols, kerf_dtype type,
                     const float *x, int threads)
{
    side s = {0};
    kerf_error err;
    kerf_exec exec = {.threads = threads};
    kerf_gemv_shape shape = {
        .format = f, .rows = rows, .cols = cols, .columns = 1, .x = type, .y = KERF_F32};
    if (kerf_gemv_plan_create(&s.plan, &shape, &exec, &err) != KERF_OK) die(err.text);
    size_t size = kerf_dtype_bits(type) / 8;
    uint8_t *raw = must(malloc(cols * size));
    for (size_t i = 0; i < cols; i++) /* x has few enough bits for either type */
        memcpy(raw + i * size, (const uint8_t *)&x[i] + 4 - size, size);
    s.args.x = (kerf_cspan){raw, cols * size};
    s.args.y = (kerf_span){must(malloc(rows * 4)), rows * 4};
    s.args.workspace.n = kerf_gemv_workspace(s.plan);
    s.args.workspace.p = must(malloc(s.args.workspace.n + 1));
    return s;
}

static double error_of(const float *y, const double *exact, size_t n)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)y[i] - exact[i]) * ((double)y[i] - exact[i]);
        size += exact[i] * exact[i];
    }
    return sqrt(error / size);
}

static void compare(const struct pair *pair, size_t rows, size_t cols, size_t trials, int threads,
                    struct ggml_threadpool *pool, int first)
{
    const kerf_format *f = kerf_format_find(pair->format);
    kerf_shape shape = {2, {rows, cols}};
    kerf_geometry g;
    uint64_t seed = 7;
    if (!f || kerf_geometry_init(&g, f, &shape, NULL) != KERF_OK) die(pair->format);
    float *w = must(malloc(rows * cols * 4)), *x = must(malloc(cols * 4));
    for (size_t i = 0; i < rows * cols; i++) w[i] = noise(&seed) + noise(&seed);
    for (size_t i = 0; i < cols; i++) { /* bfloat16 numbers, some large */
        uint32_t u;
        x[i] = noise(&seed) * (i % 64 == 0 ? 8 : 1);
        memcpy(&u, &x[i], 4);
        u &= 0xffff0000;
        memcpy(&x[i], &u, 4);
    }
    size_t copies = ROTATED / g.bytes + 2;
    uint8_t **planes = must(malloc(copies * sizeof *planes));
    for (size_t i = 0; i < copies; i++)
        planes[i] = must(aligned_alloc(64, (g.bytes + 127) / 64 * 64));
    kerf_span out[KERF_PLANES] = {{planes[0], g.bytes}};
    if (kerf_encode(&g, kerf_encoder_at(f, 0), NULL, 0, g.bands, (kerf_cspan){w, rows * cols * 4},
                    KERF_F32, out, NULL, NULL) != KERF_OK)
        die("encode");
    for (size_t i = 1; i < copies; i++) memcpy(planes[i], planes[0], g.bytes);

    kerf_cspan in[KERF_PLANES] = {{planes[0], g.bytes}};
    if (kerf_decode(&g, 0, g.bands, in, (kerf_span){w, rows * cols * 4}, KERF_F32, NULL, NULL) !=
        KERF_OK)
        die("decode");
    double *exact = must(calloc(rows, sizeof *exact));
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < cols; k++) exact[r] += (double)w[r * cols + k] * (double)x[k];

    peer *peers = must(malloc(copies * sizeof *peers));
    for (size_t i = 0; i < copies; i++)
        peers[i] = peer_new(pair->type, rows, cols, planes[i], x, threads, pool);
    side sides[2] = {side_new(f, rows, cols, KERF_F32, x, threads),
                     side_new(f, rows, cols, KERF_BF16, x, threads)};
    static double wall[SIDES][MAX_TRIALS], cpu[SIDES][MAX_TRIALS], ratio[2][2][MAX_TRIALS];
    size_t next = 0;
    for (size_t t = 0; t < trials + 2; t++) {
        for (int i = 0; i < SIDES; i++) {
            size_t copy = next++ % copies, at = t < 2 ? 0 : t - 2;
            double w0 = clock_s(CLOCK_MONOTONIC), c0 = clock_s(CLOCK_PROCESS_CPUTIME_ID);
            if (i == 0)
                ggml_graph_compute(peers[copy].graph, &peers[copy].plan);
            else {
                sides[i - 1].args.weights[0] = (kerf_cspan){planes[copy], g.bytes};
                if (kerf_gemv_run(sides[i - 1].plan, &sides[i - 1].args, NULL, NULL) != KERF_OK)
                    die("run");
            }
            wall[i][at] = clock_s(CLOCK_MONOTONIC) - w0;
            cpu[i][at] = clock_s(CLOCK_PROCESS_CPUTIME_ID) - c0;
            if (i) {
                ratio[i - 1][0][at] = wall[0][at] / wall[i][at];
                ratio[i - 1][1][at] = cpu[0][at] / cpu[i][at];
            }
        }
    }
    printf(
        "%s\n  {\"format\": \"%s\", \"ggml_us\": %.1f, \"ggml_cpu_us\": %.1f, \"ggml_error\": %.2e",
        first ? "" : ",", f->name, 1e6 * median(wall[0], trials), 1e6 * median(cpu[0], trials),
        error_of(peers[0].y->data, exact, rows));
    for (int i = 1; i < SIDES; i++) {
        const char *type = i == 1 ? "f32" : "bf16";
        printf(",\n   \"%s_backend\": \"%s\", \"%s_us\": %.1f, \"%s_cpu_us\": %.1f, \"%s_ratio\": "
               "%.3f, "
               "\"%s_cpu_ratio\": %.3f, \"%s_error\": %.2e",
               type, kerf_gemv_backend(sides[i - 1].plan), type, 1e6 * median(wall[i], trials),
               type, 1e6 * median(cpu[i], trials), type, median(ratio[i - 1][0], trials), type,
               median(ratio[i - 1][1], trials), type, error_of(sides[i - 1].args.y.p, exact, rows));
    }
    printf("}");
    fflush(stdout);
    for (size_t i = 0; i < copies; i++) {
        ggml_free(peers[i].context);
        free(peers[i].plan.work_data);
        free(planes[i]);
    }
    free(planes), free(peers), free(w), free(x), free(exact);
}

int main(int argc, char **argv)
{
    size_t rows = argc > 1 ? strtoul(argv[1], NULL, 10) : 4096;
    size_t cols = argc > 2 ? strtoul(argv[2], NULL, 10) : 14336;
    size_t trials = argc > 3 ? strtoul(argv[3], NULL, 10) : 31;
    int threads = argc > 4 ? atoi(argv[4]) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (trials < 1 || trials > MAX_TRIALS || rows < 1 || cols % 64 || threads < 1)
        die("ROWS COLS TRIALS THREADS; COLS a multiple of 64, at most 256 trials");
    ggml_cpu_init();
    printf(
        "{\"schema\": \"kerf.bench.gemv-ggml/1\", \"rows\": %zu, \"cols\": %zu, \"threads\": %d, "
        "\"trials\": %zu, \"compiler\": \"%s\", \"results\": [",
        rows, cols, threads, trials, __VERSION__);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        compare(&pairs[i], rows, cols, trials, threads, NULL, i == 0);
    printf("\n]}\n");
    return 0;
}
