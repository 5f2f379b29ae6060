/* gemv.c - the matrix-vector products of the GPU keep what gemv.h promises: every format, number of
 * columns and type, against double arithmetic on the decoded weights.
 *
 *   gemv brief [MODE...] [FORMAT...]             every kernel over small shapes, each buffer of
 *                                                its exact size: for compute-sanitizer
 *   gemv quick [MODE...] [-o FILE] [FORMAT...]   shapes with every kind of edge
 *   gemv full [MODE...] [-o FILE] [FORMAT...]    and large ones, every type with each
 *
 * MODE: cpu, pairs, threes, fours .. eights, wide, small, least, most.
 *
 * Formats whose codes can be shuffled go through all of it once more with those.
 *
 * One line per format: the worst rms error and the largest error, both as shares of rms(y), over
 * weights and vectors as models have them; the largest share of its bound that any result of any
 * kind used; and a digest of all results, the same in every run. The last line counts. `cpu` runs
 * the same over the processor's kernels; with `pairs`, `threes`, `fours` and so on so many blocks
 * share rows wherever they can, as otherwise only those of large matrices do; with `wide` nine
 * columns and more go the way that they do with large matrices; with `small` blocks have as much
 * shared memory as those of an sm_89, and no two share rows, so that GGUF's blocks have rings of
 * one unit and steps (`small pairs`: they do share); with `least` and `most` all factors of a
 * tuning are that (kerf/gemv_tune.h). Without a GPU the exit status is 77. */
#include "gpu/gemv_calls.h"
#include "gpu/gemv_launch.h"
#include "gpu/gemv_numbers.h"

#include "plan/gemv_tuning.h"

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
    /* Among them whole tiles of rows that end within a stage, with scales in pieces, in words, and
     * at odd bytes. */
    static const extent brief[] = {{5, 97},    {33, 256},  {17, 1024}, {2, 4100},
                                   {1, 36864}, {33, 1408}, {32, 2368}},
                        quick[] = {{1, 1},     {2, 2},     {3, 31},    {31, 33},    {33, 96},
                                   {7, 130},   {64, 256},  {17, 321},  {131, 1000}, {17, 4100},
                                   {300, 512}, {33, 4096}, {5, 14336}, {2, 16480},  {3, 6144},
                                   {2, 12288}, {17, 8192}, {2, 36864}, {50, 1280},  {37, 1472},
                                   {35, 2176}, {34, 2880}, {48, 5376}, {32, 2368}},
                        large[] = {{4100, 4100}, {1056, 4096}, {257, 8192},  {40, 28672},
                                   {8200, 576},  {300, 14336}, {1030, 5120}, {100, 11008}};
    const extent *list = mode == BRIEF ? brief : quick;
    size_t n = mode == BRIEF ? COUNT(brief) : COUNT(quick);
    for (size_t i = 0; i < n; i++)
        if (mode == FULL)
            for (size_t t = 0; t < 6; t++)
                check_shape(f, list[i], types[t % 3], t / 3 == 1, t == i % 6);
        else
            check_shape(f, list[i], types[i % 3], i / 3 % 2 == 1, mode == QUICK);
    if (mode != BRIEF && options.most_shared) /* more sums than a block has room for */
        check_shape(f, (extent){200000, 512}, types[f->bits % 3], 0, 0);
    for (size_t i = 0; mode == FULL && i < COUNT(large); i++)
        check_shape(f, large[i], types[i % 3], 0, 1);
}

/* Rows of whole stages have kernels for tiles in every format but one. */
static void check_kernels(const kerf_format *f)
{
    const char *expected = f->element == KERF_ELEM_F32 ? "cuda-any" : "cuda";
    problem p = problem_new(f, 64, 4096, KERF_BF16);
    for (size_t j = 0; j < COUNT(columns_all); j++) {
        const setting s = {.columns = columns_all[j], .y = KERF_BF16};
        const kerf_gemv_shape shape = shape_of(&p, &s);
        kerf_gemv *plan = plan_of(&shape);
        describe(&p, &s, "which kernel");
        check(!plan || strcmp(kerf_gemv_backend(plan), expected) == 0, kerf_gemv_backend(plan));
        kerf_gemv_plan_free(plan);
    }
    problem_free(&p);
}

/* --- main ---------------------------------------------------------------------------------------
 */

static void check_format(const kerf_format *f)
{
    check_shapes(f);
    if (mode != BRIEF) {
        check_exact(f);
        check_bytes(f);
        check_far_scales(f);
        check_odd_x(f);
        check_repeats(f);
        check_many_plans(f);
    }
    check_arguments(f);
    check_places(f);
    if (!gpu) return; /* the processor has no plans of several matrices */
    check_kernels(f);
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

static void tune_all(double factor)
{
    static kerf_gemv_tuning tuning;
    for (int i = 0; i < KERF_GEMV_FACTOR_COUNT; i++) tuning.factor[i] = factor;
    options.tuning = &tuning;
}

static void be_small(void)
{
    const kf_gemv_machine m = kf_gemv_machine_of("sm_89", 128, 0);
    options.most_shared = m.most_shared;
    options.pairing = KF_GEMV_PAIR_NEVER;
}

/* Whether a word says how plans are made. */
static int take_mode(const char *word)
{
    static const char *const teams[] = {"pairs", "threes", "fours", "fives",
                                        "sixes", "sevens", "eights"};
    for (unsigned i = 0; i < COUNT(teams); i++) {
        if (strcmp(word, teams[i]) != 0) continue;
        options.pairing = KF_GEMV_PAIR_ALWAYS;
        options.team = i ? i + 2 : 0;
        return 1;
    }
    if (strcmp(word, "wide") == 0)
        options.always_wide = 1;
    else if (strcmp(word, "small") == 0)
        be_small();
    else if (strcmp(word, "least") == 0)
        tune_all(KERF_GEMV_FACTOR_LEAST);
    else if (strcmp(word, "most") == 0)
        tune_all(KERF_GEMV_FACTOR_MOST);
    else
        return 0;
    return 1;
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
    while (argc > 0 && take_mode(argv[0])) argc--, argv++;
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
