/* quantize.h - what becomes of each weight of a checkpoint. */
#ifndef KERF_QUANTIZE_H
#define KERF_QUANTIZE_H

#include <kerf/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Another format for the weights that a pattern matches, also for those that are left as they are
 * by default. Of several rules that match the last one counts. */
typedef struct kerf_rule {
    const char *glob;   /* over names of weights, as kerf_glob_matches reads it           */
    const char *origin; /* what asks for it, as reasons and errors call it: "--tensor *=nf4";
                           NULL: the pattern                                              */
    kerf_codec codec;   /* format NULL: the weight is left as it is                       */
} kerf_rule;

#ifdef __cplusplus
}
#endif
#endif
