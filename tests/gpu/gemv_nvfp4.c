/* gemv_nvfp4.c - the NVFP4 x NVFP4 product: on the processor against a sum in double over
 * kerf_decode's numbers, and on a GPU against the processor.
 *
 *   gemv_nvfp4            everything; without a GPU the processor's half, and exit status 77
 *   gemv_nvfp4 brief      a few small shapes: what compute-sanitizer is run over
 *   gemv_nvfp4 variants   and every instance of the kernel
 *
 * Codes are full range with both signs; scales are every byte, or every one that is a number. */
#include "block/scale_tiles.h"
#include "gemv_nvfp4_plan.h"

#include <kerf/cuda.h>

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static kerf_error error;
static kerf_device *gpu;
static uint64_t checks, failures;

static int check(int good, const char *what, const char *detail)
{
    checks++;
    if (good) return 1;
    failures++;
    if (failures < 50) printf("FAILED %s: %s\n", what, detail);
    return 0;
}

static void need(kerf_status s, const char *what)
{
    if (s == KERF_OK) return;
    printf("%s: %s\n", what, error.text);
    exit(1);
}

static void *allocate(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (p) return p;
    printf("out of memory\n");
    exit(1);
}

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* --- a problem in host memory ----------------------------------------------------------------- */

typedef enum data {
    ANY_NUMBERS, /* every code, every scale that is not NaN, second-level scales and alpha     */
    BELL,        /* scales of about 1: what weights look like                                   */
    POWERS,      /* powers of two without signs: every order of summation is exact              */
    NANS         /* as ANY_NUMBERS, a few scales of A NaN, and one of the last vector's         */
} data;

typedef struct problem {
    uint64_t rows, cols, batch, blocks;
    kerf_scale_order a_order, b_order;
    data kind;
    uint8_t *a, *b, *sa, *sb;    /* codes, scales in rows                  */
    uint8_t *ta, *tb;            /* scales as a_order and b_order have them */
    size_t a_n, b_n, sa_n, sb_n; /* bytes; sa, sb: of ta and tb            */
    float *second_a, *second_b, alpha;
    double *want, *size; /* of y, and of S times all factors      */
} problem;

static uint8_t scale_of(data kind, uint64_t r)
{
    uint8_t s = (uint8_t)(r >> 8);
    if (kind == BELL) return (uint8_t)(0x30 + s % 16);
    if (kind == POWERS) return (uint8_t)(0x30 + s % 3 * 8);
    return (s & 0x7f) == 0x7f ? (uint8_t)(s - 1) : s;
}

static void fill(uint8_t *codes, size_t n, uint8_t *scales, size_t blocks, data kind, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) codes[i] = kind == POWERS ? 0x22 : (uint8_t)mix(seed + i);
    for (size_t i = 0; i < blocks; i++) scales[i] = scale_of(kind, mix(seed + n + i));
}

static uint8_t *order_scales(kerf_scale_order order, uint64_t batch, uint64_t rows, uint64_t blocks,
                             const uint8_t *plain, size_t *n)
{
    uint64_t bytes = batch * rows * blocks;
    if (order == KERF_SCALES_TILES)
        need(kerf_tiled_scale_bytes(batch, rows, blocks, &bytes, &error), "tiles");
    uint8_t *out = allocate(bytes);
    *n = bytes;
    if (order == KERF_SCALES_ROWS) {
        memcpy(out, plain, bytes);
        return out;
    }
    need(kerf_scales_to_tiles(batch, rows, blocks, (kerf_cspan){plain, batch * rows * blocks},
                              (kerf_span){out, bytes}, &error),
         "tiles");
    /* What pads the edges must not matter: NaN wherever no scale lies. */
    uint8_t *used = allocate(bytes);
    memset(used, 0, bytes);
    for (uint64_t l = 0; l < batch; l++)
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t c = 0; c < blocks; c++)
                used[l * (bytes / batch) + kf_tiled_place(r, c, kf_div_up(blocks, KF_TILE_COLS))] =
                    1;
    for (size_t i = 0; i < bytes; i++)
        if (!used[i]) out[i] = 0x7f;
    free(used);
    return out;
}

/* A row of numbers by kerf_decode, without second-level scales. */
static void decode_rows(const uint8_t *codes, const uint8_t *scales, uint64_t rows, uint64_t cols,
                        float *out)
{
    static const float one = 1;
    kerf_shape shape = {2, {rows, cols}};
    kerf_geometry g;
    need(kerf_geometry_init(&g, kerf_format_find("nvfp4"), &shape, &error), "geometry");
    kerf_cspan planes[KERF_PLANES] = {
        [KERF_PLANE_CODES] = {codes, g.plane[KERF_PLANE_CODES].bytes},
        [KERF_PLANE_SCALES] = {scales, g.plane[KERF_PLANE_SCALES].bytes},
        [KERF_PLANE_SECOND] = {&one, sizeof one}};
    need(kerf_decode(&g, 0, g.bands, planes, (kerf_span){out, rows * cols * 4}, KERF_F32, NULL,
                     &error),
         "decode");
}

static void find_want(problem *p)
{
    float *a = allocate(4 * p->cols), *b = allocate(4 * p->cols);
    for (uint64_t l = 0; l < p->batch; l++) {
        decode_rows(p->b + l * p->cols / 2, p->sb + l * p->blocks, 1, p->cols, b);
        double factor = (double)p->alpha * p->second_a[l] * p->second_b[l];
        for (uint64_t r = 0; r < p->rows; r++) {
            uint64_t row = l * p->rows + r;
            double sum = 0, size = 0;
            decode_rows(p->a + row * (p->cols / 2), p->sa + row * p->blocks, 1, p->cols, a);
            for (uint64_t k = 0; k < p->cols; k++) {
                sum += (double)a[k] * b[k];
                size += fabs((double)a[k] * b[k]);
            }
            p->want[row] = sum * factor;
            p->size[row] = size * fabs(factor);
        }
    }
    free(a);
    free(b);
}

static problem make_problem(uint64_t rows, uint64_t cols, uint64_t batch, kerf_scale_order a_order,
                            kerf_scale_order b_order, data kind)
{
    problem p = {.rows = rows, .cols = cols, .batch = batch, .blocks = cols / 16};
    uint64_t seed = rows * 1000003 + cols * 1009 + batch + (uint64_t)kind * 77777777;
    p.a_order = a_order;
    p.b_order = b_order;
    p.kind = kind;
    p.alpha = kind == ANY_NUMBERS || kind == NANS ? 0x1.8p-30f : kind == BELL ? 0x1p-8f : 0x1p-20f;
    p.a_n = batch * rows * cols / 2;
    p.b_n = batch * cols / 2;
    p.a = allocate(p.a_n);
    p.b = allocate(p.b_n);
    p.sa = allocate(batch * rows * p.blocks);
    p.sb = allocate(batch * p.blocks);
    fill(p.a, p.a_n, p.sa, batch * rows * p.blocks, kind, seed);
    fill(p.b, p.b_n, p.sb, batch * p.blocks, kind, seed + 1000000007);
    for (uint64_t i = 0; i < batch * rows && kind == NANS && p.blocks; i += 5)
        p.sa[i * p.blocks + mix(seed + i) % p.blocks] = i % 2 ? 0x7f : 0xff;
    if (kind == NANS && p.blocks) p.sb[batch * p.blocks - 1] = 0x7f;
    p.ta = order_scales(a_order, batch, rows, p.blocks, p.sa, &p.sa_n);
    p.tb = order_scales(b_order, batch, 1, p.blocks, p.sb, &p.sb_n);
    p.second_a = allocate(4 * batch);
    p.second_b = allocate(4 * batch);
    for (uint64_t l = 0; l < batch; l++) {
        p.second_a[l] = kind == POWERS ? 0.5f : 1.0f + 0.3f * (float)l;
        p.second_b[l] = kind == POWERS ? 4.0f : 0.7f - 0.2f * (float)l;
    }
    p.want = allocate(8 * batch * rows);
    p.size = allocate(8 * batch * rows);
    find_want(&p);
    return p;
}

static void free_problem(problem *p)
{
    void *all[] = {p->a,  p->b,        p->sa,       p->sb,   p->ta,
                   p->tb, p->second_a, p->second_b, p->want, p->size};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

static kerf_gemv_nvfp4_shape shape_of(const problem *p, kerf_dtype y, unsigned flags)
{
    return (kerf_gemv_nvfp4_shape){p->rows, p->cols, p->batch, y, p->a_order, p->b_order, flags};
}

/* --- comparison ------------------------------------------------------------------------------- */

static double number_at(kerf_dtype t, const uint8_t *y, size_t i)
{
    uint32_t u = 0;
    float f;
    if (t == KERF_F32) {
        memcpy(&f, y + 4 * i, 4);
        return (double)f;
    }
    memcpy(&u, y + 2 * i, 2);
    if (t == KERF_BF16) {
        u <<= 16;
        memcpy(&f, &u, 4);
        return (double)f;
    }
    int e = (int)(u >> 10 & 31), m = (int)(u & 1023);
    double v =
        e == 31 ? (m ? (double)NAN : (double)INFINITY) : ldexp(e ? m + 1024 : m, e ? e - 25 : -24);
    return u >> 15 ? -v : v;
}

/* Half a unit in the last place of a number of the type, or of its subnormals. */
static double rounding(kerf_dtype t, double v)
{
    int bits = t == KERF_F32 ? 24 : t == KERF_F16 ? 11 : 8;
    double tiny = t == KERF_F16 ? 0x1p-25 : 0x1p-134;
    return fmax(fabs(v) * ldexp(1, -bits), tiny);
}

static void compare(const problem *p, kerf_dtype t, double bound, const uint8_t *y,
                    const char *what)
{
    static const char *const kinds[] = {"numbers", "bell", "powers", "nan"};
    char text[200];
    uint64_t bad = 0, first = 0, nans = 0;
    for (uint64_t i = 0; i < p->batch * p->rows; i++) {
        double got = number_at(t, y, i), want = p->want[i];
        double room = p->kind == POWERS ? 0 : 1.001 * bound * p->size[i];
        int right = isnan(want) ? isnan(got) : fabs(got - want) <= room + rounding(t, want);
        if (p->kind == POWERS && t == KERF_F32) right = got == want; /* no sum needs 24 bits */
        nans += isnan(want) != 0;
        if (!right && bad++ == 0) first = i;
    }
    snprintf(text, sizeof text, "%llu x %llu x %llu %s: %llu wrong, y[%llu] = %g, not %g",
             (unsigned long long)p->rows, (unsigned long long)p->cols, (unsigned long long)p->batch,
             kinds[p->kind], (unsigned long long)bad, (unsigned long long)first,
             number_at(t, y, first), p->want[first]);
    check(bad == 0, what, text);
    if (p->kind == NANS && p->rows && p->blocks)
        check(nans > 0 && (p->batch == 1 || nans < p->rows * p->batch), what, "no NaN in the case");
}

/* --- the processor ---------------------------------------------------------------------------- */

static kerf_gemv_nvfp4_args host_args(const problem *p, void *y, size_t n)
{
    kerf_gemv_nvfp4_args x = {.y = {y, n}, .alpha = p->alpha};
    x.a[KERF_PLANE_CODES] = (kerf_cspan){p->a, p->a_n};
    x.a[KERF_PLANE_SCALES] = (kerf_cspan){p->ta, p->sa_n};
    x.a[KERF_PLANE_SECOND] = (kerf_cspan){p->second_a, 4 * p->batch};
    x.b[KERF_PLANE_CODES] = (kerf_cspan){p->b, p->b_n};
    x.b[KERF_PLANE_SCALES] = (kerf_cspan){p->tb, p->sb_n};
    x.b[KERF_PLANE_SECOND] = (kerf_cspan){p->second_b, 4 * p->batch};
    return x;
}

static void test_host(const problem *p, kerf_dtype t)
{
    kerf_gemv_nvfp4_shape shape = shape_of(p, t, 0);
    size_t n = p->batch * p->rows * (kerf_dtype_bits(t) / 8);
    uint8_t *y = allocate(n);
    kerf_gemv_nvfp4 *plan;
    memset(y, 0xff, n);
    need(kerf_gemv_nvfp4_plan_create(&plan, &shape, NULL, &error), "plan");
    kerf_gemv_nvfp4_args x = host_args(p, y, n);
    need(kerf_gemv_nvfp4_run(plan, &x, NULL, &error), "run");
    compare(p, t, kerf_gemv_nvfp4_bound(plan), y, "processor");
    kerf_gemv_nvfp4_plan_free(plan);
    free(y);
}

static void test_refusals(void)
{
    kerf_gemv_nvfp4_shape good = {8, 64, 1, KERF_F16, KERF_SCALES_ROWS, KERF_SCALES_ROWS, 0},
                          s = good;
    kerf_gemv_nvfp4 *plan;
    s.cols = 40;
    check(kerf_gemv_nvfp4_plan_create(&plan, &s, NULL, &error) == KERF_E_NOSUP && !plan,
          "40 columns", error.text);
    s = good, s.y = KERF_U8;
    check(kerf_gemv_nvfp4_plan_create(&plan, &s, NULL, &error) == KERF_E_NOSUP, "y of U8",
          error.text);
    s = good, s.flags = 8;
    check(kerf_gemv_nvfp4_plan_create(&plan, &s, NULL, &error) == KERF_E_ARG, "a flag", error.text);
    s = good, s.rows = UINT64_MAX / 2;
    check(kerf_gemv_nvfp4_plan_create(&plan, &s, NULL, &error) == KERF_E_RANGE, "rows", error.text);
    s = good, s.batch = UINT64_MAX / 16;
    check(kerf_gemv_nvfp4_plan_create(&plan, &s, NULL, &error) == KERF_E_RANGE, "batch",
          error.text);
    need(kerf_gemv_nvfp4_plan_create(&plan, &good, NULL, &error), "plan");
    uint8_t memory[512] = {0};
    kerf_gemv_nvfp4_args x = {.y = {memory, 16}};
    x.a[0] = (kerf_cspan){memory, 256};
    x.a[1] = (kerf_cspan){memory, 32};
    x.b[0] = (kerf_cspan){memory, 32};
    x.b[1] = (kerf_cspan){memory, 3};
    check(kerf_gemv_nvfp4_run(plan, &x, NULL, &error) == KERF_E_BUFFER, "3 scales", error.text);
    x.b[1].n = 4, x.y.n = 15;
    check(kerf_gemv_nvfp4_run(plan, &x, NULL, &error) == KERF_E_BUFFER, "short y", error.text);
    x.y = (kerf_span){NULL, 16};
    check(kerf_gemv_nvfp4_run(plan, &x, NULL, &error) == KERF_E_ARG, "no y", error.text);
    kerf_gemv_nvfp4_plan_free(plan);
    kerf_gemv_nvfp4_plan_free(NULL);
}

/* --- the GPU ---------------------------------------------------------------------------------- */

/* Every span of a problem on the device, each `shift` bytes off its allocation. */
typedef struct on_device {
    kerf_dbuf buf[7];
    kerf_gemv_nvfp4_args args;
} on_device;

static on_device send(const problem *p, size_t y_bytes, size_t shift)
{
    on_device d;
    kerf_gemv_nvfp4_args x = host_args(p, NULL, y_bytes);
    kerf_cspan *all[] = {&x.a[0], &x.a[1], &x.a[2], &x.b[0], &x.b[1], &x.b[2]};
    for (int i = 0; i < 6; i++) {
        size_t off = i % 3 == 2 ? 0 : shift;
        need(kerf_dbuf_alloc(gpu, all[i]->n + off + 1, &d.buf[i], &error), "allocation");
        need(kerf_dbuf_write(&d.buf[i], off, all[i]->p, all[i]->n, &error), "copy");
        all[i]->p = (uint8_t *)d.buf[i].p + off;
    }
    need(kerf_dbuf_alloc(gpu, y_bytes + 64, &d.buf[6], &error), "allocation");
    x.y.p = d.buf[6].p;
    d.args = x;
    return d;
}

static void free_device(on_device *d)
{
    for (int i = 0; i < 7; i++) kerf_dbuf_free(&d->buf[i]);
}

/* Runs and fetches y; what lies after it must not change. */
static void run_once(const kerf_gemv_nvfp4 *plan, const on_device *d, uint8_t *y, size_t n)
{
    uint8_t *poison = allocate(n + 64);
    memset(poison, 0xff, n + 64);
    need(kerf_dbuf_write(&d->buf[6], 0, poison, n + 64, &error), "poison");
    need(kerf_gemv_nvfp4_run(plan, &d->args, kerf_device_stream(gpu), &error), "run");
    need(kerf_device_wait(gpu, NULL, &error), "wait");
    need(kerf_dbuf_read(&d->buf[6], 0, poison, n + 64, &error), "copy");
    memcpy(y, poison, n);
    int intact = 1;
    for (int i = 0; i < 64; i++) intact &= poison[n + (size_t)i] == 0xff;
    check(intact, "GPU", "written past y");
    free(poison);
}

static void test_gpu(const problem *p, kerf_dtype t, unsigned flags, size_t shift,
                     const kf_nvfp4_tuning *tuning)
{
    kerf_gemv_nvfp4_shape shape = shape_of(p, t, flags);
    kerf_exec exec = {.device = gpu};
    size_t n = p->batch * p->rows * (kerf_dtype_bits(t) / 8);
    uint8_t *y = allocate(n);
    kerf_gemv_nvfp4 *plan;
    need(kerf_gemv_nvfp4_plan_create(&plan, &shape, &exec, &error), "plan");
    if (tuning && plan->fast) need(kf_nvfp4_cuda_plan(plan, gpu, tuning, &error), "plan");
    int fast = p->cols % 32 == 0 && p->cols <= 32768 && p->cols > 0;
    check(strcmp(kerf_gemv_nvfp4_backend(plan), fast ? "cuda" : "cuda-any") == 0, "backend",
          kerf_gemv_nvfp4_backend(plan));
    on_device d = send(p, n, shift);
    run_once(plan, &d, y, n);
    compare(p, t, kerf_gemv_nvfp4_bound(plan), y,
            tuning  ? kf_nvfp4_cuda_variant(tuning->variant)
            : shift ? "GPU, off by some bytes"
                    : "GPU");
    free_device(&d);
    kerf_gemv_nvfp4_plan_free(plan);
    free(y);
}

/* The same bits from 1000 calls, half of them in a graph, with and without early reads. */
static void test_repeats(const problem *p)
{
    enum { GRAPH = 100 };
    kerf_exec exec = {.device = gpu};
    size_t n = 4 * p->batch * p->rows;
    uint8_t *first = allocate(n), *y = allocate(n);
    cudaStream_t stream = kerf_device_stream(gpu);
    for (unsigned flags = 0; flags < 2; flags++) {
        kerf_gemv_nvfp4_shape shape = shape_of(p, KERF_F32, flags);
        kerf_gemv_nvfp4 *plan;
        cudaGraph_t graph;
        cudaGraphExec_t instance;
        int same = 1;
        need(kerf_gemv_nvfp4_plan_create(&plan, &shape, &exec, &error), "plan");
        on_device d = send(p, n, 0);
        run_once(plan, &d, first, n);
        compare(p, KERF_F32, kerf_gemv_nvfp4_bound(plan), first, "first of 1000");
        for (int i = 0; i < 250; i++) {
            run_once(plan, &d, y, n);
            same &= memcmp(first, y, n) == 0;
        }
        check(same, "250 calls", "differ");
        int ok = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
        for (int i = 0; i < GRAPH; i++)
            need(kerf_gemv_nvfp4_run(plan, &d.args, stream, &error), "run while capturing");
        ok &= cudaStreamEndCapture(stream, &graph) == cudaSuccess;
        ok &= cudaGraphInstantiate(&instance, graph, 0) == cudaSuccess;
        if (check(ok, "graph", "cannot be captured"))
            for (int i = 0; i < 3; i++) {
                memset(y, 0xff, n);
                need(kerf_dbuf_write(&d.buf[6], 0, y, n, &error), "poison");
                check(cudaGraphLaunch(instance, stream) == cudaSuccess, "graph",
                      "cannot be launched");
                need(kerf_device_wait(gpu, NULL, &error), "wait");
                need(kerf_dbuf_read(&d.buf[6], 0, y, n, &error), "copy");
                check(memcmp(first, y, n) == 0, "a graph of 100 calls", "differs");
            }
        free_device(&d);
        kerf_gemv_nvfp4_plan_free(plan);
    }
    free(first);
    free(y);
}

/* A chain: the second product multiplies by what the first one's stream wrote just before. Early
 * reads of A must not become early reads of b. */
static void test_chain(void)
{
    problem p = make_problem(256, 2048, 1, KERF_SCALES_ROWS, KERF_SCALES_ROWS, BELL);
    kerf_gemv_nvfp4_shape shape = shape_of(&p, KERF_F32, KERF_GEMV_CONSTANT_WEIGHTS);
    kerf_exec exec = {.device = gpu};
    kerf_gemv_nvfp4 *plan;
    cudaStream_t stream = kerf_device_stream(gpu);
    size_t n = 4 * p.rows;
    uint8_t *y = allocate(n), *old = allocate(p.b_n);
    need(kerf_gemv_nvfp4_plan_create(&plan, &shape, &exec, &error), "plan");
    on_device d = send(&p, n, 0);
    kerf_dbuf fresh;
    need(kerf_dbuf_alloc(gpu, p.b_n, &fresh, &error), "allocation");
    need(kerf_dbuf_write(&fresh, 0, p.b, p.b_n, &error), "copy");
    for (int i = 0; i < 50; i++) {
        memset(old, i, p.b_n);
        need(kerf_dbuf_write(&d.buf[3], 0, old, p.b_n, &error), "copy");
        need(kerf_gemv_nvfp4_run(plan, &d.args, stream, &error), "run");
        (void)cudaMemcpyAsync(d.buf[3].p, fresh.p, p.b_n, cudaMemcpyDeviceToDevice, stream);
        need(kerf_gemv_nvfp4_run(plan, &d.args, stream, &error), "run");
        need(kerf_dbuf_read(&d.buf[6], 0, y, n, &error), "copy");
        compare(&p, KERF_F32, kerf_gemv_nvfp4_bound(plan), y, "b written just before");
    }
    kerf_dbuf_free(&fresh);
    free_device(&d);
    kerf_gemv_nvfp4_plan_free(plan);
    free(y);
    free(old);
    free_problem(&p);
}

/* --- all -------------------------------------------------------------------------------------- */

typedef struct size_of {
    uint64_t rows, cols, batch;
} size_of;

static const size_of brief_sizes[] = {{130, 160, 2}, {5, 48, 1}, {9, 2048, 1}};
static const size_of sizes[] = {{1, 16, 1},      {1, 32, 1},     {3, 48, 2},     {7, 64, 3},
                                {127, 96, 1},    {128, 1024, 1}, {129, 1040, 2}, {257, 1056, 2},
                                {1000, 2048, 4}, {300, 7168, 2}, {65, 16384, 1}, {33, 16416, 1},
                                {20, 32768, 1},  {9, 32800, 1},  {5000, 32, 1},  {2, 4096, 300},
                                {0, 64, 1},      {4, 0, 2},      {700, 4096, 1}};

static void test_size(size_of s, int brief, int variants)
{
    static const kerf_dtype types[] = {KERF_F16, KERF_F32, KERF_BF16};
    for (int order = 0; order < 4; order++)
        for (int kind = 0; kind < 4; kind++) {
            problem p = make_problem(s.rows, s.cols, s.batch, (kerf_scale_order)(order & 1),
                                     (kerf_scale_order)(order >> 1), (data)kind);
            kerf_dtype t = types[(order + kind) % 3];
            test_host(&p, t);
            for (unsigned flags = 0; flags < 2 && gpu; flags++) test_gpu(&p, t, flags, 0, NULL);
            if (gpu && !brief) test_gpu(&p, t, 1, kind % 2 ? 1 : 8, NULL);
            for (unsigned v = 0; gpu && variants && kf_nvfp4_cuda_variant(v); v++)
                for (unsigned threads = 64; threads <= 1024; threads *= 2) {
                    kf_nvfp4_tuning tuning = {v, threads, threads % 3};
                    if (s.cols <= 16384) test_gpu(&p, t, 1, 0, &tuning);
                }
            free_problem(&p);
        }
}

int main(int argc, char **argv)
{
    int brief = argc > 1 && strcmp(argv[1], "brief") == 0;
    int variants = argc > 1 && strcmp(argv[1], "variants") == 0;
    int count = 0;
    if (kerf_device_count(&count, &error) == KERF_OK && count > 0)
        need(kerf_device_open(0, &gpu, &error), "GPU");
    test_refusals();
    size_t n = brief ? sizeof brief_sizes / sizeof brief_sizes[0] : sizeof sizes / sizeof sizes[0];
    for (size_t i = 0; i < n; i++) test_size((brief ? brief_sizes : sizes)[i], brief, variants);
    if (gpu && !brief) {
        problem p = make_problem(500, 7168, 3, KERF_SCALES_TILES, KERF_SCALES_ROWS, BELL);
        test_repeats(&p);
        free_problem(&p);
        test_chain();
    }
    printf("%llu checks, %llu failed%s\n", (unsigned long long)checks, (unsigned long long)failures,
           gpu ? "" : "; no GPU");
    kerf_device_close(gpu);
    return failures ? 1 : gpu ? 0 : 77;
}
