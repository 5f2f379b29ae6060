/* predict_model.c - kerf predict for whole models: a line per format and batch, and the operators
 * of a step when there is one line only. */
#include <stdlib.h>

#include <kerf/model.h>

#include "options.h"
#include "verbs/predict_verb.h"

typedef struct model_question {
    const args *args;
    const kerf_hardware *hardware;
    kerf_model model, of_one; /* GPU: the share that one has */
    int gpus;
    kerf_formats formats; /* but for `linear`, which is swept */
    kerf_phase phase;     /* but for `batch`                  */
    products_option lists;
} model_question;

/* One format at one batch. */
typedef struct outlook {
    const kerf_format *format;
    double batch, weight_bytes, cache_bytes, gpu_bytes, crossover;
    kerf_step step;
} outlook;

/* --- command line -------------------------------------------------------------------------- */

static kerf_status read_question(model_question *q, kerf_error *err)
{
    const args *a = q->args;
    int context = 4096, whole_experts = 0;
    TRY(kerf_model_open(model_path(args_value(a, "model")), &q->model, err));
    TRY(option_products_open(&q->lists, a, NULL, err));
    TRY(args_integer(a, "context", 1, 1 << 30, &context, err));
    TRY(option_gpus(a, &q->gpus, &whole_experts, err));
    TRY(kerf_model_shard(&q->model, (unsigned)q->gpus, whole_experts, &q->of_one, err));
    q->phase = (kerf_phase){.context = context, .prefill = args_has(a, "prefill")};
    TRY(option_format(a, "kv", &q->formats.kv, err));
    TRY(option_format(a, "head", &q->formats.head, err));
    TRY(option_format(a, "experts", &q->formats.experts, err));
    return option_activations(a, &q->formats.activations, err);
}

/* --- answers ------------------------------------------------------------------------------- */

static kerf_status look_ahead(const model_question *q, const kerf_format *f, double batch,
                              outlook *out, kerf_error *err)
{
    kerf_formats formats = q->formats;
    kerf_phase phase = q->phase;
    formats.linear = f;
    phase.batch = batch;
    *out = (outlook){.format = f, .batch = batch};
    TRY(kerf_model_bytes(&q->model, &formats, &out->weight_bytes, err));
    TRY(kerf_model_cache_bytes(&q->model, formats.kv, phase.context, &out->cache_bytes, err));
    out->cache_bytes *= batch;
    double gpu_cache;
    TRY(kerf_model_bytes(&q->of_one, &formats, &out->gpu_bytes, err));
    TRY(kerf_model_cache_bytes(&q->of_one, formats.kv, phase.context, &gpu_cache, err));
    out->gpu_bytes += gpu_cache * batch;
    TRY(kerf_model_crossover(&q->model, &formats, batch, &out->crossover, err));
    return kerf_model_plan(&q->of_one, q->hardware, &formats, &phase, &out->step, err);
}

/* Whether weights and cache fit; -1: the machine's memory is not known. */
static int fits(const model_question *q, const outlook *o)
{
    double memory = q->hardware->fact[KERF_FACT_MEMORY].value * 1e9;
    return memory == 0 ? -1 : o->gpu_bytes <= memory;
}

static kerf_status for_each(const model_question *q,
                            kerf_status (*take)(const model_question *q, void *ctx,
                                                const outlook *o),
                            void *ctx, kerf_error *err)
{
    outlook *o = NULL;
    TRY(allocate(&o, 1, sizeof *o, err));
    kerf_status s = KERF_OK;
    const products_option *l = &q->lists;
    for (size_t b = 0; b < l->batches && s == KERF_OK; b++) {
        for (size_t f = 0; f < l->formats && s == KERF_OK; f++) {
            s = look_ahead(q, l->format[f], l->batch[b], o, err);
            if (s == KERF_OK) s = take(q, ctx, o);
        }
    }
    free(o);
    return s;
}

/* --- text ---------------------------------------------------------------------------------- */

static kerf_status take_row(const model_question *q, void *ctx, const outlook *o)
{
    static const char *const words[] = {"no", "yes", "?"};
    table *t = ctx;
    int fit = fits(q, o);
    table_cell(t, "%s", o->format->name);
    table_cell(t, "%.0f", o->batch);
    table_cell(t, "%.2f", o->weight_bytes * 1e-9);
    table_cell(t, "%.2f", o->cache_bytes * 1e-9);
    if (q->gpus > 1) table_cell(t, "%.2f", o->gpu_bytes * 1e-9);
    table_cell(t, "%s", words[fit < 0 ? 2 : fit]);
    table_cell(t, "%.2f", o->step.bytes * 1e-9);
    table_cell(t, "%s", kerf_tier_name(o->step.time.tier));
    if (o->step.time.tier == KERF_TIER_SPEC) {
        table_cell(t, "%.2f..%.2f", o->step.time.low_us * 1e-3, o->step.time.high_us * 1e-3);
        table_cell(t, "%.0f..%.0f", o->step.tokens_per_s[0], o->step.tokens_per_s[1]);
    } else {
        table_cell(t, "%.2f", o->step.time.us * 1e-3);
        table_cell(t, "%.0f", o->step.tokens_per_s[1] * o->step.time.low_us / o->step.time.us);
    }
    if (o->crossover < 1e15)
        table_cell(t, "%.0f", o->crossover);
    else
        table_cell(t, "never");
    return KERF_OK;
}

static kerf_status print_operators(const model_question *q, kerf_error *err)
{
    outlook o;
    table *t = NULL;
    TRY(look_ahead(q, q->lists.format[0], q->lists.batch[0], &o, err));
    TRY(table_open(&t, "operator|>times|>MB|+>Gflop|tier|>us each|+>flop/B|bound|>share", err));
    for (size_t i = 0; i < o.step.ops; i++) {
        const kerf_operator *op = &o.step.op[i];
        table_cell(t, "%s", op->name);
        table_cell(t, "%.0f", op->count);
        table_cell(t, "%.3f", kerf_work_bytes(&op->work) * 1e-6);
        table_cell(t, "%.4f", op->work.flops * 1e-9);
        time_cells(t, &op->time);
        table_cell(t, "%.2f", op->time.intensity);
        table_cell(t, "%s", kerf_bound_name(op->time.bound));
        table_cell(t, "%.1f %%", 100 * op->count * op->time.us / o.step.time.us);
    }
    printf("\n");
    return table_end(t, KERF_OK, err);
}

static kerf_status print_text(const model_question *q, kerf_error *err)
{
    const kerf_model *m = &q->model;
    table *t = NULL;
    printf("%s: %.3f G parameters, %.3f G pass per token,\n%.0f KV elements per token; %s on %s,\n"
           "%s %.0f tokens\n\n",
           m->type, kerf_model_parameters(m) * 1e-9, kerf_model_active(m) * 1e-9,
           kerf_model_kv_elements(m), q->phase.prefill ? "prefill" : "decode",
           shown(q->hardware->name), q->phase.prefill ? "prompts of" : "context of",
           q->phase.context);
    if (m->estimated)
        printf(
            "an estimate: of model_type %s only the sizes are known, the rest is as in most models"
            "\n\n",
            shown(m->type));
    if (q->gpus > 1)
        printf("on %d GPUs, which exchange what the operators at the end say\n\n", q->gpus);
    TRY(table_open(&t,
                   q->gpus > 1 ? "format|>batch|>GB|>cache GB|>GB a GPU|fits|+>GB/step|tier|>"
                                 "ms/step|>tokens/s|+>crossover"
                               : "format|>batch|>GB|>cache GB|fits|+>GB/step|tier|>ms/step|>"
                                 "tokens/s|+>crossover",
                   err));
    kerf_status s = for_each(q, take_row, t, err);
    s = table_end(t, s, err);
    if (s == KERF_OK && q->lists.formats * q->lists.batches == 1) s = print_operators(q, err);
    if (s == KERF_OK) {
        printf("\ncrossover: the context at which a step reads as much cache as weights.\n");
        print_tier_note(q->hardware);
    }
    return s;
}

/* --- csv and JSON -------------------------------------------------------------------------- */

static kerf_status take_csv(const model_question *q, void *ctx, const outlook *o)
{
    const kerf_step *s = &o->step;
    (void)ctx;
    printf("%s,%s,%s,%.0f,%.0f,%s,%.0f,%.0f,%d,%.0f,%.0f,%s,%.3f,%.3f,%.3f,%.2f,%.2f,%.1f\n",
           q->model.type, shown(q->hardware->name), q->phase.prefill ? "prefill" : "decode",
           o->batch, q->phase.context, o->format->name, o->weight_bytes, o->cache_bytes, fits(q, o),
           s->bytes, s->flops, kerf_tier_name(s->time.tier), s->time.low_us, s->time.us,
           s->time.high_us, s->tokens_per_s[0], s->tokens_per_s[1], o->crossover);
    return KERF_OK;
}

static json_t *operators_json(const kerf_step *s)
{
    json_t *all = json_array();
    for (size_t i = 0; i < s->ops; i++) {
        const kerf_operator *op = &s->op[i];
        json_t *row = json_pack("{s:s, s:f, s:f, s:f, s:f}", "name", op->name, "count", op->count,
                                "bytes", kerf_work_bytes(&op->work), "weight_bytes",
                                op->work.weight_bytes, "flops", op->work.flops);
        prediction_json(&row, &op->time);
        json_add(&all, row);
    }
    return all;
}

static kerf_status take_json(const model_question *q, void *ctx, const outlook *o)
{
    const kerf_step *s = &o->step;
    int fit = fits(q, o);
    json_t *row = json_pack(
        "{s:s, s:f, s:f, s:f, s:f, s:o, s:f, s:f, s:s, s:f, s:f, s:f, s:[f, f], s:o, s:o}",
        "format", o->format->name, "batch", o->batch, "weight_bytes", o->weight_bytes,
        "cache_bytes", o->cache_bytes, "gpu_bytes", o->gpu_bytes, "fits",
        fit < 0 ? json_null() : json_boolean(fit), "step_bytes", s->bytes, "step_flops", s->flops,
        "tier", kerf_tier_name(s->time.tier), "low_us", s->time.low_us, "us", s->time.us, "high_us",
        s->time.high_us, "tokens_per_s", s->tokens_per_s[0], s->tokens_per_s[1], "crossover_tokens",
        json_figure(o->crossover), "operators", operators_json(s));
    (void)q;
    json_add(ctx, row);
    return KERF_OK;
}

static kerf_status print_document(const model_question *q, kerf_error *err)
{
    json_t *rows = json_array();
    kerf_status s = for_each(q, take_json, &rows, err);
    if (s != KERF_OK) {
        json_decref(rows);
        return s;
    }
    json_t *doc = json_pack(
        "{s:s, s:o, s:s, s:f, s:f, s:f, s:s, s:f, s:o}", "hardware", q->hardware->name, "config",
        json_path(args_value(q->args, "model")), "type", q->model.type, "parameters",
        kerf_model_parameters(&q->model), "active_parameters", kerf_model_active(&q->model),
        "kv_elements_per_token", kerf_model_kv_elements(&q->model), "phase",
        q->phase.prefill ? "prefill" : "decode", "context", q->phase.context, "predictions", rows);
    json_set(&doc, "gpus", json_integer(q->gpus));
    json_set(&doc, "estimated", json_boolean(q->model.estimated));
    return print_json("predict-model", doc, err);
}

kerf_status predict_model(const args *a, const kerf_hardware *h, kerf_error *err)
{
    model_question q = {.args = a, .hardware = h};
    kerf_status s = read_question(&q, err);
    if (s == KERF_OK && args_has(a, "json")) {
        s = print_document(&q, err);
    } else if (s == KERF_OK && args_has(a, "csv")) {
        printf("type,hardware,phase,batch,context,format,weight_bytes,cache_bytes,fits,step_bytes,"
               "step_flops,tier,low_us,us,high_us,tokens_per_s_low,tokens_per_s_high,"
               "crossover_tokens\n");
        s = for_each(&q, take_csv, NULL, err);
    } else if (s == KERF_OK) {
        s = print_text(&q, err);
    }
    option_products_close(&q.lists);
    return s;
}
