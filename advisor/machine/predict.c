/* predict.c - the time of a product from the best source that the description of a machine has:
 * measured shapes around it, else a fit, else the data sheet. */
#include <kerf/predict.h>

#include "base/base.h"
#include "machine/anchors.h"

kerf_status kerf_predict(const kerf_hardware *h, const kerf_matmul *m, kerf_prediction *out,
                         kerf_error *err)
{
    kerf_work w;
    kf_reading r;
    int found = 0;
    *out = (kerf_prediction){0};
    KF_TRY(kerf_matmul_work(h, m, &w, err));
    KF_TRY(kf_read_anchors(h, m, &w, &r, &found, err));
    kerf_predict_work(h, &w, out); /* also for the parts of a time that a table says */
    if (!found || (r.outside && out->tier == KERF_TIER_FITTED)) return KERF_OK;
    out->tier = KERF_TIER_TABLE;
    out->us = r.us;
    out->low_us = r.us / (1 + r.error);
    out->high_us = r.us * (1 + r.error);
    out->extrapolated = r.outside;
    return KERF_OK;
}

void kerf_prediction_add(kerf_prediction *sum, const kerf_prediction *p, double times)
{
    int first = sum->us == 0;
    sum->us += times * p->us;
    sum->low_us += times * p->low_us;
    sum->high_us += times * p->high_us;
    sum->fixed_us += times * p->fixed_us;
    sum->memory_us += times * p->memory_us;
    sum->decode_us += times * p->decode_us;
    sum->math_us += times * p->math_us;
    sum->extrapolated |= p->extrapolated;
    if (first || p->tier < sum->tier) sum->tier = p->tier; /* as sure as its least sure part */
}
