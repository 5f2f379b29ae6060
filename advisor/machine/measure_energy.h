/* measure_energy.h - the energy of products that are measured. */
#ifndef KERF_MEASURE_ENERGY_H
#define KERF_MEASURE_ENERGY_H

#include <kerf/measure.h>

/* Power of the sources that count for this request, while the machine waits. KERF_E_CUDA: there is
 * none that tells energy. */
kerf_status kf_measure_idle(const kerf_measure_request *r, double *watts, kerf_error *err);

/* One product for as long as the request wants. */
kerf_status kf_measure_energy(const kerf_measure_request *r, kerf_gemv_timer *timer,
                              const kerf_gemv_time *product, kerf_product_energy *out,
                              kerf_error *err);

#endif
