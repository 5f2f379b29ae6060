/* row.cuh - the launches of one row of formats.def. A row is a translation unit of its own, so that
 * nvcc compiles rows in parallel and its spec, KF_ROW, is a constant of the file. CMake writes
 *
 *   #define KF_ROW_ID NVFP4
 *   #include "cuda/row.cuh"
 *
 * for each row. */
#include "cuda/row_spec.cuh"

#include "cuda/decode.cuh"
#include "cuda/feedback_round.cuh"
#include "cuda/measure.cuh"
#include "cuda/nest.cuh"
#include "cuda/search.cuh"
#include "cuda/wide_groups.cuh"

namespace
{

/* HELD: elements that a block of threads holds in registers. */
template <int D, int ENC, int HELD> cudaError_t launch_rows(const kf_job *j, cudaStream_t s)
{
    constexpr int N = HELD / (ROW_CHUNKS * CHUNK);
    encode_rows<D, ENC, N><<<at_most(j->lines, ROW_THREADS / N * multiprocessors()), N, 0, s>>>(*j);
    return cudaGetLastError();
}

template <int D, int ENC> cudaError_t launch_encode(const kf_job *j, cudaStream_t s)
{
    if constexpr (KF_ROW.geometry == KERF_GROUP_ROW) {
        return j->width <= 4096   ? launch_rows<D, ENC, 4096>(j, s)
               : j->width <= 8192 ? launch_rows<D, ENC, 8192>(j, s)
                                  : launch_rows<D, ENC, 16384>(j, s);
    } else if constexpr (KF_ROW.geometry == KERF_GROUP_TILE) {
        dim3 grid((unsigned)j->groups, at_most(j->bands, 65535));
        encode_tiles<D, ENC><<<grid, THREADS, 0, s>>>(*j);
    } else {
        encode_chunks<D, ENC>
            <<<filling(grid_of(j, TILE<D, ENC>), HAS_TABLES ? 64 : 1 << 20), THREADS, 0, s>>>(*j);
        if constexpr (IS_NESTED) {
            uint64_t blocks = j->groups / (NEST_RUNS * KF_NEST_BLOCKS) + 1;
            nest_scales<<<at_most(blocks, 8 * multiprocessors()), THREADS, 0, s>>>(*j);
        }
    }
    return cudaGetLastError();
}

/* The column `formats` of an encoder, as formats.def writes it. */
#define EVERY true
#define ELEMENT(value) (KF_ROW.element == KERF_ELEM_##value)
#define GROUP(value) (KF_ROW.geometry == KERF_GROUP_##value)
#define SCALE(value) (KF_ROW.scale == KERF_SCALE_##value)

constexpr bool HAS_PEERS =
#define KERF_ENCODER(FAMILY, ID, name, formats, ...) \
    (kf_is_peer(KF_ROW.family, KERF_ENC_##FAMILY##_##ID) && (formats)) ||
#include <kerf/formats.def>
#undef KERF_ENCODER
    false;

/* One kernel per encoder of kerf that chooses from the extremes, one for searches, one for the
 * encoders of other projects. */
template <int D> cudaError_t encode_typed(const kf_job *j, cudaStream_t s)
{
    if constexpr (IS_STRUCT) {
        encode_structs<D><<<grid_of(j, STRUCT_TILE), THREADS, 0, s>>>(*j);
        return cudaGetLastError();
    } else {
        if constexpr (HAS_SEARCH)
            if (kf_is_search(KF_ROW.family, j->encoder)) return launch_encode<D, ENC_GIVEN>(j, s);
#define KERF_ENCODER(FAMILY, ID, ...)                                                    \
    if constexpr (kf_has_rule(KF_ROW.family, KERF_ENC_##FAMILY##_##ID, KF_RULE_PLAIN) && \
                  !kf_is_search(KF_ROW.family, KERF_ENC_##FAMILY##_##ID))                \
        if (j->encoder == KERF_ENC_##FAMILY##_##ID)                                      \
            return launch_encode<D, KERF_ENC_##FAMILY##_##ID>(j, s);
#include <kerf/formats.def>
#undef KERF_ENCODER
        if constexpr (HAS_PEERS) return launch_encode<D, ENC_PEER>(j, s);
        return cudaErrorInvalidValue;
    }
}

#undef EVERY
#undef ELEMENT
#undef GROUP
#undef SCALE

/* A launch for the type of the dense side. */
#define KF_TYPED(name)                                                 \
    cudaError_t name(const kf_job *j, cudaStream_t s)                  \
    {                                                                  \
        return j->dtype == KERF_F32   ? name##_typed<KERF_F32>(j, s)   \
               : j->dtype == KERF_F16 ? name##_typed<KERF_F16>(j, s)   \
                                      : name##_typed<KERF_BF16>(j, s); \
    }
KF_TYPED(measure)
KF_TYPED(search)
KF_TYPED(encode)
KF_TYPED(decode)
KF_TYPED(clip)

} // namespace

extern const kf_launches KF_NAME(kf_launches_, KF_ROW_ID);
const kf_launches KF_NAME(kf_launches_, KF_ROW_ID) = {measure, launch_prepare, search,     encode,
                                                      decode,  clip,           round_block};
