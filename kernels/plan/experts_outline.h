/* experts_outline.h - which kernels take a mixture-of-experts layer on a GPU, how many blocks they
 * have, and how their shared memory is divided.
 *
 * What is decided here follows by arithmetic from the shape, the format's tiling and the machine,
 * so a program without a GPU can know it too: plans of a GPU are made of it
 * (cuda/experts/experts_device.c). The only question that goes to a device is how many blocks of a
 * launch a multiprocessor holds. */
#ifndef KERF_EXPERTS_OUTLINE_H
#define KERF_EXPERTS_OUTLINE_H

#include "plan/experts_plan.h"
#include "plan/gemv_division.h"
#include "plan/gemv_tuning.h"

/* Gate and up, or down. */
typedef struct kf_experts_launch {
    /* what there is to do */
    int is_down, alternating;
    uint32_t cols, rows; /* of an expert's matrix                                  */
    uint32_t out, tiles; /* rows that come out; of 16 of them                      */
    uint32_t first[2];   /* row of the first tile of gate and of up                */
    uint32_t step;       /* rows from a tile to the next: 16, or 32 where rows alternate */
    kerf_dtype x_type;
    /* rows of weights, as the kernels have them */
    kf_gemv_strides strides;
    uint32_t slices, copy_rows;
    int plain_scales, words, zero_words; /* as far as shapes tell */
    /* how it is launched */
    unsigned blocks, threads, shared_bytes;
    unsigned team; /* blocks of a cluster, or 0 */
    unsigned share;
    /* where things lie, by kind */
    kf_experts_one_room one;
    kf_experts_few_room few;
    kf_experts_room slice;
    unsigned unit, raw; /* by slices: bytes of a unit, and of its scales as they lie */
} kf_experts_launch;

typedef struct kf_experts_outline {
    int is_tiled; /* else an element at a time; kind and what follows are not filled in then */
    kf_experts_kind kind;
    int has_fours; /* several tokens, by the kernel for groups of up to four */
    kf_experts_launch launch[2];
} kf_experts_outline;

/* How many blocks of launch `which` a multiprocessor holds, of an outline whose kind is known; 0:
 * the kernel is not for this device; -1: the device did not answer. */
typedef int (*kf_experts_ask)(void *ctx, const kf_experts_outline *o, int which);

/* Of a plan whose shape is checked. 1: done; -1: `ask` failed. */
int kf_experts_outline_of(kf_experts_outline *out, const kerf_gemv_experts *plan,
                          const kf_gemv_machine *m, kf_experts_ask ask, void *ctx);

/* Blocks of a launch that goes an element at a time. */
unsigned kf_experts_any_blocks(const kf_experts_launch *l, const kerf_gemv_experts_shape *s,
                               const kf_gemv_machine *m);

#endif
