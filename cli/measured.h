/* measured.h - what a benchmark's times say of a machine: fits, and tables where they cover a grid.
 */
#ifndef KERF_MEASURED_H
#define KERF_MEASURED_H

#include "bench_file.h"

typedef struct measured {
    kerf_fit *fit;
    size_t fits;
    kerf_anchors *anchors;
    size_t tables;
    double multiprocessors;
    char source[240], date[16];
} measured;

/* Each format and batch with four times or more gives a fit; one whose shapes are all of a grid's
 * gives a table too. The median of repeated times counts; they are sorted. multiprocessors: for
 * kerf_fit_times. source: where they come from. */
kerf_status measured_take(measured *m, kerf_timing *times, size_t count, double multiprocessors,
                          const char *source, kerf_error *err);
/* The same from a file, as for bench_file_open. */
kerf_status measured_open(measured *m, const char *path, double multiprocessors, kerf_error *err);
void measured_close(measured *m); /* all zeros are fine */

#endif
