/* stray.h - tensors that look like parts of quantized weights but make up none. */
#ifndef KERF_MODEL_STRAY_H
#define KERF_MODEL_STRAY_H

#include "model/checkpoint_view.h"

/* Whether a weight that no layout knows as quantized is in truth a part of a quantized one: codes
 * or scales. */
int kf_is_stray(const kerf_checkpoint *c, const kerf_weight *w);

/* Why, in one line that follows the name; out holds `size` bytes; returns out. */
char *kf_stray_reason(const kerf_checkpoint *c, const kerf_weight *w, char *out, size_t size);

/* KERF_E_NOSUP with the first stray and its reason, for calls that would copy it as if it were a
 * dense tensor. */
kerf_status kf_refuse_strays(const kerf_checkpoint *c, kerf_error *err);

#endif
