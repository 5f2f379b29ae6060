/* route_table.c - the rows. A row with a verb is answered by that verb: here and now where it has
 * no `device`, else as a job. */
#include "serve/routes.h"

#include <string.h>

#include "serve/http.h"

#define HARDWARE(needed)                                                                           \
    {                                                                                              \
        "hardware", FIELD_HARDWARE, needed, "hardware", 0, 0, NULL, "a machine of the registry", 0 \
    }
#define DEVICE                                             \
    {                                                      \
        "device", FIELD_WORD, 0, "device", 0, 0,           \
            "cpu|cuda|cuda:0|cuda:1|cuda:2|cuda:3|cuda:4|" \
            "cuda:5|cuda:6|cuda:7",                        \
            "what computes; one job at a time for each", 0 \
    }
#define MODEL(needed)                                                                  \
    {                                                                                  \
        "model", FIELD_MODEL, needed, NULL, 0, 0, NULL, "a name that /models lists", 0 \
    }
#define KEEP                                                                           \
    {                                                                                  \
        "keep", FIELD_GLOBS, 0, "keep", 0, 0, NULL, "tensors that stay as they are", 1 \
    }
#define ONLY                                                                  \
    {                                                                         \
        "only", FIELD_GLOBS, 0, "only", 0, 0, NULL, "no others than these", 1 \
    }
#define MOST_DIM 4294967296.0

static const char layouts[] = /* all that are written */
    "kerf|modelopt|compressed-tensors|compressed-tensors-naive|bitsandbytes|gguf|deepseek|gptq|"
    "gptq-v2|gpt-oss";
static const field analyze_fields[] = {
    HARDWARE(1),
    {"rows", FIELD_INTEGER, 1, "", 1, MOST_DIM, NULL, "outputs of the product", 0},
    {"cols", FIELD_INTEGER, 1, "", 1, MOST_DIM, NULL, "inputs of the product", 0},
    {"batch", FIELD_INTEGER, 0, "batch", 1, 1 << 30, NULL, "rows of activations", 0},
    {"format", FIELD_FORMAT, 1, "format", 0, 0, NULL, "of the weights", 0},
    {"activations", FIELD_FORMAT, 0, "activations", 0, 0, NULL, "of the activations", 0},
    {"matrices", FIELD_INTEGER, 0, "matrices", 1, 1 << 20, NULL, "products of that shape", 0},
    {"measure", FIELD_SWITCH, 0, "", 0, 0, NULL,
     "what this machine takes too, by a job that is named until it has ended", 0},
    {0},
};
static const field sweep_fields[] = {
    HARDWARE(1),
    {"shapes", FIELD_SHAPES, 1, "shape", 1, MOST_DIM, NULL, "[outputs, inputs] of each product", 0},
    {"batches", FIELD_INTEGERS, 0, "batch", 1, 1 << 30, NULL, "rows of activations", 0},
    {"formats", FIELD_FORMATS, 0, "format", 0, 0, NULL, "of the weights", 0},
    {"activations", FIELD_FORMAT, 0, "activations", 0, 0, NULL, "of the activations", 0},
    {0},
};
static const field predict_fields[] = {
    HARDWARE(1),
    {"model", FIELD_MODEL, 0, "model", 0, 0, NULL, "a name that /models lists; or config", 0},
    {"config", FIELD_CONFIG, 0, "model", 0, 0, NULL, "the model's config.json", 0},
    {"formats", FIELD_FORMATS, 1, "format", 0, 0, NULL, "of the matrices of every layer", 0},
    {"batches", FIELD_INTEGERS, 0, "batch", 1, 1 << 20, NULL, "sequences", 0},
    {"context", FIELD_INTEGER, 0, "context", 1, 1 << 30, NULL, "tokens of each", 0},
    {"prefill", FIELD_SWITCH, 0, "prefill", 0, 0, NULL, "all tokens at once", 0},
    {"kv", FIELD_FORMAT, 0, "kv", 0, 0, NULL, "of the cache", 0},
    {"head", FIELD_FORMAT, 0, "head", 0, 0, NULL, "of the logits' matrix", 0},
    {"experts", FIELD_FORMAT, 0, "experts", 0, 0, NULL, "of routed experts", 0},
    {"activations", FIELD_FORMAT, 0, "activations", 0, 0, NULL, "of the activations", 0},
    {0},
};
static const field recommend_fields[] = {
    MODEL(0),
    {"config", FIELD_CONFIG, 0, NULL, 0, 0, NULL, "a config.json alone: typical errors", 0},
    {"budget", FIELD_LIMITS, 1, "budget", 0, 0, NULL, "limits that all hold", 1},
    {"minimise", FIELD_WORD, 0, "minimise", 0, 0, "error|bytes|time", "under the limits", 0},
    HARDWARE(0),
    {"runtime", FIELD_WORD, 0, "runtime", 0, 0, "vllm|sglang|trtllm|transformers|llama.cpp",
     "that shall load the result", 0},
    {"layout", FIELD_WORD, 0, "layout", 0, 0, layouts, "of the result", 0},
    {"formats", FIELD_CODECS, 0, "format", 0, 0, NULL, "candidates", 0},
    {"batch", FIELD_INTEGER, 0, "batch", 1, 1 << 20, NULL, "sequences", 0},
    {"context", FIELD_INTEGER, 0, "context", 1, 1 << 30, NULL, "tokens of each", 0},
    {"alpha", FIELD_WORD, 0, "alpha", 0, 0, "flat|depth", "how much a tensor's error matters", 0},
    KEEP,
    ONLY,
    DEVICE,
    {0},
};
static const field score_fields[] = {
    MODEL(1),
    {"formats", FIELD_CODECS, 1, "format", 0, 0, NULL, "formats, with encoders or patterns", 0},
    KEEP,
    ONLY,
    {"zstd_level", FIELD_INTEGER, 0, "zstd-level", 0, 22, NULL, "0: codes are not compressed", 0},
    DEVICE,
    {0},
};
static const field eval_fields[] = {
    MODEL(1),
    {"candidates", FIELD_MODELS, 0, NULL, 0, 0, NULL, "quantized ones", 1},
    {"tokens", FIELD_MODEL, 0, "tokens", 0, 0, NULL, "a file below --models", 0},
    {"text", FIELD_MODEL, 0, "text", 0, 0, NULL, "a file below --models", 0},
    {"length", FIELD_INTEGER, 0, "length", 2, 1 << 20, NULL, "tokens of a row", 0},
    {"bos", FIELD_SWITCH, 0, "bos", 0, 0, NULL, "rows begin as texts do, with <bos>", 0},
    {"rows", FIELD_RANGE, 0, "rows", 0, 0, NULL, "of the tokens, as 128:256", 0},
    {0},
};
static const field quantize_fields[] = {
    MODEL(1),
    {"format", FIELD_CODEC, 1, "format", 0, 0, NULL, "of all that is quantized", 0},
    {"output", FIELD_OUTPUT, 1, "output", 0, 0, NULL, "a name in the folder of --output", 0},
    {"layout", FIELD_WORD, 0, "layout", 0, 0, layouts, "of the result", 0},
    {"tensors", FIELD_RULES, 0, "tensor", 0, 0, NULL, "GLOB=FORMAT, the last that matches", 1},
    {"overwrite", FIELD_SWITCH, 0, "overwrite", 0, 0, NULL, "replace what is there", 0},
    KEEP,
    ONLY,
    DEVICE,
    {0},
};
static const field measure_fields[] = {
    {"rows", FIELD_INTEGER, 1, "", 1, 131072, NULL, "outputs of the product", 0},
    {"cols", FIELD_INTEGER, 1, "", 1, 131072, NULL, "inputs of the product", 0},
    {"batch", FIELD_INTEGER, 0, "batch", 1, 16, NULL, "columns of X", 0},
    {"formats", FIELD_FORMATS, 1, "format", 0, 0, NULL, "of the weights", 0},
    {"energy", FIELD_SWITCH, 0, "energy", 0, 0, NULL, "meter each product too", 0},
    DEVICE,
    {0},
};
static const field solve_fields[] = {
    {"bits", FIELD_NUMBER, 1, "", 0.01, 64, NULL, "per weight of what is chosen, at most", 0},
    {0},
};

#define API "/api/v1"
static const route rows[] = {
    {"GET", API, "all that can be asked", NULL, NULL, NULL, answer_index, "index", NULL, NULL, 200},
    {"GET", API "/openapi.json", "this document", NULL, NULL, NULL, answer_openapi, "openapi", NULL,
     NULL, 200},
    {"GET", API "/health", "whether it serves, and its jobs", NULL, NULL, NULL, answer_health,
     "health", NULL, NULL, 200},
    {"GET", API "/version", "of the command and its library", "version", NULL, NULL, answer_verb,
     "version", NULL, NULL, 200},
    {"GET", API "/hardware", "machines of the registry, with sources", "hardware", NULL, NULL,
     answer_verb, "hardware-list", NULL, NULL, 200},
    {"GET", API "/formats", "formats, encoders and layouts", "formats", NULL, NULL, answer_verb,
     "formats", NULL, NULL, 200},
    {"GET", API "/models", "what stands in the folders of --models", NULL, NULL, NULL,
     answer_models, "models", NULL, NULL, 200},
    {"POST", API "/analyze", "roofline and time of one product", "predict", analyze_fields, NULL,
     answer_analyze, "predict", NULL,
     "{\"hardware\": \"h200\", \"rows\": 4096, \"cols\": 4096, \"format\": \"nvfp4\"}", 200},
    {"POST", API "/sweep", "the same of shapes x batches x formats, a line each", "predict",
     sweep_fields, NULL, answer_sweep, NULL, "application/x-ndjson",
     "{\"hardware\": \"h200\", \"shapes\": [[4096, 4096]], \"formats\": [\"nvfp4\", \"bf16\"]}",
     200},
    {"POST", API "/predict", "operators, bytes and time of a model's step", "predict",
     predict_fields, NULL, answer_verb, "predict-model", NULL, NULL, 200},
    {"POST", API "/recommend", "job: a format for every layer", "advise", recommend_fields, NULL,
     answer_submit, "job", NULL, NULL, 202},
    {"POST", API "/score", "job: error of every tensor in every format", "score", score_fields,
     NULL, answer_submit, "job", NULL, NULL, 202},
    {"POST", API "/eval", "job: perplexity of a model and of its candidates", "eval", eval_fields,
     NULL, answer_submit, "job", NULL, NULL, 202},
    {"POST", API "/quantize", "job: a quantized checkpoint", "quantize", quantize_fields, NULL,
     answer_submit, "job", NULL, NULL, 202},
    {"POST", API "/measure", "job: products timed on this machine", "bench", measure_fields, "gemv",
     answer_submit, "job", NULL, NULL, 202},
    {"GET", API "/jobs", "jobs that are known", NULL, NULL, NULL, answer_jobs, "jobs", NULL, NULL,
     200},
    {"GET", API "/jobs/{id}", "one job", NULL, NULL, NULL, answer_job, "job", NULL, NULL, 200},
    {"DELETE", API "/jobs/{id}", "cancel it, or forget it when it has ended", NULL, NULL, NULL,
     answer_cancel, "job", NULL, NULL, 200},
    {"GET", API "/jobs/{id}/result", "what its verb printed", NULL, NULL, NULL, answer_result,
     "result", NULL, NULL, 200},
    {"GET", API "/jobs/{id}/events", "its progress, until it ends", NULL, NULL, NULL, answer_events,
     NULL, "text/event-stream", NULL, 200},
    {"POST", API "/jobs/{id}/solve", "the choice of a recommendation under another budget", NULL,
     solve_fields, NULL, answer_solve, "solve", NULL, "{\"bits\": 4.6}", 200},
    {"GET", API "/nvml/status", "what GPUs and processors say of themselves", NULL, NULL, NULL,
     answer_monitor, "monitor", NULL, NULL, 200},
    {"GET", API "/nvml/stream", "the same at every interval", NULL, NULL, NULL,
     answer_monitor_stream, NULL, "text/event-stream", NULL, 200},
    {"GET", "/metrics", "counters for Prometheus", NULL, NULL, NULL, answer_metrics, NULL,
     "text/plain; version=0.0.4", NULL, 200},
    {"GET", "/", "the page", NULL, NULL, NULL, answer_page, NULL, "text/html", NULL, 200},
    {"GET", "/page.css", "its style", NULL, NULL, NULL, answer_page, NULL, "text/css", NULL, 200},
    {"GET", "/page.js", "its script", NULL, NULL, NULL, answer_page, NULL, "text/javascript", NULL,
     200},
};

static int is_known(const route *r)
{
    const verb *v;
    for (size_t i = 0; r->verb && (v = verb_at(i)) != NULL; i++)
        if (strcmp(v->name, r->verb) == 0) return 1;
    return r->verb == NULL;
}

const route *route_at(size_t i)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (is_known(&rows[k]) && i-- == 0) return &rows[k];
    return NULL;
}

/* 1: path is of this pattern; *id: the part that stands for {id}. */
static int path_matches(const char *pattern, const char *path, const char **id)
{
    const char *open = strchr(pattern, '{');
    *id = NULL;
    if (!open) return strcmp(pattern, path) == 0;
    const size_t before = (size_t)(open - pattern);
    if (strncmp(pattern, path, before) != 0) return 0;
    const size_t n = strcspn(path + before, "/");
    if (n == 0 || strcmp(path + before + n, strchr(open, '}') + 1) != 0) return 0;
    *id = path + before;
    return 1;
}

const route *route_find(const char *method, const char *path, const char **id, char *allowed)
{
    const route *r, *found = NULL;
    const char *part;
    allowed[0] = 0;
    if (strcmp(method, "HEAD") == 0) method = "GET";
    for (size_t i = 0; (r = route_at(i)) != NULL; i++) {
        if (!path_matches(r->path, path, &part)) continue;
        const size_t n = strlen(allowed);
        snprintf(allowed + n, 40 - n, "%s%s", n ? ", " : "", r->method);
        if (strcmp(r->method, method) != 0) continue;
        found = r;
        *id = part;
    }
    return found;
}
