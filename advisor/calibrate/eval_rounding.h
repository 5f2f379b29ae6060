/* eval_rounding.h - a model of kerf_eval rounds inputs and its cache as a runtime of it would. */
#ifndef KERF_CALIBRATE_EVAL_ROUNDING_H
#define KERF_CALIBRATE_EVAL_ROUNDING_H

#include <kerf/forward.h>
#include <kerf/rounding.h>

typedef struct kf_eval_rounding {
    kerf_rounding *rounding;       /* NULL: nothing is rounded    */
    const kerf_decoder_info *info; /* of the model                */
    const kerf_layer *layer;       /* that runs                   */
    const kerf_exec *exec;
    float *input; /* what was rounded last; room for so many */
    uint64_t numbers;
} kf_eval_rounding;

/* out: what is rounded, all zeros where nothing is. */
kerf_status kf_eval_rounding_open(kf_eval_rounding *e, const kerf_checkpoint *c,
                                  const kerf_decoder_info *info, const kerf_exec *exec,
                                  kerf_rounds *out, kerf_error *err);
void kf_eval_rounding_close(kf_eval_rounding *e); /* all zeros are fine */

/* For a run of this layer. */
kerf_watch kf_eval_rounding_watch(kf_eval_rounding *e, const kerf_layer *layer);

#endif
