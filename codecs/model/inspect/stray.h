/* stray.h - tensors that look like parts of quantized weights but make up none. */
#ifndef KERF_MODEL_STRAY_H
#define KERF_MODEL_STRAY_H

#include "model/checkpoint.h"

/* Whether a dense weight is none: codes or scales for which no layout has a place. */
int kf_is_stray(const kerf_checkpoint *c, const kerf_weight *w);

/* Why, in one line that follows the name; out holds `size` bytes; returns out. */
char *kf_stray_reason(const kerf_checkpoint *c, const kerf_weight *w, char *out, size_t size);

/* KERF_E_NOSUP with the first stray and its reason, for verbs that would pass it on as if it were
 * a dense tensor. */
kerf_status kf_refuse_strays(const kerf_checkpoint *c, kerf_error *err);

#endif
