/* rounds.h - how much of a long loop runs. In an optimized build all of it. Under a sanitizer or an
 * emulator, which are ten times slower and are there for other faults (memory, instruction sets), a
 * part: every function, format and encoder, but not every size of each. */
#ifndef KERF_TESTS_ROUNDS_H
#define KERF_TESTS_ROUNDS_H

#include <stdlib.h>
#include <string.h>

#ifndef KERF_TEST_SLOW /* set by the build */
#define KERF_TEST_SLOW 0
#endif

/* The step of a loop over rounds: 1, or s where tests are slow. */
#define STEP(s) (KERF_TEST_SLOW ? (s) : 1)

/* Whether a loop over formats takes the one of this name: with FORMATS in the environment, that one
 * alone. tests/build/toy_format.sh is after one format, and all others are tested elsewhere. */
static inline int is_asked(const char *format)
{
    const char *only = getenv("FORMATS");
    return !only || strcmp(only, format) == 0;
}

#endif
