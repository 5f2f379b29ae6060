/* report.h - advice as a text, in its kinds, of which advice_write.c chooses; and what the texts of
 * a verification share. */
#ifndef KERF_REPORT_H
#define KERF_REPORT_H

#include <kerf/advise.h>
#include <kerf/verify.h>
#include <stdio.h>

#include "file/json/json_text.h"

json_t *kf_advice_json(const kerf_advice *a);
json_t *kf_recipe_json(const kerf_advice *a);

/* `to` is a stream of base/growing_text.h, which keeps a failure to write until it is closed. */
void kf_put_summary(const kerf_advice *a, FILE *to);
void kf_put_markdown(const kerf_advice *a, FILE *to);
/* The head of the page. */
void kf_put_verdict(const kerf_advice *a, FILE *to);
void kf_put_html(const kerf_advice *a, FILE *to);

/* Whether one of the GPUs can hold its share of the weights and, where a model is known, the cache
 * in bfloat16: 1, 0, or -1 where its memory is not known. *bytes: what these take. */
int kf_advice_fits(const kerf_advice *a, double *bytes);

/* How many rows the total is of. */
size_t kf_verification_totaled(const kerf_verification *v);

#endif
