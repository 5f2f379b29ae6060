/* decode.cuh - eight codes of a group per thread and turn: one small load, eight values, one or two
 * 16-byte stores that a warp fills without gaps. Bound by the bytes of the target.
 *
 * Values are those of kf_decoded() in block/: codes of up to 6 bits are looked up in shared memory,
 * FP8 is the hardware's conversion, integers are arithmetic; then the product with the scale. A NaN
 * shows in one more FMA per element and sends the thread to the plain code. */
#ifndef KERF_DECODE_CUH
#define KERF_DECODE_CUH

#include "cuda/structs.cuh"
#include "scalar/pack.h"

namespace
{

constexpr int EIGHT = 8;                     /* codes of one turn */
constexpr int TURNS = 4;                     /* of a thread       */
constexpr int CODE_BYTES = (int)KF_ROW.bits; /* of eight codes */

/* Values of all codes of up to 6 bits, but for the scale, in shared memory. */
constexpr bool HAS_BOOK = (KF_ROW.family == KERF_FAMILY_MX || KF_ROW.family == KERF_FAMILY_NVFP4 ||
                           IS_NF4 || (IS_STRUCT && KF_ROW.element == KERF_ELEM_E2M1)) &&
                          KF_ROW.bits <= 6;
constexpr unsigned BOOK = HAS_BOOK ? 1u << KF_ROW.bits % 32 : 1;

__device__ __forceinline__ void fill_book(float *book)
{
    kf_dequant unit = {1, 0};
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
#pragma unroll
    for (int k = 0; k < VALUE_WORDS<D>; k++) {
        if constexpr (D == KERF_F32)
            out[k] = kf_bits(x[k]);
        else
            out[k] = narrow_pair<D>(x[2 * k], x[2 * k + 1]);
    }
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

/* --- the scale of eight codes ---------------------------------------------------------------- */

/* GGUF's structs: the scale stands among the codes. `row`: the structs, which may lie anywhere. */
__device__ __forceinline__ kf_dequant struct_dequant(const uint8_t *row, uint64_t group)
{
    kf_scale scale = {kf_get_code(row + kf_struct_scale(KF_ROW, group), 8 * SCALE_BYTES, 0), 0};
    return kf_dequant_init(KF_ROW, scale, 1, 0);
}

/* Index of the scale of element i of a line. */
__device__ __forceinline__ uint64_t scale_index(const kf_job &j, uint64_t line, uint64_t i)
{
    if constexpr (KF_ROW.geometry == KERF_GROUP_TENSOR) return matrix_of(j, line);
    if constexpr (KF_ROW.geometry == KERF_GROUP_ROW) return line;
    if constexpr (KF_ROW.geometry == KERF_GROUP_TILE) {
        uint64_t row = j.first_line + line, matrix = quotient(row, j.lines_per_matrix);
        uint64_t band = matrix * j.bands_per_matrix + (row - matrix * j.lines_per_matrix) / GROUP;
        return (band - j.first_line / GROUP) * j.groups + i / GROUP;
    }
    return line * j.groups + i / GROUP;
}

/* The E4M3 scale of a block by the hardware. A NaN has other bits, which kf_decoded() mends. */
__device__ __forceinline__ float e4m3_value(uint32_t bits)
{
    __half_raw h = __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)bits, __NV_E4M3);
    return __half2float(__half(h));
}

/* A scale as it lies in memory. Kernels load all theirs before they look at the first. */
struct raw_scale {
    uint32_t bits, zero;
    float second;
};

/* What all groups of a line share. */
__device__ __forceinline__ raw_scale scale_of_line(const kf_job &j, uint64_t line)
{
    raw_scale r = {0, 0, 1};
    const float *seconds = (const float *)j.plane[KERF_PLANE_SECOND];
    if constexpr (KF_ROW.second == KERF_SECOND_TENSOR)
        r.second = __ldg(seconds + matrix_of(j, line));
    return r;
}

/* Scale `index` of a job, which is that of group `group` of a line. */
__device__ __forceinline__ raw_scale load_scale(const kf_job &j, raw_scale r, uint64_t line,
                                                uint64_t index, uint64_t group)
{
    if constexpr (KF_ROW.scale != KERF_SCALE_NONE) {
        const uint8_t *p = j.plane[KERF_PLANE_SCALES] + index * SCALE_BYTES;
        r.bits = SCALE_BYTES == 4   ? __ldg((const uint32_t *)p)
                 : SCALE_BYTES == 2 ? __ldg((const uint16_t *)p)
                                    : __ldg(p);
    }
    if constexpr (KF_ROW.zero == KERF_ZERO_CODE) {
        const uint8_t *row = j.plane[KERF_PLANE_ZEROS];
        uint64_t at = KF_ROW.geometry == KERF_GROUP_TENSOR  ? index
                      : KF_ROW.geometry == KERF_GROUP_BLOCK ? group
                                                            : 0;
        if (KF_ROW.geometry != KERF_GROUP_TENSOR) row += line * j.zero_bytes;
        unsigned bit = (unsigned)at * KF_ROW.bits % 8; /* no code of a zero crosses a byte */
        r.zero = __ldg(row + at * KF_ROW.bits / 8) >> bit & ((1u << KF_ROW.bits % 32) - 1);
    }
    if constexpr (KF_ROW.second == KERF_SECOND_NESTED)
        r.second = __ldg((const float *)j.plane[KERF_PLANE_SECOND] + group / KF_NEST_BLOCKS);
    return r;
}

__device__ __forceinline__ kf_dequant dequant_of(const kf_job &j, raw_scale r)
{
    if constexpr (KF_ROW.family == KERF_FAMILY_NVFP4 && KF_HARDWARE_FP8) {
        kf_dequant d = {e4m3_value(r.bits) * r.second, 0};
        return d;
    }
    float offset = 0;
    if constexpr (KF_ROW.zero == KERF_ZERO_F32) offset = *(const float *)j.plane[KERF_PLANE_ZEROS];
    kf_scale scale = {r.bits, r.zero};
    return kf_dequant_init(KF_ROW, scale, r.second, offset);
}

__device__ __forceinline__ kf_dequant dequant_at(const kf_job &j, uint64_t line, uint64_t i)
{
    if constexpr (IS_STRUCT)
        return struct_dequant(j.plane[KERF_PLANE_CODES] + line * j.code_bytes, i / GROUP);
    return dequant_of(
        j, load_scale(j, scale_of_line(j, line), line, scale_index(j, line, i), i / GROUP));
}

/* --- a tile of a line ------------------------------------------------------------------------ */

constexpr unsigned TURN = THREADS * EIGHT, DECODE_TILE = TURNS * TURN; /* elements of a block */

/* The first `turns` turns of a tile, all codes whole and all addresses aligned: each is one of
 * these plus a constant. */
template <int D>
__device__ __forceinline__ void decode_whole(const kf_job &j, uint64_t line, uint64_t first,
                                             int turns, const float *book)
{
    constexpr bool GROUPED = PER_GROUP && KF_ROW.geometry != KERF_GROUP_ROW;
    unsigned lane = threadIdx.x * EIGHT;
    const uint8_t *codes = j.plane[KERF_PLANE_CODES] + line * j.code_bytes +
                           first * KF_ROW.bits / 8 + threadIdx.x * CODE_BYTES;
    uint8_t *to = j.dense + (line * j.width + first + lane) * source_bytes(D);
    uint64_t index = scale_index(j, line, first) + (GROUPED ? lane / GROUP : 0);
    uint64_t group = first / GROUP + lane / GROUP;
    uint32_t w[TURNS][(CODE_BYTES + 3) / 4];
    raw_scale common = scale_of_line(j, line), raw[TURNS];
#pragma unroll
    for (int u = 0; u < TURNS; u++)
        if (u < turns) load_whole_codes(codes + u * THREADS * CODE_BYTES, w[u]);
#pragma unroll
    for (int u = 0; u < (GROUPED ? TURNS : 1); u++)
        if (u < turns)
            raw[u] = load_scale(j, common, line, index + u * (GROUPED ? TURN / GROUP : 0),
                                group + u * (TURN / GROUP));
    kf_dequant d = {};
#pragma unroll
    for (int u = 0; u < TURNS; u++) {
        uint32_t values[VALUE_WORDS<D>];
        if (u >= turns) break;
        if (u == 0 || GROUPED) d = dequant_of(j, raw[u]);
        decode_eight<D>(w[u], d, book, values);
        store_whole_eight<D>(to + u * TURN * source_bytes(D), values);
    }
}

/* The other turns. */
template <int D>
__device__ __forceinline__ void decode_edge(const kf_job &j, uint64_t line, uint64_t first,
                                            int turns, const float *book)
{
    const uint8_t *codes = j.plane[KERF_PLANE_CODES] + line * j.code_bytes;
#pragma unroll 1
    for (int u = turns; u < TURNS; u++) {
        uint64_t i = first + u * TURN + threadIdx.x * EIGHT;
        int n = i >= j.width ? 0 : j.width - i < EIGHT ? (int)(j.width - i) : EIGHT;
        if (n == 0) break;
        uint32_t w[(CODE_BYTES + 3) / 4], values[VALUE_WORDS<D>];
        load_codes(codes + i * KF_ROW.bits / 8, n, w);
        decode_eight<D>(w, dequant_at(j, line, i), book, values);
        store_eight<D>(j.dense + (line * j.width + i) * source_bytes(D), values, n);
    }
}

template <int D>
__global__ void __launch_bounds__(THREADS) decode_chunks(const __grid_constant__ kf_job j)
{
    __shared__ float book[BOOK];
    fill_book(book);
    if (HAS_BOOK) __syncthreads();
    for (uint64_t line = blockIdx.y; line < j.lines; line += gridDim.y) {
        uintptr_t askew = ((uintptr_t)j.dense + line * j.width * source_bytes(D)) % 16 |
                          ((uintptr_t)j.plane[KERF_PLANE_CODES] + line * j.code_bytes) % CODES_WIDE;
        for (uint64_t first = (uint64_t)blockIdx.x * DECODE_TILE; first < j.width;
             first += (uint64_t)gridDim.x * DECODE_TILE) {
            uint64_t whole = askew ? 0 : (j.width - first) / TURN;
            int turns = whole < TURNS ? (int)whole : TURNS;
            if (turns > 0) decode_whole<D>(j, line, first, turns, book);
            if (turns < TURNS) decode_edge<D>(j, line, first, turns, book);
        }
    }
}

/* --- structs --------------------------------------------------------------------------------- */

/* Eight bytes from anywhere in shared memory. */
__device__ __forceinline__ void load_bytes(const uint8_t *p, uint32_t *w)
{
    unsigned shift = (unsigned)((uintptr_t)p % 4);
    const uint32_t *from = (const uint32_t *)(p - shift);
    uint32_t a = from[0], b = from[1], c = from[2];
    w[0] = __funnelshift_r(a, b, 8 * shift);
    w[1] = __funnelshift_r(b, c, 8 * shift);
}

/* Values of eight codes that are bytes, from element i of a row of structs on. */
template <int D>
__device__ __forceinline__ void decode_bytes(const uint8_t *row, unsigned i, const float *book,
                                             uint32_t *out)
{
    kf_dequant d = struct_dequant(row, i / GROUP);
    size_t place = kf_struct_code(KF_ROW, i);
    uint32_t w[2];
    float x[EIGHT];
    load_bytes(row + place * KF_ROW.bits / 8, w);
    if (KF_ROW.bits == 4 && place % 2) w[0] >>= 4, w[1] >>= 4;
#pragma unroll
    for (int k = 0; k < EIGHT; k++) {
        uint32_t code = w[k / 4] >> 8 * (k % 4) & (KF_ROW.bits == 4 ? 0xf : 0xff);
        if constexpr (HAS_BOOK) /* else integers, by the last place of a float */
            x[k] = book[code] * d.scale;
        else if constexpr (KF_ROW.bits == 4)
            x[k] = (__uint_as_float(0x4b000000u | code) - (0x1p23f + 8)) * d.scale;
        else
            x[k] = (__uint_as_float(0x4b000000u | (code ^ 0x80)) - (0x1p23f + 128)) * d.scale;
    }
#pragma unroll
    for (int k = 0; k < VALUE_WORDS<D>; k++) {
        if constexpr (D == KERF_F32)
            out[k] = kf_bits(x[k]);
        else
            out[k] = narrow_pair<D>(x[2 * k], x[2 * k + 1]);
    }
}

/* The same by the functions of block/, for a scale that is not finite. */
template <int D>
__device__ __noinline__ void decode_bytes_slowly(const uint8_t *row, unsigned i,
                                                 volatile uint32_t *out)
{
    kf_dequant d = struct_dequant(row, i / GROUP);
    for (int k = 0; k < VALUE_WORDS<D>; k++) out[k] = 0;
    for (unsigned k = 0; k < EIGHT; k++) {
        uint32_t code = kf_get_code(row, KF_ROW.bits, kf_struct_code(KF_ROW, i + k));
        out[k * source_bytes(D) / 4] |= narrow<D>(kf_decoded(KF_ROW, d, code))
                                        << 8 * (k * source_bytes(D) % 4);
    }
}

/* Elements of a block of threads, and the bytes of their structs. */
constexpr unsigned DECODED_STRUCTS = 2 * STRUCT_TILE, DECODED_BYTES = 2 * STRUCT_TILE_BYTES;

/* As decode_chunks(), with the structs of the block's elements in shared memory, since they lie at
 * odd addresses. */
template <int D>
__global__ void __launch_bounds__(THREADS) decode_structs(const __grid_constant__ kf_job j)
{
    __shared__ uint4 structs[DECODED_BYTES / 16 + 1]; /* load_bytes() reads beyond */
    __shared__ float book[BOOK];
    const uint8_t *row = (const uint8_t *)structs;
    uint64_t first = (uint64_t)blockIdx.x * DECODED_STRUCTS, left = j.width - first;
    unsigned elements = left < DECODED_STRUCTS ? (unsigned)left : DECODED_STRUCTS;
    uint8_t *to = j.dense + first * source_bytes(D);
    bool whole = elements == DECODED_STRUCTS && (uintptr_t)to % 16 == 0;
    fill_book(book);
    if (threadIdx.x == 0) structs[DECODED_BYTES / 16] = make_uint4(0, 0, 0, 0);
    copy_bytes((uint8_t *)structs, j.plane[KERF_PLANE_CODES] + blockIdx.x * (uint64_t)DECODED_BYTES,
               elements / GROUP * STRUCT_GROUP_BYTES);
    __syncthreads();
#pragma unroll 2
    for (unsigned i = threadIdx.x * EIGHT; i < DECODED_STRUCTS; i += THREADS * EIGHT) {
        uint32_t values[VALUE_WORDS<D>];
        if (i >= elements) break;
        decode_bytes<D>(row, i, book, values);
        float scale = struct_dequant(row, i / GROUP).scale;
        if (has_special(&scale, 1)) {
            volatile uint32_t v[VALUE_WORDS<D>]; /* as in load.cuh */
            decode_bytes_slowly<D>(row, i, v);
#pragma unroll
            for (int k = 0; k < VALUE_WORDS<D>; k++) values[k] = v[k];
        }
        if (whole)
            store_whole_eight<D>(to + i * source_bytes(D), values);
        else
            store_eight<D>(to + i * source_bytes(D), values, EIGHT);
    }
}

/* --- clip share ------------------------------------------------------------------------------ */

template <int D>
__global__ void __launch_bounds__(THREADS) count_clipped(const __grid_constant__ kf_job j)
{
    unsigned clipped = 0;
    for (uint64_t line = blockIdx.y; line < j.lines; line += gridDim.y) {
        uint64_t step = (uint64_t)gridDim.x * THREADS;
        for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < j.width; i += step) {
            kf_dequant d = dequant_at(j, line, i);
            float x = widen_bits<D>(load_bits<D>(j.dense, line * j.width + i));
            float a = kf_value(KF_ROW, d, j.least), z = kf_value(KF_ROW, d, j.largest);
            clipped += x < kf_min(a, z) || x > kf_max(a, z); /* a scale may be negative */
        }
    }
    clipped = __reduce_add_sync(~0u, clipped);
    if (threadIdx.x % 32 == 0 && clipped) atomicAdd(j.word, (unsigned long long)clipped);
}

/* --- launches -------------------------------------------------------------------------------- */

template <int D> cudaError_t decode_typed(const kf_job *j, cudaStream_t s)
{
    if constexpr (IS_STRUCT)
        decode_structs<D><<<grid_of(j, DECODED_STRUCTS), THREADS, 0, s>>>(*j);
    else
        decode_chunks<D>
            <<<filling(grid_of(j, DECODE_TILE), HAS_BOOK ? 64 : 1 << 20), THREADS, 0, s>>>(*j);
    return cudaGetLastError();
}

template <int D> cudaError_t clip_typed(const kf_job *j, cudaStream_t s)
{
    if (KF_ROW.bits > 8) return cudaSuccess; /* casts: an overflow shows as an infinite error */
    kf_job job = *j;
    kf_extreme_codes(KF_ROW, &job.least, &job.largest);
    dim3 grid = grid_of(j, THREADS);
    grid.x = at_most(grid.x, 4096);
    count_clipped<D><<<grid, THREADS, 0, s>>>(job);
    return cudaGetLastError();
}

} // namespace
#endif
