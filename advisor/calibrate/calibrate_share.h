/* calibrate_share.h - which layers of a calibration one of several processes does. */
#ifndef KERF_CALIBRATE_SHARE_H
#define KERF_CALIBRATE_SHARE_H

#include "calibrate/book.h"

/* What layers cost, in multiplications for a token. */
typedef struct kf_layer_costs {
    uint64_t layers;
    uint64_t run;  /* of a layer, undisturbed: what each part does again                       */
    uint64_t *own; /* [layers] what only one part does: Gram matrices, and the disturbed runs  */
    int all;       /* 1: every part runs all layers, for alpha compares with the end; else it
                      stops behind its last one                                                */
} kf_layer_costs;

/* From the sizes of the model and what the request asks for; own is malloc'd. */
kerf_status kf_layer_costs_find(const kf_book *b, const kerf_decoder_info *model,
                                const kerf_calibrate_request *r, kf_layer_costs *out,
                                kerf_error *err);

/* What part `part` (from 0) takes: the layers that it runs, and those that are its own. */
uint64_t kf_layers_cost(const kf_layer_costs *c, const unsigned *of, unsigned part);

/* of[i] becomes the part, from 0 on, that has layer i. Every process comes to the same. */
kerf_status kf_layers_divide(const kf_layer_costs *c, unsigned parts, unsigned *of,
                             kerf_error *err);

/* own[layers]: 1 where part `part` (from 1) of `parts` has the layer. */
kerf_status kf_layers_take(const kf_book *b, const kerf_decoder_info *model,
                           const kerf_calibrate_request *r, unsigned char *own, kerf_error *err);

#endif
