/* gemv_tiles_fit.c - fits formats to tiles (gemv_tiles.h). */
#include "cpu/gemv_tiles_fit.h"
#include "format/format.h"

/* By fewer columns vectors take less time (bench/notes-gemv-cpu.md): in groups of 16, of 32 in
 * GGUF's blocks, beside which vectors multiply integers, and all others, by one term of x and by
 * two. */
static size_t least_columns(const kf_tile_layout *t)
{
    static const uint8_t least[KF_TILE_KINDS][3][2] = {
        [KF_TILE_NIBBLES] = {{0}, {4, 5}, {3, 4}},
        [KF_TILE_FOLDED] = {{0}, {0}, {3, 4}},
        [KF_TILE_BYTES] = {{0}, {9, 9}, {9, 9}},
        [KF_TILE_MINIS] = {{0}, {3, 3}, {3, 3}},
        [KF_TILE_SIXES] = {{0}, {0}, {3, 5}},
        [KF_TILE_QUARTERS] = {{0}, {0}, {2, 3}},
        [KF_TILE_SPLIT] = {{0}, {0}, {3, 5}},
        [KF_TILE_SUPER] = {{5, 7}, {5, 6}, {0}},
        [KF_TILE_WHOLE_NIBBLES] = {{0}, {4, 4}, {3, 3}},
        [KF_TILE_WHOLE_QUARTERS] = {{0}, {0}, {3, 3}},
        [KF_TILE_WHOLE_BYTES] = {{0}, {4, 4}, {3, 3}},
        [KF_TILE_WHOLE_SUPER] = {{0}, {5, 5}, {0}},
        [KF_TILE_LEVELS] = {{4, 4}, {4, 4}, {0}}};
    const int blocks = t->l.piece || t->kind == KF_TILE_SUPER || t->kind >= KF_TILE_WHOLE_SUPER;
    const int class = t->group < STRIP ? 0 : t->group == STRIP && blocks ? 1 : 2;
    if (t->book) return t->book > STRIP ? 5 : 3;
    return least[t->kind][class][t->terms - 1];
}

static int is_bfloat16(float x)
{
    return !(kf_bits(x) & 0xffff) && (x == 0 || !kf_is_finite(x) || kf_abs(x) >= 0x1p-14f);
}

static uint16_t top_of(float x)
{
    return (uint16_t)(kf_bits(x) >> 16);
}

/* Whether codes of up to 5 bits take less time as bytes: where x is rounded either way, and its two
 * bytes lie side by side. */
static int may_be_bytes(const kf_tile_layout *t, size_t columns)
{
    return t->rounds && 2 * columns <= 16;
}

/* Whether all numbers of a table are whole in this unit; as bytes. */
static int fit_whole(kf_tile_layout *t, float unit)
{
    for (size_t i = 0; i < 16; i++) {
        const float number = t->l.table[i] / unit;
        if (!(kf_abs(number) < 128) || number != (float)(int8_t)number) return 0;
        t->bytes[i] = (uint8_t)(int8_t)number;
    }
    return 1;
}

/* Numbers of codes of 2 and 4 bits, as bfloat16; beside zero points, which are whole, as bytes. */
static int fit_codes(kf_tile_layout *t, kf_spec s, size_t columns)
{
    const int zeros = s.zero == KERF_ZERO_CODE;
    const float unit = fit_whole(t, 1) ? 1 : 0.5f;
    const int whole = (zeros || may_be_bytes(t, columns)) && fit_whole(t, unit);
    if (zeros && (!whole || unit != 1)) return 0;
    if (s.bits == 4)
        t->kind = whole ? KF_TILE_WHOLE_NIBBLES : KF_TILE_NIBBLES;
    else
        t->kind = whole ? KF_TILE_WHOLE_QUARTERS : KF_TILE_QUARTERS;
    t->zero_is = 1;
    if (whole) t->l.factor *= unit;
    for (size_t i = 0; i < 32; i++) {
        const float number = t->l.table[i % 16];
        if (!whole && !is_bfloat16(number)) return 0;
        t->table[0][i] = top_of(number);
    }
    return t->l.scale_elements >= STRIP;
}

/* Sixteen numbers that need more bits: each as the bfloat16 nearest to it and the bfloat16 nearest
 * to what is left: off by 2^-16 of it at most. */
static int fit_split(kf_tile_layout *t, kf_spec s)
{
    t->kind = KF_TILE_SPLIT;
    for (size_t i = 0; i < 32; i++) {
        const float number = t->l.table[i % 16];
        const uint16_t top = kf_bf16_encode(number);
        if (number != 0 && !(kf_abs(number) >= 0x1p-14f && kf_abs(number) <= 0x1p14f)) return 0;
        t->table[0][i] = top;
        t->table[1][i] = kf_bf16_encode(number - kf_bf16_decode(top));
    }
    return s.zero != KERF_ZERO_CODE && t->l.scale_elements > STRIP;
}

/* Codes times scales of one byte, without what enters at a row's end: whether all that are numbers
 * are exact in bfloat16. Rows with one that is not a number are done again. Products of tiles below
 * 2^-126 count as zero, so the least number is not far below 1. */
static int fit_folded(kf_tile_layout *t)
{
    t->kind = KF_TILE_FOLDED;
    if (!t->l.quick || t->l.halves != KF_HALVES_BYTES) return 0;
    for (uint32_t b = 0; b < 256; b++) {
        const uint16_t half = kf_gemv_spread(8, 1, t->l.half_mask, b);
        const float stored = (b & 0x7f) == 0x7f ? t->l.half_last[b >> 7] : kf_f16_decode(half);
        const float scale = stored * KF_TILE_FOLDS;
        for (uint32_t i = 0; i < 16; i++) {
            const float number = scale * t->l.table[i], size = kf_abs(number);
            const int normal = size == 0 || (size >= 0x1p-16f && size <= 0x1p60f);
            if (kf_is_finite(scale) && (!normal || kf_bits(number) & 0xffff)) return 0;
            t->folded[b][i] = top_of(number);
        }
    }
    return 1;
}

/* Number i of up to 128 that are looked up by bytes. */
static void set_bytes(kf_tile_layout *t, size_t i, float number)
{
    t->bytes[i] = (uint8_t)top_of(number);
    t->bytes[128 + i] = (uint8_t)(top_of(number) >> 8);
}

/* Bytes stay what they are but in groups of 32 where both bytes of x do not lie side by side: their
 * sums are stored so often that two of each cost more than their numbers. */
static int fit_bytes(kf_tile_layout *t, size_t columns)
{
    const int whole = t->l.scale_elements > STRIP ? !t->l.piece : 2 * columns <= 16;
    t->kind = whole ? KF_TILE_WHOLE_BYTES : KF_TILE_BYTES;
    t->l.factor *= 0x1p24f; /* bytes are numbers of their own here */
    t->zero_is = 0x1p-24f;
    for (unsigned i = 0; i < 128; i++) set_bytes(t, i, (float)i);
    return t->l.scale_elements >= STRIP;
}

/* What a code means under a scale of one: compiled once. */
static __attribute__((noinline)) float number_of(kf_spec s, uint32_t code)
{
    const kf_dequant unit = {1, 0, 0};
    return kf_value(s, unit, code);
}

/* Numbers looked up: of 6 bits all, of 8 bits those without a sign. */
static int fit_minis(kf_tile_layout *t, kf_spec s)
{
    t->kind = s.bits == 8 ? KF_TILE_MINIS : KF_TILE_SIXES;
    t->l.factor = 1;
    for (uint32_t i = 0; i < 1u << s.bits; i++) {
        const float number = number_of(s, i);
        if (number == number && !is_bfloat16(number)) return 0;
        if (s.bits == 6 || i < 128) {
            set_bytes(t, i, number);
        } else if (number == number && number != -number_of(s, i - 128))
            return 0;
    }
    return t->l.scale_elements >= STRIP;
}

/* The place of number j of a strip. */
static size_t place_of(kf_tile_kind kind, size_t j)
{
    switch (kind) {
    case KF_TILE_NIBBLES:
    case KF_TILE_SPLIT: return 4 * (j % 8) + j / 8;
    case KF_TILE_QUARTERS: return 8 * (j % 4) + j / 4;
    case KF_TILE_WHOLE_QUARTERS: return 4 * (j % 8) + j / 8;
    case KF_TILE_FOLDED: return j / 16 * 16 + 4 * (j % 4) + j / 4 % 4;
    case KF_TILE_WHOLE_NIBBLES: return j % 16 * 2 + j / 16;
    default: return j;
    }
}

/* Places in the order of elements, alike in all strips. */
static int fit_strips(kf_tile_layout *t, kf_spec s, size_t cols)
{
    const kf_gemv_layout *l = &t->l;
    size_t element[KF_GEMV_STEP];
    for (size_t p = 0; p < l->step; p++)
        element[p] = l->order[p % l->codes * l->lanes + p / l->codes];
    for (size_t p = STRIP; p < l->step; p++)
        if (element[p] != element[p % STRIP] + p / STRIP * STRIP) return 0;
    for (size_t j = 0; j < STRIP; j++) t->order[j] = (uint16_t)element[place_of(t->kind, j)];
    const size_t bytes = STRIP * s.bits / 8;
    for (size_t i = 0; i < STRIPS; i++) {
        const size_t at = i * bytes;
        t->strip_at[i] = l->piece ? at / l->piece * l->stride + l->first + at % l->piece : at;
    }
    t->stage_bytes = l->piece ? STRIPS * bytes / l->piece * l->stride : STRIPS * bytes;
    t->row_bytes = l->row_bytes;
    t->whole = cols / STAGE;
    return 1;
}

static int fit_planes(kf_tile_layout *t, kf_spec s, size_t cols, size_t columns)
{
    const int row = t->l.scaling == KF_SCALING_ROW;
    int fits = 0;
    if (t->l.scale_elements > STAGE) { /* sums are of a stage at most */
        t->l.scale_elements = STAGE;
        t->l.entries = (cols + STAGE - 1) / STAGE;
    }
    switch (t->l.decode) {
    case KF_DECODE_LUT4:
        fits =
            t->l.scale_elements == 16 ? fit_folded(t) : fit_codes(t, s, columns) || fit_split(t, s);
        break;
    case KF_DECODE_LUT2: fits = fit_codes(t, s, columns); break;
    case KF_DECODE_BYTE: fits = fit_bytes(t, columns); break;
    case KF_DECODE_MINI8:
    case KF_DECODE_MINI6: fits = fit_minis(t, s); break;
    default: break;
    }
    if (!fits || (s.geometry == KERF_GROUP_FLAT && cols % STAGE)) return 0;
    t->entry = row ? 0 : t->l.scale_elements;
    t->group = row || t->kind == KF_TILE_FOLDED ? STAGE : t->entry;
    t->zeros = s.zero == KERF_ZERO_CODE;
    if (t->kind == KF_TILE_FOLDED && t->entry != s.group) return 0;
    if (t->group < STRIP || t->group > STAGE || STAGE % t->group) return 0;
    /* The processor's own prefetcher follows whole lines of 8-bit codes better. */
    if (s.bits < 8) t->ahead = TILE_ROWS * t->l.row_bytes;
    if (s.bits == 8 && t->l.piece) t->across = TILE_ROWS * t->l.row_bytes;
    return fit_strips(t, s, cols);
}

/* Codes times levels are one byte, or two: a level of 6 bits has an upper and a lower half. Words
 * of codes are multiplied by words that hold a level in their lower bytes. */
static int fit_levels(kf_tile_layout *t, kf_super k, size_t group)
{
    if (k.levels != KF_LEVELS_BYTES && k.levels != KF_LEVELS_PAIRS) return 0;
    for (size_t i = 0; i < STAGE; i++) t->level_place[i] = (uint8_t)(i % 2 ? 128 : i / group);
    return 1;
}

static int fit_super(kf_tile_layout *t, kf_spec s, size_t cols, size_t columns)
{
    const kf_super k = kf_super_of(s);
    const unsigned codes = 1u << (k.low.bits + k.high.bits);
    const int nibbles = k.low.run == 16 && k.low.bits == 4;
    if (STAGE % k.elements || k.elements % STRIP || codes > 64) return 0;
    if (!nibbles && k.low.run % STRIP) return 0;
    if (k.high.bits && !(k.high.run == 1 && nibbles && k.high.bits == 1) && k.high.run % STRIP)
        return 0;
    t->kind = s.group == STRIP && may_be_bytes(t, columns) ? KF_TILE_WHOLE_SUPER : KF_TILE_SUPER;
    if (fit_levels(t, k, s.group)) t->kind = KF_TILE_LEVELS;
    for (unsigned i = 0; i < 16; i++) t->bytes[i] = (uint8_t)kf_super_book(i);
    for (unsigned i = 0; i < 64; i++) {
        const unsigned code = i % codes;
        t->table[i / 32][i % 32] =
            top_of((float)(k.book ? kf_super_book(code) : (int)code - k.middle));
    }
    for (unsigned j = 0; j < STRIP; j++)
        t->order[j] =
            (uint16_t)(nibbles && t->kind == KF_TILE_SUPER ? 2 * (j % 8) + j / 16 + j / 8 % 2 * 16
                                                           : j);
    t->l.factor = 1;
    t->row_bytes = cols / k.elements * k.bytes;
    t->stage_bytes = STAGE / k.elements * k.bytes;
    t->whole = cols / STAGE;
    t->group = t->entry = s.group;
    t->ahead = TILE_ROWS * t->row_bytes;
    t->offsets = k.m != 0;
    t->book = k.book ? k.elements : 0;
    return t->group >= 16 && cols % k.elements == 0;
}

/* What columns leave of a tile's 16 lanes is for the terms of x, then for other groups: where one
 * group has its x the others of the same lane have zeros. */
static void fit_lanes(kf_tile_layout *t, size_t columns)
{
    const int whole = kf_tile_is_whole(t);
    const size_t terms = whole ? 2 : t->terms, groups = STAGE / t->group;
    const size_t most = t->group > STRIP ? 1 : whole ? 2 : groups < 4 ? groups : 4;
    t->wide = terms * columns <= 16 ? terms : 1;
    t->passes = terms / t->wide;
    t->together = 1;
    while (t->passes == 1 && 2 * t->together <= most && 2 * t->together * terms * columns <= 16)
        t->together *= 2;
    if (t->kind == KF_TILE_LEVELS) t->together = 1;
    t->sums_together = t->kind == KF_TILE_LEVELS ? t->wide : t->together;
    t->lanes = columns * t->wide * t->together;
    t->strips = (unsigned)(t->group * t->together / STRIP);
    while (t->group >> t->group_shift > 1) t->group_shift++;
    t->parts = groups / t->together > STORED ? 2 : 1;
    t->depth = t->group * t->together < 2 * STRIP || (whole && t->l.piece) ? STRIP : 2 * STRIP;
    if (t->kind == KF_TILE_LEVELS) {
        t->depth = 2 * STRIP;
        t->parts = 1;
    } else if (whole)
        t->parts = STAGE / (t->group < 2 * STRIP ? 2 * STRIP : t->group);
}

int kf_tile_layout_init(kf_tile_layout *t, const kerf_gemv *plan)
{
    const kf_spec s = kf_spec_of(plan->shape.format);
    const size_t cols = (size_t)plan->shape.cols, columns = plan->shape.columns;
    memset(t, 0, sizeof *t);
    t->terms = plan->shape.x == KERF_BF16 ? 1 : 2;
    t->rounds = plan->shape.x == KERF_F32;
    if (s.geometry == KERF_GROUP_SUPER) {
        if (!fit_super(t, s, cols, columns)) return 0;
    } else if (!kf_gemv_layout_init(&t->l, plan, 16, KF_KIND_SINGLE) ||
               !fit_planes(t, s, cols, columns))
        return 0;
    t->stages = (cols + STAGE - 1) / STAGE;
    fit_lanes(t, columns);
    return t->stage_bytes <= STAGE_BYTES && columns >= least_columns(t);
}

size_t kf_tile_workspace(const kf_tile_layout *l)
{
    const size_t units = kf_tile_is_whole(l) ? l->stages * 16 : 0;
    return kf_tile_x_bytes(l) + (kf_tile_x_sums_count(l) + units) * sizeof(float);
}

/* Roundings that a product can meet on its way into y, each at most 2^-24 of what it rounds: three
 * in kerf_decode; of bfloat16 those of its dot (16 and two) and of the dots of its group, of bytes
 * one; of a part's groups with their scales and minima, of parts, of the lanes of a column, and of
 * the factor of the row. */
double kf_tile_bound(const kf_tile_layout *l)
{
    const size_t strips = l->group < STRIP ? 1 : l->group / STRIP;
    const size_t groups = STAGE / l->parts / l->group * (l->offsets ? 2 : 1);
    const size_t lanes = l->wide * l->together;
    const size_t tables = l->kind == KF_TILE_SPLIT ? 2 : 1;
    const size_t dots = kf_tile_is_whole(l) ? 1 : 18 + strips * l->terms * tables;
    /* |256 * upper| + |lower| is at most three times |256 * upper + lower|. */
    const double apart = kf_tile_is_whole(l) && l->wide > 1 ? 3 : 1;
    const double n = apart * (double)(3 + dots + 1 + groups + l->parts * l->stages + lanes + 2);
    return n * 0x1p-24 / (1 - n * 0x1p-24) + (l->kind == KF_TILE_SPLIT ? 0x1p-16 : 0);
}

/* Two terms of bfloat16 hold x of F32 to 2^-16 of it. Sums of x by groups are rounded once. */
double kf_tile_x_bound(const kf_tile_layout *l, kerf_dtype x)
{
    if (kf_tile_is_whole(l)) return KF_GEMV_X_BOUND;
    return (x == KERF_F32 ? 0x1p-16 : 0) + (l->offsets ? 0x1p-24 : 0);
}
