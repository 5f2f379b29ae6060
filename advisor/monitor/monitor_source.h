/* monitor_source.h - what a monitor is made of, for the meter that reads it in a thread. */
#ifndef KERF_MONITOR_SOURCE_H
#define KERF_MONITOR_SOURCE_H

#include "monitor/nvml.h"
#include "monitor/rapl.h"

struct kerf_monitor {
    kf_nvml *nvml; /* NULL: no GPU */
    unsigned gpus;
    kf_rapl rapl;
    double opened_s;
    double read_s, read_j[KF_RAPL_MOST]; /* of the reading before: a counter has no power */
};

/* Energy and power of source i; what it does not tell is NaN. */
void kf_source_energy(kerf_monitor *m, size_t i, double *joules, double *watts, int *lost);
/* Kind, index and name of source i. */
void kf_source_name(const kerf_monitor *m, size_t i, int *is_gpu, unsigned *index, char name[96]);

#endif
