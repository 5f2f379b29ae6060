/* forward_kernels.cu - see forward_kernels.h: norms, positions, gates, sums of arrays. The order of
 * operations is that of the processor's steps (kernels/forward), but for sums over a row, which a
 * block adds up as a tree. */
#include "cuda/forward/forward_kernels.h"

enum { THREADS = 256 };

/* --- every number of some rows --------------------------------------------------------------- */

enum { EACH = 4 }; /* numbers of a thread, so that as many loads are under way */

/* Block (x, y) has EACH * THREADS columns of row y, and of every gridDim.y-th behind it. OP: where
 * a number goes, and what it is; nothing is stored before all numbers of a thread are made. */
template <class OP>
static __global__ void __launch_bounds__(THREADS)
    every_number(OP op, uint64_t rows, unsigned columns)
{
    const unsigned first = blockIdx.x * (EACH * THREADS) + threadIdx.x;
    for (uint64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        float value[EACH];
#pragma unroll
        for (unsigned i = 0; i < EACH; i++)
            if (first + i * THREADS < columns) value[i] = op.make(row, first + i * THREADS);
#pragma unroll
        for (unsigned i = 0; i < EACH; i++)
            if (first + i * THREADS < columns) *op.place(row, first + i * THREADS) = value[i];
    }
}

template <class OP>
static cudaError_t run_every(const OP &op, uint64_t rows, uint64_t columns, cudaStream_t stream)
{
    const uint64_t across = (columns + EACH * THREADS - 1) / (EACH * THREADS);
    if (rows == 0 || columns == 0) return cudaSuccess;
    const dim3 grid((unsigned)across, (unsigned)(rows < 65535 ? rows : 65535));
    every_number<<<grid, THREADS, 0, stream>>>(op, rows, (unsigned)columns);
    return cudaGetLastError();
}

static __device__ float *at(const kf_rows &x, uint64_t row, uint64_t k)
{
    return x.p + row * x.stride + k;
}

/* --- norms --------------------------------------------------------------------------------- */

/* A group of `lanes` threads has a run of `width` numbers. */
template <int LANES>
static __global__ void __launch_bounds__(THREADS)
    norm_rows(kf_rows y, const float *x, const float *w, uint64_t width, double eps, uint64_t runs)
{
    __shared__ double part[THREADS];
    const unsigned lane = threadIdx.x % LANES;
    const uint64_t run = (uint64_t)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
    const uint64_t per_row = y.columns / width;
    const uint64_t at = run < runs ? run / per_row * y.stride + run % per_row * width : 0;
    double sum = 0;
    if (run < runs)
        for (uint64_t k = lane; k < width; k += LANES) sum += (double)x[at + k] * (double)x[at + k];
    part[threadIdx.x] = sum;
    for (unsigned half = LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    __syncthreads();
    if (run >= runs) return;
    const double mean = part[threadIdx.x - lane] / (double)width;
    const float scale = (float)(1.0 / sqrt(mean + eps));
    for (uint64_t k = lane; k < width; k += LANES) y.p[at + k] = x[at + k] * scale * w[k];
}

extern "C" cudaError_t kf_norm_run(kf_rows y, const float *x, const float *w, size_t width,
                                   double eps, cudaStream_t stream)
{
    const uint64_t runs = y.rows * (y.columns / width);
    if (width <= 512) {
        const unsigned each = THREADS / 32;
        norm_rows<32><<<(unsigned)((runs + each - 1) / each), THREADS, 0, stream>>>(y, x, w, width,
                                                                                    eps, runs);
    } else {
        norm_rows<THREADS><<<(unsigned)runs, THREADS, 0, stream>>>(y, x, w, width, eps, runs);
    }
    return cudaGetLastError();
}

/* --- sums of arrays ------------------------------------------------------------------------ */

struct bias_op {
    kf_rows y;
    const float *bias;
    uint64_t step;
    __device__ float make(uint64_t row, unsigned k) const
    {
        return *at(y, row, k) + bias[k * step];
    }
    __device__ float *place(uint64_t row, unsigned k) const { return at(y, row, k); }
};

extern "C" cudaError_t kf_bias_run(kf_rows y, const float *bias, uint64_t step, cudaStream_t stream)
{
    return run_every(bias_op{y, bias, step}, y.rows, y.columns, stream);
}

struct add_op {
    kf_rows y, x;
    __device__ float make(uint64_t row, unsigned k) const
    {
        return *at(y, row, k) + *at(x, row, k);
    }
    __device__ float *place(uint64_t row, unsigned k) const { return at(y, row, k); }
};

extern "C" cudaError_t kf_add_run(kf_rows y, kf_rows x, cudaStream_t stream)
{
    return run_every(add_op{y, x}, y.rows, y.columns, stream);
}

/* A token is in the list once: what is added meets no other thread. */
struct gather_op {
    kf_gathering g;
    __device__ float make(uint64_t i, unsigned k) const
    {
        if (!g.back) return *at(g.from, g.token[i], k);
        return *place(i, k) + g.share[i] * *at(g.from, i, k);
    }
    __device__ float *place(uint64_t i, unsigned k) const
    {
        return at(g.to, g.back ? g.token[i] : i, k);
    }
};

extern "C" cudaError_t kf_gather_run(const kf_gathering *g, cudaStream_t stream)
{
    const uint64_t n = g->back ? g->from.rows : g->to.rows;
    return run_every(gather_op{*g}, n, g->from.columns, stream);
}

/* --- heads --------------------------------------------------------------------------------- */

/* A block has a token. */
static __global__ void __launch_bounds__(THREADS) rotate_rows(kf_rotation r)
{
    const unsigned half = (unsigned)r.dims / 2, n = (unsigned)(r.x.columns / r.head) * half;
    for (uint64_t t = blockIdx.x; t < r.x.rows; t += gridDim.x)
        for (unsigned at = threadIdx.x; at < n; at += THREADS) {
            const unsigned i = at % half, h = at / half;
            const uint64_t turn = t % r.length * half + i;
            float *a = r.x.p + t * r.x.stride + h * r.head + r.from + (r.pairs ? 2 * i : i);
            float *b = a + (r.pairs ? 1 : half);
            const float low = *a, high = *b, cosine = r.cosine[turn], sine = r.sine[turn];
            *a = low * cosine - high * sine;
            *b = high * cosine + low * sine;
        }
}

extern "C" cudaError_t kf_rotate_run(const kf_rotation *r, cudaStream_t stream)
{
    const uint64_t n = r->x.rows;
    rotate_rows<<<(unsigned)(n < 65535 ? n : 65535), THREADS, 0, stream>>>(*r);
    return cudaGetLastError();
}

/* Column k: number k % each of head k / each, of the keys first, then of the values. */
struct unpack_op {
    kf_unpacking u;
    unsigned dim, each;
    __device__ float make(uint64_t t, unsigned k) const
    {
        const unsigned i = k % each, h = k / each;
        const float *from = at(u.unpacked, t, h * (u.nope + u.value));
        if (i < u.nope) return from[i];
        if (i < dim) return *at(u.packed, t, u.shared + i - u.nope);
        return from[u.nope + i - dim];
    }
    __device__ float *place(uint64_t t, unsigned k) const
    {
        const unsigned i = k % each, h = k / each;
        return i < dim ? at(u.k, t, h * dim + i) : at(u.v, t, h * u.value + i - dim);
    }
};

extern "C" cudaError_t kf_unpack_run(const kf_unpacking *u, cudaStream_t stream)
{
    const unsigned dim = (unsigned)(u->nope + u->rope), each = dim + (unsigned)u->value;
    return run_every(unpack_op{*u, dim, each}, u->k.rows, u->heads * each, stream);
}

/* --- gates --------------------------------------------------------------------------------- */

static __device__ float gated(kf_gate_kind kind, float g, float u, float limit, float alpha)
{
    if (kind == KF_GATE_SILU) return g / (1.0f + expf(-g)) * u;
    if (kind == KF_GATE_GELU) return 0.5f * g * (1.0f + erff(g * 0.70710678118654752440f)) * u;
    if (kind == KF_GATE_GELU_TANH)
        return 0.5f * g * (1.0f + tanhf(0.79788456080286535588f * (g + 0.044715f * g * g * g))) * u;
    const float x = g > limit ? limit : g;
    const float y = u > limit ? limit : u < -limit ? -limit : u;
    return (y + 1.0f) * (x / (1.0f + expf(-alpha * x)));
}

struct gate_op {
    kf_gating w;
    __device__ float make(uint64_t row, unsigned k) const
    {
        return gated(w.kind, *at(w.gate, row, k), *at(w.up, row, k), w.limit, w.alpha);
    }
    __device__ float *place(uint64_t row, unsigned k) const { return at(w.gate, row, k); }
};

extern "C" cudaError_t kf_gate_run(const kf_gating *g, cudaStream_t stream)
{
    return run_every(gate_op{*g}, g->gate.rows, g->gate.columns, stream);
}

struct cap_op {
    kf_rows y;
    float cap;
    __device__ float make(uint64_t row, unsigned k) const
    {
        return cap * tanhf(*at(y, row, k) / cap);
    }
    __device__ float *place(uint64_t row, unsigned k) const { return at(y, row, k); }
};

extern "C" cudaError_t kf_cap_run(kf_rows y, float cap, cudaStream_t stream)
{
    return run_every(cap_op{y, cap}, y.rows, y.columns, stream);
}

/* --- sums over columns ---------------------------------------------------------------------- */

enum { COLUMNS = 128, CHUNK = 128 };

extern "C" uint64_t kf_squares_chunks(uint64_t rows)
{
    return (rows + CHUNK - 1) / CHUNK;
}

/* A thread has a column of a chunk of rows. */
static __global__ void __launch_bounds__(COLUMNS) square_columns(kf_squares s)
{
    __shared__ float most[COLUMNS];
    const uint64_t column = (uint64_t)blockIdx.x * COLUMNS + threadIdx.x;
    const uint64_t first = (uint64_t)blockIdx.y * CHUNK;
    const uint64_t end = first + CHUNK < s.x.rows ? first + CHUNK : s.x.rows;
    float largest = 0;
    if (column < s.x.columns) {
        const float *x = s.x.p + column;
        double sum = 0;
#pragma unroll 8
        for (uint64_t t = first; t < end; t++) {
            const float v = x[t * s.x.stride];
            sum += (double)v * (double)v;
            largest = fabsf(v) > largest ? fabsf(v) : largest;
        }
        if (s.square) s.partial[blockIdx.y * s.x.columns + column] = sum;
    }
    most[threadIdx.x] = largest;
    for (unsigned half = COLUMNS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half && most[threadIdx.x + half] > most[threadIdx.x])
            most[threadIdx.x] = most[threadIdx.x + half];
    }
    /* Of numbers that are not negative the bits grow with the number. */
    if (threadIdx.x == 0 && s.largest)
        atomicMax(reinterpret_cast<int *>(s.largest), __float_as_int(most[0]));
}

static __global__ void __launch_bounds__(COLUMNS) fold_columns(kf_squares s, uint64_t chunks)
{
    const uint64_t column = (uint64_t)blockIdx.x * COLUMNS + threadIdx.x;
    if (column >= s.x.columns) return;
    double sum = s.square[column];
    for (uint64_t c = 0; c < chunks; c++) sum += s.partial[c * s.x.columns + column];
    s.square[column] = sum;
}

extern "C" cudaError_t kf_squares_run(const kf_squares *s, cudaStream_t stream)
{
    const uint64_t chunks = kf_squares_chunks(s->x.rows);
    const dim3 grid((unsigned)((s->x.columns + COLUMNS - 1) / COLUMNS), (unsigned)chunks);
    square_columns<<<grid, COLUMNS, 0, stream>>>(*s);
    if (s->square) fold_columns<<<grid.x, COLUMNS, 0, stream>>>(*s, chunks);
    return cudaGetLastError();
}
