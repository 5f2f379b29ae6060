/* figures.h - how a kerf_score is shown: the same columns in score and verify; and a predicted
 * time. */
#ifndef KERF_FIGURES_H
#define KERF_FIGURES_H

#include <kerf/predict.h>
#include <kerf/score.h>

#include "output.h"

/* Table columns, "|>bpw|>t2|...", and the cells below them. */
enum { SHOW_WEIGHTED = 1, SHOW_ZSTD = 2 };
const char *figures_headings(unsigned show);
void figures_cells(table *t, const kerf_score *s, unsigned show);

/* Two cells, tier and time: a point, or a band where the data sheet is all that is known. */
void time_cells(table *t, const kerf_prediction *p);

/* A line when an outlier hides that the others are lost. */
void print_ruined(const char *tensor, const kerf_score *s);

/* A note when scales of a quantized source make its weights no numbers, or other ones. */
kerf_status note_ruined(const kerf_checkpoint *source, kerf_error *err);

#endif
