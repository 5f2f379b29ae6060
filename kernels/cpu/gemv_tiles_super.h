/* gemv_tiles_super.h - ggml's blocks of two levels as strips of tiles (gemv_tiles.h), each row of
 * the table in block/super_layout.h as a literal.
 *
 * The low bits of a strip lie in 32 bytes side by side, or as both nibbles of 16; its high bits in
 * 32 bytes or in four. */
#ifndef KERF_GEMV_TILES_SUPER_H
#define KERF_GEMV_TILES_SUPER_H

#include "cpu/gemv_block_levels.h"
#include "cpu/gemv_tiles_fit.h"

/* The codes of the strip that begins with element e of a block, as indices. */
KF_HD tw super_codes(kf_super k, const uint8_t *block, unsigned e)
{
    const unsigned low = k.low.bits, shift = kf_place_shift(k.low, e);
    const uint8_t *p = block + kf_place_byte(k.low, e);
    if (k.low.run == 16) {
        const tw codes = tw_nibbles(p);
        return k.high.bits ? tw_more_bits(codes, block + k.high.at, low) : codes;
    }
    tw codes = tw_of_bytes(p);
    if (shift) codes = tw_down(codes, shift);
    if (!k.high.bits) return codes;
    const unsigned at = kf_place_shift(k.high, e);
    tw high = tw_of_bytes(block + kf_place_byte(k.high, e));
    if (at < low) high = tw_up(high, low - at);
    if (at > low) high = tw_down(high, at - low);
    return tw_merge(codes, high, (uint16_t)(((1u << k.high.bits) - 1) << low));
}

/* Strip t of a stage. */
KF_HD tw super_strip(kf_super k, const uint8_t *p, const unsigned t, tw table, tw upper)
{
    const tw codes = super_codes(k, p + t * STRIP / k.elements * k.bytes, t * STRIP % k.elements);
    return k.low.bits + k.high.bits > 5 ? tw_look_up_two(table, upper, codes)
                                        : tw_look_up(table, codes);
}

/* Strips t and t + 1 of a stage as bytes, t being even. */
KF_HD tb super_bytes_of(kf_super k, const uint8_t *p, const unsigned t, tb table)
{
    const unsigned e = t * STRIP % k.elements, low = k.low.bits, high = k.high.bits;
    const uint8_t *block = p + t * STRIP / k.elements * k.bytes, *second = block;
    tb codes;
    if (k.elements == STRIP) second += k.bytes;
    if (k.low.run == 16) {
        const unsigned at = kf_place_byte(k.low, e),
                       next = kf_place_byte(k.low, (e + STRIP) % k.elements);
        codes = tb_nibbles(block + at, second + next);
        if (high) codes = tb_more_bits(codes, block + k.high.at, second + k.high.at, 1 << low);
    } else {
        const unsigned shift = kf_place_shift(k.low, e);
        codes = tb_twice(block + kf_place_byte(k.low, e), shift, shift + low);
        codes = tb_and(codes, (uint8_t)((1u << low) - 1));
        if (high) {
            const unsigned down = (64 + kf_place_shift(k.high, e) - low) % 64;
            const tb bits = tb_twice(block + kf_place_byte(k.high, e), down, (down + high) % 64);
            codes = tb_merge(codes, bits, (uint8_t)(((1u << high) - 1) << low));
        }
    }
    if (k.middle) return tb_less(codes, k.middle);
    return k.book ? tb_look_up(table, codes) : codes;
}

/* n numbers of fp16, `bytes` from one to the next: V at a time. */
KF_HD void halves_apart(const uint8_t *p, size_t n, const size_t bytes, float *out)
{
    size_t i = 0;
    for (; i + V <= n; i += V) vf_store(out + i, vf_of_halves_apart(p + i * bytes, bytes));
    for (; i < n; i++) out[i] = kf_super_half(p + i * bytes);
}

/* The same products as in kf_super_group for stages [first, end) of a row, whose blocks may end
 * before. */
KF_HD void super_scales(kf_spec s, const uint8_t *row, size_t first, size_t end,
                        const kf_tile_layout *l, float *scale, float *offset)
{
    const kf_super k = kf_super_of(s);
    const unsigned groups = k.elements / s.group;
    const size_t begin = first * STAGE / k.elements, all = l->row_bytes / k.bytes;
    const size_t stop = end * STAGE / k.elements;
    const size_t n = (stop < all ? stop : all) - begin;
    const uint8_t *block = row + begin * k.bytes;
    if (k.levels == KF_LEVELS_NONE) {
        memset(scale, 0, (stop - begin) * sizeof *scale);
        memset(offset, 0, (stop - begin) * sizeof *offset);
        halves_apart(block + k.d, n, k.bytes, scale);
        if (k.m) halves_apart(block + k.m, n, k.bytes, offset);
        return;
    }
    for (size_t i = 0; i < n; i++, block += k.bytes) {
        const vf d = super_half(block + k.d), m = super_half(block + k.m);
        const super_bytes b = level_bytes(k.levels, block + k.at);
        const vf level = vf_of_int(vi_of_bytes(b.scale, 0));
        vf_store(scale + i * groups,
                 vf_mul(d, b.bias != 0 ? vf_sub(level, vf_set1(b.bias)) : level));
        if (!k.m) continue;
        const vf min = vf_of_int(vi_of_bytes(b.min, 0));
        vf_store(offset + i * groups, vf_mul(vf_sub(vf_set1(0), m), min)); /* -(m * min) */
    }
}

typedef void super_scales_function(const uint8_t *row, size_t first, size_t end,
                                   const kf_tile_layout *l, float *scale, float *offset);

#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, ...)      \
    static void super_scales_##ID(const uint8_t *row, size_t first, size_t end,                   \
                                  const kf_tile_layout *l, float *scales, float *offsets)         \
    {                                                                                             \
        static const kf_spec s = KF_SPEC(ID, family, elem, geometry, group, scale, second, zero); \
        if (kf_super_of(s).elements) super_scales(s, row, first, end, l, scales, offsets);        \
    }
#include <kerf/formats.def>
#undef KERF_FORMAT

static super_scales_function *const super_scales_of[] = {
#define KERF_FORMAT(ID, ...) super_scales_##ID,
#include <kerf/formats.def>
#undef KERF_FORMAT
};

#endif
