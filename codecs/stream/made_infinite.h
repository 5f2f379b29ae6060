/* made_infinite.h - whether finite numbers became Inf as they were encoded. */
#ifndef KERF_STREAM_MADE_INFINITE_H
#define KERF_STREAM_MADE_INFINITE_H

#include "stream/panel.h"

/* Whether codes that are numbers, or scales, of an encoded panel are Inf or NaN. */
int kf_made_infinite(const kerf_geometry *g, const kf_panel *p);

#endif
