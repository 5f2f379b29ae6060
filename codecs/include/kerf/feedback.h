/* feedback.h - error feedback: each element of a row is rounded after the errors of those before it
 * have been taken into account, so that the error of the layer's output becomes small rather than
 * that of its weights. The bytes are ordinary bytes of the format.
 *
 * G is the mean of x x^T over inputs x of a weight, [columns][columns]. With E = W' - W the error
 * of the output is tr(E G E^T). G, with damping x (mean of its diagonal) added to its diagonal, is
 * U D U^T, U with ones on and zeros below its diagonal, D diagonal. Then the error is the sum
 * over rows and columns k of D_k (e_k + sum over j < k of e_j U_jk)^2, and columns in their order
 * make each term small:
 *
 *   t_k = w_k - (sum over j < k, in rising order, fp32, of U_jk e_j)
 *   w'_k = t_k rounded under the scale of its group;  e_k = w'_k - w_k
 *
 * The scale of a group is chosen from its t, taken with the sum over the columns ahead of the group
 * alone: the encoder's own choice and what the format's default encoder would choose if the group
 * were as many times larger as KERF_FEEDBACK_STRETCHES of codecs/cpu/feedback_rows.c say; the first
 * that makes the sum of D_k (t_k rounded - t_k)^2 least. Not tried are scales of encoders that are
 * other projects' rules, of whole matrices, and of blocks of llama.cpp, whose encoder chooses
 * alone. Nested scales (nf4-dq) are chosen from w.
 *
 * This takes the errors behind a column for such as will answer it perfectly, which rounded ones do
 * not. So with kerf_feedback_again all columns are gone over again in their order, at most
 * KERF_FEEDBACK_AGAIN times and until no code of the row changes; scales stay. With H = G with
 * damping, fp32, s_k in rising order over the columns outside the sixteen (from a multiple of 16
 * on) that k is one of, then over these:
 *
 *   s_k = sum over j of H_kj e_j;  u_k = w'_k - s_k / H_kk
 *   u_k rounded takes the place of w'_k where it is nearer to u_k
 *
 * which makes the error of the output smaller each time.
 *
 * This is GPTQ without its inverse: Frantar et al., arXiv 2210.17323; as LDLQ in Chee et al., arXiv
 * 2307.13304. */
#ifndef KERF_FEEDBACK_H
#define KERF_FEEDBACK_H

#include <kerf/codec.h>
#include <kerf/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the mean of the diagonal. GPTQ's usual 0.01 follows the calibration's text too closely: with
 * more, rows that it has not seen lose less, also of its own kind of text (advisor/calibration.md).
 */
#define KERF_FEEDBACK_DAMPING 0.1

/* Each costs twice the sums of the first pass. Of what can be gained, four gain nearly all. */
#define KERF_FEEDBACK_AGAIN 4

typedef struct kerf_feedback kerf_feedback;

/* gram: [columns][columns], finite; its lower half is read. Factors in double, in an order that
 * does not depend on threads (0: all cores). Takes 12 columns^2 bytes on the way, 4 columns^2 for
 * the result, and columns^3 / 3 multiplications. A column that no input uses counts as one with the
 * damping alone. KERF_E_ARG: no columns, no damping (above 0), or a number that is not finite.
 * KERF_E_DATA: no matrix of second moments, for it is indefinite by more than rounding. */
KERF_API KERF_CHECK kerf_status kerf_feedback_make(const float *gram, uint64_t columns,
                                                   double damping, int threads, const kerf_job *job,
                                                   kerf_feedback **out, kerf_error *err);

/* From now on kerf_encode goes over the columns again. gram, damping: those that f was made of.
 * 4 columns^2 bytes more. KERF_E_NOSUP: f was not made for the processor. */
KERF_API KERF_CHECK kerf_status kerf_feedback_again(kerf_feedback *f, const float *gram,
                                                    double damping, kerf_error *err);
KERF_API void kerf_feedback_free(kerf_feedback *f); /* NULL is fine */

/* The same factors on GPUs, bit for bit: kerf_encode with the first of them as kerf_exec.device
 * then divides the rows among all. They share the work of factoring, too; several handles may be of
 * one GPU. While this call or that kerf_encode runs, nobody else may use any of the devices, and
 * all must be open until the result is freed. Asks to cancel every 64 columns. Memory of each GPU:
 * 8 columns^2 bytes divided by count on the way, 4 columns^2 for the result; of a kerf_encode 9
 * bytes for each element of its share, at most 2^26 of them at once, and 544 for each row.
 * KERF_E_DATA: as above. KERF_E_NOSUP: such a device has no feedback. Formats without kernels on
 * GPUs (kerf_exec.device) are encoded by the processor and need kerf_feedback_make: KERF_E_ARG. */
KERF_API KERF_CHECK kerf_status kerf_feedback_make_on(kerf_device *const *devices, size_t count,
                                                      const float *gram, uint64_t columns,
                                                      double damping, const kerf_job *job,
                                                      kerf_feedback **out, kerf_error *err);

/* 1: by kerf_feedback_make_on. */
KERF_API int kerf_feedback_made_on_gpu(const kerf_feedback *f);

/* 1: a GPU has kernels for this format, and kerf_feedback_make_on can be used. */
KERF_API int kerf_feedback_on_gpu(const kerf_format *f);

/* 1: tensors of this geometry are encoded with feedback. 0: as without, for codes of 16 and 32
 * bits, and in flat formats for rows that are no divisor of 16,384 or no multiple of 64. */
KERF_API int kerf_feedback_fits(const kerf_geometry *g);

/* How many bands a processor encodes at once, as lanes of a vector; 1 where a band is several rows.
 * A call for a number of bands that is no multiple of it takes as long as one for the next larger
 * multiple. */
KERF_API uint64_t kerf_feedback_bands(const kerf_geometry *g);

#ifdef __cplusplus
}
#endif
#endif
