/* cmd_quantize.c - kerf quantize: decide, declare the output, then stream every tensor through.
 * The header of the output is complete before a byte of a tensor is read; memory is a few panels
 * whatever the size of the file. */
#include <pthread.h>
#include <stdlib.h>

#include "options.h"
#include "progress.h"
#include "model/arrange_experts.h"
#include "model/decide.h"
#include "stream/encode_tensor.h"
#include "output.h"
#include "model/write_model.h"

/* What one scale for several fused layers is chosen from. */
typedef struct shared_stats {
    int known;
    kerf_stats stats;
} shared_stats;

typedef struct job {
    const args *args;
    const char *source_path, *path;
    kerf_codec base;
    const kerf_layout *layout;
    shared_stats *shared; /* per item of the plan */
    pthread_mutex_t sharing;
    team_option team;
    kerf_checkpoint *source;
    select_option select;
    rules_option rules;
    kf_decisions plan;
    manifest manifest;
    uint64_t bytes_in, elements;
    progress progress;
    kf_room room;
    double seconds;
} job;

/* --- plan ---------------------------------------------------------------------------------- */

static uint64_t bytes_after(const kf_decision *d)
{
    return d->codec.format ? d->geometry.bytes : kerf_weight_bytes(d->weight);
}

static double bits_per_weight(uint64_t bytes, uint64_t elements)
{
    return elements ? 8 * (double)bytes / (double)elements : 0;
}

/* What d becomes: its weight, or the weight as it will be in the output. */
static kerf_weight weight_after(const job *j, const kf_decision *d)
{
    kerf_weight w = *d->weight;
    if (!d->codec.format) return w;
    w.codec = d->codec;
    w.geometry = d->geometry;
    w.layout = j->layout;
    return w;
}

static kerf_status declare_output(job *j, kerf_error *err)
{
    kerf_weight *weights = NULL;
    TRY(manifest_open(&j->manifest, j->path ? j->path : "", j->args, err));
    TRY(allocate(&weights, j->plan.count, sizeof *weights, err));
    kerf_status s = KERF_OK;
    for (size_t i = 0; i < j->plan.count && s == KERF_OK; i++) {
        weights[i] = weight_after(j, &j->plan.item[i]);
        s = manifest_add_weight(&j->manifest, j->layout, &weights[i], err);
    }
    if (s == KERF_OK) {
        s = manifest_describe(&j->manifest, j->source, j->layout, weights, j->plan.count, err);
    }
    free(weights);
    return s;
}

/* Runtimes that merge layers into one matrix load all of them in one format or none. */
static kerf_status check_groups(const job *j, kerf_error *err)
{
    const kerf_weight *first = j->plan.count ? j->plan.item[0].weight : NULL;
    if (j->layout == kerf_layout_at(0)) return KERF_OK;
    for (size_t i = 0; i < j->plan.count; i++) {
        const kerf_weight *member[KERF_FUSED_MOST];
        size_t n =
            kerf_fused_group(kerf_checkpoint_weights(j->source), j->plan.item[i].weight, member);
        for (size_t k = 0; k < n; k++) {
            const kf_decision *other = &j->plan.item[member[k] - first];
            if (other->codec.format == j->plan.item[i].codec.format) continue;
            return USAGE(err,
                         "%.150s and %.150s are one matrix to the loaders of layout %s: quantize "
                         "both to one format, or keep both",
                         j->plan.item[i].weight->name, other->weight->name, j->layout->name);
        }
    }
    return KERF_OK;
}

static kerf_status make_plan(job *j, kerf_error *err)
{
    TRY(kf_decide(j->source, &j->select.select, j->rules.rule, j->rules.count, j->base, j->layout,
                  &j->plan, err));
    for (size_t i = 0; i < j->plan.count; i++) {
        j->bytes_in += kerf_weight_bytes(j->plan.item[i].weight);
        j->elements += kerf_weight_elements(j->plan.item[i].weight);
    }
    if (j->plan.quantized == 0) {
        return USAGE(err, "%.200s: no tensor is left to quantize; --dry-run shows why each is kept",
                     j->source_path);
    }
    TRY(check_groups(j, err));
    return declare_output(j, err);
}

/* --- write --------------------------------------------------------------------------------- */

static kf_encode_job encode_job_of(job *j, const kf_decision *d, const kerf_exec *exec)
{
    return (kf_encode_job){
        .reader = kerf_checkpoint_reader(j->source),
        .tensor = d->weight->plane[0],
        .geometry = &d->geometry,
        .encoder = d->codec.encoder,
        .exec = exec,
        .progress = &j->progress.work,
    };
}

/* Measures all members of the fused group of item i into one, exactly as if they were one matrix,
 * and notes the result for each. */
static kerf_status measure_group(job *j, size_t i, const kerf_exec *exec, kerf_error *err)
{
    const kerf_weight *member[KERF_FUSED_MOST] = {j->plan.item[i].weight};
    const kerf_weight *first = j->plan.item[0].weight;
    size_t n = kerf_fused_group(kerf_checkpoint_weights(j->source), member[0], member);
    kerf_stats all = {0};
    for (size_t k = 0; k < (n ? n : 1); k++) {
        kerf_stats one = {0};
        kf_encode_job measure = encode_job_of(j, &j->plan.item[member[k] - first], exec);
        TRY(kf_measure_tensor(&measure, &one, err));
        kerf_stats_merge(&all, &one);
    }
    for (size_t k = 0; k < (n ? n : 1); k++) {
        j->shared[member[k] - first] = (shared_stats){1, all};
    }
    return KERF_OK;
}

/* Once, whoever of a team comes first; the others wait for it. */
static kerf_status share_stats(job *j, size_t i, const kerf_exec *exec, kerf_error *err)
{
    pthread_mutex_lock(&j->sharing);
    kerf_status s = j->shared[i].known ? KERF_OK : measure_group(j, i, exec, err);
    pthread_mutex_unlock(&j->sharing);
    return s;
}

static kerf_status encode_item(job *j, size_t i, const kerf_exec *exec, const kerf_weight *w,
                               kerf_weight_writer *to, kerf_error *err)
{
    const kf_decision *d = &j->plan.item[i];
    kf_encode_job encode = encode_job_of(j, d, exec);
    if (kerf_layout_shares_scale(j->layout, d->codec.format) && w->geometry.matrices == 1) {
        TRY(share_stats(j, i, exec, err));
        encode.stats = &j->shared[i].stats;
    }
    encode.writer = to;
    encode.room = &j->room;
    TRY(kf_encode_tensor(&encode, err));
    return kerf_weight_writer_finish(to, err);
}

static kerf_status write_tensor(void *ctx, kerf_writer *w, size_t i, size_t entry,
                                const kerf_exec *exec, uint64_t *note, kerf_error *err)
{
    job *j = ctx;
    (void)note;
    const kf_decision *d = &j->plan.item[i];
    char name[64];
    if (!d->codec.format) {
        kf_work_item(&j->progress.work, d->weight->name, "keep");
        return copy_weight(j->source, d->weight, w, entry, &j->progress.work, err);
    }
    const kerf_weight after = weight_after(j, d);
    kerf_weight_writer *to = NULL;
    kf_work_item(&j->progress.work, after.name, kerf_codec_name(d->codec, name, sizeof name));
    TRY(kerf_weight_writer_open(w, j->layout, &after, entry, &to, err));
    kerf_status s = encode_item(j, i, exec, &after, to, err);
    kerf_weight_writer_close(to);
    return s;
}

static uint64_t work_bytes(const void *ctx, size_t i)
{
    const job *j = ctx;
    const kf_decision *d = &j->plan.item[i];
    int passes = d->codec.format && kerf_needs_stats(&d->geometry) ? 2 : 1;
    return kerf_weight_bytes(d->weight) * (uint64_t)passes;
}

/* Names of layout and types do not tell how the codes were chosen. */
static void describe_work(const void *ctx, FILE *to)
{
    const job *j = ctx;
    char name[64];
    fprintf(to, "%s %d\n", j->layout->name, (int)j->team.member[0].nan);
    for (size_t i = 0; i < j->plan.count; i++) {
        const kerf_codec codec = j->plan.item[i].codec;
        fprintf(to, "%s\n", codec.format ? kerf_codec_name(codec, name, sizeof name) : "keep");
    }
}

static kerf_status write_output(job *j, kerf_error *err)
{
    write_job out = {
        .verb = "quantize",
        .path = j->path,
        .args = j->args,
        .source = j->source,
        .manifest = &j->manifest,
        .team = &j->team.team,
        .ctx = j,
        .work_bytes = work_bytes,
        .write = write_tensor,
        .describe = describe_work,
    };
    TRY(allocate(&j->shared, j->plan.count, sizeof *j->shared, err));
    kerf_status s = write_model(&out, &j->progress, err);
    j->seconds = out.seconds;
    return s;
}

/* --- report -------------------------------------------------------------------------------- */

static kerf_status print_plan_json(const job *j, kerf_error *err)
{
    json_t *tensors = json_array();
    char name[64];
    for (size_t i = 0; i < j->plan.count; i++) {
        const kf_decision *d = &j->plan.item[i];
        const kerf_weight *w = d->weight;
        json_t *row = json_pack("{s:s, s:o, s:s}", "name", w->name, "shape", json_shape(&w->shape),
                                "source", kerf_weight_format(w, name, sizeof name));
        const char *format = d->codec.format ? kerf_codec_name(d->codec, name, sizeof name) : NULL;
        json_object_set_new(row, "format", format ? json_string(format) : json_null());
        json_object_set_new(row, "reason", d->reason[0] ? json_string(d->reason) : json_null());
        json_object_set_new(row, "bytes_in", json_integer((json_int_t)kerf_weight_bytes(w)));
        json_object_set_new(row, "bytes_out", json_integer((json_int_t)bytes_after(d)));
        json_object_set_new(row, "bpw",
                            json_real(bits_per_weight(bytes_after(d), kerf_weight_elements(w))));
        json_array_append_new(tensors, row);
    }
    uint64_t out = manifest_bytes(&j->manifest);
    json_t *totals =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:f}", "quantized", (json_int_t)j->plan.quantized,
                  "kept", (json_int_t)(j->plan.count - j->plan.quantized), "elements",
                  (json_int_t)j->elements, "bytes_in", (json_int_t)j->bytes_in, "bytes_out",
                  (json_int_t)out, "bpw", bits_per_weight(out, j->elements));
    int dry = args_has(j->args, "dry-run");
    if (!dry) json_object_set_new(totals, "seconds", json_real(j->seconds));
    json_t *doc = json_pack("{s:o, s:o, s:s, s:b, s:o, s:o}", "source", json_path(j->source_path),
                            "output", json_path(j->path), "layout", j->layout->name, "dry_run", dry,
                            "tensors", tensors, "totals", totals);
    return print_json("quantize", doc, err);
}

static kerf_status print_plan(const job *j, kerf_error *err)
{
    table *t = NULL;
    char text[TEXT_SIZE], name[64];
    TRY(table_open(&t, "tensor|shape|source|becomes|>bytes|>after|>bpw", err));
    for (size_t i = 0; i < j->plan.count; i++) {
        const kf_decision *d = &j->plan.item[i];
        const kerf_weight *w = d->weight;
        table_cell(t, "%s", w->name);
        table_cell(t, "%s", shape_text(&w->shape, text));
        table_cell(t, "%s", kerf_weight_format(w, name, sizeof name));
        if (!d->codec.format) {
            table_cell(t, "kept (%s)", d->reason);
        } else {
            table_cell(t, "%s", kerf_codec_name(d->codec, name, sizeof name));
        }
        table_cell(t, "%llu", (unsigned long long)kerf_weight_bytes(w));
        table_cell(t, "%llu", (unsigned long long)bytes_after(d));
        table_cell(t, "%.3f", bits_per_weight(bytes_after(d), kerf_weight_elements(w)));
    }
    uint64_t out = manifest_bytes(&j->manifest);
    table_rule(t);
    table_cell(t, "%zu quantized, %zu kept", j->plan.quantized, j->plan.count - j->plan.quantized);
    for (int i = 0; i < 3; i++) table_cell(t, "%s", "");
    table_cell(t, "%llu", (unsigned long long)j->bytes_in);
    table_cell(t, "%llu", (unsigned long long)out);
    table_cell(t, "%.3f", bits_per_weight(out, j->elements));
    kerf_status s = table_print(t, stdout, err);
    table_close(t);
    return s;
}

static void print_summary(const job *j)
{
    char in[TEXT_SIZE], out[TEXT_SIZE];
    uint64_t bytes = manifest_bytes(&j->manifest);
    fprintf(stderr, "%s: %zu of %zu tensors quantized, %s -> %s, %.3f bpw, %.2f s, %.0f MB/s\n",
            j->path, j->plan.quantized, j->plan.count, bytes_text(j->bytes_in, in),
            bytes_text(bytes, out), bits_per_weight(bytes, j->elements), j->seconds,
            (double)j->bytes_in / 1e6 / (j->seconds > 0 ? j->seconds : 1));
}

/* --- verb ---------------------------------------------------------------------------------- */

static kerf_status quantize(job *j, kerf_error *err)
{
    const args *a = j->args;
    const char *format = args_value(a, "format");
    j->source_path = args_operand(a, 0);
    j->path = args_value(a, "output");
    if (!format && !args_has(a, "recipe")) {
        return USAGE(err, "quantize: -f FORMAT[:ENCODER] is missing; see kerf formats");
    }
    if (!j->path && !args_has(a, "dry-run")) {
        return USAGE(err, "quantize: -o OUT is missing; --dry-run needs none");
    }
    if (format) TRY(option_codec(format, &j->base, err));
    TRY(option_team_open(&j->team, a, err));
    TRY(kerf_checkpoint_open(j->source_path, &j->source, err));
    TRY(manifest_layout(j->source, j->path, a, &j->layout, err));
    TRY(option_select_open(&j->select, a, err));
    TRY(option_rules_open(&j->rules, a, err));
    TRY(kf_arrange_experts(j->source, j->layout, &j->select.select, err));
    TRY(make_plan(j, err));
    if (args_has(a, "dry-run")) {
        return args_has(a, "json") ? print_plan_json(j, err) : print_plan(j, err);
    }
    TRY(write_output(j, err));
    if (progress_allows_text(a)) print_summary(j);
    return args_has(a, "json") ? print_plan_json(j, err) : KERF_OK;
}

/* Measures what was written and compares it with the promises of the recipe. EXIT_OK,
 * EXIT_MISMATCH, or a kerf_status. */
static int check_recipe(const job *j, kerf_error *err)
{
    const kerf_recipe *r = j->rules.recipe;
    kerf_checkpoint *written = NULL;
    kerf_recipe_result result = {0};
    TRY(kerf_checkpoint_open(j->path, &written, err));
    kerf_status s = kerf_recipe_check(r, j->rules.rule + r->rules, j->rules.count - r->rules,
                                      j->source, written, &j->team.member[0], NULL, &result, err);
    kerf_checkpoint_close(written);
    TRY(s);
    if (progress_allows_text(j->args))
        fprintf(stderr, "%s: %zu tensors measured as promised, %zu not, %zu edited since\n",
                r->name, result.kept, result.broken, result.edited);
    if (result.broken == 0) return EXIT_OK;
    char text[sizeof result.first];
    fprintf(stderr, "kerf: %s: %s\n", j->path,
            kerf_text_printable(result.first, text, sizeof text));
    return EXIT_MISMATCH;
}

static int run_quantize(const args *a, kerf_error *err)
{
    job j = {.args = a, .sharing = PTHREAD_MUTEX_INITIALIZER};
    int s = quantize(&j, err);
    if (s == KERF_OK && j.rules.recipe && !args_has(a, "dry-run")) s = check_recipe(&j, err);
    option_team_close(&j.team);
    pthread_mutex_destroy(&j.sharing);
    free(j.shared);
    free(j.room.p);
    manifest_close(&j.manifest);
    option_rules_close(&j.rules);
    option_select_close(&j.select);
    kf_decisions_free(&j.plan);
    kerf_checkpoint_close(j.source);
    return s;
}

static const option options[] = {
    {"format", 'f', "FORMAT[:ENCODER]",
     "number format, and how its bytes are chosen: kerf formats"},
    {"output", 'o', "OUT", "NAME.safetensors, NAME.safetensors.zst, NAME.gguf, or a folder"},
    {"tensor", 0, "GLOB=FORMAT[:ENC]",
     "another format for matching tensors, also for those kept by "
     "default; GLOB=keep keeps them (repeatable, last wins)"},
    {"recipe", 0, "FILE",
     "formats as a recipe of kerf advise has them; what was written is measured again and must be "
     "what the recipe promises. -f is for tensors that it does not name"},
    {"dry-run", 'n', NULL, "show what would become of every tensor and write nothing"},
    {NULL, 0, NULL, NULL},
};

const verb verb_quantize = {
    .name = "quantize",
    .summary = "write a checkpoint in a few-bit format",
    .usage = "IN -f FORMAT[:ENCODER] -o OUT [options]",
    .details =
        "Quantizes the weights of IN (a .safetensors, .safetensors.zst or .gguf file, or a model\n"
        "folder) into OUT. Norms, biases, 1-D tensors, embeddings, lm_head, routers and\n"
        "vision towers stay in their source type unless --tensor names them; --dry-run\n"
        "shows every decision. OUT appears only when it is whole and checked. GLOB is a\n"
        "shell pattern over tensor names. In a layout other than kerf, layers that its loaders\n"
        "fuse share their tensor scale, and what the layout cannot store is kept. An OUT\n"
        "named .gguf has the keys of the .gguf that IN is, or once was. A run that was killed\n"
        "goes on with --resume: weights that are whole on disk are not written again.",
    .examples = "  kerf quantize model/ -f nvfp4:4/6 -o model-nvfp4/\n"
                "  kerf quantize model.safetensors -f mxfp4 --dry-run\n"
                "  kerf quantize model/ -f int4-g128:search --tensor '*down_proj*=int8' -o out/\n"
                "  kerf quantize model/ -f nvfp4 --keep '*layers.0.*' -o out.safetensors.zst\n"
                "  kerf quantize model/ -f nvfp4:4/6 --layout compressed-tensors -o out/\n"
                "  kerf quantize model-bf16.gguf -f nvfp4:4/6 -o model-nvfp4.gguf\n"
                "  kerf quantize model/ -f mxfp4 --shard-size 5GB -o out/ --resume\n",
    .options = options,
    .shared = {&option_layout, &option_keep, &option_only, &option_nan, &option_overwrite,
               &option_shard_size, &option_resume, &option_zstd_level, &option_threads,
               &option_device, &option_json, &option_progress},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_quantize,
};
