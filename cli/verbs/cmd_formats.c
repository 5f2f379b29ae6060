/* cmd_formats.c - kerf formats: prints the tables of formats, encoders and layouts. */
#include "options.h"
#include "output.h"
#include "terminal.h"

static int run_formats(const args *a, kerf_error *err)
{
    const char *name = args_operand(a, 0);
    kerf_codec codec = {0};
    char *text = NULL;
    if (name) TRY(option_codec(name, &codec, err));
    if (args_has(a, "json"))
        return put_document(kerf_formats_write(codec.format, &text, NULL, err), &text, err);
    return put_text(kerf_formats_text(codec.format, text_form(1), &text, NULL, err), &text, err);
}

const verb verb_formats = {
    .name = "formats",
    .summary = "number formats, their encoders, and the layouts that store them",
    .usage = "[FORMAT] [--wide] [--json]",
    .details = "Lists every format: what one code is, which elements share a scale, what it\n"
               "costs in bits, and the encoders that can choose its bytes. With FORMAT: where\n"
               "each comes from, and which layouts store it.",
    .examples = "  kerf formats\n"
                "  kerf formats nvfp4\n",
    .shared = {&option_json, &option_wide},
    .operands_max = 1,
    .run = run_formats,
};
