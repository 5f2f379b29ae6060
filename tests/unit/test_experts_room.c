/* test_experts_room.c - which layers of experts the kernels for tiles take on a GPU: those of all
 * models that are listed here, on every card, but for exceptions that have a reason; and that sizes
 * of the largest layers have room in the integers that hold them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "format/format.h"
#include "plan/experts_outline.h"

static const struct card {
    const char *arch;
    unsigned multiprocessors;
} cards[] = {{"sm_80", 108}, {"sm_86", 28}, {"sm_86", 82},   {"sm_89", 24},   {"sm_89", 128},
             {"sm_90", 132}, {"sm_90", 78}, {"sm_100", 148}, {"sm_120", 170}, {"sm_120", 36}};

enum { CARDS = sizeof cards / sizeof *cards };

static const struct model {
    const char *name;
    unsigned experts, top_k, hidden, inter;
} models[] = {
    {"Qwen3-30B-A3B", 128, 8, 2048, 768},
    {"Qwen3-235B-A22B", 128, 8, 4096, 1536},
    {"Qwen3-Next-80B", 512, 10, 2048, 512},
    {"gpt-oss-20b", 32, 4, 2880, 2880},
    {"gpt-oss-120b", 128, 4, 2880, 2880},
    {"DeepSeek-V2-Lite", 64, 6, 2048, 1408},
    {"DeepSeek-V2", 160, 6, 5120, 1536},
    {"DeepSeek-V3", 256, 8, 7168, 2048},
    {"DeepSeek-V3, shared", 257, 9, 7168, 2048},
    {"Kimi-K2", 384, 8, 7168, 2048},
    {"Mixtral-8x7B", 8, 2, 4096, 14336},
    {"Mixtral-8x22B", 8, 2, 6144, 16384},
    {"Llama-4-Scout", 16, 1, 5120, 8192},
    {"Llama-4-Maverick", 128, 1, 5120, 8192},
    {"Phi-3.5-MoE", 16, 2, 4096, 6400},
    {"OLMoE", 64, 8, 2048, 1024},
    {"DBRX", 16, 4, 6144, 10752},
    {"Grok-1", 8, 2, 6144, 32768},
    {"Grok-2", 8, 2, 8192, 16384},
    {"Jamba-1.5-Mini", 16, 2, 4096, 14336},
    {"Jamba-1.5-Large", 16, 2, 8192, 24576},
    {"GLM-4.5", 160, 8, 5120, 1536},
    {"GLM-4.5-Air", 128, 8, 4096, 1408},
    {"Hunyuan-Large", 16, 1, 6400, 18304},
    {"MiniMax-Text-01", 32, 2, 6144, 9216},
    {"Arctic", 128, 2, 7168, 4864},
    {"ERNIE-4.5-300B", 64, 8, 8192, 3584},
    {"Granite-3-3B-A800M", 40, 8, 1536, 512},
};

enum { MODELS = sizeof models / sizeof *models };

/* The card's own answer: as many as its memory holds. */
static int hold(void *ctx, const kf_experts_outline *o, int which)
{
    const kf_gemv_machine *m = ctx;
    const kf_experts_launch *l = &o->launch[which];
    enum { OWN = 1024 };
    assert_true(l->shared_bytes <= m->most_shared);
    const unsigned by_memory = (m->most_shared + OWN) / (l->shared_bytes + OWN);
    return by_memory < 2 ? 1 : 2;
}

/* 1: by the kernels for tiles; 0: an element at a time; -1: the format does not hold the shape. */
static int outline(kf_experts_outline *o, const kerf_format *f, const struct model *s,
                   unsigned tokens, const kf_gemv_machine *m)
{
    kf_gemv_machine machine = *m;
    kerf_gemv_experts plan = {.shape = {.format = f,
                                        .experts = s->experts,
                                        .hidden = s->hidden,
                                        .inter = s->inter,
                                        .tokens = tokens,
                                        .top_k = s->top_k,
                                        .x = KERF_F32,
                                        .y = KERF_F32}};
    if (kf_gemv_experts_check(&plan, NULL) != KERF_OK) return -1;
    assert_int_equal(kf_experts_outline_of(o, &plan, &machine, hold, &machine), 1);
    return o->is_tiled;
}

/* What goes an element at a time. */
static const struct exception {
    const char *format, *model;
    unsigned below; /* on cards whose blocks have less shared memory */
} exceptions[] = {
    /* A table of 32 KiB and rings of two units for each warp are more than 99 KiB, and the kernel
     * by slices takes groups of one row by fours: not 22, 45 or 286. */
    {"nf4-dq", "gpt-oss-20b", 100 << 10},      {"nf4-dq", "gpt-oss-120b", 100 << 10},
    {"nf4-dq", "DeepSeek-V2-Lite", 100 << 10}, {"nf4-dq", "GLM-4.5-Air", 100 << 10},
    {"nf4-dq", "Hunyuan-Large", 100 << 10},
};

static int is_exception(const kerf_format *f, const struct model *s, const kf_gemv_machine *m)
{
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++) {
        const struct exception *e = &exceptions[i];
        if (strcmp(e->format, f->name) == 0 && strcmp(e->model, s->name) == 0 &&
            m->most_shared < e->below)
            return 1;
    }
    return 0;
}

/* Of a format, a model and a card, with any number of tokens. */
static unsigned check_tokens(const kerf_format *f, const struct model *s, const struct card *c)
{
    const kf_gemv_machine m = kf_gemv_machine_of(c->arch, c->multiprocessors, 1000);
    const int expected = !is_exception(f, s, &m);
    unsigned seen = 0;
    for (unsigned tokens = 1; tokens <= KERF_EXPERTS_TOKENS; tokens++) {
        kf_experts_outline o;
        const int is_tiled = outline(&o, f, s, tokens, &m);
        if (is_tiled < 0) continue; /* rows of whole blocks alone */
        seen++;
        if (is_tiled != expected)
            fail_msg("%s, %u tokens, %s on %s with %u: %s", s->name, tokens, f->name, c->arch,
                     c->multiprocessors, is_tiled ? "goes by tiles" : "goes an element at a time");
    }
    return seen;
}

static void every_card_has_room(void **state)
{
    (void)state;
    unsigned seen = 0;
    for (size_t fi = 0; fi < kerf_format_count(); fi++) {
        const kerf_format *f = kerf_format_at(fi);
        if (!kf_gemv_tiling_of(kf_spec_of(f)).is_tiled) continue;
        for (size_t n = 0; n < MODELS; n++)
            for (size_t i = 0; i < CARDS; i++) seen += check_tokens(f, &models[n], &cards[i]);
    }
    assert_true(seen > 100000);
}

/* --- what 32 bits hold --------------------------------------------------------------------------
 */

static void check_one(const kf_experts_launch *l, const kf_gemv_tiling *t, unsigned top_k)
{
    const uint64_t stages = (uint64_t)l->slices * (l->is_down ? top_k : 1);
    const uint64_t steps = (stages + l->team - 1) / l->team;
    const uint64_t items = (uint64_t)l->tiles * (l->is_down ? 1 : top_k),
                   teams = l->blocks / l->team;
    const uint64_t results = (items + teams - 1) / teams * (l->is_down ? 1 : 2);
    assert_true(l->one.x_at + steps * t->stage_codes * 2 <= l->one.backs_at);
    assert_true(l->one.x_sums_at + steps * t->stage_sums <= l->one.sums_at);
    assert_true(l->one.sums_at + (results + KF_GEMV_WARPS) * 64 <= l->one.runs_at);
    assert_true(l->one.mail_at + (l->team > 1 ? l->team * results * 64 : 0) <= l->one.table_at);
}

static void check_few(const kf_experts_launch *l, const kf_gemv_tiling *t, uint64_t slots,
                      int fours)
{
    const kf_experts_few_room *r = &l->few;
    const uint64_t columns = fours ? KF_EXPERTS_FOURS : KF_EXPERTS_FEW, stages = r->chunk_stages;
    const uint64_t all = slots * r->chunks * l->tiles;
    /* Quotients by kf_inverse() are right. */
    assert_true(all * r->blocks <= UINT32_MAX && all * l->tiles <= UINT32_MAX);
    assert_true((uint64_t)r->most_items * (l->is_down ? 1 : 2) * stages * stages <= UINT32_MAX);
    assert_true(stages * t->stage_codes * 2 <= r->x_pitch);
    assert_true(r->x_at + (uint64_t)l->share * r->x_pitch <= r->backs_at);
    assert_true(r->backs_at + stages * columns * 4 <= r->x_sums_at);
    assert_true(r->x_sums_at + stages * columns * t->stage_sums <= r->lists_at);
    assert_true(r->sums_at + (r->most_items * (l->is_down ? 1 : 2) + 8) * columns * 64 <= r->bytes);
    if (t->stage_sums) assert_true(r->x_at + 2 * (uint64_t)r->x_pitch <= r->bytes);
}

/* Every layer that is allowed at all: up to 65536 experts of 2^24 x 2^24. */
static void sizes_do_not_wrap(void **state)
{
    (void)state;
    static const unsigned sizes[] = {16, 2048, 16384, 1 << 20, (1 << 24) - 256, 1 << 24};
    static const unsigned slots[] = {1, 8, 16}, tokens[] = {1, 2, 16};
    unsigned by[KF_EXPERTS_BY_SLICES + 1] = {0};
    for (size_t fi = 0; fi < kerf_format_count(); fi++) {
        const kerf_format *f = kerf_format_at(fi);
        const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(f));
        if (!t.is_tiled) continue;
        for (size_t i = 0; i < 6 * 6 * 3 * 3 * CARDS; i++) {
            const struct card *c = &cards[i / 324];
            const kf_gemv_machine m = kf_gemv_machine_of(c->arch, c->multiprocessors, 1000);
            const struct model s = {"", 65536, slots[i / 36 % 3], sizes[i % 6], sizes[i / 6 % 6]};
            kf_experts_outline o;
            if (outline(&o, f, &s, tokens[i / 108 % 3], &m) < 1) continue;
            by[o.kind]++;
            for (int k = 0; k < 2; k++) {
                const kf_experts_launch *l = &o.launch[k];
                const uint64_t row = l->strides.row_bytes;
                assert_true(l->copy_rows == t.stage_rows * row && row * KF_GEMV_TILE <= UINT32_MAX);
                assert_true(l->shared_bytes <= m.most_shared && l->blocks > 0);
                if (o.kind == KF_EXPERTS_ONE) check_one(l, &t, s.top_k);
                if (o.kind == KF_EXPERTS_FEW_TOKENS)
                    check_few(l, &t, (uint64_t)tokens[i / 108 % 3] * s.top_k, o.has_fours);
            }
        }
    }
    for (int kind = 0; kind <= KF_EXPERTS_BY_SLICES; kind++) assert_true(by[kind] > 1000);
}

/* Items of several tokens are counted in 32 bits, and in as many when they are divided. */
static void too_many_items_are_declined(void **state)
{
    (void)state;
    /* 256 groups of 2^20 tiles, which 64 chunks make 2^34, and 16 are 2^32. */
    kf_experts_few_need n = {.is_down = 1,
                             .share = 2,
                             .is_tight = 1,
                             .tiles = 1 << 20,
                             .slices = 64,
                             .groups = 256,
                             .unit = 4736,
                             .x_stage = 1024,
                             .lists = 4096,
                             .multiprocessors = 1,
                             .most_shared = 90 << 10};
    kf_experts_few_room r;
    assert_false(kf_experts_few_divide(&r, &n));
    n.tiles = 1 << 8;
    assert_true(kf_experts_few_divide(&r, &n));
}

/* Shuffled codes are of nvfp4 and mxfp4, and no other flag is known. */
static void flags_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        unsigned flags;
        kerf_status status;
    } cases[] = {{"nvfp4", KERF_GEMV_SHUFFLED, KERF_OK},
                 {"mxfp4", KERF_GEMV_SHUFFLED, KERF_OK},
                 {"int4-g128", KERF_GEMV_SHUFFLED, KERF_E_NOSUP},
                 {"ggml-mxfp4", KERF_GEMV_SHUFFLED, KERF_E_NOSUP},
                 {"nvfp4", KERF_GEMV_SWIGLU, KERF_E_ARG},
                 {"nvfp4", KERF_GEMV_SHUFFLED | KERF_GEMV_CONSTANT_WEIGHTS, KERF_E_ARG},
                 {"int4-g128", 0, KERF_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kerf_gemv_experts plan = {.shape = {.format = kerf_format_find(cases[i].format),
                                            .experts = 4,
                                            .hidden = 256,
                                            .inter = 128,
                                            .tokens = 1,
                                            .top_k = 2,
                                            .x = KERF_F32,
                                            .y = KERF_F32,
                                            .flags = cases[i].flags}};
        assert_int_equal(kf_gemv_experts_check(&plan, NULL), cases[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_card_has_room),
        cmocka_unit_test(sizes_do_not_wrap),
        cmocka_unit_test(too_many_items_are_declined),
        cmocka_unit_test(flags_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
