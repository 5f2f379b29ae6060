/* rules.h - which of several patterns decides of a weight. */
#ifndef KERF_MODEL_RULES_H
#define KERF_MODEL_RULES_H

#include <kerf/quantize.h>

#include "base/globs.h"
#include "model/checkpoint_view.h"
#include "model/select.h"

/* A pattern with wildcards is for the best that it matches. "*self_attn*" is for projections: the
 * norms and biases among them, which -f leaves, it leaves as well; "*mlp*" leaves the router. What
 * is left by default takes a pattern that matches nothing else ("*lm_head*"), or its own name.
 * Patterns that leave a weight as it is, and those of recipes, are for all that they match. */
typedef struct kf_rules {
    const kerf_rule *rule;
    size_t count;
    kf_globs globs;
    kf_rank *least; /* [count] what each takes, at least */
} kf_rules;

/* kf_rules_close also after a failure. select: as kf_decide takes it. */
kerf_status kf_rules_open(kf_rules *r, const kerf_checkpoint *c, const kerf_select *select,
                          const kerf_rule *rule, size_t count, kerf_error *err);
void kf_rules_close(kf_rules *r);

/* The last rule that takes w; KF_NO_GLOB: none. *spared (may be NULL): a rule that matches w and
 * leaves it, for it is for others; else KF_NO_GLOB. */
size_t kf_rules_find(const kf_rules *r, const kerf_weight *w, size_t *spared);

/* What asks for it, as texts call it. */
const char *kf_rule_origin(const kerf_rule *r);
int kf_is_of_recipe(const char *origin);

/* KERF_E_ARG: a rule matches no weight. *idle: how many decide of none, for later ones take all
 * that they match; *first: the first of them. */
kerf_status kf_rules_check(const kf_rules *r, const kerf_checkpoint *c, size_t *idle,
                           const char **first, kerf_error *err);

#endif
