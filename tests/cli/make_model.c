/* make_model.c - make_model KIND OUT [N...]: writes a synthetic checkpoint for tests of the
 * command.
 *
 *   nan, inf     one bad element, number 327, in a.weight [64, 64]
 *   odd          shapes and types that are rare: experts, tails, empty, scalar, integers
 *   shards       a folder of three files with metadata of their own
 *   groups       layers that runtimes fuse, and the names that quantize keeps
 *   moe          experts, one by one and stacked
 *   turned       stacked experts with their output features last
 *   experts      the same layer of experts in each FORM: single, stacked, turned (input features
 *                first), and with gate and up alternating and biases: oss, oss-single, oss-turned
 *   inputs       a layer whose inputs were calibrated: X.input_scale beside each weight
 *   gaussian     a.weight [256, 4096] F32, normally distributed with deviation 0.02
 *   big          tensors of 256 MiB, N MiB in all
 *   many         a model folder of N shards with N tensors in all, of N rows of 256 each
 *   llama        a model folder shaped as Llama-3.1-8B with N layers instead of 32 (16 GB), a
 *                shard for eight of them; tails of the weights differ from tensor to tensor
 */
#include <math.h>
#include <string.h>

#include "synthetic.h"

static void make_bad(const char *path, uint32_t bits)
{
    model m = {.count = 0};
    add(&m, "a.weight", KERF_BF16, (kerf_shape){2, {64, 64}}, 0);
    add(&m, "b.weight", KERF_BF16, (kerf_shape){2, {64, 64}}, 0);
    write_model(&m, path, 5 * 64 + 7, bits);
}

static void make_odd(const char *path)
{
    model m = {.count = 0};
    add(&m, "experts.down_proj.weight", KERF_BF16, (kerf_shape){3, {3, 5, 48}}, 0);
    add(&m, "many.weight", KERF_BF16, (kerf_shape){4, {2, 3, 130, 70}}, 0);
    add(&m, "tail.weight", KERF_F16, (kerf_shape){2, {7, 37}}, 0);
    add(&m, "wide.weight", KERF_F32, (kerf_shape){2, {3, 5000}}, 0);
    add(&m, "tiles.weight", KERF_F32, (kerf_shape){2, {200, 300}}, 0);
    add(&m, "column.weight", KERF_BF16, (kerf_shape){2, {40, 1}}, 0);
    add(&m, "empty.weight", KERF_BF16, (kerf_shape){2, {0, 32}}, 0);
    add(&m, "vector", KERF_BF16, (kerf_shape){1, {100}}, 0);
    add(&m, "scalar", KERF_F32, (kerf_shape){0, {0}}, 0);
    add(&m, "positions", KERF_I64, (kerf_shape){2, {4, 9}}, 0);
    write_model(&m, path, -1, 0);
}

static void make_shards(const char *path)
{
    static const char *const names[] = {"model-00001-of-00003.safetensors",
                                        "model-00002-of-00003.safetensors",
                                        "model-00003-of-00003.safetensors"};
    static const kerf_key_value first[] = {{"author", "nobody"}, {"kerf.note", "kept"}};
    static const kerf_key_value *const metadata[] = {first, NULL, NULL};
    static const size_t counts[] = {2, 0, 0};
    model m = {
        .options = {.shard = names, .shards = 3, .metadata = metadata, .metadata_count = counts}};
    add(&m, "layers.0.q_proj.weight", KERF_BF16, (kerf_shape){2, {64, 128}}, 0);
    add(&m, "layers.0.norm.weight", KERF_BF16, (kerf_shape){1, {128}}, 0);
    add(&m, "layers.1.q_proj.weight", KERF_BF16, (kerf_shape){2, {64, 128}}, 1);
    add(&m, "layers.2.q_proj.weight", KERF_BF16, (kerf_shape){2, {64, 128}}, 2);
    add(&m, "lm_head.weight", KERF_BF16, (kerf_shape){2, {256, 128}}, 2);
    write_model(&m, path, -1, 0);
}

static void make_groups(const char *path)
{
    static const char *const names[] = {
        "layers.0.self_attn.q_proj.weight",
        "layers.0.self_attn.k_proj.weight",
        "layers.0.self_attn.v_proj.weight",
        "layers.0.mlp.gate_proj.weight",
        "layers.0.mlp.up_proj.weight",
        "layers.0.mlp.down_proj.weight",
        /* kept by default */
        "lm_head.weight",
        "model.embed_tokens.weight",
        "transformer.wte.weight",
        "layers.0.input_layernorm.weight",
        "layers.0.mlp.gate.weight",
        "layers.0.block_sparse_moe.gate.weight",
        "layers.0.feed_forward.router.weight",
        "layers.0.mlp.shared_expert_gate.weight",
        "layers.0.linear_attn.conv1d.weight",
        "layers.0.linear_attn.in_proj_a.weight",
        "model.visual.blocks.0.qkv.weight",
        "vision_tower.proj.weight",
        "multi_modal_projector.linear.weight",
        "mtp.fc.weight",
        "layers.0.mlp.gate.e_score_correction_bias",
        "layers.0.experts.gate_up_proj_bias",
    };
    model m = {.count = 0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        add(&m, names[i], KERF_BF16, (kerf_shape){2, {32, 64}}, 0);
    }
    write_model(&m, path, -1, 0);
}

/* Experts one by one and, in the next layer, stacked with biases beside them. */
static void make_moe(const char *path)
{
    enum { EXPERTS = 4 };
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    char name[EXPERTS * 3][64];
    model m = {.count = 0};
    add(&m, "layers.0.self_attn.q_proj.weight", KERF_BF16, (kerf_shape){2, {64, 64}}, 0);
    for (size_t i = 0; i < EXPERTS * 3; i++) {
        snprintf(name[i], sizeof name[i], "layers.0.mlp.experts.%zu.%s.weight", i / 3,
                 parts[i % 3]);
        uint64_t n = i % 3 == 2 ? 64 : 32, k = i % 3 == 2 ? 32 : 64;
        add(&m, name[i], KERF_BF16, (kerf_shape){2, {n, k}}, 0);
    }
    add(&m, "layers.1.mlp.experts.gate_up_proj", KERF_BF16, (kerf_shape){3, {EXPERTS, 64, 64}}, 0);
    add(&m, "layers.1.mlp.experts.gate_up_proj_bias", KERF_BF16, (kerf_shape){2, {EXPERTS, 64}}, 0);
    add(&m, "layers.1.mlp.experts.down_proj", KERF_BF16, (kerf_shape){3, {EXPERTS, 64, 32}}, 0);
    write_model(&m, path, -1, 0);
}

static void make_inputs(const char *path)
{
    static const char *const names[][2] = {
        {"layers.0.mlp.gate_proj.weight", "layers.0.mlp.gate_proj.input_scale"},
        {"layers.0.mlp.up_proj.weight", "layers.0.mlp.up_proj.input_scale"},
        {"layers.0.mlp.down_proj.weight", "layers.0.mlp.down_proj.input_scale"}};
    model m = {.count = 0};
    for (size_t i = 0; i < 3; i++) {
        add(&m, names[i][0], KERF_BF16, (kerf_shape){2, {64, 64}}, 0);
        add(&m, names[i][1], KERF_F32, (kerf_shape){0, {0}}, 0);
    }
    write_model(&m, path, -1, 0);
}

static void make_turned(const char *path)
{
    model m = {.count = 0};
    add(&m, "layers.0.mlp.experts.gate_up_proj", KERF_BF16, (kerf_shape){3, {2, 64, 96}}, 0);
    add(&m, "layers.0.mlp.experts.gate_up_proj_bias", KERF_BF16, (kerf_shape){2, {2, 96}}, 0);
    write_model(&m, path, -1, 0);
}

/* One layer of experts. The numbers follow from what they mean, so that they are the same ones in
 * every form. */
typedef struct expert_form {
    const char *name;
    int stacked, turned, alternating;
} expert_form;

enum { EXPERTS = 3, INNER = 128, HIDDEN = 256 };

static uint16_t expert_element(uint64_t expert, uint64_t part, uint64_t row, uint64_t col)
{
    unsigned char bytes[4];
    put_element(bytes, KERF_BF16, ((expert * 5 + part) * HIDDEN + row) * HIDDEN + col, 1, 0);
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

/* Element [expert, row, col] of a tensor in this form. part: 0 gate, 1 up, 2 down; of stacks 0 is
 * both; 3 more is a bias, whose only column is 0. */
static uint16_t stored_element(const expert_form *f, uint64_t expert, uint64_t part, uint64_t row,
                               uint64_t col)
{
    const uint64_t bias = part / 3 * 3;
    if (!f->stacked || part % 3 == 2) return expert_element(expert, part, row, col);
    return f->alternating ? expert_element(expert, bias + row % 2, row / 2, col)
                          : expert_element(expert, bias + row / INNER, row % INNER, col);
}

static void write_expert(kerf_writer *w, const expert_form *f, size_t entry, uint64_t first,
                         uint64_t part, uint64_t rows, uint64_t cols)
{
    const uint64_t experts = f->stacked ? EXPERTS : 1;
    kerf_error err = {0};
    for (uint64_t i = 0; i < experts * rows * cols; i++) {
        const uint64_t e = i / (rows * cols), at = i % (rows * cols);
        const int turned = f->turned && part < 3;
        uint16_t x = stored_element(f, first + e, part, turned ? at % rows : at / cols,
                                    turned ? at / rows : at % cols);
        if (kerf_writer_write(w, entry, i * 2, &x, 2, &err) != KERF_OK) die(&err);
    }
}

static void make_experts(const char *path, const char *form)
{
    static const expert_form forms[] = {{"single", 0, 0, 0},     {"stacked", 1, 0, 0},
                                        {"turned", 1, 1, 0},     {"oss", 1, 0, 1},
                                        {"oss-single", 0, 0, 1}, {"oss-turned", 1, 1, 1}};
    static const char *const single[] = {"gate_proj.weight", "up_proj.weight", "down_proj.weight",
                                         "gate_proj.bias",   "up_proj.bias",   "down_proj.bias"};
    static const char *const stack[] = {"gate_up_proj",      NULL, "down_proj",
                                        "gate_up_proj_bias", NULL, "down_proj_bias"};
    char name[EXPERTS * 6][64];
    model m = {.count = 0};
    size_t k = 0;
    kerf_writer *w = NULL;
    kerf_error err = {0};
    while (k < sizeof forms / sizeof *forms && strcmp(forms[k].name, form) != 0) k++;
    if (k == sizeof forms / sizeof *forms) exit(2);
    const expert_form *f = &forms[k];
    uint64_t rows[EXPERTS * 6], cols[EXPERTS * 6], of[EXPERTS * 6], first[EXPERTS * 6];
    for (uint64_t i = 0; i < (f->stacked ? 1 : EXPERTS) * 6; i++) {
        const uint64_t part = i % 6;
        if ((part >= 3 && !f->alternating) || (f->stacked && !stack[part])) continue;
        const size_t n = m.count;
        first[n] = i / 6;
        of[n] = part;
        rows[n] = part % 3 == 2 ? HIDDEN : f->stacked ? 2 * INNER : INNER;
        cols[n] = part >= 3 ? 1 : part == 2 ? INNER : HIDDEN;
        if (f->stacked)
            snprintf(name[n], sizeof name[n], "layers.0.mlp.experts.%s", stack[part]);
        else
            snprintf(name[n], sizeof name[n], "layers.0.mlp.experts.%d.%s", (int)(i / 6),
                     single[part]);
        const uint64_t a = f->turned && part < 3 ? cols[n] : rows[n], b = rows[n] * cols[n] / a;
        kerf_shape shape = {3, {EXPERTS, a, b}};
        if (part >= 3) shape = (kerf_shape){2, {EXPERTS, rows[n]}};
        if (!f->stacked && part < 3) shape = (kerf_shape){2, {a, b}};
        if (!f->stacked && part >= 3) shape = (kerf_shape){1, {a}};
        add(&m, name[n], KERF_BF16, shape, 0);
    }
    if (kerf_writer_create(path, m.entry, m.count, &m.options, &w, &err) != KERF_OK) die(&err);
    for (size_t i = 0; i < m.count; i++) write_expert(w, f, i, first[i], of[i], rows[i], cols[i]);
    if (kerf_writer_commit(w, &err) != KERF_OK) die(&err);
    free(m.entry);
}

/* Box and Muller; sums of uniform numbers have tails too short for exact figures. */
static void make_gaussian(const char *path)
{
    enum { ELEMENTS = 256 * 4096 };
    static float values[ELEMENTS];
    kerf_error err = {0};
    kerf_writer *w = NULL;
    model m = {.count = 0};
    add(&m, "a.weight", KERF_F32, (kerf_shape){2, {256, 4096}}, 0);
    for (uint64_t i = 0; i < ELEMENTS; i++) {
        double u = ((double)(mix(2 * i) >> 11) + 1) * 0x1p-53;
        double v = (double)(mix(2 * i + 1) >> 11) * 0x1p-53;
        values[i] = (float)(0.02 * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
    }
    if (kerf_writer_create(path, m.entry, 1, &m.options, &w, &err) != KERF_OK) die(&err);
    if (kerf_writer_write(w, 0, 0, values, sizeof values, &err) != KERF_OK) die(&err);
    if (kerf_writer_commit(w, &err) != KERF_OK) die(&err);
    free(m.entry);
}

static void make_big(const char *path, unsigned long mebibytes)
{
    static char name[MOST][32];
    model m = {.count = 0};
    for (unsigned long left = mebibytes; left > 0 && m.count < MOST;) {
        uint64_t size = left < 256 ? left : 256;
        snprintf(name[m.count], sizeof name[0], "layers.%zu.weight", m.count);
        add(&m, name[m.count], KERF_BF16, (kerf_shape){2, {size * 128, 4096}}, 0);
        left -= (unsigned long)size;
    }
    write_model(&m, path, -1, 0);
}

/* Every tenth tensor is a norm; the small files of a model are there. */
static void make_many(const char *path, size_t shards, size_t tensors, uint64_t rows)
{
    enum { NAME = 64 };
    static char config[] = "{\"model_type\": \"llama\"}\n",
                tokenizer[] = "{\"version\": \"1.0\"}\n";
    static const kerf_companion small[] = {{"config.json", config}, {"tokenizer.json", tokenizer}};
    char(*name)[NAME] = calloc(tensors + shards, NAME);
    const char **shard = calloc(shards, sizeof *shard);
    if (!name || !shard) exit(1);
    model m = {.varies = 1,
               .options = {.shard = shard, .shards = shards, .companion = small, .companions = 2}};
    for (size_t i = 0; i < shards; i++) {
        snprintf(name[i], NAME, "model-%05zu-of-%05zu.safetensors", i + 1, shards);
        shard[i] = name[i];
    }
    for (size_t i = 0; i < tensors; i++) {
        int is_norm = i % 10 == 9;
        snprintf(name[shards + i], NAME, "model.layers.%zu.%s.weight", i,
                 is_norm ? "input_layernorm" : "mlp.down_proj");
        add(&m, name[shards + i], KERF_BF16,
            is_norm ? (kerf_shape){1, {256}} : (kerf_shape){2, {rows, 256}},
            (unsigned)(i * shards / tensors));
    }
    write_model(&m, path, -1, 0);
    free(name);
    free(shard);
}

static void make_llama(const char *path, size_t layers)
{
    enum { NAME = 64, PARTS = 9, PER_SHARD = 8 };
    static const struct {
        const char *name;
        kerf_shape shape;
    } part[PARTS] = {
        {"self_attn.q_proj", {2, {4096, 4096}}},   {"self_attn.k_proj", {2, {1024, 4096}}},
        {"self_attn.v_proj", {2, {1024, 4096}}},   {"self_attn.o_proj", {2, {4096, 4096}}},
        {"mlp.gate_proj", {2, {14336, 4096}}},     {"mlp.up_proj", {2, {14336, 4096}}},
        {"mlp.down_proj", {2, {4096, 14336}}},     {"input_layernorm", {1, {4096}}},
        {"post_attention_layernorm", {1, {4096}}},
    };
    static char config[512];
    static const kerf_companion small[] = {{"config.json", config}};
    size_t shards = (layers + PER_SHARD - 1) / PER_SHARD, names = 0;
    char(*name)[NAME] = calloc(layers * PARTS + shards, NAME);
    const char **shard = calloc(shards, sizeof *shard);
    if (!name || !shard) exit(1);
    snprintf(config, sizeof config,
             "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_hidden_layers\": %zu, "
             "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
             "\"intermediate_size\": 14336, \"vocab_size\": 128256, "
             "\"tie_word_embeddings\": false}\n",
             layers);
    model m = {.varies = 1,
               .tails = 1,
               .options = {.shard = shard, .shards = shards, .companion = small, .companions = 1}};
    for (size_t i = 0; i < shards; i++) {
        shard[i] = name[names];
        snprintf(name[names++], NAME, "model-%05zu-of-%05zu.safetensors", i + 1, shards);
    }
    add(&m, "model.embed_tokens.weight", KERF_BF16, (kerf_shape){2, {128256, 4096}}, 0);
    for (size_t i = 0; i < layers * PARTS; i++) {
        size_t layer = i / PARTS;
        snprintf(name[names], NAME, "model.layers.%zu.%s.weight", layer, part[i % PARTS].name);
        add(&m, name[names++], KERF_BF16, part[i % PARTS].shape, (unsigned)(layer / PER_SHARD));
    }
    add(&m, "model.norm.weight", KERF_BF16, (kerf_shape){1, {4096}}, (unsigned)shards - 1);
    add(&m, "lm_head.weight", KERF_BF16, (kerf_shape){2, {128256, 4096}}, (unsigned)shards - 1);
    write_model(&m, path, -1, 0);
    free(name);
    free(shard);
}

int main(int argc, char **argv)
{
    const char *kind = argc >= 3 ? argv[1] : "";
    if (strcmp(kind, "nan") == 0) {
        make_bad(argv[2], 0x7fc0);
    } else if (strcmp(kind, "inf") == 0) {
        make_bad(argv[2], 0xff80);
    } else if (strcmp(kind, "odd") == 0) {
        make_odd(argv[2]);
    } else if (strcmp(kind, "shards") == 0) {
        make_shards(argv[2]);
    } else if (strcmp(kind, "groups") == 0) {
        make_groups(argv[2]);
    } else if (strcmp(kind, "moe") == 0) {
        make_moe(argv[2]);
    } else if (strcmp(kind, "inputs") == 0) {
        make_inputs(argv[2]);
    } else if (strcmp(kind, "turned") == 0) {
        make_turned(argv[2]);
    } else if (strcmp(kind, "experts") == 0 && argc == 4) {
        make_experts(argv[2], argv[3]);
    } else if (strcmp(kind, "gaussian") == 0) {
        make_gaussian(argv[2]);
    } else if (strcmp(kind, "big") == 0 && argc == 4) {
        make_big(argv[2], strtoul(argv[3], NULL, 10));
    } else if (strcmp(kind, "many") == 0 && argc == 6) {
        make_many(argv[2], strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10),
                  strtoul(argv[5], NULL, 10));
    } else if (strcmp(kind, "llama") == 0 && argc == 4 && strtoul(argv[3], NULL, 10) > 0) {
        make_llama(argv[2], strtoul(argv[3], NULL, 10));
    } else {
        fprintf(stderr,
                "usage: make_model nan|inf|odd|shards|groups|moe|turned|inputs|gaussian OUT\n"
                "       make_model experts OUT FORM\n"
                "       make_model big OUT MEBIBYTES\n"
                "       make_model many OUT SHARDS TENSORS ROWS\n"
                "       make_model llama OUT LAYERS\n");
        return 2;
    }
    return 0;
}
