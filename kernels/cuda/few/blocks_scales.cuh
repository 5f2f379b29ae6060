/* blocks_scales.cuh - scales and minima of the groups that a lane has of a row of GGUF's blocks.
 *
 * Blocks of 256 elements keep small integers for their groups (levels), times a half. Those of a
 * lane's part of a block are taken apart four at a time, as bytes of a word (block/super_layout.h
 * says where their bits lie), and become fp32 one by one, under the exponent of 2^23.
 *
 * MINIMA. A weight is scale x code - minimum, and both may be large where the weight is small. So
 * that sums stay as exact as the weights are, it is taken as
 *
 *     scale x (code - zero) + rest,    zero = minimum / scale, rounded, within 0 .. 32
 *
 * The zero is a whole number, so the tensor core multiplies by code - zero exactly. The rest is
 * multiplied by the sum of x over the group; it is at most half of the scale where minimum / scale
 * is within 0 .. 32. So code - zero, times the scale, is at most twice the weight, and the rest at
 * most the weight. Any zero would give the right sum, so an approximate quotient will do. */
#ifndef KERF_BLOCKS_SCALES_CUH
#define KERF_BLOCKS_SCALES_CUH

#include "cuda/few/blocks_codes.cuh"

namespace
{

constexpr int GROUP = KF_ROW.group, RUN_GROUPS = RUN / GROUP, GROUP_OCTETS = GROUP / 8;
constexpr int OWN_GROUPS = QUARTER_CODES / GROUP, STAGE_GROUPS = STAGE_CODES / GROUP;
constexpr bool HAS_MINIMA = BLOCK.m != 0, HAS_LEVELS = BLOCK.levels != KF_LEVELS_NONE;
constexpr int LEVEL_WORDS = HAS_LEVELS && OWN_GROUPS > 4 ? OWN_GROUPS / 4 : 1;

/* What codes whose bits begin at `shift` lose, as halves twice: -(1024 x 2^-shift + zero). */
KF_HD_CONST uint32_t minus_code(uint32_t zero, int shift)
{
    return (0x8000u | (25 - shift) << 10 | zero << shift) * 0x00010001u;
}
constexpr uint32_t ZERO = BLOCK.book ? 128 : BLOCK.middle;

/* What is taken off a level as it is stored. */
constexpr int LEVEL_MIDDLE = BLOCK.levels == KF_LEVELS_EIGHT ? 128
                             : BLOCK.levels == KF_LEVELS_SIX || BLOCK.levels == KF_LEVELS_SPLIT ? 32
                                                                                                : 0;

__device__ __forceinline__ float low_half(uint32_t w)
{
    return __low2float(as_half2(w));
}
__device__ __forceinline__ float high_half(uint32_t w)
{
    return __high2float(as_half2(w));
}

/* The half at an even byte. */
__device__ __forceinline__ float half_at(uint32_t at)
{
    uint32_t w;
    shared_bytes<2>(&w, at);
    return low_half(w);
}

/* Byte i of w less `middle`. */
__device__ __forceinline__ float byte_of(uint32_t w, int i, int middle)
{
    return __uint_as_float(__byte_perm(w, 0x4b000000u, 0x7440 + i)) - (float)(8388608 + middle);
}

/* Four nibbles of a half word as bytes; four pairs of bits of a byte. */
__device__ __forceinline__ uint32_t spread_nibbles(uint32_t v)
{
    v = (v | v << 8) & 0x00ff00ffu;
    return (v | v << 4) & 0x0f0f0f0fu;
}
__device__ __forceinline__ uint32_t spread_twos(uint32_t v)
{
    v = (v | v << 12) & 0x000f000fu;
    return (v | v << 6) & 0x03030303u;
}

/* The levels of a lane's part of a block, in bytes: its group 4 w + i in byte i of word w. */
struct part_levels {
    uint32_t scale[LEVEL_WORDS], min[LEVEL_WORDS];

    __device__ __forceinline__ void load(uint32_t block, uint32_t part)
    {
        constexpr uint32_t nibbles = 0x0f0f0f0fu, twos = 0x30303030u;
        const uint32_t half = PARTS == 4 ? part / 2 : part;
        uint32_t w[4];
        if constexpr (BLOCK.levels == KF_LEVELS_BYTES) {
            load_words<2>(w, block + BLOCK.at + half * 8);
            for (int i = 0; i < 2; i++) scale[i] = w[i] & nibbles, min[i] = w[i] >> 4 & nibbles;
        } else if constexpr (BLOCK.levels == KF_LEVELS_PAIRS) {
            load_words<4>(w, block + BLOCK.at - 4); /* and d and m before them */
            scale[0] = half ? (w[3] & nibbles) | (w[1] >> 2 & twos) : w[1] & 0x3f3f3f3fu;
            min[0] = half ? (w[3] >> 4 & nibbles) | (w[2] >> 2 & twos) : w[2] & 0x3f3f3f3fu;
            if (PARTS == 4) scale[0] >>= part % 2 * 16, min[0] >>= part % 2 * 16;
        } else if constexpr (BLOCK.levels == KF_LEVELS_SIX) {
            load_words<3>(w, block + BLOCK.at);
            const uint32_t high = w[2] >> half * 4;
            scale[0] = (w[0] >> half * 4 & nibbles) | (high << 4 & twos);
            scale[1] = (w[1] >> half * 4 & nibbles) | (high << 2 & twos);
        } else if constexpr (BLOCK.levels == KF_LEVELS_EIGHT) { /* of 32 elements, and 64 later */
            load_words<2>(w, block + BLOCK.at + half * 8);
            scale[0] = choose_bytes(w[0], w[1], part % 2 ? 0x7632 : 0x5410) ^ 0x80808080u;
        } else if constexpr (BLOCK.levels == KF_LEVELS_SPLIT) {
            load_words<2>(w, block); /* d, high bits; low ones */
            scale[0] = spread_nibbles(w[1] >> half * 16 & 0xffff) |
                       spread_twos(w[0] >> (16 + half * 8) & 0xff) << 4;
        }
    }
};

/* What a lane knows of a row's scales: of its part of a block, or of the blocks of a run. */
struct row_scales {
    float d[HAS_LEVELS ? 1 : RUN_GROUPS], m[HAS_LEVELS ? 1 : RUN_GROUPS];
    part_levels levels;

    /* block: the first of the lane's. */
    __device__ __forceinline__ void load(uint32_t block, int run, uint32_t part)
    {
        if constexpr (HAS_LEVELS) {
            if (run) return;
            d[0] = half_at(block + BLOCK.d);
            if (HAS_MINIMA) m[0] = half_at(block + BLOCK.m);
            levels.load(block, part);
        } else {
            block += run * RUN / BLOCK.elements * BLOCK.bytes;
            if constexpr (KF_ROW.scale == KERF_SCALE_E8M0) { /* 2^(e - 128) */
                uint32_t e;
                shared_bytes<1>(&e, block);
                d[0] = __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
            } else if constexpr (KF_ROW.scale == KERF_SCALE_E4M3) {
                load_four_bits(block, run % 2);
            } else if constexpr (HAS_MINIMA) {
                const uint32_t w = shared_word(block);
                d[0] = low_half(w), m[0] = high_half(w);
            } else {
                d[0] = half_at(block);
            }
        }
    }
    /* Two of a block's four scales of 4 bits of exponent, without a sign, 256 times too small; 0x7f
     * is zero. */
    __device__ __forceinline__ void load_four_bits(uint32_t block, int second)
    {
        const uint32_t w = shared_word(block);
#pragma unroll
        for (int i = 0; i < RUN_GROUPS; i++) {
            const uint32_t byte = w >> 8 * (second * RUN_GROUPS + i) & 0xff;
            d[i] = low_half(byte == 0x7f ? 0 : byte << 7 & 0x3f80);
        }
    }

    /* Of group i of the run. */
    __device__ __forceinline__ float scale(int run, int i) const
    {
        if constexpr (!HAS_LEVELS) return d[i];
        const int group = run * RUN_GROUPS + i;
        return d[0] * byte_of(levels.scale[group / 4], group % 4, LEVEL_MIDDLE);
    }
    /* What is taken off: the blocks of one level say what is added. */
    __device__ __forceinline__ float minimum(int run, int i) const
    {
        if constexpr (!HAS_LEVELS) return -m[i];
        const int group = run * RUN_GROUPS + i;
        return m[0] * byte_of(levels.min[group / 4], group % 4, 0);
    }
};

/* What a group's sum of products and its sum of x are multiplied by, and its zero. */
struct group_scale {
    float scale, rest;
    uint32_t zero; /* minus_code() at no shift */

    __device__ __forceinline__ void find(const row_scales &s, int run, int i)
    {
        scale = s.scale(run, i);
        zero = minus_code(ZERO, 0);
        rest = 0;
        if constexpr (HAS_MINIMA) {
            const float minimum = s.minimum(run, i);
            float inverse, part; /* of 32; what is no number becomes 0 */
            asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(scale));
            asm("mul.sat.f32 %0, %1, %2;" : "=f"(part) : "f"(minimum * 0x1p-5f), "f"(inverse));
            const float whole = __fmaf_rn(part, 32, 12582912); /* 1.5 2^23 */
            zero = __byte_perm(__float_as_uint(whole), 0xe4e4e4e4u, 0x4040);
            rest = __fmaf_rn(scale, whole - 12582912, -minimum);
        }
    }
    /* minus_code() of codes whose bits begin at `shift`, by adding 1024 - 1024 x 2^-shift. */
    __device__ __forceinline__ uint32_t zero_at(int shift) const
    {
        if (!HAS_MINIMA || shift == 0) return shift ? minus_code(ZERO, shift) : zero;
        const uint32_t less = 0x6000u + (512 - (1024u >> shift)) * 2;
        return add_halves(zero, less * 0x00010001u);
    }
};

/* --- an element at a time ----------------------------------------------------------------------
 */

/* What a unit adds to a lane's sums. */
template <int N> struct lane_sums {
    float of[N][2];
};

/* Element i of a row's blocks from `row` on, as kerf_decode has it. */
__device__ __forceinline__ float weight_at(uint32_t row, unsigned i)
{
    const unsigned in = i % BLOCK.elements;
    const uint8_t *block =
        (const uint8_t *)__cvta_shared_to_generic(row + i / BLOCK.elements * BLOCK.bytes);
    const kf_dequant q = kf_super_group(BLOCK, block, in / GROUP);
    return kf_super_number(BLOCK, q, kf_super_get(BLOCK, block, in));
}

} // namespace

#endif
