/* gemv_layout_scales.c - how a vector kernel reads the scales and zero points of a format: what
 * bytes mean, tried against kf_dequant_init, and where those of a step lie. */
#include "cpu/gemv_layout.h"
#include "format/format.h"

/* The scale that a stored one means, under a second-level scale of one. */
static float scale_value(kf_spec s, uint32_t bits)
{
    kf_scale scale = {bits, 0};
    return kf_dequant_init(s, scale, 1, 0).scale;
}

static int bytes_fit(const kf_gemv_layout *l, kf_spec s)
{
    for (uint32_t i = 0; i < 256; i++) {
        float half = kf_f16_decode((uint16_t)(kf_gemv_spread(8, 1, 0xffff, i) & l->half_mask));
        float want = ((i & 0x7f) == 0x7f ? l->half_last[i >> 7] : half) * l->half_factor;
        if (!kf_gemv_same(scale_value(s, i), want)) return 0;
    }
    return 1;
}

/* Bytes that spread to fp16. */
static int fit_bytes(kf_gemv_layout *l, kf_spec s)
{
    l->halves = KF_HALVES_BYTES;
    for (int sign = 0; sign < 2; sign++) {
        l->half_mask = sign ? 0xbf80 : 0x3f80;
        l->half_factor = scale_value(s, 0x38) / kf_f16_decode(0x38 << 7);
        l->half_last[0] = scale_value(s, 0x7f) / l->half_factor;
        l->half_last[1] = scale_value(s, 0xff) / l->half_factor;
        int nan = l->half_last[0] != l->half_last[0] && l->half_last[1] != l->half_last[1];
        if (!nan && s.second == KERF_SECOND_TENSOR) return 0; /* would need a product, too */
        if (bytes_fit(l, s)) return 1;
    }
    return 0;
}

/* Whether stored scales mean what the quick way makes of them; of 16 bits and more, some. */
static int fit_quick(kf_gemv_layout *l, kf_spec s)
{
    l->halves = KF_HALVES_WHOLE;
    l->half_factor = 1;
    if (s.scale == KERF_SCALE_E4M3) return s.second != KERF_SECOND_NESTED && fit_bytes(l, s);
    if ((s.scale == KERF_SCALE_MAP8) != (s.second == KERF_SECOND_NESTED)) return 0;
    if ((s.scale == KERF_SCALE_MAP8) != (s.zero == KERF_ZERO_F32)) return 0;
    if (s.second == KERF_SECOND_TENSOR) return 0;
    for (uint32_t i = 0; i < 0x10000; i += 97) {
        const uint32_t byte = i & 0xff;
        switch (s.scale) {
        case KERF_SCALE_F16:
            if (!kf_gemv_same(scale_value(s, i), kf_f16_decode((uint16_t)i))) return 0;
            break;
        case KERF_SCALE_BF16:
            if (!kf_gemv_same(scale_value(s, i), kf_float(i << 16))) return 0;
            break;
        case KERF_SCALE_F32:
            if (!kf_gemv_same(scale_value(s, i * 0xfff1), kf_float(i * 0xfff1))) return 0;
            break;
        case KERF_SCALE_E8M0:
            if (!kf_gemv_same(scale_value(s, byte), kf_float(byte == 255 ? 0x7fc00000
                                                             : byte      ? byte << 23
                                                                         : 0x00400000)))
                return 0;
            break;
        case KERF_SCALE_MAP8: l->map[byte] = scale_value(s, byte); break;
        default: return 0;
        }
    }
    return 1;
}

static kf_gemv_source source_of(kf_spec s)
{
    switch (s.scale) {
    case KERF_SCALE_F32: return KF_SOURCE_FLOATS;
    case KERF_SCALE_MAP8: return KF_SOURCE_NESTED;
    case KERF_SCALE_BF16: return KF_SOURCE_WORDS;
    case KERF_SCALE_E8M0: return KF_SOURCE_EXPONENTS;
    case KERF_SCALE_F16: return KF_SOURCE_HALVES;
    case KERF_SCALE_E4M3: return KF_SOURCE_BYTES;
    default: return KF_SOURCE_WIDENED;
    }
}

/* Byte i of the number, `size` bytes, that ends at the top of `wide` bytes; 128: none. */
static uint8_t place_of(size_t i, size_t wide, size_t size, size_t from)
{
    return (uint8_t)(i % wide < wide - size ? 128 : from + i % wide - (wide - size));
}

/* Zero points of 2 and 4 bits, several in a byte or in bytes side by side. A look-up goes by 4
 * bits, of which those of a neighbour change nothing. */
static void fit_zeros(kf_gemv_layout *l, kf_spec s)
{
    const size_t in_byte = 8 / s.bits;
    for (uint32_t i = 0; i < 16; i++) {
        const kf_scale scale = {0, i & ((1u << s.bits) - 1)};
        l->zero_of[i] = ((float)kf_dequant_init(s, scale, 1, 0).zero - l->offset) * l->zero_unit;
    }
    for (size_t lane = 0; lane < l->lanes; lane++) {
        const size_t group = lane * l->scales / l->lanes; /* of this step */
        memset(l->zero_place + 4 * lane, (int)(group / in_byte), 4);
        /* The zero point of a step's first group is the first, second, .. of its byte. */
        for (size_t first = 0; first < in_byte; first++)
            l->zero_shift[first][lane] = (uint32_t)(s.bits * ((first + group) % in_byte));
    }
}

/* Where the scales of a step come from. One byte for all lanes takes several operations in each
 * step where its bits are made a number, and by a map a load; so do those of structs, which may
 * mean something else than E8M0 does (ggml's are half of it). Beside codes that are bytes, and with
 * AVX-512, scales that a loop has widened take less time (bench/notes-gemv-cpu.md). */
static kf_gemv_source step_source(const kf_gemv_layout *l, kf_spec s)
{
    const int is_one = l->scales == 1 && !l->piece;
    const int mapped = l->piece || (l->lanes == 8 && l->decode != KF_DECODE_BYTE);
    if (s.scale == KERF_SCALE_E8M0 && s.second == KERF_SECOND_NONE && (is_one || l->piece))
        return mapped ? KF_SOURCE_MAP : KF_SOURCE_WIDENED;
    if (!l->quick || (s.scale == KERF_SCALE_E4M3 && is_one)) return KF_SOURCE_WIDENED;
    return source_of(s);
}

/* How the scales of a step are found in 8 bytes, or in the first 8 of two structs. */
static void fit_direct(kf_gemv_layout *l, kf_spec s)
{
    const kf_gemv_source source = step_source(l, s);
    const size_t size = kf_scale_bytes(s.scale), structs = l->piece ? l->step_bytes / l->piece : 1;
    const size_t apart = l->scales / (structs ? structs : 1); /* scales of one struct */
    if (source == KF_SOURCE_WIDENED || l->scaling == KF_SCALING_ROW || l->decode == KF_DECODE_LUT2)
        return;
    if (!s.group) return; /* one for a whole row */
    if (structs < 1 || structs > 2 || apart * size > 8 || (l->piece && l->share)) return;
    const int floats = source == KF_SOURCE_FLOATS || source == KF_SOURCE_NESTED;
    if (floats && (l->scales != 1 || l->scaling != KF_SCALING_STEP || l->piece)) return;
    if (source == KF_SOURCE_MAP && l->scales != structs) return;
    if (l->scaling == KF_SCALING_ZERO && (s.bits > 4 || l->piece)) return;
    l->scale_bytes = l->piece ? l->step_stride : l->scales * size;
    l->scale_gap = structs == 2 ? l->stride : 0;
    for (size_t lane = 0; lane < l->lanes; lane++) {
        const size_t group = lane * l->scales / l->lanes;
        const size_t from = group / apart * 8 + group % apart * size;
        for (size_t i = 0; i < 4; i++) l->scale_place[4 * lane + i] = place_of(i, 4, size, from);
        for (size_t i = 0; i < 2 && size <= 2; i++)
            l->half_place[2 * lane + i] = place_of(i, 2, size, from);
    }
    if (l->scaling == KF_SCALING_ZERO) fit_zeros(l, s);
    for (uint32_t i = 0; source == KF_SOURCE_MAP && i < 256; i++) l->map[i] = scale_value(s, i);
    l->source = source;
}

void kf_gemv_fit_scales(kf_gemv_layout *l, kf_spec s)
{
    l->quick = fit_quick(l, s);
    fit_direct(l, s);
}
