/* layout_table.c - how each layout stores each format.
 *
 * Sources: vLLM's loaders (modelopt.py, compressed_tensors/, fp8.py), the compressors of
 * compressed-tensors 0.20, NVIDIA Model-Optimizer's export, DeepSeek-V3's checkpoints, QuantState
 * and Linear8bitLt of bitsandbytes 0.50, GPTQModel's and AutoAWQ's packing, gpt-oss's checkpoints,
 * llama.cpp's conversion of NVFP4, torchao's prototype/safetensors.
 *
 * Formats without a row are not part of a layout: its loaders know nothing of them. Layout `kerf`
 * has no rows; it takes every format as it is. */
#include "layout/layout_table.h"

const kerf_layout kf_layouts[KF_LAYOUTS] = {
    [KF_LAYOUT_KERF] = {"kerf", "every format; described in the metadata of each file"},
    [KF_LAYOUT_MODELOPT] = {"modelopt", "NVIDIA Model-Optimizer: vLLM, SGLang, TensorRT-LLM"},
    [KF_LAYOUT_COMPRESSED_TENSORS] = {"compressed-tensors",
                                      "llm-compressor: vLLM, SGLang, transformers"},
    [KF_LAYOUT_CT_NAIVE] = {"compressed-tensors-naive",
                            "its format naive-quantized, activations as they are"},
    [KF_LAYOUT_BITSANDBYTES] = {"bitsandbytes", "QLoRA's 4-bit floats and LLM.int8: transformers"},
    [KF_LAYOUT_GGUF] = {"gguf", "one .gguf file in ggml's blocks: llama.cpp"},
    [KF_LAYOUT_DEEPSEEK] = {"deepseek", "DeepSeek-V3 block FP8: vLLM, SGLang, transformers"},
    [KF_LAYOUT_GPTQ] = {"gptq", "GPTQ, version 1: vLLM, SGLang, transformers"},
    [KF_LAYOUT_GPTQ_V2] = {"gptq-v2", "GPTQ with zero points as they are: GPTQModel, vLLM"},
    [KF_LAYOUT_AWQ] = {"awq", "AutoAWQ's GEMM packing, read only"},
    [KF_LAYOUT_TORCHAO] = {"torchao", "Int8Tensor and Float8Tensor, read only"},
    [KF_LAYOUT_GPT_OSS] = {"gpt-oss", "stacked experts in MXFP4: vLLM, SGLang, transformers"},
    [KF_LAYOUT_FP8_STACKS] = {"fp8-stacks", "stacked experts in FP8 or NVFP4, read only"},
    [KF_LAYOUT_CT_STACKS] = {"compressed-tensors-stacks",
                             "its codes of stacked experts, read only"},
    [KF_LAYOUT_CT_WORDS] = {"compressed-tensors-words", "its codes of 8 bits in words, read only"},
};

/* transformers, which reads bitsandbytes' files, has no experts one by one where it stacks them. */
const kerf_experts kf_layout_experts[KF_LAYOUTS] = {
    [KF_LAYOUT_KERF] = KERF_EXPERTS_AS_THEY_ARE,
    [KF_LAYOUT_BITSANDBYTES] = KERF_EXPERTS_AS_THEY_ARE,
    [KF_LAYOUT_GGUF] = KERF_EXPERTS_AS_THEY_ARE,
    [KF_LAYOUT_GPT_OSS] = KERF_EXPERTS_STACKED,
    [KF_LAYOUT_MODELOPT] = KERF_EXPERTS_SINGLE,
    [KF_LAYOUT_COMPRESSED_TENSORS] = KERF_EXPERTS_SINGLE,
    [KF_LAYOUT_CT_NAIVE] = KERF_EXPERTS_SINGLE,
    [KF_LAYOUT_DEEPSEEK] = KERF_EXPERTS_SINGLE,
    [KF_LAYOUT_GPTQ] = KERF_EXPERTS_SINGLE,
    [KF_LAYOUT_GPTQ_V2] = KERF_EXPERTS_SINGLE,
    [KF_LAYOUT_AWQ] = KERF_EXPERTS_SINGLE,
    [KF_LAYOUT_TORCHAO] = KERF_EXPERTS_SINGLE,
    [KF_LAYOUT_FP8_STACKS] = KERF_EXPERTS_AS_THEY_ARE,
    [KF_LAYOUT_CT_STACKS] = KERF_EXPERTS_AS_THEY_ARE,
    [KF_LAYOUT_CT_WORDS] = KERF_EXPERTS_SINGLE,
};

/* vLLM and SGLang (GGUFEmbeddingMethod), llama.cpp; transformers' TorchAoConfig. vLLM looks up in
 * integers of compressed-tensors where a group of config.json names the embedding, which kerf
 * writes in none: config_check.c knows of it. */
const unsigned char kf_layout_looks_up[KF_LAYOUTS] = {
    [KF_LAYOUT_KERF] = 1, [KF_LAYOUT_GGUF] = 1, [KF_LAYOUT_TORCHAO] = 1};

const struct kf_extra_name kf_extra_table[] = {
    [KF_EXTRA_SHAPE] = {".weight_shape", KERF_I64},
    [KF_EXTRA_CODE_BOOK] = {".weight.quant_map", KERF_F32},
    [KF_EXTRA_SCALE_BOOK] = {".weight.nested_quant_map", KERF_F32},
    [KF_EXTRA_STATE] = {".weight" KF_STATE_SUFFIX, KERF_U8},
    [KF_EXTRA_ROW_MAJOR] = {".weight_format", KERF_U8},
    [KF_EXTRA_MIDDLE] = {".qzeros", KERF_I32},
    [KF_EXTRA_GROUP_INDEX] = {".g_idx", KERF_I32},
};

/* clang-format off */
#define AS_IS(suffix, dtype)           {".weight" suffix, KERF_##dtype, KF_FORM_PLANE, KF_COPY, 0, 0, NULL}
#define FORM(suffix, dtype, form)      {".weight" suffix, KERF_##dtype, KF_FORM_##form, KF_COPY, 0, 0, NULL}
#define INVERSE(suffix)                {".weight" suffix, KERF_F32, KF_FORM_ONE, KF_RECIPROCAL, 0, 0, NULL}
#define WORDS(suffix, flip)            {".weight" suffix, KERF_I32, KF_FORM_WORDS, flip ? KF_FLIP : KF_COPY, flip, 0, NULL}
#define STACK(suffix, flip)            {".weight" suffix, KERF_I32, KF_FORM_STACK, KF_REORDERED, flip, 0, NULL}
#define PART(suffix, dtype, form, coding)      {suffix, KERF_##dtype, KF_FORM_##form, KF_##coding, 0, 0, NULL}
#define REORDERED(suffix, dtype, form, flip)      {suffix, KERF_##dtype, KF_FORM_##form, KF_REORDERED, flip, 0, NULL}
#define ZEROS(flip, less, order)       {".qzeros", KERF_I32, KF_FORM_TURNED_STACK, KF_REORDERED, flip, less, order}
#define IN_STATE                       {NULL, KERF_F32, KF_FORM_ONE, KF_IN_STATE, 0, 0, NULL}
#define NO_PART                        {0}

#define MODELOPT(format, scheme, rows, cols, shares, ...) \
    {KF_LAYOUT_MODELOPT, KERF_FORMAT_##format, scheme, NULL, ".weight", 2, rows, cols, shares, {__VA_ARGS__}, {KF_EXTRA_NONE}},
#define CT(format, scheme, rows, cols, shares, ...) \
    {KF_LAYOUT_COMPRESSED_TENSORS, KERF_FORMAT_##format, scheme, NULL, ".weight", 2, rows, cols, shares, {__VA_ARGS__}, {KF_EXTRA_NONE}},

/* The same tensors as float-quantized and int-quantized have, of weights alone. */
#define NAIVE(format, cols, shares, refusal, ...) \
    {KF_LAYOUT_CT_NAIVE, KERF_FORMAT_##format, "naive-quantized", refusal, ".weight", 2, 1, cols, shares, {__VA_ARGS__}, {KF_EXTRA_NONE}},

/* Subclasses of tensors, flattened; what else torchao keeps in one (zero points, scales of inputs)
 * has other names yet. */
#define TORCHAO(format, codes, scheme) \
    {KF_LAYOUT_TORCHAO, KERF_FORMAT_##format, scheme, torchao_moves, ".weight", 2, 1, 1, 0, \
     {PART("._weight_qdata", codes, PLANE, COPY), PART("._weight_scale", F32, PLANE, COPY), NO_PART, NO_PART}, {KF_EXTRA_NONE}},

/* Integers in 32-bit words. Codes are stored unsigned: two's complement ones with their highest
 * bits flipped, asymmetric ones as they are, but for 8 bits, which lie as I8. */
#define CT_PACK(format, cols, flip, scale) \
    {KF_LAYOUT_COMPRESSED_TENSORS, KERF_FORMAT_##format, "pack-quantized", NULL, ".weight", 2, 1, cols, 0, \
     {WORDS("_packed", flip), AS_IS("_scale", scale), NO_PART, NO_PART}, {KF_EXTRA_SHAPE}},
#define CT_PACK_ASYM(format, rows, cols, flip, scale) \
    {KF_LAYOUT_COMPRESSED_TENSORS, KERF_FORMAT_##format, "pack-quantized", NULL, ".weight", 2, rows, cols, 0, \
     {WORDS("_packed", flip), AS_IS("_scale", scale), NO_PART, STACK("_zero_point", flip)}, {KF_EXTRA_SHAPE}},

/* The same of a stack of experts. */
#define CT_STACK(format, cols, flip, scale) \
    {KF_LAYOUT_CT_STACKS, KERF_FORMAT_##format, "pack-quantized", stacks_are_single, ".weight", 3, 1, cols, 0, \
     {WORDS("_packed", flip), AS_IS("_scale", scale), NO_PART, NO_PART}, {KF_EXTRA_SHAPE}},

/* GPTQ stores the transpose: its rows are columns here. Version 1 stores zero points less
 * one, so that a zero point of 0 has no place in it; version 2 stores them as they are. Symmetric
 * codes have the middle one. Kernels take 32 rows at a time. Loaders turn BF16 scales into the type
 * that they compute in, as they do F16 ones. */
#define GPTQ_SYM(layout, less, format, cols, flip, scale) \
    {KF_LAYOUT_##layout, KERF_FORMAT_##format, "symmetric", NULL, ".weight", 2, 32, cols, 0, \
     {REORDERED(".qweight", I32, TURNED_WORDS, flip), REORDERED(".scales", scale, TURNED, 0), NO_PART, ZEROS(0, less, NULL)}, \
     {KF_EXTRA_MIDDLE, KF_EXTRA_GROUP_INDEX}},
#define GPTQ_ASYM(layout, less, refusal, format, cols, flip, scale) \
    {KF_LAYOUT_##layout, KERF_FORMAT_##format, "asymmetric", refusal, ".weight", 2, 32, cols, 0, \
     {REORDERED(".qweight", I32, TURNED_WORDS, flip), REORDERED(".scales", scale, TURNED, 0), NO_PART, ZEROS(flip, less, NULL)}, \
     {KF_EXTRA_GROUP_INDEX}},
#define GPTQ_ALL_SYM(layout, less) \
    GPTQ_SYM(layout, less, INT4_G128_F16, 128, 0x88, F16) \
    GPTQ_SYM(layout, less, INT4_G32_F16,   32, 0x88, F16) \
    GPTQ_SYM(layout, less, INT4_G128,     128, 0x88, BF16) \
    GPTQ_SYM(layout, less, INT4_G64,       64, 0x88, BF16) \
    GPTQ_SYM(layout, less, INT4_G32,       32, 0x88, BF16) \
    GPTQ_SYM(layout, less, INT4_ROW,       32, 0x88, BF16) \
    GPTQ_SYM(layout, less, INT8_G128,     128, 0x80, BF16)
#define GPTQ_ALL_ASYM(layout, less, refusal) \
    GPTQ_ASYM(layout, less, refusal, INT4_G128_AF16, 128, 0, F16) \
    GPTQ_ASYM(layout, less, refusal, INT4_G32_AF16,   32, 0, F16) \
    GPTQ_ASYM(layout, less, refusal, INT4_G128_ASYM, 128, 0, BF16) \
    GPTQ_ASYM(layout, less, refusal, INT4_G64_ASYM,   64, 0, BF16) \
    GPTQ_ASYM(layout, less, refusal, INT4_G32_ASYM,   32, 0, BF16) \
    GPTQ_ASYM(layout, less, refusal, INT4_ROW_ASYM,   32, 0, BF16) \
    GPTQ_ASYM(layout, less, refusal, INT8_G128_ASYM, 128, 0x80, BF16)

/* AWQ packs 8 rows into a word too, in the order awq_order. */
#define AWQ(format, cols) \
    {KF_LAYOUT_AWQ, KERF_FORMAT_##format, "gemm", awq_is_old, ".weight", 2, 8, cols, 0, \
     {{".qweight", KERF_I32, KF_FORM_TURNED_STACK, KF_REORDERED, 0, 0, awq_order}, REORDERED(".scales", F16, TURNED, 0), NO_PART, ZEROS(0, 0, awq_order)}, \
     {KF_EXTRA_NONE}},

static const char awq_order[8] = {0, 2, 4, 6, 1, 3, 5, 7};

static const char awq_is_old[] =
    "AutoAWQ is no longer made, and its files hold no more than compressed-tensors' do";

static const char wraps[] =
    "version 1 stores zero points less one and has no place for 0; layout gptq-v2 has";

static const char quark_writes[] =
    "it is how Quark names MXFP4; layout compressed-tensors has it for loaders";

static const char deepseek_writes[] =
    "it is how DeepSeek's own releases have experts; layout compressed-tensors has it for loaders";

static const char torchao_moves[] =
    "the names and attributes of torchao's classes change with its releases";

static const char stacks_are_new[] =
    "loaders want experts in FP8 one by one, as layout deepseek has them";

static const char stacks_are_single[] =
    "loaders want experts one by one, as layout compressed-tensors has them";

static const char words_of_bytes[] =
    "8-bit integers of weights alone; layout compressed-tensors has them in groups, or in bytes for "
    "8-bit activations";

static const char stacks_of_nvfp4[] =
    "loaders want experts in NVFP4 one by one, as layouts modelopt and compressed-tensors have them";

static const char not_alone[] =
    "vLLM has no 8-bit integers of weights alone in this format; layout compressed-tensors has them "
    "in groups";

/* Blocks that are a format of their own, and planes that are interleaved in such blocks. A file says
 * which type its blocks are; the first row that has all its tensors is what they are read as. */
#define GGUF(format, scheme, cols) \
    {KF_LAYOUT_GGUF, KERF_FORMAT_##format, scheme, NULL, ".weight", 2, 1, cols, 0, \
     {AS_IS("", U8), NO_PART, NO_PART, NO_PART}, {KF_EXTRA_NONE}},
#define GGUF_INTERLEAVED(format, scheme, cols, flip, second) \
    {KF_LAYOUT_GGUF, KERF_FORMAT_##format, scheme, NULL, ".weight", 2, 1, cols, 0, \
     {{".weight", KERF_U8, KF_FORM_INTERLEAVED, KF_BLOCK_CODES, flip, 0, NULL}, PART(NULL, U8, INTERLEAVED, BLOCK_SCALES), second, NO_PART}, \
     {KF_EXTRA_NONE}},

/* modelopt: algorithms as Model-Optimizer spells them, which older versions of TensorRT-LLM compare
 * letter for letter. INT8 is read by TensorRT-LLM alone, in tiles of 8 rows by 64 columns. */
const kf_stored kf_stored_table[] = {
    /*       format          scheme                       rows cols shares */
    MODELOPT(NVFP4,          "W4A16_NVFP4",                 1,  16, 1, AS_IS("", U8), AS_IS("_scale", F8_E4M3), AS_IS("_scale_2", F32))
    MODELOPT(FP8_E4M3,       "FP8",                         1,   1, 1, AS_IS("", F8_E4M3), AS_IS("_scale", F32))
    MODELOPT(FP8_E4M3_ROW,   "FP8_PER_CHANNEL_PER_TOKEN",   1,   1, 0, AS_IS("", F8_E4M3), FORM("_scale", F32, VECTOR))
    MODELOPT(FP8_E4M3_TILE,  "fp8_pb_wo",                 128, 128, 0, AS_IS("", F8_E4M3), FORM("_scale", F32, TILES))
    MODELOPT(MXFP8_E4M3,     "MXFP8",                       1,  32, 0, AS_IS("", F8_E4M3), AS_IS("_scale", U8))
    MODELOPT(INT8,           "W8A16",                       8,  64, 0, AS_IS("", I8), FORM("_scale", F32, VECTOR))

    {KF_LAYOUT_MODELOPT, KERF_FORMAT_MXFP4, "mxfp4", quark_writes, ".weight", 2, 1, 32, 0,
     {AS_IS("", U8), AS_IS("_scale", U8), NO_PART, NO_PART}, {KF_EXTRA_NONE}},

    CT(NVFP4,          "nvfp4-pack-quantized", 1,  16, 1, AS_IS("_packed", U8),  AS_IS("_scale", F8_E4M3), INVERSE("_global_scale"))
    CT(MXFP4,          "mxfp4-pack-quantized", 1,  32, 0, AS_IS("_packed", U8),  AS_IS("_scale", U8))
    CT(MXFP8_E4M3,     "mxfp8-quantized",      1,  32, 0, AS_IS("", F8_E4M3),    AS_IS("_scale", U8))
    CT(FP8_E4M3,       "float-quantized",      1,   1, 1, AS_IS("", F8_E4M3),    FORM("_scale", F32, ONE))
    CT(FP8_E4M3_ROW,   "float-quantized",      1,   1, 0, AS_IS("", F8_E4M3),    AS_IS("_scale", F32))
    CT(FP8_E4M3_TILE,  "float-quantized",      1, 128, 0, AS_IS("", F8_E4M3),    AS_IS("_scale", F32))
    CT(INT8,           "int-quantized",        1,   1, 0, AS_IS("", I8),         AS_IS("_scale", F32))

    NAIVE(FP8_E4M3,        1, 1, NULL,      AS_IS("", F8_E4M3), FORM("_scale", F32, ONE))
    NAIVE(FP8_E4M3_ROW,    1, 0, NULL,      AS_IS("", F8_E4M3), AS_IS("_scale", F32))
    NAIVE(FP8_E4M3_TILE, 128, 0, NULL,      AS_IS("", F8_E4M3), AS_IS("_scale", F32))
    NAIVE(INT8,            1, 0, not_alone, AS_IS("", I8),      AS_IS("_scale", F32))

    CT_PACK(INT8_G128,      128, 0x80, BF16)
    CT_PACK(INT4_G128,      128, 0x88, BF16)
    CT_PACK(INT4_G64,        64, 0x88, BF16)
    CT_PACK(INT4_G32,        32, 0x88, BF16)
    CT_PACK(INT4_G128_F16,  128, 0x88, F16)
    CT_PACK(INT4_G32_F16,    32, 0x88, F16)
    CT_PACK(INT4_ROW,         8, 0x88, BF16)
    CT_PACK(INT2_G128,      128, 0xaa, BF16)
    CT_PACK(INT2_G64,        64, 0xaa, BF16)
    CT_PACK(INT2_G32,        32, 0xaa, BF16)
    CT_PACK(INT2_G16,        16, 0xaa, BF16)
    CT_PACK_ASYM(INT8_G128_ASYM,  4, 128, 0x80, BF16)
    CT_PACK_ASYM(INT4_G128_ASYM,  8, 128, 0,    BF16)
    CT_PACK_ASYM(INT4_G64_ASYM,   8,  64, 0,    BF16)
    CT_PACK_ASYM(INT4_G32_ASYM,   8,  32, 0,    BF16)
    CT_PACK_ASYM(INT4_G128_AF16,  8, 128, 0,    F16)
    CT_PACK_ASYM(INT4_G32_AF16,   8,  32, 0,    F16)
    CT_PACK_ASYM(INT4_ROW_ASYM,   8,   8, 0,    BF16)
    CT_PACK_ASYM(INT2_G128_ASYM, 16, 128, 0,    BF16)
    CT_PACK_ASYM(INT2_G64_ASYM,  16,  64, 0,    BF16)
    CT_PACK_ASYM(INT2_G32_ASYM,  16,  32, 0,    BF16)
    CT_PACK_ASYM(INT2_G16_ASYM,  16,  16, 0,    BF16)

    {KF_LAYOUT_CT_WORDS, KERF_FORMAT_INT8, "pack-quantized", words_of_bytes, ".weight", 2, 1, 1, 0,
     {WORDS("_packed", 0x80), AS_IS("_scale", F32), NO_PART, NO_PART}, {KF_EXTRA_SHAPE}},
    {KF_LAYOUT_CT_WORDS, KERF_FORMAT_INT8_ASYM, "pack-quantized", words_of_bytes, ".weight", 2, 4, 1, 0,
     {WORDS("_packed", 0x80), AS_IS("_scale", F32), NO_PART, STACK("_zero_point", 0x80)}, {KF_EXTRA_SHAPE}},

    {KF_LAYOUT_DEEPSEEK, KERF_FORMAT_FP8_E4M3_TILE, "fp8", NULL, ".weight", 2, 1, 128, 0,
     {AS_IS("", F8_E4M3), AS_IS("_scale_inv", F32), NO_PART, NO_PART}, {KF_EXTRA_NONE}},

    {KF_LAYOUT_DEEPSEEK, KERF_FORMAT_MXFP4, "fp4", deepseek_writes, ".weight", 2, 1, 32, 0,
     {AS_IS("", I8), AS_IS("_scale_inv", U8), NO_PART, NO_PART}, {KF_EXTRA_NONE}},

    {KF_LAYOUT_BITSANDBYTES, KERF_FORMAT_NF4, "nf4", NULL, ".weight", 2, 1, 1, 0,
     {AS_IS("", U8), AS_IS(".absmax", F32), NO_PART, NO_PART}, {KF_EXTRA_CODE_BOOK, KF_EXTRA_STATE}},
    {KF_LAYOUT_BITSANDBYTES, KERF_FORMAT_NF4_DQ, "nf4, nested", NULL, ".weight", 2, 1, 1, 0,
     {AS_IS("", U8), AS_IS(".absmax", U8), AS_IS(".nested_absmax", F32), IN_STATE},
     {KF_EXTRA_CODE_BOOK, KF_EXTRA_SCALE_BOOK, KF_EXTRA_STATE}},
    {KF_LAYOUT_BITSANDBYTES, KERF_FORMAT_INT8, "LLM.int8", NULL, ".weight", 2, 1, 1, 0,
     {AS_IS("", I8), PART(".SCB", F32, VECTOR, TIMES_127), NO_PART, NO_PART}, {KF_EXTRA_ROW_MAJOR}},

    /* Symmetric rows first: their zero points tell the versions apart. */
    GPTQ_ALL_SYM(GPTQ, 1)
    GPTQ_ALL_SYM(GPTQ_V2, 0)
    GPTQ_ALL_ASYM(GPTQ, 1, wraps)
    GPTQ_ALL_ASYM(GPTQ_V2, 0, NULL)

    AWQ(INT4_G128_AF16, 128)
    AWQ(INT4_G32_AF16,   32)

    TORCHAO(INT8,         I8,      "Int8Tensor")
    TORCHAO(INT8_TENSOR,  I8,      "Int8Tensor")
    TORCHAO(FP8_E4M3_ROW, F8_E4M3, "Float8Tensor")
    TORCHAO(FP8_E4M3,     F8_E4M3, "Float8Tensor")

    {KF_LAYOUT_GPT_OSS, KERF_FORMAT_MXFP4, "mxfp4", NULL, "_proj", 3, 1, 32, 0,
     {PART("_proj_blocks", U8, BLOCKS, COPY), PART("_proj_scales", U8, PLANE, COPY), NO_PART, NO_PART}, {KF_EXTRA_NONE}},

    /* As transformers saves them, and Model-Optimizer; of any name, for each project has its own. */
    {KF_LAYOUT_FP8_STACKS, KERF_FORMAT_FP8_E4M3_TILE, "fp8", stacks_are_new, "", 3, 1, 1, 0,
     {PART("", F8_E4M3, PLANE, COPY), PART("_scale_inv", F32, PLANE, COPY), NO_PART, NO_PART}, {KF_EXTRA_NONE}},
    {KF_LAYOUT_FP8_STACKS, KERF_FORMAT_FP8_E4M3, "fp8", stacks_are_new, "", 3, 1, 1, 0,
     {PART("", F8_E4M3, PLANE, COPY), PART("_scale", F32, MATRICES, COPY), NO_PART, NO_PART}, {KF_EXTRA_NONE}},
    {KF_LAYOUT_FP8_STACKS, KERF_FORMAT_FP8_E4M3_ROW, "fp8", stacks_are_new, "", 3, 1, 1, 0,
     {PART("", F8_E4M3, PLANE, COPY), PART("_scale", F32, PLANE, COPY), NO_PART, NO_PART}, {KF_EXTRA_NONE}},
    {KF_LAYOUT_FP8_STACKS, KERF_FORMAT_NVFP4, "nvfp4", stacks_of_nvfp4, "", 3, 1, 16, 0,
     {PART("", U8, PLANE, COPY), PART("_scale", F8_E4M3, PLANE, COPY), PART("_scale_2", F32, MATRICES, COPY), NO_PART}, {KF_EXTRA_NONE}},

    /* Of compressed-tensors, for experts in one tensor: X.weight_packed or X_packed. */
    {KF_LAYOUT_CT_STACKS, KERF_FORMAT_NVFP4, "nvfp4-pack-quantized", stacks_of_nvfp4, "", 3, 1, 16, 0,
     {PART("_packed", U8, PLANE, COPY), PART("_scale", F8_E4M3, PLANE, COPY), PART("_global_scale", F32, MATRICES, RECIPROCAL), NO_PART}, {KF_EXTRA_NONE}},
    {KF_LAYOUT_CT_STACKS, KERF_FORMAT_MXFP4, "mxfp4-pack-quantized", stacks_are_single, "", 3, 1, 32, 0,
     {PART("_packed", U8, PLANE, COPY), PART("_scale", U8, PLANE, COPY), NO_PART, NO_PART}, {KF_EXTRA_NONE}},
    CT_STACK(INT8_G128, 128, 0x80, BF16)
    CT_STACK(INT4_G128, 128, 0x88, BF16)
    CT_STACK(INT4_G64,   64, 0x88, BF16)
    CT_STACK(INT4_G32,   32, 0x88, BF16)
    CT_STACK(INT4_G128_F16, 128, 0x88, F16)
    CT_STACK(INT4_G32_F16,   32, 0x88, F16)

    GGUF_INTERLEAVED(NVFP4,         "NVFP4", 64, 0,    PART(".scale", F32, MATRICES, UNLESS_ONE))
    GGUF(GGML_Q8_0,           "Q8_0",  32)
    GGUF(GGML_Q4_0,           "Q4_0",  32)
    GGUF(GGML_MXFP4,          "MXFP4", 32)
    GGUF(GGML_NVFP4,          "NVFP4", 64)
    GGUF(Q4_1,                "Q4_1",  32)
    GGUF(Q5_0,                "Q5_0",  32)
    GGUF(Q5_1,                "Q5_1",  32)
    GGUF(IQ4_NL,              "IQ4_NL", 32)
    GGUF(Q2_K,                "Q2_K", 256)
    GGUF(Q3_K,                "Q3_K", 256)
    GGUF(Q4_K,                "Q4_K", 256)
    GGUF(Q5_K,                "Q5_K", 256)
    GGUF(Q6_K,                "Q6_K", 256)
    GGUF(IQ4_XS,              "IQ4_XS", 256)
    GGUF_INTERLEAVED(MXFP4,         "MXFP4", 32, 0,    NO_PART)
    GGUF_INTERLEAVED(INT4_G32_F16,  "Q4_0",  32, 0x88, NO_PART)
};

const kf_input kf_input_table[] = {
    {KF_LAYOUT_MODELOPT,           KERF_FORMAT_NVFP4,    "input_scale",        0, 0, 6 * 448},
    {KF_LAYOUT_MODELOPT,           KERF_FORMAT_FP8_E4M3, "input_scale",        0, 0, 448},
    {KF_LAYOUT_COMPRESSED_TENSORS, KERF_FORMAT_NVFP4,    "input_global_scale", 1, 1, 6 * 448},
    {KF_LAYOUT_COMPRESSED_TENSORS, KERF_FORMAT_FP8_E4M3, "input_scale",        0, 1, 448},
};

/* NVFP4: 0x7F is 0 to ggml and NaN elsewhere, and ggml takes no notice of a sign. MXFP4: 0xFF is
 * 2^128 to ggml and NaN elsewhere. */
const kf_twins kf_twin_table[] = {
    {KERF_FORMAT_GGML_NVFP4, KERF_FORMAT_NVFP4,        0x7f},
    {KERF_FORMAT_GGML_MXFP4, KERF_FORMAT_MXFP4,        0xff},
    {KERF_FORMAT_GGML_Q4_0,  KERF_FORMAT_INT4_G32_F16, 256},
};

/* tensor_type_fallback of llama.cpp's llama-quant.cpp (commit 007dbbf3fd17); older versions have
 * IQ4_NL in place of Q2_K and Q3_K. */
const kf_fallback kf_fallback_table[] = {
    {KF_LAYOUT_GGUF, KERF_FORMAT_Q2_K,   KERF_FORMAT_GGML_Q4_0},
    {KF_LAYOUT_GGUF, KERF_FORMAT_Q3_K,   KERF_FORMAT_GGML_Q4_0},
    {KF_LAYOUT_GGUF, KERF_FORMAT_Q4_K,   KERF_FORMAT_Q5_0},
    {KF_LAYOUT_GGUF, KERF_FORMAT_Q5_K,   KERF_FORMAT_Q5_1},
    {KF_LAYOUT_GGUF, KERF_FORMAT_Q6_K,   KERF_FORMAT_GGML_Q8_0},
    {KF_LAYOUT_GGUF, KERF_FORMAT_IQ4_XS, KERF_FORMAT_IQ4_NL},
};
/* clang-format on */
const size_t kf_fallback_count = sizeof kf_fallback_table / sizeof *kf_fallback_table;
const size_t kf_input_count = sizeof kf_input_table / sizeof *kf_input_table;
const size_t kf_twin_count = sizeof kf_twin_table / sizeof *kf_twin_table;
const size_t kf_stored_count = sizeof kf_stored_table / sizeof *kf_stored_table;
