/* layer_run.h - a panel of tokens on its way through a layer: the order of steps, whoever computes
 * them (plan/forward_steps.h). */
#ifndef KERF_FORWARD_LAYER_RUN_H
#define KERF_FORWARD_LAYER_RUN_H

#include "forward/decoder.h"
#include "plan/forward_steps.h"

/* One panel of whole rows on its way through a layer. All arrays have a row per token. */
typedef struct kf_panel_run {
    const kerf_layer *l;
    const kerf_decoder *d;
    kf_stepper *s;
    const kerf_watch *watch; /* NULL: none */
    const kerf_job *job;
    kerf_error *err;
    uint64_t rows, length, tokens; /* tokens = rows x length                              */
    kf_rows normed, delta;         /* [hidden]                                            */
    kf_rows q, k, v, mixed;        /* heads                                               */
    kf_rows gate, up;              /* of the widest MLP                                   */
    kf_rows low;                   /* compressed queries, keys and values                 */
    const float *cosine, *sine;    /* [length][dims / 2]; NULL: no positions              */
    kf_rows state, replaced;       /* of steps that are apart: a panel of it, [hidden]; what the
                                      watch puts in the place of an input                  */
    float *memory;                 /* all of the above                                    */
} kf_panel_run;

/* y = x w^T for outputs [first, first + y.columns), every `step`-th row of w; tells the watch. */
kerf_status kf_multiply(const kf_panel_run *r, kf_rows y, kf_rows x, const kerf_layer_weight *w,
                        uint64_t first, uint64_t step, const float *bias);
/* Tells the watch of the inputs of a weight; of keys and values. */
kerf_status kf_tell_input(const kf_panel_run *r, const kerf_layer_weight *w, kf_rows x);
kerf_status kf_tell_cache(const kf_panel_run *r);

/* delta = what the attention, and the MLP or the experts, make of `normed`. */
kerf_status kf_run_attention(kf_panel_run *r);
kerf_status kf_run_mlp(kf_panel_run *r);
kerf_status kf_run_experts(kf_panel_run *r);

/* Panels of positions on their way to logits, which stay where steps work. All zeros may be closed.
 */
typedef struct kf_head_run {
    kf_panel_run r;
    float *memory, *state, *normed, *logits;
} kf_head_run;
/* Reads the head at the first call. most: positions of a panel. */
kerf_status kf_head_open(kf_head_run *h, kerf_decoder *d, uint64_t most, const kerf_watch *watch,
                         kerf_error *err);
void kf_head_close(kf_head_run *h);
/* n positions from hidden on, which may be anywhere. */
kerf_status kf_head_panel(kf_head_run *h, const float *hidden, uint64_t n, kf_rows *logits);

/* One gated MLP: out = down(act(gate x) * up x). gate_up: a fused weight, or NULL; alternates: its
 * rows are gate and up in turn. */
typedef struct kf_mlp {
    const kerf_layer_weight *gate, *up, *gate_up, *down;
    const float *gate_bias, *up_bias, *gate_up_bias, *down_bias;
    uint64_t inner;
    int alternates;
} kf_mlp;
kerf_status kf_gated(const kf_panel_run *r, const kf_mlp *m, kf_rows x, kf_rows out);

#endif
