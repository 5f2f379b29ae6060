/* fit_cols.h - shapes of tests that every format can hold. */
#ifndef KERF_TESTS_FIT_COLS_H
#define KERF_TESTS_FIT_COLS_H

#include "block/all.h"
#include "block/struct.h"

/* Columns that the format can hold: structs have no short rows. */
static size_t fit_cols(const kerf_format *f, size_t cols)
{
    if (!kf_is_inline(kf_spec_of(f))) return cols;
    size_t n = kf_inline_elements(kf_spec_of(f));
    return (cols + n - 1) / n * n;
}

#endif
