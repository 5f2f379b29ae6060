/* experts_row.cuh - the launches of a mixture-of-experts layer of one row of formats.def, each of
 * which is a translation unit of its own, as with cuda/gemv_row.cuh. GGUF's blocks have a second
 * one (KF_FOURS), of the kernel for several tokens alone, with groups of up to four: a kernel that
 * can do both is 3 to 11 % slower with groups of two. Formats of E2M1 have a second one, too, for
 * shuffled codes (KF_SHUFFLED). */
#include "cuda/gemv/gemv_row_spec.cuh"

#include "cuda/experts/experts_few.cuh"
#if !KF_FOURS
#include "cuda/experts/experts_one.cuh"
#if !KF_SHUFFLED
#include "cuda/experts/experts_any.cuh"
#endif
#endif
#if !KF_BLOCKS
#include "cuda/experts/experts_tiles.cuh"
#endif

namespace
{

typedef void (*experts_kernel)(const kf_experts_job);

/* Whether the row has a unit for groups of up to four tokens. */
constexpr bool HAS_FOURS_UNIT = kf_experts_few_most(kf_gemv_tiling_of(KF_ROW)) == KF_EXPERTS_FOURS;
static_assert(HAS_FOURS_UNIT || !HAS_FOURS, "of GGUF's blocks: cmake/cuda.cmake");

#if KF_FOURS

experts_kernel kernel_for(int, kf_experts_kind)
{
    return experts_few;
}

#else

constexpr bool HAS_SLICES = TILED && kf_experts_has_slices(KF_ROW);

/* COLUMN: the kernels for one token and for several; SLICES: the one by slices. */
template <bool COLUMN, bool SLICES> experts_kernel tiles_for(int which, kf_experts_kind kind)
{
    if constexpr (COLUMN) {
        if (kind == KF_EXPERTS_ONE) return experts_one;
        if (kind == KF_EXPERTS_FEW_TOKENS) return experts_few;
    }
#if !KF_BLOCKS
    if constexpr (SLICES) return which ? experts_tiles<1> : experts_tiles<2>;
#endif
    return nullptr;
}

experts_kernel kernel_for(int which, kf_experts_kind kind)
{
    return tiles_for<HAS_COLUMN, HAS_SLICES>(which, kind);
}

#endif

cudaError_t launch(experts_kernel k, const kf_experts_job *j, const kf_experts_grid *g,
                   cudaStream_t s)
{
    cudaLaunchAttribute a[2] = {};
    cudaLaunchConfig_t c = {};
    c.attrs = a;
    c.gridDim = dim3(g->blocks);
    c.blockDim = dim3(g->threads);
    c.dynamicSmemBytes = g->shared_bytes;
    c.stream = s;
    if (g->overlap) {
        a[c.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        a[c.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (g->team > 1) {
        a[c.numAttrs].id = cudaLaunchAttributeClusterDimension;
        a[c.numAttrs++].val.clusterDim = {g->team, 1, 1};
    }
    void *arguments[] = {const_cast<kf_experts_job *>(j)};
    return cudaLaunchKernelExC(&c, (const void *)k, arguments);
}

cudaError_t prepare(int which, const kf_experts_grid *g, unsigned most_bytes, int *blocks)
{
    experts_kernel k = kernel_for(which, g->kind);
    *blocks = 0;
    if (!k) return cudaSuccess;
    cudaFuncAttributes own;
    cudaError_t e = cudaFuncGetAttributes(&own, (const void *)k);
    if (e != cudaSuccess) return e;
    if ((unsigned)own.maxThreadsPerBlock < g->threads) return cudaSuccess; /* not for this device */
    e = cudaFuncSetAttribute((const void *)k, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)most_bytes);
    if (e != cudaSuccess) return e;
    /* Both launches divide a multiprocessor's memory alike, or they would not overlap. */
    e = cudaFuncSetAttribute((const void *)k, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared);
    if (e != cudaSuccess) return e;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void *)k, (int)g->threads,
                                                         g->shared_bytes);
}

cudaError_t tiles(int which, const kf_experts_job *j, const kf_experts_grid *g, cudaStream_t s)
{
    return launch(kernel_for(which, g->kind), j, g, s);
}

} // namespace

extern const kf_experts_launches KF_NAME(kf_experts_launches_, KF_ROW_ID);
extern const kf_experts_launches KF_NAME(kf_experts_fours_, KF_ROW_ID);
extern const kf_experts_launches KF_NAME(kf_experts_shuffled_, KF_ROW_ID);

#if KF_FOURS

const kf_experts_launches KF_NAME(kf_experts_fours_, KF_ROW_ID) = {prepare, tiles, nullptr, nullptr,
                                                                   nullptr};

#elif KF_SHUFFLED

const kf_experts_launches KF_NAME(kf_experts_shuffled_, KF_ROW_ID) = {prepare, tiles, nullptr,
                                                                      nullptr, nullptr};

#else

namespace
{

cudaError_t any(int which, const kf_experts_job *j, const kf_experts_grid *g, cudaStream_t s)
{
    return launch(which ? experts_any<1> : experts_any<2>, j, g, s);
}

/* Templates, so that rows without the other units do not refer to them. */
template <bool HERE> constexpr const kf_experts_launches *experts_fours()
{
    if constexpr (HERE)
        return &KF_NAME(kf_experts_fours_, KF_ROW_ID);
    else
        return nullptr;
}

template <bool HERE> constexpr const kf_experts_launches *experts_shuffled()
{
    if constexpr (HERE)
        return &KF_NAME(kf_experts_shuffled_, KF_ROW_ID);
    else
        return nullptr;
}

} // namespace

const kf_experts_launches KF_NAME(kf_experts_launches_, KF_ROW_ID) = {
    prepare, tiles, any, experts_fours<HAS_FOURS_UNIT>(), experts_shuffled<WAY == KF_WAY_E2M1>()};

#endif
