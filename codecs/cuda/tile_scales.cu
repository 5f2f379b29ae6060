/* tile_scales.cu - block scales from rows to cuBLASLt's tiles and back, in device memory: a thread
 * takes the four scales of a row of a tile, which are a word there. */
#include "block/scale_tiles.h"

extern "C" {
#include "cuda/handle.h"
}

namespace
{

struct scales {
    uint64_t matrices, rows, cols, across, down;
    uint8_t *plain;
    uint32_t *tiled;
};

template <bool TO_TILES> __global__ void move_scales(const __grid_constant__ scales s)
{
    uint64_t per_matrix = s.down * KF_TILE_ROWS * s.across, n = s.matrices * per_matrix;
    uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        uint64_t matrix = i / per_matrix, in = i - matrix * per_matrix;
        uint64_t row = in / s.across, col = (in - row * s.across) * KF_TILE_COLS;
        uint64_t word = matrix * per_matrix + kf_tiled_place(row, col, s.across) / 4;
        uint8_t *p = s.plain + (matrix * s.rows + row) * s.cols + col;
        uint32_t four = TO_TILES ? 0 : s.tiled[word];
        for (int k = 0; k < KF_TILE_COLS; k++) {
            if (row >= s.rows || col + k >= s.cols) continue;
            if (TO_TILES)
                four |= (uint32_t)p[k] << 8 * k;
            else
                p[k] = (uint8_t)(four >> 8 * k);
        }
        if (TO_TILES) s.tiled[word] = four; /* the padding, too */
    }
}

/* static, for nvcc gives what an unnamed namespace holds a name that others can link with. */
static kerf_status move(kerf_device *d, scales s, bool to_tiles, size_t plain, size_t tiled,
                        kerf_error *err)
{
    uint64_t need;
    KF_TRY(kerf_tiled_scale_bytes(s.matrices, s.rows, s.cols, &need, err));
    if (tiled != need || plain != s.matrices * s.rows * s.cols || (uintptr_t)s.tiled % 4 != 0)
        return kf_fail(err, KERF_E_BUFFER, KF_NOWHERE,
                       "scales have %zu bytes in rows and %zu in tiles, which must be %llu and "
                       "aligned to 4",
                       plain, tiled, (unsigned long long)need);
    s.across = (s.cols + KF_TILE_COLS - 1) / KF_TILE_COLS;
    s.down = (s.rows + KF_TILE_ROWS - 1) / KF_TILE_ROWS;
    uint64_t blocks = (need / 4 + 255) / 256;
    KF_CUDA(cudaSetDevice(kf_gpu_of(d)->ordinal), "choosing a GPU");
    if (blocks == 0) return KERF_OK;
    auto kernel = to_tiles ? move_scales<true> : move_scales<false>;
    kernel<<<(unsigned)(blocks < 1u << 20 ? blocks : 1u << 20), 256, 0,
             kf_gpu_of(d)->lane[0].stream>>>(s);
    KF_CUDA(cudaGetLastError(), "starting a kernel");
    return KERF_OK;
}

} // namespace

extern "C" kerf_status kerf_device_scales_to_tiles(kerf_device *d, uint64_t matrices, uint64_t rows,
                                                   uint64_t cols, kerf_cspan plain, kerf_span tiled,
                                                   kerf_error *err)
{
    scales s = {matrices, rows, cols, 0, 0, (uint8_t *)(uintptr_t)plain.p, (uint32_t *)tiled.p};
    return move(d, s, true, plain.n, tiled.n, err);
}

extern "C" kerf_status kerf_device_scales_from_tiles(kerf_device *d, uint64_t matrices,
                                                     uint64_t rows, uint64_t cols, kerf_cspan tiled,
                                                     kerf_span plain, kerf_error *err)
{
    scales s = {matrices, rows, cols, 0, 0, (uint8_t *)plain.p, (uint32_t *)(uintptr_t)tiled.p};
    return move(d, s, false, plain.n, tiled.n, err);
}
