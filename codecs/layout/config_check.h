/* config_check.h - config.json against the tensors of a folder. */
#ifndef KERF_LAYOUT_CONFIG_CHECK_H
#define KERF_LAYOUT_CONFIG_CHECK_H

#include <kerf/layouts.h>

/* Holds what config.json and its companions say of method, bits, groups, ignored layers and scales
 * of inputs against the quantized weights, and calls `found` for each contradiction: where is the
 * name of a weight or of a file, text the rest of a sentence about it. Nothing for a single file.
 * Fails for want of memory alone. */
kerf_status kf_config_check(const kerf_reader *r, const kerf_weights *w,
                            void (*found)(void *ctx, const char *where, const char *text),
                            void *ctx, kerf_error *err);

#endif
