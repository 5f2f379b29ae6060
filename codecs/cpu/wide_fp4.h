/* wide_fp4.h - groups of 16 numbers of bfloat16, straight from the source to their bytes of E2M1.
 *
 * The stages of wide.h pass elements on as fp32, in order. Here they stay in pairs, as they are
 * read: a lane holds an even element and the odd one after it, whose codes share a byte. What only
 * compares groups (the largest magnitude, the better one of two scales) looks at as many of them as
 * there are lanes, turned so that a vector holds the same pair of each.
 *
 * Which of two scales has the smaller error is found in fixed point, whose error is bounded; a
 * group for which that is not enough is doubtful, and left to the caller. */
#ifndef KERF_WIDE_FP4_H
#define KERF_WIDE_FP4_H

#include "cpu/wide_e2m1.h"
#include "cpu/wide_pairs.h"
#include "cpu/wide_tile.h"

enum {
    BLOCK = 8 * VEC_LANES,       /* elements whose codes fill one vector */
    BLOCK_GROUPS = VEC_LANES / 2 /* of it                                */
};

/* Whether codes follow from a product alone, so that elements need not be fp32 in order. A short
 * block of NF4 divides. */
KF_HD int takes_pairs(kf_spec s, int encoder, size_t cols)
{
    if (s.family == KERF_FAMILY_NF4) return cols % s.group == 0;
    return s.family == KERF_FAMILY_NVFP4 && kf_nvfp4_is_plain(encoder);
}

/* --- codes -------------------------------------------------------------------------------------
 */

/* The last three bits of each lane: the magnitude of the code that kf_e2m1_encode has for y. */
KF_HD vec_u e2m1_magnitudes(vec_f y)
{
    y = vec_lesser(vec_larger_magnitude(y, e2m1_least), e2m1_largest);
    return (vec_u)(y + vec_eighth(e2m1_base, (vec_u)y >> 23));
}

/* A block of elements, multiplied by the factors of their groups. */
KF_HD void encode_block(const uint8_t *src, const float *factor, uint8_t *out)
{
    vec_u byte[4];
    for (size_t i = 0; i < 4; i++) {
        const vec_u pair = vec_load(src + VEC_BYTES * i);
        const vec_f f = vec_of_groups(factor, 2 * VEC_LANES * i);
        vec_u even = e2m1_magnitudes((vec_f)(pair << 16) * f);
        vec_u odd = e2m1_magnitudes((vec_f)(pair & 0xffff0000u) * f);
        vec_u signs = vec_mix(8, pair >> 12, pair >> 24); /* and nothing above the byte */
        byte[i] = vec_mix(7, even, vec_mix(0x70, odd << 4, signs));
    }
    vec_store_bytes(byte, out);
}

/* n elements in whole bytes. ahead: read next. The codes of a dead group are zeros. */
KF_STAGE void encode_pairs(const uint8_t *src, size_t n, const float *factor, const int32_t *dead,
                           const uint8_t *ahead, uint8_t *out)
{
    size_t at = 0;
    for (; at + BLOCK <= n; at += BLOCK) {
        prefetch(ahead + 2 * at, 2 * BLOCK);
        encode_block(src + 2 * at, factor + at / 16, out + at / 2);
    }
    if (at < n) {
        uint8_t in[2 * BLOCK] = {0}, last[BLOCK / 2];
        float own[BLOCK_GROUPS] = {0};
        memcpy(in, src + 2 * at, 2 * (n - at));
        memcpy(own, factor + at / 16, (n - at + 15) / 16 * sizeof *own);
        encode_block(in, own, last);
        memcpy(out + at / 2, last, (n - at + 1) / 2);
    }
    uint32_t any = 0;
    for (size_t g = 0; g < (n + 15) / 16; g++) any |= (uint32_t)dead[g];
    for (size_t g = 0; any && g < (n + 15) / 16; g++)
        if (dead[g]) memset(out + 8 * g, 0, n - 16 * g < 16 ? (n - 16 * g + 1) / 2 : 8);
}

/* --- the better one of two scales ---------------------------------------------------------------
 *
 * In units of the smaller scale, times 2^12: elements y, an error of 1/2; under the larger scale,
 * which is rho of the smaller one, z = y / rho, an error of 2.6 or 2.8 / rho. So an error that the
 * reference finds, d, is missed by no more than e = 2^-13 under the smaller scale and 4.3 * 2^-13
 * under the larger one, with what fp32 rounds on all ways added to it. As 2 |d| e <= d^2 / 512 +
 * 512 e^2, sums of squares are missed by 1/512 of themselves and 16 * 513 * e^2 each: in total less
 * than 2^-8. Sums of magnitudes are missed by 16 e, in total less than 48 * 2^-12, and the largest
 * magnitude by one e, in total less than 3 * 2^-12. */

/* Nearest numbers of E2M1 of [i, i + 1) / 4, times 2^12. */
static const int16_t nearest_e2m1[32] = {
    0,      0x0800, 0x0800, 0x1000, 0x1000, 0x1800, 0x1800, 0x2000, 0x2000, 0x2000, 0x3000,
    0x3000, 0x3000, 0x3000, 0x4000, 0x4000, 0x4000, 0x4000, 0x4000, 0x4000, 0x6000, 0x6000,
    0x6000, 0x6000, 0x6000, 0x6000, 0x6000, 0x6000, 0x6000, 0x6000, 0x6000, 0x6000,
};

typedef uint16_t vec_index __attribute__((vector_size(VEC_BYTES)));

/* Adds the errors of a vector of y; the largest stay apart in the halves of each lane. */
KF_HD vec_u add_distances(kf_metric m, vec_h y, vec_u sum)
{
    const vec_h one = 1 - (vec_h){0};
    const vec_index near = (vec_index)vec_of_32(nearest_e2m1, (vec_h)((vec_index)y >> 10));
    const vec_h d = (vec_h)(near - (vec_index)y); /* wraps in groups that are doubtful */
    if (m == KF_METRIC_LARGEST) return vec_larger_halves(sum, (vec_u)vec_magnitudes(d));
    return sum + (vec_u)(m == KF_METRIC_SQUARES ? vec_dot(d, d) : vec_dot(vec_magnitudes(d), one));
}

KF_HD vec_f error_of(kf_metric m, vec_u sum)
{
    if (m == KF_METRIC_LARGEST) sum = vec_larger_halves(sum & 0xffff, sum >> 16);
    return __builtin_convertvector((vec_i)sum, vec_f);
}

/* What is known of the groups of a tile; arrays have room for a vector more. Each step takes all
 * groups before the next one begins: one after the other for a few groups they would wait for each
 * other's results. */
typedef struct rivals {
    const int32_t *amax;
    uint32_t six[KF_TILE_GROUPS], four[KF_TILE_GROUPS]; /* scales as stored        */
    float factor[KF_TILE_GROUPS], rho[KF_TILE_GROUPS];  /* 1 / the smaller one ... */
    uint32_t ratio[KF_TILE_GROUPS];                     /* ... 1 / rho, twice      */
    uint32_t sum[2][KF_TILE_GROUPS];                    /* errors                  */
} rivals;

/* The stored scales as numbers, if they are normal. */
KF_HD vec_f scale_values(vec_u bits)
{
    return (vec_f)((bits << 20) + (120u << 23));
}

KF_HD void compare_scales(float inv_encode, size_t groups, rivals *r)
{
    for (size_t at = 0; at < groups; at += VEC_LANES) {
        const vec_f small = scale_values(vec_load(r->six + at)) * inv_encode;
        const vec_f large = scale_values(vec_load(r->four + at)) * inv_encode;
        const vec_f factor = 1.0f / small, rho = large * factor;
        const vec_u k = (vec_u)(small / large * 32768.0f + 8388608.0f); /* 2^23: a step is 1 */
        vec_store((vec_u)factor, r->factor + at);
        vec_store((vec_u)rho, r->rho + at);
        vec_store(vec_mix(0xffff, k, k << 16), r->ratio + at);
    }
}

KF_HD void sum_distances(kf_metric m, const uint8_t *src, size_t groups, rivals *r)
{
    uint8_t last[GROUP_BYTES * VEC_LANES];
    const vec_f first = vec_all(2048); /* 2^11: from there on a step is 2^-12 */
    for (size_t at = 0; at < groups; at += VEC_LANES) {
        const size_t n = groups - at < VEC_LANES ? groups - at : VEC_LANES;
        const vec_f factor = (vec_f)vec_load(r->factor + at);
        const vec_h ratio = (vec_h)vec_load(r->ratio + at);
        vec_u pair[8], sum[2] = {{0}, {0}};
        vec_turn_groups(groups_at(src, at, n, last), pair);
        for (int i = 0; i < 8; i++) {
            vec_u a = pair[i] & 0x7fff7fffu;
            vec_u even = (vec_u)vec_about((vec_f)(a << 16), factor, first);
            vec_u odd = (vec_u)vec_about((vec_f)(a & 0xffff0000u), factor, first);
            vec_h y = (vec_h)vec_mix(0xffff, even, odd << 16);
            sum[0] = add_distances(m, y, sum[0]);
            sum[1] = add_distances(m, vec_scale_halves(y, ratio), sum[1]);
        }
        for (int c = 0; c < 2; c++) vec_store(sum[c], r->sum[c] + at);
    }
}

/* Sets bits to the better scale of VEC_LANES groups, or to the smaller one; returns the lanes for
 * which that is doubtful. */
KF_HD uint32_t decide_lanes(kf_metric m, const rivals *r, size_t at, uint32_t *bits)
{
    const vec_u six = vec_load(r->six + at), four = vec_load(r->four + at);
    const vec_f amax = (vec_f)vec_load(r->amax + at), rho = (vec_f)vec_load(r->rho + at);
    const vec_f e6 = error_of(m, vec_load(r->sum[0] + at));
    const vec_f e4 =
        error_of(m, vec_load(r->sum[1] + at)) * (m == KF_METRIC_SQUARES ? rho * rho : rho);
    const vec_f apart = (vec_f)((vec_u)(e4 - e6) & 0x7fffffffu);
    const vec_f missed = m == KF_METRIC_SQUARES ? (e4 + e6) * (1.0f / 512) + 65536.0f
                                                : vec_all(m == KF_METRIC_MAGNITUDES ? 48 : 3);
    vec_u sure = (vec_u)(apart > missed) & (vec_u)(six >= 8);
    sure &= (vec_u)(amax * (vec_f)vec_load(r->factor + at) < 6.5f);
    sure &= (vec_u)(amax > 0x1p-40f) & (vec_u)(amax < 0x1p60f);
    vec_store(six ^ ((six ^ four) & (vec_u)(e4 < e6) & sure), bits + at);
    return vec_bits(~(sure | (vec_u)(six == four)));
}

/* Of the scales of each of the groups: the better one, in bits. Lists the groups for which that is
 * doubtful, and returns how many these are. */
KF_HD size_t judge_groups(kf_metric m, float inv_encode, const uint8_t *src, size_t groups,
                          rivals *r, uint32_t *bits, uint32_t *doubtful)
{
    uint64_t open[KF_TILE_GROUPS / 64] = {0};
    size_t count = 0;
    compare_scales(inv_encode, groups, r);
    sum_distances(m, src, groups, r);
    for (size_t at = 0; at < groups; at += VEC_LANES)
        open[at / 64] |= (uint64_t)decide_lanes(m, r, at, bits) << at % 64;
    if (groups % 64) open[groups / 64] &= (UINT64_C(1) << groups % 64) - 1;
    for (size_t at = 0; at < groups; at += 64)
        for (uint64_t left = open[at / 64]; left; left &= left - 1)
            doubtful[count++] = (uint32_t)at + (uint32_t)__builtin_ctzll(left);
    return count;
}

#endif
