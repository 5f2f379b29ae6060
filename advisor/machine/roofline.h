/* roofline.h - the time that a fit predicts, also for anchors.c, which interpolates the rest. */
#ifndef KERF_ROOFLINE_H
#define KERF_ROOFLINE_H

#include <kerf/predict.h>

/* The time that fit f of machine h predicts for work w, in us. *parts (may be NULL) receives its
 * parts and the largest of them. */
double kf_fitted_us(const kerf_hardware *h, const kerf_fit *f, const kerf_work *w,
                    kerf_prediction *parts);

#endif
