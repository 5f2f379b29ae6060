/* gemv_experts.c - layers of experts on the GPU keep what gemv_experts.h promises: every format,
 * with tails and without, 1 to 16 tokens and 1 to 8 slots, routes that name an expert twice, none,
 * or with weight zero, against double arithmetic on the decoded weights.
 *
 *   gemv_experts [MODE...] [FORMAT...]
 *
 * MODE: quick, all cases; brief, few of them, each buffer of its exact size: what compute-sanitizer
 * is run over; one, those of one token; small, plans as a card has them whose blocks have 99 KiB of
 * shared memory and no clusters (sm_86, 28 multiprocessors), and cases that find no room there;
 * small-overlap, the same where launches overlap (sm_120, 36).
 *
 * One line per format: layers, how many went an element at a time, the kernels that took the first,
 * the largest share of its bound that a result used, and a digest of all results, the same in every
 * run. Without a GPU the exit status is
 * 77. Formats whose codes can be shuffled have a second line, with those. */
#include "gpu/experts_layer.h"

static uint64_t checks, failures, layers, slow, digest;
static double share;
static char backends[32];

static int may_shuffle(const kerf_format *f)
{
    return f->element == KERF_ELEM_E2M1 && f->geometry != KERF_GROUP_STRUCT;
}

static void check(int good, const layer *l, const char *what)
{
    checks++;
    if (good) return;
    if (++failures <= 12)
        printf("FAILED %s%s, %zu experts %zu x %zu, %u tokens, %u slots: %s\n", l->f->name,
               shuffled ? " shuffled" : "", l->c.experts, l->c.hidden, l->c.inter, l->c.tokens,
               l->c.top_k, what);
}

static void compare(const layer *l, const uint8_t *y)
{
    double worst = 0;
    int silent = 1;
    for (size_t t = 0; t < l->c.tokens; t++)
        for (size_t r = 0; r < l->c.hidden; r++) {
            size_t at = t * l->c.hidden + r;
            double got = (double)kf_load(l->c.y, y, at), limit = l->bound[at];
            limit += 0x1p-140 + fabs(l->exact[at]) * (l->c.y == KERF_F32   ? 0x1p-24
                                                      : l->c.y == KERF_F16 ? 0x1p-11
                                                                           : 0x1p-8);
            if (l->c.y == KERF_F16) limit += 0x1p-24;
            double off = fabs(got - l->exact[at]);
            if (!(off <= limit)) silent = 0;
            if (l->bound[at] == 0) continue;
            worst = fmax(worst, off / limit);
        }
    check(silent, l, "a result is outside the bound");
    share = fmax(share, worst);
}

static size_t run_once(layer *l, cudaGraphExec_t graph, uint8_t *y)
{
    zone_write(l->y_zone, NULL);
    if (graph)
        need_cuda(cudaGraphLaunch(graph, stream), "graph");
    else
        need(kerf_gemv_experts_run(l->plan, &l->args, stream, &error), "run");
    wait_for_device();
    need_cuda(cudaGetLastError(), "kernels");
    check(zone_read(l->y_zone, y), l, "something beside y was written");
    check(zone_read(l->h_zone, NULL), l, "something beside the workspace was written");
    return l->y_zone.n;
}

static cudaGraphExec_t record(layer *l)
{
    cudaGraph_t g;
    cudaGraphExec_t e;
    need_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    need(kerf_gemv_experts_run(l->plan, &l->args, stream, &error), "run");
    need_cuda(cudaStreamEndCapture(stream, &g), "capture");
    need_cuda(cudaGraphInstantiate(&e, g, 0), "graph");
    need_cuda(cudaGraphDestroy(g), "graph");
    return e;
}

/* What a token may hold that is no number: nothing but NaN; bits that are all ones; an infinity. */
enum { ALL_NAN, ALL_ONES, ONE_INFINITE, STRANGE };

/* Such a token, the first or the last, leaves the others alone. */
static void check_strange(layer *l, uint8_t *y, const uint8_t *before, int strange)
{
    const size_t out = l->c.hidden * size_of(l->c.y);
    const size_t token = strange == ONE_INFINITE ? l->c.tokens - 1 : 0, at = token * l->c.hidden;
    const size_t behind = (token + 1) * out;
    uint8_t *x = allocate(l->x_zone.n);
    memcpy(x, l->x, l->x_zone.n);
    for (size_t k = 0; k < l->c.hidden && strange == ALL_NAN; k++) kf_store(l->c.x, x, k, NAN);
    if (strange == ALL_ONES) memset(x, 0xff, l->c.hidden * size_of(l->c.x));
    if (strange == ONE_INFINITE) kf_store(l->c.x, x, at + l->c.hidden / 2, INFINITY);
    zone_write(l->x_zone, x);
    run_once(l, NULL, y);
    check(memcmp(y, before, token * out) == 0 &&
              memcmp(y + behind, before + behind, l->y_zone.n - behind) == 0,
          l, "what is no number reached others");
    int used = 0;
    for (size_t s = 0; s < l->c.top_k; s++) used |= counts(l, token * l->c.top_k + s);
    const double first = (double)kf_load(l->c.y, y, at);
    const int may_be_lost = strange == ONE_INFINITE && l->c.clamped;
    check(!used || may_be_lost || (strange == ONE_INFINITE ? !isfinite(first) : isnan(first)), l,
          "what is no number was lost");
    zone_write(l->x_zone, l->x);
    free(x);
}

static void check_layer(const kerf_format *f, const layer_case *c)
{
    layer l = layer_new(f, c);
    if (!l.plan) {
        snprintf(backends, sizeof backends, "%s", "refused");
        layer_free(&l);
        return;
    }
    uint8_t *y = allocate(l.y_zone.n), *again = allocate(l.y_zone.n);
    snprintf(backends, sizeof backends, "%s", kerf_gemv_experts_backend(l.plan));
    cudaGraphExec_t graph = record(&l);
    for (int way = 0; way < ROUTES; way++) {
        fill_routes(&l, way, 1000 + (uint64_t)way);
        solve_layer(&l);
        size_t n = run_once(&l, NULL, y);
        compare(&l, y);
        run_once(&l, graph, again);
        check(memcmp(y, again, n) == 0, &l, "a replay with other routes gives other bits");
        for (size_t i = 0; i < n; i++) digest = mix(digest + y[i]);
        for (int i = 0; i < STRANGE && way == 0; i++) check_strange(&l, again, y, i);
    }
    layers++;
    slow += strcmp(backends, "cuda-any") == 0;
    need_cuda(cudaGraphExecDestroy(graph), "graph");
    free(y);
    free(again);
    layer_free(&l);
}

/* What must be refused, each with nothing enqueued. */
static void check_refusals(const kerf_format *f)
{
    static const layer_case c = {4, 256, 64, 2, 2, KERF_F32, KERF_F32, KERF_F32, 0, 0, 0};
    layer l = layer_new(f, &c);
    if (l.plan) {
        kerf_gemv_experts_args a = l.args;
        a.ids.n--;
        check(kerf_gemv_experts_run(l.plan, &a, stream, &error) == KERF_E_BUFFER, &l, "short ids");
        a = l.args;
        a.down.weights[0].n--;
        check(kerf_gemv_experts_run(l.plan, &a, stream, &error) == KERF_E_BUFFER, &l, "short down");
        a = l.args;
        a.gate.stride[0] = UINT64_MAX / 2 + 1;
        check(kerf_gemv_experts_run(l.plan, &a, stream, &error) == KERF_E_RANGE, &l, "stride");
        a = l.args;
        a.gate.bias = a.x;
        check(kerf_gemv_experts_run(l.plan, &a, stream, &error) == KERF_E_ARG, &l, "bias");
    }
    /* Shuffled codes: of a format that has none such; of rows that go an element at a time. */
    kerf_gemv_experts_shape s = {.format = f,
                                 .experts = 4,
                                 .hidden = fit_cols(f, 256),
                                 .inter = fit_cols(f, 16),
                                 .tokens = 2,
                                 .top_k = 2,
                                 .x = KERF_F32,
                                 .y = KERF_F32,
                                 .flags = KERF_GEMV_SHUFFLED};
    const kerf_exec exec = {.device = gpu};
    if (s.inter % 32 || !may_shuffle(f))
        check(kerf_gemv_experts_plan_create(&l.plan, &s, &exec, &error) == KERF_E_NOSUP, &l,
              "shuffled");
    s.flags = KERF_GEMV_SWIGLU;
    check(kerf_gemv_experts_plan_create(&l.plan, &s, &exec, &error) == KERF_E_ARG, &l, "flags");
    layer_free(&l);
}

static const layer_case cases[] = {
    /* experts hidden inter tokens top_k x y between, rows, bias, clamped */
    {5, 256, 64, 1, 2, KERF_BF16, KERF_F32, KERF_BF16, KERF_EXPERTS_HALVES, 0, 0},
    {6, 576, 192, 1, 3, KERF_F32, KERF_BF16, KERF_F32, KERF_EXPERTS_HALVES, 1, 1},
    {1, 256, 2048, 1, 1, KERF_BF16, KERF_F32, KERF_BF16, KERF_EXPERTS_HALVES, 0, 0},
    {9, 320, 128, 16, 8, KERF_F16, KERF_F16, KERF_F16, KERF_EXPERTS_APART, 1, 0},
    {3, 97, 33, 5, 2, KERF_F32, KERF_F32, KERF_F32, KERF_EXPERTS_ALTERNATING, 1, 1},
    {6, 576, 192, 4, 3, KERF_F32, KERF_BF16, KERF_F32, KERF_EXPERTS_ALTERNATING, 1, 1},
    /* Rows so long that blocks take x of four tokens in turns. */
    {1, 7168, 32, 6, 1, KERF_F32, KERF_F32, KERF_F32, KERF_EXPERTS_HALVES, 0, 0},
    /* What brief leaves out. */
    {7, 512, 192, 3, 1, KERF_F32, KERF_F32, KERF_F32, KERF_EXPERTS_HALVES, 0, 0},
    {32, 1024, 272, 8, 8, KERF_BF16, KERF_BF16, KERF_BF16, KERF_EXPERTS_HALVES, 0, 0},
    {4, 2880, 416, 8, 4, KERF_BF16, KERF_F32, KERF_F32, KERF_EXPERTS_ALTERNATING, 1, 1},
    {2, 1000, 136, 11, 5, KERF_F16, KERF_F32, KERF_BF16, KERF_EXPERTS_HALVES, 1, 0},
    {24, 1024, 64, 2, 6, KERF_BF16, KERF_F32, KERF_F32, KERF_EXPERTS_APART, 0, 0},
    {3, 97, 33, 1, 2, KERF_F32, KERF_F32, KERF_F32, KERF_EXPERTS_ALTERNATING, 1, 1},
    {4, 2880, 416, 1, 4, KERF_BF16, KERF_F32, KERF_BF16, KERF_EXPERTS_ALTERNATING, 1, 1},
    {2, 1000, 136, 1, 5, KERF_F16, KERF_F32, KERF_BF16, KERF_EXPERTS_HALVES, 1, 0},
    {18, 512, 48, 1, 16, KERF_BF16, KERF_BF16, KERF_BF16, KERF_EXPERTS_APART, 0, 0},
    {9, 2304, 576, 1, 8, KERF_F16, KERF_F16, KERF_F16, KERF_EXPERTS_APART, 0, 0},
    /* Many items for each block: experts with several groups, and with one; rows of h in chunks. */
    {16, 1024, 32, 16, 8, KERF_BF16, KERF_BF16, KERF_BF16, KERF_EXPERTS_HALVES, 0, 0},
    {40, 1024, 32, 5, 8, KERF_F32, KERF_F32, KERF_F32, KERF_EXPERTS_APART, 1, 0},
    {2, 64, 9216, 4, 2, KERF_BF16, KERF_F32, KERF_BF16, KERF_EXPERTS_ALTERNATING, 1, 1},
    /* Experts with three to 16 tokens. */
    {8, 4096, 96, 8, 2, KERF_F16, KERF_BF16, KERF_F32, KERF_EXPERTS_APART, 1, 0},
    {3, 768, 1024, 3, 2, KERF_F32, KERF_F16, KERF_F16, KERF_EXPERTS_ALTERNATING, 0, 1},
    {4, 512, 2560, 16, 3, KERF_BF16, KERF_F32, KERF_BF16, KERF_EXPERTS_HALVES, 1, 0},
    {2, 4096, 48, 7, 2, KERF_BF16, KERF_F32, KERF_BF16, KERF_EXPERTS_HALVES, 0, 0},
    /* The same by two: fewer slots than experts, as many and less than six bits, or rows of which
     * four tokens find no room. */
    {50, 768, 112, 16, 3, KERF_BF16, KERF_BF16, KERF_F32, KERF_EXPERTS_APART, 0, 0},
    {6, 2880, 208, 3, 2, KERF_F16, KERF_F32, KERF_BF16, KERF_EXPERTS_ALTERNATING, 1, 1},
    {4, 64, 9216, 4, 1, KERF_BF16, KERF_F32, KERF_BF16, KERF_EXPERTS_HALVES, 1, 0},
    {2, 7424, 32, 4, 1, KERF_F32, KERF_BF16, KERF_F32, KERF_EXPERTS_HALVES, 0, 0},
    /* Rows of 10 and of 6 groups of 64. */
    {4, 640, 384, 4, 2, KERF_BF16, KERF_F32, KERF_BF16, KERF_EXPERTS_APART, 0, 0},
    {3, 640, 384, 1, 2, KERF_F32, KERF_F32, KERF_F32, KERF_EXPERTS_HALVES, 0, 0},
    /* What all but small cards leave out: experts of one token each, and of several, whose x has no
     * room; one token whose h has none. */
    {16, 7168, 64, 4, 2, KERF_BF16, KERF_F32, KERF_BF16, KERF_EXPERTS_APART, 1, 0},
    {2, 7168, 512, 8, 2, KERF_BF16, KERF_BF16, KERF_BF16, KERF_EXPERTS_HALVES, 0, 0},
    {8, 64, 4096, 1, 8, KERF_F32, KERF_F32, KERF_BF16, KERF_EXPERTS_HALVES, 0, 0},
};

enum { CASES = sizeof cases / sizeof *cases, BRIEF = 7, SMALL = 3 };

static size_t case_count = CASES - SMALL;
static int one_token;

/* Plans as a smaller card has them. Multiprocessors are few, so that blocks have much to do. */
static void be_small(const char *arch, unsigned multiprocessors)
{
    static kf_gemv_machine machine;
    machine = kf_gemv_machine_of(arch, multiprocessors, 0);
    machine_of_plans = &machine;
    if (case_count != BRIEF) case_count = CASES;
}

/* Whether a word says which cases there are, or how plans are made. */
static int take_mode(const char *word)
{
    if (strcmp(word, "brief") == 0)
        separate = 1, case_count = BRIEF;
    else if (strcmp(word, "one") == 0)
        one_token = 1;
    else if (strcmp(word, "small") == 0)
        be_small("sm_86", 28);
    else if (strcmp(word, "small-overlap") == 0)
        be_small("sm_120", 36);
    else
        return strcmp(word, "quick") == 0;
    return 1;
}

/* All layers of a format, and its line. */
static void check_format(const kerf_format *f)
{
    const uint64_t before = failures;
    char first[32] = "", name[64];
    layers = slow = digest = 0;
    share = 0;
    for (size_t k = 0; k < case_count; k++) {
        if (one_token && cases[k].tokens != 1) continue;
        check_layer(f, &cases[k]);
        if (k == 0) snprintf(first, sizeof first, "%s", backends);
    }
    check_refusals(f);
    snprintf(name, sizeof name, "%s%s", f->name, shuffled ? "-shuffled" : "");
    printf("%-20s %2llu layers, %2llu slow  %-8s  %5.3f of bound  %016llx %s\n", name,
           (unsigned long long)layers, (unsigned long long)slow, first, share,
           (unsigned long long)digest, failures == before ? "ok" : "FAILED");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    kerf_device_info info;
    if (kerf_device_describe(0, &info, &error) != KERF_OK ||
        kerf_device_open(0, &gpu, &error) != KERF_OK) {
        printf("0 passed, 0 failed, 1 skipped: %s\n", error.text);
        return 77;
    }
    need_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    for (; argc > 1 && take_mode(argv[1]); argc--) argv++;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        int wanted = argc == 1;
        for (int k = 1; k < argc; k++) wanted |= strcmp(argv[k], f->name) == 0;
        if (!wanted) continue;
        for (shuffled = 0; shuffled <= may_shuffle(f); shuffled++) check_format(f);
    }
    printf("%llu passed, %llu failed on %s\n", (unsigned long long)(checks - failures),
           (unsigned long long)failures, info.name);
    kerf_device_close(gpu);
    return failures != 0;
}
