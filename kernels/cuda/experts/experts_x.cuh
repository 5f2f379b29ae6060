/* experts_x.cuh - a slice of x for the tokens of a group, as a warp multiplies it: copied into the
 * ring beside its weights, made halves there, and read as the second matrix of a tensor core, with
 * token t of eight in column t. */
#ifndef KERF_EXPERTS_X_CUH
#define KERF_EXPERTS_X_CUH

#include "cuda/experts/experts_matrix.cuh"
#include "cuda/many/gemv_columns.cuh"

namespace
{

constexpr uint32_t HALVES_BYTES = SLICE_CODES * 2; /* of a column; where its second part begins */
constexpr uint32_t OCTETS_8 = SLICE_CODES / 8;     /* runs of eight elements of a column */

/* Columns that do not begin at multiples of 16 bytes. */
__device__ __noinline__ void copy_x_askew(const kf_experts_job &j, uint32_t to, uint64_t row,
                                          uint32_t slice, uint32_t lane)
{
    bool is_wide = j.x_type == KERF_F32;
    for (uint32_t i = lane; i < SLICE_CODES / (is_wide ? 1 : 2); i += 32) {
        uint32_t at = slice * SLICE_CODES + (is_wide ? i : 2 * i);
        uint32_t w = x_bits(j, row, at);
        if (!is_wide) w |= x_bits(j, row, at + 1) << 16;
        put_word(to + i * 4, w);
    }
}

/* Starts copies of a slice of a row of x. */
__device__ __forceinline__ void copy_x(const kf_experts_job &j, uint32_t to, uint64_t row,
                                       uint32_t slice, uint32_t lane)
{
    if (!j.x_wide) {
        copy_x_askew(j, to, row, slice, lane);
        return;
    }
    const uint32_t first = slice * SLICE_CODES, left = j.cols > first ? j.cols - first : 0;
    const uint64_t at = row * j.x_stride + first;
    if (j.x_type != KERF_F32) {
        bool inside = lane * 8 < left;
        if (OCTETS_8 == 32 || lane < OCTETS_8)
            copy_async(to + lane * 16, inside ? j.x + at * 2 + lane * 16 : j.x, inside);
        return;
    }
#pragma unroll
    for (uint32_t p = 0; p < SLICE_CODES / 4; p += 32) {
        bool inside = (p + lane) * 4 < left;
        copy_async(to + (p + lane) * 16, inside ? j.x + at * 4 + (p + lane) * 16 : j.x, inside);
    }
}

/* Eight halves, or bfloat16, of a run to where lanes find them. */
__device__ __forceinline__ void put_run(uint32_t to, uint32_t p, uint32_t w[4])
{
    if constexpr (RUN == 8) {
        put_in_order(w);
        put_piece(to + p * 16, {w[0], w[1], w[2], w[3]});
    } else {
        constexpr uint32_t words = RUN / 2; /* that stay together */
        uint32_t q = p % 4, block = to + p / 4 * 64;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t octet = RUN == 4 ? 2 * (q % 2) + i / words : i;
            uint32_t word = RUN == 4 ? q / 2 * 2 + i % words : q;
            put_word(block + octet * 16 + word * 4, w[i]);
        }
    }
}

/* Makes a column of raw x in the ring what is multiplied, in place. Returns the exponent of the
 * power of two that it was multiplied by. */
__device__ __forceinline__ int convert_column(const kf_experts_job &j, uint32_t at, uint32_t lane)
{
    bool live = OCTETS_8 == 32 || lane < OCTETS_8;
    float v[8] = {};
    uint32_t w[4] = {}, rest[4] = {};
    int shift = 0;
    if (j.x_type == KERF_F32) {
        if (live) {
            uint4 a = shared_piece(at + lane * 32), b = shared_piece(at + lane * 32 + 16);
            uint32_t u[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
            for (int i = 0; i < 8; i++) v[i] = __uint_as_float(u[i]);
        }
    } else {
        if (live) {
            uint4 a = shared_piece(at + lane * 16);
            w[0] = a.x, w[1] = a.y, w[2] = a.z, w[3] = a.w;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (j.x_type == KERF_BF16)
                v[2 * i] = __uint_as_float(w[i] << 16),
                      v[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
            else if (X_PARTS == 2)
                v[2 * i] = __low2float(as_half2(w[i])), v[2 * i + 1] = __high2float(as_half2(w[i]));
    }
    if constexpr (X_PARTS == 2) {
#pragma unroll
        for (int i = 0; i < 4; i++) split_pair(v[2 * i], v[2 * i + 1], w[i], rest[i]);
    } else if (j.x_type != KERF_F16) {
        float most = 0; /* where that is infinite, so is what comes of it */
#pragma unroll
        for (int i = 0; i < 8; i++) most = fmaxf(most, fabsf(v[i]));
        shift = x_shift(__reduce_max_sync(0xffffffffu, __float_as_uint(most)));
        float factor = kf_exp2(shift);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            __half2 h = __floats2half2_rn(v[2 * i] * factor, v[2 * i + 1] * factor);
            w[i] = *(uint32_t *)&h;
        }
    }
    __syncwarp();
    if (live) {
        put_run(at, lane, w);
        if constexpr (X_PARTS == 2) put_run(at + HALVES_BYTES, lane, rest);
    }
    return shift;
}

/* The tokens of a group, one after another: f(rank, token of eight). */
template <typename F> __device__ __forceinline__ void each_token(uint32_t mask, F f)
{
    for (uint32_t rank = 0; mask; rank++, mask &= mask - 1) f(rank, (uint32_t)__ffs(mask) - 1);
}

} // namespace

#endif
