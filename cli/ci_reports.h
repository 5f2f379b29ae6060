/* ci_reports.h - what verify and eval write for the programs that run them: --junit, --markdown,
 * --summary and --annotations. */
#ifndef CI_REPORTS_H
#define CI_REPORTS_H

#include "options.h"

extern const option option_summary, option_annotations;

/* A report of a result; kind as in kerf_verify_kind and kerf_eval_kind, which number alike. */
typedef kerf_status ci_report(const void *result, int kind, char **text, size_t *n,
                              kerf_error *err);

/* Refuses what the end of a long run would. */
kerf_status ci_reports_check(const args *a, kerf_error *err);
/* Writes those that were asked for. */
kerf_status ci_reports_write(const args *a, ci_report *report, const void *result, kerf_error *err);

#endif
