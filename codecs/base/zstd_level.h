/* zstd_level.h - which levels of compression there are, for files and for codes that are scored.
 * zstd itself takes the nearest that it has and says nothing. */
#ifndef KERF_BASE_ZSTD_LEVEL_H
#define KERF_BASE_ZSTD_LEVEL_H

#include "base/base.h"

enum { KF_ZSTD_MOST = 22 };

/* KERF_E_ARG: there is no such level. */
static inline kerf_status kf_check_zstd_level(int level, kerf_error *err)
{
    if (level >= 1 && level <= KF_ZSTD_MOST) return KERF_OK;
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "zstd level %d: 1 to %d exist", level,
                   KF_ZSTD_MOST);
}

#endif
