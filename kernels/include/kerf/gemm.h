/* gemm.h - Y = W X for a quantized matrix W and many columns, on a GPU, by NVIDIA's cuBLASLt: a
 * prefill, where kerf/gemv.h ends at 16 columns.
 *
 *   kerf_gemm_plan_create   format x shape x columns x dtypes -> plan: all checks, the algorithm
 *   kerf_gemm_run           planes, X, Y: only enqueues, allocates nothing
 *
 * As in kerf/gemv.h, W has `rows` x `cols` elements in checkpoint order, X holds `columns` vectors
 * of `cols` numbers, Y as many of `rows`, each vector contiguous: Y[c][r] = sum over k of
 * W[r][k] * X[c][k]. What is multiplied follows from the format and the type of X:
 *
 *   format                   X                 multiplied as
 *   fp16, bf16, fp32         the same type     such numbers, sums in fp32
 *   fp8-e4m3, fp8-e5m2       F8_E4M3, F8_E5M2  fp8 (not both E5M2); x_scale: one fp32, or none
 *   fp8-e4m3-row, -e5m2-row  likewise          fp8, where cuBLASLt has it; x_scale: one fp32 per
 *                                              column
 *   int8, int8-tensor        I8                int8, sums exact; x_scale: one fp32 per column, or
 *                                              none; fewer than 131,072 cols
 *   nvfp4                    F4                NVFP4, on GPUs that have it; x_scale: E4M3 per 16 in
 *                                              tiles; x_second: one fp32, or none
 *   mxfp8-e4m3, mxfp8-e5m2   F8_E4M3, F8_E5M2  MXFP8, likewise; x_scale: E8M0 per 32 in tiles
 *   any                      F16, BF16, F32    W decoded to X's type, a panel of rows at a time in
 *                                              the workspace
 *
 * "In tiles": as kerf_scales_to_tiles has them, of X as a matrix of `columns` rows; the scales of W
 * must be in tiles then, too. NVFP4 and MXFP8 are untested on hardware: an H200 has neither, and
 * there the plan is refused with KERF_E_NOSUP.
 *
 * cuBLASLt is looked for when the first plan is made (libcublasLt.so.13, then .12, where the loader
 * finds libraries). Without it, or without CUDA, there are no plans: KERF_E_NOSUP with what to
 * install. Everything is asked of it when a plan is made; its first ranked algorithm is used.
 *
 * Accuracy. With S as in kerf/gemv.h, scales and alpha counted,
 *
 *   |Y - exact| <= kerf_gemm_bound(plan) * S before Y is rounded to its type
 *
 * as long as nothing leaves the normal range of the types that are multiplied: W of more than 65504
 * is infinite as F16. Results are the same bits in every run on one GPU by one version of cuBLASLt.
 *
 * NaN and infinities act as IEEE says. */
#ifndef KERF_GEMM_H
#define KERF_GEMM_H

#include <kerf/gemv.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kerf_gemm_flags { KERF_GEMM_BIAS = 1 /* runs have a bias */ } kerf_gemm_flags;

typedef struct kerf_gemm_shape {
    const kerf_format *format;
    uint64_t rows, cols, columns;
    kerf_dtype x, y;             /* y: F16, BF16 or F32                           */
    uint64_t x_stride, y_stride; /* elements from one vector to the next; 0: cols, rows */
    unsigned flags;              /* kerf_gemm_flags                               */
} kerf_gemm_shape;

typedef struct kerf_gemm kerf_gemm; /* a plan; never changes once made */

/* exec->device is the GPU; NULL there is refused. KERF_E_ARG, KERF_E_RANGE, KERF_E_NOMEM,
 * KERF_E_CUDA; KERF_E_NOSUP: no cuBLASLt, or nothing in it for this product on this GPU. */
KERF_API KERF_CHECK kerf_status kerf_gemm_plan_create(kerf_gemm **out, const kerf_gemm_shape *shape,
                                                      const kerf_exec *exec, kerf_error *err);
KERF_API void kerf_gemm_plan_free(kerf_gemm *plan); /* NULL is fine */

/* Bytes of device memory that kerf_gemm_run needs as workspace, at a multiple of 256. */
KERF_API size_t kerf_gemm_workspace(const kerf_gemm *plan);

/* The factor of the error bound above. */
KERF_API double kerf_gemm_bound(const kerf_gemm *plan);

/* "dense", "fp8", "int8", "block-scaled" or "dequantize". Static storage. */
KERF_API const char *kerf_gemm_way(const kerf_gemm *plan);

/* Start from all zeros. Device memory; codes, x, y, bias, residual at multiples of 16 bytes, all
 * else at multiples of its element's size. Nothing that is written may overlap what is read, save
 * that residual may be y itself. */
typedef struct kerf_gemm_args {
    kerf_cspan weights[KERF_PLANES];
    kerf_cspan x, x_scale, x_second;
    kerf_span y;
    float alpha;         /* y = alpha * W x + bias + residual; 0 stands for 1      */
    kerf_cspan bias;     /* `rows` numbers of y's type, with KERF_GEMM_BIAS        */
    kerf_cspan residual; /* as y; {NULL, 0}: none                                  */
    kerf_span workspace; /* contents undefined before and after                    */
} kerf_gemm_args;

/* Enqueues on a cudaStream_t, which may be capturing. KERF_E_BUFFER: a span is too short, nothing
 * was written. */
KERF_API KERF_CHECK kerf_status kerf_gemm_run(const kerf_gemm *plan, const kerf_gemm_args *args,
                                              void *stream, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
