/* gemv_layout.c - fits formats to the vector kernels. */
#include "cpu/gemv_layout.h"
#include "format/format.h"

/* The number of a code under a scale of one. */
static float unit_value(kf_spec s, uint32_t code)
{
    kf_dequant unit = {1, 0, 0};
    return kf_value(s, unit, code);
}

/* Whether numbers are (unit value - zero) * scale, in one rounding: what the kernels compute. */
static int is_linear(kf_spec s)
{
    static const float scales[] = {1, 0.37f, -3, 0x1.8p-20f};
    uint32_t codes = s.bits > 8 ? 0 : 1u << s.bits;
    int zeros = s.zero == KERF_ZERO_CODE ? 5 : 1;
    for (uint32_t code = 0; code < codes; code++) {
        for (int i = 0; i < 4; i++) {
            for (int z = 0; z < zeros; z++) {
                kf_dequant d = {scales[i], z * 3, 0};
                float want = (unit_value(s, code) - (float)d.zero) * d.scale;
                if (!kf_gemv_same(kf_value(s, d, code), want)) return 0;
            }
        }
    }
    return 1;
}

static int fit_table(kf_gemv_layout *l, kf_spec s)
{
    if (s.bits != 2 && s.bits != 4) return 0;
    for (uint32_t i = 0; i < 16; i++) {
        l->table[i] = unit_value(s, i & ((1u << s.bits) - 1));
        if (!kf_is_finite(l->table[i])) return 0; /* padding must not show */
    }
    l->decode = s.bits == 4 ? KF_DECODE_LUT4 : KF_DECODE_LUT2;
    return 1;
}

static int fit_byte(kf_gemv_layout *l, kf_spec s)
{
    if (s.bits != 8) return 0;
    float offset = unit_value(s, 0), factor = unit_value(s, 1) - offset;
    if (!(factor > 0) || kf_bits(factor) & 0x7fffff) return 0;
    if (s.zero == KERF_ZERO_CODE ? factor != 1 : offset != 0) return 0;
    for (uint32_t i = 0; i < 256; i++)
        if (!kf_gemv_same(unit_value(s, i), (float)(int8_t)i * factor + offset)) return 0;
    l->decode = KF_DECODE_BYTE;
    l->factor = factor * 0x1p-24f; /* bytes are taken from the top of 32 bits */
    l->offset = offset;
    l->zero_unit = 0x1p24f;
    return 1;
}

/* Whether codes, shifted down from the top of a word, are those of fp16 or of bfloat16. */
static int spreads_to(kf_gemv_layout *l, kf_spec s, unsigned shift, float (*decode)(uint16_t))
{
    const uint32_t magnitudes = (1u << (s.bits - 1)) - 1;
    const uint32_t one = 1u << (s.bits - 2); /* a normal number of every such type */
    l->shift = shift;
    l->mask = (uint16_t)(0x8000u | magnitudes << (16 - s.bits - shift));
    l->factor = unit_value(s, one) / decode(kf_gemv_spread(s.bits, shift, l->mask, one));
    l->nan_code = 0;
    if (kf_bits(l->factor) & 0x7fffff) return 0;
    for (uint32_t i = 0; i < 1u << s.bits; i++) {
        float value = unit_value(s, i);
        float word = decode(kf_gemv_spread(s.bits, l->shift, l->mask, i)) * l->factor;
        if (kf_gemv_same(value, word)) continue;
        int last = (i & magnitudes) == magnitudes && s.bits == 8;
        if (value == value || !last) return 0; /* only the largest magnitude may be NaN */
        l->nan_code = (uint8_t)magnitudes;
    }
    return 1;
}

/* Bits of fp16 or of bfloat16, whose exponent ends 4 bits further down at least. */
static int fit_mini(kf_gemv_layout *l, kf_spec s, kf_gemv_kind kind)
{
    const int is_bfloat = kind == KF_KIND_BFLOAT;
    if ((s.bits != 6 && s.bits != 8) || s.zero == KERF_ZERO_CODE) return 0;
    for (unsigned shift = is_bfloat ? 4 : 0; shift < (is_bfloat ? 7 : 4); shift++) {
        if (!spreads_to(l, s, shift, is_bfloat ? kf_bf16_decode : kf_f16_decode)) continue;
        if (is_bfloat)
            l->decode = s.bits == 8 ? KF_DECODE_BFLOAT8 : KF_DECODE_BFLOAT6;
        else
            l->decode = s.bits == 8 ? KF_DECODE_MINI8 : KF_DECODE_MINI6;
        return 1;
    }
    return 0;
}

static int fit_cast(kf_gemv_layout *l, kf_spec s)
{
    if (s.geometry != KERF_GROUP_NONE) return 0;
    if (s.element == KERF_ELEM_F32)
        l->decode = KF_DECODE_F32;
    else if (s.element == KERF_ELEM_F16)
        l->decode = KF_DECODE_F16;
    else if (s.element == KERF_ELEM_BF16)
        l->decode = KF_DECODE_BF16;
    else
        return 0;
    return s.family == KERF_FAMILY_CAST;
}

/* Place of element i without what lies between codes. */
static size_t dense_place(kf_spec s, size_t i)
{
    if (s.geometry != KERF_GROUP_STRUCT) return kf_code_place(s, i);
    size_t elements = kf_struct_elements(s), n = i / elements;
    size_t gap = kf_struct_bytes(s) * 8 / s.bits - elements; /* codes that the scales displace */
    return kf_code_place(s, i) - (n + 1) * gap;
}

/* Two bfloat16 to a lane: codes j and j + n / 2. */
static int fit_pairs(kf_gemv_layout *l, const kerf_gemv *plan, kf_spec s)
{
    if (plan->shape.x != KERF_BF16 || s.zero == KERF_ZERO_CODE || !fit_table(l, s)) return 0;
    for (int i = 0; i < 16; i++) /* a subnormal would count as zero */
        if (kf_bits(l->table[i]) & 0xffff || (l->table[i] != 0 && kf_abs(l->table[i]) < 0x1p-30f))
            return 0;
    l->decode = s.bits == 4 ? KF_DECODE_PAIR4 : KF_DECODE_PAIR2;
    return 1;
}

/* Numbers that are small integers times 2^-e, with any zero point taken off: a lane sums eight of
 * them times x of 16 bits, in the upper byte of a word each, or sixteen that are half as large. */
static int fit_small(kf_gemv_layout *l, kf_spec s, float unit)
{
    const float most = s.bits == 2 ? 16 : 32;
    for (uint32_t i = 0; i < 16; i++) {
        float n = l->table[i] / unit;
        if (!(n >= -most / 2 && n <= most / 2) || n != (float)(int)n) return 0;
        l->whole_table[i] = (int16_t)n;
        kf_scale scale = {0, i & ((1u << s.bits) - 1)};
        int zero = s.zero == KERF_ZERO_CODE ? kf_dequant_init(s, scale, 1, 0).zero : 0;
        if (zero < 0 || zero > (int)most / 2 || (zero && unit != 1)) return 0;
    }
    l->factor = unit;
    l->decode = s.bits == 2 ? KF_DECODE_INT2 : KF_DECODE_INT4;
    return 1;
}

/* Any 16 numbers, to 15 bits of the largest: four products with x of 16 bits make a sum. */
static int fit_book(kf_gemv_layout *l)
{
    float largest = 0, unit = 1;
    for (int i = 0; i < 16; i++) largest = kf_max(largest, kf_abs(l->table[i]));
    if (!(largest >= 0x1p-30f && largest <= 0x1p30f)) return 0;
    while (unit * 0x1p14f < largest) unit *= 2;
    while (unit * 0x1p13f >= largest) unit /= 2;
    l->table_error = 0;
    for (int i = 0; i < 16; i++) {
        float n = l->table[i] / unit, up = (float)(int)(n + 0x1p15f + 0.5f) - 0x1p15f;
        if (n == 0) continue;
        double share = (double)kf_abs(up - n) / (double)kf_abs(n);
        if (share > l->table_error) l->table_error = share;
        l->whole_table[i] = (int16_t)up;
    }
    l->factor = unit;
    l->decode = KF_DECODE_BOOK4;
    return l->table_error <= 0x1p-11;
}

/* 6 bits: a sign above the codes of 32 integers of at most 6 bits, times 2^-e, the first 16 of
 * which are what their codes are; or of 9. */
static int fit_signed(kf_gemv_layout *l, kf_spec s, kf_gemv_kind kind)
{
    const float unit = unit_value(s, 1), most = kind == KF_KIND_VNNI ? 512 : 64;
    float largest = 0;
    int plain = 1;
    if (!(unit > 0) || kf_bits(unit) & 0x7fffff) return 0;
    for (uint32_t i = 0; i < 32; i++) {
        float n = unit_value(s, i) / unit;
        if (!(n >= 0 && n < most) || n != (float)(int)n) return 0;
        if (unit_value(s, i + 32) != -unit_value(s, i)) return 0;
        l->whole_table[i] = (int16_t)n;
        plain = plain && (i < 16 ? n == (float)i : n >= (float)i);
        largest = kf_max(largest, n);
    }
    l->factor = unit;
    l->decode = largest < 64 && plain ? KF_DECODE_INT6 : KF_DECODE_WIDE6;
    return 1;
}

static int fit_whole(kf_gemv_layout *l, kf_spec s, kf_gemv_kind kind)
{
    if (s.bits == 6 && kind != KF_KIND_BYTES && s.zero != KERF_ZERO_CODE)
        return fit_signed(l, s, kind);
    if (kind == KF_KIND_VNNI || !fit_table(l, s)) return 0;
    for (float unit = 1; unit >= 0x1p-3f; unit /= 2)
        if (fit_small(l, s, unit)) return 1;
    return s.bits == 4 && s.zero != KERF_ZERO_CODE && fit_book(l);
}

/* Numbers in fp32. */
static int fit_single(kf_gemv_layout *l, kf_spec s)
{
    return fit_cast(l, s) || fit_table(l, s) || fit_byte(l, s) || fit_mini(l, s, KF_KIND_SINGLE);
}

/* Codes as an instruction set of that kind takes them. */
static int fit_codes(kf_gemv_layout *l, const kerf_gemv *plan, kf_spec s, kf_gemv_kind kind)
{
    switch (kind) {
    case KF_KIND_SINGLE: return fit_single(l, s);
    case KF_KIND_BFLOAT: return fit_mini(l, s, kind);
    case KF_KIND_PAIR: return fit_pairs(l, plan, s);
    default: return fit_whole(l, s, kind);
    }
}

/* Where the code of place j of a lane goes in the order of x. */
static size_t order_of(const kf_gemv_layout *l, kf_gemv_kind kind, size_t lane, size_t j)
{
    const size_t per = l->decode == KF_DECODE_INT2 ? 4 : 2; /* codes in a byte */
    const size_t half = l->codes / 2, byte = lane * 4 + j / per, vector = 4 * l->lanes;
    switch (kind) {
    case KF_KIND_PAIR: return (j % half * l->lanes + lane) * 2 + j / half;
    case KF_KIND_BYTES: return j % per * vector + byte;
    case KF_KIND_VNNI: return lane * l->codes + j;
    case KF_KIND_WORDS: /* lowest codes first: even and odd bytes, or by halves of 16 */
        if (l->decode == KF_DECODE_INT6) return j % 2 * (vector / 2) + lane * 2 + j / 2;
        if (l->decode == KF_DECODE_INT4 || l->decode == KF_DECODE_INT2)
            return j % per * vector + byte % 2 * (vector / 2) + byte / 2;
        return j % 2 * vector + byte % 16 / 8 * (vector / 2) + byte / 16 * 8 + byte % 8;
    default:
        if (kf_gemv_is_bfloat(l->decode)) j = j % 2 * 2 + j / 2; /* even codes first */
        return j * l->lanes + lane;
    }
}

/* Where each code goes in the order of x, if steps are all alike. */
static int fit_order(kf_gemv_layout *l, kf_spec s, kf_gemv_kind kind)
{
    for (size_t i = 0; i < l->step; i++) {
        size_t place = dense_place(s, i);
        if (place >= l->step || dense_place(s, i + l->step) != place + l->step) return 0;
        l->order[order_of(l, kind, place / l->codes, place % l->codes)] = (uint16_t)i;
    }
    return 1;
}

/* Which scales a step needs. */
static int fit_scales(kf_gemv_layout *l, kf_spec s, size_t cols)
{
    l->scales = 1;
    l->scale_elements = l->step;
    int per_row = s.geometry == KERF_GROUP_NONE || s.geometry == KERF_GROUP_ROW ||
                  s.geometry == KERF_GROUP_TENSOR;
    l->scaling = s.zero == KERF_ZERO_CODE ? KF_SCALING_ZERO
                 : per_row                ? KF_SCALING_ROW
                                          : KF_SCALING_STEP;
    l->of_row = per_row && l->scaling == KF_SCALING_ZERO;
    if (l->scaling == KF_SCALING_ROW) return 1;
    if (s.geometry == KERF_GROUP_FLAT && cols % s.group) return 0; /* rows begin inside groups */
    if (s.group % l->step == 0) {
        while (s.group % (l->scale_elements * 2) == 0 && 1u << l->share < KF_GEMV_CHUNK)
            l->scale_elements *= 2, l->share++;
        return 1;
    }
    if (s.group % l->codes || l->step % s.group) return 0;
    l->scales = l->step / s.group;
    l->scale_elements = s.group;
    return (l->scales & (l->scales - 1)) == 0;
}

static int fit_structs(kf_gemv_layout *l, kf_spec s, size_t cols)
{
    l->row_bytes = l->code_bytes = kf_packed_bytes(s.bits, cols);
    l->piece = 0;
    if (s.geometry != KERF_GROUP_STRUCT) return 1;
    if (s.bits != 4 && l->decode != KF_DECODE_BYTE) return 0;
    l->piece = kf_struct_elements(s) * s.bits / 8;
    l->stride = kf_struct_bytes(s);
    l->first = l->stride - l->piece;
    l->row_bytes = cols / kf_struct_elements(s) * l->stride;
    l->step_stride = l->step_bytes / l->piece * l->stride;
    if (l->piece < l->step_bytes) return l->step_bytes % l->piece == 0 && l->piece % 16 == 0;
    return l->piece % l->step_bytes == 0;
}

/* Blocks of two levels, whose kernels take codes in their order (gemv_super.h). */
static int fit_super(kf_gemv_layout *l, kf_spec s, size_t cols, size_t lanes)
{
    const kf_super k = kf_super_of(s);
    const kf_place place[2] = {k.low, k.high};
    for (int i = 0; i < 2; i++) {
        const int bits = place[i].run == 1 && place[i].bits <= 1;
        if (!bits && place[i].run % lanes) return 0;
    }
    if (k.elements > KF_GEMV_STEP || k.elements % s.group || s.group % lanes) return 0;
    for (uint32_t i = 0; i < 16; i++) l->table[i] = (float)kf_super_book(i);
    for (size_t i = 0; i < k.elements; i++) l->order[i] = (uint16_t)i;
    l->decode = KF_DECODE_SUPER;
    l->scaling = KF_SCALING_STEP;
    l->lanes = lanes;
    l->step = k.elements;
    l->codes = l->step / lanes;
    l->step_bytes = k.bytes;
    l->steps = l->whole = cols / k.elements;
    l->chunk = KF_GEMV_CHUNK;
    l->row_bytes = l->code_bytes = l->steps * k.bytes;
    return cols % k.elements == 0;
}

static int fit(kf_gemv_layout *l, const kerf_gemv *plan, size_t lanes, kf_gemv_kind kind)
{
    static const size_t codes[KF_DECODES] = {
#define KF_GEMV_DECODE(kind, name, codes, ...) codes,
#include "cpu/gemv_decodes.def"
#undef KF_GEMV_DECODE
    };
    kf_spec s = kf_spec_of(plan->shape.format);
    size_t cols = (size_t)plan->shape.cols;
    memset(l, 0, sizeof *l);
    l->factor = l->zero_unit = 1;
    if (kf_gemv_level_block(s, kf_gemv_small_bits(kind, plan->shape.columns)).elements)
        return kind == KF_KIND_SINGLE ? fit_super(l, s, cols, lanes)
                                      : kf_gemv_fit_levels(l, plan, lanes, kind);
    if (!is_linear(s)) return 0;
    if (!fit_codes(l, plan, s, kind)) return 0;
    l->lanes = lanes;
    l->codes = codes[l->decode];
    l->step = lanes * l->codes;
    l->step_bytes = l->step * s.bits / 8;
    l->chunk = l->codes < 4 ? 2 * KF_GEMV_CHUNK : KF_GEMV_CHUNK;
    if (!fit_order(l, s, kind) || !fit_scales(l, s, cols) || !fit_structs(l, s, cols)) return 0;
    if (l->decode == KF_DECODE_BOOK4 && kind == KF_KIND_WORDS && l->scales != 1)
        return 0; /* sums of lanes are mixed */
    l->entries = (cols + l->scale_elements - 1) / l->scale_elements;
    l->steps = (cols + l->step - 1) / l->step;
    l->whole = l->code_bytes / l->step_bytes;
    kf_gemv_fit_scales(l, s);
    return 1;
}

int kf_gemv_layout_init(kf_gemv_layout *l, const kerf_gemv *plan, size_t lanes, kf_gemv_kind kind)
{
    if (!fit(l, plan, lanes, kind)) return 0;
    if (l->level_words) { /* what all columns have of a step lies side by side */
        const size_t bytes = kf_gemv_words_of_step(l->level_group ? 256 : 32, 4 * lanes);
        l->x_column = bytes / sizeof(float);
        l->x_step = plan->shape.columns * l->x_column;
    } else {
        l->x_column = l->steps * l->step;
        l->x_step = l->step;
    }
    return 1;
}

size_t kf_gemv_layout_workspace(const kf_gemv_layout *l, const kerf_gemv_shape *s)
{
    const size_t backs = kf_gemv_is_bfloat(l->decode) ? s->columns : 0;
    return ((size_t)s->columns * l->steps * l->step + (size_t)s->cols + backs) * sizeof(float);
}

/* Roundings that a product can meet on its way into y, each at most 2^-24 of what it rounds: two in
 * kerf_decode, one per code of its lane (two where those are summed as integers), its scale, the
 * steps of a chunk, the chunks of a row, the lanes, the factor of the row. Blocks of two levels as
 * integers: four in kerf_decode, two for a step's integers, and up to five sums a step. */
double kf_gemv_layout_bound(const kf_gemv_layout *l)
{
    size_t chunks = (l->steps + l->chunk - 1) / l->chunk;
    size_t chunk = l->steps < l->chunk ? l->steps : l->chunk;
    size_t lane = kf_gemv_is_whole(l) ? 2 : l->codes;
    const size_t levels = l->decode == KF_DECODE_LEVELS ? 2 + 4 * chunk : 0;
    double n = (double)(2 + lane + 1 + chunk + levels + chunks + 4 + 1);
    return l->table_error + (1 + l->table_error) * n * 0x1p-24 / (1 - n * 0x1p-24);
}

void kf_gemv_tail(const kf_gemv_layout *l, const uint8_t *row, uint8_t out[64])
{
    memset(out, 0, 64);
    if (!l->piece) {
        memcpy(out, row + l->whole * l->step_bytes, l->code_bytes - l->whole * l->step_bytes);
        return;
    }
    for (size_t at = l->whole * l->step_bytes, end = l->code_bytes; at < end;) {
        size_t in = at % l->piece, n = l->piece - in < end - at ? l->piece - in : end - at;
        memcpy(out + (at - l->whole * l->step_bytes),
               row + at / l->piece * l->stride + l->first + in, n);
        at += n;
    }
}
