/* gemv_ggml.c - Y = W x by ggml and by kerf on the same bytes on a processor, in turns.
 *
 *   gemv_ggml [-o FILE.json] [--types LIST] [--shapes LIST] [--columns LIST] [--threads N]
 *             [--turns N] [--trials N] [--rotate MB]
 *             e.g. --types q4_k,ggml-q8_0 --shapes 4096x14336 --columns 1,8
 *
 * GGUF's block types are formats of kerf, so both read the same blocks. ggml multiplies in each way
 * that its build has for the type: blocks in file order; repacked beforehand for its own vector
 * kernels ("CPU_REPACK"); repacked for tiles of AMX ("AMX"), which is what llama.cpp takes first on
 * a processor with them. Each rounds x to 8 bits as part of the product. kerf reads blocks in file
 * order, with x as F32, as ggml takes it, and as BF16; x has few enough bits to be the same in
 * both.
 *
 * A trial runs each of these once, the next copy of W every time: copies fill --rotate MB for every
 * order that they lie in. A turn is the median of --trials; what is written is the least of --turns
 * medians, by the clock and by processor time of all threads, so that other programs on the machine
 * hit all alike and count little. `rms` is the error of all rows against double arithmetic on
 * decoded weights over rms(y). gemv_ggml_cpu.sh beside this builds and runs it, with
 * OMP_WAIT_POLICY=passive. */
#include "gemv_ggml_weights.h"

#include <kerf/gemv.h>

#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16, MOST_TRIALS = 256, SIDES = ORDERS + 2 };

typedef struct options {
    const char *out;
    const struct kind *kind[MOST];
    extent shape[MOST];
    unsigned columns[MOST];
    size_t n_kinds, n_shapes, n_columns, turns, trials, rotated_bytes;
    int threads;
} options;

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

/* --- products -----------------------------------------------------------------------------------
 */

/* One way to multiply, with its y: a graph for each copy of W, or a plan. */
typedef struct side {
    const char *by, *order, *x;
    struct ggml_context *context;
    struct ggml_cgraph **graph;
    struct ggml_cplan cplan;
    kerf_gemv *plan;
    kerf_gemv_args args;
    float *y;
    double wall[MOST_TRIALS], cpu[MOST_TRIALS], us, cpu_us;
} side;

static side side_of_ggml(const ordered *o, const char *name, const weights *w, extent size,
                         unsigned columns, const float *x, int threads)
{
    side s = {.by = "ggml", .order = name, .x = "f32"};
    struct ggml_init_params p = {
        w->copies * (ggml_graph_overhead_custom(8, false) + ggml_tensor_overhead() * 2) +
            (size.cols + size.rows) * columns * sizeof(float) + (1 << 16),
        NULL, false};
    s.context = must(ggml_init(p));
    struct ggml_tensor *b =
        ggml_new_tensor_2d(s.context, GGML_TYPE_F32, (int64_t)size.cols, columns);
    struct ggml_tensor *y =
        ggml_new_tensor_2d(s.context, GGML_TYPE_F32, (int64_t)size.rows, columns);
    memcpy(b->data, x, size.cols * columns * sizeof *x);
    s.y = y->data;
    ggml_set_no_alloc(s.context, true);
    s.graph = must(calloc(w->copies, sizeof(struct ggml_cgraph *)));
    for (size_t i = 0; i < w->copies; i++) {
        struct ggml_tensor *product = ggml_mul_mat(s.context, o->copy[i], b);
        product->data = s.y;
        s.graph[i] = ggml_new_graph_custom(s.context, 8, false);
        ggml_build_forward_expand(s.graph[i], product);
    }
    s.cplan = ggml_graph_plan(s.graph[0], threads, NULL);
    s.cplan.work_data = must(malloc(s.cplan.work_size + 1));
    return s;
}

static side side_of_kerf(const weights *w, extent size, unsigned columns, const float *x,
                         kerf_dtype type, int threads)
{
    side s = {.by = "kerf", .order = "file", .x = type == KERF_F32 ? "f32" : "bf16"};
    const size_t n = size.cols * columns, bytes = kerf_dtype_bits(type) / 8;
    kerf_error err;
    kerf_exec exec = {.threads = threads};
    kerf_gemv_shape shape = {.format = w->format,
                             .rows = size.rows,
                             .cols = size.cols,
                             .columns = columns,
                             .x = type,
                             .y = KERF_F32};
    if (kerf_gemv_plan_create(&s.plan, &shape, &exec, &err) != KERF_OK) fail("kerf", err.text);
    uint8_t *raw = must(malloc(n * bytes));
    for (size_t i = 0; i < n; i++)
        memcpy(raw + i * bytes, (const uint8_t *)&x[i] + 4 - bytes, bytes);
    s.y = must(malloc(size.rows * columns * sizeof *s.y));
    s.args.x = (kerf_cspan){raw, n * bytes};
    s.args.y = (kerf_span){s.y, size.rows * columns * sizeof *s.y};
    s.args.workspace.n = kerf_gemv_workspace(s.plan);
    s.args.workspace.p = must(malloc(s.args.workspace.n + 1));
    return s;
}

static void side_free(side *s)
{
    if (s->plan) {
        free((void *)(uintptr_t)s->args.x.p);
        free(s->args.workspace.p);
        free(s->y);
        kerf_gemv_plan_free(s->plan);
        return;
    }
    free(s->cplan.work_data);
    free(s->graph);
    ggml_free(s->context);
}

static void multiply(side *s, const weights *w, size_t copy)
{
    if (s->graph) {
        if (ggml_graph_compute(s->graph[copy], &s->cplan) != GGML_STATUS_SUCCESS)
            fail("ggml", "the graph did not run");
        return;
    }
    s->args.weights[0] = (kerf_cspan){w->copy[copy], w->bytes};
    if (kerf_gemv_run(s->plan, &s->args, NULL, NULL) != KERF_OK) fail("kerf", "no product");
}

/* Trial `at` of a side, timed. */
static void try_once(side *s, const weights *w, size_t copy, size_t at)
{
    const double w0 = clock_s(CLOCK_MONOTONIC), c0 = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    multiply(s, w, copy);
    s->wall[at] = clock_s(CLOCK_MONOTONIC) - w0;
    s->cpu[at] = clock_s(CLOCK_PROCESS_CPUTIME_ID) - c0;
}

/* ggml has a thread of its own, and so OpenMP threads of its own: it configures tiles of AMX once
 * in each, and counts on nobody else doing so. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    side *todo;
    const weights *w;
    size_t copy, at;
} desk = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, NULL, 0, 0};

static void *work_for_ggml(void *unused)
{
    pthread_mutex_lock(&desk.lock);
    for (;;) {
        while (!desk.todo) pthread_cond_wait(&desk.change, &desk.lock);
        try_once(desk.todo, desk.w, desk.copy, desk.at);
        desk.todo = NULL;
        pthread_cond_broadcast(&desk.change);
    }
    return unused;
}

static void try_side(side *s, const weights *w, size_t copy, size_t at)
{
    if (!s->graph) {
        try_once(s, w, copy, at);
        return;
    }
    pthread_mutex_lock(&desk.lock);
    desk.w = w;
    desk.copy = copy;
    desk.at = at;
    desk.todo = s;
    pthread_cond_broadcast(&desk.change);
    while (desk.todo) pthread_cond_wait(&desk.change, &desk.lock);
    pthread_mutex_unlock(&desk.lock);
}

static double error_of(const float *y, const double *exact, extent size, unsigned columns)
{
    double error = 0, all = 0;
    for (unsigned c = 0; c < columns; c++)
        for (size_t r = 0; r < size.rows; r++) {
            const double is = exact[c * FEW_ROWS + r % FEW_ROWS];
            const double miss = (double)y[c * size.rows + r] - is;
            error += miss * miss;
            all += is * is;
        }
    return sqrt(error / all);
}

static void compare_columns(FILE *f, const options *o, const weights *w, const ordered *order,
                            extent size, unsigned columns)
{
    static side sides[SIDES];
    const size_t n = size.cols * columns;
    float *x = must(malloc(n * sizeof *x));
    double *exact = must(calloc(FEW_ROWS * columns, sizeof *exact));
    uint64_t seed = 77 + columns;
    for (size_t i = 0; i < n; i++) { /* bfloat16 numbers, some large */
        uint32_t u;
        x[i] = noise(&seed) * (i % 64 == 0 ? 8 : 1);
        memcpy(&u, &x[i], 4);
        u &= 0xffff0000;
        memcpy(&x[i], &u, 4);
    }
    for (unsigned c = 0; c < columns; c++)
        for (size_t r = 0; r < FEW_ROWS; r++)
            for (size_t k = 0; k < size.cols; k++)
                exact[c * FEW_ROWS + r] +=
                    (double)w->values[r * size.cols + k] * (double)x[c * size.cols + k];

    size_t n_sides = 0, next = 0;
    for (size_t i = 0; i < ORDERS; i++)
        if (order[i].copy)
            sides[n_sides++] = side_of_ggml(&order[i], orders[i], w, size, columns, x, o->threads);
    sides[n_sides++] = side_of_kerf(w, size, columns, x, KERF_F32, o->threads);
    sides[n_sides++] = side_of_kerf(w, size, columns, x, KERF_BF16, o->threads);
    for (size_t turn = 0; turn < o->turns; turn++) {
        for (size_t t = 0; t < o->trials + 1; t++) /* the first is not counted */
            for (size_t i = 0; i < n_sides; i++)
                try_side(&sides[i], w, next++ % w->copies, t ? t - 1 : 0);
        for (size_t i = 0; i < n_sides; i++) {
            const double us = 1e6 * median(sides[i].wall, o->trials);
            const double cpu_us = 1e6 * median(sides[i].cpu, o->trials);
            if (!turn || us < sides[i].us) sides[i].us = us;
            if (!turn || cpu_us < sides[i].cpu_us) sides[i].cpu_us = cpu_us;
        }
    }
    for (size_t i = 0; i < n_sides; i++) {
        side *s = &sides[i];
        const char *backend = s->plan ? kerf_gemv_backend(s->plan) : s->order;
        const double rms = error_of(s->y, exact, size, columns);
        static int rows;
        fprintf(f,
                "%s\n    {\"by\": \"%s\", \"backend\": \"%s\", \"format\": \"%s\", \"rows\": %zu, "
                "\"cols\": %zu, \"columns\": %u, \"x\": \"%s\", \"us\": %.1f, \"cpu_us\": %.1f, "
                "\"rms\": %.2e}",
                rows++ ? "," : "", s->by, backend, w->format->name, size.rows, size.cols, columns,
                s->x, s->us, s->cpu_us, rms);
        printf("%-10s %5zu x %-5zu %2u  %s %-10s x %-4s %8.0f us %8.0f us cpu  %.1e\n",
               w->format->name, size.rows, size.cols, columns, s->by, backend, s->x, s->us,
               s->cpu_us, rms);
        if (!(rms < 0.05)) fail(w->format->name, "the result is not the product");
        side_free(s);
    }
    fflush(stdout);
    free(exact);
    free(x);
}

static void compare(FILE *f, const options *o, const struct kind *kind, extent size)
{
    weights w = weights_new(kind, size, o->rotated_bytes);
    ordered order[ORDERS];
    for (size_t i = 0; i < ORDERS; i++) order[i] = order_new(&w, kind, size, orders[i]);
    for (size_t c = 0; c < o->n_columns; c++) compare_columns(f, o, &w, order, size, o->columns[c]);
    for (size_t i = 0; i < ORDERS; i++) order_free(&order[i], w.copies);
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
    extent e;
    if (sscanf(word, "%zux%zu", &e.rows, &e.cols) != 2 || e.rows < FEW_ROWS || e.cols % 256 ||
        !e.cols || o->n_shapes == MOST)
        fail(word, "not ROWSxCOLS with COLS a multiple of 256");
    o->shape[o->n_shapes++] = e;
}

static void take_columns(options *o, const char *word)
{
    const int n = atoi(word);
    if (n < 1 || n > 16 || o->n_columns == MOST) fail(word, "not 1 to 16 columns");
    o->columns[o->n_columns++] = (unsigned)n;
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
                                          {"trials", 1, NULL, 'T'},  {"threads", 1, NULL, 'j'},
                                          {"rotate", 1, NULL, 'R'},  {NULL, 0, NULL, 0}};
    const char *types = "ggml-q4_0,ggml-q8_0,q4_k,q5_k,q6_k,iq4_xs",
               *shapes = "4096x4096,4096x14336", *columns = "1,2,4,8,16";
    options o = {.turns = 5, .trials = 9, .rotated_bytes = (size_t)256 << 20};
    o.threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (int k; (k = getopt_long(argc, argv, "o:", known, NULL)) != -1;) switch (k) {
        case 'o': o.out = optarg; break;
        case 't': types = optarg; break;
        case 's': shapes = optarg; break;
        case 'c': columns = optarg; break;
        case 'n': o.turns = strtoul(optarg, NULL, 10); break;
        case 'T': o.trials = strtoul(optarg, NULL, 10); break;
        case 'j': o.threads = atoi(optarg); break;
        case 'R': o.rotated_bytes = strtoul(optarg, NULL, 10) << 20; break;
        default: exit(2);
        }
    each_word(&o, types, take_kind);
    each_word(&o, shapes, take_shape);
    each_word(&o, columns, take_columns);
    if (o.trials < 1 || o.trials > MOST_TRIALS || o.turns < 1 || o.threads < 1)
        fail("--trials, --turns, --threads", "1 or more, at most 256 trials");
    return o;
}

static void say_nothing(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level >= GGML_LOG_LEVEL_WARN && level != GGML_LOG_LEVEL_CONT) fputs(text, stderr);
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    FILE *f = fopen(o.out ? o.out : "/dev/null", "w");
    if (!f) fail(o.out, "cannot be written");
    ggml_cpu_init();
    ggml_log_set(say_nothing, NULL);
    pthread_t thread;
    if (pthread_create(&thread, NULL, work_for_ggml, NULL)) fail("thread", "none left");
    fprintf(f,
            "{\n  \"schema\": \"kerf-bench-gemv-ggml-2\", \"ggml\": \"%s\", \"compiler\": \"%s\",\n"
            "  \"threads\": %d, \"turns\": %zu, \"trials\": %zu, \"rotated_bytes\": %zu,\n"
            "  \"results\": [",
            ggml_version(), __VERSION__, o.threads, o.turns, o.trials, o.rotated_bytes);
    for (size_t k = 0; k < o.n_kinds; k++)
        for (size_t s = 0; s < o.n_shapes; s++) compare(f, &o, o.kind[k], o.shape[s]);
    fprintf(f, "\n  ]\n}\n");
    return fclose(f) != 0;
}
