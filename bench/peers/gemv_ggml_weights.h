/* gemv_ggml_weights.h - W of gemv_ggml.c: a few rows that repeat, in file order, which ggml and
 * kerf both read, and in the orders that ggml's kernels have of their own. */
#ifndef KERF_BENCH_GEMV_GGML_WEIGHTS_H
#define KERF_BENCH_GEMV_GGML_WEIGHTS_H

#include <kerf/codec.h>

#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_ROWS = 32, ORDERS = 3 };

static const struct kind {
    const char *format;
    enum ggml_type type;
} kinds[] = {
    {"ggml-q4_0", GGML_TYPE_Q4_0}, {"ggml-q8_0", GGML_TYPE_Q8_0},   {"q4_k", GGML_TYPE_Q4_K},
    {"q5_k", GGML_TYPE_Q5_K},      {"q6_k", GGML_TYPE_Q6_K},        {"iq4_xs", GGML_TYPE_IQ4_XS},
    {"q4_1", GGML_TYPE_Q4_1},      {"ggml-mxfp4", GGML_TYPE_MXFP4}, {"ggml-nvfp4", GGML_TYPE_NVFP4},
    {"q2_k", GGML_TYPE_Q2_K},      {"q3_k", GGML_TYPE_Q3_K}};

/* The orders of ggml's blocks: of the file, and by its names of buffer types. */
static const char *const orders[ORDERS] = {"file", "CPU_REPACK", "AMX"};

typedef struct extent {
    size_t rows, cols;
} extent;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "gemv_ggml: %s: %s\n", what, why);
    exit(1);
}

static void *must(void *p)
{
    if (!p) fail("memory", "none left");
    return p;
}

static float noise(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*seed >> 32) * 0x1p-31f;
}

/* A few rows that repeat, as numbers too; copies of W in file order. */
typedef struct weights {
    const kerf_format *format;
    float *values;
    uint8_t **copy;
    size_t bytes, copies;
} weights;

static weights weights_new(const struct kind *kind, extent size, size_t total)
{
    weights w = {.format = kerf_format_find(kind->format)};
    const size_t n = FEW_ROWS * size.cols;
    kerf_shape shape = {2, {FEW_ROWS, size.cols}};
    kerf_geometry g;
    uint64_t seed = 7;
    if (!w.format || kerf_geometry_init(&g, w.format, &shape, NULL) != KERF_OK)
        fail(kind->format, "kerf has no such blocks");
    if (g.bytes != FEW_ROWS * ggml_row_size(kind->type, (int64_t)size.cols))
        fail(kind->format, "blocks of two sizes");
    w.values = must(malloc(n * sizeof *w.values));
    for (size_t i = 0; i < n; i++) w.values[i] = noise(&seed) + noise(&seed);
    uint8_t *few = must(malloc(g.bytes));
    kerf_span out[KERF_PLANES] = {{few, g.bytes}};
    if (kerf_encode(&g, kerf_encoder_at(w.format, 0), NULL, 0, g.bands,
                    (kerf_cspan){w.values, n * sizeof *w.values}, KERF_F32, out, NULL,
                    NULL) != KERF_OK)
        fail(kind->format, "encode");
    kerf_cspan in[KERF_PLANES] = {{few, g.bytes}};
    if (kerf_decode(&g, 0, g.bands, in, (kerf_span){w.values, n * sizeof *w.values}, KERF_F32, NULL,
                    NULL) != KERF_OK)
        fail(kind->format, "decode");
    w.bytes = g.bytes / FEW_ROWS * size.rows;
    w.copies = total / w.bytes + 1;
    w.copy = must(malloc(w.copies * sizeof *w.copy));
    for (size_t i = 0; i < w.copies; i++) {
        w.copy[i] = must(aligned_alloc(64, (w.bytes + 127) / 64 * 64));
        for (size_t at = 0; at < w.bytes; at += g.bytes)
            memcpy(w.copy[i] + at, few, w.bytes - at < g.bytes ? w.bytes - at : g.bytes);
    }
    free(few);
    return w;
}

static void weights_free(weights *w)
{
    for (size_t i = 0; i < w->copies; i++) free(w->copy[i]);
    free(w->copy);
    free(w->values);
}

/* The same in an order of ggml. */
typedef struct ordered {
    struct ggml_context *context;
    ggml_backend_buffer_t *buffer; /* NULL: in file order */
    struct ggml_tensor **copy;     /* NULL: this type has no such order here */
} ordered;

static ggml_backend_buffer_type_t buffer_type(const char *name)
{
    ggml_backend_reg_t reg = ggml_backend_cpu_reg();
    ggml_backend_dev_get_extra_bufts_t extra =
        (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(
            reg, "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t *types = extra ? extra(ggml_backend_reg_dev_get(reg, 0)) : NULL;
    for (; types && *types; types++)
        if (strcmp(ggml_backend_buft_name(*types), name) == 0) return *types;
    return NULL;
}

/* Whether ggml multiplies by w, which lies in a buffer of that type, as if it were in file order.
 */
static int is_supported(struct ggml_context *context, struct ggml_tensor *w)
{
    struct ggml_tensor *x = ggml_new_tensor_2d(context, GGML_TYPE_F32, w->ne[0], 8);
    return ggml_backend_dev_supports_op(ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0),
                                        ggml_mul_mat(context, w, x));
}

static ordered order_new(const weights *w, const struct kind *kind, extent size, const char *name)
{
    ordered o = {0};
    const int is_file = strcmp(name, "file") == 0;
    ggml_backend_buffer_type_t type = is_file ? NULL : buffer_type(name);
    if (!is_file && !type) return o;
    struct ggml_init_params p = {ggml_tensor_overhead() * (w->copies + 8), NULL, true};
    o.context = must(ggml_init(p));
    o.copy = must(calloc(w->copies, sizeof(struct ggml_tensor *)));
    if (type) o.buffer = must(calloc(w->copies, sizeof(ggml_backend_buffer_t)));
    for (size_t i = 0; i < w->copies; i++) {
        struct ggml_tensor *a =
            ggml_new_tensor_2d(o.context, kind->type, (int64_t)size.cols, (int64_t)size.rows);
        o.copy[i] = a;
        if (!type) {
            a->data = w->copy[i];
            continue;
        }
        const size_t bytes = ggml_backend_buft_get_alloc_size(type, a);
        o.buffer[i] = must(ggml_backend_buft_alloc_buffer(type, bytes));
        ggml_backend_tensor_alloc(o.buffer[i], a, ggml_backend_buffer_get_base(o.buffer[i]));
        if (i == 0 && (!a->extra || !is_supported(o.context, a))) { /* it would run in file order */
            ggml_backend_buffer_free(o.buffer[i]);
            ggml_free(o.context);
            free(o.buffer);
            free(o.copy);
            return (ordered){0};
        }
        ggml_backend_tensor_set(a, w->copy[i], 0, w->bytes);
    }
    return o;
}

static void order_free(ordered *o, size_t copies)
{
    if (!o->copy) return;
    for (size_t i = 0; o->buffer && i < copies; i++) ggml_backend_buffer_free(o->buffer[i]);
    free(o->buffer);
    free(o->copy);
    ggml_free(o->context);
}

#endif
