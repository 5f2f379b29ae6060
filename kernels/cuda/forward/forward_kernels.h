/* forward_kernels.h - the small kernels between the products of a forward pass. All of them are
 * deterministic: sums have an order of their own, maxima have none. Arrays are rows of float32. */
#ifndef KERF_FORWARD_KERNELS_H
#define KERF_FORWARD_KERNELS_H

#include "plan/forward_steps.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KF_MOST_TERMS = 3, KF_MOST_PAIRS = 6 };

typedef struct kf_bf16 {
    uint16_t bits;
} kf_bf16;

/* out[term][row][column] = x as a sum of bfloat16 numbers, each the nearest to what is left. used
 * (may be NULL): set to 1 + the last term with a number that is not 0, where that is more. */
typedef struct kf_split {
    const float *x;
    kf_bf16 *out;
    uint64_t rows, columns, x_stride, out_stride, term_stride;
    int terms;
    unsigned *used;
} kf_split;
cudaError_t kf_split_run(const kf_split *s, cudaStream_t stream);

/* Heads of queries or keys, one after the other and split: out[row][head][position][pair][dim],
 * head `h` being head h / group of x. term[pair]: which term stands there. */
typedef struct kf_heads {
    const float *x;
    kf_bf16 *out;
    uint64_t rows, length, heads, group, dim, x_stride;
    int pairs, term[KF_MOST_PAIRS];
} kf_heads;
cudaError_t kf_heads_run(const kf_heads *h, cudaStream_t stream);

/* Probabilities of keys [k0, k0 + keys) for queries [q0, q0 + queries) from scores[head][query]
 * [stride], as terms: out[term][head][query][stride]. */
typedef struct kf_soften {
    const float *score, *sinks;
    kf_bf16 *out;
    uint64_t heads, q0, queries, k0, keys, stride, window;
    float scale, cap;
    int terms;
} kf_soften;
cudaError_t kf_soften_run(const kf_soften *s, cudaStream_t stream);

/* Adds the squares of columns to square[columns]; largest: of all |x|. partial: scratch of
 * kf_squares_chunks(rows) x columns doubles. square NULL: the largest alone. */
typedef struct kf_squares {
    kf_rows x;
    double *square, *partial;
    float *largest;
} kf_squares;
uint64_t kf_squares_chunks(uint64_t rows);
cudaError_t kf_squares_run(const kf_squares *s, cudaStream_t stream);

cudaError_t kf_norm_run(kf_rows y, const float *x, const float *w, size_t width, double eps,
                        cudaStream_t stream);
cudaError_t kf_bias_run(kf_rows y, const float *bias, uint64_t step, cudaStream_t stream);
cudaError_t kf_add_run(kf_rows y, kf_rows x, cudaStream_t stream);
cudaError_t kf_rotate_run(const kf_rotation *r, cudaStream_t stream);
cudaError_t kf_gate_run(const kf_gating *g, cudaStream_t stream);
cudaError_t kf_cap_run(kf_rows y, float cap, cudaStream_t stream);
cudaError_t kf_unpack_run(const kf_unpacking *u, cudaStream_t stream);
/* next and out in device memory. */
cudaError_t kf_judge_run(kf_rows a, kf_rows b, const uint32_t *next, kf_likely *out,
                         cudaStream_t stream);
/* token and share in device memory. */
cudaError_t kf_gather_run(const kf_gathering *g, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
