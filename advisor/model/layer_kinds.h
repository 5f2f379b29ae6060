/* layer_kinds.h - how many layers of a model have attention, a window, experts: config.json says it
 * as a list, a pattern, a period or places, under names of its family. */
#ifndef KERF_MODEL_LAYER_KINDS_H
#define KERF_MODEL_LAYER_KINDS_H

#include <jansson.h>
#include <stdint.h>

#include <kerf/model.h>

/* Layers that have linear attention, a state space or a convolution in its place. */
uint64_t kf_layers_without_attention(const json_t *doc, uint64_t layers);

/* Of a model whose layers and attention_layers are known: which see the last tokens alone, or a
 * chunk of so many, and which cache nothing themselves. usual: of so many layers all but one have a
 * window where the file does not say which; 1: all; 0: none. */
void kf_layers_caches(const json_t *doc, unsigned usual, kerf_model *m);

/* Of the layers from `first` on, those with experts. */
uint64_t kf_layers_sparse(const json_t *doc, uint64_t layers, uint64_t first);

/* What a search over architectures left of each layer (block_configs of DeciLM, nemotron-nas), all
 * sums over layers. */
typedef struct kf_searched {
    uint64_t attention, kv_heads; /* layers that have it, and their heads of keys  */
    uint64_t mlp, width;          /* the same of feed-forward parts, and their widths */
    uint64_t linear;              /* parts that became one matrix, hidden x hidden */
    int is_uneven;                /* layers that have a part are not alike in it   */
} kf_searched;

/* 0: the file has no such list. */
int kf_layers_searched(const json_t *doc, uint64_t hidden, uint64_t heads, kf_searched *out);

#endif
