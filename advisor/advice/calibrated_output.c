/* calibrated_output.c - what an output takes of a calibration, because options or a recipe ask. */
#include <kerf/recipe.h>

#include "base/base.h"

kerf_status kerf_recipe_moments(const kerf_recipe *r, const kerf_calibration *c, int again,
                                kerf_moments *out, kerf_error *err)
{
    const uint64_t asked = r ? r->feedback : 0;
    KF_TRY(kerf_calibration_moments(c, out, err));
    kerf_moments other = *out;
    kerf_moments_again(&other);
    if (again || asked == other.contents) *out = other;
    if (!asked || asked == out->contents) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%.200s: the recipe was made with calibration %016llx, and this is %016llx: "
                   "kerf advise --calibration makes a new one",
                   out->path, (unsigned long long)asked, (unsigned long long)out->contents);
}

/* Something that needs a calibration, as the command calls it; NULL: nothing does. */
static const char *needs(const kerf_calibrated *what, const kerf_recipe *r)
{
    if (r && r->feedback) return "error feedback, which the recipe asks for,";
    if (what->feedback) return "error feedback";
    if (what->input_scales) return "--input-scales";
    return what->kv ? "--kv" : NULL;
}

static kerf_status check(const kerf_calibrated *what, const kerf_recipe *r, int is_there,
                         kerf_error *err)
{
    const int feedback = what->feedback || (r && r->feedback);
    const char *asks = needs(what, r);
    if (asks && !is_there)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%s needs --calibration CAL: kerf calibrate%s makes one", asks,
                       feedback ? " --gram" : "");
    if (what->again && !feedback)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "--again is for --feedback");
    if (!what->kv || what->kv->id == KERF_FORMAT_FP8_E4M3) return KERF_OK;
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                   "--kv: loaders have a KV cache in fp8-e4m3, not in %s", what->kv->name);
}

kerf_status kerf_output_calibrate(kerf_output *to, const kerf_calibrated *what,
                                  const kerf_recipe *r, const kerf_calibration *c,
                                  const kerf_checkpoint *source, kerf_moments *moments,
                                  kerf_error *err)
{
    KF_TRY(check(what, r, c != NULL, err));
    if (!c) return KERF_OK;
    KF_TRY(kerf_calibration_check(c, source, err));
    if (!to->imatrix) to->imatrix = kerf_calibration_imatrix(c);
    if (what->input_scales) to->inputs = kerf_calibration_inputs(c);
    if (what->kv) to->cached = kerf_calibration_cached(c);
    if (!what->feedback && !(r && r->feedback)) return KERF_OK;
    to->moments = moments;
    return kerf_recipe_moments(r, c, what->again, moments, err);
}
