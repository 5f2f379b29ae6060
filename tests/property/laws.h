/* laws.h - the laws. Each draws one case from the subject's state, reports what breaks it, and
 * returns the elements that it looked at; 0: the law does not speak of this codec or source. */
#ifndef KERF_TEST_LAWS_H
#define KERF_TEST_LAWS_H

#include "property/sampling.h"

uint64_t decoding_again(subject *s); /* ORACLE_IDEMPOTENT */
uint64_t monotone(subject *s);
uint64_t symmetric(subject *s);   /* ORACLE_SYMMETRIC */
uint64_t scaling(subject *s);     /* ORACLE_SCALES */
uint64_t half_a_step(subject *s); /* ORACLE_NEAREST */
uint64_t tails(subject *s);       /* ORACLE_PADS */

/* Of encoders that search. */
uint64_t search_wins(subject *s);
uint64_t four_over_six_wins(subject *s);

uint64_t inside_the_planes(subject *s);

#endif
