/* cmd_inspect.c - kerf inspect: what a checkpoint holds, and what is wrong with it. */
#include <kerf/inspect.h>

#include "options.h"
#include "output.h"

/* --- text ---------------------------------------------------------------------------------- */

static kerf_status print_weights(const kerf_inspection *x, kerf_error *err)
{
    table *t = NULL;
    char text[TEXT_SIZE], name[64];
    TRY(table_open(&t, "~weight|+role|+shape|format|+layout|+from|+>bytes|>bpw", err));
    for (size_t i = 0; i < x->weights; i++) {
        const kerf_weight *w = kerf_weights_at(kerf_checkpoint_weights(x->checkpoint), i);
        table_cell(t, "%s", w->name);
        table_cell(t, "%s", kerf_place_text(&w->place, text, sizeof text));
        table_cell(t, "%s", kerf_shape_text(w->stored.rank ? &w->stored : &w->shape, text));
        table_cell(t, "%s", kerf_weight_format(w, name, sizeof name));
        table_cell(t, "%s", w->layout ? w->layout->name : "");
        table_cell(t, "%s", w->codec.format ? kerf_dtype_name(w->dtype) : "");
        table_cell(t, "%llu", (unsigned long long)kerf_weight_bytes(w));
        table_cell(t, "%.3f", bits_per_weight(kerf_weight_bytes(w), kerf_weight_elements(w)));
    }
    table_rule(t);
    table_cell(t, "%zu weights, %zu quantized", x->weights, x->quantized);
    for (int i = 0; i < 5; i++) table_cell(t, "%s", "");
    table_cell(t, "%llu", (unsigned long long)x->bytes);
    table_cell(t, "%.3f", bits_per_weight(x->bytes, x->elements));
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

static kerf_status print_text(const args *a, const kerf_inspection *x, kerf_error *err)
{
    const kerf_reader *r = kerf_checkpoint_reader(x->checkpoint);
    const size_t shards = kerf_reader_shard_count(r);
    TRY(args_has(a, "planes") ? print_planes(x->checkpoint, err) : print_weights(x, err));
    if (!args_has(a, "planes"))
        printf("\nbpw: bits per weight with all scales; in the last line over all weights.");
    printf("\n%zu tensors in %zu file%s\n", kerf_reader_count(r), shards, shards == 1 ? "" : "s");
    for (size_t i = 0; i < x->findings; i++) {
        const kerf_finding *f = &x->finding[i];
        char name[256];
        printf("%s: %s: %s\n", f->severity == KERF_ERROR ? "error" : "note",
               kerf_text_printable(f->tensor, name, sizeof name), shown(f->text));
    }
    return KERF_OK;
}

/* --- verb ---------------------------------------------------------------------------------- */

static int run_inspect(const args *a, kerf_error *err)
{
    kerf_checkpoint *c = NULL;
    kerf_inspection *x = NULL;
    char *text = NULL;
    kerf_status s = kerf_checkpoint_open(model_path(args_operand(a, 0)), &c, err);
    if (s == KERF_OK) s = kerf_inspect_all(c, NULL, &x, err);
    if (s == KERF_OK)
        s = args_has(a, "json")
                ? put_document(kerf_inspection_write(x, &text, NULL, err), &text, err)
                : print_text(a, x, err);
    const int is_sound = x && x->errors == 0;
    kerf_inspection_free(x);
    kerf_checkpoint_close(c);
    if (s != KERF_OK) return s;
    return is_sound ? EXIT_OK : EXIT_MISMATCH;
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
