/* feedback_sums.cu - what error feedback does for all formats alike: elements as fp32, the sums of
 * the columns behind a block, codes to their plane.
 *
 * Every sum takes one product for each column before it, in rising order, multiplied and added with
 * a rounding each: a matrix product whose inner dimension is taken in order. */
#include "block/all.h"
#include "cuda/feedback_job.h"

constexpr int THREADS = 256, BLOCK = KF_FEEDBACK_BLOCK;
constexpr int SIDE = 128, DEEP = 8; /* of a tile of sums; columns that are held at a time */

static inline unsigned blocks_of(uint64_t n, uint64_t each, unsigned most)
{
    n = (n + each - 1) / each;
    return n < 1 ? 1 : n < most ? (unsigned)n : most;
}

/* --- elements ------------------------------------------------------------------------------- */

static __device__ float element_at(const kf_job &j, uint64_t i)
{
    if (j.dtype == KERF_F32) return ((const float *)j.dense)[i];
    uint16_t half = ((const uint16_t *)j.dense)[i];
    return j.dtype == KERF_F16 ? kf_f16_decode(half) : kf_bf16_decode(half);
}

static __device__ float largest_of(kerf_dtype t)
{
    return t == KERF_F16 ? 65504.0f : t == KERF_BF16 ? kf_float(0x7f7f0000) : KF_F32_MAX;
}

static __global__ void __launch_bounds__(THREADS) widen_rows(const __grid_constant__ kf_job j)
{
    uint64_t n = j.lines * j.width, step = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        float x = element_at(j, i);
        if (!kf_is_finite(x)) {
            if (j.nan == KERF_NAN_ERROR) atomicMin(j.word, (unsigned long long)(j.offset + i));
            bool keep = j.nan == KERF_NAN_SATURATE && x == x;
            x = !keep ? 0 : x > 0 ? largest_of(j.dtype) : -largest_of(j.dtype);
        }
        j.floats[i] = x;
    }
}

/* --- sums ----------------------------------------------------------------------------------- */

/* Four neighbours; p NULL: a row behind the last. */
static __device__ __forceinline__ float4 load_four(const float *p, bool aligned)
{
    if (!p) return make_float4(0, 0, 0, 0);
    if (aligned) return *(const float4 *)p;
    return make_float4(p[0], p[1], p[2], p[3]);
}

/* DEEP columns of a tile of each side, turned: [column][row]. */
struct deep_tiles {
    float fault[DEEP][SIDE + 4], above[DEEP][SIDE + 4];
};

/* What a thread brings of the next tiles. */
struct brought {
    float4 fault, above;
};

static __device__ __forceinline__ brought bring(const float *fault, const float *above, int j0,
                                         bool aligned)
{
    brought b;
    b.fault = load_four(fault ? fault + j0 : nullptr, true);
    b.above = load_four(above ? above + j0 : nullptr, aligned);
    return b;
}

static __device__ __forceinline__ void put(deep_tiles *t, const brought &b)
{
    int row = (int)threadIdx.x / 2, i = (int)threadIdx.x % 2 * 4;
    const float e[4] = {b.fault.x, b.fault.y, b.fault.z, b.fault.w};
    const float u[4] = {b.above.x, b.above.y, b.above.z, b.above.w};
#pragma unroll
    for (int k = 0; k < 4; k++) {
        t->fault[i + k][row] = e[k];
        t->above[i + k][row] = u[k];
    }
}

static __device__ __forceinline__ void load_eight(const float *row, int at, float *out)
{
    float4 a = *(const float4 *)(row + at), b = *(const float4 *)(row + SIDE / 2 + at);
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
    out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
}

/* Place 0 .. 7 of a thread in a tile: four and, half a tile further, four more. */
static __device__ __forceinline__ int place(int i, int at)
{
    return (i & 3) + at + (i >> 2) * (SIDE / 2);
}

/* A thread has 8 x 8 sums of a tile. */
static __global__ void __launch_bounds__(THREADS, 2) add_behind(const __grid_constant__ kf_feedback_job f)
{
    __shared__ __align__(16) deep_tiles tiles;
    const uint64_t width = f.job.width, lines = f.job.lines;
    const uint64_t column = f.from + BLOCK + (uint64_t)blockIdx.x * SIDE;
    const int y = (int)threadIdx.x / 16 * 4, x = (int)threadIdx.x % 16 * 4;
    for (uint64_t line = (uint64_t)blockIdx.y * SIDE; line < lines;
         line += (uint64_t)gridDim.y * SIDE) {
        float s[8][8];
#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int c = 0; c < 8; c++) {
                uint64_t i = line + place(r, y), k = column + place(c, x);
                s[r][c] = i < lines && k < width ? f.sum[i * width + k] : 0;
            }
        const int row = (int)threadIdx.x / 2, four = (int)threadIdx.x % 2 * 4;
        const float *fault = line + row < lines ? f.fault + (line + row) * BLOCK + four : nullptr;
        const float *above =
            column + row < width ? f.above + (column + row) * width + f.from + four : nullptr;
        brought next = bring(fault, above, 0, width % 4 == 0);
#pragma unroll 1
        for (int j0 = 0; j0 < BLOCK; j0 += DEEP) {
            __syncthreads(); /* nobody reads the tiles before */
            put(&tiles, next);
            __syncthreads();
            if (j0 + DEEP < BLOCK) next = bring(fault, above, j0 + DEEP, width % 4 == 0);
#pragma unroll
            for (int j = 0; j < DEEP; j++) {
                float e[8], u[8];
                load_eight(tiles.fault[j], y, e);
                load_eight(tiles.above[j], x, u);
#pragma unroll
                for (int r = 0; r < 8; r++)
#pragma unroll
                    for (int c = 0; c < 8; c++) s[r][c] += u[c] * e[r];
            }
        }
#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int c = 0; c < 8; c++) {
                uint64_t i = line + place(r, y), k = column + place(c, x);
                if (i < lines && k < width) f.sum[i * width + k] = s[r][c];
            }
    }
}

/* --- codes ---------------------------------------------------------------------------------- */

/* A thread has so many neighbours that their codes fill bytes: eight, or a group of a struct. */
static __global__ void __launch_bounds__(THREADS)
    pack_rows(const __grid_constant__ kf_feedback_job f, kf_spec s)
{
    const kf_job &j = f.job;
    const bool is_struct = s.geometry == KERF_GROUP_STRUCT;
    const uint64_t each = is_struct ? s.group : 8, runs = (j.width + each - 1) / each;
    const uint64_t n = j.lines * runs, step = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        uint64_t line = i / runs, first = i % runs * each, left = j.width - first;
        uint8_t *row = j.plane[KERF_PLANE_CODES] + line * j.code_bytes;
        const uint8_t *code = f.code + line * j.width + first;
        size_t count = left < each ? left : each;
        size_t byte = (is_struct ? kf_struct_code(s, first) : first) * s.bits / 8;
        for (size_t k = 0; k < kf_packed_bytes(s.bits, count); k++) row[byte + k] = 0;
        for (size_t k = 0; k < count; k++)
            kf_put_code(row, s.bits, kf_code_place(s, first + k), code[k]);
    }
}

cudaError_t kf_feedback_widen(const kf_feedback_job *f, cudaStream_t s)
{
    uint64_t n = f->job.lines * f->job.width;
    widen_rows<<<blocks_of(n, THREADS, 1 << 20), THREADS, 0, s>>>(f->job);
    return cudaGetLastError();
}

cudaError_t kf_feedback_add(const kf_feedback_job *f, cudaStream_t s)
{
    uint64_t done = f->from + BLOCK;
    if (done >= f->job.width) return cudaSuccess;
    dim3 grid(blocks_of(f->job.width - done, SIDE, 0x7fffffffu),
              blocks_of(f->job.lines, SIDE, 65535));
    add_behind<<<grid, THREADS, 0, s>>>(*f);
    return cudaGetLastError();
}

cudaError_t kf_feedback_pack(const kf_feedback_job *f, kf_spec spec, cudaStream_t s)
{
    uint64_t each = spec.geometry == KERF_GROUP_STRUCT ? spec.group : 8;
    uint64_t n = f->job.lines * ((f->job.width + each - 1) / each);
    pack_rows<<<blocks_of(n, THREADS, 1 << 20), THREADS, 0, s>>>(*f, spec);
    return cudaGetLastError();
}
