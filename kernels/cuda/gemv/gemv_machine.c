/* gemv_machine.c - see gemv_machine.h. */
#include "cuda/gemv/gemv_machine.h"
#include "cuda/handle.h"

kerf_status kf_gemv_ask_machine(int ordinal, kf_gemv_machine *out, kerf_error *err)
{
    int major = 0, minor = 0, multiprocessors = 0, shared = 0, khz = 0, bits = 0;
    const struct {
        enum cudaDeviceAttr what;
        int *into;
    } questions[] = {{cudaDevAttrComputeCapabilityMajor, &major},
                     {cudaDevAttrComputeCapabilityMinor, &minor},
                     {cudaDevAttrMultiProcessorCount, &multiprocessors},
                     {cudaDevAttrMaxSharedMemoryPerBlockOptin, &shared},
                     {cudaDevAttrMemoryClockRate, &khz},
                     {cudaDevAttrGlobalMemoryBusWidth, &bits}};
    KF_CUDA(cudaSetDevice(ordinal), "choosing a GPU");
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        KF_CUDA(cudaDeviceGetAttribute(questions[i].into, questions[i].what, ordinal),
                "asking a GPU");
    /* Two transfers a clock. */
    const kf_gemv_counts c = {(unsigned)multiprocessors, (unsigned)shared,
                              2e-6 * khz * (bits / 8.0)};
    *out = kf_gemv_machine_from(major, minor, &c);
    return KERF_OK;
}
