/* nf4.h - NF4, the 4-bit code book of QLoRA, in blocks of 64 of the flattened tensor.
 *
 * bnb-cpu, the rule of bitsandbytes' CPU backend: c = x * (1 / max(absmax, 1e-38)), clamped to
 * [-1, 1]; code = number of thresholds (fp32 midpoints of the book) below c, so ties go to the
 * lower code. The short last block of a tensor divides, c = x / absmax, and stores absmax no
 * smaller than 1e-38. A block of zeros has codes 7 and absmax 0. An odd last element shares its
 * byte with a code 7. bitsandbytes on CUDA differs: an approximate reciprocal, and codes 0 in a
 * block of zeros.
 *   nf4      absmax as fp32
 *   nf4-f16  absmax rounded to fp16 (saturating, never to zero), codes taken against that
 *   nf4-dq   codes as nf4. offset = mean of all absmax: their exact sum, rounded to double, divided
 *            by their number in double, rounded to fp32. In runs of 256 blocks a' = absmax - offset
 *            is itself quantized: second = max |a'|, code = nearest entry of the signed dynamic map
 *            to a' * (1 / second) (the short last run: a' / second), ties to the lower entry.
 *            bitsandbytes computes the mean in an order of its own, so its offset differs by ulps.
 * decode: book[code] * absmax; nf4-dq: absmax = map[code] * second + offset, two roundings.
 * Source: bitsandbytes functional.py, backends/default/ops.py (0.46 to 0.49). */
#ifndef KERF_NF4_H
#define KERF_NF4_H

#include "block/element.h"
#include "block/scale.h"

#define KF_NF4_LEAST 1e-38f
#define KF_NF4_ZERO 7 /* code of 0 */
#define KF_NEST_BLOCKS 256

KF_TABLE uint32_t kf_nf4_book[16] = {
    0xbf800000, 0xbf3239b1, 0xbf066b30, 0xbeca32a0, 0xbe91a24d, 0xbe3d353f, 0xbdba7871, 0x00000000,
    0x3da2faff, 0x3e24cae3, 0x3e7c04dd, 0x3ead033a, 0x3ee1a4b8, 0x3f1007ab, 0x3f3913b3, 0x3f800000,
};

/* The positive half of bitsandbytes' signed dynamic map, entries 128 to 255. Entry 127 is zero,
 * entry i below that is minus entry 254 - i. */
KF_TABLE uint32_t kf_dynamic_map[128] = {
    0x3513a3b7, 0x365a1a94, 0x370205ff, 0x37b24206, 0x38378034, 0x388aefb3, 0x38ba1f4b, 0x3923d70b,
    0x398ce705, 0x39c7e282, 0x3a016f00, 0x3a1eecc1, 0x3a3c6a80, 0x3a59e83e, 0x3a7765ff, 0x3aa7ef9d,
    0x3af1a9fc, 0x3b1db22d, 0x3b428f5c, 0x3b676c8a, 0x3b8624dd, 0x3b989374, 0x3bab020d, 0x3bbd70a4,
    0x3bcfdf3c, 0x3be24dd3, 0x3bf4bc6a, 0x3c039581, 0x3c0ccccd, 0x3c160418, 0x3c1f3b64, 0x3c3ae148,
    0x3c68f5c3, 0x3c8b851f, 0x3ca28f5c, 0x3cb9999a, 0x3cd0a3d7, 0x3ce7ae13, 0x3cfeb852, 0x3d0ae147,
    0x3d166667, 0x3d21eb85, 0x3d2d70a3, 0x3d38f5c2, 0x3d447ae1, 0x3d500000, 0x3d5b8520, 0x3d670a3d,
    0x3d728f5d, 0x3d7e147b, 0x3d84cccd, 0x3d8a8f5d, 0x3d9051eb, 0x3d96147b, 0x3d9bd70b, 0x3da1999a,
    0x3da75c2a, 0x3dad1eb8, 0x3db2e148, 0x3db8a3d7, 0x3dbe6667, 0x3dc428f7, 0x3dc9eb85, 0x3ddb3334,
    0x3df80000, 0x3e0a6666, 0x3e18cccd, 0x3e273333, 0x3e359999, 0x3e440000, 0x3e526666, 0x3e60cccd,
    0x3e6f3333, 0x3e7d9999, 0x3e860000, 0x3e8d3333, 0x3e946666, 0x3e9b999a, 0x3ea2cccc, 0x3eaa0000,
    0x3eb13332, 0x3eb86666, 0x3ebf999a, 0x3ec6cccc, 0x3ece0000, 0x3ed53332, 0x3edc6666, 0x3ee39999,
    0x3eeacccc, 0x3ef20000, 0x3ef93332, 0x3f003333, 0x3f03cccd, 0x3f076666, 0x3f0b0000, 0x3f0e999a,
    0x3f123333, 0x3f15cccd, 0x3f196667, 0x3f1d0000, 0x3f20999a, 0x3f243333, 0x3f27cccd, 0x3f2b6667,
    0x3f2f0000, 0x3f32999a, 0x3f363333, 0x3f39cccd, 0x3f3d6667, 0x3f410000, 0x3f44999a, 0x3f483333,
    0x3f4bcccd, 0x3f4f6666, 0x3f530000, 0x3f56999a, 0x3f5a3333, 0x3f5dcccd, 0x3f616666, 0x3f650000,
    0x3f68999a, 0x3f6c3333, 0x3f6fcccd, 0x3f736666, 0x3f770000, 0x3f7a999a, 0x3f7e3333, 0x3f800000,
};

KF_HD float kf_nf4_entry(uint32_t code)
{
    return kf_float(kf_nf4_book[code & 15]);
}

KF_HD float kf_map_entry(uint32_t code)
{
    if (code == 127) return 0;
    return code > 127 ? kf_float(kf_dynamic_map[code - 128])
                      : -kf_float(kf_dynamic_map[126 - code]);
}

/* Entries whose upper midpoint lies below c. */
KF_HD uint32_t kf_nf4_nearest(float c)
{
    uint32_t code = 0;
    for (uint32_t i = 0; i < 15; i++) code += c > (kf_nf4_entry(i) + kf_nf4_entry(i + 1)) * 0.5f;
    return code;
}

KF_HD uint32_t kf_map_nearest(float c)
{
    uint32_t code = 0;
    for (uint32_t half = 128; half > 0; half /= 2) { /* midpoints rise: bisect for the count */
        uint32_t i = code + half - 1;
        if (c > (kf_map_entry(i) + kf_map_entry(i + 1)) * 0.5f) code += half;
    }
    return code;
}

KF_HD kf_tensor kf_nf4_tensor(kf_spec s, int encoder, const kerf_stats *stats, int source)
{
    (void)s, (void)encoder, (void)source;
    kf_tensor t = {0};
    t.amax = stats->amax;
    return t;
}

/* absmax as stored; nf4-dq: as fp32, to be nested later. */
KF_HD kf_scale kf_nf4_choose(kf_spec s, int encoder, const kf_tensor *t, kf_group g)
{
    (void)encoder, (void)t;
    float absmax = kf_group_amax(g);
    if (!g.whole) absmax = kf_max(absmax, KF_NF4_LEAST);
    kf_scale scale = {kf_scale_store(s.scale, absmax), 0};
    return scale;
}

/* A zero factor stands for "divide by absmax": kept apart so that both are one operation. */
KF_HD kf_quant kf_nf4_quant(kf_spec s, int encoder, const kf_tensor *t, kf_scale scale, kf_group g)
{
    (void)encoder, (void)t;
    float absmax = kf_scale_value(s.scale, scale.bits);
    kf_quant q = {0};
    q.factor = g.whole ? 1.0f / kf_max(absmax, KF_NF4_LEAST) : absmax;
    q.zero = !g.whole;
    return q;
}

KF_HD uint32_t kf_nf4_code(kf_spec s, kf_quant q, float x)
{
    (void)s;
    float c = q.zero ? x / q.factor : x * q.factor;
    return kf_nf4_nearest(kf_min(kf_max(-1.0f, c), 1.0f));
}

KF_HD kf_dequant kf_nf4_dequant(kf_spec s, kf_scale scale, float second, float offset)
{
    float absmax = s.second == KERF_SECOND_NESTED ? kf_map_entry(scale.bits) * second + offset
                                                  : kf_scale_value(s.scale, scale.bits);
    kf_dequant d = {absmax, 0, 0};
    return d;
}

KF_HD float kf_nf4_value(kf_spec s, kf_dequant d, uint32_t code)
{
    (void)s;
    return kf_nf4_entry(code) * d.scale;
}

/* Code of one absmax less the offset; `whole`: one of 256, not of the short last run. */
KF_HD uint32_t kf_nf4_nested(float a, float second, int whole)
{
    float divisor = kf_max(second, KF_NF4_LEAST);
    float c = whole ? a * (1.0f / divisor) : a / divisor;
    return kf_map_nearest(kf_min(kf_max(-1.0f, c), 1.0f));
}

/* Quantizes a run of absmax (n <= 256) about the offset; returns their second-level scale. */
KF_HD float kf_nf4_nest(const float *absmax, size_t n, float offset, uint8_t *codes)
{
    float second = 0;
    for (size_t i = 0; i < n; i++) second = kf_max(second, kf_abs(absmax[i] - offset));
    for (size_t i = 0; i < n; i++)
        codes[i] = (uint8_t)kf_nf4_nested(absmax[i] - offset, second, n == KF_NEST_BLOCKS);
    return second;
}

#endif
