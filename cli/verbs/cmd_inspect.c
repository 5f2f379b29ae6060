/* cmd_inspect.c - kerf inspect: what a checkpoint holds, and what is wrong with it. */
#include <kerf/inspect.h>

#include "options.h"
#include "output.h"

typedef struct findings {
    json_t *list; /* of {"severity", "tensor", "text"} */
    size_t errors;
} findings;

/* --- text ---------------------------------------------------------------------------------- */

static kerf_status print_weights(const kerf_checkpoint *c, kerf_error *err)
{
    table *t = NULL;
    char text[TEXT_SIZE], name[64];
    uint64_t bytes = 0, elements = 0;
    TRY(table_open(&t, "~weight|+role|+shape|format|+layout|+from|+>bytes|>bpw", err));
    for (size_t i = 0; i < kerf_weights_count(kerf_checkpoint_weights(c)); i++) {
        const kerf_weight *w = kerf_weights_at(kerf_checkpoint_weights(c), i);
        table_cell(t, "%s", w->name);
        table_cell(t, "%s", kerf_place_text(&w->place, text, sizeof text));
        table_cell(t, "%s", kerf_shape_text(w->stored.rank ? &w->stored : &w->shape, text));
        table_cell(t, "%s", kerf_weight_format(w, name, sizeof name));
        table_cell(t, "%s", w->layout ? w->layout->name : "");
        table_cell(t, "%s", w->codec.format ? kerf_dtype_name(w->dtype) : "");
        table_cell(t, "%llu", (unsigned long long)kerf_weight_bytes(w));
        table_cell(t, "%.3f", bits_per_weight(kerf_weight_bytes(w), kerf_weight_elements(w)));
        bytes += kerf_weight_bytes(w);
        elements += kerf_weight_elements(w);
    }
    table_rule(t);
    table_cell(t, "%zu weights, %zu quantized", kerf_weights_count(kerf_checkpoint_weights(c)),
               kerf_checkpoint_quantized(c));
    for (int i = 0; i < 5; i++) table_cell(t, "%s", "");
    table_cell(t, "%llu", (unsigned long long)bytes);
    table_cell(t, "%.3f", bits_per_weight(bytes, elements));
    return table_end(t, KERF_OK, err);
}

static kerf_status print_planes(const kerf_checkpoint *c, kerf_error *err)
{
    table *t = NULL;
    char text[TEXT_SIZE];
    TRY(table_open(&t, "~tensor|type|+shape|>bytes|+file|>offset", err));
    for (size_t i = 0; i < kerf_reader_count(kerf_checkpoint_reader(c)); i++) {
        const kerf_tensor *tensor = kerf_reader_at(kerf_checkpoint_reader(c), i);
        table_cell(t, "%s", tensor->name);
        table_cell(t, "%s", kerf_dtype_name(tensor->dtype));
        table_cell(t, "%s", kerf_shape_text(&tensor->shape, text));
        table_cell(t, "%llu", (unsigned long long)tensor->bytes);
        table_cell(t, "%s", kerf_reader_shard(kerf_checkpoint_reader(c), tensor->shard));
        table_cell(t, "%llu", (unsigned long long)tensor->offset);
    }
    return table_end(t, KERF_OK, err);
}

static kerf_status print_text(const args *a, const kerf_checkpoint *c, const findings *f,
                              kerf_error *err)
{
    TRY(args_has(a, "planes") ? print_planes(c, err) : print_weights(c, err));
    size_t shards = kerf_reader_shard_count(kerf_checkpoint_reader(c));
    if (!args_has(a, "planes"))
        printf("\nbpw: bits per weight with all scales; in the last line over all weights.");
    printf("\n%zu tensors in %zu file%s\n", kerf_reader_count(kerf_checkpoint_reader(c)), shards,
           shards == 1 ? "" : "s");
    size_t i;
    json_t *row;
    json_array_foreach(f->list, i, row)
    {
        char name[256];
        printf("%s: %s: %s\n", json_string_value(json_object_get(row, "severity")),
               kerf_text_printable(json_string_value(json_object_get(row, "tensor")), name,
                                   sizeof name),
               shown(json_string_value(json_object_get(row, "text"))));
    }
    return KERF_OK;
}

/* --- JSON ---------------------------------------------------------------------------------- */

static json_t *plane_json(const kerf_checkpoint *c, const kerf_tensor *t)
{
    return json_pack("{s:s, s:s, s:o, s:I, s:o, s:I}", "name", t->name, "dtype",
                     kerf_dtype_name(t->dtype), "shape", json_shape(&t->shape), "bytes",
                     (json_int_t)t->bytes, "file",
                     json_path(kerf_reader_shard(kerf_checkpoint_reader(c), t->shard)), "offset",
                     (json_int_t)t->offset);
}

static json_t *weight_json(const kerf_checkpoint *c, const kerf_weight *w)
{
    json_t *planes = json_array();
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        if (w->plane[p]) json_add(&planes, plane_json(c, w->plane[p]));
    }
    for (size_t i = 0; i < KERF_EXTRAS; i++) {
        if (w->extra[i]) json_add(&planes, plane_json(c, w->extra[i]));
    }
    const kerf_codec codec = w->codec;
    json_t *row = json_pack(
        "{s:s, s:o, s:s, s:s?, s:s?, s:s?}", "name", w->name, "shape",
        json_shape(w->stored.rank ? &w->stored : &w->shape), "dtype", kerf_dtype_name(w->dtype),
        "format", codec.format ? codec.format->name : NULL, "encoder",
        codec.encoder ? codec.encoder->name : NULL, "layout", w->layout ? w->layout->name : NULL);
    json_set(&row, "bytes", json_integer((json_int_t)kerf_weight_bytes(w)));
    json_set(&row, "bpw",
             json_real(bits_per_weight(kerf_weight_bytes(w), kerf_weight_elements(w))));
    json_set(&row, "planes", planes);
    json_set_place(&row, &w->place);
    return row;
}

static kerf_status print_document(const kerf_checkpoint *c, const findings *f, kerf_error *err)
{
    json_t *weights = json_array(), *files = json_array();
    uint64_t bytes = 0, elements = 0;
    for (size_t i = 0; i < kerf_weights_count(kerf_checkpoint_weights(c)); i++) {
        const kerf_weight *w = kerf_weights_at(kerf_checkpoint_weights(c), i);
        json_add(&weights, weight_json(c, w));
        bytes += kerf_weight_bytes(w);
        elements += kerf_weight_elements(w);
    }
    for (size_t i = 0; i < kerf_reader_shard_count(kerf_checkpoint_reader(c)); i++) {
        json_add(&files, json_path(kerf_reader_shard(kerf_checkpoint_reader(c), i)));
    }
    json_t *totals =
        json_pack("{s:I, s:I, s:I, s:I, s:f}", "weights",
                  (json_int_t)kerf_weights_count(kerf_checkpoint_weights(c)), "quantized",
                  (json_int_t)kerf_checkpoint_quantized(c), "elements", (json_int_t)elements,
                  "bytes", (json_int_t)bytes, "bpw", bits_per_weight(bytes, elements));
    json_t *doc =
        json_pack("{s:o, s:o, s:o, s:o, s:O}", "source", json_path(kerf_checkpoint_path(c)),
                  "files", files, "weights", weights, "totals", totals, "findings", f->list);
    return print_json("inspect", doc, err);
}

/* --- verb ---------------------------------------------------------------------------------- */

static void add_finding(void *ctx, const kerf_finding *found)
{
    findings *f = ctx;
    const int is_error = found->severity == KERF_ERROR;
    f->errors += (size_t)is_error;
    json_add(&f->list,
             json_pack("{s:s, s:o, s:o}", "severity", is_error ? "error" : "note", "tensor",
                       json_path(found->tensor), "text", json_path(found->text)));
}

static kerf_status inspect(const args *a, const kerf_checkpoint *c, findings *f, kerf_error *err)
{
    TRY(kerf_inspect(c, add_finding, f, NULL, err));
    if (!f->list) return kerf_fail(err, KERF_E_NOMEM, "no memory for what was found");
    return args_has(a, "json") ? print_document(c, f, err) : print_text(a, c, f, err);
}

static int run_inspect(const args *a, kerf_error *err)
{
    kerf_checkpoint *c = NULL;
    findings f = {.list = json_array()};
    kerf_status s = kerf_checkpoint_open(model_path(args_operand(a, 0)), &c, err);
    if (s == KERF_OK) s = inspect(a, c, &f, err);
    json_decref(f.list);
    kerf_checkpoint_close(c);
    if (s != KERF_OK) return s;
    return f.errors ? EXIT_MISMATCH : EXIT_OK;
}

static const option options[] = {
    {"planes", 0, NULL, "the tensors as they stand in the files, instead of weights"},
    {NULL, 0, NULL, NULL},
};

const verb verb_inspect = {
    .name = "inspect",
    .summary = "what a checkpoint holds, and what is wrong with it",
    .usage = "FILE|FOLDER [--planes] [--json]",
    .details =
        "Validates a checkpoint and lists its weights with role, format, shape and size. A role\n"
        "(attention q, router, expert gate_up) follows from config.json, names and shapes; in\n"
        "JSON it is role, piece, orientation (out,in as torch.nn.Linear has it; in,out) and stack\n"
        "(where experts stand: first, last, rows). Scales of any kind are read: NaN, infinite,\n"
        "negative or all zero ones are errors (exit code 1); layers that\n"
        "runtimes fuse (q/k/v, gate/up) but that differ in tensor scale are noted. Errors\n"
        "too are codes without their scales, a config.json that disagrees with the tensors\n"
        "(layout, bits, groups, ignored layers, input scales), and bytes that were meant\n"
        "another way: zero points of GPTQ's other version, scales in the order of a kernel,\n"
        "swapped nibbles. The last two are told by statistics, with their figure.",
    .examples = "  kerf inspect model.safetensors\n"
                "  kerf inspect model-nvfp4/ --json | jq .totals\n",
    .options = options,
    .shared = {&option_json, &option_wide},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_inspect,
};
