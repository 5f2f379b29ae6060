/* spans.c - see spans.h. */
#include "plan/spans.h"

const char *const kf_plane_names[KERF_PLANES] = {
    "plane of codes", "plane of scales", "plane of second-level scales", "plane of zero points"};

int kf_is_float(kerf_dtype t)
{
    return t == KERF_F32 || t == KERF_F16 || t == KERF_BF16;
}

kerf_status kf_check_float(kerf_dtype t, const char *what, kerf_error *err)
{
    if (kf_is_float(t)) return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "%s of type %s; F32, F16 and BF16 work", what,
                   kerf_dtype_name(t));
}

unsigned kf_element_bytes(kerf_dtype t)
{
    const unsigned bits = kerf_dtype_bits(t);
    return bits < 8 ? 1 : bits / 8;
}

kerf_status kf_check_span(kerf_cspan have, uint64_t need, unsigned align, const char *what,
                          kerf_error *err)
{
    if (have.n < need)
        return kf_fail(err, KERF_E_BUFFER, KF_NOWHERE, "%s has %zu bytes, needs %llu", what, have.n,
                       (unsigned long long)need);
    if (!have.p && need) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s is NULL", what);
    if ((uintptr_t)have.p % align != 0)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s is not aligned to %u bytes", what, align);
    return KERF_OK;
}

/* From the first number of the first vector to the last one of the last; 0: too many. Eight numbers
 * are whole bytes, so the number of bits is never there, which may be too many where bytes are not.
 */
static int count_bytes(const kf_vectors *v, uint64_t stride, uint64_t *bytes)
{
    const uint64_t bits = kerf_dtype_bits(v->type);
    uint64_t n;
    return kf_mul_ok(stride, v->count - 1, &n) && kf_add_ok(n, v->n, &n) &&
           kf_mul_ok(n / 8, bits, bytes) && kf_add_ok(*bytes, kf_div_up(n % 8 * bits, 8), bytes);
}

kerf_status kf_check_vectors(kerf_cspan have, const kf_vectors *v, unsigned align, const char *what,
                             kerf_error *err)
{
    const uint64_t stride = v->stride ? v->stride : v->n;
    uint64_t need;
    if (stride < v->n)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s: a stride of %llu for vectors of %llu",
                       what, (unsigned long long)stride, (unsigned long long)v->n);
    if (!count_bytes(v, stride, &need))
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "%s: a stride of %llu overflows", what,
                       (unsigned long long)stride);
    return kf_check_span(have, need, align, what, err);
}
