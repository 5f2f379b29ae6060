/* tune.c - finds the factors of a tuning on the GPU that it is for.
 *
 * For each threshold there are a few products near it, of sizes that go by the multiprocessors and
 * as models have them. Each is timed by every try at once; only those differ whose plan does. Later
 * thresholds are tried with the factors of the earlier ones. */
#include "time/tune.h"

#include <kerf/cuda.h>

#include <math.h>

#include "base/work.h"

/* So much less time counts as faster; and so much more, of a single product, as slower. */
#define WORTH 0.02

/* --- products ------------------------------------------------------------------------------ */

/* Rows: of tiles_per_sm tiles of 16 rows for each multiprocessor, or so many. */
typedef struct tune_case {
    kerf_gemv_factor decides;
    const char *format;
    double tiles_per_sm;
    unsigned rows, cols, columns;
    int chained;
} tune_case;

/* 1.4 and 3.4 tiles are uneven for single blocks and even for pairs, half a tile leaves half of
 * the multiprocessors idle; columns of W scale what is spared. */
#define UNEVEN(DECIDES, CHAINED, FIRST, SECOND)                          \
    {KERF_GEMV_FACTOR_##DECIDES, FIRST, 1.4, 0, 8192, 1, CHAINED},       \
        {KERF_GEMV_FACTOR_##DECIDES, SECOND, 1.4, 0, 16384, 1, CHAINED}, \
        {KERF_GEMV_FACTOR_##DECIDES, SECOND, 3.4, 0, 4096, 1, CHAINED},  \
        {KERF_GEMV_FACTOR_##DECIDES, FIRST, 3.4, 0, 8192, 1, CHAINED},   \
    {                                                                    \
        KERF_GEMV_FACTOR_##DECIDES, FIRST, 3.4, 0, 16384, 1, CHAINED     \
    }

/* Of models: 8, 33, 75 and 66 MB in 4 bits, to 132. */
#define SHAPES(DECIDES, FORMAT, COLUMNS, CHAINED)                               \
    {KERF_GEMV_FACTOR_##DECIDES, FORMAT, 0, 4096, 4096, COLUMNS, CHAINED},      \
        {KERF_GEMV_FACTOR_##DECIDES, FORMAT, 0, 14336, 4096, COLUMNS, CHAINED}, \
        {KERF_GEMV_FACTOR_##DECIDES, FORMAT, 0, 8192, 8192, COLUMNS, CHAINED},  \
        {KERF_GEMV_FACTOR_##DECIDES, FORMAT, 0, 7168, 16384, COLUMNS, CHAINED}, \
    {                                                                           \
        KERF_GEMV_FACTOR_##DECIDES, FORMAT, 0, 28672, 8192, COLUMNS, CHAINED    \
    }

static const tune_case cases[] = {
    {KERF_GEMV_FACTOR_PAIRS_IDLE, "nvfp4", .5, 0, 4096, 1, 1},
    {KERF_GEMV_FACTOR_PAIRS_IDLE, "int4-g128", .5, 0, 8192, 1, 1},
    {KERF_GEMV_FACTOR_PAIRS_IDLE, "fp8-e4m3-row", .25, 0, 8192, 1, 1},
    {KERF_GEMV_FACTOR_PAIRS_IDLE, "nvfp4", .25, 0, 16384, 1, 0},
    UNEVEN(PAIRS_PLAIN_LIGHT, 0, "nvfp4", "int4-g128"),
    UNEVEN(PAIRS_PLAIN_HEAVY, 0, "fp8-e4m3-row", "int8"),
    UNEVEN(PAIRS_CHAIN_LIGHT, 1, "nvfp4", "int4-g128"),
    UNEVEN(PAIRS_CHAIN_HEAVY, 1, "fp8-e4m3-row", "int8"),
    SHAPES(BLOCKS_PLAIN, "nvfp4", 1, 0),
    SHAPES(BLOCKS_PLAIN, "fp8-e4m3-row", 1, 0),
    SHAPES(BLOCKS_CHAIN_LIGHT, "nvfp4", 1, 1),
    SHAPES(BLOCKS_CHAIN_LIGHT, "int4-g128", 1, 1),
    SHAPES(BLOCKS_CHAIN_HEAVY, "fp8-e4m3-row", 1, 1),
    {KERF_GEMV_FACTOR_ONE_BLOCK, "fp8-e4m3-row", 0, 4096, 14336, 1, 1},
    {KERF_GEMV_FACTOR_ONE_BLOCK, "fp8-e4m3-row", 0, 7168, 16384, 1, 1},
    {KERF_GEMV_FACTOR_ONE_BLOCK, "fp8-e4m3-row", 0, 8192, 28672, 1, 1},
    {KERF_GEMV_FACTOR_BLOCKS_MANY, "nvfp4", 0, 4096, 4096, 8, 1},
    {KERF_GEMV_FACTOR_BLOCKS_MANY, "fp8-e4m3-row", 0, 8192, 4096, 8, 1},
    {KERF_GEMV_FACTOR_BLOCKS_MANY, "nvfp4", 0, 14336, 4096, 8, 1},
    {KERF_GEMV_FACTOR_BLOCKS_MANY, "nvfp4", 0, 28672, 4096, 8, 1},
    SHAPES(FEW_LIGHT, "nvfp4", 4, 1),
    SHAPES(FEW_HEAVY, "fp8-e4m3-row", 4, 1),
    SHAPES(WIDE, "nvfp4", 16, 1),
    SHAPES(WIDE, "int4-g128", 16, 1),
};

enum { CASES = sizeof cases / sizeof *cases, TILE = 16 };

/* --- choosing ------------------------------------------------------------------------------ */

size_t kf_pick_try(const kerf_gemv_sample *s, size_t n, double *gain)
{
    size_t best = 0;
    double most = 0;
    *gain = 1;
    for (size_t i = 1; i < KERF_GEMV_TRIES; i++) {
        double sum = 0;
        size_t changed = 0, slower = 0;
        for (size_t k = 0; k < n; k++) {
            double x = log(s[k].us[0] / s[k].us[i]);
            if (x == 0) continue;
            sum += x;
            changed++;
            slower += x < -log1p(WORTH);
        }
        if (changed == 0 || slower || sum / (double)changed <= log1p(WORTH) || sum <= most)
            continue;
        best = i;
        most = sum;
        *gain = exp(sum / (double)changed);
    }
    return best;
}

/* --- measuring ----------------------------------------------------------------------------- */

static kerf_status time_case(kerf_gemv_timer *t, const tune_case *c, unsigned sms,
                             const kerf_gemv_tuning *base, kerf_gemv_sample *out, kerf_error *err)
{
    kerf_gemv_tuning tries[KERF_GEMV_TRIES];
    *out = (kerf_gemv_sample){.decides = c->decides,
                              .format = kerf_format_find(c->format),
                              .rows = c->rows ? c->rows : TILE * (uint64_t)(c->tiles_per_sm * sms),
                              .cols = c->cols,
                              .columns = c->columns,
                              .chained = c->chained};
    for (size_t i = 0; i < KERF_GEMV_TRIES; i++) {
        tries[i] = *base;
        tries[i].factor[c->decides] = kerf_gemv_try(i);
    }
    return kerf_gemv_timer_race(t, out->format, out->rows, out->cols, out->columns, out->chained,
                                tries, KERF_GEMV_TRIES, out->us, err);
}

/* Cases of one threshold stand together, from `from`; times all, chooses, and returns the next. */
static kerf_status tune_one(kerf_gemv_timer *t, size_t *from, unsigned sms, kf_work *work,
                            kerf_gemv_tuned *out, kerf_error *err)
{
    kerf_gemv_factor id = cases[*from].decides;
    kerf_gemv_sample *first = &out->sample[out->samples];
    size_t n = 0;
    kf_work_item(work, kerf_gemv_factor_key(id), "tuning");
    for (; *from < CASES && cases[*from].decides == id; (*from)++, n++) {
        KF_TRY(time_case(t, &cases[*from], sms, &out->tuning, &first[n], err));
        out->samples++;
        KF_TRY(kf_work_add(work, 1, err));
    }
    out->tuning.factor[id] = kerf_gemv_try(kf_pick_try(first, n, &out->gain[id]));
    return KERF_OK;
}

kerf_status kf_tune(kerf_gemv_timer *t, const kf_timer_setup *setup, kerf_gemv_tuned *out,
                    kerf_error *err)
{
    kerf_device_info info;
    kf_work work;
    *out = (kerf_gemv_tuned){.tuning.rules = KERF_GEMV_RULES};
    for (int i = 0; i < KERF_GEMV_FACTOR_COUNT; i++) out->tuning.factor[i] = out->gain[i] = 1;
    KF_TRY(kerf_device_describe(kerf_device_ordinal(setup->exec.device), &info, err));
    kf_work_open(&work, setup->job);
    work.total = CASES;
    kerf_status s = KERF_OK;
    for (size_t at = 0; s == KERF_OK && at < CASES;)
        s = tune_one(t, &at, (unsigned)info.multiprocessors, &work, out, err);
    kf_work_close(&work);
    return s;
}

_Static_assert((int)CASES <= (int)KERF_GEMV_SAMPLES, "a sample for each case");
