/* terms.h - what roofline.c, fit.c and anchors.c must agree on: a product's plan, and what a fit
 * makes of work. */
#ifndef KERF_TERMS_H
#define KERF_TERMS_H

#include <kerf/predict.h>

#include "plan/gemv_outline.h"

/* The plan that kerf has for this work on h. 0: it has none, or h does not say enough. */
int kf_find_outline(const kerf_hardware *h, const kerf_work *w, kf_gemv_outline *out);

/* What the plan costs by a fit, in us. */
double kf_plan_us(const kerf_fit *f, const kf_gemv_outline *o);

/* The fit that h has for a format at so many rows of activations; NULL: none. */
const kerf_fit *kf_find_fit(const kerf_hardware *h, const kerf_format *format, double rows);

/* What it predicts, in us; parts may be NULL. */
double kf_fitted_us(const kerf_hardware *h, const kerf_fit *f, const kerf_work *w,
                    kerf_prediction *parts);

/* What anchors say of a product. */
typedef struct kf_reading {
    double us;
    double error; /* that nine of ten readings stay below; 0: not known, or itself measured */
    int outside;  /* it lies beyond them                                                    */
} kf_reading;

/* For m, whose work is w; *found is 0 when h has no anchors that speak of such products. */
kerf_status kf_read_anchors(const kerf_hardware *h, const kerf_matmul *m, const kerf_work *w,
                            kf_reading *out, int *found, kerf_error *err);

/* Sorts v: what half of them stay below, and nine of ten. */
void kf_spread(double *v, size_t n, double *median, double *p90);

#endif
