/* row_super.cuh - the launches of a row of formats.def that is one of GGUF's blocks of two levels:
 * a GPU decodes them, a processor encodes them. CMake writes a translation unit for each row, as
 * for row.cuh. */
#include "cuda/row_spec.cuh"

#include "cuda/supers.cuh"

namespace
{

template <int D> cudaError_t launch_supers(const kf_job *j, cudaStream_t s)
{
    decode_supers<D><<<grid_of(j, SUPER_TILE), THREADS, 0, s>>>(*j);
    return cudaGetLastError();
}

cudaError_t decode(const kf_job *j, cudaStream_t s)
{
    return j->dtype == KERF_F32   ? launch_supers<KERF_F32>(j, s)
           : j->dtype == KERF_F16 ? launch_supers<KERF_F16>(j, s)
                                  : launch_supers<KERF_BF16>(j, s);
}

} // namespace

extern const kf_launches KF_NAME(kf_launches_, KF_ROW_ID);
const kf_launches KF_NAME(kf_launches_, KF_ROW_ID) = {nullptr, nullptr, nullptr, nullptr,
                                                      decode,  nullptr, nullptr};
