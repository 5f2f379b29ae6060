/* wide_narrow.h - from numbers of 16 bits to packed codes in one stage, all of it in registers.
 *
 * The stages of wide.h have fp32 and 32-bit codes of a tile in memory between them. Where elements
 * are finite, groups whole and codes of four, six or eight bits, a group goes from the source to
 * its bytes at once; everything else still takes the stages, which say what must come out.
 *
 *   narrow_words  any family: the function of block/ on a step of 32 elements, then packing
 *   narrow_lanes  MX of bfloat16, without fp32: see mx_lanes
 *   narrow_table  FP8 of bfloat16 where many elements share a scale: the same, with the quotients
 *                 of all mantissas in registers */
#ifndef KERF_WIDE_NARROW_H
#define KERF_WIDE_NARROW_H

#include "cpu/wide_lanes.h"
#include "cpu/wide_tile.h"

/* Formats that this knows the packing of. */
KF_HD int can_narrow(kf_spec s)
{
    return (s.bits == 4 || s.bits == 6 || s.bits == 8) && s.family != KERF_FAMILY_CAST &&
           s.geometry != KERF_GROUP_STRUCT && s.geometry != KERF_GROUP_FLAT;
}

#if KF_VEC_LANES

KF_HD void pack_step(unsigned bits, const lanes16 *v, uint8_t *out)
{
    if (bits == 4) lanes_pack_nibbles(v, out);
    if (bits == 6) lanes_pack_sixes(v, out);
    if (bits == 8) lanes_pack_bytes(v, out);
}

KF_HD void pack_words(unsigned bits, const uint32_t *code, uint8_t *out)
{
    lanes16 v[LANE_PARTS];
    for (int k = 0; k < LANE_PARTS; k++) v[k] = lanes_of_words(code + k * KF_VEC_LANES);
    pack_step(bits, v, out);
}

/* --- MX of bfloat16 ----------------------------------------------------------------------------
 *
 * x * 2^-e only moves the exponent of x, so with b = e + 127 its code is a matter of integers. Let
 * E be the exponent field of x, S its mantissa of eight bits, M the bits of the element's, and L
 * the exponent of the least normal element. Next to x a step of the element is 2^(max(E - b, L) -
 * M), and x = S * 2^(E - b - 7). So x is S * 2^(min(E - b - L, 0) + M - 7) steps: rounded to
 * nearest even by adding one half less the last bit and the last bit of the integer, and each
 * binade above the least adds 2^M to it. The code's magnitude thus found ends where the sign
 * begins: in a lane the integer lies below bit 15, and F = 16 - bits bits of fraction below it. The
 * power is counted from where nothing is left but zero.
 *
 * MXINT8 is six bits of mantissa and none but subnormals.
 *
 * A subnormal x has another S. It is zero under every scale of 2^-107 or more, and there are no
 * others here: see lane_bases. */

enum { LANE_LEAST_BYTE = 20, LANE_ZERO_BYTE = 64 };

/* What lanes_scale takes for a normal element. */
KF_HD uint16_t lane_normal(kf_spec s)
{
    return (uint16_t)(kf_mx_mantissa_bits(s.element) + 10 - (int)s.bits);
}

/* What mx_lanes takes from E, for each of the groups [g, g + groups). 0: a scale is too small. In a
 * group of zeros any scale does that makes them zeros. */
KF_HD int lane_bases(kf_spec s, size_t g, size_t groups, const kf_tile *t, uint16_t *base)
{
    uint32_t tiny = 0;
    for (size_t i = 0; i < groups; i++) {
        uint32_t byte = t->high[g + i] ? t->bits[g + i] : LANE_ZERO_BYTE;
        tiny |= byte < LANE_LEAST_BYTE;
        base[i] = (uint16_t)((int)byte + kf_mx_least(s.element) - lane_normal(s));
    }
    return !tiny;
}

/* Codes of elements that are finite. */
KF_HD lanes16 mx_lanes(kf_spec s, lanes16 v, lanes16 base)
{
    const int man = kf_mx_mantissa_bits(s.element), fraction = 16 - (int)s.bits;
    const lanes16 normal = lanes_of(lane_normal(s));
    const uint32_t one = 1u << fraction, largest = kf_element_encode(s.element, KF_F32_MAX);
    const uint32_t half = one / 2 - 1 - ((uint32_t)lane_normal(s) << (fraction + man));
    lanes16 up = lanes_above((v & 0x7fff) >> 7, base);
    lanes16 steps = lanes_scale((v & 0x7f) | 0x80, lanes_min(up, normal));
    lanes16 binades = lanes_max(up, normal) << (fraction + man);
    lanes16 code = steps + (steps >> fraction & 1) + binades + (uint16_t)half;
    code = lanes_min(code, lanes_of((uint16_t)(largest * one + one - 1)));
    if (s.element != KERF_ELEM_MXI8) return (code | (v & 0x8000)) >> fraction;
    lanes16 sign = (lanes16)((lanes16s)v >> 15);
    return (((code >> fraction) ^ sign) - sign) & 0xff;
}

#if KF_VEC_LOOK_UP

/* --- FP8 of bfloat16 with one scale ------------------------------------------------------------
 *
 * The mantissa of x / scale follows from the seven bits of that of x alone. It is cut off to eight
 * bits, of which the last is set where anything was lost: no element has more than four, so that
 * every tie stays a tie and nothing else becomes one. What is left is an element of MX under 2^0.
 */

enum { TABLE_STEPS = 16, TABLE_LEAST_FIELD = 27 }; /* scales from 2^-100 on: subnormals are zeros */

KF_HD void find_quotients(float scale, uint16_t quotient[128])
{
    const float divisor = kf_float((kf_bits(scale) & 0x7fffffu) | 0x3f800000u);
    for (uint32_t m = 0; m < 128; m++) {
        uint32_t u = kf_bits(kf_float(0x3f800000u | m << 16) / divisor);
        quotient[m] = (uint16_t)(u >> 16 | ((u & 0xffff) != 0));
    }
}

KF_HD int narrow_table(kf_spec s, const uint8_t *restrict src, size_t width, size_t n, size_t g,
                       kf_tile *t, uint8_t *restrict out)
{
    const uint32_t field = kf_bits(t->factor[g]) >> 23; /* of a sign, 255 or NaN: above 254 */
    const uint16_t limit = (uint16_t)(kf_bits(kf_element_max(s.element)) >> 16);
    const lanes16 base = lanes_of((uint16_t)(127 + kf_mx_least(s.element) - lane_normal(s)));
    const lanes16 exponent = lanes_of((uint16_t)(field << 7));
    uint16_t quotient[128];
    lanes16 table[4];
    if (s.family != KERF_FAMILY_FP8 || width < n || n < TABLE_STEPS * LANE_STEP ||
        field < TABLE_LEAST_FIELD || field > 254)
        return 0;
    find_quotients(t->factor[g], quotient);
    memcpy(table, quotient, sizeof table);
    for (size_t at = 0; at < n; at += LANE_STEP) {
        lanes16 v = lanes_load(src + 2 * at);
        lanes16 y = lanes_above((v & 0x7f80) + lanes_look_up(table, v), exponent);
        prefetch(t->ahead + 2 * at, 2 * LANE_STEP);
        v = mx_lanes(s, lanes_min(y, lanes_of(limit)) | (v & 0x8000), base);
        lanes_pack_bytes(&v, out + at);
    }
    return 1;
}

#else

KF_HD int narrow_table(kf_spec s, const uint8_t *src, size_t width, size_t n, size_t g, kf_tile *t,
                       uint8_t *out)
{
    (void)s, (void)src, (void)width, (void)n, (void)g, (void)t, (void)out;
    return 0;
}

#endif

KF_HD int narrow_lanes(kf_spec s, const uint8_t *restrict src, size_t width, size_t n, size_t g,
                       kf_tile *t, uint8_t *restrict out)
{
    uint16_t base[KF_TILE_GROUPS];
    if (s.family == KERF_FAMILY_FP8) return narrow_table(s, src, width, n, g, t, out);
    if (s.family != KERF_FAMILY_MX || !lane_bases(s, g, n / LANE_STEP, t, base)) return 0;
    for (size_t at = 0, i = 0; at < n; at += LANE_STEP, i++) {
        lanes16 v[LANE_PARTS];
        prefetch(t->ahead + 2 * at, 2 * LANE_STEP);
        for (size_t k = 0; k < LANE_PARTS; k++)
            v[k] = mx_lanes(s, lanes_load(src + 2 * (at + k * KF_VEC_LANES)), lanes_of(base[i]));
        pack_step(s.bits, v, out + at * s.bits / 8);
    }
    return 1;
}

#else

KF_HD void pack_words(unsigned bits, uint32_t *code, uint8_t *out)
{
    if (bits == 4) pack_nibbles(code, LANE_STEP / 2, 0, out);
    if (bits == 6) pack_sixes(code, LANE_STEP * 6 / 8, out);
    if (bits == 8) pack_bytes(code, LANE_STEP, out);
}

KF_HD int narrow_lanes(kf_spec s, const uint8_t *src, size_t width, size_t n, size_t g, kf_tile *t,
                       uint8_t *out)
{
    (void)s, (void)src, (void)width, (void)n, (void)g, (void)t, (void)out;
    return 0;
}

#endif

#endif
