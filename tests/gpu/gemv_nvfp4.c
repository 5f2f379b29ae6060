/* gemv_nvfp4.c - the NVFP4 x NVFP4 product on a GPU, against sums in double over kerf_decode's
 * numbers.
 *
 *   gemv_nvfp4            every kind of shape; without a GPU exit status 77
 *   gemv_nvfp4 brief      a few small shapes: what compute-sanitizer is run over
 *   gemv_nvfp4 variants   and every instance of the kernel */
#include "unit/nvfp4_case.h"

#include <kerf/cuda.h>

#include <cuda_runtime_api.h>

static kerf_device *gpu;

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
            tuning  ? "GPU, cut otherwise"
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

/* Two plans of one kernel: the later one takes less shared memory, and the earlier one still runs.
 */
static void test_two_plans(void)
{
    const kf_nvfp4_tuning tuning[2] = {{4, 2, 0}, {1, 2, 0}}; /* two pieces of a warp for both */
    problem p[2] = {make_problem(900, 7168, 1, KERF_SCALES_ROWS, KERF_SCALES_ROWS, BELL),
                    make_problem(900, 2048, 1, KERF_SCALES_ROWS, KERF_SCALES_ROWS, BELL)};
    const kerf_exec exec = {.device = gpu};
    kerf_gemv_nvfp4 *plan[2];
    for (int i = 0; i < 2; i++) {
        const kerf_gemv_nvfp4_shape shape = shape_of(&p[i], KERF_F32, 0);
        need(kerf_gemv_nvfp4_plan_create(&plan[i], &shape, &exec, &error), "plan");
        need(kf_nvfp4_cuda_plan(plan[i], gpu, &tuning[i], &error), "plan");
    }
    check(plan[0]->launch.pieces == plan[1]->launch.pieces &&
              plan[0]->launch.shared > plan[1]->launch.shared,
          "two plans", "are not of one kernel, the second one smaller");
    for (int i = 0; i < 2; i++) {
        const size_t n = 4 * p[i].rows;
        uint8_t *y = allocate(n);
        on_device d = send(&p[i], n, 0);
        run_once(plan[i], &d, y, n);
        compare(&p[i], KERF_F32, kerf_gemv_nvfp4_bound(plan[i]), y, "GPU, one of two plans");
        free_device(&d);
        free(y);
    }
    for (int i = 0; i < 2; i++) {
        kerf_gemv_nvfp4_plan_free(plan[i]);
        free_problem(&p[i]);
    }
}

/* --- all -------------------------------------------------------------------------------------- */

typedef struct case_size {
    uint64_t rows, cols, batch;
} case_size;

static const case_size brief_sizes[] = {{130, 160, 2}, {5, 48, 1}, {9, 2048, 1}, {6, 4096, 1}};
static const case_size sizes[] = {
    {1, 16, 1},     {1, 32, 1},     {3, 48, 2},      {7, 64, 3},     {127, 96, 1},   {128, 1024, 1},
    {129, 1040, 2}, {257, 1056, 2}, {1000, 2048, 4}, {300, 7168, 2}, {65, 16384, 1}, {33, 16416, 1},
    {20, 32768, 1}, {9, 32800, 1},  {5000, 32, 1},   {2, 4096, 300}, {0, 64, 1},     {4, 0, 2},
    {700, 4096, 1}, {30000, 96, 1}, {7200, 64, 4}};

static void test_size(case_size s, int brief, int variants)
{
    static const kerf_dtype types[] = {KERF_F16, KERF_F32, KERF_BF16};
    for (int order = 0; order < 4; order++)
        for (int kind = 0; kind < 4; kind++) {
            problem p = make_problem(s.rows, s.cols, s.batch, (kerf_scale_order)(order & 1),
                                     (kerf_scale_order)(order >> 1), (data)kind);
            kerf_dtype t = types[(order + kind) % 3];
            for (unsigned flags = 0; flags < 2; flags++) test_gpu(&p, t, flags, 0, NULL);
            if (!brief) test_gpu(&p, t, 1, kind % 2 ? 1 : 8, NULL);
            for (unsigned parts = 1; variants && parts <= 8; parts *= 2)
                for (unsigned resident = 1; resident <= 2; resident++) {
                    kf_nvfp4_tuning tuning = {parts, resident, kind % 2};
                    if (s.cols <= parts * 8192) test_gpu(&p, t, 1, 0, &tuning);
                }
            free_problem(&p);
        }
}

int main(int argc, char **argv)
{
    int brief = argc > 1 && strcmp(argv[1], "brief") == 0;
    int variants = argc > 1 && strcmp(argv[1], "variants") == 0;
    int count = 0;
    if (kerf_device_count(&count, &error) != KERF_OK || count == 0) {
        printf("no GPU\n");
        return 77;
    }
    need(kerf_device_open(0, &gpu, &error), "GPU");
    size_t n = brief ? sizeof brief_sizes / sizeof brief_sizes[0] : sizeof sizes / sizeof sizes[0];
    for (size_t i = 0; i < n; i++) test_size((brief ? brief_sizes : sizes)[i], brief, variants);
    if (!brief) {
        problem p = make_problem(500, 7168, 3, KERF_SCALES_TILES, KERF_SCALES_ROWS, BELL);
        test_repeats(&p);
        free_problem(&p);
        test_chain();
        test_two_plans();
    }
    printf("%llu checks, %llu failed\n", (unsigned long long)checks, (unsigned long long)failures);
    kerf_device_close(gpu);
    return failures != 0;
}
