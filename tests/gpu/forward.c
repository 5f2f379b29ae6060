/* forward.c - the forward pass on a GPU against the one of the processor: every layer of a tiny
 * model of each family from the same state, sums over inputs, long rows, many rows; the same bits
 * from run to run; and the perplexity of a real model.
 *
 *   gpu_forward [quick|few|full [CASE]]
 *
 * quick: of the real model some rows alone; few: short rows, of the real model two, for sanitizers.
 * CASE: of the tiny models this one alone. Without a GPU or without cuBLASLt the exit status is 77.
 * A layer may differ by 1e-4 of the rms of its state: with two bfloat16 numbers for each factor it
 * differs by about 1e-5, and a window or an angle that is off by a little by far more, which is
 * tried, too. */
#define PROGRAM "gpu_forward"
#include "forward/decoder.h"
#include "forward_inputs.h"
#include "forward_model.h"
#include "or_die.h"
#include "unit/test_folder.h"

#include <kerf/cuda.h>
#include <kerf/eval.h>
#include <kerf/tokens.h>
#include <math.h>

#define LIMIT 1e-4

static kerf_device *gpu;
static json_t *golden;
static char *folder;
static int failures, checks;

static void check(int good, const char *name, const char *what, double value)
{
    checks++;
    if (good) return;
    failures++;
    printf("FAILED: %s: %s: %g\n", name, what, value);
}

/* --- sums over inputs ---------------------------------------------------------------------- */

static void compare_inputs(const char *name, inputs *cpu, inputs *there, double *gram_error)
{
    check(cpu->count == there->count && cpu->count > 0, name, "weights that were told of",
          (double)there->count);
    for (size_t i = 0; i < cpu->count && i < there->count; i++) {
        const input *a = &cpu->of[i], *b = &there->of[i];
        double sum = 0, square = 0, gram = 0;
        for (uint64_t k = 0; k < a->columns; k++) sum += a->square[k] / (double)a->columns;
        for (uint64_t k = 0; k < a->columns; k++) {
            const double off = fabs(b->square[k] - a->square[k]) / (a->square[k] + sum);
            square = off > square || isnan(off) ? off : square;
            for (uint64_t j = k; j < a->columns; j++) {
                const double size = sqrt(a->square[k] * a->square[j]) + sum;
                const double far = fabs((double)b->gram[k * a->columns + j] -
                                        (double)a->gram[k * a->columns + j]) /
                                   size;
                gram = far > gram || isnan(far) ? far : gram;
            }
        }
        check(!strcmp(a->name, b->name) && a->tokens == b->tokens, a->name, "tokens",
              (double)b->tokens);
        check(square <= LIMIT, a->name, "squares", square);
        check(fabsf(a->largest - b->largest) <= 1e-4f * a->largest, a->name, "largest",
              (double)b->largest);
        check(gram <= LIMIT, a->name, "Gram matrix", gram);
        *gram_error = gram > *gram_error ? gram : *gram_error;
    }
    for (int i = 0; i < 2; i++)
        check(fabsf(cpu->cache[i] - there->cache[i]) <= 1e-4f * cpu->cache[i], name, "cache",
              (double)there->cache[i]);
}

/* --- a model -------------------------------------------------------------------------------- */

typedef struct model {
    kerf_checkpoint *file;
    kerf_decoder *cpu, *gpu;
    uint64_t n, bytes; /* of a state */
} model;

static model open_model(const char *path, const kerf_tokens *t)
{
    model m = {.n = 0};
    const kerf_exec plain = {.threads = 0}, there = {.device = gpu};
    need(kerf_checkpoint_open(path, &m.file, &error), path);
    need(kerf_decoder_open(m.file, &plain, &m.cpu, &error), path);
    need(kerf_decoder_open(m.file, &there, &m.gpu, &error), path);
    const kerf_decoder_info *about = kerf_decoder_about(m.cpu);
    m.n = t->rows * t->length * about->hidden;
    m.bytes = m.n * sizeof(float);
    key_columns = about->key_columns;
    value_columns = about->value_columns;
    return m;
}

static void close_model(model *m)
{
    kerf_decoder_close(m->cpu);
    kerf_decoder_close(m->gpu);
    kerf_checkpoint_close(m->file);
}

static float *new_state(const model *m)
{
    float *p = malloc(m->bytes);
    if (!p) die("a state", "no memory");
    return p;
}

static void run_layer(kerf_decoder *d, uint64_t i, const kerf_tokens *t, float *state,
                      const kerf_watch *watch)
{
    kerf_layer *l;
    need(kerf_decoder_layer_load(d, i, &l, &error), "loading a layer");
    need(kerf_layer_run(l, t, state, watch, NULL, &error), "running a layer");
    kerf_layer_free(l);
}

/* Each layer from the processor's state, with inputs and keys that a watch changes. */
static double compare_changed(const model *m, const kerf_tokens *t)
{
    float *cpu = new_state(m), *there = new_state(m), *unchanged = new_state(m);
    const kerf_watch watch = {.replace = replace, .cache = halve_keys};
    double worst = 0;
    need(kerf_decoder_embed(m->cpu, t, cpu, &error), "embedding");
    for (uint64_t i = 0; i < kerf_decoder_about(m->cpu)->layers; i++) {
        memcpy(there, cpu, m->bytes);
        memcpy(unchanged, cpu, m->bytes);
        run_layer(m->cpu, i, t, cpu, &watch);
        run_layer(m->gpu, i, t, there, &watch);
        run_layer(m->cpu, i, t, unchanged, NULL);
        const double off = distance(cpu, there, m->n);
        worst = off > worst || isnan(off) ? off : worst;
        check(distance(cpu, unchanged, m->n) > 100 * LIMIT, "changed", "makes no difference", 0);
    }
    free(cpu);
    free(there);
    free(unchanged);
    return worst;
}

/* Each layer from the processor's state: the largest distance of any. */
static double compare_layers(const char *name, const model *m, const kerf_tokens *t,
                             double *gram_error, int look)
{
    float *cpu = new_state(m), *there = new_state(m);
    double worst = 0;
    need(kerf_decoder_embed(m->cpu, t, cpu, &error), "embedding");
    for (uint64_t i = 0; i < kerf_decoder_about(m->cpu)->layers; i++) {
        static inputs a, b;
        const kerf_watch watch = {.input = take_input, .cache = take_cache, .ctx = &a};
        const kerf_watch sums = {.sums = give_sums, .ctx = &b, .cache_largest = b.cache};
        memcpy(there, cpu, m->bytes);
        run_layer(m->cpu, i, t, cpu, look ? &watch : NULL);
        run_layer(m->gpu, i, t, there, look ? &sums : NULL);
        const double off = distance(cpu, there, m->n);
        worst = off > worst || isnan(off) ? off : worst;
        if (look) compare_inputs(name, &a, &b, gram_error);
        free_inputs(&a);
        free_inputs(&b);
    }
    free(cpu);
    free(there);
    return worst;
}

/* --- the same from run to run, wherever the state is ------------------------------------------ */

static kerf_status hash_logits(void *ctx, uint64_t row, uint64_t position, uint64_t n,
                               float *logits, kerf_error *err)
{
    uint64_t *hash = ctx;
    (void)row, (void)position, (void)err;
    *hash = *hash * 31 + kerf_hash(logits, n * 160 * sizeof *logits);
    return KERF_OK;
}

static uint64_t run_hash(const model *m, const kerf_tokens *t, int resident)
{
    kerf_dbuf there = {0};
    static inputs in;
    const kerf_watch sums = {.sums = give_sums, .ctx = &in, .cache_largest = in.cache};
    float *here = new_state(m), *state = here;
    uint64_t hash = 0;
    if (resident) {
        need(kerf_dbuf_alloc(gpu, m->bytes, &there, &error), "a state on the GPU");
        state = there.p;
    }
    need(kerf_decoder_embed(m->gpu, t, state, &error), "embedding");
    for (uint64_t i = 0; i < kerf_decoder_about(m->gpu)->layers; i++) {
        run_layer(m->gpu, i, t, state, &sums);
        if (resident) need(kerf_dbuf_read(&there, 0, here, m->bytes, &error), "reading a state");
        hash = hash * 31 + kerf_hash(here, m->bytes);
        for (size_t k = 0; k < in.count; k++)
            hash = hash * 31 + kerf_hash(in.of[k].gram, in.of[k].columns * in.of[k].columns * 4) +
                   kerf_hash(in.of[k].square, in.of[k].columns * 8);
        free_inputs(&in);
    }
    need(kerf_decoder_logits(m->gpu, t, state, NULL, hash_logits, &hash, NULL, &error), "logits");
    kerf_dbuf_free(&there);
    free(here);
    return hash;
}

/* A run that is canceled when the first sums were told of; nothing is added where they were to go,
 * then or by the next run. */
static int has_inputs(void *ctx)
{
    return ((const inputs *)ctx)->count > 0;
}

static void check_canceled(const char *name, const model *m, const kerf_tokens *t)
{
    static inputs lost, found;
    const kerf_watch first = {.sums = give_sums, .ctx = &lost, .cache_largest = lost.cache};
    const kerf_watch second = {.sums = give_sums, .ctx = &found, .cache_largest = found.cache};
    const kerf_job job = {.cancel = has_inputs, .ctx = &lost};
    float *state = new_state(m);
    double sum = 0;
    kerf_layer *l;
    need(kerf_decoder_layer_load(m->gpu, 0, &l, &error), "loading a layer");
    need(kerf_decoder_embed(m->gpu, t, state, &error), "embedding");
    check(kerf_layer_run(l, t, state, &first, &job, &error) == KERF_E_CANCELED && lost.count, name,
          "is not canceled", 0);
    need(kerf_decoder_embed(m->gpu, t, state, &error), "embedding");
    need(kerf_layer_run(l, t, state, &second, NULL, &error), "running a layer");
    for (size_t k = 0; k < lost.count; k++)
        for (uint64_t i = 0; i < lost.of[k].columns; i++) sum += lost.of[k].square[i];
    check(sum == 0, name, "sums of a run that was canceled", sum);
    for (uint64_t i = 0; i < found.of[0].columns; i++) sum += found.of[0].square[i];
    check(sum > 0, name, "sums of the run behind it", sum);
    kerf_layer_free(l);
    free_inputs(&lost);
    free_inputs(&found);
    free(state);
}

/* --- cases ------------------------------------------------------------------------------------ */

static uint32_t token[16384];

static kerf_tokens tokens_of(uint64_t rows, uint64_t length)
{
    formula_tokens(golden, token, rows * length);
    return (kerf_tokens){token, rows, length};
}

static const json_t *write_case(size_t i, const char **name)
{
    const json_t *one = json_array_get(json_object_get(golden, "cases"), i);
    *name = json_string_value(json_object_get(one, "case"));
    need(write_formula_model(folder, json_object_get(one, "config"),
                             json_object_get(one, "tensors"), &error),
         *name);
    return one;
}

/* The GPU with a configuration that differs a little must be far from the processor. */
static void try_wrong(const json_t *one, const char *name, const char *key, json_t *value)
{
    const kerf_tokens t = tokens_of(1, 48);
    json_t *config = json_deep_copy(json_object_get(one, "config"));
    const kerf_exec there = {.device = gpu};
    char path[4200];
    model right = open_model(folder, &t), wrong = right;
    json_object_set_new(config, key, value);
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (json_dump_file(config, path, 0) != 0) die(path, "cannot be written");
    need(kerf_decoder_open(right.file, &there, &wrong.gpu, &error), "a wrong configuration");
    const double off = compare_layers(name, &wrong, &t, NULL, 0);
    check(off > 10 * LIMIT, name, key, off);
    printf("  %s with another %s: %.1e\n", name, key, off);
    kerf_decoder_close(wrong.gpu);
    close_model(&right);
    json_decref(config);
}

static void run_case(size_t i, int sizes_run, const char *only)
{
    const char *name;
    const json_t *one = write_case(i, &name);
    if (only && strcmp(only, name)) return;
    static const uint64_t sizes[][2] = {{2, 48}, {1, 1300}, {180, 48}};
    double off[3] = {0}, gram = 0;
    for (int k = 0; k < sizes_run; k++) {
        const kerf_tokens t = tokens_of(sizes[k][0], sizes[k][1]);
        model m = open_model(folder, &t);
        off[k] = compare_layers(name, &m, &t, &gram, k < 2);
        check(off[k] <= LIMIT, name,
              k == 0   ? "layers"
              : k == 1 ? "long rows"
                       : "many rows",
              off[k]);
        if (k == 0) {
            const double changed = compare_changed(&m, &t);
            check(changed <= LIMIT, name, "with inputs that are changed", changed);
        }
        if (k == sizes_run / 2) {
            const uint64_t first = run_hash(&m, &t, 0);
            check(run_hash(&m, &t, 0) == first, name, "the same bits again", 0);
            check(run_hash(&m, &t, 1) == first, name, "the same bits from the GPU's memory", 0);
            check_canceled(name, &m, &t);
        }
        close_model(&m);
    }
    printf("%-20s layers %.1e, rows of 1300 %.1e, 180 rows %.1e, Gram %.1e\n", name, off[0], off[1],
           off[2], gram);
    if (!strcmp(name, "mistral")) try_wrong(one, name, "sliding_window", json_integer(10));
    if (!strcmp(name, "llama2"))
        try_wrong(one, name, "rope_parameters",
                  json_pack("{s:s,s:f}", "rope_type", "default", "rope_theta", 20000.0));
}

/* --- a real model ----------------------------------------------------------------------------- */

static const char tiny[] = KERF_TEST_DATA "/tiny-llama";

/* How far one, two and three terms are from the processor behind the last layer. */
static void compare_terms(const kerf_token_list *list)
{
    const kerf_tokens t = {list->token, 2, 256};
    model m = open_model(tiny, &t);
    const uint64_t layers = kerf_decoder_about(m.cpu)->layers;
    float *cpu = new_state(&m), *there = new_state(&m);
    need(kerf_decoder_embed(m.cpu, &t, cpu, &error), "embedding");
    for (uint64_t i = 0; i < layers; i++) run_layer(m.cpu, i, &t, cpu, NULL);
    for (int terms = 1; terms <= 3; terms++) {
        double gram = 0, square = 0, size = 0;
        kf_steps_set_terms(m.gpu->stepper, terms);
        need(kerf_decoder_embed(m.gpu, &t, there, &error), "embedding");
        for (uint64_t i = 0; i < layers; i++) run_layer(m.gpu, i, &t, there, NULL);
        for (uint64_t i = 0; i < m.n; i++) {
            const double d = (double)there[i] - (double)cpu[i];
            square += d * d;
            size += (double)cpu[i] * (double)cpu[i];
        }
        const double one = terms == 1 ? 1 : compare_layers("tiny-llama", &m, &t, &gram, 1);
        printf("tiny-llama, %d terms: the last state is off by %.2e of its norm; a layer at most "
               "by %.1e of its rms, Gram matrices by %.1e\n",
               terms, sqrt(square / size), one, gram);
        check(sqrt(square / size) < (terms == 1 ? 2e-2 : 1e-4), "tiny-llama", "last state",
              sqrt(square / size));
    }
    free(cpu);
    free(there);
    close_model(&m);
}

static double perplexity_of(const kerf_token_list *list, uint64_t rows, kerf_device *device)
{
    kerf_checkpoint *file;
    kerf_evaluation *e;
    const kerf_exec exec = {.device = device};
    need(kerf_checkpoint_open(tiny, &file, &error), tiny);
    const kerf_eval_request r = {.source = file, .tokens = {list->token, rows, 256}};
    need(kerf_eval(&r, &exec, NULL, &e, &error), "eval");
    const double p = e->model[0].perplexity;
    printf("tiny-llama: perplexity %.6f over %llu tokens, %s, %.1f s\n", p,
           (unsigned long long)e->predictions, device ? "GPU" : "processor", e->seconds);
    kerf_evaluation_close(e);
    kerf_checkpoint_close(file);
    return p;
}

/* A candidate whose weights are a little off, as a quantized one's are. */
static kerf_status disturb(void *ctx, size_t candidate, uint64_t layer, const kerf_layer_weight *w,
                           kerf_error *err)
{
    (void)ctx, (void)candidate, (void)layer, (void)err;
    for (uint64_t i = 0; i < w->rows * w->cols; i++) w->data[i] *= i % 3 ? 0.97f : 1.05f;
    return KERF_OK;
}

static void compare_kl(const kerf_token_list *list, uint64_t rows)
{
    kerf_checkpoint *file;
    kerf_evaluation *e[2];
    need(kerf_checkpoint_open(tiny, &file, &error), tiny);
    const kerf_checkpoint *const candidate[] = {file};
    const kerf_eval_request r = {.source = file,
                                 .candidate = candidate,
                                 .candidates = 1,
                                 .tokens = {list->token, rows, 256},
                                 .change = disturb};
    for (int i = 0; i < 2; i++) {
        const kerf_exec exec = {.device = i ? gpu : NULL};
        need(kerf_eval(&r, &exec, NULL, &e[i], &error), "eval");
    }
    const kerf_eval_model *a = &e[0]->model[1], *b = &e[1]->model[1];
    printf("tiny-llama, disturbed: KL %.6f and on the GPU %.6f, flips %.4f and %.4f\n",
           a->figure[KERF_EVAL_KL], b->figure[KERF_EVAL_KL], a->figure[KERF_EVAL_FLIPS],
           b->figure[KERF_EVAL_FLIPS]);
    for (int f = 0; f < KERF_EVAL_FIGURES; f++) {
        const double one = 1.01 / (double)e[0]->predictions; /* may have two tokens on a par */
        const double slack = f == KERF_EVAL_FLIPS ? one : 1e-3 * fabs(a->figure[f]);
        check(fabs(a->figure[f] - b->figure[f]) <= slack && a->figure[f] > 0, "tiny-llama",
              kerf_eval_figure_name((kerf_eval_figure)f), b->figure[f]);
    }
    for (uint64_t i = 0; i < e[0]->layers; i++)
        check(fabs(a->drift[i] - b->drift[i]) <= 1e-4 * a->drift[i], "tiny-llama", "drift",
              b->drift[i]);
    kerf_evaluation_close(e[0]);
    kerf_evaluation_close(e[1]);
    kerf_checkpoint_close(file);
}

static void compare_perplexity(const kerf_token_list *list, int brief)
{
    const uint64_t rows = brief ? 16 : list->count / 256;
    const double p = perplexity_of(list, rows, gpu);
    check(p == perplexity_of(list, rows, gpu), "tiny-llama", "the same perplexity again", p);
    const double cpu = brief ? perplexity_of(list, rows, NULL) : 7.8341;
    check(fabs(p / cpu - 1) < 2e-5, "tiny-llama", "perplexity", p);
}

int main(int argc, char **argv)
{
    const int few = argc > 1 && !strcmp(argv[1], "few");
    const int brief = argc > 1 && !strcmp(argv[1], "quick");
    void *made = NULL;
    kf_stepper none = {.threads = 0};
    if (kerf_device_open(0, &gpu, &error) != KERF_OK ||
        kf_steps_on_gpu(&none, gpu, &error) != KERF_OK) {
        printf("skipped: %s\n", error.text);
        return 77;
    }
    none.steps->close(&none);
    golden = json_load_file(KERF_TEST_DATA "/forward/golden.json", 0, NULL);
    if (!golden || make_test_folder(&made) != 0) die("golden.json", "cannot be read");
    folder = made;
    const size_t cases = json_array_size(json_object_get(golden, "cases"));
    for (size_t i = 0; i < cases; i++) run_case(i, few ? 1 : 3, argc > 2 ? argv[2] : NULL);
    kerf_token_list list;
    need(kerf_tokens_read(KERF_TEST_DATA "/tiny-llama/eval.u16", 1 << 16, &list, &error), "tokens");
    compare_kl(&list, few ? 2 : 16);
    if (!few) {
        compare_terms(&list);
        compare_perplexity(&list, brief);
    }
    kerf_token_list_free(&list);
    json_decref(golden);
    (void)remove_test_folder(&made);
    kerf_device_close(gpu);
    printf("%d checks, %d failed\n", checks, failures);
    return failures != 0;
}
