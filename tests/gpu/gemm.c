/* gemm.c - products with many columns against sums in double over kerf_decode's numbers, on sampled
 * entries; every format, every way, panels, bias, residual, strides, graphs.
 *
 *   gemm [brief]
 *
 * Without a GPU or without cuBLASLt the exit status is 77. */
#include "cpu/widen.h"
#include "plan/gemm_plan.h"
#include "scalar/minifloat.h"
#include "unit/tally.h"

#include <kerf/cuda.h>
#include <kerf/encode_matrix.h>

#include <cuda_runtime_api.h>
#include <math.h>

static kerf_device *gpu;

static float bell(uint64_t i)
{
    uint64_t r = mix(i);
    float x = 0;
    for (int k = 0; k < 4; k++) x += (float)(int16_t)(r >> 16 * k);
    return x * 0x1p-15f;
}

/* --- matrices in host memory ------------------------------------------------------------------ */

typedef struct matrix {
    kerf_geometry g;
    uint8_t *plane[KERF_PLANES];
    size_t bytes[KERF_PLANES];
    float *value; /* what kerf_decode says */
} matrix;

static matrix make_matrix(const kerf_format *f, uint64_t rows, uint64_t cols, uint64_t seed,
                          int whole, int tiled)
{
    matrix m = {.value = NULL};
    kerf_shape shape = {2, {rows, cols}};
    kerf_codec c = {f, kerf_encoder_at(f, 0)};
    kerf_span dst[KERF_PLANES];
    kerf_cspan src[KERF_PLANES];
    need(kerf_geometry_init(&m.g, f, &shape, &error), "geometry");
    size_t n = rows * cols;
    m.value = allocate(4 * n);
    for (size_t i = 0; i < n; i++)
        m.value[i] = whole ? (float)(mix(seed + i) % 5) - 2 : bell(seed + i);
    for (int p = 0; p < KERF_PLANES; p++) {
        m.bytes[p] = m.g.plane[p].bytes;
        m.plane[p] = allocate(m.bytes[p]);
        dst[p] = (kerf_span){m.plane[p], m.bytes[p]};
        src[p] = (kerf_cspan){m.plane[p], m.bytes[p]};
    }
    kerf_cspan values = {m.value, 4 * n};
    need(kerf_encode_matrix(&m.g, c.encoder, values, KERF_F32, dst, NULL, NULL, &error), "encode");
    need(kerf_decode(&m.g, 0, m.g.bands, src, (kerf_span){m.value, 4 * n}, KERF_F32, NULL, &error),
         "decode");
    if (tiled) {
        uint64_t bytes, blocks = m.bytes[KERF_PLANE_SCALES] / rows;
        need(kerf_tiled_scale_bytes(1, rows, blocks, &bytes, &error), "tiles");
        uint8_t *t = allocate(bytes);
        need(kerf_scales_to_tiles(1, rows, blocks, src[KERF_PLANE_SCALES], (kerf_span){t, bytes},
                                  &error),
             "tiles");
        free(m.plane[KERF_PLANE_SCALES]);
        m.plane[KERF_PLANE_SCALES] = t;
        m.bytes[KERF_PLANE_SCALES] = bytes;
    }
    return m;
}

static void free_matrix(matrix *m)
{
    for (int p = 0; p < KERF_PLANES; p++) free(m->plane[p]);
    free(m->value);
}

/* --- a case ----------------------------------------------------------------------------------- */

typedef struct gemm_case {
    const char *format;
    uint64_t rows, cols, columns;
    kerf_dtype x, y;
    const char *way;
    unsigned pad;              /* elements between vectors                           */
    int bias, residual, whole; /* whole: small integers, of which every sum is exact */
    int scaled;                /* with x_scale                                       */
} gemm_case;

typedef struct operands {
    matrix w, xm; /* xm: x of the block formats, else its numbers only  */
    uint8_t *x, *bias, *residual;
    float *x_scale;
    size_t x_n, y_n, size; /* size: of a number of y */
    uint64_t x_stride, y_stride;
    float alpha;
} operands;

static void store_x(kerf_dtype t, uint8_t *p, size_t i, float *v)
{
    if (t == KERF_I8) {
        int8_t q = (int8_t)kf_clamp_int((int)(*v * 60), -128, 127);
        p[i] = (uint8_t)q;
        *v = q;
    } else if (t == KERF_F8_E4M3) {
        p[i] = (uint8_t)kf_e4m3_encode(*v);
        *v = kf_e4m3_decode(p[i]);
    } else if (t == KERF_F8_E5M2) {
        p[i] = (uint8_t)kf_e5m2_encode(*v);
        *v = kf_e5m2_decode(p[i]);
    } else {
        kf_store(t, p, i, *v);
        *v = kf_load(t, p, i);
    }
}

static int has_blocks(const gemm_case *c)
{
    return strcmp(c->way, "block-scaled") == 0;
}

static operands make_operands(const gemm_case *c)
{
    operands o = {.alpha = c->whole ? 1 : 0.75f};
    const kerf_format *f = kerf_format_find(c->format);
    o.x_stride = c->cols + c->pad;
    o.y_stride = c->rows + c->pad;
    o.size = kerf_dtype_bits(c->y) / 8;
    o.y_n = ((c->columns - 1) * o.y_stride + c->rows) * o.size;
    o.w = make_matrix(f, c->rows, c->cols, 1, c->whole, has_blocks(c));
    o.bias = allocate(c->rows * o.size);
    o.residual = allocate(o.y_n);
    for (uint64_t i = 0; i < c->rows; i++) kf_store(c->y, o.bias, i, c->whole ? 3 : bell(i ^ 77));
    for (uint64_t i = 0; i < o.y_n / o.size; i++)
        kf_store(c->y, o.residual, i, c->whole ? -5 : bell(i ^ 7777));
    o.x_scale = allocate(4 * c->columns);
    for (uint64_t i = 0; i < c->columns; i++) o.x_scale[i] = 0.5f + 0.01f * (float)(i % 50);
    if (has_blocks(c)) {
        o.xm = make_matrix(f, c->columns, c->cols, 1000003, 0, 1);
        o.x = o.xm.plane[KERF_PLANE_CODES];
        o.x_n = o.xm.bytes[KERF_PLANE_CODES];
        o.xm.plane[KERF_PLANE_CODES] = NULL;
        return o;
    }
    size_t bytes = kerf_dtype_bits(c->x) / 8;
    o.x_n = ((c->columns - 1) * o.x_stride + c->cols) * bytes;
    o.x = allocate(o.x_n);
    memset(o.x, 0x7f, o.x_n); /* NaN between the vectors, where a type has it */
    o.xm.value = allocate(4 * c->columns * c->cols);
    for (uint64_t j = 0; j < c->columns; j++)
        for (uint64_t k = 0; k < c->cols; k++) {
            float *v = &o.xm.value[j * c->cols + k];
            *v = c->whole ? (float)(mix(j * 31 + k) % 5) - 2 : bell(j * 1000003 + k + 17);
            store_x(c->x, o.x, j * o.x_stride + k, v);
        }
    return o;
}

static void free_operands(operands *o)
{
    free_matrix(&o->w);
    free_matrix(&o->xm);
    free(o->x);
    free(o->bias);
    free(o->residual);
    free(o->x_scale);
}

static double x_scale_of(const gemm_case *c, const operands *o, uint64_t column)
{
    if (!c->scaled) return 1;
    int one = strcmp(c->format, "fp8-e4m3") == 0 || strcmp(c->format, "fp8-e5m2") == 0;
    return (double)o->x_scale[one ? 0 : column];
}

static double rounding(kerf_dtype t, double v)
{
    int bits = t == KERF_F32 ? 24 : t == KERF_F16 ? 11 : 8;
    return fmax(fabs(v) * ldexp(1, -bits), t == KERF_F16 ? 0x1p-25 : 0x1p-134);
}

/* Y at some entries: the corners and SAMPLES others. Returns the largest error in bounds. */
static void compare(const gemm_case *c, const operands *o, double bound, const uint8_t *y,
                    const char *text)
{
    enum { SAMPLES = 400 };
    char detail[160];
    double worst = 0;
    int bad = 0;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        uint64_t row = i & 1 && i < 4 ? c->rows - 1 : i < 4 ? 0 : mix(i) % c->rows;
        uint64_t col = i & 2 && i < 4 ? c->columns - 1 : i < 4 ? 0 : mix(i + 7777) % c->columns;
        double sum = 0, size = 0, factor = (double)o->alpha * x_scale_of(c, o, col);
        for (uint64_t k = 0; k < c->cols; k++) {
            double v = (double)o->w.value[row * c->cols + k] * o->xm.value[col * c->cols + k];
            sum += v;
            size += fabs(v);
        }
        sum *= factor;
        double extra = 0;
        if (c->bias) extra += kf_load(c->y, o->bias, row);
        if (c->residual) extra += kf_load(c->y, o->residual, col * o->y_stride + row);
        double want = sum + extra, got = kf_load(c->y, y, col * o->y_stride + row);
        double room = bound * size * fabs(factor) + 0x1p-22 * (fabs(extra) + fabs(sum));
        room += rounding(c->y, want);
        if (c->whole) room = 0;
        double off = fabs(got - want);
        if (!(off <= room) && bad++ == 0)
            snprintf(detail, sizeof detail, "y[%llu][%llu] = %g, not %g (%g bounds off)",
                     (unsigned long long)col, (unsigned long long)row, got, want, off / room);
        if (room > 0 && off / room > worst) worst = off / room;
    }
    check(bad == 0, text, bad ? detail : "");
    if (c->rows >= 1000) printf("%-64s at most %.3f of the bound\n", text, worst);
}

/* What lies between vectors and after the last keeps its poison. */
static int is_intact(const gemm_case *c, const operands *o, const uint8_t *y)
{
    int intact = 1;
    for (uint64_t j = 0; j < c->columns; j++) {
        uint64_t end = j + 1 < c->columns ? (j + 1) * o->y_stride * o->size : o->y_n + 64;
        for (uint64_t i = (j * o->y_stride + c->rows) * o->size; i < end; i++)
            intact &= y[i] == 0xff;
    }
    return intact;
}

/* --- on the device ---------------------------------------------------------------------------- */

enum { BUFFERS = KERF_PLANES + 8 };

typedef struct on_device {
    kerf_dbuf buf[BUFFERS];
    int n;
} on_device;

static kerf_cspan send(on_device *d, const void *p, size_t n)
{
    kerf_dbuf *b = &d->buf[d->n++];
    need(kerf_dbuf_alloc(gpu, n + 64, b, &error), "allocation");
    if (p) need(kerf_dbuf_write(b, 0, p, n, &error), "copy");
    return (kerf_cspan){b->p, n};
}

static kerf_gemm_args args_of(const gemm_case *c, const operands *o, const kerf_gemm *plan,
                              on_device *d)
{
    kerf_gemm_args a = {.alpha = o->alpha};
    for (int p = 0; p < KERF_PLANES; p++)
        if (o->w.g.plane[p].dtype != KERF_DTYPE_NONE)
            a.weights[p] = send(d, o->w.plane[p], o->w.bytes[p]);
    a.x = send(d, o->x, o->x_n);
    if (c->scaled) a.x_scale = send(d, o->x_scale, 4 * c->columns);
    if (has_blocks(c)) {
        a.x_scale = send(d, o->xm.plane[KERF_PLANE_SCALES], o->xm.bytes[KERF_PLANE_SCALES]);
        if (o->xm.bytes[KERF_PLANE_SECOND]) a.x_second = send(d, o->xm.plane[KERF_PLANE_SECOND], 4);
    }
    if (c->bias) a.bias = send(d, o->bias, c->rows * o->size);
    if (c->residual) a.residual = send(d, o->residual, o->y_n);
    kerf_cspan work = send(d, NULL, kerf_gemm_workspace(plan));
    a.workspace = (kerf_span){(void *)(uintptr_t)work.p, work.n};
    kerf_cspan y = send(d, NULL, o->y_n);
    a.y = (kerf_span){(void *)(uintptr_t)y.p, y.n};
    return a;
}

static void poison(const on_device *d, size_t n)
{
    void *p = allocate(n);
    memset(p, 0xff, n);
    need(kerf_dbuf_write(&d->buf[d->n - 1], 0, p, n, &error), "poison");
    free(p);
}

static void fetch(const on_device *d, uint8_t *y, size_t n)
{
    need(kerf_device_wait(gpu, NULL, &error), "wait");
    need(kerf_dbuf_read(&d->buf[d->n - 1], 0, y, n, &error), "copy");
}

/* Ten runs more, and one from a graph: the same bits. */
static void test_repeats(const kerf_gemm *plan, const kerf_gemm_args *a, const on_device *d,
                         const uint8_t *first, size_t n, const char *text)
{
    cudaStream_t stream = kerf_device_stream(gpu);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    uint8_t *y = allocate(n);
    int same = 1;
    for (int i = 0; i < 10; i++) {
        poison(d, n);
        need(kerf_gemm_run(plan, a, stream, &error), "run");
        fetch(d, y, n);
        same &= memcmp(first, y, n) == 0;
    }
    check(same, text, "runs differ");
    poison(d, n);
    int ok = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
    ok &= kerf_gemm_run(plan, a, stream, &error) == KERF_OK;
    ok &= cudaStreamEndCapture(stream, &graph) == cudaSuccess;
    ok = ok && cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess;
    ok = ok && cudaGraphLaunch(exec, stream) == cudaSuccess;
    if (check(ok, text, "no graph")) {
        fetch(d, y, n);
        check(memcmp(first, y, n) == 0, text, "a graph differs");
    }
    free(y);
}

static void test_case(const gemm_case *c)
{
    kerf_exec exec = {.device = gpu};
    kerf_gemm_shape s = {.format = kerf_format_find(c->format),
                         .rows = c->rows,
                         .cols = c->cols,
                         .columns = c->columns,
                         .x = c->x,
                         .y = c->y,
                         .x_stride = c->cols + c->pad,
                         .y_stride = c->rows + c->pad,
                         .flags = c->bias ? KERF_GEMM_BIAS : 0};
    kerf_gemm *plan;
    char text[160];
    snprintf(text, sizeof text, "%s %llu x %llu, %llu columns of %s into %s%s%s", c->format,
             (unsigned long long)c->rows, (unsigned long long)c->cols,
             (unsigned long long)c->columns, kerf_dtype_name(c->x), kerf_dtype_name(c->y),
             c->bias ? ", bias" : "", c->residual ? ", residual" : "");
    kerf_status status = kerf_gemm_plan_create(&plan, &s, &exec, &error);
    if (status == KERF_E_NOSUP && (has_blocks(c) || strstr(c->format, "-row"))) {
        check(strstr(error.text, "on this GPU") != NULL, text, error.text);
        printf("not here: %s\n", error.text);
        return;
    }
    if (!check(status == KERF_OK, text, error.text)) return;
    check(strcmp(kerf_gemm_way(plan), c->way) == 0, text, kerf_gemm_way(plan));
    operands o = make_operands(c);
    on_device d = {.n = 0};
    kerf_gemm_args a = args_of(c, &o, plan, &d);
    uint8_t *y = allocate(o.y_n + 64);
    poison(&d, o.y_n + 64);
    need(kerf_gemm_run(plan, &a, kerf_device_stream(gpu), &error), text);
    fetch(&d, y, o.y_n + 64);
    check(is_intact(c, &o, y), text, "written outside of y");
    compare(c, &o, kerf_gemm_bound(plan), y, text);
    test_repeats(plan, &a, &d, y, o.y_n + 64, text);
    for (int i = 0; i < d.n; i++) kerf_dbuf_free(&d.buf[i]);
    kerf_gemm_plan_free(plan);
    free_operands(&o);
    free(y);
}

/* --- cases ------------------------------------------------------------------------------------ */

static const gemm_case own[] = {
    {"fp16", 256, 512, 64, KERF_F16, KERF_F16, "dense", 0, 0, 0, 0, 0},
    {"fp16", 130, 200, 17, KERF_F16, KERF_F32, "dense", 8, 1, 1, 0, 0},
    {"fp16", 256, 512, 64, KERF_F16, KERF_F32, "dense", 0, 1, 1, 1, 0},
    {"bf16", 1000, 1024, 33, KERF_BF16, KERF_BF16, "dense", 16, 1, 0, 0, 0},
    {"fp32", 128, 96, 20, KERF_F32, KERF_F32, "dense", 4, 0, 1, 0, 0},
    {"fp8-e4m3", 1024, 4096, 64, KERF_F8_E4M3, KERF_BF16, "fp8", 16, 0, 0, 0, 1},
    {"fp8-e4m3", 256, 512, 32, KERF_F8_E5M2, KERF_F16, "fp8", 0, 1, 1, 0, 0},
    {"fp8-e5m2", 256, 512, 48, KERF_F8_E4M3, KERF_F32, "fp8", 0, 0, 0, 0, 1},
    {"fp8-e4m3-row", 1024, 2048, 64, KERF_F8_E4M3, KERF_BF16, "fp8", 0, 0, 0, 0, 1},
    {"int8", 1024, 4096, 64, KERF_I8, KERF_F16, "int8", 16, 1, 1, 0, 1},
    {"int8", 256, 512, 32, KERF_I8, KERF_F32, "int8", 0, 0, 0, 0, 0},
    {"int8-tensor", 256, 512, 32, KERF_I8, KERF_BF16, "int8", 0, 0, 1, 0, 1},
    {"int8", 1000, 64, 40000, KERF_I8, KERF_F16, "int8", 0, 1, 0, 0, 1},
    {"nvfp4", 1500, 16384, 32, KERF_BF16, KERF_BF16, "dequantize", 8, 1, 1, 0, 0},
    {"nf4", 1500, 16384, 32, KERF_F16, KERF_F16, "dequantize", 0, 0, 0, 0, 0},
    {"nf4-dq", 1300, 16392, 32, KERF_BF16, KERF_F32, "dequantize", 0, 0, 0, 0, 0},
    {"fp8-e4m3-128x128", 1300, 16384, 32, KERF_BF16, KERF_BF16, "dequantize", 0, 0, 0, 0, 0},
    {"int4-g128", 1100, 16384, 32, KERF_F32, KERF_F32, "dequantize", 0, 0, 0, 0, 0},
    {"q4_k", 1500, 16384, 32, KERF_BF16, KERF_BF16, "dequantize", 8, 1, 1, 0, 0},
    {"q6_k", 1300, 16384, 32, KERF_F16, KERF_F32, "dequantize", 0, 0, 0, 0, 0},
    {"nvfp4", 256, 512, 128, KERF_F4, KERF_BF16, "block-scaled", 0, 0, 0, 0, 0},
    {"mxfp8-e4m3", 256, 512, 128, KERF_F8_E4M3, KERF_BF16, "block-scaled", 0, 0, 0, 0, 0},
};

/* Every format, decoded. */
static void test_formats(void)
{
    static const kerf_dtype types[] = {KERF_F16, KERF_BF16, KERF_F32};
    for (size_t i = 0; i < kerf_format_count(); i++)
        for (int t = 0; t < 3; t++) {
            const kerf_format *f = kerf_format_at(i);
            const uint64_t cols = f->geometry == KERF_GROUP_SUPER ? 512 : 384; /* whole blocks */
            gemm_case c = {f->name, 160, cols, 40, types[t], types[t], "dequantize", 0, 0, 0, 0, 0};
            if ((f->element == KERF_ELEM_F16 && t == 0) ||
                (f->element == KERF_ELEM_BF16 && t == 1) || (f->element == KERF_ELEM_F32 && t == 2))
                c.way = "dense";
            test_case(&c);
        }
}

int main(int argc, char **argv)
{
    int brief = argc > 1 && strcmp(argv[1], "brief") == 0, count = 0;
    kerf_gemm_shape s = {kerf_format_find("fp16"), 64, 64, 32, KERF_F16, KERF_F16, 0, 0, 0};
    kerf_gemm *plan;
    if (kerf_device_count(&count, &error) == KERF_OK && count > 0)
        need(kerf_device_open(0, &gpu, &error), "GPU");
    kerf_exec exec = {.device = gpu};
    int here = kerf_gemm_plan_create(&plan, &s, &exec, &error) == KERF_OK;
    if (here)
        kerf_gemm_plan_free(plan);
    else
        printf("skipped: %s\n", error.text);
    for (size_t i = 0; here && i < sizeof own / sizeof own[0]; i++)
        if (!brief || own[i].rows < 1000) test_case(&own[i]);
    if (here && !brief) test_formats();
    printf("%llu checks, %llu failed\n", (unsigned long long)checks, (unsigned long long)failures);
    kerf_device_close(gpu);
    return failures ? 1 : here ? 0 : 77;
}
