/* description.h - the metadata string by which kerf finds its own weights again.
 * kerf_layout_describe writes it. */
#ifndef KERF_LAYOUT_DESCRIPTION_H
#define KERF_LAYOUT_DESCRIPTION_H

#include "layout/weights.h"

/* Takes the weights that the metadata of one shard describe. KERF_E_DATA: what it says does not
 * hold; KERF_E_NOSUP: it needs a newer kerf. */
kerf_status kf_description_take(kf_weights_builder *b, unsigned shard);

#endif
