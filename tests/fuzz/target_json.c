/* target_json.c - every JSON file that the command reads: the first byte chooses which, the rest is
 * the file. The weights beside it are sound and tiny. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

/* @/j.json is the input, @/w.safetensors the weights, @/q.safetensors the same quantized. */
static const char *const lines[] = {
    "quantize @/w.safetensors --recipe @/j.json -j 1 -n",
    "quantize @/w.safetensors --recipe @/j.json -j 1 -y -o @/out.safetensors",
    "verify @/w.safetensors @/q.safetensors --limits @/j.json -j 1 --json",
    "hardware @/j.json --json",
    "hardware @/j.json",
    "hardware h200 --measured @/j.json --json",
    "compare @/j.json --hardware h200 --json",
    "compare @/j.json --hardware h200",
    "predict --hardware @/j.json --shape 4096x4096 -f nvfp4,int8 --json",
    "predict --hardware h200 --model @/j.json --json",
    "predict --hardware h200 --model @/j.json",
    "advise @/j.json --hardware h200 --budget 5bits -f int8,nvfp4 -j 1 --json",
    "advise @/w.safetensors --budget 5bits -f int8,nvfp4 -j 1 --alpha @/j.json --json",
    "advise @/w.safetensors --budget 5bits -f int8,nvfp4 -j 1 --config @/j.json --json",
    "advise @/w.safetensors --hardware @/j.json --budget 5bits -f int8,nvfp4 -j 1",
    "advise @/w.safetensors --budget 5bits -f int8,nvfp4 -j 1 --cache @/j.json --json",
    "score @/w.safetensors -f int8 -j 1 --imatrix @/j.json --json",
    "inspect @/m --json", /* config.json   */
    "convert @/m --layout kerf -j 1 -o @/out",
    "inspect @/h --json", /* hf_quant_config.json */
    "eval @/f --tokens @/t.u16 --length 4 -j 1 --limits @/j.json",
    "eval @/g --tokens @/t.u16 --length 4 -j 1 --json", /* config.json, of the forward pass */
    "calibrate @/g --tokens @/t.u16 --length 4 --alpha 2 -j 1 -o @/out",
    "eval @/f --text @/j.json --length 4 -j 1 --json",
    "advise @/w.safetensors --budget 5bits -f int8,nvfp4 -j 1 --calibration @/j.json --json",
    "score @/k --json", /* kerf-scores.json */
    "score @/k --per-tensor",
};
enum { LINES = sizeof lines / sizeof *lines };

/* Weights of a decoder of one layer and two tokens: an entry of 64 columns and so many rows each.
 */
static void put_decoder(const char *folder)
{
    static const struct {
        const char *name;
        int rows;
    } part[] = {{"embed_tokens", 2},
                {"norm", 0},
                {"layers.0.input_layernorm", 0},
                {"layers.0.post_attention_layernorm", 0},
                {"layers.0.self_attn.q_proj", 64},
                {"layers.0.self_attn.k_proj", 64},
                {"layers.0.self_attn.v_proj", 64},
                {"layers.0.self_attn.o_proj", 64},
                {"layers.0.mlp.gate_proj", 64},
                {"layers.0.mlp.up_proj", 64},
                {"layers.0.mlp.down_proj", 64}};
    static const char tokenizer[] =
        "{\"added_tokens\":[],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},"
        "\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"use_regex\":true}}";
    static const char config[] =
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":64,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":2,"
        "\"vocab_size\":2,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\","
        "\"tie_word_embeddings\":true,\"max_position_embeddings\":32}";
    char head[4096];
    size_t n = 8, at = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        const int rows = part[i].rows;
        const size_t end = at + (size_t)(rows ? rows : 1) * 128;
        n += (size_t)snprintf(head + n, sizeof head - n,
                              "%c\"model.%s.weight\":{\"dtype\":\"BF16\",\"shape\":[%.*s%s64],"
                              "\"data_offsets\":[%zu,%zu]}",
                              i ? ',' : '{', part[i].name, rows ? 2 : 0, rows == 2 ? "2" : "64",
                              rows ? "," : "", at, end);
        at = end;
    }
    head[n++] = '}';
    for (int i = 0; i < 8; i++) head[i] = (char)((n - 8) >> 8 * i);
    fuzz_bytes file = fuzz_copy(head, n);
    fuzz_random r = {2};
    for (size_t i = 0; i < at / 2; i++) {
        const uint8_t v[2] = {(uint8_t)fuzz_below(&r, 256),
                              (uint8_t)(0x3b + fuzz_below(&r, 4) + 0x80 * fuzz_below(&r, 2))};
        fuzz_add(&file, v, 2);
    }
    fuzz_put(folder, "model.safetensors", file.p, file.n);
    free(file.p);
    fuzz_put(folder, "config.json", config, sizeof config - 1);
    fuzz_put(folder, "tokenizer.json", tokenizer, sizeof tokenizer - 1);
}

/* A file of one matrix, and once more with its codes. */
static void begin(void)
{
    static const uint8_t tokens[] = {0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0};
    static const char head[] =
        "{\"model.layers.0.mlp.down_proj.weight\":{\"dtype\":\"BF16\",\"shape\":"
        "[16,64],\"data_offsets\":[0,2048]}}";
    static int is_begun;
    if (is_begun) return;
    is_begun = 1;
    const uint64_t n = sizeof head - 1;
    uint8_t file[8 + sizeof head - 1 + 2048];
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)(n >> 8 * i);
    memcpy(file + 8, head, (size_t)n);
    fuzz_random r = {1};
    for (size_t i = 0; i < 1024; i++) { /* bfloat16 of magnitude 2^-8 to 2^-1 */
        file[8 + n + 2 * i] = (uint8_t)fuzz_below(&r, 256);
        file[8 + n + 2 * i + 1] = (uint8_t)(0x3b + fuzz_below(&r, 4) + 0x80 * fuzz_below(&r, 2));
    }
    fuzz_put(".", "w.safetensors", file, sizeof file);
    if (fuzz_kerf("quantize @/w.safetensors -f nvfp4 -j 1 -o @/q.safetensors", "q.safetensors") !=
            0 ||
        fuzz_kerf("quantize @/w.safetensors -f nvfp4 --layout modelopt -j 1 -o @/m", "m") != 0 ||
        fuzz_kerf("quantize @/w.safetensors -f nvfp4 --layout modelopt -j 1 -o @/h", "h") != 0 ||
        fuzz_kerf("score @/w.safetensors -f nvfp4,int8 -j 1 -o @/k", "k") != 0)
        abort();
    fuzz_clear("h/config.json");
    put_decoder("f");
    put_decoder("g");
    fuzz_put(".", "t.u16", tokens, sizeof tokens);
    if (fuzz_kerf("eval @/f --tokens @/t.u16 --length 4 -j 1 --json", NULL) != 0) abort();
}

void fuzz_input(const uint8_t *p, size_t n)
{
    if (n == 0) return;
    begin();
    const char *line = lines[p[0] % LINES];
    if (strstr(line, "@/m"))
        fuzz_put("m", "config.json", p + 1, n - 1);
    else if (strstr(line, "@/h"))
        fuzz_put("h", "hf_quant_config.json", p + 1, n - 1);
    else if (strstr(line, "@/g"))
        fuzz_put("g", "config.json", p + 1, n - 1);
    else if (strstr(line, "@/k"))
        fuzz_put("k", "kerf-scores.json", p + 1, n - 1);
    else
        fuzz_put(".", "j.json", p + 1, n - 1);
    const char *out = strstr(line, "@/out");
    fuzz_kerf(line, out ? out + strlen("@/") : NULL);
    if (out) fuzz_clear(out + strlen("@/"));
}

size_t fuzz_change(uint8_t *p, size_t n, size_t room, unsigned seed)
{
    fuzz_random r = {seed};
    if (n == 0) return 0;
    if (fuzz_below(&r, 8) == 0) p[0] = (uint8_t)fuzz_below(&r, LINES);
    fuzz_bytes b = fuzz_change_file(&r, p + 1, n - 1);
    const size_t m = b.n < room - 1 ? b.n : room - 1;
    if (m > 0) memcpy(p + 1, b.p, m);
    free(b.p);
    return m + 1;
}
