/* gemv.h - Y = W X for a quantized matrix W and few columns, straight from its planes.
 *
 *   kerf_gemv_plan_create   format x shape x columns x dtypes -> plan: all checks, all tables
 *   kerf_gemv_run           planes, X, Y: no allocation, any number of times
 *
 * W has `rows` x `cols` elements (N x K of a linear layer) in checkpoint order: the planes that
 * kerf_encode writes and kerf_geometry describes, of one matrix. X holds `columns` vectors of
 * `cols` numbers, Y as many of `rows`, each vector contiguous: Y[c][r] = sum over k of
 * W[r][k] * X[c][k].
 *
 * Accuracy. W[r][k] is what kerf_decode gives as F32. Before its last rounding into the type of Y,
 *
 *   |Y - exact| <= kerf_gemv_bound(plan) * S + kerf_gemv_x_bound(plan) * T
 *                  + cols * (2^-110 * wmax + 2^-148 * (1 + xmax)),
 *   S = sum over k of |W[r][k] * X[c][k]|, wmax and xmax the largest |W[r][k]| and |X[c][k]|,
 *   T = sum over k of |W[r][k]| * the largest |X[c][j]| of those with j / 64 == k / 64
 *
 * The second term is what rounding X costs, where a processor multiplies X and codes as integers:
 *
 *   codes of 2 and 4 bits    on a processor without AVX-512 ("avx2int", "neonint")
 *   codes of 6 bits          with AVX-512 and VBMI ("avx512int"); mxfp6-e2m3 also with AVX2
 *                            ("avx2int"), but not on AMD's family 19h
 *   GGUF's blocks of two     "avx2int", "neonint", and "avx512int" where the processor has VNNI
 *   levels (q4_1 to iq4_xs)
 *   GGUF's q4_0              "avx2int", "neonint"; with VNNI, and on "avx2int" but times two
 *                            columns, as blocks of two levels
 *   GGUF's q8_0              with VNNI, and times three columns and more on "avx2int", as blocks
 *                            of two levels
 *
 * There X is rounded to n * 2^e with |n| < 2^15, with one e for a run of at most 64 inputs (128 for
 * codes of 2 bits, and T means j / 128 == k / 128), and the numbers of NF4 to 15 bits, which is in
 * the first term. Blocks of two levels differ in two ways: runs have at most 256 inputs, so T means
 * j / 256 == k / 256; and in S |W[r][k]| counts as
 * |scale * code| plus what is taken off it, since sums of both are found apart (not in q4_0 and
 * q8_0). What is taken off is the minimum of the group, or the scale times the middle of the codes:
 * 16 in q5_0, 4 in q3_k, 32 in q6_k. With "avx2", "avx512" or "neon" in kerf_exec.backend all
 * is multiplied in fp32, and T counts nothing, as with all other formats on a processor.
 *
 * Three columns and more go through tiles ("amx") on a processor that has them, for formats of
 * 2, 4, 6 and 8 bits (not e5m2, nor groups of 16 of 2 bits) and GGUF's blocks; of most of these
 * blocks, and of some others where X is not BF16, from four to seven columns on; codes of 2 bits
 * without zero points beside BF16 from two on. The numbers of NF4 are sums of two of bfloat16
 * there, to 2^-16 of them, which is in the first factor. X of BF16 and F16 is not rounded there;
 * X of F32 is cut into two terms of 8 bits, and the second factor is 2^-16. Sums of blocks with
 * minima (q4_1, q5_1, q2_k, q4_k, q5_k) are found apart from their codes, so in S |W[r][k]|
 * counts as |scale * code| plus |minimum| as above, and the second factor has 2^-24 more for the
 * sums of X that minima are multiplied by. Integers of 8 bits in groups of 64 and more, or with
 * up to eight columns in groups of 32, q2_k, q4_k and q5_k, and codes with zero points are
 * multiplied as integers there, with X of any type rounded and one e for a run of at most 256
 * inputs; so are, with up to eight columns of F32, codes of 2 and 4 bits in groups of 32 and
 * more (not nf4), and GGUF's other blocks in groups of 32. So with "amx" T means
 * j / 256 == k / 256.
 *
 * All this holds as long as S < 2^127; above, the result may be infinite or NaN. On a GPU, where x
 * of F32 or BF16 is brought to fp16 by a power of two (beside bf16 weights it is split into two
 * bf16 instead), cols * wmax * (1 + xmax) < 2^100 is the condition instead, and cols * 2^-39 * wmax
 * * xmax may be lost besides. alpha, bias and residual each add the rounding of one fp32 operation.
 * All sums run in fp32 or wider, in an order that the plan's backend, shape and flags fix: results
 * are the same bits for every run, thread count and place in memory. They may differ between
 * backends, and on a GPU between flags, inside the bound.
 *
 * NaN in a row of W, also through a scale that means NaN, makes that row of Y NaN; so do infinities
 * in W, and the NaN that an infinite scale makes of a code of zero, which may give an infinite Y
 * instead, or a finite one where it is only kerf_decode's product of scale and code that overflows.
 * NaN and infinities in X give what the sum gives in IEEE arithmetic.
 *
 * Threads: a plan never changes once made and may be run by many threads at once, each with its
 * own workspace. */
#ifndef KERF_GEMV_H
#define KERF_GEMV_H

#include <kerf/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KERF_GEMV_COLUMNS 16 /* at most */
#define KERF_GEMV_PARTS 4    /* matrices of one plan, at most */

typedef enum kerf_gemv_flags {
    /* Nothing earlier on the stream writes the weights: on a GPU a run may read them while the
     * kernel before it still works, and reads x only after that is complete. */
    KERF_GEMV_CONSTANT_WEIGHTS = 1,
    /* GPU: two parts, gate and up, of equal rows; y = silu(gate x) * (up x), where silu(z) is
     * z / (1 + e^-z). y, bias and residual are those of part 0; alpha goes into both products. */
    KERF_GEMV_SWIGLU = 2,
    /* The codes of all parts have been through kerf_gemv_shuffle; on a GPU only, and `cols` is a
     * multiple of 32. */
    KERF_GEMV_SHUFFLED = 4
} kerf_gemv_flags;

typedef struct kerf_gemv_shape {
    const kerf_format *format;
    uint64_t rows, cols;
    unsigned columns; /* 1 .. KERF_GEMV_COLUMNS     */
    kerf_dtype x, y;  /* F32, F16 or BF16, each     */
    /* All zeros: one matrix. Otherwise, on a GPU only, matrices of the same format and cols that
     * share x (q, k and v; gate and up) and are multiplied together; `rows` is part 0's, more_rows
     * the rest's. */
    unsigned parts;
    uint64_t more_rows[KERF_GEMV_PARTS - 1];
    unsigned flags; /* kerf_gemv_flags */
} kerf_gemv_shape;

typedef struct kerf_gemv kerf_gemv; /* a plan */

/* exec (NULL: all defaults): threads, backend ("ref": the scalar reference); `nan` is ignored.
 * KERF_E_ARG, KERF_E_RANGE, KERF_E_NOMEM; KERF_E_NOSUP: a dtype, a number of columns or parts, a
 * flag, or a shape that the format cannot hold. The plan is freed by kerf_gemv_plan_free; NULL is
 * fine there. A device may be closed before the plan is freed, but not before it is run for the
 * last time. */
KERF_API KERF_CHECK kerf_status kerf_gemv_plan_create(kerf_gemv **out, const kerf_gemv_shape *shape,
                                                      const kerf_exec *exec, kerf_error *err);
KERF_API void kerf_gemv_plan_free(kerf_gemv *plan);

/* Bytes that kerf_gemv_run needs as workspace, any alignment; may be 0. */
KERF_API size_t kerf_gemv_workspace(const kerf_gemv *plan);

/* The factors of the error bound above: of S, and of T, which is 0 where X is not rounded or, on a
 * GPU, as told above. */
KERF_API double kerf_gemv_bound(const kerf_gemv *plan);
KERF_API double kerf_gemv_x_bound(const kerf_gemv *plan);

/* The backend that the plan chose, "avx512" for example: a slower one than exec names where
 * that has no kernel for this format, shape and type of x. On a GPU "cuda", or "cuda-any" where the
 * kernel that takes an element at a time does it, which is slow: fp32; planes of codes whose rows
 * are not whole 16 bytes; nf4, nf4-f16 and nf4-dq whose rows are not whole groups; and shapes whose
 * x or sums find no room in a block's shared memory, as with very many rows for each
 * multiprocessor. Static storage. */
KERF_API const char *kerf_gemv_backend(const kerf_gemv *plan);

/* What belongs to a part of its own. */
typedef struct kerf_gemv_part {
    kerf_cspan weights[KERF_PLANES];
    kerf_span y;
    uint64_t y_stride;
    kerf_cspan bias, residual;
} kerf_gemv_part;

/* Start from all zeros. Pointers need no alignment, except that what is in device memory lies at
 * multiples of its element's size. Nothing that is written may overlap what is read, save that
 * residual may be y itself. */
typedef struct kerf_gemv_args {
    kerf_cspan weights[KERF_PLANES]; /* each as long as kerf_geometry says; absent planes ignored */
    kerf_cspan x;
    kerf_span y;
    uint64_t x_stride, y_stride; /* elements from one vector to the next; 0: cols, rows */
    float alpha;                 /* y = alpha * W x + bias + residual; 0 stands for 1   */
    kerf_cspan bias;             /* `rows` numbers of y's type; {NULL, 0}: none         */
    kerf_cspan residual;         /* as y, with y's stride; {NULL, 0}: none              */
    kerf_span workspace;         /* contents undefined before and after                 */
    kerf_gemv_part more[KERF_GEMV_PARTS - 1]; /* parts after the first                    */
} kerf_gemv_args;

/* stream: a cudaStream_t for plans on a GPU, where the call only enqueues; ignored on the CPU,
 * where y is complete on return. KERF_E_BUFFER: a span is too short. KERF_E_ARG: it is NULL,
 * vectors overlap, or x, y, bias or residual lie in device memory and not at a multiple of their
 * element's size. Nothing was written then. */
KERF_API KERF_CHECK kerf_status kerf_gemv_run(const kerf_gemv *plan, const kerf_gemv_args *args,
                                              void *stream, kerf_error *err);

/* Codes of mxfp4 and nvfp4 in an order that a GPU decodes faster, for plans with
 * KERF_GEMV_SHUFFLED: bits of each word of four bytes change places, in place, and nothing else of
 * a matrix does, so rows and parts of rows may still be cut at multiples of 8 elements. Whoever
 * reads the codes otherwise (kerf_decode, a product on the processor) unshuffles them first.
 *
 * codes: the plane of codes, or any whole words of it, in host memory; with exec->device in that
 * device's memory, at a multiple of four bytes, where the call only enqueues on `stream`, a
 * cudaStream_t. KERF_E_ARG: not whole words; KERF_E_NOSUP: no such order for the format. */
KERF_API KERF_CHECK kerf_status kerf_gemv_shuffle(const kerf_format *format, kerf_span codes,
                                                  const kerf_exec *exec, void *stream,
                                                  kerf_error *err);
KERF_API KERF_CHECK kerf_status kerf_gemv_unshuffle(const kerf_format *format, kerf_span codes,
                                                    const kerf_exec *exec, void *stream,
                                                    kerf_error *err);

/* Backends of this machine, "ref" first. NULL past the end. Where the processor has AMX, the first
 * of these calls or plans asks Linux, once for the whole process, for leave to use its tiles; if it
 * is refused "amx" is not among them. */
KERF_API size_t kerf_gemv_backend_count(void);
KERF_API const char *kerf_gemv_backend_at(size_t i);

#ifdef __cplusplus
}
#endif
#endif
