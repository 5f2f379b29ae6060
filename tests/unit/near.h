/* near.h - floating-point figures against figures worked out by hand. */
#ifndef KERF_TEST_NEAR_H
#define KERF_TEST_NEAR_H

#include <math.h>

#define assert_near(a, b, tolerance)                                            \
    do {                                                                        \
        double got = (a), wanted = (b), slack = (tolerance);                    \
        if (!(fabs(got - wanted) <= slack))                                     \
            fail_msg("%s is %.9g, not %.9g within %g", #a, got, wanted, slack); \
    } while (0)

#endif
