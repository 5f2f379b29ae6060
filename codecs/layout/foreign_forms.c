/* foreign_forms.c - which forms there are of weights that kerf has no format for. One is told by
 * the names, types and shapes of its tensors; config.json decides where these leave two open: the
 * version of GPTQ, the tiles of FP8, what bytes with groups of scales are. */
#include "layout/foreign_forms.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "layout/config_file.h"
#include "layout/weight_shape.h"

/* --- forms ---------------------------------------------------------------------------------- */

typedef enum form_kind { GPTQ, AWQ, CT_WORDS, BYTES, MLX } form_kind;

static const struct {
    form_kind kind;
    const char *suffix[KF_PARTS]; /* NULL: it has no such part */
    const char *tail;             /* how the weight is named   */
} forms[] = {
    {GPTQ, {".qweight", ".scales", ".qzeros", ".g_idx", NULL}, ".weight"},
    {AWQ, {".qweight", ".scales", ".qzeros", NULL, NULL}, ".weight"},
    {CT_WORDS,
     {".weight_packed", ".weight_scale", ".weight_zero_point", ".weight_g_idx", ".weight_shape"},
     ".weight"},
    {BYTES, {".weight", ".weight_scale", ".weight_zero_point", NULL, NULL}, ".weight"},
    {BYTES, {".weight", ".weight_scale_inv", NULL, NULL, NULL}, ".weight"},
    {BYTES, {".weight._data", ".weight._scale", NULL, NULL, NULL}, ".weight"}, /* Quanto */
    {BYTES, {"_proj", "_proj_scale_inv", NULL, NULL, NULL}, "_proj"},          /* stacks */
    {BYTES, {"_proj", "_proj_scale", NULL, NULL, NULL}, "_proj"},
    {MLX, {".weight", ".scales", ".biases", NULL, NULL}, ".weight"},
};

/* What beside a weight says that its numbers are more than codes and scales. */
static const char *const more[] = {"_scale_2", "_global_scale", "_offset",
                                   ".SCB",     "_codebook",     ".quant_state.bitsandbytes__nf4"};

/* The row whose code stands n-th in a word. */
static const char in_order[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                  16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
static const char awq_order[8] = {0, 2, 4, 6, 1, 3, 5, 7};

static const kf_part words_turned = {.form = KF_FORM_TURNED_WORDS, .coding = KF_REORDERED};
static const kf_part plain_turned = {.form = KF_FORM_TURNED, .coding = KF_REORDERED};
static const kf_part stack_turned[2] = {
    {.form = KF_FORM_TURNED_STACK, .coding = KF_REORDERED},
    {.form = KF_FORM_TURNED_STACK, .coding = KF_REORDERED, .less = 1}};
static const kf_part stack = {.form = KF_FORM_STACK, .coding = KF_REORDERED};

/* `cols` elements of `size` bytes for each row, or for 32 / bits rows at once. */
static kf_foreign_rows ordered(const kf_foreign_parts *f, const kf_part *part, uint64_t cols,
                               unsigned size, uint64_t row_bytes, const char *order)
{
    kf_foreign_rows out = {.is_ordered = 1, .row_bytes = row_bytes};
    const int packs = part->form == KF_FORM_TURNED_STACK || part->form == KF_FORM_STACK;
    const unsigned per_unit = packs ? 32 / f->bits : 1;
    out.order = (kf_turned){.part = part,
                            .rows = f->rows,
                            .row_bytes = row_bytes,
                            .units = (f->rows + per_unit - 1) / per_unit,
                            .cols = cols,
                            .per_unit = per_unit,
                            .size = size,
                            .bits = packs ? f->bits : 8 * size,
                            .is_turned = part->form != KF_FORM_STACK};
    for (unsigned i = 0; i < per_unit; i++)
        out.order.position[(unsigned char)order[i]] = (unsigned char)i;
    return out;
}

static int is_scale_type(kerf_dtype t)
{
    return t == KERF_F32 || t == KERF_F16 || t == KERF_BF16;
}

static int is_matrix(const kerf_tensor *t, kerf_dtype dtype, uint64_t rows, uint64_t cols)
{
    return t->dtype == dtype && t->shape.rank == 2 && t->shape.dim[0] == rows &&
           t->shape.dim[1] == cols;
}

static uint64_t packed_bytes(const kf_foreign_parts *f, uint64_t codes)
{
    return (codes * f->bits + 7) / 8;
}

/* Bits, rows, columns and groups are known: groups of equal size, or one for each column. */
static int take_groups(kf_foreign_parts *f)
{
    const kerf_tensor *g = f->part[KF_PART_GROUPS];
    f->is_unsigned = 1;
    f->middle = 1u << (f->bits - 1);
    f->tile_rows = 1;
    if (!f->rows || !f->cols || !f->across) return 0;
    if (g && (g->dtype != KERF_I32 || g->shape.rank != 1 || g->shape.dim[0] != f->cols)) return 0;
    if (!g && f->cols % f->across) return 0;
    f->tile_cols = (f->cols + f->across - 1) / f->across;
    return 1;
}

/* Bits of codes that fill `words` words, one after the other; 0: none. */
static unsigned exact_bits(uint64_t words, uint64_t codes)
{
    static const unsigned all[] = {2, 3, 4, 8};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (codes <= UINT64_MAX / 8 && words <= UINT64_MAX / 32 && words * 32 == codes * all[i])
            return all[i];
    return 0;
}

/* Bits of codes of which `words` words hold `codes`; 0: not 2, 4 or 8. */
static unsigned bits_of(uint64_t words, uint64_t codes)
{
    for (unsigned bits = 2; bits <= 8; bits *= 2)
        if (codes <= UINT64_MAX / 8 && words == (codes * bits + 31) / 32) return bits;
    return 0;
}

/* [words of columns, rows], scales [groups, rows], zero points [groups, words of rows]. AWQ's codes
 * stand like its zero points: [columns, words of rows]. */
static int take_turned(kf_foreign_parts *f, form_kind kind, int is_second)
{
    const kerf_tensor *codes = f->part[KF_PART_CODES], *scales = f->part[KF_PART_SCALES],
                      *zeros = f->part[KF_PART_ZEROS];
    if (!zeros || codes->shape.rank != 2 || scales->shape.rank != 2 ||
        !is_scale_type(scales->dtype))
        return 0;
    f->across = scales->shape.dim[0];
    f->rows = scales->shape.dim[1];
    const uint64_t words = zeros->shape.rank == 2 ? zeros->shape.dim[1] : 0;
    f->bits = exact_bits(words, f->rows);
    const unsigned size = kerf_dtype_bits(scales->dtype) / 8;
    if (!f->bits || !is_matrix(zeros, KERF_I32, f->across, words)) return 0;
    const int is_awq = kind == AWQ;
    if (codes->shape.dim[1] != (is_awq ? words : f->rows) || (is_awq && f->bits != 4)) return 0;
    f->cols = codes->shape.dim[0];
    if (!is_awq && (!kf_mul_ok(f->cols, 32, &f->cols) || f->cols % f->bits)) return 0;
    if (!is_awq) f->cols /= f->bits;
    if (!take_groups(f)) return 0;
    const char *order = is_awq ? awq_order : in_order;
    const uint64_t bytes = packed_bytes(f, f->cols), zero_bytes = packed_bytes(f, f->across);
    f->rows_of[KF_PART_CODES] =
        is_awq ? ordered(f, &stack_turned[0], f->cols, 4, bytes, order)
               : ordered(f, &words_turned, codes->shape.dim[0], 4, bytes, order);
    f->rows_of[KF_PART_SCALES] =
        ordered(f, &plain_turned, f->across, size, f->across * size, order);
    f->less = !is_awq && !is_second;
    f->is_stream = 32 % f->bits != 0;
    f->rows_of[KF_PART_ZEROS].row_bytes = f->across; /* of a stream: a byte for each */
    if (!f->is_stream)
        f->rows_of[KF_PART_ZEROS] =
            ordered(f, &stack_turned[f->less], f->across, 4, zero_bytes, order);
    return 1;
}

/* [rows, words of columns], scales [rows, groups], zero points [words of rows, groups]. */
static int take_words(const kerf_reader *r, kf_foreign_parts *f, kerf_status *status,
                      kerf_error *err)
{
    const kerf_tensor *codes = f->part[KF_PART_CODES], *scales = f->part[KF_PART_SCALES],
                      *zeros = f->part[KF_PART_ZEROS];
    uint64_t dim[KERF_MAX_RANK];
    int is_shape;
    if (!f->part[KF_PART_SHAPE]) return 0;
    *status = kf_weight_shape_read(r, f->part[KF_PART_SHAPE], 2, dim, &is_shape, err);
    if (*status != KERF_OK || !is_shape || codes->shape.rank != 2 || scales->shape.rank != 2)
        return 0;
    f->rows = dim[0];
    f->cols = dim[1];
    f->across = scales->shape.dim[1];
    f->bits = bits_of(codes->shape.dim[1], f->cols);
    if (!f->bits || codes->shape.dim[0] != f->rows || scales->shape.dim[0] != f->rows ||
        !is_scale_type(scales->dtype) || !take_groups(f))
        return 0;
    f->rows_of[KF_PART_CODES].row_bytes = 4 * codes->shape.dim[1];
    f->rows_of[KF_PART_SCALES].row_bytes = f->across * kerf_dtype_bits(scales->dtype) / 8;
    if (!zeros) return 1;
    const unsigned per_word = 32 / f->bits;
    f->rows_of[KF_PART_ZEROS] =
        ordered(f, &stack, f->across, 4, packed_bytes(f, f->across), in_order);
    return is_matrix(zeros, KERF_I32, (f->rows + per_word - 1) / per_word, f->across);
}

/* How long the groups are into which n is cut; 0: no length fits. The last one may be short where
 * tiles are, whose length config.json says, or is a power of two: of these, one fits. */
static uint64_t length_of(uint64_t n, uint64_t groups, uint64_t said, int may_be_short)
{
    if (groups == 0 || groups > n) return 0;
    if (groups == 1 || groups == n) return n / groups;
    if (!may_be_short) return n % groups ? 0 : n / groups;
    if (said && said < n && (n + said - 1) / said == groups) return said;
    for (uint64_t length = 1; length < n; length *= 2)
        if ((n + length - 1) / length == groups) return length;
    return 0;
}

static uint64_t tiles_of(uint64_t n, uint64_t length)
{
    return n / length + (n % length != 0);
}

/* Scales as config.json would have them of the matrix with its axes the other way round: by their
 * number alone they are tiles of another size, and all numbers would be wrong. */
static int is_turned_grid(const kf_foreign_parts *f, uint64_t down, const kf_foreign *folder)
{
    const uint64_t *tile = folder->tile;
    if (!tile[0] || !tile[1] || down < 2 || f->across < 2) return 0;
    return down == tiles_of(f->cols, tile[1]) && f->across == tiles_of(f->rows, tile[0]) &&
           (down != tiles_of(f->rows, tile[0]) || f->across != tiles_of(f->cols, tile[1]));
}

/* A tile may be as high or as wide as what is left of the matrix. */
static int is_tile_of(const kf_foreign_parts *f, const kf_foreign *folder)
{
    return f->tile_rows == kf_min_u64(folder->tile[0], f->rows) &&
           f->tile_cols == kf_min_u64(folder->tile[1], f->cols);
}

/* Codes of a byte; scales [], [1], [rows], [rows, groups] or of tiles; zero points beside them. */
static int take_bytes(kf_foreign_parts *f, const kf_foreign *folder)
{
    const kerf_tensor *codes = f->part[KF_PART_CODES], *scales = f->part[KF_PART_SCALES],
                      *zeros = f->part[KF_PART_ZEROS];
    const int is_fp8 = codes->dtype == KERF_F8_E4M3 || codes->dtype == KERF_F8_E5M2;
    const kerf_shape *s = &scales->shape;
    const int is_stack = codes->shape.rank == 3 && s->rank == 3;
    if (codes->shape.rank != 2 + (unsigned)is_stack || s->rank > codes->shape.rank) return 0;
    if (is_stack && s->dim[0] != codes->shape.dim[0]) return 0;
    /* exponents, also as bytes, where a writer had no such type */
    const int is_exponents =
        scales->dtype == KERF_F8_E8M0 || (scales->dtype == KERF_U8 && s->rank == 2);
    if (!is_scale_type(scales->dtype) && !(is_fp8 && is_exponents)) return 0;
    f->shape = codes->shape;
    f->rows = codes->shape.dim[is_stack];
    f->cols = codes->shape.dim[is_stack + 1];
    f->bits = 8;
    f->element = codes->dtype == KERF_I8        ? KERF_ELEM_S8
                 : codes->dtype == KERF_F8_E4M3 ? KERF_ELEM_E4M3
                                                : KERF_ELEM_E5M2;
    if (!f->rows || !f->cols) return 0;
    uint64_t down = s->rank ? s->dim[is_stack] : 1;
    f->across = s->rank > 1 ? s->dim[is_stack + 1] : 1;
    /* integers in tiles, which config.json must name: two codes of 4 bits, and FP8, look alike */
    const int is_tiled = folder->is_int8 && folder->tile[0] > 1 && folder->tile[1] > 1;
    f->tile_rows = length_of(f->rows, down, folder->tile[0], is_fp8 || is_tiled);
    f->tile_cols = length_of(f->cols, f->across, folder->tile[1], is_fp8 || is_tiled);
    if (!f->tile_rows || !f->tile_cols || is_turned_grid(f, down, folder)) return 0;
    if (is_stack) { /* below each other, in whole tiles, of the size that config.json says */
        if (f->tile_rows != folder->tile[0] || f->tile_cols != folder->tile[1] ||
            f->rows % f->tile_rows || !kf_mul_ok(f->rows, s->dim[0], &f->rows) ||
            !kf_mul_ok(down, s->dim[0], &down))
            return 0;
    }
    if (!is_fp8 && f->across > 1 && !folder->is_ct && !(is_tiled && is_tile_of(f, folder)))
        return 0;
    f->rows_of[KF_PART_CODES].row_bytes = f->cols;
    f->rows_of[KF_PART_SCALES].row_bytes = f->across * kerf_dtype_bits(scales->dtype) / 8;
    f->rows_of[KF_PART_ZEROS].row_bytes = f->across;
    return !zeros || (!is_fp8 && zeros->dtype == KERF_I8 && zeros->bytes == down * f->across);
}

/* MLX's numbers for a module, where config.json has them: of all, or of this one. */
static uint64_t mlx_number(const kf_foreign *folder, const char *module, const char *key)
{
    const json_t *own = json_object_get(json_object_get(folder->mlx, module), key);
    const json_int_t n = json_integer_value(own ? own : json_object_get(folder->mlx, key));
    return n > 0 && n <= 1 << 20 ? (uint64_t)n : 0;
}

/* [..., words of columns], scales and biases [..., groups]: codes follow each other in the words.
 */
static int take_mlx(kf_foreign_parts *f, const kf_foreign *folder)
{
    const kerf_tensor *codes = f->part[KF_PART_CODES], *scales = f->part[KF_PART_SCALES],
                      *biases = f->part[KF_PART_ZEROS];
    char module[KF_NAME_ROOM];
    const unsigned last = codes->shape.rank - 1;
    snprintf(module, sizeof module, "%.*s", (int)(strlen(codes->name) - strlen(".weight")),
             codes->name);
    f->bits = (unsigned)mlx_number(folder, module, "bits");
    f->tile_cols = mlx_number(folder, module, "group_size");
    if (!biases || last < 1 || last > 2 || f->bits < 2 || f->bits > 8 || !f->tile_cols) return 0;
    if (!kerf_shape_equal(&scales->shape, &biases->shape) || scales->shape.rank != last + 1 ||
        !is_scale_type(scales->dtype) || biases->dtype != scales->dtype)
        return 0;
    for (unsigned i = 0; i < last; i++)
        if (codes->shape.dim[i] != scales->shape.dim[i]) return 0;
    uint64_t bits, in_words;
    f->shape = codes->shape;
    f->across = scales->shape.dim[last];
    if (!kf_mul_ok(f->across, f->tile_cols, &f->cols) || !kf_mul_ok(f->cols, f->bits, &bits) ||
        !kf_mul_ok(codes->shape.dim[last], 32, &in_words) || bits != in_words)
        return 0;
    f->shape.dim[last] = f->cols;
    f->rows = codes->shape.dim[0];
    if (last == 2 && !kf_mul_ok(f->rows, codes->shape.dim[1], &f->rows)) return 0;
    if (!f->rows || !f->cols) return 0;
    f->is_unsigned = f->is_biased = 1;
    f->tile_rows = 1;
    f->rows_of[KF_PART_CODES].row_bytes = bits / 8;
    f->rows_of[KF_PART_SCALES].row_bytes = f->rows_of[KF_PART_ZEROS].row_bytes =
        f->across * kerf_dtype_bits(scales->dtype) / 8;
    return 1;
}

/* --- one weight ----------------------------------------------------------------------------- */

static kerf_status ask_folder(const kerf_reader *r, kf_foreign *folder, kerf_error *err)
{
    const kerf_layout *layout;
    json_t *config;
    if (folder->asked++) return KERF_OK;
    KF_TRY(kerf_layout_configured(r, &layout, err));
    folder->is_second = layout == &kf_layouts[KF_LAYOUT_GPTQ_V2];
    folder->is_ct = layout == &kf_layouts[KF_LAYOUT_COMPRESSED_TENSORS] ||
                    layout == &kf_layouts[KF_LAYOUT_CT_NAIVE];
    KF_TRY(layout ? kf_config_load(r, "config.json", &config, err)
                  : kf_config_load_sound(r, "config.json", &config, err));
    const json_t *q = kf_config_quantization(config, NULL);
    const json_t *mlx = json_object_get(config, "quantization"); /* it has both, mostly */
    folder->mlx = json_incref((json_t *)(json_is_object(mlx) ? mlx : q));
    const json_t *size = json_object_get(q, "weight_block_size");
    const char *method = json_string_value(json_object_get(q, "quant_method"));
    folder->is_int8 = method && strstr(method, "int8") != NULL; /* blockwise_int8 */
    folder->in_order = json_is_false(json_object_get(q, "desc_act"));
    for (size_t i = 0; i < 2; i++) {
        const json_int_t n = json_integer_value(json_array_get(size, i));
        folder->tile[i] = n > 0 ? (uint64_t)n : 0;
    }
    json_decref(config);
    return KERF_OK;
}

void kf_foreign_close(kf_foreign *folder)
{
    json_decref(folder->mlx);
    folder->mlx = NULL;
}

static int takes_codes(form_kind kind, kerf_dtype t)
{
    if (kind == MLX) return t == KERF_U32;
    if (kind != BYTES) return t == KERF_I32;
    return t == KERF_I8 || t == KERF_F8_E4M3 || t == KERF_F8_E5M2;
}

/* Finds the parts; 0: codes or scales of this form are not there, or there is more. */
static int find_parts(const kerf_reader *r, size_t form, const kerf_tensor *codes,
                      kf_foreign_parts *f)
{
    char name[KF_NAME_ROOM];
    const char *const *suffix = forms[form].suffix;
    if (!takes_codes(forms[form].kind, codes->dtype) ||
        !kf_has_suffix(codes->name, suffix[KF_PART_CODES]))
        return 0;
    const int n = (int)(strlen(codes->name) - strlen(suffix[KF_PART_CODES]));
    *f = (kf_foreign_parts){.part = {codes}};
    for (int i = KF_PART_SCALES; i < KF_PARTS; i++) {
        snprintf(name, sizeof name, "%.*s%s", n, codes->name, suffix[i] ? suffix[i] : "");
        f->part[i] = suffix[i] ? kerf_reader_find(r, name) : NULL;
        if (!f->part[i] && i == KF_PART_SCALES) f->part[i] = kf_find_alias(r, name);
    }
    snprintf(name, sizeof name, "%.*s%s", n, codes->name, forms[form].tail);
    const kerf_tensor *own = kerf_reader_find(r, name); /* the name must be free */
    if (own && own != codes) return 0;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        snprintf(name, sizeof name, "%.*s%s%s", n, codes->name, forms[form].tail, more[i]);
        const kerf_tensor *t = kerf_reader_find(r, name);
        if (t && t != f->part[KF_PART_SCALES]) return 0;
    }
    return f->part[KF_PART_SCALES] != NULL;
}

/* Whether all zero points are the middle as this version stores it: then codes are symmetric, and
 * the version is known. */
static kerf_status are_middle(const kerf_reader *r, const kf_foreign_parts *f, int is_second,
                              int *all, kerf_error *err)
{
    const kerf_tensor *t = f->part[KF_PART_ZEROS];
    const uint32_t value = f->middle - !is_second;
    uint32_t words[1020],
        middle[3] = {0}; /* codes of 3 bits fill three words, and 1020 is so many */
    for (unsigned bit = 0; bit < 96; bit++)
        middle[bit / 32] |= (value >> bit % f->bits & 1) << bit % 32;
    *all = t->bytes > 0;
    for (uint64_t at = 0; *all && at < t->bytes; at += sizeof words) {
        const size_t n = (size_t)kf_min_u64(sizeof words, t->bytes - at);
        KF_TRY(kerf_reader_read(r, t, at, words, n, err));
        for (size_t i = 0; i < n / sizeof *words; i++) *all &= words[i] == middle[i % 3];
    }
    return KERF_OK;
}

static kerf_status take_gptq(const kerf_reader *r, const kf_foreign *folder, kf_foreign_parts *f,
                             int *found, kerf_error *err)
{
    int is_second = folder->is_second;
    *found = take_turned(f, GPTQ, is_second);
    if (!*found) return KERF_OK;
    KF_TRY(are_middle(r, f, is_second, &f->is_symmetric, err));
    if (is_second || f->is_symmetric) return KERF_OK;
    KF_TRY(are_middle(r, f, 1, &is_second, err));
    if (is_second) f->is_symmetric = *found = take_turned(f, GPTQ, 1);
    return KERF_OK;
}

static kerf_status take_form(const kerf_reader *r, size_t form, const kf_foreign *folder,
                             kf_foreign_parts *f, int *found, kerf_error *err)
{
    kerf_status s = KERF_OK;
    switch (forms[form].kind) {
    case GPTQ: return take_gptq(r, folder, f, found, err);
    case AWQ: *found = take_turned(f, AWQ, 0); break;
    case CT_WORDS: *found = take_words(r, f, &s, err); break;
    case BYTES: *found = take_bytes(f, folder); break;
    case MLX: *found = take_mlx(f, folder); break;
    }
    return s;
}

kerf_status kf_foreign_find(const kerf_reader *r, kf_foreign *folder, const kerf_tensor *codes,
                            kf_foreign_parts *f, char name[KF_NAME_ROOM], int *found,
                            kerf_error *err)
{
    *found = 0;
    for (size_t i = 0; !*found && i < sizeof forms / sizeof *forms; i++) {
        if (!find_parts(r, i, codes, f)) continue;
        KF_TRY(ask_folder(r, folder, err));
        KF_TRY(take_form(r, i, folder, f, found, err));
        const int n = (int)(strlen(codes->name) - strlen(forms[i].suffix[KF_PART_CODES]));
        snprintf(name, KF_NAME_ROOM, "%.*s%s", n, codes->name, forms[i].tail);
    }
    return KERF_OK;
}
