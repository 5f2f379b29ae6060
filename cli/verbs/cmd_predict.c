/* cmd_predict.c - kerf predict: times of products or of whole models, each with what it was
 * predicted from: a data sheet, a fit, or measured shapes. */
#include <string.h>

#include "verbs/predict_verb.h"

kerf_status option_activations(const args *a, const kerf_format **out, kerf_error *err)
{
    TRY(option_format(a, "activations", out, err));
    if (*out && (*out)->id == KERF_FORMAT_BF16) *out = NULL;
    return KERF_OK;
}

void time_cells(table *t, const kerf_prediction *p)
{
    table_cell(t, "%s%s", kerf_tier_name(p->tier), p->extrapolated ? " (edge)" : "");
    if (p->tier == KERF_TIER_SPEC) {
        table_cell(t, "%.2f..%.2f", p->low_us, p->high_us);
    } else {
        table_cell(t, "%.2f", p->us);
    }
}

void prediction_json(json_t **row, const kerf_prediction *p)
{
    json_set(row, "tier", json_string(kerf_tier_name(p->tier)));
    json_set(row, "low_us", json_figure(p->low_us));
    json_set(row, "us", json_figure(p->us));
    json_set(row, "high_us", json_figure(p->high_us));
    json_set(row, "fixed_us", json_figure(p->fixed_us));
    json_set(row, "memory_us", json_figure(p->memory_us));
    json_set(row, "decode_us", json_figure(p->decode_us));
    json_set(row, "math_us", json_figure(p->math_us));
    json_set(row, "intensity", json_figure(p->intensity));
    json_set(row, "ridge", json_figure(p->ridge));
    json_set(row, "bound", json_string(kerf_bound_name(p->bound)));
    if (p->extrapolated) json_set(row, "extrapolated", json_true());
}

void print_tier_note(const kerf_hardware *h)
{
    if (h->fits || h->tables) return;
    printf("\nspec-only: from the data sheet of %s; a band that careful kernels\n"
           "fall into, no measurement. Cold weights; all scales, activations and results\n"
           "are counted.\n",
           shown(h->name));
}

/* Options that speak of the other half are refused: an ignored option is a wrong answer. */
static kerf_status check_options(const args *a, kerf_error *err)
{
    static const char *const of_models[] = {"kv",      "head", "experts",        "context",
                                            "prefill", "gpus", "expert-parallel"};
    static const char *const of_shapes[] = {"shape", "matrices"};
    int model = args_has(a, "model");
    if (!args_has(a, "hardware")) {
        return USAGE(err, "predict: --hardware NAME is missing; kerf hardware lists them");
    }
    if (!model && !args_has(a, "shape")) {
        return USAGE(err, "predict: say what: --shape NxK or --model CONFIG");
    }
    for (size_t i = 0; !model && i < sizeof of_models / sizeof *of_models; i++) {
        if (args_has(a, of_models[i])) return USAGE(err, "--%s needs --model", of_models[i]);
    }
    for (size_t i = 0; model && i < sizeof of_shapes / sizeof *of_shapes; i++) {
        if (args_has(a, of_shapes[i])) {
            return USAGE(err, "--%s does not go with --model", of_shapes[i]);
        }
    }
    if (!args_has(a, "csv") || !args_has(a, "json")) return KERF_OK;
    return USAGE(err, "predict: --csv or --json, not both");
}

static int run_predict(const args *a, kerf_error *err)
{
    kerf_hardware *h = NULL;
    TRY(check_options(a, err));
    TRY(kerf_hardware_get(args_value(a, "hardware"), &h, err));
    kerf_status s = args_has(a, "model") ? predict_model(a, h, err) : predict_shapes(a, h, err);
    kerf_hardware_close(h);
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
