/* gemv_ref.c - the reference: one element at a time through the block arithmetic, summed in double
 * in the order of k, then rounded to fp32. Products of two fp32 numbers are exact in double.
 *
 * Each row of formats.def becomes one function whose spec is a literal. */
#include "cpu/gemv_ops.h"
#include "format/format.h"

KF_HD void ref_row(kf_spec s, const kf_gemv_call *c, size_t r)
{
    double sum[KERF_GEMV_COLUMNS] = {0};
    for (size_t k = 0; k < c->w.cols;) {
        kf_dequant d = kf_dequant_at(s, &c->w, r, kf_group_of(s, &c->w, r, k));
        size_t end = k + kf_group_rest(s, &c->w, r, k);
        for (; k < end; k++) {
            float w = kf_value(s, d, kf_code_at(s, &c->w, r, k));
            for (unsigned i = 0; i < c->columns; i++)
                sum[i] += (double)w * (double)kf_load(c->x_type, c->x, i * c->x_stride + k);
        }
    }
    for (unsigned i = 0; i < c->columns; i++) kf_gemv_finish(c, r, i, (float)sum[i]);
}

#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, ...)      \
    static void ref_##ID(const kf_gemv_call *c, size_t r0, size_t r1)                             \
    {                                                                                             \
        static const kf_spec s = KF_SPEC(ID, family, elem, geometry, group, scale, second, zero); \
        for (size_t r = r0; r < r1; r++) ref_row(s, c, r);                                        \
    }
#include <kerf/formats.def>
#undef KERF_FORMAT

static void (*const rows_of[])(const kf_gemv_call *, size_t, size_t) = {
#define KERF_FORMAT(ID, ...) ref_##ID,
#include <kerf/formats.def>
#undef KERF_FORMAT
};

static int ref_start(const kf_gemv_call *c)
{
    (void)c;
    return 1;
}

static void ref_rows(const kf_gemv_call *c, size_t r0, size_t r1)
{
    rows_of[kf_format_index(c->plan->shape.format)](c, r0, r1);
}

const kf_gemv_ops kf_gemv_ref = {"ref", NULL, ref_start, ref_rows};
