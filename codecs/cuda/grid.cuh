/* grid.cuh - how many blocks of threads a launch has. */
#ifndef KERF_GRID_CUH
#define KERF_GRID_CUH

#include "cuda/kernel_job.h"

namespace
{

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
