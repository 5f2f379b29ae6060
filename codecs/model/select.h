/* select.h - which weights of a checkpoint a call works on, and why not on the others: the parts of
 * kerf_select_weights, for decisions. */
#ifndef KERF_MODEL_SELECT_H
#define KERF_MODEL_SELECT_H

#include "model/checkpoint_view.h"

/* What a weight is to patterns: a vector (norms, biases) or a scale, a matrix that is kept by
 * default, or one that is quantized by default. */
typedef enum kf_rank { KF_RANK_SMALL = 1, KF_RANK_KEPT, KF_RANK_USUAL } kf_rank;
kf_rank kf_select_rank(const kerf_weight *w);

/* A pattern for a stack of experts is one for each of them; one for experts one by one is for what
 * they become as a stack, but not when it is for the first alone. */
int kf_glob_takes(const char *glob, const kerf_weight *w);
int kf_glob_takes_old_name(const char *glob, const kerf_weight *w); /* w->whole */

/* Why w cannot be quantized at all, or NULL. The text may stand in `text`. */
const char *kf_select_obstacle(const kerf_weight *w, char *text, size_t size);

/* Why w, which has no elements, is not worth what its shape claims; NULL: it is none of these. */
const char *kf_select_empty(const kerf_weight *w);

/* Which of the patterns of s leaves w out, or NULL. */
const char *kf_select_option(const kerf_select *s, const kerf_weight *w, char *text, size_t size);

/* Why w is not selected, also for what keeps it by default, or NULL: it is. */
const char *kf_select_reason(const kerf_select *s, const kerf_weight *w, char *text, size_t size);

/* KERF_E_ARG: a pattern matches no weight. */
kerf_status kf_select_check(const kerf_checkpoint *c, const kerf_select *s, kerf_error *err);
/* The same of one pattern; what: as the error calls it. */
kerf_status kf_glob_check(const kerf_checkpoint *c, const char *what, const char *glob,
                          kerf_error *err);

#endif
