/* gemv_options.h - what a plan can be made to do otherwise than by the rules: for tests, which must
 * see kernels on small matrices too, and for measurements. All zeros: by the rules. Results stay
 * within the bound that a plan promises. */
#ifndef KERF_GEMV_OPTIONS_H
#define KERF_GEMV_OPTIONS_H

#include <kerf/gemv.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether blocks share rows where x has few columns. */
typedef enum kf_gemv_pairing {
    KF_GEMV_PAIR_BY_GAIN, /* where that saves time           */
    KF_GEMV_PAIR_NEVER,
    KF_GEMV_PAIR_ALWAYS /* wherever a row has two stages   */
} kf_gemv_pairing;

/* Which launches keep their blocks on multiprocessors of their own, of those that have one block
 * for each. Only time depends on it. */
typedef enum kf_gemv_spacing {
    KF_GEMV_SPACE_IN_TURNS, /* every other launch of the device handle */
    KF_GEMV_SPACE_NEVER,
    KF_GEMV_SPACE_ALWAYS
} kf_gemv_spacing;

typedef struct kf_gemv_options {
    kf_gemv_pairing pairing;
    /* Blocks that share rows of five columns and more. Of GGUF's blocks 2, 4 or 8 where pairing is
     * ALWAYS and a row has as many stages; 0: 2. Of planes 1 to 8, of one cluster; 0: by price. */
    unsigned team;
    kf_gemv_spacing spacing;
    /* Nine columns and more by the kernel for them wherever it can, on one cluster, so that more
     * than 256 rows are several steps. */
    int always_wide;
    /* Bytes of dynamic shared memory that a block may have, of those that the GPU gives it: plans
     * as a smaller card has them; 0: all. */
    unsigned most_shared;
    const struct kerf_gemv_tuning *tuning; /* kerf/gemv_tune.h; NULL: the GPU's own; not kept */
} kf_gemv_options;

/* kerf_gemv_plan_create with options; NULL: none. */
KERF_CHECK kerf_status kf_gemv_plan_create_with(kerf_gemv **out, const kerf_gemv_shape *shape,
                                                const kerf_exec *exec,
                                                const kf_gemv_options *options, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
