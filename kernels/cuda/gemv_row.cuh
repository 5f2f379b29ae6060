/* gemv_row.cuh - the matrix-vector launches of one row of formats.def. As with cuda/row.cuh, each
 * row is a translation unit of its own, which CMake writes; formats of E2M1 have a second one, for
 * shuffled codes. Rows that are GGUF's blocks (KF_BLOCKS) have the kernel for few columns alone. */
#include "cuda/gemv/gemv_row_spec.cuh"

#include "cuda/few/gemv_column.cuh"
#if !KF_BLOCKS
#include "cuda/many/gemv_columns.cuh"
#include "cuda/wide/gemv_wide.cuh"
#endif
#if !KF_SHUFFLED
#include "cuda/gemv/gemv_any.cuh"
#endif

namespace
{

typedef void (*kernel)(const kf_gemv_job);

/* The last of several launches may have few columns and the division of eight, in which more than
 * two blocks share rows: then the kernel is that of eight. */
template <bool TEAM, bool STEPS> kernel column_for(const kf_gemv_job *j)
{
#if KF_BLOCKS
    if (j->columns > KF_GEMV_EIGHT) return gemv_column<KF_GEMV_SIXTEEN, TEAM, STEPS>;
    if (j->columns > KF_GEMV_FEW || j->division.cluster > 2)
        return gemv_column<KF_GEMV_EIGHT, TEAM, STEPS>;
#endif
    return j->columns == 1   ? gemv_column<1, TEAM, STEPS>
           : j->columns == 2 ? gemv_column<2, TEAM, STEPS>
                             : gemv_column<4, TEAM, STEPS>;
}

/* Of a team of blocks, or one block, in one step or several. */
template <bool HERE> kernel few_for(const kf_gemv_job *j)
{
    if (j->division.cluster > 1) return column_for<true, false>(j);
#if KF_BLOCKS
    if (j->division.steps > 1) return column_for<false, true>(j);
#endif
    return column_for<false, false>(j);
}

/* A template, so that rows without the kernels for tiles do not make it. */
template <bool HERE> kernel tiles_for(const kf_gemv_job *j)
{
    if constexpr (HERE) {
        if constexpr (HAS_COLUMN)
            if (j->division.is_few) return few_for<HERE>(j);
#if !KF_BLOCKS
        if constexpr (HAS_WIDE)
            if (j->division.k_groups) return gemv_wide<2>;
        if constexpr (HAS_MANY) return j->columns <= 8 ? gemv_columns<1> : gemv_columns<2>;
#endif
    }
    return nullptr;
}

unsigned threads_of(const kf_gemv_job *j)
{
    return j->division.k_groups ? 32u * KF_GEMV_WIDE_WARPS : 32u * KF_GEMV_WARPS;
}

/* At most two attributes. */
cudaLaunchConfig_t config_of(const kf_gemv_job *j, const kf_gemv_grid *g, cudaLaunchAttribute a[2])
{
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3(g->blocks);
    c.blockDim = dim3(threads_of(j));
    c.dynamicSmemBytes = g->shared_bytes;
    c.attrs = a;
    if (j->division.cluster > 1) {
        a[c.numAttrs].id = cudaLaunchAttributeClusterDimension;
        a[c.numAttrs].val.clusterDim = {j->division.cluster, 1, 1};
        c.numAttrs++;
    }
    if (g->overlap) {
        a[c.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        a[c.numAttrs].val.programmaticStreamSerializationAllowed = 1;
        c.numAttrs++;
    }
    return c;
}

cudaError_t launch(kernel k, const kf_gemv_job *j, const kf_gemv_grid *g, cudaStream_t stream)
{
    cudaLaunchAttribute a[2];
    cudaLaunchConfig_t c = config_of(j, g, a);
    c.stream = stream;
    void *arguments[] = {const_cast<kf_gemv_job *>(j)};
    return cudaLaunchKernelExC(&c, (const void *)k, arguments);
}

cudaError_t prepare(const kf_gemv_job *j, const kf_gemv_grid *g, int *clusters)
{
    kernel k = tiles_for<TILED>(j);
    *clusters = (int)g->blocks;
    if (!k) return cudaErrorInvalidDeviceFunction;
    cudaFuncAttributes own;
    cudaError_t e = cudaFuncGetAttributes(&own, (const void *)k);
    if (e != cudaSuccess) return e;
    if ((unsigned)own.maxThreadsPerBlock < threads_of(j)) { /* not compiled for this device */
        *clusters = 0;
        return cudaSuccess;
    }
    /* The most that there is, so that a later plan for the same kernel need not change it. */
    e = cudaFuncSetAttribute((const void *)k, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)g->most_bytes);
    if (e != cudaSuccess) return e;
    /* A multiprocessor divides its memory anew only once it is empty: launches of different sizes
     * overlap only if all divide it alike. */
    e = cudaFuncSetAttribute((const void *)k, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared);
    if (e != cudaSuccess || j->division.cluster == 1) return e;
    cudaLaunchAttribute a[2];
    cudaLaunchConfig_t c = config_of(j, g, a);
    return cudaOccupancyMaxActiveClusters(clusters, (const void *)k, &c);
}

cudaError_t tiles(const kf_gemv_job *j, const kf_gemv_grid *g, cudaStream_t s)
{
    return launch(tiles_for<TILED>(j), j, g, s);
}

} // namespace

extern const kf_gemv_launches KF_NAME(kf_gemv_launches_, KF_ROW_ID);
extern const kf_gemv_launches KF_NAME(kf_gemv_shuffled_, KF_ROW_ID);

#if KF_SHUFFLED

const kf_gemv_launches KF_NAME(kf_gemv_shuffled_, KF_ROW_ID) = {prepare, tiles, nullptr, nullptr};

#else

namespace
{

cudaError_t any(const kf_gemv_job *j, const kf_gemv_grid *g, cudaStream_t s)
{
    return launch(gemv_any, j, g, s);
}

/* A template, so that rows without the other translation unit do not refer to it. */
template <bool HERE> constexpr const kf_gemv_launches *shuffled()
{
    if constexpr (HERE)
        return &KF_NAME(kf_gemv_shuffled_, KF_ROW_ID);
    else
        return nullptr;
}

} // namespace

const kf_gemv_launches KF_NAME(kf_gemv_launches_, KF_ROW_ID) = {prepare, tiles, any,
                                                                shuffled<WAY == KF_WAY_E2M1>()};

#endif
