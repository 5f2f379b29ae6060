/* made_infinite.h - whether finite numbers became Inf as they were encoded. */
#ifndef KERF_STREAM_MADE_INFINITE_H
#define KERF_STREAM_MADE_INFINITE_H

#include "stream/panel.h"

/* Whether codes that are numbers, or scales, of an encoded panel are Inf or NaN, or decode to it.
 */
kerf_status kf_made_infinite(const kerf_geometry *g, const kf_panel *p, const kerf_exec *exec,
                             int *out, kerf_error *err);

#endif
