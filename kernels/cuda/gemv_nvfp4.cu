/* gemv_nvfp4.cu - y = A b with both sides NVFP4, on a GPU.
 *
 * b stays, A streams. A thread owns a slice of 32 elements along k for as long as it lives: b's
 * codes as 8 words of four integers 2v and its two scales. It then takes slice after slice of rows
 * of A: 16 bytes of codes and 2 scales each. Threads of a row lie side by side, so a row is read in
 * one piece; a block of threads has as many such groups as fit, each on rows of its own, and works
 * on a contiguous run of rows of one matrix.
 *
 * Codes become integers without a table in memory: PRMT picks bytes of {0 1 2 3 4 6 8 12} by
 * nibble and gives 0 for nibbles with their top bit set; the same of the complement gives the
 * magnitudes of negative codes. Two DP4A chains, one subtracted from the other: a block's dot
 * product, exactly. An int fits fp32 there, and so does the product of two E4M3 scales.
 *
 * Loads of the next STAGES x R rows are in flight while one is multiplied. With constant weights
 * the first of them leave before griddepcontrol.wait, b and everything else after it. Sums of a row
 * meet by shuffles within a warp, R rows at once, and in shared memory between warps: no atomics,
 * one order.
 *
 * Scales in tiles: rows r, r + 32, r + 64, r + 96 of a tile have theirs side by side, so rows are
 * taken in that order, and one load brings the scales of R rows. */
#include "block/scale_tiles.h"

#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

extern "C" {
#include "cuda/handle.h"
#include "gemv_nvfp4_plan.h"
}

namespace
{

enum { SLICE = 32, RED = 4096 /* floats of shared memory for partial sums */ };

struct job {
    const uint8_t *a, *sa, *b, *sb;
    const float *second_a, *second_b; /* or NULL */
    void *y;
    uint64_t sa_each, sb_each; /* bytes of the scales of a matrix, of a vector   */
    unsigned rows, places;     /* places: rows, those of the last tile padded    */
    unsigned cols, across;     /* across: tiles that lie side by side            */
    unsigned blocks, flush;    /* thread blocks of a matrix; places between sums */
    float alpha;
    kerf_dtype type;
    bool b_tiled, early;
};

/* --- pieces ----------------------------------------------------------------------------------- */

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

/* What is read once, and not at all (zeros) unless `yes`. volatile: before or after the wait, as
 * written. */
__device__ __forceinline__ uint4 load_codes(const uint8_t *p, bool yes)
{
    uint4 v;
    asm volatile("{\n .reg .pred q;\n setp.ne.b32 q, %5, 0;\n"
                 " mov.b32 %0, 0;\n mov.b32 %1, 0;\n mov.b32 %2, 0;\n mov.b32 %3, 0;\n"
                 " @q ld.global.nc.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(p), "r"((int)yes));
    return v;
}

__device__ __forceinline__ uint32_t load_two(const uint8_t *p, bool yes)
{
    uint16_t v;
    asm volatile("{\n .reg .pred q;\n setp.ne.b32 q, %2, 0;\n mov.b16 %0, 0;\n"
                 " @q ld.global.nc.b16 %0, [%1];\n}"
                 : "=&h"(v)
                 : "l"(p), "r"((int)yes));
    return v;
}

template <int N> __device__ __forceinline__ void load_words(uint32_t *v, const uint8_t *p, bool yes)
{
    if constexpr (N == 4)
        asm volatile("{\n .reg .pred q;\n setp.ne.b32 q, %5, 0;\n"
                     " mov.b32 %0, 0;\n mov.b32 %1, 0;\n mov.b32 %2, 0;\n mov.b32 %3, 0;\n"
                     " @q ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
                     : "=&r"(v[0]), "=&r"(v[1]), "=&r"(v[2]), "=&r"(v[3])
                     : "l"(p), "r"((int)yes));
    else
        asm volatile("{\n .reg .pred q;\n setp.ne.b32 q, %3, 0;\n"
                     " mov.b32 %0, 0;\n mov.b32 %1, 0;\n"
                     " @q ld.global.nc.v2.b32 {%0, %1}, [%2];\n}"
                     : "=&r"(v[0]), "=&r"(v[1])
                     : "l"(p), "r"((int)yes));
}

/* Bytes 2|v| of the four nibbles at the low end of w that have their top bit clear, else 0. */
__device__ __forceinline__ uint32_t magnitudes(uint32_t w)
{
    uint32_t r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(0x03020100), "r"(0x0c080604), "r"(w));
    return r;
}

__device__ __forceinline__ uint32_t signed_bytes(uint32_t w)
{
    return __vsub4(magnitudes(w), magnitudes(w ^ 0x8888));
}

/* Four times the dot product of 16 codes with the numbers of b, whose bytes are 2v. */
__device__ __forceinline__ float dot_block(uint32_t w0, uint32_t w1, const uint32_t b[4])
{
    int plus = __dp4a((int)magnitudes(w0), (int)b[0], 0);
    int minus = __dp4a((int)magnitudes(w0 ^ 0x88888888), (int)b[0], 0);
    plus = __dp4a((int)magnitudes(w0 >> 16), (int)b[1], plus);
    minus = __dp4a((int)magnitudes((w0 ^ 0x88888888) >> 16), (int)b[1], minus);
    plus = __dp4a((int)magnitudes(w1), (int)b[2], plus);
    minus = __dp4a((int)magnitudes(w1 ^ 0x88888888), (int)b[2], minus);
    plus = __dp4a((int)magnitudes(w1 >> 16), (int)b[3], plus);
    minus = __dp4a((int)magnitudes((w1 ^ 0x88888888) >> 16), (int)b[3], minus);
    return __int2float_rn(plus - minus);
}

__device__ __forceinline__ float2 two_scales(uint32_t codes)
{
    __half2_raw h = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)codes, __NV_E4M3);
    return __half22float2(__half2(h));
}

/* A slice of b: 2v in bytes, and a quarter of its scales. */
struct slice {
    uint32_t v[8];
    float scale[2];
};

__device__ __forceinline__ void load_slice(slice *s, const job &j, unsigned matrix, unsigned at,
                                           bool yes)
{
    *s = slice{};
    if (!yes) return;
    uint4 w = *(const uint4 *)(j.b + (uint64_t)matrix * (j.cols / 2) + 16 * at);
    unsigned block = 2 * at;
    uint64_t place = j.b_tiled ? kf_tiled_place(0, block, j.across) : block;
    float2 f = two_scales(*(const uint16_t *)(j.sb + matrix * j.sb_each + place));
    const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        s->v[2 * i] = signed_bytes(words[i]);
        s->v[2 * i + 1] = signed_bytes(words[i] >> 16);
    }
    s->scale[0] = 0.25f * f.x;
    s->scale[1] = 0.25f * f.y;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Which row has this place in the order of work. */
template <bool TILED> __device__ __forceinline__ unsigned row_at(unsigned place)
{
    return TILED ? (place & ~127u) + (place & 3) * 32 + (place >> 2 & 31) : place;
}

/* R rows from a place on, this thread's slice of them. In tiles R is 2 or 4 and divides `place`. */
template <int R> struct rows {
    uint4 codes[R];
    uint32_t scales[R]; /* TILED: a row's four */
};

/* What a thread knows of its matrix. */
struct place_of {
    const uint8_t *a, *sa; /* at this thread's slice of row 0, place 0 */
    unsigned end;          /* places                                   */
    bool active;           /* the slice is inside the row              */
};

template <int R, bool TILED>
__device__ __forceinline__ void load_rows(rows<R> *q, const job &j, const place_of &t,
                                          unsigned place)
{
    unsigned row = row_at<TILED>(place);
#pragma unroll
    for (int i = 0; i < R; i++) {
        unsigned r = row + i * (TILED ? 32 : 1);
        bool yes = t.active && place + i < t.end && (!TILED || r < j.rows);
        q->codes[i] = load_codes(t.a + (uint64_t)r * (j.cols / 2), yes);
        if (!TILED) q->scales[i] = load_two(t.sa + (uint64_t)r * (j.cols / 16), yes);
    }
    if constexpr (TILED) {
        uint64_t tile = (uint64_t)(place / 128) * j.across * 512;
        load_words<R>(q->scales, t.sa + tile + (place & 127) * 4, t.active && place < t.end);
    }
}

/* Sums of this thread's slice. second: the slice is the right half of a tile. */
template <int R, bool TILED>
__device__ __forceinline__ void multiply_rows(float p[R], const rows<R> &q, const slice &b,
                                              unsigned second)
{
#pragma unroll
    for (int i = 0; i < R; i++) {
        const uint4 w = q.codes[i];
        float2 s = two_scales((TILED ? q.scales[i] >> second : q.scales[i]) & 0xffff);
        p[i] = __fmul_rn(dot_block(w.x, w.y, b.v), __fmul_rn(s.x, b.scale[0]));
        p[i] = __fmaf_rn(dot_block(w.z, w.w, b.v + 4), __fmul_rn(s.y, b.scale[1]), p[i]);
    }
}

/* p[0] becomes the warp's sum of p[i] for the i that the upper bits of the lane spell. */
template <int R> __device__ __forceinline__ void sum_over_warp(float p[R], unsigned lane)
{
    int half = 16;
#pragma unroll
    for (int n = R / 2; n >= 1; n /= 2, half /= 2) {
        bool upper = lane & half;
#pragma unroll
        for (int i = 0; i < n; i++) {
            float keep = upper ? p[n + i] : p[i], give = upper ? p[i] : p[n + i];
            p[i] = keep + __shfl_xor_sync(~0u, give, half);
        }
    }
#pragma unroll
    for (; half >= 1; half /= 2) p[0] += __shfl_xor_sync(~0u, p[0], half);
}

__device__ __forceinline__ void store(const job &j, unsigned matrix, unsigned row, float sum)
{
    float v = __fmul_rn(sum, j.alpha);
    if (j.second_b) v = __fmul_rn(v, j.second_b[matrix]);
    if (j.second_a) v = __fmul_rn(v, j.second_a[matrix]);
    uint64_t at = (uint64_t)matrix * j.rows + row;
    if (j.type == KERF_F16)
        ((__half *)j.y)[at] = __float2half_rn(v);
    else if (j.type == KERF_BF16)
        ((__nv_bfloat16 *)j.y)[at] = __float2bfloat16_rn(v);
    else
        ((float *)j.y)[at] = v;
}

/* Sums over the warps of a row, which lie `flush` apart, and out with them. */
template <bool TILED>
__device__ __forceinline__ void finish_rows(const job &j, unsigned matrix, const float *partial,
                                            unsigned from, unsigned n, unsigned warps)
{
    unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (unsigned i = thread; i < n; i += blockDim.x * blockDim.y) {
        float sum = partial[i];
        for (unsigned w = 1; w < warps; w++) sum += partial[w * j.flush + i];
        unsigned row = row_at<TILED>(from + i);
        if (!TILED || row < j.rows) store(j, matrix, row, sum);
    }
}

/* --- kernels ---------------------------------------------------------------------------------- */

template <int R, int STAGES, int THREADS, int RESIDENT, bool TILED>
__global__ void __launch_bounds__(THREADS, RESIDENT) multiply(const __grid_constant__ job j)
{
    __shared__ float partial[RED];
    launch_dependents();
    const unsigned matrix = blockIdx.x / j.blocks, block = blockIdx.x % j.blocks;
    const unsigned at = threadIdx.x, lane = at % 32, warps = blockDim.x / 32;
    const unsigned step = R * blockDim.y, first = threadIdx.y * R;
    const unsigned unit = TILED ? 4 : 1; /* places of a tile that belong together */
    const unsigned units = j.places / unit;
    const unsigned begin = (unsigned)((uint64_t)units * block / j.blocks) * unit;
    const unsigned end = (unsigned)((uint64_t)units * (block + 1) / j.blocks) * unit;

    place_of t;
    t.active = at * SLICE < j.cols;
    t.end = end;
    t.a = j.a + (uint64_t)matrix * j.rows * (j.cols / 2) + 16 * at;
    t.sa = j.sa + matrix * j.sa_each + (TILED ? at / 2 * 512 : 2 * at);
    if (!j.early) wait_for_inputs();
    rows<R> q[STAGES];
#pragma unroll
    for (int s = 0; s < STAGES; s++) load_rows<R, TILED>(&q[s], j, t, begin + first + s * step);
    if (j.early) wait_for_inputs();
    slice b;
    load_slice(&b, j, matrix, at, t.active);

    for (unsigned from = begin; from < end; from += j.flush) {
        unsigned to = min(from + j.flush, end);
        for (unsigned place = from + first; place < to; place += STAGES * step) {
#pragma unroll
            for (int s = 0; s < STAGES; s++) {
                unsigned here = place + s * step;
                if (here >= to) break;
                float p[R];
                multiply_rows<R, TILED>(p, q[s], b, at % 2 * 16);
                load_rows<R, TILED>(&q[s], j, t, here + STAGES * step);
                sum_over_warp<R>(p, lane);
                if (lane % (32 / R) == 0)
                    partial[at / 32 * j.flush + here - from + lane / (32 / R)] = p[0];
            }
        }
        __syncthreads();
        finish_rows<TILED>(j, matrix, partial, from, to - from, warps);
        __syncthreads();
    }
}

__device__ __forceinline__ uint2 load_block(const uint8_t *p)
{
    uint2 v = {0, 0};
    for (int i = 0; i < 4; i++) {
        v.x |= (uint32_t)p[i] << 8 * i;
        v.y |= (uint32_t)p[i + 4] << 8 * i;
    }
    return v;
}

/* Any alignment, any number of blocks: a warp for a row, a lane for a block. */
template <bool TILED>
__global__ void __launch_bounds__(256) multiply_any(const __grid_constant__ job j)
{
    wait_for_inputs();
    const unsigned lane = threadIdx.x % 32, blocks = j.cols / 16;
    const unsigned matrix = blockIdx.x / j.blocks;
    const unsigned row = blockIdx.x % j.blocks * 8 + threadIdx.x / 32;
    if (row >= j.rows) return;
    const uint8_t *a = j.a + ((uint64_t)matrix * j.rows + row) * (j.cols / 2);
    const uint8_t *b = j.b + (uint64_t)matrix * (j.cols / 2);
    float sum = 0;
    for (unsigned i = lane; i < blocks; i += 32) {
        uint64_t pa = TILED ? kf_tiled_place(row, i, j.across) : (uint64_t)row * blocks + i;
        uint64_t pb = j.b_tiled ? kf_tiled_place(0, i, j.across) : i;
        uint2 x = load_block(a + 8 * i), y = load_block(b + 8 * i);
        const uint32_t v[4] = {signed_bytes(y.x), signed_bytes(y.x >> 16), signed_bytes(y.y),
                               signed_bytes(y.y >> 16)};
        uint32_t both = j.sa[matrix * j.sa_each + pa] | j.sb[matrix * j.sb_each + pb] << 8;
        float2 s = two_scales(both);
        sum = __fmaf_rn(dot_block(x.x, x.y, v), __fmul_rn(s.x, __fmul_rn(0.25f, s.y)), sum);
    }
    sum_over_warp<1>(&sum, lane);
    if (lane == 0) store(j, matrix, row, sum);
}

/* --- variants --------------------------------------------------------------------------------- */

typedef void (*kernel)(job);

struct variant {
    const char *name;
    unsigned rows, stages, threads;
    kernel plain, tiled;
};

#define VARIANT(R, S, T, N, registers)                                                             \
    {                                                                                              \
#R " rows x " #S ", " #T " threads, " registers " registers", R, S, T, multiply < R, S, T, \
            N, false>, multiply < R, S, T, N, true>                                                \
    }

const variant variants[] = {
    VARIANT(4, 2, 1024, 1, "64"), VARIANT(4, 1, 1024, 1, "64"), VARIANT(2, 2, 1024, 1, "64"),
    VARIANT(2, 3, 1024, 1, "64"), VARIANT(4, 3, 512, 1, "128"), VARIANT(4, 4, 512, 1, "128"),
    VARIANT(2, 2, 512, 3, "40"),
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

/* --- host ------------------------------------------------------------------------------------- */

/* Measured on an H200; see bench/notes-gemv.md. */
static kf_nvfp4_tuning choose(const kerf_gemv_nvfp4_shape *s)
{
    return s->cols > 16384 ? kf_nvfp4_tuning{0, 1024, 0} : kf_nvfp4_tuning{0, 512, 0};
}

static kerf_status plan_launch(kerf_gemv_nvfp4 *p, kf_nvfp4_tuning t, kerf_error *err)
{
    const variant *v = &variants[t.variant];
    kf_nvfp4_launch *l = &p->launch;
    bool tiled = p->shape.a_scales == KERF_SCALES_TILES;
    uint64_t places = tiled ? (p->shape.rows + 127) / 128 * 128 : p->shape.rows;
    uint64_t batch = p->shape.batch ? p->shape.batch : 1;
    int resident = 0, processors = 0;
    l->variant = t.variant;
    l->slices = (unsigned)((p->shape.cols / SLICE + 31) / 32 * 32);
    if (t.threads > v->threads) t.threads = v->threads;
    l->groups = l->slices < t.threads ? t.threads / l->slices : 1;
    unsigned step = v->rows * l->groups * v->stages;
    l->flush = RED / (l->slices / 32) / step * step;
    KF_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, p->ordinal),
            "asking a GPU for its properties");
    KF_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                &resident, (const void *)(tiled ? v->tiled : v->plain),
                (int)(l->slices * l->groups), 0),
            "asking for the occupancy of a kernel");
    if (t.resident && (int)t.resident < resident) resident = (int)t.resident;
    uint64_t blocks = (uint64_t)resident * processors / batch;
    uint64_t most = (places + v->rows * l->groups - 1) / (v->rows * l->groups);
    if (blocks > most) blocks = most;
    l->blocks_per_matrix = blocks ? (unsigned)blocks : 1;
    return KERF_OK;
}

static bool aligned(const void *p, unsigned to)
{
    return (uintptr_t)p % to == 0;
}

static bool is_fast(const job &j, bool a_tiled)
{
    return aligned(j.a, 16) && aligned(j.b, 16) && aligned(j.sa, a_tiled ? 16 : 2) &&
           aligned(j.sb, 2);
}

static cudaError_t launch(kernel k, const job &j, unsigned blocks, dim3 threads, cudaStream_t s)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3(blocks);
    c.blockDim = threads;
    c.stream = s;
    c.attrs = &early;
    c.numAttrs = j.early;
    return cudaLaunchKernelEx(&c, k, j);
}

} // namespace

extern "C" const char *kf_nvfp4_cuda_variant(unsigned i)
{
    return i < VARIANTS ? variants[i].name : NULL;
}

extern "C" kerf_status kf_nvfp4_cuda_plan(kerf_gemv_nvfp4 *p, kerf_device *device,
                                          const kf_nvfp4_tuning *tuning, kerf_error *err)
{
    uint64_t steps = p->shape.cols / 512 + 64;
    p->on_gpu = 1;
    p->ordinal = kf_gpu_of(device)->ordinal;
    p->fast = p->shape.cols % SLICE == 0 && p->shape.cols <= 1024 * SLICE && p->shape.cols > 0;
    p->bound = (double)steps * 0x1p-24;
    if (p->shape.rows > UINT32_MAX - 4096 || p->shape.batch * ((p->shape.rows + 7) / 8) > INT32_MAX)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%llu x %llu rows are too many for one launch",
                       (unsigned long long)p->shape.batch, (unsigned long long)p->shape.rows);
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    return p->fast ? plan_launch(p, tuning ? *tuning : choose(&p->shape), err) : KERF_OK;
}

extern "C" kerf_status kf_nvfp4_cuda_run(const kerf_gemv_nvfp4 *p, const kerf_gemv_nvfp4_args *x,
                                         void *stream, kerf_error *err)
{
    const kerf_gemv_nvfp4_shape *s = &p->shape;
    const kf_nvfp4_launch *l = &p->launch;
    bool tiled = s->a_scales == KERF_SCALES_TILES;
    job j = {};
    j.a = (const uint8_t *)x->a[KERF_PLANE_CODES].p;
    j.sa = (const uint8_t *)x->a[KERF_PLANE_SCALES].p;
    j.b = (const uint8_t *)x->b[KERF_PLANE_CODES].p;
    j.sb = (const uint8_t *)x->b[KERF_PLANE_SCALES].p;
    j.second_a = (const float *)x->a[KERF_PLANE_SECOND].p;
    j.second_b = (const float *)x->b[KERF_PLANE_SECOND].p;
    j.y = x->y.p;
    j.sa_each = p->a_scales_each;
    j.sb_each = p->b_scales_each;
    j.rows = (unsigned)s->rows;
    j.places = tiled ? (j.rows + 127) / 128 * 128 : j.rows;
    j.cols = (unsigned)s->cols;
    j.across = (j.cols / 16 + KF_TILE_COLS - 1) / KF_TILE_COLS;
    j.alpha = x->alpha == 0 ? 1 : x->alpha;
    j.type = s->y;
    j.b_tiled = s->b_scales == KERF_SCALES_TILES;
    j.early = s->flags & KERF_GEMV_CONSTANT_WEIGHTS;
    bool fast = p->fast && is_fast(j, tiled);
    kernel k = tiled ? multiply_any<true> : multiply_any<false>;
    j.blocks = fast ? l->blocks_per_matrix : (j.rows + 7) / 8;
    j.flush = l->flush;
    if (fast) k = tiled ? variants[l->variant].tiled : variants[l->variant].plain;
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    KF_CUDA(launch(k, j, j.blocks * (unsigned)s->batch,
                   fast ? dim3(l->slices, l->groups) : dim3(256), (cudaStream_t)stream),
            "starting a kernel");
    return KERF_OK;
}
