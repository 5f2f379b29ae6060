/* gemv.c - the matrix-vector products of the GPU keep what gemv.h promises: every format, number of
 * columns and type, against double arithmetic on the decoded weights.
 *
 *   gemv brief [FORMAT...]                    every kernel over small shapes, each buffer of its
 *                                             exact size: what compute-sanitizer is run over
 *   gemv quick [cpu] [-o FILE] [FORMAT...]    shapes with every kind of edge
 *   gemv full  [cpu] [-o FILE] [FORMAT...]    and large ones, every type with each
 *
 * One line per format: the worst rms error and the largest error, both as shares of rms(y), over
 * weights and vectors as models have them; the largest share of its bound that any result of any
 * kind used; and a digest of all results, the same in every run. The last line counts. `cpu` runs
 * the same over the processor's kernels. Without a GPU the exit status is 77. */
#include "gpu/gemv_problem.h"

#include <time.h>

#define RMS_LIMIT 5e-4
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
    char backend[48], reason[160];
} seen;

/* What the GPU must do; of other formats it may say why not. */
static int is_required(const kerf_format *f)
{
    if (!gpu) return 1;
    if (f->geometry == KERF_GROUP_STRUCT || f->bits == 2) return 0;
    return f->element != KERF_ELEM_F32 && f->id != KERF_FORMAT_NF4_F16;
}

static kerf_gemv *plan_of(const kerf_gemv_shape *s)
{
    kerf_gemv *plan = NULL;
    kerf_exec exec = {.device = gpu};
    kerf_status status = kerf_gemv_plan_create(&plan, s, &exec, &error);
    if (status == KERF_OK) {
        snprintf(seen.backend, sizeof seen.backend, "%s", kerf_gemv_backend(plan));
        check(kerf_gemv_bound(plan) < 0x1p-8, "a bound that promises nothing");
        return plan;
    }
    if (status != KERF_E_NOSUP || !error.text[0]) check(0, error.text);
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
        l.plane[k] = zone_new((size_t)p->g.plane[k].bytes, skewed(s->skew, element));
        zone_write(l.plane[k], p->plane[k]);
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
                             .flags = s->flags};
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
            if (e.sum > 0 && isfinite(miss) && e.sum < 0x1p127)
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
    double rms = sqrt(errors / squares), mean = sqrt(squares / (double)(s->columns * p->rows));
    seen.rms[s->columns > 1] = fmax(seen.rms[s->columns > 1], rms);
    seen.largest = fmax(seen.largest, largest / mean);
    check(rms <= RMS_LIMIT, "rms error above its limit");
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
    snprintf(doing, sizeof doing, "%s, %zu x %zu, x %s, y %s, %u columns, %s", p->format->name,
             p->rows, p->cols, kerf_dtype_name(p->x_type), kerf_dtype_name(s->y), s->columns, what);
}

static const unsigned columns_all[] = {1, 2, 3, 5, 8, 9, 16};
static const unsigned columns_few[] = {1, 5, 16};

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

/* --- numbers as models have them ----------------------------------------------------------------
 */

typedef struct extent {
    size_t rows, cols;
} extent;

static void check_shape(const kerf_format *f, extent size, kerf_dtype x, int wide, int narrow)
{
    problem p = problem_new(f, size.rows, size.cols, x);
    uint64_t seed = size.rows * 131071 + size.cols;
    fill_weights(&p, 0.05f, wide, seed);
    fill_x(&p, 1, seed + 1);
    solve(&p);
    check_problem(&p, columns_all, COUNT(columns_all), narrow, wide ? "wide" : "bell", 1);
    problem_free(&p);
}

static void check_shapes(const kerf_format *f)
{
    static const extent brief[] = {{5, 97}, {33, 256}, {17, 1024}, {2, 4100}},
                        quick[] = {{1, 1},     {2, 2},     {3, 31},    {31, 33},    {33, 96},
                                   {7, 130},   {64, 256},  {17, 321},  {131, 1000}, {17, 4100},
                                   {300, 512}, {33, 4096}, {5, 14336}, {2, 16480}},
                        large[] = {{4100, 4100}, {1056, 4096}, {257, 8192}, {40, 28672},
                                   {8200, 576},  {300, 14336}, {1030, 5120}};
    const extent *list = mode == BRIEF ? brief : quick;
    size_t n = mode == BRIEF ? COUNT(brief) : COUNT(quick);
    for (size_t i = 0; i < n; i++)
        if (mode == FULL)
            for (size_t t = 0; t < 6; t++)
                check_shape(f, list[i], types[t % 3], t / 3 == 1, t == i % 6);
        else
            check_shape(f, list[i], types[i % 3], i / 3 % 2 == 1, mode == QUICK);
    for (size_t i = 0; mode == FULL && f->bits > 2 && i < COUNT(large); i++)
        check_shape(f, large[i], types[i % 3], 0, 1);
}

/* --- exactly ------------------------------------------------------------------------------------
 */

/* Codes whose numbers, under a scale of one, are small multiples of 1/8. */
static size_t tame_codes(kf_spec s, uint32_t codes[256])
{
    kf_dequant unit = {1, 0};
    size_t n = 0;
    if (s.bits > 8) {
        for (int i = -16; i < 16; i++) codes[n++] = kf_element_encode(s.element, (float)i * 0.25f);
        return n;
    }
    for (uint32_t i = 0; i < 1u << s.bits; i++) {
        float v = kf_value(s, unit, i);
        int integer = s.zero == KERF_ZERO_CODE && fabsf(v) <= 16;
        if (integer || (fabsf(v) <= 4 && v * 8 == floorf(v * 8))) codes[n++] = i;
    }
    return n;
}

/* The bits of a scale of 2^e, e in [-2, 1]. */
static uint32_t scale_of_two(kf_spec s, int e)
{
    switch (s.scale) {
    case KERF_SCALE_E8M0: return (uint32_t)(127 + e);
    case KERF_SCALE_E4M3: return kf_e4m3_encode(kf_exp2(e));
    case KERF_SCALE_MAP8: return 255; /* 1 */
    default: return kf_scale_store(s.scale, kf_exp2(e));
    }
}

static void fill_exact(problem *p, uint64_t seed)
{
    kf_spec s = kf_spec_of(p->format);
    uint32_t codes[256];
    size_t n = tame_codes(s, codes), places = (size_t)p->g.plane[0].bytes * 8 / s.bits;
    size_t row_bytes = (size_t)p->g.plane[0].band_bytes / (size_t)p->g.band_rows;
    unsigned bits = 8 * kf_scale_bytes(s.scale);
    if (n < 3) die(p->format->name, "no codes for exact sums");
    for (size_t i = 0; s.bits != 6 && i < places; i++)
        kf_put_code(p->plane[0], s.bits, i, codes[mix(seed++) % n]);
    for (size_t r = 0; s.bits == 6 && r < p->rows; r++)
        for (size_t k = 0; k < p->cols; k++)
            kf_put_code(p->plane[0] + r * row_bytes, 6, k, codes[mix(seed++) % n]);
    size_t scales = s.geometry == KERF_GROUP_STRUCT ? p->rows * (p->cols / s.group)
                    : bits ? (size_t)p->g.plane[KERF_PLANE_SCALES].bytes * 8 / bits
                           : 0;
    for (size_t i = 0; i < scales; i++) {
        uint8_t *at = p->plane[KERF_PLANE_SCALES];
        size_t place = i;
        if (s.geometry == KERF_GROUP_STRUCT) {
            size_t groups = p->cols / s.group;
            at = p->plane[0] + i / groups * row_bytes + kf_struct_scale(s, i % groups);
            place = 0;
            memset(at, 0, bits / 8);
        }
        kf_put_code(at, bits, place, scale_of_two(s, (int)(mix(seed++) % 4) - 2));
    }
    for (size_t i = 0; i < p->g.plane[KERF_PLANE_SECOND].bytes / 4; i++)
        kf_put_code(p->plane[KERF_PLANE_SECOND], 32, i, kf_bits(0.5f));
    for (size_t i = 0; s.zero == KERF_ZERO_CODE && i < p->g.plane[KERF_PLANE_ZEROS].bytes; i++)
        p->plane[KERF_PLANE_ZEROS][i] = (uint8_t)(s.bits == 8 ? mix(seed++) % 16 : mix(seed++));
    decode_planes(p);
}

static float eighth(uint64_t seed)
{
    return (float)((int)(mix(seed) % 5) - 2) * 0.5f;
}

/* Every sum, in any order, is a number of fp16: then there is one right answer. The last setting
 * adds alpha, bias and residual, which keep it so in F32. */
static void check_exact(const kerf_format *f)
{
    static const extent sizes[] = {{7, 5}, {33, 96}, {17, 256}, {131, 1000}, {9, 4128}, {64, 2051}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        problem p = problem_new(f, sizes[i].rows, sizes[i].cols, types[i % 3]);
        fill_exact(&p, i * 31 + 1);
        for (size_t c = 0; c < COLUMNS; c++)
            for (size_t k = 0; k < p.cols; k++) set_x(&p, c, k, eighth(i * 7919 + c * 104729 + k));
        solve(&p);
        mark m = zones_mark();
        setting s = {.y = KERF_F32};
        loaded l = load(&p, &s);
        float *y = allocate(COLUMNS * p.rows * sizeof *y);
        for (size_t j = 0; j < 2 * COUNT(columns_all); j++) {
            int more = j >= COUNT(columns_all);
            s.columns = columns_all[j % COUNT(columns_all)];
            s.alpha = more ? -0.5f : 0;
            s.bias = more;
            s.residual = more;
            describe(&p, &s, more ? "exactly, with alpha, bias and residual" : "exactly");
            if (!run(&p, &l, &s, (uint8_t *)y, NULL)) continue;
            size_t wrong = 0;
            for (size_t n = 0; n < s.columns * p.rows; n++) {
                size_t c = n / p.rows, r = n % p.rows;
                double add = (double)bias_at(r) + (double)residual_at(c, r);
                wrong += (double)y[n] != (more ? -0.5 * p.e[n].y + add : p.e[n].y);
            }
            check(wrong == 0, "not the exact sum");
        }
        free(y);
        zones_free(m);
        problem_free(&p);
    }
}

/* --- what no model has --------------------------------------------------------------------------
 */

/* Any bytes; and one scale that is NaN or the largest number, which only its rows may show. */
static void check_bytes(const kerf_format *f)
{
    static const extent sizes[] = {{17, 67}, {17, 384}, {33, 1024}, {150, 416}};
    for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
        extent size = sizes[i / 2];
        problem p = problem_new(f, size.rows, size.cols, types[i % 3]);
        if (i % 2 == 0) {
            fill_bytes(&p, i + 1);
        } else {
            uint8_t *scales = p.plane[KERF_PLANE_SCALES];
            unsigned bytes = kf_scale_bytes(kf_spec_of(f).scale);
            size_t n = bytes ? (size_t)p.g.plane[KERF_PLANE_SCALES].bytes / bytes : 0;
            fill_weights(&p, 1, 0, i);
            if (n) memset(scales + n / 2 * bytes, 0xff, bytes);
            if (n > 3) memset(scales + n / 3 * bytes, 0x7e, bytes);
            decode_planes(&p);
        }
        fill_x(&p, 1, i);
        solve(&p);
        check_problem(&p, columns_few, COUNT(columns_few), 1, i % 2 ? "odd scales" : "any bytes",
                      0);
        problem_free(&p);
    }
}

enum {
    OUTLIERS,
    SUBNORMAL,
    TINY,
    SPIKE,
    LARGEST,
    INFINITE,
    BOTH_INFINITE,
    NOT_A_NUMBER,
    ZERO,
    KINDS
};

static float odd_x(int kind, kerf_dtype t, size_t c, size_t k, size_t cols)
{
    float x = bell(c * 7877 + k), least = t == KERF_F16    ? 0x1p-24f
                                          : t == KERF_BF16 ? 0x1p-133f
                                                           : 0x1p-149f;
    size_t at = cols * 2 / 3;
    switch (kind) {
    case OUTLIERS: return k % (cols / 20 + 1) == c ? 60 * x : x;
    case SUBNORMAL: return floorf(x * 40) * least;
    case TINY: return x * (t == KERF_F16 ? 0x1p-20f : 0x1p-100f);
    case SPIKE: return k == at ? 0x1.8p15f : x * 0x1p-9f;
    case LARGEST: return k % 5 == c % 5 ? (t == KERF_F16 ? 65504.0f : 0x1p125f) : x;
    case INFINITE: return c % 3 == 1 && k == at ? INFINITY : x;
    case BOTH_INFINITE:
        return c % 3 == 1 && k == at ? INFINITY : c % 3 == 1 && k == at / 2 ? -INFINITY : x;
    case NOT_A_NUMBER: return c % 3 == 0 && k == at ? NAN : x;
    default: return c % 2 ? -0.0f : 0.0f;
    }
}

/* Vectors that break kernels which think of the usual ones. Some rows are zero where the spike is:
 * there, what is small counts. */
static void check_odd_x(const kerf_format *f)
{
    static const char *const names[KINDS] = {"outliers",  "subnormal x",  "tiny x",
                                             "a spike",   "largest x",    "one inf",
                                             "inf - inf", "one NaN in x", "zero x"};
    static const extent sizes[] = {{37, 1056}, {40, 4096}, {19, 103}};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (size_t t = 0; t < COUNT(types); t++) {
            problem p = problem_new(f, sizes[i].rows, sizes[i].cols, types[t]);
            float *src = allocate(p.rows * p.cols * sizeof *src);
            for (size_t n = 0; n < p.rows * p.cols; n++) {
                size_t k = n % p.cols, at = p.cols * 2 / 3;
                int gone = n / p.cols % 4 == 1 && k / 128 == at / 128;
                src[n] = gone ? 0 : 0.1f * bell(n + i);
            }
            encode_planes(&p, src);
            free(src);
            for (int kind = 0; kind < KINDS; kind++) {
                for (size_t c = 0; c < COLUMNS; c++)
                    for (size_t k = 0; k < p.cols; k++)
                        set_x(&p, c, k, odd_x(kind, types[t], c, k, p.cols));
                solve(&p);
                check_problem(&p, columns_few, COUNT(columns_few), t == (size_t)kind % 3,
                              names[kind], kind == OUTLIERS);
            }
            problem_free(&p);
        }
}

/* --- arguments ----------------------------------------------------------------------------------
 */

/* alpha, bias, residual, strides: each adds one rounding at most. */
static void check_arguments(const kerf_format *f)
{
    static const setting all[] = {
        {.alpha = 1.7f},
        {.bias = 1},
        {.residual = 1, .y_gap = 3},
        {.residual = 2},
        {.alpha = -0.3f, .bias = 1, .residual = 1, .x_gap = 5, .y_gap = 7},
        {.alpha = 3, .bias = 1, .residual = 2, .y_gap = 1}};
    for (size_t i = 0; i < 6; i++) {
        problem p = problem_new(f, i % 2 ? 45 : 264, i % 3 ? 1056 : 133, types[i % 3]);
        fill_weights(&p, 0.1f, 0, i);
        fill_x(&p, 1, i);
        solve(&p);
        mark m = zones_mark();
        loaded l = load(&p, &all[i]);
        float *y = allocate(COLUMNS * p.rows * sizeof *y);
        uint8_t *narrow = allocate(COLUMNS * p.rows * 2);
        for (size_t j = 0; j < COUNT(columns_few); j++) {
            setting s = all[i];
            double bound = 0;
            size_t wrong = 0;
            s.columns = columns_few[j];
            s.y = KERF_F32;
            describe(&p, &s, "alpha, bias, residual, strides");
            if (!run(&p, &l, &s, (uint8_t *)y, &bound)) continue;
            for (size_t n = 0; n < s.columns * p.rows; n++) {
                size_t c = n / p.rows, r = n % p.rows;
                double a = s.alpha == 0 ? 1 : (double)s.alpha, want = a * p.e[n].y;
                double off = fabs(a) * tolerance(&p, bound, c, r) + 0x1p-23 * fabs(want);
                if (s.bias) want += (double)bias_at(r), off += 0x1p-23 * fabs(want);
                if (s.residual) want += (double)residual_at(c, r), off += 0x1p-23 * fabs(want);
                wrong += !(fabs((double)y[n] - want) <= off);
            }
            check(wrong == 0, "not alpha W x + bias + residual");
            s.y = types[1 + i % 2];
            describe(&p, &s, "alpha, bias, residual, strides");
            if (run(&p, &l, &s, narrow, NULL)) judge_narrow(s.y, s.columns * p.rows, y, narrow);
        }
        free(y);
        free(narrow);
        zones_free(m);
        problem_free(&p);
    }
}

/* The same bits wherever everything lies. */
static void check_places(const kerf_format *f)
{
    static const extent sizes[] = {{37, 1056}, {40, 4096}, {9, 77}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        problem p = problem_new(f, sizes[i].rows, sizes[i].cols, types[i % 3]);
        fill_weights(&p, 0.1f, 0, i);
        fill_x(&p, 1, i);
        for (size_t j = 0; j < COUNT(columns_few); j++) {
            float *first = allocate(COLUMNS * p.rows * sizeof *first),
                  *y = allocate(COLUMNS * p.rows * sizeof *y);
            for (size_t skew = 0; skew < (mode == BRIEF ? 4 : 17); skew++) {
                mark m = zones_mark();
                setting s = {.columns = columns_few[j], .y = KERF_F32, .skew = skew};
                loaded l = load(&p, &s);
                describe(&p, &s, "elsewhere in memory");
                if (run(&p, &l, &s, (uint8_t *)(skew ? y : first), NULL) && skew)
                    check(memcmp(first, y, s.columns * p.rows * sizeof *y) == 0, "other bits");
                zones_free(m);
            }
            free(first);
            free(y);
        }
        problem_free(&p);
    }
}

/* A thousand runs in a row, into a place each. */
static void check_repeats(const kerf_format *f)
{
    size_t repeats = gpu ? 1000 : 20;
    problem p = problem_new(f, 301, 1056, KERF_BF16);
    fill_weights(&p, 0.1f, 0, 3);
    fill_x(&p, 1, 4);
    for (size_t j = 0; j < COUNT(columns_few); j++) {
        mark m = zones_mark();
        setting s = {.columns = columns_few[j], .y = KERF_F32, .flags = KERF_GEMV_CONSTANT_WEIGHTS};
        size_t n = s.columns * p.rows * sizeof(float), other = 0;
        kerf_gemv_shape shape = shape_of(&p, &s);
        describe(&p, &s, "again and again");
        kerf_gemv *plan = plan_of(&shape);
        if (!plan) continue;
        loaded l = load(&p, &s);
        zone out = zone_new(repeats * n, 0), work = workspace_for(plan);
        kerf_gemv_args a = args_of(&p, &l, &s);
        uint8_t *image = allocate(repeats * n);
        int good = 1;
        zone_write(out, NULL);
        a.workspace = (kerf_span){work.p, work.n};
        for (size_t i = 0; i < repeats; i++) {
            a.y = (kerf_span){out.p + i * n, n};
            good = good && kerf_gemv_run(plan, &a, stream, &error) == KERF_OK;
        }
        wait_for_device();
        check(good, error.text);
        check(zone_read(out, image), "writes outside of y");
        for (size_t i = 1; i < repeats; i++) other += memcmp(image, image + i * n, n) != 0;
        check(other == 0, "runs differ");
        seen.runs += repeats;
        free(image);
        kerf_gemv_plan_free(plan);
        zones_free(m);
    }
    problem_free(&p);
}

/* A plan is not changed by those that are made after it. */
static void check_many_plans(const kerf_format *f)
{
    static const extent others[] = {{16, 64}, {300, 512}, {9, 33}, {64, 8192}};
    problem p = problem_new(f, 48, 14336, KERF_F16);
    fill_weights(&p, 0.1f, 0, 3);
    fill_x(&p, 1, 4);
    for (size_t j = 0; j < COUNT(columns_few); j++) {
        mark m = zones_mark();
        setting s = {.columns = columns_few[j], .y = KERF_F32};
        size_t n = s.columns * p.rows * sizeof(float);
        kerf_gemv_shape shape = shape_of(&p, &s), other = shape;
        kerf_gemv *plan = plan_of(&shape), *later[COUNT(others)] = {NULL};
        describe(&p, &s, "with other plans");
        loaded l = load(&p, &s);
        kerf_gemv_args a = args_of(&p, &l, &s);
        uint8_t *first = allocate(n), *y = allocate(n);
        zone out = zone_new(n, 0);
        for (size_t i = 0; plan && i < 2; i++) {
            zone work = workspace_for(plan);
            a.y = (kerf_span){out.p, n};
            a.workspace = (kerf_span){work.p, work.n};
            zone_write(out, NULL);
            check(kerf_gemv_run(plan, &a, stream, &error) == KERF_OK, error.text);
            zone_read(out, i ? y : first);
            for (size_t k = 0; k < COUNT(others); k++) {
                other.rows = others[k].rows;
                other.cols = fit_cols(f, others[k].cols);
                if (!i) later[k] = plan_of(&other);
            }
        }
        check(!plan || memcmp(first, y, n) == 0, "other bits after other plans");
        for (size_t k = 0; k < COUNT(others); k++) kerf_gemv_plan_free(later[k]);
        kerf_gemv_plan_free(plan);
        free(first);
        free(y);
        zones_free(m);
    }
    problem_free(&p);
}

/* --- several matrices in one launch -------------------------------------------------------------
 */

typedef struct together {
    problem p[KERF_GEMV_PARTS];
    loaded l[KERF_GEMV_PARTS];
    unsigned parts;
    setting s;
} together;

static void together_new(together *t, const kerf_format *f, const size_t *rows, size_t cols,
                         kerf_dtype x)
{
    for (unsigned i = 0; i < t->parts; i++) {
        t->p[i] = problem_new(f, rows[i], cols, x);
        fill_weights(&t->p[i], 0.1f, 0, i * 1000 + 1);
        fill_x(&t->p[i], 1, 9);
        solve(&t->p[i]);
        t->l[i] = load(&t->p[i], &t->s);
    }
}

/* One launch; y[i] receives part i, of which SWIGLU has only the first. 0: no such plan. */
static int run_together(together *t, uint8_t *const y[], double *bound)
{
    kerf_gemv_shape shape = shape_of(&t->p[0], &t->s);
    zone out[KERF_GEMV_PARTS];
    int swiglu = (t->s.flags & KERF_GEMV_SWIGLU) != 0;
    unsigned results = swiglu ? 1 : t->parts;
    size_t size = size_of(t->s.y), columns = t->s.columns;
    shape.parts = t->parts;
    for (unsigned i = 1; i < t->parts; i++) shape.more_rows[i - 1] = t->p[i].rows;
    kerf_gemv *plan = plan_of(&shape);
    if (!plan) return 0;
    mark m = zones_mark();
    kerf_gemv_args a = args_of(&t->p[0], &t->l[0], &t->s);
    for (unsigned i = 0; i < t->parts; i++) {
        kerf_gemv_part part = {{{0}}, {0}, 0, {0}, {0}};
        if (i < results) {
            out[i] = zone_new(columns * t->p[i].rows * size, 0);
            zone_write(out[i], NULL);
            part.y = (kerf_span){out[i].p, out[i].n};
            if (t->s.bias)
                part.bias = span_of(numbers(&t->s, 1, t->p[i].rows, t->p[i].rows, bias_in));
            if (t->s.residual)
                part.residual =
                    span_of(numbers(&t->s, columns, t->p[i].rows, t->p[i].rows, residual_at));
        }
        for (int k = 0; k < KERF_PLANES; k++) part.weights[k] = span_of(t->l[i].plane[k]);
        if (i) {
            a.more[i - 1] = part;
        } else {
            a.y = part.y;
            a.bias = part.bias;
            a.residual = part.residual;
        }
    }
    zone work = workspace_for(plan);
    a.workspace = (kerf_span){work.p, work.n};
    int good = check(kerf_gemv_run(plan, &a, stream, &error) == KERF_OK, error.text);
    wait_for_device();
    for (unsigned i = 0; i < results; i++) check(zone_read(out[i], y[i]), "writes outside of y");
    check(zone_read(work, NULL), "writes outside of its workspace");
    *bound = kerf_gemv_bound(plan);
    kerf_gemv_plan_free(plan);
    zones_free(m);
    seen.runs++;
    return good;
}

static void check_parts(const kerf_format *f)
{
    static const size_t rows[][KERF_GEMV_PARTS] = {
        {128, 32, 32, 0}, {301, 33, 7, 64}, {1, 1, 0, 0}};
    for (size_t i = 0; i < 9; i++) {
        mark m = zones_mark();
        unsigned parts = i % 3 == 0 ? 3 : i % 3 == 1 ? 4 : 2;
        together t = {.parts = parts,
                      .s = {.columns = columns_few[i / 3], .y = types[i % 3], .bias = i % 2}};
        together_new(&t, f, rows[i % 3], i % 2 ? 1056 : 333, types[(i + i / 3) % 3]);
        uint8_t *y[KERF_GEMV_PARTS], *alone = allocate(COLUMNS * 512 * 4);
        double bound = 0;
        for (unsigned k = 0; k < parts; k++) y[k] = allocate(COLUMNS * t.p[k].rows * 4);
        describe(&t.p[0], &t.s, "several matrices");
        if (run_together(&t, y, &bound))
            for (unsigned k = 0; k < parts; k++) {
                size_t n = t.s.columns * t.p[k].rows * size_of(t.s.y);
                if (run(&t.p[k], &t.l[k], &t.s, alone, NULL))
                    check(memcmp(alone, y[k], n) == 0, "other bits than alone");
                if (t.s.y == KERF_F32 && !t.s.bias) judge(&t.p[k], &t.s, (float *)y[k], bound, 1);
            }
        for (unsigned k = 0; k < parts; k++) {
            free(y[k]);
            problem_free(&t.p[k]);
        }
        free(alone);
        zones_free(m);
    }
}

/* silu(gate x) * (up x): what the bounds of both products allow, and a few roundings of its own. */
static void check_swiglu(const kerf_format *f)
{
    for (size_t i = 0; i < 6; i++) {
        mark m = zones_mark();
        size_t rows[] = {i % 2 ? 257 : 64, i % 2 ? 257 : 64}, wrong = 0;
        together t = {.parts = 2,
                      .s = {.columns = columns_few[i / 2],
                            .y = KERF_F32,
                            .flags = KERF_GEMV_SWIGLU,
                            .alpha = i == 3 ? 0.7f : 0,
                            .bias = i == 4,
                            .residual = i == 5}};
        together_new(&t, f, rows, i % 2 ? 1056 : 333, types[i % 3]);
        float *y = allocate(COLUMNS * rows[0] * sizeof *y);
        uint8_t *out[] = {(uint8_t *)y}, *narrow = allocate(COLUMNS * rows[0] * 2);
        double bound = 0, a = i == 3 ? (double)0.7f : 1;
        describe(&t.p[0], &t.s, "SwiGLU");
        if (run_together(&t, out, &bound)) {
            for (size_t n = 0; n < t.s.columns * rows[0]; n++) {
                size_t c = n / rows[0], r = n % rows[0];
                double g = a * t.p[0].e[n].y, u = a * t.p[1].e[n].y, silu = g / (1 + exp(-g));
                double off_g = fabs(a) * tolerance(&t.p[0], bound, c, r) + 0x1p-23 * fabs(g);
                double off_u = fabs(a) * tolerance(&t.p[1], bound, c, r) + 0x1p-23 * fabs(u);
                double want = silu * u, off = 1.1 * off_g * (fabs(u) + off_u) + fabs(silu) * off_u;
                off += fabs(want) * (0x1p-20 + fabs(g) * 0x1p-22) + 1e-36 * (1 + fabs(u));
                if (t.s.bias) want += (double)bias_at(r), off += 0x1p-23 * fabs(want);
                if (t.s.residual) want += (double)residual_at(c, r), off += 0x1p-23 * fabs(want);
                wrong += !(fabs((double)y[n] - want) <= off);
            }
            check(wrong == 0, "not silu(gate x) * (up x)");
            t.s.y = types[1 + i % 2];
            out[0] = narrow;
            if (run_together(&t, out, &bound))
                judge_narrow(t.s.y, t.s.columns * rows[0], y, narrow);
        }
        free(y);
        free(narrow);
        problem_free(&t.p[0]);
        problem_free(&t.p[1]);
        zones_free(m);
    }
}

/* --- chains -------------------------------------------------------------------------------------
 */

enum { LINKS = 9, WIDTHS = 3, REPLAYS = 30 };

typedef struct chain {
    problem p[WIDTHS];
    loaded l[WIDTHS];
    zone y[2], end, work;
    size_t width; /* elements of the widest vectors */
} chain;

/* x of each link is y of the one before; two buffers take turns, so that a link which starts too
 * early reads what is not there yet, or spoils what is still read. */
static int enqueue_chain(chain *c, const setting *s, kerf_gemv *const plans[WIDTHS], int wait)
{
    kerf_status status = KERF_OK;
    for (int i = 0; i < LINKS && status == KERF_OK; i++) {
        const problem *p = &c->p[i % WIDTHS];
        setting link = *s;
        kerf_gemv_args a = args_of(p, &c->l[i % WIDTHS], &link);
        if (i) a.x.p = c->y[(i + 1) % 2].p;
        a.y = (kerf_span){c->y[i % 2].p, s->columns * p->rows * size_of(s->y)};
        a.workspace = (kerf_span){c->work.p, c->work.n};
        status = kerf_gemv_run(plans[i % WIDTHS], &a, stream, &error);
        if (wait) wait_for_device();
    }
    const zone *last = &c->y[(LINKS - 1) % 2];
    if (status == KERF_OK)
        need_cuda(cudaMemcpyAsync(c->end.p, last->p, c->end.n, cudaMemcpyDeviceToDevice, stream),
                  "copy");
    return status == KERF_OK;
}

static void replay(chain *c, const setting *s, kerf_gemv *const plans[WIDTHS], const uint8_t *want)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    uint8_t *got = allocate(c->end.n);
    size_t other = 0;
    need_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    int good = check(enqueue_chain(c, s, plans, 0), error.text);
    need_cuda(cudaStreamEndCapture(stream, &graph), "capture");
    if (good) {
        need_cuda(cudaGraphInstantiate(&exec, graph, 0), "graph");
        for (int i = 0; i < REPLAYS; i++) {
            zone_write(c->end, NULL);
            need_cuda(cudaGraphLaunch(exec, stream), "graph");
            if (i % 3 == 0) need_cuda(cudaGraphLaunch(exec, stream), "graph");
            wait_for_device();
            zone_read(c->end, got);
            other += memcmp(want, got, c->end.n) != 0;
        }
        need_cuda(cudaGraphExecDestroy(exec), "graph");
    }
    check(other == 0, "other bits from a graph");
    need_cuda(cudaGraphDestroy(graph), "graph");
    free(got);
}

static void check_chain(const kerf_format *f, size_t variant)
{
    static const size_t widths[WIDTHS] = {1024, 352, 2080};
    mark m = zones_mark();
    chain c;
    setting s = {.columns = columns_few[variant], .y = types[variant]};
    kerf_gemv *plans[2][WIDTHS] = {{NULL}};
    size_t work = 0;
    int good = 1;
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t cols = fit_cols(f, widths[i]), rows = fit_cols(f, widths[(i + 1) % WIDTHS]);
        c.p[i] = problem_new(f, rows, cols, s.y);
        fill_weights(&c.p[i], 1 / sqrtf((float)cols), 0, i);
        fill_x(&c.p[i], 1, i);
        c.l[i] = load(&c.p[i], &s);
        describe(&c.p[i], &s, "in a chain");
        for (int k = 0; k < 2; k++) {
            kerf_gemv_shape shape = shape_of(&c.p[i], &s);
            shape.flags = k ? KERF_GEMV_CONSTANT_WEIGHTS : 0;
            plans[k][i] = plan_of(&shape);
            good = good && plans[k][i];
            if (plans[k][i] && kerf_gemv_workspace(plans[k][i]) > work)
                work = kerf_gemv_workspace(plans[k][i]);
        }
    }
    if (good) {
        size_t n = COLUMNS * 2112 * size_of(s.y), end = s.columns * c.p[2].rows * size_of(s.y);
        uint8_t *want = allocate(end), *got = allocate(end);
        for (int i = 0; i < 2; i++) {
            c.y[i] = zone_new(n, 0);
            zone_write(c.y[i], NULL);
        }
        c.end = zone_new(end, 0);
        c.work = zone_new(work, 0);
        zone_write(c.end, NULL);
        zone_write(c.work, NULL);
        check(enqueue_chain(&c, &s, plans[0], 1), error.text);
        wait_for_device();
        zone_read(c.end, want);
        float size = 0;
        for (size_t i = 0; i < end / size_of(s.y); i++) size += fabsf(kf_load(s.y, want, i));
        check(size > 0 && size < 1e9f, "a chain that ends in nothing");
        check(enqueue_chain(&c, &s, plans[1], 0), error.text);
        wait_for_device();
        zone_read(c.end, got);
        check(memcmp(want, got, end) == 0, "other bits without waiting");
        for (int k = 0; k < 2; k++) replay(&c, &s, plans[k], want);
        for (int i = 0; i < 2; i++) check(zone_read(c.y[i], NULL), "writes outside of y");
        seen.runs += LINKS * (2 + 2 * REPLAYS);
        free(want);
        free(got);
    }
    for (size_t i = 0; i < WIDTHS; i++) {
        kerf_gemv_plan_free(plans[0][i]);
        kerf_gemv_plan_free(plans[1][i]);
        problem_free(&c.p[i]);
    }
    zones_free(m);
}

/* --- refusals -----------------------------------------------------------------------------------
 */

static void refuse_plan(kerf_gemv_shape s, const char *what)
{
    kerf_gemv *plan = NULL;
    kerf_exec exec = {.device = gpu};
    error.text[0] = 0;
    kerf_status status = kerf_gemv_plan_create(&plan, &s, &exec, &error);
    check(status != KERF_OK && !plan && error.text[0], what);
    kerf_gemv_plan_free(plan);
}

static void refuse_run(const kerf_gemv *plan, const kerf_gemv_args *a, zone y, const char *what)
{
    uint8_t *got = allocate(y.n);
    size_t written = 0;
    check(kerf_gemv_run(plan, a, stream, &error) == KERF_E_BUFFER, what);
    wait_for_device();
    zone_read(y, got);
    for (size_t i = 0; i < y.n; i++) written += got[i] != POISON;
    check(written == 0, "writes though it refuses");
    free(got);
}

static void check_refusals(const kerf_format *f)
{
    mark m = zones_mark();
    problem p = problem_new(f, 40, 256, KERF_F16);
    setting s = {.columns = 3, .y = KERF_F32};
    kerf_gemv_shape good = shape_of(&p, &s), bad;
    fill_weights(&p, 1, 0, 1);
    fill_x(&p, 1, 1);
    describe(&p, &s, "refusals");
    bad = good, bad.columns = 0, refuse_plan(bad, "no columns");
    bad = good, bad.columns = COLUMNS + 1, refuse_plan(bad, "too many columns");
    bad = good, bad.x = KERF_F64, refuse_plan(bad, "x of type F64");
    bad = good, bad.y = KERF_I8, refuse_plan(bad, "y of type I8");
    bad = good, bad.parts = KERF_GEMV_PARTS + 1, refuse_plan(bad, "too many parts");
    bad = good, bad.flags = 1u << 20, refuse_plan(bad, "a flag that is not there");
    bad = good, bad.parts = 2, bad.more_rows[0] = 41, bad.flags = KERF_GEMV_SWIGLU;
    refuse_plan(bad, "SwiGLU of unequal parts");
    bad = good, bad.flags = KERF_GEMV_SWIGLU, refuse_plan(bad, "SwiGLU of one part");
    kerf_gemv *plan = plan_of(&good);
    if (plan) {
        loaded l = load(&p, &s);
        zone y = zone_new(3 * 40 * 4, 0), work = workspace_for(plan);
        kerf_gemv_args all = args_of(&p, &l, &s), a;
        zone_write(y, NULL);
        all.y = (kerf_span){y.p, y.n};
        all.workspace = (kerf_span){work.p, work.n};
        for (int k = 0; k < KERF_PLANES; k++)
            if (p.g.plane[k].bytes)
                a = all, a.weights[k].n--, refuse_run(plan, &a, y, "a short plane");
        a = all, a.x.n--, refuse_run(plan, &a, y, "a short x");
        a = all, a.y.n--, refuse_run(plan, &a, y, "a short y");
        a = all, a.y_stride = 41, refuse_run(plan, &a, y, "a y too short for its stride");
        a = all, a.bias = (kerf_cspan){l.x.p, 39 * 4}, refuse_run(plan, &a, y, "a short bias");
        a = all, a.residual = (kerf_cspan){l.x.p, 3 * 40 * 4 - 1};
        refuse_run(plan, &a, y, "a short residual");
        if (work.n) a = all, a.workspace.n--, refuse_run(plan, &a, y, "a short workspace");
        kerf_gemv_plan_free(plan);
    }
    problem_free(&p);
    zones_free(m);
}

/* --- main ---------------------------------------------------------------------------------------
 */

static void check_format(const kerf_format *f)
{
    check_shapes(f);
    if (mode != BRIEF) {
        check_exact(f);
        check_bytes(f);
        check_odd_x(f);
        check_repeats(f);
        check_many_plans(f);
    }
    check_arguments(f);
    check_places(f);
    if (!gpu) return; /* the processor has no plans of several matrices */
    check_refusals(f);
    check_parts(f);
    check_swiglu(f);
    for (size_t i = 0; i < (mode == BRIEF ? 1 : COUNT(columns_few)); i++) check_chain(f, i);
}

static void report(FILE *out, const kerf_format *f, uint64_t failed, double seconds)
{
    static int rows;
    if (!seen.runs) {
        printf("%-20s %s: %s\n", f->name, failed ? "FAILED" : "not here", seen.reason);
        return;
    }
    printf("%-20s %7llu runs  rms %.1e (1) %.1e (2..16)  max %.1e  %5.3f of bound  %016llx  %-10s "
           "%4.1f s %s\n",
           f->name, (unsigned long long)seen.runs, seen.rms[0], seen.rms[1], seen.largest,
           seen.share, (unsigned long long)seen.digest, seen.backend, seconds,
           failed ? "FAILED" : "ok");
    fflush(stdout);
    if (out)
        fprintf(
            out,
            "%s\n    {\"format\": \"%s\", \"backend\": \"%s\", \"runs\": %llu, \"rms_1\": %.2e, "
            "\"rms_2_16\": %.2e, \"max\": %.2e, \"share_of_bound\": %.3f, \"failed\": %llu}",
            rows++ ? "," : "", f->name, seen.backend, (unsigned long long)seen.runs, seen.rms[0],
            seen.rms[1], seen.largest, seen.share, (unsigned long long)failed);
}

static int wanted(const kerf_format *f, int n, char **names)
{
    int found = 0;
    for (int i = 0; i < n; i++) found |= strcmp(names[i], f->name) == 0;
    return n == 0 || found;
}

static void open_gpu(char *name, size_t size)
{
    kerf_device_info info;
    if (kerf_device_describe(0, &info, &error) != KERF_OK ||
        kerf_device_open(0, &gpu, &error) != KERF_OK) {
        printf("0 passed, 0 failed, 1 skipped: %s\n", error.text);
        exit(77);
    }
    need_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    snprintf(name, size, "%s", info.name);
}

int main(int argc, char **argv)
{
    char device[128] = "processor";
    FILE *out = NULL;
    double started = now_s();
    uint64_t absent = 0;
    mode = argc > 1 && strcmp(argv[1], "brief") == 0  ? BRIEF
           : argc > 1 && strcmp(argv[1], "full") == 0 ? FULL
                                                      : QUICK;
    separate = mode == BRIEF;
    argc -= 2, argv += 2;
    int cpu = argc > 0 && strcmp(argv[0], "cpu") == 0;
    if (cpu) argc--, argv++;
    if (!cpu) open_gpu(device, sizeof device);
    if (argc > 1 && strcmp(argv[0], "-o") == 0) {
        out = fopen(argv[1], "w");
        if (!out) die(argv[1], "cannot be written");
        fprintf(
            out,
            "{\n  \"schema\": \"kerf-gemv-correct-1\",\n  \"device\": \"%s\",\n  \"formats\": [",
            device);
        argc -= 2, argv += 2;
    }
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        if (!wanted(f, argc, argv)) continue;
        uint64_t before = failures;
        double from = now_s();
        memset(&seen, 0, sizeof seen);
        shown = 0;
        check_format(f);
        absent += seen.runs == 0;
        report(out, f, failures - before, now_s() - from);
    }
    printf("%llu passed, %llu failed, %llu formats not here, %.1f s on %s\n",
           (unsigned long long)(checks - failures), (unsigned long long)failures,
           (unsigned long long)absent, now_s() - started, device);
    if (out) {
        fprintf(out, "\n  ],\n  \"checks\": %llu, \"failed\": %llu, \"seconds\": %.1f\n}\n",
                (unsigned long long)checks, (unsigned long long)failures, now_s() - started);
        if (fclose(out) != 0) return 4;
    }
    kerf_device_close(gpu);
    return failures != 0;
}
