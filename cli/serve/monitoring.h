/* monitoring.h - one monitor for all who look: it is read at each interval, however many they are.
 */
#ifndef KERF_SERVE_MONITORING_H
#define KERF_SERVE_MONITORING_H

#include <stdio.h>

#include "cli.h"

/* Where there is nothing to monitor, that is what is told; no failure. */
kerf_status monitoring_start(kerf_error *err);
void monitoring_stop(void);        /* streams end, the last sample stays */
void monitoring_close(void);       /* nobody may ask any more */
void monitoring_metrics(FILE *to); /* gauges of GPUs, as Prometheus reads them */

#endif
