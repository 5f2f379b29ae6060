/* test_file_foreign.c - weights in forms that kerf has no format for are read as the numbers that
 * their codes and scales stand for. What is expected is computed here, one number at a time, from
 * how other projects define their forms. */
#include <kerf/layouts.h>
#include <math.h>
#include <string.h>

#include "test_output.h"

#include "scalar/minifloat.h"

enum { ROWS = 24, COLS = 64, MOST = 8 };

/* A checkpoint of one weight. */
typedef struct sample {
    kerf_entry entry[MOST];
    void *bytes[MOST];
    size_t count;
    const char *config;
    float want[ROWS][COLS];
} sample;

static void *add(sample *s, const char *name, kerf_dtype dtype, unsigned rank, uint64_t rows,
                 uint64_t cols)
{
    kerf_entry *e = &s->entry[s->count];
    *e = (kerf_entry){name, dtype, {rank, {rows, cols}}, 0};
    s->bytes[s->count] = calloc(entry_bytes(e) + 1, 1);
    assert_non_null(s->bytes[s->count]);
    return s->bytes[s->count++];
}

static unsigned code(unsigned r, unsigned c, unsigned bits)
{
    return (r * 37 + c * 11 + r * c) % (1u << bits);
}

static float scale(unsigned r, unsigned g)
{
    return (float)(1 + (r * 5 + g * 3) % 61) / 64;
}

static uint16_t half_of(float x)
{
    return kf_f16_encode(x);
}

static uint16_t brain_of(float x)
{
    return kf_bf16_encode(x);
}

static void check(void **state, sample *s, const char *form)
{
    const char *path = in_folder(state, "model.safetensors");
    const kerf_writer_options opt = {.overwrite = 1};
    kerf_writer *w;
    kerf_reader *r;
    kerf_weights *all;
    kerf_error err;
    char text[64];
    FILE *config = fopen(in_folder(state, "config.json"), "w");
    assert_non_null(config);
    fprintf(config, "{\"quantization_config\":{%s}}", s->config ? s->config : "");
    assert_int_equal(fclose(config), 0);
    must(kerf_writer_create(path, s->entry, s->count, &opt, &w, &err), &err);
    for (size_t i = 0; i < s->count; i++)
        must(kerf_writer_write(w, i, 0, s->bytes[i], entry_bytes(&s->entry[i]), &err), &err);
    must(kerf_writer_commit(w, &err), &err);
    must(kerf_reader_open(*state, &r, &err), &err);
    must(kerf_weights_open(r, &all, &err), &err);
    const kerf_weight *m = kerf_weights_find(all, "m.weight");
    if (form) {
        assert_int_equal(kerf_weights_count(all), 1);
        assert_non_null(m);
        assert_string_equal(kerf_weight_format(m, text, sizeof text), form);
        uint64_t bytes = 0;
        for (size_t i = 0; i < s->count; i++) bytes += entry_bytes(&s->entry[i]);
        assert_int_equal(kerf_weight_bytes(m), bytes);
        const kerf_tensor *t = kerf_weight_dense(m);
        assert_int_equal(t->dtype, KERF_F32);
        static float got[ROWS][COLS];
        must(kerf_reader_read(r, t, 0, got, sizeof got, &err), &err);
        assert_memory_equal(got, s->want, sizeof got);
        /* from the middle of a row to the middle of another */
        must(kerf_reader_read(r, t, (3 * COLS + 5) * 4, got, 2 * COLS * 4, &err), &err);
        assert_memory_equal(got, &s->want[3][5], 2 * COLS * 4);
    } else if (m && kerf_weight_dense(m)) {
        assert_null(m->plane[0]->view);
    }
    kerf_weights_close(all);
    kerf_reader_close(r);
    for (size_t i = 0; i < s->count; i++) free(s->bytes[i]);
}

/* --- words ---------------------------------------------------------------------------------- */

/* GPTQ: [K / n, N] words, a scale and a zero point for each group of columns. order: 0: no g_idx,
 * 1: as they are, 2: sorted. */
static void make_gptq(sample *s, unsigned bits, unsigned group, int order, unsigned less)
{
    const unsigned n = 32 / bits, groups = COLS / group;
    uint32_t *codes = add(s, "m.qweight", KERF_I32, 2, COLS / n, ROWS);
    uint16_t *scales = add(s, "m.scales", KERF_F16, 2, groups, ROWS);
    uint32_t *zeros = add(s, "m.qzeros", KERF_I32, 2, groups, ROWS / n);
    uint32_t *index = order ? add(s, "m.g_idx", KERF_I32, 1, COLS, 0) : NULL;
    for (unsigned g = 0; g < groups; g++)
        for (unsigned r = 0; r < ROWS; r++) {
            scales[g * ROWS + r] = half_of(scale(r, g));
            zeros[g * (ROWS / n) + r / n] |= (code(r, 7 * g, bits) - less) % (1u << bits)
                                             << r % n * bits;
        }
    for (unsigned c = 0; c < COLS; c++) {
        const unsigned g = order == 2 ? c * 7 % groups : c / group;
        if (index) index[c] = g;
        for (unsigned r = 0; r < ROWS; r++) {
            codes[c / n * ROWS + r] |= code(r, c, bits) << c % n * bits;
            s->want[r][c] =
                (float)((int)code(r, c, bits) - (int)code(r, 7 * g, bits)) * scale(r, g);
        }
    }
}

static void test_gptq(void **state)
{
    static const struct {
        unsigned bits, group;
        int order;
        const char *form;
    } all[] = {{8, 32, 1, "int8-g32-asym-f16"},    {8, 16, 0, "int8-g16-asym-f16"},
               {8, 32, 2, "int8-sorted-asym-f16"}, {4, 16, 1, "int4-g16-asym-f16"},
               {4, 32, 2, "int4-sorted-asym-f16"}, {4, 32, 0, "int4-g32-asym-f16"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (unsigned less = 0; less < 2; less++) {
            sample s = {.config = less ? "\"quant_method\":\"gptq\""
                                       : "\"quant_method\":\"gptq\",\"checkpoint_format\":"
                                         "\"gptq_v2\""};
            make_gptq(&s, all[i].bits, all[i].group, all[i].order, less);
            check(state, &s, all[i].form);
        }
}

/* Zero points that are all the same. Stored as the middle, 8, or as the first version stores it, 7,
 * they say themselves of which version they are where config.json does not; where it does, 7 of the
 * second version are 7. */
static void test_gptq_middle(void **state)
{
    static const struct {
        const char *config;
        unsigned stored, zero;
        const char *form;
    } all[] = {
        {NULL, 7, 8, "int4-g16-f16"},
        {NULL, 8, 8, "int4-g16-f16"},
        {"\"quant_method\":\"gptq\",\"checkpoint_format\":\"gptq_v2\"", 8, 8, "int4-g16-f16"},
        {"\"quant_method\":\"gptq\",\"checkpoint_format\":\"gptq_v2\"", 7, 7, "int4-g16-asym-f16"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sample s = {.config = all[i].config};
        make_gptq(&s, 4, 16, 0, 1);
        memset(s.bytes[2], (int)(all[i].stored * 0x11), entry_bytes(&s.entry[2]));
        for (unsigned c = 0; c < COLS; c++)
            for (unsigned r = 0; r < ROWS; r++)
                s.want[r][c] = (float)((int)code(r, c, 4) - (int)all[i].zero) * scale(r, c / 16);
        check(state, &s, all[i].form);
    }
}

/* A folder that says columns are in order, groups that are not there, words beside a dense weight.
 */
static void test_gptq_refused(void **state)
{
    sample s = {.config = "\"quant_method\":\"gptq\",\"desc_act\":false"};
    make_gptq(&s, 4, 32, 2, 1);
    check(state, &s, NULL);
    sample far = {0};
    make_gptq(&far, 4, 32, 2, 1);
    ((uint32_t *)far.bytes[3])[9] = 2;
    check(state, &far, NULL);
    sample twice = {0};
    make_gptq(&twice, 4, 32, 2, 1);
    add(&twice, "m.weight", KERF_BF16, 2, ROWS, COLS);
    check(state, &twice, NULL);
}

/* AWQ: [K, N / 8] words, the rows of a word in the order 0 2 4 6 1 3 5 7. */
static void test_awq(void **state)
{
    static const unsigned order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    sample s = {0};
    uint32_t *codes = add(&s, "m.qweight", KERF_I32, 2, COLS, ROWS / 8);
    uint16_t *scales = add(&s, "m.scales", KERF_F16, 2, 4, ROWS);
    uint32_t *zeros = add(&s, "m.qzeros", KERF_I32, 2, 4, ROWS / 8);
    for (unsigned r = 0; r < ROWS; r += 8)
        for (unsigned i = 0; i < 8; i++) {
            const unsigned row = r + order[i];
            for (unsigned g = 0; g < 4; g++) {
                scales[g * ROWS + row] = half_of(scale(row, g));
                zeros[g * (ROWS / 8) + r / 8] |= code(row, 7 * g, 4) << 4 * i;
            }
            for (unsigned c = 0; c < COLS; c++) {
                codes[c * (ROWS / 8) + r / 8] |= code(row, c, 4) << 4 * i;
                s.want[row][c] = (float)((int)code(row, c, 4) - (int)code(row, 7 * (c / 16), 4)) *
                                 scale(row, c / 16);
            }
        }
    check(state, &s, "int4-g16-asym-f16");
}

/* compressed-tensors: [N, K / n] words; zero points packed along rows, else the middle. */
static void make_ct(sample *s, unsigned bits, int is_sorted, int has_zeros)
{
    const unsigned n = 32 / bits, groups = 4;
    uint32_t *codes = add(s, "m.weight_packed", KERF_I32, 2, ROWS, COLS / n);
    uint16_t *scales = add(s, "m.weight_scale", KERF_BF16, 2, ROWS, groups);
    int64_t *shape = add(s, "m.weight_shape", KERF_I64, 1, 2, 0);
    uint32_t *zeros =
        has_zeros ? add(s, "m.weight_zero_point", KERF_I32, 2, ROWS / n, groups) : NULL;
    uint32_t *index = is_sorted ? add(s, "m.weight_g_idx", KERF_I32, 1, COLS, 0) : NULL;
    shape[0] = ROWS;
    shape[1] = COLS;
    for (unsigned r = 0; r < ROWS; r++) {
        for (unsigned g = 0; g < groups; g++) {
            scales[r * groups + g] = brain_of(scale(r, g));
            if (zeros) zeros[r / n * groups + g] |= code(r, 7 * g, bits) << r % n * bits;
        }
        for (unsigned c = 0; c < COLS; c++) {
            const unsigned g = is_sorted ? c * 3 % groups : c / (COLS / groups);
            const int zero = zeros ? (int)code(r, 7 * g, bits) : 1 << (bits - 1);
            if (index) index[c] = g;
            codes[r * (COLS / n) + c / n] |= code(r, c, bits) << c % n * bits;
            s->want[r][c] = (float)((int)code(r, c, bits) - zero) * scale(r, g);
        }
    }
}

static void test_compressed_tensors(void **state)
{
    for (unsigned bits = 4; bits <= 8; bits += 4)
        for (int is_sorted = 0; is_sorted < 2; is_sorted++)
            for (int zeros = 0; zeros < 2; zeros++) {
                char form[64];
                sample s = {0};
                make_ct(&s, bits, is_sorted, zeros);
                snprintf(form, sizeof form, "int%u-%s%s", bits, is_sorted ? "sorted" : "g16",
                         zeros ? "-asym" : "");
                check(state, &s, form);
            }
}

/* --- bytes ---------------------------------------------------------------------------------- */

/* down x across scales of a matrix of bytes; 0 x 0: one, of shape []. */
static void make_bytes(sample *s, kerf_dtype dtype, const char *scale_name, kerf_dtype scale_dtype,
                       unsigned down, unsigned across, unsigned high, unsigned wide, int has_zeros)
{
    unsigned char *codes = add(s, "m.weight", dtype, 2, ROWS, COLS);
    unsigned char *scales = add(s, scale_name, scale_dtype, down ? 2 : 0, down, across);
    signed char *zeros = has_zeros ? add(s, "m.weight_zero_point", KERF_I8, 2, down, across) : NULL;
    for (unsigned i = 0; i < (down ? down * across : 1); i++) {
        const float x = scale_dtype == KERF_F8_E8M0 ? ldexpf(1, (int)i - 9) : scale(i, i / 3);
        const unsigned char exponent = (unsigned char)(i - 9 + 127);
        memcpy(scales + i * kerf_dtype_bits(scale_dtype) / 8,
               scale_dtype == KERF_F8_E8M0 ? (const void *)&exponent : &x,
               kerf_dtype_bits(scale_dtype) / 8);
        if (zeros) zeros[i] = (signed char)(5 * i - 40);
    }
    for (unsigned r = 0; r < ROWS; r++)
        for (unsigned c = 0; c < COLS; c++) {
            const unsigned i = down ? r / high * across + c / wide : 0, k = code(r, c, 8);
            unsigned char byte = (unsigned char)k;
            if (dtype != KERF_I8 && (byte & 0x7f) >= 0x7b) byte = 0x40; /* no NaN, no infinity */
            codes[r * COLS + c] = byte;
            const float x = dtype == KERF_I8        ? (float)(signed char)byte
                            : dtype == KERF_F8_E4M3 ? kf_e4m3_decode(byte)
                                                    : kf_e5m2_decode(byte);
            const float zero = zeros ? (float)(signed char)(5 * i - 40) : 0;
            const float by = scale_dtype == KERF_F8_E8M0 ? ldexpf(1, (int)i - 9) : scale(i, i / 3);
            s->want[r][c] = (x - zero) * by;
        }
}

static void test_bytes(void **state)
{
    sample one = {0};
    make_bytes(&one, KERF_I8, "m.weight_scale", KERF_F32, 0, 0, ROWS, COLS, 0);
    check(state, &one, "int8-tensor");
    sample rows = {0};
    make_bytes(&rows, KERF_I8, "m.weight_scale", KERF_F32, ROWS, 1, 1, COLS, 1);
    check(state, &rows, "int8-row-asym");
    sample groups = {.config = "\"quant_method\":\"compressed-tensors\""};
    make_bytes(&groups, KERF_I8, "m.weight_scale", KERF_F32, ROWS, 4, 1, 16, 1);
    check(state, &groups, "int8-g16-asym");
    /* may as well be two codes in each byte */
    sample unsaid = {0};
    make_bytes(&unsaid, KERF_I8, "m.weight_scale", KERF_F32, ROWS, 4, 1, 16, 0);
    check(state, &unsaid, NULL);
}

static void test_tiles(void **state)
{
    sample s = {0};
    make_bytes(&s, KERF_F8_E4M3, "m.weight_scale_inv", KERF_F32, 2, 4, 16, 16, 0);
    check(state, &s, "fp8-e4m3-16x16"); /* the lower ones are cut */
    sample wide = {0};
    make_bytes(&wide, KERF_F8_E4M3, "m.weight_scale_inv", KERF_F32, ROWS, 2, 1, 32, 0);
    check(state, &wide, "fp8-e4m3-g32");
    sample exponents = {0};
    make_bytes(&exponents, KERF_F8_E4M3, "m.scale", KERF_F8_E8M0, 3, 2, 8, 32, 0);
    check(state, &exponents, "fp8-e4m3-8x32");
    sample other = {0};
    make_bytes(&other, KERF_F8_E5M2, "m.weight_scale_inv", KERF_F32, ROWS, 1, 1, COLS, 0);
    check(state, &other, "fp8-e5m2-row");
    sample said = {.config = "\"quant_method\":\"fp8\",\"weight_block_size\":[10,48]"};
    make_bytes(&said, KERF_F8_E4M3, "m.weight_scale_inv", KERF_F32, 3, 2, 10, 48, 0);
    check(state, &said, "fp8-e4m3-10x48");
    sample more = {0};
    make_bytes(&more, KERF_F8_E4M3, "m.weight_scale", KERF_F32, 2, 4, 16, 16, 0);
    *(float *)add(&more, "m.weight_scale_2", KERF_F32, 0, 0, 0) = 2;
    check(state, &more, NULL);
}

/* Tiles of 128 x 128, which kerf has a format for: bands are 128 rows high, and reads may begin and
 * end within one. */
static void test_parts_of_bands(void **state)
{
    enum { HIGH = 300, WIDE = 200 };
    static float want[HIGH * WIDE], got[HIGH * WIDE];
    static const struct {
        uint64_t first, count;
    } reads[] = {{0, HIGH * WIDE},
                 {5 * WIDE, 3 * WIDE},
                 {127 * WIDE + 7, 2 * WIDE},
                 {130 * WIDE + 199, 150 * WIDE},
                 {299 * WIDE, WIDE}};
    sample s = {.config = "\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]"};
    unsigned char *codes = add(&s, "m.weight", KERF_F8_E4M3, 2, HIGH, WIDE);
    float *scales = add(&s, "m.weight_scale_inv", KERF_F32, 2, 3, 2);
    const kerf_writer_options opt = {.overwrite = 1};
    kerf_writer *w;
    kerf_reader *r;
    kerf_weights *all;
    kerf_error err;
    for (unsigned i = 0; i < 6; i++) scales[i] = scale(i, 2);
    for (unsigned i = 0; i < HIGH * WIDE; i++) {
        codes[i] = (unsigned char)code(i / WIDE, i % WIDE, 6);
        want[i] = kf_e4m3_decode(codes[i]) * scales[i / WIDE / 128 * 2 + i % WIDE / 128];
    }
    must(
        kerf_writer_create(in_folder(state, "model.safetensors"), s.entry, s.count, &opt, &w, &err),
        &err);
    for (size_t i = 0; i < s.count; i++)
        must(kerf_writer_write(w, i, 0, s.bytes[i], entry_bytes(&s.entry[i]), &err), &err);
    must(kerf_writer_commit(w, &err), &err);
    FILE *config = fopen(in_folder(state, "config.json"), "w");
    assert_non_null(config);
    fprintf(config, "{\"quantization_config\":{%s}}", s.config);
    assert_int_equal(fclose(config), 0);
    must(kerf_reader_open(*state, &r, &err), &err);
    must(kerf_weights_open(r, &all, &err), &err);
    const kerf_weight *m = kerf_weights_find(all, "m.weight");
    assert_true(m && m->codec.format == kerf_format_find("fp8-e4m3-128x128"));
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        const size_t bytes = (size_t)reads[i].count * sizeof *got;
        must(kerf_reader_read(r, kerf_weight_dense(m), reads[i].first * 4, got, bytes, &err), &err);
        assert_memory_equal(got, want + reads[i].first, bytes);
    }
    kerf_weights_close(all);
    kerf_reader_close(r);
    for (size_t i = 0; i < s.count; i++) free(s.bytes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gptq),
        cmocka_unit_test(test_gptq_refused),
        cmocka_unit_test(test_gptq_middle),
        cmocka_unit_test(test_awq),
        cmocka_unit_test(test_compressed_tensors),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_parts_of_bands),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
