/* hardware_new.h - a kerf_hardware that owns everything it points to; kerf_hardware_close frees it
 * all. */
#ifndef KERF_HARDWARE_NEW_H
#define KERF_HARDWARE_NEW_H

#include <kerf/hardware.h>

#include "base/base.h"

/* All zeros. */
kerf_status kf_hardware_new(kerf_hardware **out, kerf_error *err);

/* Sets the pointer that `out` points to: count x size zeroed bytes that live as long as h. */
kerf_status kf_hardware_keep(kerf_hardware *h, uint64_t count, uint64_t size, void *out,
                             kerf_error *err);
kerf_status kf_hardware_keep_text(kerf_hardware *h, const char *text, const char **out,
                                  kerf_error *err);

/* Copies a tuning, with its source and date, into h. */
kerf_status kf_hardware_keep_tuning(kerf_hardware *h, const kerf_gemv_tuning *tuning,
                                    const char *source, const char *date, kerf_error *err);

/* The machine of the registry that a person means, as kerf_hardware_get says. */
kerf_status kf_hardware_named(const char *text, const kerf_hardware **out, kerf_error *err);

/* A machine of its own with the texts, facts and tuning of `from`, but without fits and tables. */
kerf_status kf_hardware_copy(const kerf_hardware *from, kerf_hardware **out, kerf_error *err);

#endif
