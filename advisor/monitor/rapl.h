/* rapl.h - energy of processors and memory, as Linux counts it under /sys/class/powercap. */
#ifndef KERF_RAPL_H
#define KERF_RAPL_H

#include <kerf/monitor.h>

enum { KF_RAPL_MOST = KERF_MONITOR_SOURCES / 2 };

typedef struct kf_rapl {
    unsigned count;
    struct kf_rapl_counter {
        char path[256]; /* of energy_uj                              */
        char name[64];  /* "package-0"                               */
        double range_j; /* at which the counter begins anew          */
        double last_j;  /* as it was read last, and ...              */
        double sum_j;   /* ... all that it has counted since opening */
    } counter[KF_RAPL_MOST];
} kf_rapl;

/* Finds packages, and memory that no package contains. KERF_E_CUDA: none is there, or may be read;
 * the text says which. */
kerf_status kf_rapl_open(const char *folder, kf_rapl *out, kerf_error *err);

/* Joules of counter i since kf_rapl_open; NaN: it cannot be read any more. */
double kf_rapl_joules(kf_rapl *r, unsigned i);

#endif
