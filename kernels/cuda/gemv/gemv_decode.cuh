/* gemv_decode.cuh - codes of KF_ROW as the fragments that a tensor core multiplies.
 *
 * A tensor core takes 16 rows x 16 elements of W. Which 16 is free as long as x agrees, so a warp
 * takes 32 elements of a row at a time, 8 in each of the four lanes of a quad, and a lane makes of
 * its codes whatever order costs least: four registers of two halves, two for each of two products.
 * order(i) says which of the 32 elements the i-th of lane t is; x is laid down accordingly.
 *
 * Codes become halves by the shortest way that is exact:
 *
 *   4 bits E2M1   an E4M3 byte has room for it: two masks, then the conversion of the hardware;
 *                 shuffled (gemv_shuffle.h), a mask
 *   8 bits        E4M3 and E5M2 by the conversion; integers as 1024 + u, less 1024 + zero
 *   6 bits        spread to bytes, then as E4M3 and E5M2
 *   4 bits, int   as 1024 + u and 1024 + 16 u
 *   2 bits        as 1024 + u, 4 u, 16 u and 64 u: of two octets in four bytes a lane has one
 *   4 bits, NF4   a table of all 256 pairs in shared memory, one copy for each bank
 *   16 bits       as they are; bfloat16 meets an x of two parts, each a bfloat16
 *
 * The power of two by which a way is off, UNIT, is made up for at the end of a row. */
#ifndef KERF_GEMV_DECODE_CUH
#define KERF_GEMV_DECODE_CUH

#include "plan/gemv_shuffle.h"
#include "plan/gemv_tiling.h"

#include <cuda_fp16.h>
#include <stdint.h>

/* Compiled twice for formats of E2M1: for codes in memory order, and shuffled. */
#ifndef KF_SHUFFLED
#define KF_SHUFFLED 0
#endif

namespace
{

constexpr kf_gemv_way WAY = KF_SHUFFLED ? KF_WAY_E2M1_SHUFFLED : kf_gemv_way_of(KF_ROW);
constexpr int BITS = KF_ROW.bits;
constexpr bool IS_INTEGER = WAY == KF_WAY_TWO_BITS || WAY == KF_WAY_NIBBLE || WAY == KF_WAY_BYTE;

constexpr float unit_of(kf_spec s)
{
    if (s.geometry == KERF_GROUP_STRUCT && s.element == KERF_ELEM_E2M1) /* blocks_scales.cuh */
        return s.scale == KERF_SCALE_E8M0 ? 64 * 2 : 64 * 256;
    switch (s.element) {
    case KERF_ELEM_E2M1: return KF_SHUFFLED ? 16384 : 64;
    case KERF_ELEM_E2M3: return 64;
    case KERF_ELEM_E3M2: return 4096;
    case KERF_ELEM_MXI8: return 1.0f / 64;
    default: return 1;
    }
}
constexpr float UNIT = unit_of(KF_ROW);

/* GGUF's blocks of 2 and 4 bits: elements 1 and 2 of four trade places
 * (cuda/few/blocks_codes.cuh). */
constexpr bool swaps(kf_spec s)
{
    if (!kf_gemv_is_blocks(s) || s.element == KERF_ELEM_E2M1) return false;
    const kf_super k = kf_gemv_block_of(s);
    return !k.book && !k.high.bits && k.low.bits < 8;
}
constexpr bool SWAPS = KF_BLOCKS && swaps(KF_ROW);

/* The element of 32 that is the i-th of lane t. */
__device__ __forceinline__ constexpr int order(int t, int i)
{
    constexpr int nibbles[8] = {0, 2, 4, 6, 1, 3, 5, 7}, magic[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    if (WAY == KF_WAY_E2M1) return 8 * t + nibbles[i];
    if (WAY == KF_WAY_NIBBLE || WAY == KF_WAY_TWO_BITS) return 8 * t + magic[i];
    if (BITS == 8) return i < 4 ? 4 * t + i : 16 + 4 * t + (i - 4);
    if (BITS == 16) return 8 * (i / 2) + 2 * t + i % 2;
    return 8 * t + i;
}

/* The lower two bytes, and the upper two. Where the hardware has no conversion, a byte's exponent
 * and mantissa are those of a half that is 2^8 times too small, save that 0x7f is no number. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
__device__ __forceinline__ uint32_t halves_of_e4m3(uint32_t two)
{
    uint32_t h;
    asm("{.reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.rn.f16x2.e4m3x2 %0, lo;}"
        : "=r"(h)
        : "r"(two));
    return h;
}
__device__ __forceinline__ uint32_t upper_halves_of_e4m3(uint32_t two)
{
    uint32_t h;
    asm("{.reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.rn.f16x2.e4m3x2 %0, hi;}"
        : "=r"(h)
        : "r"(two));
    return h;
}
#else
__device__ __forceinline__ uint32_t halves_of_e4m3(uint32_t two)
{
    uint32_t bytes = __byte_perm(two, 0, 0x1404), magnitude = bytes & 0x7f007f00u;
    uint32_t small = (bytes & 0x80008000u) | magnitude >> 1, h;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(h) : "r"(small), "r"(0x5c005c00u));
    return h | (__vcmpeq2(magnitude, 0x7f007f00u) & 0x7fff7fffu);
}
__device__ __forceinline__ uint32_t upper_halves_of_e4m3(uint32_t two)
{
    return halves_of_e4m3(two >> 16);
}
#endif

/* E5M2 is the upper byte of a half. */
__device__ __forceinline__ uint32_t halves_of_e5m2(uint32_t w)
{
    return __byte_perm(w, 0, 0x1404);
}
__device__ __forceinline__ uint32_t upper_halves_of_e5m2(uint32_t w)
{
    return __byte_perm(w, 0, 0x3424);
}

__device__ __forceinline__ uint32_t add_halves(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
__device__ __forceinline__ __half2 as_half2(uint32_t w)
{
    return *(__half2 *)&w;
}
__device__ __forceinline__ uint32_t mul_halves(uint32_t a, __half2 b)
{
    __half2 r = __hmul2_rn(as_half2(a), b);
    return *(uint32_t *)&r;
}
__device__ __forceinline__ uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

/* (a & b) | c and (a & b) ^ c, each one instruction. */
__device__ __forceinline__ uint32_t and_or(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
__device__ __forceinline__ uint32_t and_xor(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

/* An octet of 2 bits is two bytes, the lower or the upper ones of a word; what decode() takes has
 * the first in its lower half, and the second in its upper one. */
__device__ __forceinline__ uint32_t halves_of_octet(uint32_t word, bool upper)
{
    return __byte_perm(word, 0, upper ? 0x4342 : 0x4140);
}

/* What integer codes lose: a half of -(1024 + zero), twice. */
__device__ __forceinline__ uint32_t minus_1024(uint32_t zero)
{
    return 0xe400e400u + (zero | zero << 16); /* -1024 - zero, for zero <= 1023 */
}

/* Four 6-bit codes from the low 24 bits of v, as bytes whose sign is at the top. Two codes come to
 * the bottom of each half; what is above them is masked off with the rest. */
__device__ __forceinline__ uint32_t spread_sixes(uint32_t v)
{
    uint32_t t = __byte_perm(v, v << 4, 0x7610);
    return and_or(t << 4, 0x80008000u, and_or(t << 2, 0x1f801f80u, t & 0x001f001fu));
}

/* Byte i of w by a table of all 256 pairs in shared memory. There are 32 copies, one for each bank,
 * so that an entry is 128 bytes from the next; a lane's own copy begins at `table`. It is read by
 * its address, since an index into an array of words would be multiplied twice. */
template <int i> __device__ __forceinline__ uint32_t look_up(uint32_t table, uint32_t w)
{
    uint32_t v;
    asm("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(table + __byte_perm(w, 0, 0x4440 + i) * 128));
    return v;
}

/* The codes of a lane -> four registers of two halves. `zero` is minus_1024() of the group's, for
 * integers; `table` the address of the lane's copy of the pairs, for code books. */
__device__ __forceinline__ void decode(const uint32_t *w, uint32_t zero, uint32_t table,
                                       uint32_t p[4])
{
    if constexpr (WAY == KF_WAY_E2M1) {
        uint32_t even = and_or(w[0] << 2, 0x1c1c1c1cu, w[0] << 4 & 0x80808080u);
        uint32_t odd = and_or(w[0] >> 2, 0x1c1c1c1cu, w[0] & 0x80808080u);
        p[0] = halves_of_e4m3(even);
        p[1] = upper_halves_of_e4m3(even);
        p[2] = halves_of_e4m3(odd);
        p[3] = upper_halves_of_e4m3(odd);
    } else if constexpr (WAY == KF_WAY_E2M1_SHUFFLED) {
        kf_shuffled_pairs(w[0], p);
    } else if constexpr (WAY == KF_WAY_NIBBLE) {
        constexpr uint32_t sign = KF_ROW.element == KERF_ELEM_S4 ? 0x88888888u : 0;
        constexpr uint32_t low = 0x000f000fu, high = 0x00f000f0u;
        uint32_t v = w[0] >> 8;
        /* 1024 + 16 u, times 1/16, is 64 + u: less 64 + zero. */
        uint32_t zero_high = add_halves(zero, 0x63806380u); /* + 960 */
        p[0] = add_halves(and_xor(w[0], low, 0x64006400u | (sign & low)), zero);
        p[1] = fma_halves(and_xor(w[0], high, 0x64006400u | (sign & high)), 0x2c002c00u, zero_high);
        p[2] = add_halves(and_xor(v, low, 0x64006400u | (sign & low)), zero);
        p[3] = fma_halves(and_xor(v, high, 0x64006400u | (sign & high)), 0x2c002c00u, zero_high);
    } else if constexpr (WAY == KF_WAY_TWO_BITS) {
        /* 1024 + 4^i u, times 4^-i, is 4^(5 - i) + u: less that and zero. */
        constexpr uint32_t mask = 0x00030003u;
        constexpr uint32_t sign = KF_ROW.element == KERF_ELEM_S2 ? 0x00020002u : 0;
        constexpr uint32_t magic = 0x64006400u;
        p[0] = add_halves(and_xor(w[0], mask, magic | sign), zero);
        p[1] = fma_halves(and_xor(w[0], mask << 2, magic | sign << 2), 0x34003400u,
                          add_halves(zero, 0x62006200u)); /* + 768 */
        p[2] = fma_halves(and_xor(w[0], mask << 4, magic | sign << 4), 0x2c002c00u,
                          add_halves(zero, 0x63806380u)); /* + 960 */
        p[3] = fma_halves(and_xor(w[0], mask << 6, magic | sign << 6), 0x24002400u,
                          add_halves(zero, 0x63e063e0u)); /* + 1008 */
    } else if constexpr (WAY == KF_WAY_CODEBOOK) {
        p[0] = look_up<0>(table, w[0]);
        p[1] = look_up<1>(table, w[0]);
        p[2] = look_up<2>(table, w[0]);
        p[3] = look_up<3>(table, w[0]);
    } else if constexpr (WAY == KF_WAY_E4M3) {
        p[0] = halves_of_e4m3(w[0]);
        p[1] = upper_halves_of_e4m3(w[0]);
        p[2] = halves_of_e4m3(w[1]);
        p[3] = upper_halves_of_e4m3(w[1]);
    } else if constexpr (WAY == KF_WAY_E5M2) {
        p[0] = halves_of_e5m2(w[0]);
        p[1] = upper_halves_of_e5m2(w[0]);
        p[2] = halves_of_e5m2(w[1]);
        p[3] = upper_halves_of_e5m2(w[1]);
    } else if constexpr (WAY == KF_WAY_BYTE) {
        for (int i = 0; i < 2; i++) {
            uint32_t u = w[i] ^ 0x80808080u;
            p[2 * i] = add_halves(__byte_perm(u, 0x64646464u, 0x4140), zero);
            p[2 * i + 1] = add_halves(__byte_perm(u, 0x64646464u, 0x4342), zero);
        }
    } else if constexpr (WAY == KF_WAY_E2M3 || WAY == KF_WAY_E3M2) {
        uint32_t a = spread_sixes(w[0]), b = spread_sixes(__funnelshift_r(w[0], w[1], 24));
        if constexpr (WAY == KF_WAY_E2M3) {
            p[0] = halves_of_e4m3(a);
            p[1] = upper_halves_of_e4m3(a);
            p[2] = halves_of_e4m3(b);
            p[3] = upper_halves_of_e4m3(b);
        } else {
            p[0] = halves_of_e5m2(a);
            p[1] = upper_halves_of_e5m2(a);
            p[2] = halves_of_e5m2(b);
            p[3] = upper_halves_of_e5m2(b);
        }
    } else {
        for (int i = 0; i < 4; i++) p[i] = w[i];
    }
}

} // namespace

#endif
