/* options_products.h - which matrix products a verb speaks of: the lists of --format, --shape and
 * --batch, and how they are to be measured. */
#ifndef KERF_OPTIONS_PRODUCTS_H
#define KERF_OPTIONS_PRODUCTS_H

#include <kerf/measure.h>

#include "args.h"

enum { MAX_BATCHES = 64 };

/* Formats that are predicted and measured when none are named. */
#define PRODUCT_FORMATS "bf16,int8,fp8-e4m3-row,mxfp8-e4m3,mxfp6-e2m3,nvfp4,mxfp4,nf4-dq,int4-g128"

typedef struct products_option {
    const kerf_format **format; /* each once */
    size_t formats;
    kerf_weight_shape *shape;
    size_t shapes;
    unsigned batch[MAX_BATCHES];
    size_t batches;
} products_option;

/* shapes: what stands for a missing --shape, which is a list of NxK, from 1 to 2^32 each; NULL: no
 * shapes. Formats default to PRODUCT_FORMATS, batches to 1. */
kerf_status option_products_open(products_option *l, const args *a, const char *shapes,
                                 kerf_error *err);
void option_products_close(products_option *l); /* all zeros are fine */

/* The format that an option names, whatever its encoder; *out is left alone when it is absent. */
kerf_status option_format(const args *a, const char *name, const kerf_format **out,
                          kerf_error *err);

/* --gpus N, 1 when it is absent, and --expert-parallel, which needs more than one. */
extern const option option_gpu_count, option_expert_parallel;
kerf_status option_gpus(const args *a, int *gpus, int *expert_parallel, kerf_error *err);

/* --- measuring: what bench and hardware --measure have in common --------------------------- */

extern const option option_measure_format, option_measure_batch, option_measure_type,
    option_measure_trials;

typedef struct measure_option {
    products_option lists;
    kerf_exec exec;               /* holds the device */
    kerf_measure_request request; /* points into the rest */
} measure_option;

/* Opens the device of --device. Free it also after a failure. */
kerf_status option_measure_open(measure_option *m, const args *a, const char *shapes,
                                kerf_error *err);
void option_measure_close(measure_option *m); /* all zeros are fine */

#endif
