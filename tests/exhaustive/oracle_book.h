/* oracle_book.h - what the oracle's rules are made of: the values of all codes of an element,
 * sorted, the nearest of them, and scales as they are stored. */
#ifndef KERF_ORACLE_BOOK_H
#define KERF_ORACLE_BOOK_H

#include "exhaustive/oracle.h"

#define ORACLE_TINY 0x1p-149 /* the least positive fp32 */

/* Rounds the exact result of one operation. */
static inline double f32(double x)
{
    return (double)(float)x;
}

/* Without any scale; NaN and infinities where the type has them. */
double oracle_element(kerf_element e, uint32_t code);

/* Ties to the even code (NF4 and the dynamic map: to the lower), saturating. */
uint32_t oracle_nearest(kerf_element e, double y);
uint32_t oracle_nearest_map(double y);

/* Nearest number with p significant bits, ties to even; below 2^emin the step stays. */
double oracle_round(double x, int p, int emin);

/* As stored: nearest, never infinite, never zero unless x is. */
double oracle_store(kerf_scale_kind k, double x);

/* x / y in fp32, but not zero unless x is. */
double oracle_quotient(double x, double y);

#endif
