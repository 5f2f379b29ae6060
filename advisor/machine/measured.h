/* measured.h - what a benchmark's times say of a machine: fits and tables. */
#ifndef KERF_MEASURED_H
#define KERF_MEASURED_H

#include "machine/bench_file.h"

typedef struct measured {
    kerf_fit *fit;
    size_t fits;
    kerf_anchors *anchors;
    size_t tables;
    const kerf_hardware *hardware;
    char source[240], date[16];
} measured;

/* Each format and batch with four shapes or more gives a fit and a table. The median of repeated
 * times counts; they are sorted. h: the machine that was measured, which must live until the end of
 * the call. source: where the times come from. */
kerf_status measured_take(measured *m, kerf_timing *times, size_t count, const kerf_hardware *h,
                          const char *source, kerf_error *err);
/* The same from a file, as for bench_file_open. */
kerf_status measured_open(measured *m, const char *path, const kerf_hardware *h, kerf_error *err);
void measured_close(measured *m); /* all zeros are fine */

#endif
