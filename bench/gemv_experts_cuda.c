/* gemv_experts_cuda.c - layers of experts on a GPU beside reading their weights.
 *
 *   gemv_experts_cuda [-n REPLAYS] [-t TOKENS] [-m MODEL] [-o FILE] [FORMAT...]
 *
 * Without -t: one token, and eight. MODEL: a part of its name; without -m: all. FORMAT:
 * "nvfp4-shuffled" and the like have codes that went through kerf_gemv_shuffle.
 *
 * A layer's stacks are allocated whole. A graph holds layers one after another, each with routes of
 * its own, so that weights are read from memory and not from the cache; a layer waits for the one
 * before it, as it does for its router in a model. Beside it, a graph of kernels that only read as
 * many bytes as the layers' experts have: plain, where each read begins when the one before is
 * complete, as routes make a layer do, and chained, where reads overlap. `share` is plain reading
 * over the layer, `share_chain` chained reading. Times are medians, in us for a layer. */
#define PROGRAM "gemv_experts_cuda"
#include "gpu/or_die.h"

#include <kerf/cuda.h>
#include <kerf/encode_matrix.h>
#include <kerf/gemv_experts.h>
#include <kerf/gemv_time.h>

#include <string.h>

enum { ROUTE_SETS = 16, MOST_REPLAYS = 200 };

static const struct model {
    const char *name;
    uint64_t experts, hidden, inter;
    unsigned top_k, shared; /* slots, and of them such as every token has */
    kerf_experts_rows rows;
} models[] = {
    {"Qwen3-30B-A3B", 128, 2048, 768, 8, 0, KERF_EXPERTS_HALVES},
    {"gpt-oss-120b", 128, 2880, 2880, 4, 0, KERF_EXPERTS_ALTERNATING},
    {"DeepSeek-V3", 257, 7168, 2048, 9, 1, KERF_EXPERTS_HALVES},
    {"Mixtral-8x7B", 8, 4096, 14336, 2, 0, KERF_EXPERTS_HALVES},
};

static kerf_device *gpu;
static kerf_dbuf much; /* what reading alone reads */
static int replays = 21;
static unsigned counts[2] = {1, 8}; /* of tokens; 0: none */
static const char *chosen = "";     /* part of the names of models */

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* A format, and whether its codes are shuffled, which are any bits here. */
typedef struct variant {
    const char *name;
    const kerf_format *format;
    unsigned flags;
} variant;

static variant variant_of(const char *name)
{
    static const char end[] = "-shuffled";
    const size_t n = strlen(name), tail = sizeof end - 1;
    variant v = {.name = name};
    char own[64];
    snprintf(own, sizeof own, "%s", name);
    if (n > tail && n < sizeof own && strcmp(name + n - tail, end) == 0) {
        own[n - tail] = 0;
        v.flags = KERF_GEMV_SHUFFLED;
    }
    v.format = kerf_format_find(own);
    if (!v.format) die(name, "no such format");
    return v;
}

/* Bytes of a plane: any codes; scales near one, whatever their type. */
static void fill_plane(kerf_dbuf *b, int plane, kerf_dtype t)
{
    static uint8_t some[1 << 20];
    for (size_t i = 0; i < sizeof some; i++) {
        uint8_t r = (uint8_t)mix(i + 77 * (size_t)plane);
        some[i] = plane == KERF_PLANE_CODES && t != KERF_BF16 ? r
                  : t == KERF_F32                             ? (i % 4 == 3 ? 0x3c : r)
                  : t == KERF_BF16 || t == KERF_F16           ? (i % 2 ? 0x3c : r)
                  : t == KERF_F8_E8M0                         ? 118 + r % 4
                  : t == KERF_F8_E4M3                         ? 0x28 + r % 16
                                                              : r;
    }
    size_t n = b->n < sizeof some ? b->n : sizeof some;
    need(kerf_dbuf_write(b, 0, some, n, &error), "weights");
    need(kerf_dbuf_repeat(b, 0, n, b->n, &error), "weights");
}

/* GGUF's blocks hold scales and codes in one plane, so any bytes would be infinities, too: rows of
 * encoded numbers, repeated. */
static void fill_blocks(kerf_dbuf *b, const kerf_format *f, uint64_t cols)
{
    enum { ROWS = 64 };
    kerf_shape shape = {2, {ROWS, cols}};
    kerf_geometry g;
    need(kerf_geometry_init(&g, f, &shape, &error), "geometry");
    const size_t n = (size_t)g.elements, bytes = (size_t)g.plane[KERF_PLANE_CODES].bytes;
    float *dense = malloc(n * sizeof *dense);
    uint8_t *codes = malloc(bytes);
    if (!dense || !codes) die("memory", "none left");
    for (size_t i = 0; i < n; i++) dense[i] = (float)((double)(mix(i) >> 11) * 0x1p-53 - 0.5) / 16;
    kerf_span planes[KERF_PLANES] = {{codes, bytes}};
    need(kerf_encode_matrix(&g, NULL, (kerf_cspan){dense, n * sizeof *dense}, KERF_F32, planes,
                            NULL, NULL, &error),
         "weights");
    const size_t part = bytes < b->n ? bytes : b->n;
    need(kerf_dbuf_write(b, 0, codes, part, &error), "weights");
    need(kerf_dbuf_repeat(b, 0, part, b->n, &error), "weights");
    free(dense);
    free(codes);
}

static int is_blocks(const kerf_format *f)
{
    return f->geometry == KERF_GROUP_STRUCT || f->geometry == KERF_GROUP_SUPER;
}

static kerf_experts_stack stack_new(const kerf_format *f, uint64_t experts, uint64_t rows,
                                    uint64_t cols, kerf_dbuf buffers[KERF_PLANES], uint64_t *bytes)
{
    kerf_experts_stack s = {0};
    kerf_shape shape = {2, {rows, cols}};
    kerf_geometry g;
    need(kerf_geometry_init(&g, f, &shape, &error), "geometry");
    *bytes += g.bytes;
    for (int p = 0; p < KERF_PLANES; p++) {
        if (g.plane[p].dtype == KERF_DTYPE_NONE) continue;
        need(kerf_dbuf_alloc(gpu, (size_t)(experts * g.plane[p].bytes), &buffers[p], &error),
             "weights");
        if (is_blocks(f))
            fill_blocks(&buffers[p], f, cols);
        else
            fill_plane(&buffers[p], p, g.plane[p].dtype);
        s.weights[p] = (kerf_cspan){buffers[p].p, buffers[p].n};
    }
    return s;
}

/* --- a layer ---------------------------------------------------------------------------------- */

typedef struct bench {
    const struct model *m;
    unsigned tokens;
    kerf_gemv_experts *plan;
    kerf_gemv_experts_args args;
    uint64_t expert_bytes, active[ROUTE_SETS]; /* bytes of an expert, experts of a set */
    int width, chained;
    size_t calls;
} bench;

/* Distinct experts of a token at random, over which models spread; returns how many all have. */
static uint64_t route(const bench *b, unsigned set, int32_t *ids)
{
    const struct model *m = b->m;
    uint64_t routed = m->experts - m->shared, seen = 0;
    static uint8_t used[512];
    memset(used, 0, sizeof used);
    for (unsigned t = 0; t < b->tokens; t++) {
        unsigned n = m->top_k - m->shared;
        for (unsigned s = 0; s < m->top_k; s++) {
            uint64_t e = s >= n ? m->experts - 1 : 0;
            for (uint64_t tries = 0, again = 1; s < n && again; tries++) {
                e = mix(set * 1000003 + t * 4099 + s * 131 + tries * 7) % routed;
                if (b->tokens == 1) e = (set * n + s + tries) * 37 % routed;
                again = 0;
                for (unsigned i = 0; i < s; i++) again |= ids[t * m->top_k + i] == (int32_t)e;
            }
            ids[t * m->top_k + s] = (int32_t)e;
            seen += !used[e];
            used[e] = 1;
        }
    }
    return seen;
}

static kerf_status enqueue_layer(void *ctx, size_t call, void *stream, kerf_error *err)
{
    const bench *b = ctx;
    kerf_gemv_experts_args a = b->args;
    size_t set = call % ROUTE_SETS, slots = (size_t)b->tokens * b->m->top_k;
    a.ids = (kerf_cspan){(const uint8_t *)a.ids.p + set * slots * 4, slots * 4};
    return kerf_gemv_experts_run(b->plan, &a, stream, err);
}

/* From a buffer of its own, each time from where the last one ended. */
static kerf_status enqueue_read(void *ctx, size_t call, void *stream, kerf_error *err)
{
    const bench *b = ctx;
    size_t n = (size_t)(b->active[call % ROUTE_SETS] * b->expert_bytes / 16 * 16);
    if (n > much.n) return kerf_fail(err, KERF_E_BUFFER, "%zu bytes are read at once", n);
    size_t at = call * n / 256 * 256 % (much.n - n + 1) / 256 * 256;
    return kerf_device_read(gpu, (const uint8_t *)much.p + at, n, b->width, b->chained, stream,
                            err);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double time_of(bench *b, kerf_enqueue enqueue)
{
    double us[MOST_REPLAYS];
    kerf_graph *g;
    need(kerf_graph_record(gpu, enqueue, b, b->calls, &g, &error), "graph");
    for (int i = 0; i < 3; i++) need(kerf_graph_time(g, us, &error), "warm-up");
    for (int i = 0; i < replays; i++) need(kerf_graph_time(g, us + i, &error), "time");
    kerf_graph_free(g);
    qsort(us, (size_t)replays, sizeof *us, by_size);
    return us[replays / 2];
}

static double time_read(bench *b, int chained)
{
    double best = 1e30;
    b->chained = chained;
    for (b->width = 0; b->width < KERF_READ_WIDTHS; b->width++) {
        double us = time_of(b, enqueue_read);
        best = us < best ? us : best;
    }
    return best;
}

static void report(FILE *out, const bench *b, const variant *v)
{
    static int rows;
    double bytes = 0;
    for (size_t i = 0; i < ROUTE_SETS; i++)
        bytes += (double)(b->active[i] * b->expert_bytes) / ROUTE_SETS;
    bench c = *b;
    double us = time_of(&c, enqueue_layer), plain = time_read(&c, 0), chain = time_read(&c, 1);
    double again = time_of(&c, enqueue_layer);
    us = again < us ? again : us;
    printf(
        "%-14s %-18s %2u tokens %8.2f MB %8.2f us  read %8.2f / %8.2f us  share %.3f / %.3f %s\n",
        b->m->name, v->name, b->tokens, bytes * 1e-6, us, plain, chain, plain / us, chain / us,
        kerf_gemv_experts_backend(b->plan));
    fflush(stdout);
    if (out)
        fprintf(
            out,
            "%s\n    {\"model\": \"%s\", \"format\": \"%s\", \"experts\": %llu, \"top_k\": %u, "
            "\"shared\": %u, \"hidden\": %llu, \"inter\": %llu, \"tokens\": %u, \"bytes\": %.0f, "
            "\"us\": %.3f, \"read_us\": %.3f, \"read_us_chain\": %.3f, \"share\": %.3f, "
            "\"share_chain\": %.3f, \"backend\": \"%s\"}",
            rows++ ? "," : "", b->m->name, v->name, (unsigned long long)b->m->experts, b->m->top_k,
            b->m->shared, (unsigned long long)b->m->hidden, (unsigned long long)b->m->inter,
            b->tokens, bytes, us, plain, chain, plain / us, chain / us,
            kerf_gemv_experts_backend(b->plan));
}

static void measure(FILE *out, const struct model *m, const variant *v, unsigned tokens,
                    const kerf_gemv_experts_args *stacks, uint64_t expert_bytes)
{
    bench b = {.m = m, .tokens = tokens, .args = *stacks, .expert_bytes = expert_bytes};
    kerf_gemv_experts_shape s = {.format = v->format,
                                 .experts = m->experts,
                                 .hidden = m->hidden,
                                 .inter = m->inter,
                                 .tokens = tokens,
                                 .top_k = m->top_k,
                                 .x = KERF_BF16,
                                 .y = KERF_BF16,
                                 .between = KERF_BF16,
                                 .rows = m->rows,
                                 .flags = v->flags};
    kerf_exec exec = {.device = gpu};
    size_t slots = (size_t)tokens * m->top_k, n = (size_t)(tokens * m->hidden) * 2;
    need(kerf_gemv_experts_plan_create(&b.plan, &s, &exec, &error), "plan");
    int32_t *ids = malloc(ROUTE_SETS * slots * 4);
    float *weights = malloc(slots * 4);
    uint16_t *x = malloc(n);
    if (!ids || !weights || !x) die("memory", "none left");
    for (unsigned set = 0; set < ROUTE_SETS; set++)
        b.active[set] = route(&b, set, ids + set * slots);
    for (size_t i = 0; i < slots; i++) weights[i] = 0.125f;
    for (size_t i = 0; i < n / 2; i++)
        x[i] = (uint16_t)(0x3f00 + mix(i) % 256 + (mix(i) >> 20 & 1) * 0x8000);
    kerf_dbuf buffer[5] = {0};
    const struct {
        const void *from;
        size_t n;
    } parts[5] = {{ids, ROUTE_SETS * slots * 4},
                  {weights, slots * 4},
                  {x, n},
                  {NULL, n},
                  {NULL, kerf_gemv_experts_workspace(b.plan)}};
    for (int i = 0; i < 5; i++) {
        need(kerf_dbuf_alloc(gpu, parts[i].n, &buffer[i], &error), "memory");
        if (parts[i].from)
            need(kerf_dbuf_write(&buffer[i], 0, parts[i].from, parts[i].n, &error), "memory");
    }
    b.args.ids = (kerf_cspan){buffer[0].p, buffer[0].n};
    b.args.weights = (kerf_cspan){buffer[1].p, buffer[1].n};
    b.args.x = (kerf_cspan){buffer[2].p, buffer[2].n};
    b.args.y = (kerf_span){buffer[3].p, buffer[3].n};
    b.args.workspace = (kerf_span){buffer[4].p, buffer[4].n};
    b.calls = 2 * ROUTE_SETS;
    report(out, &b, v);
    for (int i = 0; i < 5; i++) kerf_dbuf_free(&buffer[i]);
    kerf_gemv_experts_plan_free(b.plan);
    free(ids);
    free(weights);
    free(x);
}

/* Whether rows of so many numbers are whole blocks. */
static int holds(const kerf_format *f, uint64_t cols)
{
    kerf_shape shape = {2, {1, cols}};
    kerf_geometry g;
    return kerf_geometry_init(&g, f, &shape, &error) == KERF_OK;
}

static void measure_model(FILE *out, const struct model *m, const variant *v)
{
    const kerf_format *f = v->format;
    if (!holds(f, m->hidden) || !holds(f, m->inter)) {
        printf("%-14s %-18s %s\n", m->name, v->name, error.text);
        return;
    }
    kerf_dbuf buffers[2 * KERF_PLANES] = {0};
    kerf_gemv_experts_args a = {0};
    uint64_t bytes = 0;
    a.gate = stack_new(f, m->experts, 2 * m->inter, m->hidden, buffers, &bytes);
    a.down = stack_new(f, m->experts, m->hidden, m->inter, buffers + KERF_PLANES, &bytes);
    for (int i = 0; i < 2; i++)
        if (counts[i]) measure(out, m, v, counts[i], &a, bytes);
    for (int i = 0; i < 2 * KERF_PLANES; i++) kerf_dbuf_free(&buffers[i]);
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"nvfp4",          "nvfp4-shuffled",   "mxfp4",
                                        "mxfp4-shuffled", "int4-g128",        "int4-g32",
                                        "fp8-e4m3-row",   "fp8-e4m3-128x128", "bf16"};
    kerf_device_info info;
    FILE *out = NULL;
    for (argc--, argv++; argc > 1 && argv[0][0] == '-'; argc -= 2, argv += 2)
        if (strcmp(argv[0], "-n") == 0)
            replays = atoi(argv[1]);
        else if (strcmp(argv[0], "-t") == 0)
            counts[0] = (unsigned)atoi(argv[1]), counts[1] = 0;
        else if (strcmp(argv[0], "-m") == 0)
            chosen = argv[1];
        else if (strcmp(argv[0], "-o") == 0 && !(out = fopen(argv[1], "w")))
            die(argv[1], "cannot be written");
    if (counts[0] < 1 || counts[0] > KERF_EXPERTS_TOKENS) die("-t", "1 to 16 tokens");
    if (replays < 1 || replays > MOST_REPLAYS) die("-n", "1 to 200 replays");
    need(kerf_device_describe(0, &info, &error), "GPU");
    need(kerf_device_open(0, &gpu, &error), "GPU");
    need(kerf_dbuf_alloc(gpu, (size_t)12 << 30, &much, &error), "memory to read");
    fill_plane(&much, KERF_PLANE_CODES, KERF_U8);
    if (out)
        fprintf(out,
                "{\n  \"schema\": \"kerf-bench-experts-cuda-1\",\n  \"device\": \"%s\",\n  \"x\": "
                "\"BF16\", \"h\": \"BF16\", \"y\": \"BF16\", \"replays\": %d, \"layers\": %d,\n  "
                "\"results\": [",
                info.name, replays, 2 * ROUTE_SETS);
    size_t n = argc > 0 ? (size_t)argc : sizeof usual / sizeof *usual;
    for (size_t k = 0; k < n; k++) {
        const variant v = variant_of(argc > 0 ? argv[k] : usual[k]);
        for (size_t i = 0; i < sizeof models / sizeof *models; i++)
            if (strstr(models[i].name, chosen)) measure_model(out, &models[i], &v);
    }
    if (out && (fprintf(out, "\n  ]\n}\n"), fclose(out) != 0)) die("output", "cannot be written");
    need_cuda(cudaDeviceSynchronize(), "kernels");
    kerf_dbuf_free(&much);
    kerf_device_close(gpu);
    return 0;
}
