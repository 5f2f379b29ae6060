/* gemv_columns_x.cuh - a warp's slice of x, for all columns, in registers: what its tensor core
 * takes as B. Lane (g, t) has columns g and g + 8, and of each 32 elements the eight that it meets
 * as codes. It loads all of them before it looks at one, and keeps them for as many rows as there
 * are. */
#ifndef KERF_GEMV_COLUMNS_X_CUH
#define KERF_GEMV_COLUMNS_X_CUH

#include "cuda/gemv/gemv_scales.cuh"
#include "cuda/gemv/gemv_x.cuh"

namespace
{

/* Which of 32 elements the i-th of lane t is in memory; order() has those of 4 bits otherwise. */
__device__ __forceinline__ constexpr uint32_t natural(uint32_t t, int i)
{
    if (BITS == 8) return (i < 4 ? 4 * t : 12 + 4 * t) + i;
    if (BITS == 16) return 8 * (i / 2) + 2 * t + i % 2;
    return 8 * t + i;
}
constexpr int RUN = BITS == 8 ? 4 : BITS == 16 ? 2 : 8; /* of a lane that lie together */

/* 16-bit x comes in lines of memory, a column or two by 32 lanes, and goes through shared memory to
 * the lanes that need it: as many lines would be looked up for every eighth of one. */
constexpr int COLUMN_PIECES = SLICE_CODES * 2 / 16, COLUMNS_AT_ONCE = 32 / COLUMN_PIECES;

/* Where a piece of a column lies: columns that are read at once in other banks. */
__device__ __forceinline__ uint32_t piece_of_x(uint32_t column, uint32_t piece)
{
    return (column * COLUMN_PIECES + (piece ^ (column % 2 * 4 | (column & 2) | column / 4 % 2))) *
           16;
}

/* The lane's eight 16-bit elements of a block of its column. */
__device__ __forceinline__ void staged_octet(const uint8_t *from, uint32_t column, int block,
                                             uint32_t t, uint32_t w[4])
{
#pragma unroll
    for (int i = 0; i < 8; i += RUN) {
        uint32_t byte = (block * 32 + natural(t, i)) * 2;
        const uint8_t *p = from + piece_of_x(column, byte / 16) + byte % 16;
        if constexpr (RUN == 8) {
            uint4 v = *(const uint4 *)p;
            w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
        } else if constexpr (RUN == 4) {
            uint2 v = *(const uint2 *)p;
            w[i / 2] = v.x, w[i / 2 + 1] = v.y;
        } else {
            w[i / 2] = *(const uint32_t *)p;
        }
    }
}

/* `stage`: STAGE_X<NB> bytes that are the warp's own meanwhile. */
template <int NB> constexpr int STAGE_X = 1024 * NB;

template <int NB, typename More>
__device__ __forceinline__ void load_lines(const kf_gemv_job &j, uint32_t k, uint32_t lane,
                                           uint8_t *stage, uint32_t x[][BLOCKS][4], More more)
{
    constexpr int LOADS = 8 * NB / COLUMNS_AT_ONCE, ROUND = STAGE_X<NB> / (COLUMN_PIECES * 16);
    constexpr int ROUND_LOADS = ROUND / COLUMNS_AT_ONCE;
    uint32_t piece = lane % COLUMN_PIECES, above = lane / COLUMN_PIECES;
    uint4 v[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        uint32_t column = i * COLUMNS_AT_ONCE + above, at = k + piece * 8;
        v[i] = {0, 0, 0, 0};
        if (column < j.columns && at < j.cols)
            v[i] = __ldcg((const uint4 *)((const uint16_t *)j.x + column * j.x_stride + at));
    }
    more();
#pragma unroll
    for (int r = 0; r < 8 * NB / ROUND; r++) {
#pragma unroll
        for (int i = 0; i < ROUND_LOADS; i++)
            *(uint4 *)(stage + piece_of_x(i * COLUMNS_AT_ONCE + above, piece)) =
                v[r * ROUND_LOADS + i];
        __syncwarp();
        uint32_t here = lane / 4 - r * ROUND % 8;
        if (here < ROUND)
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                staged_octet(stage, here, b, lane % 4, x[r * ROUND / 8][b]);
        __syncwarp();
    }
}

/* The lane's eight fp32 elements of a block that begins with element k of a column. */
__device__ __forceinline__ void load_octet(const kf_gemv_job &j, const float *column, uint32_t k,
                                           uint32_t t, float v[8])
{
    constexpr int AT_ONCE = RUN < 4 ? RUN : 4;
#pragma unroll
    for (int i = 0; i < 8; i += AT_ONCE) {
        uint32_t at = k + natural(t, i);
        bool valid = at < j.cols;
        if constexpr (AT_ONCE == 4) {
            float4 f = {0, 0, 0, 0};
            if (valid) f = __ldcg((const float4 *)(column + at));
            v[i] = f.x, v[i + 1] = f.y, v[i + 2] = f.z, v[i + 3] = f.w;
        } else {
            float2 f = {0, 0};
            if (valid) f = __ldcg((const float2 *)(column + at));
            v[i] = f.x, v[i + 1] = f.y;
        }
    }
}

/* Elements one by one: x is not aligned, or does not end with eight. */
__device__ __noinline__ uint32_t measure_slowly(const kf_gemv_job &j, uint64_t column, uint32_t k,
                                                uint32_t t)
{
    uint32_t most = 0;
    for (int b = 0; b < BLOCKS * 8; b++) {
        uint32_t at = k + b / 8 * 32 + natural(t, b % 8);
        uint32_t u = at < j.cols ? __float_as_uint(x_at(j, column + at)) & 0x7fffffffu : 0;
        most = max(most, u < 0x7f800000u ? u : 0);
    }
    return most;
}
__device__ __noinline__ void octet_one_by_one(const kf_gemv_job &j, uint64_t column, uint32_t k,
                                              uint32_t t, float v[8])
{
    for (int i = 0; i < 8; i++) {
        uint32_t at = k + natural(t, i);
        v[i] = at < j.cols ? x_at(j, column + at) : 0.0f;
    }
}

/* Beside bfloat16 weights x is the sum of two bfloat16: its upper bits and the rounded rest, so 16
 * bits at least. What is not finite has no rest. */
constexpr int X_PARTS = WAY == KF_WAY_BF16 ? 2 : 1;

__device__ __forceinline__ void split_pair(float a, float b, uint32_t &upper, uint32_t &rest)
{
    uint32_t u = __float_as_uint(a), v = __float_as_uint(b);
    bool a_ends = (u & 0x7fffffffu) < 0x7f800000u, b_ends = (v & 0x7fffffffu) < 0x7f800000u;
    if (a != a) u |= 0x400000u;
    if (b != b) v |= 0x400000u;
    float c = a_ends ? a - __uint_as_float(u & 0xffff0000u) : 0.0f;
    float d = b_ends ? b - __uint_as_float(v & 0xffff0000u) : 0.0f;
    upper = __byte_perm(u, v, 0x7632);
    rest = kf_bf16_encode(c) | (uint32_t)kf_bf16_encode(d) << 16;
}

/* Eight numbers times `factor` into their registers: part p is at x[p * NB]. */
template <int NB>
__device__ __forceinline__ void put_octet(const float v[8], float factor, int block,
                                          uint32_t x[][BLOCKS][4])
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (X_PARTS == 2) {
            split_pair(v[2 * i], v[2 * i + 1], x[0][block][i], x[NB][block][i]);
        } else {
            __half2 h = __floats2half2_rn(v[2 * i] * factor, v[2 * i + 1] * factor);
            x[0][block][i] = *(uint32_t *)&h;
        }
    }
    put_in_order(x[0][block]);
}

__device__ __forceinline__ uint32_t largest_of_quad(uint32_t most)
{
    most = max(most, __shfl_xor_sync(0xffffffffu, most, 1));
    return max(most, __shfl_xor_sync(0xffffffffu, most, 2));
}

/* bfloat16 of one of 16 columns in registers -> halves; the exponent of what they were multiplied
 * by. */
__device__ __forceinline__ int convert_bf16(const kf_gemv_job &j, uint32_t (&x)[BLOCKS][4])
{
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < BLOCKS * 4; i++) most = larger_halves(most, x[i / 4][i % 4]);
    most = largest_of_quad(larger_half(most));
    const int shift = x_shift(most);
    const float factor = kf_exp2(shift);
    const bf16_power power(most);
    if (bf16_power::fits(most))
#pragma unroll
        for (int i = 0; i < BLOCKS * 4; i++) x[i / 4][i % 4] = power.halves(x[i / 4][i % 4]);
    else
#pragma unroll
        for (int i = 0; i < BLOCKS * 4; i++)
            x[i / 4][i % 4] = half_pair(j, x[i / 4][i % 4], factor);
    return shift;
}

/* Where registers are there for convert_bf16(): with eight columns it takes a fifth of the time,
 * and beside codes that are looked up a tenth; codes of 8 bits in groups of 32 spill 50 words.
 * There bfloat16 goes one by one. */
template <int NB>
constexpr bool IN_PAIRS =
    NB > 1 && WAY != KF_WAY_CODEBOOK && !(WAY == KF_WAY_BYTE && GROUPS == SLICE_CODES / 32);

/* 16-bit x in registers as it is in memory -> as it is multiplied. */
template <int NB>
__device__ __forceinline__ void convert_lines(const kf_gemv_job &j,
                                              uint32_t x[X_PARTS * NB][BLOCKS][4], int shift[NB])
{
#pragma unroll
    for (int n = 0; n < NB; n++) {
        const bool is_bf16 = j.x_type == KERF_BF16 && X_PARTS == 1;
        if (is_bf16 && IN_PAIRS<NB>) {
            shift[n] = convert_bf16(j, x[n]);
        } else if (is_bf16) {
            uint32_t most = 0;
#pragma unroll
            for (int i = 0; i < BLOCKS * 4; i++) most = larger_bf16(most, x[n][i / 4][i % 4]);
            shift[n] = x_shift(largest_of_quad(most));
        }
        float factor = kf_exp2(shift[n]);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                uint32_t &w = x[n][b][i];
                if constexpr (X_PARTS == 2) {
                    uint32_t &rest = x[NB + n][b][i];
                    __half2 h = as_half2(w);
                    rest = 0;
                    if (j.x_type == KERF_F16) split_pair(__low2float(h), __high2float(h), w, rest);
                } else if (j.x_type == KERF_BF16 && !IN_PAIRS<NB>) {
                    w = half_pair(j, w, factor);
                }
            }
            put_in_order(x[n][b]);
        }
    }
}

/* x of 32 bits, or not aligned, or of a length that is not a multiple of eight. */
template <int NB>
__device__ __forceinline__ void load_others(const kf_gemv_job &j, uint32_t k, uint32_t lane,
                                            uint32_t x[X_PARTS * NB][BLOCKS][4], int shift[NB])
{
    uint32_t t = lane % 4;
    bool plain = j.x_wide && j.cols % 8 == 0;
#pragma unroll
    for (int n = 0; n < NB; n++) {
        uint64_t column = (lane / 4 + 8 * n) * j.x_stride;
        bool live = lane / 4 + 8 * n < j.columns;
        const float *from = (const float *)j.x + column;
        if (j.x_type != KERF_F16 && X_PARTS == 1) {
            uint32_t most = 0;
            if (live && !plain) most = measure_slowly(j, column, k, t);
            if (live && plain)
#pragma unroll
                for (int b = 0; b < BLOCKS; b++) {
                    float v[8];
                    load_octet(j, from, k + 32 * b, t, v);
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        uint32_t u = __float_as_uint(v[i]) & 0x7fffffffu;
                        most = max(most, u < 0x7f800000u ? u : 0);
                    }
                }
            shift[n] = x_shift(largest_of_quad(most));
        }
        float factor = kf_exp2(shift[n]);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            if (live && plain) {
                float v[8];
                load_octet(j, from, k + 32 * b, t, v);
                put_octet<NB>(v, factor, b, x + n);
            } else if (live) {
                float v[8]; /* not the other: this one lives in memory */
                octet_one_by_one(j, column, k + 32 * b, t, v);
                put_octet<NB>(v, factor, b, x + n);
            }
        }
    }
}

/* The slice of x that begins with element k. What comes back makes up for the powers of two that
 * the lane's sums, of columns 2 t and 2 t + 1 of each eight, were multiplied by: an exponent in
 * each byte. `more` is done while x comes. */
template <int NB, typename More>
__device__ __forceinline__ uint32_t load_slice_of_x(const kf_gemv_job &j, uint32_t k, uint32_t lane,
                                                    uint8_t *stage,
                                                    uint32_t x[X_PARTS * NB][BLOCKS][4], More more)
{
    int shift[NB] = {};
#pragma unroll
    for (int i = 0; i < X_PARTS * NB * BLOCKS * 4; i++)
        x[i / BLOCKS / 4][i / 4 % BLOCKS][i % 4] = 0;
    if (j.x_wide && j.cols % 8 == 0 && j.x_type != KERF_F32) {
        load_lines<NB>(j, k, lane, stage, x, more);
        convert_lines<NB>(j, x, shift);
    } else {
        more();
        load_others<NB>(j, k, lane, x, shift);
    }
    uint32_t back = 0;
#pragma unroll
    for (int i = 0; i < 2 * NB; i++) {
        int of_column = __shfl_sync(0xffffffffu, shift[i / 2], (lane % 4 * 2 + i % 2) * 4);
        back |= (uint32_t)(127 - of_column) << 8 * i;
    }
    return back;
}

/* The factor in byte i. */
__device__ __forceinline__ float factor_in(uint32_t back, int i)
{
    return __uint_as_float((back >> 8 * i & 0xff) << 23);
}

} // namespace

#endif
