/* feedback_factor.cu - a matrix of second moments as U D U^T, as cpu/feedback_factor.c makes it:
 * the same product for each column behind, in falling order, multiplied and taken off with a
 * rounding each, in double. Tensor cores, which round once, would give other bits.
 *
 * A block of 64 rows of U is made first, from its corner on the diagonal to the left; then every
 * row before it is reduced by all of them. */
#include "cuda/feedback_job.h"

#include "scalar/bits.h"

constexpr int THREADS = 256, BLOCK = KF_FACTOR_BLOCK, HALF = 32;

static inline unsigned blocks_of(uint64_t n, uint64_t each)
{
    n = (n + each - 1) / each;
    return n < 1 ? 1 : n < 0x7fffffffu ? (unsigned)n : 0x7fffffffu;
}

/* Where row i of the matrix begins: rows are dealt out by blocks. */
static __device__ __forceinline__ double *row_of(const kf_factoring &f, uint64_t i)
{
    return f.a + (i / BLOCK / f.ranks * BLOCK + i % BLOCK) * f.n;
}

/* The lower half with damping. */
static __global__ void __launch_bounds__(THREADS) fill_rows(const __grid_constant__ kf_factoring f)
{
    for (uint64_t i = blockIdx.x; i < f.n; i += gridDim.x) {
        if (i / BLOCK % f.ranks != f.rank) continue;
        double *to = row_of(f, i);
        for (uint64_t j = threadIdx.x; j <= i; j += THREADS) {
            float x = f.above[i * f.n + j];
            if (!(x >= -3.4e38f && x <= 3.4e38f)) *f.bad = 1;
            to[j] = j == i ? (double)x + f.least : (double)x;
        }
    }
}

/* The corner on the diagonal, by one block of threads. */
static __global__ void __launch_bounds__(THREADS)
    make_corner(const __grid_constant__ kf_factoring f)
{
    __shared__ double u[BLOCK][BLOCK + 1], pivot;
    const int rows = (int)(f.to - f.from), t = (int)threadIdx.x;
    for (int i = t; i < BLOCK * BLOCK; i += THREADS) {
        int r = i / BLOCK, c = i % BLOCK;
        u[r][c] = r < rows && c <= r ? row_of(f, f.from + r)[f.from + c] : 0;
    }
    __syncthreads();
    for (int k = rows - 1; k >= 0; k--) {
        if (t == 0) {
            double d = u[k][k];
            if (d < f.lost && *f.bad == 0) *f.bad = KF_FACTOR_LOST;
            if (!(d > f.least)) d = f.least;
            f.pivot[k] = pivot = d;
        }
        __syncthreads();
        const double d = pivot;
        if (t < k) u[k][t] /= d;
        __syncthreads();
        for (int i = t / 8; i < k; i += THREADS / 8) {
            const double by = u[k][i] * d;
            for (int c = t % 8; c <= i; c += 8) u[i][c] -= by * u[k][c];
        }
        __syncthreads();
    }
    for (int i = t; i < BLOCK * BLOCK; i += THREADS) {
        int r = i / BLOCK, c = i % BLOCK;
        if (r < rows && c < r) f.panel[r * f.n + f.from + c] = u[r][c];
    }
}

/* Left of the corner: 64 columns by a block of threads, each column by four of them. */
static __global__ void __launch_bounds__(THREADS) make_left(const __grid_constant__ kf_factoring f)
{
    extern __shared__ double room[]; /* the rows' factors, the columns */
    double(*by)[BLOCK] = (double(*)[BLOCK])room, (*v)[BLOCK] = by + BLOCK;
    const int rows = (int)(f.to - f.from), t = (int)threadIdx.x, c = t % BLOCK;
    const uint64_t column = (uint64_t)blockIdx.x * BLOCK + c;
    for (int r = t / BLOCK; r < rows; r += THREADS / BLOCK) {
        by[r][c] = c < r ? f.panel[r * f.n + f.from + c] * f.pivot[r] : 0;
        v[r][c] = row_of(f, f.from + r)[column]; /* from is a multiple of BLOCK */
    }
    __syncthreads();
    for (int k = rows - 1; k >= 0; k--) {
        const double u = v[k][c] / f.pivot[k];
        for (int i = t / BLOCK; i < k; i += THREADS / BLOCK) v[i][c] -= by[k][i] * u;
        if (t < BLOCK) f.panel[k * f.n + column] = u;
        __syncthreads();
    }
}

static __global__ void __launch_bounds__(THREADS) keep_rows(const __grid_constant__ kf_factoring f)
{
    for (uint64_t k = f.from + blockIdx.x; k < f.to; k += gridDim.x) {
        const double *u = f.panel + (k - f.from) * f.n;
        for (uint64_t i = threadIdx.x; i < k; i += THREADS) f.above[k * f.n + i] = (float)u[i];
        if (threadIdx.x == 0) f.d[k] = (float)f.pivot[k - f.from];
    }
}

/* A tile of 64 x 64: less U_ki D_k U_kj of the rows k of the panel, the last first. A thread has
 * 4 x 4, columns 16 apart. */
static __global__ void __launch_bounds__(THREADS)
    reduce_rows(const __grid_constant__ kf_factoring f)
{
    __shared__ __align__(16) double by[HALF][BLOCK], u[HALF][BLOCK];
    const uint64_t block = (uint64_t)blockIdx.y * f.ranks + f.rank;
    const uint64_t row0 = block * BLOCK, column0 = (uint64_t)blockIdx.x * BLOCK;
    if (row0 >= f.from || column0 > row0) return;
    const int t = (int)threadIdx.x, y = t / 16 * 4, x = t % 16;
    const int rows = (int)(f.to - f.from);
    double s[4][4];
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int c = 0; c < 4; c++) {
            uint64_t i = row0 + y + r, k = column0 + x + 16 * c;
            s[r][c] = k <= i ? row_of(f, i)[k] : 0;
        }
    for (int half = 1; half >= 0; half--) {
        for (int i = t; i < HALF * BLOCK; i += THREADS) {
            const int k = i / BLOCK, c = i % BLOCK, at = half * HALF + k;
            const double *p = f.panel + at * f.n;
            by[k][c] = at < rows ? p[row0 + c] * f.pivot[at] : 0;
            u[k][c] = at < rows ? p[column0 + c] : 0;
        }
        __syncthreads();
        const int last = rows - half * HALF < HALF ? rows - half * HALF : HALF;
#pragma unroll 4
        for (int k = last - 1; k >= 0; k--) {
            double a[4], b[4];
#pragma unroll
            for (int r = 0; r < 4; r++) a[r] = by[k][y + r];
#pragma unroll
            for (int c = 0; c < 4; c++) b[c] = u[k][x + 16 * c];
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int c = 0; c < 4; c++) s[r][c] -= a[r] * b[c];
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int c = 0; c < 4; c++) {
            uint64_t i = row0 + y + r, k = column0 + x + 16 * c;
            if (k <= i) row_of(f, i)[k] = s[r][c];
        }
}

cudaError_t kf_factor_fill(const kf_factoring *f, cudaStream_t s)
{
    fill_rows<<<blocks_of(f->n, 1), THREADS, 0, s>>>(*f);
    return cudaGetLastError();
}

cudaError_t kf_factor_make(const kf_factoring *f, cudaStream_t s)
{
    const int room = 2 * BLOCK * BLOCK * (int)sizeof(double);
    make_corner<<<1, THREADS, 0, s>>>(*f);
    cudaError_t e = cudaGetLastError();
    if (e != cudaSuccess || f->from == 0) return e;
    e = cudaFuncSetAttribute(make_left, cudaFuncAttributeMaxDynamicSharedMemorySize, room);
    if (e != cudaSuccess) return e;
    make_left<<<blocks_of(f->from, BLOCK), THREADS, room, s>>>(*f);
    return cudaGetLastError();
}

cudaError_t kf_factor_keep(const kf_factoring *f, cudaStream_t s)
{
    keep_rows<<<blocks_of(f->to - f->from, 1), THREADS, 0, s>>>(*f);
    return cudaGetLastError();
}

cudaError_t kf_factor_reduce(const kf_factoring *f, cudaStream_t s)
{
    const unsigned tiles = (unsigned)(f->from / BLOCK);
    if (tiles == 0) return cudaSuccess;
    reduce_rows<<<dim3(tiles, (tiles + f->ranks - 1) / f->ranks), THREADS, 0, s>>>(*f);
    return cudaGetLastError();
}
