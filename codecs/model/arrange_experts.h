/* arrange_experts.h - the experts of a source as the loaders of a layout want them. */
#ifndef KERF_MODEL_ARRANGE_EXPERTS_H
#define KERF_MODEL_ARRANGE_EXPERTS_H

#include "model/checkpoint_view.h"

/* Before weights are written in a layout. Stacks that `select` leaves as they are stay whole; NULL:
 * all are arranged. */
kerf_status kf_arrange_experts(kerf_checkpoint *c, const kerf_layout *l, const kerf_select *select,
                               kerf_error *err);

/* Before weights are compared: those of c stand as those of `like` do. */
kerf_status kf_arrange_experts_like(kerf_checkpoint *c, const kerf_checkpoint *like,
                                    kerf_error *err);

#endif
