/* score_report.h - what kerf score prints, which kerf merge prints of the parts of it. */
#ifndef KERF_SCORE_REPORT_H
#define KERF_SCORE_REPORT_H

#include <kerf/score.h>

#include "args.h"

/* A table on standard output, or the document that --json asks for; --per-tensor where the verb has
 * it. */
kerf_status print_scores(const kerf_scores *s, const args *a, kerf_error *err);

#endif
