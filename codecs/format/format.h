/* format.h - the format table inside the library. */
#ifndef KERF_FORMAT_H
#define KERF_FORMAT_H

#include "block/spec.h"

/* Position of a format in the table: what per-format arrays are indexed by. */
size_t kf_format_index(const kerf_format *f);

enum {
    KF_FORMATS = 0
#define KERF_FORMAT(...) +1
#include <kerf/formats.def>
#undef KERF_FORMAT
};

kf_spec kf_spec_of(const kerf_format *f);

/* KERF_E_ARG: the encoder belongs to other formats; KERF_E_NOSUP: not for sources of this type. */
kerf_status kf_encoder_check(const kerf_format *f, const kerf_encoder *e, kerf_dtype source,
                             kerf_error *err);

#endif
