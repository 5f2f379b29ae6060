/* forward_cuda.c - the forward pass of a whole model on a GPU: seconds for many tokens with the
 * sums that a calibration takes, and the share of the matrix units' peak, which is measured by a
 * large product in the same run.
 *
 *   forward_cuda FOLDER [-l LAYERS] [-r ROWS] [-n LENGTH] [-t TERMS] [-g 0|1] [-o FILE.json]
 *
 * FOLDER is made where it is not there: a model of Llama-3.1-8B's shape with random BF16 weights.
 * The weights are read once first, so that they are in the page cache. Files of a calibration are
 * not written. */
#define PROGRAM "forward_cuda"
#include "gpu/or_die.h"

#include "forward/decoder.h"

#include <kerf/cuda.h>
#include <kerf/gemm.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HIDDEN = 4096, INNER = 14336, VOCAB = 128256, HEADS = 32, KEYS = 1024 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- the model ----------------------------------------------------------------------------------
 */

typedef struct filling {
    int file;
    uint64_t at, n; /* bytes */
} filling;

#define PIECE (UINT64_C(8) << 20)

/* Numbers of a deviation of 0.02 or so, each from its place. */
static kerf_status fill_piece(void *ctx, uint64_t i)
{
    const filling *f = ctx;
    const uint64_t n = kf_min_u64(PIECE, f->n - i * PIECE);
    uint16_t *x = malloc(n);
    if (!x) return KERF_E_NOMEM;
    for (uint64_t k = 0; k < n / 2; k++) {
        uint32_t u = (uint32_t)((i * PIECE / 2 + k) * 2654435761u);
        u = ((u >> 16) ^ u) * 0x45d9f3bu;
        u = ((u >> 16) ^ u) * 0x45d9f3bu;
        const float v = ((float)(u >> 8) / 16777216.0f - 0.5f) * 0.07f;
        memcpy(&u, &v, sizeof u);
        x[k] = (uint16_t)(u >> 16);
    }
    const int good = pwrite(f->file, x, n, (off_t)(f->at + i * PIECE)) == (ssize_t)n;
    free(x);
    return good ? KERF_OK : KERF_E_IO;
}

static void write_model(const char *folder, int layers)
{
    static const struct {
        const char *name;
        unsigned rows, cols;
    } part[] = {{"self_attn.q_proj", HIDDEN, HIDDEN},   {"self_attn.k_proj", KEYS, HIDDEN},
                {"self_attn.v_proj", KEYS, HIDDEN},     {"self_attn.o_proj", HIDDEN, HIDDEN},
                {"mlp.gate_proj", INNER, HIDDEN},       {"mlp.up_proj", INNER, HIDDEN},
                {"mlp.down_proj", HIDDEN, INNER},       {"input_layernorm", HIDDEN, 0},
                {"post_attention_layernorm", HIDDEN, 0}};
    char path[4200], *header = malloc(1 << 20);
    uint64_t at = 0;
    size_t n = 0;
    if (!header || mkdir(folder, 0777) != 0) die(folder, "cannot be made");
    n += (size_t)sprintf(header + n, "{");
    for (int l = 0; l < layers + 1; l++)
        for (size_t i = 0; i < (l < layers ? sizeof part / sizeof *part : 3); i++) {
            char name[100], shape[50];
            const unsigned rows = l < layers ? part[i].rows : i == 2 ? HIDDEN : VOCAB;
            const unsigned cols = l < layers ? part[i].cols : i == 2 ? 0 : HIDDEN;
            const uint64_t bytes = (uint64_t)rows * (cols ? cols : 1) * 2;
            if (l < layers)
                snprintf(name, sizeof name, "model.layers.%d.%s.weight", l, part[i].name);
            else
                snprintf(name, sizeof name, "%s",
                         i == 0   ? "model.embed_tokens.weight"
                         : i == 1 ? "lm_head.weight"
                                  : "model.norm.weight");
            snprintf(shape, sizeof shape, cols ? "%u,%u" : "%u", rows, cols);
            n += (size_t)sprintf(header + n,
                                 "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":["
                                 "%llu,%llu]}",
                                 at ? "," : "", name, shape, (unsigned long long)at,
                                 (unsigned long long)(at + bytes));
            at += bytes;
        }
    n += (size_t)sprintf(header + n, "}");
    while (n % 8) header[n++] = ' ';
    const uint64_t length = n;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    filling f = {open(path, O_CREAT | O_WRONLY, 0666), 8 + n, at};
    if (f.file < 0 || pwrite(f.file, &length, 8, 0) != 8 ||
        pwrite(f.file, header, n, 8) != (ssize_t)n ||
        kf_parallel(kf_div_up(at, PIECE), 0, fill_piece, &f) != KERF_OK || close(f.file) != 0)
        die(path, "cannot be written");
    free(header);
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *c = fopen(path, "w");
    if (!c ||
        fprintf(c,
                "{\"model_type\": \"llama\", \"hidden_size\": %d, \"num_hidden_layers\": %d, "
                "\"num_attention_heads\": %d, \"num_key_value_heads\": 8, \"head_dim\": 128, "
                "\"intermediate_size\": %d, \"vocab_size\": %d, \"rope_theta\": 500000.0, "
                "\"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": false}\n",
                HIDDEN, layers, HEADS, INNER, VOCAB) < 0 ||
        fclose(c) != 0)
        die(path, "cannot be written");
}

/* --- the peak -----------------------------------------------------------------------------------
 */

/* Floating-point operations per second of bfloat16 products, 8192 x 8192 x 8192, by the library. */
static double measure_peak(kerf_device *gpu)
{
    enum { N = 8192, TIMES = 20 };
    const kerf_gemm_shape shape = {.format = kerf_format_find("bf16"),
                                   .rows = N,
                                   .cols = N,
                                   .columns = N,
                                   .x = KERF_BF16,
                                   .y = KERF_BF16};
    const kerf_exec exec = {.device = gpu};
    kerf_gemm *plan;
    kerf_dbuf w, x, y, work = {0};
    cudaStream_t stream = kerf_device_stream(gpu);
    uint16_t *some = malloc((size_t)N * N * 2);
    if (!some) die("a large product", "no memory");
    need(kerf_gemm_plan_create(&plan, &shape, &exec, &error), "a large product");
    const size_t room = kerf_gemm_workspace(plan);
    need(kerf_dbuf_alloc(gpu, (size_t)N * N * 2, &w, &error), "memory");
    need(kerf_dbuf_alloc(gpu, (size_t)N * N * 2, &x, &error), "memory");
    need(kerf_dbuf_alloc(gpu, (size_t)N * N * 2, &y, &error), "memory");
    if (room) need(kerf_dbuf_alloc(gpu, room, &work, &error), "memory");
    for (uint32_t i = 0; i < (uint32_t)N * N; i++)
        some[i] = (uint16_t)(0x3c00u + ((i * 2654435761u) >> 23 & 0x1ff) + (i % 3 ? 0x8000u : 0));
    need(kerf_dbuf_write(&w, 0, some, (size_t)N * N * 2, &error), "memory");
    need(kerf_dbuf_write(&x, 0, some, (size_t)N * N * 2, &error), "memory");
    free(some);
    kerf_gemm_args args = {.x = {x.p, x.n}, .y = {y.p, y.n}, .workspace = {work.p, work.n}};
    args.weights[KERF_PLANE_CODES] = (kerf_cspan){w.p, w.n};
    double best = 0;
    for (int k = 0; k < 3; k++) {
        need(kerf_device_wait(gpu, NULL, &error), "waiting");
        const double start = now_s();
        for (int i = 0; i < TIMES; i++)
            need(kerf_gemm_run(plan, &args, stream, &error), "a product");
        need(kerf_device_wait(gpu, NULL, &error), "waiting");
        const double rate = 2.0 * N * N * N * TIMES / (now_s() - start);
        best = rate > best ? rate : best;
    }
    kerf_dbuf_free(&w);
    kerf_dbuf_free(&x);
    kerf_dbuf_free(&y);
    kerf_dbuf_free(&work);
    kerf_gemm_plan_free(plan);
    return best;
}

/* --- the run ------------------------------------------------------------------------------------
 */

/* Sums of the four different inputs of a layer. */
typedef struct sums {
    double *square[4], tokens;
    float *gram[4], largest[4], cache[2];
    int with_gram;
} sums;

static int slot_of(const char *name)
{
    static const char *const first[] = {"q_proj", "o_proj", "gate_proj", "down_proj"};
    for (int i = 0; i < 4; i++)
        if (strstr(name, first[i])) return i;
    return -1;
}

static kerf_status give(void *ctx, const kerf_layer_weight *w, uint64_t tokens, kerf_sums *to,
                        kerf_error *err)
{
    sums *s = ctx;
    const int i = slot_of(w->name);
    (void)err;
    if (i < 0) return KERF_OK;
    s->tokens += (double)tokens;
    *to = (kerf_sums){s->square[i], &s->largest[i], s->gram[i]};
    return KERF_OK;
}

typedef struct figures {
    double load_s, run_s, total_s, peak;
} figures;

static figures run_model(const char *folder, const kerf_tokens *t, int terms, sums *s,
                         kerf_device *gpu)
{
    kerf_checkpoint *file;
    kerf_decoder *d;
    kerf_dbuf state;
    figures f = {.peak = measure_peak(gpu)};
    const kerf_exec exec = {.device = gpu};
    const kerf_watch watch = {.sums = give, .ctx = s, .cache_largest = s->cache};
    need(kerf_checkpoint_open(folder, &file, &error), folder);
    need(kerf_decoder_open(file, &exec, &d, &error), folder);
    kf_steps_set_terms(d->stepper, terms);
    const double begin = now_s();
    need(kerf_dbuf_alloc(gpu, t->rows * t->length * HIDDEN * sizeof(float), &state, &error),
         "states");
    need(kerf_decoder_embed(d, t, state.p, &error), "embedding");
    printf("embedding %.2f s\n", now_s() - begin);
    for (uint64_t i = 0; i < kerf_decoder_about(d)->layers; i++) {
        kerf_layer *l;
        const double start = now_s();
        need(kerf_decoder_layer_load(d, i, &l, &error), "loading a layer");
        const double loaded = now_s();
        need(kerf_layer_run(l, t, state.p, &watch, NULL, &error), "running a layer");
        kerf_layer_free(l);
        f.load_s += loaded - start;
        f.run_s += now_s() - loaded;
        if (i < 3) printf("layer: load %.3f s, run %.3f s\n", loaded - start, now_s() - loaded);
        fflush(stdout);
    }
    f.total_s = now_s() - begin;
    kerf_dbuf_free(&state);
    kerf_decoder_close(d);
    kerf_checkpoint_close(file);
    return f;
}

/* What one token costs at least in one layer: products of weights, of attention (the half that is
 * seen) and, once for each pair of columns, of Gram matrices. */
static void count_work(const kerf_tokens *t, int layers, double *products, double *attention,
                       double *gram)
{
    const double n = (double)(t->rows * t->length) * layers;
    *products = 2 * n * (2.0 * HIDDEN * HIDDEN + 2.0 * KEYS * HIDDEN + 3.0 * HIDDEN * INNER);
    *attention = 2 * n * (double)t->length * HIDDEN;
    *gram = n * (3.0 * HIDDEN * HIDDEN + (double)INNER * INNER);
}

int main(int argc, char **argv)
{
    int layers = 32, rows = 128, length = 2048, terms = 2, gram = 1, option;
    const char *out = NULL;
    while ((option = getopt(argc, argv, "l:r:n:t:g:o:")) != -1) switch (option) {
        case 'l': layers = atoi(optarg); break;
        case 'r': rows = atoi(optarg); break;
        case 'n': length = atoi(optarg); break;
        case 't': terms = atoi(optarg); break;
        case 'g': gram = atoi(optarg); break;
        case 'o': out = optarg; break;
        default: return 2;
        }
    if (optind + 1 != argc) die("usage", "forward_cuda FOLDER [-l N] [-r N] [-n N] [-t N] [-g N]");
    kerf_device *gpu;
    kerf_device_info info;
    need(kerf_device_open(0, &gpu, &error), "a GPU");
    need(kerf_device_describe(0, &info, &error), "a GPU");
    if (access(argv[optind], F_OK) != 0) {
        const double start = now_s();
        write_model(argv[optind], layers);
        printf("made %s in %.1f s\n", argv[optind], now_s() - start);
    }
    uint32_t *token = malloc((size_t)rows * (size_t)length * sizeof *token);
    sums s = {.with_gram = gram};
    for (int i = 0; i < 4; i++) {
        const size_t n = i == 3 ? INNER : HIDDEN;
        s.square[i] = kf_alloc_zero(n, sizeof(double));
        if (gram) s.gram[i] = kf_alloc_zero(n * n, sizeof(float));
    }
    for (int i = 0; token && i < rows * length; i++) token[i] = (uint32_t)i * 2654435761u % VOCAB;
    if (!token) die("tokens", "no memory");
    const kerf_tokens t = {token, (uint64_t)rows, (uint64_t)length};
    const figures f = run_model(argv[optind], &t, terms, &s, gpu);
    double products, attention, grams;
    count_work(&t, layers, &products, &attention, &grams);
    if (!gram) grams = 0;
    const double once = (products + attention + grams) / f.run_s;
    const double pairs = terms * (terms + 1) / 2.0, gram_pairs = terms > 1 ? 3 : 1;
    const double done = (products * terms + attention * pairs + grams * gram_pairs) / f.run_s;
    char text[2000];
    snprintf(text, sizeof text,
             "{\"schema\": \"kerf-bench-forward-cuda-1\", \"device\": \"%s\", \"layers\": %d, "
             "\"rows\": %d, \"length\": %d, \"terms\": %d, \"gram\": %s, \"seconds\": %.2f, "
             "\"load_seconds\": %.2f, \"run_seconds\": %.2f, \"product_pflop\": %.3f, "
             "\"attention_pflop\": %.3f, \"gram_pflop\": %.3f, \"peak_tflops\": %.1f, "
             "\"tflops\": %.1f, \"share\": %.3f, \"tflops_on_units\": %.1f, \"share_on_units\": "
             "%.3f}\n",
             info.name, layers, rows, length, terms, gram ? "true" : "false", f.total_s, f.load_s,
             f.run_s, 1e-15 * products, 1e-15 * attention, 1e-15 * grams, 1e-12 * f.peak,
             1e-12 * once, once / f.peak, 1e-12 * done, done / f.peak);
    fputs(text, stdout);
    FILE *file = out ? fopen(out, "w") : NULL;
    if (out && (!file || fputs(text, file) < 0 || fclose(file) != 0)) die(out, "cannot be written");
    return 0;
}
