/* make_gguf.c - make_gguf KIND OUT: writes a GGUF file for tests of the command, byte by byte, with
 * none of kerf's own code.
 *
 *   bf16, f16, f32   a small model: matrices of this type, stacked experts, norms, embedding, head;
 *                    keys of every type
 *   part1, part2     the first half of the bf16 model, and the other, as parts of two
 *   aligned          version 2, alignment 64, and no general.file_type
 *   rows             rows that blocks of 256 fit, those that blocks of 32 alone fit, and others
 *   foreign          blocks that kerf does not decode (IQ2_XXS), integers, a scalar
 *   nvfp4            NVFP4 blocks with and without scales beside them, one scale byte 0x7F
 */
#include "gguf_bytes.h"

/* A float of a bell-shaped distribution around zero. */
static float weight(uint64_t i)
{
    uint64_t x = (i + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    int sum = (int)(x & 0xffff) + (int)(x >> 16 & 0xffff) + (int)(x >> 32 & 0xffff) +
              (int)(x >> 48) - 131070;
    return (float)sum * 0x1p-21f;
}

/* n numbers of ggml type 0, 1 or 30; fp16 by cutting the mantissa, which is exact enough. */
static void add_floats(struct bytes *b, int type, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        const float x = weight(seed + i);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        const int exponent = (int)(bits >> 23 & 255) - 112;
        const uint32_t half = exponent < 1 ? 0 : (uint32_t)exponent << 10 | (bits >> 13 & 0x3ff);
        if (type == 0) bytes_number(b, bits, 4);
        if (type == 1) bytes_number(b, (bits >> 16 & 0x8000) | half, 2);
        if (type == 30) bytes_number(b, bits >> 16, 2);
    }
}

struct tensor {
    const char *name;
    unsigned rank;
    uint64_t ne[4];
    int type;
    size_t bytes; /* of blocks; 0: numbers */
};

static size_t count_of(const struct tensor *t)
{
    size_t n = 1;
    for (unsigned i = 0; i < t->rank; i++) n *= t->ne[i];
    return n;
}

static size_t bytes_of(const struct tensor *t)
{
    return t->bytes ? t->bytes : count_of(t) * (t->type == 0 || t->type == 26 ? 4 : 2);
}

static void add_infos(struct bytes *b, const struct tensor *t, size_t count, size_t alignment)
{
    for (size_t i = 0, at = 0; i < count; i++) {
        bytes_number(b, strlen(t[i].name), 8);
        bytes_text(b, t[i].name);
        bytes_number(b, t[i].rank, 4);
        for (unsigned k = 0; k < t[i].rank; k++) bytes_number(b, t[i].ne[k], 8);
        bytes_number(b, (uint64_t)t[i].type, 4);
        bytes_number(b, at, 8);
        at += (bytes_of(&t[i]) + alignment - 1) / alignment * alignment;
    }
    while (b->n % alignment) bytes_zeros(b, 1);
}

static void add_data(struct bytes *b, const struct tensor *t, size_t first, size_t last,

                     size_t alignment)
{
    for (size_t i = first; i < last; i++) {
        const char *end = strrchr(t[i].name, '.');
        if (end && strcmp(end, ".scale") == 0) /* 1, 2, 3 in units of 2^-10 */
            for (unsigned k = 0; k < count_of(&t[i]); k++)
                gguf_bytes(b, k == 0 ? "0x3a800000:4" : k == 1 ? "0x3b000000:4" : "0x3b400000:4");
        else if (!t[i].bytes && t[i].type != 26)
            add_floats(b, t[i].type, count_of(&t[i]), 10000 * i);
        else
            for (size_t k = 0; k < bytes_of(&t[i]); k++) bytes_number(b, k * 37 % 120, 1);
        while (b->n % alignment) bytes_zeros(b, 1);
    }
}

static const char keys[] = G_STRING("general.architecture", "llama") //
    G_STRING("general.name", "caf\xc3\xa9 \"small\"")                //
    G_U32("general.file_type", 32)                                   //
    "s'a.u8' 0:4 200:1 s'a.i8' 1:4 200:1 s'a.u16' 2:4 60000:2 s'a.i16' 3:4 60000:2 "
    "s'a.i32' 5:4 0xffffffff:4 s'a.f32' 6:4 0x3f800000:4 s'a.bool' 7:4 1:1 "
    "s'a.u64' 10:4 0xffffffffffffffff:8 s'a.i64' 11:4 5:8 s'a.f64' 12:4 0x3ff0000000000000:8 "
    "s'tokenizer.ggml.tokens' 9:4 8:4 3:8 s'<s>' s'' 2:8 0xff:1 0:1 "
    "s'tokenizer.ggml.scores' 9:4 6:4 2:8 0x3f800000:4 0:4 s'a.bools' 9:4 7:4 3:8 1:1 0:1 1:1 "
    "s'a.none' 9:4 5:4 0:8 ";
#define KEYS 17

#define PART_KEYS "s'split.count' 2:4 2:2 s'split.tensors.count' 5:4 10:4 "

/* part: 0 all of it, or one of two. */
static void make_model(struct bytes *b, int type, int part)
{
    const struct tensor t[] = {
        {"token_embd.weight", 2, {128, 96}, type, 0},
        {"blk.0.attn_norm.weight", 1, {128}, 0, 0},
        {"blk.0.attn_q.weight", 2, {128, 96}, type, 0},
        {"blk.0.attn_q.bias", 1, {96}, 0, 0},
        {"blk.0.ffn_gate_inp.weight", 2, {128, 5}, 0, 0},
        {"blk.0.ffn_up_exps.weight", 3, {192, 33, 5}, type, 0},
        {"blk.0.attn_v.weight", 4, {64, 3, 2, 2}, type, 0},
        {"blk.0.ffn_down.weight", 2, {320, 7}, type, 0},
        {"output_norm.weight", 1, {128}, 0, 0},
        {"output.weight", 2, {128, 96}, type, 0},
    };
    const size_t all = sizeof t / sizeof *t;
    const size_t first = part == 2 ? all / 2 : 0, end = part == 1 ? all / 2 : all;
    bytes_text(b, "GGUF");
    bytes_number(b, 3, 4);
    bytes_number(b, end - first, 8);
    bytes_number(b, (part == 2 ? 0u : KEYS) + (part ? 3u : 0u), 8);
    if (part != 2) gguf_bytes(b, keys);
    if (part == 1) gguf_bytes(b, "s'split.no' 2:4 0:2 " PART_KEYS);
    if (part == 2) gguf_bytes(b, "s'split.no' 2:4 1:2 " PART_KEYS);
    add_infos(b, t + first, end - first, 32);
    add_data(b, t, first, end, 32);
}

static void make_aligned(struct bytes *b)
{
    const struct tensor t[] = {{"a.weight", 2, {64, 3}, 1, 0},
                               {"odd.weight", 2, {40, 3}, 1, 0},
                               {"b", 1, {3}, 0, 0},
                               {"empty.weight", 2, {64, 0}, 1, 0},
                               {"z.weight", 2, {64, 1}, 1, 0}};
    gguf_bytes(b, "'GGUF' 2:4 5:8 1:8 " G_U32("general.alignment", 64));
    add_infos(b, t, 5, 64);
    add_data(b, t, 0, 5, 64);
}

static void make_rows(struct bytes *b)
{
    const struct tensor t[] = {{"blk.0.attn_q.weight", 2, {256, 8}, 30, 0},
                               {"blk.0.ffn_down.weight", 2, {320, 7}, 30, 0},
                               {"blk.0.ffn_up.weight", 2, {32, 3}, 30, 0},
                               {"blk.0.attn_output.weight", 2, {40, 6}, 30, 0}};
    gguf_bytes(b, G_HEAD(4, 2) G_STRING("general.architecture", "llama")
                      G_U32("general.file_type", 32));
    add_infos(b, t, 4, 32);
    add_data(b, t, 0, 4, 32);
}

static void make_foreign(struct bytes *b)
{
    const struct tensor t[] = {{"k.weight", 2, {256, 2}, 16, 132},
                               {"i.weight", 2, {5, 3}, 26, 0},
                               {"scalar", 0, {0}, 0, 0},
                               {"w.weight", 2, {64, 4}, 0, 0}};
    gguf_bytes(b, G_HEAD(4, 1) G_U32("general.file_type", 15));
    add_infos(b, t, 4, 32);
    add_data(b, t, 0, 4, 32);
}

static void make_nvfp4(struct bytes *b)
{
    const struct tensor t[] = {
        {"s.weight", 2, {128, 2}, 40, 144}, {"norm.weight", 1, {8}, 0, 0},
        {"s.scale", 1, {1}, 0, 0},          {"e_exps.weight", 3, {64, 2, 3}, 40, 216},
        {"e_exps.scale", 1, {3}, 0, 0},     {"plain.weight", 2, {64, 3}, 40, 108}};
    gguf_bytes(b, G_HEAD(6, 1) G_U32("general.file_type", 39));
    add_infos(b, t, 6, 32);
    size_t data = b->n;
    add_data(b, t, 0, 6, 32);
    b->p[data] = 0x7f;
}

int main(int argc, char **argv)
{
    struct bytes b = {0};
    const char *kind = argc == 3 ? argv[1] : "";
    if (strcmp(kind, "bf16") == 0)
        make_model(&b, 30, 0);
    else if (strcmp(kind, "f16") == 0)
        make_model(&b, 1, 0);
    else if (strcmp(kind, "f32") == 0)
        make_model(&b, 0, 0);
    else if (strcmp(kind, "part1") == 0)
        make_model(&b, 30, 1);
    else if (strcmp(kind, "part2") == 0)
        make_model(&b, 30, 2);
    else if (strcmp(kind, "aligned") == 0)
        make_aligned(&b);
    else if (strcmp(kind, "rows") == 0)
        make_rows(&b);
    else if (strcmp(kind, "foreign") == 0)
        make_foreign(&b);
    else if (strcmp(kind, "nvfp4") == 0)
        make_nvfp4(&b);
    else {
        fprintf(stderr,
                "usage: make_gguf bf16|f16|f32|part1|part2|aligned|rows|foreign|nvfp4 OUT\n");
        return 2;
    }
    FILE *f = fopen(argv[2], "wb");
    if (!f || fwrite(b.p, 1, b.n, f) != b.n || fclose(f) != 0) {
        fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
        return 4;
    }
    free(b.p);
    return 0;
}
