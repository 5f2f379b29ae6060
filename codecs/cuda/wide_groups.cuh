/* wide_groups.cuh - encoders of groups that a block of threads holds.
 *
 *   rows    a row is a group; what is beyond 16384 elements is read again, from the caches
 *   tiles   128 x 128 */
#ifndef KERF_WIDE_GROUPS_CUH
#define KERF_WIDE_GROUPS_CUH

#include "cuda/encode.cuh"

namespace
{

/* --- rows ------------------------------------------------------------------------------------ */

/* Codes of elements from i < width on of a line whose scale is known. */
template <int D, int ENC>
__device__ __forceinline__ void encode_piece(const kf_job &j, uint64_t line, uint64_t i,
                                             const raw_chunk<D> &r, kf_quant q, extremes e)
{
    uint32_t w[CODE_WORDS];
    float x[CHUNK];
    widen_chunk<D>(r, x);
    make_codes<D, ENC>(x, r, q, e, nullptr, w);
    store_chunk(j.plane[KERF_PLANE_CODES] + line * j.code_bytes + i * KF_ROW.bits / 8, w,
                count_at(j, i));
}

/* Adds elements from i on of a line to the extremes of its row. */
template <int D, int ENC>
__device__ __forceinline__ void add_piece(const kf_job &j, uint64_t line, uint64_t i,
                                          raw_chunk<D> *r, extremes *e)
{
    extremes loaded = {0, 0};
    float x[CHUNK];
    settle_chunk<D>(j, line, i, r, &loaded);
    widen_chunk<D>(*r, x);
    add_elements<ENC>(e, loaded, x, count_at(j, i));
}

constexpr int ROW_CHUNKS = 2; /* of a thread: what a row costs once is shared by their elements */
constexpr int ROW_THREADS = 1024; /* of a multiprocessor */

/* A block of N threads holds so many chunks of a row in registers. What is beyond is read again,
 * from the caches. */
template <int D, int ENC, int N>
__global__ void __launch_bounds__(N, ROW_THREADS / N) encode_rows(const __grid_constant__ kf_job j)
{
    constexpr uint64_t STEP = N * CHUNK, HELD = ROW_CHUNKS * STEP;
    kf_tensor t = no_tensor(j);
    uint64_t first = threadIdx.x * CHUNK;
    for (uint64_t line = blockIdx.x; line < j.lines; line += gridDim.x) {
        raw_chunk<D> raw[ROW_CHUNKS];
        extremes e = no_extremes<ENC>();
#pragma unroll
        for (int k = 0; k < ROW_CHUNKS; k++) raw[k] = load_raw<D>(j, line, first + k * STEP);
#pragma unroll
        for (int k = 0; k < ROW_CHUNKS; k++)
            if (first + k * STEP < j.width)
                add_piece<D, ENC>(j, line, first + k * STEP, &raw[k], &e);
        for (uint64_t i = first + HELD; i < j.width && ENC != ENC_GIVEN; i += STEP) {
            raw_chunk<D> r = load_raw<D>(j, line, i);
            add_piece<D, ENC>(j, line, i, &r, &e);
        }
        kf_scale scale;
        if constexpr (ENC == ENC_GIVEN) {
            scale = j.chosen[line];
        } else {
            share_range_block<N, ENC>(&e);
            scale = choose_scale<D, ENC>(j, &t, e, nullptr, nullptr, 1);
        }
        kf_quant q = make_quant<ENC>(j, &t, scale, e, nullptr, 1);
#pragma unroll
        for (int k = 0; k < ROW_CHUNKS; k++)
            if (first + k * STEP < j.width)
                encode_piece<D, ENC>(j, line, first + k * STEP, raw[k], q, e);
        for (uint64_t i = first + HELD; i < j.width; i += STEP) {
            extremes unused = {0, 0};
            raw_chunk<D> r = load_raw<D>(j, line, i);
            settle_chunk<D>(j, line, i, &r, &unused);
            encode_piece<D, ENC>(j, line, i, r, q, e);
        }
        if (threadIdx.x == 0) {
            store_scale(place_scale(j, line), scale);
            if (KF_ROW.zero == KERF_ZERO_CODE)
                j.plane[KERF_PLANE_ZEROS][line] = (uint8_t)scale.zero;
        }
    }
}

/* --- tiles ----------------------------------------------------------------------------------- */

/* First line of band b of a job, and how many lines it has. */
__device__ __forceinline__ void tile_lines(const kf_job &j, uint64_t b, uint64_t *first, int *n)
{
    uint64_t band = j.first_band + b, matrix = quotient(band, j.bands_per_matrix);
    uint64_t row = (band - matrix * j.bands_per_matrix) * GROUP, left = j.lines_per_matrix - row;
    uint64_t begin = quotient(j.first_band, j.bands_per_matrix) * j.lines_per_matrix + j.first_line;
    *first = matrix * j.lines_per_matrix + row - begin;
    *n = left < GROUP ? (int)left : GROUP;
}

/* A tile of 16-bit elements stays in registers; one of fp32 is read again, from the caches. */
template <int D, int ENC>
__global__ void __launch_bounds__(THREADS, 3) encode_tiles(const __grid_constant__ kf_job j)
{
    constexpr int WIDE = GROUP / CHUNK, APART = THREADS / WIDE, PASSES = GROUP / APART;
    constexpr bool HELD = D != KERF_F32;
    kf_tensor t = no_tensor(j);
    uint64_t column = (uint64_t)blockIdx.x * GROUP + threadIdx.x % WIDE * CHUNK;
    for (uint64_t b = blockIdx.y; b < j.bands; b += gridDim.y) {
        uint64_t first;
        int rows;
        raw_chunk<D> raw[HELD ? PASSES : 1];
        extremes e = no_extremes<ENC>();
        tile_lines(j, b, &first, &rows);
        int top = (int)threadIdx.x / WIDE;
        if constexpr (HELD) {
#pragma unroll
            for (int k = 0; k < PASSES; k++)
                if (top + k * APART < rows)
                    raw[k] = load_raw<D>(j, first + top + k * APART, column);
#pragma unroll
            for (int k = 0; k < PASSES; k++)
                if (top + k * APART < rows)
                    add_piece<D, ENC>(j, first + top + k * APART, column, &raw[k], &e);
        } else {
#pragma unroll 2
            for (int k = top; k < rows; k += APART) {
                raw_chunk<D> r = load_raw<D>(j, first + k, column);
                add_piece<D, ENC>(j, first + k, column, &r, &e);
            }
        }
        share_range_block<THREADS, ENC>(&e);
        kf_scale scale = choose_scale<D, ENC>(j, &t, e, nullptr, nullptr, 1);
        kf_quant q = make_quant<ENC>(j, &t, scale, e, nullptr, 1);
        if constexpr (HELD) {
#pragma unroll
            for (int k = 0; k < PASSES; k++)
                if (top + k * APART < rows && column < j.width)
                    encode_piece<D, ENC>(j, first + top + k * APART, column, raw[k], q, e);
        } else {
#pragma unroll 2
            for (int k = top; k < rows && column < j.width; k += APART) {
                extremes unused = {0, 0};
                raw_chunk<D> r = load_raw<D>(j, first + k, column);
                settle_chunk<D>(j, first + k, column, &r, &unused);
                encode_piece<D, ENC>(j, first + k, column, r, q, e);
            }
        }
        if (threadIdx.x == 0) store_scale(place_scale(j, b * j.groups + blockIdx.x), scale);
    }
}

} // namespace
#endif
