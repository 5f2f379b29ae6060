/* feedback.c - with error feedback a GPU writes the bytes of the processor: every format that it
 * has kernels for, every encoder, shapes with every kind of edge, one GPU and several handles; and
 * the factors are the processor's, bit for bit.
 *
 *   feedback [brief | quick | full]    brief: few formats and shapes, for compute-sanitizer; full:
 *                                      every encoder in every shape
 *
 * Prints one line per codec. Without a GPU the exit status is 77. */
#include "numbers.h"

#include "cuda/handle.h"

#include <kerf/encode_matrix.h>
#include <kerf/feedback.h>

#include <stdio.h>
#include <stdlib.h>

enum { MOST_HANDLES = 3 };

static kerf_device *gpu[MOST_HANDLES];
static kerf_error error;
static uint64_t checks, failures;

static int check(int good, const char *what, const char *detail)
{
    checks++;
    if (good) return 1;
    if (failures++ < 50) printf("FAILED %s: %s\n", what, detail);
    return 0;
}

static void *allocate(size_t n)
{
    void *p = calloc(n ? n : 1, 1);
    if (!p) exit(5);
    return p;
}

static float number(uint64_t i)
{
    const uint64_t r = mix(i);
    float x = 0;
    for (int k = 0; k < 4; k++) x += (float)(int16_t)(r >> 16 * k);
    return x * 2.6e-5f;
}

/* Second moments of inputs that have something in common, some far larger than others, one always
 * zero. */
static float *make_gram(uint64_t n)
{
    enum { TOKENS = 96 };
    float *x = allocate(TOKENS * n * sizeof *x), *g = allocate(n * n * sizeof *g);
    for (uint64_t t = 0; t < TOKENS; t++)
        for (uint64_t k = 0; k < n; k++)
            if (k != 9)
                x[t * n + k] = (number(t * n + k) + 1.5f * number(7000000 + t * 8 + k % 8)) *
                               (k % 31 ? 1.0f : 6.0f);
    KERF_IN_PARALLEL_ALWAYS
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < n; k++) {
            double sum = 0;
            for (uint64_t t = 0; t < TOKENS; t++)
                sum += (double)x[t * n + i] * (double)x[t * n + k];
            g[i * n + k] = (float)(sum / TOKENS);
        }
    free(x);
    return g;
}

/* --- factors -----------------------------------------------------------------------------------
 */

static int same_factors(const kerf_feedback *a, const kf_factors *b)
{
    const size_t n = (size_t)a->columns;
    float *above = allocate(n * n * sizeof *above), *d = allocate(n * sizeof *d);
    int same = cudaMemcpy(above, b->above, n * n * 4, cudaMemcpyDeviceToHost) == cudaSuccess &&
               cudaMemcpy(d, b->d, n * 4, cudaMemcpyDeviceToHost) == cudaSuccess &&
               memcmp(d, a->d, n * 4) == 0;
    for (size_t i = 0; same && i < n; i++)
        same = memcmp(above + i * n, a->above + i * n, i * 4) == 0;
    free(above);
    free(d);
    return same;
}

/* Both, where they are the same. */
typedef struct both {
    kerf_feedback *cpu, *gpu;
} both;

static int make_both(const float *gram, uint64_t n, double damping, size_t handles, both *out)
{
    char what[64];
    snprintf(what, sizeof what, "factors of %d columns, %d handles", (int)n, (int)handles);
    out->gpu = NULL;
    if (kerf_feedback_make(gram, n, damping, 0, NULL, &out->cpu, &error) != KERF_OK) exit(70);
    if (!check(kerf_feedback_make_on(gpu, handles, gram, n, damping, NULL, &out->gpu, &error) ==
                   KERF_OK,
               what, error.text))
        return 0;
    for (size_t i = 0; i < handles; i++)
        check(same_factors(out->cpu, &out->gpu->there->at[i]), what, "bits differ");
    return 1;
}

static void free_both(both *b)
{
    kerf_feedback_free(b->cpu);
    kerf_feedback_free(b->gpu);
}

/* --- codes -------------------------------------------------------------------------------------
 */

typedef struct coded {
    kerf_span plane[KERF_PLANES];
} coded;

static coded make_coded(const kerf_geometry *g, int poison)
{
    coded c;
    for (int k = 0; k < KERF_PLANES; k++) {
        c.plane[k] = (kerf_span){allocate(g->plane[k].bytes + 8), (size_t)g->plane[k].bytes};
        memset(c.plane[k].p, poison, c.plane[k].n + 8);
    }
    return c;
}

static void free_coded(coded *c)
{
    for (int k = 0; k < KERF_PLANES; k++) free(c->plane[k].p);
}

typedef struct shape_case {
    kerf_shape shape;
    kerf_dtype dtype;
    size_t handles;
    kerf_nan nan;
    int special; /* NaN and Inf among the elements */
} shape_case;

static uint8_t *make_source(const shape_case *s, uint64_t n)
{
    uint8_t *p = allocate((size_t)n * size_of(s->dtype));
    fill_bell(p, s->dtype, (size_t)n, 5 + n);
    for (uint64_t i = 3; s->special && i < n; i += 997) {
        uint32_t bits = i % 2 ? 0x7fc00000u : 0xff800000u;
        uint16_t half = (uint16_t)(s->dtype == KERF_F16 ? (i % 2 ? 0x7e00 : 0xfc00) : bits >> 16);
        memcpy(p + i * size_of(s->dtype), s->dtype == KERF_F32 ? (void *)&bits : (void *)&half,
               size_of(s->dtype));
    }
    return p;
}

static void compare(const kerf_geometry *g, const coded *a, const coded *b, const char *what)
{
    for (int k = 0; k < KERF_PLANES; k++) {
        const uint8_t *x = a->plane[k].p, *y = b->plane[k].p;
        size_t i = 0;
        char detail[160];
        while (i < a->plane[k].n && x[i] == y[i]) i++;
        snprintf(detail, sizeof detail, "%d rows of %d, plane %d byte %zu", (int)g->shape.dim[0],
                 (int)g->shape.dim[g->shape.rank - 1], k, i);
        check(i == a->plane[k].n, what, detail);
    }
}

static void check_codec(kerf_codec c, const shape_case *s, const both *f)
{
    kerf_geometry g;
    char name[64];
    const kerf_exec cpu = {.nan = s->nan, .feedback = f->cpu},
                    dev = {.nan = s->nan, .feedback = f->gpu, .device = gpu[0]};
    kerf_codec_name(c, name, sizeof name);
    if (kerf_codec_check(c, &s->shape, s->dtype, &error) != KERF_OK ||
        kerf_geometry_init(&g, c.format, &s->shape, &error) != KERF_OK || !kerf_feedback_fits(&g))
        return;
    uint8_t *w = make_source(s, g.elements);
    const kerf_cspan src = {w, (size_t)g.elements * size_of(s->dtype)};
    coded a = make_coded(&g, 0x5a), b = make_coded(&g, 0xa5);
    const kerf_status want =
        kerf_encode_matrix(&g, c.encoder, src, s->dtype, a.plane, &cpu, NULL, &error);
    const uint64_t at = error.offset;
    const kerf_status got =
        kerf_encode_matrix(&g, c.encoder, src, s->dtype, b.plane, &dev, NULL, &error);
    check(got == want, name, error.text);
    if (want == KERF_E_DATA && got == want) check(error.offset == at, name, "another element");
    if (want == KERF_OK && got == want) compare(&g, &a, &b, name);
    free_coded(&a);
    free_coded(&b);
    free(w);
}

static const shape_case shapes[] = {
    {{2, {35, 256}}, KERF_BF16, 1, KERF_NAN_ERROR, 0},
    {{2, {300, 512}}, KERF_BF16, 2, KERF_NAN_ERROR, 0},
    {{2, {9, 200}}, KERF_F32, 1, KERF_NAN_ERROR, 0},
    {{2, {131, 37}}, KERF_F16, 3, KERF_NAN_ERROR, 0},
    {{3, {3, 150, 160}}, KERF_BF16, 2, KERF_NAN_ERROR, 0},
    {{2, {33, 1024}}, KERF_F16, 1, KERF_NAN_SATURATE, 1},
    {{2, {20, 256}}, KERF_F32, 1, KERF_NAN_ZERO, 1},
    {{2, {20, 256}}, KERF_BF16, 2, KERF_NAN_ERROR, 1},
    {{1, {384}}, KERF_BF16, 1, KERF_NAN_ERROR, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static int is_brief_format(const kerf_format *f)
{
    static const char *const names[] = {"nvfp4",         "fp8-e4m3-128x128", "int8",
                                        "int4-g32-asym", "nf4-dq",           "ggml-nvfp4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], f->name) == 0) return 1;
    return 0;
}

/* mode: as main takes it. */
static void check_shape(const shape_case *s, size_t index, const char *mode)
{
    const uint64_t n = s->shape.dim[s->shape.rank - 1];
    float *gram = make_gram(n);
    both f;
    if (!make_both(gram, n, index % 2 ? 0.1 : 0.01, s->handles, &f)) exit(1);
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *format = kerf_format_at(i);
        if (!kerf_feedback_on_gpu(format)) continue;
        if (strcmp(mode, "brief") == 0 && !is_brief_format(format)) continue;
        const uint64_t before = failures;
        const size_t all = kerf_encoder_count(format);
        for (size_t e = 0; e < all; e++) {
            if (index > 0 && strcmp(mode, "full") != 0 && e != 0 && e != index % all) continue;
            check_codec((kerf_codec){format, kerf_encoder_at(format, e)}, s, &f);
        }
        if (failures != before) printf("%s: DIFFERENT in shape %zu\n", format->name, index);
    }
    free_both(&f);
    free(gram);
    printf("shape %zu: %llu checks, %llu failed\n", index, (unsigned long long)checks,
           (unsigned long long)failures);
    fflush(stdout);
}

/* --- the rest ----------------------------------------------------------------------------------
 */

static void check_factors(void)
{
    static const uint64_t sizes[] = {1, 63, 64, 65, 128, 449, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        float *gram = make_gram(sizes[i]);
        for (size_t handles = 1; handles <= MOST_HANDLES; handles++) {
            both f;
            if (make_both(gram, sizes[i], 0.1, handles, &f)) free_both(&f);
        }
        free(gram);
    }
}

static int is_canceled(void *ctx)
{
    int *left = ctx;
    return --*left < 0;
}

/* Blocks of llama.cpp are the processor's, whose factors are elsewhere; and its factors make it
 * round whatever the device is. */
static void check_places(const float *gram, uint64_t n)
{
    const shape_case s = {{2, {20, n}}, KERF_BF16, 1, KERF_NAN_ERROR, 0};
    kerf_codec q4, mxfp4;
    both f;
    if (kerf_codec_find("q4_k", &q4, &error) != KERF_OK ||
        kerf_codec_find("mxfp4", &mxfp4, &error) != KERF_OK || !make_both(gram, n, 0.1, 1, &f))
        exit(70);
    kerf_geometry g;
    if (kerf_geometry_init(&g, q4.format, &s.shape, &error) != KERF_OK) exit(70);
    uint8_t *w = make_source(&s, g.elements);
    coded c = make_coded(&g, 0);
    const kerf_exec exec = {.feedback = f.gpu, .device = gpu[0]};
    check(kerf_encode_matrix(&g, q4.encoder, (kerf_cspan){w, (size_t)g.elements * 2}, s.dtype,
                             c.plane, &exec, NULL, &error) == KERF_E_ARG,
          "q4_k with factors of a GPU", "is encoded");
    const both cpu = {f.cpu, f.cpu};
    check_codec(mxfp4, &s, &cpu);
    free_coded(&c);
    free(w);
    free_both(&f);
}

static void check_refusals(void)
{
    const uint64_t n = 600;
    float *gram = make_gram(n);
    kerf_feedback *f;
    int left = 5;
    const kerf_job job = {.cancel = is_canceled, .ctx = &left};
    check(kerf_feedback_make_on(gpu, 2, gram, n, 0.1, &job, &f, &error) == KERF_E_CANCELED && !f,
          "cancel", "goes on");
    const float kept = gram[5 * n + 2];
    gram[5 * n + 2] = 1e6f; /* more than the squares of both inputs allow */
    for (size_t gpus = 1; gpus <= 2; gpus++)
        check(kerf_feedback_make_on(gpu, gpus, gram, n, 0.1, NULL, &f, &error) == KERF_E_DATA && !f,
              "no second moments", "are taken");
    gram[5 * n + 2] = kept;
    gram[7 * n + 7] = -gram[7 * n + 7];
    check(kerf_feedback_make_on(gpu, 1, gram, n, 0.1, NULL, &f, &error) == KERF_E_DATA && !f,
          "a square below 0", "is taken");
    gram[7 * n + 7] = -gram[7 * n + 7];
    gram[100 * n + 5] = (float)1e39; /* one of two GPUs has the row, one the pivot it ruins */
    for (size_t gpus = 1; gpus <= 2; gpus++)
        check(kerf_feedback_make_on(gpu, gpus, gram, n, 0.1, NULL, &f, &error) == KERF_E_ARG && !f,
              "a number that is not finite", "is taken, or called something else");
    check(kerf_feedback_make_on(gpu, 0, gram, n, 0.1, NULL, &f, &error) == KERF_E_NOSUP && !f,
          "no GPU", "is taken");
    free(gram);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "quick";
    const int brief = strcmp(mode, "brief") == 0;
    int gpus = 0;
    if (kerf_device_count(&gpus, &error) != KERF_OK || gpus == 0) {
        printf("0 passed, 0 failed, 1 skipped: no GPU\n");
        return 77;
    }
    for (int i = 0; i < MOST_HANDLES; i++)
        if (kerf_device_open(i % gpus, &gpu[i], &error) != KERF_OK) {
            printf("%s\n", error.text);
            return 6;
        }
    if (!brief) check_factors();
    check_refusals();
    float *gram = make_gram(256);
    check_places(gram, 256);
    free(gram);
    for (size_t i = 0; i < SHAPES && strcmp(mode, "factors") != 0; i++)
        if (!brief || i == 2 || i == 4) check_shape(&shapes[i], i, mode);
    for (int i = 0; i < MOST_HANDLES; i++) kerf_device_close(gpu[i]);
    printf("%llu passed, %llu failed, 0 skipped\n", (unsigned long long)(checks - failures),
           (unsigned long long)failures);
    return failures != 0;
}
