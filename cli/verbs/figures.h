/* figures.h - how a kerf_score is shown: the same columns and keys in score and verify. */
#ifndef KERF_FIGURES_H
#define KERF_FIGURES_H

#include <kerf/advisor.h>

#include "output.h"

double sqnr_db(const kerf_score *s); /* -10 log10 t2: to look at, never to be summed */

/* Adds the figures of a score to a JSON object; weighted and zstd only where there are any. */
void figures_json(json_t *row, const kerf_score *s);

/* Table columns, "|>bpw|>t2|...", and the cells below them. */
enum { SHOW_WEIGHTED = 1, SHOW_ZSTD = 2 };
const char *figures_headings(unsigned show);
void figures_cells(table *t, const kerf_score *s, unsigned show);

#endif
