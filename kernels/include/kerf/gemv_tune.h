/* gemv_tune.h - what a person's own GPU says about how its matrix-vector products are divided.
 *
 *   kerf_gemv_tune               measures, within about a minute, where the rules of kerf are off
 *   kerf_gemv_plan_create_tuned  a plan by such a tuning
 *
 * A plan decides by thresholds: from so many bytes on two blocks share a multiprocessor, from so
 * many that are spared two blocks share rows. For an H200 they were measured, for other GPUs they
 * follow from counts (kernels/plan/gemv_tuning.c). A tuning is a factor for each threshold. It
 * changes which kernel runs and how, thus the order of sums, and time; results stay inside the
 * plan's bound. Nothing is kept anywhere: who makes a plan passes the tuning along. */
#ifndef KERF_GEMV_TUNE_H
#define KERF_GEMV_TUNE_H

#include <kerf/gemv.h>
#include <kerf/gemv_time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(ID, key in JSON, the threshold that is multiplied). Light: fewer than 8 bits; heavy: the rest
 * and, for pairs in a chain, code books. Plain: each launch waits for the one before; chain: it may
 * read its weights before (KERF_GEMV_CONSTANT_WEIGHTS). */
#define KERF_GEMV_FACTORS(X)                                                                     \
    X(PAIRS_IDLE, "pairs_idle", "bytes spared by pairs, where multiprocessors would be idle")    \
    X(PAIRS_PLAIN_LIGHT, "pairs_plain_light", "bytes spared from which two blocks share rows")   \
    X(PAIRS_PLAIN_HEAVY, "pairs_plain_heavy", "bytes spared from which two blocks share rows")   \
    X(PAIRS_CHAIN_LIGHT, "pairs_chain_light", "bytes spared from which two blocks share rows")   \
    X(PAIRS_CHAIN_HEAVY, "pairs_chain_heavy", "bytes spared from which two blocks share rows")   \
    X(BLOCKS_PLAIN, "blocks_plain", "bytes from which two blocks share a multiprocessor")        \
    X(BLOCKS_CHAIN_LIGHT, "blocks_chain_light", "rings of work from which two blocks share one") \
    X(BLOCKS_CHAIN_HEAVY, "blocks_chain_heavy", "rings of work from which two blocks share one") \
    X(ONE_BLOCK, "one_block", "columns from which they do not, 8 bits and more in a chain")      \
    X(BLOCKS_MANY, "blocks_many", "what a second block costs there, five columns and more")      \
    X(FEW_LIGHT, "few_light", "bytes of x up to which 3 and 4 columns go as 1 and 2 do")         \
    X(FEW_HEAVY, "few_heavy", "bytes of x up to which 3 and 4 columns go as 1 and 2 do")         \
    X(WIDE, "wide", "time that the kernel for nine columns and more is thought to take")

typedef enum kerf_gemv_factor {
#define X(ID, ...) KERF_GEMV_FACTOR_##ID,
    KERF_GEMV_FACTORS(X)
#undef X
        KERF_GEMV_FACTOR_COUNT
} kerf_gemv_factor;

/* Ways to divide a product that are tried for each threshold: its factor. The first is the rule. */
#define KERF_GEMV_TRIES 7
KERF_API double kerf_gemv_try(size_t i); /* 1, 2, .5, 4, .25, MOST, LEAST; 0 past the end */

/* A factor at its least or most is as good as always and never. */
#define KERF_GEMV_FACTOR_LEAST 0x1p-10
#define KERF_GEMV_FACTOR_MOST 0x1p10

/* Which thresholds there are to multiply: another number in a version that changes one of them. */
#define KERF_GEMV_RULES 3

/* All zeros: kerf's rules as they are. */
typedef struct kerf_gemv_tuning {
    double factor[KERF_GEMV_FACTOR_COUNT]; /* 0 stands for 1; else from LEAST to MOST          */
    unsigned rules; /* that they were found against, KERF_GEMV_RULES then; 0: those of today   */
} kerf_gemv_tuning;

KERF_API const char *
kerf_gemv_factor_key(kerf_gemv_factor id); /* "pairs_idle"; NULL past the end */
KERF_API const char *kerf_gemv_factor_text(kerf_gemv_factor id); /* what is multiplied */

/* As kerf_gemv_plan_create; tuning (NULL: none) is of exec->device and is not kept. It has no
 * effect on the processor. KERF_E_RANGE: a factor is out of its range. KERF_E_NOSUP: it was found
 * against other rules than this version's. */
KERF_API KERF_CHECK kerf_status kerf_gemv_plan_create_tuned(kerf_gemv **out,
                                                            const kerf_gemv_shape *shape,
                                                            const kerf_exec *exec,
                                                            const kerf_gemv_tuning *tuning,
                                                            kerf_error *err);

/* Whether two plans of one shape come to the same: the same kernel, and the same part of the work
 * for each block. */
KERF_API int kerf_gemv_plans_alike(const kerf_gemv *a, const kerf_gemv *b);

/* Us of one product by each of n tunings (n <= KERF_GEMV_TRIES), which take turns; those by which
 * the plan comes out the same are timed once. As kerf_gemv_timer_run otherwise; chained: with
 * KERF_GEMV_CONSTANT_WEIGHTS. Every result is compared with the scalar reference: KERF_E_DATA where
 * a kernel is wrong. KERF_E_NOSUP: a timer of the processor. */
KERF_API KERF_CHECK kerf_status kerf_gemv_timer_race(kerf_gemv_timer *t, const kerf_format *f,
                                                     uint64_t rows, uint64_t cols, unsigned columns,
                                                     int chained, const kerf_gemv_tuning *tunings,
                                                     size_t n, double *us, kerf_error *err);

/* A product that was timed for one threshold. */
typedef struct kerf_gemv_sample {
    kerf_gemv_factor decides;
    const kerf_format *format;
    uint64_t rows, cols;
    unsigned columns;
    int chained;
    double us[KERF_GEMV_TRIES]; /* equal where the plan is the same */
} kerf_gemv_sample;

enum { KERF_GEMV_SAMPLES = 96 };

typedef struct kerf_gemv_tuned {
    kerf_gemv_tuning tuning;
    double gain[KERF_GEMV_FACTOR_COUNT]; /* time by the rule over time by the factor, geometric mean
                                            of the products that it changes; 1: the rule stays */
    kerf_gemv_sample sample[KERF_GEMV_SAMPLES];
    size_t samples;
} kerf_gemv_tuned;

/* Finds a factor for each threshold in turn, by products at a few shapes of which each stands near
 * it on this GPU. The rule stays unless a factor makes the products that it changes more than 2 %
 * faster in the mean and none of them more than 2 % slower. The timer's job is told of each
 * threshold. Failures are those of kerf_gemv_timer_race. */
KERF_API KERF_CHECK kerf_status kerf_gemv_tune(kerf_gemv_timer *t, kerf_gemv_tuned *out,
                                               kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
