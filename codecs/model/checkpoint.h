/* checkpoint.h - an opened source: its tensors, and the weights that they make up. */
#ifndef KERF_CHECKPOINT_H
#define KERF_CHECKPOINT_H

#include <kerf/file.h>

#include "args.h"

typedef struct checkpoint {
    const char *path;
    kerf_reader *reader;
    kerf_weights *weights;
} checkpoint;

kerf_status checkpoint_open(checkpoint *c, const char *path, kerf_error *err);
void checkpoint_close(checkpoint *c); /* all zeros are fine */

uint64_t weight_bytes(const kerf_weight *w); /* as stored, all planes */
uint64_t weight_elements(const kerf_weight *w);
int is_float(kerf_dtype t); /* F32, F16, BF16: what can be quantized */
/* "BF16" or "nvfp4:4/6"; out holds `size` bytes; returns out. */
char *weight_format(const kerf_weight *w, char *out, size_t size);
/* Quantized weights of the checkpoint. */
size_t count_quantized(const checkpoint *c);

#endif
