/* plan.h - the insides of a plan. */
#ifndef KERF_MODEL_PLAN_H
#define KERF_MODEL_PLAN_H

#include "model/decide.h"
#include "model/made_scales.h"
#include "model/manifest.h"
#include "model/plan_notes.h"

struct kerf_plan {
    const kerf_checkpoint *source;
    kerf_checkpoint
        *arranged; /* owned: the source, where experts were arranged another way; or NULL */
    char *path;    /* of `to` */
    kerf_output to;
    const kerf_layout *layout;
    kf_decisions decided;
    kf_made_scales made; /* behind the weights of the decisions, in the manifest */
    kf_notes notes;
    kf_notes *found; /* by the run that wrote it */
    kf_manifest manifest;
    kerf_totals totals;
};

/* What a decision makes of its weight. */
kerf_weight kf_plan_weight(const kerf_plan *p, const kerf_decision *d);

/* 1: it is rounded with error feedback. */
int kf_plan_feedback(const kerf_plan *p, const kerf_decision *d);

/* The members of the group that item i is merged with, as indices of the plan; 0: none. */
size_t kf_plan_group(const kerf_plan *p, size_t i, size_t out[KERF_FUSED_MOST]);

#endif
