/* decode.cuh - eight codes of a group per thread and turn: one small load, eight values, one or two
 * 16-byte stores that a warp fills without gaps. Bound by the bytes of the target. */
#ifndef KERF_DECODE_CUH
#define KERF_DECODE_CUH

#include "cuda/eight.cuh"
#include "cuda/grid.cuh"

namespace
{

constexpr int TURNS = 4; /* of a thread */

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
        kf_dequant d = {e4m3_value(r.bits) * r.second, 0, 0};
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
    put_values<D>(x, out);
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
