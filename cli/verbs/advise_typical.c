/* advise_typical.c - kerf advise config.json: which format on this machine, before the weights are
 * at hand. */
#include "verbs/advise_typical.h"

#include <kerf/typical.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "options.h"
#include "options_products.h"
#include "output.h"
#include "terminal.h"

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
    kerf_codec_list codecs;
    kerf_model model;
    kerf_typical_request request;
    kerf_typical *typical;
} typical_run;

/* What needs the weights is refused: an ignored option is a wrong answer. */
static kerf_status check_options(const args *a, kerf_error *err)
{
    static const char *const of_weights[] = {
        "output",   "report",      "imatrix",     "alpha",    "cache", "nested", "config",
        "minimise", "all-tensors", "calibration", "feedback", "again", "text",   "tokens",
        "length",   "bos",         "rows",        "keep",     "only",  "nan"};
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
    if (args_has(a, "layout")) TRY(args_layout(a, &r->layout, err));
    if (args_has(a, "runtime")) TRY(kerf_runtime_get(args_value(a, "runtime"), &r->runtime, err));
    if (!formats) formats = kerf_advise_candidates_for(r->layout, r->runtime);
    TRY(option_codecs(formats, &j->codecs, err));
    TRY(option_budget(a, &r->budget, &minimise, err));
    TRY(kerf_model_open(args_operand(a, 0), &j->model, err));
    r->model = &j->model;
    r->config = args_operand(a, 0);
    r->hardware = j->hardware;
    r->codec = j->codecs.codec;
    r->codecs = j->codecs.count;
    r->batch = batch;
    r->context = context;
    r->gpus = (unsigned)gpus;
    return KERF_OK;
}

static kerf_status print_typical(const kerf_typical *t, int json, kerf_error *err)
{
    char *text = NULL;
    if (json)
        return put_document(kerf_typical_write(t, KERF_TYPICAL_JSON, &text, NULL, err), &text, err);
    return put_text(kerf_typical_text(t, text_form(1), &text, NULL, err), &text, err);
}

kerf_status advise_typical(const args *a, kerf_error *err)
{
    typical_run *j = NULL; /* a model is large */
    TRY(allocate(&j, 1, sizeof *j, err));
    j->args = a;
    kerf_status s = read_request(j, err);
    if (s == KERF_OK) s = kerf_advise_typical(&j->request, &j->typical, err);
    if (s == KERF_OK) s = print_typical(j->typical, args_has(a, "json"), err);
    kerf_typical_close(j->typical);
    kerf_hardware_close(j->hardware);
    kerf_codec_list_free(&j->codecs);
    free(j);
    return s;
}
