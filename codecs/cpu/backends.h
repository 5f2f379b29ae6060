/* backends.h - which sets of functions this processor can run. */
#ifndef KERF_BACKENDS_H
#define KERF_BACKENDS_H

#include "cpu/ops.h"

/* The functions of a format in the backend of this name; NULL: the fastest. KERF_E_NOSUP: this
 * processor has no such backend. */
kerf_status kf_backend_ops(const kerf_format *f, const char *name, const kf_codec_ops **out,
                           kerf_error *err);

#endif
