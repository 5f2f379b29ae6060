/* gemv.c - the matrix-vector products of the GPU keep what gemv.h promises: every format, number of
 * columns and type, against double arithmetic on the decoded weights.
 *
 *   gemv brief [pairs|wide] [FORMAT...]     every kernel over small shapes, each buffer of its
 *                                           exact size: what compute-sanitizer is run over
 *   gemv quick [cpu|pairs|wide] [-o FILE] [FORMAT...]  shapes with every kind of edge
 *   gemv full [cpu|pairs|wide] [-o FILE] [FORMAT...]   and large ones, every type with each
 *
 * Formats whose codes can be shuffled go through all of it once more with those.
 *
 * One line per format: the worst rms error and the largest error, both as shares of rms(y), over
 * weights and vectors as models have them; the largest share of its bound that any result of any
 * kind used; and a digest of all results, the same in every run. The last line counts. `cpu` runs
 * the same over the processor's kernels; with `pairs` two blocks share rows wherever they can, as
 * otherwise only those of large matrices do; with `wide` nine columns and more go the way that they
 * do with large matrices. Without a GPU the exit status is 77. */
#include "gpu/gemv_launch.h"

/* --- numbers as models have them ----------------------------------------------------------------
 */

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
                                   {300, 512}, {33, 4096}, {5, 14336}, {2, 16480},  {3, 6144},
                                   {2, 12288}, {17, 8192}},
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

/* --- shuffled codes -----------------------------------------------------------------------------
 */

static int is_shuffled(const kerf_format *f)
{
    return f->element == KERF_ELEM_E2M1 && f->geometry != KERF_GROUP_STRUCT;
}

/* The device shuffles as the processor does, and both know the way back. */
static void check_shuffle(const kerf_format *f)
{
    enum { WORDS = 100003 };
    mark m = zones_mark();
    size_t n = WORDS * sizeof(uint32_t);
    uint32_t *codes = allocate(n), *want = allocate(n), *got = allocate(n);
    kerf_exec exec = {.device = gpu};
    for (size_t i = 0; i < WORDS; i++) want[i] = codes[i] = (uint32_t)mix(i);
    zone z = zone_new(n, 0);
    zone_write(z, (uint8_t *)codes);
    kerf_span on_host = {want, n}, on_device = {z.p, n};
    snprintf(doing, sizeof doing, "%s, shuffling %d words", f->name, WORDS);
    check(kerf_gemv_shuffle(f, on_host, NULL, NULL, &error) == KERF_OK, error.text);
    check(kerf_gemv_shuffle(f, on_device, &exec, stream, &error) == KERF_OK, error.text);
    wait_for_device();
    check(zone_read(z, (uint8_t *)got), "writes outside of the codes");
    check(memcmp(want, codes, n) != 0 && memcmp(want, got, n) == 0, "shuffled otherwise");
    check(kerf_gemv_unshuffle(f, on_host, NULL, NULL, &error) == KERF_OK, error.text);
    check(kerf_gemv_unshuffle(f, on_device, &exec, stream, &error) == KERF_OK, error.text);
    wait_for_device();
    check(zone_read(z, (uint8_t *)got), "writes outside of the codes");
    check(memcmp(want, codes, n) == 0 && memcmp(got, codes, n) == 0, "not brought back");
    free(codes);
    free(want);
    free(got);
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
    char name[40];
    snprintf(name, sizeof name, "%s%s", f->name, shuffled ? "-shuffled" : "");
    if (!seen.runs) {
        printf("%-20s %s: %s\n", name, failed ? "FAILED" : "not here", seen.reason);
        return;
    }
    printf("%-20s %7llu runs  rms %.1e (1) %.1e (2..16)  max %.1e  %5.3f of bound  %016llx  %-10s "
           "%4.1f s %s\n",
           name, (unsigned long long)seen.runs, seen.rms[0], seen.rms[1], seen.largest, seen.share,
           (unsigned long long)seen.digest, seen.backend, seconds, failed ? "FAILED" : "ok");
    fflush(stdout);
    if (out)
        fprintf(
            out,
            "%s\n    {\"format\": \"%s\", \"backend\": \"%s\", \"runs\": %llu, \"rms_1\": %.2e, "
            "\"rms_2_16\": %.2e, \"max\": %.2e, \"share_of_bound\": %.3f, \"failed\": %llu}",
            rows++ ? "," : "", name, seen.backend, (unsigned long long)seen.runs, seen.rms[0],
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
    int pairs = argc > 0 && strcmp(argv[0], "pairs") == 0;
    int wide = argc > 0 && strcmp(argv[0], "wide") == 0;
    if (pairs) options.pairing = KF_GEMV_PAIR_ALWAYS;
    options.always_wide = wide;
    if (cpu || pairs || wide) argc--, argv++;
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
        for (shuffled = 0; shuffled <= (gpu && is_shuffled(f)); shuffled++) {
            uint64_t before = failures;
            double from = now_s();
            memset(&seen, 0, sizeof seen);
            shown = 0;
            if (shuffled) check_shuffle(f);
            check_format(f);
            judge_small();
            absent += seen.runs == 0;
            report(out, f, failures - before, now_s() - from);
        }
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
