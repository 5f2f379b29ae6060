/* cmd_dequantize.c - kerf dequantize: every quantized weight becomes one dense tensor again, under
 * its own name; dense tensors are copied. */
#include <string.h>

#include "options.h"
#include "progress.h"
#include "output.h"
#include "model/inspect/stray.h"
#include "stream/panels.h"
#include "model/write_model.h"

typedef struct job {
    const args *args;
    const char *path;
    kerf_dtype dtype; /* KERF_DTYPE_NONE: the recorded one of each tensor */
    team_option team;
    kerf_checkpoint *source;
    manifest manifest;
    uint64_t bytes_in;
    progress progress;
    double seconds;
} job;

/* --- one tensor ---------------------------------------------------------------------------- */

typedef struct decode_run {
    job *job;
    const kerf_exec *exec;
    const kerf_weight *weight;
    kerf_dtype dtype;
    kerf_writer *writer;
    size_t entry;
} decode_run;

static kerf_status decode_read(void *ctx, kf_panel *p, kerf_error *err)
{
    const decode_run *r = ctx;
    return kf_read_planes(kerf_checkpoint_reader(r->job->source), r->weight, p, err);
}

static kerf_status decode_work(void *ctx, kf_panel *p, kerf_error *err)
{
    const decode_run *r = ctx;
    kerf_cspan planes[KERF_PLANES];
    kf_planes_of(p, planes);
    TRY(kf_work_add(&r->job->progress.work, p->dense.n, err));
    return kerf_decode(&r->weight->geometry, p->u0, p->u1, planes, p->dense, r->dtype, r->exec,
                       err);
}

static kerf_status decode_write(void *ctx, kf_panel *p, kerf_error *err)
{
    const decode_run *r = ctx;
    uint64_t first = kerf_band_elements(&r->weight->geometry, p->u0, p->u1).offset;
    return kerf_writer_write(r->writer, r->entry, first * (kerf_dtype_bits(r->dtype) / 8),
                             p->dense.p, p->dense.n, err);
}

static kerf_status decode_tensor(decode_run *r, kerf_error *err)
{
    static const kf_steps steps = {decode_read, decode_work, decode_write, NULL};
    kf_stream *s = NULL;
    kerf_status status = kf_stream_open(&s, &r->weight->geometry, r->dtype, err);
    if (status == KERF_OK) {
        status = kf_read_whole_planes(kerf_checkpoint_reader(r->job->source), r->weight, s, err);
    }
    if (status == KERF_OK) status = kf_stream_run(s, &steps, r, err);
    kf_stream_close(s);
    return status == KERF_OK ? status : fail_at(err, status, r->weight->name);
}

/* --- all tensors --------------------------------------------------------------------------- */

static kerf_dtype dense_type(const job *j, const kerf_weight *w)
{
    return w->codec.format && j->dtype != KERF_DTYPE_NONE ? j->dtype : w->dtype;
}

static kerf_status declare_output(job *j, kerf_error *err)
{
    TRY(manifest_open(&j->manifest, j->path, j->args, err));
    for (size_t i = 0; i < kerf_weights_count(kerf_checkpoint_weights(j->source)); i++) {
        const kerf_weight *w = kerf_weights_at(kerf_checkpoint_weights(j->source), i);
        j->bytes_in += kerf_weight_bytes(w);
        if (w->plane[0]->block_type && !w->codec.format) {
            return fail(err, KERF_E_NOSUP, "%.200s: kerf does not decode blocks of type %s",
                        w->name, w->plane[0]->block_type);
        }
        TRY(manifest_add_dense(&j->manifest, w, dense_type(j, w), err));
    }
    return manifest_describe(&j->manifest, j->source, kerf_layout_at(0), NULL, 0, err);
}

static kerf_status write_tensor(void *ctx, kerf_writer *w, size_t i, size_t entry,
                                const kerf_exec *exec, uint64_t *note, kerf_error *err)
{
    job *j = ctx;
    const kerf_weight *weight = kerf_weights_at(kerf_checkpoint_weights(j->source), i);
    int dense = weight->codec.format == NULL;
    (void)note;
    kf_work_item(&j->progress.work, weight->name, dense ? "keep" : "decode");
    if (dense) return copy_tensor(j->source, weight->plane[0], w, entry, &j->progress.work, err);
    decode_run r = {j, exec, weight, dense_type(j, weight), w, entry};
    return decode_tensor(&r, err);
}

/* Decoded bytes: the types are in the manifest. */
static uint64_t work_bytes(const void *ctx, size_t i)
{
    const job *j = ctx;
    const kerf_weight *w = kerf_weights_at(kerf_checkpoint_weights(j->source), i);
    return kerf_weight_elements(w) * kerf_dtype_bits(dense_type(j, w)) / 8;
}

static kerf_status write_output(job *j, kerf_error *err)
{
    write_job out = {
        .verb = "dequantize",
        .path = j->path,
        .args = j->args,
        .source = j->source,
        .manifest = &j->manifest,
        .team = &j->team.team,
        .ctx = j,
        .work_bytes = work_bytes,
        .write = write_tensor,
    };
    kerf_status s = write_model(&out, &j->progress, err);
    j->seconds = out.seconds;
    return s;
}

/* What a plain checkpoint of such a model has another way. */
static void note_experts(const job *j)
{
    for (size_t i = 0; i < kerf_weights_count(kerf_checkpoint_weights(j->source)); i++) {
        const kerf_weight *w = kerf_weights_at(kerf_checkpoint_weights(j->source), i);
        if (!w->codec.format || strcmp(w->layout->name, "gpt-oss") != 0) continue;
        fprintf(stderr,
                "note: stacked experts are [experts, out, in], as they were stored; transformers "
                "holds plain ones as [experts, in, out]\n");
        return;
    }
}

static kerf_status report(const job *j, kerf_error *err)
{
    size_t decoded = kerf_checkpoint_quantized(j->source);
    size_t kept = kerf_weights_count(kerf_checkpoint_weights(j->source)) - decoded;
    uint64_t out = manifest_bytes(&j->manifest);
    if (progress_allows_text(j->args)) {
        char in_text[TEXT_SIZE], out_text[TEXT_SIZE];
        fprintf(stderr, "%s: %zu of %zu tensors decoded, %s -> %s, %.2f s\n", j->path, decoded,
                decoded + kept, bytes_text(j->bytes_in, in_text), bytes_text(out, out_text),
                j->seconds);
        note_experts(j);
    }
    if (!args_has(j->args, "json")) return KERF_OK;
    json_t *doc = json_pack(
        "{s:o, s:o, s:I, s:I, s:I, s:I, s:f}", "source", json_path(kerf_checkpoint_path(j->source)),
        "output", json_path(j->path), "decoded", (json_int_t)decoded, "kept", (json_int_t)kept,
        "bytes_in", (json_int_t)j->bytes_in, "bytes_out", (json_int_t)out, "seconds", j->seconds);
    return print_json("dequantize", doc, err);
}

/* --- verb ---------------------------------------------------------------------------------- */

static kerf_status dequantize(job *j, kerf_error *err)
{
    static const char *const types[] = {"source", "bf16", "fp16", "fp32", NULL};
    static const kerf_dtype type_of[] = {KERF_DTYPE_NONE, KERF_BF16, KERF_F16, KERF_F32};
    int type = 0;
    j->path = args_value(j->args, "output");
    if (!j->path) return USAGE(err, "dequantize: -o OUT is missing");
    TRY(args_choice(j->args, "dtype", types, &type, err));
    j->dtype = type_of[type];
    TRY(option_team_open(&j->team, j->args, err));
    TRY(kerf_checkpoint_open(args_operand(j->args, 0), &j->source, err));
    TRY(refuse_strays(j->source, err));
    if (kerf_checkpoint_quantized(j->source) == 0) {
        return fail(err, KERF_E_NOSUP,
                    "%.200s: holds no quantized tensor in a layout that kerf knows",
                    kerf_checkpoint_path(j->source));
    }
    TRY(declare_output(j, err));
    TRY(write_output(j, err));
    return report(j, err);
}

static int run_dequantize(const args *a, kerf_error *err)
{
    job j = {.args = a};
    kerf_status s = dequantize(&j, err);
    option_team_close(&j.team);
    manifest_close(&j.manifest);
    kerf_checkpoint_close(j.source);
    return s;
}

static const option options[] = {
    {"output", 'o', "OUT", "NAME.safetensors, NAME.safetensors.zst, NAME.gguf, or a folder"},
    {"dtype", 0, "source|bf16|fp16|fp32",
     "type of decoded tensors (default: source, the type that "
     "each had before it was quantized; .gguf files do not tell it: fp32)"},
    {NULL, 0, NULL, NULL},
};

const verb verb_dequantize = {
    .name = "dequantize",
    .summary = "turn a quantized checkpoint back into dense tensors",
    .usage = "IN -o OUT [--dtype source|bf16|fp16|fp32] [options]",
    .details = "Decodes every quantized weight of IN into one dense tensor under its own name\n"
               "and copies the others, so that any program that reads safetensors, or GGUF, can\n"
               "use the result.",
    .examples = "  kerf dequantize model-nvfp4/ -o model-restored/\n"
                "  kerf dequantize model-nf4.safetensors --dtype fp32 -o restored.safetensors\n",
    .options = options,
    .shared = {&option_overwrite, &option_shard_size, &option_resume, &option_zstd_level,
               &option_threads, &option_device, &option_json, &option_progress},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_dequantize,
};
