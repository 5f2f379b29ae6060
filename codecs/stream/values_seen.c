/* values_seen.c - looks at numbers as integers: one maximum says whether one is NaN or Inf, and
 * whether all are zero. */
#include "stream/values_seen.h"

#include <string.h>

#include "base/base.h"

/* Bits of Inf; 0: numbers of this type are not looked at. */
static uint64_t inf_of(kerf_dtype t)
{
    return t == KERF_F64    ? UINT64_C(0x7ff) << 52
           : t == KERF_F32  ? 0x7f800000
           : t == KERF_F16  ? 0x7c00
           : t == KERF_BF16 ? 0x7f80
                            : 0;
}

#define LARGEST(name, type)                                       \
    static uint64_t name(const void *p, size_t n)                 \
    {                                                             \
        const type mask = (type) ~(type)0 >> 1;                   \
        type most = 0;                                            \
        for (size_t i = 0; i < n; i++) {                          \
            type x;                                               \
            memcpy(&x, (const char *)p + i * sizeof x, sizeof x); \
            x &= mask;                                            \
            most = x > most ? x : most;                           \
        }                                                         \
        return most;                                              \
    }
LARGEST(largest_16, uint16_t)
LARGEST(largest_32, uint32_t)
LARGEST(largest_64, uint64_t)

void kf_values_see(kf_values_seen *v, const void *p, size_t n)
{
    if (!inf_of(v->dtype)) return;
    const size_t size = kerf_dtype_bits(v->dtype) / 8, count = n / size;
    const uint64_t most = size == 2   ? largest_16(p, count)
                          : size == 4 ? largest_32(p, count)
                                      : largest_64(p, count);
    kf_values_add(v, &(kf_values_seen){v->dtype, count, most});
}

void kf_values_add(kf_values_seen *v, const kf_values_seen *other)
{
    v->numbers += other->numbers;
    if (other->largest > v->largest) v->largest = other->largest;
}

void kf_values_see_one(kf_values_seen *v, const void *p, size_t n)
{
    const size_t step = 1 << 12;
    for (size_t at = 0; at < n && !v->largest; at += step)
        kf_values_see(v, (const char *)p + at, n - at < step ? n - at : step);
}

int kf_values_have_nan(const kf_values_seen *v)
{
    return inf_of(v->dtype) && v->largest > inf_of(v->dtype);
}

int kf_values_have_inf(const kf_values_seen *v)
{
    return inf_of(v->dtype) && v->largest == inf_of(v->dtype);
}

int kf_values_are_zero(const kf_values_seen *v)
{
    return v->numbers && !v->largest;
}

int kf_values_are_odd(const kf_values_seen *v, const kerf_weight *w)
{
    const int is_mask =
        w->place.role == KERF_ROLE_ATTENTION && w->place.piece == KERF_PIECE_PARAMETER;
    return kf_values_have_nan(v) || (kf_values_have_inf(v) && !is_mask);
}
