/* test_roles.c - the place of a tensor by its name and shape alone, names that nobody should have,
 * and what decides where one name means two things. What whole models look like: tests/families. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/roles.h>

static kerf_place place_of(const char *family, const char *name, unsigned rank, uint64_t rows,
                           uint64_t cols)
{
    kerf_shape shape = {2, {rows, cols}};
    kerf_place p;
    if (rank == 1) shape = (kerf_shape){1, {rows}};
    if (rank == 3) shape = (kerf_shape){3, {4, rows, cols}};
    kerf_place_find(family, name, &shape, &p);
    return p;
}

static void is_called(const char *name, const char *wanted)
{
    char text[64];
    const kerf_place p = place_of("llama", name, 2, 64, 128);
    assert_string_equal(kerf_place_text(&p, text, sizeof text), wanted);
}

/* No prefix matters, towers do. */
static void test_prefixes(void **state)
{
    (void)state;
    is_called("model.layers.3.self_attn.q_proj.weight", "attention q");
    is_called("base_model.model.thinker.language_model.layers.3.self_attn.q_proj.weight",
              "attention q");
    is_called("q_proj.weight", "attention q");
    is_called("vision_tower.blocks.3.attn.qkv.weight", "vision qkv");
    is_called("thinker.audio_tower.layers.0.fc1.weight", "audio up");
    is_called("visual.merger.mlp.0.weight", "projector up");
    is_called("mtp.layers.0.self_attn.o_proj.weight", "MTP o");
    is_called("model.layers.3.mlp.experts.12.w2.weight", "expert down");
    is_called("model.layers.3.mlp.shared_experts.up_proj.weight", "shared expert up");
    is_called("a.weight", "other");
}

static void test_keeps(void **state)
{
    (void)state;
    static const char *const kept[] = {"lm_head.weight",
                                       "classifier.out_proj.weight",
                                       "embed.W_E",
                                       "unembed.W_U",
                                       "perception.encoder.layers.0.feed_forward1.linear1.weight",
                                       "codec_model.encoder_transformer.layers.0.mlp.fc1.weight",
                                       "layers.1.mlp.gate.weight",
                                       "backbone.layers.0.mixer.A_log",
                                       "layers.0.attn.indexer.wq_b.weight",
                                       "layers.0.norm1.linear.weight",
                                       "layers.0.conv1d.weight",
                                       "layers.0.attn.bias",
                                       "model.layers.0.nobody.knows.weight"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const kerf_place p = place_of("llama", kept[i], 2, 64, 128);
        assert_non_null(kerf_place_keeps(&p));
    }
    /* a matrix of which nothing is known is taken where there is no model */
    const kerf_place p = place_of(NULL, "model.layers.0.nobody.knows.weight", 2, 64, 128);
    assert_null(kerf_place_keeps(&p));
    assert_int_equal(p.evidence, KERF_EVIDENCE_MATRIX);
    const kerf_place vector = place_of(NULL, "model.layers.0.nobody.knows.weight", 1, 64, 0);
    assert_non_null(kerf_place_keeps(&vector));
}

static void test_families(void **state)
{
    (void)state;
    size_t families = 0;
    while (kerf_family_at(families)) families++;
    assert_true(families >= 40);
    /* the same name, two families: RWKV's key is no attention's */
    assert_int_equal(place_of("rwkv", "rwkv.blocks.0.feed_forward.key.weight", 2, 8, 4).role,
                     KERF_ROLE_MLP);
    assert_int_equal(place_of("bert", "encoder.layer.0.attention.self.key.weight", 2, 8, 4).piece,
                     KERF_PIECE_K);
    /* class names are found as their models are */
    assert_int_equal(place_of("GPT2LMHeadModel", "h.0.attn.c_attn.weight", 2, 64, 192).orientation,
                     KERF_IN_OUT);
    assert_int_equal(place_of("llama", "h.0.attn.c_attn.weight", 2, 64, 192).orientation,
                     KERF_OUT_IN);
    assert_int_equal(place_of(NULL, "h.0.attn.c_attn.weight", 2, 64, 192).orientation, KERF_IN_OUT);
}

static void test_stacks(void **state)
{
    (void)state;
    const kerf_place p =
        place_of("llama4", "language_model.model.layers.0.feed_forward.experts.down_proj", 3, 8, 8);
    assert_int_equal(p.stack, KERF_STACK_FIRST);
    assert_int_equal(p.experts, 4);
    assert_int_equal(p.orientation, KERF_IN_OUT);
    /* a family that nobody knows and two axes alike: kept, with the reason */
    const kerf_place q = place_of("unheard_of", "layers.0.experts.down_proj", 3, 8, 8);
    assert_int_equal(q.orientation, KERF_AXES_UNKNOWN);
    assert_non_null(strstr(kerf_place_keeps(&q), "axes"));
}

/* Names from a file may be anything. */
static void test_odd_names(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "",       ".",        "...",
        "weight", ".weight",  "bias",
        "1.2.3",  "experts.", "experts.99999999999999999999.w1.weight"};
    char deep[2048], text[4];
    kerf_place p;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        p = place_of("llama", odd[i], 2, 8, 8);
        assert_true((unsigned)p.role < KERF_ROLES);
        kerf_place_text(&p, text, sizeof text);
    }
    for (size_t i = 0; i + 1 < sizeof deep; i++) deep[i] = i % 2 ? '.' : 'a';
    deep[sizeof deep - 1] = 0;
    p = place_of("llama", deep, 2, 8, 8);
    assert_int_equal(p.role, KERF_ROLE_OTHER);
    p = place_of("llama", "x.q_proj.weight", 0, 0, 0);
    assert_int_equal(p.piece, KERF_PIECE_Q);
    assert_null(kerf_role_name(KERF_ROLES));
    assert_string_equal(kerf_piece_name(KERF_PIECES), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes),  cmocka_unit_test(test_keeps),
        cmocka_unit_test(test_families),  cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_odd_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
