/* gemv_layout_levels.c - fits blocks of two levels to the kernels that take them as integers
 * (gemv_levels.h): which elements a vector of codes holds, and which group's level each is under.
 */
#include "cpu/gemv_layout.h"
#include "format/format.h"

#define CHUNK 8 /* steps: each adds up to five numbers */

/* Whether the high bits of every 32 codes in a vector lie in as many bytes, at one place in each,
 * and in the same bytes for all of the vector. */
static int high_bits_fit(kf_super k, unsigned bytes, unsigned vectors)
{
    for (unsigned i = 0; k.high.bits && i < vectors * bytes; i++) {
        const unsigned v = i / bytes, t = i % bytes;
        const unsigned e = kf_gemv_level_element(k, bytes, v, t);
        const unsigned first = kf_gemv_level_element(k, bytes, v, t / 32 * 32);
        const unsigned byte = kf_place_byte(k.high, kf_gemv_level_element(k, bytes, v, 0));
        if (kf_place_byte(k.high, e) != byte + t % 32) return 0;
        if (kf_place_shift(k.high, e) != kf_place_shift(k.high, first)) return 0;
    }
    return 1;
}

static int fit_256(kf_gemv_layout *l, kf_spec s, kf_super k, unsigned bytes, kf_gemv_kind kind)
{
    const unsigned vectors = 256 / bytes;
    const int is_signed = kf_gemv_has_signs(k.levels);
    /* of a level in a vector, as wide as the products that it multiplies (gemv_levels.h) */
    const int are_words = kind == KF_KIND_WORDS || l->level_words;
    const unsigned size = kind == KF_KIND_BYTES || (k.book && !are_words) ? 4 : 2;
    if (k.elements != 256 || k.low.run % 16 || k.low.bits * 256 / 8 % bytes || s.group % 16)
        return 0;
    if (!high_bits_fit(k, bytes, vectors)) return 0;
    for (unsigned i = 0; i < 256; i++) { /* signed: at the top, from where it is shifted down */
        const unsigned e = kf_gemv_level_element(k, bytes, i / bytes, i % bytes);
        const unsigned at = is_signed ? size - 1 : 0;
        l->order[i] = (uint16_t)e;
        l->level_place[i] = i % size == at ? (uint8_t)(e / s.group) : 128;
    }
    l->level_group = s.group;
    l->step = 256;
    return 1;
}

static int fit_32(kf_gemv_layout *l, kf_super k, unsigned bytes)
{
    if (k.elements != 32 || k.low.run != 16 || k.levels != KF_LEVELS_NONE) return 0;
    if (k.low.bits != 4 && k.low.bits != 8) return 0;
    if (k.high.bits && (k.high.bits != 1 || k.high.run != 1)) return 0;
    for (unsigned i = 0; i < 2 * bytes; i++)
        l->order[i] = (uint16_t)kf_gemv_level_element(k, bytes, i / bytes, i % bytes);
    l->step = (size_t)2 * bytes;
    return 1;
}

int kf_gemv_fit_levels(kf_gemv_layout *l, const kerf_gemv *plan, size_t lanes, kf_gemv_kind kind)
{
    const kf_spec s = kf_spec_of(plan->shape.format);
    const size_t cols = (size_t)plan->shape.cols;
    const kf_super k = kf_gemv_level_block(s, kf_gemv_small_bits(kind, plan->shape.columns));
    const unsigned bytes = (unsigned)(4 * lanes);
    if (kind == KF_KIND_PAIR || kind == KF_KIND_BFLOAT || !k.elements || cols % k.elements)
        return 0;
    l->level_words = kind != KF_KIND_BYTES && plan->shape.columns >= KF_GEMV_WORDS_FROM;
    if (!fit_32(l, k, bytes) && !fit_256(l, s, k, bytes, kind)) return 0;
    const int bias = kind == KF_KIND_VNNI ? 127 : 0; /* where bytes times x must be positive */
    for (unsigned i = 0; i < 16; i++) l->level_book[i] = (uint8_t)(kf_super_book(i) + bias);
    l->level_middle = k.book ? -1 : k.middle;
    l->decode = KF_DECODE_LEVELS;
    l->scaling = KF_SCALING_STEP;
    l->lanes = lanes;
    l->codes = l->step / lanes;
    l->step_bytes = l->step / k.elements * k.bytes;
    l->whole = cols / l->step;
    l->steps = l->whole + (cols % l->step != 0);
    l->chunk = CHUNK;
    l->row_bytes = l->code_bytes = cols / k.elements * k.bytes;
    return 1;
}
