/* feedback_cuda.c - error feedback on GPUs against the processor: the matrices of a layer of an 8B
 * model, factors and rows apart.
 *
 *   feedback_cuda [-o FILE.json] [-g GPUS] [-c ROWS] [-w COLUMNS] [CODEC...]
 *
 * -g: at most so many GPUs (all); each number of them, 1, 2, 4 ..., is measured. -c: rows that the
 * processor encodes, with all its threads, the first of the matrix (1024); its time for the matrix
 * is that for these rows times their share. Their bytes must be those of one GPU, and all bytes of
 * several those of one. -w: matrices of more columns are not for the processor (4096; its factors of
 * 14336 take most of a minute). Rows are those of one kerf_encode from host memory to host memory,
 * the median of REPEATS; factors one call, the second, from the matrix in host memory. */
#include <kerf/cuda.h>
#include <kerf/encode_matrix.h>
#include <kerf/feedback.h>

#define PROGRAM "feedback_cuda"
#include "numbers.h"
#include "or_die.h"

#include <time.h>

enum { REPEATS = 3, MOST_GPUS = 16 };

typedef struct matrix {
    uint64_t rows, cols;
} matrix;

static const matrix matrices[] = {{4096, 4096}, {14336, 4096}, {4096, 14336}};
enum { MATRICES = sizeof matrices / sizeof *matrices };

static kerf_device *gpu[MOST_GPUS];
static int gpus;
static uint64_t cpu_rows = 1024, cpu_cols = 4096;
static FILE *out;
static int results;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *allocate(size_t n)
{
    void *p = malloc(n);
    if (!p) die("memory", "there is too little");
    return p;
}

static float number(uint64_t i)
{
    return (float)(int16_t)mix(i) * 3e-5f;
}

/* As of inputs with a few directions in common: the factors do not care how they came about. */
static float *make_gram(uint64_t n)
{
    float *g = allocate(n * n * sizeof *g);
    KERF_IN_PARALLEL_ALWAYS
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 0; k <= i; k++) {
            float sum = i == k ? 2.0f : 0.02f * number(i * n + k);
            for (uint64_t t = 0; t < 4; t++) sum += 0.3f * number(t * n + i) * number(t * n + k);
            g[i * n + k] = sum;
        }
    return g;
}

static void report(const char *what, const char *codec, matrix m, int devices, double seconds)
{
    printf("%-8s %-14s %5d x %5d  %-9s %d  %9.4f s\n", what, codec, (int)m.rows, (int)m.cols,
           devices ? "GPU" : "processor", devices, seconds);
    fflush(stdout);
    if (!out) return;
    fprintf(out,
            "%s\n    {\"what\": \"%s\", \"codec\": \"%s\", \"rows\": %d, \"cols\": %d, "
            "\"gpus\": %d, \"seconds\": %.5f}",
            results++ ? "," : "", what, codec, (int)m.rows, (int)m.cols, devices, seconds);
    fflush(out);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* --- rows --------------------------------------------------------------------------------------
 */

typedef struct planes {
    kerf_span plane[KERF_PLANES];
} planes;

static planes make_planes(const kerf_geometry *g)
{
    planes p;
    for (int k = 0; k < KERF_PLANES; k++)
        p.plane[k] =
            (kerf_span){allocate((size_t)g->plane[k].bytes + 1), (size_t)g->plane[k].bytes};
    return p;
}

static void free_planes(planes *p)
{
    for (int k = 0; k < KERF_PLANES; k++) free(p->plane[k].p);
}

typedef struct work {
    kerf_codec codec;
    char name[64];
    kerf_geometry g;
    matrix m;
    kerf_stats stats;
    uint16_t *weights;
} work;

/* The first `rows` rows. */
static double encode(const work *w, uint64_t rows, const kerf_exec *exec, planes *to)
{
    const uint64_t bands = rows == w->m.rows ? w->g.bands : w->g.bands * rows / w->m.rows;
    kerf_span part[KERF_PLANES];
    for (int k = 0; k < KERF_PLANES; k++)
        part[k] = (kerf_span){to->plane[k].p,
                              (size_t)kerf_band_bytes(&w->g, (kerf_plane_id)k, 0, bands).count};
    const kerf_cspan src = {w->weights, (size_t)kerf_band_elements(&w->g, 0, bands).count * 2};
    const double began = now_s();
    need(kerf_encode(&w->g, w->codec.encoder, &w->stats, 0, bands, src, KERF_BF16, part, exec,
                     &error),
         w->name);
    return now_s() - began;
}

static void compare_rows(const work *w, uint64_t rows, const planes *a, const planes *b)
{
    const uint64_t bands = w->g.bands * rows / w->m.rows;
    for (int k = 0; k < KERF_PLANES; k++)
        if (memcmp(a->plane[k].p, b->plane[k].p,
                   (size_t)kerf_band_bytes(&w->g, (kerf_plane_id)k, 0, bands).count) != 0)
            die(w->name, "the GPU encodes differently");
}

static void swap_planes(planes *a, planes *b)
{
    const planes c = *a;
    *a = *b;
    *b = c;
}

static void time_rows(work *w, const kerf_feedback *cpu, kerf_feedback *const *there)
{
    planes want = make_planes(&w->g), got = make_planes(&w->g);
    kerf_exec exec = {.feedback = cpu};
    need(kerf_measure(&w->g, 0, w->g.bands, (kerf_cspan){w->weights, (size_t)w->g.elements * 2},
                      KERF_BF16, &w->stats, NULL, &error),
         "measure");
    if (cpu)
        report("rows", w->name, w->m, 0,
               encode(w, cpu_rows, &exec, &want) * (double)w->m.rows / (double)cpu_rows);
    for (int n = 1; n <= gpus; n *= 2) {
        double s[REPEATS];
        exec = (kerf_exec){.feedback = there[n], .device = gpu[0]};
        encode(w, w->m.rows, &exec, &got);
        if (cpu || n > 1) compare_rows(w, n > 1 ? w->m.rows : cpu_rows, &want, &got);
        if (n == 1) swap_planes(&want, &got);
        for (int i = 0; i < REPEATS; i++) s[i] = encode(w, w->m.rows, &exec, &got);
        qsort(s, REPEATS, sizeof *s, compare_doubles);
        report("rows", w->name, w->m, n, s[REPEATS / 2]);
    }
    free_planes(&want);
    free_planes(&got);
}

/* --- factors -----------------------------------------------------------------------------------
 */

static void time_matrix(matrix m, char **names, int count)
{
    const kerf_shape shape = {2, {m.rows, m.cols}};
    float *gram = make_gram(m.cols);
    kerf_feedback *cpu = NULL, *there[MOST_GPUS + 1] = {0};
    work w = {.m = m, .weights = allocate(m.rows * m.cols * 2)};
    double began = now_s();
    if (m.cols <= cpu_cols) {
        need(kerf_feedback_make(gram, m.cols, 0.1, 0, NULL, &cpu, &error), "factors");
        report("factors", "", m, 0, now_s() - began);
    }
    for (int n = 1; n <= gpus; n *= 2)
        for (int again = 0; again < 2; again++) {
            kerf_feedback_free(there[n]);
            began = now_s();
            need(kerf_feedback_make_on(gpu, (size_t)n, gram, m.cols, 0.1, NULL, &there[n], &error),
                 "factors");
            if (again) report("factors", "", m, n, now_s() - began);
        }
    fill_bell((uint8_t *)w.weights, KERF_BF16, m.rows * m.cols, 1);
    for (int i = 0; i < count; i++) {
        need(kerf_codec_find(names[i], &w.codec, &error), names[i]);
        kerf_codec_name(w.codec, w.name, sizeof w.name);
        need(kerf_geometry_init(&w.g, w.codec.format, &shape, &error), names[i]);
        w.stats = (kerf_stats){0};
        time_rows(&w, cpu, there);
    }
    for (int n = 1; n <= gpus; n *= 2) kerf_feedback_free(there[n]);
    kerf_feedback_free(cpu);
    free(w.weights);
    free(gram);
}

int main(int argc, char **argv)
{
    static char *usual[] = {"nvfp4:sweep", "nvfp4:4/6", "int4-g128", "mxfp4"};
    kerf_device_info info;
    int most = MOST_GPUS;
    for (; argc > 2 && argv[1][0] == '-'; argc -= 2, argv += 2) {
        if (strcmp(argv[1], "-g") == 0) most = atoi(argv[2]);
        if (strcmp(argv[1], "-c") == 0) cpu_rows = strtoull(argv[2], NULL, 10);
        if (strcmp(argv[1], "-w") == 0) cpu_cols = strtoull(argv[2], NULL, 10);
        if (strcmp(argv[1], "-o") == 0 && !(out = fopen(argv[2], "w")))
            die(argv[2], "cannot be written");
    }
    need(kerf_device_count(&gpus, &error), "GPUs");
    if (gpus > most) gpus = most;
    if (gpus > MOST_GPUS) gpus = MOST_GPUS;
    if (gpus == 0) die("GPUs", "there is none");
    for (int i = 0; i < gpus; i++) need(kerf_device_open(i, &gpu[i], &error), "GPU");
    need(kerf_device_describe(0, &info, &error), "GPU");
    if (out)
        fprintf(out,
                "{\n  \"schema\": \"kerf-bench-feedback-cuda-1\",\n  \"device\": \"%s\",\n"
                "  \"gpus\": %d, \"processor_rows\": %llu, \"repeats\": %d,\n  \"results\": [",
                info.name, gpus, (unsigned long long)cpu_rows, REPEATS);
    for (int i = 0; i < MATRICES; i++)
        time_matrix(matrices[i], argc > 1 ? argv + 1 : usual, argc > 1 ? argc - 1 : 4);
    if (out) fprintf(out, "\n  ]\n}\n");
    if (out && fclose(out) != 0) die("results", "cannot be written");
    for (int i = 0; i < gpus; i++) kerf_device_close(gpu[i]);
    return 0;
}
