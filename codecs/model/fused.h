/* fused.h - layers that runtimes merge into one matrix: q/k/v, gate/up. */
#ifndef KERF_FUSED_H
#define KERF_FUSED_H

#include "model/checkpoint.h"

enum { FUSED_MOST = 4 };

/* All members of the fused group that w belongs to, w among them, in the order of the group; 0
 * when it belongs to none or the others are not there. */
size_t fused_group(const checkpoint *c, const kerf_weight *w, const kerf_weight *out[FUSED_MOST]);

#endif
