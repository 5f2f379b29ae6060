/* product.h - matrix products, for tests of what is predicted of them. */
#ifndef KERF_TESTS_PRODUCT_H
#define KERF_TESTS_PRODUCT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/predict.h>

#include "near.h"

static kerf_matmul product(const char *format, uint64_t n, uint64_t k, double rows)
{
    const kerf_format *f = kerf_format_find(format);
    assert_non_null(f);
    return (kerf_matmul){.format = f, .n = n, .k = k, .rows = rows};
}

static kerf_work work_of(kerf_matmul m)
{
    kerf_work w;
    assert_int_equal(kerf_matmul_work(NULL, &m, &w, NULL), KERF_OK);
    return w;
}

static inline kerf_prediction predict(const kerf_hardware *h, kerf_matmul m)
{
    kerf_prediction p;
    assert_int_equal(kerf_predict(h, &m, &p, NULL), KERF_OK);
    assert_true(p.low_us <= p.us && p.us <= p.high_us && p.low_us > 0);
    return p;
}

#endif
