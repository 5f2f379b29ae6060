/* gemv_machine.c - see gemv_machine.h. */
#include "cuda/gemv/gemv_machine.h"
#include "cuda/handle.h"

kerf_status kf_gemv_ask_machine(int ordinal, kf_gemv_machine *out, kerf_error *err)
{
    int major = 0, minor = 0, multiprocessors = 0, shared = 0;
    const struct {
        enum cudaDeviceAttr what;
        int *into;
    } questions[] = {{cudaDevAttrComputeCapabilityMajor, &major},
                     {cudaDevAttrComputeCapabilityMinor, &minor},
                     {cudaDevAttrMultiProcessorCount, &multiprocessors},
                     {cudaDevAttrMaxSharedMemoryPerBlockOptin, &shared}};
    KF_CUDA(cudaSetDevice(ordinal), "choosing a GPU");
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        KF_CUDA(cudaDeviceGetAttribute(questions[i].into, questions[i].what, ordinal),
                "asking a GPU");
    *out = kf_gemv_machine_from(major, minor, (unsigned)multiprocessors, (unsigned)shared);
    return KERF_OK;
}
