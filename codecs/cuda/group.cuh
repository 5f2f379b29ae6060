/* group.cuh - what encoders do with a group, whoever holds its elements: extremes, scale, codes,
 * and where the scale is stored.
 *
 * The scale is chosen by kf_choose() in block/, given the extremes instead of the group: rules
 * that look at amax or range alone cannot tell the difference. 4/6 looks at the elements, and a
 * thread has all 16 of them. Searched scales were chosen before (search.cuh).
 *
 * The encoders of other projects (ENC_PEER) share one kernel, which asks block/ for every scale and
 * every code. They look at the range of the elements alone, too. */
#ifndef KERF_GROUP_CUH
#define KERF_GROUP_CUH

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

/* The encoder of the family that searches. */
constexpr int SEARCH_OF_FAMILY =
#define KERF_ENCODER(FAMILY, ID, ...) \
    kf_is_search(KF_ROW.family, KERF_ENC_##FAMILY##_##ID) ? KERF_ENC_##FAMILY##_##ID:
#include <kerf/formats.def>
#undef KERF_ENCODER
    KERF_ENC_NONE;
constexpr bool HAS_SEARCH = /* a whole matrix is streamed past */
    KF_ROW.geometry != KERF_GROUP_TENSOR && SEARCH_OF_FAMILY != KERF_ENC_NONE;

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

/* How many elements a chunk at i of a line has. */
__device__ __forceinline__ int count_at(const kf_job &j, uint64_t i)
{
    return i >= j.width ? 0 : j.width - i < CHUNK ? (int)(j.width - i) : CHUNK;
}

} // namespace
#endif
