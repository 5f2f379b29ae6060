/* widen.h - sources of any float type as fp32 and back. */
#ifndef KERF_WIDEN_H
#define KERF_WIDEN_H

#include "cpu/ops.h"

static inline float kf_load(kerf_dtype t, const uint8_t *p, size_t i)
{
    uint16_t half;
    uint32_t word;
    switch (t) {
    case KERF_F32: memcpy(&word, p + 4 * i, 4); return kf_float(word);
    case KERF_F16: memcpy(&half, p + 2 * i, 2); return kf_f16_decode(half);
    default: memcpy(&half, p + 2 * i, 2); return kf_bf16_decode(half);
    }
}

static inline void kf_store(kerf_dtype t, uint8_t *p, size_t i, float x)
{
    uint16_t half;
    uint32_t word = kf_bits(x);
    switch (t) {
    case KERF_F32: memcpy(p + 4 * i, &word, 4); return;
    case KERF_F16:
        half = kf_f16_encode(x);
        memcpy(p + 2 * i, &half, 2);
        return;
    default:
        half = kf_bf16_encode(x);
        memcpy(p + 2 * i, &half, 2);
        return;
    }
}

/* Largest finite number of a source type. */
static inline float kf_largest(kerf_dtype t)
{
    return t == KERF_F16 ? 65504.0f : t == KERF_BF16 ? kf_float(0x7f7f0000) : KF_F32_MAX;
}

/* Widens n elements, treating NaN and Inf as `nan` says. Returns the first one that is an error,
 * or KF_NO_ELEMENT. */
static inline size_t kf_widen(kerf_dtype t, const uint8_t *src, size_t n, kerf_nan nan, float *out)
{
    for (size_t i = 0; i < n; i++) {
        float x = kf_load(t, src, i);
        if (!kf_is_finite(x)) {
            if (nan == KERF_NAN_ERROR) return i;
            int keep = nan == KERF_NAN_SATURATE && x == x;
            x = !keep ? 0 : x > 0 ? kf_largest(t) : -kf_largest(t);
        }
        out[i] = x;
    }
    return KF_NO_ELEMENT;
}

#endif
