/* cmd_predict.c - kerf predict: times of products or of whole models, each with what it was
 * predicted from: a data sheet, a fit, or measured shapes. */
#include <kerf/predictions.h>

#include "options.h"
#include "options_products.h"
#include "output.h"
#include "terminal.h"

typedef struct predict_run {
    const args *args;
    kerf_hardware *hardware;
    kerf_model model;
    products_option lists;
    kerf_product_outlooks *products; /* one of the two is made */
    kerf_step_outlooks *steps;
} predict_run;

static kerf_status print_answer(const predict_run *j, kerf_error *err)
{
    const int csv = args_has(j->args, "csv");
    const kerf_outlook_kind kind = csv ? KERF_OUTLOOK_CSV : KERF_OUTLOOK_JSON;
    char *text = NULL;
    if (!csv && !args_has(j->args, "json")) {
        const kerf_text_form *form = text_form(1);
        return put_text(j->steps ? kerf_step_outlooks_text(j->steps, form, &text, NULL, err)
                                 : kerf_product_outlooks_text(j->products, form, &text, NULL, err),
                        &text, err);
    }
    const kerf_status s = j->steps
                              ? kerf_step_outlooks_write(j->steps, kind, &text, NULL, err)
                              : kerf_product_outlooks_write(j->products, kind, &text, NULL, err);
    return csv ? put_text(s, &text, err) : put_document(s, &text, err);
}

/* --- verb ---------------------------------------------------------------------------------- */

/* Options that speak of the other half are refused: an ignored option is a wrong answer. */
static kerf_status check_options(const args *a, kerf_error *err)
{
    static const char *const of_models[] = {"kv",      "head", "experts",        "context",
                                            "prefill", "gpus", "expert-parallel"};
    static const char *const of_shapes[] = {"shape", "matrices"};
    int model = args_has(a, "model");
    if (!args_has(a, "hardware"))
        return USAGE(err, "predict: --hardware NAME is missing; kerf hardware lists them");
    if (!model && !args_has(a, "shape"))
        return USAGE(err, "predict: say what: --shape NxK or --model CONFIG");
    for (size_t i = 0; !model && i < sizeof of_models / sizeof *of_models; i++)
        if (args_has(a, of_models[i])) return USAGE(err, "--%s needs --model", of_models[i]);
    for (size_t i = 0; model && i < sizeof of_shapes / sizeof *of_shapes; i++)
        if (args_has(a, of_shapes[i]))
            return USAGE(err, "--%s does not go with --model", of_shapes[i]);
    if (!args_has(a, "csv") || !args_has(a, "json")) return KERF_OK;
    return USAGE(err, "predict: --csv or --json, not both");
}

/* --activations; NULL in *out: bf16. */
static kerf_status read_activations(const args *a, const kerf_format **out, kerf_error *err)
{
    TRY(option_format(a, "activations", out, err));
    if (*out && (*out)->id == KERF_FORMAT_BF16) *out = NULL;
    return KERF_OK;
}

static kerf_status predict_products(predict_run *j, kerf_error *err)
{
    const products_option *l = &j->lists;
    int matrices = 1;
    TRY(option_products_open(&j->lists, j->args, NULL, err));
    TRY(args_integer(j->args, "matrices", 1, 1 << 20, &matrices, err));
    kerf_products_request r = {.hardware = j->hardware,
                               .format = l->format,
                               .formats = l->formats,
                               .shape = l->shape,
                               .shapes = l->shapes,
                               .batch = l->batch,
                               .batches = l->batches,
                               .matrices = matrices};
    TRY(read_activations(j->args, &r.activations, err));
    return kerf_predict_products(&r, &j->products, err);
}

static kerf_status predict_steps(predict_run *j, kerf_error *err)
{
    const args *a = j->args;
    const products_option *l = &j->lists;
    kerf_steps_request r = {.hardware = j->hardware,
                            .model = &j->model,
                            .config = args_value(a, "model"),
                            .prefill = args_has(a, "prefill")};
    int context = 4096, gpus = 1;
    TRY(kerf_model_open(model_path(r.config), &j->model, err));
    TRY(option_products_open(&j->lists, a, NULL, err));
    TRY(args_integer(a, "context", 1, 1 << 30, &context, err));
    TRY(option_gpus(a, &gpus, &r.expert_parallel, err));
    TRY(option_format(a, "kv", &r.others.kv, err));
    TRY(option_format(a, "head", &r.others.head, err));
    TRY(option_format(a, "experts", &r.others.experts, err));
    TRY(read_activations(a, &r.others.activations, err));
    r.format = l->format;
    r.formats = l->formats;
    r.batch = l->batch;
    r.batches = l->batches;
    r.context = context;
    r.gpus = (unsigned)gpus;
    return kerf_predict_steps(&r, &j->steps, err);
}

static int run_predict(const args *a, kerf_error *err)
{
    predict_run j = {.args = a};
    TRY(check_options(a, err));
    TRY(kerf_hardware_get(args_value(a, "hardware"), &j.hardware, err));
    kerf_status s = args_has(a, "model") ? predict_steps(&j, err) : predict_products(&j, err);
    if (s == KERF_OK) s = print_answer(&j, err);
    kerf_product_outlooks_free(j.products);
    kerf_step_outlooks_free(j.steps);
    option_products_close(&j.lists);
    kerf_hardware_close(j.hardware);
    return s;
}

static const option options[] = {
    {"hardware", 0, "NAME|FILE", "machine of the registry, or its description: kerf hardware"},
    {"shape", 0, "NxK[,NxK]", "outputs x inputs of matrix products"},
    {"model", 0, "CONFIG", "a config.json or the folder that holds it"},
    {"format", 'f', "LIST", "formats of the weights (default: a choice of nine)"},
    {"batch", 'b', "N[,N]", "rows of activations, or sequences of a model (default: 1)"},
    {"activations", 0, "FORMAT",
     "type of the activations (default: bf16); fp8-e4m3-row, nvfp4, int8 and others use the "
     "matrix unit of that type where there is one"},
    {"matrices", 0, "N", "so many products of that shape at once, each with its own rows"},
    {"context", 0, "S", "tokens of each sequence of a model (default: 4096)"},
    {"prefill", 0, NULL, "all tokens of the sequences at once instead of the next one"},
    {"kv", 0, "FORMAT", "of the KV cache (default: bf16)"},
    {"head", 0, "FORMAT", "of the logits' matrix (default: bf16)"},
    {"experts", 0, "FORMAT", "of routed experts (default: that of -f)"},
    {"csv", 0, NULL, "comma-separated values"},
    {NULL, 0, NULL, NULL},
};

const verb verb_predict = {
    .name = "predict",
    .summary = "how long a product or a model would take on some machine",
    .usage = "--hardware NAME --shape NxK|--model CONFIG [options]",
    .details =
        "Predicts Y = X W^T with W[N x K] in a few-bit format, or a step of a whole model:\n"
        "  t = fixed + max(bytes / bandwidth, weights / decode rate, operations / peak)\n"
        "Bytes count codes, scales, zero points, activations and results. Every answer has a "
        "tier:\n"
        "  spec-only  from the data sheet: a band, and its middle ranks formats\n"
        "  fitted     from parameters of a kernel, in a --hardware file\n"
        "  table      between measured shapes, in a --hardware file\n"
        "flop/B is the arithmetic intensity; above the ridge arithmetic is the limit. Models:\n"
        "Llama, Mistral, Mixtral, Qwen2, Qwen3 and Qwen3-MoE, DeepSeek-V3 and R1, gpt-oss, Gemma.",
    .examples =
        "  kerf predict --hardware h200 --shape 4096x4096\n"
        "  kerf predict --hardware b200 --shape 4096x4096,7168x16384 -f 'nvfp4,mxfp*' "
        "--batch 1,16 --csv\n"
        "  kerf predict --hardware h200 --model llama/config.json -f bf16,nvfp4 --kv fp8-e4m3 "
        "--context 32768\n",
    .options = options,
    .shared = {&option_json, &option_wide, &option_gpu_count, &option_expert_parallel},
    .run = run_predict,
};
