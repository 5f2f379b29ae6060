/* gemv_nvfp4_codes.cuh - what a launch of y = A b with both sides NVFP4 works on, and the
 * arithmetic of its codes: nibbles become bytes of twice their number by PRMT, eight of them meet
 * eight of b in four DP4A, exactly. The theory is at the head of gemv_nvfp4.cu. */
#ifndef KERF_GEMV_NVFP4_CODES_CUH
#define KERF_GEMV_NVFP4_CODES_CUH

#include "block/scale_tiles.h"

#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

extern "C" {
#include "cuda/handle.h"
#include "plan/gemv_nvfp4_plan.h"
}

namespace
{

enum {
    WARPS = 8,
    THREADS = WARPS * 32,
    OWN = 32,        /* elements of a lane in a piece  */
    PIECE = 32 * OWN /* elements that a warp takes up at once */
};

struct job {
    const uint8_t *a, *sa, *b, *sb;
    const float *second_a, *second_b; /* or NULL */
    void *y;
    uint64_t sa_each, sb_each; /* bytes of the scales of a matrix, of a vector */
    unsigned rows, cols;
    unsigned across;     /* tiles of scales that lie side by side              */
    unsigned blocks;     /* thread blocks of a matrix                          */
    kf_nvfp4_run run[2]; /* blocks of a matrix                                 */
    unsigned part_bits;  /* 2^part_bits warps share a row                      */
    unsigned eager;      /* blocks from this one on ask for more before b      */
    float alpha;
    kerf_dtype type;
    bool b_tiled, early;
    bool near; /* scales of A through the first level of the cache */
};

/* --- where a launch stands on its stream ------------------------------------------------------ */

__device__ __forceinline__ void launch_dependents()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_inputs()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* --- codes ------------------------------------------------------------------------------------ */

/* x, but not known to be the same in all threads: a uniform register would be copied into another
 * for each PRMT. */
__device__ __forceinline__ uint32_t kept(uint32_t x)
{
    uint32_t lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return x + (lane >> 5);
}

/* Codes with their signs turned; hidden, lest the compiler turns each half for itself. */
__device__ __forceinline__ uint32_t negated(uint32_t w)
{
    uint32_t r;
    asm("xor.b32 %0, %1, 0x88888888;" : "=r"(r) : "r"(w));
    return r;
}

/* Four nibbles at the low end of w become bytes of a table, which PRMT picks; where a nibble has
 * its top bit set, eight copies of the top bit of that byte. */
template <uint32_t HIGH> __device__ __forceinline__ uint32_t pick(uint32_t low, uint32_t w)
{
    uint32_t r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(low), "n"(HIGH), "r"(w));
    return r;
}

/* For twice the number of a code as two addends:
 *   plus    of the code       2|v| + 1 (0 for 0) for positive codes, 0 for negative ones
 *   minus   of its negative   -1 (0 for 0) for positive codes, -2|v| for negative ones */
constexpr uint32_t PLUS_LOW = 0x04030200, PLUS_HIGH = 0x0d090705;
constexpr uint32_t MINUS_LOW = 0xfdfeff00, MINUS_HIGH = 0xf4f8fafc;
struct tables {
    uint32_t plus, minus;
};

/* 2v of four codes: 2v mod 128 from a table for either sign, where the other one's codes are 0; and
 * seven bits are enough to know the eighth. */
__device__ __forceinline__ uint32_t signed_bytes(uint32_t w)
{
    uint32_t v = pick<0x0c080604>(0x03020100, w) | pick<0x74787a7c>(0x7d7e7f00, w ^ 0x8888);
    return v | (v << 1 & 0x80808080);
}

__device__ __forceinline__ __half2 two_scales(uint32_t codes)
{
    return __half2(__nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)codes, __NV_E4M3));
}

/* Eight codes times eight numbers of b, added to a sum. */
__device__ __forceinline__ int dot_word(tables t, uint32_t w, uint32_t b0, uint32_t b1, int sum)
{
    uint32_t n = negated(w);
    sum = __dp4a((int)pick<PLUS_HIGH>(t.plus, w), (int)b0, sum);
    sum = __dp4a((int)pick<MINUS_HIGH>(t.minus, n), (int)b0, sum);
    sum = __dp4a((int)pick<PLUS_HIGH>(t.plus, w >> 16), (int)b1, sum);
    return __dp4a((int)pick<MINUS_HIGH>(t.minus, n >> 16), (int)b1, sum);
}

constexpr int START = 0x4b400000; /* as fp32 3 * 2^22, whose last place counts ones */

__device__ __forceinline__ float counted(int c)
{
    return __fadd_rn(__int_as_float(c), -__int_as_float(START));
}

/* --- y ---------------------------------------------------------------------------------------- */

__device__ __forceinline__ void store(const job &j, unsigned matrix, unsigned row, float sum,
                                      float second_a, float second_b)
{
    float v = __fmul_rn(__fmul_rn(__fmul_rn(sum, j.alpha), second_b), second_a);
    uint64_t at = (uint64_t)matrix * j.rows + row;
    if (j.type == KERF_F16)
        ((__half *)j.y)[at] = __float2half_rn(v);
    else if (j.type == KERF_BF16)
        ((__nv_bfloat16 *)j.y)[at] = __float2bfloat16_rn(v);
    else
        ((float *)j.y)[at] = v;
}

/* Row r of a quad. */
template <bool TILED> __device__ __forceinline__ unsigned row_of(unsigned quad, unsigned r)
{
    return TILED ? (quad & ~31u) * 4 + (quad & 31) + 32 * r : 4 * quad + r;
}

} // namespace

#endif
