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

#include "cpu/wide_pairs.h"
#include "cpu/wide_tile.h"

enum {
    BLOCK = 8 * VEC_LANES,       /* elements whose codes fill one vector */
    BLOCK_GROUPS = VEC_LANES / 2 /* of it                                */
};

/* Whether an encoder of NVFP4 makes codes by a product alone, and so can do without fp32 in order. */
KF_HD int takes_pairs(kf_spec s, int encoder)
{
    return s.family == KERF_FAMILY_NVFP4 && kf_nvfp4_is_own(encoder);
}

/* --- codes ------------------------------------------------------------------------------------- */

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
    for (size_t g = 0; g < (n + 15) / 16; g++)
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

typedef enum error_metric { SQUARES, MAGNITUDES, LARGEST } error_metric;

/* Adds the errors of a vector of y; the largest stay apart in the halves of each lane. */
KF_HD vec_u add_distances(error_metric m, vec_h y, vec_u sum)
{
    const vec_h one = 1 - (vec_h){0};
    vec_h d = vec_of_32(nearest_e2m1, (vec_h)((vec_index)y >> 10)) - y;
    if (m == LARGEST) return vec_larger_halves(sum, (vec_u)vec_magnitudes(d));
    return sum + (vec_u)(m == SQUARES ? vec_dot(d, d) : vec_dot(vec_magnitudes(d), one));
}

KF_HD vec_f error_of(error_metric m, vec_u sum)
{
    if (m == LARGEST) sum = vec_larger_halves(sum & 0xffff, sum >> 16);
    return __builtin_convertvector((vec_i)sum, vec_f);
}

typedef struct rivals { /* in each lane */
    vec_u six, four;    /* scales        */
    vec_f amax;
} rivals;

/* The stored scales as numbers, if they are normal. */
KF_HD vec_f scale_values(vec_u bits)
{
    return (vec_f)((bits << 20) + (120u << 23));
}

/* Compares the scales of the groups at src. Sets the lanes of `four` where the larger one is
 * better, and those of `sure` where that is certain. */
KF_HD void judge(error_metric m, float inv_encode, const uint8_t *src, const rivals *r, vec_u *four,
                 vec_u *sure)
{
    const vec_f small = scale_values(r->six) * inv_encode, factor = 1.0f / small;
    const vec_f large = scale_values(r->four) * inv_encode, rho = large * factor;
    const vec_u k = (vec_u)((small / large) * 32768.0f + 8388608.0f); /* 2^23: a step is 1 */
    const vec_h ratio = (vec_h)vec_mix(0xffff, k, k << 16);
    const vec_f first = vec_all(2048); /* 2^11: from there on a step is 2^-12 */
    vec_u pair[8];
    vec_u sum[2] = {{0}, {0}};
    vec_turn_groups(src, pair);
    for (int i = 0; i < 8; i++) {
        vec_u a = pair[i] & 0x7fff7fffu;
        vec_u even = (vec_u)vec_about((vec_f)(a << 16), factor, first);
        vec_u odd = (vec_u)vec_about((vec_f)(a & 0xffff0000u), factor, first);
        vec_h y = (vec_h)vec_mix(0xffff, even, odd << 16);
        sum[0] = add_distances(m, y, sum[0]);
        sum[1] = add_distances(m, vec_scale_halves(y, ratio), sum[1]);
    }
    const vec_f e6 = error_of(m, sum[0]);
    const vec_f e4 = error_of(m, sum[1]) * (m == SQUARES ? rho * rho : rho);
    const vec_f apart = (vec_f)((vec_u)(e4 - e6) & 0x7fffffffu);
    const vec_f missed = m == SQUARES ? (e4 + e6) * (1.0f / 512) + 65536.0f
                                      : vec_all(m == MAGNITUDES ? 48 : 3);
    *four = (vec_u)(e4 < e6);
    *sure = (vec_u)(apart > missed) & (vec_u)(r->six >= 8) & (vec_u)(r->amax * factor < 6.5f) &
            (vec_u)(r->amax > 0x1p-40f) & (vec_u)(r->amax < 0x1p60f);
    *sure |= (vec_u)(r->six == r->four);
}

/* Of two scales for each of the groups: the better one, in bits, or the smaller one and the group's
 * number in the list of those that are doubtful. Returns how many these are. Arrays have room for a
 * vector more. */
KF_HD size_t judge_groups(error_metric m, float inv_encode, const uint8_t *src, size_t groups,
                          const int32_t *amax, const uint32_t *six, const uint32_t *four,
                          uint32_t *bits, uint32_t *doubtful)
{
    uint8_t last[GROUP_BYTES * VEC_LANES];
    size_t count = 0;
    for (size_t at = 0; at < groups; at += VEC_LANES) {
        const size_t n = groups - at < VEC_LANES ? groups - at : VEC_LANES;
        const rivals r = {vec_load(six + at), vec_load(four + at), (vec_f)vec_load(amax + at)};
        vec_u takes, sure;
        judge(m, inv_encode, groups_at(src, at, n, last), &r, &takes, &sure);
        vec_store(r.six ^ ((r.six ^ r.four) & takes & sure), bits + at);
        if (vec_is_full(sure)) continue;
        for (size_t i = 0; i < n; i++) {
            doubtful[count] = (uint32_t)(at + i);
            count += !sure[i];
        }
    }
    return count;
}

#endif
