/* cmd_selftest.c - kerf selftest: are the bytes of this machine the bytes of every machine? */
#include <kerf/selftest.h>

#include "options.h"
#include "output.h"
#include "terminal.h"

static int run_selftest(const args *a, kerf_error *err)
{
    kerf_exec exec = {0};
    kerf_selftest_result *r = NULL;
    char *text = NULL;
    kerf_status s = option_exec_open(a, &exec, err);
    const kerf_selftest_options o = {.device = exec.device, .vectors = args_value(a, "vectors")};
    if (s == KERF_OK) s = kerf_selftest(&o, NULL, &r, err);
    option_exec_close(&exec);
    if (s != KERF_OK) return s;
    s = args_has(a, "json")
            ? put_document(kerf_selftest_write(r, &text, NULL, err), &text, err)
            : put_text(kerf_selftest_text(r, text_form(1), &text, NULL, err), &text, err);
    int failed = r->failed != 0;
    kerf_selftest_free(r);
    if (s != KERF_OK) return s;
    return failed ? EXIT_MISMATCH : EXIT_OK;
}

static const option own_options[] = {
    {"vectors", 0, "FILE", "only the golden vectors in FORMAT.txt (see tests/golden/README.md)"},
    {0},
};

const verb verb_selftest = {
    .name = "selftest",
    .summary = "check every codec and backend on this machine",
    .usage = "[--vectors FILE] [--device D] [--json]",
    .details =
        "Holds every format and encoder, on every backend, against golden vectors: tensors\n"
        "and their bytes as an independent program, or the package that the encoder is named\n"
        "after, wrote them. Then encodes tensors of all shapes and numbers (every finite\n"
        "bfloat16, ties of every width), decodes every code under every 8-bit scale, and\n"
        "compares backends, thread counts and cuts with the scalar reference. The digest of\n"
        "a codec must be the one recorded when this version was made: the same on every\n"
        "machine. With --device cuda a GPU is tried instead of the processor's backends, and\n"
        "its bytes give the digests, which must be the same. Exit code 1 on a failure, which\n"
        "names the vector or the tensor.",
    .examples = "  kerf selftest\n"
                "  kerf selftest --json | jq '.codecs[] | select(.pass | not)'\n"
                "  kerf selftest --device cuda\n"
                "  kerf selftest --vectors nvfp4.txt\n",
    .options = own_options,
    .shared = {&option_device, &option_json},
    .run = run_selftest,
};
