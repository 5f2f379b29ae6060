/* gemv_tuned.c - plans by a tuning of the caller's, and what its factors are called. */
#include <kerf/gemv_tune.h>

#include "base/base.h"
#include "plan/gemv_device.h"

const char *kerf_gemv_factor_key(kerf_gemv_factor id)
{
    static const char *const keys[] = {
#define X(ID, key, text) key,
        KERF_GEMV_FACTORS(X)
#undef X
    };
    return (unsigned)id < KERF_GEMV_FACTOR_COUNT ? keys[id] : NULL;
}

const char *kerf_gemv_factor_text(kerf_gemv_factor id)
{
    static const char *const texts[] = {
#define X(ID, key, text) text,
        KERF_GEMV_FACTORS(X)
#undef X
    };
    return (unsigned)id < KERF_GEMV_FACTOR_COUNT ? texts[id] : NULL;
}

double kerf_gemv_try(size_t i)
{
    static const double tries[KERF_GEMV_TRIES] = {
        1, 2, .5, 4, .25, KERF_GEMV_FACTOR_MOST, KERF_GEMV_FACTOR_LEAST};
    return i < KERF_GEMV_TRIES ? tries[i] : 0;
}

kerf_status kerf_gemv_plan_create_tuned(kerf_gemv **out, const kerf_gemv_shape *shape,
                                        const kerf_exec *exec, const kerf_gemv_tuning *tuning,
                                        kerf_error *err)
{
    const kf_gemv_options options = {.tuning = tuning};
    *out = NULL;
    if (tuning && tuning->rules && tuning->rules != KERF_GEMV_RULES)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "the tuning was found against rules %u, and this kerf has %d: find it anew "
                       "with kerf hardware --measure --device cuda",
                       tuning->rules, KERF_GEMV_RULES);
    for (int i = 0; tuning && i < KERF_GEMV_FACTOR_COUNT; i++) {
        double f = tuning->factor[i];
        if (f == 0 || (f >= KERF_GEMV_FACTOR_LEAST && f <= KERF_GEMV_FACTOR_MOST)) continue;
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE,
                       "tuning: %s is %g; a factor is from 1/1024 to 1024, or 0 for none",
                       kerf_gemv_factor_key((kerf_gemv_factor)i), f);
    }
    return kf_gemv_plan_create_with(out, shape, exec, &options, err);
}

int kerf_gemv_plans_alike(const kerf_gemv *a, const kerf_gemv *b)
{
    if (a->on_device != b->on_device) return 0;
    return a->on_device ? kf_gemv_device_alike(a, b) : a->ops == b->ops;
}
