/* vectors_plain.h - vectors of 16 lanes in plain C, as far as scales and sums of tiles need them
 * (tiles_plain.h); gemv_rows.h says what each is, but for these:
 *
 *   vf_repeat(p, n)              n numbers, 1, 2 or 4, over and over
 *   vf_of_halves_apart(p, apart) 16 of fp16, `apart` bytes from one to the next, at least 3 */
#ifndef KERF_VECTORS_PLAIN_H
#define KERF_VECTORS_PLAIN_H

#include <math.h>
#include <string.h>

#include "scalar/bits.h"
#include "scalar/minifloat.h"

#define V 16
#define UNROLL

typedef struct vf {
    float at[V];
} vf;
typedef struct vh {
    uint16_t at[V];
} vh;
typedef struct vi {
    int32_t at[V];
} vi;
typedef vf vt;

KF_HD vf vf_load(const float *p)
{
    vf a;
    memcpy(&a, p, sizeof a);
    return a;
}
KF_HD void vf_store(float *p, vf a)
{
    memcpy(p, &a, sizeof a);
}
KF_HD vf vf_set1(float x)
{
    vf a;
    for (int i = 0; i < V; i++) a.at[i] = x;
    return a;
}
KF_HD vf vf_repeat(const float *p, size_t n)
{
    vf a;
    for (size_t i = 0; i < V; i++) a.at[i] = p[i % n];
    return a;
}
KF_HD vf vf_add(vf a, vf b)
{
    for (int i = 0; i < V; i++) a.at[i] += b.at[i];
    return a;
}
KF_HD vf vf_sub(vf a, vf b)
{
    for (int i = 0; i < V; i++) a.at[i] -= b.at[i];
    return a;
}
KF_HD vf vf_mul(vf a, vf b)
{
    for (int i = 0; i < V; i++) a.at[i] *= b.at[i];
    return a;
}
KF_HD vf vf_fma(vf a, vf b, vf c)
{
    for (int i = 0; i < V; i++) a.at[i] = fmaf(a.at[i], b.at[i], c.at[i]);
    return a;
}
KF_HD vf vf_of_int(vi a)
{
    vf b;
    for (int i = 0; i < V; i++) b.at[i] = (float)a.at[i];
    return b;
}
#define VI_EACH(expression)                                      \
    vi y;                                                        \
    for (int i = 0; i < V; i++) y.at[i] = (int32_t)(expression); \
    return y

KF_HD vi vi_load(const uint8_t *p)
{
    vi a;
    memcpy(&a, p, sizeof a);
    return a;
}
KF_HD vi vi_set1(int x)
{
    VI_EACH(x);
}
KF_HD vi vi_shl(vi a, int n)
{
    VI_EACH((uint32_t)a.at[i] << n);
}
KF_HD vi vi_add(vi a, vi b)
{
    VI_EACH((uint32_t)a.at[i] + (uint32_t)b.at[i]);
}
KF_HD vi vi_sub(vi a, vi b)
{
    VI_EACH((uint32_t)a.at[i] - (uint32_t)b.at[i]);
}
KF_HD vi vi_mul(vi a, vi b)
{
    VI_EACH((uint32_t)a.at[i] * (uint32_t)b.at[i]);
}
KF_HD vi vi_of_bytes(const uint64_t *words, unsigned j)
{
    vi a;
    for (unsigned i = 0; i < V; i++) a.at[i] = (int)(words[(j + i) / 8] >> 8 * ((j + i) % 8) & 255);
    return a;
}
KF_HD vh vh_load(const uint8_t *p)
{
    vh a;
    memcpy(&a, p, sizeof a);
    return a;
}
KF_HD vh vh_set1(int16_t x)
{
    vh a;
    for (int i = 0; i < V; i++) a.at[i] = (uint16_t)x;
    return a;
}
KF_HD vf vf_of_half(vh a)
{
    vf b;
    for (int i = 0; i < V; i++) b.at[i] = kf_f16_decode(a.at[i]);
    return b;
}
KF_HD vf vf_spread_bytes(const uint8_t *p, uint16_t mask, const float last[2])
{
    vf a;
    for (int i = 0; i < V; i++) {
        const uint16_t half = (uint16_t)((int16_t)(uint16_t)(p[i] << 8) >> 1);
        a.at[i] = p[i] == 0x7f   ? last[0]
                  : p[i] == 0xff ? last[1]
                                 : kf_f16_decode((uint16_t)(half & mask));
    }
    return a;
}
KF_HD vf vf_of_halves_apart(const uint8_t *p, size_t apart)
{
    vf a;
    for (size_t i = 0; i < V; i++)
        a.at[i] = kf_f16_decode((uint16_t)(p[i * apart] | p[i * apart + 1] << 8));
    return a;
}

#endif
