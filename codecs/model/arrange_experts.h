/* arrange_experts.h - the experts of a source as the loaders of a layout want them. */
#ifndef KERF_ARRANGE_EXPERTS_H
#define KERF_ARRANGE_EXPERTS_H

#include "model/checkpoint.h"

/* Before weights are written in a layout. a: stacks that --keep or --only leave as they are stay
 * whole; NULL: all are arranged. */
kerf_status arrange_experts(checkpoint *c, const kerf_layout *l, const args *a, kerf_error *err);

/* Before weights are compared: those of c stand as those of `like` do. */
kerf_status arrange_experts_like(checkpoint *c, const checkpoint *like, kerf_error *err);

#endif
