/* gemv_run.h - one run of a plan, watched: what it wrote and where, whether it is what gemv.h
 * promises, and the account of a format that its line of the report is made of. */
#ifndef KERF_TESTS_GEMV_RUN_H
#define KERF_TESTS_GEMV_RUN_H

#include "gpu/gemv_problem.h"

#include "plan/gemv_options.h"

#include <time.h>

/* Of rms(y), over this many numbers at least. x of fp32 rounded to fp16 comes to 2e-4; but of two
 * numbers, which may both be near zero, one run in seven would exceed 5e-4 by chance. */
#define RMS_LIMIT 5e-4
enum { RMS_NUMBERS = 32 };
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static uint64_t checks, failures, shown;
static enum { BRIEF, QUICK, FULL } mode;
static const kerf_dtype types[] = {KERF_F32, KERF_F16, KERF_BF16};
static char doing[256]; /* what a failure is about */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int check(int good, const char *what)
{
    checks++;
    if (good) return 1;
    failures++;
    if (++shown <= 6) printf("FAILED %s: %s\n", doing, what);
    return 0;
}

/* --- one format's account -----------------------------------------------------------------------
 */

static struct {
    uint64_t runs, declined, digest;
    double rms[2], largest; /* one column, several */
    double share;           /* of the bound        */
    struct sample {
        double squares, errors; /* summed */
    } small[2];                 /* of all runs with fewer numbers than an rms takes, together */
    char backend[48], reason[160];
} seen;

/* What the GPU must do; of other formats it may say why not. */
static int is_required(const kerf_format *f)
{
    if (!gpu) return 1;
    return f->element != KERF_ELEM_F32 && f->id != KERF_FORMAT_NF4_F16;
}

/* Codes go to the device shuffled, and plans are told: which take rows of whole 16 bytes. */
static int shuffled;

/* What plans do otherwise than by the rules. */
static kf_gemv_options options;

static kerf_gemv *plan_of(const kerf_gemv_shape *s)
{
    kerf_gemv *plan = NULL;
    kerf_exec exec = {.device = gpu};
    kerf_status status = kf_gemv_plan_create_with(&plan, s, &exec, &options, &error);
    if (status == KERF_OK) {
        snprintf(seen.backend, sizeof seen.backend, "%s", kerf_gemv_backend(plan));
        /* It grows with rows; those of models are 16384 long. */
        check(kerf_gemv_bound(plan) < 0x1p-8 * fmax(1, (double)s->cols / 16384),
              "a bound that promises nothing");
        return plan;
    }
    if (status != KERF_E_NOSUP || !error.text[0]) check(0, error.text);
    if (shuffled) {
        check(s->cols % 32 != 0, error.text);
        return NULL;
    }
    if (!seen.declined++) {
        snprintf(seen.reason, sizeof seen.reason, "%.150s", error.text);
        if (is_required(s->format)) check(0, error.text);
    }
    return NULL;
}

/* --- one run ------------------------------------------------------------------------------------
 */

typedef struct setting {
    unsigned columns, flags;
    kerf_dtype y;
    float alpha;
    int bias, residual;  /* residual 2: it is y itself                         */
    size_t x_gap, y_gap; /* elements between vectors                           */
    size_t skew;         /* addresses are multiples of the element's size only */
} setting;

/* Weights and vectors in the memory of the device. */
typedef struct loaded {
    zone plane[KERF_PLANES], x;
    size_t x_stride;
} loaded;

static size_t skewed(size_t skew, size_t element)
{
    return skew * element;
}

static loaded load(const problem *p, const setting *s)
{
    loaded l = {.x_stride = p->cols + s->x_gap};
    size_t size = size_of(p->x_type), n = (COLUMNS - 1) * l.x_stride + p->cols;
    for (int k = 0; k < KERF_PLANES; k++) {
        if (p->g.plane[k].dtype == KERF_DTYPE_NONE) continue;
        size_t element =
            kerf_dtype_bits(p->g.plane[k].dtype) < 8 ? 1 : size_of(p->g.plane[k].dtype);
        size_t bytes = (size_t)p->g.plane[k].bytes;
        l.plane[k] = zone_new(bytes, skewed(s->skew, element));
        if (!shuffled || k != KERF_PLANE_CODES) {
            zone_write(l.plane[k], p->plane[k]);
            continue;
        }
        uint8_t *codes = allocate(bytes);
        memcpy(codes, p->plane[k], bytes);
        check(kerf_gemv_shuffle(p->format, (kerf_span){codes, bytes / 4 * 4}, NULL, NULL, &error) ==
                  KERF_OK,
              error.text);
        zone_write(l.plane[k], codes);
        free(codes);
    }
    uint8_t *x = allocate(n * size);
    memset(x, POISON, n * size);
    for (size_t c = 0; c < COLUMNS; c++)
        memcpy(x + c * l.x_stride * size, p->x + c * p->cols * size, p->cols * size);
    l.x = zone_new(n * size, skewed(s->skew, size));
    zone_write(l.x, x);
    free(x);
    return l;
}

/* Small multiples of 1/4: every type holds them, and sums with them stay exact. */
static float bias_at(size_t r)
{
    return (float)((int)(mix(r + 5) % 33) - 16) * 0.25f;
}
static float residual_at(size_t c, size_t r)
{
    return (float)((int)(mix(r * COLUMNS + c + 77) % 33) - 16) * 0.25f;
}

static kerf_gemv_shape shape_of(const problem *p, const setting *s)
{
    return (kerf_gemv_shape){.format = p->format,
                             .rows = p->rows,
                             .cols = p->cols,
                             .columns = s->columns,
                             .x = p->x_type,
                             .y = s->y,
                             .flags = s->flags | (shuffled ? KERF_GEMV_SHUFFLED : 0)};
}

static kerf_gemv_args args_of(const problem *p, const loaded *l, const setting *s)
{
    kerf_gemv_args a = {.alpha = s->alpha};
    size_t n = (s->columns - 1) * l->x_stride + p->cols;
    for (int k = 0; k < KERF_PLANES; k++) a.weights[k] = span_of(l->plane[k]);
    a.x = (kerf_cspan){l->x.p, n * size_of(p->x_type)};
    if (s->x_gap) a.x_stride = l->x_stride;
    if (s->y_gap) a.y_stride = p->rows + s->y_gap;
    return a;
}

static zone numbers(const setting *s, size_t columns, size_t rows, size_t stride,
                    float (*at)(size_t c, size_t r))
{
    size_t size = size_of(s->y), n = ((columns - 1) * stride + rows) * size;
    uint8_t *image = allocate(n);
    memset(image, POISON, n);
    for (size_t c = 0; c < columns; c++)
        for (size_t r = 0; r < rows; r++) kf_store(s->y, image, c * stride + r, at(c, r));
    zone z = zone_new(n, skewed(s->skew, size));
    zone_write(z, image);
    free(image);
    return z;
}
static float bias_in(size_t c, size_t r)
{
    (void)c;
    return bias_at(r);
}

static zone workspace_for(const kerf_gemv *plan)
{
    zone z = zone_new(kerf_gemv_workspace(plan), 0);
    zone_write(z, NULL);
    return z;
}

/* y as columns x rows; gaps and surroundings must be as they were. 0: there is no such plan. */
static int run(const problem *p, const loaded *l, const setting *s, uint8_t *y, double *bound)
{
    kerf_gemv_shape shape = shape_of(p, s);
    kerf_gemv *plan = plan_of(&shape);
    if (!plan) return 0;
    mark m = zones_mark();
    kerf_gemv_args a = args_of(p, l, s);
    size_t size = size_of(s->y), stride = p->rows + s->y_gap;
    size_t n = ((s->columns - 1) * stride + p->rows) * size, touched = 0;
    zone out, work = workspace_for(plan);
    if (s->residual == 2) {
        out = numbers(s, s->columns, p->rows, stride, residual_at);
    } else {
        out = zone_new(n, skewed(s->skew, size));
        zone_write(out, NULL);
    }
    a.y = (kerf_span){out.p, n};
    a.workspace = (kerf_span){work.p, work.n};
    if (s->bias) a.bias = span_of(numbers(s, 1, p->rows, p->rows, bias_in));
    if (s->residual)
        a.residual = s->residual == 2
                         ? span_of(out)
                         : span_of(numbers(s, s->columns, p->rows, stride, residual_at));
    int good = check(kerf_gemv_run(plan, &a, stream, &error) == KERF_OK, error.text);
    wait_for_device();
    uint8_t *image = allocate(n);
    check(zone_read(out, image), "writes outside of y");
    check(zone_read(work, NULL), "writes outside of its workspace");
    for (size_t c = 0; c < s->columns; c++) {
        memcpy(y + c * p->rows * size, image + c * stride * size, p->rows * size);
        for (size_t i = p->rows * size; c + 1 < s->columns && i < stride * size; i++)
            touched += image[c * stride * size + i] != POISON;
    }
    check(touched == 0, "writes between the vectors of y");
    if (bound) *bound = kerf_gemv_bound(plan);
    seen.runs++;
    free(image);
    kerf_gemv_plan_free(plan);
    zones_free(m);
    return good;
}

/* --- judging ------------------------------------------------------------------------------------
 */

static void judge_rms(int several, double squares, double errors)
{
    double rms = sqrt(errors / squares);
    seen.rms[several] = fmax(seen.rms[several], rms);
    check(rms <= RMS_LIMIT, "rms error above its limit");
}

/* Results as F32 against the promise. `usual`: their errors count for rms. */
static void judge(const problem *p, const setting *s, const float *y, double bound, int usual)
{
    double squares = 0, errors = 0, largest = 0;
    size_t wrong = 0, first = 0;
    for (size_t c = 0; c < s->columns; c++)
        for (size_t r = 0; r < p->rows; r++) {
            size_t i = c * p->rows + r;
            exact e = p->e[i];
            double miss = fabs((double)y[i] - e.y);
            if (!is_right(p, bound, c, r, (double)y[i]) && !wrong++) first = i;
            if (e.sum > 0 && isfinite(miss) && !is_beyond(p, c, r))
                seen.share = fmax(seen.share, miss / tolerance(p, bound, c, r));
            squares += e.y * e.y;
            errors += miss * miss;
            largest = fmax(largest, miss);
        }
    if (wrong) {
        char text[200];
        snprintf(text, sizeof text,
                 "%zu of %zu wrong; y[%zu] = %.9g, exactly %.9g, of %.3g, bound %.3g", wrong,
                 s->columns * p->rows, first, (double)y[first], p->e[first].y, p->e[first].sum,
                 bound);
        check(0, text);
    } else {
        check(1, "");
    }
    seen.digest = mix(seen.digest ^ kerf_hash(y, s->columns * p->rows * sizeof *y));
    if (!usual || squares == 0) return;
    double mean = sqrt(squares / (double)(s->columns * p->rows));
    seen.largest = fmax(seen.largest, largest / mean);
    if (s->columns * p->rows < RMS_NUMBERS) {
        seen.small[s->columns > 1].squares += squares;
        seen.small[s->columns > 1].errors += errors;
        return;
    }
    judge_rms(s->columns > 1, squares, errors);
}

/* The runs of a format that had too few numbers each. */
static void judge_small(void)
{
    snprintf(doing, sizeof doing, "runs of fewer than %d numbers", RMS_NUMBERS);
    for (int several = 0; several < 2; several++)
        if (seen.small[several].squares > 0)
            judge_rms(several, seen.small[several].squares, seen.small[several].errors);
}

/* Narrow results are what F32 gives, rounded once. */
static void judge_narrow(kerf_dtype t, size_t n, const float *wide, const uint8_t *narrow)
{
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t want[4];
        float got = kf_load(t, narrow, i);
        kf_store(t, want, 0, wide[i]);
        wrong += wide[i] != wide[i] ? got == got
                                    : memcmp(want, narrow + i * size_of(t), size_of(t)) != 0;
    }
    check(wrong == 0, "a narrow y is not the wide one rounded");
}

static void describe(const problem *p, const setting *s, const char *what)
{
    snprintf(doing, sizeof doing, "%s%s, %zu x %zu, x %s, y %s, %u columns, %s", p->format->name,
             shuffled ? " shuffled" : "", p->rows, p->cols, kerf_dtype_name(p->x_type),
             kerf_dtype_name(s->y), s->columns, what);
}

static const unsigned columns_all[] = {1, 2, 3, 4, 5, 8, 9, 16};
static const unsigned columns_few[] = {1, 2, 3, 5, 16};

/* A solved problem with some numbers of columns, and the types of y. */
static void check_problem(const problem *p, const unsigned *columns, size_t n, int narrow,
                          const char *what, int usual)
{
    mark m = zones_mark();
    setting s = {.y = KERF_F32};
    loaded l = load(p, &s);
    float *wide = allocate(COLUMNS * p->rows * sizeof *wide);
    uint8_t *other = allocate(COLUMNS * p->rows * 4);
    for (size_t i = 0; i < n; i++) {
        double bound = 0;
        s.columns = columns[i];
        s.y = KERF_F32;
        describe(p, &s, what);
        if (!run(p, &l, &s, (uint8_t *)wide, &bound)) continue;
        judge(p, &s, wide, bound, usual);
        for (size_t t = 1; narrow && t < COUNT(types); t++) {
            s.y = types[t];
            describe(p, &s, what);
            if (run(p, &l, &s, other, NULL)) judge_narrow(s.y, s.columns * p->rows, wide, other);
        }
    }
    free(wide);
    free(other);
    zones_free(m);
}

#endif
