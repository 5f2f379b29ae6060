/* codec_name.c - "nvfp4:4/6": what a person types becomes a codec, or an answer that helps.
 *
 * Case and dashes do not count. A name that several formats share names none of them: the answer
 * lists them and says which is usual. Names of methods and of other programs' files are explained.
 * What files hold is compared as it stands (kerf_format_find). */
#include <kerf/words.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "format/format.h"

/* Names that others have for one format of kerf. */
static const struct {
    const char *name, *format;
} twins[] = {
    {"float32", "fp32"},
    {"float", "fp32"},
    {"f32", "fp32"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"f16", "fp16"},
    {"bfloat16", "bf16"},
    {"q8_0", "ggml-q8_0"},
    {"q4_0", "ggml-q4_0"},
    {"fp8-e4m3fn", "fp8-e4m3"},
    {"float8-e4m3fn", "fp8-e4m3"},
    {"float8-e5m2", "fp8-e5m2"},
    {"fp8-block", "fp8-e4m3-128x128"},
    {"fp8-tensor", "fp8-e4m3"},
    {"fp8-row", "fp8-e4m3-row"},
    {"fp8-channel", "fp8-e4m3-row"},
    {"fp8-dynamic", "fp8-e4m3-row"},
    {"fp8-per-channel-per-token", "fp8-e4m3-row"},
    {"fp8-pc-pt", "fp8-e4m3-row"},
    {"fp8-pb-wo", "fp8-e4m3-128x128"},
    {"nvfp4a16", "nvfp4"},
    {"w4a16-nvfp4", "nvfp4"},
    {"mxfp4a16", "mxfp4"},
    {"w8a8-int8", "int8"},
    {"llm.int8", "int8"},
    {"bnb-4bit", "nf4"},
    {"bnb-nf4", "nf4"},
    {"nf4-double-quant", "nf4-dq"},
};

/* Of the formats that begin with a word, the usual one, and why. */
static const struct {
    const char *begins, *format, *why;
} usual[] = {
    {"fp8", "fp8-e4m3-row", "a scale per row, as most FP8 checkpoints for vLLM have it"},
    {"fp8-e4m3", "fp8-e4m3-row", "a scale per row"},
    {"mxfp8", "mxfp8-e4m3", "more mantissa, and the scales have range enough"},
    {"mxfp6", "mxfp6-e2m3", "the smaller error on weights"},
    {"mxfp", "mxfp4", "the one that checkpoints are published in"},
    {"mx", "mxfp4", "the one that checkpoints are published in"},
    {"int4", "int4-g128", "what GPTQ and compressed-tensors checkpoints mostly have"},
    {"int2", "int2-g32-asym", "for research only"},
};

/* What people say and kerf has under other names, or not at all. */
static const struct {
    const char *name, *text;
} explained[] = {
    {"fp4",
     "names no single format: nvfp4 (NVIDIA, blocks of 16, the smaller error) or mxfp4 (OCP, "
     "blocks of 32)"},
    {"fp6", "is in kerf as mxfp6-e2m3 (usual) or mxfp6-e3m2"},
    {"4bit", "names no single format: nvfp4, mxfp4, nf4 or int4-g128; what loads it decides, which "
             "kerf formats NAME shows"},
    {"8bit", "names no single format: fp8-e4m3-row, mxfp8-e4m3 or int8"},
    {"e4m3", "names no single format: fp8-e4m3 (a scale per matrix; -row, -128x128) or mxfp8-e4m3"},
    {"e5m2", "names no single format: fp8-e5m2 (a scale per matrix; -row, -128x128) or mxfp8-e5m2"},
    {"e2m1", "names no single format: nvfp4 or mxfp4"},
    {"int3", "does not exist here; int4-g128 or int2-g32-asym are its neighbours"},
    {"awq", "is a method: it scales channels by their activations before it rounds. Its format is "
            "int4-g128-asym-f16, its rounding int4-g128-asym-f16:awq; kerf reads AutoAWQ's "
            "checkpoints and does not write them"},
    {"int4-awq",
     "is Model-Optimizer's name for AWQ: int4-g128:modelopt with --layout modelopt has its "
     "format, without its scaling of channels"},
    {"gptq", "is a method: it rounds column by column and corrects by a Hessian. Its formats are "
             "int4-g128-f16 and int4-g128-asym-f16, its plain rounding int4-g128-f16:gptq; "
             "--layout gptq writes what its loaders read"},
    {"hqq", "is a method; its rounding without its search is int4-g128-asym:hqq"},
    {"bnb", "is a package, bitsandbytes: nf4, nf4-dq or int8, with --layout bitsandbytes"},
    {"bitsandbytes", "is a package: nf4, nf4-dq or int8, with --layout bitsandbytes"},
    {"qlora", "trains on nf4-dq, with --layout bitsandbytes"},
    {"gguf", "is a file format, llama.cpp's: -o OUT.gguf, in q4_k, q6_k, ggml-q8_0 or another of "
             "its block types, which kerf formats lists"},
    {"exl2", "is ExLlamaV2's format of mixed widths; kerf has none of it. kerf advise mixes widths "
             "by layer"},
    {"marlin", "is a kernel of vLLM, no format: it takes int4-g128 and fp8-e4m3 checkpoints and "
               "rearranges them when it loads"},
    {"fp8-static", "is fp8-e4m3 with a scale of inputs for each layer: --layout compressed-tensors "
                   "--calibration CAL --input-scales; fp8-e4m3-row needs none"},
    {"fp8-default-cfg", "is Model-Optimizer's fp8-e4m3: --layout modelopt --calibration CAL "
                        "--input-scales; fp8-e4m3-row "
                        "needs no scales of inputs"},
    {"nvfp4-default-cfg",
     "is Model-Optimizer's nvfp4:modelopt with --layout modelopt: W4A4 with --calibration CAL "
     "--input-scales, W4A16 else"},
    {"nvfp4-awq",
     "is Model-Optimizer's name for AWQ: nvfp4:modelopt with --layout modelopt has its "
     "format, without its scaling of channels"},
    {"auto-round", "is a method that learns how to round; its formats are int4-g128 and "
                   "int4-g128-asym, and nvfp4:autoround has its scales"},
    {"mxfp4-moe", "is llama.cpp's mixture for experts: -f ggml-q8_0 --tensor "
                  "'*exps*=ggml-mxfp4' -o OUT.gguf"},
    {"copy", "is no format: kerf convert IN -o OUT.gguf writes every tensor as it is"},
    {"smoothquant",
     "is a method that moves scales from activations to weights; its format is int8"},
    {"w4a16", "says widths: 4-bit weights, 16-bit activations. int4-g128 with --layout "
              "compressed-tensors is what llm-compressor calls so"},
    {"w4a16-asym", "says widths: int4-g128-asym with --layout compressed-tensors is what "
                   "llm-compressor calls so"},
    {"w4afp8", "says widths: kerf has no 4-bit integers for FP8 activations; int4-g128 (W4A16), "
               "nvfp4 (W4A4) and fp8-e4m3-row (W8A8) are near"},
    {"w4a8", "says widths, which loaders here have no scheme for: int4-g128 (W4A16), nvfp4 (W4A4) "
             "and fp8-e4m3-row or int8 (W8A8) are near"},
    {"w8a16", "says widths: 8-bit weights, 16-bit activations. int8-g128 or int8 with --layout "
              "compressed-tensors is what llm-compressor calls so"},
    {"w8a8", "says widths: 8-bit weights and activations. fp8-e4m3-row or int8, with --layout "
             "compressed-tensors"},
    {"w4a4", "says widths: 4-bit weights and activations. nvfp4, with --layout modelopt or "
             "compressed-tensors, --calibration CAL and --input-scales"},
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static int is_ggml(const kerf_format *f)
{
    return f->family == KERF_FAMILY_GGML || f->family == KERF_FAMILY_SUPER;
}

/* Whether a name is one of llama.cpp's block types, or of a mixture of such. */
static int is_gguf_type(const char *name)
{
    static const char *const begins[] = {"q2",  "q3",  "q4",  "q5",  "q6",  "q8",
                                         "iq1", "iq2", "iq3", "iq4", "tq1", "tq2"};
    for (size_t i = 0; i < COUNT(begins); i++)
        if (kerf_name_begins(name, begins[i])) return 1;
    return 0;
}

/* Adds a word to a list in out; what does not fit is left out. */
static void add_word(char *out, size_t size, const char *word)
{
    const size_t n = strlen(out), begin = n ? n + 2 : 0, m = strlen(word);
    if (begin + m + 1 >= size) return;
    if (n) memcpy(out + n, ", ", 2);
    memcpy(out + begin, word, m + 1);
}

/* The formats that begin with `text`, in out; how many there are. */
static size_t list_members(const char *text, char *out, size_t size)
{
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        if (!kerf_name_begins(f->name, text)) continue;
        add_word(out, size, f->name);
        n++;
    }
    return n;
}

static kerf_status several_formats(const char *name, const char *members, kerf_error *err)
{
    for (size_t i = 0; i < COUNT(usual); i++)
        if (kerf_names_match(name, usual[i].begins))
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                           "\"%s\" names no single format: %s; usual is %s (%s)", name, members,
                           usual[i].format, usual[i].why);
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "\"%s\" names no single format: %s", name, members);
}

/* "q4_k_m" goes on from the block type that most of it is in. */
static kerf_status gguf_type(const char *name, kerf_error *err)
{
    char list[320] = "";
    const kerf_format *most = NULL;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        if (!is_ggml(f)) continue;
        add_word(list, sizeof list, f->name);
        if (kerf_name_begins(name, f->name)) most = f;
    }
    if (most)
        return kf_fail(
            err, KERF_E_ARG, KF_NOWHERE,
            "\"%s\" is a mixture of llama.cpp's, most of it %s, with more bits where it "
            "thinks that they matter; -f %s is that block type, and kerf advise mixes by "
            "measured error",
            name, most->name, most->name);
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                   "\"%s\" is a block type of llama.cpp that kerf does not have; it has %s", name,
                   list);
}

/* Another spelling is asked for; a format of another number of bits is never offered as if it had
 * been meant. */
static kerf_status unknown_format(const char *name, kerf_error *err)
{
    const char *names[KF_FORMATS + 1];
    char members[320];
    for (size_t i = 0; i < COUNT(explained); i++)
        if (kerf_names_match(name, explained[i].name))
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "\"%s\" %s", name, explained[i].text);
    if (is_gguf_type(name)) return gguf_type(name, err);
    const size_t begin_so = list_members(name, members, sizeof members);
    if (begin_so > 1) return several_formats(name, members, err);
    if (begin_so == 1 && name[0])
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "unknown format \"%s\"; %s begins so", name,
                       members);
    for (size_t i = 0; i <= KF_FORMATS; i++)
        names[i] = i < KF_FORMATS ? kerf_format_at(i)->name : NULL;
    const char *near = kerf_nearest_word(name, names);
    if (near)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "unknown format \"%s\"; did you mean \"%s\"?",
                       name, near);
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "unknown format \"%s\"; kerf formats lists them",
                   name);
}

static const kerf_format *format_of(const char *name)
{
    for (size_t i = 0; i < kerf_format_count(); i++)
        if (kerf_names_match(name, kerf_format_at(i)->name)) return kerf_format_at(i);
    for (size_t i = 0; i < COUNT(twins); i++)
        if (kerf_names_match(name, twins[i].name)) return kerf_format_find(twins[i].format);
    return NULL;
}

/* NULL in name: the default. */
static const kerf_encoder *encoder_of(const kerf_format *f, const char *name)
{
    if (!name) return kerf_encoder_at(f, 0);
    for (size_t i = 0; i < kerf_encoder_count(f); i++)
        if (kerf_names_match(name, kerf_encoder_at(f, i)->name)) return kerf_encoder_at(f, i);
    return NULL;
}

kerf_status kerf_codec_find(const char *text, kerf_codec *out, kerf_error *err)
{
    char name[64];
    const char *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, text);

    kerf_codec codec = {n < sizeof name ? format_of(name) : NULL, NULL};
    if (!codec.format) return unknown_format(name, err);
    codec.encoder = encoder_of(codec.format, colon ? colon + 1 : NULL);
    if (!codec.encoder) {
        char list[320] = "";
        for (size_t i = 0; i < kerf_encoder_count(codec.format); i++)
            add_word(list, sizeof list, kerf_encoder_at(codec.format, i)->name);
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "format %s has no encoder \"%.40s\"; it has: %s", codec.format->name,
                       colon + 1, list);
    }
    *out = codec;
    return KERF_OK;
}

char *kerf_codec_name(kerf_codec c, char *out, size_t size)
{
    snprintf(out, size, "%s%s%s", c.format ? c.format->name : "dense", c.encoder ? ":" : "",
             c.encoder ? c.encoder->name : "");
    return out;
}
