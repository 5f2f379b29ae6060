/* gemv_wide_x.cuh - x in shared memory as the asynchronous tensor core takes it.
 *
 * It reads B by a descriptor: pieces of 16 bytes, eight elements of one column each, eight columns
 * behind each other. Which elements are the eight is as free as elsewhere: those that the four
 * lanes of a quad have as codes, two of each. Of 32 inputs:
 *
 *   [half of the lanes' codes][column / 8][elements 0, 1, 8, 9 .. or the rest][column % 8]
 *
 * and 16 bytes of gap, against bank conflicts with the next 32. A warp has a column. Its lanes read
 * memory as it lies, 16 bytes each, and put every two elements where they belong. bfloat16 is kept
 * in registers until the largest of the column is known: x would come twice from memory else, and
 * all of it has to be there before the first product. */
#ifndef KERF_GEMV_WIDE_X_CUH
#define KERF_GEMV_WIDE_X_CUH

#include "cuda/gemv/gemv_multiply.cuh"
#include "cuda/gemv/gemv_x.cuh"

namespace
{

constexpr uint32_t WIDE_PIECES = 128, WIDE_COLUMNS = 256; /* bytes from one to the next */
constexpr uint32_t WIDE_HALF = 512, WIDE_BLOCK = KF_GEMV_WIDE_X;
static_assert(WIDE_BLOCK == 2 * WIDE_HALF + 16, "32 inputs of 16 columns, and a piece");

/* Elements 8 m to 8 m + 7 of a block, which lane m of a quad has as codes; `to`: the column's first
 * piece. */
__device__ __forceinline__ void put_octet_of_x(uint32_t to, uint32_t m, uint32_t w[4])
{
    put_in_order(w);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        put_word(to + i / 2 * WIDE_HALF + i % 2 * WIDE_PIECES + m * 4, w[i]);
}

/* One by one: x of 32 bits, or that is not aligned or ends within eight. */
__device__ __noinline__ float element_of_x(const kf_gemv_job &j, uint64_t column, uint32_t k)
{
    return k < j.cols ? x_at(j, column + k) : 0.0f;
}

/* A warp's column from input k on. */
struct wide_column {
    uint64_t from; /* its first element */
    uint32_t k, octets, lane;
    bool live, plain; /* whether there is such a column; 16-bit, and in pieces of 16 bytes */

    __device__ __forceinline__ uint4 piece(const kf_gemv_job &j, uint32_t octet) const
    {
        uint32_t e = k + octet * 8;
        if (!live || octet >= octets || e >= j.cols) return {0, 0, 0, 0};
        return __ldcg((const uint4 *)((const uint16_t *)j.x + from + e));
    }

    /* Pieces that a lane keeps until the largest is known: all of 4096 inputs. */
    static constexpr int KEPT = 16;

    __device__ __forceinline__ void keep(const kf_gemv_job &j, uint4 v[KEPT]) const
    {
#pragma unroll
        for (int i = 0; i < KEPT; i++) v[i] = piece(j, lane + 32 * i);
    }

    /* Bits of the largest magnitude of a plain column, the first pieces of which are v. */
    __device__ __forceinline__ uint32_t largest(const kf_gemv_job &j, const uint4 v[KEPT]) const
    {
        uint32_t most = 0;
#pragma unroll
        for (int i = 0; i < KEPT; i++) most = larger_halves(most, v[i]);
#pragma unroll 4
        for (uint32_t o = lane + 32 * KEPT; o < octets; o += 32)
            most = larger_halves(most, piece(j, o));
        return __reduce_max_sync(0xffffffffu, larger_half(most));
    }

    /* Of one that is not: of the largest finite one. */
    __device__ __forceinline__ uint32_t largest(const kf_gemv_job &j) const
    {
        uint32_t most = 0;
#pragma unroll 1
        for (uint32_t i = lane; live && i < octets * 8; i += 32) {
            uint32_t u = __float_as_uint(element_of_x(j, from, k + i)) & 0x7fffffffu;
            most = max(most, u < 0x7f800000u ? u : 0);
        }
        return __reduce_max_sync(0xffffffffu, most);
    }
};

/* Inputs k to k + 32 blocks of all 16 columns to `at`; those that are not there are zero.
 * back[column]: what makes up for the power of two that it was multiplied by. */
__device__ __forceinline__ void load_wide_x(const kf_gemv_job &j, uint32_t k, uint32_t blocks,
                                            uint32_t at, float *back)
{
    uint32_t lane = threadIdx.x % 32, column = threadIdx.x / 32;
    wide_column c = {column * j.x_stride, k,
                     blocks * 4,          lane,
                     column < j.columns,  j.x_wide && j.cols % 8 == 0 && j.x_type != KERF_F32};
    const bool is_half = j.x_type == KERF_F16;
    at += column / 8 * WIDE_COLUMNS + column % 8 * 16;
    if (c.plain) {
        uint4 v[wide_column::KEPT];
        c.keep(j, v);
        const uint32_t most = is_half ? 0 : c.largest(j, v);
        const bool fits = bf16_power::fits(most);
        const bf16_power power(most);
        const float factor = kf_exp2(x_shift(most));
        if (lane == 0) back[column] = kf_exp2(-x_shift(most));
        auto put = [&](uint32_t o, uint32_t w[4]) {
            if (o < c.octets) put_octet_of_x(at + o / 4 * WIDE_BLOCK, lane % 4, w);
        };
        uint32_t next = lane; /* what is not written from v */
        if (is_half || fits) {
#pragma unroll
            for (int i = 0; i < wide_column::KEPT; i++) {
                if (32 * i >= c.octets) break;
                uint32_t w[4] = {v[i].x, v[i].y, v[i].z, v[i].w};
#pragma unroll
                for (int n = 0; n < 4 && !is_half; n++) w[n] = power.halves(w[n]);
                put(lane + 32 * i, w);
            }
            next += 32 * wide_column::KEPT;
        }
#pragma unroll 1
        for (uint32_t o = next; o < c.octets; o += 32) {
            uint4 u = c.piece(j, o);
            uint32_t w[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
            for (int n = 0; n < 4; n++) w[n] = half_pair(j, w[n], factor);
            put(o, w);
        }
    } else {
        const uint32_t most = is_half ? 0 : c.largest(j);
        const float factor = kf_exp2(x_shift(most));
        if (lane == 0) back[column] = kf_exp2(-x_shift(most));
#pragma unroll 1
        for (uint32_t o = lane; o < c.octets; o += 32) {
            uint32_t w[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float u = 0, v = 0;
                if (c.live) {
                    u = element_of_x(j, c.from, k + o * 8 + 2 * i);
                    v = element_of_x(j, c.from, k + o * 8 + 2 * i + 1);
                }
                __half2 h = __floats2half2_rn(u * factor, v * factor);
                w[i] = *(uint32_t *)&h;
            }
            put_octet_of_x(at + o / 4 * WIDE_BLOCK, lane % 4, w);
        }
    }
    /* written as all threads write, read as the tensor core does */
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

} // namespace

#endif
