/* calibration_json.c - a calibration as JSON: a row per weight. */
#include <kerf/calibrate.h>
#include <kerf/importance.h>

#include <math.h>

#include "text/json_text.h"

static kerf_status add_weight(const kerf_calibration *c, const kerf_weight *w, json_t **rows,
                              kerf_error *err)
{
    kerf_alpha_value alpha;
    float amax;
    KF_TRY(kerf_calibration_alpha(c, w, &alpha, err));
    KF_TRY(kerf_calibration_amax(c, w, &amax, err));
    kf_json_add(rows, json_pack("{s:s, s:o, s:o, s:o, s:b}", "name", w->name, "alpha",
                                kf_json_number(alpha.value), "alpha_error",
                                kf_json_number(alpha.error), "amax", kf_json_number((double)amax),
                                "gram", kerf_calibration_has_gram(c, w)));
    return KERF_OK;
}

kerf_status kerf_calibration_write(const kerf_calibration *c, const kerf_checkpoint *source,
                                   char **text, size_t *n, kerf_error *err)
{
    const kerf_weights *all = kerf_checkpoint_weights(source);
    const kerf_calibration_about about = kerf_calibration_describe(c);
    json_t *rows = json_array();
    kerf_status s = KERF_OK;
    for (size_t i = 0; s == KERF_OK && i < kerf_weights_count(all); i++) {
        const kerf_weight *w = kerf_weights_at(all, i);
        if (kerf_importance_names(kerf_calibration_imatrix(c), w)) s = add_weight(c, w, &rows, err);
    }
    if (s != KERF_OK) {
        json_decref(rows);
        return s;
    }
    json_t *doc = json_pack("{s:s, s:o, s:o, s:I, s:s?, s:o}", "schema", "kerf.calibrate/1",
                            "source", kf_json_path(kerf_checkpoint_path(source)), "output",
                            kf_json_path(kerf_checkpoint_path(kerf_calibration_imatrix(c))),
                            "tokens", (json_int_t)about.tokens, "alpha_by",
                            about.alphas == 0 ? NULL
                            : about.by_kl     ? "kl"
                                              : "loss",
                            "weights", rows);
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}
