/* test_experts_few.c - how the launches of a layer of experts for several tokens are divided,
 * against figures worked out by hand, and what must hold of every division. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/format.h"
#include "plan/experts_plan.h"
#include "plan/gemv_tuning.h"

/* A launch of a format on a machine of an architecture with so many multiprocessors; share: tokens
 * of a group. */
static kf_experts_few_need need_of_share(unsigned share, const char *format, const char *arch,
                                         unsigned sms, int is_down, unsigned hidden, unsigned inter,
                                         unsigned slots)
{
    const kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(kerf_format_find(format)));
    const kf_gemv_machine m = kf_gemv_machine_of(arch, sms, 3000);
    const unsigned cols = is_down ? inter : hidden, rows = is_down ? hidden : inter;
    return (kf_experts_few_need){.is_down = is_down,
                                 .share = share,
                                 .tiles = (rows + 15) / 16,
                                 .slices = (cols + t.stage_codes - 1) / t.stage_codes,
                                 .groups = slots,
                                 .unit = kf_experts_unit(t),
                                 .x_stage = t.stage_codes * 2,
                                 .x_sums = t.stage_sums,
                                 .table = t.table,
                                 .lists = 4096,
                                 .multiprocessors = m.multiprocessors,
                                 .most_shared = m.most_shared};
}

static kf_experts_few_need need_of(const char *format, const char *arch, unsigned sms, int is_down,
                                   unsigned hidden, unsigned inter, unsigned slots)
{
    return need_of_share(2, format, arch, sms, is_down, hidden, inter, slots);
}

static void figures_of_known_layers(void **state)
{
    (void)state;
    kf_experts_few_room r;
    /* Qwen3-30B-A3B, nvfp4, eight tokens: 64 groups at most, of 48 tiles of h and 128 of y. Units
     * have 16 x (256 + 36) bytes, in whole 128; two columns of x are 4 stages of 1 KiB and a gap
     * of 64. */
    kf_experts_few_need n = need_of("nvfp4", "sm_90", 132, 0, 2048, 768, 64);
    assert_true(kf_experts_few_divide(&r, &n));
    assert_int_equal(r.blocks, 264);
    assert_int_equal(r.chunks, 1);
    assert_int_equal(r.x_at, 8 * 2 * 4736);
    assert_int_equal(r.x_pitch, 4 * 1024 + 64);
    assert_int_equal(r.backs_at, r.x_at + 2 * r.x_pitch);
    assert_int_equal(r.most_items, 12); /* 3072 of 264 blocks */
    assert_int_equal(r.bytes, r.sums_at + (2 * 12 + 8) * 128);
    n = need_of("nvfp4", "sm_90", 132, 1, 2048, 768, 64);
    assert_true(kf_experts_few_divide(&r, &n));
    assert_int_equal(r.chunks, 1);
    assert_int_equal(r.most_items, 32);
    /* Mixtral: 28 stages of h for two tokens are 56 KiB, of which two blocks have no room beside
     * their rings; half of them they have. */
    n = need_of("nvfp4", "sm_90", 132, 1, 4096, 14336, 16);
    assert_true(kf_experts_few_divide(&r, &n));
    assert_int_equal(r.blocks, 264);
    assert_int_equal(r.chunks, 2);
    assert_int_equal(r.chunk_stages, 14);
    /* x of gate and up cannot be cut: 40 stages are 80 KiB, which one block has room for. */
    n = need_of("nvfp4", "sm_90", 132, 0, 20480, 2048, 16);
    assert_true(kf_experts_few_divide(&r, &n));
    assert_int_equal(r.blocks, 132);
    /* 128 stages, 256 KiB: none has. */
    n = need_of("nvfp4", "sm_90", 132, 0, 65536, 2048, 16);
    assert_false(kf_experts_few_divide(&r, &n));
    /* 256 groups of eight chunks of 4096 tiles, by 4096 tiles: more than 32 bits hold. */
    n = need_of("nvfp4", "sm_90", 132, 1, 65536, 65536, 256);
    assert_false(kf_experts_few_divide(&r, &n));
    /* In q4_k, stages of 512 elements again: units have 16 x 288 bytes; a stage has 16 groups,
     * whose sums of x take 64 bytes for each column. Two columns' 4 factors come before, in 128
     * bytes. */
    n = need_of("q4_k", "sm_90", 132, 0, 2048, 768, 64);
    assert_true(kf_experts_few_divide(&r, &n));
    assert_int_equal(r.blocks, 264);
    assert_int_equal(r.x_at, 8 * 2 * 4608);
    assert_int_equal(r.x_sums_at - r.backs_at, 128);
    assert_int_equal(r.lists_at - r.x_sums_at, 4 * 2 * 64);
    /* Fewer items than blocks. */
    n = need_of("nvfp4", "sm_90", 132, 0, 2048, 32, 2);
    assert_true(kf_experts_few_divide(&r, &n));
    assert_int_equal(r.blocks, 4);
    assert_int_equal(r.most_items, 1);
}

/* Four tokens of a group: x of gate and up in turns. */
static void figures_of_fours(void **state)
{
    (void)state;
    kf_experts_few_room r;
    /* In q6_k 7168 inputs are 28 stages of 512 bytes, all of which have room of two columns; of
     * four two turns have. */
    kf_experts_few_need n = need_of_share(2, "q6_k", "sm_90", 132, 0, 7168, 14336, 16);
    assert_true(kf_experts_few_divide(&r, &n));
    assert_int_equal(r.chunk_stages, 28);
    n.share = 4;
    assert_true(kf_experts_few_divide(&r, &n));
    assert_int_equal(r.beside, 2);
    assert_int_equal(r.chunks, 1);
    assert_int_equal(r.chunk_stages, 14);
    assert_int_equal(r.x_pitch, 14 * 512 + 64);
    assert_int_equal(r.backs_at, r.x_at + 4 * r.x_pitch);
    /* In q4_k 8 stages of 512 elements, which four tokens' x has room for in one turn; a stage has
     * 16 groups, whose sums of x take 64 bytes for each token. */
    n = need_of_share(4, "q4_k", "sm_90", 132, 0, 4096, 14336, 16);
    assert_true(kf_experts_few_divide(&r, &n));
    assert_int_equal(r.beside, 2);
    assert_int_equal(r.lists_at - r.x_sums_at, r.chunk_stages * 4 * 64);
    /* 29 stages cannot be cut alike: one block. */
    n = need_of_share(4, "q6_k", "sm_90", 132, 0, 29 * 256, 14336, 16);
    assert_true(kf_experts_few_divide(&r, &n));
    assert_int_equal(r.beside, 1);
    assert_int_equal(r.chunk_stages, 29);
    /* Chunks of h need not be alike. */
    n = need_of_share(4, "q6_k", "sm_90", 132, 1, 4096, 14336, 16);
    assert_true(kf_experts_few_divide(&r, &n));
    assert_true(r.chunks > 2);
    assert_int_equal(r.beside, 2);
}

static unsigned share_of(const char *format, unsigned hidden, unsigned inter, unsigned tokens,
                         unsigned top_k, unsigned experts)
{
    kf_experts_few_need n[2];
    for (int i = 0; i < 2; i++)
        n[i] = need_of_share(0, format, "sm_90", 132, i, hidden, inter, tokens * top_k);
    return kf_experts_few_share(n, kf_gemv_tiling_of(kf_spec_of(kerf_format_find(format))), tokens,
                                top_k, experts);
}

/* Which formats have groups of four, and with which tokens. */
static void fours_are_taken_where_they_pay(void **state)
{
    (void)state;
    /* With as many slots as experts the first three, of two bits and of six and more. */
    static const char *const fours[] = {"q6_k",   "ggml-q8_0", "q2_k",       "q3_k",      "q5_0",
                                        "iq4_nl", "iq4_xs",    "ggml-q4_0",  "q4_k",      "q5_k",
                                        "q4_1",   "q5_1",      "ggml-mxfp4", "ggml-nvfp4"};
    static const char *const twos[] = {"nvfp4", "int4-g128"};
    for (size_t i = 0; i < sizeof fours / sizeof *fours; i++) {
        assert_int_equal(share_of(fours[i], 4096, 14336, 8, 2, 8), 4);
        assert_int_equal(share_of(fours[i], 4096, 14336, 5, 2, 8), 4);
        const unsigned as_many = i < 3 ? 4 : 2;
        assert_int_equal(share_of(fours[i], 4096, 14336, 4, 2, 8), as_many);
        assert_int_equal(share_of(fours[i], 2048, 768, 16, 8, 128), as_many);
        assert_int_equal(share_of(fours[i], 4096, 14336, 4, 2, 9), 2);
        assert_int_equal(share_of(fours[i], 2048, 768, 16, 8, 129), 2);
        assert_int_equal(share_of(fours[i], 2048, 768, 8, 8, 128), 2);
    }
    for (size_t i = 0; i < sizeof twos / sizeof *twos; i++)
        for (unsigned tokens = 4; tokens <= 8; tokens += 4)
            assert_int_equal(share_of(twos[i], 4096, 14336, tokens, 2, 8), 2);
    assert_int_equal(share_of("q6_k", 1024, 512, 2, 8, 2), 2); /* a group has two tokens at most */
    assert_int_equal(share_of("q6_k", 29 * 256, 14336, 8, 2, 8), 2);
    assert_int_equal(share_of("q6_k", 65536, 512, 16, 8, 8), 2); /* no room for x of four */
}

static void one_token_where_two_have_no_room(void **state)
{
    (void)state;
    kf_experts_few_room r;
    /* DeepSeek-V3, nvfp4, gate and up, 99 KiB: rings are 75776 bytes and a column of x is 14 stages
     * of 1 KiB with its gap. Two of them and the lists are more than there is. */
    kf_experts_few_need n = need_of("nvfp4", "sm_89", 128, 0, 7168, 2048, 128);
    assert_false(kf_experts_few_divide(&r, &n));
    n.tokens = 1;
    assert_true(kf_experts_few_divide(&r, &n));
    assert_int_equal(r.chunks, 1);
    assert_int_equal(r.chunk_stages, 14);
    assert_int_equal(r.backs_at, 75776 + 14 * 1024 + 64);
    /* What multiplies two columns still has factors and sums of two: 112 bytes, up to 90368. */
    assert_int_equal(r.x_sums_at, 90368);
    assert_int_equal(r.bytes, r.sums_at + (2 * r.most_items + 8) * 128);
    /* Where sums are found an element at a time, columns are read that have no token: of one item,
     * 12 stages of x and a gap, twice, behind rings of 73728 bytes. */
    n = need_of("q4_k", "sm_89", 128, 0, 6144, 16, 1);
    n.tokens = 1;
    assert_true(kf_experts_few_divide(&r, &n));
    assert_int_equal(r.bytes, 73728 + 2 * (12 * 1024 + 64));
}

static void small_parts_at_last(void **state)
{
    (void)state;
    kf_experts_few_room r;
    /* q4_1, by the kernel for four columns: rings of 86016 bytes, three of 12 stages of x of a
     * token, with sums of four columns (768 bytes), lists and slots leave 4224: eight items of 512,
     * whose 48 units are fewer than eight warps should have. Four stages leave five items, 40
     * units; six leave no room. */
    kf_experts_few_need n = need_of_share(4, "q4_1", "sm_89", 128, 0, 6144, 16384, 32);
    n.tokens = 1;
    assert_false(kf_experts_few_divide(&r, &n));
    n.is_tight = 1;
    assert_true(kf_experts_few_divide(&r, &n));
    assert_int_equal(r.chunk_stages, 3);
    assert_int_equal(r.most_items, 8);
}

static void check(const kf_experts_few_need *n, const kf_experts_few_room *r)
{
    const unsigned results = n->is_down ? 1 : 2;
    assert_true(r->blocks >= 1 && r->blocks <= 2 * n->multiprocessors);
    /* Chunks are all of a row, and none is empty; turns of gate and up are alike. */
    assert_true(n->is_down || (r->chunks == 1 && n->slices % r->chunk_stages == 0));
    assert_true(n->is_down || n->share > 2 || r->chunk_stages == n->slices);
    assert_true(!n->is_down || r->chunks * r->chunk_stages >= n->slices);
    assert_true((r->chunks - 1) * r->chunk_stages < n->slices);
    assert_int_equal(r->x_at, 16 * n->unit);
    assert_true(r->x_pitch >= r->chunk_stages * n->x_stage);
    assert_true(r->backs_at >= r->x_at + n->share * r->x_pitch);
    assert_true(r->x_sums_at >= r->backs_at + r->chunk_stages * n->share * 4);
    assert_true(r->lists_at >= r->x_sums_at + r->chunk_stages * n->share * n->x_sums);
    assert_true(r->table_at >= r->lists_at + n->lists);
    assert_true(r->sums_at >= r->table_at + n->table);
    assert_true(r->most_items >= 1);
    assert_true(r->bytes >= r->sums_at + (r->most_items * results + 8) * 64 * n->share);
    assert_true(r->bytes <= n->most_shared);
    if (r->blocks > n->multiprocessors) assert_true(2 * (r->bytes + 1024) <= n->most_shared + 1024);
    assert_true(r->x_at % 128 == 0 && r->lists_at % 128 == 0 && r->sums_at % 16 == 0);
}

static void places_do_not_meet(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        unsigned sms;
    } machines[] = {{"sm_80", 108}, {"sm_89", 142}, {"sm_90", 132}, {"sm_120", 170}, {"sm_90", 1}};
    static const unsigned sizes[] = {16, 48, 768, 2880, 7168, 14336}, slots[] = {1, 16, 64, 256};
    unsigned divided = 0;
    for (size_t f = 0; f < kerf_format_count(); f++) {
        const kerf_format *format = kerf_format_at(f);
        if (!kf_gemv_tiling_of(kf_spec_of(format)).has_few) continue;
        const unsigned most = kf_experts_few_most(kf_gemv_tiling_of(kf_spec_of(format)));
        for (size_t i = 0; i < 5 * 2 * 6 * 6 * 4 * most / 2; i++) {
            const size_t machine = i % 5, rest = i / 10;
            const kf_experts_few_need n = need_of_share(
                rest / 144 ? 4 : 2, format->name, machines[machine].arch, machines[machine].sms,
                i / 5 % 2, sizes[rest % 6], sizes[rest / 6 % 6], slots[rest / 36 % 4]);
            kf_experts_few_room r;
            if (!kf_experts_few_divide(&r, &n)) continue;
            check(&n, &r);
            divided++;
        }
    }
    assert_true(divided > 30000);
}

/* As the kernel divides: the upper half of a product. */
static unsigned quotient(unsigned n, unsigned d)
{
    const uint32_t inverse = kf_inverse(d);
    return inverse ? (unsigned)((uint64_t)n * inverse >> 32) : n;
}

/* Of every need and size of shared memory: what fits, with no more warps than the kernel has. */
static void divisions_by_slices_can_run(void **state)
{
    (void)state;
    unsigned found = 0;
    for (unsigned kib = 48; kib <= 227; kib++)
        for (unsigned unit = 1024; unit <= 8192; unit += 512)
            for (unsigned i = 0; i < 8; i++) {
                const kf_experts_need need = {.mats = 1 + i % 2,
                                              .unit = unit,
                                              .x_bytes = 512u << i / 4,
                                              .lists = 4096,
                                              .scratch = 5120,
                                              .most_shared = kib * 1024 - 1024};
                kf_experts_room r;
                if (!kf_experts_divide(&r, &need, 1 + i % 4)) continue;
                assert_true(r.warps >= 1 && r.warps <= KF_EXPERTS_WARPS);
                assert_true(r.bytes <= need.most_shared);
                found++;
            }
    assert_true(found > 1000);
}

static void inverses_divide(void **state)
{
    (void)state;
    assert_int_equal(kf_inverse(1), 0);
    for (unsigned d = 1; d <= 4096; d++) {
        const unsigned most = (unsigned)(UINT32_MAX / d); /* n x d has 32 bits */
        for (unsigned k = 0; k < 64; k++) {
            const unsigned m = (most / d >> k % 16) * d; /* a multiple, and what is beside it */
            assert_int_equal(quotient(m, d), m / d);
            if (m) assert_int_equal(quotient(m - 1, d), (m - 1) / d);
        }
        assert_int_equal(quotient(most, d), most / d);
    }
    /* The bound is needed: behind it the quotient may be too large. */
    assert_int_not_equal(quotient(4294967294u, 3), 4294967294u / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_token_where_two_have_no_room), cmocka_unit_test(small_parts_at_last),
        cmocka_unit_test(figures_of_known_layers),          cmocka_unit_test(figures_of_fours),
        cmocka_unit_test(fours_are_taken_where_they_pay),   cmocka_unit_test(places_do_not_meet),
        cmocka_unit_test(divisions_by_slices_can_run),      cmocka_unit_test(inverses_divide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
