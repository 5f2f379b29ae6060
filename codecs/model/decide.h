/* decide.h - the format of each weight of an output. */
#ifndef KERF_MODEL_DECIDE_H
#define KERF_MODEL_DECIDE_H

#include <kerf/quantize.h>

#include "model/checkpoint_view.h"

typedef struct kf_decisions {
    kerf_decision *item; /* in the order of the checkpoint's weights */
    size_t count, quantized;
    size_t idle;            /* rules that decide of no weight, for later ones do */
    const char *first_idle; /* what the first of them is called: lives as long as the rules */
    size_t spared;          /* matrices that are kept by default, and by a rule that others match */
    const char *first_spared, *spared_by; /* one of them, and the rule                            */
    const kerf_layout *layout;
} kf_decisions;

/* Applies, in this order: the rules (the last one that takes it counts: model/rules.h), then what
 * `select` keeps. base: the codec of all others; format NULL: they are kept. layout: of the output;
 * what it cannot store is kept, or an error when a rule asks for it. A pattern that matches no
 * tensor is an error.
 */
kerf_status kf_decide(const kerf_checkpoint *c, const kerf_select *select, const kerf_rule *rules,
                      size_t count, kerf_codec base, const kerf_layout *layout, kf_decisions *out,
                      kerf_error *err);
/* What a decision makes of its weight lies so: all zeros when it is left. */
kerf_geometry kf_decision_geometry(const kerf_decision *d);
void kf_decisions_free(kf_decisions *d); /* all zeros are fine */

#endif
