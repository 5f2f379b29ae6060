/* gemv_nvfp4.h - y = A b for matrices A and vectors b that are both NVFP4, a batch of pairs in one
 * launch.
 *
 *   kerf_gemv_nvfp4_plan_create   M x K x L -> plan: all checks, the choice of a kernel
 *   kerf_gemv_nvfp4_run           A, b, y: only enqueues on a GPU, allocates nothing
 *
 * Operands. A is `batch` matrices of `rows` x `cols`, b as many vectors of `cols`, y as many of
 * `rows`, one after the other, without gaps: y[l][m] = sum over k of A[l][m][k] * b[l][k]. The
 * planes are those of the format nvfp4 for shapes {batch, rows, cols} and {batch, 1, cols}:
 *
 *   codes    E2M1, two a byte along cols, the even element in the low nibble; cols / 2 bytes a row
 *   scales   E4M3, one per 16 elements along cols. Bit 7 is the sign.
 *            KERF_SCALES_ROWS: cols / 16 bytes a row, kerf_encode's plane.
 *            KERF_SCALES_TILES: kerf_scales_to_tiles's tiles of 128 rows x 4 scales, of each matrix
 *            (of each vector, which is padded to 128 rows too). Padding is never read into a sum.
 *   second   one fp32 factor per matrix and per vector; a span {NULL, 0}: all of them 1
 *
 * cols must be a multiple of 16. On a GPU the fast kernels want cols a multiple of 32 and at most
 * 32,768, codes at multiples of 16 bytes, A's scales at multiples of 2 (rows) or 16 (tiles) and b's
 * at multiples of 2; anything else is taken by a slow kernel, and kerf_gemv_nvfp4_backend says so
 * as far as the shape decides. y lies at multiples of its element's size.
 *
 * Rounding. The dot product of a block and the product of its two scales are exact. Their products
 * are added in fp32, in an order that shape, alignment and the plan's backend fix: results are the
 * same bits in every run. With T = second of A * second of b * alpha, multiplied onto the sum from
 * right to left, one rounding each,
 *
 *   |y - exact| <= kerf_gemv_nvfp4_bound(plan) * |T| * S before y is rounded to its type,
 *   S = sum over k of |A[l][m][k] * b[l][k]|, block scales counted, second-level ones not
 *
 * as long as no partial product leaves the normal range of fp32.
 *
 * NaN. A scale byte 0x7F or 0xFF makes the y of its row NaN, or all of the vector's where it is a
 * scale of b, also over codes that are zero. Second-level scales and alpha act as IEEE says.
 *
 * Untested on hardware other than sm_90. */
#ifndef KERF_GEMV_NVFP4_H
#define KERF_GEMV_NVFP4_H

#include <kerf/gemv.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kerf_scale_order { KERF_SCALES_ROWS, KERF_SCALES_TILES } kerf_scale_order;

typedef struct kerf_gemv_nvfp4_shape {
    uint64_t rows, cols, batch;
    kerf_dtype y; /* F16, BF16 or F32 */
    kerf_scale_order a_scales, b_scales;
    unsigned flags; /* 0 or KERF_GEMV_CONSTANT_WEIGHTS, which speaks of A and its scales */
} kerf_gemv_nvfp4_shape;

typedef struct kerf_gemv_nvfp4 kerf_gemv_nvfp4; /* a plan; never changes once made */

/* exec (NULL: all defaults): device, or else threads. KERF_E_ARG, KERF_E_RANGE, KERF_E_NOMEM;
 * KERF_E_NOSUP: a type of y, a number of columns, or a GPU without code in this build. The device
 * may be closed before the plan is freed, but not before it is run for the last time. */
KERF_API KERF_CHECK kerf_status kerf_gemv_nvfp4_plan_create(kerf_gemv_nvfp4 **out,
                                                            const kerf_gemv_nvfp4_shape *shape,
                                                            const kerf_exec *exec, kerf_error *err);
KERF_API void kerf_gemv_nvfp4_plan_free(kerf_gemv_nvfp4 *plan); /* NULL is fine */

/* The factor of the error bound above. */
KERF_API double kerf_gemv_nvfp4_bound(const kerf_gemv_nvfp4 *plan);

/* "ref" on the processor; "cuda", or "cuda-any" for a shape that the fast kernels do not take. */
KERF_API const char *kerf_gemv_nvfp4_backend(const kerf_gemv_nvfp4 *plan);

/* Start from all zeros. y may not overlap what is read. */
typedef struct kerf_gemv_nvfp4_args {
    kerf_cspan a[KERF_PLANES], b[KERF_PLANES]; /* codes, scales, second */
    kerf_span y;
    float alpha; /* 0 stands for 1 */
} kerf_gemv_nvfp4_args;

/* stream: a cudaStream_t for plans on a GPU, where all spans are device memory; it may be
 * capturing. Ignored on the processor, where y is complete on return. KERF_E_BUFFER: a span is too
 * short, nothing was written. */
KERF_API KERF_CHECK kerf_status kerf_gemv_nvfp4_run(const kerf_gemv_nvfp4 *plan,
                                                    const kerf_gemv_nvfp4_args *args, void *stream,
                                                    kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
