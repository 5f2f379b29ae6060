/* forward_kernels.cu - see forward_kernels.h: norms, positions, gates, sums of arrays. The order of
 * operations is that of the processor's steps (kernels/forward), but for sums over a row, which a
 * block adds up as a tree. */
#include "cuda/forward/forward_kernels.h"

enum { THREADS = 256 };

static dim3 grid_for(uint64_t n)
{
    const uint64_t blocks = (n + THREADS - 1) / THREADS;
    return dim3((unsigned)(blocks < 65536 ? blocks ? blocks : 1 : 65536));
}

#define EVERY(i, n)                                                                       \
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x, i##_end = (n);        \
         i < i##_end; i += (uint64_t)gridDim.x * THREADS)

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

static __global__ void add_bias(kf_rows y, const float *bias, uint64_t step)
{
    EVERY(i, y.rows * y.columns)
    y.p[i / y.columns * y.stride + i % y.columns] += bias[i % y.columns * step];
}

extern "C" cudaError_t kf_bias_run(kf_rows y, const float *bias, uint64_t step, cudaStream_t stream)
{
    add_bias<<<grid_for(y.rows * y.columns), THREADS, 0, stream>>>(y, bias, step);
    return cudaGetLastError();
}

static __global__ void add_rows(kf_rows y, kf_rows x)
{
    EVERY(i, y.rows * y.columns)
    {
        const uint64_t row = i / y.columns, k = i % y.columns;
        y.p[row * y.stride + k] += x.p[row * x.stride + k];
    }
}

extern "C" cudaError_t kf_add_run(kf_rows y, kf_rows x, cudaStream_t stream)
{
    add_rows<<<grid_for(y.rows * y.columns), THREADS, 0, stream>>>(y, x);
    return cudaGetLastError();
}

/* A token is in the list once: what is added meets no other thread. */
static __global__ void gather_rows(kf_gathering g, uint64_t n)
{
    const uint64_t columns = g.from.columns;
    EVERY(at, n * columns)
    {
        const uint64_t i = at / columns, k = at % columns;
        if (g.back)
            g.to.p[g.token[i] * g.to.stride + k] += g.share[i] * g.from.p[i * g.from.stride + k];
        else
            g.to.p[i * g.to.stride + k] = g.from.p[g.token[i] * g.from.stride + k];
    }
}

extern "C" cudaError_t kf_gather_run(const kf_gathering *g, cudaStream_t stream)
{
    const uint64_t n = g->back ? g->from.rows : g->to.rows;
    gather_rows<<<grid_for(n * g->from.columns), THREADS, 0, stream>>>(*g, n);
    return cudaGetLastError();
}

/* --- heads --------------------------------------------------------------------------------- */

static __global__ void rotate_rows(kf_rotation r)
{
    const uint64_t half = r.dims / 2, heads = r.x.columns / r.head;
    EVERY(at, r.x.rows * heads * half)
    {
        const uint64_t i = at % half, h = at / half % heads, t = at / half / heads;
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
    const uint64_t n = r->x.rows * (r->x.columns / r->head) * (r->dims / 2);
    rotate_rows<<<grid_for(n), THREADS, 0, stream>>>(*r);
    return cudaGetLastError();
}

static __global__ void unpack_rows(kf_unpacking u)
{
    const uint64_t dim = u.nope + u.rope, each = dim + u.value;
    EVERY(at, u.k.rows * u.heads * each)
    {
        const uint64_t i = at % each, h = at / each % u.heads, t = at / each / u.heads;
        const float *from = u.unpacked.p + t * u.unpacked.stride + h * (u.nope + u.value);
        if (i < u.nope)
            u.k.p[t * u.k.stride + h * dim + i] = from[i];
        else if (i < dim)
            u.k.p[t * u.k.stride + h * dim + i] =
                u.packed.p[t * u.packed.stride + u.shared + i - u.nope];
        else
            u.v.p[t * u.v.stride + h * u.value + i - dim] = from[u.nope + i - dim];
    }
}

extern "C" cudaError_t kf_unpack_run(const kf_unpacking *u, cudaStream_t stream)
{
    const uint64_t n = u->k.rows * u->heads * (u->nope + u->rope + u->value);
    unpack_rows<<<grid_for(n), THREADS, 0, stream>>>(*u);
    return cudaGetLastError();
}

/* --- gates --------------------------------------------------------------------------------- */

static __device__ float gated(kf_gate_kind kind, float g, float u, float limit, float alpha)
{
    if (kind == KF_GATE_SILU) return g / (1.0f + expf(-g)) * u;
    if (kind == KF_GATE_GELU)
        return 0.5f * g * (1.0f + erff(g * 0.70710678118654752440f)) * u;
    if (kind == KF_GATE_GELU_TANH)
        return 0.5f * g *
               (1.0f + tanhf(0.79788456080286535588f * (g + 0.044715f * g * g * g))) * u;
    const float x = g > limit ? limit : g;
    const float y = u > limit ? limit : u < -limit ? -limit : u;
    return (y + 1.0f) * (x / (1.0f + expf(-alpha * x)));
}

static __global__ void gate_rows(kf_gating w)
{
    EVERY(i, w.gate.rows * w.gate.columns)
    {
        const uint64_t row = i / w.gate.columns, k = i % w.gate.columns;
        float *g = w.gate.p + row * w.gate.stride + k;
        *g = gated(w.kind, *g, w.up.p[row * w.up.stride + k], w.limit, w.alpha);
    }
}

extern "C" cudaError_t kf_gate_run(const kf_gating *g, cudaStream_t stream)
{
    gate_rows<<<grid_for(g->gate.rows * g->gate.columns), THREADS, 0, stream>>>(*g);
    return cudaGetLastError();
}

static __global__ void cap_rows(kf_rows y, float cap)
{
    EVERY(i, y.rows * y.columns)
    {
        float *x = y.p + i / y.columns * y.stride + i % y.columns;
        *x = cap * tanhf(*x / cap);
    }
}

extern "C" cudaError_t kf_cap_run(kf_rows y, float cap, cudaStream_t stream)
{
    cap_rows<<<grid_for(y.rows * y.columns), THREADS, 0, stream>>>(y, cap);
    return cudaGetLastError();
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

static __global__ void fold_columns(kf_squares s, uint64_t chunks)
{
    EVERY(column, s.x.columns)
    {
        double sum = s.square[column];
        for (uint64_t c = 0; c < chunks; c++) sum += s.partial[c * s.x.columns + column];
        s.square[column] = sum;
    }
}

extern "C" cudaError_t kf_squares_run(const kf_squares *s, cudaStream_t stream)
{
    const uint64_t chunks = kf_squares_chunks(s->x.rows);
    const dim3 grid((unsigned)((s->x.columns + COLUMNS - 1) / COLUMNS), (unsigned)chunks);
    square_columns<<<grid, COLUMNS, 0, stream>>>(*s);
    if (s->square) fold_columns<<<grid_for(s->x.columns), THREADS, 0, stream>>>(*s, chunks);
    return cudaGetLastError();
}
