/* findings_config.h - config.json against the tensors of a folder. */
#ifndef KERF_LAYOUT_FINDINGS_CONFIG_H
#define KERF_LAYOUT_FINDINGS_CONFIG_H

#include <kerf/inspect.h>

/* Compares what the files of the folder say of quantization with its weights: method, bits, groups,
 * ignored layers, scales of inputs. Nothing for a checkpoint that is no folder. */
void kf_find_configured(const kerf_reader *r, const kerf_weights *weights, kerf_found found,
                        void *ctx);

#endif
