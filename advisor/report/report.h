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

/* How many rows the total is of. */
size_t kf_verification_totaled(const kerf_verification *v);

#endif
