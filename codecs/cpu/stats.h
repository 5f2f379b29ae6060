/* stats.h - what a matrix must know before it is encoded, kept exactly. */
#ifndef KERF_STATS_H
#define KERF_STATS_H

#include "block/spec.h"

/* Adds a block's absmax >= 0 to the exact sum. */
void kf_stats_add_block(kerf_stats *s, float absmax);

/* The exact sum rounded to double (nearest even), divided by the number of blocks in double,
 * rounded to fp32; 0 without blocks. */
float kf_stats_mean_block(const kerf_stats *s);

#endif
