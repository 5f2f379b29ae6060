/* gemv_tuning.h - what the division of a matrix-vector product must know of a GPU: facts of the
 * device, and the numbers that were found by measuring or follow from its counts. */
#ifndef KERF_GEMV_TUNING_H
#define KERF_GEMV_TUNING_H

#include <kerf/gemv_tune.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Thresholds and prices of the rules in gemv_divide_*.c. gemv_tuning.c says of each where it was
 * measured, and how it follows from counts where it was not. Where a number goes by bits, [0] is
 * for codes of fewer than 8 bits, [1] for the rest. */
typedef struct kf_gemv_tuning {
    /* few columns: when two blocks share rows */
    unsigned pair_stages;      /* stages that a row has at least                          */
    double pair_gain_idle;     /* bytes that the busiest multiprocessor must be spared:
                                  where some would have nothing to do at all ...          */
    double pair_gain_plain[2]; /* ... where x is there from the start, by bits ...        */
    double pair_gain_chain[5]; /* ... in a chain, fewer than 8 bits, by columns of x ...  */
    double pair_gain_heavy;    /* ... and in a chain with 8 bits or a table               */
    double pair_cols[2];       /* five columns and more: also from so many inputs on, and so many
                                  for each tile that a multiprocessor has                 */
    /* few columns: where three and four of them go */
    double x_bytes[2]; /* of all columns, from which the kernel for more is no slower, by bits */
    /* GGUF's blocks, nine columns and more: whether one launch takes them, or two of eight */
    double step_bytes[2]; /* bytes of weights, for each step more; [1]: groups have minima */
    /* few columns: when two blocks share a multiprocessor */
    double two_blocks_plain;    /* bytes of weights, where x is there from the start           */
    double one_block_cols;      /* in a chain with 8 bits and more: columns from which it is one */
    double two_blocks_rings[2]; /* otherwise: rings full of units for each warp, by bits         */
    /* five columns and more: prices, of which a warp more in a step is 1 */
    double many_step, many_pass; /* a step, besides its warps; another pass over the rows     */
    double many_cluster;         /* another block in a cluster                                */
    double many_blocks;          /* a second block on a multiprocessor: of clusters of three and
                                    more ...                                                  */
    double many_pair[2];         /* ... of one and two, by up to eight columns and up to 16   */
    /* nine columns and more: us of both kernels, and from which size they are compared */
    double wide_inputs; /* elements of W                                               */
    double wide_base, wide_unit, wide_step, wide_share[5];
    double many_base, many_unit; /* of 16 columns; a price of 1 */
} kf_gemv_tuning;

/* What a device is. */
typedef struct kf_gemv_machine {
    unsigned multiprocessors;
    unsigned most_shared; /* bytes of dynamic shared memory that a block may have */
    int has_clusters;
    int has_wgmma; /* sm_90a */
    kf_gemv_tuning tuning;
    const char *tuning_source; /* what was measured where, as text */
} kf_gemv_machine;

/* What the numbers follow from. */
typedef struct kf_gemv_counts {
    unsigned multiprocessors;
    unsigned shared_bytes; /* that a block may ask for                                       */
    double bandwidth_gbps; /* of memory; 0, or what no GPU has: that of a card of its kind   */
} kf_gemv_counts;

/* Of compute capability major.minor. */
kf_gemv_machine kf_gemv_machine_from(int major, int minor, const kf_gemv_counts *counts);

/* The same by the name of an architecture ("sm_90"), with as much shared memory as those have; all
 * zeros where that is not known. */
kf_gemv_machine kf_gemv_machine_of(const char *arch, unsigned multiprocessors,
                                   double bandwidth_gbps);

/* Multiplies thresholds by what was measured on the card. NULL, or of other rules: nothing. */
void kf_gemv_apply(kf_gemv_tuning *t, const kerf_gemv_tuning *by);

#ifdef __cplusplus
}
#endif
#endif
