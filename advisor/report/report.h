/* report.h - advice as a text, in its kinds. advice_write.c chooses between them. */
#ifndef KERF_REPORT_H
#define KERF_REPORT_H

#include <kerf/advise.h>
#include <stdio.h>

#include "text/json_text.h"

json_t *kf_advice_json(const kerf_advice *a);
json_t *kf_recipe_json(const kerf_advice *a);

/* `to` is a stream in memory. A failure to write to it is found by the caller, with ferror. */
void kf_put_summary(const kerf_advice *a, FILE *to);
void kf_put_markdown(const kerf_advice *a, FILE *to);
/* The head of the page. */
void kf_put_verdict(const kerf_advice *a, FILE *to);
void kf_put_html(const kerf_advice *a, FILE *to);

#endif
