/* gemv_launches.h - how a product on a GPU becomes launches: one, or, where a format has the kernel
 * for few columns alone (GGUF's blocks; nf4-dq whose groups per row are no multiple of 4), one
 * after the other, each of some columns of x and all of W. Plans of a GPU are made of it
 * (cuda/gemv/gemv_device.c), and so are predictions (gemv_outline.c). */
#ifndef KERF_GEMV_LAUNCHES_H
#define KERF_GEMV_LAUNCHES_H

#include "plan/gemv_division.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Divides a task as kf_gemv_divide does, and by as many columns as find room where the format has
 * the kernel for few columns alone. l->task.columns becomes those of a launch; the last of several
 * may have fewer, by the same division. Where nothing finds room so, more blocks have fewer rows
 * each (l->task.waves), and where that does not help either a launch has fewer columns. `count` is
 * asked of the last launch, too, and in the end of l. 1: done; 0: nothing fits; -1: `count` failed.
 */
int kf_gemv_divide_product(kf_gemv_launch *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                           kf_gemv_count count, void *ctx);

/* Columns of the launch that comes once `done` of them are done, `at_once` at most. */
static inline uint32_t kf_gemv_next_columns(uint32_t columns, uint32_t done, uint32_t at_once)
{
    return columns - done < at_once ? columns - done : at_once;
}

#ifdef __cplusplus
}
#endif
#endif
