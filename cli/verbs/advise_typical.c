/* advise_typical.c - kerf advise config.json: which format on this machine, before the weights are
 * at hand. */
#include "verbs/advise_typical.h"

#include <kerf/typical.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "options.h"
#include "options_codecs.h"
#include "options_products.h"
#include "output.h"

int is_config_alone(const char *path)
{
    struct stat st;
    const size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".json") == 0 && stat(path, &st) == 0 &&
           S_ISREG(st.st_mode) && !strstr(path, ".index.json");
}

typedef struct typical_run {
    const args *args;
    kerf_hardware *hardware;
    codec_list codecs;
    kerf_model model;
    kerf_typical_request request;
    kerf_typical *typical;
} typical_run;

/* What needs the weights is refused: an ignored option is a wrong answer. */
static kerf_status check_options(const args *a, kerf_error *err)
{
    static const char *const of_weights[] = {
        "output",   "report",      "imatrix",     "alpha",    "cache", "nested", "config",
        "minimise", "all-tensors", "calibration", "feedback", "again", "text",   "tokens"};
    for (size_t i = 0; i < sizeof of_weights / sizeof *of_weights; i++)
        if (args_has(a, of_weights[i]))
            return USAGE(err, "advise: --%s needs the weights: give the folder that holds them",
                         of_weights[i]);
    if (!args_has(a, "hardware"))
        return USAGE(err, "advise: from a config.json alone, --hardware NAME is needed");
    return KERF_OK;
}

static kerf_status read_request(typical_run *j, kerf_error *err)
{
    const args *a = j->args;
    kerf_typical_request *r = &j->request;
    kerf_price minimise;
    int batch = 1, context = 4096, gpus = 1;
    TRY(check_options(a, err));
    TRY(args_integer(a, "batch", 1, 1 << 20, &batch, err));
    TRY(args_integer(a, "context", 1, 1 << 30, &context, err));
    TRY(option_gpus(a, &gpus, &r->expert_parallel, err));
    TRY(kerf_hardware_get(args_value(a, "hardware"), &j->hardware, err));
    const char *formats = args_value(a, "format");
    TRY(codec_list_parse(&j->codecs, formats ? formats : kerf_advise_candidates(), err));
    TRY(option_budget(a, &r->budget, &minimise, err));
    if (args_has(a, "layout")) TRY(args_layout(a, &r->layout, err));
    if (args_has(a, "runtime")) TRY(kerf_runtime_get(args_value(a, "runtime"), &r->runtime, err));
    TRY(kerf_model_open(args_operand(a, 0), &j->model, err));
    r->model = &j->model;
    r->hardware = j->hardware;
    r->codec = j->codecs.item;
    r->codecs = j->codecs.count;
    r->batch = batch;
    r->context = context;
    r->gpus = (unsigned)gpus;
    return KERF_OK;
}

/* --- output -------------------------------------------------------------------------------- */

static double speed(const typical_run *j, double us)
{
    return j->typical->batch * 1e6 / us;
}

static kerf_status print_table(const typical_run *j, kerf_error *err)
{
    static const char *const fits[] = {"?", "no", "yes"}, *const holds[] = {"no", "in part", "yes"};
    table *t = NULL;
    char name[64];
    TRY(table_open(&t, "format|>bits|>GB|+>cache GB|fits|>typical t2|>tokens/s|budget", err));
    for (size_t i = 0; i < j->typical->rows; i++) {
        const kerf_typical_row *x = &j->typical->row[i];
        table_cell(t, "%s", kerf_codec_name(x->codec, name, sizeof name));
        table_cell(t, "%.3f", x->bits);
        table_cell(t, "%.2f", x->weight_bytes * 1e-9);
        table_cell(t, "%.2f", x->cache_bytes * 1e-9);
        table_cell(t, "%s", fits[x->fits + 1]);
        table_cell(t, "%.1e", x->t2);
        table_cell(t, "%.0f..%.0f", speed(j, x->high_us), speed(j, x->low_us));
        table_cell(t, "%s", holds[x->holds]);
    }
    return table_end(t, KERF_OK, err);
}

/* Why none is best: none fits, none reaches the limits at all, or not for sure. */
static void print_none(const typical_run *j)
{
    const kerf_typical *t = j->typical;
    double fastest = t->row[0].low_us;
    int fits = 0, in_part = 0;
    for (size_t i = 0; i < t->rows; i++) {
        if (t->row[i].low_us < fastest) fastest = t->row[i].low_us;
        fits |= t->row[i].fits != 0;
        in_part |= t->row[i].fits && t->row[i].holds;
    }
    if (!fits)
        printf("\nNo format fits in the memory of %s.\n", shown(j->hardware->name));
    else if (!in_part)
        printf("\nNo format that fits is within the budget, not even at the fast end of its band:\n"
               "the most is %.0f tokens/s.\n",
               speed(j, fastest));
    else
        printf(
            "\nNo format holds at the slow end of its band. :likely holds limits of time against\n"
            "the middle; kerf hardware --measure makes the band narrow.\n");
}

static void print_verdict(const typical_run *j)
{
    const kerf_typical *t = j->typical;
    const kerf_typical_row *x = t->best < t->rows ? &t->row[t->best] : NULL;
    const char *runtime = j->request.runtime ? j->request.runtime->title : "";
    char name[64];
    if (x)
        printf("\n%s: the least error of what fits and holds on %s%s%s:\n"
               "%.2f GB of weights, %.2f GB of cache at %.0f x %.0f tokens, %.0f to %.0f tokens/s\n"
               "(%s, %.0f in the middle).\n",
               kerf_codec_name(x->codec, name, sizeof name), shown(j->hardware->name),
               runtime[0] ? " in " : "", runtime, x->weight_bytes * 1e-9, x->cache_bytes * 1e-9,
               t->batch, t->context, speed(j, x->high_us), speed(j, x->low_us),
               kerf_tier_name(x->tier), speed(j, x->us));
    else
        print_none(j);
    if (j->request.gpus > 1)
        printf("On %u GPUs: %.2f GB on each with %s; what they exchange is in the times.\n",
               j->request.gpus, x ? x->gpu_bytes * 1e-9 : t->row[0].gpu_bytes * 1e-9,
               x ? "that" : "the first");
    if (j->model.estimated)
        printf("The family %s is not known: sizes are as in most models.\n", shown(j->model.type));
    printf("\nErrors are typical ones,\n%s.\n"
           "With the weights, kerf advise FOLDER measures them and mixes formats by layer:\n"
           "less error at the same size, and a recipe for kerf quantize.\n",
           kerf_typical_source());
}

static kerf_status print_document(const typical_run *j, kerf_error *err)
{
    const kerf_typical *t = j->typical;
    json_t *rows = json_array();
    char name[64];
    for (size_t i = 0; i < t->rows; i++) {
        const kerf_typical_row *x = &t->row[i];
        json_add(&rows,
                 json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:o, s:i}", "codec",
                           kerf_codec_name(x->codec, name, sizeof name), "bits", x->bits,
                           "weight_bytes", x->weight_bytes, "cache_bytes", x->cache_bytes,
                           "gpu_bytes", x->gpu_bytes, "typical_t2", x->t2, "low_us", x->low_us,
                           "us", x->us, "high_us", x->high_us, "tier", kerf_tier_name(x->tier),
                           "fits", x->fits < 0 ? json_null() : json_boolean(x->fits), "holds",
                           x->holds));
    }
    const kerf_typical_row *best = t->best < t->rows ? &t->row[t->best] : NULL;
    json_t *doc = json_pack("{s:o, s:s, s:s, s:i, s:f, s:f, s:b, s:s*, s:o, s:s}", "config",
                            json_path(args_operand(j->args, 0)), "type", j->model.type, "hardware",
                            j->hardware->name, "gpus", (int)j->request.gpus, "batch", t->batch,
                            "context", t->context, "estimated", j->model.estimated, "best",
                            best ? kerf_codec_name(best->codec, name, sizeof name) : NULL,
                            "formats", rows, "error_source", kerf_typical_source());
    return print_json("advise-typical", doc, err);
}

kerf_status advise_typical(const args *a, kerf_error *err)
{
    typical_run *j = NULL; /* a model is large */
    TRY(allocate(&j, 1, sizeof *j, err));
    j->args = a;
    kerf_status s = read_request(j, err);
    if (s == KERF_OK) s = kerf_advise_typical(&j->request, &j->typical, err);
    if (s == KERF_OK && args_has(a, "json")) {
        s = print_document(j, err);
    } else if (s == KERF_OK) {
        s = print_table(j, err);
        if (s == KERF_OK) print_verdict(j);
    }
    kerf_typical_close(j->typical);
    kerf_hardware_close(j->hardware);
    codec_list_free(&j->codecs);
    free(j);
    return s;
}
