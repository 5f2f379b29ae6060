/* terms.h - what roofline.c, fit.c and anchors.c must agree on: the plan of a product, what it
 * costs by a fit, which fit is of use, and how errors are summed up. */
#ifndef KERF_TERMS_H
#define KERF_TERMS_H

#include <kerf/predict.h>

#include "plan/gemv_outline.h"

/* The plan that kerf has for this work on h. 0: it has none, or h does not say enough. */
int kf_find_outline(const kerf_hardware *h, const kerf_work *w, kf_gemv_outline *out);

/* What the plan costs by a fit, in us. */
double kf_plan_us(const kerf_fit *f, const kf_gemv_outline *o);

/* How often the plan is launched, once where there is none; and the work as it then is: each launch
 * reads and decodes all weights. */
double kf_plan_launches(const kf_gemv_outline *o);
kerf_work kf_plan_work(const kf_gemv_outline *o, const kerf_work *w);

/* The fit that h has for a format at so many rows of activations; NULL: none. */
const kerf_fit *kf_find_fit(const kerf_hardware *h, const kerf_format *format, double rows);

/* Sorts v: what half of them stay below, and nine of ten. */
void kf_spread(double *v, size_t n, double *median, double *p90);

#endif
