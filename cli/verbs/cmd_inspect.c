/* cmd_inspect.c - kerf inspect: what a checkpoint holds, and what is wrong with it. */
#include <kerf/inspect.h>

#include "options.h"
#include "output.h"
#include "terminal.h"

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
                : put_text(kerf_inspection_text(x, args_has(a, "planes"), text_form(1), &text, NULL,
                                                err),
                           &text, err);
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
