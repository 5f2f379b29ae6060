/* waves.h - what roofline.c and fit.c must agree on. */
#ifndef KERF_WAVES_H
#define KERF_WAVES_H

#include <kerf/predict.h>

/* Outputs of the waves that work takes, the last one counted as if it were full, over those that it
 * has: 1 and more; 0 where there are no waves. */
double kf_whole_waves(const kerf_work *w, double wave_rows);

#endif
