/* calibrate.h - what this machine can do, measured: its memory, and kerf's kernels on it. */
#ifndef KERF_CALIBRATE_H
#define KERF_CALIBRATE_H

#include <kerf/hardware.h>

#include "machine/gemv_sweep.h"
#include "machine/measured.h"

typedef struct calibration {
    kerf_hardware hardware; /* points into the rest, and into base */
    gemv_sweep sweep;
    measured kernels;
    char title[96], arch[16], source[128];
} calibration;

/* base: a machine of the registry whose facts stay, NULL for one of which nothing is known. Takes
 * the options of a sweep. Close it also after a failure. */
kerf_status calibrate(calibration *c, const kerf_hardware *base, const args *a, kerf_error *err);
void calibration_close(calibration *c); /* all zeros are fine */

#endif
