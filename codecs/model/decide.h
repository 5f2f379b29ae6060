/* decide.h - which tensors are quantized, to what, and why the others are not. */
#ifndef KERF_DECIDE_H
#define KERF_DECIDE_H

#include "model/checkpoint.h"

typedef struct decision {
    const kerf_weight *weight;
    kerf_codec codec;       /* format NULL: kept as it is            */
    kerf_geometry geometry; /* when quantized                        */
    char reason[96];        /* why it is kept, or what asked for it  */
} decision;

typedef struct decisions {
    decision *item; /* in the order of the checkpoint's weights */
    size_t count, quantized;
} decisions;

/* Applies, in this order: --tensor and --recipe (the last match wins, --tensor first), --keep,
 * --only, then the defaults. base: the codec of -f. layout: of the output; what it cannot store is
 * kept, or an error when --tensor or --recipe asked for it. all_tensors: the defaults keep nothing
 * that could be quantized. A pattern that matches no tensor is an error. */
kerf_status decide(const checkpoint *c, const args *a, kerf_codec base, const kerf_layout *layout,
                   int all_tensors, decisions *out, kerf_error *err);
void decisions_free(decisions *d);

/* kerf_codec_find with every failure a usage error. */
kerf_status parse_codec(const char *text, kerf_codec *out, kerf_error *err);

#endif
