/* encode.cuh - one pass over the source: amax, scale, codes, while the elements are in registers.
 *
 *   chunks  groups of 16 to 128 neighbours: 1 to 8 threads find the extremes by shuffles
 *   rows    a row is a group: a block of threads holds it in registers, what is beyond 16384
 *           elements is read again, from the caches
 *   tiles   128 x 128: a block of threads holds the tile in registers
 *
 * The scale is chosen by kf_choose() in block/, given the extremes instead of the group: rules
 * that look at amax or range alone cannot tell the difference. 4/6 looks at the elements, and a
 * thread has all 16 of them. Searched scales were chosen before (search.cuh).
 *
 * The encoders of other projects (ENC_PEER) share one kernel, which asks block/ for every scale and
 * every code. They look at the range of the elements alone, too. */
#ifndef KERF_ENCODE_CUH
#define KERF_ENCODE_CUH

#include "cuda/four_over_six.cuh"

namespace
{

constexpr bool PER_GROUP =
    KF_ROW.geometry != KERF_GROUP_NONE && KF_ROW.geometry != KERF_GROUP_TENSOR;
constexpr bool IS_STRUCT = KF_ROW.geometry == KERF_GROUP_STRUCT;
constexpr bool IS_NF4 = KF_ROW.family == KERF_FAMILY_NF4;
constexpr bool NEEDS_TENSOR =
    KF_ROW.geometry == KERF_GROUP_TENSOR || KF_ROW.second == KERF_SECOND_TENSOR;
constexpr int GROUP = KF_ROW.group ? (int)KF_ROW.group : CHUNK;
constexpr int LANES = GROUP > CHUNK ? GROUP / CHUNK : 1; /* threads of a group */

constexpr int SCALE_BYTES = KF_ROW.scale == KERF_SCALE_F32                                      ? 4
                            : KF_ROW.scale == KERF_SCALE_F16 || KF_ROW.scale == KERF_SCALE_BF16 ? 2
                                                                                                : 1;
constexpr int ENC_GIVEN = KERF_ENC_NONE; /* the scales are in job.chosen */
constexpr int ENC_PEER = -1;             /* job.encoder says which       */

constexpr bool HAS_SEARCH = /* a whole matrix is streamed past */
    KF_ROW.geometry != KERF_GROUP_TENSOR &&
    (KF_ROW.family == KERF_FAMILY_MX || KF_ROW.family == KERF_FAMILY_NVFP4 ||
     KF_ROW.family == KERF_FAMILY_INT || IS_AFFINE);
constexpr int SEARCH_OF_FAMILY = KF_ROW.family == KERF_FAMILY_MX      ? KERF_ENC_MX_SEARCH
                                 : KF_ROW.family == KERF_FAMILY_NVFP4 ? KERF_ENC_NVFP4_SWEEP
                                 : IS_AFFINE                          ? KERF_ENC_AFFINE_SEARCH
                                                                      : KERF_ENC_INT_SEARCH;

template <int ENC> constexpr bool has_both_ends = IS_AFFINE || ENC == ENC_PEER;

/* --- extremes of a group --------------------------------------------------------------------- */

template <int ENC> __device__ __forceinline__ extremes no_extremes()
{
    constexpr float INF = __builtin_huge_valf();
    return ENC == ENC_PEER ? extremes{INF, -INF} : extremes{0, 0};
}

/* Adds the elements of a chunk, n of which are not padding; `loaded`: what settle_chunk() found,
 * which is enough for the encoders of kerf. */
template <int ENC>
__device__ __forceinline__ void add_elements(extremes *e, extremes loaded, const float *x, int n)
{
    if constexpr (ENC != ENC_PEER) {
        widen_range(e, loaded.lo, loaded.hi);
    } else {
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            if (i < n) widen_range<true>(e, x[i], x[i]);
    }
}

/* Over a warp, of extremes about zero: without their signs floats order like integers. */
__device__ __forceinline__ void share_range_warp(extremes *e)
{
    e->hi = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(e->hi) & 0x7fffffffu));
    if (IS_AFFINE)
        e->lo = -__uint_as_float(__reduce_max_sync(~0u, __float_as_uint(e->lo) & 0x7fffffffu));
}

/* Over `lanes` neighbouring threads; all of them get the result. */
template <bool BOTH = IS_AFFINE> __device__ __forceinline__ void share_range(extremes *e, int lanes)
{
#pragma unroll
    for (int o = lanes / 2; o > 0; o /= 2)
        widen_range<BOTH>(e, __shfl_xor_sync(~0u, e->lo, o), __shfl_xor_sync(~0u, e->hi, o));
}

/* Over the whole block of N threads. */
template <int N, int ENC = ENC_GIVEN> __device__ __forceinline__ void share_range_block(extremes *e)
{
    __shared__ extremes warp[N / 32];
    constexpr bool BOTH = has_both_ends<ENC>;
    if constexpr (ENC == ENC_PEER)
        share_range<BOTH>(e, 32);
    else
        share_range_warp(e);
    __syncthreads(); /* the last reader of `warp` is done */
    if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = *e;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N / 32; i++) widen_range<BOTH>(e, warp[i].lo, warp[i].hi);
}

/* --- the scale of a group -------------------------------------------------------------------- */

__host__ __device__ constexpr bool sees_elements(int encoder)
{
    return KF_ROW.family == KERF_FAMILY_NVFP4 && encoder != KERF_ENC_NVFP4_AMAX &&
           encoder != ENC_PEER && encoder != ENC_GIVEN;
}

/* kf_scale_store() of a number that is not negative, to 16 bits. */
__device__ __forceinline__ uint32_t store_short(float x)
{
    constexpr int TYPE = KF_ROW.scale == KERF_SCALE_F16 ? KERF_F16 : KERF_BF16;
    const float largest = TYPE == KERF_F16 ? 65504.0f : __uint_as_float(0x7f7f0000);
    uint32_t bits = narrow_pair<TYPE>(fminf(x, largest), 0.0f);
    return max(bits, x > 0 ? 1 : 0);
}

/* The scale of minmax out of the way. */
__device__ __noinline__ kf_scale choose_slowly(extremes e)
{
    float ends[2] = {e.lo, e.hi};
    kf_group g = {ends, 1, 2, 2, 1};
    return kf_choose(KF_ROW, KERF_ENC_AFFINE_MINMAX, nullptr, g);
}

/* The same for 16-bit elements and scales: range / levels in three operations, as in round.cuh, and
 * the zero point as a code is found, by the reciprocal that codes are found by. */
__device__ __forceinline__ kf_scale choose_minmax(extremes e)
{
    const float levels = (float)kf_affine_levels(KF_ROW), inverse = 1.0f / levels;
    float range = e.hi - e.lo, q = range * inverse;
    bool fast = range >= 0x1p-80f && range <= 0x1p100f;
    kf_scale scale = {store_short(__fmaf_rn(__fmaf_rn(-q, levels, range), inverse, q)), 0};
    if (!fast) scale = choose_slowly(e);
    float s = divide_short(-e.lo, 1.0f / kf_scale_value(KF_ROW.scale, scale.bits));
    uint32_t zero = __float_as_uint(fminf(fmaxf(s, MAGIC), MAGIC + levels)) & 0xff;
    if (fast) scale.zero = zero ^ kf_affine_flip(KF_ROW);
    return scale;
}

/* e: extremes of elements of type D. */
template <int D, int ENC>
__device__ __forceinline__ kf_scale choose_scale(const kf_job &j, const kf_tensor *t, extremes e,
                                                 const float *x, const scale_row *table, int whole)
{
    if constexpr (IS_AFFINE && ENC == KERF_ENC_AFFINE_MINMAX && D != KERF_F32 && SHORT_SCALES)
        return choose_minmax(e);
    if constexpr (ENC == KERF_ENC_NVFP4_AMAX) return choose_amax(t, e.hi);
    if constexpr (IS_NF4 && KF_ROW.scale == KERF_SCALE_F16)
        if (whole) return kf_scale{store_short(e.hi), 0};
    float ends[2] = {has_both_ends<ENC> ? e.lo : e.hi, e.hi};
    kf_group g = {ends, 1, 2, 2, whole};
    return kf_choose(KF_ROW, ENC == ENC_PEER ? j.encoder : ENC, t, g);
}

template <int ENC>
__device__ __forceinline__ kf_quant make_quant(const kf_job &j, const kf_tensor *t, kf_scale scale,
                                               extremes e, const scale_row *table, int whole)
{
    if constexpr (KF_ROW.family == KERF_FAMILY_NVFP4 && ENC != ENC_PEER) {
        kf_quant q = {};
        q.factor = table[scale.bits].factor;
        q.dead = scale.bits == 0;
        return q;
    }
    float ends[2] = {e.lo, e.hi};
    kf_group g = {ends, 1, 2, 2, whole};
    return kf_quant_init(KF_ROW,
                         ENC == ENC_PEER    ? j.encoder
                         : ENC == ENC_GIVEN ? SEARCH_OF_FAMILY
                                            : ENC,
                         t, scale, g);
}

template <int D, int ENC>
__device__ __forceinline__ void make_codes(const float *x, const raw_chunk<D> &r, kf_quant q,
                                           extremes e, const nf4_bucket *table, uint32_t *w)
{
    constexpr float INF = __builtin_huge_valf();
    if constexpr (ENC == ENC_PEER)
        pack_slowly(x, q, w);
    else
        pack_chunk<D>(x, r.w, q, ENC == ENC_GIVEN ? extremes{-INF, INF} : e, table, w);
}

/* Where scale i of a job is stored; nested ones are fp32 until they are nested. */
constexpr bool IS_NESTED = KF_ROW.second == KERF_SECOND_NESTED;
constexpr int STORED_BYTES = IS_NESTED ? 4 : SCALE_BYTES;
__device__ __forceinline__ uint8_t *place_scale(const kf_job &j, uint64_t i)
{
    return (IS_NESTED ? (uint8_t *)j.floats : j.plane[KERF_PLANE_SCALES]) + i * STORED_BYTES;
}

__device__ __forceinline__ void store_scale(uint8_t *p, kf_scale scale)
{
    if constexpr (STORED_BYTES == 4)
        *(uint32_t *)p = scale.bits;
    else if constexpr (STORED_BYTES == 2)
        *(uint16_t *)p = (uint16_t)scale.bits;
    else
        *p = (uint8_t)scale.bits;
}

constexpr int ZEROS = KF_ROW.bits < 8 ? 8 / (int)KF_ROW.bits : 1; /* zero points of a byte */

/* Zero points of a warp's groups into bytes, by the threads that `lead`. All threads of the warp
 * take part. */
__device__ __forceinline__ void store_zeros(uint8_t *p, uint32_t zero, bool leads)
{
    uint32_t byte = zero;
#pragma unroll
    for (int k = 1; k < ZEROS; k++)
        byte |= __shfl_down_sync(~0u, zero, k * LANES) << k * (int)KF_ROW.bits;
    if (leads) *p = (uint8_t)byte;
}

/* What groups know of a matrix that needs no statistics. */
__device__ __forceinline__ kf_tensor no_tensor(const kf_job &j)
{
    kf_tensor t = {};
    t.source = j.dtype;
    return t;
}

__device__ __forceinline__ kf_tensor tensor_at(const kf_job &j, uint64_t line)
{
    return NEEDS_TENSOR ? j.tensors[matrix_of(j, line)] : no_tensor(j);
}

/* --- chunks ---------------------------------------------------------------------------------- */

/* How many elements a chunk at i of a line has. */
__device__ __forceinline__ int count_at(const kf_job &j, uint64_t i)
{
    return i >= j.width ? 0 : j.width - i < CHUNK ? (int)(j.width - i) : CHUNK;
}

/* What a block of threads keeps in shared memory. */
struct tables {
    nf4_bucket nf4[IS_NF4 ? NF4_BUCKETS * NF4_COPIES : 1];
    scale_row scales[SCALE_ROWS];
};

/* Chunks of a thread, STEP elements apart, loaded before the first is used: as many as there are
 * registers for. Blocks of threads of a multiprocessor. */
constexpr bool HAS_TABLES = IS_NF4 || SCALE_ROWS > 1;
template <int D, int ENC>
constexpr int UNROLL = D != KERF_F32 &&CHUNK == 16 && !HAS_TABLES && ENC != ENC_PEER ? 4 : 2;
template <int D, int ENC> constexpr int RESIDENT = UNROLL<D, ENC> == 4 ? 3 : 4;
template <int D, int ENC> constexpr unsigned TILE = UNROLL<D, ENC> *THREADS *CHUNK;
constexpr unsigned STEP = THREADS * CHUNK;

/* A tile without an edge: every address is one of these plus a constant. */
struct places {
    uint8_t *codes, *scale, *zero;
    const kf_scale *chosen;
};

/* Codes of chunk u of a thread to their plane. WHOLE: a tile of nothing but whole chunks at aligned
 * addresses. */
template <bool WHOLE>
__device__ __forceinline__ void store_codes(const kf_job &j, uint64_t line, uint64_t i, int u,
                                            places at, const uint32_t *w, int n)
{
    if constexpr (WHOLE)
        store_whole_warp(at.codes + u * (STEP / 8 * KF_ROW.bits), w);
    else if (n > 0)
        store_chunk(j.plane[KERF_PLANE_CODES] + line * j.code_bytes + i * KF_ROW.bits / 8, w, n);
}

/* Scale and zero point of a group by the first of its threads; `group`: of the line. All threads of
 * the warp take part. */
template <bool WHOLE>
__device__ __forceinline__ void store_group(const kf_job &j, uint64_t line, uint64_t group, int u,
                                            places at, kf_scale scale, bool has_elements)
{
    if (threadIdx.x % LANES == 0 && has_elements)
        store_scale(WHOLE ? at.scale + u * (STEP / GROUP * STORED_BYTES)
                          : place_scale(j, line * j.groups + group),
                    scale);
    if constexpr (KF_ROW.zero == KERF_ZERO_CODE)
        store_zeros(WHOLE ? at.zero + u * (STEP / GROUP / ZEROS)
                          : j.plane[KERF_PLANE_ZEROS] + line * j.zero_bytes + group / ZEROS,
                    has_elements ? scale.zero : 0,
                    threadIdx.x % (LANES * ZEROS) == 0 && has_elements);
}

/* Chunk u of a thread; else than in a WHOLE tile threads behind the end of the line take part with
 * zeros. */
template <int D, int ENC, bool WHOLE>
__device__ __forceinline__ void encode_chunk(const kf_job &j, const kf_tensor *t,
                                             const tables *shared, uint64_t line, uint64_t i, int u,
                                             places at, raw_chunk<D> r)
{
    int n = WHOLE ? CHUNK : count_at(j, i);
    uint64_t group = i / GROUP;
    int whole = WHOLE || (group + 1) * GROUP <= j.width;
    float x[CHUNK];
    extremes loaded = {0, 0}, e = no_extremes<ENC>();
    settle_chunk<D>(j, line, i, &r, &loaded);
    widen_chunk<D>(r, x);
    add_elements<ENC>(&e, loaded, x, n);
    kf_scale scale = {t->bits, t->zero};
    uint32_t w[CODE_WORDS];
    if constexpr (sees_elements(ENC)) {
        scale = encode_four_over_six<D, ENC>(t, shared->scales, x, r.w, e.hi, w);
    } else if constexpr (ENC == ENC_GIVEN && PER_GROUP) {
        if (n > 0)
            scale = WHOLE ? at.chosen[u * (STEP / GROUP)] : j.chosen[line * j.groups + group];
    } else if constexpr (PER_GROUP) {
        share_range<has_both_ends<ENC>>(&e, LANES);
        scale = choose_scale<D, ENC>(j, t, e, x, shared->scales, whole);
    }
    if constexpr (!sees_elements(ENC)) {
        kf_quant q = make_quant<ENC>(j, t, scale, e, shared->scales, whole);
        make_codes<D, ENC>(x, r, q, e, shared->nf4, w);
    }
    store_codes<WHOLE>(j, line, i, u, at, w, n);
    if constexpr (PER_GROUP) store_group<WHOLE>(j, line, group, u, at, scale, n > 0);
}

template <int D, int ENC, bool WHOLE>
__device__ __forceinline__ void encode_tile(const kf_job &j, const kf_tensor *t,
                                            const tables *shared, uint64_t line, uint64_t first)
{
    constexpr int N = UNROLL<D, ENC>;
    uint64_t i = first + threadIdx.x * CHUNK;
    const uint8_t *source = j.dense + (line * j.width + i) * source_bytes(D);
    places at;
    at.codes = j.plane[KERF_PLANE_CODES] + line * j.code_bytes + i * KF_ROW.bits / 8;
    at.scale = place_scale(j, line * j.groups + i / GROUP);
    at.zero = j.plane[KERF_PLANE_ZEROS] + line * j.zero_bytes + i / GROUP / ZEROS;
    at.chosen = j.chosen + line * j.groups + i / GROUP;
    raw_chunk<D> raw[N];
#pragma unroll
    for (int u = 0; u < N; u++)
        raw[u] = WHOLE ? load_whole<D>(source + u * STEP * source_bytes(D))
                       : load_raw<D>(j, line, i + u * STEP);
#pragma unroll
    for (int u = 0; u < N; u++) {
        if (!WHOLE && first + u * STEP + threadIdx.x / 32 * 32 * CHUNK >= j.width) break;
        encode_chunk<D, ENC, WHOLE>(j, t, shared, line, i + u * STEP, u, at, raw[u]);
    }
}

template <int D, int ENC>
__global__ void __launch_bounds__(THREADS, RESIDENT<D, ENC>)
    encode_chunks(const __grid_constant__ kf_job j)
{
    __shared__ tables shared;
    if (IS_NF4) fill_nf4_buckets(shared.nf4);
    for (uint64_t line = blockIdx.y; line < j.lines; line += gridDim.y) {
        kf_tensor t = tensor_at(j, line);
        if constexpr (HAS_TABLES) {
            __syncthreads(); /* nobody reads the tables of the line before */
            fill_scales<D, ENC>(shared.scales, &t);
            __syncthreads();
        }
        uintptr_t askew =
            ((uintptr_t)j.dense + line * j.width * source_bytes(D)) % raw_chunk<D>::WIDE |
            ((uintptr_t)j.plane[KERF_PLANE_CODES] + line * j.code_bytes) %
                (CODE_WORDS == 3 ? 16 : CODE_WIDE);
        for (uint64_t first = (uint64_t)blockIdx.x * TILE<D, ENC>; first < j.width;
             first += (uint64_t)gridDim.x * TILE<D, ENC>) {
            if (askew == 0 && first + TILE<D, ENC> <= j.width)
                encode_tile<D, ENC, true>(j, &t, &shared, line, first);
            else
                encode_tile<D, ENC, false>(j, &t, &shared, line, first);
        }
    }
}

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

/* --- nf4-dq: the absmax of 256 blocks become 8-bit codes about their mean -------------------- */

constexpr unsigned NEST_RUNS = THREADS / 32; /* of a block of threads at a time */

/* A warp takes a run of 256. The middles between the map's entries are in the order of a search:
 * behind node n come 2 n and 2 n + 1, so that a level is side by side, in banks of its own. */
__global__ void __launch_bounds__(THREADS) nest_scales(const __grid_constant__ kf_job j)
{
    constexpr int EACH = KF_NEST_BLOCKS / 32;
    static_assert(THREADS == KF_NEST_BLOCKS, "a thread writes one middle");
    __shared__ float middles[THREADS];
    float offset = j.tensors->offset;
    if (unsigned n = threadIdx.x) {
        unsigned level = 31 - __clz(n), i = (2 * (n - (1 << level)) + 1) * (128 >> level);
        middles[n] = (kf_map_entry(i - 1) + kf_map_entry(i)) * 0.5f;
    }
    __syncthreads();
    uint64_t run = (uint64_t)blockIdx.x * NEST_RUNS + threadIdx.x / 32;
    for (; run * KF_NEST_BLOCKS < j.groups; run += (uint64_t)gridDim.x * NEST_RUNS) {
        uint64_t first = run * KF_NEST_BLOCKS + threadIdx.x % 32;
        bool whole = j.groups - run * KF_NEST_BLOCKS >= KF_NEST_BLOCKS;
        float c[EACH], second = 0;
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            c[k] = first + 32 * k < j.groups ? j.floats[first + 32 * k] - offset : 0;
            second = fmaxf(second, fabsf(c[k]));
        }
        second = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(second)));
        float divisor = kf_max(second, KF_NF4_LEAST), inverse = 1.0f / divisor;
        unsigned n[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            c[k] = whole ? c[k] * inverse : c[k] / divisor;
            c[k] = kf_min(kf_max(-1.0f, c[k]), 1.0f);
            n[k] = 1;
        }
#pragma unroll
        for (int level = 0; level < 8; level++)
#pragma unroll
            for (int k = 0; k < EACH; k++) n[k] = 2 * n[k] + (c[k] > middles[n[k]]);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (first + 32 * k < j.groups)
                j.plane[KERF_PLANE_SCALES][first + 32 * k] = (uint8_t)n[k]; /* 256 + code */
        if (threadIdx.x % 32 == 0) ((float *)j.plane[KERF_PLANE_SECOND])[run] = second;
    }
}

/* --- launches -------------------------------------------------------------------------------- */

inline unsigned at_most(uint64_t n, unsigned most)
{
    return n < most ? (unsigned)n : most;
}

/* Blocks along a line, lines. */
inline dim3 grid_of(const kf_job *j, uint64_t elements_of_block)
{
    uint64_t x = (j->width + elements_of_block - 1) / elements_of_block;
    return dim3(at_most(x, 0x7fffffffu), at_most(j->lines ? j->lines : 1, 65535));
}

/* Of the GPU at hand: so many that kernels which stay for more than one piece fill it. */
inline unsigned multiprocessors()
{
    int device = 0, n = 0;
    (void)cudaGetDevice(&device);
    (void)cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device);
    return n > 0 ? (unsigned)n : 1;
}

/* The same grid, but with no more blocks along a line than `most` for each multiprocessor. */
inline dim3 filling(dim3 grid, unsigned most)
{
    grid.x = at_most(grid.x, most * multiprocessors());
    return grid;
}

} // namespace
#endif
