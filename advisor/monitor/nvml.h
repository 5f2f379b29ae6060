/* nvml.h - the part of NVIDIA's management library that the monitor calls, by its documented binary
 * interface: no header of the driver is needed to build, and no driver to run. */
#ifndef KERF_NVML_H
#define KERF_NVML_H

#include <kerf/monitor.h>

typedef struct kf_nvml kf_nvml;

/* Opens `file`, starts the library and finds the GPUs. KERF_E_CUDA: what is missing. */
kerf_status kf_nvml_open(const char *file, kf_nvml **out, kerf_error *err);
void kf_nvml_close(kf_nvml *n); /* NULL is fine */
unsigned kf_nvml_gpus(const kf_nvml *n);
const char *kf_nvml_driver(const kf_nvml *n);

/* All that GPU i says. */
void kf_nvml_read(const kf_nvml *n, unsigned i, kerf_reading *out);
/* Only its energy and power; *lost is set when it is. */
void kf_nvml_energy(const kf_nvml *n, unsigned i, double *joules, double *watts, int *lost);

#endif
