/* divide.h - pieces of work among several who do not ask each other. */
#ifndef KERF_DIVIDE_H
#define KERF_DIVIDE_H

#include "base/base.h"

/* of[i] becomes the part, from 0 on, that does piece i of n: the piece with the most work first,
 * each to the part that has least so far. The part with the most then has at most 4/3 - 1/(3 parts)
 * of the least that is possible (Graham 1969, longest processing time first). Equal work goes by
 * number, so that all come to the same. `of` is owned by the caller: of[n]. */
kerf_status kf_divide(const uint64_t *work, size_t n, unsigned parts, unsigned *of,
                      kerf_error *err);

#endif
