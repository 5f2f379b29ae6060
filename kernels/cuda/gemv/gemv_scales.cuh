/* gemv_scales.cuh - what kinds of scales a row of formats.def has, and their values as fp32. */
#ifndef KERF_GEMV_SCALES_CUH
#define KERF_GEMV_SCALES_CUH

#include "cuda/gemv/gemv_ring.cuh"

namespace
{

/* The pieces that W comes in: gemv_tiling.h. */
constexpr kf_gemv_tiling TILING =
    KF_BLOCKS ? kf_gemv_tiling_of(KF_ROW) : kf_gemv_tiling_of_planes(KF_ROW);
constexpr bool TILED = TILING.is_tiled && !borrows();
constexpr bool HAS_COLUMN = TILED && TILING.has_few, HAS_MANY = TILED && TILING.has_many,
               HAS_WIDE = TILED && TILING.has_wide;

constexpr bool HAS_GROUPS = TILING.has_groups;
constexpr kf_gemv_scaling_place SCALING = TILING.scaling;
constexpr bool SHARED_ROW = TILING.is_shared;                   /* one row of scales for many */
constexpr uint32_t TILE_ROWS = KF_ROW.group ? KF_ROW.group : 1; /* that share it */
constexpr bool HAS_ZEROS = KF_ROW.zero == KERF_ZERO_CODE;
constexpr bool HAS_TABLE = TILING.table != 0;
constexpr bool NESTED = KF_ROW.second == KERF_SECOND_NESTED;
constexpr int SCALE_SIZE = TILING.scale;

/* A slice of a row: what a warp has of it where x has many columns. */
constexpr int SLICE_CODES = TILING.slice_codes;
constexpr int SLICE_BYTES = SLICE_CODES * BITS / 8;
constexpr int BLOCKS = SLICE_CODES / 32; /* of 32 elements */
constexpr int GROUPS = HAS_GROUPS ? SLICE_CODES / (int)KF_ROW.group : 0;
constexpr int SCALE_BYTES = TILING.slice_row;
constexpr int SCALE_WORDS = HAS_GROUPS ? (SCALE_BYTES + 3) / 4 : 1;
constexpr int GROUP_BLOCKS = HAS_GROUPS && KF_ROW.group >= 32 ? (int)KF_ROW.group / 32 : 1;

/* Scale i of those in w. */
__device__ __forceinline__ float scale_in(const uint32_t *w, int i, float second, float offset)
{
    if constexpr (KF_ROW.scale == KERF_SCALE_F32) {
        return __uint_as_float(w[i]);
    } else if constexpr (KF_ROW.scale == KERF_SCALE_F16) {
        return __half2float(__ushort_as_half((unsigned short)(w[i / 2] >> 16 * (i % 2))));
    } else if constexpr (KF_ROW.scale == KERF_SCALE_BF16) {
        return __uint_as_float(i % 2 ? w[i / 2] & 0xffff0000u : w[i / 2] << 16);
    } else if constexpr (KF_ROW.scale == KERF_SCALE_E4M3) {
        uint32_t two = i % 4 < 2 ? halves_of_e4m3(w[i / 4]) : upper_halves_of_e4m3(w[i / 4]);
        return i % 2 ? __high2float(as_half2(two)) : __low2float(as_half2(two));
    } else {
        uint32_t word = w[i / 4], at = 8 * (i % 4);
        if constexpr (KF_ROW.scale == KERF_SCALE_MAP8) {
            kf_scale stored = {word >> at & 0xff, 0};
            return kf_dequant_init(KF_ROW, stored, second, offset).scale;
        } else { /* 2^-127 and NaN have the bit below the exponent */
            uint32_t e = word >> at & 0xff;
            return __uint_as_float(e << 23 | (((e + 1) & 0xff) < 2 ? 0x400000u : 0));
        }
    }
}

/* Scales of a unit that the matrix ends in, ROW bytes of each of its rows, in words; unit: which
 * one of a row; rows: of the matrix, from the first of the tile on, whose scales begin at `scales`.
 */
template <int ROW, typename JOB>
__device__ __forceinline__ void copy_scales_at_edge(const JOB &j, uint32_t to, uint32_t lane,
                                                    uint32_t unit, uint32_t rows,
                                                    const uint8_t *scales)
{
    constexpr uint32_t WORDS = ROW > 4 ? ROW / 4 : 1;
    uint64_t all = j.strides.row_groups * SCALE_SIZE, first = (uint64_t)unit * ROW;
    for (uint32_t i = lane; i < (SHARED_ROW ? 1 : TILE) * WORDS; i += 32) {
        uint32_t r = i / WORDS, at = i % WORDS * 4;
        uint64_t left = first + at < all && (SHARED_ROW || r < rows) ? all - first - at : 0;
        const uint8_t *p = scales + r * all + at;
        if (j.words)
            copy_scales<4>(to + i * 4, p, left != 0);
        else
            copy_word(to + i * 4, p, left < 4 ? (int)left : 4);
    }
}

/* Scales whose rows in the matrix, of `all` bytes, begin at words, but not at whole copies; ROW and
 * unit as above; `scales`: of the unit, in the first row of the tile. */
template <int ROW>
__device__ __noinline__ void copy_scales_in_words(uint32_t to, uint32_t lane, uint32_t all,
                                                  uint32_t unit, const uint8_t *scales)
{
    constexpr uint32_t ROW_WORDS = ROW > 4 ? ROW / 4 : 1,
                       WORDS = (SHARED_ROW ? 1 : TILE) * ROW_WORDS;
    const bool inside = unit * ROW + lane % ROW_WORDS * 4 < all;
    scales += lane / ROW_WORDS * all + lane % ROW_WORDS * 4;
#pragma unroll
    for (uint32_t i = 0; i < WORDS; i += 32)
        if (i + 32 <= WORDS || i + lane < WORDS)
            copy_scales<4>(to + (i + lane) * 4, scales + i / ROW_WORDS * all, inside);
}

} // namespace

#endif
