/* gemv_nvfp4_cuda.cu - the NVFP4 x NVFP4 product on a GPU against a kernel that only reads.
 *
 *   gemv_nvfp4_cuda [-o FILE.json] [-s] [ROWSxCOLSxBATCH...]
 *
 *   -s   every variant of the kernel, and not only the one that a plan chooses
 *
 * Every call works on a set of buffers of its own; all sets together have at least 1.1 GB, so all
 * of A is cold. CALLS calls or more are one graph, timed by events around a replay; a time is the
 * median of REPEATS replays over the number of calls. "chain": the same with programmatic dependent
 * launch, each call's first reads of A ahead of its wait. The ceiling is the best of several
 * kernels that read the bytes of A and do nothing else, timed the same way in the same run. After
 * it is timed every y of the first and the last set is compared with the processor's. */
extern "C" {
#include "plan/gemv_nvfp4_plan.h"
#include <kerf/cuda.h>
}

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

namespace
{

enum { CALLS = 100, REPEATS = 5 };
constexpr double COLD_BYTES = 1.1e9;

kerf_error error;
kerf_device *gpu;
cudaStream_t stream;
cudaEvent_t begin_event, end_event;
int processors;

[[noreturn]] void die(const char *what, const char *why)
{
    fprintf(stderr, "gemv_nvfp4_cuda: %s: %s\n", what, why);
    exit(1);
}
void need(kerf_status s, const char *what)
{
    if (s != KERF_OK) die(what, error.text);
}
void need(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) die(what, cudaGetErrorString(e));
}

/* --- data ------------------------------------------------------------------------------------- */

struct shape {
    unsigned rows, cols, batch;
};

/* One call's buffers: codes and scales of A in one piece, then b's, then y. */
struct set {
    uint8_t *a, *b;
    __half *y;
};

struct problem {
    shape s;
    kerf_scale_order order;
    size_t a_codes, a_scales, b_codes, b_scales, y; /* y: numbers */
    std::vector<set> sets;
    std::vector<double> want[2]; /* of the first and the last set */
    std::vector<double> room[2]; /* the bound on |y - want|       */
    double bytes() const { return (double)(a_codes + a_scales + b_codes + b_scales + 2 * y); }
};

__device__ uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* Random bytes; scales: positive ones about 1, 2^-3 to 2^3. */
__global__ void fill(uint8_t *p, size_t n, uint64_t seed, bool scales)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        uint64_t r = mix(seed + i);
        p[i] = scales ? (uint8_t)(0x20 + r % 0x30) : (uint8_t)r;
    }
}

void fill_set(const problem &p, const set &s, uint64_t seed)
{
    fill<<<1024, 256, 0, stream>>>(s.a, p.a_codes, seed << 40, false);
    fill<<<1024, 256, 0, stream>>>(s.a + p.a_codes, p.a_scales, seed << 40 | 1ull << 36, true);
    fill<<<64, 256, 0, stream>>>(s.b, p.b_codes, seed << 40 | 2ull << 36, false);
    fill<<<64, 256, 0, stream>>>(s.b + p.b_codes, p.b_scales, seed << 40 | 3ull << 36, true);
    need(cudaGetLastError(), "fill");
}

kerf_gemv_nvfp4_args args_of(const problem &p, const uint8_t *a, const uint8_t *b, void *y,
                             size_t y_bytes)
{
    kerf_gemv_nvfp4_args x = {};
    x.a[KERF_PLANE_CODES] = {a, p.a_codes};
    x.a[KERF_PLANE_SCALES] = {a + p.a_codes, p.a_scales};
    x.b[KERF_PLANE_CODES] = {b, p.b_codes};
    x.b[KERF_PLANE_SCALES] = {b + p.b_codes, p.b_scales};
    x.y = {y, y_bytes};
    x.alpha = 0x1p-8f; /* so that no sum leaves fp16 */
    return x;
}

kerf_gemv_nvfp4 *plan_of(const problem &p, kerf_dtype y, bool early, bool on_gpu)
{
    kerf_gemv_nvfp4_shape s = {};
    s.rows = p.s.rows;
    s.cols = p.s.cols;
    s.batch = p.s.batch;
    s.y = y;
    s.a_scales = s.b_scales = p.order;
    s.flags = early ? KERF_GEMV_CONSTANT_WEIGHTS : 0;
    kerf_exec e = {};
    e.device = on_gpu ? gpu : NULL;
    kerf_gemv_nvfp4 *plan;
    need(kerf_gemv_nvfp4_plan_create(&plan, &s, &e, &error), "plan");
    return plan;
}

/* The processor's y, and how far off an fp16 y may be: half a unit in its last place, and the sum's
 * bound with S taken from the same product over magnitudes. */
void reference(problem &p, int which)
{
    const set &s = which ? p.sets.back() : p.sets.front();
    std::vector<uint8_t> a(p.a_codes + p.a_scales), b(p.b_codes + p.b_scales);
    std::vector<float> y(p.y), sum(p.y);
    need(cudaMemcpy(a.data(), s.a, a.size(), cudaMemcpyDeviceToHost), "copy");
    need(cudaMemcpy(b.data(), s.b, b.size(), cudaMemcpyDeviceToHost), "copy");
    kerf_gemv_nvfp4 *plan = plan_of(p, KERF_F32, false, false);
    kerf_gemv_nvfp4_args x = args_of(p, a.data(), b.data(), y.data(), 4 * p.y);
    need(kerf_gemv_nvfp4_run(plan, &x, NULL, &error), "reference");
    for (size_t i = 0; i < p.a_codes; i++) a[i] &= 0x77;
    for (size_t i = 0; i < p.b_codes; i++) b[i] &= 0x77;
    x = args_of(p, a.data(), b.data(), sum.data(), 4 * p.y);
    need(kerf_gemv_nvfp4_run(plan, &x, NULL, &error), "reference");
    kerf_gemv_nvfp4_plan_free(plan);
    plan = plan_of(p, KERF_F16, false, true);
    double bound = kerf_gemv_nvfp4_bound(plan);
    kerf_gemv_nvfp4_plan_free(plan);
    p.want[which].assign(y.begin(), y.end());
    p.room[which].resize(p.y);
    for (size_t i = 0; i < p.y; i++)
        p.room[which][i] = 1.01 * bound * sum[i] + std::fabs((double)y[i]) * 0x1.02p-11 + 0x1p-25;
}

problem make_problem(shape s, kerf_scale_order order)
{
    problem p = {};
    p.s = s;
    p.order = order;
    p.a_codes = (size_t)s.batch * s.rows * s.cols / 2;
    p.b_codes = (size_t)s.batch * s.cols / 2;
    p.y = (size_t)s.batch * s.rows;
    kerf_gemv_nvfp4 *plan = plan_of(p, KERF_F16, false, false);
    p.a_scales = plan->a_scales;
    p.b_scales = plan->b_scales;
    kerf_gemv_nvfp4_plan_free(plan);
    size_t n = (size_t)std::ceil(COLD_BYTES / p.bytes());
    for (size_t i = 0; i < n; i++) {
        set t = {};
        need(cudaMalloc(&t.a, p.a_codes + p.a_scales), "allocation");
        need(cudaMalloc(&t.b, p.b_codes + p.b_scales), "allocation");
        need(cudaMalloc(&t.y, 2 * p.y), "allocation");
        fill_set(p, t, i);
        p.sets.push_back(t);
    }
    need(cudaDeviceSynchronize(), "fill");
    reference(p, 0);
    reference(p, 1);
    return p;
}

void free_problem(problem &p)
{
    for (set &s : p.sets) {
        need(cudaFree(s.a), "free");
        need(cudaFree(s.b), "free");
        need(cudaFree(s.y), "free");
    }
}

/* --- the ceiling ------------------------------------------------------------------------------ */

template <int U>
__global__ void __launch_bounds__(512)
    read_only(const uint4 *p, size_t n, uint32_t *out, bool early)
{
    uint32_t sum = 0;
    size_t piece = (size_t)blockDim.x * U;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if (!early) asm volatile("griddepcontrol.wait;" ::: "memory");
    for (size_t at = blockIdx.x * piece + threadIdx.x; at < n; at += gridDim.x * piece) {
        uint4 v[U];
#pragma unroll
        for (int i = 0; i < U; i++) {
            int yes = at + i * blockDim.x < n;
            asm volatile(
                "{\n .reg .pred q;\n setp.ne.b32 q, %5, 0;\n"
                " mov.b32 %0, 0;\n mov.b32 %1, 0;\n mov.b32 %2, 0;\n mov.b32 %3, 0;\n"
                " @q ld.global.nc.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
                : "=&r"(v[i].x), "=&r"(v[i].y), "=&r"(v[i].z), "=&r"(v[i].w)
                : "l"(p + at + i * blockDim.x), "r"(yes));
        }
#pragma unroll
        for (int i = 0; i < U; i++) sum ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    }
    if (early) asm volatile("griddepcontrol.wait;" ::: "memory");
    if (sum == 0x12345678) *out = sum; /* so that nothing is left out */
}

struct reader {
    int unroll, threads, blocks; /* blocks: per multiprocessor */
};

void run_reader(const reader &r, const problem &p, const set &s, bool early)
{
    cudaLaunchAttribute a = {};
    a.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    a.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3((unsigned)(r.blocks * processors));
    c.blockDim = dim3((unsigned)r.threads);
    c.stream = stream;
    c.attrs = &a;
    c.numAttrs = early;
    size_t n = (p.a_codes + p.a_scales) / 16;
    auto k = r.unroll == 2 ? read_only<2> : r.unroll == 4 ? read_only<4> : read_only<8>;
    need(cudaLaunchKernelEx(&c, k, (const uint4 *)s.a, n, (uint32_t *)s.y, early), "reader");
}

/* --- timing ----------------------------------------------------------------------------------- */

/* Microseconds of a call. */
template <class F> double time_calls(const problem &p, F run)
{
    size_t calls = p.sets.size() * ((CALLS + p.sets.size() - 1) / p.sets.size());
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    need(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (size_t i = 0; i < calls; i++) run(p.sets[i % p.sets.size()]);
    need(cudaStreamEndCapture(stream, &graph), "capture");
    need(cudaGraphInstantiate(&exec, graph, 0), "graph");
    std::vector<float> ms;
    for (int i = 0; i < REPEATS + 2; i++) {
        float t;
        need(cudaEventRecord(begin_event, stream), "event");
        need(cudaGraphLaunch(exec, stream), "graph");
        need(cudaEventRecord(end_event, stream), "event");
        need(cudaEventSynchronize(end_event), "graph");
        need(cudaEventElapsedTime(&t, begin_event, end_event), "event");
        if (i >= 2) ms.push_back(t);
    }
    need(cudaGraphExecDestroy(exec), "graph");
    need(cudaGraphDestroy(graph), "graph");
    std::sort(ms.begin(), ms.end());
    return 1000.0 * ms[REPEATS / 2] / (double)calls;
}

/* The largest |y - want| in units of the bound; above 1 is wrong. */
double worst_of(const problem &p)
{
    double worst = 0;
    std::vector<__half> y(p.y);
    for (int which = 0; which < 2; which++) {
        const set &s = which ? p.sets.back() : p.sets.front();
        need(cudaMemcpy(y.data(), s.y, 2 * p.y, cudaMemcpyDeviceToHost), "copy");
        for (size_t i = 0; i < p.y; i++) {
            double off = std::fabs((double)__half2float(y[i]) - p.want[which][i]);
            worst = off <= worst * p.room[which][i] ? worst : off / p.room[which][i];
            if (off != off) return INFINITY;
        }
    }
    return worst;
}

struct result {
    char name[96];
    double us[2]; /* plain, chain */
    double worst;
};

result time_plan(const problem &p, const kf_nvfp4_tuning *t)
{
    result r = {};
    for (int early = 0; early < 2; early++) {
        kerf_gemv_nvfp4 *plan = plan_of(p, KERF_F16, early, true);
        if (t) need(kf_nvfp4_cuda_plan(plan, gpu, t, &error), "plan");
        const kf_nvfp4_launch *l = &plan->launch;
        const kf_nvfp4_run *run = l->run;
        snprintf(r.name, sizeof r.name, "%u warps x %u pieces, %u blocks a matrix%s",
                 1u << l->part_bits, l->pieces, l->blocks, run[1].blocks ? ", staggered" : "");
        for (const set &s : p.sets) need(cudaMemsetAsync(s.y, 0xff, 2 * p.y, stream), "memset");
        r.us[early] = time_calls(p, [&](const set &s) {
            kerf_gemv_nvfp4_args x = args_of(p, s.a, s.b, s.y, 2 * p.y);
            need(kerf_gemv_nvfp4_run(plan, &x, stream, &error), "run");
        });
        r.worst = std::max(r.worst, worst_of(p));
        kerf_gemv_nvfp4_plan_free(plan);
    }
    return r;
}

/* Every cut that differs; the chosen one first. */
std::vector<result> time_variants(const problem &p, bool sweep)
{
    std::vector<result> all = {time_plan(p, NULL)};
    if (!sweep) return all;
    for (unsigned parts = 1; parts <= 8; parts *= 2)
        for (unsigned resident = 1; resident <= 2; resident++) {
            kf_nvfp4_tuning t = {parts, resident, 1};
            if (parts * 8192 >= p.s.cols) all.push_back(time_plan(p, &t));
        }
    return all;
}

/* --- report ----------------------------------------------------------------------------------- */

int failures;

void print_result(const problem &p, const char *kind, const result &r, const double ceiling[2])
{
    printf("  %-9s %-58s %7.2f us %5.3f   %7.2f us %5.3f   %.2f of bound%s\n", kind, r.name,
           r.us[0], ceiling[0] / r.us[0], r.us[1], ceiling[1] / r.us[1], r.worst,
           r.worst <= 1 ? "" : "  WRONG");
    (void)p;
}

void measure(FILE *out, shape s, kerf_scale_order order, bool sweep)
{
    static int rows;
    problem p = make_problem(s, order);
    double ceiling[2] = {1e9, 1e9};
    static const reader readers[] = {{2, 512, 4}, {4, 512, 2}, {4, 512, 4}, {8, 512, 1},
                                     {8, 512, 2}, {4, 256, 4}, {4, 256, 8}, {8, 256, 4}};
    for (const reader &r : readers)
        for (int early = 0; early < 2; early++)
            ceiling[early] = std::min(
                ceiling[early], time_calls(p, [&](const set &t) { run_reader(r, p, t, early); }));
    std::vector<result> all = time_variants(p, sweep);
    const char *name = order == KERF_SCALES_TILES ? "tiles" : "rows";
    printf(
        "%u x %u x %u, scales in %s, %.2f MB, %zu sets: reading %.2f us %.0f GB/s, chain %.2f us "
        "%.0f GB/s\n",
        s.rows, s.cols, s.batch, name, p.bytes() * 1e-6, p.sets.size(), ceiling[0],
        p.bytes() / ceiling[0] * 1e-3, ceiling[1], p.bytes() / ceiling[1] * 1e-3);
    print_result(p, "chosen", all[0], ceiling);
    for (const result &r : all) failures += !(r.worst <= 1);
    for (int early = 1; early >= 0 && sweep; early--) {
        std::sort(all.begin() + 1, all.end(),
                  [=](const result &a, const result &b) { return a.us[early] < b.us[early]; });
        for (size_t i = 1; i < all.size() && i <= (early ? 6u : 3u); i++)
            print_result(p, early ? "chain" : "plain", all[i], ceiling);
    }
    for (size_t i = 0; i < all.size() && out; i++)
        fprintf(
            out,
            "%s\n    {\"rows\": %u, \"cols\": %u, \"batch\": %u, \"scales\": \"%s\", \"bytes\": "
            "%.0f, \"kernel\": \"%s\", \"chosen\": %s, \"us\": %.3f, \"chain_us\": %.3f, "
            "\"read_us\": %.3f, \"read_chain_us\": %.3f, \"share\": %.4f, \"chain_share\": %.4f, "
            "\"error_of_bound\": %.4f}",
            rows++ ? "," : "", s.rows, s.cols, s.batch, name, p.bytes(), all[i].name,
            i ? "false" : "true", all[i].us[0], all[i].us[1], ceiling[0], ceiling[1],
            ceiling[0] / all[i].us[0], ceiling[1] / all[i].us[1], all[i].worst);
    fflush(stdout);
    free_problem(p);
}

} // namespace

int main(int argc, char **argv)
{
    std::vector<shape> shapes;
    FILE *out = NULL;
    bool sweep = false;
    for (int i = 1; i < argc; i++) {
        shape s;
        if (strcmp(argv[i], "-s") == 0)
            sweep = true;
        else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
            out = fopen(argv[++i], "w");
        else if (sscanf(argv[i], "%ux%ux%u", &s.rows, &s.cols, &s.batch) == 3)
            shapes.push_back(s);
        else
            die(argv[i], "neither an option nor ROWSxCOLSxBATCH");
    }
    if (shapes.empty()) shapes = {{7168, 16384, 1}, {4096, 7168, 8}, {7168, 2048, 4}};
    kerf_device_info info;
    need(kerf_device_describe(0, &info, &error), "GPU");
    need(kerf_device_open(0, &gpu, &error), "GPU");
    stream = (cudaStream_t)kerf_device_stream(gpu);
    processors = info.multiprocessors;
    need(cudaEventCreate(&begin_event), "event");
    need(cudaEventCreate(&end_event), "event");
    if (out)
        fprintf(out,
                "{\n  \"schema\": \"kerf-bench-gemv-nvfp4-1\",\n  \"device\": \"%s\",\n"
                "  \"calls\": %d, \"repeats\": %d, \"cold_bytes\": %.0f,\n  \"results\": [",
                info.name, CALLS, REPEATS, COLD_BYTES);
    for (shape s : shapes)
        for (int order = 0; order < 2; order++) measure(out, s, (kerf_scale_order)order, sweep);
    if (out) {
        fprintf(out, "\n  ]\n}\n");
        if (fclose(out) != 0) die("results", "cannot be written");
    }
    kerf_device_close(gpu);
    return failures != 0;
}
