/* gemv_ggml_cuda.c - Y = W x by ggml's CUDA backend: the products that llama.cpp runs on a GPU.
 *
 *   gemv_ggml_cuda [-o FILE.json] [--types LIST] [--shapes LIST] [--columns LIST] [--turns N]
 *                  [--window MS] [--rotate GB] [--commit ID]
 *                  e.g. --types q4_k,ggml-q8_0 --shapes 4096x14336 --columns 1,8
 *
 * Measured as bench_gemv_cuda measures kerf, so that both files can stand side by side (they name
 * formats alike, and rows have the same keys): weights rotate over copies of a gigabyte in total,
 * one x and one y stay in L2, x is the same and W of the same kind of numbers, a few rows that
 * repeat. x and y are F32, as ggml has them; its rounding of x to 8 bits is part of each product,
 * since every product needs it.
 *
 * A ggml graph of at least 100 MUL_MAT over the copies of W goes through
 * ggml_backend_graph_compute_async, which after two calls replays it as a CUDA graph. One call and
 * many are timed in each turn; the difference over the number of products between them is the
 * time of one, and what the host does before the first product starts is in neither. All numbers of
 * columns of a type and shape take turns. Every row of y is compared with double arithmetic on
 * decoded weights: `rms` is the error over rms(y). Needs libggml-cuda of a build with
 * GGML_CUDA_GRAPHS=ON: gemv_ggml_cuda.sh beside this makes it. */
#include <ggml-backend.h>
#include <ggml-cuda.h>
#include <ggml.h>

#include <getopt.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 16, FEW_ROWS = 32, MOST_TURNS = 64, WARM = 4 };

static const struct kind {
    const char *format;
    enum ggml_type type;
} kinds[] = {
    {"q4_k", GGML_TYPE_Q4_K},        {"q6_k", GGML_TYPE_Q6_K},     {"ggml-q4_0", GGML_TYPE_Q4_0},
    {"ggml-q8_0", GGML_TYPE_Q8_0},   {"q5_k", GGML_TYPE_Q5_K},     {"q2_k", GGML_TYPE_Q2_K},
    {"ggml-mxfp4", GGML_TYPE_MXFP4}, {"iq4_xs", GGML_TYPE_IQ4_XS}, {"q3_k", GGML_TYPE_Q3_K},
    {"ggml-nvfp4", GGML_TYPE_NVFP4}, {"q4_1", GGML_TYPE_Q4_1},     {"q5_0", GGML_TYPE_Q5_0},
    {"q5_1", GGML_TYPE_Q5_1},        {"iq4_nl", GGML_TYPE_IQ4_NL}};

typedef struct extent {
    int64_t rows, cols;
} extent;

typedef struct options {
    const char *out, *commit;
    const struct kind *kind[MOST];
    extent shape[MOST];
    int columns[MOST];
    int n_kinds, n_shapes, n_columns, turns;
    double window_s, rotated_bytes;
} options;

static ggml_backend_t backend;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "gemv_ggml_cuda: %s: %s\n", what, why);
    exit(1);
}

static void *room(size_t n)
{
    void *p = calloc(n ? n : 1, 1);
    if (!p) fail("host memory", "none left");
    return p;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- numbers: those of bench/read_only.cu -------------------------------------------------------
 */

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static float number(uint64_t i, float size, int uneven, uint64_t seed)
{
    uint64_t r = mix(seed + i);
    int sum = (int16_t)r + (int16_t)(r >> 16) + (int16_t)(r >> 32) + (int16_t)(r >> 48);
    float x = size * 2.643e-5f * (float)sum;
    return uneven ? ldexpf(x, (int)(mix(seed ^ i / 64 * 977) % 5) - 2) : x;
}

/* --- one type and shape -------------------------------------------------------------------------
 */

/* A few rows, encoded, which every copy of W repeats: also as the numbers that they mean. */
typedef struct few_rows {
    uint8_t *codes;
    float *values;
    size_t bytes;
} few_rows;

static few_rows encode_few(enum ggml_type type, int64_t cols)
{
    const int64_t n = FEW_ROWS * cols;
    few_rows f = {.bytes = ggml_row_size(type, cols) * FEW_ROWS};
    f.codes = room(f.bytes);
    f.values = room((size_t)n * sizeof *f.values);
    for (int64_t i = 0; i < n; i++)
        f.values[i] = number((uint64_t)i, 1 / sqrtf((float)cols) / 2.06f, 1, (uint64_t)cols);
    ggml_quantize_chunk(type, f.values, f.codes, 0, FEW_ROWS, cols, NULL);
    ggml_get_type_traits(type)->to_float(f.codes, f.values, n);
    return f;
}

/* All copies of W, in one buffer. */
typedef struct weights {
    struct ggml_context *context;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor **copy;
    few_rows few;
    size_t bytes;
    int copies;
} weights;

static struct ggml_context *new_context(size_t tensors)
{
    struct ggml_init_params p = {ggml_tensor_overhead() * (tensors + 8) +
                                     ggml_graph_overhead_custom(tensors + 8, false),
                                 NULL, true};
    struct ggml_context *c = ggml_init(p);
    if (!c) fail("ggml_init", "no context");
    return c;
}

static ggml_backend_buffer_t placed(struct ggml_context *c, enum ggml_backend_buffer_usage usage)
{
    ggml_backend_buffer_t b = ggml_backend_alloc_ctx_tensors(c, backend);
    if (!b) fail("device memory", "none left");
    ggml_backend_buffer_set_usage(b, usage);
    return b;
}

static weights weights_new(enum ggml_type type, extent size, double total_bytes)
{
    weights w = {.bytes = ggml_row_size(type, size.cols) * (size_t)size.rows};
    w.copies = (int)(total_bytes / (double)w.bytes) + 1;
    w.context = new_context((size_t)w.copies);
    w.copy = room((size_t)w.copies * sizeof(struct ggml_tensor *));
    for (int i = 0; i < w.copies; i++)
        w.copy[i] = ggml_new_tensor_2d(w.context, type, size.cols, size.rows);
    w.buffer = placed(w.context, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    w.few = encode_few(type, size.cols);
    uint8_t *all = room(w.bytes);
    for (size_t at = 0; at < w.bytes; at += w.few.bytes)
        memcpy(all + at, w.few.codes, w.bytes - at < w.few.bytes ? w.bytes - at : w.few.bytes);
    ggml_backend_tensor_set(w.copy[0], all, 0, w.bytes);
    for (int i = 1; i < w.copies; i++) ggml_backend_tensor_copy(w.copy[0], w.copy[i]);
    free(all);
    return w;
}

static void weights_free(weights *w)
{
    ggml_backend_buffer_free(w->buffer);
    ggml_free(w->context);
    free(w->copy);
    free(w->few.codes);
    free(w->few.values);
}

/* About a millisecond, every copy once, and never less than 100, as bench/gemv_shape.c has it. */
static int calls_for(const weights *w)
{
    int calls = (int)(1000 / (0.5 + (double)w->bytes / 4.5e6));
    calls = calls < 100 ? 100 : calls > 400 ? 400 : calls;
    return calls < w->copies ? w->copies : calls;
}

/* Products of one number of columns: a graph of calls, all of which write the same y. */
typedef struct entrant {
    struct ggml_context *context;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *x, *y;
    struct ggml_cgraph *graph;
    int columns, calls, repeats;
    double us[MOST_TURNS], rms;
} entrant;

static void set_x(struct ggml_tensor *x)
{
    const size_t n = (size_t)ggml_nelements(x);
    float *values = room(n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = ggml_fp16_to_fp32(ggml_fp32_to_fp16(number(i, 1, 0, 77)));
    ggml_backend_tensor_set(x, values, 0, n * sizeof *values);
    free(values);
}

static void start(entrant *e)
{
    if (ggml_backend_graph_compute_async(backend, e->graph) != GGML_STATUS_SUCCESS)
        fail("graph", "it did not run");
}

static double seconds_of(entrant *e, int repeats)
{
    double from = now();
    for (int i = 0; i < repeats; i++) start(e);
    ggml_backend_synchronize(backend);
    return now() - from;
}

/* The error of all rows of y, which repeat every FEW_ROWS. */
static double error_of(const entrant *e, const few_rows *few, extent size)
{
    const size_t n = (size_t)(size.cols * e->columns), m = (size_t)(size.rows * e->columns);
    float *x = room(n * sizeof *x), *y = room(m * sizeof *y);
    double errors = 0, squares = 0;
    ggml_backend_tensor_get(e->x, x, 0, n * sizeof *x);
    ggml_backend_tensor_get(e->y, y, 0, m * sizeof *y);
    for (int c = 0; c < e->columns; c++)
        for (int64_t few_row = 0; few_row < FEW_ROWS; few_row++) {
            double exact = 0;
            for (int64_t k = 0; k < size.cols; k++)
                exact += (double)few->values[few_row * size.cols + k] *
                         (double)x[(int64_t)c * size.cols + k];
            for (int64_t r = few_row; r < size.rows; r += FEW_ROWS) {
                double miss = (double)y[(int64_t)c * size.rows + r] - exact;
                errors += miss * miss;
                squares += exact * exact;
            }
        }
    free(x);
    free(y);
    return sqrt(errors / squares);
}

static entrant entrant_new(const weights *w, extent size, int columns, double window_s)
{
    entrant e = {.columns = columns, .calls = calls_for(w)};
    e.context = new_context((size_t)e.calls + 2);
    e.x = ggml_new_tensor_2d(e.context, GGML_TYPE_F32, size.cols, columns);
    e.y = ggml_new_tensor_2d(e.context, GGML_TYPE_F32, size.rows, columns);
    e.buffer = placed(e.context, GGML_BACKEND_BUFFER_USAGE_ANY);
    set_x(e.x);
    const size_t y_bytes = ggml_nbytes(e.y);
    uint8_t *nan = room(y_bytes);
    memset(nan, 0xff, y_bytes);
    ggml_backend_tensor_set(e.y, nan, 0, y_bytes);
    free(nan);
    e.graph = ggml_new_graph_custom(e.context, (size_t)e.calls + 8, false);
    for (int i = 0; i < e.calls; i++) {
        struct ggml_tensor *y = ggml_mul_mat(e.context, w->copy[i % w->copies], e.x);
        if (ggml_backend_tensor_alloc(e.buffer, y, e.y->data) != GGML_STATUS_SUCCESS)
            fail("y", "it has no place");
        ggml_build_forward_expand(e.graph, y);
    }
    for (int i = 0; i < WARM; i++) seconds_of(&e, 1);
    e.rms = error_of(&e, &w->few, size);
    e.repeats = 1 + (int)ceil(window_s / seconds_of(&e, 1));
    if (e.repeats < 2) e.repeats = 2;
    return e;
}

static void entrant_free(entrant *e)
{
    ggml_backend_buffer_free(e->buffer);
    ggml_free(e->context);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void write_row(FILE *f, entrant *e, const struct kind *kind, extent size, const weights *w,
                      int turns, int first)
{
    qsort(e->us, (size_t)turns, sizeof *e->us, by_value);
    const double us = e->us[turns / 2];
    fprintf(f,
            "%s\n    {\"by\": \"ggml\", \"format\": \"%s\", \"rows\": %lld, \"cols\": %lld, "
            "\"columns\": %d, \"bytes\": %zu, \"replays\": %d, \"us\": %.3f, \"low\": %.3f, "
            "\"high\": %.3f, \"gbps\": %.0f, \"rms\": %.2e, \"copies\": %d, \"calls\": %d, "
            "\"repeats\": %d}",
            first ? "" : ",", kind->format, (long long)size.rows, (long long)size.cols, e->columns,
            w->bytes, turns, us, e->us[turns / 4], e->us[turns - 1 - turns / 4],
            (double)w->bytes / us * 1e-3, e->rms, w->copies, e->calls, e->repeats);
    printf("%-12s %6lld x %-6lld %2d  %8.2f us  %.1e\n", kind->format, (long long)size.rows,
           (long long)size.cols, e->columns, us, e->rms);
    if (!(e->rms < 0.05)) fail(kind->format, "the result is not the product");
}

static void compare(FILE *f, const options *o, const struct kind *kind, extent size, int first)
{
    weights w = weights_new(kind->type, size, o->rotated_bytes);
    static entrant e[MOST];
    for (int c = 0; c < o->n_columns; c++) e[c] = entrant_new(&w, size, o->columns[c], o->window_s);
    for (int t = 0; t < o->turns; t++)
        for (int c = 0; c < o->n_columns; c++) {
            double one = seconds_of(&e[c], 1), many = seconds_of(&e[c], e[c].repeats);
            e[c].us[t] = 1e6 * (many - one) / ((e[c].repeats - 1) * e[c].calls);
        }
    for (int c = 0; c < o->n_columns; c++) {
        write_row(f, &e[c], kind, size, &w, o->turns, first && !c);
        entrant_free(&e[c]);
    }
    weights_free(&w);
}

/* --- options ------------------------------------------------------------------------------------
 */

static void take_kind(options *o, const char *word)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].format, word) == 0 && o->n_kinds < MOST) {
            o->kind[o->n_kinds++] = &kinds[i];
            return;
        }
    fail(word, "no such type");
}

static void take_shape(options *o, const char *word)
{
    long long rows, cols;
    if (sscanf(word, "%lldx%lld", &rows, &cols) != 2 || rows < FEW_ROWS || cols % 512 ||
        o->n_shapes == MOST)
        fail(word, "not ROWSxCOLS with COLS a multiple of 512");
    o->shape[o->n_shapes++] = (extent){rows, cols};
}

static void take_columns(options *o, const char *word)
{
    int n = atoi(word);
    if (n < 1 || o->n_columns == MOST) fail(word, "no number of columns");
    o->columns[o->n_columns++] = n;
}

static void each_word(options *o, const char *list, void (*take)(options *o, const char *word))
{
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", list);
    for (char *p = copy, *word; (word = strsep(&p, ","));)
        if (*word) take(o, word);
}

static options parse(int argc, char **argv)
{
    static const struct option known[] = {{"types", 1, NULL, 't'},   {"shapes", 1, NULL, 's'},
                                          {"columns", 1, NULL, 'c'}, {"turns", 1, NULL, 'n'},
                                          {"window", 1, NULL, 'w'},  {"rotate", 1, NULL, 'R'},
                                          {"commit", 1, NULL, 'C'},  {NULL, 0, NULL, 0}};
    const char *types = "q4_k,q6_k,ggml-q4_0,ggml-q8_0,q5_k,q2_k,ggml-mxfp4,iq4_xs,q3_k,"
                        "ggml-nvfp4,q4_1,q5_0,q5_1,iq4_nl",
               *shapes = "4096x4096,14336x4096,4096x14336,8192x8192,28672x8192",
               *columns = "1,2,4,8,16";
    options o = {.commit = "unknown", .turns = 7, .window_s = 6e-3, .rotated_bytes = 1.05e9};
    for (int k; (k = getopt_long(argc, argv, "o:", known, NULL)) != -1;) switch (k) {
        case 'o': o.out = optarg; break;
        case 't': types = optarg; break;
        case 's': shapes = optarg; break;
        case 'c': columns = optarg; break;
        case 'n': o.turns = atoi(optarg); break;
        case 'w': o.window_s = 1e-3 * atof(optarg); break;
        case 'R': o.rotated_bytes = 1e9 * atof(optarg); break;
        case 'C': o.commit = optarg; break;
        default: exit(2);
        }
    each_word(&o, types, take_kind);
    each_word(&o, shapes, take_shape);
    each_word(&o, columns, take_columns);
    if (o.turns < 1 || o.turns > MOST_TURNS) fail("--turns", "1 to 64");
    return o;
}

int main(int argc, char **argv)
{
    options o = parse(argc, argv);
    char device[256] = "";
    double from = now();
    backend = ggml_backend_cuda_init(0);
    if (!backend) fail("GPU", "ggml opens none");
    ggml_backend_cuda_get_device_description(0, device, sizeof device);
    FILE *f = fopen(o.out ? o.out : "/dev/null", "w");
    if (!f) fail(o.out, "cannot be written");
    fprintf(f,
            "{\n  \"schema\": \"kerf-bench-gemv-ggml-cuda-1\",\n  \"device\": \"%s\", \"ggml\": "
            "\"%s\", \"commit\": \"%s\",\n  \"x\": \"F32\", \"y\": \"F32\", \"rotated_bytes\": "
            "%.0f, \"window_s\": %g,\n  \"results\": [",
            device, ggml_version(), o.commit, o.rotated_bytes, o.window_s);
    for (int k = 0; k < o.n_kinds; k++)
        for (int s = 0; s < o.n_shapes; s++) {
            compare(f, &o, o.kind[k], o.shape[s], !k && !s);
            fflush(f);
        }
    fprintf(f, "\n  ],\n  \"seconds\": %.1f\n}\n", now() - from);
    if (fclose(f) != 0) fail(o.out, "cannot be written");
    ggml_backend_free(backend);
    return 0;
}
