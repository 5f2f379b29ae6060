/* cmd_convert.c - kerf convert: the same codes and scales in another layout. Nothing is quantized
 * again: a plane moves as it is, or by a rule that turns back. Where a number cannot turn back
 * exactly, the verb counts it and says so. */
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "progress.h"
#include "model/arrange_experts.h"
#include "layout/input_scales.h"
#include "output.h"
#include "model/inspect/stray.h"
#include "stream/panels.h"
#include "model/write_model.h"

typedef struct job {
    const args *args;
    const char *path;
    const kerf_layout *layout;
    kerf_checkpoint *source;
    manifest manifest;
    progress progress;
    kerf_weight *target;       /* per weight of the source: what it becomes            */
    kf_input_scale **input;    /* ... when it is the scale of a layer's inputs         */
    unsigned *foreign_from;    /* ... and the scales that mean other numbers then      */
    uint64_t rounded, foreign; /* numbers that do not turn back; bytes that the new
                                  layout reads as other numbers                        */
    size_t converted;
    json_t *losses; /* of text */
    double seconds;
} job;

/* --- losses -------------------------------------------------------------------------------- */

static void add_loss(job *j, const char *fmt, unsigned long long n)
{
    char text[256];
    if (n == 0) return;
    snprintf(text, sizeof text, fmt, n);
    json_array_append_new(j->losses, json_string(text));
}

/* Scales of activations, which have other names in every layout. */
static int is_input_scale(const kerf_weight *w)
{
    static const char *const ends[] = {".input_scale", ".input_global_scale", ".k_scale",
                                       ".v_scale", ".input_zero_point"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (!w->codec.format && kf_has_suffix(w->name, ends[i])) return 1;
    }
    return 0;
}

/* Whether w begins a fused group whose members have different scales per matrix. */
static kerf_status group_differs(const job *j, const kerf_weight *w, int *differs, kerf_error *err)
{
    const kerf_weight *member[KERF_FUSED_MOST];
    float first = 0;
    *differs = 0;
    size_t n = kerf_fused_group(kerf_checkpoint_weights(j->source), w, member);
    kerf_plane_id p =
        w->geometry.plane[KERF_PLANE_SECOND].per_matrix ? KERF_PLANE_SECOND : KERF_PLANE_SCALES;
    for (size_t i = 0; i < n && member[0] == w; i++) {
        float x = 0;
        if (member[i]->codec.format != w->codec.format) continue;
        TRY(kerf_weight_read(kerf_checkpoint_reader(j->source), member[i], p, 0, &x, sizeof x,
                             err));
        if (i > 0 && memcmp(&x, &first, sizeof x) != 0) *differs = 1;
        if (i == 0) first = x;
    }
    return KERF_OK;
}

static kerf_status find_losses(job *j, kerf_error *err)
{
    unsigned long long inputs = 0, groups = 0, smoothed = 0;
    for (size_t i = 0; i < kerf_weights_count(kerf_checkpoint_weights(j->source)); i++) {
        const kerf_weight *w = kerf_weights_at(kerf_checkpoint_weights(j->source), i);
        int differs = 0;
        inputs += is_input_scale(w) && !j->input[i];
        smoothed += kf_has_suffix(w->name, ".pre_quant_scale") != 0;
        if (!w->codec.format || !kerf_layout_shares_scale(j->layout, w->codec.format)) continue;
        TRY(group_differs(j, w, &differs, err));
        groups += differs != 0;
    }
    add_loss(j, "%llu scales of activations keep their names, which the new layout does not read",
             inputs);
    add_loss(j,
             "%llu layers are for inputs that are multiplied by their pre_quant_scale, which the "
             "new layout does not read",
             smoothed);
    add_loss(j,
             "%llu groups of layers that runtimes fuse have different tensor scales: they take the "
             "largest for all; quantize the source again with --layout",
             groups);
    return KERF_OK;
}

/* --- plan ---------------------------------------------------------------------------------- */

static kerf_status check_weight(const job *j, const kerf_weight *w, kerf_error *err)
{
    kerf_status s = kerf_layout_check(j->layout, w->codec.format, err);
    if (s == KERF_OK) {
        s = kerf_layout_check_tensor(j->layout, w->codec.format, w->name, &w->shape, err);
    }
    return s == KERF_OK ? s : fail_at(err, s, w->name);
}

static kerf_status declare_output(job *j, kerf_error *err)
{
    size_t count = kerf_weights_count(kerf_checkpoint_weights(j->source));
    TRY(manifest_open(&j->manifest, j->path, j->args, err));
    TRY(allocate(&j->target, count, sizeof *j->target, err));
    TRY(allocate(&j->foreign_from, count, sizeof *j->foreign_from, err));
    TRY(allocate(&j->input, count, sizeof *j->input, err));
    for (size_t i = 0; i < count; i++) {
        kerf_weight *w = &j->target[i];
        *w = *kerf_weights_at(kerf_checkpoint_weights(j->source), i);
        j->converted += w->codec.format != NULL;
        TRY(kf_input_scale_open(kerf_checkpoint_weights(j->source), j->layout, w, &j->input[i],
                                err));
        if (j->input[i]) {
            w->plane[0] = &j->input[i]->tensor;
            w->name = w->plane[0]->name;
            w->shape = w->plane[0]->shape;
        }
        TRY(kerf_weight_fit(kerf_checkpoint_reader(j->source), j->layout, w, &j->foreign_from[i],
                            err));
        if (w->codec.format) TRY(check_weight(j, w, err));
        TRY(manifest_add_weight(&j->manifest, j->layout, w, err));
    }
    return manifest_describe(&j->manifest, j->source, j->layout, j->target, count, err);
}

/* --- write --------------------------------------------------------------------------------- */

typedef struct move {
    job *job;
    const kerf_weight *weight;
    unsigned foreign_from;
    uint64_t foreign; /* bytes from there on */
    kerf_weight_writer *to;
} move;

static kerf_status move_read(void *ctx, kf_panel *p, kerf_error *err)
{
    const move *m = ctx;
    return kf_read_planes(kerf_checkpoint_reader(m->job->source), m->weight, p, err);
}

static kerf_status move_work(void *ctx, kf_panel *p, kerf_error *err)
{
    move *m = ctx;
    const kerf_span scales = p->plane[KERF_PLANE_SCALES];
    (void)err;
    for (size_t i = 0; m->foreign_from < 256 && i < scales.n; i++) {
        m->foreign += ((const unsigned char *)scales.p)[i] >= m->foreign_from;
    }
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (m->weight->geometry.plane[k].band_bytes) {
            TRY(kf_work_add(&m->job->progress.work, p->plane[k].n, err));
        }
    }
    return KERF_OK;
}

/* All planes of a panel, since layouts may put them into one tensor. */
static kerf_status move_write(void *ctx, kf_panel *p, kerf_error *err)
{
    const move *m = ctx;
    const kerf_geometry *g = &m->weight->geometry;
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (g->plane[k].band_bytes == 0) continue;
        uint64_t offset = kerf_band_bytes(g, k, p->u0, p->u1).offset;
        TRY(kerf_weight_writer_write(m->to, k, offset, p->plane[k].p, p->plane[k].n, err));
    }
    return KERF_OK;
}

static kerf_status move_panels(move *m, kf_stream *s, kerf_error *err)
{
    static const kf_steps steps = {move_read, move_work, move_write, NULL};
    TRY(kf_read_whole_planes(kerf_checkpoint_reader(m->job->source), m->weight, s, err));
    TRY(kf_stream_run(s, &steps, m, err));
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        const kerf_span whole = kf_stream_whole(s, k);
        if (whole.n) TRY(kerf_weight_writer_write(m->to, k, 0, whole.p, whole.n, err));
    }
    return kerf_weight_writer_finish(m->to, err);
}

/* The journal keeps one number of each weight: both counts of it, at most 2^32 - 1 each. */
static uint64_t note_of(uint64_t rounded, uint64_t foreign)
{
    const uint64_t most = UINT32_MAX;
    return (rounded < most ? rounded : most) << 32 | (foreign < most ? foreign : most);
}

static void add_note(void *ctx, uint64_t note)
{
    ((job *)ctx)->rounded += note >> 32;
    ((job *)ctx)->foreign += note & UINT32_MAX;
}

static kerf_status convert_weight(job *j, size_t i, kerf_writer *to, size_t entry, uint64_t *note,
                                  kerf_error *err)
{
    const kerf_weight *w = &j->target[i];
    move m = {.job = j, .weight = w, .foreign_from = j->foreign_from[i]};
    uint64_t rounded = 0;
    kf_stream *panels = NULL;
    TRY(kerf_weight_inexact(kerf_checkpoint_reader(j->source), w, &rounded, err));
    TRY(kf_stream_open(&panels, &w->geometry, KERF_BF16, err));
    kerf_status s = kerf_weight_writer_open(to, j->layout, w, entry, &m.to, err);
    if (s == KERF_OK) s = move_panels(&m, panels, err);
    kf_stream_close(panels);
    if (s == KERF_OK) {
        uint64_t written = kerf_weight_writer_inexact(m.to);
        *note = note_of(written + (w->layout == j->layout ? 0 : rounded), m.foreign);
    }
    kerf_weight_writer_close(m.to);
    return s;
}

static kerf_status write_weight(void *ctx, kerf_writer *to, size_t i, size_t entry,
                                const kerf_exec *exec, uint64_t *note, kerf_error *err)
{
    job *j = ctx;
    (void)exec;
    const kerf_weight *w = &j->target[i];
    if (j->input[i]) {
        uint64_t inexact = 0;
        TRY(kf_input_scale_write(j->input[i], kerf_checkpoint_reader(j->source),
                                 kerf_weights_at(kerf_checkpoint_weights(j->source), i), to, entry,
                                 &inexact, err));
        *note = note_of(inexact, 0);
        return KERF_OK;
    }
    int same = !w->codec.format || w->layout == j->layout;
    kf_work_item(&j->progress.work, w->name, same ? "copy" : "convert");
    return same ? copy_weight(j->source, w, to, entry, &j->progress.work, err)
                : convert_weight(j, i, to, entry, note, err);
}

static uint64_t work_bytes(const void *ctx, size_t i)
{
    return kerf_weight_bytes(
        kerf_weights_at(kerf_checkpoint_weights(((const job *)ctx)->source), i));
}

static void describe_work(const void *ctx, FILE *to)
{
    fprintf(to, "%s\n", ((const job *)ctx)->layout->name);
}

static kerf_status write_output(job *j, kerf_error *err)
{
    write_job out = {
        .verb = "convert",
        .path = j->path,
        .args = j->args,
        .source = j->source,
        .manifest = &j->manifest,
        .ctx = j,
        .work_bytes = work_bytes,
        .write = write_weight,
        .noted = add_note,
        .describe = describe_work,
    };
    kerf_status s = write_model(&out, &j->progress, err);
    j->seconds = out.seconds;
    return s;
}

/* --- report -------------------------------------------------------------------------------- */

static kerf_status report(const job *j, kerf_error *err)
{
    size_t i;
    json_t *text;
    if (progress_allows_text(j->args)) {
        fprintf(stderr, "%s: %zu weights in layout %s, %s, %.2f s\n", j->path, j->converted,
                j->layout->name, json_array_size(j->losses) ? "not without loss" : "nothing lost",
                j->seconds);
        json_array_foreach(j->losses, i, text)
        {
            fprintf(stderr, "lost: %s\n", json_string_value(text));
        }
    }
    if (!args_has(j->args, "json")) return KERF_OK;
    json_t *doc = json_pack("{s:o, s:o, s:s, s:I, s:O, s:f}", "source",
                            json_path(kerf_checkpoint_path(j->source)), "output",
                            json_path(j->path), "layout", j->layout->name, "converted",
                            (json_int_t)j->converted, "losses", j->losses, "seconds", j->seconds);
    return print_json("convert", doc, err);
}

/* --- verb ---------------------------------------------------------------------------------- */

static kerf_status convert(job *j, kerf_error *err)
{
    j->path = args_value(j->args, "output");
    if (!j->path) return USAGE(err, "convert: -o OUT is missing");
    if (!args_has(j->args, "layout")) {
        return USAGE(err, "convert: --layout NAME is missing; kerf formats lists them");
    }
    TRY(kerf_checkpoint_open(args_operand(j->args, 0), &j->source, err));
    TRY(refuse_strays(j->source, err));
    TRY(manifest_layout(j->source, j->path, j->args, &j->layout, err));
    TRY(kf_arrange_experts(j->source, j->layout, NULL, err));
    if (kerf_checkpoint_quantized(j->source) == 0) {
        return fail(err, KERF_E_NOSUP,
                    "%.200s: holds no quantized tensor in a layout that kerf knows; kerf quantize "
                    "makes some",
                    kerf_checkpoint_path(j->source));
    }
    j->losses = json_array();
    TRY(declare_output(j, err));
    TRY(find_losses(j, err));
    TRY(write_output(j, err));
    add_loss(
        j,
        "%llu scales are stored as another number, a reciprocal or 127 times as much, that fp32 "
        "rounds: converted back they differ by one unit in the last place",
        (unsigned long long)j->rounded);
    add_loss(j,
             "%llu block scales are bytes that one of the layouts reads as another number (NaN, or "
             "with a sign); they are kept as they are",
             (unsigned long long)j->foreign);
    return report(j, err);
}

static int run_convert(const args *a, kerf_error *err)
{
    job j = {.args = a};
    kerf_status s = convert(&j, err);
    json_decref(j.losses);
    for (size_t i = 0; j.input && i < kerf_weights_count(kerf_checkpoint_weights(j.source)); i++) {
        kf_input_scale_close(j.input[i]);
    }
    free(j.input);
    free(j.target);
    free(j.foreign_from);
    manifest_close(&j.manifest);
    kerf_checkpoint_close(j.source);
    return s;
}

static const option options[] = {
    {"output", 'o', "OUT", "NAME.safetensors, NAME.safetensors.zst, NAME.gguf, or a folder"},
    {NULL, 0, NULL, NULL},
};

const verb verb_convert = {
    .name = "convert",
    .summary = "move quantized weights to another layout, code for code",
    .usage = "IN --layout NAME -o OUT [options]",
    .details =
        "Writes the codes and scales of every quantized weight of IN under the names and in\n"
        "the arrangement of another layout, and copies all other tensors. Nothing is\n"
        "quantized again, so nothing changes but what is said at the end: a scale that the\n"
        "new layout stores as its reciprocal may not turn back to the last bit. What cannot\n"
        "move at all is refused with the reason: GPTQ's columns that were sorted (act-order),\n"
        "zero points where the other layout has none. Out of GGUF, blocks become planes where\n"
        "kerf has them (nvfp4, mxfp4, int4-g32-f16); its keys go along, so that --layout gguf\n"
        "can write the file again.",
    .examples = "  kerf convert model-modelopt/ --layout compressed-tensors -o model-ct/\n"
                "  kerf convert model-ct/ --layout kerf -o model.safetensors\n"
                "  kerf convert model-nvfp4.gguf --layout kerf -o model.safetensors\n",
    .options = options,
    .shared = {&option_layout, &option_overwrite, &option_shard_size, &option_resume,
               &option_zstd_level, &option_threads, &option_json, &option_progress},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_convert,
};
