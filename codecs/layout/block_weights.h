/* block_weights.h - weights of GGUF files, where the type of each tensor names its blocks. */
#ifndef KERF_LAYOUT_BLOCK_WEIGHTS_H
#define KERF_LAYOUT_BLOCK_WEIGHTS_H

#include "layout/layout.h"

/* What the tensor t, which has a block_type, is as a weight. Without a format when kerf has none
 * for these blocks: then shape is still that of the elements, and dtype that of the bytes. */
kerf_status kf_blocks_recognize(const kerf_reader *r, const kerf_tensor *t, kerf_weight *w,
                                kerf_error *err);

/* The type of the blocks of a weight that kerf has no format for, else NULL. */
static inline const char *kf_undecoded_type(const kerf_weight *w)
{
    return w->codec.format || !w->plane[0] ? NULL : w->plane[0]->block_type;
}

#endif
