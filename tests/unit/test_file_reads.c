/* test_file_reads.c - how often a file is read for weights that are made of others: turned, cut,
 * put together, in another order, decoded, and each of these of another. As often as there are runs
 * of bytes that follow each other, not once for each row or number; and the numbers are those that
 * row after row gives. */
#include <dlfcn.h>

#include <kerf/layouts.h>

#include "test_output.h"

static size_t reads;

ssize_t pread(int fd, void *p, size_t n, off_t at)
{
    static ssize_t (*real)(int, void *, size_t, off_t);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pread");
    reads++;
    return real(fd, p, n, at);
}

enum { EXPERTS = 2, HIDDEN = 96, INNER = 64, UP = 2 * INNER };

/* Stacks with inputs before outputs: a run for each input. */
static const kerf_entry in_fp8[] = {
    {"x.experts.gate_up_proj", KERF_F8_E4M3, {3, {EXPERTS, HIDDEN, UP}}, 0},
    {"x.experts.gate_up_proj_scale", KERF_F32, {3, {EXPERTS, 1, UP}}, 0},
    {"x.experts.down_proj", KERF_F8_E4M3, {3, {EXPERTS, INNER, HIDDEN}}, 0},
    {"x.experts.down_proj_scale", KERF_F32, {3, {EXPERTS, 1, HIDDEN}}, 0},
    {"x.experts.gate_up_proj_bias", KERF_BF16, {2, {EXPERTS, UP}}, 0}, /* gate and up in turn */
};
static const kerf_entry in_f64[] = {
    {"x.experts.gate_up_proj", KERF_F64, {3, {EXPERTS, HIDDEN, UP}}, 0},
    {"x.experts.down_proj", KERF_F64, {3, {EXPERTS, INNER, HIDDEN}}, 0},
};
static const kerf_entry in_bf16[] = {
    {"x.experts.gate_up_proj", KERF_BF16, {3, {EXPERTS, HIDDEN, UP}}, 0},
    {"x.experts.down_proj", KERF_BF16, {3, {EXPERTS, INNER, HIDDEN}}, 0},
};
static const kerf_entry in_mxfp4[] = {
    {"x.experts.gate_up_proj_blocks", KERF_U8, {4, {EXPERTS, UP, HIDDEN / 32, 16}}, 0},
    {"x.experts.gate_up_proj_scales", KERF_U8, {3, {EXPERTS, UP, HIDDEN / 32}}, 0},
    {"x.experts.gate_up_proj_bias", KERF_BF16, {2, {EXPERTS, UP}}, 0},
    {"x.experts.down_proj_blocks", KERF_U8, {4, {EXPERTS, HIDDEN, INNER / 32, 16}}, 0},
    {"x.experts.down_proj_scales", KERF_U8, {3, {EXPERTS, HIDDEN, INNER / 32}}, 0},
};
static const kerf_entry in_heads[] = {
    {"model.layers.0.self_attn.q_proj.weight", KERF_BF16, {2, {UP, HIDDEN}}, 0},
    {"model.layers.0.self_attn.k_proj.weight", KERF_F8_E4M3, {2, {UP, UP}}, 0},
    {"model.layers.0.self_attn.k_proj.weight_scale_inv", KERF_F32, {2, {1, 1}}, 0},
};

/* How the weights are arranged, one after the other. */
enum { NONE, SINGLE, STACKED, GGUF };

static const struct {
    const char *what;
    const kerf_entry *entry;
    size_t entries;
    int how[2];
    const char *weight;
    size_t most; /* reads */
} cases[] = {
    {"turned", in_bf16, 2, {NONE}, "x.experts.gate_up_proj", EXPERTS *HIDDEN},
    {"decoded, turned", in_fp8, 4, {NONE}, "x.experts.gate_up_proj", EXPERTS *HIDDEN + 1},
    {"cut, turned", in_bf16, 2, {SINGLE}, "x.experts.1.up_proj.weight", HIDDEN},
    {"decoded, cut, turned", in_fp8, 4, {SINGLE}, "x.experts.1.up_proj.weight", HIDDEN + 1},
    {"decoded, cut in turn, turned", in_fp8, 5, {SINGLE}, "x.experts.1.up_proj.weight", HIDDEN + 1},
    {"a bias, cut in turn", in_fp8, 5, {SINGLE}, "x.experts.1.up_proj.bias", 1},
    {"put together of cut, turned",
     in_bf16,
     2,
     {SINGLE, STACKED},
     "x.experts.gate_up_proj",
     EXPERTS * 2 * HIDDEN},
    {"decoded, put together of cut, turned",
     in_fp8,
     5,
     {SINGLE, STACKED},
     "x.experts.gate_up_proj",
     EXPERTS * 2 * (HIDDEN + 1)},
    {"wider, turned", in_f64, 2, {NONE}, "x.experts.gate_up_proj", EXPERTS *HIDDEN},
    {"wider, cut, turned", in_f64, 2, {SINGLE}, "x.experts.1.gate_proj.weight", HIDDEN},
    {"decoded, cut in turn", in_mxfp4, 5, {SINGLE}, "x.experts.1.gate_proj.weight", 2},
    {"pairs of heads", in_heads, 3, {GGUF}, "blk.0.attn_q.weight", 2 * 2},
    {"pairs of heads, decoded", in_heads, 3, {GGUF}, "blk.0.attn_k.weight", 2 * 2 * 2},
};

static void arrange(kerf_weights *w, const kerf_reader *r, int how)
{
    kerf_error err;
    if (how == GGUF) must(kerf_weights_name_as_gguf(w, r, &err), &err);
    if (how == SINGLE) must(kerf_weights_arrange(w, KERF_EXPERTS_SINGLE, NULL, NULL, &err), &err);
    if (how == STACKED) must(kerf_weights_arrange(w, KERF_EXPERTS_STACKED, NULL, NULL, &err), &err);
}

/* The same numbers at once, row after row, and from the middle of a row to that of another. */
static void check_numbers(const kerf_reader *r, const kerf_tensor *t, size_t row,
                          const unsigned char *whole)
{
    kerf_error err;
    const size_t size = kerf_dtype_bits(t->dtype) / 8, n = (size_t)t->bytes;
    unsigned char *part = malloc(n);
    assert_non_null(part);
    for (size_t at = 0; at < n; at += row)
        must(kerf_reader_read(r, t, at, part + at, row, &err), &err);
    assert_memory_equal(part, whole, n);
    const size_t from = row / size / 2 * size;
    if (n >= 3 * row) {
        must(kerf_reader_read(r, t, row + from, part, n - 2 * row, &err), &err);
        assert_memory_equal(part, whole + row + from, n - 2 * row);
    }
    free(part);
}

static void test_reads(void **state)
{
    static const char config[] = "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":"
                                 "\"llama\",\"num_attention_heads\":2,\"hidden_size\":96}";
    const kerf_writer_options over = {.overwrite = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kerf_reader *r;
        kerf_weights *all;
        kerf_error err;
        FILE *f = fopen(in_folder(state, "config.json"), "w");
        assert_non_null(f);
        fputs(cases[i].how[0] == GGUF ? config : "{}", f);
        assert_int_equal(fclose(f), 0);
        const char *path = in_folder(state, "model.safetensors");
        write_checkpoint(path, cases[i].entry, cases[i].entries, &over);
        must(kerf_reader_open(path, &r, &err), &err);
        must(kerf_weights_open(r, &all, &err), &err);
        for (int k = 0; k < 2; k++) arrange(all, r, cases[i].how[k]);
        const kerf_weight *w = kerf_weights_find(all, cases[i].weight);
        if (!w) fail_msg("%s: no %s", cases[i].what, cases[i].weight);
        const kerf_tensor *t = kerf_weight_dense(w);
        assert_non_null(t);
        unsigned char *whole = malloc((size_t)t->bytes);
        assert_non_null(whole);
        reads = 0;
        must(kerf_reader_read(r, t, 0, whole, (size_t)t->bytes, &err), &err);
        const size_t taken = reads;
        if (taken > cases[i].most)
            fail_msg("%s: %zu reads, not %zu", cases[i].what, taken, cases[i].most);
        const size_t cols = t->shape.rank > 1 ? (size_t)t->shape.dim[t->shape.rank - 1] : 1;
        check_numbers(r, t, cols * (kerf_dtype_bits(t->dtype) / 8), whole);
        free(whole);
        kerf_weights_close(all);
        kerf_reader_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reads, make_test_folder, remove_test_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
