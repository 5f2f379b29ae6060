/* gemm_finish.cu - sums of int8 products become numbers, and factors that lie in device memory
 * become one. */
#include "cuda/gemm/gemm_finish.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* static, for nvcc gives what an unnamed namespace holds a name that others can link with. */
static __device__ float load(kerf_dtype t, const void *p, uint64_t i)
{
    if (t == KERF_F32) return ((const float *)p)[i];
    if (t == KERF_F16) return __half2float(((const __half *)p)[i]);
    return __bfloat162float(((const __nv_bfloat16 *)p)[i]);
}

static __device__ void store(kerf_dtype t, void *p, uint64_t i, float v)
{
    if (t == KERF_F32)
        ((float *)p)[i] = v;
    else if (t == KERF_F16)
        ((__half *)p)[i] = __float2half_rn(v);
    else
        ((__nv_bfloat16 *)p)[i] = __float2bfloat16_rn(v);
}

/* A block takes 256 rows of a column, then the next that no block has taken. */
static __global__ void __launch_bounds__(256) finish_int8(const __grid_constant__ kf_int8_sums s)
{
    for (uint64_t c = blockIdx.y; c < s.columns; c += gridDim.y)
        for (uint64_t r = blockIdx.x * 256 + threadIdx.x; r < s.rows; r += gridDim.x * 256) {
            float scale = s.w_scale[s.scale_per_row ? r : 0];
            if (s.x_scale) scale = __fmul_rn(scale, s.x_scale[c]);
            float v = __fmul_rn(__int2float_rn(s.sums[c * s.rows + r]), scale);
            uint64_t at = c * s.y_stride + r;
            v = __fmul_rn(v, s.alpha);
            if (s.bias) v = __fadd_rn(v, load(s.type, s.bias, r));
            if (s.residual) v = __fadd_rn(v, load(s.type, s.residual, at));
            store(s.type, s.y, at, v);
        }
}

static __global__ void multiply_factors(float *out, float alpha, const float *w, const float *x,
                                        float beta)
{
    if (w) alpha = __fmul_rn(alpha, *w);
    if (x) alpha = __fmul_rn(alpha, *x);
    out[0] = alpha;
    out[1] = beta;
}

extern "C" cudaError_t kf_finish_int8(const kf_int8_sums *s, cudaStream_t stream)
{
    unsigned across = (unsigned)((s->rows + 255) / 256), down = (unsigned)s->columns;
    dim3 grid(across < 4096 ? across : 4096, s->columns < 1024 ? down : 1024);
    finish_int8<<<grid, 256, 0, stream>>>(*s);
    return cudaGetLastError();
}

extern "C" cudaError_t kf_multiply_factors(float *out, float alpha, const float *w, const float *x,
                                           float beta, cudaStream_t stream)
{
    multiply_factors<<<1, 1, 0, stream>>>(out, alpha, w, x, beta);
    return cudaGetLastError();
}
