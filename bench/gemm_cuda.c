/* gemm_cuda.c - products with many columns against the best that cuBLASLt does here.
 *
 *   gemm_cuda [-o FILE.json]
 *
 * Peak: the best rate of a bf16 product in the same run, one of 8192 x 8192 matrices among them.
 * Every call of a graph takes weights of its own until they fill 256 MB, so weights are cold. A
 * time is the median of REPEATS replays of a graph of CALLS calls. Random codes, scales of 1. */
#include "cpu/widen.h"

#include <kerf/cuda.h>
#include <kerf/encode_matrix.h>
#include <kerf/gemm.h>
#include <kerf/gemv_time.h>

#define PROGRAM "gemm_cuda"
#include "gpu/numbers.h"
#include "gpu/or_die.h"

enum { CALLS = 12, REPEATS = 5, MOST_SETS = 32 };

static kerf_device *gpu;
static cudaStream_t stream;
static cudaEvent_t begin, end;

/* --- buffers ---------------------------------------------------------------------------------- */

/* n numbers of a type, or n bits-wide codes; what is shorter than the pattern is repeated. */
static kerf_dbuf fill_numbers(kerf_dtype t, size_t n, uint64_t seed)
{
    enum { PATTERN = 1 << 22 };
    size_t bytes = (n * kerf_dtype_bits(t) + 7) / 8;
    uint8_t *p = malloc(bytes + 8 * PATTERN);
    if (!p) die("numbers", "out of memory");
    size_t size = kerf_dtype_bits(t) / 8, first = 0;
    if (t == KERF_F16 || t == KERF_BF16 || t == KERF_F32) {
        for (size_t i = 0; i < PATTERN; i++) {
            uint64_t r = mix(seed + i);
            float x = 0;
            for (int k = 0; k < 4; k++) x += (float)(int16_t)(r >> 16 * k);
            kf_store(t, p, i, x * 0x1p-17f);
        }
        first = PATTERN * size;
    } else {
        for (size_t i = 0; i < PATTERN; i++) {
            uint8_t b = (uint8_t)mix(seed + i);
            /* fp8: about 1 and never NaN */
            if (t == KERF_F8_E4M3) b = (uint8_t)((b & 0x80) | (0x28 + b % 0x18));
            if (t == KERF_F8_E5M2) b = (uint8_t)((b & 0x80) | (0x34 + b % 0x0c));
            p[i] = b;
        }
        first = PATTERN;
    }
    for (size_t i = first; i < bytes; i++) p[i] = p[i - first];
    kerf_dbuf b;
    need(kerf_dbuf_alloc(gpu, bytes, &b, &error), "allocation");
    need(kerf_dbuf_write(&b, 0, p, bytes, &error), "copy");
    free(p);
    return b;
}

static kerf_dbuf fill_ones(kerf_dtype t, size_t bytes)
{
    static const float one = 1;
    uint8_t *p = malloc(bytes + 4);
    if (!p) die("scales", "out of memory");
    for (size_t i = 0; i < bytes / (kerf_dtype_bits(t) / 8); i++) {
        if (t == KERF_F32) memcpy(p + 4 * i, &one, 4);
        if (t == KERF_F16 || t == KERF_BF16) kf_store(t, p, i, 1);
        if (t == KERF_F8_E8M0) p[i] = 127;
        if (t == KERF_F8_E4M3) p[i] = 0x38;
    }
    kerf_dbuf b;
    need(kerf_dbuf_alloc(gpu, bytes, &b, &error), "allocation");
    need(kerf_dbuf_write(&b, 0, p, bytes, &error), "copy");
    free(p);
    return b;
}

/* GGUF's blocks, in which scales lie among codes: a few rows of numbers, encoded and repeated. */
static kerf_dbuf fill_blocks(const kerf_geometry *of)
{
    enum { ROWS = 16 };
    kerf_shape shape = {2, {ROWS, of->cols}};
    kerf_geometry g;
    need(kerf_geometry_init(&g, of->format, &shape, &error), "geometry");
    float *x = malloc(g.elements * sizeof *x);
    kerf_span planes[KERF_PLANES] = {{malloc(g.bytes), g.bytes}};
    if (!x || !planes[0].p) die("blocks", "out of memory");
    for (uint64_t i = 0; i < g.elements; i++) x[i] = (float)(int32_t)mix(i) * 0x1p-36f;
    need(kerf_encode_matrix(&g, NULL, (kerf_cspan){x, g.elements * sizeof *x}, KERF_F32, planes,
                            NULL, NULL, &error),
         "encode");
    kerf_dbuf b;
    need(kerf_dbuf_alloc(gpu, of->bytes, &b, &error), "allocation");
    need(kerf_dbuf_write(&b, 0, planes[0].p, g.bytes, &error), "copy");
    need(kerf_dbuf_repeat(&b, 0, g.bytes, of->bytes, &error), "copy");
    free(x);
    free(planes[0].p);
    return b;
}

/* --- one row ---------------------------------------------------------------------------------- */

typedef struct row {
    const char *format;
    kerf_dtype x, y;
} row;

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Microseconds of a call; 0: not on this GPU. */
static double time_row(const row *r, uint64_t rows, uint64_t cols, uint64_t columns,
                       const char **way)
{
    kerf_gemm_shape s = {.format = kerf_format_find(r->format),
                         .rows = rows,
                         .cols = cols,
                         .columns = columns,
                         .x = r->x,
                         .y = r->y};
    kerf_exec exec = {.device = gpu};
    kerf_shape shape = {2, {rows, cols}};
    kerf_geometry g;
    kerf_gemm *plan;
    kerf_gemm_args a[MOST_SETS] = {{.alpha = 1}};
    kerf_dbuf planes[MOST_SETS][KERF_PLANES] = {{{NULL, 0, NULL}}};
    need(kerf_geometry_init(&g, s.format, &shape, &error), "geometry");
    kerf_status status = kerf_gemm_plan_create(&plan, &s, &exec, &error);
    if (status == KERF_E_NOSUP) return 0;
    need(status, "plan");
    *way = kerf_gemm_way(plan);
    int sets = (int)(256000000 / g.bytes) + 1;
    if (sets > MOST_SETS) sets = MOST_SETS;
    kerf_dbuf x = fill_numbers(r->x, columns * cols, 1), y, work;
    need(kerf_dbuf_alloc(gpu, columns * rows * 4, &y, &error), "allocation");
    need(kerf_dbuf_alloc(gpu, kerf_gemm_workspace(plan), &work, &error), "allocation");
    kerf_dbuf ones = fill_ones(KERF_F32, 4 * columns);
    for (int i = 0; i < sets; i++) {
        for (int p = 0; p < KERF_PLANES; p++) {
            if (g.plane[p].dtype == KERF_DTYPE_NONE) continue;
            planes[i][p] =
                s.format->geometry == KERF_GROUP_SUPER ? fill_blocks(&g)
                : p == KERF_PLANE_CODES
                    ? fill_numbers(g.plane[p].dtype,
                                   g.plane[p].bytes * 8 / kerf_dtype_bits(g.plane[p].dtype),
                                   7 + (uint64_t)i)
                    : fill_ones(g.plane[p].dtype, g.plane[p].bytes);
            a[i].weights[p] = (kerf_cspan){planes[i][p].p, planes[i][p].n};
        }
        a[i].x = (kerf_cspan){x.p, x.n};
        a[i].y = (kerf_span){y.p, y.n};
        a[i].workspace = (kerf_span){work.p, work.n};
        if (r->x == KERF_I8 || r->x == KERF_F8_E4M3) a[i].x_scale = (kerf_cspan){ones.p, ones.n};
    }
    cudaGraph_t graph;
    cudaGraphExec_t instance;
    float ms[REPEATS];
    int calls = sets > CALLS ? sets : CALLS;
    need_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < calls; i++) need(kerf_gemm_run(plan, &a[i % sets], stream, &error), "run");
    need_cuda(cudaStreamEndCapture(stream, &graph), "capture");
    need_cuda(cudaGraphInstantiate(&instance, graph, 0), "graph");
    for (int i = -2; i < REPEATS; i++) {
        need_cuda(cudaEventRecord(begin, stream), "event");
        need_cuda(cudaGraphLaunch(instance, stream), "graph");
        need_cuda(cudaEventRecord(end, stream), "event");
        need_cuda(cudaEventSynchronize(end), "graph");
        if (i >= 0) need_cuda(cudaEventElapsedTime(&ms[i], begin, end), "event");
    }
    need_cuda(cudaGraphExecDestroy(instance), "graph");
    need_cuda(cudaGraphDestroy(graph), "graph");
    for (int i = 0; i < sets; i++)
        for (int p = 0; p < KERF_PLANES; p++) kerf_dbuf_free(&planes[i][p]);
    kerf_dbuf_free(&x);
    kerf_dbuf_free(&y);
    kerf_dbuf_free(&work);
    kerf_dbuf_free(&ones);
    kerf_gemm_plan_free(plan);
    qsort(ms, REPEATS, sizeof ms[0], compare_floats);
    return 1000.0 * (double)ms[REPEATS / 2] / calls;
}

/* --- all -------------------------------------------------------------------------------------- */

static const row table[] = {
    {"bf16", KERF_BF16, KERF_BF16},
    {"fp16", KERF_F16, KERF_F16},
    {"fp8-e4m3", KERF_F8_E4M3, KERF_BF16},
    {"fp8-e4m3-row", KERF_F8_E4M3, KERF_BF16},
    {"int8", KERF_I8, KERF_BF16},
    {"nvfp4", KERF_BF16, KERF_BF16},
    {"mxfp4", KERF_BF16, KERF_BF16},
    {"int4-g128", KERF_BF16, KERF_BF16},
    {"nf4", KERF_BF16, KERF_BF16},
    {"fp8-e4m3-128x128", KERF_BF16, KERF_BF16},
    {"mxfp6-e2m3", KERF_BF16, KERF_BF16},
    {"q4_k", KERF_BF16, KERF_BF16},
    {"q6_k", KERF_BF16, KERF_BF16},
    {"nvfp4", KERF_F4, KERF_BF16},
    {"mxfp8-e4m3", KERF_F8_E4M3, KERF_BF16},
};
static const struct {
    uint64_t rows, cols, columns;
} sizes[] = {{4096, 4096, 64}, {4096, 4096, 512}, {14336, 4096, 512}, {14336, 4096, 4096}};

/* TFLOP/s; 0: not on this GPU. */
static double rate_of(size_t size, double us)
{
    double flops = 2.0 * (double)sizes[size].rows * (double)sizes[size].cols;
    return us == 0 ? 0 : 1e-6 * flops * (double)sizes[size].columns / us;
}

int main(int argc, char **argv)
{
    kerf_device_info info;
    FILE *out = NULL;
    const char *way = "";
    if (argc == 3 && strcmp(argv[1], "-o") == 0) {
        out = fopen(argv[2], "w");
        if (!out) die(argv[2], "cannot be written");
    }
    need(kerf_device_describe(0, &info, &error), "GPU");
    need(kerf_device_open(0, &gpu, &error), "GPU");
    stream = kerf_device_stream(gpu);
    need_cuda(cudaEventCreate(&begin), "event");
    need_cuda(cudaEventCreate(&end), "event");
    enum { SIZES = sizeof sizes / sizeof sizes[0], ROWS = sizeof table / sizeof table[0] };
    static double us[SIZES][ROWS];
    static const char *ways[SIZES][ROWS];
    double large = time_row(&table[0], 8192, 8192, 8192, &way), peak = 0;
    if (large > 0) peak = 2.0 * 8192 * 8192 * 8192 / large * 1e-6;
    for (size_t k = 0; k < SIZES; k++)
        for (size_t i = 0; i < ROWS; i++) {
            us[k][i] = time_row(&table[i], sizes[k].rows, sizes[k].cols, sizes[k].columns, &way);
            ways[k][i] = way;
            if (us[k][i] == 0) printf("%.200s\n", error.text);
            if (i == 0 && rate_of(k, us[k][i]) > peak) peak = rate_of(k, us[k][i]);
        }
    printf("%s: bf16 8192 x 8192 x 8192 in %.1f us; peak %.0f TFLOP/s\n", info.name, large, peak);
    if (out)
        fprintf(out,
                "{\n  \"schema\": \"kerf-bench-gemm-cuda-1\",\n  \"device\": \"%s\",\n"
                "  \"calls\": %d, \"repeats\": %d, \"peak_tflops\": %.1f,\n  \"results\": [",
                info.name, CALLS, REPEATS, peak);
    int rows = 0;
    for (size_t k = 0; k < SIZES; k++)
        for (size_t i = 0; i < ROWS; i++) {
            double tflops = rate_of(k, us[k][i]);
            if (tflops == 0) continue;
            printf("%-18s x %-8s %5llu x %llu, %4llu columns: %-10s %8.1f us %6.0f TFLOP/s %.3f of "
                   "the "
                   "peak\n",
                   table[i].format, kerf_dtype_name(table[i].x), (unsigned long long)sizes[k].rows,
                   (unsigned long long)sizes[k].cols, (unsigned long long)sizes[k].columns,
                   ways[k][i], us[k][i], tflops, tflops / peak);
            if (out)
                fprintf(
                    out,
                    "%s\n    {\"format\": \"%s\", \"x\": \"%s\", \"way\": \"%s\", \"rows\": %llu, "
                    "\"cols\": %llu, \"columns\": %llu, \"us\": %.2f, \"tflops\": %.1f, "
                    "\"share_of_bf16_peak\": %.4f}",
                    rows++ ? "," : "", table[i].format, kerf_dtype_name(table[i].x), ways[k][i],
                    (unsigned long long)sizes[k].rows, (unsigned long long)sizes[k].cols,
                    (unsigned long long)sizes[k].columns, us[k][i], tflops, tflops / peak);
        }
    if (out) {
        fprintf(out, "\n  ]\n}\n");
        if (fclose(out) != 0) die("results", "cannot be written");
    }
    kerf_device_close(gpu);
    return 0;
}
