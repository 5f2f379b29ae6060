/* oracle_book.h - what the oracle's rules are made of: rounding to every type, the values of all
 * codes of an element, sorted, the nearest of them, and scales as they are stored. */
#ifndef KERF_ORACLE_BOOK_H
#define KERF_ORACLE_BOOK_H

#include "exhaustive/oracle.h"

#include <math.h>

#define ORACLE_TINY 0x1p-149 /* the least positive fp32 */
#define ORACLE_MAX 0x1.fffffep127

/* Rounds the exact result of one operation. */
static inline double f32(double x)
{
    return (double)(float)x;
}

/* Not fmin and fmax, which are calls. A NaN gives the limit. */
static inline double at_least(double limit, double x)
{
    return x > limit ? x : limit;
}
static inline double at_most(double limit, double x)
{
    return x < limit ? x : limit;
}
static inline double clamp(double x, double low, double high)
{
    return at_most(high, at_least(low, x));
}

/* The nearest integer, ties to even: below 2^51 by adding a number that has no fraction bits. */
static inline double rne(double x)
{
    if (!(fabs(x) < 0x1p51)) return x;
    return copysign(fabs(x) + 0x1p52 - 0x1p52, x);
}

double oracle_amax(const oracle_group *g);

/* Nearest number with p significant bits, ties to even; below 2^emin the step stays. */
double oracle_round(double x, int p, int emin);

/* One operation as PyTorch has it on tensors of this type: its exact result, rounded to fp32 and
 * then to the type; fp16 and bfloat16 overflow to infinity. */
double oracle_in(kerf_dtype type, double x);

/* torch.finfo: distance from 1 to the next number, and the least normal number. */
double oracle_eps(kerf_dtype type);
double oracle_tiny(kerf_dtype type);

/* Without any scale; NaN and infinities where the type has them. */
double oracle_element(kerf_element e, uint32_t code);

/* Ties to the even code (NF4 and the dynamic map: to the lower), saturating. */
uint32_t oracle_nearest(kerf_element e, double y);
uint32_t oracle_nearest_map(double y);

/* As stored: nearest, never infinite, never zero unless x is. */
double oracle_store(kerf_scale_kind k, double x);

/* x / y in fp32, but not zero unless x is. */
double oracle_quotient(double x, double y);

#endif
