/* feedback_round.cuh - rows with error feedback, as kerf/feedback.h defines it and
 * cpu/feedback_rows.c does it, for the format of this file: of block/ it takes how a scale is
 * chosen and how one number is rounded under it.
 *
 * A warp has a row, and a lane every 32nd column of the block. The lane of the column that is
 * rounded gives its error to all, and each adds it to the sums of its own columns, so that every
 * sum runs in rising order of the columns before it. Of the scales that are tried each lane weighs
 * one.
 */
#ifndef KERF_FEEDBACK_ROUND_CUH
#define KERF_FEEDBACK_ROUND_CUH

#include "cuda/feedback_job.h"
#include "cuda/search.cuh"
#include "cuda/wide_groups.cuh"

namespace
{

constexpr bool HAS_FEEDBACK = KF_ROW.bits <= 8;
constexpr int FEEDBACK_BLOCK = KF_FEEDBACK_BLOCK, FEEDBACK_PARTS = FEEDBACK_BLOCK / 32;
constexpr unsigned FEEDBACK_WARPS = 8;
constexpr unsigned FEEDBACK_THREADS = FEEDBACK_WARPS * 32;
constexpr unsigned TILE_STEP = FEEDBACK_BLOCK + 1; /* from column to column: another bank */
constexpr unsigned FEEDBACK_SHARED = sizeof(float) * FEEDBACK_BLOCK * (TILE_STEP + FEEDBACK_WARPS);

/* Whose scales are known before a block: one of a row, or of its matrix, or of a tile. */
constexpr bool OWNS_ROW = KF_ROW.geometry == KERF_GROUP_ROW;
constexpr bool OWNS_TILE = KF_ROW.geometry == KERF_GROUP_TILE;
constexpr bool BY_GROUPS = PER_GROUP && !OWNS_ROW && !OWNS_TILE;

/* As in cpu/feedback_rows.c; the encoder's own scale is lane 0's. */
__device__ const float stretches[] = {1,    0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f, 0.65f,
                                      0.5f, 1.1f,  1.2f, 1.3f,  1.4f, 1.5f,  2};
constexpr int STRETCHES = 15;

/* How a row rounds at the moment. */
struct rounder {
    kf_quant quant;
    kf_dequant dequant;
};
static_assert(sizeof(rounder) <= KF_ROUNDER_BYTES, "room for it");

/* --- scales ---------------------------------------------------------------------------------- */

/* Out of line: rules of all encoders, wanted at several places. */
__device__ __noinline__ kf_scale choose_any(int encoder, const kf_tensor *t, kf_group g)
{
    return kf_choose(KF_ROW, encoder, t, g);
}

__device__ __noinline__ rounder rounder_of(const kf_feedback_job &f, const kf_tensor *t,
                                           kf_scale scale, kf_group g)
{
    rounder q;
    q.quant = kf_quant_init(KF_ROW, f.job.encoder, t, scale, g);
    q.dequant = kf_dequant_init(KF_ROW, scale, t->second, t->offset);
    return q;
}

/* All lanes get the same. A search divides its candidates among them. */
__device__ __forceinline__ kf_scale own_scale(const kf_feedback_job &f, const kf_tensor *t,
                                              kf_group g)
{
    if constexpr (HAS_SEARCH && KF_ROW.family != KERF_FAMILY_MX)
        if (kf_is_search(KF_ROW.family, f.job.encoder)) {
            extremes e = warp_range(g);
            if (e.hi > 0 || e.lo < 0) return sweep(t, e, g);
            if (KF_ROW.family == KERF_FAMILY_NVFP4) return kf_scale{0, 0};
            return candidate_at(t, e, g, 0);
        }
    return choose_any(f.job.encoder, t, g);
}

/* What the default encoder chooses for the group made so many times larger. Where it looks at the
 * extremes alone, they are made larger alone: products keep their order. */
__device__ __noinline__ kf_scale stretched_scale(const kf_feedback_job &f, const kf_tensor *t,
                                                 kf_group g, float by)
{
    constexpr kerf_family FAMILY = KF_ROW.family;
    float ends[2];
    if (kf_has_choice(FAMILY, f.plain, KF_CHOICE_AMAX)) {
        ends[0] = ends[1] = kf_group_amax(g) * by;
    } else if (kf_has_choice(FAMILY, f.plain, KF_CHOICE_RANGE)) {
        kf_group_range(g, &ends[0], &ends[1]);
        ends[0] *= by;
        ends[1] *= by;
    } else {
        float larger[BY_GROUPS ? GROUP : 1];
        if constexpr (BY_GROUPS)
            for (size_t k = 0; k < g.cols; k++) larger[k] = g.x[k] * by;
        kf_group h = {larger, 1, g.cols, g.cols, g.whole};
        return choose_any(f.plain, t, h);
    }
    kf_group h = {ends, 1, 2, 2, g.whole};
    return choose_any(f.plain, t, h);
}

/* The sum of D_k (t_k rounded - t_k)^2 under a scale; d: of the first column. */
__device__ __noinline__ double weigh_scale(rounder q, kf_group g, const float *d)
{
    double sum = 0;
    for (size_t i = 0; i < g.rows; i++)
        for (size_t k = 0; k < g.cols; k++) {
            float x = g.x[i * g.ld + k];
            float e = kf_value(KF_ROW, q.dequant, kf_code(KF_ROW, q.quant, x)) - x;
            sum += (double)d[k] * ((double)e * (double)e);
        }
    return sum;
}

/* The first of the least; what an earlier lane has tried, and what is no number, counts as worse
 * than all. */
__device__ __forceinline__ int least_lane(double sum, kf_scale scale)
{
    constexpr double INF = __builtin_huge_val();
    unsigned lane = threadIdx.x % 32, same = __match_any_sync(~0u, scale.bits);
    if (KF_ROW.zero == KERF_ZERO_CODE) same &= __match_any_sync(~0u, scale.zero);
    double own = __shfl_sync(~0u, sum, 0);
    if (own != own) return 0;
    if ((same & ((1u << lane) - 1)) || sum != sum) sum = INF;
    int best = (int)lane;
    for (int o = 16; o > 0; o /= 2) {
        double other = __shfl_xor_sync(~0u, sum, o);
        int who = __shfl_xor_sync(~0u, best, o);
        if (other < sum || (other == sum && who < best)) {
            sum = other;
            best = who;
        }
    }
    return best;
}

/* By a warp: the scale of a group, and how it rounds. */
__device__ __forceinline__ rounder choose_group(const kf_feedback_job &f, const kf_tensor *t,
                                                kf_group g, const float *d, kf_scale *out)
{
    int lane = (int)threadIdx.x % 32;
    kf_scale scale = own_scale(f, t, g);
    if (f.tries) {
        if (lane > 0 && lane <= STRETCHES) scale = stretched_scale(f, t, g, stretches[lane - 1]);
        __syncwarp();
        double sum = weigh_scale(rounder_of(f, t, scale, g), g, d);
        __syncwarp();
        int best = least_lane(sum, scale);
        scale.bits = __shfl_sync(~0u, scale.bits, best);
        scale.zero = __shfl_sync(~0u, scale.zero, best);
    }
    *out = scale;
    return rounder_of(f, t, scale, g);
}

/* Scale `group` of a line, by one thread; zero points are added to bytes of zeros. */
__device__ __forceinline__ void keep_scale(const kf_job &j, uint64_t line, uint64_t group,
                                           kf_scale scale)
{
    uint8_t *p = j.plane[KERF_PLANE_SCALES] + (line * j.groups + group) * SCALE_BYTES;
    if constexpr (IS_STRUCT)
        p = j.plane[KERF_PLANE_CODES] + line * j.code_bytes + kf_struct_scale(KF_ROW, group);
    kf_put_code(p, 8 * SCALE_BYTES, 0, scale.bits);
    if constexpr (KF_ROW.zero == KERF_ZERO_CODE)
        kf_put_code(j.plane[KERF_PLANE_ZEROS] + line * j.zero_bytes, KF_ROW.bits, group,
                    scale.zero);
}

/* nf4-dq: the scale stands in the planes already, for it was chosen from the elements. */
__device__ __forceinline__ rounder nested_rounder(const kf_job &j, uint64_t line, uint64_t group)
{
    uint64_t i = line * j.groups + group;
    kf_scale scale = {j.plane[KERF_PLANE_SCALES][i], 0};
    float second = ((const float *)j.plane[KERF_PLANE_SECOND])[i / KF_NEST_BLOCKS];
    rounder q = {};
    q.dequant = kf_dequant_init(KF_ROW, scale, second, j.tensors->offset);
    return q;
}

/* --- scales that are known before a block --------------------------------------------------- */

/* Of rows: no column lies ahead of the group. */
template <int>
__global__ void __launch_bounds__(FEEDBACK_THREADS)
    choose_rows(const __grid_constant__ kf_feedback_job f)
{
    const kf_job &j = f.job;
    uint64_t line = (uint64_t)blockIdx.x * FEEDBACK_WARPS + threadIdx.x / 32;
    for (; line < j.lines; line += (uint64_t)gridDim.x * FEEDBACK_WARPS) {
        kf_tensor t = tensor_at(j, line);
        kf_group g = {j.floats + line * j.width, 1, j.width, j.width, 1};
        kf_scale scale;
        rounder q = choose_group(f, &t, g, f.d, &scale);
        if (threadIdx.x % 32 != 0) continue;
        keep_scale(j, line, 0, scale);
        ((rounder *)f.rounders)[line] = q;
    }
}

/* Of tiles that begin with this block: their elements with feedback are put where the errors of the
 * block before were, which nobody needs any more. */
template <int>
__global__ void __launch_bounds__(FEEDBACK_THREADS)
    choose_tiles(const __grid_constant__ kf_feedback_job f)
{
    static_assert(!OWNS_TILE || GROUP == FEEDBACK_BLOCK, "a tile is a block of columns");
    const kf_job &j = f.job;
    uint64_t left = j.width - f.from, cols = left < FEEDBACK_BLOCK ? left : FEEDBACK_BLOCK;
    unsigned lane = threadIdx.x % 32;
    uint64_t b = (uint64_t)blockIdx.x * FEEDBACK_WARPS + threadIdx.x / 32;
    for (; b < j.bands; b += (uint64_t)gridDim.x * FEEDBACK_WARPS) {
        uint64_t first;
        int rows;
        tile_lines(j, b, &first, &rows);
        for (int r = 0; r < rows; r++)
            for (unsigned k = lane; k < cols; k += 32) {
                uint64_t i = (first + r) * j.width + f.from + k;
                f.fault[(first + r) * FEEDBACK_BLOCK + k] = j.floats[i] - f.sum[i];
            }
        __syncwarp();
        kf_tensor t = tensor_at(j, first);
        kf_group g = {f.fault + first * FEEDBACK_BLOCK, (size_t)rows, cols, FEEDBACK_BLOCK,
                      cols == FEEDBACK_BLOCK};
        kf_scale scale;
        rounder q = choose_group(f, &t, g, f.d + f.from, &scale);
        for (int r = (int)lane; r < rows; r += 32) ((rounder *)f.rounders)[first + r] = q;
        if (lane == 0) store_scale(place_scale(j, b * j.groups + f.from / FEEDBACK_BLOCK), scale);
    }
}

/* --- one block of columns ------------------------------------------------------------------- */

/* The code nearest to x by its number. */
__device__ __forceinline__ uint32_t nearest_code(kf_dequant d, float x)
{
    uint32_t best = 0;
    float least = kf_abs(kf_value(KF_ROW, d, 0) - x);
#pragma unroll 1
    for (uint32_t i = 1; i < 1u << (KF_ROW.bits < 8 ? KF_ROW.bits : 0); i++) {
        float e = kf_abs(kf_value(KF_ROW, d, i) - x);
        if (!(e < least)) continue;
        least = e;
        best = i;
    }
    return best;
}

/* The columns of a lane: 32 apart, the first in that part of the block that is being rounded. */
struct lane_columns {
    float x[FEEDBACK_PARTS], sum[FEEDBACK_PARTS];
};

__device__ __forceinline__ void load_columns(const kf_feedback_job &f, uint64_t line,
                                             lane_columns *c)
{
    uint64_t at = line * f.job.width, lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < FEEDBACK_PARTS; m++) {
        uint64_t k = f.from + 32 * m + lane;
        c->x[m] = k < f.job.width ? f.job.floats[at + k] : 0;
        c->sum[m] = k < f.job.width ? f.sum[at + k] : 0;
    }
}

__device__ __forceinline__ void next_part(lane_columns *c)
{
#pragma unroll
    for (int m = 0; m + 1 < FEEDBACK_PARTS; m++) {
        c->x[m] = c->x[m + 1];
        c->sum[m] = c->sum[m + 1];
    }
}

/* What the format rounds by from column k of the block on, where a group begins there; own: memory
 * of the warp. */
__device__ __forceinline__ rounder begin_group(const kf_feedback_job &f, const kf_tensor *t,
                                               uint64_t line, int k, const lane_columns &c,
                                               float *own)
{
    const kf_job &j = f.job;
    uint64_t column = f.from + k, group = column / GROUP;
    if constexpr (IS_NESTED) return nested_rounder(j, line, group);
    int part = k / 32, lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < FEEDBACK_PARTS; m++)
        if (part + m < FEEDBACK_PARTS) own[32 * (part + m) + lane] = c.x[m] - c.sum[m];
    __syncwarp();
    uint64_t left = j.width - column, cols = left < GROUP ? left : GROUP;
    kf_group g = {own + k, 1, cols, cols, cols == GROUP};
    kf_scale scale;
    rounder q = choose_group(f, t, g, f.d + column, &scale);
    if (lane == 0) keep_scale(j, line, group, scale);
    __syncwarp();
    return q;
}

/* above: [column before][column behind] of the block. */
__device__ __forceinline__ void round_row(const kf_feedback_job &f, uint64_t line,
                                          const float *above, float *own)
{
    const kf_job &j = f.job;
    kf_tensor t = tensor_at(j, line);
    int lane = (int)threadIdx.x % 32;
    lane_columns c;
    load_columns(f, line, &c);
    rounder q = {};
    if constexpr (OWNS_ROW || OWNS_TILE) q = ((const rounder *)f.rounders)[line];
    if constexpr (!PER_GROUP) {
        kf_scale scale = {t.bits, t.zero};
        kf_group g = {j.floats + line * j.width, 1, j.width, j.width, 1};
        q = rounder_of(f, &t, scale, g);
    }
#pragma unroll 1
    for (int part = 0; part < FEEDBACK_PARTS && f.from + 32 * part < j.width; part++) {
        uint32_t code = 0;
        float fault = 0;
        uint64_t left = j.width - f.from - 32 * part;
        int n = left < 32 ? (int)left : 32;
#pragma unroll 1
        for (int i = 0; i < n; i++) {
            int k = 32 * part + i;
            if constexpr (BY_GROUPS)
                if (k % GROUP == 0) q = begin_group(f, &t, line, k, c, own);
            float x = c.x[0], y = x - c.sum[0];
            uint32_t mine = IS_NESTED ? nearest_code(q.dequant, y) : kf_code(KF_ROW, q.quant, y);
            float e = kf_value(KF_ROW, q.dequant, mine) - x;
            if (!kf_is_finite(e)) e = 0;
            if (lane == i) {
                code = mine;
                fault = e;
            }
            e = __shfl_sync(~0u, e, i);
            const float *row = above + k * TILE_STEP + 32 * part + lane;
            if (lane > i) c.sum[0] += row[0] * e;
#pragma unroll
            for (int m = 1; m < FEEDBACK_PARTS; m++)
                if (part + m < FEEDBACK_PARTS) c.sum[m] += row[32 * m] * e;
        }
        f.fault[line * FEEDBACK_BLOCK + 32 * part + lane] = fault;
        if (lane < n) f.code[line * j.width + f.from + 32 * part + lane] = (uint8_t)code;
        next_part(&c);
    }
}

template <int>
__global__ void __launch_bounds__(FEEDBACK_THREADS, 2)
    round_rows(const __grid_constant__ kf_feedback_job f)
{
    extern __shared__ float shared[];
    const kf_job &j = f.job;
    float *own = shared + FEEDBACK_BLOCK * TILE_STEP + threadIdx.x / 32 * FEEDBACK_BLOCK;
    for (unsigned i = threadIdx.x; i < FEEDBACK_BLOCK * FEEDBACK_BLOCK; i += FEEDBACK_THREADS) {
        unsigned behind = i / FEEDBACK_BLOCK, before = i % FEEDBACK_BLOCK;
        uint64_t k = f.from + behind;
        shared[before * TILE_STEP + behind] =
            before < behind && k < j.width ? f.above[k * j.width + f.from + before] : 0;
    }
    __syncthreads();
    uint64_t line = (uint64_t)blockIdx.x * FEEDBACK_WARPS + threadIdx.x / 32;
    for (; line < j.lines; line += (uint64_t)gridDim.x * FEEDBACK_WARPS)
        round_row(f, line, shared, own);
}

/* --- launches ------------------------------------------------------------------------------- */

inline unsigned warps_of(uint64_t n)
{
    return at_most((n + FEEDBACK_WARPS - 1) / FEEDBACK_WARPS, 0x7fffffffu);
}

/* Z: so that only those kernels are compiled that the format has. */
template <int Z> cudaError_t round_typed(const kf_feedback_job *f, cudaStream_t s)
{
    if constexpr (HAS_FEEDBACK) {
        if constexpr (OWNS_ROW)
            if (f->from == 0)
                choose_rows<Z><<<warps_of(f->job.lines), FEEDBACK_THREADS, 0, s>>>(*f);
        if constexpr (OWNS_TILE)
            choose_tiles<Z><<<warps_of(f->job.bands), FEEDBACK_THREADS, 0, s>>>(*f);
        cudaError_t e = cudaFuncSetAttribute(
            round_rows<Z>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)FEEDBACK_SHARED);
        if (e != cudaSuccess) return e;
        round_rows<Z><<<warps_of(f->job.lines), FEEDBACK_THREADS, FEEDBACK_SHARED, s>>>(*f);
        return cudaGetLastError();
    }
    return cudaErrorInvalidValue;
}

cudaError_t round_block(const kf_feedback_job *f, cudaStream_t s)
{
    return round_typed<0>(f, s);
}

} // namespace
#endif
