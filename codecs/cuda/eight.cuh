/* eight.cuh - eight codes from memory, their values, and these to memory.
 *
 * Values are those of kf_decoded() in block/: codes of up to 6 bits are looked up in shared memory,
 * FP8 is the hardware's conversion, integers are arithmetic; then the product with the scale. A NaN
 * shows in one more FMA per element and sends the thread to the plain code. */
#ifndef KERF_EIGHT_CUH
#define KERF_EIGHT_CUH

#include "cuda/structs.cuh"
#include "scalar/pack.h"

namespace
{

constexpr int EIGHT = 8;                     /* codes of one turn */
constexpr int CODE_BYTES = (int)KF_ROW.bits; /* of eight codes */

/* Values of all codes of up to 6 bits, but for the scale, in shared memory. */
constexpr bool HAS_BOOK = (KF_ROW.family == KERF_FAMILY_MX || KF_ROW.family == KERF_FAMILY_NVFP4 ||
                           IS_NF4 || (IS_STRUCT && KF_ROW.element == KERF_ELEM_E2M1)) &&
                          KF_ROW.bits <= 6;
constexpr unsigned BOOK = HAS_BOOK ? 1u << KF_ROW.bits % 32 : 1;

__device__ __forceinline__ void fill_book(float *book)
{
    kf_dequant unit = {1, 0, 0};
    if (HAS_BOOK && threadIdx.x < BOOK) book[threadIdx.x] = kf_value(KF_ROW, unit, threadIdx.x);
}

/* --- codes ----------------------------------------------------------------------------------- */

__device__ __forceinline__ void load_codes_slowly(const uint8_t *p, int n, uint32_t *w)
{
    int bytes = (n * (int)KF_ROW.bits + 7) / 8;
#pragma unroll
    for (int k = 0; k < CODE_BYTES; k++)
        if (k < bytes) w[k / 4] |= (uint32_t)p[k] << 8 * (k % 4);
}

constexpr int CODES_WIDE = CODE_BYTES % 16 == 0 ? 16 : CODE_BYTES == 6 ? 2 : CODE_BYTES;

/* Eight codes at a multiple of CODES_WIDE. */
__device__ __forceinline__ void load_whole_codes(const uint8_t *p, uint32_t *w)
{
    if constexpr (CODES_WIDE == 16) {
#pragma unroll
        for (int k = 0; k < CODE_BYTES / 16; k++) load_vector<16>(p + 16 * k, w + 4 * k);
    } else if constexpr (CODES_WIDE == 8) {
        load_vector<8>(p, w);
    } else if constexpr (CODES_WIDE == 4) {
        w[0] = __ldg((const unsigned *)p);
    } else {
#pragma unroll
        for (int k = 0; k < (CODE_BYTES + 3) / 4; k++) w[k] = 0;
#pragma unroll
        for (int k = 0; k < CODE_BYTES / 2; k++)
            w[k / 2] |= (uint32_t)__ldg((const uint16_t *)p + k) << 16 * (k % 2);
    }
}

/* The n first codes of eight, wherever they lie. */
__device__ __forceinline__ void load_codes(const uint8_t *p, int n, uint32_t *w)
{
#pragma unroll
    for (int k = 0; k < (CODE_BYTES + 3) / 4; k++) w[k] = 0;
    load_codes_slowly(p, n, w);
}

/* Code i of eight, shifted so that its lowest bit is bit 0; what lies above is not masked. */
__device__ __forceinline__ uint32_t code_at(const uint32_t *w, int i)
{
    constexpr int BITS = (int)KF_ROW.bits;
    int bit = BITS * (KF_ROW.element == KERF_ELEM_NF4 ? i ^ 1 : i);
    if (BITS == 6 && bit % 32 > 26) return __funnelshift_r(w[bit / 32], w[bit / 32 + 1], bit % 32);
    return w[bit / 32] >> bit % 32;
}

__device__ __forceinline__ uint32_t masked(uint32_t code)
{
    return KF_ROW.bits == 32 ? code : code & ((1u << KF_ROW.bits % 32) - 1);
}

/* --- values ---------------------------------------------------------------------------------- */

/* Four FP8 codes. */
__device__ __forceinline__ void fp8_at(uint32_t w, __nv_fp8_interpretation_t type, float *x)
{
    widen_pair<KERF_F16>(
        [&] {
            __half2_raw h = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)w, type);
            return (uint32_t)h.x | (uint32_t)h.y << 16;
        }(),
        x);
    widen_pair<KERF_F16>(
        [&] {
            __half2_raw h = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)(w >> 16), type);
            return (uint32_t)h.x | (uint32_t)h.y << 16;
        }(),
        x + 2);
}

/* Eight E2M1 codes, where the hardware has them. */
__device__ __forceinline__ void e2m1_values(uint32_t w, float *x)
{
#if KF_HARDWARE_FP4
    uint32_t pair[4];
    asm("{ .reg .b8 a, b, c, d;\n"
        " mov.b32 {a, b, c, d}, %4;\n"
        " cvt.rn.f16x2.e2m1x2 %0, a;\n"
        " cvt.rn.f16x2.e2m1x2 %1, b;\n"
        " cvt.rn.f16x2.e2m1x2 %2, c;\n"
        " cvt.rn.f16x2.e2m1x2 %3, d; }"
        : "=r"(pair[0]), "=r"(pair[1]), "=r"(pair[2]), "=r"(pair[3])
        : "r"(w));
#pragma unroll
    for (int k = 0; k < 4; k++) widen_pair<KERF_F16>(pair[k], x + 2 * k);
#else
    (void)w, (void)x;
#endif
}

/* Eight values without a care for NaN. `book`: where HAS_BOOK. */
__device__ __forceinline__ void decode_fast(const uint32_t *w, kf_dequant d, const float *book,
                                            float *x)
{
    constexpr bool FP8 = KF_ROW.element == KERF_ELEM_E4M3 || KF_ROW.element == KERF_ELEM_E5M2;
    if constexpr (FP8 && KF_HARDWARE_FP8) {
        auto type = KF_ROW.element == KERF_ELEM_E4M3 ? __NV_E4M3 : __NV_E5M2;
        fp8_at(w[0], type, x);
        fp8_at(w[1], type, x + 4);
#pragma unroll
        for (int i = 0; i < EIGHT; i++) x[i] *= d.scale;
    } else if constexpr (KF_ROW.element == KERF_ELEM_E2M1 && KF_HARDWARE_FP4) {
        e2m1_values(w[0], x);
#pragma unroll
        for (int i = 0; i < EIGHT; i++) x[i] *= d.scale;
    } else if constexpr (HAS_BOOK) {
#pragma unroll
        for (int i = 0; i < EIGHT; i++) x[i] = book[masked(code_at(w, i))] * d.scale;
    } else {
#pragma unroll
        for (int i = 0; i < EIGHT; i++) x[i] = kf_value(KF_ROW, d, masked(code_at(w, i)));
    }
}

/* --- values as they are stored -----------------------------------------------------------------
 */

template <int D> constexpr int VALUE_WORDS = EIGHT *source_bytes(D) / 4; /* of eight values */

/* Eight numbers as they are stored. */
template <int D> __device__ __forceinline__ void put_values(const float *x, uint32_t *out)
{
#pragma unroll
    for (int k = 0; k < VALUE_WORDS<D>; k++) {
        if constexpr (D == KERF_F32)
            out[k] = kf_bits(x[k]);
        else
            out[k] = narrow_pair<D>(x[2 * k], x[2 * k + 1]);
    }
}

/* The bits of a number in the target type, rounded to nearest even. */
template <int D> __device__ __forceinline__ uint32_t narrow(float x)
{
    return D == KERF_F32 ? kf_bits(x) : D == KERF_F16 ? kf_f16_encode(x) : kf_bf16_encode(x);
}

/* Eight codes by the very functions of block/, for groups that have a NaN. */
template <int D>
__device__ __noinline__ void decode_slowly(const volatile uint32_t *w, kf_dequant d,
                                           volatile uint32_t *out)
{
    uint32_t codes[(CODE_BYTES + 3) / 4];
    for (int k = 0; k < (CODE_BYTES + 3) / 4; k++) codes[k] = w[k];
    for (int k = 0; k < VALUE_WORDS<D>; k++) out[k] = 0;
    for (int i = 0; i < EIGHT; i++) {
        uint32_t bits = narrow<D>(kf_decoded(KF_ROW, d, masked(code_at(codes, i))));
        out[i * source_bytes(D) / 4] |= bits << 8 * (i * source_bytes(D) % 4);
    }
}

/* The values of eight codes. Where there may be a NaN, NaN has the bits of kf_store(): an FP8 code
 * or what is cast can be one; all others only have a scale that is not finite. */
template <int D>
__device__ __forceinline__ void decode_eight(const uint32_t *w, kf_dequant d, const float *book,
                                             uint32_t *out)
{
    constexpr bool CHECKED = KF_ROW.element == KERF_ELEM_E4M3 || KF_ROW.element == KERF_ELEM_E5M2 ||
                             KF_ROW.family == KERF_FAMILY_CAST;
    float x[EIGHT];
    decode_fast(w, d, book, x);
    put_values<D>(x, out);
    if (CHECKED ? has_special(x, EIGHT) : has_special(&d.scale, 1)) {
        volatile uint32_t codes[(CODE_BYTES + 3) / 4], values[VALUE_WORDS<D>]; /* as in load.cuh */
#pragma unroll
        for (int k = 0; k < (CODE_BYTES + 3) / 4; k++) codes[k] = w[k];
        decode_slowly<D>(codes, d, values);
#pragma unroll
        for (int k = 0; k < VALUE_WORDS<D>; k++) out[k] = values[k];
    }
}

/* --- to memory ------------------------------------------------------------------------------- */

template <int D>
__device__ __noinline__ void store_slowly(uint8_t *p, const volatile uint32_t *w, int n)
{
    for (int i = 0; i < n; i++) {
        if constexpr (D == KERF_F32)
            ((uint32_t *)p)[i] = w[i];
        else
            ((uint16_t *)p)[i] = (uint16_t)(w[i / 2] >> 16 * (i % 2));
    }
}

/* fp32: lanes come in pairs that swap halves, so that each store of a warp fills whole sectors. */
__device__ __forceinline__ void store_pair(uint8_t *p, const uint32_t *w)
{
    bool odd = threadIdx.x % 2;
    uint4 a = make_uint4(w[0], w[1], w[2], w[3]), b = make_uint4(w[4], w[5], w[6], w[7]);
    uint4 give = odd ? a : b, keep = odd ? b : a, got;
    got.x = __shfl_xor_sync(~0u, give.x, 1);
    got.y = __shfl_xor_sync(~0u, give.y, 1);
    got.z = __shfl_xor_sync(~0u, give.z, 1);
    got.w = __shfl_xor_sync(~0u, give.w, 1);
    uint4 *even = (uint4 *)(p - odd * 32);
    __stcs(even + odd, odd ? got : keep);
    __stcs(even + 2 + odd, odd ? keep : got);
}

/* Eight values at a multiple of 16 bytes; all threads of the warp take part. */
template <int D> __device__ __forceinline__ void store_whole_eight(uint8_t *p, const uint32_t *w)
{
    if constexpr (D == KERF_F32)
        store_pair(p, w);
    else
        __stcs((uint4 *)p, make_uint4(w[0], w[1], w[2], w[3]));
}

/* The first n of eight values, anywhere. */
template <int D> __device__ __forceinline__ void store_eight(uint8_t *p, const uint32_t *w, int n)
{
    if (D != KERF_F32 && n == EIGHT && (uintptr_t)p % 16 == 0) {
        __stcs((uint4 *)p, make_uint4(w[0], w[1], w[2], w[3]));
    } else {
        volatile uint32_t v[VALUE_WORDS<D>]; /* volatile, as in load.cuh */
#pragma unroll
        for (int k = 0; k < VALUE_WORDS<D>; k++) v[k] = w[k];
        store_slowly<D>(p, v, n);
    }
}

} // namespace
#endif
