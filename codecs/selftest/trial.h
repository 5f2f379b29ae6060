/* trial.h - tries a codec on the tensors of specimen.h: what the scalar reference writes and reads
 * gives the digest, and every backend must write and read the same. */
#ifndef KERF_TRIAL_H
#define KERF_TRIAL_H

#include <kerf/job.h>

#include "selftest/specimen.h"
#include "selftest/verdict.h"

/* Encodes a specimen and decodes what comes out, on every backend, thread by thread and call by
 * call; given a device, on that alone, whose bytes then give the digest. KERF_E_NOSUP: the codec is
 * not for this shape or source type. */
kerf_status kf_trial_encode(kerf_codec codec, const kf_specimen *s, kerf_device *device,
                            const kerf_job *job, kf_verdict *v, kerf_error *err);

/* Decodes planes that no encoder need ever write: every code under every scale of 8 bits, and
 * wider scales of any bits. */
kerf_status kf_trial_decode(const kerf_format *f, kerf_device *device, const kerf_job *job,
                            kf_verdict *v, kerf_error *err);

#endif
