/* gemv_cuda.c - matrix-vector products on the GPU against what its memory can do, and cuBLAS.
 *
 *   gemv_cuda [-o FILE.json] [--formats LIST|all] [--shapes LIST|none] [--columns LIST]
 *             [--decoder LIST|none] [--models FILE] [--no-ceilings] [--parts] [--no-baselines]
 *             [--replays N] [--budget SECONDS] [--rotate GB] [--commit ID]
 *             [--pairs always|4|8|never] [--energy SECONDS] [--spacing always|never] [--shared KIB]
 *             [--x fp16|bf16]
 *                                                e.g. --formats nvfp4,int8 --shapes 4096x14336
 *
 * Weights rotate over distinct allocations of a gigabyte in total, each with numbers of its own, so
 * all reads are cold; x and y stay in L2, as they do in a model. A graph holds at least 100 calls,
 * and as many as there are copies; it is measured as it is (plain) and with programmatic dependent
 * launch between its kernels (chain). The ceiling of both is a kernel that only reads the same
 * bytes, in the best of several shapes of grid. All contestants of a shape take turns. The error of
 * each is that of sampled rows against double arithmetic on decoded weights, over rms(y).
 *
 * "nvfp4-shuffled" and the like are formats whose codes went through kerf_gemv_shuffle.
 *
 * --models: decoders of other sizes, each in one format, in place of Llama-3.1-8B; lines of NAME
 * LAYERS HIDDEN Q KV FF VOCAB FORMAT. --no-ceilings: decoders without the reads beside them.
 *
 * --pairs: two blocks share rows wherever they can, or nowhere, in place of where it saves time;
 * or, of five columns of GGUF's blocks and more, four or eight do.
 * --spacing: launches of one block for each multiprocessor keep their blocks on multiprocessors of
 * their own, all of them or none, in place of every other one.
 *
 * --shared: so much shared memory for a block, in place of all of the GPU's: 98 as on an sm_89;
 * with 1 nothing has room, and products go an element at a time.
 *
 * --x: what x and y are, fp16 or bf16, which has no baselines.
 *
 * --energy: the decoders' tokens are replayed for so many seconds each, and joules counted by the
 * GPU itself; the power of the idle GPU is measured before.
 *
 * Baselines: cuBLAS in fp16, the best of cublasGemmEx and cublasLt's algorithms; cublasLt in FP8,
 * which takes no fewer than 16 columns, and x already in FP8. */
#include "gemv_cuda.h"

#include "blas_cuda.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHAPES = 16 };

static const char *const default_formats =
    "nvfp4,nvfp4-shuffled,mxfp4,mxfp4-shuffled,int4-g128,int4-g32,int4-g64,int4-row,int4-g128-asym,"
    "nf4,nf4-dq,mxfp6-e2m3,mxfp6-e3m2,mxfp8-e4m3,mxfp8-e5m2,mxint8,fp8-e4m3,fp8-e4m3-row,"
    "fp8-e4m3-128x128,int8,int8-g128,fp16,bf16";
static const char *const default_shapes =
    "4096x4096,14336x4096,4096x14336,8192x8192,28672x8192,7168x16384";
static const char *const default_decoder =
    "nvfp4,nvfp4-shuffled,mxfp4,mxfp4-shuffled,int4-g128,nf4,mxfp6-e2m3,mxfp8-e4m3,fp8-e4m3,int8,"
    "fp16";

/* When a share `done` of the budget of time is spent. */
static double deadline_of(const bench_options *o, double done)
{
    return o->budget_s > 0 ? o->started + o->budget_s * done : 1e300;
}

/* Calls `take` for each word of a list. */
static void each_word(const char *list, void (*take)(const char *word, void *out), void *out)
{
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", list);
    for (char *p = copy, *word; (word = strsep(&p, ","));)
        if (*word && strcmp(word, "none") != 0) take(word, out);
}

typedef struct format_list {
    variant *at;
    int n;
} format_list;

static void take_format(const char *word, void *out)
{
    static const char end[] = "-shuffled";
    format_list *list = out;
    variant v = {.format = kerf_format_find(word)};
    snprintf(v.name, sizeof v.name, "%s", word);
    size_t n = strlen(v.name), cut = sizeof end - 1;
    if (!v.format && n > cut && strcmp(v.name + n - cut, end) == 0) {
        v.shuffled = 1;
        v.name[n - cut] = 0;
        v.format = kerf_format_find(v.name);
        v.name[n - cut] = end[0];
    }
    if (!v.format) bench_fail(word, "no such format");
    if (list->n < MANY_FORMATS) list->at[list->n++] = v;
}

static int formats_of(const char *list, variant *out)
{
    format_list l = {out, 0};
    if (strcmp(list, "all") == 0) list = default_formats;
    each_word(list, take_format, &l);
    return l.n;
}

typedef struct shape_list {
    extent *at;
    int n;
} shape_list;

static void take_shape(const char *word, void *out)
{
    shape_list *list = out;
    char *x, *end;
    extent e = {strtoull(word, &x, 10), 0};
    e.cols = *x == 'x' ? strtoull(x + 1, &end, 10) : 0;
    if (!e.rows || !e.cols) bench_fail(word, "not ROWSxCOLS");
    if (list->n < MOST_SHAPES) list->at[list->n++] = e;
}

static void take_columns(const char *word, void *out)
{
    bench_options *o = out;
    int n = atoi(word);
    if (n < 1 || n > KERF_GEMV_COLUMNS) bench_fail(word, "1 to 16 columns");
    if (o->n_columns < KERF_GEMV_COLUMNS) o->columns[o->n_columns++] = (unsigned)n;
}

static int is_always(const char *word, const char *option)
{
    int always = strcmp(word, "always") == 0;
    if (!always && strcmp(word, "never") != 0) bench_fail(option, "always or never");
    return always;
}

typedef struct arguments {
    const char *out, *formats, *shapes, *columns, *decoder, *commit, *models;
} arguments;

static bench_options parse(int argc, char **argv, arguments *a)
{
    static const struct option known[] = {
        {"formats", 1, NULL, 'f'}, {"shapes", 1, NULL, 's'},      {"columns", 1, NULL, 'c'},
        {"decoder", 1, NULL, 'd'}, {"parts", 0, NULL, 'p'},       {"no-baselines", 0, NULL, 'n'},
        {"replays", 1, NULL, 'r'}, {"budget", 1, NULL, 'b'},      {"rotate", 1, NULL, 'R'},
        {"commit", 1, NULL, 'C'},  {"pairs", 1, NULL, 'P'},       {"spacing", 1, NULL, 'S'},
        {"models", 1, NULL, 'm'},  {"no-ceilings", 0, NULL, 'x'}, {"energy", 1, NULL, 'E'},
        {"shared", 1, NULL, 'k'},  {"x", 1, NULL, 'X'},           {NULL, 0, NULL, 0}};
    bench_options o = {.replays = 21,
                       .baselines = 1,
                       .ceilings = 1,
                       .started = race_now(),
                       .rotated_bytes = 1.05e9,
                       .x = KERF_F16};
    for (int k; (k = getopt_long(argc, argv, "o:", known, NULL)) != -1;) switch (k) {
        case 'o': a->out = optarg; break;
        case 'f': a->formats = optarg; break;
        case 's': a->shapes = optarg; break;
        case 'c': a->columns = optarg; break;
        case 'd': a->decoder = optarg; break;
        case 'p': o.parts = 1; break;
        case 'n': o.baselines = 0; break;
        case 'r': o.replays = atoi(optarg); break;
        case 'b': o.budget_s = atof(optarg); break;
        case 'R': o.rotated_bytes = 1e9 * atof(optarg); break;
        case 'm': a->models = optarg; break;
        case 'x': o.ceilings = 0; break;
        case 'C': a->commit = optarg; break;
        case 'E': o.energy_s = atof(optarg); break;
        case 'k': o.plan.most_shared = 1024u * (unsigned)atoi(optarg); break;
        case 'X':
            if (strcmp(optarg, "fp16") != 0 && strcmp(optarg, "bf16") != 0)
                bench_fail("--x", "fp16 or bf16");
            o.x = optarg[0] == 'b' ? KERF_BF16 : KERF_F16;
            break;
        case 'P':
            o.plan.team = strcmp(optarg, "4") == 0 ? 4 : strcmp(optarg, "8") == 0 ? 8 : 0;
            o.plan.pairing = o.plan.team || is_always(optarg, "--pairs") ? KF_GEMV_PAIR_ALWAYS
                                                                         : KF_GEMV_PAIR_NEVER;
            break;
        case 'S':
            o.plan.spacing =
                is_always(optarg, "--spacing") ? KF_GEMV_SPACE_ALWAYS : KF_GEMV_SPACE_NEVER;
            break;
        default: exit(2);
        }
    if (o.replays < 1 || o.replays > RACE_REPLAYS) bench_fail("--replays", "1 to 64");
    if (o.x == KERF_BF16 && o.baselines) bench_fail("--x bf16", "needs --no-baselines");
    o.n_formats = formats_of(a->formats, o.formats);
    o.n_decoder_formats = formats_of(a->decoder, o.decoder_formats);
    each_word(a->columns, take_columns, &o);
    if (!o.n_columns) bench_fail("--columns", "none given");
    return o;
}

static const decoder_model llama = {"Llama-3.1-8B", 32, 4096, 4096, 1024, 14336, 128256};

/* One decoder after the other, each in the format of its line. */
static void bench_models(const char *path, bench_options *o, bench_results *all)
{
    char line[256], format[40];
    decoder_model m;
    FILE *f = fopen(path, "r");
    if (!f) bench_fail(path, "cannot be read");
    while (fgets(line, sizeof line, f)) {
        unsigned long long n[5];
        if (sscanf(line, "%63s %d %llu %llu %llu %llu %llu %39s", m.name, &m.layers, &n[0], &n[1],
                   &n[2], &n[3], &n[4], format) != 8 ||
            m.layers < 1 || m.layers > DECODER_LAYERS)
            bench_fail(path, "expected NAME LAYERS HIDDEN Q KV FF VOCAB FORMAT");
        m.hidden = n[0], m.q = n[1], m.kv = n[2], m.ff = n[3], m.vocab = n[4];
        o->n_decoder_formats = formats_of(format, o->decoder_formats);
        all->n_decoders +=
            bench_decoder(o, &m, deadline_of(o, 0.97), deadline_of(o, 1),
                          all->decoder + all->n_decoders, MANY_PARTS - all->n_decoders);
    }
    fclose(f);
}

int main(int argc, char **argv)
{
    arguments a = {NULL, default_formats, default_shapes, "1,2,4,8,16", default_decoder, "unknown",
                   NULL};
    static bench_results all;
    extent shapes[MOST_SHAPES];
    shape_list list = {shapes, 0};
    kerf_device_info info;
    bench_options o = parse(argc, argv, &a);
    each_word(a.shapes, take_shape, &list);
    bench_need(kerf_device_describe(0, &info, &bench_error), "GPU");
    bench_need(kerf_device_open(0, &bench_gpu, &bench_error), "GPU");
    bench_need_cuda(cudaStreamCreateWithFlags(&bench_stream, cudaStreamNonBlocking), "stream");
    const char *why = o.baselines ? blas_open() : NULL;
    if (why) printf("%s: no baselines\n", why), o.baselines = 0;
    printf("%s, %.1f s to start\n", info.name, race_now() - o.started);
    if (o.energy_s > 0) all.idle_w = race_idle_w(o.energy_s);
    double weight = 0.85 / (list.n ? list.n : 1);
    for (int i = 0; i < list.n; i++) {
        if (race_now() > deadline_of(&o, 0.85)) {
            printf("out of time before %llu x %llu\n", (unsigned long long)shapes[i].rows,
                   (unsigned long long)shapes[i].cols);
            break;
        }
        bench_shape(shapes[i], &o, deadline_of(&o, weight * (i + 1)), &all);
        if (a.out) write_json(a.out, &o, info.name, a.commit, &all);
    }
    if (a.models)
        bench_models(a.models, &o, &all);
    else if (o.n_decoder_formats)
        all.n_decoders = bench_decoder(&o, &llama, deadline_of(&o, 0.97), deadline_of(&o, 1),
                                       all.decoder, MANY_PARTS);
    if (a.out) write_json(a.out, &o, info.name, a.commit, &all);
    print_tables(&o, shapes, list.n, &all);
    printf("%d results, %llu wrong, %.1f s\n", all.n_rows + all.n_decoders,
           (unsigned long long)bench_wrong, race_now() - o.started);
    kerf_device_close(bench_gpu);
    return bench_wrong != 0;
}
