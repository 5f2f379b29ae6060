/* gemm_finish.h - the two small kernels around a product by cuBLASLt. */
#ifndef KERF_GEMM_FINISH_H
#define KERF_GEMM_FINISH_H

#include <kerf/codec.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y[c][r] = alpha * (sums[c][r] * (w_scale[r or 0] * x_scale[c])) + bias[r] + residual[c][r], one
 * rounding each. x_scale, bias, residual may be NULL. */
typedef struct kf_int8_sums {
    const int32_t *sums; /* columns x rows, without gaps */
    const float *w_scale, *x_scale;
    const void *bias, *residual;
    void *y;
    uint64_t rows, columns, y_stride; /* y_stride: of residual, too */
    float alpha;
    int scale_per_row;
    kerf_dtype type;
} kf_int8_sums;
cudaError_t kf_finish_int8(const kf_int8_sums *s, cudaStream_t stream);

/* out[0] = alpha * *w * *x, out[1] = beta; w and x may be NULL. */
cudaError_t kf_multiply_factors(float *out, float alpha, const float *w, const float *x, float beta,
                                cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
